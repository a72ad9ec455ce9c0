//! Listing host directories: the requested one, and readahead of others for a walk through a tree.

use super::order::Asked;
use super::prefetch::{Order, SMALL};
use super::{Export, Host, HostNode};
use crate::memory::chunk;
use crate::{Listing, Name};
use abi::request::{DirRecord, ListAttributes, NodeAttr, ReadDir, dir_record};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Bound;
use uapi::{Errno, Result};

/// Number of preceding siblings (all but one) that a program must have listed to count as walking the tree.
const NEAR: usize = 4;
/// Room for the records of one trip, unless the pod is small.
const ROOM: usize = 256 << 10;
/// Bytes of records ahead after the first step through a tree; they double with each step.
const FIRST_AHEAD: u64 = 8 << 10;
/// Steps of a walk after which directories beyond the subtree are read ahead, too.
const STEPS_TO_OTHERS: u32 = 2;
/// Maximum bytes of paths in a request.
const MAX_PATHS: usize = 8 << 10;
/// Maximum number of ancestors whose other directories are read ahead.
const MAX_UP: usize = 16;

/// Maximum number of counted steps: readahead does not grow further.
const MAX_STEPS: u32 = 8;

/// Directories to read ahead.
pub(super) struct Ahead {
    /// Their order.
    by: Order,
    /// Number of steps in this order so far.
    steps: u32,
    /// Only the following directories, not those beneath.
    is_flat: bool,
}

impl HostNode {
    /// The order in which a program walks the tree, if it listed this directory after its parent and the preceding
    /// siblings, or looked up (`sought`) files in them.
    pub(super) fn step(&self, sought: bool) -> Option<Order> {
        let (dir, name) = self.place.borrow().clone()?;
        if sought {
            dir.order_of(&name, 1, false, Self::was_searched)
        } else {
            dir.order_of(&name, NEAR, true, Self::is_listed)
        }
    }

    /// Directories to read ahead, depending on the number of such steps.
    fn ahead(&self, sought: bool) -> Option<Ahead> {
        let by = self.step(sought);
        let host = &self.export.host;
        let count = if sought { &host.sought_steps } else { &host.tree_steps };
        count.set(if by.is_some() { count.get().saturating_add(1).min(MAX_STEPS) } else { 0 });
        by.map(|by| Ahead { by, steps: count.get(), is_flat: sought })
    }

    /// Appends the paths of the directories that follow this subtree. Returns their number.
    fn others(&self, ahead: &Ahead, attributes: ListAttributes, input: &mut Vec<u8>) -> usize {
        let mut count = 0;
        let mut place = self.place.borrow().clone().filter(|_| ahead.steps >= STEPS_TO_OTHERS);
        for _ in 0..MAX_UP {
            let Some((dir, name)) = place else { break };
            count += dir.unlisted_after(&name, ahead.by, attributes, MAX_PATHS, input);
            place = dir.place.borrow().clone();
        }
        count
    }

    /// Appends paths of directories that follow `name` and were not listed with `attributes` yet, as many as `room`
    /// takes, each after a zero byte. Returns their number.
    pub(super) fn unlisted_after(
        &self,
        name: &[u8],
        by: Order,
        attributes: ListAttributes,
        room: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        let Some(names) = self.names.get().filter(|_| self.is_listed()) else { return 0 };
        let prefix = self.path();
        let (order, map) = (names.order.borrow(), names.map.borrow());
        let is_done = |dir: &HostNode| dir.is_listed() && dir.names().attributes.get() <= attributes;
        let is_unlisted = |name: &&Name| {
            map.get(*name)
                .is_some_and(|entry| entry.is_directory() && entry.node.upgrade().is_none_or(|node| !is_done(&node)))
        };
        let mut count = 0;
        let in_order = order.iter().skip_while(|n| ***n != *name).skip(1);
        let sorted = map.range::<[u8], _>((Bound::Excluded(name), Bound::Unbounded)).map(|(name, _)| name);
        let following: &mut dyn Iterator<Item = &Name> = match by {
            Order::Host => &mut { in_order },
            Order::Sorted => &mut { sorted },
        };
        for name in following.filter(is_unlisted) {
            let mut path = prefix.clone();
            if !prefix.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            if out.len() + 1 + path.len() > room {
                break;
            }
            if !self.export.is_underway(&path) {
                out.push(0);
                out.extend_from_slice(&path);
                count += 1;
            }
        }
        count
    }

    /// Fetches the whole directory: with all attributes if they are needed (`sought`) or were needed in the preceding
    /// directories, or if it is small; else names and the attributes of directories. Readahead likewise.
    pub(super) fn fetch_all(&self, sought: bool) -> Result<Listing> {
        let looked_up = self.export.host.looked_up.replace(false);
        let with_attributes = sought || looked_up && self.seeks_as_before();
        if sought {
            self.export.host.sought.replace(self.this.clone());
        }
        let ahead = self.ahead(sought);
        let large = ahead.is_some() || self.attr_cached().size > SMALL;
        let brief = large && !with_attributes;
        self.fetch_list(if brief { ListAttributes::Directories } else { ListAttributes::All }, ahead)
    }

    /// Fetches the whole directory, and those to read `ahead`.
    pub(super) fn fetch_list(&self, attributes: ListAttributes, ahead: Option<Ahead>) -> Result<Listing> {
        let _held = self.export.hold_paths()?;
        let mut input = self.path();
        let others = ahead.as_ref().map_or(0, |ahead| self.others(ahead, attributes, &mut input));
        // The number that will probably be returned.
        let most = ahead.as_ref().filter(|_| others > 0).map_or(1, |ahead| 1 << ahead.steps);
        let underway = Underway::new(&self.export, &input, most);
        let bytes_ahead = ahead.as_ref().map_or(0, |ahead| (FIRST_AHEAD << ahead.steps).min(chunk(ROOM) as u64));
        let flat = ahead.is_some_and(|ahead| ahead.is_flat);
        let asked = self.export.host.ask();
        let mut entries = Listing::new();
        // Names in their order, unless there are too many to keep.
        let mut order: Option<Vec<Name>> = Some(Vec::new());
        let mut handle = 0;
        loop {
            handle = self.export.host.with_buffer(chunk(ROOM), |buffer| {
                let (export, others) = (self.export.id, others as u64);
                let part = ReadDir { export, handle, ahead: bytes_ahead, others, attributes, flat };
                let listed = self.export.host.call(part, &input[..], &mut *buffer)?;
                let mut records = buffer.get(..listed.bytes as usize).ok_or(Errno::EIO)?;
                while let Some(Record { name, attr, kind, target, rest }) = record(records) {
                    if kind == dir_record::DIRECTORY {
                        self.take_ahead(records, attributes, asked);
                        break;
                    }
                    entries.push(name, attr.ino, crate::FileType::of(attr.mode))?;
                    let name = self.list_entry(name, attr, target, asked);
                    // The cache may have evicted names already: its limit is below this count.
                    let kept = order.take().filter(|order| order.len() < self.names().len());
                    if let Some(mut kept) = kept
                        && kept.try_reserve(1).is_ok()
                    {
                        kept.push(name);
                        order = Some(kept);
                    }
                    records = rest;
                }
                Ok(listed.handle)
            })?;
            if handle == 0 {
                break;
            }
        }
        if let Some(order) = order {
            let all = attributes == ListAttributes::WithLists;
            self.listed(order, if all { ListAttributes::All } else { attributes }, asked);
        }
        drop(underway);
        Ok(entries)
    }

    /// Caches complete directories from readahead.
    fn take_ahead(&self, mut records: &[u8], attributes: ListAttributes, asked: Asked) {
        let mut current: Option<(Rc<Self>, Vec<Name>)> = None;
        while let Some(Record { name, attr, kind, target, rest }) = record(records) {
            records = rest;
            if kind != dir_record::DIRECTORY {
                if let Some((dir, order)) = &mut current {
                    if order.try_reserve(1).is_err() {
                        // Its names are cached individually, but the listing is incomplete.
                        current = None;
                        continue;
                    }
                    order.push(dir.list_entry(name, attr, target, asked));
                }
                continue;
            }
            if let Some((dir, order)) = current.take() {
                dir.listed(order, attributes, asked);
            }
            current = self.known_directory(name, &attr, asked).map(|dir| (dir, Vec::new()));
        }
        if let Some((dir, order)) = current {
            dir.listed(order, attributes, asked);
        }
    }

    /// The directory at a path beneath the export, if all names that lead there were just listed. `attr`: its own,
    /// which the list need not have had.
    fn known_directory(&self, path: &[u8], attr: &NodeAttr, asked: Asked) -> Option<Rc<Self>> {
        let mut at = self.rc().ok()?;
        // Most are beneath the requested directory.
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
            let (name, next) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
            at = match at.just_listed(name) {
                Some(node) => node,
                None if next.is_empty() && at.has_entry(name, attr) => at.enter(name, attr, asked),
                None => return None,
            };
            rest = next;
        }
        (at.kind() == crate::FileType::Directory).then_some(at)
    }
}

/// Directories that are being listed.
struct Underway<'a> {
    host: &'a Host,
    /// All entries of [`Host::underway`] with this number.
    number: u64,
}

impl<'a> Underway<'a> {
    /// The first `most` of `paths`: beneath the export, with zero bytes between them.
    fn new(export: &'a Export, paths: &[u8], most: usize) -> Self {
        let mut list = export.host.underway.borrow_mut();
        let number = list.last().map_or(0, |(number, ..)| number + 1);
        let paths = paths.split(|&byte| byte == 0).take(most);
        list.extend(paths.map(|path| (number, export.id, path.to_vec())));
        Self { host: &export.host, number }
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.host.underway.borrow_mut().retain(|(number, ..)| *number != self.number);
    }
}

impl Export {
    /// Whether a listing of a directory is under way.
    pub(super) fn is_underway(&self, path: &[u8]) -> bool {
        self.host.underway.borrow().iter().any(|(_, id, listed)| *id == self.id && listed[..] == *path)
    }
}

/// A record of a directory, as the host sent it.
pub(super) struct Record<'a> {
    pub(super) name: &'a [u8],
    pub(super) attr: NodeAttr,
    kind: u32,
    pub(super) target: &'a [u8],
    /// The rest.
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
