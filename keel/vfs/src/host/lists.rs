//! Access control lists of host files, acl(5). What was asked for is believed as long as attributes are, and beyond that
//! while the file's status change time stays.
//!
//! Exports that seldom change (the host's `/usr` and the like) have none for the pod: their files are those that everybody
//! may read, so no list decides anything there.

use super::prefetch::price;
use super::{HostNode, SETTLED_NS, now};
use crate::acl::{Acl, Kind};
use crate::{Change, FileType, Inode};
use abi::request::{GetXattr, ListAttributes, RemoveXattr, SetXattr, node_flags};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use uapi::{Errno, Result};

/// Lists of files of a directory that are asked for one by one before all are,
const FEW: u64 = 2;
/// and which part of what all cost that must have taken.
const GOOD_PART: u64 = 4;

/// What is known of a list.
struct Known {
    /// When it was asked for, monotonic ns.
    at: u64,
    /// Status change time of the file before that; zeros if it says nothing.
    ctime: (i64, u32),
    /// EOPNOTSUPP where the host's file system has no lists.
    list: Result<Option<Rc<Acl>>>,
}

/// Both lists of a file, as far as they are known.
#[derive(Default)]
pub(super) struct Lists {
    access: RefCell<Option<Known>>,
    default: RefCell<Option<Known>>,
}

impl Lists {
    fn of(&self, kind: Kind) -> &RefCell<Option<Known>> {
        match kind {
            Kind::Access => &self.access,
            Kind::Default => &self.default,
        }
    }

    /// When the access list that is known was asked for (monotonic ns).
    pub(super) fn asked(&self) -> Option<u64> {
        self.access.borrow().as_ref().map(|known| known.at)
    }
}

impl HostNode {
    /// Whether its lists mean anything to the pod.
    pub(super) fn may_have_lists(&self) -> bool {
        self.kind() != FileType::Symlink && (self.export.writable || self.export.fresh_ns != SETTLED_NS)
    }

    /// One of its lists. EOPNOTSUPP where the host has none.
    pub(crate) fn list_of(&self, kind: Kind) -> Result<Option<Rc<Acl>>> {
        if !self.may_have_lists() || kind == Kind::Default && self.kind() != FileType::Directory {
            return Ok(None);
        }
        let lists = self.lists.get_or_init(Box::default);
        if let Some(known) = &*lists.of(kind).borrow()
            && self.export.believes(known.at, now())
        {
            return known.list.clone();
        }
        if self.has_no_lists() || self.names_came() && self.has_no_lists() {
            let attr = self.attr_cached();
            let known = Known { at: self.fetched.get(), ctime: (attr.ctime, attr.ctime_ns), list: Ok(None) };
            lists.of(kind).replace(Some(known));
            return Ok(None);
        }
        let attr = self.fresh_attr()?;
        let ctime = (attr.ctime, attr.ctime_ns);
        if let Some(known) = &*lists.of(kind).borrow()
            && known.ctime == ctime
        {
            return known.list.clone();
        }
        let at = now();
        let list = match self.fetch_xattr(kind.name()) {
            Ok(value) => Ok(Acl::parse(&value)?.map(Rc::new)),
            Err(Errno::ENODATA) => Ok(None),
            Err(Errno::EOPNOTSUPP) => Err(Errno::EOPNOTSUPP),
            Err(errno) => return Err(errno),
        };
        lists.of(kind).replace(Some(Known { at, ctime, list: list.clone() }));
        self.permissions_changed();
        list
    }

    /// Whether its attributes, still believed, say that there are none.
    fn has_no_lists(&self) -> bool {
        self.attr_cached().flags & node_flags::NO_LISTS != 0 && self.export.believes(self.fetched.get(), now())
    }

    /// Notes a trip for a list that is about to be made. Whether the directory was listed instead, with what tells which of
    /// its files have lists: somebody asks for those of one after the other, as `ls -l` does.
    fn names_came(&self) -> bool {
        let place = self.place.borrow().clone();
        let Some((dir, _)) = place.filter(|(dir, _)| !self.gone.get() && dir.is_listed()) else { return false };
        let names = dir.names();
        let Some(trips) = names.list_trips.get().checked_add(1) else { return false };
        names.list_trips.set(trips);
        let is_worth_it = trips * self.export.host.io.trip_ns() >= price(names.len() as u64, true) / GOOD_PART;
        if trips < FEW || !is_worth_it || self.export.is_underway(&dir.path()) {
            return false;
        }
        let came = dir.fetch_list(ListAttributes::WithLists, None);
        // Once for each listing: they may all have lists.
        names.list_trips.set(u64::MAX);
        came.is_ok()
    }

    /// The host gave a new file these lists.
    pub(super) fn has_lists(&self, access: Option<Rc<Acl>>, default: Option<Rc<Acl>>) {
        // A plain file is asked for if it ever matters; a directory is asked with every file that is made there.
        if self.kind() != FileType::Directory {
            return;
        }
        let lists = self.lists.get_or_init(Box::default);
        for (kind, list) in [(Kind::Access, access), (Kind::Default, default)] {
            lists.of(kind).replace(Some(Known { at: now(), ctime: (0, 0), list: Ok(list) }));
        }
    }

    /// They may have changed.
    pub(super) fn forget_lists(&self) {
        if let Some(lists) = self.lists.get() {
            lists.access.take();
            lists.default.take();
        }
        self.permissions_changed();
    }

    /// Sets or removes a list on the host, with the permission bits that go with it.
    pub(super) fn put_list(&self, kind: Kind, acl: Option<&Acl>, mode: u32) -> Result<()> {
        match acl {
            Some(acl) => self.send_xattr(kind.name(), &acl.value()?, 0)?,
            None => match self.clear_xattr(kind.name()) {
                Err(Errno::ENODATA) => {}
                other => other?,
            },
        }
        self.forget_lists();
        // A list brings its mode along, but for the set-group-id bit of those who may not have it.
        if kind == Kind::Access && self.fresh_perm()?.0 & 0o7777 != mode & 0o7777 {
            self.change(&Change { mode: Some(mode), ..Change::default() })?;
        }
        Ok(())
    }

    /// How a request names the file: by its handle if only that still reaches it, else by its path. ESTALE.
    pub(super) fn subject(&self) -> Result<(u64, Vec<u8>)> {
        if !self.gone.get() {
            return Ok((0, self.path()));
        }
        let handle = self.content.get().and_then(|content| content.handle()).ok_or(Errno::ESTALE)?;
        Ok((handle, Vec::new()))
    }

    pub(super) fn fetch_xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        let _held = self.export.hold_paths()?;
        let (handle, path) = self.subject()?;
        let input = [&path, name].concat();
        let mut value = crate::memory::buffer(64 << 10)?;
        let get = GetXattr { export: self.export.id, path_len: path.len() as u64, handle };
        let len = self.export.host.call(get, &input[..], &mut value[..])?;
        value.truncate(len as usize);
        Ok(value)
    }

    pub(super) fn send_xattr(&self, name: &[u8], value: &[u8], flags: u32) -> Result<()> {
        let _held = self.export.hold_paths()?;
        let (handle, path) = self.subject()?;
        let input = [&path, name, value].concat();
        let (path_len, name_len) = (path.len() as u64, name.len() as u64);
        let set = SetXattr { export: self.export.id, path_len, name_len, flags, handle };
        self.export.host.call(set, &input[..], &mut ())?;
        self.stale();
        Ok(())
    }

    pub(super) fn clear_xattr(&self, name: &[u8]) -> Result<()> {
        let _held = self.export.hold_paths()?;
        let (handle, path) = self.subject()?;
        let input = [&path, name].concat();
        let remove = RemoveXattr { export: self.export.id, path_len: path.len() as u64, handle };
        self.export.host.call(remove, &input[..], &mut ())?;
        self.stale();
        Ok(())
    }
}
