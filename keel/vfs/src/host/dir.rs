//! Names of a host directory.

use super::near::{Misses, Order};
use super::{HostNode, now};
use crate::{FileType, Listing, Name};
use abi::request::{NodeAttr, Op};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use uapi::{Errno, Result};

/// Most components that one lookup fetches.
const MAX_AHEAD: usize = 16;

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
pub(super) struct Entry {
    /// When it was fetched.
    fetched: u64,
    found: Seen,
    /// The node, while somebody uses it.
    pub(super) node: Weak<HostNode>,
}

impl Entry {
    /// It was listed or found to be a directory.
    pub(super) fn is_directory(&self) -> bool {
        self.found.entry().is_some_and(|(_, kind)| kind == FileType::Directory)
    }
}

/// Remembered names of a directory.
#[derive(Default)]
pub(super) struct Names {
    /// The cache keeps the directory alive for them.
    pub(super) is_kept: Cell<bool>,
    /// A tree, because a big directory would need a big table in one piece.
    pub(super) map: RefCell<BTreeMap<Name, Entry>>,
    /// All names, in the host's order, as of `listed`.
    pub(super) order: RefCell<Vec<Name>>,
    pub(super) sought: super::near::Sought,
    pub(super) misses: Cell<Misses>,
    /// The last one.
    pub(super) missed: RefCell<Option<Name>>,
    /// Which entries the last listing brought with attributes, [`list_attr`].
    pub(super) attributes: Cell<u64>,
    /// Regular files in it that were looked up since the last listing.
    pub(super) looked_up: Cell<usize>,
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
    Listed(FileType),
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
                (Some(node), Seen::Listed(..)) if now.saturating_sub(node.fetched.get()) >= fresh_ns => {
                    Known::Listed(node.kind())
                }
                (None, Seen::Listed(_, mode)) => Known::Listed(FileType::of(*mode)),
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
        if let Known::Listed(kind) = known {
            let is_file = kind != FileType::Directory;
            self.was_looked_up(kind);
            let trip_ns = self.export.host.io.trip_ns();
            let wanted = is_file && (self.names().are_all_wanted(name, trip_ns) || self.step(true).is_some());
            if wanted && !self.export.is_underway(&self.path()) {
                self.fetch_all(true)?;
                known = self.known(name);
            }
        }
        if matches!(known, Known::Unknown) && self.fetched_near() {
            known = self.known(name);
        }
        match known {
            Known::Node(node, fetched) => {
                self.was_looked_up(node.kind());
                node.has_name(&self.rc()?, name);
                Ok((node, fetched + self.export.fresh_ns))
            }
            Known::Attr(attr, target, fetched) => {
                self.was_looked_up(FileType::of(attr.mode));
                Ok((self.known_node(Rc::from(name), &attr, target, fetched)?, fetched + self.export.fresh_ns))
            }
            Known::Absent => Err(Errno::ENOENT),
            Known::Listed(_) | Known::Unknown => self.walk(name, ahead),
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
            Known::Absent | Known::Listed(_) | Known::Unknown => None,
        }
    }

    /// Whether a name was listed as what has these attributes.
    pub(super) fn has_entry(&self, name: &[u8], attr: &NodeAttr) -> bool {
        let Some(names) = self.names.get().filter(|_| self.is_listed()) else { return false };
        let listed = names.map.borrow().get(name).and_then(|entry| entry.found.entry());
        listed == Some((attr.ino, FileType::of(attr.mode)))
    }

    /// Whether all its names are known.
    pub(super) fn is_listed(&self) -> bool {
        self.names.get().is_some_and(|names| names.is_complete(now(), self.export.fresh_ns))
    }

    /// See [`Names::order_of`].
    pub(super) fn order_of(
        &self,
        name: &[u8],
        near: usize,
        first: bool,
        is_so: impl Fn(&Self) -> bool,
    ) -> Option<Order> {
        self.names.get().filter(|_| self.is_listed())?.order_of(name, near, first, is_so)
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
    pub(super) fn listed(&self, order: Vec<Name>, attributes: u64, fetched: u64) {
        let names = self.names();
        names.attributes.set(attributes);
        names.looked_up.set(0);
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
