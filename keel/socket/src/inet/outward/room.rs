//! Memory that the host receives a stream into, ahead of the program.

use abi::ring::Segment;
use alloc::vec::Vec;
use core::cell::RefCell;
use hal::cell::Global;
use hal::frame::{FRAME_SIZE, Frame};
use keel_core::pipe_buf::Piece;

/// Most pages of one request.
const MAX_PAGES: usize = 128;
/// Least room at the end of a page that is worth another request.
const WORTH: usize = 1024;
/// Room of a connection that receives little: pages are shared by some of them, because most of many connections wait.
const PART: usize = FRAME_SIZE / 4;

/// A page whose further parts are free, and where they begin.
static PARTS: Global<RefCell<Option<(Frame, usize)>>> = Global::new(RefCell::new(None));

/// How much a connection receives at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pages; 0: a part of one.
    pages: usize,
}

impl Size {
    /// Of a connection that may never receive much.
    pub const PART: Self = Self { pages: 0 };
    /// Of a connection that probably does.
    pub const PAGE: Self = Self { pages: 1 };

    /// Bulk data comes in large pieces, the rest in small ones: the size after `bytes` came into `room`.
    fn after(self, bytes: usize, room: usize) -> Self {
        let pages = match self.pages {
            pages if bytes == room => (pages * 2).clamp(1, MAX_PAGES),
            pages if bytes < room / 4 && (pages > 1 || bytes < PART / 2) => pages / 2,
            pages => pages,
        };
        Self { pages }
    }
}

/// The room of one request: pages, of which the first is used from `start` on and the last up to `end`.
#[derive(Debug)]
pub struct Room {
    pages: Vec<Frame>,
    start: usize,
    end: usize,
}

/// The end of a page that a smaller piece left, and where it begins.
pub type Rest = (Frame, usize);

impl Room {
    /// Room of this size, which begins in `rest`. `None`: out of memory.
    pub fn new(size: Size, rest: Option<Rest>) -> Option<Self> {
        if size == Size::PART {
            let (page, start) = part()?;
            return Some(Self { pages: Vec::from([page]), start, end: start + PART });
        }
        let mut pages = Vec::with_capacity(size.pages);
        let start = rest.map_or(0, |(page, start)| {
            pages.push(page);
            start
        });
        while pages.len() < size.pages {
            let Some(page) = Frame::alloc() else { break };
            pages.push(page);
        }
        (!pages.is_empty()).then_some(Self { pages, start, end: FRAME_SIZE })
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.pages.len().saturating_sub(1) * FRAME_SIZE + self.end - self.start
    }

    /// Its memory, in order.
    pub fn segments(&self) -> Vec<Segment> {
        let segment = |(i, page): (usize, &Frame)| {
            let start = if i == 0 { self.start } else { 0 };
            let end = if i + 1 == self.pages.len() { self.end } else { FRAME_SIZE };
            Segment { gpa: page.gpa() + start as u64, len: (end - start) as u64 }
        };
        self.pages.iter().enumerate().map(segment).collect()
    }

    /// Passes its first bytes on as pieces. Returns what is left of the last page, and the size of the next room.
    pub fn fill(self, bytes: u64, size: Size, mut each: impl FnMut(Piece<Frame>)) -> (Option<Rest>, Size) {
        let count = self.pages.len();
        let room = self.bytes();
        let mut left = usize::try_from(bytes).unwrap_or(room).min(room);
        let next = size.after(left, room);
        let mut rest = None;
        let mut start = self.start;
        for (i, page) in self.pages.into_iter().enumerate() {
            let end = if i + 1 == count { self.end } else { FRAME_SIZE };
            let len = left.min(end - start);
            if len == 0 {
                break;
            }
            if len == left && end == FRAME_SIZE && end - start - len >= WORTH && next != Size::PART {
                rest = Some((page.clone(), start + len));
            }
            each(Piece { page, start, len, mergeable: false, packet: false });
            left -= len;
            start = 0;
        }
        (rest, next)
    }
}

/// A part of a page.
fn part() -> Option<(Frame, usize)> {
    let mut parts = PARTS.borrow_mut();
    let (page, start) = match parts.take() {
        Some(parts) => parts,
        None => (Frame::alloc()?, 0),
    };
    if start + 2 * PART <= FRAME_SIZE {
        *parts = Some((page.clone(), start + PART));
    }
    Some((page, start))
}
