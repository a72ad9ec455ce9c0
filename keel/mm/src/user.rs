//! Access to the current program's memory: typed, checked, faults resolved.
//!
//! Every function may fault and so block: hold no `RefCell` borrow around a call. EFAULT for
//! addresses that are not mapped accordingly.

use super::caller::caller;
use super::{Access, FaultError};
use abi::layout::USER_TOP;
use alloc::vec::Vec;
use hal::user::{self as raw, Stopped};
use sched::{self, Interrupt};
use uapi::{Errno, Result, UserAbi};

pub use super::user_io::{IOV_MAX, MAX_RW_COUNT, UserDst, UserSrc};

/// Whether `[addr, addr + len)` is in the user address range. EFAULT.
#[inline]
pub fn access_ok(addr: usize, len: usize) -> Result<()> {
    if addr <= USER_TOP && len <= USER_TOP - addr { Ok(()) } else { Err(Errno::EFAULT) }
}

/// Resolves the fault of an access. EFAULT if it can't be resolved.
#[cold]
fn resolve(stopped: Stopped, access: Access) -> Result<()> {
    sched::with_current(|me| me.count(|u| u.minor_faults += 1));
    loop {
        match caller().space().fault(stopped.address, access) {
            Ok(()) => return Ok(()),
            // As for programs: another process is killed, unless this one is.
            Err(FaultError::NoMemory) if !sched::current().is_interrupted(Interrupt::ByKill) => {
                caller().make_room(stopped.address);
            }
            Err(_) => return Err(Errno::EFAULT),
        }
    }
}

/// Repeats `attempt` until no page is missing.
#[inline(always)]
fn retry<T>(access: Access, mut attempt: impl FnMut() -> core::result::Result<T, Stopped>) -> Result<T> {
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(stopped) => resolve(stopped, access)?,
        }
    }
}

/// Repeats `step(done)`, which moves bytes after the first `done` of `len`, until all are moved or a fault can't be
/// resolved; returns the number of moved bytes.
#[inline(always)]
pub(super) fn pump(
    len: usize,
    access: Access,
    mut step: impl FnMut(usize) -> core::result::Result<(), Stopped>,
) -> usize {
    let mut done = 0;
    loop {
        match step(done) {
            // Bytes read from a lost page are zeros, and bytes written to it are lost: start again.
            _ if super::answer_losses() => done = 0,
            Ok(()) => return len,
            Err(stopped) => {
                done = len.min(done + stopped.done);
                if resolve(stopped, access).is_err() {
                    return done;
                }
            }
        }
    }
}

/// Success if complete, else EFAULT.
#[inline(always)]
fn whole(len: usize, done: usize) -> Result<()> {
    if done == len { Ok(()) } else { Err(Errno::EFAULT) }
}

/// Reads a value.
#[inline]
pub fn read<T: UserAbi>(addr: usize) -> Result<T> {
    retry(Access::Read, || raw::copy_in_value(addr))
}

/// Writes a value.
#[inline]
pub fn write<T: UserAbi>(addr: usize, value: &T) -> Result<()> {
    retry(Access::Write, || raw::copy_out_value(addr, value))
}

/// Reads `count` values. ENOMEM if out of memory.
pub fn read_array<T: UserAbi>(addr: usize, count: usize) -> Result<Vec<T>> {
    access_ok(addr, count.checked_mul(size_of::<T>()).ok_or(Errno::EFAULT)?)?;
    let mut values = Vec::new();
    values.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
    for i in 0..count {
        values.push(read(addr + i * size_of::<T>())?);
    }
    Ok(values)
}

/// Fills `dst` from the program.
#[inline]
pub fn read_bytes(addr: usize, dst: &mut [u8]) -> Result<()> {
    let len = dst.len();
    whole(len, pump(len, Access::Read, |done| raw::copy_in(&mut dst[done..], addr.saturating_add(done))))
}

/// Copies `src` to the program.
#[inline]
pub fn write_bytes(addr: usize, src: &[u8]) -> Result<()> {
    let len = src.len();
    whole(len, pump(len, Access::Write, |done| raw::copy_out(addr.saturating_add(done), &src[done..])))
}

/// Zeroes program memory.
pub fn clear(addr: usize, len: usize) -> Result<()> {
    whole(len, pump(len, Access::Write, |done| raw::clear(addr.saturating_add(done), len - done)))
}

/// Reads a string up to its zero byte (excluded). ENAMETOOLONG if there is none in `max` bytes.
pub fn read_cstr(addr: usize, max: usize) -> Result<Vec<u8>> {
    // Most strings are short paths and arguments: one copy into a small buffer.
    let mut chunk = [0u8; 256];
    let mut string = Vec::new();
    loop {
        let room = chunk.len().min(max - string.len());
        if room == 0 {
            return Err(Errno::ENAMETOOLONG);
        }
        let at = addr.checked_add(string.len()).ok_or(Errno::EFAULT)?;
        let found = retry(Access::Read, || raw::copy_in_str(&mut chunk[..room], at))?;
        let len = found.unwrap_or(room);
        string.try_reserve(len).map_err(|_| Errno::ENOMEM)?;
        string.extend_from_slice(&chunk[..len]);
        if found.is_some() {
            return Ok(string);
        }
    }
}

/// Reads a futex word.
#[inline]
pub fn load_u32(addr: usize) -> Result<u32> {
    retry(Access::Read, || raw::load_u32(addr))
}

/// Compare-and-exchange of a futex word; returns the old value.
#[inline]
pub fn cmpxchg_u32(addr: usize, old: u32, new: u32) -> Result<u32> {
    retry(Access::Write, || raw::cmpxchg_u32(addr, old, new))
}
