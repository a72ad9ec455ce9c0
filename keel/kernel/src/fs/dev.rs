//! Character devices of `/dev`.

use crate::file::{File, FileOps, unlocked};
use crate::tty::{pty, stream, terminal};
use alloc::rc::Rc;
use core::any::Any;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::attr::{makedev, split_dev};
use vfs::node::{Private, Space};
use vfs::tree::Tree;
use vfs::{Attr, Dst, Inode, NewNode, Src};

/// What a device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Takes everything, gives nothing.
    Null,
    /// Gives zeros.
    Zero,
    /// Gives zeros, takes nothing (ENOSPC).
    Full,
    /// Gives random bytes.
    Random,
}

/// Devices by name: permissions, major, minor.
const NODES: [(&str, u32, u32, u32); 8] = [
    ("null", 0o666, 1, 3),
    ("zero", 0o666, 1, 5),
    ("full", 0o666, 1, 7),
    ("random", 0o666, 1, 8),
    ("urandom", 0o666, 1, 9),
    ("tty", 0o666, 5, 0),
    ("console", 0o600, 5, 1),
    ("ptmx", 0o666, 5, 2),
];

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("core", "/proc/kcore"),
];

/// Puts `/dev` into the tree, with shared memory files in `/dev/shm`, which have `shared` as their space.
pub fn populate(tree: &Rc<Tree>, space: Space, shared: Space) -> Result<()> {
    let directory = |mode: u32, space| Private::new(tree.new_dev(), space).node(&NewNode::plain(0o040000 | mode, 0, 0));
    tree.attach(b"/dev", directory(0o755, space), "tmpfs", "dev", false)?;
    for (name, mode, major, minor) in NODES {
        let path = [b"/dev/", name.as_bytes()].concat();
        let new = NewNode { rdev: makedev(major, minor), ..NewNode::plain(0o020000 | mode, 0, 0) };
        let node = tree.create(&path, &new)?;
        if name == "console" {
            stream::set_console(&node.inode().attr()?);
        }
    }
    for (name, target) in LINKS {
        tree.symlink(&[b"/dev/", name.as_bytes()].concat(), target.as_bytes())?;
    }
    tree.attach(b"/dev/pts", pty::file_system(tree.new_dev(), 0), "devpts", "devpts", false)?;
    tree.attach(b"/dev/shm", directory(0o1777, shared), "tmpfs", "shm", false)?;
    Ok(())
}

/// Mounts the queues of POSIX at `/dev/mqueue`, as containers have them.
pub fn mount_queues(tree: &Rc<Tree>) -> Result<()> {
    let queues = crate::ipc::Namespace::first().queues()?;
    tree.attach_at(&tree.make_dirs(b"/dev/mqueue")?, queues.mount().fs().clone(), "mqueue", false).map(drop)
}

/// Opens a character device. ENXIO for numbers that nothing stands for.
pub fn open(inode: &Rc<dyn Inode>, flags: u32, place: PathRef) -> Result<Rc<File>> {
    let kind = match split_dev(inode.attr()?.rdev) {
        (1, 3) => Kind::Null,
        (1, 5) => Kind::Zero,
        (1, 7) => Kind::Full,
        (1, 8 | 9) => Kind::Random,
        (5, 0 | 1) => return terminal::open_controlling(flags, Some(place)),
        (5, 2) => return pty::open_master(inode, flags, place),
        (pty::MAJOR, index) => return pty::open_slave(index, flags, Some(place)),
        _ => return Err(Errno::ENXIO),
    };
    let file = File::new(Rc::new(Memory { kind, inode: inode.clone() }), flags, Some(place));
    if kind == Kind::Null {
        file.give_unlocked_way(unlocked::Kind::Null);
    }
    Ok(file)
}

/// Gives random bytes. Apart, so that reads of the other devices need no buffer on the stack.
#[inline(never)]
fn fill_random(dst: &mut dyn Dst) -> Result<usize> {
    let mut done = 0;
    let mut bytes = [0; STEP];
    while dst.remaining() > 0 {
        let n = dst.remaining().min(STEP);
        crate::random::fill(&mut bytes[..n]);
        match dst.put(&bytes[..n]) {
            Ok(k) => {
                done += k;
                if k < n {
                    break;
                }
            }
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// An open memory device.
pub struct Memory {
    kind: Kind,
    inode: Rc<dyn Inode>,
}

impl Memory {
    /// Whether splice(2) writes to it, or reads from it: Linux has no such operation for `/dev/full` and `/dev/null`.
    pub fn can_splice(&self, write: bool) -> bool {
        self.kind != if write { Kind::Full } else { Kind::Null }
    }
}

/// Bytes that are made at a time; between two, a signal may end a big read.
const STEP: usize = 256;

impl FileOps for Memory {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read(&self, _file: &File, dst: &mut dyn Dst) -> Result<usize> {
        match self.kind {
            Kind::Null => Ok(0),
            Kind::Zero | Kind::Full => {
                let len = dst.remaining();
                if len == 0 { Ok(0) } else { dst.put_zeros(len) }
            }
            Kind::Random => fill_random(dst),
        }
    }

    fn write(&self, _file: &File, src: &mut dyn Src) -> Result<usize> {
        match self.kind {
            // The bytes are not even looked at, as in Linux. Random devices would mix them in.
            Kind::Null | Kind::Zero | Kind::Random => Ok(src.remaining()),
            Kind::Full => Err(Errno::ENOSPC),
        }
    }

    fn read_at(&self, file: &File, _offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        self.read(file, dst)
    }

    fn write_at(&self, file: &File, _offset: u64, src: &mut dyn Src) -> Result<usize> {
        self.write(file, src)
    }

    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64> {
        // null, zero and full have no positions at all: every seek leads to 0.
        match whence {
            _ if self.kind != Kind::Random && whence <= g::SEEK_HOLE => {
                file.pos.set(0);
                Ok(0)
            }
            g::SEEK_SET | g::SEEK_CUR | g::SEEK_END => {
                if offset < 0 && whence != g::SEEK_CUR {
                    Err(Errno::EINVAL)
                } else {
                    Ok(0)
                }
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn attr(&self) -> Result<Attr> {
        self.inode.attr()
    }

    fn inode(&self) -> Option<Rc<dyn Inode>> {
        Some(self.inode.clone())
    }
}
