//! The jail of the broker, the process that opens sockets for a monitor: no files but the removal of the pod's place in the
//! registry, no other processes, no memory of the guest, and of sockets those of IP and local pairs only.

use super::filter::{Call, Rule, Test};
use super::{Failure, check_host, install, paths, rights};
use crate::connectors::sockets::options::{TELL4, TELL6};
use libc::*;
use rustix::fd::{AsRawFd, BorrowedFd};

/// Binds ports below 1024.
const CAP_NET_BIND_SERVICE: u32 = 10;

/// Calls allowed with any arguments.
const FREE: &[c_long] = &[
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pwrite64,
    SYS_close,
    SYS_dup,
    SYS_lseek,
    SYS_poll,
    SYS_ppoll,
    SYS_epoll_wait,
    SYS_epoll_pwait,
    SYS_epoll_ctl,
    // Sockets: the policy is this process's own.
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept4,
    SYS_shutdown,
    SYS_sendto,
    SYS_recvfrom,
    SYS_sendmsg,
    SYS_recvmsg,
    SYS_getsockname,
    SYS_getpeername,
    // Memory and time.
    SYS_brk,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_getrandom,
    SYS_clock_gettime,
    SYS_futex,
    SYS_sched_yield,
    // Signals, and the end.
    SYS_rt_sigreturn,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_exit,
    SYS_exit_group,
];

/// `removable`: directories from which unlinkat(2) may remove; Landlock says what.
fn rules(removable: &[i32]) -> Vec<Call> {
    let call = |number: c_long, rule| Call { number: number as u32, text: "", rule };
    let not_executable = || Rule::When(vec![vec![Test::Masked(2, PROT_EXEC as u32, 0)]]);
    // Streams and datagrams of IP, without raw sockets.
    let socket = |kind: i32| {
        vec![
            Test::OneOf(0, vec![AF_INET as u32, AF_INET6 as u32]),
            Test::Masked(1, 0xf, kind as u32),
            Test::OneOf(2, [0, IPPROTO_ICMP, IPPROTO_ICMPV6].map(|protocol| protocol as u32).to_vec()),
        ]
    };
    let option = |level: i32, name: i32| vec![Test::OneOf(1, vec![level as u32]), Test::OneOf(2, vec![name as u32])];
    let options = |level: i32, names: &[u32]| vec![Test::OneOf(1, vec![level as u32]), Test::OneOf(2, names.to_vec())];
    let mut calls: Vec<Call> = FREE.iter().map(|number| call(*number, Rule::Allow)).collect();
    calls.extend([
        call(SYS_mmap, not_executable()),
        call(SYS_mprotect, not_executable()),
        call(SYS_socket, Rule::When(vec![socket(SOCK_STREAM), socket(SOCK_DGRAM)])),
        call(SYS_socketpair, Rule::When(vec![vec![Test::OneOf(0, vec![AF_UNIX as u32])]])),
        call(
            SYS_setsockopt,
            Rule::When(vec![
                option(SOL_SOCKET, SO_REUSEADDR),
                option(SOL_SOCKET, SO_REUSEPORT),
                option(SOL_SOCKET, SO_OOBINLINE),
                option(IPPROTO_IPV6, IPV6_V6ONLY),
                options(IPPROTO_IP, TELL4),
                options(IPPROTO_IPV6, TELL6),
            ]),
        ),
        // Rust's library asks before it closes a descriptor, in builds with debug assertions.
        call(SYS_fcntl, Rule::When(vec![vec![Test::OneOf(1, vec![F_GETFD as u32])]])),
        // Who gives commands.
        call(SYS_getsockopt, Rule::When(vec![option(SOL_SOCKET, SO_PEERCRED)])),
    ]);
    if !removable.is_empty() {
        let from = removable.iter().map(|fd| fd.cast_unsigned()).collect();
        calls.push(call(SYS_unlinkat, Rule::When(vec![vec![Test::OneOf(0, from)]])));
    }
    calls
}

/// What the broker may do in its jail.
#[derive(Clone, Copy, Debug, Default)]
pub struct BrokerRights<'a> {
    /// Bind ports below 1024 later, as far as it is able to now.
    pub low_ports: bool,
    /// Remove empty directories from the first directory and files from the second, if the host has Landlock.
    pub removable: Option<(BorrowedFd<'a>, BorrowedFd<'a>)>,
}

/// Confines the broker, irrevocably; no other thread may exist yet. `weak`: continue without Landlock or seccomp.
pub fn enter_broker(
    identity: Option<&super::Identity>,
    permitted: BrokerRights<'_>,
    weak: bool,
) -> Result<(), Failure> {
    let seccomp = check_host(weak)?;
    let kept = if permitted.low_ports { 1 << CAP_NET_BIND_SERVICE } else { 0 };
    if let Some(identity) = identity {
        rights::become_user_with(identity, kept != 0)?;
    }
    rights::restrict_process()?;
    let is_restricted = paths::restrict_to_network(permitted.removable)?;
    rights::keep_capabilities(kept)?;
    if !seccomp {
        return Ok(());
    }
    // Without Landlock nothing would restrict what is removed.
    let removable = permitted.removable.filter(|_| is_restricted);
    let removable = removable.map(|(parent, own)| [parent.as_raw_fd(), own.as_raw_fd()]);
    install(rules(removable.as_ref().map_or(&[], |both| both.as_slice())), SECCOMP_RET_KILL_PROCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_files_and_no_processes() {
        let numbers: Vec<u32> = rules(&[]).iter().map(|call| call.number).collect();
        for forbidden in [
            SYS_open,
            SYS_openat,
            SYS_openat2,
            SYS_execve,
            SYS_execveat,
            SYS_fork,
            SYS_vfork,
            SYS_clone,
            SYS_clone3,
            SYS_ptrace,
            SYS_kill,
            SYS_tgkill,
            SYS_process_vm_readv,
            SYS_ioctl,
            SYS_unlinkat,
            SYS_prctl,
            SYS_setuid,
            SYS_unshare,
            SYS_setns,
            SYS_io_uring_setup,
        ] {
            assert!(!numbers.contains(&(forbidden as u32)), "{forbidden}");
        }
        let mut once = numbers.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), numbers.len());
        assert!(super::super::filter::compile(rules(&[3, 4]), SECCOMP_RET_KILL_PROCESS).is_some());
    }
}
