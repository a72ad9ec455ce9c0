//! Calls and page faults that are served without the big lock while several virtual CPUs are awake.
//!
//! Until it takes the lock, a call counts as the program for the other virtual CPUs: who stops the program
//! ([`hal::smp`]) waits until the call is over, so program memory and page tables stay, and no thread runs here meanwhile.
//! What a call looks at here is the thread's own, or fit for being shared: atomic words,
//! [published values](hal::sync::grace), values under a [`SpinLock`](hal::sync::SpinLock). Cells, and counted handles of
//! other objects, are not touched.
//!
//! A call is either served as a whole, or left to its handler as if nothing had happened: when it would wait, when it
//! fails, when a page is missing. One that has to wake others is served and then takes the lock for that.

mod file;
mod memory;
pub mod open;
mod path;
pub mod socket;

use super::file::{epoll, poll};
use super::{exception, history, share};
use crate::file::spare;
use crate::file::unlocked::{Buffers, Core, Kind, Moved};
use crate::mm::user::access_ok;
use crate::task::watch;
use crate::task::{Task, futex, try_borrow_current};
use hal::hooks::Unlocked;
use hal::sync::grace::{self, Reading};
use hal::trap::{FaultInfo, TrapFrame};
use hal::{clock, percpu, smp};
use uapi::raw::general as g;

/// hal's hook: a call of the current thread.
pub fn serve(frame: &mut TrapFrame) -> Unlocked {
    if watch::is_on() || share::is_next() {
        return Unlocked::Left;
    }
    let number = frame.number();
    let Some((result, outcome)) = attempt(frame, number as u32) else { return Unlocked::Left };
    share::pass();
    frame.set_result(result as u64);
    history::note(frame, number, result);
    if outcome == Unlocked::Held && percpu::work_pending() {
        super::finish(frame, Some(number));
        return Unlocked::Full;
    }
    outcome
}

/// hal's hook: an exception of the current thread; whether it was served. What the program shall learn of it is left.
pub fn fault(info: FaultInfo) -> bool {
    if info.vector != exception::PAGE_FAULT || hal::watch::is_scarce() {
        return false;
    }
    let began = clock::stamp();
    let Some(current) = try_borrow_current() else { return false };
    let Some(task) = current.as_ref() else { return false };
    let access = exception::access(info.code);
    let served = grace::read(|reading| {
        task.unlocked_space.get(reading).is_some_and(|space| space.fault(info.address as usize, access))
    });
    if served {
        task.sched.count_unlocked_fault(clock::stamp().wrapping_sub(began));
    }
    served
}

#[inline(always)]
fn attempt(frame: &TrapFrame, number: u32) -> Option<(isize, Unlocked)> {
    match number {
        g::__NR_futex => {
            let [address, op, value, timeout, _, value3] = frame.arguments();
            let result = futex::unlocked(address as usize, op as u32, value as u32, timeout as usize, value3 as u32)?;
            Some((result, Unlocked::Served))
        }
        g::__NR_read | g::__NR_write => transfer(number == g::__NR_write, frame.arguments()),
        g::__NR_epoll_wait | g::__NR_epoll_pwait => wait_for_events(frame.arguments(), number == g::__NR_epoll_pwait),
        g::__NR_poll => look(frame.arguments()),
        g::__NR_sendto | g::__NR_recvfrom | g::__NR_sendmsg | g::__NR_recvmsg => socket::attempt(frame, number),
        g::__NR_pread64 | g::__NR_readv | g::__NR_preadv | g::__NR_lseek | g::__NR_fstat => {
            file::attempt(number, frame.arguments())
        }
        g::__NR_newfstatat | g::__NR_statx => {
            file::attempt(number, frame.arguments()).or_else(|| path::attempt(number, frame.arguments()))
        }
        g::__NR_stat
        | g::__NR_lstat
        | g::__NR_access
        | g::__NR_faccessat
        | g::__NR_faccessat2
        | g::__NR_readlink
        | g::__NR_readlinkat => path::attempt(number, frame.arguments()),
        g::__NR_open | g::__NR_openat | g::__NR_close => open::attempt(number, frame.arguments()),
        g::__NR_mmap | g::__NR_munmap | g::__NR_madvise => memory::attempt(number, frame.arguments()),
        _ => None,
    }
}

/// What a call does with a description.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// It may move the position.
    Moves,
    /// It does not.
    Looks,
}

/// Calls `f` with what is known of an open file.
#[inline(always)]
fn with_core<R>(fd: u64, does: Use, f: impl FnOnce(&Core, &Task) -> Option<R>) -> Option<R> {
    let current = try_borrow_current()?;
    let task = current.as_ref()?;
    let fd = fd as u32 as usize;
    grace::read(|reading| {
        let core = match task.unlocked_files.get(reading)?.get(fd, reading) {
            Some(core) => core,
            None => lent_core(task, fd, does, reading)?,
        };
        f(core, task)
    })
}

/// What is known of a file that was opened with a [spare](spare) description.
#[inline(always)]
fn lent_core<'r>(task: &'r Task, fd: usize, does: Use, reading: &'r Reading) -> Option<&'r Core> {
    let lent = task.unlocked_lent.get(reading)?;
    let note = lent.note(fd)?;
    let core = spare::core_of(note.place)?.get(reading)?;
    if does == Use::Moves && lent.is_shared() && !spare::use_elsewhere(note.place) {
        return None;
    }
    // In this order: what was found belongs to the descriptor. A place that lent one file after the other has the same note
    // again, but not the same core, which is not freed before this section ends.
    lent.note(fd).filter(|now| *now == note)?;
    spare::core_of(note.place)?.get(reading).filter(|now| core::ptr::eq(*now, core))
}

/// epoll_wait(2), and epoll_pwait(2) without a mask.
fn wait_for_events([fd, events, max, timeout, mask, _]: [u64; 6], has_mask: bool) -> Option<(isize, Unlocked)> {
    if has_mask && mask != 0 {
        return None;
    }
    with_core(fd, Use::Looks, |core, _| {
        let Kind::Epoll(ready) = &core.kind else { return None };
        let found = epoll::wait_unlocked(ready, events as usize, max as i32, timeout as i32 == 0)?;
        Some((found as isize, Unlocked::Served))
    })
}

/// poll(2).
fn look([fds, count, timeout, ..]: [u64; 6]) -> Option<(isize, Unlocked)> {
    let current = try_borrow_current()?;
    let task = current.as_ref()?;
    grace::read(|reading| {
        let files = task.unlocked_files.get(reading)?;
        let ready = poll::poll_unlocked(files, reading, [fds as usize, count as u32 as usize], timeout as i32 == 0)?;
        Some((ready as isize, Unlocked::Served))
    })
}

/// What a call that moved bytes gives.
fn outcome(moved: Moved) -> (isize, Unlocked) {
    (moved.bytes as isize, if moved.wakes { Unlocked::Held } else { Unlocked::Served })
}

/// read(2) and write(2).
fn transfer(write: bool, [fd, address, count, ..]: [u64; 6]) -> Option<(isize, Unlocked)> {
    let (address, count) = (address as usize, count as usize);
    access_ok(address, count).ok()?;
    with_core(fd, Use::Moves, |core, task| {
        let core = Some(core).filter(|core| core.allows(write))?;
        if let Some(file) = core.regular().filter(|_| !write) {
            let done = file::from_file(file, task, None, &Buffers(&[(address, count)]))?;
            return Some((done, Unlocked::Served));
        }
        let moved = core.transfer(write, &Buffers(&[(address, count)]), smp::enter)?;
        if write {
            task.sched.io.count_write(moved.bytes);
        } else {
            task.sched.io.count_read(moved.bytes);
        }
        Some(outcome(moved))
    })
}
