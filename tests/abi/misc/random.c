// getrandom and entropy.
#include "check.h"
#include <sys/random.h>

int main(void) {
    unsigned char a[64] = {0}, b[64] = {0};
    T(getrandom(a, 64, 0));
    T(getrandom(b, 64, GRND_NONBLOCK));
    YES(memcmp(a, b, 64) != 0);
    T(getrandom(a, 16, GRND_RANDOM));
    T(getrandom(a, 16, GRND_INSECURE));
    T(getrandom(a, 0, 0));
    T(getrandom(a, 16, 0x100));
    T(getrandom(a, 16, GRND_RANDOM | GRND_INSECURE));
    T(getrandom(BAD, 16, 0));
    char *large = malloc(1000000);
    memset(large, 0, 1000000);
    T(getrandom(large, 1000000, 0));
    int counts[256] = {0}, least = 1 << 30, most = 0;
    for (int i = 0; i < 1000000; i++) counts[(unsigned char)large[i]]++;
    for (int i = 0; i < 256; i++) {
        if (counts[i] < least) least = counts[i];
        if (counts[i] > most) most = counts[i];
    }
    YES(least > 3400 && most < 4500);
    YES(getentropy(a, 32) == 0);
    T(getentropy(large, 257));
    CHILD("child", { T(getrandom(b, 32, 0)); YES(memcmp(a, b, 32) != 0); });
    return 0;
}
