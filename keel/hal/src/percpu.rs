//! Per-CPU data of keel, reached through the GS base.
//!
//! A program could change the GS base (WRGSBASE is not privileged); it would only harm its own pod.
//! `arch_prctl(ARCH_SET_GS)` is refused for that reason.

use abi::layout::percpu;

/// GS offset of the word that holds the gate's address; patched call sites jump through it.
pub const GATE_OFFSET: u32 = 8;

// GS offsets that the assembly in `stub` uses.
pub(crate) const SELF: usize = 0;
pub(crate) const GATE: usize = GATE_OFFSET as usize;
pub(crate) const KSTACK_TOP: usize = 16;
pub(crate) const USER_RSP: usize = 24;
pub(crate) const WORK_PENDING: usize = 32;
pub(crate) const CPU_INDEX: usize = 36;
pub(crate) const FAULT_VECTOR: usize = 40;
pub(crate) const FAULT_CODE: usize = 48;
pub(crate) const FAULT_ADDRESS: usize = 56;
pub(crate) const FAULT_RIP: usize = 64;
pub(crate) const FAULT_RFLAGS: usize = 72;
pub(crate) const FAULT_RSP: usize = 80;

macro_rules! gs_read {
    ($offset:expr, $ty:ty, $reg:literal) => {{
        let value: $ty;
        // SAFETY: the GS base points to this CPU's data block, which has a field at this offset;
        // reading it has no side effect.
        unsafe { core::arch::asm!(concat!("mov {v", $reg, "}, gs:[{o}]"), v = out(reg) value, o = const $offset, options(nostack, preserves_flags, readonly)) };
        value
    }};
}

macro_rules! gs_write {
    ($offset:expr, $value:expr, $reg:literal) => {
        // SAFETY: the GS base points to this CPU's data block, which has a field at this offset that
        // only this CPU's keel code writes.
        unsafe { core::arch::asm!(concat!("mov gs:[{o}], {v", $reg, "}"), v = in(reg) $value, o = const $offset, options(nostack, preserves_flags)) }
    };
}
pub(crate) use gs_read;

/// Asks keel to look around before it returns to a program: signals, another thread to run, the
/// ring. Checked with one load at every exit.
pub fn set_work_pending() {
    gs_write!(WORK_PENDING, 1u32, ":e");
}

/// Takes the request back; returns whether it stood.
pub fn take_work_pending() -> bool {
    let stood = work_pending();
    if stood {
        gs_write!(WORK_PENDING, 0u32, ":e");
    }
    stood
}

/// Whether work is pending.
#[inline(always)]
pub fn work_pending() -> bool {
    gs_read!(WORK_PENDING, u32, ":e") != 0
}

/// Index of this virtual CPU.
pub fn cpu_index() -> usize {
    gs_read!(CPU_INDEX, u32, ":e") as usize
}

/// The last recorded fault: vector, error code, address.
pub(crate) fn fault_record() -> crate::trap::FaultInfo {
    crate::trap::FaultInfo {
        vector: gs_read!(FAULT_VECTOR, u64, ":r") as u8,
        code: gs_read!(FAULT_CODE, u64, ":r"),
        address: gs_read!(FAULT_ADDRESS, u64, ":r"),
    }
}

/// The top of the kernel stack that the next entry from a program uses; 0 before the first thread.
pub(crate) fn kernel_stack() -> usize {
    gs_read!(KSTACK_TOP, usize, ":r")
}

/// Sets the kernel stack that the next entry from a program uses.
pub(crate) fn set_kernel_stack(top: usize) {
    gs_write!(KSTACK_TOP, top, ":r");
}

const _: () = assert!(percpu::DATA + 0x100 <= percpu::IDT);
