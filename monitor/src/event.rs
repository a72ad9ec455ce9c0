//! An eventfd: one thread wakes another, or KVM wakes a thread.
#![allow(unsafe_code)]

use crate::error::Error;
use crate::run::Signal;
use rustix::fd::{AsFd, BorrowedFd};
use std::os::fd::AsRawFd;
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

/// An eventfd that never blocks.
#[derive(Debug)]
pub struct Event(EventFd);

impl Event {
    /// A new event, not signalled.
    pub fn new() -> Result<Self, Error> {
        EventFd::new(EFD_CLOEXEC | EFD_NONBLOCK).map(Self).map_err(|e| Error::host("eventfd", e))
    }

    /// For KVM.
    pub fn eventfd(&self) -> &EventFd {
        &self.0
    }
}

impl Signal for Event {
    fn signal(&self) {
        // write(2) fails only if the counter is at its maximum: the event is signalled already.
        let _ = self.0.write(1);
    }

    fn clear(&self) {
        // EAGAIN: the event was not signalled.
        let _ = self.0.read();
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as `self`, which the borrow keeps.
        unsafe { BorrowedFd::borrow_raw(self.0.as_raw_fd()) }
    }
}
