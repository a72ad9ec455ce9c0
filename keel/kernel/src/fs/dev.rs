//! Character devices of `/dev`.

use crate::file::{Abilities, File, FileOps, Queues, unlocked};
use crate::mm::user;
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
    /// Gives random bytes; `/dev/random` can be watched.
    Random { watched: bool },
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
        (1, minor @ (8 | 9)) => Kind::Random { watched: minor == 8 },
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
    in_steps(dst.remaining(), |bytes| {
        crate::random::fill(bytes);
        dst.put(bytes)
    })
}

/// Takes bytes that Linux would mix into its own; keel's come from the processor.
#[inline(never)]
fn drop_bytes(src: &mut dyn Src) -> Result<usize> {
    in_steps(src.remaining(), |bytes| src.get(bytes))
}

/// Moves `total` bytes through a buffer, up to the first piece that `step` moves in part; returns how many. An error only if
/// there were none.
fn in_steps(total: usize, mut step: impl FnMut(&mut [u8]) -> Result<usize>) -> Result<usize> {
    let mut done = 0;
    let mut bytes = [0; STEP];
    while done < total {
        let n = (total - done).min(STEP);
        match step(&mut bytes[..n]) {
            Ok(moved) => {
                done += moved;
                if moved < n {
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
    /// Whether epoll(7) can watch it.
    pub fn is_watched(&self) -> bool {
        self.kind == (Kind::Random { watched: true })
    }

    /// Whether it is `/dev/zero`, which can be mapped.
    pub fn is_zero(&self) -> bool {
        self.kind == Kind::Zero
    }
}

/// Bytes that are made at a time; between two, a signal may end a big read.
const STEP: usize = 256;

impl FileOps for Memory {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        let all = Abilities::TRANSFER.with(Abilities::POSITIONS).with(Abilities::NO_WAIT);
        match self.kind {
            Kind::Null => all.without(Abilities::SPLICE_FROM),
            Kind::Zero => all,
            Kind::Full => all.without(Abilities::WRITE_FLAGS.with(Abilities::SPLICE_TO).with(Abilities::NO_WAIT)),
            Kind::Random { .. } => all.with(Abilities::ASYNC),
        }
    }

    fn poll(&self, _file: &File) -> u32 {
        match self.kind {
            Kind::Random { watched: true } => g::POLLIN | g::POLLRDNORM,
            _ => g::POLLIN | g::POLLOUT | g::POLLRDNORM | g::POLLWRNORM,
        }
    }

    fn poll_queues(&self, _file: &File, _events: u32, out: &mut Queues) {
        if self.is_watched() {
            // It is always readable and never writable, so nothing wakes a waiter.
            out.push(Rc::default());
        }
    }

    fn read(&self, _file: &File, dst: &mut dyn Dst) -> Result<usize> {
        match self.kind {
            Kind::Null => Ok(0),
            Kind::Zero | Kind::Full => {
                let len = dst.remaining();
                if len == 0 { Ok(0) } else { dst.put_zeros(len) }
            }
            Kind::Random { .. } => fill_random(dst),
        }
    }

    fn write(&self, _file: &File, src: &mut dyn Src) -> Result<usize> {
        match self.kind {
            // The bytes are not even looked at, as in Linux.
            Kind::Null | Kind::Zero => Ok(src.remaining()),
            Kind::Random { .. } => drop_bytes(src),
            Kind::Full => Err(Errno::ENOSPC),
        }
    }

    fn read_at(&self, file: &File, _offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        self.read(file, dst)
    }

    fn write_at(&self, file: &File, _offset: u64, src: &mut dyn Src) -> Result<usize> {
        self.write(file, src)
    }

    fn seek(&self, file: &File, _offset: i64, whence: u32) -> Result<u64> {
        // They have no positions at all: every seek leads to 0.
        if whence > g::SEEK_HOLE {
            return Err(Errno::EINVAL);
        }
        file.pos.set(0);
        Ok(0)
    }

    fn ioctl(&self, _file: &File, command: u32, arg: usize) -> Result<usize> {
        /// `RNDGETENTCNT`, and the number of bits when all is well.
        const GET_ENTROPY: u32 = 0x8004_5200;
        const BITS: i32 = 256;
        match self.kind {
            Kind::Random { .. } if command == GET_ENTROPY => user::write(arg, &BITS).map(|()| 0),
            Kind::Random { .. } => Err(Errno::EINVAL),
            Kind::Null | Kind::Zero | Kind::Full => Err(Errno::ENOTTY),
        }
    }

    fn attr(&self) -> Result<Attr> {
        self.inode.attr()
    }

    fn inode(&self) -> Option<Rc<dyn Inode>> {
        Some(self.inode.clone())
    }
}
