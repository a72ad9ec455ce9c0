//! Populates guest memory before the guest uses it.
//!
//! A fault on a huge page costs the host a fifth of a millisecond, and several milliseconds if the host is itself a
//! virtual machine whose memory is populated on demand. For a pod that uses one huge page after the other, a thread
//! populates the next ones meanwhile. A pod that uses little memory has no such thread.

use super::{Shared, Signal};
use crate::event::Event;
use abi::layout::LARGE_PAGE_SIZE;
use rustix::event::{PollFd, PollFlags};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const LARGE: u64 = LARGE_PAGE_SIZE as u64;

/// State that the pod's threads share with the prefault thread.
#[derive(Debug)]
pub(super) struct Prefault {
    /// High-water mark of the guest's memory at the last check, guest-physical.
    seen: AtomicU64,
    started: AtomicBool,
    is_busy: AtomicBool,
    event: Event,
}

impl Prefault {
    pub(super) fn new() -> Result<Self, crate::error::Error> {
        Ok(Self {
            seen: AtomicU64::new(0),
            started: AtomicBool::new(false),
            is_busy: AtomicBool::new(false),
            event: Event::new()?,
        })
    }

    /// Whether the thread is running.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Stops the thread.
    pub(super) fn stop(&self) {
        self.event.signal();
    }
}

/// Checks whether the guest's memory use has grown. Cheap.
pub(super) fn look(shared: &Arc<Shared>) {
    let prefault = &shared.prefault;
    let used = shared.ring.ram_used();
    if shared.processors < 2 || used <= shared.memory.huge_from() || prefault.seen.swap(used, Ordering::SeqCst) == used
    {
        return;
    }
    if prefault.started.swap(true, Ordering::SeqCst) {
        prefault.event.signal();
        return;
    }
    let own = shared.clone();
    // If no thread can be started, the guest takes the faults itself. The thread is not joined, because a page fault
    // may take long: it owns all that it uses.
    drop(std::thread::Builder::new().name("memory".into()).spawn(move || take(&own)));
}

/// Number of large pages to populate behind those in use.
const fn ready(used: u64) -> u64 {
    match used {
        0 | 1 => 1,
        2..8 => 2,
        _ => 4,
    }
}

fn take(shared: &Shared) {
    let (memory, prefault) = (&shared.memory, &shared.prefault);
    let mut taken = 0;
    while !shared.state.is_over() {
        // The guest controls this value: at most a few pages behind it are populated.
        let used = shared.ring.ram_used().min(memory.ram_end()) / LARGE * LARGE;
        let wanted = used + ready(used.saturating_sub(memory.huge_from()) / LARGE) * LARGE;
        let next = used.max(taken);
        prefault.is_busy.store(next < wanted, Ordering::Relaxed);
        if next < wanted && memory.take_large(next) {
            taken = next + LARGE;
            continue;
        }
        prefault.is_busy.store(false, Ordering::Relaxed);
        super::wait_for(&mut [PollFd::new(&prefault.event, PollFlags::IN)], None);
        prefault.event.clear();
    }
}
