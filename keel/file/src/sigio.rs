//! SIGIO: a signal when a file with `O_ASYNC` becomes ready.

use super::caller::caller;
use super::owner::Owner;
use super::{File, Queues};
use crate::siginfo::SigInfo;
use alloc::rc::{Rc, Weak};
use core::cell::RefCell;
use hal::cell::Global;
use sched::wait::Wake;
use uapi::raw::general as g;

/// Sends SIGIO to a file's owner.
struct Teller {
    file: Weak<File>,
    /// The descriptor for `si_fd`.
    fd: i32,
    /// It is told what readers are woken for, not writers.
    reads: bool,
}

/// Why a signal is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Something can be read: POLL_IN.
    Readable,
    /// Something can be written: POLL_OUT.
    Writable,
    /// An error is pending: POLL_ERR.
    Error,
    /// The connection ended: POLL_HUP.
    HangUp,
}

impl Change {
    /// What it usually is.
    pub fn usual(reads: bool) -> Self {
        if reads { Self::Readable } else { Self::Writable }
    }

    /// `si_code` and `si_band`.
    pub(super) fn reason(self) -> (i32, u32) {
        match self {
            Self::Readable => (1, g::POLLIN | g::POLLRDNORM),
            Self::Writable => (2, g::POLLOUT | g::POLLWRNORM | g::POLLWRBAND),
            Self::Error => (4, g::POLLERR),
            Self::HangUp => (6, g::POLLERR | g::POLLHUP),
        }
    }
}

impl Wake for Teller {
    fn wake(&self) -> bool {
        if let Some(file) = self.file.upgrade()
            && let Some(change) = file.ops.change(self.reads)
        {
            tell(file.owner.get(), self.fd, change.reason());
        }
        false
    }
}

/// Sends the owner its signal. SIGIO takes the place of one that has no room in the queue.
pub(super) fn tell(owner: Owner, fd: i32, reason: (i32, u32)) {
    if owner.id != 0 && !caller().signal(owner.kind, owner.id, info(owner.signal, fd, reason)) {
        caller().signal(owner.kind, owner.id, SigInfo::from_kernel(g::SIGIO));
    }
}

/// The signal's information: with `F_SETSIG`, descriptor and event.
fn info(signal: i32, fd: i32, (code, band): (i32, u32)) -> SigInfo {
    if signal == 0 {
        return SigInfo::from_kernel(g::SIGIO);
    }
    let mut info = SigInfo::new(signal as u32, code);
    (info.fields[0], info.fields[1]) = (u64::from(band), fd as u64);
    info
}

/// Sends SIGURG to the owner of `file`, if it has one: urgent data arrived.
pub fn urgent(file: &File) {
    let owner = file.owner.get();
    if owner.id != 0 {
        caller().signal(owner.kind, owner.id, SigInfo::from_kernel(g::SIGURG));
    }
}

/// The files with `O_ASYNC`; few, if any.
static TELLERS: Global<RefCell<alloc::vec::Vec<Rc<Teller>>>> = Global::new(RefCell::new(alloc::vec::Vec::new()));

/// Enables or disables SIGIO for `file`; `queues` are its wait queues of readers and writers. ENOMEM.
pub fn set(file: &Rc<File>, fd: i32, queues: &[Queues; 2], on: bool) -> uapi::Result<()> {
    let mut tellers = TELLERS.borrow_mut();
    // Entries of closed files are removed here too. Dropping an entry ends its subscriptions.
    tellers.retain(|t| t.file.strong_count() > 0 && !core::ptr::eq(t.file.as_ptr(), Rc::as_ptr(file)));
    if !on {
        return Ok(());
    }
    let [readers, writers] = queues;
    let only_writers = writers.iter().filter(|queue| !readers.iter().any(|other| Rc::ptr_eq(other, queue)));
    let of_readers = readers.iter().map(|queue| (queue, file.readable()));
    let of_writers = only_writers.map(|queue| (queue, false));
    for (queue, reads) in of_readers.chain(of_writers) {
        let teller = Rc::new(Teller { file: Rc::downgrade(file), fd, reads });
        let weak: Weak<Teller> = Rc::downgrade(&teller);
        queue.subscribe(weak)?;
        vfs::memory::push(&mut tellers, teller)?;
    }
    Ok(())
}
