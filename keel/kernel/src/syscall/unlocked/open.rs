//! open(2) and close(2) of regular files by paths that were walked before, with [spare](crate::file::spare) descriptions.

use super::path::with_way;
use crate::file::spare::{self, DESCRIPTORS, Note};
use crate::file::table::all_may_have;
use crate::fs::spare::question;
use crate::task::try_borrow_current;
use hal::hooks::Unlocked;
use hal::sync::grace;
use uapi::raw::general as g;
use vfs::notify;

/// open(2), openat(2), close(2). `None`: left to the handler.
#[inline(never)]
pub(super) fn attempt(number: u32, [first, second, third, ..]: [u64; 6]) -> Option<(isize, Unlocked)> {
    let here = i64::from(g::AT_FDCWD) as u64;
    // An open and a close are events.
    if notify::is_on() {
        return None;
    }
    let result = match number {
        g::__NR_open => open(here, first, second as u32)?,
        g::__NR_openat => open(first, second, third as u32)?,
        g::__NR_close => close(first)?,
        _ => return None,
    };
    Some((result, Unlocked::Served))
}

fn open(base: u64, name: u64, flags: u32) -> Option<isize> {
    let question = question(flags)?;
    if !all_may_have(DESCRIPTORS) {
        return None;
    }
    with_way(base, name, question, |way, reading, task| {
        let lent = task.unlocked_lent.get(reading)?;
        if !spare::is_there(way.number()) {
            return None;
        }
        let fd = lent.claim()?;
        let Some(place) = spare::lend(way.number()) else {
            lent.free(fd);
            return None;
        };
        if let Some(regular) = spare::core_of(place)?.get(reading).and_then(|core| core.regular()) {
            regular.release(0);
        }
        lent.add(fd, Note { place, close_on_exec: flags & g::O_CLOEXEC != 0 });
        Some(fd as isize)
    })
}

fn close(fd: u64) -> Option<isize> {
    let fd = usize::try_from(fd as u32).ok().filter(|fd| *fd < DESCRIPTORS)?;
    let current = try_borrow_current()?;
    let task = current.as_ref()?;
    grace::read(|reading| {
        let lent = task.unlocked_lent.get(reading)?;
        let note = lent.note(fd)?;
        if !lent.remove(fd, note) {
            return None;
        }
        if !spare::give_back(note.place) {
            // Its name was removed meanwhile, or another virtual CPU used it: a handler takes and closes it.
            lent.add(fd, note);
            return None;
        }
        lent.free(fd);
        Some(0)
    })
}
