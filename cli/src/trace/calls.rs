//! The system call table of keel, as far as filters need it, and strace's classes of calls.

/// Name and arguments of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Number in rax.
    pub number: u16,
    /// Linux's name.
    pub name: &'static str,
    /// Names and kinds of its arguments.
    pub args: &'static [(&'static str, &'static str)],
}

macro_rules! syscalls {
    ($($number:literal $name:ident $level:ident [$($handler:tt)*] ($($arg:ident : $kind:ident),*) $note:literal;)*) => {
        /// All calls, by ascending number.
        pub static CALLS: &[Call] = &[$( Call {
            number: $number,
            name: stringify!($name),
            args: &[$((stringify!($arg), stringify!($kind))),*],
        }),*];
    };
}
include!("../../../keel/kernel/src/syscall/table.rs");

const PROCESS: &str = "clone clone3 fork vfork execve execveat exit exit_group wait4 waitid kill tkill tgkill \
    rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal unshare";
const NETWORK: &str = "socket connect accept accept4 sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown bind \
    listen getsockname getpeername socketpair setsockopt getsockopt";
const SIGNAL: &str = "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo \
    rt_sigsuspend rt_tgsigqueueinfo sigaltstack kill tkill tgkill pause signalfd signalfd4 pidfd_send_signal";
const MEMORY: &str = "brk mmap mprotect munmap mremap msync mincore madvise mlock mlock2 munlock mlockall munlockall \
    shmat shmdt remap_file_pages mbind get_mempolicy set_mempolicy migrate_pages move_pages pkey_mprotect pkey_alloc \
    pkey_free process_madvise map_shadow_stack mseal set_mempolicy_home_node";
const IPC: &str = "shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv msgctl";
const CLOCK: &str = "gettimeofday settimeofday adjtimex time clock_gettime clock_settime clock_getres clock_adjtime";
const CREDS: &str = "getuid getgid setuid setgid geteuid getegid setreuid setregid getgroups setgroups setresuid \
    getresuid setresgid getresgid setfsuid setfsgid capget capset prctl";
/// Calls that create descriptors or take several, in addition to calls with a descriptor argument.
const DESC: &str = "open creat pipe pipe2 select pselect6 poll ppoll epoll_create epoll_create1 eventfd eventfd2 \
    inotify_init inotify_init1 memfd_create timerfd_create pidfd_open io_uring_setup userfaultfd bpf fanotify_init \
    perf_event_open open_by_handle_at mq_open";
/// Arguments that are file names.
const FILE_ARGUMENTS: [&str; 11] = [
    "path",
    "oldpath",
    "newpath",
    "target",
    "linkpath",
    "filename",
    "source",
    "new_root",
    "put_old",
    "from_path",
    "to_path",
];

fn names_file(call: &Call) -> bool {
    call.name == "getcwd" || call.args.iter().any(|(name, kind)| *kind == "Path" && FILE_ARGUMENTS.contains(name))
}

fn takes_descriptor(call: &Call) -> bool {
    let network = NETWORK.split(' ').any(|name| name == call.name);
    !network && (DESC.split(' ').any(|name| name == call.name) || call.args.iter().any(|(_, kind)| *kind == "Fd"))
}

/// The calls of a strace(1) class, if the class exists.
pub fn class(name: &str) -> Option<Vec<&'static Call>> {
    let list = match name {
        "file" => return Some(CALLS.iter().filter(|call| names_file(call)).collect()),
        "desc" => return Some(CALLS.iter().filter(|call| takes_descriptor(call)).collect()),
        "process" => PROCESS,
        "network" | "net" => NETWORK,
        "signal" => SIGNAL,
        "memory" => MEMORY,
        "ipc" => IPC,
        "clock" => CLOCK,
        "creds" => CREDS,
        "stat" => "stat newfstatat",
        "lstat" => "lstat",
        "fstat" => "fstat newfstatat",
        "%stat" => "stat lstat fstat newfstatat statx",
        "statfs" => "statfs",
        "fstatfs" => "fstatfs",
        "%statfs" => "statfs fstatfs ustat",
        "pure" => "getpid getppid gettid getuid getgid geteuid getegid getpgrp",
        _ => return None,
    };
    Some(CALLS.iter().filter(|call| list.split_ascii_whitespace().any(|name| name == call.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_calls_that_exist() {
        for list in [PROCESS, NETWORK, SIGNAL, MEMORY, IPC, CLOCK, CREDS, DESC] {
            for name in list.split_ascii_whitespace() {
                assert!(CALLS.iter().any(|call| call.name == name), "{name}");
            }
        }
        let names = |name| class(name).unwrap().iter().map(|call| call.name).collect::<Vec<_>>();
        let file = names("file");
        for name in ["open", "openat", "execve", "renameat2", "mount", "statx", "chdir", "getcwd", "symlink"] {
            assert!(file.contains(&name), "{name}");
        }
        assert!(["read", "memfd_create", "socket", "getpid"].iter().all(|name| !file.contains(name)));
        let desc = names("desc");
        assert!(["read", "mmap", "openat", "pipe2", "epoll_wait", "dup2"].iter().all(|name| desc.contains(name)));
        assert!(["connect", "getpid", "stat"].iter().all(|name| !desc.contains(name)));
        assert!(class("nonsense").is_none());
    }
}
