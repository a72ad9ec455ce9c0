//! Host files as inodes: changes go to the host at once, but for small writes ([`super::gather`]).

use super::HostNode;
use super::gather::End;
use super::order::Asked;
use crate::acl::{Acl, Kind};
use crate::inode::Attachments;
use crate::memory::append;
use crate::shown::{Shown, State};
use crate::{Attr, Change, Dst, FileType, Found, Inode, Listing, Name, NewNode, SetTime, Src};
use abi::operation::Operation;
use abi::request::{
    AttrChange, FsStat, Link, ListXattr, Mkdir, Mknod, NodeAttr, Open, Opened, SetAttr, StatFs, Symlink, Unlink,
    open_flags, set_attr,
};
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use hal::frame::Frame;
use uapi::{Errno, Result};

/// The other end of a change that concerns two directories: a node of the same export.
fn same_export(this: &HostNode, other: &Rc<dyn Inode>) -> Result<Rc<HostNode>> {
    let any: Rc<dyn Any> = other.clone();
    let node = any.downcast::<HostNode>().map_err(|_| Errno::EXDEV)?;
    if Rc::ptr_eq(&node.export, &this.export) { Ok(node) } else { Err(Errno::EXDEV) }
}

impl HostNode {
    fn writable(&self) -> Result<()> {
        if self.export.writable { Ok(()) } else { Err(Errno::EROFS) }
    }

    /// A request whose answer is the attributes of a new or changed file, and when it was sent.
    pub(super) fn call_attr<O>(&self, operation: O, input: &[u8]) -> Result<(NodeAttr, O::Results, Asked)>
    where
        O: Operation<Input = [u8], Output = [NodeAttr]>,
    {
        let mut attr = [NodeAttr::default()];
        let asked = self.export.host.ask();
        let results = self.export.host.call(operation, input, &mut attr)?;
        Ok((attr[0], results, asked))
    }

    /// The pod gave a file with these attributes a name here.
    fn named(&self, name: &[u8], attr: &NodeAttr, asked: Asked) -> Rc<Self> {
        let is_last = self.name_changed(name, asked);
        let node = self.enter(name, attr, asked);
        node.changed_to(attr, asked);
        if is_last && let Some(dir) = self.this.upgrade() {
            node.has_name(&dir, name);
            self.enter_changed(name, Some(&node));
        } else {
            // It may have lost the name again.
            node.stale();
        }
        node
    }

    /// A file lost a name (or gave it to another file).
    pub(super) fn unnamed(&self, name: &[u8], node: &Self) {
        node.lost_name(self, name);
        let is_open = node.content.get().and_then(|content| content.handle()).is_some();
        let mut attr = node.attr_cached();
        if node.kind() == FileType::Directory || attr.nlink <= 1 && !is_open {
            attr.nlink = 0;
            node.withdraw();
            node.attr.set(attr);
            node.changed.set(self.export.host.count_change());
        } else {
            node.stale();
        }
    }

    /// statfs(2) of the host.
    pub(super) fn fetch_statfs(&self) -> Result<FsStat> {
        let mut stat = [FsStat::default()];
        let _held = self.export.hold_paths()?;
        self.export.host.call(StatFs { export: self.export.id }, &self.path()[..], &mut stat)?;
        Ok(stat[0])
    }

    /// Two strings in one input, with the length of the first.
    pub(super) fn joined(first: &[u8], second: &[u8]) -> (u64, Vec<u8>) {
        (first.len() as u64, [first, second].concat())
    }

    /// A change by one of its paths; `send` fails with ESTALE if another file has the path. ESTALE: no path is known.
    fn by_path<R>(&self, send: impl Fn(u64, &[u8]) -> Result<R>) -> Result<R> {
        for _ in 0..super::node::TRIES {
            let (handle, path) = self.subject()?;
            match send(handle, &path) {
                Err(Errno::ESTALE) => self.is_misplaced(),
                sent => return sent,
            }
        }
        Err(Errno::ESTALE)
    }
}

impl Inode for HostNode {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn attr(&self) -> Result<Attr> {
        self.settle_content()?;
        self.attr_after_stores()
    }

    fn perm(&self) -> Result<(u32, u32, u32)> {
        self.fresh_perm()
    }

    fn file_type(&self) -> FileType {
        self.kind()
    }

    fn read_at(&self, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        self.settle_content()?;
        self.read_content(offset, dst)
    }

    fn read_cached(&self, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        self.settle_content()?;
        self.read_cached_content(offset, dst)
    }

    fn write_at(&self, offset: u64, src: &mut dyn Src) -> Result<usize> {
        self.writable()?;
        self.write_content(Some(offset), src).map(|(n, _)| n)
    }

    fn append(&self, src: &mut dyn Src) -> Result<(usize, u64)> {
        let (written, end) = self.append_later(src)?;
        Ok((written, self.resolve(end)?))
    }

    fn append_later(&self, src: &mut dyn Src) -> Result<(usize, End)> {
        self.writable()?;
        self.write_content(None, src)
    }

    fn settle(&self) -> Result<()> {
        self.settle_content()
    }

    fn failure(&self) -> (u32, Option<Errno>) {
        self.content.get().map_or((0, None), |content| content.failure.get())
    }

    fn pages(&self, first: u64, count: usize, write: bool) -> Result<Vec<Frame>> {
        if write {
            self.writable()?;
        }
        self.settle_content()?;
        self.content_pages(first, count, write)
    }

    fn shared_pages(&self, first: u64, count: usize, write: bool) -> Result<Vec<Frame>> {
        if write {
            self.writable()?;
        }
        self.settle_content()?;
        self.content_shared(first, count, write)
    }

    fn is_host_content(&self) -> bool {
        !self.is_writable()
    }

    fn copies(&self, first: u64, count: usize) -> Result<Vec<Frame>> {
        self.settle_content()?;
        self.content_copies(first, count)
    }

    fn was_cut(&self) -> Option<u64> {
        self.cut_content()
    }

    fn has_scarce_pages(&self) -> bool {
        self.is_writable() && self.content().distrusted.get()
    }

    fn drop_window(&self, distrust: bool) {
        self.export.host.drop_window(distrust);
    }

    fn shown(&self) -> Option<Arc<Shown>> {
        Some(self.shown_here())
    }

    fn show(&self, offset: u64, len: usize) {
        // A node of an overlay shows it in its own way.
        let is_beneath = self.overlay.borrow().strong_count() > 0;
        if let (false, Some(shown), Some(known)) = (is_beneath, self.shown.get(), self.known_state()) {
            self.show_content(shown, &known, offset, len);
        }
    }

    fn show_attributes(&self) {
        let is_beneath = self.overlay.borrow().strong_count() > 0;
        let Some(shown) = self.shown.get().filter(|shown| !is_beneath && !shown.has_view()) else { return };
        if let Some(known) = self.known_state() {
            return shown.show(&known, 0, 0, |_| None);
        }
        if let Some((attr, expires)) = self.known_attributes() {
            shown.show(&State { attr, expires, is_settled: false, has_holes: false }, 0, 0, |_| None);
        }
    }

    fn stamp_address(&self) -> Option<usize> {
        Some(core::ptr::from_ref(self).addr())
    }

    fn permissions_expire(&self) -> u64 {
        self.permissions_believed().saturating_add(self.export.fresh_ns)
    }

    fn truncate(&self, size: u64) -> Result<()> {
        self.writable()?;
        self.truncate_content(size)
    }

    fn locked_outside(&self) -> Option<Rc<HostNode>> {
        if self.has_outside_locks() { self.this.upgrade() } else { None }
    }

    fn attachments(&self) -> Option<&Attachments> {
        Some(&self.attachments)
    }

    fn lookup(&self, name: &[u8], ahead: &[u8]) -> Result<Found> {
        if self.kind() != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        if let Some(found) = self.mounted_at(name) {
            return Ok(found);
        }
        let (inode, expires) = self.find(name, ahead)?;
        Ok(Found { inode, expires })
    }

    fn takes_stores(&self) -> bool {
        self.export.host.has_window()
    }

    fn is_unknown(&self, name: &[u8]) -> bool {
        self.is_writable() && self.kind() == FileType::Directory && self.has_no_answer(name)
    }

    fn create(&self, name: &[u8], new: &NewNode<'_>) -> Result<Rc<dyn Inode>> {
        self.writable()?;
        let _held = self.export.hold_paths()?;
        let path = self.path_to(name);
        let export = self.export.id;
        let NewNode { mode, uid, gid, .. } = *new;
        let permissions = mode & 0o7777;
        let made = |(attr, (), asked)| (attr, Opened::default(), asked);
        let made = match FileType::of(mode) {
            FileType::Directory => self.call_attr(Mkdir { export, mode: permissions, uid, gid }, &path).map(made),
            FileType::Symlink => {
                let (path_len, input) = Self::joined(&path, new.target);
                self.call_attr(Symlink { export, path_len, uid, gid }, &input).map(made)
            }
            FileType::Regular => {
                let new = open_flags::CREATE | open_flags::EXCLUSIVE | open_flags::OR_TELL;
                let flags = open_flags::READ | open_flags::WRITE | new;
                self.call_attr(Open { export, flags, mode: permissions, uid, gid }, &path)
            }
            FileType::Fifo | FileType::Socket => self.call_attr(Mknod { export, mode, uid, gid }, &path).map(made),
            FileType::CharDevice | FileType::BlockDevice => return Err(Errno::EPERM),
        };
        let (attr, opened, asked) = made.inspect_err(|errno| self.refused(name, *errno))?;
        if opened.exists {
            self.enter(name, &attr, asked);
            self.refused(name, Errno::EEXIST);
            return Err(Errno::EEXIST);
        }
        let node = self.named(name, &attr, asked);
        match node.kind() {
            FileType::Regular => {
                node.take_handle(opened.handle, true);
                // What is written from here on is known to be all of it.
                node.validate(&attr);
                node.content().made.set(super::now());
                node.will_be_written();
            }
            FileType::Directory => node.is_empty(asked),
            _ => {}
        }
        if !new.target.is_empty() {
            node.target.replace(Some(Rc::from(new.target)));
        }
        Ok(node)
    }

    fn create_unnamed(&self, new: &NewNode<'_>) -> Result<Rc<dyn Inode>> {
        self.writable()?;
        if self.gone.get() {
            return Err(Errno::ENOENT);
        }
        let flags = open_flags::READ | open_flags::WRITE | open_flags::UNNAMED;
        let open = Open { export: self.export.id, flags, mode: new.mode & 0o7777, uid: new.uid, gid: new.gid };
        let _held = self.export.hold_paths()?;
        let (attr, opened, asked) = self.call_attr(open, &self.path())?;
        let node = self.export.node(None, &attr, asked);
        node.gone.set(true);
        node.unnamed.set(true);
        node.take_handle(opened.handle, true);
        Ok(node)
    }

    fn link(&self, name: &[u8], target: &Rc<dyn Inode>) -> Result<()> {
        self.writable()?;
        let target = same_export(self, target)?;
        if target.gone.get() && !target.unnamed.get() {
            return Err(Errno::ENOENT);
        }
        let _held = self.export.hold_paths()?;
        let (handle, path) = target.subject()?;
        let (path_len, input) = Self::joined(&path, &self.path_to(name));
        let linked = self.call_attr(Link { export: self.export.id, path_len, handle }, &input);
        let (attr, _, asked) = linked.inspect_err(|errno| self.refused(name, *errno))?;
        target.unnamed.set(false);
        let linked = self.named(name, &attr, asked);
        if Rc::ptr_eq(&linked, &target) {
            return Ok(());
        }
        // Another file took the target's name meanwhile, and has an unwanted link now.
        let asked = self.export.host.ask();
        let unlink = Unlink { export: self.export.id, directory: false };
        self.export.host.call(unlink, &self.path_to(name)[..], &mut ())?;
        self.name_changed(name, asked);
        self.forget_name(name);
        linked.lost_name(self, name);
        linked.stale();
        Err(Errno::ENOENT)
    }

    fn unlink(&self, name: &[u8], target: &Rc<dyn Inode>) -> Result<()> {
        self.writable()?;
        self.check_not_mounted(name)?;
        let node = same_export(self, target)?;
        // `target` in the tree and `node` here: more means that it is open or mapped, and must stay
        // readable without its name.
        if node.kind() == FileType::Regular && Rc::strong_count(&node) > 2 {
            // A file that the monitor may not open can't be read later either.
            let _ = node.open_handle(false);
        }
        let directory = node.kind() == FileType::Directory;
        let _held = self.export.hold_paths()?;
        let asked = self.export.host.ask();
        self.export.host.call(Unlink { export: self.export.id, directory }, &self.path_to(name)[..], &mut ())?;
        let was_it = self.leads_to(name, &node);
        if self.name_changed(name, asked) && was_it {
            self.enter_changed(name, None);
            self.unnamed(name, &node);
        } else {
            // Another file may have had the name then.
            self.forget_name(name);
            node.stale();
        }
        Ok(())
    }

    fn rename(&self, old: &[u8], to: &Rc<dyn Inode>, new: &[u8], flags: u32) -> Result<bool> {
        self.writable()?;
        self.rename_entry(old, &same_export(self, to)?, new, flags)
    }

    fn readlink(&self) -> Result<Name> {
        self.link_target()
    }

    fn readdir(&self) -> Result<Listing> {
        if self.kind() != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        let mut listing = self.list()?;
        self.list_mounted(&mut listing)?;
        Ok(listing)
    }

    fn change(&self, change: &Change) -> Result<()> {
        self.writable()?;
        let mut set = AttrChange::default();
        if let Some(mode) = change.mode {
            set.valid |= set_attr::MODE;
            set.mode = mode & 0o7777;
        }
        if let Some(uid) = change.uid {
            set.valid |= set_attr::UID;
            set.uid = uid;
        }
        if let Some(gid) = change.gid {
            set.valid |= set_attr::GID;
            set.gid = gid;
        }
        match change.atime {
            Some(SetTime::Now) => set.valid |= set_attr::ATIME | set_attr::ATIME_NOW,
            Some(SetTime::At(s, ns)) => {
                set.valid |= set_attr::ATIME;
                (set.atime, set.atime_ns) = (s, ns);
            }
            None => {}
        }
        match change.mtime {
            Some(SetTime::Now) => set.valid |= set_attr::MTIME | set_attr::MTIME_NOW,
            Some(SetTime::At(s, ns)) => {
                set.valid |= set_attr::MTIME;
                (set.mtime, set.mtime_ns) = (s, ns);
            }
            None => {}
        }
        if self.try_gather_change(&set) {
            if set.valid & set_attr::MODE != 0 {
                self.forget_lists();
            }
            return Ok(());
        }
        let _held = self.export.hold_paths()?;
        let known = self.attr_cached();
        (set.ino, set.dev, set.btime, set.btime_ns) = (known.ino, known.dev, known.btime, known.btime_ns);
        let send = |handle, path: &[u8]| {
            let input = [bytemuck::bytes_of(&set), path].concat();
            // The requests before it get their numbers first.
            self.export.host.flush();
            let number = self.export.host.count_write();
            let (mut around, asked) = ([NodeAttr::default(); 2], self.export.host.ask());
            self.export.host.call(SetAttr { export: self.export.id, handle }, &input[..], &mut around[..])?;
            Ok((around, number, asked))
        };
        // An open file is the right one whatever has its name by now.
        let open = self.content.get().and_then(|content| content.handle());
        let by_handle = open.map_or(Err(Errno::EBADF), |handle| send(handle, &[]));
        let ([attr, before], number, asked) = match by_handle {
            // The cache has closed it meanwhile.
            Err(Errno::EBADF) => self.by_path(send)?,
            sent => sent?,
        };
        if set.valid & set_attr::MODE != 0 {
            self.forget_lists();
        }
        match self.content.get() {
            Some(_) => self.follow_change(&[attr, before], asked, number),
            None => self.changed_to(&attr, asked),
        }
        Ok(())
    }

    fn get_xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        // Only what users set is worth a trip; `ls -l` asks for the others of every file.
        if !self.export.writable || !name.starts_with(b"user.") {
            return Err(if name.starts_with(b"system.") { Errno::EOPNOTSUPP } else { Errno::ENODATA });
        }
        self.fetch_xattr(name)
    }

    fn set_xattr(&self, name: &[u8], value: &[u8], flags: u32) -> Result<()> {
        self.writable()?;
        if !name.starts_with(b"user.") {
            return Err(Errno::EOPNOTSUPP);
        }
        self.send_xattr(name, value, flags)
    }

    fn list_xattrs(&self) -> Result<Vec<u8>> {
        if !self.may_have_lists() {
            return Ok(Vec::new());
        }
        let _held = self.export.hold_paths()?;
        let (handle, path) = self.subject()?;
        let mut names = crate::memory::buffer(64 << 10)?;
        match self.export.host.call(ListXattr { export: self.export.id, handle }, &path[..], &mut names[..]) {
            Ok(len) => names.truncate(len as usize),
            Err(Errno::EOPNOTSUPP) => names.clear(),
            Err(errno) => return Err(errno),
        }
        let is_shown = |name: &&[u8]| {
            self.export.writable && name.starts_with(b"user.")
                || name.split_last().is_some_and(|(_, name)| Kind::of(name).is_some())
        };
        let mut shown = Vec::new();
        names.split_inclusive(|&b| b == 0).filter(is_shown).try_for_each(|name| append(&mut shown, name))?;
        Ok(shown)
    }

    fn remove_xattr(&self, name: &[u8]) -> Result<()> {
        self.writable()?;
        if !name.starts_with(b"user.") {
            return Err(Errno::EOPNOTSUPP);
        }
        self.clear_xattr(name)
    }

    fn has_acls(&self) -> bool {
        self.may_have_lists()
    }

    fn acl(&self, kind: Kind) -> Result<Option<Rc<Acl>>> {
        self.list_of(kind)
    }

    fn put_acl(&self, kind: Kind, acl: Option<Rc<Acl>>, mode: u32) -> Result<()> {
        self.writable()?;
        self.put_list(kind, acl.as_deref(), mode)
    }

    fn adopt_acls(&self, access: Option<Rc<Acl>>, default: Option<Rc<Acl>>) -> Result<()> {
        self.has_lists(access, default);
        Ok(())
    }

    fn statfs(&self) -> Result<FsStat> {
        self.fetch_statfs()
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        self.sync_content(data_only)
    }

    fn fallocate(&self, mode: u32, offset: u64, len: u64) -> Result<()> {
        self.writable()?;
        self.fallocate_content(mode, offset, len)
    }

    fn seek_data(&self, offset: u64, hole: bool) -> Result<u64> {
        self.seek_content(offset, hole)
    }

    fn open(&self, write: bool) -> Result<Option<Rc<dyn Inode>>> {
        if write && self.kind() == FileType::Regular {
            self.writable()?;
            self.open_handle(true)?;
        }
        Ok(None)
    }

    fn check_readable(&self, reads: bool, _cut: bool) -> Result<()> {
        if reads { self.check_host_readable() } else { Ok(()) }
    }
}
