//! Readiness of descriptors, by number.

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Maximum number of events that are taken at once.
const BATCH: usize = 64;

/// An epoll instance.
#[derive(Debug)]
pub struct Poller(OwnedFd);

impl Poller {
    /// A new one.
    pub fn new() -> Result<Self, Errno> {
        epoll::create(CreateFlags::CLOEXEC).map(Self)
    }

    /// Watches a descriptor for input until it is closed.
    pub fn add(&self, source: impl AsFd, token: u64) -> Result<(), Errno> {
        epoll::add(&self.0, source, EventData::new_u64(token), EventFlags::IN)
    }

    /// Watches for room for output, too, or not any more.
    pub fn set_output(&self, source: impl AsFd, token: u64, output: bool) -> Result<(), Errno> {
        self.set(source, token, true, output)
    }

    /// Watches for input and for room for output.
    pub fn set(&self, source: impl AsFd, token: u64, input: bool, output: bool) -> Result<(), Errno> {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, input);
        flags.set(EventFlags::OUT, output);
        epoll::modify(&self.0, source, EventData::new_u64(token), flags)
    }

    /// Does not watch it any more.
    pub fn remove(&self, source: impl AsFd) {
        // Ignore ENOENT: it was not watched.
        let _ = epoll::delete(&self.0, source);
    }

    /// The next events.
    pub fn wait(&self, timeout: Option<Duration>) -> Vec<u64> {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; BATCH];
        // Up to the next millisecond, so that a deadline has passed then.
        let timeout = timeout.map(|wait| {
            let wait = wait + Duration::from_millis(1);
            Timespec { tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX), tv_nsec: wait.subsec_nanos().into() }
        });
        // A signal is no event.
        let count = epoll::wait(&self.0, &mut events, timeout.as_ref()).unwrap_or(0);
        events.iter().take(count).map(|event| event.data.u64()).collect()
    }
}
