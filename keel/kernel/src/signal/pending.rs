//! Dequeues pending signals.

use super::{Actions, SIG_IGN, SYNCHRONOUS, SigAction, SigInfo};
use crate::task::{Process, Task};
use alloc::rc::Rc;
use keel_core::sigset::SigSet;
use uapi::raw::general as g;

/// Dequeues the next pending signal of `wanted`: the thread's before the process's. Timers whose signal it is go on.
pub fn take(task: &Rc<Task>, wanted: SigSet) -> Option<SigInfo> {
    loop {
        let own = task.signals.pending.borrow_mut().pop(wanted, SYNCHRONOUS);
        let (_, mut info) = match own {
            Some(found) => found,
            None => task.process().signals.pending.borrow_mut().pop(wanted, SYNCHRONOUS)?,
        };
        if info.signal() == g::SIGALRM {
            task.process().itimers.alarm_taken();
        }
        if crate::time::posix::delivered(task.process(), &mut info) {
            return Some(info);
        }
    }
}

/// Drops the signals of `which` that are pending for a process and its threads.
pub(super) fn discard(process: &Process, which: SigSet) {
    process.signals.pending.borrow_mut().discard(which);
    for task in process.threads() {
        task.signals.pending.borrow_mut().discard(which);
    }
    process.posix_timers.discarded(which);
}

/// A signal got this action: what is pending is dropped if that ignores it, and timers whose signal was ignored until now are told.
pub fn action_changed(process: &Rc<Process>, actions: &Actions, signal: u32, before: &SigAction) {
    if actions.ignores(signal) {
        discard(process, SigSet::of(signal));
    } else if before.handler == SIG_IGN {
        crate::time::posix::no_longer_ignored(process, signal);
    }
}
