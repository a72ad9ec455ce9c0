//! The processor: x86-64.

pub mod cpu;
pub mod fpu;
pub(crate) mod gate;
pub(crate) mod instructions;
pub(crate) mod mem;
pub(crate) mod page_table;
pub mod percpu;
pub(crate) mod privileged;
mod restart;
mod start;
pub(crate) mod switch;
pub mod trap_frame;
pub(crate) mod user_copy;
mod vectors;

/// Fills the interrupt descriptor table and the data of a virtual CPU. The monitor pointed its registers there and filled
/// the other tables.
pub(crate) fn init_cpu(cpu: usize) {
    vectors::fill_idt(cpu);
    percpu::init(cpu, gate::gate_address());
}
