//! What calls without the big lock know of open files.
//!
//! Beside the descriptions of a table lie, for those files that have an unlocked way, values that any virtual CPU may
//! look at ([`Core`]); see [`crate::syscall::unlocked`].

use super::File;
use super::pipe::{Moved, Pipe};
use crate::mm::user::MAX_RW_COUNT;
use alloc::sync::Arc;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use hal::sync::grace::Slots;
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
    /// What it is.
    pub kind: Kind,
}

/// What it is.
pub enum Kind {
    /// The null device.
    Null,
    /// An end of a pipe.
    Pipe(Arc<Pipe>),
}

impl core::fmt::Debug for Kind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Null => "Null",
            Self::Pipe(_) => "Pipe",
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
            Kind::Pipe(_) => 0,
        }
    }

    /// read(2) or write(2) without the big lock; `enter` takes that if somebody has to be woken. `None`: nothing was done.
    pub fn transfer(&self, write: bool, address: usize, count: usize, enter: impl FnOnce()) -> Option<Moved> {
        let Kind::Pipe(pipe) = &self.kind else { return None };
        // Events are for files with names, as FIFOs have them; packets are left to the handler.
        if vfs::notify::is_on() || write && self.direct.load(Relaxed) {
            return None;
        }
        let count = count.min(MAX_RW_COUNT);
        let moved = if write { pipe.write_unlocked(address, count)? } else { pipe.read_unlocked(address, count)? };
        if moved.wakes {
            enter();
            if write { pipe.was_written() } else { pipe.was_read() }
        }
        Some(moved)
    }
}

impl File {
    /// The file has an unlocked way from now on. It is not behind a descriptor yet.
    pub fn give_unlocked_way(&self, kind: Kind) {
        let direct = AtomicBool::new(self.flags.get() & g::O_DIRECT != 0);
        let core = Core { readable: self.readable(), writable: self.writable(), direct, kind };
        if self.flags.get() & g::O_PATH == 0 {
            // A second one would change nothing.
            let _ = self.unlocked.set(Arc::new(core));
        }
    }

    /// read(2) or write(2) the way that needs no lock, for a call that has the big lock: it is the shortest for bytes that
    /// are there, and room that is. `None`: nothing was done.
    #[inline]
    pub fn move_at_once(&self, write: bool, address: usize, count: usize) -> Option<usize> {
        let moved = self.unlocked.get()?.transfer(write, address, count, || ())?;
        if write {
            super::count_write(moved.bytes)
        } else {
            super::count_read(moved.bytes)
        }
        Some(moved.bytes)
    }

    /// Flags were changed by fcntl(2).
    pub fn flags_changed(&self) {
        if let Some(core) = self.unlocked.get() {
            core.direct.store(self.flags.get() & g::O_DIRECT != 0, Relaxed);
        }
    }
}
