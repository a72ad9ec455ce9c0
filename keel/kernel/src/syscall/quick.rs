//! Calls that are over before a frame of all registers would be stored.
//!
//! The gate asks [`quick`] first. It serves what needs a few loads: ids, and the null device. What it does not
//! serve, errors included, is left to the call's handler, which then runs as if nothing had happened:
//! so everything here can be done twice. The code must be inlined as a whole, without panics, vector
//! registers or calls; the build looks at it, and links a gate that does without it otherwise.

use super::watch;
use crate::mm::user::{MAX_RW_COUNT, access_ok};
use crate::task::try_with_current;
use hal::trap::kernel::{QUICK_CALLS, Quick};
use uapi::raw::general as g;

/// The calls that [`quick`] knows, by number: 1 for those that other virtual CPUs do not disturb.
pub const CALLS: [u8; QUICK_CALLS] = {
    let mut calls = [0; QUICK_CALLS];
    let (own, shared) = ([g::__NR_getpid, g::__NR_gettid, g::__NR_getppid], [g::__NR_read, g::__NR_write]);
    let mut i = 0;
    while i < own.len() {
        calls[own[i] as usize] = 1;
        i += 1;
    }
    i = 0;
    while i < shared.len() {
        calls[shared[i] as usize] = 2;
        i += 1;
    }
    calls
};

/// hal's hook: a call of the current thread with its first three arguments.
#[inline(always)]
pub fn quick(number: u64, arguments: [u64; 3]) -> Quick {
    match serve(number, arguments) {
        Some(result) if !watch::is_on() => Quick { result, left: 0 },
        _ => Quick { result: 0, left: 1 },
    }
}

#[inline(always)]
fn serve(number: u64, arguments: [u64; 3]) -> Option<u64> {
    let number = number as u32;
    if number == g::__NR_read || number == g::__NR_write {
        return null_device(number == g::__NR_write, arguments);
    }
    let id = try_with_current(|task| match number {
        g::__NR_getpid => Some(task.pid()),
        g::__NR_gettid => Some(task.tid()),
        g::__NR_getppid => Some(task.process().ppid()),
        _ => None,
    })?;
    Some(i64::from(id) as u64)
}

/// read(2) and write(2) of the null device: it gives nothing and takes everything, unseen.
#[inline(always)]
fn null_device(write: bool, [fd, address, count]: [u64; 3]) -> Option<u64> {
    let count = count as usize;
    access_ok(address as usize, count).ok()?;
    if vfs::notify::is_on() {
        return None;
    }
    try_with_current(|task| {
        task.try_with_files(|files| files.peek(fd as i32, |file| (file.null.get() && file.allows(write)).then_some(())))
    })?;
    Some(if write { count.min(MAX_RW_COUNT) as u64 } else { 0 })
}
