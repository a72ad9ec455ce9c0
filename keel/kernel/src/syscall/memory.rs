//! Admission of system calls when memory for keel's own objects is scarce.
//!
//! A call that creates objects fails with ENOMEM before it begins while less memory is left than is reserved for keel
//! (`keel/hal/src/buddy.rs`). So an admitted call finds that much memory, and its small allocations need no error
//! handling; large allocations, and those whose size or number the program chooses, are fallible anyway. Calls that
//! free objects or only use existing ones are admitted, and the program's pages may use half of the reserve. When three
//! quarters of the reserve are used, the largest process is killed.
//!
//! There is no cost otherwise: scarce memory is one of the reasons of `hal::watch`.

use super::MAX_CALLS;
use crate::task::oom;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Admitted calls: they free, wait, or use existing objects.
const USING: &[u32] = &[
    g::__NR_read,
    g::__NR_write,
    g::__NR_close,
    g::__NR_fstat,
    g::__NR_poll,
    g::__NR_lseek,
    g::__NR_munmap,
    g::__NR_brk,
    g::__NR_rt_sigaction,
    g::__NR_rt_sigprocmask,
    g::__NR_rt_sigreturn,
    g::__NR_ioctl,
    g::__NR_pread64,
    g::__NR_pwrite64,
    g::__NR_readv,
    g::__NR_writev,
    g::__NR_select,
    g::__NR_sched_yield,
    g::__NR_msync,
    g::__NR_mincore,
    g::__NR_madvise,
    g::__NR_shmctl,
    g::__NR_dup,
    g::__NR_dup2,
    g::__NR_pause,
    g::__NR_nanosleep,
    g::__NR_getitimer,
    g::__NR_alarm,
    g::__NR_setitimer,
    g::__NR_getpid,
    g::__NR_recvfrom,
    g::__NR_recvmsg,
    g::__NR_shutdown,
    g::__NR_getsockname,
    g::__NR_getpeername,
    g::__NR_exit,
    g::__NR_wait4,
    g::__NR_kill,
    g::__NR_uname,
    g::__NR_semop,
    g::__NR_semctl,
    g::__NR_shmdt,
    g::__NR_msgrcv,
    g::__NR_msgctl,
    g::__NR_fcntl,
    g::__NR_flock,
    g::__NR_fsync,
    g::__NR_fdatasync,
    g::__NR_truncate,
    g::__NR_ftruncate,
    g::__NR_getcwd,
    g::__NR_fchdir,
    g::__NR_rmdir,
    g::__NR_unlink,
    g::__NR_umask,
    g::__NR_gettimeofday,
    g::__NR_getrlimit,
    g::__NR_getrusage,
    g::__NR_sysinfo,
    g::__NR_times,
    g::__NR_getuid,
    g::__NR_getgid,
    g::__NR_geteuid,
    g::__NR_getegid,
    g::__NR_setpgid,
    g::__NR_getppid,
    g::__NR_getpgrp,
    g::__NR_getgroups,
    g::__NR_getresuid,
    g::__NR_getresgid,
    g::__NR_getpgid,
    g::__NR_getsid,
    g::__NR_capget,
    g::__NR_rt_sigpending,
    g::__NR_rt_sigtimedwait,
    g::__NR_rt_sigsuspend,
    g::__NR_sigaltstack,
    g::__NR_personality,
    g::__NR_getpriority,
    g::__NR_setpriority,
    g::__NR_sched_getparam,
    g::__NR_sched_getscheduler,
    g::__NR_munlock,
    g::__NR_munlockall,
    g::__NR_prctl,
    g::__NR_arch_prctl,
    g::__NR_setrlimit,
    g::__NR_sync,
    g::__NR_gettid,
    g::__NR_tkill,
    g::__NR_time,
    g::__NR_futex,
    g::__NR_sched_setaffinity,
    g::__NR_sched_getaffinity,
    g::__NR_io_destroy,
    g::__NR_io_getevents,
    g::__NR_io_cancel,
    g::__NR_set_tid_address,
    g::__NR_restart_syscall,
    g::__NR_timer_settime,
    g::__NR_timer_gettime,
    g::__NR_timer_getoverrun,
    g::__NR_timer_delete,
    g::__NR_clock_gettime,
    g::__NR_clock_getres,
    g::__NR_clock_nanosleep,
    g::__NR_exit_group,
    g::__NR_epoll_wait,
    g::__NR_epoll_ctl,
    g::__NR_tgkill,
    g::__NR_mq_unlink,
    g::__NR_mq_timedreceive,
    g::__NR_mq_getsetattr,
    g::__NR_waitid,
    g::__NR_inotify_rm_watch,
    g::__NR_unlinkat,
    g::__NR_pselect6,
    g::__NR_ppoll,
    g::__NR_set_robust_list,
    g::__NR_get_robust_list,
    g::__NR_epoll_pwait,
    g::__NR_timerfd_settime,
    g::__NR_timerfd_gettime,
    g::__NR_fallocate,
    g::__NR_dup3,
    g::__NR_preadv,
    g::__NR_pwritev,
    g::__NR_recvmmsg,
    g::__NR_prlimit64,
    g::__NR_syncfs,
    g::__NR_getcpu,
    g::__NR_getrandom,
    g::__NR_membarrier,
    g::__NR_preadv2,
    g::__NR_pwritev2,
    g::__NR_rseq,
    g::__NR_pidfd_send_signal,
    g::__NR_close_range,
    g::__NR_epoll_pwait2,
    g::__NR_removexattr,
    g::__NR_fremovexattr,
    g::__NR_lremovexattr,
];

/// Calls that end a thread or are part of its end: always admitted.
const ENDING: [u32; 3] = [g::__NR_exit, g::__NR_exit_group, g::__NR_rt_sigreturn];

/// [`USING`] by number.
static GOES_ON: [bool; MAX_CALLS] = {
    let mut table = [false; MAX_CALLS];
    let mut i = 0;
    while i < USING.len() {
        table[USING[i] as usize] = true;
        i += 1;
    }
    table
};

/// Admits a call; ENOMEM if memory is scarce and the call could allocate.
#[inline]
pub fn admit(number: u64) -> Result<()> {
    if hal::watch::is_scarce() { admit_scarce(number) } else { Ok(()) }
}

#[cold]
fn admit_scarce(number: u64) -> Result<()> {
    if ENDING.iter().any(|call| u64::from(*call) == number) || oom::restore() {
        return Ok(());
    }
    oom::relieve()?;
    if GOES_ON.get(number as usize) == Some(&true) { Ok(()) } else { Err(Errno::ENOMEM) }
}
