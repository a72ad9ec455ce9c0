//! From the first instruction to the kernel's boot hook, and the last words of a keel that failed.

use crate::trap::TrapFrame;
use abi::boot::{BootInfo, MAGIC};
use abi::layout::{BOOT_INFO, DIRECT_BASE};
use abi::request::Op;
use alloc::vec::Vec;
use core::arch::asm;
use core::fmt::Write;

fn info() -> &'static BootInfo {
    // SAFETY: the monitor wrote the structure before the first instruction and never again.
    unsafe { &*((DIRECT_BASE + BOOT_INFO) as *const BootInfo) }
}

pub(crate) extern "C" fn rust_boot() -> ! {
    let info = info();
    crate::stub::init_cpu(0);
    if info.magic != MAGIC || info.version != abi::VERSION {
        crate::stub::out(abi::layout::port::PANIC);
    }
    crate::ring::init(info.flags);
    crate::frame_kvm::init(info);
    crate::clock::init(info);
    crate::fpu::init(info.xcr0);
    (crate::stub::hooks().boot)(info)
}

/// The boot information.
pub fn boot_info() -> &'static BootInfo {
    info()
}

/// The serialised pod configuration.
pub fn config() -> &'static [u8] {
    let info = info();
    // SAFETY: the monitor placed the configuration there and reserved it (below `free_start`).
    unsafe {
        core::slice::from_raw_parts((DIRECT_BASE + info.config_gpa as usize) as *const u8, info.config_len as usize)
    }
}

/// Memory figures in bytes.
#[derive(Clone, Copy, Debug)]
pub struct RamUsage {
    /// RAM that the monitor has given so far.
    pub total: u64,
    /// Of that, not in use.
    pub free: u64,
    /// What it may become.
    pub limit: u64,
}

/// Bytes of RAM in use and available now, and the pod's limit.
pub fn ram_usage() -> RamUsage {
    let [total, free, limit] = crate::frame_kvm::usage();
    RamUsage { total, free, limit }
}

/// AT_HWCAP (CPUID leaf 1, edx) and AT_HWCAP2 (bit 1: FSGSBASE usable, which keel does not offer).
pub fn hwcap() -> (u64, u64) {
    (u64::from(core::arch::x86_64::__cpuid(1).edx), 0)
}

/// Return addresses of the calling keel code, innermost first.
pub fn backtrace() -> Vec<u64> {
    let rbp: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rbp", out(reg) rbp, options(nomem, nostack, preserves_flags)) };
    backtrace_from(rbp)
}

fn backtrace_from(mut rbp: usize) -> Vec<u64> {
    let mut found = Vec::new();
    let ram = DIRECT_BASE..DIRECT_BASE + crate::frame_kvm::usage()[0] as usize;
    while found.len() < 24 && ram.contains(&rbp) && rbp.is_multiple_of(8) {
        // SAFETY: the address lies in RAM that the direct map covers; any content is valid.
        let [next, ret] = unsafe { *(rbp as *const [usize; 2]) };
        if ret < DIRECT_BASE {
            break;
        }
        found.push(ret as u64);
        if next <= rbp {
            break;
        }
        rbp = next;
    }
    found
}

/// Text that never needs the heap.
struct Report {
    text: [u8; 2048],
    len: usize,
}

impl Write for Report {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        let n = s.len().min(self.text.len() - self.len);
        self.text[self.len..self.len + n].copy_from_slice(&s.as_bytes()[..n]);
        self.len += n;
        Ok(())
    }
}

/// Ends the pod after a panic of keel: the message and a backtrace go to the monitor.
pub fn panic(message: &core::panic::PanicInfo<'_>) -> ! {
    let mut report = Report { text: [0; 2048], len: 0 };
    let _ = write!(report, "{message}\nbacktrace:");
    for address in backtrace() {
        let _ = write!(report, " {address:#x}");
    }
    crate::ring::end(Op::Crash, 125, &report.text[..report.len])
}

pub(crate) extern "C" fn rust_own_fault(frame: &TrapFrame) -> ! {
    let fault = crate::percpu::fault_record();
    let mut report = Report { text: [0; 2048], len: 0 };
    let _ = write!(
        report,
        "keel fault: vector {} code {:#x} address {:#x} rip {:#x} rsp {:#x} rflags {:#x}\n\
         rax {:#x} rbx {:#x} rcx {:#x} rdx {:#x} rsi {:#x} rdi {:#x} rbp {:#x}\nbacktrace:",
        fault.vector,
        fault.code,
        fault.address,
        frame.rip,
        frame.rsp,
        frame.rflags,
        frame.rax,
        frame.rbx,
        frame.rcx,
        frame.rdx,
        frame.rsi,
        frame.rdi,
        frame.rbp,
    );
    for address in backtrace_from(frame.rbp as usize) {
        let _ = write!(report, " {address:#x}");
    }
    crate::ring::end(Op::Crash, 125, &report.text[..report.len])
}
