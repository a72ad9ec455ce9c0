//! A refcount.
#![allow(unsafe_code)]

use super::atomic::AtomicU32;
use super::atomic::Ordering::{Acquire, Relaxed, Release};
use super::atomic::fence;
use super::shared;

/// A refcount that several virtual CPUs change.
#[derive(Debug)]
#[repr(transparent)]
pub struct Count(AtomicU32);

impl Count {
    /// The current count; another virtual CPU may change it meanwhile, unless it is 1 and the caller owns that
    /// reference.
    #[inline(always)]
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Sets the count of an object without other users.
    #[inline(always)]
    pub fn set(&self, count: u32) {
        self.0.store(count, Relaxed);
    }

    /// Adds a reference. The caller has one, or excludes the release of the last one.
    #[inline(always)]
    pub fn add(&self) {
        self.add_with(shared());
    }

    /// Drops a reference; returns whether it was the last one. All accesses of others to the object happened before.
    #[inline(always)]
    #[must_use]
    pub fn remove(&self) -> bool {
        self.remove_with(shared())
    }

    #[inline(always)]
    fn add_with(&self, several: bool) {
        if several {
            self.0.fetch_add(1, Relaxed);
        } else {
            self.0.store(self.0.load(Relaxed) + 1, Relaxed);
        }
    }

    #[inline(always)]
    fn remove_with(&self, several: bool) -> bool {
        if several {
            let last = self.0.fetch_sub(1, Release) == 1;
            if last {
                fence(Acquire);
            }
            return last;
        }
        let left = self.0.load(Relaxed) - 1;
        self.0.store(left, Relaxed);
        left == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_reference_is_reported_with_one_virtual_cpu_and_with_several() {
        for several in [false, true] {
            let count = Count(AtomicU32::new(1));
            count.add_with(several);
            assert!(!count.remove_with(several));
            assert!(count.remove_with(several));
        }
    }
}

/// Models, see [`super::spin`].
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// Two holders write and drop: exactly one is the last, and its access is ordered after the other's.
    #[test]
    fn one_is_the_last() {
        loom::model(|| {
            let shared = Arc::new((Count(AtomicU32::new(2)), UnsafeCell::new([0, 0])));
            let release = |shared: &(Count, UnsafeCell<[u32; 2]>), index: usize| {
                // SAFETY: each writes a word of its own before it drops its reference.
                shared.1.with(|words| unsafe { words.cast::<u32>().cast_mut().add(index).write(1) });
                let last = shared.0.remove_with(true);
                if last {
                    // SAFETY: the last one has exclusive access; loom fails the model otherwise.
                    shared.1.with_mut(|words| assert_eq!(unsafe { *words }, [1, 1]));
                }
                last
            };
            let other = {
                let shared = shared.clone();
                thread::spawn(move || release(&shared, 0))
            };
            let mine = release(&shared, 1);
            assert!(mine ^ other.join().unwrap(), "both or none");
        });
    }
}
