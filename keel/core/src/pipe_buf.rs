//! The ring of page pieces in a pipe. Only bookkeeping: the owner copies the bytes.
//!
//! Generic over the page handle, so that tests need no page frames.

use alloc::collections::VecDeque;
use uapi::Errno;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Slots of a new pipe (64 KiB), pipe(7).
pub const DEFAULT_SLOTS: usize = 16;
/// Maximum number of slots (1 MiB: `/proc/sys/fs/pipe-max-size`).
pub const MAX_SLOTS: usize = 256;

/// The bytes `start .. start + len` of a page.
#[derive(Clone, Debug)]
pub struct Piece<P> {
    /// The page.
    pub page: P,
    /// First byte.
    pub start: usize,
    /// Bytes.
    pub len: usize,
    /// A later write may append to these bytes: the pipe owns the page and this is no packet.
    pub mergeable: bool,
    /// A read returns at most this piece and discards the rest of it (`O_DIRECT`).
    pub packet: bool,
}

/// Pieces in order, at most [`PipeRing::slots`].
#[derive(Debug)]
pub struct PipeRing<P> {
    pieces: VecDeque<Piece<P>>,
    slots: usize,
    bytes: usize,
}

impl<P> Default for PipeRing<P> {
    fn default() -> Self {
        Self { pieces: VecDeque::new(), slots: DEFAULT_SLOTS, bytes: 0 }
    }
}

impl<P> PipeRing<P> {
    /// An empty ring; allocates only when slots are added.
    pub fn with_room() -> Self {
        Self { pieces: VecDeque::with_capacity(DEFAULT_SLOTS), ..Self::default() }
    }
    /// An empty ring without a limit of slots, for which [`PipeRing::reserve`] makes room.
    pub fn unlimited() -> Self {
        Self { slots: usize::MAX, ..Self::default() }
    }
    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.slots
    }
    /// Number of pieces.
    pub fn used(&self) -> usize {
        self.pieces.len()
    }
    /// Number of bytes (`FIONREAD`).
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Whether there is no piece.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
    /// Whether there is no free slot.
    pub fn is_full(&self) -> bool {
        self.pieces.len() >= self.slots
    }
    /// The oldest piece.
    pub fn front(&self) -> Option<&Piece<P>> {
        self.pieces.front()
    }
    /// The piece number `index`, oldest first.
    pub fn get(&self, index: usize) -> Option<&Piece<P>> {
        self.pieces.get(index)
    }
    /// Page, first free byte and room behind the newest piece, if `len` bytes can be appended.
    pub fn merge_room(&self, len: usize) -> Option<(&P, usize)> {
        let last = self.pieces.back().filter(|p| p.mergeable)?;
        let end = last.start + last.len;
        (end + len <= PAGE).then_some((&last.page, end))
    }
    /// Records that `len` bytes were appended to the newest piece.
    pub fn merged(&mut self, len: usize) {
        if let Some(last) = self.pieces.back_mut() {
            last.len += len;
            self.bytes += len;
        }
    }
    /// Forbids appending to piece number `index`.
    pub fn seal(&mut self, index: usize) {
        if let Some(piece) = self.pieces.get_mut(index) {
            piece.mergeable = false;
        }
    }
    /// Makes room for one more piece, whatever the number of slots. ENOMEM.
    pub fn reserve(&mut self) -> Result<(), Errno> {
        self.pieces.try_reserve(1).map_err(|_| Errno::ENOMEM)
    }
    /// Adds a piece; returns it if there is no slot.
    pub fn push(&mut self, piece: Piece<P>) -> Result<(), Piece<P>> {
        if self.is_full() {
            return Err(piece);
        }
        self.bytes += piece.len;
        self.pieces.push_back(piece);
        Ok(())
    }
    /// Puts a piece back in front, even if all slots are in use.
    pub fn push_front(&mut self, piece: Piece<P>) {
        self.bytes += piece.len;
        self.pieces.push_front(piece);
    }
    /// Removes `len` bytes from the oldest piece; returns its page when the piece is empty.
    pub fn consume(&mut self, len: usize) -> Option<P> {
        let front = self.pieces.front_mut()?;
        let len = len.min(front.len);
        self.bytes -= len;
        front.start += len;
        front.len -= len;
        if front.len > 0 { None } else { self.pieces.pop_front().map(|p| p.page) }
    }
    /// Removes the oldest piece.
    pub fn pop(&mut self) -> Option<Piece<P>> {
        let piece = self.pieces.pop_front()?;
        self.bytes -= piece.len;
        Some(piece)
    }
    /// Changes the number of slots, and makes room for the pieces. EBUSY: more are in use; ENOMEM.
    pub fn resize(&mut self, slots: usize) -> Result<(), Errno> {
        let more = slots.checked_sub(self.pieces.len()).ok_or(Errno::EBUSY)?;
        // One more for [`PipeRing::push_front`].
        self.pieces.try_reserve(more + 1).map_err(|_| Errno::ENOMEM)?;
        self.slots = slots;
        Ok(())
    }
    /// Removes all pieces.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.bytes = 0;
    }
}

/// The number of slots for a wanted size in bytes (`F_SETPIPE_SZ`): a power of two of pages.
/// At least one. `None` for sizes that do not fit 31 bits.
pub fn slots_for(bytes: usize) -> Option<usize> {
    (bytes <= 1 << 31).then(|| bytes.div_ceil(PAGE).next_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(page: u32, len: usize) -> Piece<u32> {
        Piece { page, start: 0, len, mergeable: true, packet: false }
    }

    #[test]
    fn merges_and_consumes() {
        let mut r = PipeRing::default();
        assert!(r.merge_room(1).is_none());
        r.push(piece(7, 10)).unwrap();
        assert_eq!(r.merge_room(PAGE - 10), Some((&7, 10)));
        assert_eq!(r.merge_room(PAGE - 9), None);
        r.merged(5);
        assert_eq!(r.bytes(), 15);
        assert_eq!(r.consume(14), None);
        assert_eq!(r.front().map(|p| (p.start, p.len)), Some((14, 1)));
        assert_eq!(r.consume(100), Some(7));
        assert!(r.is_empty() && r.bytes() == 0);
    }

    #[test]
    fn bounds_slots() {
        let mut r = PipeRing::default();
        for n in 0..DEFAULT_SLOTS as u32 {
            r.push(piece(n, PAGE)).unwrap();
        }
        assert!(r.is_full() && r.push(piece(99, 1)).is_err());
        assert!(r.resize(8) == Err(Errno::EBUSY) && r.resize(32).is_ok() && !r.is_full());
        assert_eq!(r.pop().map(|p| p.page), Some(0));
        assert_eq!(r.bytes(), 15 * PAGE);
    }

    #[test]
    fn rounds_sizes() {
        assert_eq!(slots_for(0), Some(1));
        assert_eq!(slots_for(1), Some(1));
        assert_eq!(slots_for(4097), Some(2));
        assert_eq!(slots_for(1 << 20), Some(256));
        assert_eq!(slots_for(usize::MAX), None);
    }
}
