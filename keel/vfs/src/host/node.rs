//! One host file: identity, place, attributes.

use super::content::Content;
use super::dir::Names;
use super::{Export, Key, now};
use crate::inode::Attachments;
use crate::node::Node;
use crate::{Attr, FileType, Name};
use abi::request::{NodeAttr, Op};
use alloc::boxed::Box;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, OnceCell, RefCell};
use uapi::{Errno, Result};

/// Most other names of a file that are remembered.
const MAX_OTHERS: usize = 8;

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
    /// When the attributes were fetched (monotonic ns); 0: fetch again at the next use.
    pub(super) fetched: Cell<u64>,
    /// The place leads elsewhere or nowhere by now: only an open handle still reaches the file.
    pub(super) gone: Cell<bool>,
    pub(super) target: RefCell<Option<Name>>,
    pub(super) names: OnceCell<Box<Names>>,
    pub(super) content: OnceCell<Box<Content>>,
    /// The overlay's node over this file, while it lives.
    pub(crate) overlay: RefCell<Weak<Node>>,
    pub(super) attachments: Attachments,
}

impl core::fmt::Debug for HostNode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "HostNode({}:{})", self.export.id, alloc::string::String::from_utf8_lossy(&self.path()))
    }
}

impl HostNode {
    pub(super) fn new(export: Rc<Export>, place: Option<(Rc<Self>, Name)>, attr: &NodeAttr) -> Rc<Self> {
        Rc::new_cyclic(|this| Self {
            this: this.clone(),
            export,
            kind: FileType::of(attr.mode),
            place: RefCell::new(place),
            others: RefCell::default(),
            attr: Cell::new(*attr),
            fetched: Cell::new(now()),
            gone: Cell::new(false),
            target: RefCell::new(None),
            names: OnceCell::new(),
            content: OnceCell::new(),
            overlay: RefCell::new(Weak::new()),
            attachments: Attachments::default(),
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

    /// Takes attributes that were just fetched by way of `place`.
    pub(super) fn refreshed(&self, attr: &NodeAttr, place: Option<(Rc<Self>, Name)>) {
        self.attr.set(*attr);
        self.fetched.set(now());
        if let Some((dir, name)) = place {
            self.has_name(&dir, &name);
        }
    }

    /// It was found (or put) under a name.
    pub(super) fn has_name(&self, dir: &Rc<Self>, name: &[u8]) {
        let is_it = |place: &(Rc<Self>, Name)| Rc::ptr_eq(&place.0, dir) && *place.1 == *name;
        // The export's own root has no place, whatever leads to it.
        if self.place.borrow().as_ref().is_none_or(is_it) && !self.gone.get() {
            return;
        }
        // With only one name, this is it: the host may have moved the file.
        let only = self.kind == FileType::Directory || self.attr.get().nlink <= 1;
        if only || self.gone.get() {
            let before = self.place.replace(Some((dir.clone(), Rc::from(name))));
            self.gone.set(false);
            drop(before);
        } else if self.others.borrow().len() < MAX_OTHERS && !self.others.borrow().iter().any(is_it) {
            self.others.borrow_mut().push((dir.clone(), Rc::from(name)));
        }
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

    /// The next use fetches the attributes again.
    pub(super) fn stale(&self) {
        self.fetched.set(0);
    }

    /// Attributes that are young enough to be believed.
    pub fn fresh_attr(&self) -> Result<Attr> {
        let fetched = self.fetched.get();
        if fetched != 0 && now().saturating_sub(fetched) < self.export.fresh_ns {
            return Ok(self.attr.get());
        }
        let mut attr = [NodeAttr::default()];
        if let Some(handle) = self.content.get().and_then(|c| c.handle()) {
            self.export.host.io.call(
                Op::HandleAttr,
                [handle, 0, 0, 0, 0, 0],
                &[],
                bytemuck::cast_slice_mut(&mut attr),
            )?;
        } else {
            if self.gone.get() {
                return Ok(self.attr.get());
            }
            let skip = self.depth().saturating_sub(1);
            let reply =
                self.export.call(Op::Walk, [skip, 0, 0, 0, 0], &self.path(), bytemuck::cast_slice_mut(&mut attr))?;
            let found = reply.result == 1 || self.place.borrow().is_none() && reply.extra[0] == 0;
            if !found || Key::of(&attr[0]) != Key::of(&self.attr.get()) {
                self.gone.set(true);
                return Ok(self.attr.get());
            }
        }
        self.attr.set(attr[0]);
        self.fetched.set(now());
        Ok(attr[0])
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
        let reply = self.export.call(Op::ReadLink, [0; 5], &self.path(), &mut buffer)?;
        let target: Name = Rc::from(buffer.get(..reply.result as usize).ok_or(Errno::EIO)?);
        self.target.replace(Some(target.clone()));
        Ok(target)
    }
}

impl HostNode {
    /// It ends: nobody uses it any more.
    fn end(&mut self) {
        if let Some(content) = self.content.take() {
            content.dispose(&self.export.host);
        }
        if let Some(names) = self.names.take() {
            self.export.host.cache.names_dropped(names.len());
        }
        if self.fetched.get() == 0
            && let Some((dir, name)) = &*self.place.borrow()
        {
            dir.forget_entry(name);
        }
        // Nobody drops a node while looking at the table; if so, a dead weak pointer stays.
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
