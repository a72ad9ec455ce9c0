//! Prints arguments of system calls: their types, and when their values are known.

use super::names::{self, flags, one, one_with_flags};
use super::structures as s;
use crate::syscall::{ArgKind, Call};
use alloc::string::String;
use core::fmt::Write;
use uapi::raw::{general as g, ioctl, prctl};

/// Prints the arguments from number `from` on: up to the first that the call fills if it has not run (`result` is
/// `None`), or all. Returns the number of the next one.
pub fn print(line: &mut String, call: &Call, args: &[u64; 6], from: usize, result: Option<isize>) -> usize {
    for (i, ((name, kind), value)) in call.args.iter().zip(args).enumerate().skip(from) {
        if result.is_none() && is_filled(call.name, name, *kind) {
            return i;
        }
        if leaves_out(call.name, name, args) {
            continue;
        }
        if i > 0 {
            line.push_str(", ");
        }
        let argument = Argument { call: call.name, name, kind: *kind, value: *value, args, at: i, result };
        argument.print(line);
    }
    call.args.len()
}

/// Whether an argument is unused: the mode without O_CREAT, an unused argument of fcntl.
fn leaves_out(call: &str, name: &str, args: &[u64; 6]) -> bool {
    let makes = |bits: u64| bits & u64::from(g::O_CREAT) != 0 || bits & 0o20_200_000 == 0o20_200_000;
    match (call, name) {
        ("open", "mode") => !makes(args[1]),
        ("openat", "mode") => !makes(args[2]),
        ("fcntl", "arg") => [g::F_GETFD, g::F_GETFL, g::F_GETOWN, g::F_GETSIG, g::F_GETLEASE, g::F_GET_SEALS]
            .contains(&(args[1] as u32)),
        _ => false,
    }
}

/// Whether the call writes what the argument points to.
fn is_filled(call: &str, name: &str, kind: ArgKind) -> bool {
    if kind == ArgKind::OutBuf {
        return true;
    }
    if kind != ArgKind::Ptr {
        return false;
    }
    match name {
        "statbuf" | "statxbuf" | "pipefd" | "sv" | "wstatus" | "rusage" | "usage" | "oldset" | "oldact" | "old_ss"
        | "rem" | "old_limit" | "tv" | "tz" | "tp" | "res" | "old_value" | "curr_value" | "infop" | "dirp" | "list"
        | "cpu" | "node" | "tloc" | "timerid" => true,
        "events" => call.starts_with("epoll_"),
        "buf" => matches!(call, "uname" | "getcwd" | "statfs" | "fstatfs" | "getrandom" | "times"),
        "rlim" => call == "getrlimit",
        "value" => call == "getitimer" || call.ends_with("getxattr"),
        "addr" | "addrlen" => matches!(call, "accept" | "accept4" | "getsockname" | "getpeername" | "recvfrom"),
        "optval" => call == "getsockopt",
        "msg" => call == "recvmsg",
        "iov" => matches!(call, "readv" | "preadv" | "preadv2"),
        "fds" | "readfds" | "writefds" | "exceptfds" => true,
        "arg" => call == "ioctl",
        "mask" => call == "sched_getaffinity",
        "ruid" | "euid" | "suid" | "rgid" | "egid" | "sgid" => true,
        _ => false,
    }
}

/// One argument of a call.
struct Argument<'a> {
    call: &'a str,
    name: &'a str,
    kind: ArgKind,
    value: u64,
    args: &'a [u64; 6],
    at: usize,
    result: Option<isize>,
}

impl Argument<'_> {
    fn next(&self) -> u64 {
        self.args.get(self.at + 1).copied().unwrap_or(0)
    }

    /// Number of bytes or elements that the call returned; 0 before it ran and if it failed.
    fn given(&self) -> usize {
        self.result.and_then(|r| usize::try_from(r).ok()).unwrap_or(0)
    }

    fn print(&self, line: &mut String) {
        let v = self.value;
        // Output arguments of a failed call are printed as addresses.
        let failed = self.result.is_some_and(|r| r < 0) && is_filled(self.call, self.name, self.kind);
        if failed && !matches!(self.name, "fds" | "arg") {
            return s::pointer(line, v);
        }
        match self.kind {
            ArgKind::Hex => self.bits(line),
            ArgKind::Ptr => self.structure(line),
            ArgKind::Int | ArgKind::Uint => self.number(line),
            ArgKind::OpenFlags => names::open_flags(line, v),
            ArgKind::Fd if v as i32 == g::AT_FDCWD => line.push_str("AT_FDCWD"),
            ArgKind::Mode if self.name == "mode" && self.call.contains("access") => match v as u32 {
                g::F_OK => line.push_str("F_OK"),
                _ => flags(line, v, names::ACCESS),
            },
            ArgKind::Signal => names::signal(line, v),
            ArgKind::Path => s::path(line, v),
            ArgKind::InBuf => s::bytes(line, v, self.next() as usize),
            ArgKind::OutBuf => s::bytes(line, v, self.given().min(self.next() as usize)),
            ArgKind::Argv => s::strings(line, v),
            ArgKind::Timespec => s::timespec(line, v),
            // Writing to a string can't fail, here and below.
            _ => drop(match self.kind {
                ArgKind::Fd | ArgKind::Pid => write!(line, "{}", v as i32),
                ArgKind::Long | ArgKind::Off => write!(line, "{}", v as i64),
                ArgKind::Mode => write!(line, "0{:o}", v as u32),
                _ => write!(line, "{v}"),
            }),
        }
    }

    /// Flags and codes.
    fn bits(&self, line: &mut String) {
        let v = self.value & 0xffff_ffff;
        match (self.call, self.name) {
            (_, "prot") => match v {
                0 => line.push_str("PROT_NONE"),
                _ => flags(line, v, names::PROT),
            },
            ("mmap", "flags") => flags(line, v, names::MMAP),
            ("mremap", "flags") => flags(line, v, names::MREMAP),
            ("msync", "flags") => flags(line, v, names::MSYNC),
            ("mlockall", "flags") => flags(line, v, names::MLOCKALL),
            ("ioctl", "request") => one(line, v, names::IOCTL),
            ("socket" | "socketpair", "kind") => one_with_flags(line, v, names::SOCKET, names::SOCKET_FLAGS),
            ("accept4", "flags") => flags(line, v, names::SOCKET_FLAGS),
            ("sendto" | "recvfrom" | "sendmsg" | "recvmsg" | "sendmmsg" | "recvmmsg", "flags") => {
                flags(line, v, names::MESSAGE);
            }
            ("clone", "flags") => {
                flags(line, v & !0xff, names::CLONE);
                if v & 0xff != 0 {
                    line.push('|');
                    names::signal(line, v & 0xff);
                }
            }
            ("unshare", "flags") => flags(line, v, names::CLONE),
            ("wait4" | "waitid", "options") => flags(line, v, names::WAIT),
            ("futex", "op") => one_with_flags(line, v, names::FUTEX, names::FUTEX_FLAGS),
            ("arch_prctl", "code") => one(line, v, names::ARCH),
            ("statx", "mask") => flags(line, v, names::STATX),
            ("faccessat2", "flags") => flags(line, v, names::ACCESS_AT),
            (
                "newfstatat" | "statx" | "unlinkat" | "linkat" | "fchownat" | "utimensat" | "execveat" | "fchmodat2"
                | "name_to_handle_at",
                "flags",
            ) => flags(line, v, names::AT),
            ("renameat2", "flags") => flags(line, v, names::RENAME),
            ("fallocate", "mode") => flags(line, v, names::FALLOCATE),
            ("splice" | "tee" | "vmsplice", "flags") => flags(line, v, names::SPLICE),
            ("memfd_create", "flags") => flags(line, v, names::MEMFD),
            ("pipe2" | "dup3", "flags") => flags(line, v, names::DESCRIPTOR),
            ("eventfd2", "flags") => flags(line, v, names::EVENTFD),
            ("signalfd4", "flags") => flags(line, v, names::SIGNALFD),
            ("timerfd_create", "flags") => flags(line, v, names::TIMERFD),
            ("epoll_create1", "flags") => flags(line, v, names::EPOLL_CREATE),
            ("timerfd_settime" | "timer_settime" | "clock_nanosleep", "flags") => flags(line, v, names::TIMER),
            ("getrandom", "flags") => flags(line, v, names::GETRANDOM),
            ("close_range", "flags") => flags(line, v, names::CLOSE_RANGE),
            ("inotify_add_watch", "mask") => flags(line, v, names::INOTIFY),
            ("inotify_init1", "flags") => flags(line, v, names::DESCRIPTOR),
            _ if self.value == 0 => line.push('0'),
            _ => drop(write!(line, "{:#x}", self.value)),
        }
    }

    /// Numbers that may have names.
    fn number(&self, line: &mut String) {
        let v = self.value & 0xffff_ffff;
        match (self.call, self.name) {
            ("lseek", "whence") => one(line, v, names::WHENCE),
            ("madvise" | "process_madvise", "advice") => one(line, v, names::MADVISE),
            ("fcntl", "cmd") => one(line, v, names::FCNTL),
            ("flock", "operation") => flags(line, v, names::FLOCK),
            (_, "clockid") => one(line, v, names::CLOCK),
            (_, "resource") => one(line, v, names::RLIMIT),
            ("socket" | "socketpair", "domain") => one(line, v, names::FAMILY),
            ("setsockopt" | "getsockopt", "level") => one(line, v, names::LEVEL),
            ("setsockopt" | "getsockopt", "optname") => match self.args[1] as u32 {
                1 => one(line, v, names::OPTION),
                6 => one(line, v, names::TCP),
                _ => drop(write!(line, "{v}")),
            },
            ("shutdown", "how") => one(line, v, names::SHUTDOWN),
            ("rt_sigprocmask", "how") => one(line, v, names::MASK),
            ("epoll_ctl", "op") => one(line, v, names::EPOLL_OP),
            ("prctl", "option") => one(line, v, names::PRCTL),
            ("getitimer" | "setitimer", "which") => one(line, v, names::ITIMER),
            ("getpriority" | "setpriority", "which") => one(line, v, names::PRIORITY),
            ("getrusage", "who") => one(line, v, names::USAGE),
            ("waitid", "idkind") => one(line, v, names::WAITID),
            (_, "policy") => one(line, v, names::POLICY),
            _ => drop(match self.kind {
                ArgKind::Uint => write!(line, "{}", v as u32),
                _ => write!(line, "{}", v as i32),
            }),
        }
    }

    /// The target of an address.
    fn structure(&self, line: &mut String) {
        let v = self.value;
        if v == 0 {
            // The argument may also be a number that is no address.
            return line.push_str(if matches!(self.name, "arg" | "arg2" | "arg3" | "arg4" | "arg5") {
                "0"
            } else {
                "NULL"
            });
        }
        match (self.call, self.name) {
            (_, "statbuf") => s::stat(line, v),
            (_, "statxbuf") => s::statx(line, v),
            (_, "envp") => s::environment(line, v),
            (_, "pipefd" | "sv") => s::descriptors(line, v),
            (_, "wstatus") if self.result != Some(0) => s::wait_status(line, v),
            (_, "act" | "oldact") => s::action(line, v),
            ("rt_sigprocmask" | "rt_sigtimedwait" | "rt_sigpending", "set" | "oldset") => s::signal_set(line, v),
            ("rt_sigsuspend" | "signalfd" | "signalfd4", "mask") => s::signal_set(line, v),
            ("ppoll" | "epoll_pwait" | "epoll_pwait2", "sigmask") => s::signal_set(line, v),
            (_, "ss" | "old_ss") => s::signal_stack(line, v),
            (_, "rlim" | "new_limit" | "old_limit") => s::limits(line, v),
            ("gettimeofday", "tv") | ("select", "timeout") => s::timeval(line, v),
            ("clock_gettime" | "clock_getres" | "sched_rr_get_interval", _) | (_, "rem") => s::timespec(line, v),
            ("futex", "timeout") if is_futex_wait(self.args[1]) => s::timespec(line, v),
            ("recvmmsg", "timeout") => s::timespec(line, v),
            ("utimensat", "times") => s::times(line, v),
            ("getitimer" | "setitimer", _) => s::timer(line, v, "usec"),
            ("timerfd_settime" | "timerfd_gettime" | "timer_settime" | "timer_gettime", _) => s::timer(line, v, "nsec"),
            ("accept" | "accept4" | "getsockname" | "getpeername", "addr") => {
                s::address(line, v, s::length(self.next()));
            }
            ("recvfrom", "addr") => s::address(line, v, s::length(self.args[5])),
            ("connect" | "bind" | "sendto", "addr") => s::address(line, v, self.next() as u32 as usize),
            (_, "addrlen" | "timerid" | "cpu" | "node") => s::number(line, v),
            ("setsockopt", "optval") => s::number(line, v),
            ("getsockopt", "optval" | "optlen") => s::number(line, v),
            ("sendmsg", "msg") => s::message(line, v, usize::MAX),
            ("recvmsg", "msg") => s::message(line, v, self.given()),
            ("readv" | "preadv" | "preadv2", "iov") => s::pieces(line, v, self.next() as usize, self.given()),
            (_, "iov") => s::pieces(line, v, self.next() as usize, usize::MAX),
            ("poll" | "ppoll", "fds") => s::poll(line, v, self.next() as u32 as usize, true),
            ("select" | "pselect6", "readfds" | "writefds" | "exceptfds") => {
                s::descriptor_set(line, v, self.args[0] as i32 as usize);
            }
            ("epoll_ctl", "event") => drop(s::event(line, v)),
            ("epoll_wait" | "epoll_pwait" | "epoll_pwait2", "events") => s::events(line, v, self.given()),
            ("clone3", "args") => s::clone_args(line, v),
            ("uname", "buf") => s::system_name(line, v),
            ("getcwd", "buf") => s::path(line, v),
            ("getrandom", "buf") => s::bytes(line, v, self.given()),
            ("getdents64", "dirp") => s::entries(line, v, self.given()),
            ("getdents", "dirp") => s::entries(line, v, self.given()),
            ("getgroups", "list") => s::ids(line, v, if self.args[0] == 0 { 0 } else { self.given() }),
            ("setgroups", "list") => s::ids(line, v, self.args[0] as u32 as usize),
            ("fsetxattr" | "setxattr" | "lsetxattr", "value") => s::bytes(line, v, self.next() as usize),
            ("getxattr" | "lgetxattr" | "fgetxattr", "value") => s::bytes(line, v, self.given()),
            ("listxattr" | "llistxattr" | "flistxattr", "list") => s::bytes(line, v, self.given()),
            ("getresuid" | "getresgid", _) => s::number(line, v),
            ("openat2", "how") => s::open_how(line, v),
            ("fcntl", "arg") => self.control(line),
            ("ioctl", "arg") => self.request(line),
            ("prctl", "arg2") if [prctl::PR_SET_NAME, prctl::PR_GET_NAME].contains(&(self.args[0] as u32)) => {
                s::path(line, v);
            }
            ("prctl", "arg2") if self.args[0] as u32 == prctl::PR_SET_PDEATHSIG => names::signal(line, v),
            _ => s::pointer(line, v),
        }
    }

    /// The argument of fcntl(2).
    fn control(&self, line: &mut String) {
        match self.args[1] as u32 {
            g::F_SETFD => flags(line, self.value, &[(1, "FD_CLOEXEC")]),
            g::F_SETFL => names::open_flags(line, self.value),
            g::F_GETLK | g::F_SETLK | g::F_SETLKW | g::F_OFD_GETLK | g::F_OFD_SETLK | g::F_OFD_SETLKW => {
                s::lock(line, self.value);
            }
            _ => drop(write!(line, "{}", self.value as i64)),
        }
    }

    /// The argument of ioctl(2).
    fn request(&self, line: &mut String) {
        match self.args[1] as u32 {
            ioctl::FIONBIO
            | ioctl::FIONREAD
            | ioctl::TIOCGPGRP
            | ioctl::TIOCSPGRP
            | ioctl::TIOCGPTN
            | ioctl::TIOCGSID
            | ioctl::TIOCSPTLCK => s::number(line, self.value),
            ioctl::TIOCGWINSZ | ioctl::TIOCSWINSZ if self.given() == 0 => s::window_size(line, self.value),
            _ => s::pointer(line, self.value),
        }
    }
}

/// Whether the fourth argument of futex(2) is a time.
fn is_futex_wait(op: u64) -> bool {
    let wait = [g::FUTEX_WAIT, g::FUTEX_WAIT_BITSET, g::FUTEX_LOCK_PI, g::FUTEX_LOCK_PI2, g::FUTEX_WAIT_REQUEUE_PI];
    wait.contains(&(op as u32 & 0x7f))
}
