// The C library at work: buffered files, temporary files, directory walks, locales, time zones, sorting.
// cflags: -lm
#include "check.h"
#include <dirent.h>
#include <fnmatch.h>
#include <ftw.h>
#include <glob.h>
#include <grp.h>
#include <locale.h>
#include <math.h>
#include <pwd.h>

static int visited;
static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)path, (void)st, (void)ftw;
    visited += type == FTW_F ? 1 : type == FTW_DP ? 100 : 10000;
    return 0;
}

int main(void) {
    FILE *f = fopen("text", "w+");
    for (int i = 0; i < 10000; i++) fprintf(f, "line %d\n", i);
    rewind(f);
    char line[64];
    int lines = 0;
    while (fgets(line, sizeof line, f)) lines++;
    N(lines);
    N(ftell(f));
    fseek(f, -5, SEEK_END);
    N(fgetc(f));
    fclose(f);
    FILE *t = tmpfile();
    YES(t != NULL);
    if (t) fputs("temporary", t);
    char name[] = "tempXXXXXX";
    YES(mkstemp(name) >= 0);
    char directory[] = "dirXXXXXX";
    YES(mkdtemp(directory) != NULL);
    for (int i = 0; i < 20; i++) {
        sprintf(line, "%s/f%d", directory, i);
        put_file(line, "x");
    }
    glob_t g;
    sprintf(line, "%s/f1*", directory);
    N(glob(line, 0, NULL, &g));
    N(g.gl_pathc);
    N(nftw(directory, visit, 10, FTW_DEPTH | FTW_PHYS));
    N(visited);
    PART("times");
    setenv("TZ", "UTC", 1);
    time_t when = 1000000000;
    struct tm *tm = gmtime(&when);
    strftime(line, sizeof line, "%Y-%m-%d %H:%M:%S", tm);
    puts(line);
    PART("numbers");
    printf("%.10f %.10f %g %a\n", sqrt(2), sin(1), 1e300 * 10, 0.1);
    printf("%'d %s\n", 1234567, setlocale(LC_ALL, "C"));
    struct passwd *p = getpwuid(0);
    puts(p ? p->pw_name : "nobody");
    struct group *gr = getgrgid(0);
    puts(gr ? gr->gr_name : "none");
    PART("memory streams and large allocations");
    char *out;
    size_t size;
    FILE *m = open_memstream(&out, &size);
    for (int i = 0; i < 100000; i++) fprintf(m, "%d,", i);
    fclose(m);
    N(size);
    void *blocks[1000];
    for (int i = 0; i < 1000; i++) blocks[i] = memset(malloc(i * 100 + 1), i, i * 100 + 1);
    int good = 0;
    for (int i = 0; i < 1000; i++) good += ((unsigned char *)blocks[i])[i * 100] == (unsigned char)i, free(blocks[i]);
    N(good);
    int *numbers = malloc(4000000);
    for (int i = 0; i < 1000000; i++) numbers[i] = i * 7919 % 1000003;
    int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
    qsort(numbers, 1000000, 4, compare);
    int sorted = 1;
    for (int i = 1; i < 1000000; i++) sorted &= numbers[i - 1] <= numbers[i];
    N(sorted);
    return 0;
}
