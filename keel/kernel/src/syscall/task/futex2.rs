//! The futex2 calls: futex_waitv(2), futex_wait, futex_wake, futex_requeue.

use crate::mm::user;
use crate::task::futex;
use crate::time::{clock::Clock, read_timespec};
use alloc::vec::Vec;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Flags of a word: its size (only 32 bits, as in Linux), and private.
const SIZE_MASK: u32 = 3;
const SIZE_U32: u32 = 2;
const PRIVATE: u32 = g::FUTEX_PRIVATE_FLAG;
/// Maximum number of words of a call.
const WAITV_MAX: u32 = 128;

/// Whether a word is private. EINVAL.
fn is_private(flags: u32) -> Result<bool> {
    if flags & !(SIZE_MASK | PRIVATE) != 0 || flags & SIZE_MASK != SIZE_U32 {
        return Err(Errno::EINVAL);
    }
    Ok(flags & PRIVATE != 0)
}

/// A value or mask of a word. EINVAL.
fn word(value: u64) -> Result<u32> {
    u32::try_from(value).map_err(|_| Errno::EINVAL)
}

/// A time limit of a clock. EFAULT, EINVAL.
fn deadline(at: usize, clock: i32) -> Result<Option<u64>> {
    if at == 0 {
        return Ok(None);
    }
    let clock = match clock as u32 {
        g::CLOCK_REALTIME => Clock::Realtime,
        g::CLOCK_MONOTONIC => Clock::Monotonic,
        _ => return Err(Errno::EINVAL),
    };
    Ok(Some(clock.to_monotonic(read_timespec(at)?)))
}

/// Reads an array of `struct futex_waitv`: address, whether private, value. EFAULT, EINVAL.
fn read_waiters(at: usize, count: usize) -> Result<Vec<(usize, bool, u32)>> {
    let mut waiters = Vec::with_capacity(count);
    for i in 0..count {
        let [value, address, flags]: [u64; 3] = user::read(at.checked_add(i * 24).ok_or(Errno::EFAULT)?)?;
        if flags >> 32 != 0 {
            return Err(Errno::EINVAL);
        }
        waiters.push((address as usize, is_private(flags as u32)?, word(value)?));
    }
    Ok(waiters)
}

/// futex_waitv(2): returns the index of the woken word. EAGAIN, EFAULT, EINTR, EINVAL, ETIMEDOUT.
pub fn sys_futex_waitv(waiters: usize, count: u32, flags: u32, timeout: usize, clock: i32) -> Result<usize> {
    if flags != 0 || count == 0 || count > WAITV_MAX || waiters == 0 {
        return Err(Errno::EINVAL);
    }
    let deadline = deadline(timeout, clock)?;
    let waiters = read_waiters(waiters, count as usize)?;
    futex::wait_any(&waiters, deadline)
}

/// futex_wake: returns the number of woken waiters. EFAULT, EINVAL.
pub fn sys_futex_wake(address: usize, mask: u64, count: i32, flags: u32) -> Result<usize> {
    let private = is_private(flags)?;
    let mask = word(mask)?;
    if mask == 0 {
        return Err(Errno::EINVAL);
    }
    let key = futex::key(address, private)?;
    if count == 0 { Ok(0) } else { futex::wake(key, count.max(1) as usize, mask) }
}

/// futex_wait. EAGAIN, EFAULT, EINTR, EINVAL, ETIMEDOUT.
pub fn sys_futex_wait(address: usize, value: u64, mask: u64, flags: u32, timeout: usize, clock: i32) -> Result<()> {
    let private = is_private(flags)?;
    let (value, mask) = (word(value)?, word(mask)?);
    let deadline = deadline(timeout, clock)?;
    futex::wait(address, private, value, mask, deadline)
}

/// futex_requeue: returns the number of woken or requeued waiters. EAGAIN, EFAULT, EINVAL.
pub fn sys_futex_requeue(waiters: usize, flags: u32, wake_count: i32, move_count: i32) -> Result<usize> {
    if flags != 0 || waiters == 0 {
        return Err(Errno::EINVAL);
    }
    let words = read_waiters(waiters, 2)?;
    let [(from, from_private, value), (to, to_private, _)] = words[..] else { return Err(Errno::EINVAL) };
    if from_private != to_private {
        return Err(Errno::EINVAL);
    }
    let count = |n: i32| usize::try_from(n).map_err(|_| Errno::EINVAL);
    let (wakes, moves) = (count(wake_count)?, count(move_count)?);
    let (from_key, to_key) = (futex::key(from, from_private)?, futex::key(to, to_private)?);
    if user::load_u32(from)? != value {
        return Err(Errno::EAGAIN);
    }
    futex::requeue(from_key, to_key, wakes, moves)
}
