//! Pipes and FIFOs, pipe(7).

mod end;

pub use end::{PipeEnd, new_pipe, open_fifo, sys_pipe, sys_pipe2};

use super::lock::SleepLock;
use super::wait_on;
use crate::signal::{self, SigInfo, code};
use crate::task;
use crate::task::wait::WaitQueue;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use hal::frame::Frame;
use keel_core::pipe_buf::{MAX_SLOTS, PAGE, Piece, PipeRing, slots_for};
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::{Dst, Src};

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
