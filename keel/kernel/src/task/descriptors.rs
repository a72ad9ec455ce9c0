//! Descriptors of the running process.

use super::{current, with_current};
use crate::file::File;
use crate::mm::user;
use alloc::rc::Rc;
use uapi::Result;
use uapi::raw::general as g;

/// The description behind a descriptor of the current process. EBADF, also for `O_PATH`.
#[inline(always)]
pub fn current_file(fd: i32) -> Result<Rc<File>> {
    with_current(|task| task.with_files(|files| files.get(fd)))
}

/// Like [`current_file`], for a call that has a path without the big lock: lets the next call take that path.
#[inline(always)]
pub fn current_file_in_use(fd: i32) -> Result<Rc<File>> {
    let file = current_file(fd)?;
    if hal::sync::several() && file.unlocked.get().is_some() {
        publish(fd);
    }
    Ok(file)
}

#[cold]
#[inline(never)]
fn publish(fd: i32) {
    with_current(|task| task.with_files(|files| files.publish(fd)));
}

/// Bytes were read at an offset, or before the current position: the next calls may take a path without the big lock.
#[inline(always)]
pub fn was_read(fd: i32, file: &File, offset: Option<u64>, bytes: usize) {
    if hal::sync::several() {
        used(fd, file, offset, bytes);
    }
}

/// A call used the file: the next ones may take a path without the big lock.
#[inline(always)]
pub fn was_used(fd: i32, file: &File) {
    was_read(fd, file, None, 0);
}

#[cold]
#[inline(never)]
fn used(fd: i32, file: &File, offset: Option<u64>, bytes: usize) {
    let before = || file.position().saturating_sub(bytes as u64);
    file.ops.in_use(file, offset.unwrap_or_else(before), bytes);
    if file.unlocked.get().is_some() {
        publish(fd);
    }
}

/// Like [`current_file`], but also returns `O_PATH` descriptions.
pub fn current_file_raw(fd: i32) -> Result<Rc<File>> {
    with_current(|task| task.with_files(|files| files.get_raw(fd)))
}

/// Installs a new description at the lowest free descriptor of the current process, with `O_CLOEXEC` of `flags`.
/// EMFILE.
pub fn install(file: Rc<File>, flags: u32) -> Result<i32> {
    current().files().insert(file, flags & g::O_CLOEXEC != 0)
}

/// Installs a description at the lowest free descriptor and writes its number to the program; closes it if the write
/// fails. EMFILE, EFAULT.
pub fn install_at(address: usize, file: Rc<File>, flags: u32) -> Result<()> {
    let files = current().files();
    let fd = files.insert(file, flags & g::O_CLOEXEC != 0)?;
    user::write(address, &fd).inspect_err(|_| {
        // Ignore errors: another thread may have closed it meanwhile.
        let _ = files.close(fd);
    })
}

/// Installs two descriptions at the lowest free descriptors and writes their numbers to the program; closes them if one
/// step fails. EMFILE, EFAULT.
pub fn install_pair(address: usize, first: Rc<File>, second: Rc<File>, flags: u32) -> Result<()> {
    let files = current().files();
    let close_on_exec = flags & g::O_CLOEXEC != 0;
    let a = files.insert(first, close_on_exec)?;
    let undo = |errno, fds: &[i32]| {
        for &fd in fds {
            // Ignore errors: another thread may have closed it meanwhile.
            let _ = files.close(fd);
        }
        Err(errno)
    };
    let b = match files.insert(second, close_on_exec) {
        Ok(b) => b,
        Err(errno) => return undo(errno, &[a]),
    };
    match user::write(address, &[a, b]) {
        Ok(()) => Ok(()),
        Err(errno) => undo(errno, &[a, b]),
    }
}
