//! Regular files without the big lock: reads of cached pages, the position, attributes.

use super::{Buffers, Core, Kind};
use crate::File;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};
use hal::sync::grace::{self, Reading};
use hal::user as raw;
use uapi::raw::general as g;
use vfs::shown::{Part, Shown};
use vfs::{Attr, FILE_MAX};

/// Most bytes of a read: who stops programs waits for it.
const MOST_BYTES: usize = 1 << 20;
/// Attempts to move a position that others move at the same time.
const TRIES: usize = 4;
/// Bit of the position: a handler uses it.
const HELD: u64 = 1 << 63;
const _: () = assert!(FILE_MAX & HELD == 0);

/// An open regular file.
#[derive(Debug)]
pub struct Regular {
    shown: Arc<Shown>,
    /// Position of the description, while no handler uses it, or [`HELD`].
    position: AtomicU64,
    /// The position is behind an append that is under way.
    is_unsure: AtomicBool,
    /// The number of its mount, and whether it is the root of that.
    mount: Option<(u32, bool)>,
}

impl Regular {
    /// Of a file whose position nobody uses now.
    pub fn new(shown: Arc<Shown>, file: &File, is_unsure: bool) -> Self {
        let mount = file.path.as_ref().map(|place| (place.mount().id, place.is_mount_root()));
        let (position, is_unsure) = (AtomicU64::new(file.pos.get()), AtomicBool::new(is_unsure));
        Self { shown, position, is_unsure, mount }
    }

    /// The number of its mount, and whether it is the root of that.
    pub fn mount(&self) -> Option<(u32, bool)> {
        self.mount
    }

    /// A handler uses the position from now on: calls without the big lock leave it. Returns it.
    pub fn hold(&self) -> u64 {
        self.position.fetch_or(HELD, AcqRel) & !HELD
    }

    /// The handler leaves it at this value.
    pub fn release(&self, position: u64) {
        self.position.store(position & !HELD, Release);
    }

    /// The position, also while a handler uses it.
    pub fn position(&self) -> u64 {
        self.position.load(Acquire) & !HELD
    }

    /// Whether the position is behind an append that is under way; while [held](Self::hold).
    pub fn set_unsure(&self, is_unsure: bool) {
        self.is_unsure.store(is_unsure, Relaxed);
    }

    /// The position, if no handler uses it.
    fn free_position(&self) -> Option<u64> {
        let position = self.position.load(Acquire);
        (position & HELD == 0 && !self.is_unsure.load(Relaxed)).then_some(position)
    }

    fn move_position(&self, from: u64, to: u64) -> bool {
        self.position.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }

    /// Reads into the program's memory, at an offset or the position, which moves. `None`: nothing was done but, perhaps,
    /// stores in the buffers.
    pub fn read(&self, offset: Option<u64>, buffers: &Buffers<'_>) -> Option<usize> {
        let len = buffers.bytes();
        let position = if offset.is_none() { self.free_position()? } else { 0 };
        let at = offset.unwrap_or(position);
        if len > MOST_BYTES || at > FILE_MAX - MOST_BYTES as u64 {
            return None;
        }
        let done = grace::read(|reading| self.copy(at, len, buffers, reading))?;
        if offset.is_none() && done != 0 && !self.move_position(position, position + done as u64) {
            return None;
        }
        Some(done)
    }

    fn copy(&self, at: u64, len: usize, buffers: &Buffers<'_>, reading: &Reading) -> Option<usize> {
        let view = self.shown.view(reading)?;
        let mut room = Room { buffers: buffers.0, used: 0 };
        view.read(&self.shown, reading, at, len, |part| room.put(part))
    }

    /// lseek(2).
    pub fn seek(&self, offset: i64, whence: u32) -> Option<u64> {
        for _ in 0..TRIES {
            let position = self.free_position()?;
            let base = match whence {
                g::SEEK_SET => 0,
                g::SEEK_CUR => position,
                g::SEEK_END => self.attr()?.size,
                _ => return None,
            };
            let to = base.checked_add_signed(offset).filter(|to| *to <= FILE_MAX)?;
            if to == position || self.move_position(position, to) {
                return Some(to);
            }
        }
        None
    }

    /// Attributes, if they are known.
    pub fn attr(&self) -> Option<Attr> {
        grace::read(|reading| self.shown.view(reading).map(|view| *view.attr()))
    }
}

/// Room in the program's buffers.
struct Room<'a> {
    /// The first one has been used up to `used`; there is room for all that comes.
    buffers: &'a [(usize, usize)],
    used: usize,
}

impl Room<'_> {
    #[inline]
    fn put(&mut self, mut part: Part<'_>) -> Option<()> {
        while part.len > 0 {
            let ((address, len), rest) = self.buffers.split_first()?;
            let n = part.len.min(len - self.used);
            let to = address + self.used;
            match part.frame {
                Some(frame) => raw::copy_frame_out(to, frame, part.offset, n).ok()?,
                None => raw::clear(to, n).ok()?,
            }
            self.used += n;
            part.offset += n;
            part.len -= n;
            if self.used == *len {
                (self.buffers, self.used) = (rest, 0);
            }
        }
        Some(())
    }
}

impl Core {
    /// As a regular file.
    #[inline(always)]
    pub fn regular(&self) -> Option<&Regular> {
        match &self.kind {
            Kind::Regular(regular) => Some(regular),
            _ => None,
        }
    }
}
