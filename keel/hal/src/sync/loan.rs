//! An object that is lent to one user at a time, without a lock.
//!
//! Its word has the id that the object is known by, and a state. One virtual CPU, the *home*, lends it; any may give it
//! back. Users on the home are done with it before it is lent again, since a call without the lock runs to its end there. A
//! user on another virtual CPU first makes the loan the [last one](Loan::make_last), and looks afterwards whether it
//! is still the one that it looked for.

use super::atomic::AtomicU64;
use super::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// There is no object.
const EMPTY: u64 = 0;
const FREE: u64 = 1;
const LENT: u64 = 2;
/// Lent, and not to be lent again.
const LAST: u64 = 3;
const STATE_BITS: u32 = 2;
const STATE: u64 = (1 << STATE_BITS) - 1;

/// The word of an object.
#[derive(Debug)]
pub struct Loan(AtomicU64);

/// What [`Loan::withdraw`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawn {
    /// There was no object.
    Nothing,
    /// It was free, and the caller has it now.
    Object,
    /// It is lent, for the last time.
    Lent,
}

impl Loan {
    /// Without an object.
    #[cfg(not(loom))]
    pub const fn empty() -> Self {
        Self(AtomicU64::new(EMPTY))
    }

    fn state(&self) -> u64 {
        self.0.load(Relaxed) & STATE
    }

    /// Whether an object with this id seems to be free.
    #[inline(always)]
    pub fn is_free(&self, id: u64) -> bool {
        self.0.load(Relaxed) == id << STATE_BITS | FREE
    }

    /// Whether an object is lent.
    pub fn is_lent(&self) -> bool {
        self.state() & LENT != 0
    }

    /// Lends the object, if it has this id. On its home.
    #[inline(always)]
    pub fn lend(&self, id: u64) -> bool {
        let id = id << STATE_BITS;
        self.0.compare_exchange(id | FREE, id | LENT, AcqRel, Relaxed).is_ok()
    }

    /// Ends the loan, by the one who has it. `false`: it was the last one, and the caller still has it.
    #[inline(always)]
    pub fn give_back(&self) -> bool {
        let lent = self.0.load(Relaxed);
        lent & STATE == LENT && self.0.compare_exchange(lent, lent ^ LENT ^ FREE, AcqRel, Relaxed).is_ok()
    }

    /// The present loan, if there is one, is the last one. `false`: there is none.
    #[inline]
    pub fn make_last(&self) -> bool {
        let mut now = self.0.load(Acquire);
        while now & STATE == LENT {
            match self.0.compare_exchange(now, now | LAST, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(changed) => now = changed,
            }
        }
        now & STATE == LAST
    }

    /// Takes the object if it is free; otherwise the loan is the last one. Who takes and offers holds the big lock.
    pub fn withdraw(&self) -> Withdrawn {
        loop {
            let now = self.0.load(Acquire);
            let (next, found) = match now & STATE {
                EMPTY => return Withdrawn::Nothing,
                FREE => (EMPTY, Withdrawn::Object),
                LENT => (now | LAST, Withdrawn::Lent),
                _ => return Withdrawn::Lent,
            };
            if self.0.compare_exchange(now, next, AcqRel, Relaxed).is_ok() {
                return found;
            }
        }
    }

    /// The object that is lent to the caller is his for good.
    pub fn keep(&self) {
        self.0.store(EMPTY, Release);
    }

    /// Offers an object, where there is none. On its home.
    pub fn offer(&self, id: u64) {
        self.0.store(id << STATE_BITS | FREE, Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_lent_to_one() {
        let loan = Loan::empty();
        assert!(!loan.lend(0) && !loan.make_last() && !loan.give_back());
        assert_eq!(loan.withdraw(), Withdrawn::Nothing);
        loan.offer(7);
        assert!(loan.is_free(7) && !loan.is_free(6) && !loan.lend(6) && !loan.make_last());
        assert!(loan.lend(7) && loan.is_lent() && !loan.lend(7));
        assert!(loan.give_back() && !loan.give_back() && !loan.is_lent());
        assert_eq!(loan.withdraw(), Withdrawn::Object);
        assert_eq!(loan.withdraw(), Withdrawn::Nothing);
    }

    #[test]
    fn a_last_loan_is_not_given_back() {
        for withdraws in [false, true] {
            let loan = Loan::empty();
            loan.offer(7);
            assert!(loan.lend(7));
            if withdraws {
                assert_eq!(loan.withdraw(), Withdrawn::Lent);
            }
            assert!(loan.make_last());
            assert_eq!(loan.withdraw(), Withdrawn::Lent);
            assert!(loan.make_last() && loan.is_lent() && !loan.give_back());
            loan.keep();
            assert!(!loan.is_lent());
        }
    }
}

/// Models, see [`super::spin`].
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::numbers::Numbers;
    use loom::sync::Arc;
    use loom::thread;

    /// A number leads to an object. One closes it and opens the object again, with another number's loan; another, elsewhere,
    /// uses the object by the first: it never uses the second opening.
    #[test]
    fn a_user_elsewhere_does_not_use_the_next_loan() {
        loom::model(|| {
            let numbers: Numbers<1> = Numbers::new(1);
            numbers.fill(0, 1);
            let shared = Arc::new((numbers, Loan(AtomicU64::new(7 << STATE_BITS | LENT)), AtomicU64::new(0)));
            let other = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (numbers, loan, position) = &*shared;
                    if numbers.loan(0) == 1 && loan.make_last() && numbers.loan(0) == 1 {
                        let at = position.load(Acquire);
                        let _ = position.compare_exchange(at, at + 1, AcqRel, Relaxed);
                    }
                })
            };
            let (numbers, loan, position) = &*shared;
            assert!(numbers.withdraw(0, 1));
            let again = loan.give_back() && loan.lend(7);
            if again {
                position.store(0, Release);
                numbers.fill(0, 2);
            }
            other.join().unwrap();
            if again {
                assert_eq!(position.load(Relaxed), 0);
            }
        });
    }
}
