//! Calls on open regular files: reads, lseek(2), fstat(2).

use super::{Use, with_core};
use crate::file::unlocked::{Buffers, Regular};
use crate::mm::user::access_ok;
use crate::syscall::fs::stat;
use crate::task::Task;
use core::sync::atomic::Ordering::Relaxed;
use hal::hooks::Unlocked;
use hal::user as raw;
use uapi::raw::general as g;
use vfs::{Attr, notify};

/// Most buffers of a read.
const MOST_BUFFERS: usize = 8;

/// pread64(2), readv(2), preadv(2), lseek(2), fstat(2), and newfstatat(2) and statx(2) of a descriptor. `None`: left to the
/// handler.
pub(super) fn attempt(number: u32, arguments: [u64; 6]) -> Option<(isize, Unlocked)> {
    let [fd, second, third, fourth, fifth, _] = arguments;
    let result = match number {
        g::__NR_lseek => with_regular(fd, |file| file.seek(second as i64, third as u32))? as isize,
        g::__NR_pread64 => {
            let offset = u64::try_from(fourth as i64).ok()?;
            access_ok(second as usize, third as usize).ok()?;
            read(fd, Some(offset), &Buffers(&[(second as usize, third as usize)]))?
        }
        g::__NR_readv | g::__NR_preadv => {
            let offset = if number == g::__NR_preadv { Some(u64::try_from(fourth as i64).ok()?) } else { None };
            let mut list = [(0, 0); MOST_BUFFERS];
            let buffers = Buffers(import(second as usize, third as usize, &mut list)?);
            read(fd, offset, &buffers)?
        }
        g::__NR_fstat => {
            let (attr, _) = attributes(fd)?;
            raw::copy_out_value(second as usize, &stat::stat_of(&attr)).ok()?;
            0
        }
        g::__NR_newfstatat if fourth as u32 == g::AT_EMPTY_PATH => {
            is_empty(second as usize)?;
            let (attr, _) = attributes(fd)?;
            raw::copy_out_value(third as usize, &stat::stat_of(&attr)).ok()?;
            0
        }
        g::__NR_statx if third as u32 == g::AT_EMPTY_PATH && fourth as u32 & g::STATX__RESERVED == 0 => {
            is_empty(second as usize)?;
            let (attr, mount) = attributes(fd)?;
            raw::copy_out_value(fifth as usize, &stat::statx_of(&attr, fourth as u32, mount)).ok()?;
            0
        }
        _ => return None,
    };
    Some((result, Unlocked::Served))
}

#[inline(always)]
fn with_regular<R>(fd: u64, f: impl FnOnce(&Regular) -> Option<R>) -> Option<R> {
    with_core(fd, Use::Moves, |core, _| f(core.regular()?))
}

/// Attributes, and its mount, for a thread that sees ids as they are.
fn attributes(fd: u64) -> Option<(Attr, Option<(u32, bool)>)> {
    with_core(fd, Use::Looks, |core, task| {
        let file = core.regular().filter(|_| task.sees_ids.load(Relaxed))?;
        Some((file.attr()?, file.mount()))
    })
}

fn read(fd: u64, offset: Option<u64>, buffers: &Buffers<'_>) -> Option<isize> {
    let does = if offset.is_none() { Use::Moves } else { Use::Looks };
    with_core(fd, does, |core, task| {
        let file = core.regular().filter(|_| core.allows(false))?;
        from_file(file, task, offset, buffers)
    })
}

/// Reads, and counts that.
#[inline(always)]
pub(super) fn from_file(file: &Regular, task: &Task, offset: Option<u64>, buffers: &Buffers<'_>) -> Option<isize> {
    if notify::is_on() {
        return None;
    }
    let done = file.read(offset, buffers)?;
    task.sched.io.count_read(done);
    Some(done as isize)
}

/// Whether a path is empty, or missing.
fn is_empty(path: usize) -> Option<()> {
    let first = if path == 0 { 0 } else { raw::copy_in_value::<u8>(path).ok()? };
    (first == 0).then_some(())
}

/// A `struct iovec` array.
fn import(address: usize, count: usize, list: &mut [(usize, usize); MOST_BUFFERS]) -> Option<&[(usize, usize)]> {
    if count > MOST_BUFFERS {
        return None;
    }
    for (i, place) in list.iter_mut().enumerate().take(count) {
        let [base, len] = raw::copy_in_value::<[usize; 2]>(address.checked_add(i * 16)?).ok()?;
        access_ok(base, len).ok()?;
        *place = (base, len);
    }
    list.get(..count)
}
