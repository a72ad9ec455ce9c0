// The raw directory calls: small buffers, many entries, positions, changes while reading.
#include "check.h"
#include <dirent.h>

struct entry {
    uint64_t ino;
    int64_t off;
    uint16_t length;
    uint8_t type;
    char name[];
};

int main(void) {
    char buffer[4096];
    MUST(mkdir("d", 0755));
    MUST(mkdir("empty", 0755));
    for (int i = 0; i < 1000; i++) {
        char name[64];
        sprintf(name, "d/entry-number-%04d", i);
        close(MUST(open(name, O_CREAT | O_WRONLY, 0644)));
    }
    int fd = MUST(open("d", O_RDONLY | O_DIRECTORY));
    T(syscall(SYS_getdents64, fd, buffer, 0));
    T(syscall(SYS_getdents64, fd, buffer, 10));
    T(syscall(SYS_getdents64, fd, BAD, 4096));
    T(syscall(SYS_getdents64, 99, buffer, 4096));
    T(syscall(SYS_getdents64, 0, buffer, 4096) == -1);
    int file = MUST(open("d/entry-number-0001", O_RDONLY));
    T(syscall(SYS_getdents64, file, buffer, 4096));
    int seen[1000] = {0}, dots = 0, total = 0, wrong = 0;
    long got;
    while ((got = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < got;) {
            struct entry *entry = (struct entry *)(buffer + at);
            int number;
            if (entry->name[0] == '.') dots++;
            else if (sscanf(entry->name, "entry-number-%d", &number) == 1) seen[number]++;
            if (entry->length % 8 || entry->ino == 0) wrong++;
            total++;
            at += entry->length;
        }
    }
    int once = 0;
    for (int i = 0; i < 1000; i++) once += seen[i] == 1;
    N(got);
    N(total);
    N(dots);
    N(once);
    N(wrong);
    T(syscall(SYS_getdents64, fd, buffer, sizeof buffer));
    PART("rewind");
    T(lseek(fd, 0, SEEK_SET));
    YES(syscall(SYS_getdents64, fd, buffer, sizeof buffer) > 0);
    PART("telldir, seekdir");
    DIR *dir = opendir("d");
    for (int i = 0; i < 10; i++) readdir(dir);
    long at = telldir(dir);
    char name[256];
    strcpy(name, readdir(dir)->d_name);
    for (int i = 0; i < 500; i++) readdir(dir);
    seekdir(dir, at);
    YES(strcmp(name, readdir(dir)->d_name) == 0);
    closedir(dir);
    PART("removal while reading");
    dir = opendir("d");
    int removed = 0;
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] == '.') continue;
        removed += unlinkat(dirfd(dir), entry->d_name, 0) == 0;
    }
    closedir(dir);
    N(removed);
    T(rmdir("d"));
    PART("a removed directory");
    int gone = MUST(open("empty", O_RDONLY));
    T(rmdir("empty"));
    T(syscall(SYS_getdents64, gone, buffer, sizeof buffer));
    PART("the old call");
    int here = MUST(open(".", O_RDONLY));
    YES(syscall(SYS_getdents, here, buffer, sizeof buffer) > 0);
    return 0;
}
