//! Ordering of the host's answers: which may update the cache.
//!
//! Several virtual CPUs have requests under way, and their answers are taken in any order. One rule keeps what is known
//! from going back: the moment before a request is sent is noted ([`Asked`]), changes that the pod made are counted when
//! they are done, and each file and each name keeps the count of its last one. *An answer that was asked for before the
//! last change of a file or of a name says nothing about it*: whoever asked may use it, as both were under way at the same
//! time, but it is not remembered. Nor is an answer that was asked for before the one that is known. The outcome of a
//! change itself is remembered unless another one was done since it was asked for: of two that were under way at the same
//! time nobody knows which was the last, so the next use asks.
//!
//! Pages of content follow the same rule with a count of their own, `Content::epoch`.

use super::{Host, Key, now};
use alloc::collections::{BTreeMap, VecDeque};

/// Files that were changed and dropped, of which an export keeps the counts.
const MAX_RECENT: usize = 512;

/// The moment before a request was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    /// Monotonic ns; 0: never.
    pub(super) at: u64,
    /// Changes of the pod that were done.
    pub(super) changes: u64,
}

impl Host {
    /// Now, before a request.
    pub(super) fn ask(&self) -> Asked {
        Asked { at: now(), changes: self.changes.get() }
    }

    /// A change of the pod is done: its number.
    pub(super) fn count_change(&self) -> u64 {
        self.changes.set(self.changes.get() + 1);
        self.changes.get()
    }
}

/// The last changes of files that are not cached any more: a pending answer may still concern them.
#[derive(Default)]
pub(super) struct Recent {
    by_key: BTreeMap<Key, u64>,
    order: VecDeque<(Key, u64)>,
    /// The last change of those that are no longer kept.
    forgotten: u64,
}

impl Recent {
    /// A file was dropped whose last change was `changed`.
    pub(super) fn add(&mut self, key: Key, changed: u64) {
        if self.order.try_reserve(1).is_err() {
            self.forgotten = self.forgotten.max(changed);
            return;
        }
        self.by_key.insert(key, changed);
        self.order.push_back((key, changed));
        if self.order.len() > MAX_RECENT
            && let Some((key, changed)) = self.order.pop_front()
        {
            self.forgotten = self.forgotten.max(changed);
            if self.by_key.get(&key) == Some(&changed) {
                self.by_key.remove(&key);
            }
        }
    }

    /// The last change of a file that is not cached, or a later one.
    pub(super) fn last_change(&self, key: &Key) -> u64 {
        self.by_key.get(key).copied().unwrap_or_default().max(self.forgotten)
    }
}
