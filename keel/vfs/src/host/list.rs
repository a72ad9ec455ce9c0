//! Listing host directories: one that is wanted, and more ahead for who goes through a tree.

use super::{HostNode, now};
use crate::{Listing, Name};
use abi::request::{DirRecord, NodeAttr, Op, dir_record};
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// A directory whose size is at most this many bytes is listed with all attributes, unless on the way through a tree.
const SMALL: u64 = 4 << 10;
/// Room for the records of one trip.
const ROOM: usize = 256 << 10;
/// Bytes of records ahead after the first step through a tree; they double with each step.
const FIRST_AHEAD: u64 = 8 << 10;
/// Steps after which the host is also asked for what follows the tree beneath the directory.
const STEPS_TO_OTHERS: u32 = 2;
/// Most bytes of paths in a request.
const MAX_PATHS: usize = 8 << 10;
/// Most directories above whose other directories are asked for.
const MAX_UP: usize = 16;

impl HostNode {
    /// How many bytes to ask for ahead: directories that are listed right after the one they lie in are
    /// steps of a program that goes through a tree.
    fn ahead(&self) -> u64 {
        let host = &self.export.host;
        let parent = self.place.borrow().as_ref().map(|(dir, _)| dir.clone());
        let steps = if parent.is_some_and(|dir| dir.is_listed()) { host.tree_steps.get().saturating_add(1) } else { 0 };
        host.tree_steps.set(steps);
        if steps == 0 { 0 } else { (FIRST_AHEAD << steps.min(16)).min(ROOM as u64) }
    }

    /// Appends the paths of the directories that a walk in the host's order comes to after all that lies
    /// beneath this one. Returns how many.
    fn others(&self, brief: bool, input: &mut Vec<u8>) -> usize {
        let mut count = 0;
        let mut place = self.place.borrow().clone();
        for _ in 0..MAX_UP {
            let Some((dir, name)) = place else { break };
            count += dir.unlisted_after(&name, brief, MAX_PATHS, input);
            place = dir.place.borrow().clone();
        }
        count
    }

    /// Fetches the whole directory: with all attributes if they are wanted (`attributes`) or were wanted of the
    /// directories before, or if it is small, else names and the attributes of directories. Others ahead likewise.
    pub(super) fn fetch_all(&self, attributes: bool) -> Result<Listing> {
        let host = &self.export.host;
        let looked_up = host.looked_up.replace(false);
        host.lists_attributes.set(attributes || looked_up && host.lists_attributes.get());
        let mut input = self.path();
        let ahead = self.ahead();
        let large = ahead > 0 || self.attr_cached().size > SMALL;
        let brief = large && !host.lists_attributes.get();
        let others = if self.export.host.tree_steps.get() >= STEPS_TO_OTHERS {
            self.others(brief, &mut input) as u64
        } else {
            0
        };
        let fetched = now();
        let mut entries = Listing::new();
        // Names in their order, unless there are too many to keep.
        let mut order: Option<Vec<Name>> = Some(Vec::new());
        let mut cursor = 0;
        loop {
            cursor = self.export.host.with_buffer(ROOM, |buffer| {
                let reply =
                    self.export.call(Op::ReadDir, [cursor, ahead, others, u64::from(brief), 0], &input, buffer)?;
                let mut records = buffer.get(..reply.result as usize).ok_or(Errno::EIO)?;
                while let Some(Record { name, attr, kind, target, rest }) = record(records) {
                    if kind == dir_record::DIRECTORY {
                        self.take_ahead(records, brief, fetched);
                        break;
                    }
                    entries.push(name, attr.ino, crate::FileType::of(attr.mode))?;
                    let name = self.list_entry(name, attr, target, fetched);
                    // The cache may have forgotten names again: it does not take this many.
                    let kept = order.take().filter(|order| order.len() < self.names().len());
                    if let Some(mut kept) = kept
                        && kept.try_reserve(1).is_ok()
                    {
                        kept.push(name);
                        order = Some(kept);
                    }
                    records = rest;
                }
                Ok(reply.extra[0])
            })?;
            if cursor == 0 {
                break;
            }
        }
        if let Some(order) = order {
            self.listed(order, brief, fetched);
        }
        Ok(entries)
    }

    /// Takes whole directories that came ahead.
    fn take_ahead(&self, mut records: &[u8], brief: bool, fetched: u64) {
        let mut current: Option<(Rc<Self>, Vec<Name>)> = None;
        while let Some(Record { name, attr, kind, target, rest }) = record(records) {
            records = rest;
            if kind != dir_record::DIRECTORY {
                if let Some((dir, order)) = &mut current {
                    order.push(dir.list_entry(name, attr, target, fetched));
                }
                continue;
            }
            if let Some((dir, order)) = current.take() {
                dir.listed(order, brief, fetched);
            }
            current = self.known_directory(name).map(|dir| (dir, Vec::new()));
        }
        if let Some((dir, order)) = current {
            dir.listed(order, brief, fetched);
        }
    }

    /// The directory at a path beneath the export, if all names that lead there were just listed.
    fn known_directory(&self, path: &[u8]) -> Option<Rc<Self>> {
        let mut at = self.rc().ok()?;
        // Most lie beneath the directory that was asked for.
        let mut rest = match path.strip_prefix(&self.path()[..]) {
            Some([b'/', rest @ ..]) => rest,
            _ => {
                loop {
                    let place = at.place.borrow().clone();
                    let Some((dir, _)) = place else { break };
                    at = dir;
                }
                path
            }
        };
        while !rest.is_empty() {
            let end = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
            at = at.just_listed(&rest[..end])?;
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        (at.kind() == crate::FileType::Directory).then_some(at)
    }
}

/// A record of a directory, as the host sent it.
pub(super) struct Record<'a> {
    pub(super) name: &'a [u8],
    pub(super) attr: NodeAttr,
    kind: u32,
    pub(super) target: &'a [u8],
    /// What follows.
    pub(super) rest: &'a [u8],
}

/// Splits the first record off.
pub(super) fn record(bytes: &[u8]) -> Option<Record<'_>> {
    const HEAD: usize = size_of::<DirRecord>();
    let head: DirRecord = bytemuck::try_pod_read_unaligned(bytes.get(..HEAD)?).ok()?;
    let (name_len, target_len) = (usize::from(head.name_len), usize::from(head.target_len));
    let total = (HEAD + name_len + target_len).next_multiple_of(8);
    let name = bytes.get(HEAD..HEAD + name_len)?;
    let target = bytes.get(HEAD + name_len..HEAD + name_len + target_len)?;
    Some(Record { name, attr: head.attr, kind: head.kind, target, rest: bytes.get(total..)? })
}
