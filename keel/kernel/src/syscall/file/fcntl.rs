//! fcntl(2).

use crate::file::pipe::PipeEnd;
use crate::file::{Abilities, File, dnotify, lock, owner};
use crate::mm::user;
use crate::task;
use crate::task::descriptors;
use crate::task::path::Caller;
use alloc::rc::Rc;
use core::cell::Cell;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::FileType;

/// Status flags that `F_SETFL` changes.
const SETTABLE: u32 = g::O_APPEND | g::O_NONBLOCK | g::O_DIRECT | g::O_NOATIME | super::ioctl::O_ASYNC;

/// `F_CREATED_QUERY`: whether the call that opened the file made it.
const F_CREATED_QUERY: u32 = 1028;

/// `F_GETOWNER_UIDS`: real and effective user id of the caller of `F_SETOWN`.
const F_GETOWNER_UIDS: u32 = 17;

/// Commands that descriptors with `O_PATH` know.
const OF_PATHS: [u32; 7] =
    [F_CREATED_QUERY, g::F_DUPFD, g::F_DUPFD_CLOEXEC, g::F_DUPFD_QUERY, g::F_GETFD, g::F_SETFD, g::F_GETFL];

/// fcntl(2). `F_CREATED_QUERY` and `F_DUPFD_QUERY` are recent; the others are in fcntl(2).
pub fn sys_fcntl(fd: i32, command: u32, arg: usize) -> Result<usize> {
    let files = task::current().files();
    let file = files.get_raw(fd)?;
    if file.is_path() && !OF_PATHS.contains(&command) {
        return Err(Errno::EBADF);
    }
    match command {
        g::F_DUPFD | g::F_DUPFD_CLOEXEC => {
            let from = arg as u32 as usize;
            if from >= crate::file::table::limit() {
                return Err(Errno::EINVAL);
            }
            files.insert_from(from, file, command == g::F_DUPFD_CLOEXEC).map(|fd| fd as usize)
        }
        g::F_GETFD => files.close_on_exec_flag(fd).map(usize::from),
        g::F_SETFD => files.set_close_on_exec(fd, arg as u32 & g::FD_CLOEXEC != 0).map(|()| 0),
        g::F_GETFL => Ok(file.flags.get() as usize),
        g::F_SETFL => set_flags(&file, fd, arg as u32),
        g::F_GETPIPE_SZ => Ok(pipe_of(&file)?.pipe().capacity()),
        g::F_SETPIPE_SZ => pipe_of(&file)?.pipe().set_capacity(arg as u32 as usize),
        g::F_SETOWN => owner::set(&file.owner, arg as i32),
        g::F_GETOWN => Ok(owner::get(&file.owner) as isize as usize),
        g::F_SETOWN_EX => owner::set_ex(&file.owner, arg),
        g::F_GETOWN_EX => owner::get_ex(&file.owner, arg),
        F_GETOWNER_UIDS => {
            let own = task::with_current(|me| me.cred().user_ns.clone());
            user::write(arg, &file.owner.get().uids.map(|uid| own.shown_uid(uid))).map(|()| 0)
        }
        g::F_SETSIG => owner::set_signal(&file.owner, arg as i32),
        g::F_GETSIG => Ok(file.owner.get().signal as usize),
        F_CREATED_QUERY => Ok(usize::from(file.created.get())),
        g::F_DUPFD_QUERY => {
            let other = files.get_raw(arg as i32)?;
            Ok(usize::from(Rc::ptr_eq(&file, &other)))
        }
        g::F_GETLK | g::F_SETLK | g::F_SETLKW | g::F_OFD_GETLK | g::F_OFD_SETLK | g::F_OFD_SETLKW => {
            lock::fcntl(&files, fd, &file, command, arg)
        }
        g::F_ADD_SEALS | g::F_GET_SEALS => lock::seals(&file, command, arg),
        g::F_GET_RW_HINT | g::F_SET_RW_HINT => write_hint(&file, command, arg),
        g::F_NOTIFY => dnotify::watch(&files, &file, fd, arg as u32),
        g::F_SETLEASE => set_lease(&file, arg as u32),
        g::F_GETLEASE => Ok(g::F_UNLCK as usize),
        _ => Err(Errno::EINVAL),
    }
}

/// `F_SETLEASE`: there are no leases, so none can be given back (EAGAIN). EACCES, EINVAL.
fn set_lease(file: &File, kind: u32) -> Result<usize> {
    let inode = file.ops.inode().filter(|inode| inode.file_type() == FileType::Regular);
    let (_, uid, _) = inode.ok_or(Errno::EINVAL)?.perm()?;
    let caller = Caller::current();
    let cred = caller.cred();
    if cred.uid != uid && !cred.has(g::CAP_LEASE) {
        return Err(Errno::EACCES);
    }
    Err(if kind == g::F_UNLCK { Errno::EAGAIN } else { Errno::EINVAL })
}

/// `F_GET_RW_HINT`, `F_SET_RW_HINT`: nothing here makes use of it. EFAULT, EINVAL, EPERM.
fn write_hint(file: &File, command: u32, arg: usize) -> Result<usize> {
    let inode = file.ops.inode();
    let hint = inode.as_ref().and_then(|inode| inode.attachments()).map(|kept| &kept.write_hint);
    if command == g::F_GET_RW_HINT {
        user::write(arg, &u64::from(hint.map_or(0, Cell::get)))?;
        return Ok(0);
    }
    let attr = file.ops.attr()?;
    if !Caller::current().cred().owns(attr.uid, attr.gid) {
        return Err(Errno::EPERM);
    }
    let wanted: u64 = user::read(arg)?;
    let wanted = u8::try_from(wanted).ok().filter(|&hint| u32::from(hint) <= g::RWH_WRITE_LIFE_EXTREME);
    let wanted = wanted.ok_or(Errno::EINVAL)?;
    if let Some(hint) = hint {
        hint.set(wanted);
    }
    Ok(0)
}

fn set_flags(file: &Rc<File>, fd: i32, mut wanted: u32) -> Result<usize> {
    if wanted & g::O_DIRECT != 0 && !file.can(Abilities::DIRECT) {
        return Err(Errno::EINVAL);
    }
    let async_changed = (file.flags.get() ^ wanted) & super::ioctl::O_ASYNC != 0;
    if async_changed {
        match super::ioctl::set_async(file, fd, wanted & super::ioctl::O_ASYNC != 0) {
            // Of a file that does not signal its readiness the flag does not stay.
            Err(Errno::ENOTTY) => wanted &= !super::ioctl::O_ASYNC,
            result => result?,
        }
    }
    file.flags.set(file.flags.get() & !SETTABLE | wanted & SETTABLE);
    file.flags_changed();
    Ok(0)
}

fn pipe_of(file: &File) -> Result<&PipeEnd> {
    file.downcast().ok_or(Errno::EBADF)
}

/// flock(2).
pub fn sys_flock(fd: i32, operation: u32) -> Result<()> {
    // Mandatory locks of Windows file servers: accepted and ignored since Linux 5.18.
    const LOCK_MAND: u32 = 32;
    if operation & LOCK_MAND != 0 {
        return Ok(());
    }
    if !matches!(operation & !lock::LOCK_NB, 1 | 2 | 8) {
        return Err(Errno::EINVAL);
    }
    lock::flock(&descriptors::current_file(fd)?, operation)
}
