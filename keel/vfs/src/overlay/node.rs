//! Files of an overlay.

use super::Overlay;
use super::marks::is_whiteout;
use crate::cred::MAY_EXEC;
use crate::memory::{check, push};
use crate::{Attachments, FileType, Found, Inode, Name, PathRef};
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use uapi::{Errno, Result};

/// By what a file is known while it is in use.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// In the upper layer: the address of the inode there, whatever its names.
    Upper(usize),
    /// In lower layers alone: the address of its directory, and its name. Its other names become other files when they
    /// are copied.
    Lower(usize, Name),
}

impl Key {
    fn upper(place: &PathRef) -> Self {
        Self::Upper(Rc::as_ptr(place.inode()).cast::<()>().addr())
    }
}

/// A file of an overlay.
pub struct Merged {
    this: Weak<Self>,
    overlay: Rc<Overlay>,
    pub(super) kind: FileType,
    pub(super) ino: u64,
    /// Its name in the upper layer, if it is there: of a directory the present one, of others any.
    upper: RefCell<Option<PathRef>>,
    /// Its names in lower layers: of a directory those whose content is merged, of others one.
    pub(super) lowers: Vec<PathRef>,
    /// Its directory and name, until it is in the upper layer. They do not change: it is copied before it is renamed, and
    /// so is the directory, which is not renamed at all if it has something from lower layers.
    place: RefCell<Option<(Rc<Self>, Name)>>,
    /// It has no name any more.
    pub(super) is_gone: Cell<bool>,
    pub(super) attachments: Attachments,
}

impl core::fmt::Debug for Merged {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Merged").field("kind", &self.kind).field("ino", &self.ino).finish_non_exhaustive()
    }
}

impl Drop for Merged {
    fn drop(&mut self) {
        self.forget();
        // The directories above, one after the other: the way up may be long, and kernel stacks are small.
        let mut next = self.place.take();
        while let Some(node) = next.and_then(|(dir, _)| Rc::into_inner(dir)) {
            node.forget();
            next = node.place.take();
        }
    }
}

/// What the layers have of a name.
#[derive(Default)]
pub(super) struct Trace {
    /// The upper layer's file, or whiteout.
    pub upper: Option<PathRef>,
    pub is_hidden: bool,
    /// Those of the lower layers that are to be seen.
    pub lowers: Vec<PathRef>,
}

impl Trace {
    /// Whether the overlay has the name.
    pub fn exists(&self) -> bool {
        !self.is_hidden && (self.upper.is_some() || !self.lowers.is_empty())
    }
}

/// A name of a layer's directory; `None`: there is none.
fn find_in(layer: &PathRef, name: &[u8], ahead: &[u8]) -> Result<Option<PathRef>> {
    match layer.lookup(name, ahead, false) {
        Err(Errno::ENOENT) => Ok(None),
        found => found.map(Some),
    }
}

impl Merged {
    pub(super) fn new(
        overlay: &Rc<Overlay>,
        ino: u64,
        kind: FileType,
        upper: Option<PathRef>,
        lowers: Vec<PathRef>,
        place: Option<(Rc<Self>, Name)>,
    ) -> Rc<Self> {
        Rc::new_cyclic(|this| Self {
            this: this.clone(),
            overlay: overlay.clone(),
            kind,
            ino,
            upper: RefCell::new(upper),
            lowers,
            place: RefCell::new(place),
            is_gone: Cell::new(false),
            attachments: Attachments::default(),
        })
    }

    /// The overlay that it is in.
    pub fn overlay(&self) -> &Rc<Overlay> {
        &self.overlay
    }

    pub(super) fn rc(&self) -> Result<Rc<Self>> {
        self.this.upgrade().ok_or(Errno::ESTALE)
    }

    /// The file as one of this overlay. EXDEV.
    pub(super) fn of(inode: &Rc<dyn Inode>, overlay: &Rc<Overlay>) -> Result<Rc<Self>> {
        let any: Rc<dyn Any> = inode.clone();
        let node: Rc<Self> = any.downcast().map_err(|_| Errno::EXDEV)?;
        if Rc::ptr_eq(&node.overlay, overlay) { Ok(node) } else { Err(Errno::EXDEV) }
    }

    fn key(&self) -> Option<Key> {
        if let Some(upper) = &*self.upper.borrow() {
            return Some(Key::upper(upper));
        }
        self.place.borrow().as_ref().map(|(dir, name)| Key::Lower(Rc::as_ptr(dir).addr(), name.clone()))
    }

    /// It is not found any more by those who look for it.
    fn forget(&self) {
        if let Some(key) = self.key() {
            let mut nodes = self.overlay.nodes.borrow_mut();
            if nodes.get(&key).is_some_and(|known| known.ptr_eq(&self.this)) {
                nodes.remove(&key);
            }
        }
    }

    /// Its place in the upper layer, if it has one.
    pub(super) fn upper(&self) -> Option<PathRef> {
        self.upper.borrow().clone()
    }

    /// Its directory and name, if it is not in the upper layer.
    pub(super) fn place(&self) -> Option<(Rc<Self>, Name)> {
        self.place.borrow().clone()
    }

    /// It is in the upper layer now.
    pub(super) fn rise(&self, upper: PathRef) {
        let new = Key::upper(&upper);
        let mut nodes = self.overlay.nodes.borrow_mut();
        if let Some(old) = self.key() {
            nodes.remove(&old);
        }
        nodes.insert(new, self.this.clone());
        drop(nodes);
        let before = (self.upper.replace(Some(upper)), self.place.take());
        drop(before);
    }

    /// The file that is shown.
    pub(super) fn shown_file(&self) -> Result<Rc<dyn Inode>> {
        let upper = self.upper.borrow();
        let shown = upper.as_ref().or(self.lowers.first()).ok_or(Errno::ESTALE)?;
        Ok(shown.inode().clone())
    }

    /// Whether the layers have the same for it now.
    fn is_made_of(&self, upper: Option<&PathRef>, lowers: &[PathRef]) -> bool {
        let is_same = |(one, other): (&PathRef, &PathRef)| Rc::ptr_eq(one.inode(), other.inode());
        // What a file was copied from does not matter any more.
        let no_directory = upper.is_some() && self.kind != FileType::Directory;
        let own: &[PathRef] = if no_directory { &[] } else { &self.lowers };
        own.len() == lowers.len()
            && own.iter().zip(lowers).all(is_same)
            && upper.is_none_or(|upper| self.upper.borrow().as_ref().is_some_and(|own| is_same((own, upper))))
    }

    /// The file of a name: the one that is in use, or a new one. ENOENT; ENOMEM.
    pub(super) fn node(&self, name: &[u8], trace: Trace) -> Result<Rc<Self>> {
        if !trace.exists() {
            return Err(Errno::ENOENT);
        }
        check()?;
        let overlay = &self.overlay;
        let Trace { upper, lowers, .. } = trace;
        let this = self.rc()?;
        let name: Name = Rc::from(name);
        let key = upper.as_ref().map_or_else(|| Key::Lower(Rc::as_ptr(&this).addr(), name.clone()), Key::upper);
        let known = overlay.nodes.borrow().get(&key).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| known.is_made_of(upper.as_ref(), &lowers)) {
            if upper.is_some() {
                let before = known.upper.replace(upper);
                drop(before);
            }
            return Ok(known);
        }
        let shown = upper.as_ref().or(lowers.first()).ok_or(Errno::ENOENT)?.inode();
        let kind = shown.file_type();
        let ino = match lowers.first() {
            Some(lower) => {
                let attr = lower.inode().attr()?;
                overlay.number(attr.dev, attr.ino)
            }
            None => overlay.number_of(&**shown, &shown.attr()?)?,
        };
        let place = if upper.is_some() { None } else { Some((this, name)) };
        let node = Self::new(overlay, ino, kind, upper, lowers, place);
        overlay.nodes.borrow_mut().insert(key, Rc::downgrade(&node));
        Ok(node)
    }

    /// What the layers have of a name. ENOTDIR, EACCES.
    pub(super) fn trace(&self, name: &[u8], ahead: &[u8]) -> Result<Trace> {
        if self.kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        let mut trace = Trace::default();
        if let Some(dir) = self.upper() {
            self.overlay.check(&dir, MAY_EXEC)?;
            trace.upper = find_in(&dir, name, ahead)?;
        }
        if let Some(upper) = &trace.upper {
            trace.is_hidden = is_whiteout(&**upper.inode())?;
            let is_directory = upper.inode().file_type() == FileType::Directory;
            if !is_directory || self.lowers.is_empty() || self.overlay.is_opaque(upper)? {
                return Ok(trace);
            }
        }
        for dir in &self.lowers {
            self.overlay.check(dir, MAY_EXEC)?;
            let Some(found) = find_in(dir, name, ahead)? else { continue };
            let is_directory = found.inode().file_type() == FileType::Directory;
            let is_first = trace.upper.is_none() && trace.lowers.is_empty();
            if !is_directory && (!is_first || is_whiteout(&**found.inode())?) {
                break;
            }
            let is_last = !is_directory || self.overlay.is_opaque(&found)?;
            push(&mut trace.lowers, found)?;
            if is_last {
                break;
            }
        }
        Ok(trace)
    }

    /// Whether lower layers have a name, which the upper one has to hide.
    pub(super) fn is_below(&self, name: &[u8]) -> Result<bool> {
        for dir in &self.lowers {
            if let Some(found) = find_in(dir, name, &[])? {
                return Ok(!is_whiteout(&**found.inode())?);
            }
        }
        Ok(false)
    }

    /// See [`Inode::lookup`].
    pub(super) fn find(&self, name: &[u8], ahead: &[u8]) -> Result<Found> {
        let trace = self.trace(name, ahead)?;
        let expires = trace.upper.iter().chain(&trace.lowers).map(|place| place.expires()).min();
        Ok(Found { inode: self.node(name, trace)?, expires: expires.unwrap_or(0) })
    }
}
