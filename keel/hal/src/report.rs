//! The failure report of keel: message, registers, backtrace, and the kernel's part.
#![allow(unsafe_code)]

use crate::cell::Global;
use crate::direct_map;
use crate::instructions::frame_pointer;
use crate::trap::TrapFrame;
use abi::request::Crash;
use core::cell::{Cell, UnsafeCell};
use core::fmt::Write;

/// Maximum number of return addresses in a backtrace.
const DEPTH: usize = 24;

/// Return addresses from a frame pointer on, innermost first, followed by 0. Does not allocate.
fn backtrace(mut rbp: usize) -> [u64; DEPTH] {
    let mut found = [0; DEPTH];
    let ram = direct_map::address(0)..direct_map::address(crate::buddy::ram_usage().total);
    for place in &mut found {
        if !(ram.contains(&rbp) || crate::stacks::holds(rbp)) || !rbp.is_multiple_of(8) {
            break;
        }
        // SAFETY: the address lies in RAM that the direct map covers, or in a stack; any content is valid.
        let [next, ret] = unsafe { *(rbp as *const [usize; 2]) };
        if !direct_map::is_above_programs(ret) {
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

/// Size of a report in bytes.
const REPORT_BYTES: usize = 8192;

/// Text that needs no heap and little stack.
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
    /// Begins the report; returns whether it is the first one. A second one is caused by a failure during the first,
    /// and replaces it.
    fn begin() -> (Self, bool) {
        static TEXT: Global<UnsafeCell<[u8; REPORT_BYTES]>> = Global::new(UnsafeCell::new([0; REPORT_BYTES]));
        static BEGUN: Global<Cell<bool>> = Global::new(Cell::new(false));
        // SAFETY: one CPU at a time is in keel, and the code that began an earlier report never continues.
        let text = unsafe { &mut *TEXT.get() };
        (Self { text, len: 0 }, !BEGUN.replace(true))
    }

    /// Adds the backtrace and the kernel's part, and ends the pod.
    fn finish(mut self, rbp: usize, first: bool) -> ! {
        let frame = match crate::percpu::kernel_stack() {
            0 => None,
            // SAFETY: the stack belongs to the thread that runs now, and the registers of its program lie at the top.
            top => Some(unsafe { ((top - size_of::<TrapFrame>()) as *const TrapFrame).read() }),
        };
        if let Some(frame) = &frame {
            let _ = write!(self, "\nprogram: ");
            let _ = frame.write_place(&mut self);
        }
        let _ = write!(self, "\nbacktrace:");
        for address in backtrace(rbp).into_iter().take_while(|address| *address != 0) {
            let _ = write!(self, " {address:#x}");
        }
        if first {
            (crate::hooks::KEEL_HOOKS.report)(&mut self, frame.as_ref());
        }
        crate::ring::end(Crash {}, &self.text[..self.len])
    }
}

/// Ends the pod after a panic of keel: sends message, backtrace and last calls to the monitor.
pub fn panic(message: &core::panic::PanicInfo<'_>) -> ! {
    let place = frame_pointer();
    let (mut report, first) = Report::begin();
    let _ = write!(report, "{}", message.message());
    if let Some(place) = message.location() {
        let _ = write!(report, " ({}:{})", place.file(), place.line());
    }
    report.finish(place, first)
}

pub(crate) extern "C" fn rust_own_fault(frame: &TrapFrame) -> ! {
    let fault = crate::percpu::fault_record();
    let (mut report, first) = Report::begin();
    if fault.is_page_fault() && crate::stacks::is_in_area(fault.address as usize) {
        let _ = write!(report, "a kernel stack overflowed: ");
    }
    let _ = fault.write(&mut report, frame);
    report.finish(frame.frame_pointer() as usize, first)
}
