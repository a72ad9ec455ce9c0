//! Files with generated content: the building blocks of `/proc` and `/sys`.
//!
//! A directory is a [`SynthDir`] that creates [`Entry`]s by name; [`Table`] has fixed names. A file is a [`SynthFile`]
//! (or a closure that returns its bytes), a link a [`SynthLink`].
//!
//! ```ignore
//! let proc = SynthFs::new(dev, PROC_MAGIC, table([
//!     ("version", Entry::file(0o444, || Ok(b"Linux version …\n".to_vec()))),
//!     ("self", Entry::link(|| Ok(b"1234".to_vec()))),
//!     ("sys", Entry::dir(0o555, table([…]))),
//! ]));
//! tree.attach(b"/proc", proc, "proc", "proc", false)?;
//! ```

use crate::attr::{self, now};
use crate::inode::Attachments;
use crate::{Attr, Change, Dst, FileType, Found, Inode, Listing, Name, NewNode, PathRef, Src};
use abi::request::FsStat;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use uapi::{Errno, Result};

/// `f_type` of procfs.
pub const PROC_MAGIC: u64 = 0x9fa0;
/// `f_type` of sysfs.
pub const SYSFS_MAGIC: u64 = 0x6265_6572;

/// A directory with generated names.
pub trait SynthDir {
    /// Makes the entry of a name. ENOENT.
    fn lookup(&self, name: &[u8]) -> Result<Entry>;
    /// All names with their types.
    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>>;
    /// `st_size`.
    fn size(&self) -> u64 {
        0
    }
    /// `st_nlink`: two, and one for each directory in it.
    fn links(&self) -> u32 {
        // A failed listing is empty.
        let names = self.list().unwrap_or_default();
        let directories = names.iter().filter(|(_, kind)| *kind == FileType::Directory).count();
        u32::try_from(directories).unwrap_or(u32::MAX).saturating_add(2)
    }
}

/// Content that is generated when a read starts at offset 0 (as Linux's seq_file).
pub trait SynthFile {
    /// The whole content now.
    fn content(&self) -> Result<Vec<u8>>;
    /// A write; returns the number of consumed bytes. EACCES.
    fn write(&self, _offset: u64, _data: &[u8]) -> Result<usize> {
        Err(Errno::EINVAL)
    }
    /// The file for a new open, if it is bound at open (files about the process's memory at that time). `None`: this
    /// file. EACCES, ESRCH.
    fn bind(&self) -> Result<Option<Rc<dyn SynthFile>>> {
        Ok(None)
    }
    /// Whether poll(2) reports changes.
    fn is_polled(&self) -> bool {
        false
    }
    /// A sysctl: its permission bits apply to all users, root included, and its size is 0.
    fn is_setting(&self) -> bool {
        false
    }
    /// Whether its size, 0, counts as its end for lseek(2), though there is more to read.
    fn ends_at_start(&self) -> bool {
        false
    }
    /// Whether preadv2(2) takes flags, and splice(2) reads it: files of the system, not those of processes.
    fn has_flags(&self) -> bool {
        false
    }
    /// Whether pwrite(2) works: not for Linux's seq_file.
    fn has_pwrite(&self) -> bool {
        false
    }
    /// Itself, for requests that only files of its kind know.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
    /// A read without generated content (`/proc/PID/mem`). `None`: use the content.
    fn read_at(&self, _offset: u64, _dst: &mut dyn Dst) -> Option<Result<usize>> {
        None
    }
}

impl<F: Fn() -> Result<Vec<u8>>> SynthFile for F {
    fn content(&self) -> Result<Vec<u8>> {
        self()
    }
}

/// A link with a generated target.
pub trait SynthLink {
    /// Text for readlink(2).
    fn target(&self) -> Result<Vec<u8>>;
    /// Place of a magic link, independent of its text.
    fn place(&self) -> Option<Result<PathRef>> {
        None
    }
}

impl<F: Fn() -> Result<Vec<u8>>> SynthLink for F {
    fn target(&self) -> Result<Vec<u8>> {
        self()
    }
}

/// Kinds of entries.
#[derive(Clone)]
pub enum What {
    /// A directory.
    Dir(Rc<dyn SynthDir>),
    /// A regular file.
    File(Rc<dyn SynthFile>),
    /// A symbolic link.
    Link(Rc<dyn SynthLink>),
    /// A node of another kind (a device).
    Inode(Rc<dyn Inode>),
}

/// An entry of a synthetic directory.
#[derive(Clone)]
pub struct Entry {
    /// Its kind.
    pub what: What,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Distinguishes it from earlier bearers of its name (a process's start time): the inode number and
    /// places in it change with it. 0: always the same.
    pub generation: u64,
    /// `st_size`: 0 in `/proc` but for the links to open files, a page for files of `/sys`.
    pub size: u64,
}

impl Entry {
    /// A regular file.
    pub fn file(mode: u32, file: impl SynthFile + 'static) -> Self {
        Self { what: What::File(Rc::new(file)), mode, uid: 0, gid: 0, generation: 0, size: 0 }
    }
    /// A directory.
    pub fn dir(mode: u32, dir: impl SynthDir + 'static) -> Self {
        Self { what: What::Dir(Rc::new(dir)), mode, uid: 0, gid: 0, generation: 0, size: 0 }
    }
    /// A symbolic link.
    pub fn link(link: impl SynthLink + 'static) -> Self {
        Self { what: What::Link(Rc::new(link)), mode: 0o777, uid: 0, gid: 0, generation: 0, size: 0 }
    }
    /// With another owner.
    pub fn owned(self, uid: u32, gid: u32) -> Self {
        Self { uid, gid, ..self }
    }
    /// With a generation.
    pub fn generation(self, generation: u64) -> Self {
        Self { generation, ..self }
    }
    /// Sets its size in stat(2).
    pub fn sized(self, size: u64) -> Self {
        Self { size, ..self }
    }

    fn kind(&self) -> FileType {
        match &self.what {
            What::Dir(_) => FileType::Directory,
            What::File(_) => FileType::Regular,
            What::Link(_) => FileType::Symlink,
            What::Inode(inode) => inode.file_type(),
        }
    }
}

/// A directory of fixed names.
pub struct Table(Vec<(Vec<u8>, Entry)>);

/// A directory of fixed names.
pub fn table<const N: usize>(entries: [(&str, Entry); N]) -> Table {
    Table(entries.into_iter().map(|(name, entry)| (name.as_bytes().to_vec(), entry)).collect())
}

impl Table {
    /// With another name.
    pub fn with(mut self, name: &str, entry: Entry) -> Self {
        self.0.push((name.as_bytes().to_vec(), entry));
        self
    }
}

impl SynthDir for Table {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, e)| e.clone()).ok_or(Errno::ENOENT)
    }
    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        Ok(self.0.iter().map(|(name, entry)| (name.clone(), entry.kind())).collect())
    }
}

/// A file system of generated files.
pub struct SynthFs {
    dev: u64,
    magic: u64,
    next_ino: Cell<u64>,
    since: (i64, u32),
}

impl SynthFs {
    /// Its root directory. `magic`: `f_type` of statfs(2).
    #[expect(clippy::new_ret_no_self, reason = "the root is what is used; the file system lies behind it")]
    pub fn new(dev: u64, magic: u64, root: impl SynthDir + 'static) -> Rc<SynthInode> {
        Self::with_mode(dev, magic, 0o555, root)
    }

    /// The same with other permissions of the root directory.
    pub fn with_mode(dev: u64, magic: u64, mode: u32, root: impl SynthDir + 'static) -> Rc<SynthInode> {
        let fs = Rc::new(Self { dev, magic, next_ino: Cell::new(1), since: now() });
        SynthInode::make(&fs, Entry::dir(mode, root))
    }
}

/// Whether it is a directory of `/proc` or `/sys`.
pub fn is_kernel_directory(inode: &dyn Inode) -> bool {
    let inode: Option<&SynthInode> = inode.as_any().downcast_ref();
    inode.is_some_and(|inode| matches!(inode.fs.magic, PROC_MAGIC | SYSFS_MAGIC))
}

/// A generated file, directory or link.
pub struct SynthInode {
    this: Weak<SynthInode>,
    fs: Rc<SynthFs>,
    ino: u64,
    entry: Entry,
    /// Children in use, so that a name keeps its inode.
    known: RefCell<BTreeMap<Name, Weak<SynthInode>>>,
    attachments: Attachments,
}

impl SynthInode {
    fn make(fs: &Rc<SynthFs>, entry: Entry) -> Rc<Self> {
        let ino = fs.next_ino.get();
        fs.next_ino.set(ino + 1);
        Rc::new_cyclic(|this| Self {
            this: this.clone(),
            fs: fs.clone(),
            ino,
            entry,
            known: RefCell::default(),
            attachments: Attachments::default(),
        })
    }
}

impl Inode for SynthInode {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn attr(&self) -> Result<Attr> {
        let kind = self.file_type();
        Ok(Attr {
            ino: self.ino,
            dev: self.fs.dev,
            mode: kind.mode_bits() | self.entry.mode,
            nlink: match &self.entry.what {
                What::Dir(dir) => dir.links(),
                _ => 1,
            },
            uid: self.entry.uid,
            gid: self.entry.gid,
            size: match &self.entry.what {
                What::Dir(dir) => dir.size(),
                _ => self.entry.size,
            },
            // Some programs (wc) reckon with it where files end.
            blksize: if self.fs.magic == PROC_MAGIC { 1024 } else { 4096 },
            ..attr::since(self.fs.since)
        })
    }

    fn file_type(&self) -> FileType {
        self.entry.kind()
    }

    fn lookup(&self, name: &[u8], _ahead: &[u8]) -> Result<Found> {
        let What::Dir(dir) = &self.entry.what else { return Err(Errno::ENOTDIR) };
        let entry = dir.lookup(name)?;
        if let What::Inode(inode) = entry.what {
            return Ok(Found { inode, expires: 0 });
        }
        let known = self.known.borrow().get(name).and_then(Weak::upgrade);
        let same = |k: &Rc<Self>| {
            k.entry.generation == entry.generation
                && k.entry.kind() == entry.kind()
                && (k.entry.mode, k.entry.uid, k.entry.gid) == (entry.mode, entry.uid, entry.gid)
        };
        let inode = match known.filter(same) {
            Some(inode) => inode,
            None => {
                let inode = Self::make(&self.fs, entry);
                let mut known = self.known.borrow_mut();
                if known.len() > 64 {
                    known.retain(|_, weak| weak.strong_count() > 0);
                }
                known.insert(Rc::from(name), Rc::downgrade(&inode));
                inode
            }
        };
        Ok(Found { inode, expires: 0 })
    }

    fn create(&self, _name: &[u8], _new: &NewNode<'_>) -> Result<Rc<dyn Inode>> {
        Err(Errno::ENOENT)
    }

    fn rename(&self, _old: &[u8], to: &Rc<dyn Inode>, new: &[u8], _flags: u32) -> Result<bool> {
        // Names that do not exist can't even be thought of here.
        to.lookup(new, &[]).and(Err(Errno::EPERM))
    }

    fn readdir(&self) -> Result<Listing> {
        let What::Dir(dir) = &self.entry.what else { return Err(Errno::ENOTDIR) };
        let names = dir.list()?;
        // Inode numbers are assigned at lookup; listings contain other non-zero numbers.
        let mut listing = Listing::new();
        for (ino, (name, kind)) in (0x1_0000..).zip(names) {
            let known = self.known.borrow().get(&name[..]).and_then(Weak::upgrade);
            listing.push(&name, known.map_or(ino, |k| k.ino), kind)?;
        }
        Ok(listing)
    }

    fn readlink(&self) -> Result<Name> {
        let What::Link(link) = &self.entry.what else { return Err(Errno::EINVAL) };
        Ok(Rc::from(link.target()?))
    }

    fn binds_everybody(&self) -> bool {
        matches!(&self.entry.what, What::File(file) if file.is_setting())
    }

    fn jump(&self) -> Option<Result<PathRef>> {
        let What::Link(link) = &self.entry.what else { return None };
        link.place()
    }

    fn truncate(&self, _size: u64) -> Result<()> {
        // Shells open files with O_TRUNC for writing.
        Ok(())
    }

    fn change(&self, change: &Change) -> Result<()> {
        if *change == Change::default() { Ok(()) } else { Err(Errno::EPERM) }
    }

    fn can_be_stored(&self) -> bool {
        false
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(FsStat { kind: self.fs.magic, bsize: 4096, namelen: 255, ..FsStat::default() })
    }

    fn open(&self, _write: bool) -> Result<Option<Rc<dyn Inode>>> {
        let What::File(file) = &self.entry.what else { return Ok(None) };
        let inode = self.this.upgrade().ok_or(Errno::ESTALE)?;
        let file = file.bind()?.unwrap_or_else(|| file.clone());
        Ok(Some(Rc::new(Opened { inode, file, content: RefCell::default() })))
    }

    fn attachments(&self) -> Option<&Attachments> {
        Some(&self.attachments)
    }
}

/// An open generated file: the content of its last read from the start.
struct Opened {
    inode: Rc<SynthInode>,
    file: Rc<dyn SynthFile>,
    content: RefCell<Option<Rc<Vec<u8>>>>,
}

/// Calls that an open generated file has.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// Flags of preadv2(2) and pwritev2(2), and splice(2).
    pub has_flags: bool,
    /// pwrite(2).
    pub has_pwrite: bool,
}

/// Those of the generated file that an open file's inode stands for.
pub fn calls(inode: &dyn Inode) -> Option<Calls> {
    let Opened { inode, file, .. } = inode.as_any().downcast_ref()?;
    let has_all = inode.fs.magic != PROC_MAGIC || file.is_setting();
    Some(Calls { has_flags: has_all || file.has_flags(), has_pwrite: has_all || file.has_pwrite() })
}

/// The generated file that an open file's inode stands for.
pub fn opened(inode: &dyn Inode) -> Option<Rc<dyn SynthFile>> {
    inode.as_any().downcast_ref::<Opened>().map(|opened| opened.file.clone())
}

impl Inode for Opened {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn attr(&self) -> Result<Attr> {
        self.inode.attr()
    }

    fn file_type(&self) -> FileType {
        FileType::Regular
    }

    fn is_polled(&self) -> bool {
        self.file.is_polled()
    }

    fn can_be_mapped(&self) -> bool {
        false
    }

    /// fsync(2) of files of sysfs does nothing.
    fn can_be_stored(&self) -> bool {
        self.inode.fs.magic == SYSFS_MAGIC
    }

    fn read_at(&self, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        if let Some(result) = self.file.read_at(offset, dst) {
            return result;
        }
        let known = self.content.borrow().clone().filter(|_| offset != 0);
        let content = match known {
            Some(content) => content,
            None => {
                crate::memory::check()?;
                let content = Rc::new(self.file.content()?);
                self.content.replace(Some(content.clone()));
                content
            }
        };
        let rest = usize::try_from(offset).ok().and_then(|at| content.get(at..)).unwrap_or_default();
        if rest.is_empty() { Ok(0) } else { dst.put(rest) }
    }

    fn write_at(&self, offset: u64, src: &mut dyn Src) -> Result<usize> {
        // As in procfs, at most a page per write.
        let mut data: Box<[u8]> = alloc::vec![0; src.remaining().min(4096)].into();
        let n = src.get(&mut data)?;
        self.file.write(offset, &data[..n])
    }

    fn truncate(&self, size: u64) -> Result<()> {
        self.inode.truncate(size)
    }

    fn seek_end(&self) -> Result<u64> {
        let has_end = self.file.is_setting() || self.file.ends_at_start();
        let unknown = self.inode.fs.magic == PROC_MAGIC && !has_end;
        if unknown { Err(Errno::EINVAL) } else { Ok(self.inode.entry.size) }
    }

    fn seek_data(&self, offset: u64, hole: bool) -> Result<u64> {
        let end = self.seek_end()?;
        if offset >= end { Err(Errno::ENXIO) } else { Ok(if hole { end } else { offset }) }
    }

    fn statfs(&self) -> Result<FsStat> {
        self.inode.statfs()
    }

    fn attachments(&self) -> Option<&Attachments> {
        Some(&self.inode.attachments)
    }
}
