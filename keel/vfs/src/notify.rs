//! File change events: inotify(7) and dnotify (fcntl(2), `F_NOTIFY`).
//!
//! Listeners are attached to inodes. Changes of names or attributes are reported here (`ops`), reads and writes of open
//! files by the kernel. Without any listener, each of those places costs one load of a counter.

use crate::{FileType, Inode, PathRef};
use alloc::rc::Rc;
use core::any::Any;
use core::cell::{Cell, RefCell};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use hal::cell::{Global, Padded};
use keel_core::pieces::Pieces;
use uapi::raw::general as g;

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// `IN_*` bits, with `IN_ISDIR`.
    pub mask: u32,
    /// Joins both halves of a rename; otherwise 0.
    pub cookie: u32,
    /// To a name in the directory that is listened to; otherwise to the file itself.
    pub name: Option<&'a [u8]>,
    /// Through an open file whose name was removed.
    pub unlinked: bool,
}

/// Receives the events of one inode. Neither method may block or call the inode.
pub trait Listener: Any {
    /// For downcasts.
    fn as_any(&self) -> &dyn Any;
    /// Something happened.
    fn hear(&self, event: &Event<'_>);
    /// The file was deleted; there are no further events.
    fn gone(&self);
}

/// Listeners in the whole pod.
static COUNT: Padded<AtomicUsize> = Padded::new(AtomicUsize::new(0));
static COOKIE: Global<Cell<u32>> = Global::new(Cell::new(0));

/// Attachment of an inode.
#[derive(Default)]
struct Listeners {
    list: RefCell<Pieces<Rc<dyn Listener>>>,
    /// Its last name was removed.
    nameless: Cell<bool>,
}

/// Whether there is any listener.
#[inline(always)]
pub fn is_on() -> bool {
    COUNT.load(Relaxed) != 0
}

fn listeners(inode: &Rc<dyn Inode>) -> Option<Rc<Listeners>> {
    inode.attachments()?.get()
}

/// Subscribes `listener` to `inode`. Files that are created at each lookup have no events.
pub fn listen(inode: &Rc<dyn Inode>, listener: Rc<dyn Listener>) {
    if let Some(attachments) = inode.attachments() {
        attachments.get_or_insert(Listeners::default).list.borrow_mut().push_back(listener);
        COUNT.fetch_add(1, Relaxed);
    }
}

/// Ends that.
pub fn leave(inode: &Rc<dyn Inode>, listener: &dyn Listener) {
    let Some(all) = listeners(inode) else { return };
    let is_it = |l: &Rc<dyn Listener>| core::ptr::addr_eq(Rc::as_ptr(l), core::ptr::from_ref(listener));
    let at = all.list.borrow().iter().position(is_it);
    if let Some(at) = at {
        let removed = all.list.borrow_mut().remove(at);
        COUNT.fetch_sub(1, Relaxed);
        drop(removed);
    }
}

/// The first listener of an inode that `f` accepts.
pub fn find<T>(inode: &Rc<dyn Inode>, f: impl Fn(&Rc<dyn Listener>) -> Option<T>) -> Option<T> {
    let all = listeners(inode)?;
    let list = all.list.borrow();
    list.iter().find_map(f)
}

fn tell(inode: &Rc<dyn Inode>, event: &Event<'_>) {
    if let Some(all) = listeners(inode) {
        let mut at = 0;
        loop {
            let Some(listener) = all.list.borrow().get(at).cloned() else { return };
            listener.hear(event);
            // If a listener unsubscribed in its callback, the next one has moved to its index.
            at += usize::from(all.list.borrow().get(at).is_some_and(|now| Rc::ptr_eq(now, &listener)));
        }
    }
}

fn directory_bit(inode: &Rc<dyn Inode>) -> u32 {
    if inode.file_type() == FileType::Directory { g::IN_ISDIR } else { 0 }
}

/// Reports an event of an inode, whatever its names are.
fn inode_event(inode: &Rc<dyn Inode>, mask: u32) {
    tell(inode, &Event { mask: mask | directory_bit(inode), cookie: 0, name: None, unlinked: false });
}

/// Something happened to a name in a directory.
fn name_event(dir: &PathRef, name: &[u8], mask: u32, cookie: u32) {
    tell(dir.inode(), &Event { mask, cookie, name: Some(name), unlinked: false });
}

/// An event of the file at `place`: delivered to its directory's listeners with the name, then to its own.
/// `open`: by way of an open file.
#[inline]
pub fn happened(place: &PathRef, mask: u32, open: bool) {
    if is_on() {
        happened_now(place, mask, open);
    }
}

#[cold]
fn happened_now(place: &PathRef, mask: u32, open: bool) {
    let mask = mask | directory_bit(place.inode());
    let unlinked = open && place.is_deleted();
    // Access to special files is not reported to listeners of their directory.
    let kind = place.inode().file_type();
    let passes = open && mask & (g::IN_ACCESS | g::IN_MODIFY) != 0;
    let secret = passes && !matches!(kind, FileType::Regular | FileType::Directory);
    if let Some(parent) = place.parent().filter(|_| !secret && !place.is_mount_root()) {
        tell(parent.inode(), &Event { mask, cookie: 0, name: Some(&place.name()), unlinked });
    }
    tell(place.inode(), &Event { mask, cookie: 0, name: None, unlinked });
}

/// A name was created. `linked`: for a file with another name.
#[inline]
pub fn created(dir: &PathRef, name: &[u8], inode: &Rc<dyn Inode>, linked: bool) {
    if is_on() {
        if linked {
            inode_event(inode, g::IN_ATTRIB);
        }
        name_event(dir, name, g::IN_CREATE | directory_bit(inode), 0);
    }
}

/// A file lost a name: after the last one, it is deleted at its last use.
fn lost_name(victim: &PathRef) {
    if let Some(all) = listeners(victim.inode()) {
        // A file whose attributes fail is gone.
        all.nameless.set(victim.inode().attr().map_or(true, |attr| attr.nlink == 0));
    }
}

/// A name of `victim` was removed. May read the inode's attributes.
#[inline]
pub fn removed(dir: &PathRef, name: &[u8], victim: &PathRef) {
    if is_on() {
        let directory = directory_bit(victim.inode());
        if directory == 0 {
            inode_event(victim.inode(), g::IN_ATTRIB);
        }
        name_event(dir, name, g::IN_DELETE | directory, 0);
        lost_name(victim);
    }
}

/// A name was moved, and replaced `replaced` if that existed. May read the inode's attributes.
#[inline]
pub fn moved(from: (&PathRef, &[u8]), to: (&PathRef, &[u8]), what: &PathRef, replaced: Option<&PathRef>) {
    if is_on() {
        let cookie = COOKIE.get().wrapping_add(1).max(1);
        COOKIE.set(cookie);
        let directory = directory_bit(what.inode());
        name_event(from.0, from.1, g::IN_MOVED_FROM | directory, cookie);
        name_event(to.0, to.1, g::IN_MOVED_TO | directory, cookie);
        if let Some(victim) = replaced {
            inode_event(victim.inode(), g::IN_ATTRIB);
            lost_name(victim);
        }
        inode_event(what.inode(), g::IN_MOVE_SELF);
    }
}

/// The last use of a removed name ended.
#[cold]
pub(crate) fn name_dropped(inode: &Rc<dyn Inode>) {
    let Some(all) = listeners(inode).filter(|all| all.nameless.get()) else { return };
    let list = all.list.take();
    COUNT.fetch_sub(list.len(), Relaxed);
    for listener in list {
        let mask = g::IN_DELETE_SELF | directory_bit(inode);
        listener.hear(&Event { mask, cookie: 0, name: None, unlinked: false });
        listener.gone();
    }
}
