//! Counts of futex waiters, so that a waker without the big lock can check whether there is a waiter.
//!
//! A waiter increments the count and then reads the word (again); a waker changes the word and then reads the count. So
//! at least one of them sees the other's store.

use super::futex::Key;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, fence};
use hal::cell::Padded;

const BUCKETS: usize = 256;

/// Waiters for words with `FUTEX_PRIVATE_FLAG`, hashed by address.
static PRIVATE: [Padded<AtomicU32>; BUCKETS] = [const { Padded::new(AtomicU32::new(0)) }; BUCKETS];
/// All others.
static OTHERS: Padded<AtomicU32> = Padded::new(AtomicU32::new(0));

fn private(address: usize) -> &'static AtomicU32 {
    let mixed = (address as u64 >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &PRIVATE[(mixed >> 56) as usize % BUCKETS]
}

fn count(key: Key) -> &'static AtomicU32 {
    match key {
        Key::Private(_, address) => private(address),
        Key::Own(..) | Key::Shared(..) => &OTHERS,
    }
}

/// Adds `n` waiters. Later loads by the caller are ordered after this.
pub(super) fn add(key: Key, n: usize) {
    let count = count(key);
    count.store(count.load(Relaxed).wrapping_add(n as u32), Relaxed);
    if hal::sync::several() {
        fence(SeqCst);
    }
}

/// Subtracts `n` waiters.
pub(super) fn remove(key: Key, n: usize) {
    let count = count(key);
    count.store(count.load(Relaxed).wrapping_sub(n as u32), Relaxed);
}

/// Whether there are no waiters in the word's bucket; under the big lock.
#[inline(always)]
pub(super) fn is_quiet(key: Key) -> bool {
    count(key).load(Relaxed) == 0
}

/// Whether there are no waiters with `FUTEX_PRIVATE_FLAG` in the bucket of the word at an address, in any address space.
/// Earlier stores of the program are visible to threads that begin to wait after this.
pub(super) fn nobody_waits(address: usize) -> bool {
    fence(SeqCst);
    private(address).load(Relaxed) == 0
}
