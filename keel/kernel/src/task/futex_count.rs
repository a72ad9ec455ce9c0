//! Counts of futex waiters, which tell wakers without the big lock whether there is anybody to wake.
//!
//! Who begins to wait counts itself and then looks at the word (again); who wakes has changed the word and then looks at
//! the count. So one of the two sees what the other did.

use super::futex::Key;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, fence};
use hal::cell::Padded;

const BUCKETS: usize = 256;

/// Waiters for words with `FUTEX_PRIVATE_FLAG`, by a part of the address.
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

/// `n` waiters more. What the caller loads afterwards is newer.
pub(super) fn add(key: Key, n: usize) {
    let count = count(key);
    count.store(count.load(Relaxed).wrapping_add(n as u32), Relaxed);
    if hal::sync::several() {
        fence(SeqCst);
    }
}

/// `n` waiters less.
pub(super) fn remove(key: Key, n: usize) {
    let count = count(key);
    count.store(count.load(Relaxed).wrapping_sub(n as u32), Relaxed);
}

/// Whether nobody waits for a word, or for one of those that it is counted with; under the big lock.
#[inline(always)]
pub(super) fn is_quiet(key: Key) -> bool {
    count(key).load(Relaxed) == 0
}

/// Whether nobody waits for the word at an address, in any address space. What the program stored before is visible to
/// whoever begins to wait now.
pub(super) fn nobody_waits(address: usize, is_private: bool) -> bool {
    fence(SeqCst);
    let count = if is_private { private(address) } else { &*OTHERS };
    count.load(Relaxed) == 0
}
