//! `/dev/pts`: the files of the slaves.

use super::{MAJOR, Pair};
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::Cell;
use uapi::{Errno, Result};
use vfs::attr::{self, makedev, now};
use vfs::inode::{Change, SetTime};
use vfs::synth::{Entry, SynthDir, SynthFs, SynthInode, What};
use vfs::{Attr, FileType, Inode, PathRef};

/// `f_type` of devpts.
const DEVPTS_MAGIC: u64 = 0x1cd1;
/// Group and mode of terminals, for write(1).
const TTY_GROUP: u32 = 5;
const MODE: u32 = 0o020620;
/// The first slave's inode number; 1 is the directory, 2 `ptmx`.
const FIRST_INO: u64 = 3;

/// The root of a new instance, which has terminals of its own. `ptmx`: permissions of its `ptmx`.
pub fn file_system(dev: u64, ptmx: u32) -> Rc<SynthInode> {
    SynthFs::with_mode(dev, DEVPTS_MAGIC, 0o755, Directory { dev, ptmx })
}

/// The instance whose terminal an open of a `ptmx` makes: that which it lies in, or at `pts` beside it. ENODEV.
pub fn instance(place: &PathRef) -> Result<u64> {
    if let Some(node) = place.inode().as_any().downcast_ref::<PtsNode>() {
        return Ok(node.0.get().dev);
    }
    let beside = place.parent().ok_or(Errno::ENODEV)?.lookup(b"pts", &[], false).map_err(|_| Errno::ENODEV)?;
    let is_ours = beside.is_mount_root() && beside.inode().statfs().is_ok_and(|fs| fs.kind == DEVPTS_MAGIC);
    if is_ours { Ok(beside.inode().attr()?.dev) } else { Err(Errno::ENODEV) }
}

struct Directory {
    /// Device number of the file system.
    dev: u64,
    ptmx: u32,
}

impl SynthDir for Directory {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        let inode = if name == b"ptmx" {
            PtsNode::new(self.dev, 2, 0o020000 | self.ptmx, makedev(5, 2), (0, 0))
        } else {
            let text = core::str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
            let index = text.parse().ok().filter(|index: &u32| format!("{index}") == text).ok_or(Errno::ENOENT)?;
            Pair::find(index).filter(|pair| pair.is_in(self.dev)).ok_or(Errno::ENOENT)?.node.clone()
        };
        Ok(Entry { what: What::Inode(inode), mode: 0, uid: 0, gid: 0, generation: 0, size: 0 })
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        let own = Pair::indices().filter(|index| Pair::find(*index).is_some_and(|pair| pair.is_in(self.dev)));
        let slaves = own.map(|index| (format!("{index}").into_bytes(), FileType::CharDevice));
        vfs::memory::collect(slaves.chain([(b"ptmx".to_vec(), FileType::CharDevice)]))
    }
}

/// A file in the directory.
pub struct PtsNode(Cell<Attr>);

impl PtsNode {
    fn new(dev: u64, ino: u64, mode: u32, rdev: u64, (uid, gid): (u32, u32)) -> Rc<Self> {
        Rc::new(Self(Cell::new(Attr { ino, dev, mode, nlink: 1, uid, gid, rdev, blksize: 1024, ..attr::since(now()) })))
    }

    /// The file of a slave.
    pub fn slave(dev: u64, index: u32, uid: u32) -> Rc<Self> {
        Self::new(dev, FIRST_INO + u64::from(index), MODE, makedev(MAJOR, index), (uid, TTY_GROUP))
    }
}

impl Inode for PtsNode {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn attr(&self) -> Result<Attr> {
        Ok(self.0.get())
    }

    fn file_type(&self) -> FileType {
        FileType::CharDevice
    }

    fn change(&self, change: &Change) -> Result<()> {
        let mut attr = self.0.get();
        let time = |set: SetTime| match set {
            SetTime::Now => now(),
            SetTime::At(s, ns) => (s, ns),
        };
        if let Some(mode) = change.mode {
            attr.mode = attr.mode & !0o7777 | mode & 0o7777;
        }
        attr.uid = change.uid.unwrap_or(attr.uid);
        attr.gid = change.gid.unwrap_or(attr.gid);
        if let Some(at) = change.atime {
            (attr.atime, attr.atime_ns) = time(at);
        }
        if let Some(at) = change.mtime {
            (attr.mtime, attr.mtime_ns) = time(at);
        }
        (attr.ctime, attr.ctime_ns) = now();
        self.0.set(attr);
        Ok(())
    }

    fn statfs(&self) -> Result<abi::request::FsStat> {
        Ok(abi::request::FsStat { kind: DEVPTS_MAGIC, bsize: 4096, namelen: 255, ..Default::default() })
    }
}
