//! Taking memory from the host before the guest needs it.
//!
//! A huge page costs the host a fifth of a millisecond, and several where the host is itself a virtual machine whose
//! memory comes on demand. A pod that uses one after the other gets the next ones ready meanwhile, by a thread of its
//! own. One that uses little gets none.

use super::{Shared, Signal};
use crate::event::Event;
use abi::layout::LARGE_PAGE_SIZE;
use rustix::event::{PollFd, PollFlags};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const LARGE: u64 = LARGE_PAGE_SIZE as u64;

/// What the pod's threads and the one that takes memory share.
#[derive(Debug)]
pub(super) struct Prefault {
    /// Guest-physical end of what the guest had used when it was looked at last.
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

    /// Whether the thread needs a processor now.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Ends the thread's wait.
    pub(super) fn stop(&self) {
        self.event.signal();
    }
}

/// Looks whether the guest has used more memory than before. Cheap.
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
    // Without the thread the guest waits for its memory itself. Its end is not awaited, as it may take as long as a
    // page does: it owns all that it uses.
    drop(std::thread::Builder::new().name("memory".into()).spawn(move || take(&own)));
}

/// Large pages to have ready behind those that are used.
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
        // The guest's word: whatever it is, not more than a few pages behind it are taken.
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
