//! Reading signals from a file, signalfd(2).

use crate::file::{Abilities, File, FileOps, Queues, anon, wait_on};
use crate::mm::user;
use crate::signal::{SigInfo, UNBLOCKABLE, code, pending};
use crate::task;
use crate::task::descriptors;
use crate::task::descriptors::current_file;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::Cell;
use keel_core::sigset::SigSet;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::memory::Text;
use vfs::{Attr, Dst};

/// Bytes of `struct signalfd_siginfo`.
const RECORD: usize = 128;

/// Dequeues pending signals of the reading thread.
struct SignalFd {
    mask: Cell<SigSet>,
}

impl SignalFd {
    /// Dequeues a pending signal of the current thread or its process.
    fn take(&self) -> Option<SigInfo> {
        pending::take(&task::current(), self.mask.get())
    }
}

/// Converts a signal to `struct signalfd_siginfo`.
fn record(info: &SigInfo) -> [u8; RECORD] {
    let mut out = [0; RECORD];
    let mut put32 = |at: usize, value: u32| out[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    let low = |i: usize| info.fields[i] as u32;
    let high = |i: usize| (info.fields[i] >> 32) as u32;
    put32(0, info.signo as u32);
    put32(4, info.errno as u32);
    put32(8, info.code as u32);
    let child = info.signal() == g::SIGCHLD && info.code > 0 && info.code != code::KERNEL;
    let fault = info.code > 0 && info.code != code::KERNEL && !child;
    let mut words: [Option<(usize, u64)>; 3] = [None; 3];
    if info.code == code::TIMER {
        put32(24, low(0));
        put32(32, high(0));
        put32(44, low(1));
        words[0] = Some((48, info.fields[1]));
    } else if fault {
        words[0] = Some((72, info.fields[0]));
    } else {
        put32(12, low(0));
        put32(16, high(0));
        if child {
            put32(40, low(1));
            words = [Some((56, info.fields[2])), Some((64, info.fields[3])), None];
        } else if info.code == code::QUEUE {
            put32(44, low(1));
            words[0] = Some((48, info.fields[1]));
        }
    }
    for (at, value) in words.into_iter().flatten() {
        out[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }
    out
}

impl FileOps for SignalFd {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities::READ.with(Abilities::READ_FLAGS).with(Abilities::NO_WAIT)
    }

    fn read(&self, file: &File, dst: &mut dyn Dst) -> Result<usize> {
        if dst.remaining() < RECORD {
            return Err(Errno::EINVAL);
        }
        let mut next = match self.take() {
            None if file.nonblocking() => return Err(Errno::EAGAIN),
            None => {
                let arrivals = task::current().process().signal_state().arrivals();
                Some(wait_on(&arrivals, || self.take())?)
            }
            some => some,
        };
        let mut done = 0;
        while let Some(info) = next {
            done += match dst.put_all(&record(&info)) {
                Ok(()) => RECORD,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            };
            next = if dst.remaining() < RECORD { None } else { self.take() };
        }
        Ok(done)
    }

    fn attr(&self) -> Result<Attr> {
        Ok(anon::anon_attr())
    }

    fn seek(&self, file: &File, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(file.pos.get())
    }

    fn poll(&self, _file: &File) -> u32 {
        let task = task::current();
        let pending = task.signals.pending().union(task.process().signals.pending());
        if pending.intersection(self.mask.get()).is_empty() { 0 } else { g::POLLIN }
    }

    fn poll_queues(&self, _file: &File, _events: u32, out: &mut Queues) {
        out.push(task::current().process().signal_state().arrivals());
    }

    fn describe(&self, _file: &File, out: &mut Text) {
        out.print(format_args!("sigmask:\t{:016x}\n", self.mask.get().0));
    }

    fn link_name(&self) -> Vec<u8> {
        b"anon_inode:[signalfd]".to_vec()
    }
}

/// signalfd(2).
pub fn sys_signalfd(fd: i32, mask: usize, size: usize) -> Result<i32> {
    sys_signalfd4(fd, mask, size, 0)
}

/// signalfd4(2).
pub fn sys_signalfd4(fd: i32, mask: usize, size: usize, flags: u32) -> Result<i32> {
    if size != 8 {
        return Err(Errno::EINVAL);
    }
    let mask = SigSet(user::read(mask)?).without(UNBLOCKABLE);
    if flags & !(g::O_CLOEXEC | g::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    if fd == -1 {
        let ops = Rc::new(SignalFd { mask: Cell::new(mask) });
        return descriptors::install(File::new(ops, g::O_RDWR | flags & g::O_NONBLOCK, None), flags);
    }
    let file = current_file(fd)?;
    file.downcast::<SignalFd>().ok_or(Errno::EINVAL)?.mask.set(mask);
    // Waiting readers must check the new mask.
    task::current().process().signal_state().arrivals().wake_all();
    Ok(fd)
}
