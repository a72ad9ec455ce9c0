//! Directories of the host into the tree, and the way from a path to an image.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{SeekFrom as Seeking, lgetxattr, llistxattr, seek};

use crate::{
    Limits,
    erofs::Options,
    error::{Error, Fault, Name},
    spool::Data,
    tar::Segment,
    tree::{Body, Id, Inode, Meta, ROOT, Tree},
    xattr::{self, Xattrs},
};

/// Opens `path`, a directory or a plain tar archive, as an EROFS image in a temporary file without a name.
///
/// # Errors
///
/// The file or directory cannot be read, or is refused as by [`Tree::add_tar`] or [`Tree::add_directory`].
pub fn erofs_of(path: &Path) -> Result<File, Error> {
    let temporary = || tempfile::tempfile().map_err(Error::Write);
    let image = temporary()?;
    let mut tree = Tree::new(image.try_clone().map_err(Error::Write)?, temporary()?, Limits::default());
    let host = |source| Error::Host { file: Name::new(path.as_os_str().as_bytes()), source };
    let file = File::open(path).map_err(host)?;
    if file.metadata().map_err(host)?.is_dir() {
        tree.add_directory(path)?;
    } else {
        let mut file = BufReader::new(file);
        if let Some((program, _)) = COMPRESSED.iter().find(|(_, magic)| {
            // Reading reports the error, if there is one.
            file.fill_buf().is_ok_and(|start| start.starts_with(magic))
        }) {
            return Err(Error::Compressed { file: Name::new(path.as_os_str().as_bytes()), program });
        }
        tree.add_tar(file)?;
    }
    tree.write_erofs(&Options::default())?;
    Ok(image)
}

/// Programs that decompress, and what their files begin with.
const COMPRESSED: [(&str, &[u8]); 4] =
    [("gzip", b"\x1f\x8b"), ("zstd", b"\x28\xb5\x2f\xfd"), ("xz", b"\xfd7zXZ\0"), ("bzip2", b"BZh")];

/// Data of a host file: the parts that are not holes.
struct Parts<'a> {
    file: &'a File,
    parts: std::vec::IntoIter<Segment>,
    left: u64,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// Reads one directory's files: the present path is for errors.
impl Data for (Parts<'_>, &Path) {
    fn fill(&mut self, least: usize) -> Result<&[u8], Error> {
        let (parts, path) = self;
        let host = |source| Error::Host { file: Name::new(path.as_os_str().as_bytes()), source };
        parts.fill(least).map_err(host)?;
        Ok(&parts.buffer[parts.start..parts.end])
    }

    fn consume(&mut self, n: usize) {
        self.0.start += n;
    }
}

impl Parts<'_> {
    fn fill(&mut self, least: usize) -> io::Result<()> {
        if self.end - self.start >= least.max(1) {
            return Ok(());
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        while self.end < least.max(1) {
            if self.left == 0 {
                let Some(part) = self.parts.next() else { return Ok(()) };
                (&*self.file).seek(SeekFrom::Start(part.offset))?;
                self.left = part.len;
                continue;
            }
            let room = (self.buffer.len() - self.end).min(usize::try_from(self.left).unwrap_or(usize::MAX));
            match (&*self.file).read(&mut self.buffer[self.end..self.end + room]) {
                Ok(0) => return Err(io::Error::other("the file became shorter while it was read")),
                Ok(n) => {
                    self.end += n;
                    self.left -= n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl Tree {
    /// Adds the files below `path`, with owners, modes, times, extended attributes, hard links and holes. Mounts below are
    /// followed, symbolic links are not. The files should not change meanwhile.
    ///
    /// # Errors
    ///
    /// A file cannot be read, changes while it is read, or exceeds a limit.
    pub fn add_directory(&mut self, path: &Path) -> Result<(), Error> {
        self.layer += 1;
        let mut linked: HashMap<(u64, u64), Id> = HashMap::new();
        let mut todo: VecDeque<(PathBuf, Id, usize)> = VecDeque::new();
        let meta = self.host_meta(path, &fs::metadata(path).map_err(|e| host(path, e))?)?;
        self.set_meta(ROOT, meta);
        todo.push_back((path.to_owned(), ROOT, 1));
        while let Some((path, id, depth)) = todo.pop_front() {
            let mut names = fs::read_dir(&path)
                .and_then(|all| all.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>())
                .map_err(|e| host(&path, e))?;
            names.sort();
            for name in names {
                let file = path.join(&name);
                let fail = |fault: Fault| fault.of(file.as_os_str().as_bytes());
                let stat = fs::symlink_metadata(&file).map_err(|e| host(&file, e))?;
                let key = (stat.dev(), stat.ino());
                let known = linked.get(&key).copied().filter(|_| stat.nlink() > 1 && !stat.is_dir());
                let new = match known {
                    Some(id) => id,
                    None => self.host_object(&file, &stat)?,
                };
                if stat.is_dir() {
                    if depth >= self.limits.depth {
                        return Err(fail(Fault::Limit(crate::Limit::Depth(self.limits.depth))));
                    }
                    todo.push_back((file.clone(), new, depth + 1));
                } else if stat.nlink() > 1 {
                    linked.insert(key, new);
                }
                self.link(id, name.as_bytes(), new).map_err(fail)?;
            }
        }
        self.spool.flush()
    }

    fn host_object(&mut self, path: &Path, stat: &fs::Metadata) -> Result<Id, Error> {
        let fail = |fault: Fault| fault.of(path.as_os_str().as_bytes());
        let kind = stat.file_type();
        let meta = self.host_meta(path, stat)?;
        let device = || {
            let (major, minor) = (rustix::fs::major(stat.rdev()), rustix::fs::minor(stat.rdev()));
            if major > 0xfff || minor > 0xf_ffff { Err(fail(Fault::Device)) } else { Ok((major, minor)) }
        };
        let body = if kind.is_dir() {
            return Ok(self.create_directory(meta));
        } else if kind.is_symlink() {
            let target = fs::read_link(path).map_err(|e| host(path, e))?;
            Body::Symlink(target.as_os_str().as_bytes().into())
        } else if kind.is_char_device() {
            let (major, minor) = device()?;
            Body::Char(major, minor)
        } else if kind.is_block_device() {
            let (major, minor) = device()?;
            Body::Block(major, minor)
        } else if kind.is_fifo() {
            Body::Fifo
        } else if kind.is_socket() {
            Body::Socket
        } else {
            let file = File::options()
                .read(true)
                .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
                .open(path)
                .map_err(|e| host(path, e))?;
            let size = stat.size();
            let segments = parts(&file, size).map_err(|e| host(path, e))?;
            let left = Parts {
                file: &file,
                parts: segments.clone().into_iter(),
                left: 0,
                buffer: vec![0; (size.clamp(4, 256 << 10)) as usize],
                start: 0,
                end: 0,
            };
            let place = self.file(path.as_os_str().as_bytes(), size, Some(segments), &meta, &mut (left, path))?;
            Body::File { size, place }
        };
        Ok(self.create(Inode { meta, links: 0, body }))
    }

    fn host_meta(&mut self, path: &Path, stat: &fs::Metadata) -> Result<Meta, Error> {
        let xattrs = xattrs(path, &self.limits)?;
        self.count_xattrs(&xattrs).map_err(|fault| fault.of(path.as_os_str().as_bytes()))?;
        Ok(Meta {
            mode: (stat.mode() & 0o7777) as u16,
            uid: stat.uid(),
            gid: stat.gid(),
            mtime: (stat.mtime(), u32::try_from(stat.mtime_nsec()).unwrap_or(0)),
            xattrs,
        })
    }
}

fn host(path: &Path, source: impl Into<io::Error>) -> Error {
    Error::Host { file: Name::new(path.as_os_str().as_bytes()), source: source.into() }
}

/// The parts of a file that are data.
fn parts(file: &File, size: u64) -> io::Result<Vec<Segment>> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match seek(file, Seeking::Data(at)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => break,
            Err(e) => return Err(e.into()),
        };
        let end = seek(file, Seeking::Hole(start))?.min(size);
        if start >= end {
            break;
        }
        all.push(Segment { offset: start, len: end - start });
        at = end;
    }
    Ok(all)
}

/// The attributes of a file that images keep.
fn xattrs(path: &Path, limits: &Limits) -> Result<Xattrs, Error> {
    use rustix::io::Errno;
    // The kernel's bounds of a list and of a value.
    let mut list = vec![0; 64 << 10];
    let len = match llistxattr(path, &mut list[..]) {
        Ok(len) => len,
        Err(Errno::OPNOTSUPP) => 0,
        Err(e) => return Err(host(path, e)),
    };
    let mut all = BTreeMap::new();
    let mut value = Vec::new();
    for name in list[..len].split(|&b| b == 0).filter(|name| xattr::kept(name).is_some()) {
        value.resize(64 << 10, 0);
        match lgetxattr(path, name, &mut value[..]) {
            Ok(len) => drop(all.insert(name.to_vec(), value[..len].to_vec())),
            Err(Errno::NODATA) => {}
            Err(e) => return Err(host(path, e)),
        }
    }
    xattr::collect(all, limits).map_err(|fault| fault.of(path.as_os_str().as_bytes()))
}
