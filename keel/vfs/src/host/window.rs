//! The window: guest-physical address space in which the host's page cache appears (DAX).

use super::{Host, HostNode};
use abi::request::{GrowWindow, Unmap};
use alloc::rc::Weak;
use core::cell::{Cell, RefCell};
use hal::frame::{FRAME_SIZE, Frame};
use keel_core::pieces::Pieces;
use uapi::{Errno, Result};

/// Largest piece of a file that one mapping covers; pieces are multiples of it in the file.
pub(super) const CHUNK: u64 = 2 << 20;
/// Smallest piece of the window.
const SMALLEST: u64 = 64 << 10;
/// How much the window grows at once.
const GROW: u64 = 64 << 20;
const CLASSES: usize = (CHUNK / SMALLEST).trailing_zeros() as usize + 1;

/// A piece of the window with pages of one file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) gpa: u64,
    /// Bytes of window reserved.
    pub(super) room: u64,
    /// Bytes mapped from its start.
    pub(super) mapped: u64,
    pub(super) writable: bool,
}

/// Free space by size, and the users of the rest.
#[derive(Default)]
pub(super) struct Window {
    free: RefCell<[Pieces<u64>; CLASSES]>,
    /// Never handed out yet.
    fresh: Cell<(u64, u64)>,
    /// Pieces whose file is gone, but whose pages may still be in use.
    retired: RefCell<Pieces<Chunk>>,
    /// Files with chunks, oldest first.
    users: RefCell<Pieces<Weak<HostNode>>>,
    /// There is no window.
    absent: Cell<bool>,
}

const fn class_of(room: u64) -> usize {
    (room / SMALLEST).trailing_zeros() as usize
}

impl Host {
    /// The monitor maps no files: all pages are copies, and nothing is written by a store into a shared mapping.
    pub fn has_no_window(&self) {
        self.window.absent.set(true);
    }

    pub(super) fn has_window(&self) -> bool {
        !self.window.absent.get()
    }

    /// Whether a page of the chunk is referenced.
    pub(super) fn in_use(&self, chunk: &Chunk) -> bool {
        (0..chunk.mapped / FRAME_SIZE as u64)
            .any(|i| self.io.window_page(chunk.gpa + i * FRAME_SIZE as u64).is_some_and(|page| page.refs() > 1))
    }

    fn take_free(&self, room: u64) -> Option<u64> {
        let mut free = self.window.free.borrow_mut();
        let class = class_of(room);
        let from = (class..CLASSES).find(|&c| !free[c].is_empty())?;
        let gpa = free[from].pop_back()?;
        // The rest of a bigger piece, halved down.
        for smaller in class..from {
            free[smaller].push_back(gpa + (SMALLEST << smaller));
        }
        Some(gpa)
    }

    fn give_back(&self, chunk: &Chunk) {
        self.window.free.borrow_mut()[class_of(chunk.room)].push_back(chunk.gpa);
    }

    /// Room of the window for `bytes` (at most [`CHUNK`]) of `node`.
    pub(super) fn window_room(&self, node: &Weak<HostNode>, bytes: u64) -> Result<(u64, u64)> {
        if !self.has_window() {
            return Err(Errno::ENODEV);
        }
        let room = bytes.clamp(SMALLEST, CHUNK).next_power_of_two();
        self.window.users.borrow_mut().push_back(node.clone());
        if let Some(gpa) = self.take_free(room) {
            return Ok((gpa, room));
        }
        self.reclaim(room, false);
        if let Some(gpa) = self.take_free(room) {
            return Ok((gpa, room));
        }
        let (start, end) = self.window.fresh.get();
        if end - start < room {
            match self.call(GrowWindow { bytes: GROW }, &(), &mut ()) {
                Ok(end) => {
                    let start = end.checked_sub(GROW).ok_or(Errno::EIO)?;
                    Frame::window_has_grown(start, end);
                    self.window.fresh.set((start, end));
                }
                Err(errno) => {
                    if start == 0 {
                        self.window.absent.set(true);
                        return Err(errno);
                    }
                    self.reclaim(room, true);
                    return self.take_free(room).map(|gpa| (gpa, room)).ok_or(errno);
                }
            }
        }
        // Whole chunks, so that every piece is aligned to its size.
        let (start, end) = self.window.fresh.get();
        self.window.fresh.set((start + CHUNK, end));
        self.window.free.borrow_mut()[CLASSES - 1].push_back(start);
        self.take_free(room).map(|gpa| (gpa, room)).ok_or(Errno::ENOMEM)
    }

    /// Finds unused pieces: of files that are gone, and with `all` of files that
    /// are still known.
    fn reclaim(&self, room: u64, all: bool) {
        let retired = self.window.retired.take();
        for chunk in retired {
            if self.in_use(&chunk) {
                self.window.retired.borrow_mut().push_back(chunk);
            } else {
                self.give_back(&chunk);
            }
        }
        if !all {
            return;
        }
        let turns = self.window.users.borrow().len();
        for _ in 0..turns {
            let Some(weak) = self.window.users.borrow_mut().pop_front() else { break };
            let Some(node) = weak.upgrade() else { continue };
            let Some(content) = node.content.get() else { continue };
            let mut kept = false;
            content.chunks.borrow_mut().retain(|_, chunk| {
                let used = self.in_use(chunk);
                if !used {
                    self.give_back(chunk);
                }
                kept |= used;
                used
            });
            if kept {
                self.window.users.borrow_mut().push_back(weak);
            }
            let enough = (class_of(room)..CLASSES).any(|c| !self.window.free.borrow()[c].is_empty());
            if enough {
                break;
            }
        }
    }

    /// Unknown pages of the window were lost: its present pages are used no more. `distrust`: of the files that were
    /// there one can't be read in part.
    pub(super) fn drop_window(&self, distrust: bool) {
        for node in self.window.users.take().iter().filter_map(Weak::upgrade) {
            let Some(content) = node.content.get() else { continue };
            for (_, chunk) in content.chunks.take() {
                content.distrusted.set(content.distrusted.get() || distrust);
                self.retire(chunk);
            }
        }
    }

    /// A chunk whose file is gone.
    pub(super) fn retire(&self, chunk: Chunk) {
        self.window.retired.borrow_mut().push_back(chunk);
        self.io.retired();
    }

    /// Has the monitor let go of pages whose file is gone: as long as it maps them, a removed file keeps its room on the
    /// host's disk. Whether programs still map some of them.
    pub fn tidy(&self) -> bool {
        for chunk in self.window.retired.take() {
            if self.in_use(&chunk) {
                self.window.retired.borrow_mut().push_back(chunk);
                continue;
            }
            if chunk.mapped > 0 {
                self.io.unmap(Unmap { gpa: chunk.gpa, len: chunk.room });
            }
            self.give_back(&chunk);
        }
        !self.window.retired.borrow().is_empty()
    }
}
