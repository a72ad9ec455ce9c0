//! Per-CPU data.

use crate::cell::Global;
use abi::layout::MAX_CPUS;
use core::cell::Cell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// Offset of the word that holds the gate's address; patched call sites jump through it.
pub const GATE_OFFSET: u32 = 8;
/// Offset of the word that holds the number of the virtual CPU; the vDSO reads it.
pub const CPU_INDEX_OFFSET: u32 = 36;

pub(crate) const KSTACK_TOP: usize = 16;
pub(crate) const WORK_PENDING: usize = 32;
pub(crate) const IN_KEEL: usize = 88;
pub(crate) const FLUSH: usize = 92;
const RELEASED: usize = 124;
const WORDS: usize = 32;

static BLOCKS: [[AtomicU32; WORDS]; MAX_CPUS] = [const { [const { AtomicU32::new(0) }; WORDS] }; MAX_CPUS];
static FAULT_ADDRESS: Global<Cell<usize>> = Global::new(Cell::new(0));

/// A word of the data of any virtual CPU.
pub(crate) fn word_of(cpu: usize, offset: usize) -> &'static AtomicU32 {
    &BLOCKS[cpu][offset / size_of::<u32>()]
}

/// Initialises the data of a virtual CPU.
pub(crate) fn init_cpu(cpu: usize) {
    word_of(cpu, IN_KEEL).store(1, Relaxed);
}

/// Makes keel check for work before it returns to a program.
pub fn set_work_pending() {
    word_of(cpu_index(), WORK_PENDING).store(1, Relaxed);
}

/// Clears the flag; returns whether it was set.
pub fn take_work_pending() -> bool {
    word_of(cpu_index(), WORK_PENDING).swap(0, Relaxed) != 0
}

/// Whether work is pending.
pub fn work_pending() -> bool {
    word_of(cpu_index(), WORK_PENDING).load(Relaxed) != 0
}

/// Marks this virtual CPU as in keel.
pub(crate) fn set_in_keel() {
    word_of(cpu_index(), IN_KEEL).store(1, Relaxed);
}

/// Whether this virtual CPU has, or waits for, the big lock.
pub(crate) fn is_in_keel() -> bool {
    word_of(cpu_index(), IN_KEEL).load(Relaxed) != 0
}

/// Sets whether this virtual CPU has released the big lock inside keel.
pub(crate) fn set_released(released: bool) {
    word_of(cpu_index(), RELEASED).store(u32::from(released), Relaxed);
}

/// Whether this virtual CPU has released the big lock inside keel.
pub(crate) fn is_released() -> bool {
    word_of(cpu_index(), RELEASED).load(Relaxed) != 0
}

/// Clears the request for a TLB flush.
pub(crate) fn take_flush() -> bool {
    word_of(cpu_index(), FLUSH).swap(0, Relaxed) != 0
}

/// Index of this virtual CPU: there is one.
pub fn cpu_index() -> usize {
    0
}

/// Address of the last access to program memory that a page fault ended.
pub(crate) fn fault_address() -> usize {
    FAULT_ADDRESS.get()
}

pub(super) fn set_fault_address(address: usize) {
    FAULT_ADDRESS.set(address);
}

/// Sets the kernel stack of the next entry from a program: programs run on the stack of their thread.
pub(crate) fn set_kernel_stack(_top: usize) {}
