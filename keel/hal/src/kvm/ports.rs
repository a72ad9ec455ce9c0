//! The ports that keel writes to reach the monitor: [`abi::layout::port`].

use core::arch::asm;

/// Writes 0 to a port.
pub(crate) fn out(port: u16) {
    out_byte(port, 0);
}

/// Writes this byte to a port.
pub(crate) fn out_byte(port: u16, byte: u8) {
    // SAFETY: the I/O permission map allows these ports; the monitor owns them and touches only
    // the ring and memory that requests name.
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte, options(nostack, preserves_flags)) }
}
