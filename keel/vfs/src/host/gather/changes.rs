//! Changes of attributes of files that the pod has just made: what follows a file's content in an archive.
//!
//! The monitor owns such a file, so that it may change its mode and times; what could fail otherwise (another owner,
//! set-id bits, which the monitor may strip) goes to the host at once. From then on the pod believes the new mode, and whoever
//! asks for all attributes waits for the host ([`HostNode::settle_content`]).

use super::super::order::Asked;
use super::super::{HostNode, now};
use super::batch::{Batch, Piece};
use super::{PIECES, Sent};
use abi::request::{AttrChange, NodeAttr, set_attr};
use alloc::rc::Rc;
use hal::frame::Frame;
use uapi::Result;

/// How long after a file was made its attributes are changed without a trip, in ns.
const NEW_NS: u64 = 20_000_000;
const SET_ID: u32 = 0o6000;

/// Both changes as one. The monitor changes owner, mode and times in this order, whatever theirs is: none of them, as far as they are
/// gathered, has an effect on another.
fn merge(first: &AttrChange, then: &AttrChange) -> AttrChange {
    let mut both = *first;
    let sets = |bit| then.valid & bit != 0;
    if sets(set_attr::MODE) {
        both.mode = then.mode;
    }
    if sets(set_attr::UID) {
        both.uid = then.uid;
    }
    if sets(set_attr::GID) {
        both.gid = then.gid;
    }
    if sets(set_attr::ATIME) {
        both.valid &= !set_attr::ATIME_NOW;
        (both.atime, both.atime_ns) = (then.atime, then.atime_ns);
    }
    if sets(set_attr::MTIME) {
        both.valid &= !set_attr::MTIME_NOW;
        (both.mtime, both.mtime_ns) = (then.mtime, then.mtime_ns);
    }
    both.valid |= then.valid;
    both
}

/// A change that was added to a batch.
struct Added {
    /// It is a request of its own.
    is_new: bool,
    /// It is the first of its request that changes the mode.
    sets_mode: bool,
}

impl Batch {
    /// Adds a change, to the one before if that is of the same file; `None` if it does not fit.
    fn add_change(&mut self, node: &Rc<HostNode>, handle: u64, change: &AttrChange) -> Option<Added> {
        let has_mode = |change: &AttrChange| change.valid & set_attr::MODE != 0;
        let last = self.pieces.last_mut().filter(|last| Rc::ptr_eq(&last.node, node) && last.handle == handle);
        if let Some(Piece { change: Some(before), start, .. }) = last {
            let both = merge(before, change);
            let sets_mode = !has_mode(before) && has_mode(&both);
            *before = both;
            let start = *start;
            self.write(start, bytemuck::bytes_of(&both));
            return Some(Added { is_new: false, sets_mode });
        }
        let start = self.filled;
        if self.pieces.len() == PIECES || !self.put(bytemuck::bytes_of(change)) {
            return None;
        }
        let (node, len) = (node.clone(), size_of::<AttrChange>());
        let change = Some(*change);
        self.pieces.push(Piece { node, handle, change, at: None, expected: 0, landing: None, start, len });
        Some(Added { is_new: true, sets_mode: change.as_ref().is_some_and(has_mode) })
    }
}

impl HostNode {
    /// Takes a change of attributes if it may be gathered. Never waits.
    pub(in super::super) fn try_gather_change(&self, change: &AttrChange) -> bool {
        let (Some(content), now) = (self.content.get(), now()) else { return false };
        if now.saturating_sub(content.made.get()) > NEW_NS || !content.chunks.borrow().is_empty() {
            return false;
        }
        let (host, attr) = (&*self.export.host, self.attr_cached());
        let has = |bit| change.valid & bit != 0;
        let is_plain = change.valid & set_attr::SIZE == 0
            && (attr.mode | change.mode) & SET_ID == 0
            && (!has(set_attr::UID) || change.uid == attr.uid)
            && (!has(set_attr::GID) || change.gid == attr.gid);
        let (true, Some(handle), Ok(node)) = (is_plain, content.writable_handle(), self.rc()) else { return false };
        if host.has_stores(now) || host.io.is_polled() {
            return false;
        }
        let Some(added) = host.place(|batch| batch.add_change(&node, handle, change)) else { return false };
        if content.gathered.get() == 0 {
            content.expected.set(attr.size);
        }
        content.gathered.set(content.gathered.get() + u32::from(added.is_new));
        content.changing.set(content.changing.get() + u32::from(added.sets_mode));
        self.withdraw();
        if has(set_attr::MODE) {
            self.attr.set(NodeAttr { mode: attr.mode & !0o7777 | change.mode & 0o7777, ..attr });
            self.permissions_changed();
        }
        // What was asked for before says nothing about it.
        let (_, request) = content.written.get();
        self.changed.set(host.count_change());
        content.written.set((self.changed.get(), request));
        true
    }
}

impl Piece {
    /// The host has changed the attributes, or refused to.
    pub(super) fn changed(self, outcome: Result<()>, asked: (Asked, u64), attrs: &(Frame, usize), sent: &Sent) {
        let (node, content) = (&*self.node, self.node.content());
        if self.change.is_some_and(|change| change.valid & set_attr::MODE != 0) {
            content.changing.set(content.changing.get().saturating_sub(1));
        }
        match outcome {
            Ok(()) => {
                let mut around = [NodeAttr::default(); 2];
                attrs.0.read(attrs.1, bytemuck::bytes_of_mut(&mut around));
                node.follow_change(&around, asked.0, asked.1);
            }
            Err(errno) => {
                node.failed(errno);
                node.permissions_unknown();
            }
        }
        sent.piece_landed(node);
    }
}
