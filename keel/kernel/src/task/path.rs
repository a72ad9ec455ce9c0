//! Path arguments of system calls, resolved for the calling process.

use crate::file::File;
use crate::mm::user;
use crate::task::FsContext;
use crate::task::descriptors;
use crate::task::{self, cred};
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::cred::MAY_WRITE;
use vfs::walk::{Parent, Walk};
use vfs::{Cred, Inode, NewNode, PATH_MAX, ops};

/// Context of a path resolution: credentials and directories.
#[derive(Debug)]
pub struct Caller {
    pub(super) cred: Rc<cred::Cred>,
    /// Root, working directory, umask.
    pub fs: Rc<FsContext>,
    /// Use the real ids, as access(2) does.
    real: bool,
}

/// Runs what begins with a path again if another file took the name of the one that it led to meanwhile: the host's processes
/// rename files, too. ESTALE only if that happens each time.
pub fn retry_stale<T>(mut run: impl FnMut() -> Result<T>) -> Result<T> {
    const RETRIES: usize = 8;
    for _ in 0..RETRIES {
        match run() {
            Err(Errno::ESTALE) => {}
            other => return other,
        }
    }
    run()
}

impl Caller {
    /// The current thread.
    pub fn current() -> Self {
        task::with_current(|task| Self { cred: task.cred(), fs: task.fs(), real: false })
    }

    /// The current thread with its real ids, access(2).
    pub fn current_real() -> Self {
        Self { real: true, ..Self::current() }
    }

    /// Credentials for file access.
    pub fn cred(&self) -> Cred<'_> {
        let c = &*self.cred;
        let domain = c.domain.as_deref();
        let ids = c.nested_ids();
        if self.real {
            let caps = if Some(c.uid) == c.root_uid() { c.cap_permitted } else { 0 };
            return Cred { uid: c.uid, gid: c.gid, groups: &c.groups, caps, domain, ids };
        }
        Cred { uid: c.fsuid, gid: c.fsgid, groups: &c.groups, caps: c.cap_effective, domain, ids }
    }

    /// A path resolution with these credentials.
    pub fn walk(&self) -> Walk<'_> {
        Walk::new(self.fs.root(), self.cred())
    }

    /// Start of a relative path: the working directory, or the directory `fd`. For an absolute path the start does not
    /// matter. EBADF, ENOTDIR.
    pub fn base(&self, fd: i32, path: &[u8]) -> Result<PathRef> {
        if fd == g::AT_FDCWD || path.first() == Some(&b'/') {
            return Ok(self.fs.cwd());
        }
        descriptors::current_file_raw(fd)?.path.clone().ok_or(Errno::ENOTDIR)
    }

    /// Resolves a path relative to `fd`.
    pub fn resolve(&self, fd: i32, path: &[u8], follow: bool) -> Result<PathRef> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let base = self.base(fd, path)?;
        self.walk().resolve(&base, path, follow)
    }

    /// Resolves the directory of a path's last component.
    pub fn parent(&self, fd: i32, path: &[u8]) -> Result<Parent> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let base = self.base(fd, path)?;
        self.walk().parent(&base, path)
    }

    /// Like [`Self::resolve`]; with `AT_EMPTY_PATH` an empty path means the file of `fd` itself.
    pub fn resolve_at(&self, fd: i32, path: &[u8], flags: u32) -> Result<PathRef> {
        if path.is_empty() && flags & g::AT_EMPTY_PATH != 0 {
            return self.place_of(fd);
        }
        self.resolve(fd, path, flags & g::AT_SYMLINK_NOFOLLOW == 0)
    }

    /// The place of an open file. EBADF for files without one.
    pub fn place_of(&self, fd: i32) -> Result<PathRef> {
        if fd == g::AT_FDCWD {
            return Ok(self.fs.cwd());
        }
        descriptors::current_file_raw(fd)?.path.clone().ok_or(Errno::EBADF)
    }
}

/// Reads a path from the program. ENAMETOOLONG, EFAULT.
pub fn read(address: usize) -> Result<Vec<u8>> {
    user::read_cstr(address, PATH_MAX)
}

/// Reads a path from the program, which may be null with `AT_EMPTY_PATH`.
pub fn read_at(address: usize, flags: u32) -> Result<Vec<u8>> {
    if address == 0 && flags & g::AT_EMPTY_PATH != 0 { Ok(Vec::new()) } else { read(address) }
}

/// The file of a descriptor that an empty path stands for with `AT_EMPTY_PATH`, if it lies in no tree: a pipe, a socket …
pub fn nameless(fd: i32, path: &[u8], flags: u32) -> Option<Rc<File>> {
    let file = if path.is_empty() && flags & g::AT_EMPTY_PATH != 0 {
        descriptors::current_file(fd).ok()?
    } else {
        return None;
    };
    file.path.is_none().then_some(file)
}

/// EINVAL if `flags` has bits outside of `known`.
pub fn check_flags(flags: u32, known: u32) -> Result<()> {
    if flags & !known == 0 { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Checks a structure whose size may differ from the `known` version: additional bytes must be zero. E2BIG, EFAULT,
/// EINVAL.
pub fn check_struct_size(at: usize, size: usize, known: usize) -> Result<()> {
    if size < known {
        return Err(Errno::EINVAL);
    }
    if size > abi::layout::PAGE_SIZE {
        return Err(Errno::E2BIG);
    }
    let rest = user::read_array::<u8>(at.checked_add(known).ok_or(Errno::EFAULT)?, size - known)?;
    if rest.iter().any(|&byte| byte != 0) { Err(Errno::E2BIG) } else { Ok(()) }
}

/// Creates the node of a Unix socket, bind(2). EEXIST, EACCES …
pub fn create_socket_node(name: &[u8], mode: u32) -> Result<PathRef> {
    let caller = Caller::current();
    let cred = caller.cred();
    let parent = caller.parent(g::AT_FDCWD, name)?;
    // The umask applies here even if the directory has a default ACL.
    let new = NewNode::plain(0o140000 | mode & !caller.fs.umask(), cred.uid, cred.gid);
    ops::create(&parent, &new, &cred)
}

/// The inode of a Unix socket for connect or sendto: needs write permission. ENOENT, EACCES …
pub fn find_socket_node(name: &[u8]) -> Result<Rc<dyn Inode>> {
    let caller = Caller::current();
    let place = caller.resolve(g::AT_FDCWD, name, true)?;
    caller.cred().check(&**place.inode(), MAY_WRITE)?;
    Ok(place.inode().clone())
}
