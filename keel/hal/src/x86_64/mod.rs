//! The processor: x86-64.

pub(crate) mod gate;
pub mod percpu;
mod restart;
pub(crate) mod ring0;
pub(crate) mod switch;
pub(crate) mod user_copy;
mod vectors;

/// Fills the interrupt descriptor table and the data of a virtual CPU. The monitor pointed its registers there and filled
/// the other tables.
pub(crate) fn init_cpu(cpu: usize) {
    vectors::fill_idt(cpu);
    percpu::init(cpu, gate::gate_address());
}
