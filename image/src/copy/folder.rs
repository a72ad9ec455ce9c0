//! Writes files of an image to the host's file system.
//!
//! All files are named relative to a directory that is opened once, and their parents are opened without following
//! symbolic links: what the image or the destination has can't lead the copy elsewhere.

use std::collections::HashMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rootfs::{Kind, Stat};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::walk::Step;
use super::{Content, Copied, Source, is_left_out, permissions};
use crate::error::{Error, Result, reason};

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;
/// Permissions of a directory while files are written to it.
const OPEN_MODE: Mode = Mode::RWXU;

impl Source {
    /// Writes the files to `to`, as docker does: into it if it is a directory, else in its place. `archive`: with owners,
    /// set-user-id bits and extended attributes; else they belong to the caller. A file that stands at the place of a file
    /// is replaced; directories are merged.
    ///
    /// # Errors
    ///
    /// The image is damaged, or the place is not one for such a file, or can't be written. What was copied before stays.
    pub fn write_to(&self, to: &Path, archive: bool) -> Result<Copied> {
        if is_left_out(self.stat.kind) {
            let remedy = "write an archive, to `-`, that has it";
            return Err(Error::new(&self.what, "devices and sockets are not made on the host", remedy));
        }
        let (directory, name) = self.place(to)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fail = |error: Errno| Error::io(directory.display(), &error.into());
        let base = rustix::fs::open(&directory, flags, Mode::empty()).map_err(fail)?;
        let mut target = Target {
            source: self,
            base,
            parent: None,
            archive,
            own_root: name.is_none(),
            links: HashMap::new(),
            copied: Copied::default(),
        };
        let top = name.unwrap_or_else(|| OsString::from("."));
        self.walk(Path::new(&top), |path, stat, step| {
            target
                .write(path, stat, step)
                .map_err(|error| self.unwritten_at(&directory.join(path.strip_prefix(".").unwrap_or(path)), &error))
        })?;
        Ok(target.copied)
    }

    /// The directory of the copy and the name there; without a name, the directory takes what the source has.
    fn place(&self, to: &Path) -> Result<(PathBuf, Option<OsString>)> {
        let wrong = |why: &str, remedy: &str| Err(Error::new(to.display(), why, remedy));
        let is_directory = self.stat.kind == Kind::Directory;
        let own = self.name.clone().map(OsString::from_vec);
        match to.metadata() {
            Ok(data) if data.is_dir() => Ok((to.to_owned(), own)),
            Ok(_) if is_directory => wrong("a directory can't take the place of a file", "name a directory"),
            Ok(data) if !data.is_file() => wrong("neither a file nor a directory", "name one of them, or - for a tar"),
            Ok(_) => {
                // The file that a link of the destination leads to is replaced, not the link.
                let real = to.canonicalize().map_err(|error| Error::io(to.display(), &error))?;
                Ok((parent(&real), real.file_name().map(OsStr::to_owned)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if to.symlink_metadata().is_ok() {
                    return wrong("a symbolic link to a file that does not exist", "name the file itself");
                }
                let ends_with_slash = to.as_os_str().as_bytes().ends_with(b"/");
                let Some(name) = to.file_name() else { return wrong("no such directory", "make it first") };
                if ends_with_slash && !is_directory {
                    return wrong("no such directory", "make it first, or leave the slash out");
                }
                if !parent(to).is_dir() {
                    return wrong("its directory does not exist", "make it first");
                }
                Ok((parent(to), Some(name.to_owned())))
            }
            Err(error) => Err(Error::io(to.display(), &error)),
        }
    }

    fn unwritten_at(&self, path: &Path, error: &io::Error) -> Error {
        if error.get_ref().is_some_and(|inner| inner.is::<rootfs::Error>()) {
            return Error::invalid(format!("{} for {}", self.what, path.display()), error);
        }
        let remedy = match error.kind() {
            io::ErrorKind::PermissionDenied => "name a place that you can write to, or leave -a out",
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
            _ => "name an empty place",
        };
        Error::new(path.display(), reason(error), remedy)
    }
}

/// The directory of a path.
fn parent(path: &Path) -> PathBuf {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

/// Where a copy goes.
struct Target<'a> {
    source: &'a Source,
    /// All paths are relative to it.
    base: OwnedFd,
    /// The directory that the last file was written to.
    parent: Option<(PathBuf, OwnedFd)>,
    archive: bool,
    /// The copy's top directory is `base`, which keeps its attributes.
    own_root: bool,
    /// Paths of files with several names, by inode.
    links: HashMap<u64, PathBuf>,
    copied: Copied,
}

impl Target<'_> {
    fn write(&mut self, path: &Path, stat: &Stat, step: &Step) -> io::Result<()> {
        if self.own_root && path == Path::new(".") {
            return Ok(());
        }
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if self.parent.as_ref().is_none_or(|(open, _)| open != above) {
            self.parent = Some((above.to_owned(), self.directory(above)?));
        }
        let Some((_, parent)) = &self.parent else { return Ok(()) };
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let Step::Enter(nid) = step else {
            let directory = self.directory(path)?;
            return self.finish(&directory, stat);
        };
        if stat.kind == Kind::Directory {
            return make_directory(parent, name);
        }
        if is_left_out(stat.kind) {
            self.copied.left_out += 1;
            return Ok(());
        }
        remove(parent, name)?;
        if let Some(first) = self.links.get(nid) {
            let above = first.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let from = self.directory(above)?;
            let first = first.file_name().ok_or(Errno::INVAL)?;
            return Ok(rustix::fs::linkat(&from, first, parent, name, AtFlags::empty())?);
        }
        match stat.kind {
            Kind::Symlink => {
                let target = self.source.image.target(stat).map_err(io::Error::other)?;
                rustix::fs::symlinkat(OsStr::from_bytes(&target), parent, name)?;
                self.finish_link(parent, name, stat)?;
            }
            Kind::Fifo => {
                rustix::fs::mknodat(parent, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let fifo = rustix::fs::openat(parent, name, flags, Mode::empty())?;
                self.finish(&fifo, stat)?;
            }
            _ => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = File::from(rustix::fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR)?);
                let written = self.content(&file, stat).and_then(|()| self.finish(&file, stat));
                if let Err(error) = written {
                    // Half a file is of no use; the first error counts.
                    let _ = remove(parent, name);
                    return Err(error);
                }
                self.copied.bytes += stat.size;
            }
        }
        if stat.links > 1 {
            self.links.insert(*nid, path.to_owned());
        }
        Ok(())
    }

    /// Opens a directory that the copy made.
    fn directory(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        Ok(rustix::fs::openat2(&self.base, path, flags, Mode::empty(), beneath)?)
    }

    /// Writes the content of a file. Zeros stay holes.
    fn content(&self, file: &File, stat: &Stat) -> io::Result<()> {
        file.set_len(stat.size)?;
        let mut content = Content { image: &self.source.image, stat, offset: 0 };
        let mut buffer = vec![0; PIECE.min(usize::try_from(stat.size).unwrap_or(PIECE))];
        loop {
            content.offset += self.source.image.hole(stat, content.offset).map_err(io::Error::other)?;
            let offset = content.offset;
            let piece = content.read(&mut buffer)?;
            let piece = &buffer[..piece];
            if piece.is_empty() {
                return Ok(());
            }
            if piece.iter().any(|&byte| byte != 0) {
                file.write_all_at(piece, offset)?;
            }
        }
    }

    /// Gives a file or directory its attributes: the owner first, which clears bits of the mode.
    fn finish(&self, file: impl AsFd, stat: &Stat) -> io::Result<()> {
        let file = file.as_fd();
        if self.archive {
            rustix::fs::fchown(file, Some(Uid::from_raw(stat.uid)), Some(Gid::from_raw(stat.gid)))?;
        }
        rustix::fs::fchmod(file, Mode::from_raw_mode(permissions(stat, self.archive)))?;
        if self.archive && stat.kind != Kind::Fifo {
            for (name, value) in self.source.image.xattrs(stat).map_err(io::Error::other)? {
                let name = CString::new(name).map_err(io::Error::other)?;
                rustix::fs::fsetxattr(file, name.as_c_str(), &value, XattrFlags::empty())?;
            }
        }
        Ok(rustix::fs::futimens(file, &times(stat))?)
    }

    /// Gives a symbolic link its attributes.
    fn finish_link(&self, parent: &OwnedFd, name: &OsStr, stat: &Stat) -> io::Result<()> {
        if self.archive {
            let (uid, gid) = (Uid::from_raw(stat.uid), Gid::from_raw(stat.gid));
            rustix::fs::chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(rustix::fs::utimensat(parent, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// Makes a directory, or takes the one that is there.
fn make_directory(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::mkdirat(parent, name, OPEN_MODE) {
        Err(Errno::EXIST) => {
            let there = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
            match FileType::from_raw_mode(there.st_mode) {
                FileType::Directory => Ok(()),
                _ => Err(Errno::NOTDIR.into()),
            }
        }
        made => Ok(made?),
    }
}

/// Removes what a file is to replace; directories stay, and are an error.
fn remove(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        removed => Ok(removed?),
    }
}

/// The modification time, for both times.
fn times(stat: &Stat) -> Timestamps {
    let time = Timespec { tv_sec: stat.mtime.0, tv_nsec: stat.mtime.1.min(999_999_999).into() };
    Timestamps { last_access: time, last_modification: time }
}
