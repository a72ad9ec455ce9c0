//! The files connector over a directory of the host, with counts of what it was asked.

use crate::host::{Done, HostFiles, Part, Parts};
use abi::operation::{Encoded, Operation, Reply};
use abi::request::{
    AttrChange, Close, DirRecord, Fetched, FileRequest, FsStat, ListAttributes, Listed, NodeAttr, Opened, PodRequest,
    Read, ReadDir, Request, Walked, Write as HostWrite, Written, dir_record, node_flags, open_flags, set_attr,
};
use hal::frame::{FRAME_SIZE, Frame};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::rc::Rc;
use std::vec::Vec;
use uapi::{Errno, Result};

/// A temporary directory, removed with all that is in it.
pub struct HostDir {
    pub root: PathBuf,
    handles: RefCell<HashMap<u64, File>>,
    lists: RefCell<HashMap<u64, Vec<u8>>>,
    next: RefCell<u64>,
    pub calls: RefCell<Vec<u32>>,
    listings: RefCell<Vec<ListAttributes>>,
    /// Access control lists by path.
    pub access: RefCell<HashMap<Vec<u8>, Vec<u8>>>,
    pub knows_fetch: bool,
    pub meanwhile: RefCell<Option<Meanwhile>>,
    /// Sends gathered writes.
    pub flush: RefCell<Option<Rc<dyn Fn()>>>,
    sent: RefCell<VecDeque<Sent>>,
    /// How often a batch of writes was begun.
    pub gathers: Cell<usize>,
    /// Gathered writes fail.
    pub fails: Cell<bool>,
    /// Files that are not readable for others are not opened for reading.
    pub public_only: Cell<bool>,
    pub free_pages: Cell<u64>,
}

/// A request without a waiter.
type Sent = (Encoded, Vec<u8>, (Frame, usize, usize), Done);

impl Drop for HostDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn attr_of(m: &Metadata) -> NodeAttr {
    let born = m.created().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
    NodeAttr {
        btime: born.as_secs() as i64,
        btime_ns: born.subsec_nanos(),
        ino: m.ino(),
        dev: m.dev(),
        mode: m.mode(),
        nlink: m.nlink() as u32,
        uid: m.uid(),
        gid: m.gid(),
        rdev: m.rdev(),
        size: m.size(),
        blocks: m.blocks(),
        blksize: 4096,
        atime: m.atime(),
        atime_ns: m.atime_nsec() as u32,
        mtime: m.mtime(),
        mtime_ns: m.mtime_nsec() as u32,
        ctime: m.ctime(),
        ctime_ns: m.ctime_nsec() as u32,
        ..NodeAttr::default()
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_code(error.raw_os_error().map_or(5, i64::from))
}

fn io<T>(result: std::io::Result<T>) -> Result<T> {
    result.map_err(|e| errno(&e))
}

impl HostDir {
    pub fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(std::format!("keel-vfs-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        Self {
            root,
            handles: RefCell::default(),
            lists: RefCell::default(),
            next: RefCell::new(1),
            calls: RefCell::default(),
            listings: RefCell::default(),
            access: RefCell::default(),
            knows_fetch: true,
            meanwhile: RefCell::default(),
            flush: RefCell::default(),
            sent: RefCell::default(),
            gathers: Cell::new(0),
            fails: Cell::new(false),
            public_only: Cell::new(false),
            free_pages: Cell::new(1 << 30),
        }
    }

    pub fn write(&self, path: &str, content: &[u8]) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn check_public(&self, name: &[u8]) -> Result<()> {
        let mode = fs::metadata(self.path(name)).map_or(0o4, |m| m.mode());
        if self.public_only.get() && mode & 0o4 == 0 { Err(Errno::EACCES) } else { Ok(()) }
    }

    /// How often an operation was asked for since the last [`Self::reset`].
    pub fn count(&self, number: u32) -> usize {
        self.calls.borrow().iter().filter(|&&other| other == number).count()
    }

    pub fn trips(&self) -> usize {
        self.calls.borrow().len()
    }

    pub fn reset(&self) {
        self.calls.borrow_mut().clear();
        self.listings.borrow_mut().clear();
    }

    /// Which attributes each listing was to bring.
    pub fn asked_attributes(&self) -> Vec<ListAttributes> {
        self.listings.borrow().clone()
    }

    fn path(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    fn put_attr(output: &mut [u8], m: &Metadata) {
        let attr = attr_of(m);
        output[..size_of::<NodeAttr>()].copy_from_slice(bytemuck::bytes_of(&attr));
    }

    fn keep(&self, file: File) -> u64 {
        let id = *self.next.borrow();
        *self.next.borrow_mut() += 1;
        self.handles.borrow_mut().insert(id, file);
        id
    }

    fn records(&self, dir: &[u8], attributes: ListAttributes) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        for entry in io(fs::read_dir(self.path(dir)))? {
            let entry = io(entry)?;
            let name = entry.file_name().into_vec();
            let m = io(fs::symlink_metadata(entry.path()))?;
            let brief = match attributes {
                ListAttributes::None => true,
                ListAttributes::Directories => !m.is_dir(),
                ListAttributes::All | ListAttributes::WithLists => false,
            };
            let target = if m.is_symlink() && !brief {
                io(fs::read_link(entry.path()))?.into_os_string().into_vec()
            } else {
                Vec::new()
            };
            let inside = entry.path().strip_prefix(&self.root).unwrap().as_os_str().as_bytes().to_vec();
            let has_list = self.access.borrow().contains_key(&inside);
            let flags = if attributes == ListAttributes::WithLists && !has_list { node_flags::NO_LISTS } else { 0 };
            let head = DirRecord {
                attr: if brief {
                    NodeAttr { ino: m.ino(), mode: m.mode() & 0o170000, ..NodeAttr::default() }
                } else {
                    NodeAttr { flags, ..attr_of(&m) }
                },
                name_len: name.len() as u16,
                target_len: target.len() as u16,
                kind: 0,
            };
            out.extend_from_slice(bytemuck::bytes_of(&head));
            out.extend_from_slice(&name);
            out.extend_from_slice(&target);
            out.resize(out.len().next_multiple_of(8), 0);
        }
        Ok(out)
    }

    /// Lists what lies beneath `path`, and with `own` itself, as far as there is room.
    fn ahead(&self, path: &[u8], own: bool, list: &ReadDir, limit: usize, out: &mut Vec<u8>) -> bool {
        if own {
            let Ok(attr) = fs::metadata(self.path(path)).map(|m| attr_of(&m)) else { return true };
            let head =
                DirRecord { attr, name_len: path.len() as u16, kind: dir_record::DIRECTORY, ..DirRecord::default() };
            let Ok(records) = self.records(path, list.attributes) else { return true };
            if out.len() + (size_of::<DirRecord>() + path.len()).next_multiple_of(8) + records.len() > limit {
                return false;
            }
            out.extend_from_slice(bytemuck::bytes_of(&head));
            out.extend_from_slice(path);
            out.resize(out.len().next_multiple_of(8), 0);
            out.extend_from_slice(&records);
        }
        if list.flat {
            return true;
        }
        let Ok(entries) = fs::read_dir(self.path(path)) else { return true };
        let directories = entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
        let beneath = |e: fs::DirEntry| e.path().strip_prefix(&self.root).unwrap().as_os_str().as_bytes().to_vec();
        directories.map(beneath).all(|path| self.ahead(&path, true, list, limit, out))
    }

    fn walk(&self, skip: u64, path: &[u8], output: &mut [u8]) -> Result<Walked> {
        if path.is_empty() {
            Self::put_attr(output, &io(fs::metadata(&self.root))?);
            return Ok(Walked::default());
        }
        let (mut at, mut reported, mut exist) = (self.root.clone(), 0, 0);
        let parts: Vec<&[u8]> = path.split(|&b| b == b'/').collect();
        for (i, part) in parts.iter().enumerate() {
            at.push(OsStr::from_bytes(part));
            let m = match fs::symlink_metadata(&at) {
                Ok(m) => m,
                Err(e) => return Ok(Walked { reported, stopped: errno(&e).code() as u32, exist }),
            };
            exist += 1;
            if i as u64 >= skip {
                Self::put_attr(&mut output[reported as usize * size_of::<NodeAttr>()..], &m);
                reported += 1;
            }
            if !m.is_dir() {
                break;
            }
        }
        Ok(Walked { reported, stopped: 0, exist })
    }

    fn set_attr(path: &PathBuf, set: &AttrChange) -> Result<()> {
        if set.valid & set_attr::MODE != 0 {
            io(fs::set_permissions(path, fs::Permissions::from_mode(set.mode)))?;
        }
        if set.valid & set_attr::MTIME != 0 {
            let time = std::time::UNIX_EPOCH + std::time::Duration::new(set.mtime as u64, set.mtime_ns);
            io(io(File::options().write(true).open(path))?.set_modified(time))?;
        }
        Ok(())
    }
}

/// What other threads do while a request is under way: before the host carries it out (`false`), or after (`true`).
type Meanwhile = Rc<dyn Fn(u32, bool)>;

impl HostDir {
    fn others_run(&self, number: u32, after: bool) {
        let meanwhile = self.meanwhile.borrow().clone();
        if let Some(meanwhile) = meanwhile {
            meanwhile(number, after);
        }
    }
}

impl HostFiles for HostDir {
    fn call(&self, operation: Encoded, input: &[u8], output: &mut [u8]) -> Result<Reply> {
        let flush = self.flush.borrow().clone();
        flush.inspect(|flush| flush());
        self.others_run(operation.number, false);
        self.carry_out_sent();
        let reply = self.carry_out(operation, input, output);
        self.others_run(operation.number, true);
        reply
    }

    fn read_frames(&self, read: Read, frames: &[Frame], start: usize, len: usize) -> Result<usize> {
        let mut bytes = std::vec![0; len];
        let reply = self.call(read.encode(), &[], &mut bytes)?;
        let (mut at, mut rest) = (start, &bytes[..reply.result as usize]);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(FRAME_SIZE - at % FRAME_SIZE));
            frames[at / FRAME_SIZE].write(at % FRAME_SIZE, now);
            (at, rest) = (at + now.len(), later);
        }
        Ok(reply.result as usize)
    }

    fn wait(&self, is_so: &dyn Fn() -> bool) -> Result<()> {
        // Threads are nested here: what this one waits for can't go on before it ends.
        if is_so() { Ok(()) } else { Err(Errno::EBUSY) }
    }

    fn pause(&self, _ns: u64) -> Result<()> {
        // Nothing that it may wait for happens meanwhile.
        Err(Errno::EINTR)
    }

    fn close(&self, close: Close) {
        self.handles.borrow_mut().remove(&close.handle);
    }

    fn send(&self, operation: Encoded, input: Parts<'_>, output: Part<'_>, done: Done) {
        let (frames, start, len) = input;
        let byte = |at: usize| {
            let mut byte = [0];
            frames[at / FRAME_SIZE].read(at % FRAME_SIZE, &mut byte);
            byte[0]
        };
        let input = (start..start + len).map(byte).collect();
        self.sent.borrow_mut().push_back((operation, input, (output.0.clone(), output.1, output.2), done));
    }

    fn collect(&self) {
        self.carry_out_sent();
    }

    fn gathered(&self, ns: u64) {
        assert!(ns <= 1_000_000);
        self.gathers.set(self.gathers.get() + 1);
    }

    fn window_page(&self, _gpa: u64) -> Option<Frame> {
        None
    }
}

impl HostDir {
    /// Carries out what was sent, in its order.
    pub fn carry_out_sent(&self) {
        while self.carry_out_one() {}
    }

    /// Carries out what was sent first; `false`: nothing was.
    pub fn carry_out_one(&self) -> bool {
        let Some((operation, input, output, done)) = self.sent.borrow_mut().pop_front() else { return false };
        let mut room = std::vec![0; output.2];
        let reply = if self.fails.get() { Err(Errno::ENOSPC) } else { self.carry_out(operation, &input, &mut room) };
        output.0.write(output.1, &room);
        done(reply);
        true
    }

    fn carry_out(&self, operation: Encoded, input: &[u8], output: &mut [u8]) -> Result<Reply> {
        self.calls.borrow_mut().push(operation.number);
        match Request::decode(&operation).map_err(|_| Errno::EINVAL)? {
            Request::File(request) => self.carry_out_on_files(request, input, output),
            Request::Pod(PodRequest::Nop(nop)) => Ok(nop.reply(())),
            _ => Err(Errno::ENOSYS),
        }
    }

    fn write_now(&self, write: HostWrite, input: &[u8], output: &mut [u8]) -> Result<Written> {
        let handles = self.handles.borrow();
        let file = handles.get(&write.handle).ok_or(Errno::EBADF)?;
        let before = io(file.metadata())?;
        let at = if write.offset == u64::MAX { before.len() } else { write.offset };
        let bytes = io(file.write_at(input, at))? as u64;
        if output.len() >= 2 * size_of::<NodeAttr>() {
            Self::put_attr(output, &before);
            Self::put_attr(&mut output[size_of::<NodeAttr>()..], &io(file.metadata())?);
        }
        Ok(Written { bytes, end: at + bytes })
    }

    fn list(&self, list: &ReadDir, input: &[u8], output: &mut [u8]) -> Result<Listed> {
        self.listings.borrow_mut().push(list.attributes);
        // One record at a time would be allowed; pieces of the room are what the monitor gives.
        let mut rest = match self.lists.borrow_mut().remove(&list.handle) {
            Some(rest) => rest,
            None => {
                let mut paths = input.split(|&b| b == 0);
                let first = paths.next().unwrap_or_default();
                let mut all = self.records(first, list.attributes)?;
                let limit = output.len().min(all.len() + list.ahead as usize);
                if list.ahead > 0 {
                    let more = std::iter::once((first, false)).chain(paths.map(|path| (path, true)));
                    let _ = more
                        .take(list.others as usize + 1)
                        .all(|(path, own)| self.ahead(path, own, list, limit, &mut all));
                }
                all
            }
        };
        let mut len = 0;
        while let Some(bytes) = rest.get(len..len + size_of::<DirRecord>()) {
            let head: DirRecord = bytemuck::pod_read_unaligned(bytes);
            let record = size_of::<DirRecord>() + usize::from(head.name_len) + usize::from(head.target_len);
            let next = len + record.next_multiple_of(8);
            if next > output.len() {
                break;
            }
            len = next;
        }
        output[..len].copy_from_slice(&rest[..len]);
        let left = rest.split_off(len);
        let handle = if left.is_empty() { 0 } else { *self.next.borrow() };
        if handle != 0 {
            *self.next.borrow_mut() += 1;
            self.lists.borrow_mut().insert(handle, left);
        }
        Ok(Listed { bytes: len as u64, handle })
    }

    fn carry_out_on_files(&self, request: FileRequest, input: &[u8], output: &mut [u8]) -> Result<Reply> {
        use FileRequest as F;
        let handle = |number: u64| {
            let handles = self.handles.borrow();
            handles.get(&number).ok_or(Errno::EBADF).and_then(|file| io(file.try_clone()))
        };
        let put = |output: &mut [u8], path: &[u8]| {
            Self::put_attr(output, &io(fs::symlink_metadata(self.path(path)))?);
            Ok(())
        };
        let two = |len: u64| input.split_at(len as usize);
        match request {
            F::Walk(walk) => Ok(walk.reply(self.walk(walk.skip, input, output)?)),
            F::ReadDir(list) => Ok(list.reply(self.list(&list, input, output)?)),
            F::Open(open) => {
                let has = |flag| open.flags & flag != 0;
                if has(open_flags::READ) {
                    self.check_public(input)?;
                }
                let mut options = OpenOptions::new();
                options.read(has(open_flags::READ)).write(has(open_flags::WRITE)).mode(open.mode);
                options.create_new(has(open_flags::EXCLUSIVE)).truncate(has(open_flags::TRUNCATE));
                let file = match io(options.open(self.path(input))) {
                    Err(Errno::EEXIST) if has(open_flags::OR_TELL) => {
                        put(output, input)?;
                        return Ok(open.reply(Opened { exists: true, handle: 0 }));
                    }
                    file => file?,
                };
                Self::put_attr(output, &io(file.metadata())?);
                Ok(open.reply(Opened { exists: false, handle: self.keep(file) }))
            }
            F::Fetch(fetch) if self.knows_fetch => {
                self.check_public(input)?;
                let file = io(File::open(self.path(input)))?;
                let m = io(file.metadata())?;
                Self::put_attr(output, &m);
                let bytes = io(file.read_at(&mut output[size_of::<NodeAttr>()..], 0))? as u64;
                let handle = if bytes == m.len() { 0 } else { self.keep(file) };
                Ok(fetch.reply(Fetched { bytes, handle }))
            }
            F::Read(read) => Ok(read.reply(io(handle(read.handle)?.read_at(output, read.offset))? as u64)),
            F::Write(write) => Ok(write.reply(self.write_now(write, input, output)?)),
            F::HandleAttr(of) => {
                Self::put_attr(output, &io(handle(of.handle)?.metadata())?);
                Ok(of.reply(()))
            }
            F::Truncate(cut) => io(handle(cut.handle)?.set_len(cut.size)).map(|()| cut.reply(())),
            F::Sync(sync) => io(handle(sync.handle)?.sync_all()).map(|()| sync.reply(())),
            F::ReadLink(link) => {
                let target = io(fs::read_link(self.path(input)))?.into_os_string().into_vec();
                output[..target.len()].copy_from_slice(&target);
                Ok(link.reply(target.len() as u64))
            }
            F::Mkdir(new) => {
                io(fs::create_dir(self.path(input)))?;
                put(output, input).map(|()| new.reply(()))
            }
            F::Symlink(new) => {
                let (path, target) = two(new.path_len);
                io(std::os::unix::fs::symlink(OsStr::from_bytes(target), self.path(path)))?;
                put(output, path).map(|()| new.reply(()))
            }
            F::Link(link) => {
                let (old, new) = two(link.path_len);
                io(fs::hard_link(self.path(old), self.path(new)))?;
                put(output, new).map(|()| link.reply(()))
            }
            F::Unlink(unlink) => {
                let path = self.path(input);
                io(if unlink.directory { fs::remove_dir(path) } else { fs::remove_file(path) })?;
                Ok(unlink.reply(()))
            }
            F::Rename(rename) => {
                let (old, new) = two(rename.path_len);
                let (from, to) = (self.path(old), self.path(new));
                if rename.flags & crate::ops::RENAME_EXCHANGE != 0 {
                    let between = self.root.join("between");
                    io(fs::rename(&to, &between))?;
                    io(fs::rename(&from, &to))?;
                    io(fs::rename(&between, &from))?;
                } else {
                    io(fs::rename(from, to))?;
                }
                put(output, new).map(|()| rename.reply(()))
            }
            F::SetAttr(set) => {
                let (head, path) = input.split_at(size_of::<AttrChange>());
                let path = match set.handle {
                    0 => self.path(path),
                    handle => {
                        let fd = self.handles.borrow().get(&handle).ok_or(Errno::EBADF)?.as_raw_fd();
                        std::format!("/proc/self/fd/{fd}").into()
                    }
                };
                let look = || io(if set.handle == 0 { fs::symlink_metadata(&path) } else { fs::metadata(&path) });
                let (change, before): (AttrChange, _) = (bytemuck::pod_read_unaligned(head), look()?);
                let attr = attr_of(&before);
                let has = (attr.ino, attr.dev, attr.btime, attr.btime_ns);
                if set.handle == 0 && change.ino != 0 && has != (change.ino, change.dev, change.btime, change.btime_ns)
                {
                    return Err(Errno::ESTALE);
                }
                Self::set_attr(&path, &change)?;
                Self::put_attr(output, &look()?);
                Self::put_attr(&mut output[size_of::<NodeAttr>()..], &before);
                Ok(set.reply(()))
            }
            F::StatFs(of) => {
                let stat = FsStat { bsize: 4096, bavail: self.free_pages.get(), ..FsStat::default() };
                output.copy_from_slice(bytemuck::bytes_of(&stat));
                Ok(of.reply(()))
            }
            F::GetXattr(get) => {
                let (path, name) = two(get.path_len);
                let list = self.access.borrow().get(path).cloned();
                let list = list.filter(|_| name == b"system.posix_acl_access").ok_or(Errno::ENODATA)?;
                output[..list.len()].copy_from_slice(&list);
                Ok(get.reply(list.len() as u64))
            }
            _ => Err(Errno::ENOSYS),
        }
    }
}

/// Appends to a file of the host.
pub fn append(path: PathBuf, content: &[u8]) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(content).unwrap();
}
