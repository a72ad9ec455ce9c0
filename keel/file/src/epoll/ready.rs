//! The ready list of an epoll instance, accessible from any virtual CPU.
//!
//! A [`Watch`] is the part of an item for calls without the big lock: a write to its file puts it on the list
//! ([`Tell`]), and a wait for events takes it from there ([`Ready::take`]). Each watch belongs to an [`Item`], which
//! removes it from the list and from the file's queues before it is dropped, under the big lock: so no watch is
//! destroyed without the lock.

use super::{Item, PRIVATE};
use crate::unlocked::Core;
use alloc::rc::{Rc, Weak};
use alloc::sync::{self, Arc};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use hal::cell::Global;
use hal::sync::{Rank, SpinLock};
use keel_core::pieces::Pieces;
use sched::wait::{Tell, WaitQueue};
use uapi::raw::general as g;

/// Maximum number of watches checked by a wait without the big lock.
const MOST_SEEN: usize = 64;
/// On longer lists, requeueing an item may allocate.
const MOST_READY: usize = 256;

/// Watches that may be ready, in the order in which they became so.
// No cache line is shared with other objects, which other virtual CPUs use.
#[repr(align(64))]
pub struct Ready {
    list: SpinLock<Pieces<Arc<Watch>>>,
    /// Waiters for events. Under the big lock, except for fields that are accessible without it.
    queue: Global<Rc<WaitQueue>>,
    /// A watched file needs a prepare call first.
    pub(super) prepares: AtomicBool,
}

/// A watched descriptor.
// No cache line is shared with other objects, which other virtual CPUs use.
#[repr(align(64))]
pub struct Watch {
    me: sync::Weak<Self>,
    ready: Arc<Ready>,
    /// For the big lock.
    pub(super) item: Global<Weak<Item>>,
    /// The file, if its readiness is available without the big lock.
    core: Option<Arc<Core>>,
    /// Requested events, with private bits; a one-shot item that fired keeps only those.
    events: AtomicU32,
    data: AtomicU64,
    /// On the list: changed under its lock.
    queued: AtomicBool,
    /// It must be queued, but there was no room on the list.
    missed: AtomicBool,
}

impl Ready {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            list: SpinLock::new(Rank::Ready, Pieces::new()),
            queue: Global::new(WaitQueue::for_unlocked()),
            prepares: AtomicBool::new(false),
        })
    }

    /// Waiters for events.
    pub fn queue(&self) -> &Rc<WaitQueue> {
        &self.queue
    }

    pub(super) fn len(&self) -> usize {
        self.list.lock().len()
    }

    /// Takes the first one off.
    pub(super) fn pop(&self) -> Option<Arc<Watch>> {
        let mut list = self.list.lock();
        let watch = list.pop_front()?;
        watch.queued.store(false, Relaxed);
        Some(watch)
    }

    /// The watch at `index`.
    pub(super) fn get(&self, index: usize) -> Option<Arc<Watch>> {
        self.list.lock().get(index).cloned()
    }

    /// Events for up to `max` items, without the big lock: `store` gets the number of each, its events and its data. `None`:
    /// left to the handler, also if there are none, unless `or_none`.
    pub fn take(
        &self,
        max: usize,
        or_none: bool,
        mut store: impl FnMut(usize, u32, u64) -> Option<()>,
    ) -> Option<usize> {
        if self.prepares.load(Relaxed) {
            return None;
        }
        let mut list = self.list.lock();
        let len = list.len();
        if len > MOST_READY {
            return None;
        }
        let (mut seen, mut found, mut holding) = (0, 0, 0u64);
        while seen < len && found < max {
            if seen == MOST_SEEN {
                if found == 0 {
                    return None;
                }
                break;
            }
            let watch = list.get(seen)?;
            let events = watch.core.as_ref()?.poll()? & watch.mask();
            if events != 0 {
                store(found, events, watch.data())?;
                holding |= 1 << seen;
                found += 1;
            }
            seen += 1;
        }
        if found == 0 && !or_none || hal::ring::has_losses() {
            return None;
        }
        for i in 0..seen {
            let watch = list.pop_front()?;
            let stays = holding >> i & 1 != 0 && watch.reported();
            if stays {
                list.push_back(watch);
            } else {
                watch.queued.store(false, Relaxed);
            }
        }
        Some(found)
    }
}

impl Watch {
    pub(super) fn new(
        ready: Arc<Ready>,
        item: Weak<Item>,
        core: Option<Arc<Core>>,
        events: u32,
        data: u64,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            ready,
            item: Global::new(item),
            core,
            events: AtomicU32::new(events),
            data: AtomicU64::new(data),
            queued: AtomicBool::new(false),
            missed: AtomicBool::new(false),
        })
    }

    pub(super) fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Whether calls without the big lock may notify it.
    pub(super) fn is_told(&self) -> bool {
        self.core.is_some() && self.events() & g::EPOLLEXCLUSIVE == 0
    }

    /// Requested events, with private bits.
    pub fn events(&self) -> u32 {
        self.events.load(Relaxed)
    }

    /// The program's data.
    pub fn data(&self) -> u64 {
        self.data.load(Relaxed)
    }

    pub(super) fn set(&self, events: u32, data: u64) {
        self.data.store(data, Relaxed);
        self.events.store(events, Relaxed);
    }

    /// The poll(2) events that count; none while a one-shot item rests.
    pub(super) fn mask(&self) -> u32 {
        match self.events() & !PRIVATE {
            0 => 0,
            events => events | g::EPOLLERR | g::EPOLLHUP,
        }
    }

    /// Its events are being reported; returns whether it stays on the list.
    fn reported(&self) -> bool {
        let wanted = self.events();
        if wanted & g::EPOLLONESHOT != 0 {
            self.events.store(wanted & PRIVATE, Relaxed);
        }
        wanted & (g::EPOLLONESHOT | g::EPOLLET) == 0
    }

    /// The same for a watch that was removed from the list; `None`: a one-shot item fired already.
    pub(super) fn fire(&self) -> Option<u32> {
        let _list = self.ready.list.lock();
        let wanted = self.events();
        if wanted & !PRIVATE == 0 {
            return None;
        }
        self.reported();
        Some(wanted)
    }

    /// The event of a one-shot item was not stored: re-arms it.
    pub(super) fn restore(&self, wanted: u32) {
        let _list = self.ready.list.lock();
        if wanted & g::EPOLLONESHOT != 0 && self.events() == wanted & PRIVATE {
            self.events.store(wanted, Relaxed);
        }
    }

    /// Queues it; under the big lock, because that may allocate.
    pub(super) fn enqueue(&self) {
        self.put(true);
    }

    /// Puts it on the list if it is not there. `false`: there is no room.
    fn put(&self, may_grow: bool) -> bool {
        let mut list = self.ready.list.lock();
        if self.queued.load(Relaxed) {
            return true;
        }
        if !may_grow && !list.has_room() {
            return false;
        }
        if let Some(me) = self.me.upgrade() {
            self.queued.store(true, Relaxed);
            list.push_back(me);
        }
        true
    }

    /// Takes it off the list.
    pub(super) fn dequeue(&self) {
        let mut list = self.ready.list.lock();
        if self.queued.load(Relaxed) {
            self.queued.store(false, Relaxed);
            list.retain(|other| !core::ptr::eq(Arc::as_ptr(other), self));
        }
    }
}

impl Tell for Watch {
    fn tell(&self) -> bool {
        if self.mask() == 0 {
            return false;
        }
        if !self.put(false) {
            self.missed.store(true, Relaxed);
            return true;
        }
        self.ready.queue.is_of_interest()
    }

    fn wake(&self) {
        if self.missed.swap(false, Relaxed) {
            self.enqueue();
        }
        self.ready.queue.wake_all();
    }
}
