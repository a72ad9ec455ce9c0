//! Names of a host directory.

use super::order::Asked;
use super::prefetch::{Misses, Order};
use super::{Export, HostNode, now};
use crate::{FileType, Listing, Name};
use abi::request::{ListAttributes, NodeAttr, Walk};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use uapi::{Errno, Result};

/// Maximum number of components that one lookup requests.
const MAX_AHEAD: usize = 16;

/// State of a name on the host.
enum Seen {
    /// There is no such name.
    Absent,
    /// Only inode number and file type, from a directory entry.
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

/// Cache entry of a name.
pub(super) struct Entry {
    /// When it was requested.
    asked: Asked,
    /// Sequence number of the pod's last change to the name, see [`super::order`].
    changed: u64,
    found: Seen,
    /// The name is in [`Names::order`].
    is_ordered: bool,
    /// The node, while it is in use.
    pub(super) node: Weak<HostNode>,
}

impl Entry {
    /// Whether it is known to be a directory.
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
    pub(super) sought: super::prefetch::Sought,
    pub(super) misses: Cell<Misses>,
    /// The last one.
    pub(super) missed: RefCell<Option<Name>>,
    /// Which entries the last listing brought with attributes, [`list_attr`].
    pub(super) attributes: Cell<ListAttributes>,
    /// Number of regular files in it that were looked up since the last listing.
    pub(super) looked_up: Cell<usize>,
    /// Number of requests for access control lists of its entries since the listing; maximum: the listing included
    /// them.
    pub(super) list_trips: Cell<u64>,
    /// When the whole directory was fetched; 0: never.
    listed: Cell<u64>,
    /// The pod's last change to a name without a cache entry.
    forgotten: Cell<u64>,
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.map.borrow().len()
    }

    /// Drops all entries; returns the number of names.
    pub(super) fn clear(&self) -> usize {
        self.listed.set(0);
        let order = self.order.take();
        let map = self.map.take();
        drop(order);
        map.len()
    }

    /// Whether names that are not in the table do not exist.
    fn is_complete(&self, export: &Export, now: u64) -> bool {
        export.believes(self.listed.get(), now)
    }
}

/// The table's entry for a name.
enum Known {
    Node(Rc<HostNode>, u64),
    Attr(NodeAttr, Option<Name>, Asked),
    /// It exists.
    Listed(FileType),
    Absent,
    Unknown,
}

impl HostNode {
    pub(super) fn names(&self) -> &Names {
        self.names.get_or_init(|| {
            let names = Names::default();
            names.forgotten.set(self.changed.get());
            Box::new(names)
        })
    }

    /// Forgets all names; returns how many that were.
    pub(super) fn clear_names(&self) -> usize {
        let names = self.names();
        names.forgotten.set(self.changed.get());
        names.clear()
    }

    /// Whether an answer may update a name: there was no change of it since the request, and no later answer.
    fn may_learn(&self, name: &[u8], asked: Asked) -> bool {
        let names = self.names();
        let is_newer = |entry: &Entry| entry.changed <= asked.changes && entry.asked.at <= asked.at;
        let map = names.map.borrow();
        // A name that is not in the table may have been missing in the last listing.
        names.forgotten.get() <= asked.changes && map.get(name).map_or_else(|| names.listed.get() <= asked.at, is_newer)
    }

    fn known(&self, name: &[u8]) -> Known {
        let Some(names) = self.names.get() else { return Known::Unknown };
        let (now, export) = (now(), &*self.export);
        let map = names.map.borrow();
        match map.get(name) {
            Some(entry) if export.believes(entry.asked.at, now) => match (entry.node.upgrade(), &entry.found) {
                (_, Seen::Absent) => Known::Absent,
                (Some(node), Seen::Listed(..)) if !export.believes(node.fetched.get(), now) => {
                    Known::Listed(node.kind())
                }
                (None, Seen::Listed(_, mode)) => Known::Listed(FileType::of(*mode)),
                (Some(node), _) => Known::Node(node, entry.asked.at),
                (None, Seen::All(all)) => Known::Attr(all.0, all.1.clone(), entry.asked),
            },
            None if names.is_complete(export, now) => Known::Absent,
            _ => Known::Unknown,
        }
    }

    /// Looks up a name: the node, and until when (monotonic ns) the answer is valid. If the cache entry is outdated,
    /// sends a request to the host, which also includes the components of `ahead`.
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
            Known::Attr(attr, target, asked) => {
                self.was_looked_up(FileType::of(attr.mode));
                Ok((self.known_node(Rc::from(name), &attr, target, asked)?, asked.at + self.export.fresh_ns))
            }
            Known::Absent => Err(Errno::ENOENT),
            Known::Listed(_) | Known::Unknown => self.walk(name, ahead),
        }
    }

    /// The node of a name of which only the attributes were kept.
    fn known_node(&self, name: Name, attr: &NodeAttr, target: Option<Name>, asked: Asked) -> Result<Rc<HostNode>> {
        let node = self.export.node(Some((self.rc()?, name.clone())), attr, asked);
        if target.is_some() {
            node.target.replace(target);
        }
        if let Some(entry) = self.names().map.borrow_mut().get_mut(&name) {
            entry.node = Rc::downgrade(&node);
        }
        Ok(node)
    }

    /// The cache entry of a name that was just listed.
    pub(super) fn just_listed(&self, name: &[u8]) -> Option<Rc<HostNode>> {
        match self.known(name) {
            Known::Node(node, _) => Some(node),
            Known::Attr(attr, target, asked) => self.known_node(Rc::from(name), &attr, target, asked).ok(),
            Known::Absent | Known::Listed(_) | Known::Unknown => None,
        }
    }

    /// Whether the name was listed with these attributes.
    pub(super) fn has_entry(&self, name: &[u8], attr: &NodeAttr) -> bool {
        let Some(names) = self.names.get().filter(|_| self.is_listed()) else { return false };
        let listed = names.map.borrow().get(name).and_then(|entry| entry.found.entry());
        listed == Some((attr.ino, FileType::of(attr.mode)))
    }

    /// Whether all its names are cached.
    pub(super) fn is_listed(&self) -> bool {
        self.names.get().is_some_and(|names| names.is_complete(&self.export, now()))
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

    /// Requests `name` and the following components from the host.
    fn walk(&self, name: &[u8], ahead: &[u8]) -> Result<(Rc<HostNode>, u64)> {
        let _held = self.export.hold_paths()?;
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
        let room = &mut attrs[..components.len()];
        let asked = self.export.host.ask();
        let walk = Walk { export: self.export.id, skip: self.depth() };
        let walked = self.export.host.call(walk, &path[..], room)?;
        let count = (walked.reported as usize).min(components.len());
        let mut dir = self.rc()?;
        let mut first = None;
        for (component, attr) in components.iter().zip(&attrs).take(count) {
            let node = dir.enter(component, attr, asked);
            if first.is_none() {
                first = Some(node.clone());
            } else {
                self.export.host.cache.keep(node.clone());
            }
            dir = node;
        }
        if walked.stopped == Errno::ENOENT.code().unsigned_abs()
            && let Some(missing) = components.get(count)
            && dir.kind() == FileType::Directory
        {
            dir.enter_absent(missing, asked);
        }
        match first {
            Some(node) => {
                if count > 1 {
                    self.export.host.cache.keep(node.clone());
                }
                Ok((node, asked.at + self.export.fresh_ns))
            }
            None if walked.stopped != 0 => Err(Errno::from_code(walked.stopped.into())),
            None => Err(Errno::ENOENT),
        }
    }

    /// The node of a name; caches it unless the cache entry is newer.
    pub(super) fn enter(&self, name: &[u8], attr: &NodeAttr, asked: Asked) -> Rc<HostNode> {
        let name: Name = Rc::from(name);
        let is_newer = self.may_learn(&name, asked);
        if !is_newer && let Some(node) = self.export.known(attr) {
            node.learn(attr, asked);
            if let Some(dir) = self.this.upgrade() {
                node.may_have_name(&dir, &name);
            }
            return node;
        }
        let node = self.export.node(self.this.upgrade().map(|dir| (dir, name.clone())), attr, asked);
        if is_newer {
            let target = node.target.borrow().clone();
            self.put(name, asked, Seen::All(Box::new((*attr, target))), Rc::downgrade(&node));
        }
        node
    }

    /// Caches that a name does not exist, unless the cache entry is newer.
    pub(super) fn enter_absent(&self, name: &[u8], asked: Asked) {
        if self.may_learn(name, asked) {
            self.put(Rc::from(name), asked, Seen::Absent, Weak::new());
        }
    }

    /// The pod made a name refer to `node`, or removed it.
    pub(super) fn enter_changed(&self, name: &[u8], node: Option<&Rc<HostNode>>) {
        let found =
            node.map_or(Seen::Absent, |node| Seen::All(Box::new((node.attr_cached(), node.target.borrow().clone()))));
        let asked = Asked { at: now(), changes: self.changed.get() };
        self.put(Rc::from(name), asked, found, node.map(Rc::downgrade).unwrap_or_default());
    }

    fn put(&self, name: Name, asked: Asked, found: Seen, node: Weak<HostNode>) {
        let names = self.names();
        let is_listed = found.exists();
        let mut map = names.map.borrow_mut();
        let (changed, was_ordered) = map.get(&name).map_or((0, false), |entry| (entry.changed, entry.is_ordered));
        let is_new = is_listed && !was_ordered && names.listed.get() != 0;
        let entry = Entry { asked, changed, found, is_ordered: was_ordered || is_new, node };
        let old = map.insert(name.clone(), entry);
        drop(map);
        if is_new && crate::memory::push(&mut names.order.borrow_mut(), name).is_err() {
            // The order is unknown until the next listing.
            names.listed.set(0);
        }
        if old.is_none() {
            self.export.host.cache.names_added(self, 1);
        }
    }

    /// A change of the pod to `name`, requested at `asked`, is complete. Returns whether its result is the current
    /// state: if another change completed since the request, their order is unknown, and the next use sends a request.
    pub(super) fn name_changed(&self, name: &[u8], asked: Asked) -> bool {
        // First, because they refer to the state before the change.
        let names = self.names();
        self.stale();
        let number = self.changed.get();
        if self.was_changed(name, asked) {
            self.forget_name(name);
            return false;
        }
        let mut map = names.map.borrow_mut();
        if let Some(entry) = map.get_mut(name) {
            entry.changed = number;
        } else {
            let (asked, found, node) = (Asked::default(), Seen::Absent, Weak::new());
            map.insert(Rc::from(name), Entry { asked, changed: number, found, is_ordered: false, node });
            drop(map);
            self.export.host.cache.names_added(self, 1);
        }
        true
    }

    /// Whether a change of the pod to `name` was completed since `asked`.
    pub(super) fn was_changed(&self, name: &[u8], asked: Asked) -> bool {
        let names = self.names();
        let changed = names.map.borrow().get(name).map_or(0, |entry| entry.changed);
        changed.max(names.forgotten.get()) > asked.changes
    }

    /// Whether the cache entry of a name refers to `node` or is absent.
    pub(super) fn leads_to(&self, name: &[u8], node: &HostNode) -> bool {
        // A name that was only listed has no node.
        let is_listed = |entry: &Entry| {
            entry.node.strong_count() == 0 && entry.found.entry() == Some((node.attr_cached().ino, node.kind()))
        };
        let is_it = |entry: &Entry| entry.node.ptr_eq(&node.this) || is_listed(entry);
        self.names().map.borrow().get(name).is_none_or(is_it)
    }

    /// Another change of `name` was concurrent with a completed one: the next use sends a request.
    pub(super) fn forget_name(&self, name: &[u8]) {
        let (names, number) = (self.names(), self.changed.get());
        let old = names.map.borrow_mut().remove(name);
        if let Some(old) = old {
            self.export.host.cache.names_dropped(1);
            // The file that had the name since may have lost it.
            match (old.node.upgrade(), old.found) {
                (Some(node), _) => node.stale(),
                (None, Seen::All(all)) => self.export.recent.borrow_mut().add(super::Key::of(&all.0), number),
                _ => {}
            }
        }
        names.forgotten.set(number);
        // Until the next listing the table can't say that a name is absent.
        names.listed.set(0);
    }

    /// The host refused to create `name`. If it exists there and is cached as absent, another request of the pod, whose
    /// completion was not consumed yet, or a host process created it: the next use sends a request.
    pub(super) fn refused(&self, name: &[u8], errno: Errno) {
        if errno == Errno::EEXIST && matches!(self.known(name), Known::Absent) {
            self.forget_name(name);
        }
    }

    /// Whether a name needs a request to the host.
    pub(super) fn has_no_answer(&self, name: &[u8]) -> bool {
        self.mounted_at(name).is_none() && matches!(self.known(name), Known::Unknown)
    }

    /// The pod created this directory, requested at `asked`: it is empty, unless the pod changed it since.
    pub(super) fn is_empty(&self, asked: Asked) {
        if self.names.get().is_none() {
            self.listed(Vec::new(), ListAttributes::All, Asked { changes: self.changed.get(), ..asked });
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

    /// All names were fetched: others do not exist any more.
    pub(super) fn listed(&self, order: Vec<Name>, attributes: ListAttributes, asked: Asked) {
        let names = self.names();
        names.attributes.set(attributes);
        names.looked_up.set(0);
        names.list_trips.set(0);
        let before = names.len();
        // Dropping entries does not reenter this table.
        names.map.borrow_mut().retain(|_, entry| {
            let is_old = entry.asked.at < asked.at && entry.changed <= asked.changes;
            if is_old {
                names.forgotten.set(names.forgotten.get().max(entry.changed));
            }
            !is_old
        });
        self.export.host.cache.names_dropped(before - names.len());
        // An empty one is worth keeping, too.
        self.export.host.cache.names_added(self, 0);
        // Entries may have been evicted or changed meanwhile: then the listing is incomplete.
        let are_all = names.len() >= order.len() && self.changed.get() <= asked.changes;
        names.listed.set(if are_all { asked.at } else { 0 });
        let old = names.order.replace(order);
        drop(old);
    }

    /// Caches a listed entry, unless the cache entry is newer; returns its name, shared with the table.
    pub(super) fn list_entry(&self, name: &[u8], attr: NodeAttr, target: &[u8], asked: Asked) -> Name {
        let target: Option<Name> = (!target.is_empty()).then(|| Rc::from(target));
        let existing = self.names().map.borrow().get_key_value(name).map(|(n, e)| (n.clone(), e.node.clone()));
        let (name, mut node) = existing.unwrap_or_else(|| (Rc::from(name), Weak::new()));
        if !self.may_learn(&name, asked) {
            if let Some(entry) = self.names().map.borrow_mut().get_mut(&name) {
                entry.is_ordered = true;
            }
            return name;
        }
        let is_brief = attr.nlink == 0;
        if let Some(known) = node.upgrade() {
            if is_brief {
                // Its attributes keep their age.
                if known.attr_cached().ino != attr.ino || known.kind() != FileType::of(attr.mode) {
                    node = Weak::new();
                }
            } else if super::Key::of(&known.attr_cached()) == super::Key::of(&attr) {
                known.learn(&attr, asked);
                if target.is_some() {
                    known.target.replace(target.clone());
                }
            } else {
                node = Weak::new();
            }
        }
        let found = if is_brief { Seen::Listed(attr.ino, attr.mode) } else { Seen::All(Box::new((attr, target))) };
        let mut map = self.names().map.borrow_mut();
        let changed = map.get(&name).map_or(0, |entry| entry.changed);
        let old = map.insert(name.clone(), Entry { asked, changed, found, is_ordered: true, node });
        drop(map);
        if old.is_none() {
            self.export.host.cache.names_added(self, 1);
        }
        name
    }

    /// The node of a child is being dropped: keeps its state in the name's entry, or removes it.
    pub(super) fn child_dropped(&self, name: &[u8], child: &Self) {
        let Some(names) = self.names.get() else { return };
        let Ok(mut map) = names.map.try_borrow_mut() else { return };
        let Some(entry) = map.get_mut(name).filter(|entry| entry.node.ptr_eq(&child.this)) else { return };
        if child.fetched.get() == 0 {
            entry.asked.at = 0;
        } else if let Seen::All(all) = &mut entry.found {
            all.0 = child.attr_cached();
            entry.asked.changes = entry.asked.changes.max(child.changed.get());
        }
    }
}
