//! System calls that the monitor makes while a pod runs.

use super::PREPARED_PEERS;
use super::filter::{Call, Rule, Test};
use crate::connectors::sockets::options;
use broker::prepared::{ADDRESS_BYTES, ENTRY_BYTES, TABLE_BYTES};
use libc::*;

/// ioctls on an existing virtual machine. None creates another machine or a device.
const KVM: [u32; 20] = [
    0xae03,      // KVM_CHECK_EXTENSION
    0xae41,      // KVM_CREATE_VCPU
    0xae80,      // KVM_RUN
    0xaea2,      // KVM_SET_TSC_KHZ
    0xaea3,      // KVM_GET_TSC_KHZ
    0x4004_ae86, // KVM_INTERRUPT
    0x4004_ae99, // KVM_SET_MP_STATE
    0x4008_ae89, // KVM_SET_MSRS
    0x4008_ae90, // KVM_SET_CPUID2
    0x4020_ae46, // KVM_SET_USER_MEMORY_REGION
    0x4040_ae79, // KVM_IOEVENTFD
    0x4090_ae82, // KVM_SET_REGS
    0x4138_ae84, // KVM_SET_SREGS
    0x4188_aea7, // KVM_SET_XCRS
    0x8004_ae98, // KVM_GET_MP_STATE
    0x8090_ae81, // KVM_GET_REGS
    0x8138_ae83, // KVM_GET_SREGS
    0xc008_ae05, // KVM_GET_SUPPORTED_CPUID
    0xc008_ae88, // KVM_GET_MSRS
    0xc018_ae85, // KVM_TRANSLATE
];

/// Attributes and size of a terminal; not TIOCSTI, which would inject input.
const TERMINAL: [u32; 9] = [
    0x5401,      // TCGETS
    0x5402,      // TCSETS
    0x5403,      // TCSETSW
    0x5404,      // TCSETSF
    0x5413,      // TIOCGWINSZ
    0x802c_542a, // TCGETS2
    0x402c_542b, // TCSETS2
    0x402c_542c, // TCSETSW2
    0x402c_542d, // TCSETSF2
];

/// Whether the next byte of a connection is urgent.
const MARK: [u32; 1] = [options::SIOCATMARK as u32];

/// Commands of fcntl(2): flags, duplicates, and locks that belong to open file descriptions.
const FCNTL: [i32; 8] = [F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_ADD_SEALS, F_OFD_SETLK, F_OFD_GETLK];

/// Flags of clone(2) with which C libraries create a thread, without the obsolete `CLONE_DETACHED`.
const THREAD: i32 = CLONE_VM
    | CLONE_FS
    | CLONE_FILES
    | CLONE_SIGHAND
    | CLONE_THREAD
    | CLONE_SYSVSEM
    | CLONE_SETTLS
    | CLONE_PARENT_SETTID
    | CLONE_CHILD_CLEARTID;

/// Calls allowed with any arguments.
const FREE: &[(c_long, &str)] = &[
    // Open descriptors.
    (SYS_read, "read"),
    (SYS_write, "write"),
    (SYS_pread64, "pread64"),
    (SYS_pwrite64, "pwrite64"),
    (SYS_readv, "readv"),
    (SYS_writev, "writev"),
    (SYS_preadv2, "preadv2"),
    (SYS_pwritev2, "pwritev2"),
    (SYS_lseek, "lseek"),
    (SYS_close, "close"),
    (SYS_fstat, "fstat"),
    (SYS_fstatfs, "fstatfs"),
    (SYS_ftruncate, "ftruncate"),
    (SYS_fallocate, "fallocate"),
    (SYS_fsync, "fsync"),
    (SYS_fdatasync, "fdatasync"),
    (SYS_sync_file_range, "sync_file_range"),
    (SYS_fadvise64, "fadvise64"),
    (SYS_getdents64, "getdents64"),
    (SYS_poll, "poll"),
    (SYS_ppoll, "ppoll"),
    (SYS_epoll_create1, "epoll_create1"),
    (SYS_epoll_ctl, "epoll_ctl"),
    (SYS_epoll_wait, "epoll_wait"),
    (SYS_epoll_pwait, "epoll_pwait"),
    (SYS_eventfd2, "eventfd2"),
    (SYS_timerfd_create, "timerfd_create"),
    (SYS_timerfd_settime, "timerfd_settime"),
    (SYS_memfd_create, "memfd_create"),
    (SYS_pipe2, "pipe2"),
    // Paths: Landlock and the base descriptors restrict them.
    (SYS_openat2, "openat2"),
    (SYS_newfstatat, "newfstatat"),
    (SYS_statx, "statx"),
    (SYS_readlinkat, "readlinkat"),
    (SYS_getxattr, "getxattr"),
    (SYS_lgetxattr, "lgetxattr"),
    (SYS_listxattr, "listxattr"),
    (SYS_umask, "umask"),
    // The process's own memory.
    (SYS_brk, "brk"),
    (SYS_madvise, "madvise"),
    // Threads, time, signals to the process itself.
    (SYS_futex, "futex"),
    (SYS_set_robust_list, "set_robust_list"),
    (SYS_rseq, "rseq"),
    (SYS_sched_yield, "sched_yield"),
    (SYS_sched_getaffinity, "sched_getaffinity"),
    (SYS_gettid, "gettid"),
    (SYS_getpid, "getpid"),
    (SYS_geteuid, "geteuid"),
    (SYS_getrandom, "getrandom"),
    (SYS_clock_gettime, "clock_gettime"),
    (SYS_clock_getres, "clock_getres"),
    (SYS_gettimeofday, "gettimeofday"),
    (SYS_clock_nanosleep, "clock_nanosleep"),
    (SYS_nanosleep, "nanosleep"),
    (SYS_restart_syscall, "restart_syscall"),
    (SYS_rt_sigprocmask, "rt_sigprocmask"),
    (SYS_rt_sigtimedwait, "rt_sigtimedwait"),
    (SYS_rt_sigreturn, "rt_sigreturn"),
    (SYS_sigaltstack, "sigaltstack"),
    (SYS_exit, "exit"),
    (SYS_exit_group, "exit_group"),
];

/// Calls that change names and attributes of files, with any arguments: only if a grant is writable.
const CHANGES: &[(c_long, &str)] = &[
    (SYS_mkdirat, "mkdirat"),
    (SYS_symlinkat, "symlinkat"),
    (SYS_unlinkat, "unlinkat"),
    (SYS_renameat2, "renameat2"),
    (SYS_fchmod, "fchmod"),
    (SYS_fchmodat, "fchmodat"),
    (SYS_utimensat, "utimensat"),
    (SYS_setxattr, "setxattr"),
    (SYS_removexattr, "removexattr"),
];

/// End of the table of prepared peers.
const PEERS_END: u32 = (PREPARED_PEERS + TABLE_BYTES) as u32;

/// Rights that a pod's configuration adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// A grant is writable.
    pub writable: bool,
    /// The pod has a network beyond its loopback device.
    pub network: bool,
    /// There is a table of prepared peers.
    pub prepared: bool,
}

/// Calls on sockets that others opened: none opens, connects or binds one, and none takes an address.
fn on_sockets() -> Vec<Call> {
    let call = |number: c_long, text, rule| Call { number: number as u32, text, rule };
    let list = |options: &[(u32, &[u32])]| {
        let tests = |(level, names): &(u32, &[u32])| vec![Test::OneOf(1, vec![*level]), Test::OneOf(2, names.to_vec())];
        Rule::When(options.iter().map(tests).collect())
    };
    // One list for each level.
    let mut settable: Vec<(u32, Vec<u32>)> = Vec::new();
    for (level, names) in options::SETTABLE.iter().chain(options::OWN) {
        match settable.iter_mut().find(|(known, _)| known == level) {
            Some((_, all)) => all.extend(*names),
            None => settable.push((*level, names.to_vec())),
        }
    }
    let settable: Vec<(u32, &[u32])> = settable.iter().map(|(level, names)| (*level, names.as_slice())).collect();
    vec![
        call(SYS_accept4, "accept4", Rule::Allow),
        call(SYS_recvmsg, "recvmsg", Rule::Allow),
        call(SYS_getsockname, "getsockname", Rule::Allow),
        call(SYS_shutdown, "shutdown", Rule::Allow),
        call(SYS_sendto, "sendto(no address)", Rule::When(vec![vec![Test::Null(4)]])),
        call(SYS_setsockopt, "setsockopt(of a pod's sockets)", list(&settable)),
        call(SYS_getsockopt, "getsockopt(of a pod's sockets)", list(options::READABLE)),
    ]
}

/// Calls that change mappings: none of memory that can be executed, and if there is a table of prepared peers, it stays as it is.
/// A range that begins above it does not reach it, and without `MAP_FIXED` a mapping replaces none.
fn on_memory(prepared: bool) -> Vec<Call> {
    let call = |number: c_long, text, rule| Call { number: number as u32, text, rule };
    let from = |arg: u8| prepared.then_some(Test::From(arg, PEERS_END));
    let not_executable = || Test::Masked(2, PROT_EXEC as u32, 0);
    let tests = |tests: &[Option<Test>]| tests.iter().flatten().cloned().collect::<Vec<_>>();
    let when = |alternatives: Vec<Vec<Test>>| match alternatives.iter().any(Vec::is_empty) {
        true => Rule::Allow,
        false => Rule::When(alternatives),
    };
    let [not_fixed, stays] = [(3, MAP_FIXED), (3, MREMAP_FIXED)].map(|(arg, flag)| Test::Masked(arg, flag as u32, 0));
    let mut moves = vec![tests(&[from(0), prepared.then_some(stays)])];
    let mut maps = vec![tests(&[Some(not_executable()), prepared.then_some(not_fixed)])];
    if prepared {
        moves.push(tests(&[from(0), from(4)]));
        maps.push(tests(&[Some(not_executable()), from(0)]));
    }
    vec![
        call(SYS_mmap, "mmap(not executable)", when(maps)),
        call(SYS_mprotect, "mprotect(not executable)", when(vec![tests(&[Some(not_executable()), from(0)])])),
        call(SYS_munmap, "munmap", when(vec![tests(&[from(0)])])),
        call(SYS_mremap, "mremap", when(moves)),
    ]
}

/// The rules for the process `pid`.
pub fn rules(pid: u32, extra: Extra) -> Vec<Call> {
    let call = |number: c_long, text, rule| Call { number: number as u32, text, rule };
    let when = |tests| Rule::When(vec![tests]);
    let mode = |kind: mode_t| vec![Test::Masked(2, S_IFMT, kind)];
    let mut calls: Vec<Call> = FREE.iter().map(|(number, name)| call(*number, *name, Rule::Allow)).collect();
    calls.extend([
        call(
            SYS_ioctl,
            "ioctl(KVM's on this machine; attributes and size of a terminal; SIOCATMARK)",
            when(vec![Test::OneOf(1, KVM.iter().chain(&TERMINAL).chain(&MARK).copied().collect())]),
        ),
        call(
            SYS_clone,
            "clone(threads)",
            when(vec![Test::Masked(0, !0x40_0000, THREAD as u32)]), // CLONE_DETACHED
        ),
        call(
            SYS_kill,
            "kill(itself, SIGSTOP)",
            when(vec![Test::OneOf(0, vec![pid]), Test::OneOf(1, vec![SIGSTOP as u32])]),
        ),
        call(SYS_tgkill, "tgkill(itself)", when(vec![Test::OneOf(0, vec![pid])])),
        call(SYS_rt_sigaction, "rt_sigaction(not SIGSYS)", when(vec![Test::Not(0, SIGSYS as u32)])),
        call(
            SYS_fcntl,
            "fcntl(flags, duplicates, locks without waiting)",
            when(vec![Test::OneOf(1, FCNTL.map(|command| command as u32).to_vec())]),
        ),
        call(
            SYS_flock,
            "flock(without waiting)",
            when(vec![Test::OneOf(1, [LOCK_SH, LOCK_EX, LOCK_UN].map(|kind| (kind | LOCK_NB) as u32).to_vec())]),
        ),
        call(SYS_prctl, "prctl(thread names)", when(vec![Test::OneOf(0, vec![PR_SET_NAME as u32])])),
        call(
            SYS_prlimit64,
            "prlimit64(own limits, read; RLIMIT_CORE)",
            Rule::When(vec![
                vec![Test::OneOf(0, vec![0, pid]), Test::Null(2)],
                vec![Test::OneOf(0, vec![0, pid]), Test::OneOf(1, vec![RLIMIT_CORE])],
            ]),
        ),
    ]);
    calls.extend(on_memory(extra.prepared));
    if extra.network {
        calls.extend(on_sockets());
    }
    if extra.prepared {
        let tests = vec![
            Test::Element(1, PREPARED_PEERS as u32, PEERS_END, ENTRY_BYTES as u32),
            Test::OneOf(2, vec![ADDRESS_BYTES]),
        ];
        calls.push(call(SYS_connect, "connect(prepared peers)", when(tests)));
    }
    if extra.writable {
        calls.extend(CHANGES.iter().map(|(number, name)| call(*number, *name, Rule::Allow)));
        calls.extend([
            call(SYS_mknodat, "mknodat(no devices)", Rule::When(vec![mode(S_IFREG), mode(S_IFIFO), mode(S_IFSOCK)])),
            call(
                SYS_linkat,
                "linkat(a name, an open file)",
                when(vec![Test::OneOf(4, vec![0, AT_SYMLINK_FOLLOW as u32])]),
            ),
            call(SYS_fchownat, "fchownat(an open file)", when(vec![Test::OneOf(4, vec![AT_EMPTY_PATH as u32])])),
        ]);
    }
    // Libraries try these calls and have a fallback: C libraries for threads, Rust's standard library for panic
    // backtraces.
    let refused = |numbers: &[c_long], errno| -> Vec<Call> {
        numbers.iter().map(|number| call(*number, "", Rule::Fail(errno))).collect()
    };
    calls.extend(refused(&[SYS_clone3, SYS_membarrier, SYS_sysinfo], ENOSYS));
    calls.extend(refused(&[SYS_openat, SYS_readlink, SYS_getcwd, SYS_access, SYS_stat, SYS_lstat], EACCES));
    calls
}

/// Descriptions of the allowed calls, by name.
pub fn allowed() -> Vec<&'static str> {
    let calls = rules(0, Extra { writable: true, network: true, prepared: true })
        .into_iter()
        .filter(|call| !matches!(call.rule, Rule::Fail(_)));
    let mut names: Vec<_> = calls.map(|call| call.text).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_call_has_one_rule_and_none_reaches_beyond_the_process() {
        let calls = rules(1, Extra { writable: true, network: true, prepared: false });
        let numbers: BTreeSet<u32> = calls.iter().map(|call| call.number).collect();
        assert_eq!(numbers.len(), calls.len());
        for forbidden in [
            SYS_execve,
            SYS_execveat,
            SYS_fork,
            SYS_vfork,
            SYS_socket,
            SYS_connect,
            SYS_bind,
            SYS_listen,
            SYS_sendmsg,
            SYS_sendmmsg,
            SYS_ptrace,
            SYS_mount,
            SYS_process_vm_writev,
            SYS_process_vm_readv,
            SYS_open,
            SYS_bpf,
            SYS_unshare,
            SYS_setns,
            SYS_pidfd_getfd,
            SYS_io_uring_setup,
            SYS_perf_event_open,
            SYS_open_by_handle_at,
            SYS_init_module,
            SYS_setuid,
            SYS_capset,
            SYS_timer_create,
            SYS_timer_settime,
            SYS_timer_delete,
            SYS_setitimer,
        ] {
            assert!(!numbers.contains(&(forbidden as u32)), "{forbidden}");
        }
        // The length is what each call of the monitor costs at most; the options of sockets are a list.
        let extra = |network, prepared| Extra { writable: true, network, prepared };
        for (extra, most) in [(extra(false, false), 350), (extra(true, false), 440), (extra(true, true), 500)] {
            let program = super::super::filter::compile(rules(1, extra), SECCOMP_RET_TRAP).unwrap();
            assert!(program.len() < most, "{} instructions of {extra:?}", program.len());
        }
        let names = allowed();
        assert!(names.contains(&"read") && !names.contains(&""));
        let reading: BTreeSet<u32> = rules(1, Extra::default()).iter().map(|call| call.number).collect();
        let others = on_sockets().into_iter().map(|call| (c_long::from(call.number), call.text));
        let changes = CHANGES.iter().copied().chain([(SYS_linkat, ""), (SYS_mknodat, ""), (SYS_fchownat, "")]);
        for (change, name) in &changes.chain(others).collect::<Vec<_>>() {
            assert!(numbers.contains(&(*change as u32)) && !reading.contains(&(*change as u32)), "{name}");
        }
    }
}
