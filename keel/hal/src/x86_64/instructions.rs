//! Single instructions.
#![allow(unsafe_code)]

use core::arch::asm;

/// Writes a byte to one of keel's ports ([`abi::layout::port`]).
pub(crate) fn write_port(port: u16, byte: u8) {
    // SAFETY: the I/O permission map allows keel's ports only; the monitor handles them and accesses only the ring and
    // memory that requests name.
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte, options(nostack, preserves_flags)) }
}

/// The time stamp counter.
#[inline]
pub(crate) fn counter() -> u64 {
    // SAFETY: RDTSC is available at CPL 3 on every x86-64 (CR4.TSD is clear).
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Sets the base of the FS segment, the thread pointer of programs.
pub(crate) fn set_fs_base(base: u64) {
    // SAFETY: CR4.FSGSBASE is set; keel does not use FS.
    unsafe { asm!("wrfsbase {}", in(reg) base, options(nostack, preserves_flags)) }
}

/// The base of the FS segment.
pub(crate) fn fs_base() -> u64 {
    let base: u64;
    // SAFETY: CR4.FSGSBASE is set.
    unsafe { asm!("rdfsbase {}", out(reg) base, options(nostack, preserves_flags, nomem)) };
    base
}

/// The frame pointer of the caller, the start of a backtrace.
#[inline(always)]
pub(crate) fn frame_pointer() -> usize {
    let rbp: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rbp", out(reg) rbp, options(nomem, nostack, preserves_flags)) };
    rbp
}

/// Raises an exception that does not return.
pub(crate) fn raise_undefined() {
    // SAFETY: an exception in keel ends the pod.
    unsafe { asm!("ud2", options(nomem, nostack)) };
}
