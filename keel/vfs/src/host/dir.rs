//! Names of a host directory.

use super::{HostNode, now};
use crate::{FileType, Listing, Name};
use abi::request::{NodeAttr, Op};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ops::Bound;
use uapi::{Errno, Result};

/// Most components that one lookup fetches.
const MAX_AHEAD: usize = 16;

/// Who asks for the attributes of a listed name and then of one that follows as closely goes through all of them,
const STEP: usize = 8;
/// and as closely if they are sorted.
const SORTED_STEP: usize = 2;
/// Names of a listed directory whose attributes are asked for one by one: so many,
const FEW: usize = 4;
/// or of a large one this part, which takes about as long as all of them at once.
const MANY: usize = 32;
/// Most names among which one is searched for its place.
const MAX_SEARCHED: usize = 1024;

/// What the host said of a name.
enum Seen {
    /// There is no such name.
    Absent,
    /// Only what a directory itself tells: inode number and mode without permissions.
    Listed(u64, u32),
    /// Attributes and the link target.
    All(Box<(NodeAttr, Option<Name>)>),
}

impl Seen {
    fn exists(&self) -> bool {
        !matches!(self, Seen::Absent)
    }

    /// Inode number and type.
    fn entry(&self) -> Option<(u64, FileType)> {
        match self {
            Seen::Absent => None,
            Seen::Listed(ino, mode) => Some((*ino, FileType::of(*mode))),
            Seen::All(all) => Some((all.0.ino, FileType::of(all.0.mode))),
        }
    }
}

/// What is known of a name.
struct Entry {
    /// When it was fetched.
    fetched: u64,
    found: Seen,
    /// The node, while somebody uses it.
    node: Weak<HostNode>,
}

/// Remembered names of a directory.
#[derive(Default)]
pub(super) struct Names {
    /// The cache keeps the directory alive for them.
    pub(super) is_kept: Cell<bool>,
    /// A tree, because a big directory would need a big table in one piece.
    map: RefCell<BTreeMap<Name, Entry>>,
    /// All names, in the host's order, as of `listed`.
    order: RefCell<Vec<Name>>,
    pub(super) sought: super::near::Sought,
    /// How often a name was looked up whose attributes were not fetched, and where the last one stood in the order.
    misses: Cell<(usize, usize)>,
    /// The last one.
    missed: RefCell<Option<Name>>,
    /// The last listing brought attributes of directories only.
    is_brief: Cell<bool>,
    /// When the whole directory was fetched; 0: never.
    listed: Cell<u64>,
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.map.borrow().len()
    }

    /// Forgets everything; returns how many names that were.
    pub(super) fn clear(&self) -> usize {
        self.listed.set(0);
        let order = self.order.take();
        let map = self.map.take();
        drop(order);
        map.len()
    }

    /// Notes that the attributes of a listed name are wanted. Whether those of the others will probably be, too: somebody
    /// goes through them in their order or sorted, or has asked for many. Who looks for a few of many names asks for
    /// those.
    fn are_all_wanted(&self, name: &[u8]) -> bool {
        let (order, map) = (self.order.borrow(), self.map.borrow());
        let (count, last) = self.misses.get();
        let missed = self.missed.take();
        let after = order.get(last + 1..).unwrap_or_default();
        let step = after.iter().take(STEP).position(|n| **n == *name).filter(|_| missed.is_some());
        let is_next = missed.is_some_and(|missed| {
            let after = map.range::<[u8], _>((Bound::Excluded(&*missed), Bound::Unbounded));
            after.take(SORTED_STEP).any(|(n, _)| **n == *name)
        });
        if step.is_some() || is_next || count >= FEW.max(order.len() / MANY) {
            self.misses.set((0, 0));
            return true;
        }
        let at = order.iter().take(MAX_SEARCHED).position(|n| **n == *name).unwrap_or_default();
        self.misses.set((count + 1, at));
        let known = map.get_key_value(name).map(|(n, _)| n.clone());
        self.missed.replace(known);
        false
    }

    /// Whether names that are not in the table do not exist.
    fn is_complete(&self, now: u64, fresh_ns: u64) -> bool {
        self.listed.get() != 0 && now.saturating_sub(self.listed.get()) < fresh_ns
    }
}

/// What the table says about a name.
enum Known {
    Node(Rc<HostNode>, u64),
    Attr(NodeAttr, Option<Name>, u64),
    /// It exists.
    Listed,
    Absent,
    Unknown,
}

impl HostNode {
    pub(super) fn names(&self) -> &Names {
        self.names.get_or_init(Default::default)
    }

    fn known(&self, name: &[u8]) -> Known {
        let Some(names) = self.names.get() else { return Known::Unknown };
        let (now, fresh_ns) = (now(), self.export.fresh_ns);
        let map = names.map.borrow();
        match map.get(name) {
            Some(entry) if now.saturating_sub(entry.fetched) < fresh_ns => match (entry.node.upgrade(), &entry.found) {
                (_, Seen::Absent) => Known::Absent,
                (Some(node), Seen::Listed(..)) if now.saturating_sub(node.fetched.get()) >= fresh_ns => Known::Listed,
                (None, Seen::Listed(..)) => Known::Listed,
                (Some(node), _) => Known::Node(node, entry.fetched),
                (None, Seen::All(all)) => Known::Attr(all.0, all.1.clone(), entry.fetched),
            },
            None if names.is_complete(now, fresh_ns) => Known::Absent,
            _ => Known::Unknown,
        }
    }

    /// Finds a name: the node, and until when (monotonic ns) the answer holds. Asks the host if what
    /// is known is too old, and then also for the components of `ahead`.
    pub fn find(&self, name: &[u8], ahead: &[u8]) -> Result<(Rc<HostNode>, u64)> {
        let mut known = self.known(name);
        if matches!(known, Known::Listed) {
            self.export.host.looked_up.set(true);
            if self.names().are_all_wanted(name) {
                self.fetch_all(true)?;
                known = self.known(name);
            }
        }
        if matches!(known, Known::Unknown) && self.fetched_near() {
            known = self.known(name);
        }
        match known {
            Known::Node(node, fetched) => {
                if node.kind() != FileType::Directory {
                    self.export.host.looked_up.set(true);
                }
                node.has_name(&self.rc()?, name);
                Ok((node, fetched + self.export.fresh_ns))
            }
            Known::Attr(attr, target, fetched) => {
                if FileType::of(attr.mode) != FileType::Directory {
                    self.export.host.looked_up.set(true);
                }
                Ok((self.known_node(Rc::from(name), &attr, target, fetched)?, fetched + self.export.fresh_ns))
            }
            Known::Absent => Err(Errno::ENOENT),
            Known::Listed | Known::Unknown => self.walk(name, ahead),
        }
    }

    /// The node of a name of which only the attributes were kept.
    fn known_node(&self, name: Name, attr: &NodeAttr, target: Option<Name>, fetched: u64) -> Result<Rc<HostNode>> {
        let node = self.export.node(Some((self.rc()?, name.clone())), attr);
        if target.is_some() {
            node.target.replace(target);
        }
        // The attributes are as old as the listing.
        node.fetched.set(fetched);
        if let Some(entry) = self.names().map.borrow_mut().get_mut(&name) {
            entry.node = Rc::downgrade(&node);
        }
        Ok(node)
    }

    /// What is known under a name that was just listed.
    pub(super) fn just_listed(&self, name: &[u8]) -> Option<Rc<HostNode>> {
        match self.known(name) {
            Known::Node(node, _) => Some(node),
            Known::Attr(attr, target, fetched) => self.known_node(Rc::from(name), &attr, target, fetched).ok(),
            Known::Absent | Known::Listed | Known::Unknown => None,
        }
    }

    /// Whether all its names are known.
    pub(super) fn is_listed(&self) -> bool {
        self.names.get().is_some_and(|names| names.is_complete(now(), self.export.fresh_ns))
    }

    /// Paths of directories that follow `name` in the host's order and were not listed yet (`brief`) or not
    /// with all attributes, as many as `room` takes, each appended after a zero byte. Returns how many.
    pub(super) fn unlisted_after(&self, name: &[u8], brief: bool, room: usize, out: &mut Vec<u8>) -> usize {
        let Some(names) = self.names.get().filter(|_| self.is_listed()) else { return 0 };
        let prefix = self.path();
        let (order, map) = (names.order.borrow(), names.map.borrow());
        let is_done = |dir: &HostNode| dir.is_listed() && (brief || !dir.names().is_brief.get());
        let is_unlisted = |name: &&Name| {
            map.get(*name).is_some_and(|entry| {
                let directory = entry.found.entry().is_some_and(|(_, kind)| kind == FileType::Directory);
                directory && entry.node.upgrade().is_none_or(|node| !is_done(&node))
            })
        };
        let mut count = 0;
        for name in order.iter().skip_while(|n| ***n != *name).skip(1).filter(is_unlisted) {
            if out.len() + 2 + prefix.len() + name.len() > room {
                break;
            }
            out.push(0);
            out.extend_from_slice(&prefix);
            if !prefix.is_empty() {
                out.push(b'/');
            }
            out.extend_from_slice(name);
            count += 1;
        }
        count
    }

    /// Asks the host about `name` and what follows.
    fn walk(&self, name: &[u8], ahead: &[u8]) -> Result<(Rc<HostNode>, u64)> {
        let mut path = self.path_to(name);
        let mut components: Vec<&[u8]> = alloc::vec![name];
        for part in ahead.split(|&b| b == b'/').filter(|p| !p.is_empty()) {
            // `..` leads back, and a name that can't exist would spoil the whole request.
            if part == b"." || part == b".." || part.len() > crate::NAME_MAX || components.len() == MAX_AHEAD {
                break;
            }
            if path.len() + 1 + part.len() >= crate::PATH_MAX {
                break;
            }
            path.push(b'/');
            path.extend_from_slice(part);
            components.push(part);
        }
        let mut attrs = [NodeAttr::default(); MAX_AHEAD];
        let room = bytemuck::cast_slice_mut(&mut attrs[..components.len()]);
        let reply = self.export.call(Op::Walk, [self.depth(), 0, 0, 0, 0], &path, room)?;
        let count = (reply.result as usize).min(components.len());
        let stop = reply.extra[0];
        let fetched = now();
        let mut dir = self.rc()?;
        let mut first = None;
        for (component, attr) in components.iter().zip(&attrs).take(count) {
            let node = dir.enter(component, attr, fetched);
            if first.is_none() {
                first = Some(node.clone());
            } else {
                self.export.host.cache.keep(node.clone());
            }
            dir = node;
        }
        if stop == Errno::ENOENT.code() as u64
            && let Some(missing) = components.get(count)
            && dir.kind() == FileType::Directory
        {
            dir.enter_absent(missing, fetched);
        }
        match first {
            Some(node) => {
                if count > 1 {
                    self.export.host.cache.keep(node.clone());
                }
                Ok((node, fetched + self.export.fresh_ns))
            }
            None if stop != 0 => Err(Errno::from_code(stop as i64)),
            None => Err(Errno::ENOENT),
        }
    }

    /// Remembers a name that was just fetched.
    pub(super) fn enter(&self, name: &[u8], attr: &NodeAttr, fetched: u64) -> Rc<HostNode> {
        let name: Name = Rc::from(name);
        let node = self.export.node(self.this.upgrade().map(|dir| (dir, name.clone())), attr);
        let target = node.target.borrow().clone();
        let entry = Entry { fetched, found: Seen::All(Box::new((*attr, target))), node: Rc::downgrade(&node) };
        self.put(name, entry);
        node
    }

    /// Remembers that a name does not exist.
    pub(super) fn enter_absent(&self, name: &[u8], fetched: u64) {
        self.put(Rc::from(name), Entry { fetched, found: Seen::Absent, node: Weak::new() });
    }

    fn put(&self, name: Name, entry: Entry) {
        let names = self.names();
        let is_listed = entry.found.exists();
        let old = names.map.borrow_mut().insert(name.clone(), entry);
        let was_listed = old.as_ref().is_some_and(|e| e.found.exists());
        if names.listed.get() != 0 && is_listed && !was_listed {
            names.order.borrow_mut().push(name);
        }
        if old.is_none() {
            self.export.host.cache.names_added(self, 1);
        }
    }

    /// The pod changed this directory: its own times are to be fetched again, and a name with them
    /// if `name` is given.
    pub(super) fn name_changed(&self, name: Option<&[u8]>) {
        self.stale();
        if let (Some(name), Some(names)) = (name, self.names.get()) {
            let old = names.map.borrow_mut().remove(name);
            if old.is_some() {
                self.export.host.cache.names_dropped(1);
            }
            // Until the next listing the table can't say that the name is absent.
            names.listed.set(0);
        }
    }

    /// All entries. Fetches the whole directory with all attributes unless that was just done.
    pub fn list(&self) -> Result<Listing> {
        let names = self.names();
        if !self.is_listed() {
            return self.fetch_all(false);
        }
        let (order, map) = (names.order.borrow(), names.map.borrow());
        let mut listing = Listing::new();
        for name in order.iter() {
            if let Some((ino, kind)) = map.get(name).and_then(|entry| entry.found.entry()) {
                listing.push(name, ino, kind)?;
            }
        }
        Ok(listing)
    }

    /// All names were fetched: what was not among them does not exist any more.
    pub(super) fn listed(&self, order: Vec<Name>, brief: bool, fetched: u64) {
        let names = self.names();
        names.is_brief.set(brief);
        let before = names.len();
        let old: Vec<Entry> =
            names.map.borrow_mut().extract_if(.., |_, e| e.fetched < fetched).map(|(_, e)| e).collect();
        drop(old);
        self.export.host.cache.names_dropped(before - names.len());
        // An empty one is worth keeping, too.
        self.export.host.cache.names_added(self, 0);
        // Names may have been dropped meanwhile to keep within bounds.
        names.listed.set(if names.len() >= order.len() { fetched } else { 0 });
        let old = names.order.replace(order);
        drop(old);
    }

    /// Remembers an entry that was listed; its name, shared with the table.
    pub(super) fn list_entry(&self, name: &[u8], attr: NodeAttr, target: &[u8], fetched: u64) -> Name {
        let target: Option<Name> = (!target.is_empty()).then(|| Rc::from(target));
        let existing = self.names().map.borrow().get_key_value(name).map(|(n, e)| (n.clone(), e.node.clone()));
        let (name, mut node) = existing.unwrap_or_else(|| (Rc::from(name), Weak::new()));
        let is_brief = attr.nlink == 0;
        if let Some(known) = node.upgrade() {
            if is_brief {
                // Its attributes are as old as they were.
                if known.attr_cached().ino != attr.ino || known.kind() != FileType::of(attr.mode) {
                    node = Weak::new();
                }
            } else if super::Key::of(&known.attr_cached()) == super::Key::of(&attr) {
                known.refreshed(&attr, None);
                if target.is_some() {
                    known.target.replace(target.clone());
                }
            } else {
                node = Weak::new();
            }
        }
        let found = if is_brief { Seen::Listed(attr.ino, attr.mode) } else { Seen::All(Box::new((attr, target))) };
        let old = self.names().map.borrow_mut().insert(name.clone(), Entry { fetched, found, node });
        if old.is_none() {
            self.export.host.cache.names_added(self, 1);
        }
        name
    }

    /// What the table says of a child is no longer true (its node is being dropped).
    pub(super) fn forget_entry(&self, name: &[u8]) {
        if let Some(names) = self.names.get()
            && let Ok(mut map) = names.map.try_borrow_mut()
            && let Some(entry) = map.get_mut(name)
        {
            entry.fetched = 0;
        }
    }
}
