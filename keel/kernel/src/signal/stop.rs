//! Group stops by SIGSTOP and other stop signals.

use super::{code, send};
use crate::task::Process;
use alloc::rc::Rc;

/// Starts a stop of all threads.
pub fn begin(process: &Rc<Process>, signal: u32) {
    process.signals.stopped_by.set(signal);
    process.signals.continue_news.set(false);
    process.signals.stopping.set(process.thread_count());
    for task in process.threads() {
        send::tell(&task);
    }
}

/// A thread enters the group stop; the last one notifies the parent.
pub fn enter(process: &Rc<Process>) {
    let left = process.signals.stopping.get().saturating_sub(1);
    let was = process.signals.stopping.replace(left);
    if was == 1 {
        process.signals.stop_news.set(true);
        send::notify_parent(process, code::CLD_STOPPED, process.signals.stopped_by.get() as i32);
    }
}

/// A thread ends during a group stop, which no longer waits for it.
pub fn leave(process: &Rc<Process>) {
    enter(process);
}
