//! Calls that run before a frame of all registers is stored.
//!
//! The gate calls [`quick`] first. It serves calls that need a few loads: ids, and the null device. Other calls, and
//! errors, are left to the call's handler, which then runs as if nothing had happened: so the code here must have no
//! side effects before it succeeds. The big lock is not held: the code reads only state that only the thread itself
//! changes, single words, and [published](hal::sync::grace) values. The code must be inlined completely, without
//! panics, vector registers or calls; the build checks that, and otherwise links a gate without it.

use crate::file::unlocked::{GIVES_NOTHING, TAKES_ALL};
use crate::mm::user::{MAX_RW_COUNT, access_ok};
use crate::task::watch;
use crate::task::{Task, try_borrow_current};
use hal::hooks::{QUICK_CALLS, Quick};
use uapi::raw::general as g;

/// The calls of [`quick`], by number.
pub const CALLS: [u8; QUICK_CALLS] = {
    let mut calls = [0; QUICK_CALLS];
    let known = [g::__NR_getpid, g::__NR_gettid, g::__NR_getppid, g::__NR_read, g::__NR_write];
    let mut i = 0;
    while i < known.len() {
        calls[known[i] as usize] = 1;
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
    // Without a closure, which might not be inlined.
    let current = try_borrow_current()?;
    let task = current.as_ref()?;
    let id = match number {
        g::__NR_getpid => task.process().own_pid(),
        g::__NR_gettid => task.own_tid(),
        g::__NR_getppid => task.process().own_ppid(),
        g::__NR_read => return null_device(task, GIVES_NOTHING, arguments).then_some(0),
        g::__NR_write => {
            let taken = (arguments[2] as usize).min(MAX_RW_COUNT) as u64;
            return null_device(task, TAKES_ALL, arguments).then_some(taken);
        }
        _ => return None,
    };
    Some(i64::from(id) as u64)
}

/// Whether the descriptor is the null device, opened for this access: reads return 0 bytes, writes discard all.
#[inline(always)]
fn null_device(task: &Task, label: u32, [fd, address, count]: [u64; 3]) -> bool {
    access_ok(address as usize, count as usize).is_ok()
        && !vfs::notify::is_on()
        && task.unlocked_files.has_label(fd as u32 as usize, label)
}
