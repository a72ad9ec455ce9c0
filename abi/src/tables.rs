//! Descriptor tables of a virtual CPU that must exist before its first instruction.

use crate::layout::{DIRECT_BASE, PERCPU_BASE, PERCPU_STRIDE, percpu};

/// Virtual address of the per-CPU block of a virtual CPU.
pub const fn block(cpu: usize) -> usize {
    DIRECT_BASE + PERCPU_BASE + cpu * PERCPU_STRIDE
}

/// The global descriptor table, laid out like Linux's (SDM volume 3, 3.4.5 and 7.2.3).
pub const fn gdt(cpu: usize) -> [u64; 10] {
    let tss = (block(cpu) + percpu::TSS) as u64;
    [
        0,
        0,
        0x00af_9b00_0000_ffff,
        0x00cf_9300_0000_ffff,
        0,
        0x00cf_f300_0000_ffff,
        0x00af_fb00_0000_ffff,
        0,
        (tss & 0xff_ffff) << 16 | (tss >> 24 & 0xff) << 56 | 0x0000_8900_0000_0000 | (TSS_BYTES as u64 - 1),
        tss >> 32,
    ]
}

/// Bytes of the task state segment: 104 of its own, the I/O permission map up to the last port of
/// [`crate::layout::port`], and the byte of ones that must follow it.
pub const TSS_BYTES: usize = 0x68 + IO_MAP_BYTES + 1;
const IO_MAP_BYTES: usize = crate::layout::port::YIELD as usize / 8 + 1;

/// The task state segment: the ring-0 stacks (the first of the interrupt stack table is for interrupts, the second for
/// exceptions; SDM volume 3, 6.14.5 and 7.7), and the right to write keel's ports at CPL 3. All other
/// ports fault, as in any program on Linux (SDM volume 1, 19.5.2).
pub const fn tss(cpu: usize) -> [u8; TSS_BYTES] {
    let mut bytes = [0; TSS_BYTES];
    let stack0 = ((block(cpu) + percpu::STACK0_END) as u64).to_le_bytes();
    let interrupts = ((block(cpu) + percpu::INTERRUPT_STACK_END) as u64).to_le_bytes();
    let mut i = 0;
    while i < 8 {
        bytes[4 + i] = stack0[i];
        bytes[0x24 + i] = interrupts[i];
        bytes[0x2c + i] = stack0[i];
        i += 1;
    }
    bytes[0x66] = 0x68;
    let mut i = 0x68;
    while i < TSS_BYTES {
        bytes[i] = 0xff;
        i += 1;
    }
    let first = crate::layout::port::DOORBELL as usize;
    bytes[0x68 + first / 8] = 0;
    bytes
}

const _: () = assert!(
    crate::layout::port::DOORBELL.is_multiple_of(8) && IO_MAP_BYTES * 8 == crate::layout::port::DOORBELL as usize + 8
);
const _: () = assert!(percpu::TSS + TSS_BYTES <= percpu::DATA);
