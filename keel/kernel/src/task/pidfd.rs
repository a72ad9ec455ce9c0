//! Descriptors of processes; pidfd_open(2).

use super::{Process, current, pid, robust};
use crate::file::{File, FileOps, Queues};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::Attr;

/// `PIDFD_NONBLOCK`.
const NONBLOCK: u32 = g::O_NONBLOCK;
/// `PIDFD_THREAD`.
const THREAD: u32 = g::O_EXCL;

/// A process as a file: readable once it has ended.
struct PidFd {
    process: Rc<Process>,
}

impl FileOps for PidFd {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn attr(&self) -> Result<Attr> {
        Ok(Attr { mode: 0o600, nlink: 1, blksize: 4096, ino: self.process.pid() as u64, ..Attr::default() })
    }
    fn link_name(&self) -> Vec<u8> {
        b"anon_inode:[pidfd]".to_vec()
    }
    fn describe(&self, _file: &File, out: &mut String) {
        let pid = if self.process.zombie_status().is_some() { -1 } else { self.process.pid() };
        out.push_str(&format!("Pid:\t{pid}\nNSpid:\t{pid}\n"));
    }
    fn poll(&self, _file: &File) -> u32 {
        if self.process.zombie_status().is_some() { g::POLLIN | g::POLLRDNORM } else { 0 }
    }
    fn poll_queues(&self, _file: &File, _events: u32, out: &mut Queues) {
        out.push(self.process.exit_events());
    }
}

/// Opens a descriptor of a process. EMFILE.
pub(super) fn open(process: &Rc<Process>, flags: u32) -> Result<i32> {
    let file = File::new(Rc::new(PidFd { process: process.clone() }), g::O_RDWR | flags & NONBLOCK, None);
    current().files().insert(file, true)
}

/// Opens a descriptor of the process with this id, closed by exec. ESRCH, EMFILE.
pub fn open_by_id(id: i32) -> Result<i32> {
    open(&pid::find_process(id).ok_or(Errno::ESRCH)?, 0)
}

/// The process behind a descriptor. EBADF.
pub fn process_of(fd: i32) -> Result<Rc<Process>> {
    let file = current().files().get(fd)?;
    let pidfd = file.ops.as_any().downcast_ref::<PidFd>().ok_or(Errno::EBADF)?;
    Ok(pidfd.process.clone())
}

/// Whether waits on a descriptor of a process return at once. EBADF.
pub(super) fn is_nonblocking(fd: i32) -> Result<bool> {
    Ok(current().files().get(fd)?.flags.get() & NONBLOCK != 0)
}

/// pidfd_open(2). EINVAL, EMFILE, ESRCH.
pub fn sys_pidfd_open(target: i32, flags: u32) -> Result<i32> {
    if flags & !(NONBLOCK | THREAD) != 0 || target <= 0 {
        return Err(Errno::EINVAL);
    }
    match pid::find_process(target) {
        Some(process) => open(&process, flags),
        // Linux says so of threads that lead no process.
        None if pid::find_task(target).is_some() => Err(Errno::ENOENT),
        None => Err(Errno::ESRCH),
    }
}

/// pidfd_getfd(2). EBADF, EINVAL, EMFILE, EPERM, ESRCH.
pub fn sys_pidfd_getfd(pidfd: i32, target: i32, flags: u32) -> Result<i32> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let task = process_of(pidfd)?.main_thread().ok_or(Errno::ESRCH)?;
    let me = current();
    if !robust::may_look(&me, &task) {
        return Err(Errno::EPERM);
    }
    let file = task.try_files().ok_or(Errno::ESRCH)?.get(target)?;
    me.files().insert(file, true)
}
