//! Segments of a program's registers.

use super::{SigInfo, send};
use crate::task::Task;
use abi::layout::selector;
use alloc::rc::Rc;
use uapi::raw::general as g;

/// A program asks to go on with other segments than a program has. There are none that it could: what the processor would
/// do on the way back.
pub fn check(task: &Rc<Task>, code: u16, stack: u16) {
    const PRIVILEGE: u16 = 3;
    let wrong = match (code | PRIVILEGE, stack | PRIVILEGE) {
        (selector::USER_CS, selector::USER_DS) => return,
        (selector::USER_CS, stack) => stack,
        (code, _) => code,
    };
    let [_, _, cr2] = task.signals.trap.get();
    // Local tables are empty, and their selectors are named as they are, but for the privilege.
    task.signals.trap.set([13, u64::from(wrong & !PRIVILEGE), cr2]);
    send::force(task, SigInfo::from_kernel(g::SIGSEGV));
}
