//! One host file: identity, place, attributes.

use super::content::Content;
use super::dir::Names;
use super::order::Asked;
use super::{Export, Key, now};
use crate::inode::Attachments;
use crate::node::Node;
use crate::shown::Shown;
use crate::{Attr, FileType, Name, ways};
use abi::request::{HandleAttr, NodeAttr, ReadLink, Walk};
use alloc::boxed::Box;
use alloc::rc::{Rc, Weak};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, OnceCell, RefCell};
use uapi::{Errno, Result};

/// Most other names of a file that are remembered.
const MAX_OTHERS: usize = 8;
/// Retries of a request for a file that was renamed meanwhile, or is tried under another name.
pub(super) const TRIES: usize = MAX_OTHERS + 4;

/// A file of an export. As an [`crate::Inode`] it passes changes on to the host; the overlay's
/// [`Node`] uses it as what lies below.
pub struct HostNode {
    pub(super) this: Weak<HostNode>,
    pub(super) export: Rc<Export>,
    kind: FileType,
    /// Directory and name it was found by; `None` for the export itself.
    pub(super) place: RefCell<Option<(Rc<HostNode>, Name)>>,
    /// Other names of the same file that were seen.
    others: RefCell<Vec<(Rc<HostNode>, Name)>>,
    pub(super) attr: Cell<Attr>,
    /// When the attributes were asked for (monotonic ns); 0: ask again at the next use.
    pub(super) fetched: Cell<u64>,
    /// The same of type, permissions and owner, which few changes of the pod concern.
    perm_fetched: Cell<u64>,
    /// The number of the last change that the pod made to it, see [`super::order`].
    pub(super) changed: Cell<u64>,
    /// The place leads elsewhere or nowhere by now: only an open handle still reaches the file.
    pub(super) gone: Cell<bool>,
    /// Made without a name, may get one.
    pub(super) unnamed: Cell<bool>,
    pub(super) target: RefCell<Option<Name>>,
    pub(super) names: OnceCell<Box<Names>>,
    pub(super) content: OnceCell<Box<Content>>,
    pub(super) lists: OnceCell<Box<super::lists::Lists>>,
    /// The overlay's node over this file, while it lives.
    pub(crate) overlay: RefCell<Weak<Node>>,
    pub(super) attachments: Attachments,
    pub(super) shown: OnceCell<Arc<Shown>>,
    pub(super) mounted: OnceCell<Box<super::mounted::Mounted>>,
}

impl core::fmt::Debug for HostNode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "HostNode({}:{})", self.export.id, alloc::string::String::from_utf8_lossy(&self.path()))
    }
}

impl HostNode {
    pub(super) fn new(export: Rc<Export>, place: Option<(Rc<Self>, Name)>, attr: &NodeAttr, asked: Asked) -> Rc<Self> {
        let changed = export.recent.borrow().last_change(&Key::of(attr));
        // Changed and dropped since: the attributes are older than that.
        let fetched = if changed > asked.changes { 0 } else { asked.at };
        Rc::new_cyclic(|this| Self {
            this: this.clone(),
            export,
            kind: FileType::of(attr.mode),
            place: RefCell::new(place),
            others: RefCell::default(),
            attr: Cell::new(*attr),
            fetched: Cell::new(fetched),
            perm_fetched: Cell::new(fetched),
            changed: Cell::new(changed),
            gone: Cell::new(false),
            unnamed: Cell::new(false),
            target: RefCell::new(None),
            names: OnceCell::new(),
            content: OnceCell::new(),
            lists: OnceCell::new(),
            overlay: RefCell::new(Weak::new()),
            attachments: Attachments::default(),
            shown: OnceCell::new(),
            mounted: OnceCell::new(),
        })
    }

    /// Type.
    pub const fn kind(&self) -> FileType {
        self.kind
    }

    /// Whether changes go to the host.
    pub fn is_writable(&self) -> bool {
        self.export.writable
    }

    /// A counted handle on itself. ESTALE can only mean that it is being dropped.
    pub(super) fn rc(&self) -> Result<Rc<Self>> {
        self.this.upgrade().ok_or(Errno::ESTALE)
    }

    /// Path beneath the export.
    pub(super) fn path(&self) -> Vec<u8> {
        self.path_to(&[])
    }

    /// Path beneath the export of a name in this directory (empty: of the directory itself).
    pub(super) fn path_to(&self, name: &[u8]) -> Vec<u8> {
        let mut names: Vec<Name> = Vec::new();
        let mut place = self.place.borrow().clone();
        while let Some((dir, name)) = place {
            names.push(name);
            place = dir.place.borrow().clone();
        }
        let mut path = Vec::with_capacity(names.iter().map(|n| n.len() + 1).sum::<usize>() + name.len());
        for part in names.iter().rev().map(|n| &n[..]).chain((!name.is_empty()).then_some(name)) {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(part);
        }
        path
    }

    /// Number of components of [`Self::path`].
    pub(super) fn depth(&self) -> u64 {
        let mut depth = 0;
        let mut place = self.place.borrow().clone();
        while let Some((dir, _)) = place {
            depth += 1;
            place = dir.place.borrow().clone();
        }
        depth
    }

    /// Attributes as last fetched, however old.
    pub fn attr_cached(&self) -> Attr {
        self.attr.get()
    }

    /// Takes attributes that were asked for, unless what is known is newer. Whether they were taken.
    pub(super) fn learn(&self, attr: &NodeAttr, asked: Asked) -> bool {
        let is_newer = self.changed.get() <= asked.changes && self.fetched.get() <= asked.at;
        if is_newer {
            if self.shown.get().is_some() {
                self.will_be(attr);
            }
            let before = self.attr.replace(*attr);
            self.fetched.set(asked.at);
            self.perm_fetched.set(asked.at);
            if (attr.mode, attr.uid, attr.gid) != (before.mode, before.uid, before.gid) {
                self.permissions_changed();
            }
        }
        is_newer
    }

    /// Its attributes will be these.
    #[cold]
    fn will_be(&self, attr: &NodeAttr) {
        if self.attr.get() != *attr {
            self.withdraw();
        }
    }

    /// A change of the pod is done that was asked for at `asked` and gave these attributes.
    pub(super) fn changed_to(&self, attr: &NodeAttr, asked: Asked) {
        let is_known = self.learn(attr, asked);
        self.changed.set(self.export.host.count_change());
        if !is_known {
            self.withdraw();
            self.fetched.set(0);
            self.permissions_unknown();
        }
    }

    /// Mode and owner must be asked for.
    pub(super) fn permissions_unknown(&self) {
        self.perm_fetched.set(0);
        self.permissions_changed();
    }

    /// Mode, owner or access control lists may have changed, or are not known any more.
    #[cold]
    pub(super) fn permissions_changed(&self) {
        ways::changed(core::ptr::from_ref(self).addr());
        ways::changed(self.overlay.borrow().as_ptr().addr());
    }

    /// When the permissions that are believed were asked for (monotonic ns).
    pub(super) fn permissions_believed(&self) -> u64 {
        let list = self.lists.get().and_then(|lists| lists.asked());
        self.perm_fetched.get().min(list.map_or(u64::MAX, |at| at.max(self.fetched.get())))
    }

    /// It was found (or put) under a name.
    pub(super) fn has_name(&self, dir: &Rc<Self>, name: &[u8]) {
        let is_it = |place: &(Rc<Self>, Name)| Rc::ptr_eq(&place.0, dir) && *place.1 == *name;
        // The export's own root has no place, whatever leads to it.
        if self.place.borrow().as_ref().is_none_or(is_it) && !self.gone.get() {
            return;
        }
        // With only one name, this is it: the host may have moved the file. Old attributes tell nothing of that.
        let is_linked_once = self.fetched.get() != 0 && self.attr.get().nlink <= 1;
        let only = self.kind == FileType::Directory || is_linked_once;
        let before = self.place.replace(Some((dir.clone(), Rc::from(name))));
        let mut others = self.others.borrow_mut();
        let same = others.iter().position(is_it).map(|at| others.swap_remove(at));
        if !self.gone.replace(false) && !only && others.len() < MAX_OTHERS {
            others.extend(before.clone());
        }
        drop(others);
        // These may be the last handles on directories.
        drop((before, same));
    }

    /// It lost a name: another one is its place now, or it is gone.
    pub(super) fn lost_name(&self, dir: &Self, name: &[u8]) {
        let is_it = |place: &(Rc<Self>, Name)| core::ptr::eq(&*place.0, dir) && *place.1 == *name;
        let other = self.others.borrow().iter().position(is_it);
        if let Some(at) = other {
            let removed = self.others.borrow_mut().swap_remove(at);
            drop(removed);
            return;
        }
        let here = self.place.borrow().as_ref().is_some_and(is_it);
        if !here {
            return;
        }
        let next = self.others.borrow_mut().pop();
        match next {
            Some(next) => {
                let before = self.place.replace(Some(next));
                drop(before);
            }
            None => self.gone.set(true),
        }
    }

    /// Its place leads elsewhere or nowhere: another name that was seen is its place now. If there is none, it is gone. What has the
    /// name is asked for at its next use.
    pub(super) fn is_misplaced(&self) {
        let next = self.others.borrow_mut().pop();
        let before = match next {
            Some(next) => self.place.replace(Some(next)),
            None => {
                self.gone.set(true);
                self.place.borrow().clone()
            }
        };
        self.forget_place(before);
    }

    /// What has this name is asked for at its next use, if it was this file.
    pub(super) fn forget_place(&self, place: Option<(Rc<Self>, Name)>) {
        if let Some((dir, name)) = place
            && dir.leads_to(&name, self)
        {
            dir.forget_name(&name);
        }
    }

    /// Other names of it were seen.
    pub(super) fn has_others(&self) -> bool {
        !self.others.borrow().is_empty()
    }

    /// Whether it still has this name is unknown: it is tried when the other names fail.
    pub(super) fn may_have_name(&self, dir: &Rc<Self>, name: &[u8]) {
        let is_it = |place: &(Rc<Self>, Name)| Rc::ptr_eq(&place.0, dir) && *place.1 == *name;
        if self.gone.get() || self.place.borrow().is_none() {
            self.has_name(dir, name);
        } else if !self.place.borrow().as_ref().is_some_and(is_it)
            && !self.others.borrow().iter().any(is_it)
            && self.others.borrow().len() < MAX_OTHERS
        {
            self.others.borrow_mut().push((dir.clone(), Rc::from(name)));
        }
    }

    /// Made without a name, it never gets one (`O_TMPFILE | O_EXCL`).
    pub fn never_named(&self) {
        self.unnamed.set(false);
    }

    /// A change of the pod is done, after which size, times and links must be asked for.
    pub(super) fn stale(&self) {
        self.withdraw();
        self.changed.set(self.export.host.count_change());
        self.fetched.set(0);
    }

    /// Type with permissions, and owner, that are young enough to be believed.
    pub(super) fn fresh_perm(&self) -> Result<(u32, u32, u32)> {
        let is_fresh = self.export.believes(self.perm_fetched.get(), now());
        let attr = if is_fresh { self.attr.get() } else { self.fresh_attr()? };
        Ok((attr.mode, attr.uid, attr.gid))
    }

    /// Attributes that are young enough to be believed.
    #[inline]
    pub fn fresh_attr(&self) -> Result<Attr> {
        let fetched = self.fetched.get();
        if self.export.believes(fetched, now()) {
            return Ok(self.attr.get());
        }
        self.fetch_attr()
    }

    #[cold]
    pub(super) fn fetch_attr(&self) -> Result<Attr> {
        for _ in 0..TRIES {
            let asked = self.export.host.ask();
            let Some(attr) = self.ask_attr()? else {
                if self.gone.get() {
                    break;
                }
                // Its name, or one above, may be another one meanwhile.
                if self.export.host.changes.get() == asked.changes {
                    self.is_misplaced();
                }
                continue;
            };
            self.learn(&attr, asked);
            return Ok(attr);
        }
        Ok(self.attr.get())
    }

    /// Attributes as the host has them now; `None`: it is not found any more.
    fn ask_attr(&self) -> Result<Option<Attr>> {
        let mut attr = [NodeAttr::default()];
        if let Some(handle) = self.content.get().and_then(|c| c.handle()) {
            self.export.host.call(HandleAttr { handle }, &(), &mut attr)?;
            return Ok(Some(attr[0]));
        }
        if self.gone.get() {
            return Ok(None);
        }
        let _held = self.export.hold_paths()?;
        let skip = self.depth().saturating_sub(1);
        let walked = self.export.host.call(Walk { export: self.export.id, skip }, &self.path()[..], &mut attr)?;
        let found = walked.reported == 1 || self.place.borrow().is_none() && walked.stopped == 0;
        Ok((found && Key::of(&attr[0]) == Key::of(&self.attr.get())).then_some(attr[0]))
    }

    /// Target of a symbolic link; it came with the directory, or costs a trip once.
    pub fn link_target(&self) -> Result<Name> {
        if let Some(target) = &*self.target.borrow() {
            return Ok(target.clone());
        }
        if self.kind != FileType::Symlink {
            return Err(Errno::EINVAL);
        }
        let mut buffer = [0u8; crate::PATH_MAX];
        let _held = self.export.hold_paths()?;
        let len = self.export.host.call(ReadLink { export: self.export.id }, &self.path()[..], &mut buffer)?;
        let target: Name = Rc::from(buffer.get(..len as usize).ok_or(Errno::EIO)?);
        self.target.replace(Some(target.clone()));
        Ok(target)
    }
}

impl HostNode {
    /// Its last reference is dropped.
    fn end(&mut self) {
        self.withdraw();
        self.let_go_of_locks();
        if let Some(content) = self.content.take() {
            content.dispose(&self.export.host);
        }
        if let Some(names) = self.names.take() {
            self.export.host.cache.names_dropped(names.len());
        }
        if let Some((dir, name)) = &*self.place.borrow() {
            dir.child_dropped(name, self);
        }
        let changed = self.changed.take();
        if changed != 0
            && let Ok(mut recent) = self.export.recent.try_borrow_mut()
        {
            recent.add(Key::of(&self.attr.get()), changed);
        }
        // No node is dropped during a borrow of the table; if one is, a dead weak pointer stays.
        if let Ok(mut nodes) = self.export.nodes.try_borrow_mut() {
            let key = Key::of(&self.attr.get());
            if nodes.get(&key).is_some_and(|n| n.strong_count() == 0) {
                nodes.remove(&key);
            }
        }
    }
}

impl Drop for HostNode {
    fn drop(&mut self) {
        self.end();
        // The directories above, one after the other: the way up may be long, and kernel stacks are small.
        let mut next = self.place.take();
        while let Some(mut node) = next.and_then(|(dir, _)| Rc::into_inner(dir)) {
            node.end();
            next = node.place.take();
        }
    }
}
