//! Per-CPU data of keel, addressed by the GS base.
//!
//! A program can change the GS base (WRGSBASE is not privileged); [`super::vectors`] writes it back.
//! `arch_prctl(ARCH_SET_GS)` fails, because a program could not rely on it.
#![allow(unsafe_code)]

use abi::layout::{MAX_CPUS, PERCPU_STRIDE, percpu};
use core::sync::atomic::AtomicU32;

/// GS offset of the word that holds the gate's address; patched call sites jump through it.
pub const GATE_OFFSET: u32 = 8;

/// GS offset of the word that holds the number of the virtual CPU; the vDSO reads it.
pub const CPU_INDEX_OFFSET: u32 = 36;

// GS offsets that the assembly uses.
pub(crate) const SELF: usize = 0;
pub(crate) const GATE: usize = GATE_OFFSET as usize;
pub(crate) const KSTACK_TOP: usize = 16;
pub(crate) const USER_RSP: usize = 24;
pub(crate) const WORK_PENDING: usize = 32;
pub(crate) const CPU_INDEX: usize = CPU_INDEX_OFFSET as usize;
pub(crate) const FAULT_VECTOR: usize = 40;
pub(crate) const FAULT_CODE: usize = 48;
pub(crate) const FAULT_ADDRESS: usize = 56;
pub(crate) const FAULT_RIP: usize = 64;
pub(crate) const FAULT_RFLAGS: usize = 72;
pub(crate) const FAULT_RSP: usize = 80;
/// Not 0: the virtual CPU is in keel, or is entering it or waiting for the lock; 0: it runs a program. Maintained while
/// several are awake.
pub(crate) const IN_KEEL: usize = 88;
/// Not 0: flush the TLB before the next access to program memory.
pub(crate) const FLUSH: usize = 92;
// Between the first instruction at CPL 3 after an exception and the frame: CR2 of a page fault, and registers.
pub(crate) const ENTRY_ADDRESS: usize = 96;
pub(crate) const ENTRY_RAX: usize = 104;
pub(crate) const ENTRY_RBX: usize = 112;
/// Bitmap of the ranks of held locks, in builds that check the order.
#[cfg(feature = "lock-ranks")]
const HELD_RANKS: usize = 120;
/// Not 0: the virtual CPU is in keel and has released the big lock.
const RELEASED: usize = 124;

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

/// GS offset of a place in the per-CPU block.
pub(super) const fn gs_offset(place: usize) -> isize {
    place as isize - percpu::DATA as isize
}

/// Writes a word of the per-CPU block of a virtual CPU that has not had its first exception.
pub(super) fn write_block(cpu: usize, place: usize, value: u64) {
    assert!(cpu < MAX_CPUS && place < PERCPU_STRIDE && place.is_multiple_of(8));
    // SAFETY: the per-CPU block is reserved RAM in the direct map; these parts of it have no other user before the
    // virtual CPU's first exception.
    unsafe { core::ptr::write_volatile((abi::tables::block(cpu) + place) as *mut u64, value) }
}

/// Initialises the data that patched sites, the assembly and [`cpu_index`] use.
pub(super) fn init(cpu: usize, gate: usize) {
    let word = |offset: usize, value: u64| write_block(cpu, percpu::DATA + offset, value);
    word(SELF, (abi::tables::block(cpu) + percpu::DATA) as u64);
    word(GATE, gate as u64);
    word(WORK_PENDING, (cpu as u64) << 32);
    word(IN_KEEL, 1);
}

/// Makes keel check for work before it returns to a program: signals, preemption, the ring. Every return path tests the
/// flag with one load.
pub fn set_work_pending() {
    gs_write!(WORK_PENDING, 1u32, ":e");
}

/// Clears the flag; returns whether it was set.
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

/// Marks this virtual CPU as in keel.
pub(crate) fn set_in_keel() {
    gs_write!(IN_KEEL, 1u32, ":e");
}

/// Whether this virtual CPU has, or waits for, the big lock.
#[inline(always)]
pub(crate) fn is_in_keel() -> bool {
    gs_read!(IN_KEEL, u32, ":e") != 0
}

/// Sets whether this virtual CPU has released the big lock inside keel.
pub(crate) fn set_released(released: bool) {
    gs_write!(RELEASED, u32::from(released), ":e");
}

/// Whether this virtual CPU has released the big lock inside keel.
#[inline(always)]
pub(crate) fn is_released() -> bool {
    gs_read!(RELEASED, u32, ":e") != 0
}

/// Clears the request for a TLB flush.
pub(crate) fn take_flush() -> bool {
    let stood = gs_read!(FLUSH, u32, ":e") != 0;
    if stood {
        gs_write!(FLUSH, 0u32, ":e");
    }
    stood
}

/// A word of the data of any virtual CPU.
pub(crate) fn word_of(cpu: usize, offset: usize) -> &'static AtomicU32 {
    assert!(cpu < MAX_CPUS && offset < 0x100 && offset.is_multiple_of(4));
    // SAFETY: the per-CPU blocks are reserved RAM in the direct map, below `MAX_CPUS`; these words are
    // written by single instructions only.
    unsafe { &*((abi::tables::block(cpu) + percpu::DATA + offset) as *const AtomicU32) }
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

/// Address of the last access to program memory that a page fault ended.
pub(crate) fn fault_address() -> usize {
    gs_read!(FAULT_ADDRESS, usize, ":r")
}

/// Ranks of the locks that this virtual CPU holds.
#[cfg(feature = "lock-ranks")]
pub(crate) fn held_ranks() -> u32 {
    gs_read!(HELD_RANKS, u32, ":e")
}

/// Sets the ranks of the locks that this virtual CPU holds.
#[cfg(feature = "lock-ranks")]
pub(crate) fn set_held_ranks(ranks: u32) {
    gs_write!(HELD_RANKS, ranks, ":e");
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
const _: () = assert!(CPU_INDEX == WORK_PENDING + 4 && FLUSH == IN_KEEL + 4);
