// Requests of fcntl and ioctl(FIO…) on every kind of open file.
// cflags: -Wno-stringop-overflow -Wno-stringop-overread
#include "objects.h"
#include <sys/file.h>

#define F_CREATED_QUERY (1024 + 4)
#ifndef F_DUPFD_QUERY
#define F_DUPFD_QUERY (1024 + 3)
#endif

static struct flock range(int type, int pid) { return (struct flock){type, SEEK_SET, 0, 0, pid}; }

static int type;
static struct flock lock;
static struct f_owner_ex owner;
static unsigned ids[2];
static uint64_t hint, bad_hint = 77;

int main(void) {
    objects_start();
    EACH_OK(fcntl(fd, F_DUPFD, 10));
    EACH(fcntl(fd, F_DUPFD, -1));
    EACH_OK(fcntl(fd, F_DUPFD_CLOEXEC, 10));
    EACH(fcntl(fd, F_GETFD));
    EACH(fcntl(fd, F_SETFD, FD_CLOEXEC));
    EACH(fcntl(fd, F_GETFL));
    EACH(fcntl(fd, F_SETFL, O_NONBLOCK));
    EACH(fcntl(fd, F_SETFL, O_APPEND) ?: fcntl(fd, F_GETFL));
    EACH(fcntl(fd, F_SETFL, 0) ?: fcntl(fd, F_GETFL));
    EACH_BUT(STORED, fcntl(fd, F_SETFL, O_DIRECT) ?: fcntl(fd, F_GETFL));
    EACH(fcntl(fd, F_SETFL, O_NOATIME) ?: fcntl(fd, F_GETFL));
    EACH(fcntl(fd, F_SETFL, O_ASYNC) ?: fcntl(fd, F_GETFL));
    EACH(fcntl(fd, F_SETFL, -1 & ~O_DIRECT) ?: fcntl(fd, F_GETFL));
    PART("locks");
    // Processes of the host lock its devices; namespaces have no locks in a pod.
    for (type = F_RDLCK; type <= F_UNLCK + 1; type++) {
        printf("type %d\n", type);
        EACH_BUT(DEVICE | NAMESPACE, (lock = range(type, 0), fcntl(fd, F_GETLK, &lock)));
        EACH_BUT(DEVICE | NAMESPACE, (lock = range(type, 0), fcntl(fd, F_SETLK, &lock)));
        EACH_BUT(DEVICE | NAMESPACE, (lock = range(type, 0), fcntl(fd, F_SETLKW, &lock)));
        EACH_BUT(DEVICE | NAMESPACE, (lock = range(type, 0), fcntl(fd, F_OFD_GETLK, &lock)));
        EACH_BUT(DEVICE | NAMESPACE, (lock = range(type, 0), fcntl(fd, F_OFD_SETLK, &lock)));
        EACH_BUT(DEVICE | NAMESPACE, (lock = range(type, 1), fcntl(fd, F_SETLK, &lock)));
        EACH_BUT(DEVICE | NAMESPACE, (lock = range(type, 1), fcntl(fd, F_OFD_GETLK, &lock)));
        EACH_BUT(DEVICE | NAMESPACE, (lock = range(type, 1), fcntl(fd, F_OFD_SETLK, &lock)));
        EACH_BUT(DEVICE | NAMESPACE, (lock = range(type, 0), lock.l_whence = SEEK_CUR, fcntl(fd, F_SETLK, &lock)));
        EACH_BUT(DEVICE | NAMESPACE, (lock = range(type, 0), lock.l_whence = SEEK_END, fcntl(fd, F_SETLK, &lock)));
        EACH_BUT(DEVICE | NAMESPACE, (lock = range(type, 0), lock.l_whence = 3, fcntl(fd, F_SETLK, &lock)));
        EACH_BUT(DEVICE | NAMESPACE, (lock = range(type, 0), lock.l_start = -1, fcntl(fd, F_SETLK, &lock)));
    }
    EACH(fcntl(fd, F_GETLK, BAD));
    EACH(fcntl(fd, F_SETLK, BAD));
    EACH(fcntl(fd, F_OFD_SETLK, BAD));
    EACH_BUT(DEVICE | NAMESPACE, flock(fd, LOCK_SH | LOCK_NB));
    EACH_BUT(DEVICE | NAMESPACE, flock(fd, LOCK_EX | LOCK_NB));
    EACH_BUT(DEVICE | NAMESPACE, flock(fd, LOCK_UN));
    EACH_BUT(DEVICE | NAMESPACE, flock(fd, LOCK_UN | LOCK_NB));
    EACH(flock(fd, 0));
    EACH(flock(fd, LOCK_SH | LOCK_EX));
    EACH(flock(fd, 32 | LOCK_SH));
    PART("owner");
    EACH(fcntl(fd, F_GETOWN));
    EACH(fcntl(fd, F_SETOWN, getpid()));
    EACH(fcntl(fd, F_SETOWN, 0));
    EACH(fcntl(fd, F_SETOWN, 0x7ffffff0));
    EACH(fcntl(fd, F_SETOWN, INT_MIN));
    EACH(fcntl(fd, F_GETOWN_EX, &owner));
    EACH(fcntl(fd, F_GETOWN_EX, BAD));
    EACH((owner = (struct f_owner_ex){F_OWNER_PID, getpid()}, fcntl(fd, F_SETOWN_EX, &owner)));
    EACH((owner = (struct f_owner_ex){3, getpid()}, fcntl(fd, F_SETOWN_EX, &owner)));
    EACH(fcntl(fd, F_SETOWN_EX, BAD));
    EACH(fcntl(fd, 17 /* F_GETOWNER_UIDS */, ids));
    EACH(fcntl(fd, 17 /* F_GETOWNER_UIDS */, BAD));
    EACH(fcntl(fd, F_GETSIG));
    EACH(fcntl(fd, F_SETSIG, 0));
    EACH(fcntl(fd, F_SETSIG, SIGUSR1));
    EACH(fcntl(fd, F_SETSIG, 65));
    PART("others");
    EACH(fcntl(fd, F_GETLEASE));
    // There are no leases in a pod, so only giving one back is the same.
    EACH_BUT(PROCESS, fcntl(fd, F_SETLEASE, F_UNLCK));
    EACH(fcntl(fd, F_SETLEASE, 3));
    EACH(fcntl(fd, F_SETLEASE, -1));
    EACH(fcntl(fd, F_NOTIFY, DN_CREATE));
    EACH(fcntl(fd, F_NOTIFY, 0));
    EACH(fcntl(fd, F_GETPIPE_SZ));
    EACH(fcntl(fd, F_SETPIPE_SZ, 8192));
    EACH(fcntl(fd, F_SETPIPE_SZ, 0));
    EACH(fcntl(fd, F_SETPIPE_SZ, -1));
    EACH(fcntl(fd, F_GET_SEALS));
    EACH(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
    EACH(fcntl(fd, F_ADD_SEALS, -1));
    EACH(fcntl(fd, F_GET_RW_HINT, &hint));
    EACH(fcntl(fd, F_GET_RW_HINT, BAD));
    EACH(fcntl(fd, F_SET_RW_HINT, &hint));
    EACH(fcntl(fd, F_SET_RW_HINT, &bad_hint));
    EACH(fcntl(fd, F_SET_RW_HINT, BAD));
    EACH(fcntl(fd, 1037 /* F_GET_FILE_RW_HINT */, &hint));
    EACH(fcntl(fd, 1038 /* F_SET_FILE_RW_HINT */, &hint));
    EACH(fcntl(fd, F_CREATED_QUERY, 0));
    EACH(fcntl(fd, F_DUPFD_QUERY, fd));
    EACH(fcntl(fd, F_DUPFD_QUERY, 1));
    EACH(fcntl(fd, F_DUPFD_QUERY, -1));
    EACH(fcntl(fd, 18, 0));
    EACH(fcntl(fd, 1029, 0));
    EACH(fcntl(fd, 99, 0));
    EACH(fcntl(fd, -1, 0));
    return 0;
}
