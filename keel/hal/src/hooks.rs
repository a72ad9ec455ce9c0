//! The entry points of the kernel above: `hal` calls these, the image crate exports them.
//!
//! An `extern "Rust"` symbol keeps the kernel crate free of unsafe.
#![allow(unsafe_code)]

use crate::trap::{Exit, FaultInfo, TrapFrame};

#[cfg(not(feature = "hosted"))]
pub(crate) use image::*;

/// Calls that may be quick have numbers below.
pub const QUICK_CALLS: usize = 256;

/// What became of a call that may be quick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Quick {
    /// For rax, if it was done.
    pub result: u64,
    /// Not 0: nothing was done; the call must be made in the usual way.
    pub left: u64,
}

/// What became of a call without the big lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Unlocked {
    /// Served: only rax of the frame changed.
    Served = 0,
    /// Nothing was done; the call must be made with the lock.
    Left = 1,
    /// Served as well, and the lock was taken meanwhile ([`crate::smp::enter`]).
    Held = 2,
    /// The same, and anything in the frame may have changed.
    Full = 3,
}

/// Entry points that the kernel gives to hal.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// First code of the kernel, on the boot stack; never returns.
    pub boot: fn(&'static abi::boot::BootInfo) -> !,
    /// A system call of the current thread.
    pub syscall: fn(&mut TrapFrame) -> Exit,
    /// Calls by number that `quick` is asked about first: not 0.
    pub quick_calls: [u8; QUICK_CALLS],
    /// A system call, served without its frame: number and first arguments. It must be inlined and
    /// call nothing. There is no big lock, as in `unlocked`.
    pub quick: fn(u64, [u64; 3]) -> Quick,
    /// A system call from a patched site, before the big lock is taken; asked while several virtual CPUs are awake.
    /// What it looks at is the thread's own, or fit for being shared between virtual CPUs.
    pub unlocked: fn(&mut TrapFrame) -> Unlocked,
    /// An exception or interrupt of the current thread, before the big lock is taken; asked while several virtual CPUs are
    /// awake. Whether it was served: nothing in the frame changed.
    pub unlocked_fault: fn(FaultInfo) -> bool,
    /// An exception or interrupt of the current thread while it ran program code.
    pub fault: fn(&mut TrapFrame, FaultInfo) -> Exit,
    /// First code of a new thread on its own kernel stack; returns to the program.
    pub thread_start: fn(&mut TrapFrame) -> Exit,
    /// Keel has failed: adds what the kernel knows of it, in lines that begin with a line end. Gets the
    /// registers of the program that keel was entered from, if there is one. Must not block.
    pub report: fn(&mut dyn core::fmt::Write, Option<&TrapFrame>),
    /// Something happened after a call or fault was over; its frame.
    pub resume: fn(&mut TrapFrame),
    /// First code of an idle thread.
    pub idle: fn() -> !,
    /// First code of a further virtual CPU; it switches to its idle thread.
    pub start_cpu: fn() -> !,
}

/// The hooks in an image, and what its assembly calls them by.
#[cfg(not(feature = "hosted"))]
mod image {
    use super::*;

    unsafe extern "Rust" {
        /// The kernel's entry points, exported by the image crate.
        pub(crate) safe static KEEL_HOOKS: Hooks;
    }

    pub(crate) extern "C" fn rust_syscall(frame: &mut TrapFrame) -> Exit {
        (KEEL_HOOKS.syscall)(frame)
    }

    pub(crate) extern "C" fn rust_unlocked(frame: &mut TrapFrame) -> Unlocked {
        (KEEL_HOOKS.unlocked)(frame)
    }

    pub(crate) extern "C" fn rust_unlocked_fault() -> u32 {
        u32::from((KEEL_HOOKS.unlocked_fault)(crate::percpu::fault_record()))
    }

    /// A call that may be served at once. Uses no vector registers, calls nothing and has no string
    /// instructions: the build looks at its code.
    // SAFETY: the name is unique in the image.
    #[unsafe(no_mangle)]
    pub(crate) extern "C" fn keel_quick(a: u64, b: u64, c: u64, number: u64) -> Quick {
        (KEEL_HOOKS.quick)(number, [a, b, c])
    }

    pub(crate) extern "C" fn rust_fault(frame: &mut TrapFrame) -> Exit {
        let info: FaultInfo = crate::percpu::fault_record();
        (KEEL_HOOKS.fault)(frame, info)
    }

    pub(crate) extern "C" fn rust_thread_start(frame: &mut TrapFrame) -> Exit {
        (KEEL_HOOKS.thread_start)(frame)
    }

    pub(crate) extern "C" fn rust_resume(frame: &mut TrapFrame) {
        (KEEL_HOOKS.resume)(frame);
    }

    pub(crate) extern "C" fn rust_idle() -> ! {
        (KEEL_HOOKS.idle)()
    }

    pub(crate) extern "C" fn rust_start_cpu() -> ! {
        crate::smp::rust_enter();
        (KEEL_HOOKS.start_cpu)()
    }
}
