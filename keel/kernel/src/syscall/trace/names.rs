//! Names of flags and numbers, as strace(1) prints them.

use alloc::string::String;
use core::fmt::Write;
use uapi::raw::{general as g, ioctl as i, net as n, prctl as p};

/// Values with their names.
pub type Names = &'static [(u64, &'static str)];

/// A table of constants with their names from one header.
macro_rules! names {
    ($header:ident: $($name:ident)*) => { &[$(($header::$name as u32 as u64, stringify!($name))),*] };
}

/// A table of constants that the available headers lack.
macro_rules! numbers {
    ($($name:ident = $value:literal),* $(,)?) => { &[$(($value, stringify!($name))),*] };
}

/// Flags of open(2) beyond the access mode. Those of several bits come before their parts.
pub const OPEN: Names = names!(g: O_TMPFILE O_SYNC O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND O_NONBLOCK O_DSYNC FASYNC
    O_DIRECT O_LARGEFILE O_DIRECTORY O_NOFOLLOW O_NOATIME O_CLOEXEC O_PATH);
/// Access modes of open(2).
pub const OPEN_MODE: Names = names!(g: O_RDONLY O_WRONLY O_RDWR);
/// Modes of access(2).
pub const ACCESS: Names = names!(g: R_OK W_OK X_OK);
/// Protection of pages.
pub const PROT: Names = names!(g: PROT_READ PROT_WRITE PROT_EXEC PROT_GROWSDOWN PROT_GROWSUP);
/// Flags of mmap(2).
pub const MMAP: Names = names!(g: MAP_SHARED_VALIDATE MAP_SHARED MAP_PRIVATE MAP_FIXED MAP_ANONYMOUS MAP_32BIT
    MAP_GROWSDOWN MAP_DENYWRITE MAP_EXECUTABLE MAP_LOCKED MAP_NORESERVE MAP_POPULATE MAP_NONBLOCK MAP_STACK MAP_HUGETLB
    MAP_SYNC MAP_FIXED_NOREPLACE);
/// Flags of mremap(2).
pub const MREMAP: Names = names!(g: MREMAP_MAYMOVE MREMAP_FIXED MREMAP_DONTUNMAP);
/// Flags of msync(2).
pub const MSYNC: Names = names!(g: MS_ASYNC MS_INVALIDATE MS_SYNC);
/// Flags of mlockall(2).
pub const MLOCKALL: Names = names!(g: MCL_CURRENT MCL_FUTURE MCL_ONFAULT);
/// Advice for madvise(2).
pub const MADVISE: Names = names!(g: MADV_NORMAL MADV_RANDOM MADV_SEQUENTIAL MADV_WILLNEED MADV_DONTNEED MADV_FREE
    MADV_REMOVE MADV_DONTFORK MADV_DOFORK MADV_MERGEABLE MADV_UNMERGEABLE MADV_HUGEPAGE MADV_NOHUGEPAGE MADV_DONTDUMP
    MADV_DODUMP MADV_WIPEONFORK MADV_KEEPONFORK MADV_COLD MADV_PAGEOUT MADV_POPULATE_READ MADV_POPULATE_WRITE
    MADV_COLLAPSE);
/// Origins of lseek(2).
pub const WHENCE: Names = names!(g: SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE);
/// Commands of fcntl(2).
pub const FCNTL: Names = names!(g: F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_SETOWN F_GETOWN
    F_SETSIG F_GETSIG F_SETOWN_EX F_GETOWN_EX F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW F_SETLEASE F_GETLEASE F_NOTIFY
    F_DUPFD_CLOEXEC F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS);
/// Operations of flock(2).
pub const FLOCK: Names = names!(g: LOCK_SH LOCK_EX LOCK_NB LOCK_UN);
/// Requests of ioctl(2).
pub const IOCTL: Names = names!(i: TCGETS TCSETS TCSETSW TCSETSF TCGETA TCSBRK TCXONC TCFLSH TIOCEXCL TIOCNXCL TIOCSCTTY
    TIOCGPGRP TIOCSPGRP TIOCOUTQ TIOCSTI TIOCGWINSZ TIOCSWINSZ FIONREAD TIOCPKT FIONBIO TIOCNOTTY TIOCSETD TIOCGETD
    TIOCGSID TIOCGPTN TIOCSPTLCK FIOASYNC FIOCLEX FIONCLEX TIOCGPTPEER FS_IOC_GETFLAGS FS_IOC_SETFLAGS FICLONE FIGETBSZ);
/// Flags of the calls that end in `at`.
pub const AT: Names = names!(g: AT_SYMLINK_NOFOLLOW AT_REMOVEDIR AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT AT_EMPTY_PATH
    AT_STATX_FORCE_SYNC AT_STATX_DONT_SYNC);
/// Flags of faccessat2(2), whose first bit differs.
pub const ACCESS_AT: Names = &[(0x200, "AT_EACCESS"), (0x100, "AT_SYMLINK_NOFOLLOW"), (0x1000, "AT_EMPTY_PATH")];
/// Fields of statx(2).
pub const STATX: Names = names!(g: STATX_ALL STATX_BASIC_STATS STATX_TYPE STATX_MODE STATX_NLINK STATX_UID STATX_GID
    STATX_ATIME STATX_MTIME STATX_CTIME STATX_INO STATX_SIZE STATX_BLOCKS STATX_BTIME STATX_MNT_ID STATX_DIOALIGN);
/// Flags of renameat2(2).
pub const RENAME: Names = names!(g: RENAME_NOREPLACE RENAME_EXCHANGE RENAME_WHITEOUT);
/// Types of files.
pub const FILE_TYPE: Names = names!(g: S_IFSOCK S_IFLNK S_IFREG S_IFBLK S_IFDIR S_IFCHR S_IFIFO);
/// Modes of fallocate(2).
pub const FALLOCATE: Names = names!(g: FALLOC_FL_KEEP_SIZE FALLOC_FL_PUNCH_HOLE FALLOC_FL_COLLAPSE_RANGE
    FALLOC_FL_ZERO_RANGE FALLOC_FL_INSERT_RANGE FALLOC_FL_UNSHARE_RANGE);
/// Flags of splice(2) and its relatives.
pub const SPLICE: Names = names!(g: SPLICE_F_MOVE SPLICE_F_NONBLOCK SPLICE_F_MORE SPLICE_F_GIFT);
/// Flags of memfd_create(2).
pub const MEMFD: Names = names!(g: MFD_CLOEXEC MFD_ALLOW_SEALING MFD_HUGETLB MFD_NOEXEC_SEAL MFD_EXEC);
/// Flags of clone(2).
pub const CLONE: Names = names!(g: CLONE_VM CLONE_FS CLONE_FILES CLONE_SIGHAND CLONE_PIDFD CLONE_PTRACE CLONE_VFORK
    CLONE_PARENT CLONE_THREAD CLONE_NEWNS CLONE_SYSVSEM CLONE_SETTLS CLONE_PARENT_SETTID CLONE_CHILD_CLEARTID
    CLONE_DETACHED CLONE_UNTRACED CLONE_CHILD_SETTID CLONE_NEWCGROUP CLONE_NEWUTS CLONE_NEWIPC CLONE_NEWUSER CLONE_NEWPID
    CLONE_NEWNET CLONE_IO);
/// Options of wait4(2) and waitid(2).
pub const WAIT: Names = names!(g: WNOHANG WUNTRACED WEXITED WCONTINUED WNOWAIT __WNOTHREAD __WALL __WCLONE);
/// Id types of waitid(2).
pub const WAITID: Names = names!(g: P_ALL P_PID P_PGID P_PIDFD);
/// Operations of futex(2).
pub const FUTEX: Names = names!(g: FUTEX_WAIT FUTEX_WAKE FUTEX_FD FUTEX_REQUEUE FUTEX_CMP_REQUEUE FUTEX_WAKE_OP
    FUTEX_LOCK_PI FUTEX_UNLOCK_PI FUTEX_TRYLOCK_PI FUTEX_WAIT_BITSET FUTEX_WAKE_BITSET FUTEX_WAIT_REQUEUE_PI
    FUTEX_CMP_REQUEUE_PI FUTEX_LOCK_PI2);
/// Flags of futex(2) operations.
pub const FUTEX_FLAGS: Names = &[(128, "FUTEX_PRIVATE_FLAG"), (256, "FUTEX_CLOCK_REALTIME")];
/// Clocks.
pub const CLOCK: Names = names!(g: CLOCK_REALTIME CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID CLOCK_THREAD_CPUTIME_ID
    CLOCK_MONOTONIC_RAW CLOCK_REALTIME_COARSE CLOCK_MONOTONIC_COARSE CLOCK_BOOTTIME CLOCK_REALTIME_ALARM
    CLOCK_BOOTTIME_ALARM CLOCK_TAI);
/// Flags of timers.
pub const TIMER: Names = &[(1, "TIMER_ABSTIME"), (2, "TFD_TIMER_CANCEL_ON_SET")];
/// Interval timers.
pub const ITIMER: Names = names!(g: ITIMER_REAL ITIMER_VIRTUAL ITIMER_PROF);
/// Resources of setrlimit(2).
pub const RLIMIT: Names = names!(g: RLIMIT_CPU RLIMIT_FSIZE RLIMIT_DATA RLIMIT_STACK RLIMIT_CORE RLIMIT_RSS RLIMIT_NPROC
    RLIMIT_NOFILE RLIMIT_MEMLOCK RLIMIT_AS RLIMIT_LOCKS RLIMIT_SIGPENDING RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RTPRIO
    RLIMIT_RTTIME);
/// Options of prctl(2).
pub const PRCTL: Names = names!(p: PR_SET_PDEATHSIG PR_GET_PDEATHSIG PR_GET_DUMPABLE PR_SET_DUMPABLE PR_GET_KEEPCAPS
    PR_SET_KEEPCAPS PR_GET_TIMING PR_SET_TIMING PR_SET_NAME PR_GET_NAME PR_GET_SECCOMP PR_SET_SECCOMP PR_CAPBSET_READ
    PR_CAPBSET_DROP PR_GET_TSC PR_SET_TSC PR_GET_SECUREBITS PR_SET_SECUREBITS PR_SET_TIMERSLACK PR_GET_TIMERSLACK
    PR_SET_MM PR_SET_CHILD_SUBREAPER PR_GET_CHILD_SUBREAPER PR_SET_NO_NEW_PRIVS PR_GET_NO_NEW_PRIVS PR_GET_TID_ADDRESS
    PR_SET_THP_DISABLE PR_GET_THP_DISABLE PR_CAP_AMBIENT PR_GET_SPECULATION_CTRL PR_SET_SPECULATION_CTRL PR_SET_VMA
    PR_SET_PTRACER);
/// Codes of arch_prctl(2).
pub const ARCH: Names = numbers!(
    ARCH_SET_GS = 0x1001,
    ARCH_SET_FS = 0x1002,
    ARCH_GET_FS = 0x1003,
    ARCH_GET_GS = 0x1004,
    ARCH_GET_CPUID = 0x1011,
    ARCH_SET_CPUID = 0x1012
);
/// How rt_sigprocmask(2) changes the mask.
pub const MASK: Names = names!(g: SIG_BLOCK SIG_UNBLOCK SIG_SETMASK);
/// Flags of rt_sigaction(2).
pub const ACTION: Names = names!(g: SA_NOCLDSTOP SA_NOCLDWAIT SA_SIGINFO SA_RESTORER SA_ONSTACK SA_RESTART SA_NODEFER
    SA_RESETHAND);
/// Flags of sigaltstack(2).
pub const ALTSTACK: Names = &[(1, "SS_ONSTACK"), (2, "SS_DISABLE"), (1 << 31, "SS_AUTODISARM")];
/// Events of epoll.
pub const EPOLL: Names = names!(g: EPOLLIN EPOLLPRI EPOLLOUT EPOLLERR EPOLLHUP EPOLLRDNORM EPOLLRDBAND EPOLLWRNORM
    EPOLLWRBAND EPOLLRDHUP EPOLLEXCLUSIVE EPOLLONESHOT EPOLLET);
/// Operations of epoll_ctl(2).
pub const EPOLL_OP: Names = names!(g: EPOLL_CTL_ADD EPOLL_CTL_DEL EPOLL_CTL_MOD);
/// Events of poll(2).
pub const POLL: Names = names!(g: POLLIN POLLPRI POLLOUT POLLERR POLLHUP POLLNVAL POLLRDNORM POLLRDBAND POLLWRNORM
    POLLWRBAND POLLRDHUP);
/// Flags of calls that create descriptors.
pub const DESCRIPTOR: Names = &[(0o2000000, "O_CLOEXEC"), (0o4000, "O_NONBLOCK"), (0o40000, "O_DIRECT")];
/// Flags of eventfd(2).
pub const EVENTFD: Names = &[(0o2000000, "EFD_CLOEXEC"), (0o4000, "EFD_NONBLOCK"), (1, "EFD_SEMAPHORE")];
/// Flags of signalfd(2).
pub const SIGNALFD: Names = &[(0o2000000, "SFD_CLOEXEC"), (0o4000, "SFD_NONBLOCK")];
/// Flags of timerfd_create(2).
pub const TIMERFD: Names = &[(0o2000000, "TFD_CLOEXEC"), (0o4000, "TFD_NONBLOCK")];
/// Flags of epoll_create1(2).
pub const EPOLL_CREATE: Names = &[(0o2000000, "EPOLL_CLOEXEC")];
/// Flags of getrandom(2).
pub const GETRANDOM: Names = names!(g: GRND_NONBLOCK GRND_RANDOM GRND_INSECURE);
/// Flags of close_range(2).
pub const CLOSE_RANGE: Names = numbers!(CLOSE_RANGE_UNSHARE = 2, CLOSE_RANGE_CLOEXEC = 4);
/// Address families.
pub const FAMILY: Names = numbers!(
    AF_UNSPEC = 0,
    AF_UNIX = 1,
    AF_INET = 2,
    AF_INET6 = 10,
    AF_NETLINK = 16,
    AF_PACKET = 17,
    AF_ALG = 38,
    AF_VSOCK = 40
);
/// Types of sockets.
pub const SOCKET: Names = numbers!(SOCK_STREAM = 1, SOCK_DGRAM = 2, SOCK_RAW = 3, SOCK_SEQPACKET = 5);
/// Flags of socket types.
pub const SOCKET_FLAGS: Names = &[(0o2000000, "SOCK_CLOEXEC"), (0o4000, "SOCK_NONBLOCK")];
/// Levels of socket options.
pub const LEVEL: Names = numbers!(SOL_IP = 0, SOL_SOCKET = 1, SOL_TCP = 6, SOL_UDP = 17, SOL_IPV6 = 41);
/// Options of sockets.
pub const OPTION: Names = names!(n: SO_DEBUG SO_REUSEADDR SO_TYPE SO_ERROR SO_DONTROUTE SO_BROADCAST SO_SNDBUF SO_RCVBUF
    SO_KEEPALIVE SO_OOBINLINE SO_PRIORITY SO_LINGER SO_REUSEPORT SO_PASSCRED SO_PEERCRED SO_RCVLOWAT SO_SNDLOWAT
    SO_SNDBUFFORCE SO_RCVBUFFORCE SO_ACCEPTCONN SO_PEERSEC SO_PASSSEC SO_MARK SO_PROTOCOL SO_DOMAIN SO_PEERGROUPS
    SO_BINDTODEVICE SO_TIMESTAMP_OLD SO_RCVTIMEO_OLD SO_SNDTIMEO_OLD);
/// Options of TCP.
pub const TCP: Names = numbers!(
    TCP_NODELAY = 1,
    TCP_MAXSEG = 2,
    TCP_CORK = 3,
    TCP_KEEPIDLE = 4,
    TCP_KEEPINTVL = 5,
    TCP_KEEPCNT = 6,
    TCP_DEFER_ACCEPT = 9,
    TCP_INFO = 11,
    TCP_QUICKACK = 12,
    TCP_CONGESTION = 13,
    TCP_USER_TIMEOUT = 18,
    TCP_FASTOPEN = 23
);
/// Flags of messages.
pub const MESSAGE: Names = numbers!(
    MSG_OOB = 1,
    MSG_PEEK = 2,
    MSG_DONTROUTE = 4,
    MSG_CTRUNC = 8,
    MSG_TRUNC = 0x20,
    MSG_DONTWAIT = 0x40,
    MSG_EOR = 0x80,
    MSG_WAITALL = 0x100,
    MSG_CONFIRM = 0x800,
    MSG_ERRQUEUE = 0x2000,
    MSG_NOSIGNAL = 0x4000,
    MSG_MORE = 0x8000,
    MSG_WAITFORONE = 0x10000,
    MSG_FASTOPEN = 0x2000_0000,
    MSG_CMSG_CLOEXEC = 0x4000_0000
);
/// Directions of shutdown(2).
pub const SHUTDOWN: Names = numbers!(SHUT_RD = 0, SHUT_WR = 1, SHUT_RDWR = 2);
/// Scheduling policies.
pub const POLICY: Names =
    numbers!(SCHED_OTHER = 0, SCHED_FIFO = 1, SCHED_RR = 2, SCHED_BATCH = 3, SCHED_IDLE = 5, SCHED_DEADLINE = 6);
/// Id types of getpriority(2).
pub const PRIORITY: Names = numbers!(PRIO_PROCESS = 0, PRIO_PGRP = 1, PRIO_USER = 2);
/// Targets of getrusage(2).
pub const USAGE: Names = &[(0, "RUSAGE_SELF"), (0xffff_ffff, "RUSAGE_CHILDREN"), (1, "RUSAGE_THREAD")];
/// Origins of signals.
pub const ORIGIN: Names = &[
    (0, "SI_USER"),
    (0x80, "SI_KERNEL"),
    (0xffff_ffff, "SI_QUEUE"),
    (0xffff_fffe, "SI_TIMER"),
    (0xffff_fffb, "SI_SIGIO"),
    (0xffff_fffa, "SI_TKILL"),
];
/// States of a child.
pub const CHILD: Names =
    numbers!(CLD_EXITED = 1, CLD_KILLED = 2, CLD_DUMPED = 3, CLD_TRAPPED = 4, CLD_STOPPED = 5, CLD_CONTINUED = 6);
/// Events of inotify(7).
pub const INOTIFY: Names = numbers!(
    IN_ACCESS = 1,
    IN_MODIFY = 2,
    IN_ATTRIB = 4,
    IN_CLOSE_WRITE = 8,
    IN_CLOSE_NOWRITE = 0x10,
    IN_OPEN = 0x20,
    IN_MOVED_FROM = 0x40,
    IN_MOVED_TO = 0x80,
    IN_CREATE = 0x100,
    IN_DELETE = 0x200,
    IN_DELETE_SELF = 0x400,
    IN_MOVE_SELF = 0x800,
    IN_ONLYDIR = 0x100_0000,
    IN_DONT_FOLLOW = 0x200_0000,
    IN_EXCL_UNLINK = 0x400_0000,
    IN_MASK_ADD = 0x2000_0000,
    IN_ONESHOT = 0x8000_0000
);
/// Names of the standard signals, by number less one.
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
    "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO",
    "PWR", "SYS",
];

/// The name of a number, if the table has it.
pub fn find(value: u64, names: Names) -> Option<&'static str> {
    names.iter().find(|(number, _)| *number == value).map(|(_, name)| *name)
}

/// Prints a number by name, or in hexadecimal.
pub fn one(line: &mut String, value: u64, names: Names) {
    // Writing to a string can't fail, here and below.
    let _ = match find(value, names) {
        Some(name) => write!(line, "{name}"),
        None => write!(line, "{value:#x}"),
    };
}

/// A set of flags; `0` if it is empty.
pub fn flags(line: &mut String, value: u64, names: Names) {
    if !some_flags(line, value, names) {
        line.push('0');
    }
}

/// Prints a set of flags; returns whether anything was printed.
fn some_flags(line: &mut String, mut value: u64, names: Names) -> bool {
    let mut first = true;
    let mut separate = |line: &mut String| {
        if !core::mem::take(&mut first) {
            line.push('|');
        }
    };
    for (flag, name) in names {
        if *flag != 0 && value & flag == *flag {
            separate(line);
            line.push_str(name);
            value &= !flag;
        }
    }
    if value != 0 {
        separate(line);
        let _ = write!(line, "{value:#x}");
    }
    !first
}

/// Prints a number with additional flags: `SOCK_STREAM|SOCK_CLOEXEC`.
pub fn one_with_flags(line: &mut String, value: u64, names: Names, further: Names) {
    let mask = further.iter().fold(0, |mask, (flag, _)| mask | flag);
    one(line, value & !mask, names);
    if value & mask != 0 {
        line.push('|');
        some_flags(line, value & mask, further);
    }
}

/// Flags of open(2).
pub fn open_flags(line: &mut String, value: u64) {
    one(line, value & 3, OPEN_MODE);
    if value & !3 != 0 {
        line.push('|');
        some_flags(line, value & !3, OPEN);
    }
}

/// A signal.
pub fn signal(line: &mut String, number: u64) {
    let _ = match (number.checked_sub(1).and_then(|i| SIGNALS.get(i as usize)), number) {
        (Some(name), _) => write!(line, "SIG{name}"),
        (None, 32..=64) => write!(line, "SIGRT_{}", number - 32),
        _ => write!(line, "{number}"),
    };
}

/// Prints a set of signals: `[CHLD USR1]`, or `~[…]` if it contains most.
pub fn signals(line: &mut String, set: u64) {
    let inverted = set.count_ones() > 32;
    line.push_str(if inverted { "~[" } else { "[" });
    let shown = if inverted { !set } else { set };
    let mut first = true;
    for number in (1..=64u64).filter(|n| shown >> (n - 1) & 1 != 0) {
        if !core::mem::take(&mut first) {
            line.push(' ');
        }
        let _ = match SIGNALS.get(number as usize - 1) {
            Some(name) => write!(line, "{name}"),
            None => write!(line, "RT_{}", number - 32),
        };
    }
    line.push(']');
}
