//! Pipes and FIFOs, pipe(7).

mod end;
mod unlocked;

pub use end::{PipeEnd, new_pipe, open_fifo};

use super::caller::broken_pipe;
use super::lock::{SleepGuard, SleepLock};
use super::wait_on;
use alloc::rc::Rc;
use core::cell::Cell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use hal::cell::Global;
use hal::frame::Frame;
use hal::sync::{Rank, SpinLock};
use keel_core::pipe_buf::{MAX_SLOTS, PAGE, Piece, PipeRing, slots_for};
use sched::wait::WaitQueue;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::{Dst, Src};

/// The bytes between the two ends. Calls without the big lock use them, too.
// No cache line is shared with other objects, which other virtual CPUs use.
#[repr(align(64))]
pub struct Pipe {
    state: SpinLock<State>,
    /// Changed under the big lock.
    readers: AtomicU32,
    writers: AtomicU32,
    big: Global<Big>,
}

/// State that any virtual CPU may access.
struct State {
    ring: PipeRing<Frame>,
    /// A page kept from the last read for the next write.
    spare: Option<Frame>,
    /// A reader or writer moves bytes under the big lock, and may wait for memory meanwhile.
    busy: bool,
}

/// State under the big lock.
struct Big {
    /// Serialises readers and writers that move bytes.
    busy: SleepLock,
    /// Opens for reading and for writing so far.
    read_opens: Cell<u32>,
    write_opens: Cell<u32>,
    readable: Rc<WaitQueue>,
    writable: Rc<WaitQueue>,
}

impl Default for Pipe {
    fn default() -> Self {
        Self {
            state: SpinLock::new(Rank::Pipe, State { ring: PipeRing::with_room(), spare: None, busy: false }),
            readers: AtomicU32::new(0),
            writers: AtomicU32::new(0),
            big: Global::new(Big {
                busy: SleepLock::default(),
                read_opens: Cell::new(0),
                write_opens: Cell::new(0),
                readable: WaitQueue::for_unlocked(),
                writable: WaitQueue::for_unlocked(),
            }),
        }
    }
}

/// The pipe is in use: other handlers wait, calls without the big lock fail over to theirs.
struct Busy<'a>(&'a Pipe, #[allow(dead_code, reason = "held")] SleepGuard<'a>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.state.lock().busy = false;
    }
}

impl Pipe {
    fn busy(&self) -> Busy<'_> {
        let guard = self.big.busy.lock();
        self.state.lock().busy = true;
        Busy(self, guard)
    }

    fn readers(&self) -> u32 {
        self.readers.load(Relaxed)
    }

    fn writers(&self) -> u32 {
        self.writers.load(Relaxed)
    }

    fn add(&self, flags: u32) {
        let access = flags & g::O_ACCMODE;
        let big = &*self.big;
        if access != g::O_WRONLY {
            self.readers.store(self.readers() + 1, Relaxed);
            big.read_opens.set(big.read_opens.get().wrapping_add(1));
        }
        if access != g::O_RDONLY {
            self.writers.store(self.writers() + 1, Relaxed);
            big.write_opens.set(big.write_opens.get().wrapping_add(1));
        }
        self.wake_all();
    }

    fn remove(&self, flags: u32) {
        let access = flags & g::O_ACCMODE;
        let mut state = self.state.lock();
        if access != g::O_WRONLY {
            self.readers.store(self.readers().saturating_sub(1), Relaxed);
        }
        if access != g::O_RDONLY {
            self.writers.store(self.writers().saturating_sub(1), Relaxed);
        }
        if self.readers() == 0 && self.writers() == 0 {
            // A FIFO keeps no data after its last close.
            let old = (core::mem::take(&mut state.ring), state.spare.take());
            drop(state);
            drop(old);
        } else {
            drop(state);
        }
        self.wake_all();
    }

    fn wake_all(&self) {
        self.big.readable.wake_all();
        self.big.writable.wake_all();
    }

    /// Bytes inside.
    pub fn bytes(&self) -> usize {
        self.state.lock().ring.bytes()
    }

    /// Room in bytes, `F_GETPIPE_SZ`.
    pub fn capacity(&self) -> usize {
        self.state.lock().ring.slots() * PAGE
    }

    /// Changes the room, `F_SETPIPE_SZ`: the new size. EINVAL, EPERM, EBUSY, ENOMEM.
    pub fn set_capacity(&self, bytes: usize) -> Result<usize> {
        let slots = slots_for(bytes).ok_or(Errno::EINVAL)?;
        if slots > MAX_SLOTS {
            return Err(Errno::EPERM);
        }
        self.state.lock().ring.resize(slots)?;
        self.big.writable.wake_all();
        Ok(slots * PAGE)
    }

    fn page(&self) -> Result<Frame> {
        let spare = self.state.lock().spare.take();
        spare.or_else(Frame::alloc).ok_or(Errno::ENOMEM)
    }

    /// Moves available bytes, as many as fit. 0 if the pipe is empty.
    fn take_bytes(&self, dst: &mut dyn Dst) -> Result<usize> {
        let _busy = self.busy();
        let mut done = 0;
        let room = dst.remaining();
        while done < room {
            let (page, start, len, packet) = match self.state.lock().ring.front() {
                Some(piece) => (piece.page.clone(), piece.start, piece.len, piece.packet),
                None => break,
            };
            let wanted = len.min(room - done);
            let moved = match dst.put_frame(&page, start, wanted) {
                // As in Linux a piece of which not all that is wanted can be stored stays.
                Ok(moved) if moved < wanted && done > 0 => break,
                Ok(moved) if moved < wanted => return Err(Errno::EFAULT),
                Ok(moved) => moved,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            };
            drop(page);
            done += moved;
            let freed = self.state.lock().ring.consume(if packet { len } else { moved });
            self.keep(freed);
            if packet {
                break;
            }
        }
        Ok(done)
    }

    /// Keeps a page for the next write, unless it has other references (tee, a mapping).
    fn keep(&self, page: Option<Frame>) {
        if let Some(page) = page
            && page.refs() == 1
        {
            let old = self.state.lock().spare.replace(page);
            drop(old);
        }
    }

    /// Moves as much of `src` as there is room for. 0 if the pipe is full.
    fn add_bytes(&self, src: &mut dyn Src, packets: bool) -> Result<usize> {
        let _busy = self.busy();
        let mut done = 0;
        let total = src.remaining();
        // Only a partial page is appended to the newest piece, and only completely: a write of up to PIPE_BUF bytes
        // stays in one piece, which makes it atomic.
        let odd = total % PAGE;
        if odd > 0 && !packets {
            let room = self.state.lock().ring.merge_room(odd).map(|(page, end)| (page.clone(), end));
            if let Some((page, end)) = room {
                // As in Linux a page that can't be filled adds nothing.
                if src.get_frame(&page, end, odd)? < odd {
                    return Err(Errno::EFAULT);
                }
                done = odd;
                self.state.lock().ring.merged(done);
            }
        }
        while done < total && self.has_room() {
            let page = match self.page() {
                Ok(page) => page,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            };
            let want = (total - done).min(PAGE);
            let len = match src.get_frame(&page, 0, want) {
                Ok(len) if len == want => len,
                Ok(_) if done == 0 => return Err(Errno::EFAULT),
                Ok(_) => break,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            };
            done += len;
            let piece = Piece { page, start: 0, len, mergeable: !packets, packet: packets };
            let pushed = self.state.lock().ring.push(piece);
            if pushed.is_err() {
                break;
            }
        }
        Ok(done)
    }

    /// Waits until there is something to read. `false` at the end of the file.
    pub fn wait_readable(&self, nonblocking: bool) -> Result<bool> {
        let check = || {
            if !self.state.lock().ring.is_empty() {
                return Some(true);
            }
            (self.writers() == 0).then_some(false)
        };
        if let Some(answer) = check() {
            return Ok(answer);
        }
        if nonblocking {
            return Err(Errno::EAGAIN);
        }
        wait_on(&self.big.readable, check)
    }

    /// Waits until there is a free slot. EPIPE (and SIGPIPE) without readers.
    pub fn wait_writable(&self, nonblocking: bool) -> Result<()> {
        let check = || (self.is_broken() || self.has_room()).then_some(());
        if check().is_none() {
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            wait_on(&self.big.writable, check)?;
        }
        if self.is_broken() { Err(broken_pipe()) } else { Ok(()) }
    }

    /// Takes the oldest piece, at most `max` bytes of it (splice).
    pub fn take_piece(&self, max: usize) -> Option<Piece<Frame>> {
        let _busy = self.busy();
        let mut state = self.state.lock();
        let ring = &mut state.ring;
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
        drop(state);
        self.big.writable.wake_all();
        Some(piece)
    }

    /// A copy of piece number `index`, at most `max` bytes of it (tee). Both then share the page.
    pub fn peek_piece(&self, index: usize, max: usize) -> Option<Piece<Frame>> {
        let mut piece = self.state.lock().ring.get(index)?.clone();
        piece.len = piece.len.min(max);
        piece.mergeable = false;
        Some(piece)
    }

    /// Adds a piece (splice, tee); returns it if there is no slot.
    pub fn push_piece(&self, piece: Piece<Frame>) -> core::result::Result<(), Piece<Frame>> {
        let _busy = self.busy();
        let pushed = self.state.lock().ring.push(piece);
        if pushed.is_ok() {
            self.big.readable.wake_all();
        }
        pushed
    }

    /// Puts a piece of [`Pipe::take_piece`] back in front.
    pub fn put_back(&self, piece: Piece<Frame>) {
        self.state.lock().ring.push_front(piece);
        self.big.readable.wake_all();
    }

    /// Piece number `index` shares its page now: appending to that page is forbidden.
    pub fn share_piece(&self, index: usize) {
        self.state.lock().ring.seal(index);
    }

    /// There is a free slot.
    pub fn has_room(&self) -> bool {
        !self.state.lock().ring.is_full()
    }

    /// Whether there are no readers.
    pub fn is_broken(&self) -> bool {
        self.readers() == 0
    }
}
