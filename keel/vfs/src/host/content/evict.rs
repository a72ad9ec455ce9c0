//! Eviction of a part of a file's cached pages.
//!
//! A hand goes round over the pages, as in the clock algorithm, and spares those that were used since it last came by. Of the
//! others it takes only an eighth in a round: a program that reads more than the cache holds, from beginning to end and again,
//! would find nothing of it if the oldest pages went first.

use super::Content;
use crate::host::Host;
use crate::pagemap::Unused;

/// Pages of a leaf, which are looked at together.
const LEAF: usize = 32;
/// One of so many leaves is chosen.
const CHOICE: u64 = 8;

/// Mixes the bits of a number.
const fn mixed(number: u64) -> u64 {
    let mixed = (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

impl Content {
    /// Drops about `wanted` pages, at least one if there are any. The work is bounded by that number, not by that of the pages.
    pub(in crate::host) fn evict(&self, host: &Host, wanted: usize) {
        self.withdraw();
        let mut dropped = 0;
        for unused in [Unused::Unmarked, Unused::Unshared, Unused::Any] {
            // What is mapped takes the same memory without the cache.
            if unused == Unused::Any && dropped > 0 {
                break;
            }
            let choice = if unused == Unused::Any { 1 } else { CHOICE };
            let mut leaves = (wanted / LEAF + 1) * choice as usize * 2;
            while leaves > 0 && dropped < wanted {
                leaves -= 1;
                let (mut pages, hand) = (self.pages.borrow_mut(), self.hand.get());
                let mut gone = 0;
                // A round chooses others than the one before.
                let is_chosen = mixed(hand ^ hal::clock::monotonic_ns()).is_multiple_of(choice);
                let next = pages.sweep(hand, unused, is_chosen, |_| gone += 1);
                self.hand.set(next.unwrap_or(0));
                dropped += gone;
                if pages.is_empty() {
                    leaves = 0;
                }
            }
        }
        host.cache.pages_dropped(dropped);
    }
}
