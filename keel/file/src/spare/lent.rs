//! Descriptors of a table that calls without the big lock opened.

use alloc::sync::Arc;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use hal::sync::numbers::{self, Numbers};

/// Descriptors that may be lent are below this number.
pub const DESCRIPTORS: usize = numbers::COUNT;

const IS_NOTE: u16 = 1 << 15;
const CLOSE_ON_EXEC: u16 = 1 << 14;

/// What a lent descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where the description is.
    pub place: usize,
    /// The close-on-exec flag.
    pub close_on_exec: bool,
}

const _: () = assert!(super::PLACES <= CLOSE_ON_EXEC as usize);

impl Note {
    fn from_loan(loan: u16) -> Option<Self> {
        let place = usize::from(loan & !(IS_NOTE | CLOSE_ON_EXEC));
        (loan & IS_NOTE != 0).then_some(Self { place, close_on_exec: loan & CLOSE_ON_EXEC != 0 })
    }

    fn to_loan(self) -> u16 {
        let flag = if self.close_on_exec { CLOSE_ON_EXEC } else { 0 };
        IS_NOTE | flag | self.place as u16
    }
}

/// What a table of descriptors has lent. Threads that share the table claim and free descriptors without the big lock,
/// handlers with it; who takes a note out has the description.
#[derive(Debug)]
pub struct Lent {
    numbers: Numbers,
    is_shared: AtomicBool,
}

impl Lent {
    /// Nothing is lent; handlers have the descriptors in `used`.
    pub fn new(used: u64, is_shared: bool) -> Arc<Self> {
        Arc::new(Self { numbers: Numbers::new(used), is_shared: AtomicBool::new(is_shared) })
    }

    /// Runs `f` while no call without the lock opens a file.
    pub fn while_closed<R>(&self, f: impl FnOnce() -> R) -> R {
        self.numbers.while_closed(f)
    }

    /// Several threads may use the table from now on. By its only thread.
    pub fn share(&self) {
        self.is_shared.store(true, Relaxed);
    }

    /// Several threads may use the table.
    pub fn is_shared(&self) -> bool {
        self.is_shared.load(Relaxed)
    }

    /// Claims the lowest free descriptor, which the caller then gives a note, or [frees](Self::free). Waiting for nothing
    /// in between: handlers may wait for it. Without the big lock.
    pub fn claim(&self) -> Option<usize> {
        self.numbers.claim()
    }

    /// Gives a claimed descriptor its note, or one back that was removed.
    pub fn add(&self, fd: usize, note: Note) {
        self.numbers.fill(fd, note.to_loan());
    }

    /// The note of a descriptor.
    #[inline(always)]
    pub fn note(&self, fd: usize) -> Option<Note> {
        Note::from_loan(self.numbers.loan(fd))
    }

    /// Takes a note out; the caller frees the descriptor, or puts the note back, waiting for nothing in between. `false`: that
    /// is not the descriptor's note any more. Without the big lock.
    pub fn remove(&self, fd: usize, note: Note) -> bool {
        self.numbers.withdraw(fd, note.to_loan())
    }

    /// A descriptor that the caller removed, claimed or took is free.
    pub fn free(&self, fd: usize) {
        self.numbers.free(fd);
    }

    /// Descriptors that are not free, one bit each.
    #[inline(always)]
    pub fn taken(&self) -> u64 {
        self.numbers.taken()
    }

    /// No further descriptor is lent. Under the big lock.
    pub fn close(&self) {
        self.numbers.close();
    }

    /// Takes the lowest free descriptor in a range for a handler, under the big lock.
    pub fn take_free(&self, from: usize, below: usize) -> Option<usize> {
        self.numbers.take_free(from, below)
    }

    /// Takes a descriptor, which no handler has, and its note, if it is open. Under the big lock.
    pub fn take(&self, fd: usize) -> Option<Note> {
        self.numbers.take(fd).and_then(Note::from_loan)
    }

    /// Takes a descriptor, which no handler has, and its note, if it is open. Under the big lock.
    pub fn seize(&self, fd: usize) -> Option<Note> {
        self.numbers.seize(fd).and_then(Note::from_loan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_say_which_descriptors_are_lent() {
        let lent = Lent::new(0b1011, false);
        assert_eq!(lent.claim(), Some(2));
        assert_eq!((lent.note(2), lent.taken()), (None, 0b1111));
        let note = Note { place: 255, close_on_exec: true };
        lent.add(2, note);
        assert_eq!((lent.note(2), lent.claim()), (Some(note), Some(4)));
        lent.free(4);
        assert!(!lent.remove(2, Note { close_on_exec: false, ..note }) && lent.remove(2, note));
        assert!(!lent.remove(2, note), "one has it");
        lent.free(2);
        assert_eq!((lent.claim(), lent.take_free(0, 64)), (Some(2), Some(4)));
        let note = Note { place: 0, close_on_exec: false };
        lent.add(2, note);
        assert_eq!((lent.take(2), lent.note(2), lent.taken()), (Some(note), None, 0b11111));
        assert!(!lent.is_shared());
        lent.share();
        assert!(lent.is_shared());
    }
}
