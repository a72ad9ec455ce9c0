//! The entry points of the kernel above: `hal` calls these, the image crate exports them.
//!
//! An `extern "Rust"` symbol keeps the kernel crate free of unsafe.
#![allow(unsafe_code)]

use crate::trap::{Exit, FaultInfo, TrapFrame};

#[cfg(not(feature = "hosted"))]
pub(crate) use image::*;

/// Upper bound of the numbers of quick calls.
pub const QUICK_CALLS: usize = 256;

/// Result of a quick call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Quick {
    /// The value of rax, if it was served.
    pub result: u64,
    /// Not 0: not served, without side effects; make the call in the usual way.
    pub left: u64,
}

/// Result of a call without the big lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Unlocked {
    /// Served: only rax of the frame changed.
    Served = 0,
    /// Not served, without side effects; make the call with the lock.
    Left = 1,
    /// Served, and the lock was taken meanwhile ([`crate::smp::enter`]).
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
    /// Numbers of the calls for which `quick` is called first: not 0.
    pub quick_calls: [u8; QUICK_CALLS],
    /// A system call without a frame: number and first arguments. It must be inlined and make no calls. Without the big
    /// lock, as `unlocked`.
    pub quick: fn(u64, [u64; 3]) -> Quick,
    /// A system call from a patched site, before the big lock is taken; called while several virtual CPUs are awake. It
    /// may access only state of the thread, or state that virtual CPUs may share.
    pub unlocked: fn(&mut TrapFrame) -> Unlocked,
    /// An exception or interrupt of the current thread, before the big lock is taken; called while several virtual CPUs
    /// are awake. Returns whether it was served, with an unchanged frame.
    pub unlocked_fault: fn(FaultInfo) -> bool,
    /// An exception or interrupt of the current thread while it ran program code.
    pub fault: fn(&mut TrapFrame, FaultInfo) -> Exit,
    /// First code of a new thread on its own kernel stack; returns to the program.
    pub thread_start: fn(&mut TrapFrame) -> Exit,
    /// Keel has failed: adds the kernel's part of the report, in lines that begin with a newline. Gets the registers of
    /// the program that entered keel, if any. Must not block.
    pub report: fn(&mut dyn core::fmt::Write, Option<&TrapFrame>),
    /// Pending work at the end of a call or fault; its frame.
    pub resume: fn(&mut TrapFrame),
    /// First code of an idle thread.
    pub idle: fn() -> !,
    /// First code of a further virtual CPU; it switches to its idle thread.
    pub start_cpu: fn() -> !,
}

/// The hooks in an image, and their symbols in its assembly.
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

    /// A quick call. Uses no vector registers, makes no calls and has no string instructions: the build checks its
    /// code.
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
