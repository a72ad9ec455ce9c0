//! Signals about changes in a directory, fcntl(2) `F_NOTIFY`.

use super::caller::caller;
use super::table::FdTable;
use super::{File, sigio};
use alloc::rc::{Rc, Weak};
use core::any::Any;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use keel_core::pieces::Pieces;
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

/// A directory that a program watches by way of a descriptor.
struct Watch {
    file: Weak<File>,
    /// The table of the descriptor: which one, by its address.
    table: usize,
    fd: i32,
    /// `DN_*`.
    kinds: Cell<u32>,
    inode: Rc<dyn Inode>,
}

/// All of them; few, if any.
static WATCHES: Global<RefCell<Pieces<Rc<Watch>>>> = Global::new(RefCell::new(Pieces::new()));

impl Listener for Watch {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn hear(&self, event: &Event<'_>) {
        let kinds = self.kinds.get();
        if !KINDS.iter().any(|(kind, events)| kinds & kind != 0 && event.mask & events != 0) {
            return;
        }
        let file = self.file.upgrade();
        if kinds & g::DN_MULTISHOT == 0 || file.is_none() {
            self.end();
        }
        let Some(file) = file else { return };
        let owner = file.owner.get();
        let info = sigio::info(owner.signal, self.fd, REASON);
        if owner.id != 0 {
            caller().signal(owner.kind, owner.id, info);
        }
    }

    fn gone(&self) {
        self.end();
    }
}

impl Watch {
    fn end(&self) {
        let ended = WATCHES.borrow().iter().position(|watch| core::ptr::eq(Rc::as_ptr(watch), self));
        let ended = ended.and_then(|at| WATCHES.borrow_mut().remove(at));
        if let Some(watch) = ended {
            notify::leave(&watch.inode, &*watch);
        }
    }
}

fn find(table: &FdTable, file: &Rc<File>) -> Option<Rc<Watch>> {
    let table = core::ptr::from_ref(table).addr();
    let is_it = |watch: &&Rc<Watch>| watch.table == table && core::ptr::eq(watch.file.as_ptr(), Rc::as_ptr(file));
    WATCHES.borrow().iter().find(is_it).cloned()
}

/// `F_NOTIFY`. ENOTDIR.
pub fn watch(table: &FdTable, file: &Rc<File>, fd: i32, kinds: u32) -> Result<usize> {
    let old = find(table, file);
    if kinds & !g::DN_MULTISHOT == 0 {
        if let Some(old) = old {
            old.end();
        }
        return Ok(0);
    }
    let inode = file.ops.inode().filter(|inode| inode.file_type() == FileType::Directory).ok_or(Errno::ENOTDIR)?;
    let owner = super::owner::Owner {
        kind: g::F_OWNER_PID,
        id: caller().pid(),
        uids: super::owner::uids(1),
        ..file.owner.get()
    };
    file.owner.set(owner);
    if let Some(old) = old {
        old.kinds.set(old.kinds.get() | kinds);
        return Ok(0);
    }
    let new = Rc::new(Watch {
        file: Rc::downgrade(file),
        table: core::ptr::from_ref(table).addr(),
        fd,
        kinds: Cell::new(kinds),
        inode: inode.clone(),
    });
    WATCHES.borrow_mut().push_back(new.clone());
    notify::listen(&inode, new);
    Ok(0)
}

/// A descriptor was closed.
pub fn descriptor_closed(table: &FdTable, file: &Rc<File>) {
    if notify::is_on()
        && let Some(watch) = find(table, file)
    {
        watch.end();
    }
}
