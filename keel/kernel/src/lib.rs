//! The system inside a pod: tasks, memory, files, signals and the Linux system calls over them.
//!
//! No unsafe: everything that touches the machine is behind `hal`. Keel runs under one big lock
//! (see `hal`), so state lives in `Rc`, `Cell` and `RefCell`. Two rules follow: no `RefCell` borrow
//! is held while a thread may block or program memory is touched (both may run other threads), and
//! nothing that a program passes may panic.
#![no_std]
#![forbid(unsafe_code)]

pub mod tty;
extern crate alloc;

pub mod boot;
pub mod cred;
pub mod file;
pub mod fs;
pub mod ipc;
pub mod mm;
pub mod patch;
pub mod random;
pub mod sched;
pub mod siginfo;
pub mod signal;
pub mod syscall;
pub mod task;
pub mod time;

/// What hal calls.
pub const HOOKS: hal::hooks::Hooks = hal::hooks::Hooks {
    boot: boot::boot,
    syscall: syscall::syscall,
    quick_calls: syscall::quick::CALLS,
    quick: syscall::quick::quick,
    unlocked: syscall::unlocked::serve,
    unlocked_fault: syscall::unlocked::fault,
    fault: syscall::exception::fault,
    thread_start: syscall::exception::thread_start,
    report: syscall::history::report,
    resume: syscall::resume,
    idle: sched::idle,
    start_cpu: sched::start_on_cpu,
};
