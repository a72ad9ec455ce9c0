//! [Spare descriptions](crate::file::spare) of files that are opened repeatedly.

use super::regular::RegularFile;
use crate::file::unlocked::{Kind, Regular};
use crate::file::{FdTable, File, spare};
use crate::task::path::Caller;
use crate::task::with_current;
use alloc::rc::Rc;
use core::ptr;
use hal::sync::{grace, several};
use uapi::raw::general as g;
use vfs::FileType;
use vfs::ways::{self, Question};

/// Flags that a description does not show, or that belong to the descriptor.
const IGNORED: u32 = g::O_CLOEXEC | g::O_LARGEFILE | g::O_NOCTTY;

/// The question that an open with these flags asks of its path; `None`: such an open takes no spare description.
pub fn question(flags: u32) -> Option<Question> {
    (flags & !IGNORED & !g::O_NOFOLLOW == 0).then_some(Question::open(flags & g::O_NOFOLLOW == 0))
}

/// The path was opened as `file`, with these flags: the next such call may be served without the big lock. May wait.
#[inline(always)]
pub fn opened(caller: &Caller, fd: i32, path: &[u8], flags: u32, file: &File) {
    if several()
        && let Some(question) = question(flags)
    {
        // Without a spare description the next call is the handler's again.
        let _ = keep(caller, fd, path, question, file);
    }
}

#[cold]
#[inline(never)]
fn keep(caller: &Caller, fd: i32, path: &[u8], question: Question, file: &File) -> Option<()> {
    let place = file.path.as_ref().filter(|place| place.inode().file_type() == FileType::Regular)?;
    let inode = place.inode();
    let (address, shown) = (inode.stamp_address()?, inode.shown()?);
    let key = caller.key(fd, path, question)?;
    caller.learn_way(&key, place);
    let way = grace::read(|reading| {
        // The path may lead elsewhere by now.
        let way = ways::find(&key, reading).filter(|way| way.shown().is_some_and(|now| ptr::eq(now, &*shown)))?;
        Some(way.number())
    })?;
    with_current(|me| {
        if !me.with_files(FdTable::lend) {
            return None;
        }
        if grace::read(|reading| me.unlocked_lent.get(reading).is_none()) {
            me.unlocked_lent.replace(me.with_files(FdTable::what_is_lent));
        }
        Some(())
    })?;
    // The inode itself is open: not content that was made for this description.
    if spare::is_wanted(way) && file.ops.inode().is_some_and(|open| Rc::ptr_eq(&open, inode)) {
        let spare = File::new(RegularFile::new(inode.clone(), None), file.flags.get(), Some(place.clone()));
        spare.give_unlocked_way(Kind::Regular(Regular::new(shown, &spare, false)));
        spare::keep(way, spare, address);
    }
    Some(())
}
