//! Requests that go to the host together, and the frames that hold their bytes.

use super::super::HostNode;
use super::{FRAMES, Landing, PIECES};
use abi::request::AttrChange;
use alloc::rc::Rc;
use alloc::vec::Vec;
use hal::frame::{FRAME_SIZE, Frame};

/// What one request writes, or changes.
pub(super) struct Piece {
    pub(super) node: Rc<HostNode>,
    pub(super) handle: u64,
    /// The bytes are this change of attributes, not content.
    pub(super) change: Option<AttrChange>,
    /// Where to, or at the end.
    pub(super) at: Option<u64>,
    /// Where it is expected to begin.
    pub(super) expected: u64,
    pub(super) landing: Option<Rc<Landing>>,
    /// Where its bytes lie in the frames of the batch, one after the other, and how many.
    pub(super) start: usize,
    pub(super) len: usize,
}

/// Writes that go to the host together.
pub(super) struct Batch {
    pub(super) frames: Vec<Frame>,
    /// Attributes around each piece.
    pub(super) attrs: Frame,
    pub(super) pieces: Vec<Piece>,
    /// Bytes of the frames that are used.
    pub(super) filled: usize,
}

impl Batch {
    pub(super) fn new() -> Option<Self> {
        let (mut frames, mut pieces) = (Vec::new(), Vec::new());
        frames.try_reserve_exact(FRAMES).ok()?;
        pieces.try_reserve_exact(PIECES).ok()?;
        Some(Self { frames, attrs: Frame::alloc()?, pieces, filled: 0 })
    }

    /// Adds a write; `false` if it does not fit. The second value: it is a piece of its own.
    pub(super) fn add(
        &mut self,
        node: &Rc<HostNode>,
        handle: u64,
        at: Option<u64>,
        expected: u64,
        data: &[u8],
    ) -> (bool, bool) {
        let follows = |last: &Piece| {
            last.change.is_none()
                && Rc::ptr_eq(&last.node, node)
                && last.handle == handle
                && last.at.is_none() == at.is_none()
                && at.is_none_or(|at| last.expected + last.len as u64 == at)
        };
        let is_new = !self.pieces.last().is_some_and(follows);
        let (start, len) = (self.filled, data.len());
        if is_new && self.pieces.len() == PIECES || !self.put(data) {
            return (false, false);
        }
        match self.pieces.last_mut().filter(|_| !is_new) {
            Some(last) => last.len += len,
            None => {
                let landing = at.is_none().then(Rc::default);
                let node = node.clone();
                self.pieces.push(Piece { node, handle, change: None, at, expected, landing, start, len });
            }
        }
        (true, is_new)
    }

    /// Copies bytes behind those that are there; `false` if they do not fit.
    pub(super) fn put(&mut self, data: &[u8]) -> bool {
        let end = self.filled + data.len();
        if end > FRAMES * FRAME_SIZE {
            return false;
        }
        while self.frames.len() * FRAME_SIZE < end {
            let Some(frame) = Frame::alloc() else { return false };
            self.frames.push(frame);
        }
        self.write(self.filled, data);
        self.filled = end;
        true
    }

    /// Writes bytes into the frames that are there.
    pub(super) fn write(&self, start: usize, data: &[u8]) {
        let (mut at_byte, mut rest) = (start, data);
        while !rest.is_empty() {
            let in_frame = at_byte % FRAME_SIZE;
            let (part, after) = rest.split_at(rest.len().min(FRAME_SIZE - in_frame));
            let Some(frame) = self.frames.get(at_byte / FRAME_SIZE) else { return };
            frame.write(in_frame, part);
            (at_byte, rest) = (at_byte + part.len(), after);
        }
    }
}
