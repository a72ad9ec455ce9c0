//! SIGIO: a signal when a file with `O_ASYNC` becomes ready.

use super::{File, Queues};
use crate::signal::{self, SigInfo};
use crate::task::pid;
use crate::task::wait::Wake;
use alloc::rc::{Rc, Weak};
use core::cell::RefCell;
use hal::cell::Global;
use uapi::raw::general as g;

/// Tells a file's owner.
struct Teller {
    file: Weak<File>,
}

impl Wake for Teller {
    fn wake(&self) -> bool {
        if let Some(file) = self.file.upgrade() {
            let owner = file.owner.get();
            let signal = if owner.signal == 0 { g::SIGIO as i32 } else { owner.signal };
            if owner.id != 0 {
                tell(owner.kind, owner.id, SigInfo::from_kernel(signal as u32));
            }
        }
        false
    }
}

/// Tells the owner of `file`, if it has one, that urgent data came: SIGURG.
pub fn urgent(file: &File) {
    let owner = file.owner.get();
    if owner.id != 0 {
        tell(owner.kind, owner.id, SigInfo::from_kernel(g::SIGURG));
    }
}

/// Sends a signal to the owner of a file.
pub(super) fn tell(kind: u32, id: i32, info: SigInfo) {
    // A receiver that is gone, or that has too many signals queued, is not told.
    match kind {
        g::F_OWNER_TID => {
            let _ = pid::find_task(id).map(|task| signal::send_to_task(&task, info));
        }
        g::F_OWNER_PGRP => signal::send_to_group(id, info),
        _ => {
            let _ = pid::find_process(id).map(|process| signal::send_to_process(&process, info));
        }
    }
}

/// The files with `O_ASYNC`; few, if any.
static TELLERS: Global<RefCell<alloc::vec::Vec<Rc<Teller>>>> = Global::new(RefCell::new(alloc::vec::Vec::new()));

/// Starts or stops telling about `file`, whose queues are given.
pub fn set(file: &Rc<File>, queues: &Queues, on: bool) {
    let mut tellers = TELLERS.borrow_mut();
    // Files that are gone are forgotten here too. Dropping a teller ends its subscriptions.
    tellers.retain(|t| t.file.strong_count() > 0 && !core::ptr::eq(t.file.as_ptr(), Rc::as_ptr(file)));
    if on {
        let teller = Rc::new(Teller { file: Rc::downgrade(file) });
        for queue in queues {
            let weak: Weak<Teller> = Rc::downgrade(&teller);
            queue.subscribe(weak);
        }
        tellers.push(teller);
    }
}
