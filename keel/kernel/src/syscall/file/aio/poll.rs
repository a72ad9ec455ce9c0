//! Requests that end when a file is ready, `IOCB_CMD_POLL`.

use super::Context;
use crate::file::{File, Queues, eventfd};
use crate::sched::wait::{WaitQueue, Wake};
use alloc::rc::{Rc, Weak};
use core::cell::{Cell, RefCell};
use keel_core::pieces::Pieces;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// A request.
pub(crate) struct Poll {
    /// Its `struct iocb` in the program.
    pub address: usize,
    data: u64,
    file: Rc<File>,
    events: u32,
    counter: Option<Rc<File>>,
    /// The file's readiness changed since the last check.
    told: Cell<bool>,
    /// Who waits for results.
    collectors: Rc<WaitQueue>,
}

impl Wake for Poll {
    fn wake(&self) -> bool {
        if !self.told.replace(true) {
            self.signal();
            self.collectors.wake_all();
        }
        false
    }
}

impl Poll {
    fn ready(&self) -> u32 {
        self.file.ops.poll(&self.file) & self.events
    }

    fn signal(&self) {
        eventfd::signal(self.counter.as_ref());
    }
}

impl core::fmt::Debug for Poll {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Poll").field("events", &self.events).finish_non_exhaustive()
    }
}

/// The requests of a context that wait.
#[derive(Debug, Default)]
pub(crate) struct Polls(RefCell<Pieces<Rc<Poll>>>);

impl Polls {
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Begins to wait for `events` of a file: what is there already. `None`: nothing yet. EINVAL: nothing ever.
    pub fn add(
        &self,
        context: &Context,
        (address, data): (usize, u64),
        file: &Rc<File>,
        events: u32,
        counter: Option<&Rc<File>>,
    ) -> Result<Option<u32>> {
        let events = events | g::POLLERR | g::POLLHUP;
        if file.ops.poll_needs_prepare() {
            file.ops.poll_prepare(file, events, true);
        }
        let poll = Rc::new(Poll {
            address,
            data,
            file: file.clone(),
            events,
            counter: counter.cloned(),
            told: Cell::new(false),
            collectors: context.queue.clone(),
        });
        let ready = poll.ready();
        if ready != 0 {
            return Ok(Some(ready));
        }
        let mut queues = Queues::new();
        file.ops.poll_queues(file, events, &mut queues);
        if queues.is_empty() {
            return Err(Errno::EINVAL);
        }
        for queue in &queues {
            let weak: Weak<Poll> = Rc::downgrade(&poll);
            queue.subscribe(weak)?;
        }
        // Calls without the big lock that did not see the subscription yet.
        let ready = poll.ready();
        if ready != 0 {
            return Ok(Some(ready));
        }
        self.0.borrow_mut().push_back(poll);
        Ok(None)
    }

    /// Polls the files whose readiness changed: the results.
    pub fn settle(&self, context: &Context) {
        let mut at = 0;
        loop {
            let Some(poll) = self.0.borrow().get(at).cloned() else { return };
            let ready = if poll.told.take() { poll.ready() } else { 0 };
            if ready != 0 {
                // The next one comes to its place.
                self.finish(context, &poll, ready);
            } else {
                at += 1;
            }
        }
    }

    /// Before a wait: files whose readiness the host knows are to tell about it.
    pub fn prepare(&self) {
        for poll in vfs::memory::items(&self.0).filter(|poll| poll.file.ops.poll_needs_prepare()) {
            poll.file.ops.poll_prepare(&poll.file, poll.events, true);
            poll.told.set(true);
        }
    }

    /// Ends a request early, with no event; whether there was one.
    pub fn cancel(&self, context: &Context, address: usize) -> bool {
        let found = self.0.borrow().iter().find(|poll| poll.address == address).cloned();
        let Some(poll) = found else { return false };
        self.finish(context, &poll, 0);
        if !poll.told.get() {
            poll.signal();
        }
        true
    }

    fn finish(&self, context: &Context, poll: &Rc<Poll>, ready: u32) {
        self.0.borrow_mut().retain(|other| !Rc::ptr_eq(other, poll));
        context.push(poll.data, poll.address, i64::from(ready));
    }
}
