//! Open ends of pipes.

use super::super::caller::broken_pipe;
use super::super::unlocked::Kind;
use super::super::{Abilities, File, FileOps, Queues, anon, wait_on};
use super::Pipe;
use alloc::format;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::Cell;
use mm::user;
use sched::wait::WaitQueue;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::{Attr, Dst, FileType, Inode, Src};

/// An open end of a pipe; the flags of the [`File`] select which one.
pub struct PipeEnd {
    pipe: Arc<Pipe>,
    identity: Identity,
    /// `write_opens` when a FIFO was opened for reading without a writer: no hang-up until a writer has opened and
    /// closed it.
    seen_write_opens: Cell<u32>,
}

enum Identity {
    Anonymous(Rc<anon::Nameless>),
    Fifo(Rc<dyn Inode>),
}

const IN: u32 = g::POLLIN | g::POLLRDNORM;
const OUT: u32 = g::POLLOUT | g::POLLWRNORM;

impl PipeEnd {
    /// The pipe.
    pub fn pipe(&self) -> &Arc<Pipe> {
        &self.pipe
    }

    fn hung_up(&self) -> bool {
        self.pipe.writers() == 0 && self.pipe.big.write_opens.get() != self.seen_write_opens.get()
    }
}

impl FileOps for PipeEnd {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        // sendfile(2) does not read pipes, which splice(2) does in its own way.
        Abilities::STREAM.with(Abilities::DIRECT).without(Abilities::SPLICE_FROM)
    }

    fn read(&self, file: &File, dst: &mut dyn Dst) -> Result<usize> {
        if dst.remaining() == 0 {
            return Ok(0);
        }
        let pipe = &*self.pipe;
        loop {
            let was_full = !pipe.has_room();
            let done = pipe.take_bytes(dst)?;
            if done > 0 {
                // A pipe with room has no waiting writer.
                if was_full {
                    pipe.big.writable.wake_all();
                }
                return Ok(done);
            }
            if !pipe.wait_readable(file.nonblocking())? {
                return Ok(0);
            }
        }
    }

    fn write(&self, file: &File, src: &mut dyn Src) -> Result<usize> {
        let total = src.remaining();
        if total == 0 {
            return Ok(0);
        }
        let pipe = &*self.pipe;
        let packets = file.flags.get() & g::O_DIRECT != 0;
        let mut done = 0;
        loop {
            if pipe.is_broken() {
                let errno = broken_pipe();
                return if done > 0 { Ok(done) } else { Err(errno) };
            }
            match pipe.add_bytes(src, packets) {
                Ok(added) => {
                    done += added;
                    if added > 0 {
                        pipe.big.readable.wake_for_data();
                    }
                }
                Err(errno) => return if done > 0 { Ok(done) } else { Err(errno) },
            }
            if done == total {
                return Ok(done);
            }
            if pipe.has_room() {
                // The rest of the source is bad memory: the next attempt returns EFAULT.
                if done > 0 {
                    return Ok(done);
                }
                continue;
            }
            if let Err(errno) = pipe.wait_writable(file.nonblocking()) {
                return if done > 0 { Ok(done) } else { Err(errno) };
            }
        }
    }

    fn attr(&self) -> Result<Attr> {
        match &self.identity {
            Identity::Anonymous(inode) => Ok(inode.attr.get()),
            Identity::Fifo(inode) => inode.attr(),
        }
    }

    fn nameless(&self) -> Option<&anon::Nameless> {
        match &self.identity {
            Identity::Anonymous(inode) => Some(inode),
            Identity::Fifo(_) => None,
        }
    }

    fn poll(&self, file: &File) -> u32 {
        let (is_empty, is_full) = {
            let state = self.pipe.state.lock();
            (state.ring.is_empty(), state.ring.is_full())
        };
        let mut events = 0;
        if file.readable() {
            if !is_empty {
                events |= IN;
            }
            if self.hung_up() {
                events |= g::POLLHUP;
            }
        }
        if file.writable() {
            if !is_full {
                events |= OUT;
            }
            if self.pipe.is_broken() {
                events |= g::POLLERR;
            }
        }
        events
    }

    fn poll_queues(&self, file: &File, _events: u32, out: &mut Queues) {
        if file.readable() {
            out.push(self.pipe.big.readable.clone());
        }
        if file.writable() {
            out.push(self.pipe.big.writable.clone());
        }
    }

    fn ioctl(&self, _file: &File, command: u32, arg: usize) -> Result<usize> {
        match command {
            uapi::raw::ioctl::FIONREAD => {
                user::write(arg, &(self.pipe.bytes() as i32))?;
                Ok(0)
            }
            _ => Err(Errno::ENOTTY),
        }
    }

    fn inode(&self) -> Option<Rc<dyn Inode>> {
        match &self.identity {
            Identity::Anonymous(_) => None,
            Identity::Fifo(inode) => Some(inode.clone()),
        }
    }

    fn link_name(&self) -> Vec<u8> {
        match &self.identity {
            Identity::Anonymous(inode) => format!("pipe:[{}]", inode.attr.get().ino).into_bytes(),
            Identity::Fifo(_) => Vec::new(),
        }
    }

    fn reopen(&self, _file: &File, flags: u32) -> Result<Rc<File>> {
        // FIFOs have a path.
        let Identity::Anonymous(inode) = &self.identity else { return Err(Errno::ENXIO) };
        self.pipe.add(flags);
        let identity = Identity::Anonymous(inode.clone());
        let ops = Self { pipe: self.pipe.clone(), identity, seen_write_opens: Cell::new(0) };
        Ok(with_unlocked_way(File::new(Rc::new(ops), flags, None), &self.pipe))
    }

    fn release(&self, file: &File) {
        self.pipe.remove(file.flags.get());
    }
}

/// Enables calls without the big lock for the end of a pipe.
fn with_unlocked_way(file: Rc<File>, pipe: &Arc<Pipe>) -> Rc<File> {
    file.give_unlocked_way(Kind::Pipe(pipe.clone()));
    file
}

/// A new pipe: its reading and its writing end. `flags`: `O_NONBLOCK`, `O_DIRECT`.
pub fn new_pipe(flags: u32) -> (Rc<File>, Rc<File>) {
    let pipe = Arc::new(Pipe::default());
    let inode = Rc::new(anon::Nameless::new(anon::attr(anon::next_ino(), anon::dev::PIPE, g::S_IFIFO | 0o600)));
    let end = |access: u32| {
        pipe.add(access);
        let ops = PipeEnd {
            pipe: pipe.clone(),
            identity: Identity::Anonymous(inode.clone()),
            seen_write_opens: Cell::new(0),
        };
        // Without a path, so that release() runs even if the caller never installs it.
        // Packets are the writer's choice.
        let flags = if access == g::O_RDONLY { flags & !g::O_DIRECT } else { flags };
        with_unlocked_way(File::new(Rc::new(ops), access | flags, None), &pipe)
    };
    (end(g::O_RDONLY), end(g::O_WRONLY))
}

/// Opens a FIFO, fifo(7). Waits for a partner unless `O_NONBLOCK` or `O_RDWR`. ENXIO for a writer
/// with `O_NONBLOCK` and no reader; ERESTARTSYS. Permissions are the caller's business.
pub fn open_fifo(inode: Rc<dyn Inode>, flags: u32, path: Option<vfs::PathRef>) -> Result<Rc<File>> {
    debug_assert_eq!(inode.file_type(), FileType::Fifo);
    let pipe = inode.attachments().ok_or(Errno::ENXIO)?.get_or_insert(Arc::<Pipe>::default);
    let pipe = Arc::clone(&pipe);
    let nonblocking = flags & g::O_NONBLOCK != 0;
    let access = flags & g::O_ACCMODE;
    if access == g::O_WRONLY && nonblocking && pipe.is_broken() {
        return Err(Errno::ENXIO);
    }
    let (read_opens, write_opens) = (pipe.big.read_opens.get(), pipe.big.write_opens.get());
    pipe.add(access);
    let seen_write_opens = Cell::new(0);
    if access == g::O_RDONLY && pipe.writers() == 0 {
        seen_write_opens.set(write_opens);
    }
    let ops = PipeEnd { pipe: pipe.clone(), identity: Identity::Fifo(inode), seen_write_opens };
    let file = with_unlocked_way(File::new(Rc::new(ops), flags, path), &pipe);
    // A partner that opened and closed meanwhile counts, so compare the number of opens.
    let wait = |queue: &Rc<WaitQueue>, arrived: &dyn Fn() -> bool| wait_on(queue, || arrived().then_some(()));
    match access {
        g::O_RDONLY if pipe.writers() == 0 && !nonblocking => {
            wait(&pipe.big.readable, &|| pipe.big.write_opens.get() != write_opens)?;
        }
        g::O_WRONLY if pipe.is_broken() => {
            wait(&pipe.big.writable, &|| pipe.big.read_opens.get() != read_opens)?;
        }
        _ => {}
    }
    Ok(file)
}
