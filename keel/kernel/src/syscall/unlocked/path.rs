//! Calls by path: stat(2), access(2), readlink(2) of names that were walked before, see [`vfs::ways`].

use crate::mm::user::access_ok;
use crate::syscall::fs::stat;
use crate::task::{Task, try_borrow_current};
use core::sync::atomic::Ordering::Relaxed;
use hal::hooks::Unlocked;
use hal::sync::grace;
use hal::user as raw;
use uapi::raw::general as g;
use vfs::Attr;
use vfs::ways::{self, Key, LONGEST, Question, Way};

/// Flags that make no difference here, beside `AT_SYMLINK_NOFOLLOW`.
const IGNORED: u32 = g::AT_NO_AUTOMOUNT;

/// stat(2), lstat(2), newfstatat(2), statx(2), access(2), faccessat(2), faccessat2(2), readlink(2), readlinkat(2). `None`:
/// left to the handler.
#[inline(never)]
pub(super) fn attempt(number: u32, [first, second, third, fourth, fifth, _]: [u64; 6]) -> Option<(isize, Unlocked)> {
    let here = i64::from(g::AT_FDCWD) as u64;
    let result = match number {
        g::__NR_stat => put_stat(here, first, second, 0)?,
        g::__NR_lstat => put_stat(here, first, second, g::AT_SYMLINK_NOFOLLOW)?,
        g::__NR_newfstatat => put_stat(first, second, third, fourth as u32)?,
        g::__NR_statx => put_statx(first, second, third as u32, fourth as u32, fifth)?,
        g::__NR_access => check(here, first, second as u32, 0)?,
        g::__NR_faccessat => check(first, second, third as u32, 0)?,
        g::__NR_faccessat2 => check(first, second, third as u32, fourth as u32)?,
        g::__NR_readlink => read_link(here, first, second, third as i32)?,
        g::__NR_readlinkat => read_link(first, second, third, fourth as i32)?,
        _ => return None,
    };
    Some((result, Unlocked::Served))
}

/// Calls `f` with the way of a path.
#[inline(always)]
pub(super) fn with_way<R>(
    fd: u64,
    name: u64,
    question: Question,
    f: impl FnOnce(&Way, &grace::Reading, &Task) -> Option<R>,
) -> Option<R> {
    let current = try_borrow_current()?;
    let task = current.as_ref().filter(|task| task.sees_ids.load(Relaxed))?;
    let caller = task.caller.load(Relaxed);
    if caller == 0 {
        return None;
    }
    let mut path = [0; LONGEST + 1];
    let len = raw::copy_in_str(&mut path, name as usize).ok()??;
    let path = path.get(..len)?;
    grace::read(|reading| {
        let fs = task.unlocked_fs.get(reading)?;
        let root = fs.root.load(Relaxed);
        let base = match path.first()? {
            b'/' => 0,
            _ if fd as i32 == g::AT_FDCWD => Some(fs.cwd.load(Relaxed)).filter(|cwd| *cwd != 0)?,
            _ => return None,
        };
        if root == 0 {
            return None;
        }
        f(ways::find(&Key { caller, root, base, question, path }, reading)?, reading, task)
    })
}

/// Attributes, and the mount.
#[inline(always)]
fn attributes(fd: u64, name: u64, flags: u32) -> Option<(Attr, (u32, bool))> {
    if flags & !(IGNORED | g::AT_SYMLINK_NOFOLLOW) != 0 {
        return None;
    }
    let question = Question::attributes(flags & g::AT_SYMLINK_NOFOLLOW == 0);
    with_way(fd, name, question, |way, reading, _| Some((*way.shown()?.view(reading)?.attr(), way.mount())))
}

fn put_stat(fd: u64, name: u64, to: u64, flags: u32) -> Option<isize> {
    let (attr, _) = attributes(fd, name, flags)?;
    raw::copy_out_value(to as usize, &stat::stat_of(&attr)).ok()?;
    Some(0)
}

fn put_statx(fd: u64, name: u64, flags: u32, mask: u32, to: u64) -> Option<isize> {
    if mask & g::STATX__RESERVED != 0 {
        return None;
    }
    let (attr, mount) = attributes(fd, name, flags)?;
    raw::copy_out_value(to as usize, &stat::statx_of(&attr, mask, Some(mount))).ok()?;
    Some(0)
}

fn check(fd: u64, name: u64, mode: u32, flags: u32) -> Option<isize> {
    if mode & !7 != 0 || flags & !(g::AT_EACCESS | g::AT_SYMLINK_NOFOLLOW) != 0 {
        return None;
    }
    let question = Question::access(mode, flags & g::AT_EACCESS == 0, flags & g::AT_SYMLINK_NOFOLLOW == 0);
    with_way(fd, name, question, |_, _, _| Some(0))
}

fn read_link(fd: u64, name: u64, to: u64, size: i32) -> Option<isize> {
    let size = usize::try_from(size).ok().filter(|size| *size > 0)?;
    with_way(fd, name, Question::LINK, |way, _, _| {
        let target = way.target();
        let shown = target.get(..size.min(target.len()))?;
        access_ok(to as usize, shown.len()).ok()?;
        raw::copy_out(to as usize, shown).ok()?;
        Some(shown.len() as isize)
    })
}
