//! Memory of page tables.
//!
//! KVM without hardware support write-protects page tables: it emulates every store to one, even after it is used for
//! other data, and maps the surrounding 2 MiB with small pages only, a fault for each eight. So tables are allocated
//! separately, as far as possible in a part of the memory below keel's image, and free tables are kept for reuse.
#![allow(unsafe_code)]

use crate::buddy::{give_block, has_for_programs, is_small, take_block};
use crate::direct_map;
use crate::frame::FRAME_SIZE;
use crate::sync::{Rank, SpinLock};
use alloc::vec::Vec;
use core::ops::Range;

/// Maximum number of other free tables.
const MOST_WAITING: usize = 64;
/// The same in a small pod.
const MOST_IN_SMALL: usize = 4;

/// Free zeroed tables.
struct Waiting {
    /// Below the image; has capacity for all.
    low: Vec<u64>,
    others: Vec<u64>,
    /// Start of the unused memory below the image; 0: not initialised.
    unused: u64,
    /// The memory below the image that is for tables.
    area: Range<u64>,
}

static WAITING: SpinLock<Waiting> =
    SpinLock::new(Rank::Tables, Waiting { low: Vec::new(), others: Vec::new(), unused: 0, area: 0..0 });

/// A table: zeroed, or to be zeroed.
enum Found {
    Zeros(u64),
    Unused(u64),
}

impl Waiting {
    /// Allocates the next page below the image.
    fn take_unused(&mut self) -> Option<u64> {
        if self.unused == 0 {
            let info = crate::boot::boot_info();
            let count = info.low_end.saturating_sub(info.low_start) as usize / FRAME_SIZE;
            self.unused = info.low_start;
            let end = if self.low.try_reserve_exact(count).is_ok() { info.low_end } else { info.low_start };
            self.area = info.low_start..end;
        }
        let gpa = self.unused;
        self.area.contains(&gpa).then(|| {
            self.unused = gpa + FRAME_SIZE as u64;
            gpa
        })
    }

    fn take(&mut self) -> Option<Found> {
        if let Some(gpa) = self.low.pop() {
            return Some(Found::Zeros(gpa));
        }
        let unused = self.take_unused().map(Found::Unused);
        unused.or_else(|| self.others.pop().map(Found::Zeros))
    }

    /// Keeps a table; returns whether there was room.
    fn keep(&mut self, gpa: u64) -> bool {
        if self.area.contains(&gpa) {
            self.low.push(gpa);
            return true;
        }
        let most = if is_small() { MOST_IN_SMALL } else { MOST_WAITING };
        let has_room = self.others.len() < most && self.others.try_reserve(1).is_ok();
        if has_room {
            self.others.push(gpa);
        }
        has_room
    }
}

/// Allocates a zeroed table; returns its guest-physical address; `None` if out of memory.
pub(crate) fn take() -> Option<u64> {
    // Without the lock from here on: the monitor may be asked for more memory.
    let found = WAITING.lock().take();
    let gpa = match found {
        Some(Found::Zeros(gpa)) => return Some(gpa),
        Some(Found::Unused(gpa)) => gpa,
        None if has_for_programs() => take_block(0)?,
        None => return None,
    };
    // SAFETY: the frame was just allocated and has no other user, and the direct map covers RAM.
    unsafe { core::ptr::write_bytes(direct_map::address(gpa) as *mut u8, 0, FRAME_SIZE) };
    Some(gpa)
}

/// Frees a table, which is zero again.
pub(crate) fn give(gpa: u64) {
    if !WAITING.lock().keep(gpa) {
        give_block(gpa, 0);
    }
}
