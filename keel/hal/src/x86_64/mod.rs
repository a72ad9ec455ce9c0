//! The processor: x86-64.
//!
//! A process of the host runs what is no way into keel or out of it; the simulated machine there (`hosted`) has its own of
//! the rest.

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

/// Fills the interrupt descriptor table and the data of a virtual CPU. The monitor pointed its registers there and filled
/// the other tables.
#[cfg(not(feature = "hosted"))]
pub(crate) fn init_cpu(cpu: usize) {
    vectors::fill_idt(cpu);
    percpu::init(cpu, gate::gate_address());
}
