//! Signals about changes in a directory, fcntl(2) `F_NOTIFY`.

use super::caller::caller;
use super::table::FdTable;
use super::{File, sigio};
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use core::any::Any;
use core::cell::{Cell, RefCell};
use core::ops::Bound;
use hal::cell::Global;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::notify::{self, Event, Listener};
use vfs::{FileType, Inode};

/// `si_code` and `si_band` of these signals: POLL_MSG.
const REASON: (i32, u32) = (3, g::POLLIN | g::POLLRDNORM | g::POLLMSG);

/// Kinds of changes, and the corresponding inotify events.
const KINDS: [(u32, u32); 6] = [
    (g::DN_ACCESS, g::IN_ACCESS),
    (g::DN_MODIFY, g::IN_MODIFY),
    (g::DN_CREATE, g::IN_CREATE | g::IN_MOVED_TO),
    (g::DN_DELETE, g::IN_DELETE | g::IN_MOVED_FROM),
    (g::DN_RENAME, g::IN_MOVED_FROM),
    (g::DN_ATTRIB, g::IN_ATTRIB),
];

/// What a descriptor watches of its directory.
struct Watch {
    key: Key,
    file: Weak<File>,
    fd: i32,
    /// `DN_*`.
    kinds: u32,
}

/// A descriptor: the addresses of its table and of its open file.
type Key = (usize, usize);

/// Falls with each watch.
type Place = u64;

/// A directory that descriptors watch: one listener for all of them, since there may be many.
struct Directory {
    inode: Rc<dyn Inode>,
    /// By [`Place`]: the newest first, as they are told on Linux.
    watches: RefCell<BTreeMap<Place, Watch>>,
    /// Events that some watch wants, or wanted.
    wanted: Cell<u32>,
}

/// By descriptor: its directory, and its place there.
type Watches = BTreeMap<Key, (Rc<Directory>, Place)>;

/// The directory of each descriptor that watches one; few, if any.
static WATCHES: Global<RefCell<Watches>> = Global::new(RefCell::new(BTreeMap::new()));
static NEXT: Global<Cell<Place>> = Global::new(Cell::new(Place::MAX));

/// The events of a set of `DN_*`.
fn events_of(kinds: u32) -> u32 {
    KINDS.iter().filter(|(kind, _)| kinds & kind != 0).fold(0, |all, (_, events)| all | events)
}

impl Listener for Directory {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn hear(&self, event: &Event<'_>) {
        if self.wanted.get() & event.mask == 0 {
            return;
        }
        let mut wanted = 0;
        let mut next = self.after(None);
        while let Some((place, kinds, fd, file)) = next {
            if events_of(kinds) & event.mask == 0 {
                wanted |= events_of(kinds);
            } else {
                if kinds & g::DN_MULTISHOT == 0 || file.is_none() {
                    self.end(place);
                } else {
                    wanted |= events_of(kinds);
                }
                if let Some(file) = file {
                    sigio::tell(file.owner.get(), fd, REASON);
                }
            }
            next = self.after(Some(place));
        }
        self.wanted.set(wanted);
    }

    fn gone(&self) {
        while let Some((place, ..)) = self.after(None) {
            self.end(place);
        }
    }
}

impl Directory {
    /// The watch behind that at `place`.
    fn after(&self, place: Option<Place>) -> Option<(Place, u32, i32, Option<Rc<File>>)> {
        let watches = self.watches.borrow();
        let (place, watch) =
            watches.range((place.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)).next()?;
        Some((*place, watch.kinds, watch.fd, watch.file.upgrade()))
    }

    fn end(&self, place: Place) {
        let Some(watch) = self.watches.borrow_mut().remove(&place) else { return };
        let directory = WATCHES.borrow_mut().remove(&watch.key);
        if let Some((directory, _)) = directory.filter(|(directory, _)| directory.watches.borrow().is_empty()) {
            notify::leave(&self.inode, &*directory);
        }
    }
}

fn key(table: &FdTable, file: &Rc<File>) -> Key {
    (core::ptr::from_ref(table).addr(), Rc::as_ptr(file).addr())
}

/// The listener of a directory, if it has one.
fn listener(inode: &Rc<dyn Inode>) -> Option<Rc<Directory>> {
    notify::find(inode, |listener| {
        let one = listener.as_any().downcast_ref::<Directory>()?;
        let key = one.watches.borrow().values().next()?.key;
        WATCHES.borrow().get(&key).map(|(directory, _)| directory.clone())
    })
}

/// `F_NOTIFY`. ENOTDIR, ENOMEM.
pub fn watch(table: &FdTable, file: &Rc<File>, fd: i32, kinds: u32) -> Result<usize> {
    let key = key(table, file);
    let old = WATCHES.borrow().get(&key).cloned();
    if kinds & !g::DN_MULTISHOT == 0 {
        if let Some((old, place)) = old {
            old.end(place);
        }
        return Ok(0);
    }
    let inode = file.ops.inode().filter(|inode| inode.file_type() == FileType::Directory).ok_or(Errno::ENOTDIR)?;
    if hal::frame::is_scarce() {
        return Err(Errno::ENOMEM);
    }
    let owner = super::owner::Owner {
        kind: g::F_OWNER_PID,
        id: caller().pid(),
        uids: super::owner::uids(1),
        ..file.owner.get()
    };
    file.owner.set(owner);
    if let Some((old, place)) = old {
        old.wanted.set(old.wanted.get() | events_of(kinds));
        if let Some(watch) = old.watches.borrow_mut().get_mut(&place) {
            watch.kinds |= kinds;
        }
        return Ok(0);
    }
    let known = listener(&inode);
    let is_new = known.is_none();
    let new = || Rc::new(Directory { inode: inode.clone(), watches: RefCell::default(), wanted: Cell::new(0) });
    let directory = known.unwrap_or_else(new);
    let place = NEXT.get();
    NEXT.set(place - 1);
    directory.wanted.set(directory.wanted.get() | events_of(kinds));
    directory.watches.borrow_mut().insert(place, Watch { key, file: Rc::downgrade(file), fd, kinds });
    WATCHES.borrow_mut().insert(key, (directory.clone(), place));
    if is_new {
        notify::listen(&inode, directory);
    }
    Ok(0)
}

/// A descriptor was closed.
pub fn descriptor_closed(table: &FdTable, file: &Rc<File>) {
    if notify::is_on() {
        let watch = WATCHES.borrow().get(&key(table, file)).cloned();
        if let Some((directory, place)) = watch {
            directory.end(place);
        }
    }
}
