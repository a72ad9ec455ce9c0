//! Free memory that the host still backs: pieces of 2 MiB that were used and are completely free again.

use super::{BUDDY, Buddy, LARGE_ORDER, MAX_ORDER, NONE, TOUCHED, Use, meta, touched};
use crate::frame::FRAME_SIZE;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// Number of pieces below which reporting is not worthwhile.
pub const KEPT_PIECES: u32 = 2;

/// [`Counts::now`], readable without the lock.
static UNUSED: AtomicU32 = AtomicU32::new(0);

/// Numbers of pieces of 2 MiB that were used and are free.
pub(super) struct Counts {
    now: u32,
    /// Minimum since the last query.
    least: u32,
}

impl Counts {
    pub(super) const fn new() -> Self {
        Self { now: 0, least: 0 }
    }

    pub(super) fn more(&mut self, pieces: u32) {
        self.set(self.now + pieces);
    }

    pub(super) fn less(&mut self, pieces: u32) {
        self.set(self.now - pieces);
        self.least = self.least.min(self.now);
    }

    fn set(&mut self, now: u32) {
        if self.now != now {
            if now > KEPT_PIECES && self.now <= KEPT_PIECES {
                // The CPU that freed it checks for work on its way out.
                crate::percpu::set_work_pending();
            }
            self.now = now;
            UNUSED.store(now, Relaxed);
        }
    }
}

/// A free block that is reserved until this is dropped.
#[derive(Debug)]
pub struct Unused {
    index: u32,
    order: usize,
}

impl Unused {
    /// Guest-physical address.
    pub fn gpa(&self) -> u64 {
        u64::from(self.index) * FRAME_SIZE as u64
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        (FRAME_SIZE as u64) << self.order
    }

    /// Its pieces of 2 MiB that the host backs.
    pub fn pieces(&self) -> u32 {
        touched(self.index, self.order)
    }

    /// The host has freed its memory: it reads as zeros.
    pub fn is_gone(&self) {
        let _buddy = BUDDY.lock();
        for large in self.index >> LARGE_ORDER..(self.index + (1 << self.order)) >> LARGE_ORDER {
            let state = &meta(large << LARGE_ORDER).state;
            state.store(state.load(Relaxed) & !TOUCHED, Relaxed);
        }
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        BUDDY.lock().give(self.index, self.order);
    }
}

/// Number of pieces of 2 MiB that were used and are completely free. Takes no lock.
#[inline]
pub fn unused() -> u32 {
    UNUSED.load(Relaxed)
}

/// The minimum of that number since the last call.
pub fn least_unused() -> u32 {
    let counts = &mut BUDDY.lock().unused;
    core::mem::replace(&mut counts.least, counts.now)
}

/// Reserves a free block of one to `most` such pieces.
pub fn take_unused(most: u32) -> Option<Unused> {
    let mut buddy = BUDDY.lock();
    let (mut index, mut order) = buddy.find_unused().filter(|_| most > 0)?;
    buddy.remove(index, order);
    while touched(index, order) > most {
        // The upper half, if it has such a piece: memory is allocated from below.
        order -= 1;
        let upper = index + (1 << order);
        let (kept, taken) = if touched(upper, order) > 0 { (index, upper) } else { (upper, index) };
        buddy.push(kept, order);
        index = taken;
    }
    buddy.unused.less(touched(index, order));
    buddy.free -= 1 << order;
    buddy.note_left();
    Some(Unused { index, order })
}

impl Buddy {
    /// The first free block with such a piece, of the smallest size.
    fn find_unused(&self) -> Option<(u32, usize)> {
        if self.unused.now == 0 {
            return None;
        }
        (LARGE_ORDER..=MAX_ORDER).find_map(|order| {
            let mut index = self.heads[Use::Program as usize][order];
            while index != NONE {
                if touched(index, order) > 0 {
                    return Some((index, order));
                }
                index = meta(index).next.get();
            }
            None
        })
    }
}
