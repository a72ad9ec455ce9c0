//! The buddy allocator of the virtual machine's memory, and the reference counts of its frames.
//!
//! The monitor reserves a table entry for each page that RAM may ever have; RAM itself is added in
//! slots when the allocator runs dry. Once several virtual CPUs are awake each keeps some single frames of its own, which it
//! takes and gives without the lock.
#![allow(unsafe_code)]

mod unused;

pub use unused::{KEPT_PIECES, Unused, least_unused, take_unused, unused};

use crate::cell::Global;
use crate::direct_map;
use crate::frame::FRAME_SIZE;
use crate::percpu;
use crate::sync::{Count, Rank, SpinLock, several};
use abi::layout::{BOOT_INFO, KEEL_IMAGE, MAX_CPUS, PERCPU_BASE, PERCPU_STRIDE, RING, SMALL_RAM};
use abi::request::GrowRam;
use core::cell::Cell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// Largest block: 2^14 frames, 64 MiB.
pub(crate) const MAX_ORDER: usize = 14;
/// Order of the blocks behind large pages: 2 MiB.
pub(crate) const LARGE_ORDER: usize = 9;
/// Frames that what programs make any number of leaves: a 64th of the limit, at least 2 MiB. Programs' pages and page
/// tables leave half of them to keel's own heap, so that a program whose calls fail still has its stack and its data; and
/// when three quarters of them are used, a process has to end (`keel/kernel/src/syscall/memory.rs`).
const RESERVE_SHARE: u32 = 64;
const RESERVE_LEAST: u32 = 512;
/// Of less RAM than 16 MiB the reserve is at most this share.
const RESERVE_MOST: u32 = 8;
/// The same of less than 8 MiB: what is left must hold a small program.
const RESERVE_SMALLEST: u32 = 12;
const NONE: u32 = u32::MAX;
/// State of a frame that isn't the head of a free block.
const STATE_USED: u32 = 0xff;
/// Flag beside the state of the first frame of 2 MiB: something there was handed out since the host
/// added it, so it is no longer known to be zero.
const TOUCHED: u32 = 0x100;

/// Flag beside [`TOUCHED`]: the smaller free blocks there are for what keel needs.
const KEELS: u32 = 0x200;
/// Blocks below 2 MiB for programs and blocks for keel come from different pieces of 2 MiB once so many frames are in use:
/// what keel keeps for long must not hold what programs give back in bulk.
const FEW: u32 = 16 << 20 >> FRAME_SIZE.trailing_zeros();

/// Who a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Pages of programs and of files.
    Program = 0,
    /// The heap, page tables, stacks.
    Keel = 1,
}

/// Table entry of a RAM frame.
#[repr(C)]
struct Meta {
    /// References; 0 while free or owned by the heap.
    refs: Count,
    /// Order of the free block that starts here, or [`STATE_USED`]; and [`TOUCHED`], [`KEELS`]. As what follows, it is used
    /// under the allocator's lock only; but `KEELS` of a piece is looked at, and does not change, while a frame there is in use.
    state: AtomicU32,
    next: Cell<u32>,
    prev: Cell<u32>,
}

impl Meta {
    fn state(&self) -> u32 {
        self.state.load(Relaxed) & !(TOUCHED | KEELS)
    }

    fn set_state(&self, state: u32) {
        self.state.store(self.state.load(Relaxed) & (TOUCHED | KEELS) | state, Relaxed);
    }
}

/// Where the tables of counts are: set at boot, read-only after.
struct Tables {
    frames: Cell<usize>,
    window: Cell<usize>,
    window_pages: Cell<usize>,
    /// Pages that RAM may have.
    limit: Cell<u32>,
    /// Frames that are left when memory is scarce.
    scarce: Cell<u32>,
}

static TABLES: Global<Tables> = Global::new(Tables {
    frames: Cell::new(0),
    window: Cell::new(0),
    window_pages: Cell::new(0),
    limit: Cell::new(0),
    scarce: Cell::new(0),
});

fn meta(index: u32) -> &'static Meta {
    // SAFETY: the monitor reserved a zeroed entry for each page below the limit; indices come
    // from the allocator itself.
    unsafe { &*((TABLES.frames.get() + index as usize * size_of::<Meta>()) as *const Meta) }
}

/// The references of a RAM frame, by guest-physical address; one of the heap's is 0 when it is given back.
pub(crate) fn refs(gpa: u64) -> &'static Count {
    &meta((gpa / FRAME_SIZE as u64) as u32).refs
}

/// The references of a page of the window.
pub(crate) fn window_refs(index: usize) -> &'static Count {
    // SAFETY: as for `meta`; window frames are made only for pages that the window has.
    unsafe { &*((TABLES.window.get() + index * size_of::<Count>()) as *const Count) }
}

/// Pages that the window may have.
pub(crate) fn window_pages() -> usize {
    TABLES.window_pages.get()
}

/// Who the smaller blocks of the 2 MiB that a frame lies in are for.
fn use_of(index: u32) -> Use {
    let state = &meta(index >> LARGE_ORDER << LARGE_ORDER).state;
    if state.load(Relaxed) & KEELS == 0 { Use::Program } else { Use::Keel }
}

/// How many of the pieces of 2 MiB that a block lies in, or that it consists of, are [`TOUCHED`].
fn touched(index: u32, order: usize) -> u32 {
    let (first, last) = (index >> LARGE_ORDER, (index + (1 << order) - 1) >> LARGE_ORDER);
    (first..=last).filter(|large| meta(large << LARGE_ORDER).state.load(Relaxed) & TOUCHED != 0).count() as u32
}

/// The free blocks.
struct Buddy {
    /// RAM pages that exist.
    pages: u32,
    free: u32,
    limit: u32,
    /// By [`Use`] and order; blocks of 2 MiB and more are all [`Use::Program`]'s.
    heads: [[u32; MAX_ORDER + 1]; 2],
    unused: unused::Counts,
}

static BUDDY: SpinLock<Buddy> = SpinLock::new(
    Rank::Frames,
    Buddy { pages: 0, free: 0, limit: 0, heads: [[NONE; MAX_ORDER + 1]; 2], unused: unused::Counts::new() },
);
/// [`Buddy::free`] to read without the lock; what virtual CPUs keep for themselves is in use.
static FREE: AtomicU32 = AtomicU32::new(0);
/// [`Buddy::pages`] to read without the lock, stored after the new pages are counted as free.
static PAGES: AtomicU32 = AtomicU32::new(0);

impl Buddy {
    /// The list of a free block.
    fn head(&mut self, index: u32, order: usize) -> &mut u32 {
        let user = if order < LARGE_ORDER { use_of(index) } else { Use::Program };
        &mut self.heads[user as usize][order]
    }

    fn push(&mut self, index: u32, order: usize) {
        let block = meta(index);
        let head = core::mem::replace(self.head(index, order), index);
        block.set_state(order as u32);
        block.prev.set(NONE);
        block.next.set(head);
        if head != NONE {
            meta(head).prev.set(index);
        }
    }

    fn remove(&mut self, index: u32, order: usize) {
        let block = meta(index);
        let (prev, next) = (block.prev.get(), block.next.get());
        if prev == NONE {
            *self.head(index, order) = next;
        } else {
            meta(prev).next.set(next);
        }
        if next != NONE {
            meta(next).prev.set(prev);
        }
        block.set_state(STATE_USED);
    }

    /// Notes that frames are handed out; whether the 2 MiB that the first lies in were untouched.
    fn touch(&self, index: u32, order: usize) -> bool {
        let first = index >> LARGE_ORDER;
        let fresh = meta(first << LARGE_ORDER).state.load(Relaxed) & TOUCHED == 0;
        let last = (index + (1 << order) - 1) >> LARGE_ORDER;
        if fresh {
            crate::ring::set_ram_used((u64::from(last) + 1) << LARGE_ORDER << FRAME_SIZE.trailing_zeros());
        }
        for large in first..=last {
            let state = &meta(large << LARGE_ORDER).state;
            state.store(state.load(Relaxed) | TOUCHED, Relaxed);
        }
        fresh
    }

    /// Takes a block of 2^order frames; whether the 2 MiB that it begins in were untouched.
    fn take(&mut self, order: usize, user: Use) -> Option<(u32, bool)> {
        let user = if self.pages - self.free < FEW { Use::Program } else { user };
        let (index, from) = self.find(order, user)?;
        self.remove(index, from);
        if from >= LARGE_ORDER && order < LARGE_ORDER {
            let state = &meta(index).state;
            state.store(
                if user == Use::Keel { state.load(Relaxed) | KEELS } else { state.load(Relaxed) & !KEELS },
                Relaxed,
            );
        }
        for o in (order..from).rev() {
            self.push(index + (1 << o), o);
        }
        if from >= LARGE_ORDER {
            self.unused.less(touched(index, order));
        }
        self.free -= 1 << order;
        self.note_left();
        Some((index, self.touch(index, order)))
    }

    /// The block to take 2^order frames of, and its order.
    fn find(&self, order: usize, user: Use) -> Option<(u32, usize)> {
        let other = if user == Use::Keel { Use::Program } else { Use::Keel };
        let first = |user: Use, orders: core::ops::RangeInclusive<usize>| {
            orders.map(|o| (self.heads[user as usize][o], o)).find(|(head, _)| *head != NONE)
        };
        let small = order..=LARGE_ORDER - 1;
        let large = order.max(LARGE_ORDER)..=MAX_ORDER;
        first(user, small.clone()).or_else(|| first(Use::Program, large)).or_else(|| first(other, small))
    }

    /// Publishes how much is left, after each change of the number of free frames.
    fn note_left(&self) {
        FREE.store(self.free, Relaxed);
        crate::watch::set_scarce(self.free + (self.limit - self.pages) < TABLES.scarce.get());
    }

    /// Gives a block back, merging it with free neighbours.
    fn give(&mut self, mut index: u32, mut order: usize) {
        self.free += 1 << order;
        self.note_left();
        let given = (index, order);
        while order < MAX_ORDER {
            let buddy = index ^ (1 << order);
            if buddy + (1 << order) > self.pages || meta(buddy).state() != order as u32 {
                break;
            }
            self.remove(buddy, order);
            index = index.min(buddy);
            order += 1;
        }
        self.push(index, order);
        if order >= LARGE_ORDER {
            self.unused.more(touched(given.0, given.1));
        }
    }

    /// Adds the frames `[start, end)`.
    fn add(&mut self, start: u32, end: u32) {
        self.pages = self.pages.max(end);
        for i in start..end {
            meta(i).set_state(STATE_USED);
        }
        // From the top down, so that the lowest block is the first to be taken: a small pod stays in
        // few pages of the host.
        let mut at = end;
        while at > start {
            let mut order = (at.trailing_zeros() as usize).min(MAX_ORDER);
            while at - start < 1 << order {
                order -= 1;
            }
            at -= 1 << order;
            self.give(at, order);
        }
        PAGES.store(self.pages, Relaxed);
    }
}

/// Frames that a virtual CPU keeps.
const KEPT: usize = 32;
/// The same in a small pod: the other virtual CPUs cannot use them, and they count as used.
const KEPT_SMALL: usize = 4;

/// Frames that a virtual CPU of this pod keeps; it takes and gives half as many under one lock.
fn most_kept() -> usize {
    if is_small() { KEPT_SMALL } else { KEPT }
}

/// Single frames of one virtual CPU, which alone uses them.
#[repr(align(64))]
struct Cache {
    count: Cell<usize>,
    frames: [Cell<u32>; KEPT],
}

static CACHES: Global<[Cache; MAX_CPUS]> =
    Global::new([const { Cache { count: Cell::new(0), frames: [const { Cell::new(0) }; KEPT] } }; MAX_CPUS]);

impl Cache {
    fn here() -> &'static Self {
        &CACHES[percpu::cpu_index() % MAX_CPUS]
    }

    fn push(&self, index: u32) {
        let count = self.count.get();
        self.frames[count].set(index);
        self.count.set(count + 1);
    }

    fn pop(&self) -> Option<u32> {
        let count = self.count.get().checked_sub(1)?;
        self.count.set(count);
        Some(self.frames[count].get())
    }

    /// Takes a frame, or a batch of which the others are kept.
    fn take(&self) -> Option<u32> {
        if let Some(index) = self.pop() {
            return Some(index);
        }
        let mut buddy = BUDDY.lock();
        let (first, _) = buddy.take(0, Use::Program)?;
        for _ in 1..most_kept() / 2 {
            let Some((index, _)) = buddy.take(0, Use::Program) else { break };
            self.push(index);
        }
        Some(first)
    }

    /// Keeps a frame; gives a batch back if there are too many.
    fn give(&self, index: u32) {
        if self.count.get() == most_kept() {
            self.give_back(most_kept() / 2);
        }
        self.push(index);
    }

    /// Gives up to `most` frames back.
    #[cold]
    fn give_back(&self, most: usize) {
        let mut buddy = BUDDY.lock();
        for _ in 0..most {
            let Some(kept) = self.pop() else { break };
            buddy.give(kept, 0);
        }
    }
}

/// Sets the allocator up (boot).
pub(crate) fn init(info: &abi::boot::BootInfo) {
    TABLES.frames.set(direct_map::address(info.frame_table));
    TABLES.window.set(direct_map::address(info.window_table));
    TABLES.window_pages.set(info.window_limit as usize / FRAME_SIZE);
    let limit = (info.ram_limit / FRAME_SIZE as u64) as u32;
    TABLES.limit.set(limit);
    let share = if limit < 8 << 20 >> FRAME_SIZE.trailing_zeros() { RESERVE_SMALLEST } else { RESERVE_MOST };
    TABLES.scarce.set(RESERVE_LEAST.min(limit / share).max(limit / RESERVE_SHARE));
    let first = info.free_start.div_ceil(FRAME_SIZE as u64) as u32;
    let mut buddy = BUDDY.lock();
    buddy.limit = limit;
    for i in 0..first {
        meta(i).set_state(STATE_USED);
    }
    if info.low_end < KEEL_IMAGE as u64 {
        let blocks = PERCPU_BASE + info.cpus as usize * PERCPU_STRIDE;
        let unused = [BOOT_INFO + FRAME_SIZE..PERCPU_BASE, blocks..RING, info.low_end as usize..KEEL_IMAGE];
        for range in unused {
            buddy.add((range.start / FRAME_SIZE) as u32, (range.end / FRAME_SIZE) as u32);
        }
    }
    buddy.add(first, (info.ram_bytes / FRAME_SIZE as u64) as u32);
}

/// Takes a frame for a program, asking the monitor for more RAM if needed and if the caller has the big lock; guest-physical
/// address. Not counted: the caller owns it.
pub(crate) fn take_frame() -> Option<u64> {
    if several()
        && let Some(index) = Cache::here().take()
    {
        return Some(u64::from(index) * FRAME_SIZE as u64);
    }
    take_any(0, Use::Program).map(|(gpa, _)| gpa)
}

/// As [`take_frame`], 2^order contiguous frames for keel.
pub(crate) fn take_block(order: usize) -> Option<u64> {
    take_any(order, Use::Keel).map(|(gpa, _)| gpa)
}

/// As [`take_block`] for anybody, and whether the 2 MiB that the block begins in were never used before.
pub(crate) fn take_any(order: usize, user: Use) -> Option<(u64, bool)> {
    if order > MAX_ORDER {
        return None;
    }
    direct_map::prepare();
    loop {
        let mut buddy = BUDDY.lock();
        if let Some((index, fresh)) = buddy.take(order, user) {
            return Some((u64::from(index) * FRAME_SIZE as u64, fresh));
        }
        let before = buddy.pages;
        drop(buddy);
        if !crate::smp::is_held() {
            return None;
        }
        // New RAM begins anywhere: twice the size holds an aligned block.
        let wanted = ((2usize << order) * FRAME_SIZE) as u64;
        let end = crate::ring::call_now(GrowRam { bytes: wanted })?;
        buddy = BUDDY.lock();
        let (pages, end) = (buddy.pages, ((end / FRAME_SIZE as u64) as u32).min(buddy.limit));
        if end > pages {
            direct_map::extend(u64::from(pages) * FRAME_SIZE as u64, u64::from(end) * FRAME_SIZE as u64);
            buddy.add(pages, end);
        } else if pages == before {
            // Nor did another virtual CPU add some meanwhile.
            return None;
        }
    }
}

/// Gives a block from [`take_block`] back.
pub(crate) fn give_block(gpa: u64, order: usize) {
    let index = (gpa / FRAME_SIZE as u64) as u32;
    if order == 0 && several() && use_of(index) == Use::Program {
        Cache::here().give(index);
    } else {
        BUDDY.lock().give(index, order);
    }
}

/// Gives the frames that this virtual CPU keeps back, when memory is scarce.
pub fn give_kept() {
    Cache::here().give_back(KEPT);
}

/// Memory figures in bytes.
#[derive(Clone, Copy, Debug)]
pub struct RamUsage {
    /// RAM that the monitor has given so far.
    pub total: u64,
    /// Of that, not in use.
    pub free: u64,
    /// What it may become.
    pub limit: u64,
}

impl RamUsage {
    /// Whether there is enough for pages that are likely, but not certain, to be used.
    pub const fn abounds(&self) -> bool {
        let eighth = self.limit / 8;
        let least = 2 * abi::layout::LARGE_PAGE_SIZE as u64;
        self.limit - self.total + self.free >= if eighth > least { eighth } else { least }
    }
}

/// Bytes of RAM in use and available now, and the pod's limit. Takes no lock: reports of failures use it.
pub fn ram_usage() -> RamUsage {
    let bytes = |pages: u32| u64::from(pages) * FRAME_SIZE as u64;
    RamUsage { total: bytes(PAGES.load(Relaxed)), free: bytes(FREE.load(Relaxed)), limit: bytes(TABLES.limit.get()) }
}

/// Whether the pod is small ([`SMALL_RAM`]).
pub fn is_small() -> bool {
    (TABLES.limit.get() as u64) < SMALL_RAM / FRAME_SIZE as u64
}

/// Pages that are free or may still be asked of the monitor.
fn left() -> u32 {
    FREE.load(Relaxed) + TABLES.limit.get().saturating_sub(PAGES.load(Relaxed))
}

/// Whether what is reserved for keel has to be used: what programs can make any number of must be refused.
pub fn is_scarce() -> bool {
    left() < TABLES.scarce.get()
}

/// Whether little more than that is left: what one process makes any number of, and frees only at its end, must be refused, so
/// that the others go on.
pub fn is_short() -> bool {
    let scarce = TABLES.scarce.get();
    left() < scarce + scarce / 2
}

/// Whether three quarters of it are used: a process has to end.
pub fn is_critical() -> bool {
    left() < TABLES.scarce.get() / 4
}

/// Whether there is memory for programs' pages and tables beyond what they leave to the heap, if necessary after that
/// gave back what it does not use.
pub(crate) fn has_for_programs() -> bool {
    let has = || left() >= TABLES.scarce.get() / 2;
    has() || crate::heap::trim() > 0 && has()
}
