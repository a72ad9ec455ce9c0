//! A sum that several virtual CPUs change.

use super::atomic::AtomicU32;
use super::atomic::Ordering::{Relaxed, SeqCst};
use super::several;

/// A sum that several virtual CPUs change. Loads after a change are ordered after it: a waiter that announces itself,
/// and reads the sum after a sequentially consistent fence, either is seen by the changer or sees the change.
#[derive(Debug)]
#[repr(transparent)]
pub struct Sum(AtomicU32);

#[cfg(not(loom))]
impl Default for Sum {
    fn default() -> Self {
        Self(AtomicU32::new(0))
    }
}

impl Sum {
    /// The current sum.
    #[inline(always)]
    pub fn get(&self) -> u32 {
        self.0.load(SeqCst)
    }

    /// Adds; the sum stays below 2^32.
    #[inline(always)]
    pub fn add(&self, n: u32) {
        self.change(n, several());
    }

    /// Subtracts an earlier addition.
    #[inline(always)]
    pub fn remove(&self, n: u32) {
        self.change(n.wrapping_neg(), several());
    }

    #[inline(always)]
    fn change(&self, n: u32, several: bool) {
        if several {
            self.0.fetch_add(n, SeqCst);
            if cfg!(loom) {
                // Loom supports sequential consistency for fences only.
                super::atomic::fence(SeqCst);
            }
        } else {
            self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn adds_and_removes_with_one_virtual_cpu_and_with_several() {
        for several in [false, true] {
            let sum = Sum::default();
            sum.change(5, several);
            sum.change(2u32.wrapping_neg(), several);
            assert_eq!(sum.get(), 3);
        }
    }
}

/// Models, see [`super::spin`].
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::fence;
    use loom::thread;

    /// One subtracts what the other waits for: the waiter sees that, or is seen.
    #[test]
    fn who_waits_is_seen_or_sees() {
        loom::model(|| {
            let shared = Arc::new((Sum(AtomicU32::new(1)), AtomicU32::new(0)));
            let other = {
                let shared = shared.clone();
                thread::spawn(move || {
                    shared.0.change(1u32.wrapping_neg(), true);
                    shared.1.load(Relaxed) == 1
                })
            };
            shared.1.store(1, Relaxed);
            fence(SeqCst);
            let sees = shared.0.get() == 0;
            assert!(other.join().unwrap() || sees, "a lost wake-up");
        });
    }
}
