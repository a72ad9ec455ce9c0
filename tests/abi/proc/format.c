// Files of /proc about a process and the system: names of lines, numbers of fields, permissions. Only what kernels from
// 6.1 on have in common, so lines that are there besides don't count.
#include "check.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

static char text[1 << 18];

static const char *load(const char *name) {
    int fd = open(name, O_RDONLY);
    ssize_t got = 0, n;
    if (fd < 0) {
        printf("%s: %s\n", name, check_error(errno));
        text[0] = 0;
        return text;
    }
    while ((n = read(fd, text + got, sizeof text - 1 - got)) > 0) got += n;
    text[got] = 0;
    close(fd);
    return text;
}

// Whether lines that begin with the names, each with `end` behind it, are there in this order.
static void has_lines(const char *file, const char *end, const char *names) {
    const char *at = load(file);
    char all[2048], line[80], *left = all;
    int count = 0;
    snprintf(all, sizeof all, "%s", names);
    for (char *name; (name = strsep(&left, ","));) {
        size_t len = snprintf(line, sizeof line, "%s%s", name, end);
        while (at && strncmp(at, line, len) != 0) at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
        if (!at) {
            printf("%s: no line \"%s\" where it should be\n", file, line);
            return;
        }
        count++;
    }
    printf("%s: %d lines in order\n", file, count);
}

// Whether all sizes end in the same column.
static void sizes(const char *file) {
    int count = 0, ragged = 0;
    for (const char *line = load(file), *end; (end = strchr(line, '\n')); line = end + 1) {
        if (end - line < 3 || strncmp(end - 3, " kB", 3) != 0) continue;
        count++;
        if (end - line != 27) ragged++;
    }
    printf("%s: sizes %s, %d of them ragged\n", file, count > 0 ? "there" : "missing", ragged);
}

static int fields(const char *line) {
    int count = 0;
    for (const char *at = line; *at && *at != '\n';) {
        at += strspn(at, " ");
        if (*at && *at != '\n') count++;
        at += strcspn(at, " \n");
    }
    return count;
}

static void mode(const char *name) {
    struct stat st;
    if (lstat(proc_path(getpid(), name), &st) < 0) printf("%s: %s\n", name, check_error(errno));
    else printf("%s %o %d\n", name, st.st_mode, st.st_uid == geteuid() && st.st_gid == getegid());
}

static void descriptor(const char *what, int fd, const char *names) {
    char name[40];
    sprintf(name, "/proc/self/fdinfo/%d", fd);
    int standard = dup2(fd, 60);
    close(fd);
    printf("%s ", what);
    sprintf(name, "/proc/self/fdinfo/%d", standard);
    has_lines(name, "", names);
}

static unsigned long counter(const char *name) {
    const char *line = strstr(text, name);
    return line ? strtoul(line + strlen(name) + 1, NULL, 10) : 0;
}

int main(void) {
    PART("lines");
    has_lines("/proc/self/status", ":\t",
              "Name,Umask,State,Tgid,Ngid,Pid,PPid,TracerPid,Uid,Gid,FDSize,Groups,NStgid,NSpid,NSpgid,NSsid,VmPeak,"
              "VmSize,VmLck,VmPin,VmHWM,VmRSS,RssAnon,RssFile,RssShmem,VmData,VmStk,VmExe,VmLib,VmPTE,VmSwap,"
              "CoreDumping,THP_enabled,Threads,SigQ,SigPnd,ShdPnd,SigBlk,SigIgn,SigCgt,CapInh,CapPrm,CapEff,CapBnd,"
              "CapAmb,NoNewPrivs,Seccomp,Speculation_Store_Bypass,Cpus_allowed,Cpus_allowed_list,Mems_allowed,"
              "Mems_allowed_list,voluntary_ctxt_switches,nonvoluntary_ctxt_switches");
    has_lines("/proc/self/smaps", ":",
              "Size,KernelPageSize,MMUPageSize,Rss,Pss,Pss_Dirty,Shared_Clean,Shared_Dirty,Private_Clean,Private_Dirty,"
              "Referenced,Anonymous,LazyFree,AnonHugePages,ShmemPmdMapped,FilePmdMapped,Shared_Hugetlb,"
              "Private_Hugetlb,Swap,SwapPss,Locked,THPeligible,VmFlags");
    sizes("/proc/self/smaps");
    has_lines("/proc/self/smaps_rollup", ":",
              "Rss,Pss,Pss_Dirty,Pss_Anon,Pss_File,Pss_Shmem,Shared_Clean,Shared_Dirty,Private_Clean,Private_Dirty,"
              "Referenced,Anonymous,LazyFree,AnonHugePages,ShmemPmdMapped,FilePmdMapped,Shared_Hugetlb,"
              "Private_Hugetlb,Swap,SwapPss,Locked");
    has_lines("/proc/self/io", ": ",
              "rchar,wchar,syscr,syscw,read_bytes,write_bytes,cancelled_write_bytes");
    has_lines("/proc/self/limits", " ",
              "Limit,Max cpu time,Max file size,Max data size,Max stack size,Max core file size,Max resident set,"
              "Max processes,Max open files,Max locked memory,Max address space,Max file locks,Max pending signals,"
              "Max msgqueue size,Max nice priority,Max realtime priority,Max realtime timeout");
    has_lines("/proc/meminfo", ":",
              "MemTotal,MemFree,MemAvailable,Buffers,Cached,SwapCached,Active,Inactive,Active(anon),Inactive(anon),"
              "Active(file),Inactive(file),Unevictable,Mlocked,SwapTotal,SwapFree,Dirty,Writeback,AnonPages,Mapped,"
              "Shmem,KReclaimable,Slab,SReclaimable,SUnreclaim,KernelStack,PageTables,CommitLimit,Committed_AS,"
              "VmallocTotal,VmallocUsed,VmallocChunk");
    has_lines("/proc/vmstat", " ", "nr_free_pages,nr_anon_pages,nr_mapped,nr_file_pages,nr_dirty,nr_shmem");
    has_lines("/proc/vmstat", " ", "pgpgin,pgpgout,pswpin,pswpout,pgfault,pgmajfault,oom_kill");
    has_lines("/proc/stat", " ", "cpu,cpu0,intr,ctxt,btime,processes,procs_running,procs_blocked,softirq");
    has_lines("/proc/cpuinfo", "",
              "processor\t:,vendor_id\t:,cpu family\t:,model\t\t:,model name\t:,stepping\t:,cpu MHz\t\t:,cache size\t:,"
              "physical id\t:,siblings\t:,core id\t\t:,cpu cores\t:,apicid\t\t:,initial apicid\t:,fpu\t\t:,"
              "fpu_exception\t:,cpuid level\t:,wp\t\t:,flags\t\t:,bogomips\t:,clflush size\t:,cache_alignment\t:,"
              "address sizes\t:,power management:");
    has_lines("/proc/self/timens_offsets", " ", "monotonic,boottime");
    PART("fields");
    N(fields(strrchr(load("/proc/self/stat"), ')') + 2) + 2);
    N(fields(load("/proc/self/statm")));
    N(fields(load("/proc/self/schedstat")));
    N(fields(load("/proc/uptime")));
    N(fields(load("/proc/loadavg")));
    N(fields(load("/proc/stat")));
    N(fields(strstr(load("/proc/stat"), "softirq")));
    N(fields(load("/proc/self/uid_map")));
    YES(fields(load("/proc/self/mountinfo")) >= 10);
    N(fields(load("/proc/self/mounts")));
    PART("permissions");
    const char *names[] = {"auxv", "cgroup", "cmdline", "comm", "coredump_filter", "cwd", "environ", "exe", "fd", "fdinfo",
                           "gid_map", "io", "limits", "loginuid", "map_files", "maps", "mem", "mountinfo", "mounts",
                           "mountstats", "net", "ns", "oom_adj", "oom_score", "oom_score_adj", "pagemap", "personality",
                           "root", "sched", "schedstat", "sessionid", "setgroups", "smaps", "smaps_rollup", "stat",
                           "statm", "status", "syscall", "task", "timens_offsets", "timers", "timerslack_ns", "uid_map",
                           "wchan"};
    for (size_t i = 0; i < COUNT(names); i++) mode(names[i]);
    PART("descriptors");
    int timer = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    struct itimerspec hour = {{7, 5}, {3600, 0}};
    MUST(timerfd_settime(timer, 0, &hour, NULL));
    descriptor("timerfd", timer,
               "pos:\t0,flags:\t02,mnt_id:\t,clockid: 1,ticks: 0,settime flags: 00,it_value: (3599,it_interval: (7");
    descriptor("eventfd", MUST(eventfd(5, 0)), "pos:\t0,flags:\t02,mnt_id:\t,eventfd-count:                5");
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    descriptor("signalfd", MUST(signalfd(-1, &set, SFD_CLOEXEC)), "pos:\t0,flags:\t02,mnt_id:\t,sigmask:\t0000000000000200");
    int poll = MUST(epoll_create1(0));
    struct epoll_event event = {EPOLLIN, {.u64 = 0x77}};
    dup2(MUST(eventfd(0, 0)), 50);
    MUST(epoll_ctl(poll, EPOLL_CTL_ADD, 50, &event));
    descriptor("epoll", poll, "pos:\t0,flags:\t02,mnt_id:\t,tfd:       50 events:       19 data:               77 ");
    descriptor("pidfd", MUST(syscall(SYS_pidfd_open, getpid(), 0)), "pos:\t0,flags:\t0,mnt_id:\t,Pid:\t,NSpid:\t");
    PART("counters");
    int ends[2];
    static char bytes[1000];
    MUST(pipe(ends));
    size_t shown = strlen(load("/proc/self/io"));
    unsigned long before[] = {counter("rchar"), counter("wchar"), counter("syscr"), counter("syscw")};
    MUST(write(ends[1], bytes, sizeof bytes));
    MUST(read(ends[0], bytes, 600));
    MUST(read(ends[0], bytes, 600));
    load("/proc/self/io");
    // Two reads of the counters themselves: their text, and its end.
    N(counter("rchar") - before[0] - shown);
    N(counter("wchar") - before[1]);
    N(counter("syscr") - before[2]);
    N(counter("syscw") - before[3]);
    PART("settings");
    show_file("/proc/self/coredump_filter");
    put_file("/proc/self/coredump_filter", "0x7f");
    show_file("/proc/self/coredump_filter");
    CHILD("child", show_file("/proc/self/coredump_filter"));
    put_file("/proc/self/timerslack_ns", "12345");
    show_file("/proc/self/timerslack_ns");
    N(syscall(SYS_prctl, 30 /* PR_GET_TIMERSLACK */));
    PART("pages");
    // Far enough from each other that none is made present along with another.
    size_t far = 4 << 20;
    char *pages = mmap(NULL, far + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(pages, far + 4096, MADV_NOHUGEPAGE);
    pages[far] = 1;
    static uint64_t entries[(4 << 20) / 4096 + 1];
    int map = MUST(open("/proc/self/pagemap", O_RDONLY));
    N(pread(map, entries, sizeof entries, (uintptr_t)pages / 4096 * 8));
    YES(entries[0] >> 63);
    YES(entries[far / 4096] >> 63);
    YES(entries[far / 4096] >> 61 & 1);
    T(pread(map, entries, 7, 0));
    T(pread(map, entries, 8, 4));
    T(pread(map, entries, 8, 1L << 60));
    MUST(pread(map, entries, 8, (uintptr_t)main / 4096 * 8));
    YES(entries[0] >> 63 && entries[0] >> 61 & 1);
    char own[PATH_MAX], mapped[PATH_MAX], link[80];
    unsigned long start, end;
    sscanf(load("/proc/self/maps"), "%lx-%lx", &start, &end);
    sprintf(link, "/proc/self/map_files/%lx-%lx", start, end);
    own[MUST(readlink("/proc/self/exe", own, sizeof own - 1))] = 0;
    mapped[MUST(readlink(link, mapped, sizeof mapped - 1))] = 0;
    YES(strcmp(own, mapped) == 0);
    sprintf(link, "/proc/self/map_files/%lx-%lx", start, end + 4096);
    T(readlink(link, mapped, sizeof mapped));
    T(readlink("/proc/self/map_files/x", mapped, sizeof mapped));
    PART("what a process does");
    pid_t child = MUST(fork());
    if (child == 0) {
        pause();
        _exit(0);
    }
    char state = 0;
    for (int i = 0; i < 2000 && state != 'S'; i++) {
        sscanf(strrchr(load(proc_path(child, "stat")), ')') + 2, "%c", &state);
        sleep_ms(5);
    }
    N(atoi(load(proc_path(child, "syscall"))));
    N(fields(text));
    MUST(kill(child, SIGKILL));
    reap("child", child);
    struct sigevent none = {.sigev_notify = SIGEV_NONE, .sigev_signo = SIGUSR2, .sigev_value.sival_ptr = (void *)0x1234};
    timer_t id;
    MUST(timer_create(CLOCK_BOOTTIME, &none, &id));
    char expected[200];
    sprintf(expected, "ID: 0\nsignal: %d/0000000000001234\nnotify: none/pid.%d\nClockID: 7\n", SIGUSR2, getpid());
    YES(strcmp(load("/proc/self/timers"), expected) == 0);
    return 0;
}
