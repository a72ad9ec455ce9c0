//! Dequeues pending signals.

use super::{SYNCHRONOUS, SigInfo, code};
use crate::task::Task;
use alloc::rc::Rc;
use keel_core::sigset::SigSet;
use uapi::raw::general as g;

/// Dequeues the next pending signal of `wanted`: the thread's before the process's.
pub fn take(task: &Rc<Task>, wanted: SigSet) -> Option<SigInfo> {
    let own = task.signals.pending.borrow_mut().pop(wanted, SYNCHRONOUS);
    let (_, mut info) = match own {
        Some(found) => found,
        None => task.process().signals.pending.borrow_mut().pop(wanted, SYNCHRONOUS)?,
    };
    if info.code == code::TIMER {
        crate::time::posix::delivered(task.process(), &mut info);
    } else if info.signal() == g::SIGALRM {
        task.process().itimers.alarm_taken();
    }
    Some(info)
}
