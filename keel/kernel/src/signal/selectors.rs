//! Segment selectors of a program.

use super::{SigInfo, send};
use crate::task::Task;
use abi::layout::selector;
use alloc::rc::Rc;
use uapi::raw::general as g;

/// Checks the selectors that a program wants to continue with. Only the standard ones are valid: others raise the
/// exception that IRETQ would raise.
pub fn check(task: &Rc<Task>, code: u16, stack: u16) {
    const PRIVILEGE: u16 = 3;
    let wrong = match (code | PRIVILEGE, stack | PRIVILEGE) {
        (selector::USER_CS, selector::USER_DS) => return,
        (selector::USER_CS, stack) => stack,
        (code, _) => code,
    };
    let [_, _, cr2] = task.signals.trap.get();
    // The LDT is empty. The error code is the selector without its privilege level.
    task.signals.trap.set([13, u64::from(wrong & !PRIVILEGE), cr2]);
    send::force(task, SigInfo::from_kernel(g::SIGSEGV));
}
