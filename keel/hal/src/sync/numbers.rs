//! Small numbers of which the lowest free one is given away, with and without a lock.
//!
//! A set bit of one word says that a number is taken; beside it lies a *loan*, a word that is not 0, for numbers that
//! calls without the lock gave away. Who sets a bit by compare-and-swap has the number, which was the lowest free
//! one at that moment. Handlers, of which one at a time runs (they hold the big lock), have numbers without a loan.
//!
//! A number that is taken, that no handler has, and that has no loan is *in flight*: a call without the lock
//! is about to store the loan, or removed it and is about to free the number or to put the loan back. Such a call
//! waits for nothing in between. Handlers wait for it, so that none of them sees a number closed that is not free yet.

use super::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use super::atomic::{AtomicU16, AtomicU64};
use super::relax;

/// Numbers are below this.
pub const COUNT: usize = 63;
/// Bit of the word: calls without the lock get no number.
const CLOSED: u64 = 1 << COUNT;
/// Attempts of a call without the lock to get a number while others change the word.
const TRIES: u32 = 64;
/// Attempts of a handler before calls without the lock get no number until it is done.
const PATIENCE: u32 = 256;

/// Numbers, and the loans of those that calls without the lock have.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Numbers<const N: usize = COUNT> {
    taken: AtomicU64,
    loans: [AtomicU16; N],
}

impl<const N: usize> Numbers<N> {
    /// Numbers of which handlers have those in `used`.
    pub fn new(used: u64) -> Self {
        Self { taken: AtomicU64::new(used & !CLOSED), loans: core::array::from_fn(|_| AtomicU16::new(0)) }
    }

    fn word(&self, number: usize) -> Option<&AtomicU16> {
        self.loans.get(number)
    }

    /// The taken numbers, one bit each.
    #[inline(always)]
    pub fn taken(&self) -> u64 {
        self.taken.load(Acquire) & !CLOSED
    }

    /// The loan of a number; 0: none.
    #[inline(always)]
    pub fn loan(&self, number: usize) -> u16 {
        self.word(number).map_or(0, |word| word.load(Acquire))
    }

    /// Takes the lowest free number, which is in flight until it is [filled](Self::fill) or [freed](Self::free). `None`: none
    /// is free, or the numbers are closed, or others were faster again and again. Without the lock.
    #[inline]
    pub fn claim(&self) -> Option<usize> {
        let mut taken = self.taken.load(Relaxed);
        for _ in 0..TRIES {
            let lowest = taken.trailing_ones() as usize;
            if taken & CLOSED != 0 || lowest >= N {
                return None;
            }
            match self.taken.compare_exchange(taken, taken | 1 << lowest, AcqRel, Relaxed) {
                Ok(_) => return Some(lowest),
                Err(now) => taken = now,
            }
        }
        None
    }

    /// Stores the loan of a number in flight, by who has it.
    #[inline(always)]
    pub fn fill(&self, number: usize, loan: u16) {
        let Some(word) = self.word(number) else { return };
        if cfg!(loom) {
            // As in [`super::spin`]: a waiter may miss a plain store for ever there.
            word.swap(loan, Release);
        } else {
            word.store(loan, Release);
        }
    }

    /// Removes this loan of a number, which is in flight then. `false`: it has another one, or none. Without the lock.
    #[inline(always)]
    pub fn withdraw(&self, number: usize, loan: u16) -> bool {
        self.word(number).is_some_and(|word| word.compare_exchange(loan, 0, AcqRel, Relaxed).is_ok())
    }

    /// Frees a number that the caller has: a handler, or a call that has it in flight.
    #[inline(always)]
    pub fn free(&self, number: usize) {
        if number < N {
            self.taken.fetch_and(!(1 << number), AcqRel);
        }
    }

    /// Calls without the lock get no number any more. Handlers only.
    pub fn close(&self) {
        self.taken.fetch_or(CLOSED, AcqRel);
    }

    /// Runs `f` while calls without the lock get no number: they only give numbers back meanwhile.
    pub fn while_closed<R>(&self, f: impl FnOnce() -> R) -> R {
        let was_closed = self.taken.fetch_or(CLOSED, AcqRel) & CLOSED != 0;
        let result = f();
        if !was_closed {
            self.taken.fetch_and(!CLOSED, AcqRel);
        }
        result
    }

    /// Takes the lowest free number in a range. `None`: none is free. Handlers only.
    pub fn take_free(&self, from: usize, below: usize) -> Option<usize> {
        let below = below.min(N);
        let range = mask(below) & !mask(from);
        self.patiently(|| {
            let taken = self.taken.load(Relaxed);
            let free = !taken & range;
            if free == 0 {
                return Some(None);
            }
            let lowest = free.trailing_zeros() as usize;
            self.set(taken, lowest).then_some(Some(lowest))
        })
    }

    /// Takes a number that no handler has, if it is taken, together with its loan. Handlers only.
    pub fn take(&self, number: usize) -> Option<u16> {
        let word = self.word(number)?;
        self.patiently(
            || {
                if self.taken.load(Acquire) & 1 << number == 0 { Some(None) } else { take_loan(word).map(Some) }
            },
        )
    }

    /// Takes a number that no handler has, with its loan if it has one. Handlers only.
    pub fn seize(&self, number: usize) -> Option<u16> {
        let word = self.word(number)?;
        self.patiently(|| {
            let taken = self.taken.load(Acquire);
            if taken & 1 << number != 0 {
                return take_loan(word).map(Some);
            }
            self.set(taken, number).then_some(None)
        })
    }

    fn set(&self, taken: u64, number: usize) -> bool {
        self.taken.compare_exchange(taken, taken | 1 << number, AcqRel, Relaxed).is_ok()
    }

    /// Repeats an attempt of a handler. After a while the numbers are closed meanwhile: then the calls that are under way
    /// end, and no further one begins.
    #[inline]
    fn patiently<R>(&self, attempt: impl Fn() -> Option<R>) -> R {
        let (mut round, mut tries, mut reopen) = (0, 0, false);
        loop {
            if let Some(result) = attempt() {
                if reopen {
                    self.taken.fetch_and(!CLOSED, AcqRel);
                }
                return result;
            }
            tries += 1;
            if tries == PATIENCE {
                reopen = self.taken.fetch_or(CLOSED, AcqRel) & CLOSED == 0;
            }
            relax(&mut round);
        }
    }
}

/// Takes a loan, if there is one.
fn take_loan(word: &AtomicU16) -> Option<u16> {
    let loan = word.load(Relaxed);
    (loan != 0 && word.compare_exchange(loan, 0, AcqRel, Relaxed).is_ok()).then_some(loan)
}

/// The numbers below this one.
fn mask(below: usize) -> u64 {
    1u64.checked_shl(below as u32).map_or(u64::MAX, |bit| bit - 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn the_lowest_free_number_is_given_away() {
        let numbers: Numbers = Numbers::new(0b1011 | CLOSED);
        assert_eq!(numbers.claim(), Some(2));
        assert_eq!((numbers.loan(2), numbers.taken()), (0, 0b1111));
        numbers.fill(2, 7);
        assert_eq!((numbers.claim(), numbers.take_free(0, 64)), (Some(4), Some(5)));
        numbers.free(4);
        assert!(!numbers.withdraw(2, 8), "another loan");
        assert!(numbers.withdraw(2, 7) && !numbers.withdraw(2, 7));
        numbers.free(2);
        assert_eq!(numbers.take_free(3, 64), Some(4));
        assert_eq!(numbers.take_free(0, 2), None);
        assert_eq!(numbers.claim(), Some(2));
    }

    #[test]
    fn handlers_take_numbers_with_their_loans() {
        let numbers: Numbers = Numbers::new(0);
        assert_eq!(numbers.take(0), None, "it is free");
        assert_eq!(numbers.claim(), Some(0));
        numbers.fill(0, 9);
        assert_eq!(numbers.take(0), Some(9));
        assert_eq!((numbers.loan(0), numbers.taken()), (0, 1), "it is the handler's");
        assert_eq!((numbers.seize(1), numbers.taken()), (None, 0b11));
        assert_eq!(numbers.claim(), Some(2));
        numbers.fill(2, 4);
        assert_eq!((numbers.seize(2), numbers.taken()), (Some(4), 0b111));
        assert_eq!((numbers.take(COUNT), numbers.seize(COUNT), numbers.loan(COUNT)), (None, None, 0));
    }

    #[test]
    fn all_are_given_away_until_it_is_closed() {
        let numbers: Numbers = Numbers::new(0);
        for number in 0..COUNT - 1 {
            assert_eq!(numbers.claim(), Some(number));
        }
        numbers.close();
        assert_eq!(numbers.claim(), None);
        assert_eq!(numbers.take_free(0, usize::MAX), Some(COUNT - 1));
        assert_eq!(numbers.take_free(0, usize::MAX), None);
    }

    #[test]
    fn a_handler_waits_for_what_is_in_flight() {
        let numbers: Numbers = Numbers::new(0);
        assert_eq!(numbers.claim(), Some(0));
        std::thread::scope(|scope| {
            let handler = scope.spawn(|| numbers.take(0));
            while numbers.taken.load(Relaxed) & CLOSED == 0 {
                std::thread::yield_now();
            }
            numbers.fill(0, 5);
            assert_eq!(handler.join().unwrap(), Some(5));
        });
        assert_eq!(numbers.claim(), Some(1), "not closed any more");
    }
}

/// Models, see [`super::spin`].
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    type Few = Numbers<3>;

    fn beside<R: 'static>(
        numbers: &Arc<Few>,
        f: impl FnOnce(&Few) -> R + Send + 'static,
    ) -> loom::thread::JoinHandle<R> {
        let numbers = numbers.clone();
        thread::spawn(move || f(&numbers))
    }

    /// Two calls and a free number below: two numbers, the lowest.
    #[test]
    fn no_number_is_given_twice() {
        loom::model(|| {
            let numbers = Arc::new(Few::new(0));
            let other = beside(&numbers, Few::claim);
            let mine = numbers.claim().unwrap();
            let other = other.join().unwrap().unwrap();
            assert_eq!((mine.min(other), mine.max(other)), (0, 1));
        });
    }

    /// Either the call that closes has the loan, or the handler. What a handler finds closed is free.
    #[test]
    fn one_has_the_loan() {
        loom::model(|| {
            let numbers = Arc::new(Few::new(0));
            assert_eq!(numbers.claim(), Some(0));
            numbers.fill(0, 1);
            let other = beside(&numbers, |numbers| {
                let closes = numbers.withdraw(0, 1);
                if closes {
                    numbers.free(0);
                }
                closes
            });
            let found = numbers.take(0);
            if found.is_none() {
                assert_eq!(numbers.claim(), Some(0));
            }
            assert!(found.is_some() ^ other.join().unwrap());
        });
    }

    /// A call that closes puts the loan back: no handler finds the number closed.
    #[test]
    fn what_is_put_back_was_never_closed() {
        loom::model(|| {
            let numbers = Arc::new(Few::new(0));
            assert_eq!(numbers.claim(), Some(0));
            numbers.fill(0, 1);
            let other = beside(&numbers, |numbers| {
                if numbers.withdraw(0, 1) {
                    numbers.fill(0, 1);
                }
            });
            assert_eq!(numbers.take(0), Some(1));
            other.join().unwrap();
        });
    }

    /// After the numbers were closed and what was open was taken, nothing has a loan.
    #[test]
    fn nothing_is_lent_when_closed() {
        loom::model(|| {
            let numbers = Arc::new(Few::new(0));
            let other =
                beside(&numbers, |numbers| numbers.claim().inspect(|number| numbers.fill(*number, 1)).is_some());
            numbers.close();
            let taken = numbers.take(0);
            assert_eq!(taken.is_some(), other.join().unwrap());
            assert_eq!(numbers.loan(0), 0);
        });
    }

    /// A handler wants a number that a call takes at the same time: the call has another one, or what it opened is found.
    #[test]
    fn a_number_is_seized() {
        loom::model(|| {
            let numbers = Arc::new(Few::new(0));
            let other = beside(&numbers, |numbers| {
                let number = numbers.claim().unwrap();
                numbers.fill(number, 1);
                number
            });
            let found = numbers.seize(0);
            let other = other.join().unwrap();
            assert_eq!((found.is_some(), numbers.loan(0)), (other == 0, 0));
            assert!(other <= 1 && numbers.claim() == Some(if other == 0 { 1 } else { 2 }));
        });
    }
}
