//! A spin lock that holds the value it protects.
#![allow(unsafe_code)]

use super::atomic::AtomicU32;
use super::atomic::Ordering::{Acquire, Relaxed, Release};
use super::rank::{self, Rank};
use super::{relax, shared};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

/// Runs a wait for a lock of this rank, and counts it.
#[cfg(not(loom))]
fn counted<R>(rank: Rank, wait: impl FnOnce() -> R) -> R {
    let start = crate::instructions::counter();
    let result = wait();
    super::waits::waited(rank, crate::instructions::counter().saturating_sub(start));
    result
}

/// Models have no clock.
#[cfg(loom)]
fn counted<R>(_rank: Rank, wait: impl FnOnce() -> R) -> R {
    wait()
}

/// The word of a lock: 1 while it is held.
#[derive(Debug)]
struct RawLock(AtomicU32);

impl RawLock {
    /// Takes the lock. `several`: others may hold it or wait for it.
    ///
    /// Panics if it is held while one virtual CPU is awake: a self-deadlock.
    #[inline(always)]
    fn acquire(&self, several: bool, rank: Rank) {
        if several {
            if self.0.swap(1, Acquire) != 0 {
                self.wait(rank);
            }
            return;
        }
        // With one virtual CPU plain instructions suffice; the next one is started after all of its stores are visible.
        assert!(self.0.load(Relaxed) == 0, "a lock was taken twice");
        self.0.store(1, Relaxed);
    }

    /// Takes the lock while several virtual CPUs are awake; stops waiting when `gives_up` returns true. Returns whether
    /// it was taken.
    #[inline(always)]
    fn acquire_unless(&self, rank: Rank, gives_up: impl Fn() -> bool) -> bool {
        (self.looks_free() && self.0.swap(1, Acquire) == 0) || self.wait_unless(rank, gives_up)
    }

    #[cold]
    fn wait(&self, rank: Rank) {
        self.wait_unless(rank, || false);
    }

    /// Returns whether the lock was taken.
    #[cold]
    fn wait_unless(&self, rank: Rank, gives_up: impl Fn() -> bool) -> bool {
        counted(rank, || {
            let mut round = 0;
            while !self.looks_free() || self.0.swap(1, Acquire) != 0 {
                if gives_up() {
                    return false;
                }
                relax(&mut round);
            }
            true
        })
    }

    /// A hint: waiters that only read share the cache line.
    fn looks_free(&self) -> bool {
        cfg!(loom) || self.0.load(Relaxed) == 0
    }

    #[inline(always)]
    fn release(&self) {
        if cfg!(loom) {
            // In C11 a waiter may miss a plain store for ever, and loom explores that; a swap has the same ordering.
            self.0.swap(0, Release);
        } else {
            self.0.store(0, Release);
        }
    }
}

/// A value that one virtual CPU at a time may use.
#[derive(Debug)]
pub struct SpinLock<T> {
    raw: RawLock,
    rank: Rank,
    value: UnsafeCell<T>,
}

// SAFETY: the value is accessible through a guard only, and the raw lock permits one at a time; so sharing the lock
// only moves the value between virtual CPUs.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// An unlocked value.
    #[cfg(not(loom))]
    pub const fn new(rank: Rank, value: T) -> Self {
        Self { raw: RawLock(AtomicU32::new(0)), rank, value: UnsafeCell::new(value) }
    }

    /// Locks the value until the guard is dropped.
    ///
    /// Panics if this virtual CPU holds the lock already and that is detectable: while it is the only one, and in
    /// builds with `lock-ranks`.
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_, T> {
        rank::taken(self.rank);
        self.raw.acquire(shared(), self.rank);
        Guard { lock: self, rank: self.rank }
    }

    /// Locks the value of a lock that is not waited for with another one of its rank held, while this virtual CPU holds such a
    /// one. `rank` is the rank that it counts as meanwhile.
    pub fn lock_as(&self, rank: Rank) -> Guard<'_, T> {
        rank::taken(rank);
        self.raw.acquire(shared(), rank);
        Guard { lock: self, rank }
    }

    /// Locks the value, as [`Self::lock`], while several virtual CPUs are awake; `None` if `gives_up` became true while
    /// another one held it.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn lock_unless(&self, gives_up: impl Fn() -> bool) -> Option<Guard<'_, T>> {
        rank::taken(self.rank);
        if self.raw.acquire_unless(self.rank, gives_up) {
            return Some(Guard { lock: self, rank: self.rank });
        }
        rank::released(self.rank);
        None
    }
}

/// Access to the value of a locked [`SpinLock`].
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a SpinLock<T>,
    /// The rank that it was taken with.
    rank: Rank,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, and a shared borrow of it excludes changes of the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one, and it is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.raw.release();
        rank::released(self.rank);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_guard_gives_the_value_and_the_lock_back() {
        let lock = SpinLock::new(Rank::Heap, 1);
        *lock.lock() += 1;
        assert_eq!(*lock.lock(), 2);
    }

    #[test]
    #[should_panic(expected = "taken twice")]
    fn the_only_virtual_cpu_does_not_wait_for_itself() {
        let lock = RawLock(AtomicU32::new(0));
        lock.acquire(false, Rank::Heap);
        lock.acquire(false, Rank::Heap);
    }
}

/// Models: `RUSTFLAGS="--cfg loom" cargo test -p keel-hal --features hosted --lib model`.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// Two virtual CPUs add to a value under the lock: no addition is lost, no access is concurrent.
    #[test]
    fn excludes() {
        loom::model(|| {
            let shared = Arc::new((RawLock(AtomicU32::new(0)), UnsafeCell::new(0)));
            let add = |shared: &(RawLock, UnsafeCell<u32>)| {
                shared.0.acquire(true, Rank::Heap);
                // SAFETY: under the lock; loom fails the model if another access is concurrent.
                shared.1.with_mut(|value| unsafe { *value += 1 });
                shared.0.release();
            };
            let other = {
                let shared = shared.clone();
                thread::spawn(move || add(&shared))
            };
            add(&shared);
            other.join().unwrap();
            // SAFETY: the other thread ended.
            assert_eq!(shared.1.with(|value| unsafe { *value }), 2);
        });
    }

    /// A waiter that gives up either has the lock or does not access the value: a model of two locks in opposite order,
    /// as the big lock's holder, which stops programs, and a call without the big lock.
    #[test]
    fn gives_up_or_excludes() {
        use loom::sync::atomic::AtomicBool;
        loom::model(|| {
            let shared = Arc::new((RawLock(AtomicU32::new(0)), UnsafeCell::new(0), AtomicBool::new(false)));
            let other = {
                let shared = shared.clone();
                thread::spawn(move || {
                    if !shared.0.acquire_unless(Rank::Heap, || shared.2.load(Acquire)) {
                        return 0;
                    }
                    // SAFETY: under the lock.
                    shared.1.with_mut(|value| unsafe { *value += 1 });
                    shared.0.release();
                    1
                })
            };
            shared.0.acquire(true, Rank::Heap);
            shared.2.store(true, Release);
            // SAFETY: under the lock.
            shared.1.with_mut(|value| unsafe { *value += 1 });
            shared.0.release();
            let added = other.join().unwrap();
            // SAFETY: the other thread ended.
            assert_eq!(shared.1.with(|value| unsafe { *value }), 1 + added);
        });
    }

    /// The first virtual CPU starts the second one while it holds a lock that it took without a locked instruction.
    #[test]
    fn a_lock_taken_alone_excludes_the_second() {
        loom::model(|| {
            let shared = Arc::new((RawLock(AtomicU32::new(0)), UnsafeCell::new(0)));
            shared.0.acquire(false, Rank::Heap);
            let other = {
                let shared = shared.clone();
                thread::spawn(move || {
                    shared.0.acquire(true, Rank::Heap);
                    // SAFETY: under the lock.
                    shared.1.with_mut(|value| unsafe { *value += 1 });
                    shared.0.release();
                })
            };
            // SAFETY: under the lock.
            shared.1.with_mut(|value| unsafe { *value += 1 });
            shared.0.release();
            other.join().unwrap();
            // SAFETY: the other thread ended.
            assert_eq!(shared.1.with(|value| unsafe { *value }), 2);
        });
    }
}
