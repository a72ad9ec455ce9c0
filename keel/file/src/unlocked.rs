//! What calls without the big lock know of open files.
//!
//! Beside the descriptions of a table lie, for those files that have an unlocked way, values that any virtual CPU may
//! look at ([`Core`]); see `syscall::unlocked` of the kernel.

mod regular;

pub use regular::Regular;

use super::File;
use super::epoll::Ready;
use super::eventfd::Counter;
use super::pipe::Pipe;
use alloc::sync::Arc;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use hal::sync::grace::Slots;
use hal::user as raw;
use mm::user::MAX_RW_COUNT;
use sched::wait::{Told, WaitQueue};
use uapi::raw::general as g;

/// What a table of descriptors has beside its descriptions.
pub type Cores = Slots<Core>;

/// Label of the null device, open for reading.
pub const GIVES_NOTHING: u32 = 1;
/// The same, open for writing.
pub const TAKES_ALL: u32 = 2;

/// An open file.
#[derive(Debug)]
pub struct Core {
    /// Opened for reading: that never changes.
    readable: bool,
    /// Opened for writing.
    writable: bool,
    /// `O_DIRECT` is set: a pipe of packets.
    direct: AtomicBool,
    /// The description was closed.
    gone: AtomicBool,
    /// What it is.
    pub kind: Kind,
}

/// A connected local socket, for calls without the big lock.
pub trait LocalSocket: Send + Sync {
    /// send(2). `enter` takes the big lock, at most once, if a receiver has to be woken. `None`: call the handler.
    fn send(&self, from: &Buffers<'_>, enter: &mut dyn FnMut()) -> Option<Moved>;
    /// recv(2) in the same way. `finish` stores the other results for the program, before any change.
    fn receive(
        &self,
        into: &Buffers<'_>,
        finish: Option<&mut dyn FnMut() -> Option<()>>,
        enter: &mut dyn FnMut(),
    ) -> Option<Moved>;
    /// poll(2) events of a connection without a shutdown. `None`: call the socket's poll.
    fn poll(&self) -> Option<u32>;
}

/// What it is.
pub enum Kind {
    /// The null device.
    Null,
    /// An end of a pipe.
    Pipe(Arc<Pipe>),
    /// A local socket.
    Unix(Arc<dyn LocalSocket>),
    /// An event counter.
    Counter(Arc<Counter>),
    /// An epoll instance.
    Epoll(Arc<Ready>),
    /// A regular file.
    Regular(Regular),
}

/// Bytes that were moved, and whether waiters may have to be told, or the big lock was taken for that.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Bytes.
    pub bytes: usize,
    /// What others may wait for was made possible; then: the big lock is held.
    pub wakes: bool,
}

/// Buffers of the program: addresses and lengths, which can belong to a program.
#[derive(Clone, Copy, Debug)]
pub struct Buffers<'a>(pub &'a [(usize, usize)]);

impl Buffers<'_> {
    /// Bytes in all.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(_, len)| len).sum()
    }

    /// Fills `to` with their first bytes, of which there are so many. `None`: a page is missing.
    pub fn fill(&self, to: &mut [u8]) -> Option<()> {
        let mut rest = to;
        for (address, len) in self.0 {
            let (now, later) = rest.split_at_mut((*len).min(rest.len()));
            raw::copy_in(now, *address).ok()?;
            rest = later;
        }
        Some(())
    }

    /// Stores bytes behind the first `skip` ones. `None`: a page is missing, or there is no room.
    pub fn store(&self, mut skip: usize, from: &[u8]) -> Option<()> {
        let mut rest = from;
        for (address, len) in self.0 {
            if rest.is_empty() {
                break;
            }
            let now = len.saturating_sub(skip).min(rest.len());
            raw::copy_out(address + skip.min(*len), rest.get(..now)?).ok()?;
            rest = rest.get(now..)?;
            skip = skip.saturating_sub(*len);
        }
        rest.is_empty().then_some(())
    }
}

impl core::fmt::Debug for Kind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Null => "Null",
            Self::Pipe(_) => "Pipe",
            Self::Unix(_) => "Unix",
            Self::Counter(_) => "Counter",
            Self::Epoll(_) => "Epoll",
            Self::Regular(_) => "Regular",
        })
    }
}

impl Core {
    /// Opened for writing, or for reading.
    #[inline(always)]
    pub fn allows(&self, write: bool) -> bool {
        if write { self.writable } else { self.readable }
    }

    /// What the descriptors' places say of it.
    pub fn label(&self) -> u32 {
        match self.kind {
            Kind::Null => (u32::from(self.readable) * GIVES_NOTHING) | (u32::from(self.writable) * TAKES_ALL),
            Kind::Pipe(_) | Kind::Unix(_) | Kind::Counter(_) | Kind::Epoll(_) | Kind::Regular(_) => 0,
        }
    }

    /// read(2) or write(2) without the big lock; `enter` takes that if somebody has to be woken. `None`: nothing was done.
    #[inline(always)]
    pub fn transfer(&self, write: bool, buffers: &Buffers<'_>, enter: impl FnOnce()) -> Option<Moved> {
        match &self.kind {
            Kind::Null | Kind::Epoll(_) | Kind::Regular(_) => None,
            Kind::Pipe(pipe) => self.through_pipe(pipe, write, buffers, enter),
            Kind::Unix(end) if write => end.send(buffers, &mut once(enter)),
            Kind::Unix(end) => end.receive(buffers, None, &mut once(enter)),
            Kind::Counter(counter) => {
                let bytes = if write { counter.write_unlocked(buffers)? } else { counter.read_unlocked(buffers)? };
                Some(Moved { bytes, wakes: announce(counter.waiters(write), write, enter) })
            }
        }
    }

    fn through_pipe(&self, pipe: &Pipe, write: bool, buffers: &Buffers<'_>, enter: impl FnOnce()) -> Option<Moved> {
        let [(address, count)] = *buffers.0 else { return None };
        // Events are for files with names, as FIFOs have them; packets are left to the handler.
        if vfs::notify::is_on() || write && self.direct.load(Relaxed) {
            return None;
        }
        let count = count.min(MAX_RW_COUNT);
        let moved = if write { pipe.write_unlocked(address, count)? } else { pipe.read_unlocked(address, count)? };
        let wakes = moved.wakes && announce(pipe.waiters(write), write, enter);
        Some(Moved { wakes, ..moved })
    }

    /// send(2) without flags that mean something, as [`Core::transfer`].
    #[inline(always)]
    pub fn send(&self, buffers: &Buffers<'_>, enter: impl FnOnce()) -> Option<Moved> {
        let Kind::Unix(end) = &self.kind else { return None };
        end.send(buffers, &mut once(enter))
    }

    /// recv(2) in the same way. `finish` stores what else the program gets, before anything changes.
    #[inline(always)]
    pub fn receive(
        &self,
        buffers: &Buffers<'_>,
        finish: impl FnOnce() -> Option<()>,
        enter: impl FnOnce(),
    ) -> Option<Moved> {
        let Kind::Unix(end) = &self.kind else { return None };
        let mut finish = Some(finish);
        end.receive(buffers, Some(&mut || finish.take().and_then(|finish| finish())), &mut once(enter))
    }

    /// Whether [`Core::poll`] may know something.
    pub fn can_poll(&self) -> bool {
        matches!(self.kind, Kind::Pipe(_) | Kind::Unix(_) | Kind::Counter(_))
    }

    /// poll(2) events now, without the big lock. `None`: the file has to be asked.
    #[inline]
    pub fn poll(&self) -> Option<u32> {
        if self.gone.load(Relaxed) {
            return None;
        }
        match &self.kind {
            Kind::Null | Kind::Epoll(_) | Kind::Regular(_) => None,
            Kind::Pipe(pipe) => pipe.poll_unlocked(self.readable, self.writable),
            Kind::Unix(end) => end.poll(),
            Kind::Counter(counter) => Some(counter.poll()),
        }
    }
}

/// `f`, called at the first call only.
fn once(f: impl FnOnce()) -> impl FnMut() {
    let mut f = Some(f);
    move || {
        if let Some(f) = f.take() {
            f();
        }
    }
}

/// Tells those who wait for what a call without the big lock did; if some have to be woken, `enter` takes the lock. Whether
/// it did.
#[inline]
pub fn announce(queue: &WaitQueue, data: bool, enter: impl FnOnce()) -> bool {
    match queue.tell() {
        Told::All => return false,
        Told::Sleepers => {
            enter();
            queue.wake_told();
        }
        Told::Waiters => {
            enter();
            if data { queue.wake_for_data() } else { queue.wake_all() }
        }
    }
    true
}

impl File {
    /// The file has an unlocked way from now on. It is not behind a descriptor yet.
    pub fn give_unlocked_way(&self, kind: Kind) {
        let direct = AtomicBool::new(self.flags.get() & g::O_DIRECT != 0);
        let core =
            Core { readable: self.readable(), writable: self.writable(), direct, gone: AtomicBool::new(false), kind };
        if self.flags.get() & g::O_PATH == 0 {
            // A second one would change nothing.
            let _ = self.unlocked.set(Arc::new(core));
        }
    }

    /// read(2) or write(2) the way that needs no lock, for a call that has the big lock: it is the shortest for bytes that
    /// are there, and room that is. `None`: nothing was done.
    #[inline]
    pub fn move_at_once(&self, write: bool, address: usize, count: usize) -> Option<usize> {
        let core = self.unlocked.get()?;
        let buffers = Buffers(&[(address, count)]);
        let moved = core.transfer(write, &buffers, || ())?;
        if write {
            super::count_write(moved.bytes)
        } else {
            super::count_read(moved.bytes)
        }
        Some(moved.bytes)
    }

    /// send(2) in the same way.
    pub fn send_at_once(&self, address: usize, count: usize) -> Option<usize> {
        let core = self.unlocked.get()?;
        Some(core.send(&Buffers(&[(address, count)]), || ())?.bytes)
    }

    /// recv(2) in the same way.
    pub fn receive_at_once(&self, address: usize, count: usize) -> Option<usize> {
        let core = self.unlocked.get()?;
        Some(core.receive(&Buffers(&[(address, count)]), || Some(()), || ())?.bytes)
    }

    /// It was closed: its epoll items end.
    pub fn set_gone(&self) {
        if let Some(core) = self.unlocked.get() {
            core.gone.store(true, Relaxed);
        }
    }

    /// Flags were changed by fcntl(2).
    pub fn flags_changed(&self) {
        if let Some(core) = self.unlocked.get() {
            core.direct.store(self.flags.get() & g::O_DIRECT != 0, Relaxed);
        }
    }
}
