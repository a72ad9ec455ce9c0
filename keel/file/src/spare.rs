//! Open file descriptions kept in spare, so that open(2) and close(2) need no lock.
//!
//! A handler that opened a regular file for reading by a [way](vfs::ways) makes a second description of it and keeps that
//! in a *place* of a table, which is found by the number of the way and the virtual CPU ([`keep`]). An open without the big
//! lock [claims a descriptor](Lent) and lends it the place's description ([`lend`]); a close
//! without the lock gives that back ([`give_back`]). Counted handles stay in the place meanwhile, which only handlers touch.
//!
//! A handler that looks for a lent descriptor moves the description into the table of descriptors, for good
//! ([`take`]): so descriptions that are duplicated, inherited, locked, mapped or polled are no spare ones any more.
//!
//! A thread may read by a descriptor that another thread closes, and the next open must not get its position moved by that.
//! The next open by the same place is on the same virtual CPU: so a call there is over before. A call on
//! another one that moves the position sees to it that the description is not lent again ([`use_elsewhere`]).

mod lent;

pub use lent::{DESCRIPTORS, Lent, Note};

use super::File;
use super::unlocked::Core;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use hal::cell::{Global, Padded};
use hal::percpu;
use hal::sync::grace::Published;
use hal::sync::loan::{Loan, Withdrawn};
use uapi::raw::general as g;

/// Places.
const PLACES: usize = 256;
/// Places from one way to the next: those of a few virtual CPUs do not meet.
const STRIDE: usize = 5;
/// Descriptions of a way that handlers took, one after the other, before no more are kept: they are closed by handlers.
const MOST_TAKEN: u8 = 8;

/// State of a place for calls without the big lock.
struct Place {
    /// Of the description, by the number of the way.
    loan: Loan,
    /// What those calls know of the description.
    core: Published<Core>,
    /// It was lent and given back since a handler looked.
    is_useful: AtomicU32,
    /// The virtual CPU that lends it.
    home: AtomicU32,
}

/// State of a place for handlers.
struct Kept {
    file: RefCell<Option<Rc<File>>>,
    /// The way that the place was last used for, and how often handlers took its description.
    taken: Cell<(u64, u8)>,
}

static PLACE: [Padded<Place>; PLACES] = [const {
    Padded::new(Place {
        loan: Loan::empty(),
        core: Published::empty(),
        is_useful: AtomicU32::new(0),
        home: AtomicU32::new(0),
    })
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

/// Whether a description seems to be there for a way. Without the big lock.
pub fn is_there(way: u64) -> bool {
    PLACE[place_of(way)].loan.is_free(way)
}

/// Lends the description that is kept for a way; gives its place. Without the big lock.
pub fn lend(way: u64) -> Option<usize> {
    let place = place_of(way);
    PLACE[place].loan.lend(way).then_some(place)
}

/// What calls without the big lock know of the description in a place.
pub fn core_of(place: usize) -> Option<&'static Published<Core>> {
    PLACE.get(place).map(|place| &place.core)
}

/// The caller, a call without the big lock, is about to move the position of a description that threads share. `false`: it is
/// not lent. The caller then looks whether it is still the one that its descriptor has.
#[inline]
pub fn use_elsewhere(place: usize) -> bool {
    let Some(place) = PLACE.get(place) else { return false };
    place.home.load(Acquire) as usize == percpu::cpu_index() || place.loan.make_last()
}

/// Ends the loan of a place by the only one who has it. `false`: a handler must [`take`] it. Without the big lock.
pub fn give_back(place: usize) -> bool {
    let Some(place) = PLACE.get(place) else { return false };
    let is_back = place.loan.give_back();
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
    lent.loan.keep();
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
    let loan = &PLACE[place].loan;
    let (last, taken) = KEPT[place].taken.get();
    !loan.is_lent() && !loan.is_free(way) && (last != way || taken < MOST_TAKEN) && !hal::frame::is_scarce()
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
    // Before the core: who sees that must not take the place for one of its own.
    place.home.store(percpu::cpu_index() as u32, Release);
    place.core.replace(Some(core.clone()));
    place.is_useful.store(0, Relaxed);
    INODES[index].set(inode);
    let none = kept.file.replace(Some(file));
    debug_assert!(none.is_none());
    place.loan.offer(way);
}

/// Drops what is kept at a place, unless it is lent: then it is not kept after that. Returns whether it is empty.
fn vacate(index: usize) -> bool {
    let (Some(place), Some(kept)) = (PLACE.get(index), KEPT.get(index)) else { return false };
    let found = place.loan.withdraw();
    if found == Withdrawn::Object {
        INODES[index].set(0);
        place.core.replace(None);
        let file = kept.file.take();
        file.into_iter().for_each(discard);
    }
    found != Withdrawn::Lent
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
