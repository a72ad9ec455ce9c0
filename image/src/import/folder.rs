//! Writes a folder as a layer: a tar archive with owners, modes, times, extended attributes and hard links.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs::{self, Metadata};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use tar::{Builder, EntryType, Header};

use crate::error::{Error, Result};

/// Largest list of names, or value, of extended attributes that Linux has.
const XATTR: usize = 64 << 10;

/// The content of a named file of at most that size may be longer or shorter than its size says.
const SMALL: u64 = 4096;
/// Most content of such a file.
const MOST: u64 = 64 << 20;

/// To whom the files of a layer belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Those of the source, with set-user-id and set-group-id bits and extended attributes.
    Keep,
    /// Root, without these.
    Root,
}

impl Owner {
    /// Permissions in the layer.
    pub fn mode(self, mode: u32) -> u32 {
        mode & if self == Self::Keep { 0o7777 } else { 0o1777 }
    }

    /// User and group in the layer.
    pub fn ids(self, ids: (u64, u64)) -> (u64, u64) {
        if self == Self::Keep { ids } else { (0, 0) }
    }
}

/// Writes the files beneath `root`, sorted by name; sockets are left out.
pub(super) fn write(root: &Path, out: impl Write) -> Result<()> {
    // The root itself may be a link to a folder.
    let root = fs::canonicalize(root).map_err(|error| Error::io(root.display(), &error))?;
    write_at(&root, Path::new(""), Owner::Keep, out, |_, _| Ok(true))
}

/// Writes a file, or a directory and what is beneath it, with the name `target` in the layer, sorted by name; sockets are left
/// out, and so is an entry for which `has_entry` says no.
pub(crate) fn write_at(
    source: &Path,
    target: &Path,
    owner: Owner,
    out: impl Write,
    mut has_entry: impl FnMut(&Path, &Metadata) -> Result<bool>,
) -> Result<()> {
    let mut archive = Builder::new(out);
    let mut links: HashMap<(u64, u64), PathBuf> = HashMap::new();
    // Folders that are not listed yet; a stack, so that deep trees take no call stack.
    let mut pending = vec![PathBuf::new()];
    while let Some(inner) = pending.pop() {
        // Joining an empty path would add a slash.
        let below = |folder: &Path| if inner.as_os_str().is_empty() { folder.to_owned() } else { folder.join(&inner) };
        let (path, name) = (below(source), below(target));
        let fail = |error: io::Error| Error::io(path.display(), &error);
        let data = fs::symlink_metadata(&path).map_err(fail)?;
        if data.file_type().is_socket() {
            continue;
        }
        if has_entry(&name, &data)? {
            let is_named = inner.as_os_str().is_empty();
            append(&mut archive, &path, &name, &data, (owner, is_named), &mut links).map_err(fail)?;
        }
        if data.is_dir() {
            let mut names: Vec<_> = fs::read_dir(&path)
                .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.file_name())).collect())
                .map_err(fail)?;
            names.sort();
            pending.extend(names.into_iter().rev().map(|name| inner.join(name)));
        }
    }
    archive.finish().map_err(|error| Error::io("layer", &error))
}

fn append(
    archive: &mut Builder<impl Write>,
    path: &Path,
    inner: &Path,
    data: &Metadata,
    (owner, is_named): (Owner, bool),
    links: &mut HashMap<(u64, u64), PathBuf>,
) -> io::Result<()> {
    let mut header = Header::new_ustar();
    let (uid, gid) = owner.ids((data.uid().into(), data.gid().into()));
    header.set_mode(owner.mode(data.mode()));
    header.set_uid(uid);
    header.set_gid(gid);
    header.set_mtime(u64::try_from(data.mtime()).unwrap_or(0));
    header.set_size(0);
    let mut extended: Vec<(String, Vec<u8>)> = Vec::new();
    if data.mtime_nsec() != 0 && data.mtime() >= 0 {
        extended.push(("mtime".to_owned(), format!("{}.{:09}", data.mtime(), data.mtime_nsec()).into_bytes()));
    }
    if !data.is_symlink() && owner == Owner::Keep {
        extended.extend(attributes(path)?);
    }
    let kind = data.file_type();
    let name = if inner.as_os_str().is_empty() { Path::new("./") } else { inner };
    let earlier = (data.nlink() > 1 && !kind.is_dir()).then(|| links.get(&(data.dev(), data.ino())).cloned()).flatten();
    if earlier.is_none() && !extended.is_empty() {
        archive.append_pax_extensions(extended.iter().map(|(name, value)| (name.as_str(), value.as_slice())))?;
    }
    if let Some(first) = earlier {
        header.set_entry_type(EntryType::Link);
        return archive.append_link(&mut header, name, first);
    }
    if data.nlink() > 1 && !kind.is_dir() {
        links.insert((data.dev(), data.ino()), inner.to_owned());
    }
    if kind.is_symlink() {
        header.set_entry_type(EntryType::Symlink);
        return archive.append_link(&mut header, name, fs::read_link(path)?);
    }
    if kind.is_file() {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let size = file.metadata()?.len();
        // Files of /proc have no size, those of /sys the size of a page. Some of them have no end either, or wait for one to
        // come: only one that the caller named is read to its end.
        if is_named && size <= SMALL {
            let content = read_to_end(file)?;
            header.set_size(content.len() as u64);
            return archive.append_data(&mut header, name, &content[..]);
        }
        header.set_size(size);
        return archive.append_data(&mut header, name, Whole { file, left: size });
    }
    header.set_entry_type(match kind {
        kind if kind.is_dir() => EntryType::Directory,
        kind if kind.is_fifo() => EntryType::Fifo,
        kind if kind.is_block_device() => EntryType::Block,
        _ => EntryType::Char,
    });
    if kind.is_block_device() || kind.is_char_device() {
        header.set_device_major(rustix::fs::major(data.rdev()))?;
        header.set_device_minor(rustix::fs::minor(data.rdev()))?;
    }
    archive.append_data(&mut header, name, io::empty())
}

/// Reads a file that may have another length than its size says.
fn read_to_end(file: impl io::Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // Whole pages: some files of /proc have records, of which none is read in part.
    file.take(MOST + SMALL).read_to_end(&mut content)?;
    if content.len() as u64 > MOST {
        let why = format!("it has no size and more than {} MiB of content", MOST >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(content)
}

/// Reads as many bytes of a file as its size was: that was written already.
struct Whole<R> {
    file: R,
    left: u64,
}

impl<R: io::Read> io::Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read(&mut buffer[..most])?;
        if read == 0 && most > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter while it was read"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// Extended attributes as GNU tar and Go write them.
fn attributes(path: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut names = vec![0_u8; XATTR];
    let length = match rustix::fs::llistxattr(path, names.as_mut_slice()) {
        Ok(length) => length,
        Err(rustix::io::Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for name in names[..length].split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
        let mut value = vec![0_u8; XATTR];
        match rustix::fs::lgetxattr(path, name, value.as_mut_slice()) {
            Ok(length) => value.truncate(length),
            // It was removed meanwhile, or is the host's.
            Err(_) => continue,
        }
        // Names that no PAX header can have belong to no image.
        if let Ok(name) = std::str::from_utf8(name.to_bytes())
            && !name.contains('=')
        {
            found.push((format!("SCHILY.xattr.{name}"), value));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_an_error() {
        assert_eq!(read_to_end(io::repeat(7)).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_to_end(io::repeat(7).take(MOST)).unwrap().len() as u64, MOST);
    }

    #[test]
    fn a_file_that_becomes_shorter_is_an_error() {
        let read = |size| {
            let mut bytes = Vec::new();
            Whole { file: &b"content"[..], left: size }.read_to_end(&mut bytes).map(|_| bytes)
        };
        assert_eq!(read(7).unwrap(), b"content");
        // What was added meanwhile is left out.
        assert_eq!(read(4).unwrap(), b"cont");
        assert_eq!(read(8).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
