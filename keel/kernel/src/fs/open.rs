//! open(2), openat2(2), and opening for execve(2) and Unix sockets.

use super::dev;
use super::directory::Directory;
use super::regular::RegularFile;
use super::spare;
use crate::file::place::PathFile;
use crate::file::{File, pipe};
use crate::ipc::mqueue;
use crate::mm::{Program, user};
use crate::sched::wait::{self, Interrupt};
use crate::task;
use crate::task::descriptors;
use crate::task::path::{self, Caller, retry_stale};
use alloc::rc::Rc;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::cred::{MAY_EXEC, MAY_READ, MAY_WRITE};
use vfs::host::{self, HostNode};
use vfs::landlock::access;
use vfs::mount::flags;
use vfs::node::Node;
use vfs::overlay::Merged;
use vfs::walk::{Component, Followed, Parent, Walk, resolve};
use vfs::{Claim, FileType, NewNode, notify, ops};

/// Flags that open(2) accepts; it ignores all others.
const KNOWN: u32 = g::O_ACCMODE
    | g::O_CREAT
    | g::O_EXCL
    | g::O_NOCTTY
    | g::O_TRUNC
    | g::O_APPEND
    | g::O_NONBLOCK
    | g::O_SYNC
    | g::O_DSYNC
    | g::FASYNC
    | g::O_DIRECT
    | g::O_LARGEFILE
    | g::O_DIRECTORY
    | g::O_NOFOLLOW
    | g::O_NOATIME
    | g::O_CLOEXEC
    | g::O_PATH
    | g::__O_TMPFILE;
/// Flags that go with `O_PATH`.
const WITH_PATH: u32 = g::O_DIRECTORY | g::O_NOFOLLOW | g::O_PATH | g::O_CLOEXEC;

/// Parameters of an open.
#[derive(Clone, Copy, Debug)]
struct How {
    flags: u32,
    mode: u32,
    resolve: u64,
}

impl How {
    /// From the arguments of open(2), which ignores unknown flags.
    fn lenient(flags: i32, mode: u32) -> Self {
        let mut flags = flags as u32 & KNOWN;
        if flags & g::O_PATH != 0 {
            flags &= WITH_PATH;
        }
        let mode = if flags & (g::O_CREAT | g::__O_TMPFILE) != 0 { mode & 0o7777 } else { 0 };
        Self { flags, mode, resolve: 0 }
    }

    /// Combinations that no variant accepts. EINVAL.
    fn check(&self) -> Result<()> {
        let flags = self.flags;
        if flags & g::__O_TMPFILE != 0 {
            if flags & (g::O_TMPFILE | g::O_CREAT) != g::O_TMPFILE || flags & g::O_ACCMODE == g::O_RDONLY {
                return Err(Errno::EINVAL);
            }
        } else if flags & (g::O_CREAT | g::O_DIRECTORY) == g::O_CREAT | g::O_DIRECTORY {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// Requested access, as `MAY_*` bits.
    fn access(&self) -> u32 {
        let access = match self.flags & g::O_ACCMODE {
            g::O_RDONLY => MAY_READ,
            g::O_WRONLY => MAY_WRITE,
            _ => MAY_READ | MAY_WRITE,
        };
        if self.flags & g::O_TRUNC != 0 { access | MAY_WRITE } else { access }
    }
}

/// Opens a path: the whole of open(2) but the descriptor.
fn open(caller: &Caller, base: &PathRef, name: &[u8], how: How) -> Result<Rc<File>> {
    how.check()?;
    vfs::memory::check()?;
    if name.is_empty() {
        return Err(Errno::ENOENT);
    }
    let cred = caller.cred();
    let walk = if how.resolve == 0 {
        Walk::new(caller.fs.root(), cred)
    } else {
        Walk::restricted(caller.fs.root(), cred, base, how.resolve)
    };
    let follow = how.flags & g::O_NOFOLLOW == 0;
    if how.flags & g::O_PATH != 0 {
        let place = walk.resolve(base, name, follow)?;
        if how.flags & g::O_DIRECTORY != 0 && place.inode().file_type() != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        return Ok(File::new(PathFile::new(place.inode().clone()), how.flags, Some(place)));
    }
    if how.flags & g::__O_TMPFILE != 0 {
        return open_unnamed(caller, &walk.resolve(base, name, follow)?, how);
    }
    if how.flags & g::O_CREAT == 0 {
        return open_place(caller, walk.resolve(base, name, follow)?, how, false);
    }
    let mut parent = walk.parent(base, name)?;
    let new = NewNode::plain(0o100000 | how.mode, cred.uid, cred.gid);
    let new = NewNode { umask: caller.fs.umask(), ..new };
    loop {
        let found = match last_name(&parent)? {
            Component::Normal(name) => {
                if let Some(Ok(made)) = ops::create_unseen(&parent.dir, name, &new, &cred) {
                    return open_place(caller, made, how, true);
                }
                match walk.lookup(&parent.dir, name) {
                    Err(Errno::ENOENT) => match ops::create_in(&parent.dir, name, &new, &cred) {
                        // It was created while the request was under way.
                        Err(Errno::EEXIST) if how.flags & g::O_EXCL == 0 => continue,
                        made => return open_place(caller, made?, how, true),
                    },
                    other => other?,
                }
            }
            _ if how.flags & g::O_EXCL != 0 => return Err(Errno::EEXIST),
            _ => return Err(Errno::EISDIR),
        };
        if how.flags & g::O_EXCL != 0 {
            return Err(Errno::EEXIST);
        }
        if found.inode().file_type() == FileType::Symlink {
            if !follow {
                return Err(Errno::ELOOP);
            }
            match walk.follow_parent(&parent.dir, &found)? {
                Followed::Parent(next) => parent = next,
                Followed::Place(place) => return open_place(caller, place, how, false),
            }
            continue;
        }
        if found.inode().file_type() == FileType::Directory {
            return Err(Errno::EISDIR);
        }
        ops::check_protected_create(&parent.dir, &found, &cred)?;
        return open_place(caller, found, how, false);
    }
}

/// Last component of a file to create: a trailing slash requires a directory.
fn last_name(parent: &Parent) -> Result<&Component> {
    match &parent.last {
        Component::Normal(_) if parent.trailing_slash => Err(Errno::EISDIR),
        last => Ok(last),
    }
}

/// `O_TMPFILE` in a directory.
fn open_unnamed(caller: &Caller, dir: &PathRef, how: How) -> Result<Rc<File>> {
    if dir.inode().file_type() != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    let cred = caller.cred();
    ops::check_writable(dir)?;
    ops::check_ids(dir, &cred)?;
    cred.check(&**dir.inode(), MAY_WRITE | MAY_EXEC)?;
    let new = NewNode { umask: caller.fs.umask(), ..NewNode::plain(0o100000 | how.mode, cred.uid, cred.gid) };
    let (new, lists) = ops::inherit(dir, &new, &cred)?;
    let inode = dir.inode().create_unnamed(&new)?;
    inode.adopt_acls(lists.0, lists.1)?;
    if how.flags & g::O_EXCL != 0 {
        let any = inode.as_any();
        if let Some(node) = any.downcast_ref::<Node>() {
            node.never_named();
        } else if let Some(node) = any.downcast_ref::<HostNode>() {
            node.never_named();
        } else if let Some(node) = any.downcast_ref::<Merged>() {
            node.never_named()?;
        }
    }
    let label = alloc::format!("#{}", inode.attr()?.ino);
    let place = dir.unnamed_child(label.as_bytes(), inode.clone());
    cred.restrict(&place, rights_to_open(&how, FileType::Regular))?;
    let claim = Claim::write(&place)?;
    let denied = cred.domain.map_or(0, |domain| access::TRUNCATE & !domain.allowed(&place, access::TRUNCATE));
    let flags = how.flags & !g::O_TMPFILE | g::O_LARGEFILE | g::O_TMPFILE;
    let file = File::new(RegularFile::new(inode, Some(claim)), flags, Some(place));
    file.denied.set(denied as u16);
    Ok(file)
}

/// Opens the file at a place. `created`: this call created it, so any access is granted.
fn open_place(caller: &Caller, place: PathRef, how: How, created: bool) -> Result<Rc<File>> {
    let file = open_file(caller, place, how, created)?;
    file.created.set(created);
    file.happened(1, g::IN_OPEN);
    Ok(file)
}

fn open_file(caller: &Caller, place: PathRef, how: How, created: bool) -> Result<Rc<File>> {
    let inode = place.inode().clone();
    let kind = inode.file_type();
    let wanted = how.access();
    let writes = wanted & MAY_WRITE != 0;
    if how.flags & g::O_DIRECTORY != 0 && kind != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    match kind {
        FileType::Symlink => return Err(Errno::ELOOP),
        FileType::Directory if writes => return Err(Errno::EISDIR),
        FileType::CharDevice | FileType::BlockDevice if !place.mount().has_devices() => return Err(Errno::EACCES),
        _ => {}
    }
    let cred = caller.cred();
    if !created {
        if writes && matches!(kind, FileType::Regular) {
            ops::check_writable(&place)?;
        }
        cred.check(&*inode, wanted)?;
        if how.flags & g::O_NOATIME != 0 && !ops::owns(&*inode, &cred)? {
            return Err(Errno::EPERM);
        }
    }
    // The rights denied to the description are determined now.
    let denied = match cred.domain {
        None => 0,
        Some(domain) => {
            domain.check(&place, rights_to_open(&how, kind))?;
            let device = matches!(kind, FileType::CharDevice | FileType::BlockDevice);
            let later = access::TRUNCATE | if device { access::IOCTL_DEV } else { 0 };
            later & !domain.allowed(&place, later)
        }
    };
    let flags = how.flags | g::O_LARGEFILE;
    if flags & g::O_DIRECT != 0 && kind == FileType::Fifo && inode.as_any().is::<super::proc::Description>() {
        return Err(Errno::EINVAL);
    }
    if let Some(description) = inode.as_any().downcast_ref::<super::proc::Description>() {
        return description.reopen(flags);
    }
    if let Some(file) = mqueue::open(&place, flags) {
        if how.flags & g::O_TRUNC != 0 && !created {
            inode.truncate(0)?;
        }
        return file.inspect(|file| file.denied.set(denied as u16));
    }
    let file = match kind {
        FileType::Regular => {
            // Access 3 is for ioctl(2) alone, though it takes the permission to write.
            let stores = how.flags & g::O_TRUNC != 0 || matches!(flags & g::O_ACCMODE, g::O_WRONLY | g::O_RDWR);
            let claim = if stores { Some(Claim::write(&place)?) } else { None };
            let opened = when_not_leased(flags, || place.unless_stale(inode.open(writes)))?;
            if opened.is_none() && !created {
                let (reads, cuts) = (wanted & MAY_READ != 0, how.flags & g::O_TRUNC != 0);
                when_not_leased(flags, || place.unless_stale(inode.check_readable(reads, cuts)))?;
            }
            if how.flags & g::O_TRUNC != 0 && !created {
                cred.restrict(&place, access::TRUNCATE)?;
                when_not_leased(flags, || place.unless_stale(inode.truncate(0)))?;
                crate::mm::reverse::truncated(&inode, 0);
                notify::happened(&place, g::IN_MODIFY, false);
                ops::drop_set_id(&place, &cred)?;
            }
            // Truncating alone is over now.
            let claim = claim.filter(|_| matches!(flags & g::O_ACCMODE, g::O_WRONLY | g::O_RDWR));
            File::new(RegularFile::new(opened.unwrap_or(inode), claim), flags, Some(place))
        }
        // Directories have no pages to go round.
        FileType::Directory if flags & g::O_DIRECT != 0 => return Err(Errno::EINVAL),
        FileType::Directory => File::new(Directory::new(place.clone()), flags, Some(place)),
        FileType::Fifo if flags & g::O_ACCMODE == g::O_ACCMODE => return Err(Errno::EINVAL),
        FileType::Fifo => pipe::open_fifo(inode, flags, Some(place))?,
        FileType::CharDevice => dev::open(&inode, flags, place)?,
        FileType::BlockDevice | FileType::Socket | FileType::Symlink => return Err(Errno::ENXIO),
    };
    // Neither devices nor pipes, whose packets F_SETFL and pipe2(2) switch on.
    if flags & g::O_DIRECT != 0 && kind != FileType::Regular {
        return Err(Errno::EINVAL);
    }
    file.denied.set(denied as u16);
    Ok(file)
}

/// Runs a part of open(2) until no process of the host has a lease on the file. EAGAIN with `O_NONBLOCK`; ERESTARTSYS.
fn when_not_leased<T>(flags: u32, mut run: impl FnMut() -> Result<T>) -> Result<T> {
    if flags & g::O_NONBLOCK != 0 {
        return run();
    }
    host::when_not_leased(run, |ns| {
        let deadline = hal::clock::monotonic_ns().saturating_add(ns);
        match wait::park(Some(deadline), Interrupt::BySignal, || None::<()>) {
            Err(Errno::ETIMEDOUT) => Ok(()),
            other => other,
        }
    })
}

/// Rights that a domain must allow to open a file, landlock(7).
fn rights_to_open(how: &How, kind: FileType) -> u64 {
    let (read, write) = match how.flags & g::O_ACCMODE {
        g::O_RDONLY if kind == FileType::Directory => (access::READ_DIR, 0),
        g::O_RDONLY => (access::READ_FILE, 0),
        g::O_WRONLY => (0, access::WRITE_FILE),
        g::O_RDWR => (access::READ_FILE, access::WRITE_FILE),
        // For ioctl(2) alone.
        _ => (0, 0),
    };
    read | write
}

/// Opens a path at the lowest free descriptor.
fn open_at(dir_fd: i32, path_address: usize, how: How) -> Result<i32> {
    how.check()?;
    let name = path::read(path_address)?;
    task::with_current(|task| task.with_files(|files| files.check_room()))?;
    let caller = Caller::current();
    // Within a scope, absolute paths start there too (or are refused).
    let scoped = how.resolve & (resolve::BENEATH | resolve::IN_ROOT) != 0;
    if name.is_empty() {
        return Err(Errno::ENOENT);
    }
    let base = if scoped { caller.base(dir_fd, b"")? } else { caller.base(dir_fd, &name)? };
    let file = retry_stale(|| open(&caller, &base, &name, how))?;
    if how.resolve == 0 {
        spare::opened(&caller, dir_fd, &name, how.flags, &file);
    }
    descriptors::install(file, how.flags)
}

/// open(2).
pub fn sys_open(path: usize, flags: i32, mode: u32) -> Result<i32> {
    open_at(g::AT_FDCWD, path, How::lenient(flags, mode))
}

/// openat(2).
pub fn sys_openat(fd: i32, path: usize, flags: i32, mode: u32) -> Result<i32> {
    open_at(fd, path, How::lenient(flags, mode))
}

/// Makes or empties the file `core` in the working directory. EACCES: it is not an ordinary file of the caller's alone.
pub fn create_core() -> Result<Rc<File>> {
    let caller = Caller::current();
    // Not a FIFO either, which could keep the caller waiting.
    let flags = g::O_CREAT | g::O_WRONLY | g::O_NOFOLLOW | g::O_NONBLOCK | g::O_LARGEFILE;
    let file = open(&caller, &caller.fs.cwd(), b"core", How { flags, mode: 0o600, resolve: 0 })?;
    let place = file.path.clone().ok_or(Errno::EACCES)?;
    let attr = place.inode().attr()?;
    if place.inode().file_type() != FileType::Regular || attr.nlink != 1 || attr.uid != caller.cred().uid {
        return Err(Errno::EACCES);
    }
    ops::truncate(&place, 0, &caller.cred())?;
    Ok(file)
}

/// creat(2).
pub fn sys_creat(path: usize, mode: u32) -> Result<i32> {
    open_at(g::AT_FDCWD, path, How::lenient((g::O_CREAT | g::O_WRONLY | g::O_TRUNC) as i32, mode))
}

/// openat2(2): refuses unknown flags.
pub fn sys_openat2(fd: i32, path: usize, how: usize, size: usize) -> Result<i32> {
    const SIZE: usize = size_of::<g::open_how>();
    if size < SIZE {
        return Err(Errno::EINVAL);
    }
    if size > hal::frame::FRAME_SIZE {
        return Err(Errno::E2BIG);
    }
    let given: g::open_how = user::read(how)?;
    // A longer structure is fine if all that is new in it is zero.
    let rest = user::read_array::<u8>(how + SIZE, size - SIZE)?;
    if rest.iter().any(|&b| b != 0) {
        return Err(Errno::E2BIG);
    }
    let flags = u32::try_from(given.flags).map_err(|_| Errno::EINVAL)?;
    let unknown = flags & !KNOWN != 0 || given.resolve & !resolve::ALL != 0 || given.mode & !0o7777 != 0;
    let scoped = resolve::BENEATH | resolve::IN_ROOT;
    let creates = flags & (g::O_CREAT | g::__O_TMPFILE) != 0;
    let bad_path = flags & g::O_PATH != 0 && flags & !WITH_PATH != 0;
    if unknown || given.resolve & scoped == scoped || given.mode != 0 && !creates || bad_path {
        return Err(Errno::EINVAL);
    }
    if given.resolve & resolve::CACHED != 0 && flags & (g::O_TRUNC | g::O_CREAT | g::__O_TMPFILE) != 0 {
        return Err(Errno::EAGAIN);
    }
    open_at(fd, path, How { flags, mode: given.mode as u32, resolve: given.resolve })
}

/// Opens a file for execve(2): regular, executable for the current credentials. `flags` as in execveat(2). ENOENT, EACCES, ELOOP, ETXTBSY …
pub fn open_exec(dir_fd: i32, path: &[u8], flags: u32) -> Result<Rc<Program>> {
    path::check_flags(flags, g::AT_EMPTY_PATH | g::AT_SYMLINK_NOFOLLOW)?;
    let caller = Caller::current();
    if path::nameless(dir_fd, path, flags).is_some() {
        return Err(Errno::EACCES);
    }
    let place = caller.resolve_at(dir_fd, path, flags)?;
    let inode = place.inode();
    match inode.file_type() {
        FileType::Regular => {}
        FileType::Symlink => return Err(Errno::ELOOP),
        _ => return Err(Errno::EACCES),
    }
    caller.cred().check(&**inode, MAY_EXEC)?;
    if place.has_flag(flags::NO_EXEC) {
        return Err(Errno::EACCES);
    }
    caller.cred().restrict(&place, access::EXECUTE | access::READ_FILE)?;
    Ok(Rc::new(Program::open(place)?))
}

/// Whether the current credentials may read a file.
pub fn may_read(place: &PathRef) -> bool {
    Caller::current().cred().check(&**place.inode(), MAY_READ).is_ok()
}
