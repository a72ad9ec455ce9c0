//! The kernel of a pod: tasks, memory, files, signals and the Linux system calls.
//!
//! No unsafe code: all hardware access is behind `hal`. Keel runs under one big lock (see `hal`), so state is in `Rc`,
//! `Cell` and `RefCell`. Two rules follow: a `RefCell` borrow must not be held where a thread may block or access
//! program memory (both may run other threads), and no argument of a program may cause a panic.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod boot;
pub mod fs;
pub mod ipc;
pub mod signal;
pub mod syscall;
pub mod task;
pub mod time;
pub mod tty;

// The layers below, by the names that they have in paths through `crate`.
pub use ::file::{self, cred, siginfo};
pub use ::mm::{self, patch};
pub use ::sched::{self, random};
pub use ::socket;

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
