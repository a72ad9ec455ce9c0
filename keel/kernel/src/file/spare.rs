//! Open file descriptions kept in spare, so that open(2) and close(2) need no lock.
//!
//! A handler that opened a regular file for reading by a [way](vfs::ways) makes a second description of it and keeps that
//! in a *place* of a table, which is found by the number of the way and the virtual CPU ([`keep`]). An open without the big
//! lock changes the place from free to lent ([`lend`]) and notes the number of a descriptor with it ([`Lent`]); a close
//! without the lock changes it back ([`give_back`]). Counted handles stay in the table meanwhile, which only handlers touch.
//!
//! A handler that looks for a lent descriptor moves the description into the table of descriptors, for good
//! ([`take`]): so descriptions that are duplicated, inherited, locked, mapped or polled are no spare ones any more.
//!
//! A table of descriptors that several threads use gets none: one thread may read by a descriptor that another closes.

use super::File;
use super::unlocked::Core;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};
use hal::cell::{Global, Padded};
use hal::percpu;
use hal::sync::grace::Published;
use uapi::raw::general as g;

/// Places.
const PLACES: usize = 256;
/// Places from one way to the next: those of a few virtual CPUs do not meet.
const STRIDE: usize = 5;
/// Descriptions of a way that handlers took, one after the other, before no more are kept: they are closed by handlers.
const MOST_TAKEN: u8 = 8;

/// Nothing is kept.
const EMPTY: u64 = 0;
const FREE: u64 = 1;
const LENT: u64 = 2;
/// Lent, and not to be kept any longer: a handler closes it.
const DOOMED: u64 = 3;
const STATE_BITS: u32 = 2;

/// State of a place for calls without the big lock.
struct Place {
    /// Number of the way, and the state.
    word: AtomicU64,
    /// What those calls know of the description.
    core: Published<Core>,
    /// It was lent and given back since a handler looked.
    is_useful: AtomicU32,
}

/// State of a place for handlers.
struct Kept {
    file: RefCell<Option<Rc<File>>>,
    /// The way that the place was last used for, and how often handlers took its description.
    taken: Cell<(u64, u8)>,
}

static PLACE: [Padded<Place>; PLACES] = [const {
    Padded::new(Place { word: AtomicU64::new(EMPTY), core: Published::empty(), is_useful: AtomicU32::new(0) })
}; PLACES];
static KEPT: Global<[Kept; PLACES]> =
    Global::new([const { Kept { file: RefCell::new(None), taken: Cell::new((0, 0)) } }; PLACES]);
/// [`vfs::Inode::stamp_address`] of what is kept at each place; 0: nothing.
static INODES: Global<[Cell<usize>; PLACES]> = Global::new([const { Cell::new(0) }; PLACES]);
/// [`vfs::ways::generation`] when a description was last kept.
static GENERATION: Global<Cell<u64>> = Global::new(Cell::new(0));

fn place_of(way: u64) -> usize {
    (way as usize).wrapping_mul(STRIDE).wrapping_add(percpu::cpu_index()) % PLACES
}

const fn word(way: u64, state: u64) -> u64 {
    way << STATE_BITS | state
}

/// Lends the description that is kept for a way; gives its place. Without the big lock.
pub fn lend(way: u64) -> Option<usize> {
    let place = place_of(way);
    let free = &PLACE[place].word;
    (free.load(Relaxed) == word(way, FREE)
        && free.compare_exchange(word(way, FREE), word(way, LENT), AcqRel, Relaxed).is_ok())
    .then_some(place)
}

/// What calls without the big lock know of a description that is lent to the caller.
pub fn core_of(place: usize) -> Option<&'static Published<Core>> {
    PLACE.get(place).map(|place| &place.core)
}

/// Ends the loan of a place by the only one who has it. `false`: a handler must [`take`] it. Without the big lock.
pub fn give_back(place: usize) -> bool {
    let Some(place) = PLACE.get(place) else { return false };
    let lent = place.word.load(Relaxed);
    let is_back =
        lent & DOOMED == LENT && place.word.compare_exchange(lent, lent ^ LENT ^ FREE, AcqRel, Relaxed).is_ok();
    if is_back && place.is_useful.load(Relaxed) == 0 {
        place.is_useful.store(1, Relaxed);
    }
    is_back
}

/// Takes the description of a place that is lent to the caller. Under the big lock.
pub fn take(place: usize) -> Option<Rc<File>> {
    let (lent, kept) = (PLACE.get(place)?, KEPT.get(place)?);
    let (way, taken) = kept.taken.get();
    let taken = if lent.is_useful.swap(0, Relaxed) != 0 { 0 } else { taken };
    kept.taken.set((way, taken.saturating_add(1)));
    INODES[place].set(0);
    let file = kept.file.take();
    lent.word.store(EMPTY, Release);
    file
}

/// Whether a description for this way should be made and kept. Under the big lock.
pub fn is_wanted(way: u64) -> bool {
    let generation = vfs::ways::generation();
    if GENERATION.replace(generation) != generation {
        // What is kept may be beneath what was unmounted.
        release_all();
    }
    let place = place_of(way);
    let state = PLACE[place].word.load(Relaxed);
    let (last, taken) = KEPT[place].taken.get();
    state & LENT == 0 && state != word(way, FREE) && (last != way || taken < MOST_TAKEN) && !hal::frame::is_scarce()
}

/// Keeps a description, which has no descriptor, for the next open by this way. Under the big lock.
pub fn keep(way: u64, file: Rc<File>, inode: usize) {
    let index = place_of(way);
    let (Some(place), Some(kept), Some(core)) = (PLACE.get(index), KEPT.get(index), file.unlocked.get()) else {
        return discard(file);
    };
    if !vacate(index) {
        return discard(file);
    }
    if kept.taken.get().0 != way {
        kept.taken.set((way, 0));
    }
    place.core.replace(Some(core.clone()));
    place.is_useful.store(0, Relaxed);
    INODES[index].set(inode);
    let none = kept.file.replace(Some(file));
    debug_assert!(none.is_none());
    place.word.store(word(way, FREE), Release);
}

/// Drops what is kept at a place, unless it is lent: then it is not kept after that. Returns whether it is empty.
fn vacate(index: usize) -> bool {
    let (Some(place), Some(kept)) = (PLACE.get(index), KEPT.get(index)) else { return false };
    loop {
        let now = place.word.load(Acquire);
        let (next, is_empty) = match now & DOOMED {
            EMPTY => return true,
            FREE => (EMPTY, true),
            LENT => (now | DOOMED, false),
            _ => return false,
        };
        if place.word.compare_exchange(now, next, AcqRel, Relaxed).is_err() {
            continue;
        }
        if is_empty {
            INODES[index].set(0);
            place.core.replace(None);
            let file = kept.file.take();
            file.into_iter().for_each(discard);
        }
        return is_empty;
    }
}

/// Drops a description that no program had open: that is no event.
fn discard(file: Rc<File>) {
    file.flags.set(file.flags.get() | g::O_PATH);
}

/// [`vfs::spare::on_release`]: a name of this file is about to be removed.
pub fn release(inode: usize) {
    for (index, kept) in INODES.iter().enumerate() {
        if kept.get() == inode {
            vacate(index);
        }
    }
}

/// Drops all that is kept and not lent: something is unmounted, or memory is short.
pub fn release_all() {
    for (index, kept) in INODES.iter().enumerate() {
        if kept.get() != 0 {
            vacate(index);
        }
    }
}

/// Descriptors that may be lent are below this number.
pub const DESCRIPTORS: usize = 64;
/// Descriptors of a process that may be lent at a time.
const NOTES: usize = 8;

const IS_NOTE: u32 = 1 << 31;
const CLOSE_ON_EXEC: u32 = 1 << 30;
const PLACE_SHIFT: u32 = 8;

/// A lent description and its descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Note {
    /// The descriptor.
    pub fd: usize,
    /// Where the description is.
    pub place: usize,
    /// Its close-on-exec flag.
    pub close_on_exec: bool,
}

impl Note {
    fn from_word(word: u32) -> Option<Self> {
        let (fd, place) = ((word & 0xff) as usize, ((word & !CLOSE_ON_EXEC & !IS_NOTE) >> PLACE_SHIFT) as usize);
        (word & IS_NOTE != 0).then_some(Self { fd, place, close_on_exec: word & CLOSE_ON_EXEC != 0 })
    }

    fn to_word(self) -> u32 {
        let flag = if self.close_on_exec { CLOSE_ON_EXEC } else { 0 };
        IS_NOTE | flag | (self.place as u32) << PLACE_SHIFT | self.fd as u32
    }
}

/// What a table of descriptors has lent. Its only thread adds and removes notes without the big lock; who takes a note out
/// has the description.
#[derive(Debug)]
pub struct Lent {
    /// Descriptors that handlers have given away, or that the table has no room for.
    used: AtomicU64,
    /// Descriptors that are lent.
    lent: AtomicU64,
    notes: [AtomicU32; NOTES],
}

impl Lent {
    /// Nothing is lent, and nothing can be before [`Self::set_used`].
    pub fn new() -> Arc<Self> {
        let notes = [const { AtomicU32::new(0) }; NOTES];
        Arc::new(Self { used: AtomicU64::new(u64::MAX), lent: AtomicU64::new(0), notes })
    }

    /// Descriptors that are lent, one bit each.
    #[inline(always)]
    pub fn mask(&self) -> u64 {
        self.lent.load(Acquire)
    }

    /// Sets the descriptors below [`DESCRIPTORS`] that can't be lent. Under the big lock.
    pub fn set_used(&self, used: u64) {
        self.used.store(used, Release);
    }

    /// The lowest free descriptor, and a free note. The table's thread, without the big lock.
    pub fn find_free(&self) -> Option<(usize, usize)> {
        // In this order: what a handler took is used before it is no longer lent.
        let taken = self.lent.load(Acquire) | self.used.load(Acquire);
        let fd = taken.trailing_ones() as usize;
        let note = self.notes.iter().position(|note| note.load(Relaxed) == 0)?;
        (fd < DESCRIPTORS).then_some((fd, note))
    }

    /// Notes a description that was [lent](lend) for a descriptor and a note that are [free](Self::find_free).
    pub fn add(&self, index: usize, note: Note) {
        if let Some(word) = self.notes.get(index) {
            word.store(note.to_word(), Release);
            self.lent.fetch_or(1 << note.fd, AcqRel);
        }
    }

    /// Takes the note of a descriptor out, with its index. The descriptor is still in use: see [`Self::removed`].
    pub fn remove(&self, fd: usize) -> Option<(usize, Note)> {
        self.notes.iter().enumerate().find_map(|(index, word)| {
            let now = word.load(Relaxed);
            let note = Note::from_word(now).filter(|note| note.fd == fd)?;
            word.compare_exchange(now, 0, AcqRel, Relaxed).ok().map(|_| (index, note))
        })
    }

    /// A removed note's descriptor is free.
    pub fn removed(&self, fd: usize) {
        self.lent.fetch_and(!(1 << fd), AcqRel);
    }

    /// Takes any note out. Under the big lock.
    pub fn take(&self) -> Option<Note> {
        self.notes.iter().find_map(|word| Note::from_word(word.swap(0, AcqRel)))
    }

    /// A taken note's descriptor is in the table now. Under the big lock.
    pub fn taken(&self, fd: usize) {
        self.used.fetch_or(1 << fd, AcqRel);
        self.removed(fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_say_which_descriptors_are_lent() {
        let lent = Lent::new();
        assert_eq!(lent.find_free(), None, "nothing is lent before a handler said what is used");
        lent.set_used(0b1011);
        assert_eq!(lent.find_free(), Some((2, 0)));
        lent.add(0, Note { fd: 2, place: 255, close_on_exec: true });
        assert_eq!((lent.mask(), lent.find_free()), (0b100, Some((4, 1))));
        lent.add(1, Note { fd: 4, place: 0, close_on_exec: false });
        let (index, note) = lent.remove(2).unwrap();
        assert_eq!((index, note.place, note.close_on_exec), (0, 255, true));
        assert!(lent.remove(2).is_none(), "one has it");
        assert_eq!(lent.find_free(), Some((5, 0)), "in use until it is removed");
        lent.removed(2);
        assert_eq!(lent.find_free(), Some((2, 0)));
        let note = lent.take().unwrap();
        assert_eq!((note.fd, note.place, note.close_on_exec), (4, 0, false));
        lent.taken(4);
        assert_eq!((lent.mask(), lent.find_free()), (0, Some((2, 0))));
        assert!(lent.take().is_none());
    }

    #[test]
    fn only_so_many_descriptors_are_lent() {
        let lent = Lent::new();
        lent.set_used(0);
        for fd in 0..NOTES {
            assert_eq!(lent.find_free(), Some((fd, fd)));
            lent.add(fd, Note { fd, place: fd, close_on_exec: false });
        }
        assert_eq!(lent.find_free(), None);
    }
}
