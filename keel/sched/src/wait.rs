//! Blocking: queues of waiters, and the one function that parks a thread.

use super::{Thread, current, posted, sleep, timer, wake};

use alloc::rc::{Rc, Weak};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, fence};
use hal::sync::{Rank, SpinLock};
use keel_core::pieces::Pieces;
use uapi::{Errno, Result};

/// A subscriber that is called when a queue is woken. Must not block and must not call back into the queue.
pub trait Wake {
    /// Called at a wake-up; returns whether it counts as a woken waiter for [`WaitQueue::wake`].
    fn wake(&self) -> bool;
    /// Whether [`WaitQueue::wake_for_data`] wakes only one of them (`EPOLLEXCLUSIVE`).
    fn is_exclusive(&self) -> bool {
        false
    }
}

/// A subscriber that calls without the big lock notify directly.
pub trait Tell: Send + Sync {
    /// Records, without the big lock, that the condition may hold; returns whether [`Tell::wake`] must follow. Must not
    /// allocate or change a refcount that is not atomic.
    fn tell(&self) -> bool;
    /// Under the big lock: wakes the waiters for the recorded event.
    fn wake(&self);
}

/// What must follow after a notification without the big lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing.
    All,
    /// [`WaitQueue::wake_told`], under the big lock.
    Sleepers,
    /// Waking the queue, under the big lock.
    Waiters,
}

/// Waiters for one condition, FIFO.
// No cache line is shared with other objects, which other virtual CPUs use.
#[repr(align(64))]
pub struct WaitQueue {
    threads: RefCell<Pieces<Rc<Thread>>>,
    subscribers: RefCell<Vec<Weak<dyn Wake>>>,
    /// Calls without the big lock may make the condition true.
    unlocked: bool,
    /// Something from outside the pod may make the condition true.
    outside: AtomicBool,
    /// There are waiters or subscribers other than those in `told`; maintained only if `unlocked`.
    watched: AtomicBool,
    /// `told` is not empty.
    tells: AtomicBool,
    /// Subscribers that those calls notify directly. Also changed under the big lock.
    told: SpinLock<Vec<Arc<dyn Tell>>>,
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for WaitQueue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("WaitQueue").finish_non_exhaustive()
    }
}

impl WaitQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        Self {
            threads: RefCell::new(Pieces::new()),
            subscribers: RefCell::new(Vec::new()),
            unlocked: false,
            outside: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            tells: AtomicBool::new(false),
            told: SpinLock::new(Rank::Told, Vec::new()),
        }
    }

    /// An empty queue for a condition that calls without the big lock may make true. They check
    /// [`WaitQueue::is_watched`] under the lock of the condition, which a waiter takes after it has entered the queue;
    /// or after a change of a [`Sum`](hal::sync::Sum).
    pub fn for_unlocked() -> Rc<Self> {
        Rc::new(Self { unlocked: true, ..Self::new() })
    }

    /// Whether there is a waiter to wake; may be called without the big lock.
    #[inline(always)]
    pub fn is_watched(&self) -> bool {
        self.watched.load(Relaxed)
    }

    /// Whether calls without the big lock must notify subscribers or wake waiters.
    #[inline(always)]
    pub fn is_of_interest(&self) -> bool {
        self.is_watched() || self.tells.load(Relaxed)
    }

    /// Without the big lock, after the condition became true and its lock was released: notifies the direct
    /// subscribers.
    #[inline]
    pub fn tell(&self) -> Told {
        if self.is_watched() {
            return Told::Waiters;
        }
        if self.tells.load(Relaxed) && self.tell_all() { Told::Sleepers } else { Told::All }
    }

    #[inline(never)]
    fn tell_all(&self) -> bool {
        // None of them is dropped meanwhile: it is unsubscribed first.
        let mut wakes = false;
        for who in self.told.lock().iter() {
            wakes |= who.tell();
        }
        wakes
    }

    /// Under the big lock: wakes for subscribers that were notified.
    pub fn wake_told(&self) {
        for i in 0.. {
            let next = self.told.lock().get(i).cloned();
            let Some(who) = next else { return };
            who.wake();
        }
    }

    /// Under the big lock: notifies the subscribers, and wakes for them.
    fn tell_told(&self) {
        if self.tells.load(Relaxed) && self.tell_all() {
            self.wake_told();
        }
    }

    /// Something from outside the pod may make the condition true, from now on: a completion interrupts the program that
    /// runs while a thread waits here.
    pub fn mark_outside(&self) {
        self.outside.store(true, Relaxed);
    }

    /// Whether something from outside the pod may make the condition true.
    pub fn is_outside(&self) -> bool {
        self.outside.load(Relaxed)
    }

    /// Whether calls without the big lock may make the condition true.
    pub fn is_unlocked(&self) -> bool {
        self.unlocked
    }

    /// Subscribes `who` to direct notification until [`WaitQueue::unsubscribe_told`]. ENOMEM.
    pub fn subscribe_told(&self, who: Arc<dyn Tell>) -> Result<()> {
        let mut told = self.told.lock();
        told.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        told.push(who);
        self.tells.store(true, Relaxed);
        Ok(())
    }

    /// Ends a direct subscription.
    pub fn unsubscribe_told(&self, who: &Arc<dyn Tell>) {
        let mut told = self.told.lock();
        told.retain(|other| !Arc::ptr_eq(other, who));
        self.tells.store(!told.is_empty(), Relaxed);
    }

    /// Updates `watched` after waiters or subscribers changed.
    #[inline]
    fn changed(&self) {
        if self.unlocked {
            self.watched.store(!self.has_nobody(), Relaxed);
        }
    }

    #[inline]
    fn has_nobody(&self) -> bool {
        self.threads.borrow().is_empty() && self.subscribers.borrow().is_empty()
    }

    /// Wakes up to `count` waiters; returns how many.
    pub fn wake(&self, count: usize) -> usize {
        self.tell_told();
        let mut woken = self.tell_subscribers(false);
        while woken < count {
            // Dequeue first: waking must not happen under the borrow.
            let Some(task) = self.threads.borrow_mut().pop_front() else { break };
            if wake(&task) {
                woken += 1;
            }
        }
        self.changed();
        woken
    }

    /// Wakes all.
    #[inline]
    pub fn wake_all(&self) {
        if !self.is_empty() {
            self.wake(usize::MAX);
        }
    }

    /// Wakes all waiters, but of the exclusive subscribers only the first that has a waiter.
    #[inline]
    pub fn wake_for_data(&self) {
        if !self.is_empty() {
            self.tell_told();
            self.tell_subscribers(true);
            self.wake_threads();
        }
    }

    fn wake_threads(&self) {
        loop {
            // Dequeue first: waking must not happen under the borrow.
            let Some(task) = self.threads.borrow_mut().pop_front() else { break };
            wake(&task);
        }
        self.changed();
    }

    /// Whether there are no waiters and no subscribers.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.has_nobody() && !self.tells.load(Relaxed)
    }

    /// Subscribes `who` to every wake-up until the weak reference is dropped (epoll). ENOMEM.
    pub fn subscribe(&self, who: Weak<dyn Wake>) -> Result<()> {
        let mut subscribers = self.subscribers.borrow_mut();
        subscribers.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        subscribers.push(who);
        drop(subscribers);
        self.changed();
        Ok(())
    }

    /// Unsubscribes `who`.
    pub fn unsubscribe(&self, who: &Weak<dyn Wake>) {
        self.subscribers.borrow_mut().retain(|s| !Weak::ptr_eq(s, who));
        self.changed();
    }

    fn tell_subscribers(&self, one_exclusive: bool) -> usize {
        let mut told = 0;
        let mut taken = false;
        let mut i = 0;
        loop {
            let Some(entry) = self.subscribers.borrow().get(i).cloned() else { return told };
            match entry.upgrade() {
                Some(who) if taken && who.is_exclusive() => i += 1,
                Some(who) => {
                    let woke = who.wake();
                    taken |= one_exclusive && woke && who.is_exclusive();
                    told += usize::from(woke);
                    i += 1;
                }
                None => {
                    self.subscribers.borrow_mut().retain(|s| s.strong_count() > 0);
                    self.changed();
                }
            }
        }
    }

    fn enter(&self, task: &Rc<Thread>) {
        self.threads.borrow_mut().push_back(task.clone());
        self.changed();
    }

    fn leave(&self, task: &Rc<Thread>) {
        let mut threads = self.threads.borrow_mut();
        let at = threads.iter().position(|t| Rc::ptr_eq(t, task));
        if let Some(at) = at {
            threads.remove(at);
        }
        drop(threads);
        self.changed();
    }
}

/// What may interrupt a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// Any unblocked signal: ERESTARTSYS.
    BySignal,
    /// Only a fatal signal: ERESTARTSYS.
    ByKill,
    /// Nothing.
    Never,
}

/// Parks the current thread until `ready` returns a value. `ready` is called first, and again after each wake-up of one
/// of `queues`. ETIMEDOUT after `deadline_ns` (`CLOCK_MONOTONIC`), ERESTARTSYS if a signal interrupted the wait. Hold
/// no borrows; `ready` runs in keel and must not block.
pub fn wait_until<T>(
    queues: &[Rc<WaitQueue>],
    deadline_ns: Option<u64>,
    interrupt: Interrupt,
    mut ready: impl FnMut() -> Option<T>,
) -> Result<T> {
    if let Some(value) = ready() {
        return Ok(value);
    }
    let me = current();
    loop {
        if me.is_interrupted(interrupt) {
            return Err(Errno::ERESTARTSYS);
        }
        if deadline_ns.is_some_and(|deadline| hal::clock::monotonic_ns() >= deadline) {
            return Err(Errno::ETIMEDOUT);
        }
        for queue in queues {
            queue.enter(&me);
        }
        if hal::sync::several() && queues.iter().any(|queue| queue.unlocked) {
            // Pairs with calls without the big lock that did not see the waiter yet.
            fence(SeqCst);
            if let Some(value) = ready() {
                for queue in queues {
                    queue.leave(&me);
                }
                return Ok(value);
            }
        }
        let timer = deadline_ns.map(|deadline| timer::wake_at(deadline, &me));
        let outside = queues.iter().any(|queue| queue.is_outside());
        if outside {
            posted::await_outside(true);
        }
        sleep(interrupt);
        if outside {
            posted::await_outside(false);
        }
        if let Some(timer) = timer {
            timer::forget(timer);
        }
        for queue in queues {
            queue.leave(&me);
        }
        if let Some(value) = ready() {
            return Ok(value);
        }
    }
}

/// Parks the current thread until [`wake`] makes `ready` hold: for conditions that are signalled to the thread
/// directly. Otherwise like [`wait_until`].
pub fn park<T>(deadline_ns: Option<u64>, interrupt: Interrupt, ready: impl FnMut() -> Option<T>) -> Result<T> {
    wait_until(&[], deadline_ns, interrupt, ready)
}
