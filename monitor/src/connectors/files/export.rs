//! Granted directories and files of the host, and how paths beneath them are opened.

use super::super::{Errno, Result};
use super::attr;
use super::covers::Covers;
use super::kernelfs::{self, OfKernel};
use super::path::RelPath;
use super::recent::Recent;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Statx};
use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// A host directory or file that a pod may use.
#[derive(Debug)]
pub struct ExportConfig {
    /// Number that requests name it by.
    pub id: u32,
    /// The directory, or the directory that holds the file (`O_PATH`).
    pub dir: OwnedFd,
    /// Name of the file in `dir`; `None` if the export is the directory.
    pub file: Option<Vec<u8>>,
    /// The guest may change the host's files.
    pub writable: bool,
    /// Only world-readable files: a file needs `o+r`, a directory `o+r` to be listed and `o+x` to be searched, whatever
    /// the monitor's own rights are. Excludes `writable`.
    pub public_only: bool,
    /// The guest may lock its files on the host: the user named it.
    pub locks: bool,
    /// The guest may set set-user-id and set-group-id bits, and file capabilities, on the host's files.
    pub keep_setid: bool,
    /// Places in it where the pod sees other exports.
    pub(super) covers: Covers,
    /// Cache of open directories; empty until the connector assigns it room.
    pub(super) recent: Recent,
}

impl ExportConfig {
    /// Opens a directory or a regular file of the host. Follows symbolic links in the user's path; no later open does.
    pub fn open(id: u32, host: &Path, writable: bool, public_only: bool) -> std::io::Result<Self> {
        let real = host.canonicalize()?;
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let node = rustix::fs::open(&real, flags, Mode::empty())?;
        let writable = writable && !public_only;
        let kind = attr::kind(&attr::of_fd(node.as_fd())?);
        kernelfs::prepare();
        if matches!(kind, FileType::Directory | FileType::RegularFile) && kernelfs::is_of_kernel(node.as_fd())? {
            return Err(std::io::Error::other(OfKernel));
        }
        match kind {
            FileType::Directory => Ok(Self::over(id, node, None, writable, public_only)),
            FileType::RegularFile => {
                let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
                    return Err(Errno::INVAL.into());
                };
                let dir = rustix::fs::open(parent, flags | OFlags::DIRECTORY, Mode::empty())?;
                let file = Some(name.as_bytes().to_vec());
                Ok(Self::over(id, dir, file, writable, public_only))
            }
            _ => Err(Errno::OPNOTSUPP.into()),
        }
    }

    fn over(id: u32, dir: OwnedFd, file: Option<Vec<u8>>, writable: bool, public_only: bool) -> Self {
        let (covers, recent) = (Covers::default(), Recent::default());
        Self { id, dir, file, writable, public_only, locks: false, keep_setid: false, covers, recent }
    }

    /// Covers the place `path` beneath this directory, where the pod sees another export; the host's file there need
    /// not exist. ELOOP if a symbolic link is on the way.
    pub fn cover(&mut self, path: &[u8]) -> std::io::Result<()> {
        let path = RelPath::new(path)?;
        if path.is_empty() || self.is_file() {
            return Err(Errno::INVAL.into());
        }
        Ok(self.covers.add(self.dir.as_fd(), path)?)
    }

    /// The covered places with an existing host file.
    pub(crate) fn covered_places(&self) -> impl Iterator<Item = &[u8]> {
        self.covers.places()
    }

    /// The places over which the jail mounts empty file systems.
    #[cfg(feature = "fuzzing")]
    pub fn masks(&self) -> impl Iterator<Item = &[u8]> {
        self.covered_places()
    }

    /// Opens the export beneath `dir` from now on: the same directory in a mount tree that hides the covered files by
    /// mounts.
    pub(crate) fn move_to(&mut self, dir: OwnedFd) {
        self.dir = dir;
        self.covers.move_to(self.dir.as_fd());
    }

    /// Finds an export by its number in a list that is sorted by number; EINVAL if there is none.
    pub fn find(exports: &[Self], id: u32) -> Result<&Self> {
        let index = exports.binary_search_by_key(&id, |export| export.id).map_err(|_| Errno::INVAL)?;
        exports.get(index).ok_or(Errno::INVAL)
    }

    /// A single file, not a directory.
    pub fn is_file(&self) -> bool {
        self.file.is_some()
    }
}

/// Flags that keep a path inside the export: no `..` above it, no symbolic link.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Attempts of an `openat2` that fails with EAGAIN because of a concurrent rename.
const TRIES: usize = 16;

/// Opens `path` beneath `dir`. A symbolic link anywhere gives ELOOP, except as the last component with `O_PATH |
/// O_NOFOLLOW`, which opens the link itself. A file in a kernel file system of the host gives EACCES; the caller has
/// checked `dir` itself.
pub fn open_beneath(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    match open_by(dir, path, flags, mode, BENEATH | ResolveFlags::NO_XDEV) {
        Err(Errno::XDEV) => open_mounted(dir, path, flags, mode),
        // No mount is crossed: the file is in the file system of `dir`.
        other => other,
    }
}

/// The same if other file systems are mounted beneath `dir`: component by component, to check each mount. A kernel file
/// system is checked before the open, because opening alone may have an effect.
fn open_mounted(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let mut above: Option<OwnedFd> = None;
    let mut names = path.split(|&byte| byte == b'/').peekable();
    while let Some(name) = names.next() {
        let dir = above.as_ref().map_or(dir, AsFd::as_fd);
        let is_last = names.peek().is_none();
        let kept = if is_last { flags & (OFlags::DIRECTORY | OFlags::NOFOLLOW) } else { OFlags::DIRECTORY };
        let node = open_by(dir, name, kept | OFlags::PATH, Mode::empty(), BENEATH)?;
        kernelfs::refuse(node.as_fd())?;
        if is_last && !flags.contains(OFlags::PATH) {
            let file = open_by(dir, name, flags, mode, BENEATH)?;
            kernelfs::refuse(file.as_fd())?;
            return Ok(file);
        }
        above = Some(node);
    }
    above.ok_or(Errno::NOENT)
}

fn open_by(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode, how: ResolveFlags) -> Result<OwnedFd> {
    // `O_PATH` allows few other flags and does not need `O_NOCTTY`.
    let extra = if flags.contains(OFlags::PATH) { OFlags::CLOEXEC } else { OFlags::CLOEXEC | OFlags::NOCTTY };
    for _ in 0..TRIES {
        match rustix::fs::openat2(dir, path, flags | extra, mode, how) {
            Err(Errno::AGAIN | Errno::INTR) => continue,
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens the directory `name` in `dir` for reading, unless another file system is mounted there.
pub fn open_to_list(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::openat2(dir, name, flags, Mode::empty(), BENEATH | ResolveFlags::NO_XDEV)
}

/// Flags to open a directory as a base for further opens.
const DIR: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// A directory on the way to a file: the export's own or one opened for this request.
#[derive(Debug)]
pub enum Dir<'e> {
    /// The export's.
    Root(BorrowedFd<'e>),
    /// A directory beneath it, opened for this request.
    Beneath(OwnedFd),
    /// A cached directory.
    Recent(Arc<OwnedFd>),
}

impl AsFd for Dir<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Dir::Root(fd) => *fd,
            Dir::Beneath(fd) => fd.as_fd(),
            Dir::Recent(fd) => fd.as_fd(),
        }
    }
}

/// The place of a path: its parent directory and last component (empty: the directory itself).
#[derive(Debug)]
pub struct Place<'e> {
    /// The directory.
    pub dir: Dir<'e>,
    /// One component, or empty.
    pub name: &'e [u8],
}

impl Place<'_> {
    /// Attributes of the file; symbolic links are not followed.
    pub fn attr(&self) -> Result<Statx> {
        attr::at(self.dir.as_fd(), self.name)
    }

    /// An `O_PATH` descriptor of the file, of any type.
    pub fn node(&self) -> Result<OwnedFd> {
        if self.name.is_empty() {
            return rustix::io::fcntl_dupfd_cloexec(self.dir.as_fd(), 0);
        }
        open_beneath(self.dir.as_fd(), self.name, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())
    }
}

impl ExportConfig {
    /// EROFS unless the guest may change the host's files.
    pub fn check_writable(&self) -> Result<()> {
        if self.writable && !self.public_only { Ok(()) } else { Err(Errno::ROFS) }
    }

    /// Opens the directory that `path` names (`O_PATH`).
    pub fn directory(&self, path: RelPath<'_>) -> Result<Dir<'_>> {
        if self.is_file() {
            return Err(Errno::NOTDIR); // the grant is one name in `dir`, not `dir` itself
        }
        if path.is_empty() {
            if self.public_only {
                self.check_search(&attr::of_fd(self.dir.as_fd())?)?;
            }
            return Ok(Dir::Root(self.dir.as_fd()));
        }
        self.covers.check_path(path)?;
        if self.public_only || !self.covers.is_empty() {
            return self.stepwise(path);
        }
        if self.writable {
            // Do not use the cache: the guest must see its own changes at once.
            return Ok(Dir::Beneath(open_beneath(self.dir.as_fd(), path.bytes(), DIR, Mode::empty())?));
        }
        if let Some(dir) = self.recent.get(path.bytes()) {
            return Ok(Dir::Recent(dir));
        }
        let dir = Arc::new(open_beneath(self.dir.as_fd(), path.bytes(), DIR, Mode::empty())?);
        self.recent.keep(path.bytes(), dir.clone());
        Ok(Dir::Recent(dir))
    }

    /// [`Self::directory`] with a check of each directory on the way: it must be searchable by others, and not covered.
    fn stepwise(&self, path: RelPath<'_>) -> Result<Dir<'_>> {
        // Begin at the deepest cached directory on the way.
        let mut above = (!self.writable).then_some(path);
        let mut dir = None;
        while let Some(at) = above.filter(|at| !at.is_empty()) {
            dir = self.recent.get(at.bytes()).map(Dir::Recent);
            if dir.is_some() {
                break;
            }
            above = at.split_last().map(|(parent, _)| parent);
        }
        let mut dir = match dir {
            Some(dir) => dir,
            None => {
                self.check_search(&attr::of_fd(self.dir.as_fd())?)?;
                Dir::Root(self.dir.as_fd())
            }
        };
        let known = above.map_or(0, |at| at.bytes().len());
        for (name, so_far) in path.steps(known) {
            let (next, stat) = self.enter(dir.as_fd(), name)?;
            self.check_search(&stat)?;
            self.covers.check_node(&stat)?;
            if self.writable {
                dir = Dir::Beneath(next);
                continue;
            }
            let next = Arc::new(next);
            self.recent.keep(so_far.bytes(), next.clone());
            dir = Dir::Recent(next);
        }
        Ok(dir)
    }

    /// Opens a subdirectory. The caller checks whether it may be searched.
    pub fn enter(&self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<(OwnedFd, Statx)> {
        let next = open_beneath(dir, name, DIR, Mode::empty())?;
        let stat = attr::of_fd(next.as_fd())?;
        Ok((next, stat))
    }

    /// Finds the place of `path` without opening its last component. EACCES if it is covered.
    pub fn place<'e>(&'e self, path: RelPath<'e>) -> Result<Place<'e>> {
        if let Some(name) = &self.file {
            if !path.is_empty() {
                return Err(Errno::NOTDIR);
            }
            return Ok(Place { dir: Dir::Root(self.dir.as_fd()), name });
        }
        match path.split_last() {
            None => Ok(Place { dir: Dir::Root(self.dir.as_fd()), name: &[] }),
            Some((parent, name)) => {
                self.covers.check_path(path)?;
                Ok(Place { dir: self.directory(parent)?, name })
            }
        }
    }

    /// Opens the file `path` as an `O_PATH` descriptor.
    pub fn node(&self, path: RelPath<'_>) -> Result<OwnedFd> {
        self.open_node(&self.place(path)?)
    }

    /// Opens the file at `place` as an `O_PATH` descriptor. EACCES if it is covered.
    pub fn open_node(&self, place: &Place<'_>) -> Result<OwnedFd> {
        let node = place.node()?;
        if !self.covers.is_empty() {
            self.covers.check_node(&attr::of_fd(node.as_fd())?)?;
        }
        Ok(node)
    }

    /// Like [`Self::place`], for a name that will be created, renamed or removed: EROFS, or EBUSY for the root, for a
    /// covered file and for the directories above it.
    pub fn place_to_change<'e>(&'e self, path: RelPath<'e>) -> Result<Place<'e>> {
        self.check_writable()?;
        self.covers.check_name(path)?;
        let place = self.place(path)?;
        // A single file can't be renamed or removed: its name belongs to the directory around it.
        if self.is_file() || place.name.is_empty() {
            return Err(Errno::BUSY);
        }
        if !self.covers.is_empty()
            && let Ok(stat) = place.attr()
        {
            self.covers.check_move(&stat)?;
        }
        Ok(place)
    }

    /// The same for a new directory, which may lie on the way to a covered place.
    pub fn place_of_directory<'e>(&'e self, path: RelPath<'e>) -> Result<Place<'e>> {
        self.check_writable()?;
        let covered =
            |errno| if errno == Errno::ACCESS && self.covers.names_to(path).is_some() { Errno::BUSY } else { errno };
        let place = self.place(path).map_err(covered)?;
        if self.is_file() || place.name.is_empty() { Err(Errno::BUSY) } else { Ok(place) }
    }

    /// EBUSY for a new file whose name is on the way to a covered place.
    pub fn check_new(&self, path: RelPath<'_>) -> Result<()> {
        self.covers.check_name(path)
    }

    /// EACCES for a covered file, whatever its name is.
    pub fn check_node(&self, stat: &Statx) -> Result<()> {
        self.covers.check_node(stat)
    }

    /// EACCES for a covered file.
    pub fn check_covers(&self, path: RelPath<'_>, stat: &Statx) -> Result<()> {
        self.covers.check_path(path)?;
        self.covers.check_node(stat)
    }

    /// Filters the requested permission bits of a file of type `kind`: removes set-id bits, which would give other
    /// users the rights of the host's owner. A directory's set-group-id bit only makes new files inherit its group.
    pub fn mode(&self, kind: FileType, wanted: u32) -> u32 {
        match kind {
            _ if self.keep_setid => wanted & 0o7777,
            FileType::Directory => wanted & 0o3777,
            _ => wanted & 0o1777,
        }
    }

    /// Clears set-id bits and capabilities of a file before the guest maps it for writing: unlike write(2), stores do
    /// not clear them. The kernel clears them at writes, because the jail drops `CAP_FSETID`.
    pub fn make_plain(&self, file: BorrowedFd<'_>) -> Result<()> {
        if self.keep_setid {
            return Ok(());
        }
        attr::take_privileges(file)
    }

    /// EACCES if the export is public and the directory lacks `o+x`.
    pub fn check_search(&self, stat: &Statx) -> Result<()> {
        self.check_public(stat, 0o001)
    }

    /// EACCES if the export is public and the file lacks `o+r`.
    pub fn check_read(&self, stat: &Statx) -> Result<()> {
        self.check_public(stat, 0o004)
    }

    fn check_public(&self, stat: &Statx, bits: u16) -> Result<()> {
        if self.public_only && stat.stx_mode & bits != bits { Err(Errno::ACCESS) } else { Ok(()) }
    }
}

/// Attributes of a name in a directory without following it; the directory itself for no name.
pub fn attr_flags(name: &[u8]) -> AtFlags {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    if name.is_empty() { flags | AtFlags::EMPTY_PATH } else { flags }
}
