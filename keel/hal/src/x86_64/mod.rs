//! The processor: x86-64.
//!
//! A host process can use the modules without entry code; the simulated machine (`hosted`) has its own versions of the
//! others.

pub mod cpu;
pub mod fpu;
#[cfg(not(feature = "hosted"))]
pub(crate) mod gate;
#[cfg(not(feature = "hosted"))]
pub(crate) mod instructions;
#[cfg(not(feature = "hosted"))]
pub(crate) mod mem;
pub(crate) mod page_table;
#[cfg(not(feature = "hosted"))]
pub mod percpu;
#[cfg(not(feature = "hosted"))]
pub(crate) mod privileged;
#[cfg(not(feature = "hosted"))]
mod restart;
#[cfg(not(feature = "hosted"))]
mod start;
pub(crate) mod switch;
pub mod trap_frame;
#[cfg(not(feature = "hosted"))]
pub(crate) mod user_copy;
#[cfg(not(feature = "hosted"))]
mod vectors;

/// Fills the interrupt descriptor table and the per-CPU data of a virtual CPU. The monitor set its registers to these
/// addresses and filled the other tables.
#[cfg(not(feature = "hosted"))]
pub(crate) fn init_cpu(cpu: usize) {
    vectors::fill_idt(cpu);
    percpu::init(cpu, gate::gate_address());
}
