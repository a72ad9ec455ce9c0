//! poll(2), and the wait for readiness that select(2) uses too.

use crate::file::table;
use crate::file::unlocked::Cores;
use crate::file::{File, Queues};
use crate::mm::user;
use crate::sched::wait::{Interrupt, wait_until};
use crate::socket::inet::outward::settle::{Under, settle};
use crate::task;
use crate::task::descriptors::current_file_in_use;
use alloc::rc::Rc;
use hal::sync::grace::Reading;
use hal::user as raw;
use keel_core::sigset::SigSet;
use smallvec::SmallVec;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Not at all.
    Now,
    /// Until this `CLOCK_MONOTONIC` time in ns.
    At(u64),
    /// For ever.
    Never,
}

impl Timeout {
    /// From now on; nothing: for ever.
    pub fn after_ns(ns: Option<u64>) -> Self {
        match ns {
            None => Self::Never,
            Some(0) => Self::Now,
            Some(ns) => Self::At(hal::clock::monotonic_ns().saturating_add(ns)),
        }
    }

    /// From milliseconds as poll(2) and epoll_wait(2) have them: negative is for ever.
    pub fn after_ms(ms: i32) -> Self {
        Self::after_ns(u64::try_from(ms).ok().map(|ms| ms * 1_000_000))
    }

    /// From a `struct timespec` of the program; a null pointer is for ever. EFAULT, EINVAL.
    pub fn from_timespec(address: usize) -> Result<Self> {
        if address == 0 {
            return Ok(Self::Never);
        }
        let [seconds, nanoseconds]: [i64; 2] = user::read(address)?;
        if seconds < 0 || !(0..1_000_000_000).contains(&nanoseconds) {
            return Err(Errno::EINVAL);
        }
        Ok(Self::after_ns(Some((seconds as u64).saturating_mul(1_000_000_000).saturating_add(nanoseconds as u64))))
    }

    /// What is left, in ns; 0 for those without end.
    pub fn left_ns(self) -> u64 {
        match self {
            Self::At(deadline) => deadline.saturating_sub(hal::clock::monotonic_ns()),
            Self::Now | Self::Never => 0,
        }
    }

    /// For [`wait_until`].
    pub fn deadline(self) -> Option<u64> {
        match self {
            Self::At(deadline) => Some(deadline),
            Self::Now => Some(0),
            Self::Never => None,
        }
    }
}

/// A file that is watched.
#[derive(Debug)]
pub struct Watch {
    /// The file; `None`: nothing to watch, `found` stays.
    pub file: Option<Rc<File>>,
    /// Events wanted (POLLERR and POLLHUP always are).
    pub events: u32,
    /// Events found.
    pub found: u32,
}

/// Polls all descriptors; returns how many are ready.
fn scan(watches: &mut [Watch]) -> usize {
    let mut ready = 0;
    for watch in watches {
        if let Some(file) = &watch.file {
            watch.found = file.ops.poll(file) & (watch.events | g::POLLERR | g::POLLHUP);
        }
        ready += usize::from(watch.found != 0);
    }
    ready
}

/// Waits until one of the files is ready: how many are. 0 after the timeout. ERESTARTNOHAND.
pub fn wait_ready(watches: &mut [Watch], timeout: Timeout) -> Result<usize> {
    settle(Under::Data);
    for watch in &*watches {
        if let Some(file) = watch.file.as_ref().filter(|file| file.ops.poll_needs_prepare()) {
            file.ops.poll_prepare(file, watch.events, timeout != Timeout::Now);
        }
    }
    let ready = scan(watches);
    if ready > 0 || timeout == Timeout::Now {
        return Ok(ready);
    }
    let mut queues = Queues::new();
    for watch in &*watches {
        if let Some(file) = &watch.file {
            file.ops.poll_queues(file, watch.events, &mut queues);
        }
    }
    let check = || Some(scan(watches)).filter(|&ready| ready > 0);
    match wait_until(&queues, timeout.deadline(), Interrupt::BySignal, check) {
        Err(Errno::ETIMEDOUT) => Ok(0),
        Err(Errno::ERESTARTSYS) => Err(Errno::ERESTARTNOHAND),
        other => other,
    }
}

/// poll(2).
pub fn sys_poll(fds: usize, count: u32, timeout_ms: i32) -> Result<usize> {
    poll(fds, count as usize, Timeout::after_ms(timeout_ms))
}

/// ppoll(2). The time left is written back.
pub fn sys_ppoll(fds: usize, count: u32, timeout: usize, mask: usize, mask_size: usize) -> Result<usize> {
    let until = Timeout::from_timespec(timeout)?;
    let result = with_mask(mask, mask_size, || poll(fds, count as usize, until));
    if timeout != 0 && !keeps_timeouts() {
        let left = until.left_ns();
        // As in Linux, a time that can't be stored does not spoil the result.
        let _ = user::write(timeout, &[left / 1_000_000_000, left % 1_000_000_000]);
    }
    result
}

/// Whether the thread's personality(2) is that timeouts are left as they are.
pub fn keeps_timeouts() -> bool {
    const STICKY_TIMEOUTS: u32 = 0x0400_0000;
    task::with_current(|me| me.personality.get() & STICKY_TIMEOUTS != 0)
}

/// Most descriptors of a poll without the big lock.
const MOST_UNLOCKED: usize = 16;

/// Looks at descriptors without the big lock: how many are ready. `None`: left to the handler, also if none is ready, unless
/// it shall be `at_once`.
pub fn poll_unlocked(files: &Cores, reading: &Reading, [fds, count]: [usize; 2], at_once: bool) -> Option<usize> {
    if count > MOST_UNLOCKED || !table::all_may_have(MOST_UNLOCKED) {
        return None;
    }
    user::access_ok(fds, count * SIZE).ok()?;
    let mut found = [0u16; MOST_UNLOCKED];
    let mut ready = 0;
    for (i, found) in found.iter_mut().enumerate().take(count) {
        let entry: g::pollfd = raw::copy_in_value(fds + i * SIZE).ok()?;
        if entry.fd >= 0 {
            let events = u32::from(entry.events as u16) | g::POLLERR | g::POLLHUP;
            *found = (files.get(entry.fd as usize, reading)?.poll()? & events) as u16;
        }
        ready += usize::from(*found != 0);
    }
    if ready == 0 && !at_once {
        return None;
    }
    for (i, found) in found.iter().enumerate().take(count) {
        raw::copy_out_value(fds + i * SIZE + REVENTS, found).ok()?;
    }
    (!hal::ring::has_losses()).then_some(ready)
}

/// Bytes of a `struct pollfd`, and where its events are stored.
const SIZE: usize = size_of::<g::pollfd>();
const REVENTS: usize = core::mem::offset_of!(g::pollfd, revents);

fn poll(fds: usize, count: usize, timeout: Timeout) -> Result<usize> {
    if count > table::limit() {
        return Err(Errno::EINVAL);
    }
    user::access_ok(fds, count * SIZE)?;
    let mut watches: SmallVec<[Watch; 8]> = SmallVec::new();
    watches.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
    for i in 0..count {
        let entry: g::pollfd = user::read(fds + i * SIZE)?;
        let mut watch = Watch { file: None, events: u32::from(entry.events as u16), found: 0 };
        if entry.fd >= 0 {
            match current_file_in_use(entry.fd) {
                Ok(file) => watch.file = Some(file),
                Err(_) => watch.found = g::POLLNVAL,
            }
        }
        watches.push(watch);
    }
    let bad = watches.iter().any(|watch| watch.found != 0);
    let ready = wait_ready(&mut watches, if bad { Timeout::Now } else { timeout })?;
    for (i, watch) in watches.iter().enumerate() {
        user::write(fds + i * SIZE + REVENTS, &(watch.found as u16))?;
    }
    Ok(ready)
}

/// Runs `f` under another signal mask, as ppoll(2), pselect(2) and epoll_pwait(2) do. Null: the same.
/// When a signal ends `f`, the mask stays for its delivery. EINVAL, EFAULT.
pub fn with_mask<T>(mask: usize, size: usize, f: impl FnOnce() -> Result<T>) -> Result<T> {
    if mask == 0 {
        return f();
    }
    if size != 8 {
        return Err(Errno::EINVAL);
    }
    let set = SigSet(user::read(mask)?);
    let task = task::current();
    task.set_mask_for_call(set);
    let result = f();
    let interrupted = matches!(result, Err(errno) if errno.is_restart() || errno == Errno::EINTR);
    if !interrupted && let Some(saved) = task.signals.saved_mask.take() {
        task.set_blocked(saved);
    }
    result
}
