//! Small writes, gathered: their bytes wait in keel and are carried out on the host with others, in one trip. So are changes of
//! attributes of files that the pod has just made ([`changes`]).
//!
//! The order of what the pod does never changes: whatever is asked of the host, of files, streams or anything else, is
//! preceded in the ring by what was gathered, and the monitor serves the ring in its order. So no answer is older than a
//! gathered write, and an observer outside who learns of it from the pod sees it. keel's own cache of the file is older: each
//! use of a file with gathered writes waits for them first ([`HostNode::settle`]). See
//! `docs/decisions/0011-small-writes-are-gathered.md`.

use super::order::Asked;
use super::window::Chunk;
use super::{Host, HostNode, now};
use abi::operation::{Operation, Results};
use abi::request::{NodeAttr, Nop, SetAttr, Write, Written};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use hal::frame::{FRAME_SIZE, Frame};
use uapi::{Errno, Result};

mod batch;
mod changes;

use batch::{Batch, Piece};

/// Largest write that is gathered, in bytes.
pub(super) const SMALL: usize = FRAME_SIZE;
/// Writes of a file that follow the one before so soon are gathered, in ns. One alone goes to the host at once.
const DENSE_NS: u64 = 500_000;
/// How long a gathered write may wait, in ns.
pub const WAITS_NS: u64 = 1_000_000;
/// Frames of a batch.
const FRAMES: usize = 16;
/// Requests of a batch: as many as attributes fit into a frame.
const PIECES: usize = FRAME_SIZE / size_of::<[NodeAttr; 2]>();
/// Batches that are filled or under way. All their requests fit into the ring.
const BATCHES: usize = 3;
const _: () = assert!(BATCHES * PIECES < abi::ring::ENTRIES);
/// Free space below which writes are not gathered, so that ENOSPC comes from the write itself, in bytes.
const HEADROOM: u64 = 64 << 20;
/// How long a statfs(2) result is used, in ns.
const SPACE_NS: u64 = 1_000_000_000;
/// File systems whose free space is remembered.
const SPACES: usize = 8;

/// Where the bytes of an append ended.
#[derive(Clone, Debug)]
pub enum End {
    /// At this offset.
    At(u64),
    /// So many bytes behind where the piece begins, once it is known; the offset that is expected.
    Later(Rc<Landing>, u64, u64),
}

/// Where an appended piece of a file begins: known when the host has it.
#[derive(Debug, Default)]
pub struct Landing(Cell<Option<u64>>);

impl Landing {
    /// The offset; `None` as long as it is under way, and if it failed.
    pub fn start(&self) -> Option<u64> {
        self.0.get()
    }
}

/// A batch that was sent.
struct Sent {
    batch: RefCell<Option<Batch>>,
    /// Pieces that have not landed.
    left: Cell<usize>,
}

/// Free space of a file system.
#[derive(Clone, Copy)]
struct Space {
    dev: u64,
    left: u64,
    asked: u64,
}

/// See the module.
#[derive(Default)]
pub(super) struct Gather {
    open: RefCell<Option<Batch>>,
    free: RefCell<Vec<Batch>>,
    /// Batches that exist.
    batches: Cell<usize>,
    /// Batches under way.
    sent: Cell<usize>,
    spaces: RefCell<Vec<Space>>,
    /// Writable pieces of the window, by address: programs may store into them.
    writable: RefCell<BTreeMap<u64, Chunk>>,
    /// When they were looked at last.
    looked: Cell<u64>,
}

impl Gather {
    /// Whether `len` more bytes surely fit into a file system; `None`: unknown.
    fn has_room(&self, dev: u64, len: u64, now: u64) -> Option<bool> {
        let mut spaces = self.spaces.borrow_mut();
        let space = spaces.iter_mut().find(|space| space.dev == dev && now.saturating_sub(space.asked) < SPACE_NS)?;
        space.left = space.left.saturating_sub(len);
        Some(space.left >= HEADROOM)
    }

    fn set_room(&self, dev: u64, left: u64, asked: u64) {
        let mut spaces = self.spaces.borrow_mut();
        if let Some(space) = spaces.iter_mut().find(|space| space.dev == dev) {
            *space = Space { dev, left, asked };
            return;
        }
        if spaces.len() == SPACES {
            spaces.remove(0);
        }
        if spaces.try_reserve(1).is_ok() {
            spaces.push(Space { dev, left, asked });
        }
    }
}

impl Host {
    /// Sends what was gathered, without waiting for it. To be called before any other request, and before keel idles. The
    /// caller may hold borrows.
    pub fn flush(&self) {
        let Some(mut batch) = self.gather.open.take() else { return };
        let pieces = core::mem::take(&mut batch.pieces);
        let (data, attrs) = (batch.frames.clone(), batch.attrs.clone());
        let sent = Rc::new(Sent { batch: RefCell::new(Some(batch)), left: Cell::new(pieces.len()) });
        self.gather.sent.set(self.gather.sent.get() + 1);
        for (number, piece) in pieces.into_iter().enumerate() {
            let room = (&attrs, number * size_of::<[NodeAttr; 2]>(), size_of::<[NodeAttr; 2]>());
            self.send_piece(piece, &data, room, sent.clone());
        }
    }

    /// A request to write is about to be sent: its number.
    pub(super) fn count_write(&self) -> u64 {
        self.writes.set(self.writes.get() + 1);
        self.writes.get()
    }

    fn send_piece(&self, piece: Piece, data: &[Frame], room: (&Frame, usize, usize), sent: Rc<Sent>) {
        let asked = (self.ask(), self.count_write());
        let input = (data, piece.start, piece.len);
        let attrs = (room.0.clone(), room.1);
        if piece.change.is_some() {
            let change = SetAttr { export: piece.node.export.id, handle: piece.handle };
            let done = move |outcome: Result<_>| piece.changed(outcome.map(drop), asked, &attrs, &sent);
            return self.io.send(change.encode(), input, room, Box::new(done));
        }
        let write = Write { handle: piece.handle, offset: piece.at.unwrap_or(u64::MAX) };
        let done = move |outcome: Result<_>| {
            let outcome = outcome.and_then(|reply| Written::decode(reply).ok_or(Errno::EIO));
            piece.landed(outcome, asked, &attrs, sent);
        };
        self.io.send(write.encode(), input, room, Box::new(done));
    }

    /// Adds a write to what is gathered; `None`: there is no place. Otherwise where an append will land, and whether it is a
    /// request of its own.
    fn add(
        &self,
        node: &Rc<HostNode>,
        handle: u64,
        at: Option<u64>,
        expected: u64,
        data: &[u8],
    ) -> Option<(Option<End>, bool)> {
        self.place(|batch| {
            let (is_in, is_new) = batch.add(node, handle, at, expected, data);
            let end = batch.pieces.last().and_then(|piece| {
                let landing = piece.landing.clone()?;
                Some(End::Later(landing, piece.len as u64, expected + data.len() as u64))
            });
            is_in.then_some((end, is_new))
        })
    }

    /// Has `add` put something into a batch; `None`: there is no place in any.
    fn place<R>(&self, mut add: impl FnMut(&mut Batch) -> Option<R>) -> Option<R> {
        let gather = &self.gather;
        for _ in 0..2 {
            if gather.open.borrow().is_none() {
                if gather.free.borrow().is_empty() && gather.sent.get() > 0 {
                    self.io.collect();
                }
                let free = gather.free.borrow_mut().pop();
                let batch = match free {
                    Some(batch) => batch,
                    None if gather.batches.get() < BATCHES => {
                        let batch = Batch::new()?;
                        gather.batches.set(gather.batches.get() + 1);
                        batch
                    }
                    None => return None,
                };
                gather.open.replace(Some(batch));
            }
            let mut open = gather.open.borrow_mut();
            let batch = open.as_mut()?;
            let was_empty = batch.pieces.is_empty();
            let added = add(batch);
            drop(open);
            if added.is_some() {
                if was_empty {
                    self.io.gathered(WAITS_NS);
                }
                return added;
            }
            if was_empty {
                // No frame for it.
                let batch = gather.open.take();
                gather.free.borrow_mut().extend(batch);
                return None;
            }
            self.flush();
        }
        None
    }

    /// A part of the window is made writable for a program: what it stores there, others see at once, and so they must see
    /// what it wrote before: waits for that.
    pub(super) fn is_stored_to(&self, chunk: Chunk) {
        let is_new = self.gather.writable.borrow_mut().insert(chunk.gpa, chunk).is_none();
        if is_new && (self.gather.sent.get() > 0 || self.gather.open.borrow().is_some()) {
            // What became of them their files know.
            let _ = self.call(Nop { after_files: true }, &(), &mut ());
        }
    }

    /// Whether programs may store into the host's page cache.
    fn has_stores(&self, now: u64) -> bool {
        if self.gather.writable.borrow().is_empty() {
            return false;
        }
        if now.saturating_sub(self.gather.looked.get()) > SPACE_NS {
            self.gather.looked.set(now);
            self.gather.writable.borrow_mut().retain(|_, chunk| self.in_use(chunk));
        }
        !self.gather.writable.borrow().is_empty()
    }

    fn batch_landed(&self, mut batch: Batch) {
        let gather = &self.gather;
        gather.sent.set(gather.sent.get() - 1);
        if gather.sent.get() == 0 && gather.open.borrow().is_none() {
            self.io.all_landed();
        }
        batch.filled = 0;
        batch.frames.clear();
        if batch.pieces.try_reserve_exact(PIECES).is_ok() && gather.free.borrow_mut().try_reserve(1).is_ok() {
            gather.free.borrow_mut().push(batch);
        } else {
            gather.batches.set(gather.batches.get() - 1);
        }
    }
}

impl Piece {
    /// The host has it, or refused it.
    fn landed(mut self, outcome: Result<Written>, asked: (Asked, u64), attrs: &(Frame, usize), sent: Rc<Sent>) {
        let node = self.node.clone();
        let host = node.export.host.clone();
        match outcome {
            Ok(Written { bytes, end }) => {
                let written = (bytes as usize).min(self.len);
                let mut around = [NodeAttr::default(); 2];
                attrs.0.read(attrs.1, bytemuck::bytes_of_mut(&mut around));
                let start = match self.at {
                    Some(at) => at,
                    None => end.saturating_sub(written as u64),
                };
                if let Some(landing) = &self.landing
                    && landing.0.get().is_none()
                {
                    landing.0.set(Some(start));
                }
                node.follow_gathered(&around, asked.0, asked.1);
                if written > 0 && written < self.len {
                    // The request for the rest returns the reason.
                    self.start += written;
                    self.len -= written;
                    self.at = self.at.map(|at| at + written as u64);
                    let frames = sent.batch.borrow().as_ref().map(|batch| batch.frames.clone()).unwrap_or_default();
                    host.send_piece(self, &frames, (&attrs.0, attrs.1, size_of::<[NodeAttr; 2]>()), sent);
                    return;
                }
                if written == 0 {
                    node.failed(Errno::EIO);
                }
            }
            Err(errno) => node.failed(errno),
        }
        sent.piece_landed(&node);
    }
}

impl Sent {
    /// The host has one piece more, a part of `node`'s.
    fn piece_landed(&self, node: &HostNode) {
        let content = node.content();
        content.gathered.set(content.gathered.get().saturating_sub(1));
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0
            && let Some(batch) = self.batch.take()
        {
            node.export.host.batch_landed(batch);
        }
    }
}

impl HostNode {
    /// Takes a small write if it may be gathered. Never waits.
    pub(super) fn try_gather(&self, at: Option<u64>, data: &[u8]) -> Option<End> {
        let (host, content) = (&*self.export.host, self.content());
        if !self.writes_are_dense() {
            return None;
        }
        let now = now();
        let handle = content.writable_handle()?;
        if !content.chunks.borrow().is_empty() {
            return None;
        }
        let attr = self.attr_cached();
        let size = if content.gathered.get() == 0 { attr.size } else { content.expected.get() };
        let start = at.unwrap_or(size);
        // What begins behind the end may be more than a file can hold.
        if start > size || host.has_stores(now) || host.gather.has_room(attr.dev, data.len() as u64, now) != Some(true)
        {
            return None;
        }
        let is_first = at.is_some() && content.gathered.get() == 0 && content.pages.borrow().is_empty();
        let (end, is_new) = host.add(&self.rc().ok()?, handle, at, start, data)?;
        content.gathered.set(content.gathered.get() + u32::from(is_new));
        let after = start + data.len() as u64;
        content.expected.set(size.max(after));
        if is_first {
            content.unseen.set(Some(size));
        }
        self.gathers(at, start, data, size);
        content.wrote.set(now);
        Some(end.unwrap_or(End::At(after)))
    }

    /// Whether a write now follows another one of this file soon.
    pub(super) fn writes_are_dense(&self) -> bool {
        now().saturating_sub(self.content().wrote.get()) <= DENSE_NS
    }

    /// The pod made the file and is about to fill it: if files around it are filled by small writes, its first one is
    /// gathered already.
    pub(super) fn will_be_written(&self) {
        let now = now();
        if self.export.host.gather.has_room(self.attr_cached().dev, 0, now) == Some(true) {
            self.content().wrote.set(now);
        }
    }

    /// A small write went to the host: the next one may be gathered. `was_dense`: it followed another one soon.
    pub(super) fn wrote_small(&self, was_dense: bool) {
        let (host, content) = (&*self.export.host, self.content());
        let dev = self.attr_cached().dev;
        if was_dense && !self.gone.get() && host.gather.has_room(dev, 0, now()).is_none() {
            let asked = now();
            let left = self.fetch_statfs().map_or(0, |stat| stat.bavail.saturating_mul(stat.bsize));
            host.gather.set_room(dev, left, asked);
        }
        content.wrote.set(now());
    }

    /// Waits until the host has what was gathered of this file.
    #[inline]
    pub(super) fn settle_content(&self) -> Result<()> {
        /// Most turns: others may write on meanwhile.
        const TURNS: usize = 8;
        let Some(content) = self.content.get() else { return Ok(()) };
        for _ in 0..TURNS {
            if content.gathered.get() == 0 {
                break;
            }
            // Its answer comes after those to what was sent before it. The rest of a write that was cut short is sent when
            // that is known: one more turn.
            self.export.host.call(Nop { after_files: true }, &(), &mut ())?;
        }
        Ok(())
    }

    /// A gathered write failed: each description that is open for writing reports it.
    fn failed(&self, errno: Errno) {
        let content = self.content();
        let (count, _) = content.failure.get();
        content.failure.set((count.wrapping_add(1), Some(errno)));
        content.outdate(&self.export.host);
        self.stale();
    }

    /// Where an append ended.
    pub(super) fn resolve(&self, end: End) -> Result<u64> {
        match end {
            End::At(at) => Ok(at),
            End::Later(landing, after, expected) => {
                self.settle_content()?;
                Ok(landing.start().map_or(expected, |start| start + after))
            }
        }
    }
}
