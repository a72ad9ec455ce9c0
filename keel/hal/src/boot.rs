//! From the first instruction to the kernel's boot hook, and the last words of a keel that failed.

use crate::cell::Global;
use crate::trap::TrapFrame;
use abi::boot::{BootInfo, MAGIC, flags};
use abi::layout::{BOOT_INFO, DIRECT_BASE};
use abi::request::Op;
use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::fmt::Write;

fn info() -> &'static BootInfo {
    // SAFETY: the monitor wrote the structure before the first instruction and never again.
    unsafe { &*((DIRECT_BASE + BOOT_INFO) as *const BootInfo) }
}

pub(crate) extern "C" fn rust_boot() -> ! {
    let info = info();
    crate::x86_64::init_cpu(0);
    if info.magic != MAGIC || info.version != abi::VERSION {
        crate::kvm::ports::out(abi::layout::port::PANIC);
    }
    crate::ring::init(info.flags);
    crate::buddy::init(info);
    crate::clock::init(info);
    crate::fpu::init(info.xcr0);
    (crate::hooks::KEEL_HOOKS.boot)(info)
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

impl RamUsage {
    /// Whether there is enough for pages that are likely, but not certain, to be used.
    pub const fn abounds(&self) -> bool {
        let eighth = self.limit / 8;
        let least = 2 * abi::layout::LARGE_PAGE_SIZE as u64;
        self.limit - self.total + self.free >= if eighth > least { eighth } else { least }
    }
}

/// Bytes of RAM in use and available now, and the pod's limit.
pub fn ram_usage() -> RamUsage {
    let [total, free, limit] = crate::buddy::usage();
    RamUsage { total, free, limit }
}

/// AT_HWCAP (CPUID leaf 1, edx) and AT_HWCAP2 (bit 1: FSGSBASE usable, which keel does not offer).
pub fn hwcap() -> (u64, u64) {
    (u64::from(core::arch::x86_64::__cpuid(1).edx), 0)
}

/// Most return addresses of a backtrace.
const DEPTH: usize = 24;

/// Return addresses, innermost first, from a frame pointer on; 0 behind the last. Takes no memory.
fn backtrace(mut rbp: usize) -> [u64; DEPTH] {
    let mut found = [0; DEPTH];
    let ram = DIRECT_BASE..DIRECT_BASE + crate::buddy::usage()[0] as usize;
    for place in &mut found {
        if !(ram.contains(&rbp) || crate::stacks::holds(rbp)) || !rbp.is_multiple_of(8) {
            break;
        }
        // SAFETY: the address lies in RAM that the direct map covers, or in a stack; any content is valid.
        let [next, ret] = unsafe { *(rbp as *const [usize; 2]) };
        if ret < DIRECT_BASE {
            break;
        }
        *place = ret as u64;
        if next <= rbp {
            break;
        }
        rbp = next;
    }
    found
}

/// Bytes of a report.
const REPORT_BYTES: usize = 8192;

/// Text that never needs the heap nor much of the stack.
struct Report {
    text: &'static mut [u8; REPORT_BYTES],
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

impl Report {
    /// The report; whether it is the first one. A second one comes of a failure while the first was made, and takes its
    /// place.
    fn begin() -> (Self, bool) {
        static TEXT: Global<UnsafeCell<[u8; REPORT_BYTES]>> = Global::new(UnsafeCell::new([0; REPORT_BYTES]));
        static BEGUN: Global<Cell<bool>> = Global::new(Cell::new(false));
        // SAFETY: keel is entered by one CPU at a time, and who makes a report never goes on with an earlier one.
        let text = unsafe { &mut *TEXT.get() };
        (Self { text, len: 0 }, !BEGUN.replace(true))
    }

    /// Adds the backtrace and what the kernel knows, and ends the pod.
    fn finish(mut self, rbp: usize, first: bool) -> ! {
        let frame = match crate::percpu::kernel_stack() {
            0 => None,
            // SAFETY: the stack belongs to the thread that runs now, and the registers of its program lie at the top.
            top => Some(unsafe { ((top - size_of::<TrapFrame>()) as *const TrapFrame).read() }),
        };
        if let Some(f) = &frame {
            let _ =
                write!(self, "\nprogram: rip {:#x} rsp {:#x} rflags {:#x}, entry {}", f.rip, f.rsp, f.rflags, f.entry);
        }
        let _ = write!(self, "\nbacktrace:");
        for address in backtrace(rbp).into_iter().take_while(|address| *address != 0) {
            let _ = write!(self, " {address:#x}");
        }
        if first {
            (crate::hooks::KEEL_HOOKS.report)(&mut self, frame.as_ref());
        }
        crate::ring::end(Op::Crash, 125, &self.text[..self.len])
    }
}

/// Ends the pod after a panic of keel: message, backtrace and last calls go to the monitor.
pub fn panic(message: &core::panic::PanicInfo<'_>) -> ! {
    let rbp: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rbp", out(reg) rbp, options(nomem, nostack, preserves_flags)) };
    let (mut report, first) = Report::begin();
    let _ = write!(report, "{}", message.message());
    if let Some(place) = message.location() {
        let _ = write!(report, " ({}:{})", place.file(), place.line());
    }
    report.finish(rbp, first)
}

pub(crate) extern "C" fn rust_own_fault(frame: &TrapFrame) -> ! {
    let fault = crate::percpu::fault_record();
    let (mut report, first) = Report::begin();
    if fault.vector == 14 && crate::stacks::is_in_area(fault.address as usize) {
        let _ = write!(report, "a kernel stack overflowed: ");
    }
    let _ = write!(
        report,
        "exception {} (code {:#x}, address {:#x}) at {:#x}\n\
         registers: rsp {:#x} rflags {:#x} rax {:#x} rbx {:#x} rcx {:#x} rdx {:#x} rsi {:#x} rdi {:#x} rbp {:#x} \
         r8 {:#x} r9 {:#x} r10 {:#x} r11 {:#x} r12 {:#x} r13 {:#x} r14 {:#x} r15 {:#x}",
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
        frame.r8,
        frame.r9,
        frame.r10,
        frame.r11,
        frame.r12,
        frame.r13,
        frame.r14,
        frame.r15,
    );
    report.finish(frame.rbp as usize, first)
}

/// Uses more stack than there is.
#[expect(unconditional_recursion, reason = "that is what it is for")]
fn deeper(depth: usize) -> usize {
    core::hint::black_box(deeper(core::hint::black_box(depth) + 1)) + 1
}

/// Fails if the monitor asked for that at boot: so that reports can be tested. Programs can't ask for it.
pub fn fail_if_asked() {
    if info().flags & flags::FAIL_PANIC != 0 {
        panic!("as --fail-keel asks");
    }
    if info().flags & flags::FAIL_FAULT != 0 {
        // SAFETY: raises an exception that keel does not return from.
        unsafe { asm!("ud2", options(nomem, nostack)) };
    }
    if info().flags & flags::FAIL_STACK != 0 {
        deeper(0);
    }
}
