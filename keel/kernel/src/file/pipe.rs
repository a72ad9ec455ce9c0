//! Pipes and FIFOs, pipe(7).

use super::lock::SleepLock;
use super::{File, FileOps, Queues, anon, wait_on};
use crate::mm::user;
use crate::signal::{self, SigInfo, code};
use crate::task;
use crate::task::wait::WaitQueue;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use hal::frame::Frame;
use keel_core::pipe_buf::{MAX_SLOTS, PAGE, Piece, PipeRing, slots_for};
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::{Attr, Dst, FileType, Inode, Src};

/// The bytes between the two ends.
#[derive(Default)]
pub struct Pipe {
    ring: RefCell<PipeRing<Frame>>,
    /// A page kept from the last read for the next write.
    spare: Cell<Option<Frame>>,
    /// One reader or writer at a time moves bytes.
    busy: SleepLock,
    readers: Cell<u32>,
    writers: Cell<u32>,
    /// Opens for reading and for writing so far.
    read_opens: Cell<u32>,
    write_opens: Cell<u32>,
    readable: Rc<WaitQueue>,
    writable: Rc<WaitQueue>,
}

/// An open end of a pipe; which one, the flags of the [`File`] tell.
pub struct PipeEnd {
    pipe: Rc<Pipe>,
    identity: Identity,
    /// `write_opens` when a FIFO was opened for reading while it had no writer: no hang-up until
    /// one came and went.
    seen_write_opens: Cell<u32>,
}

enum Identity {
    Anonymous(Attr),
    Fifo(Rc<dyn Inode>),
}

const IN: u32 = g::POLLIN | g::POLLRDNORM;
const OUT: u32 = g::POLLOUT | g::POLLWRNORM;

impl Pipe {
    fn add(&self, flags: u32) {
        let access = flags & g::O_ACCMODE;
        if access != g::O_WRONLY {
            self.readers.set(self.readers.get() + 1);
            self.read_opens.set(self.read_opens.get().wrapping_add(1));
        }
        if access != g::O_RDONLY {
            self.writers.set(self.writers.get() + 1);
            self.write_opens.set(self.write_opens.get().wrapping_add(1));
        }
        self.wake_all();
    }

    fn remove(&self, flags: u32) {
        let access = flags & g::O_ACCMODE;
        if access != g::O_WRONLY {
            self.readers.set(self.readers.get().saturating_sub(1));
        }
        if access != g::O_RDONLY {
            self.writers.set(self.writers.get().saturating_sub(1));
        }
        if self.readers.get() == 0 && self.writers.get() == 0 {
            // A FIFO keeps nothing between its last close and the next open.
            let ring = core::mem::take(&mut *self.ring.borrow_mut());
            drop(ring);
            self.spare.set(None);
        }
        self.wake_all();
    }

    fn wake_all(&self) {
        self.readable.wake_all();
        self.writable.wake_all();
    }

    /// Bytes inside.
    pub fn bytes(&self) -> usize {
        self.ring.borrow().bytes()
    }

    /// Room in bytes, `F_GETPIPE_SZ`.
    pub fn capacity(&self) -> usize {
        self.ring.borrow().slots() * PAGE
    }

    /// Changes the room, `F_SETPIPE_SZ`: the new size. EINVAL, EPERM, EBUSY.
    pub fn set_capacity(&self, bytes: usize) -> Result<usize> {
        let slots = slots_for(bytes).ok_or(Errno::EINVAL)?;
        if slots > MAX_SLOTS {
            return Err(Errno::EPERM);
        }
        if !self.ring.borrow_mut().resize(slots) {
            return Err(Errno::EBUSY);
        }
        self.writable.wake_all();
        Ok(slots * PAGE)
    }

    fn page(&self) -> Result<Frame> {
        self.spare.take().or_else(Frame::alloc).ok_or(Errno::ENOMEM)
    }

    /// Moves what is there, as far as it fits. 0 if the pipe is empty.
    fn take_bytes(&self, dst: &mut dyn Dst) -> Result<usize> {
        let _busy = self.busy.lock();
        let mut done = 0;
        let room = dst.remaining();
        while done < room {
            let (page, start, len, packet) = match self.ring.borrow().front() {
                Some(piece) => (piece.page.clone(), piece.start, piece.len, piece.packet),
                None => break,
            };
            let moved = match dst.put_frame(&page, start, len.min(room - done)) {
                Ok(moved) => moved,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            };
            drop(page);
            done += moved;
            let freed = self.ring.borrow_mut().consume(if packet { len } else { moved });
            self.keep(freed);
            if packet || moved == 0 {
                break;
            }
        }
        Ok(done)
    }

    /// Keeps a page for the next write, unless somebody else (tee, a mapping) holds it too.
    fn keep(&self, page: Option<Frame>) {
        if let Some(page) = page
            && page.refs() == 1
        {
            self.spare.set(Some(page));
        }
    }

    /// Moves as much of `src` as there is room for. 0 if the pipe is full.
    fn add_bytes(&self, src: &mut dyn Src, packets: bool) -> Result<usize> {
        let _busy = self.busy.lock();
        let mut done = 0;
        let total = src.remaining();
        // Only the odd part of a page joins the newest piece, and only as a whole: a write of up to
        // PIPE_BUF bytes stays in one piece, which makes it atomic.
        let odd = total % PAGE;
        if odd > 0 && !packets {
            let room = self.ring.borrow().merge_room(odd).map(|(page, end)| (page.clone(), end));
            if let Some((page, end)) = room {
                done = src.get_frame(&page, end, odd)?;
                self.ring.borrow_mut().merged(done);
                if done < odd {
                    return Ok(done);
                }
            }
        }
        while done < total && !self.ring.borrow().is_full() {
            let page = match self.page() {
                Ok(page) => page,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            };
            let want = (total - done).min(PAGE);
            let len = match src.get_frame(&page, 0, want) {
                Ok(len) if len > 0 => len,
                Ok(_) => break,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            };
            done += len;
            let piece = Piece { page, start: 0, len, mergeable: !packets, packet: packets };
            if self.ring.borrow_mut().push(piece).is_err() || len < want {
                break;
            }
        }
        Ok(done)
    }

    /// Waits until there is something to read. `false` at the end of the file.
    pub fn wait_readable(&self, nonblocking: bool) -> Result<bool> {
        let check = || {
            if !self.ring.borrow().is_empty() {
                return Some(true);
            }
            (self.writers.get() == 0).then_some(false)
        };
        if let Some(answer) = check() {
            return Ok(answer);
        }
        if nonblocking {
            return Err(Errno::EAGAIN);
        }
        wait_on(&self.readable, check)
    }

    /// Waits until there is a free slot. EPIPE (and SIGPIPE) without readers.
    pub fn wait_writable(&self, nonblocking: bool) -> Result<()> {
        let check = || (self.readers.get() == 0 || !self.ring.borrow().is_full()).then_some(());
        if check().is_none() {
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            wait_on(&self.writable, check)?;
        }
        if self.readers.get() == 0 { Err(broken_pipe()) } else { Ok(()) }
    }

    /// Takes the oldest piece, at most `max` bytes of it (splice).
    pub fn take_piece(&self, max: usize) -> Option<Piece<Frame>> {
        let _busy = self.busy.lock();
        let mut ring = self.ring.borrow_mut();
        let front = ring.front()?;
        let piece = if front.len <= max {
            ring.pop()?
        } else {
            let mut part = front.clone();
            part.len = max;
            part.mergeable = false;
            ring.consume(max);
            part
        };
        drop(ring);
        self.writable.wake_all();
        Some(piece)
    }

    /// A copy of piece number `index`, at most `max` bytes of it (tee). Both then share the page.
    pub fn peek_piece(&self, index: usize, max: usize) -> Option<Piece<Frame>> {
        let mut piece = self.ring.borrow().get(index)?.clone();
        piece.len = piece.len.min(max);
        piece.mergeable = false;
        Some(piece)
    }

    /// Adds a piece (splice, tee); gives it back if there is no slot.
    pub fn push_piece(&self, piece: Piece<Frame>) -> core::result::Result<(), Piece<Frame>> {
        let _busy = self.busy.lock();
        let pushed = self.ring.borrow_mut().push(piece);
        if pushed.is_ok() {
            self.readable.wake_all();
        }
        pushed
    }

    /// Puts back what [`Pipe::take_piece`] gave, in front of everything else.
    pub fn put_back(&self, piece: Piece<Frame>) {
        self.ring.borrow_mut().push_front(piece);
        self.readable.wake_all();
    }

    /// Piece number `index` shares its page now: nothing may be added to that page.
    pub fn share_piece(&self, index: usize) {
        self.ring.borrow_mut().seal(index);
    }

    /// There is a free slot.
    pub fn has_room(&self) -> bool {
        !self.ring.borrow().is_full()
    }

    /// Readers are gone.
    pub fn is_broken(&self) -> bool {
        self.readers.get() == 0
    }
}

/// Sends SIGPIPE to the current thread; the error to return.
#[cold]
pub fn broken_pipe() -> Errno {
    let task = task::current();
    let info = SigInfo::from_process(g::SIGPIPE, code::USER, task.pid(), task.cred().uid);
    // Standard signals are never refused for lack of room.
    let _ = signal::send_to_task(&task, info);
    Errno::EPIPE
}

impl PipeEnd {
    /// The pipe.
    pub fn pipe(&self) -> &Rc<Pipe> {
        &self.pipe
    }

    fn hung_up(&self) -> bool {
        self.pipe.writers.get() == 0 && self.pipe.write_opens.get() != self.seen_write_opens.get()
    }
}

impl FileOps for PipeEnd {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read(&self, file: &File, dst: &mut dyn Dst) -> Result<usize> {
        if dst.remaining() == 0 {
            return Ok(0);
        }
        let pipe = &*self.pipe;
        loop {
            let done = pipe.take_bytes(dst)?;
            if done > 0 {
                pipe.writable.wake_all();
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
                        pipe.readable.wake_all();
                    }
                }
                Err(errno) => return if done > 0 { Ok(done) } else { Err(errno) },
            }
            if done == total {
                return Ok(done);
            }
            let full = pipe.ring.borrow().is_full();
            if !full {
                // The rest of the source is bad memory: the next attempt says so.
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
            Identity::Anonymous(attr) => Ok(*attr),
            Identity::Fifo(inode) => inode.attr(),
        }
    }

    fn poll(&self, file: &File) -> u32 {
        let ring = self.pipe.ring.borrow();
        let mut events = 0;
        if file.readable() {
            if !ring.is_empty() {
                events |= IN;
            }
            if self.hung_up() {
                events |= g::POLLHUP;
            }
        }
        if file.writable() {
            if !ring.is_full() {
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
            out.push(self.pipe.readable.clone());
        }
        if file.writable() {
            out.push(self.pipe.writable.clone());
        }
    }

    fn ioctl(&self, _file: &File, command: u32, arg: usize) -> Result<usize> {
        match command {
            super::ioctl::FIONREAD => {
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
            Identity::Anonymous(attr) => format!("pipe:[{}]", attr.ino).into_bytes(),
            Identity::Fifo(_) => Vec::new(),
        }
    }

    fn reopen(&self, _file: &File, flags: u32) -> Result<Rc<File>> {
        // Those of FIFOs have a path.
        let Identity::Anonymous(attr) = self.identity else { return Err(Errno::ENXIO) };
        self.pipe.add(flags);
        let identity = Identity::Anonymous(attr);
        let ops = Self { pipe: self.pipe.clone(), identity, seen_write_opens: Cell::new(0) };
        Ok(File::new(Rc::new(ops), flags, None))
    }

    fn release(&self, file: &File) {
        self.pipe.remove(file.flags.get());
    }
}

/// A new pipe: its reading and its writing end. `flags`: `O_NONBLOCK`, `O_DIRECT`.
pub fn new_pipe(flags: u32) -> (Rc<File>, Rc<File>) {
    let pipe = Rc::new(Pipe::default());
    let attr = anon::attr(anon::next_ino(), anon::dev::PIPE, g::S_IFIFO | 0o600);
    let end = |access: u32| {
        pipe.add(access);
        let ops = PipeEnd { pipe: pipe.clone(), identity: Identity::Anonymous(attr), seen_write_opens: Cell::new(0) };
        // Without a path, so that release() runs even if the caller never installs it.
        File::new(Rc::new(ops), access | flags, None)
    };
    (end(g::O_RDONLY), end(g::O_WRONLY))
}

/// Opens a FIFO, fifo(7). Waits for a partner unless `O_NONBLOCK` or `O_RDWR`. ENXIO for a writer
/// with `O_NONBLOCK` and no reader; ERESTARTSYS. Permissions are the caller's business.
pub fn open_fifo(inode: Rc<dyn Inode>, flags: u32, path: Option<crate::fs::PathRef>) -> Result<Rc<File>> {
    debug_assert_eq!(inode.file_type(), FileType::Fifo);
    let pipe = inode.attachments().ok_or(Errno::ENXIO)?.get_or_insert(Pipe::default);
    let nonblocking = flags & g::O_NONBLOCK != 0;
    let access = flags & g::O_ACCMODE;
    if access == g::O_WRONLY && nonblocking && pipe.readers.get() == 0 {
        return Err(Errno::ENXIO);
    }
    let (read_opens, write_opens) = (pipe.read_opens.get(), pipe.write_opens.get());
    pipe.add(access);
    let seen_write_opens = Cell::new(0);
    if access == g::O_RDONLY && pipe.writers.get() == 0 {
        seen_write_opens.set(write_opens);
    }
    let ops = PipeEnd { pipe: pipe.clone(), identity: Identity::Fifo(inode), seen_write_opens };
    let file = File::new(Rc::new(ops), flags, path);
    // A partner that came and went meanwhile counts, hence opens and not openers are compared.
    let wait = |queue: &Rc<WaitQueue>, arrived: &dyn Fn() -> bool| wait_on(queue, || arrived().then_some(()));
    match access {
        g::O_RDONLY if pipe.writers.get() == 0 && !nonblocking => {
            wait(&pipe.readable, &|| pipe.write_opens.get() != write_opens)?;
        }
        g::O_WRONLY if pipe.readers.get() == 0 => {
            wait(&pipe.writable, &|| pipe.read_opens.get() != read_opens)?;
        }
        _ => {}
    }
    Ok(file)
}

/// pipe(2).
pub fn sys_pipe(fds: usize) -> Result<()> {
    sys_pipe2(fds, 0)
}

/// pipe2(2).
pub fn sys_pipe2(fds: usize, flags: u32) -> Result<()> {
    if flags & !(g::O_CLOEXEC | g::O_NONBLOCK | g::O_DIRECT) != 0 {
        return Err(Errno::EINVAL);
    }
    let (reader, writer) = new_pipe(flags & (g::O_NONBLOCK | g::O_DIRECT));
    super::install_pair(fds, reader, writer, flags)
}
