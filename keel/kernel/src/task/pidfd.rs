//! Process descriptors; pidfd_open(2).

use super::cred::cap;
use super::{Process, Task, access, current, namespaces, pid, pidns};
use crate::file::{Abilities, File, FileOps, Queues};
use crate::mm::user;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::memory::Text;
use vfs::{Attachments, Attr};

/// `PIDFD_NONBLOCK`.
const NONBLOCK: u32 = g::O_NONBLOCK;
/// `PIDFD_THREAD`.
const THREAD: u32 = g::O_EXCL;

/// `PIDFD_SELF_THREAD` and `PIDFD_SELF_THREAD_GROUP`: the caller, without a descriptor.
const SELF_THREAD: i32 = -10000;
const SELF_PROCESS: i32 = -10001;

/// Type byte of the ioctls.
const REQUESTS: u32 = 0xff;
/// `PIDFD_GET_INFO`: its number, and the size of the first version of its structure.
const GET_INFO: u32 = 11;
const INFO_SIZE: usize = 64;

/// A process as a file: readable after its end; with `PIDFD_THREAD`, a thread.
struct PidFd {
    process: Rc<Process>,
    /// The thread, with `PIDFD_THREAD`.
    thread: Option<Weak<Task>>,
    /// Id of the thread or the process.
    id: i32,
}

impl PidFd {
    /// Its thread, if it refers to one that has not ended.
    fn living_thread(&self) -> Option<Rc<Task>> {
        let task = self.thread.as_ref()?.upgrade()?;
        pid::find_task(self.id).filter(|found| Rc::ptr_eq(found, &task))
    }

    fn has_ended(&self) -> bool {
        match self.thread {
            Some(_) => self.living_thread().is_none(),
            None => self.process.zombie_status().is_some(),
        }
    }

    /// Whether it was reaped: its id may be reused.
    fn is_reaped(&self) -> bool {
        if self.id == self.process.pid() { !is_there(&self.process) } else { self.has_ended() }
    }

    /// `PIDFD_GET_INFO` into `size` bytes. EFAULT, EINVAL, ESRCH.
    fn write_info(&self, at: usize, size: usize) -> Result<()> {
        const IDS: u64 = 1;
        const CREDENTIALS: u64 = 2;
        const CGROUP: u64 = 4;
        const EXIT: u64 = 8;
        if at == 0 {
            return Err(Errno::EINVAL);
        }
        let wanted: u64 = user::read(at)?;
        // mask, id of the control group; process ids, credentials, exit status; version 2: dump, unused.
        let (mut mask, mut words) = (CGROUP, [0u32; 18]);
        words[2] = CGROUP_ROOT;
        if self.is_reaped() {
            let status = self.process.zombie_status().filter(|_| self.id == self.process.pid());
            if wanted & EXIT == 0 {
                return Err(Errno::ESRCH);
            }
            words[15] = status.ok_or(Errno::ESRCH)? as u32;
            mask |= EXIT;
        } else {
            if self.process.pid() == pid::INIT && !current().cred().capable(cap::SYS_PTRACE) {
                return Err(Errno::EACCES);
            }
            let task = self.living_thread().or_else(|| self.process.main_thread());
            let ids = [self.id, self.process.pid(), self.process.ppid()].map(pidns::shown);
            words[4..7].copy_from_slice(&ids.map(|id| id as u32));
            mask |= IDS;
            if let Some(cred) = task.map(|task| task.cred()) {
                let ids = [cred.uid, cred.gid, cred.euid, cred.egid, cred.suid, cred.sgid, cred.fsuid, cred.fsgid];
                words[7..15].copy_from_slice(&ids);
            } else {
                let uid = self.process.last_uid();
                words[7..15].copy_from_slice(&[uid, 0, uid, 0, uid, 0, uid, 0]);
            }
            mask |= CREDENTIALS;
        }
        words[0] = mask as u32;
        let known: &[u8] = bytemuck::cast_slice(&words);
        user::write_bytes(at, known.get(..size).unwrap_or(known))?;
        user::clear(at.wrapping_add(known.len()), size.saturating_sub(known.len()))
    }
}

/// Requests for namespaces from `PIDFD_GET_CGROUP_NAMESPACE`, and their names in `/proc/PID/ns`.
const FIRST_NAMESPACE: u32 = 0xff01;
const NAMESPACES: [&str; 10] =
    ["cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts"];

/// The namespace that an ioctl on a process descriptor requests; `None` for other ioctls. EACCES, EINVAL, ESRCH.
pub fn wanted_namespace(file: &File, command: u32, arg: usize) -> Option<Result<namespaces::Any>> {
    let pidfd: &PidFd = file.downcast()?;
    let name = command.checked_sub(FIRST_NAMESPACE).and_then(|i| NAMESPACES.get(i as usize))?;
    Some(pidfd.namespace(name.as_bytes(), arg))
}

impl PidFd {
    fn namespace(&self, name: &[u8], arg: usize) -> Result<namespaces::Any> {
        if arg != 0 {
            return Err(Errno::EINVAL);
        }
        let task = self.living_thread().or_else(|| self.process.main_thread()).ok_or(Errno::ESRCH)?;
        if !access::may_look(&task, access::Ids::Real) {
            return Err(Errno::EACCES);
        }
        namespaces::Any::of(&task, name).ok_or(Errno::ESRCH)
    }
}

/// Those of the types in `kinds` that the process of a descriptor is in, for setns(2). EBADF: it is no process; EINVAL,
/// EPERM, ESRCH.
pub fn namespaces_of(fd: i32, kinds: u32) -> Result<Vec<namespaces::Any>> {
    let task = process_of(fd)?.main_thread().ok_or(Errno::ESRCH)?;
    if !access::may_look(&task, access::Ids::Real) {
        return Err(Errno::EPERM);
    }
    let wanted = namespaces::TYPES.iter().filter(|(_, flag)| kinds & flag != 0);
    wanted.map(|(name, _)| namespaces::Any::of(&task, name.as_bytes()).ok_or(Errno::ESRCH)).collect()
}

/// Id of the only control group.
const CGROUP_ROOT: u32 = 1;

impl FileOps for PidFd {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities::POSITIONS
    }
    fn host_attachments(&self) -> Option<Rc<Attachments>> {
        Some(self.process.attachments.clone())
    }
    fn attr(&self) -> Result<Attr> {
        Ok(Attr { mode: 0o700, nlink: 1, blksize: 4096, ino: self.id as u64, ..Attr::default() })
    }
    fn link_name(&self) -> Vec<u8> {
        b"anon_inode:[pidfd]".to_vec()
    }
    fn describe(&self, _file: &File, out: &mut Text) {
        let pid = if self.is_reaped() { -1 } else { pidns::shown(self.id) };
        out.print(format_args!("Pid:\t{pid}\nNSpid:\t{pid}\n"));
    }
    fn ioctl(&self, _file: &File, command: u32, arg: usize) -> Result<usize> {
        const READ_AND_WRITE: u32 = 3;
        let (number, size) = (command & 0xff, (command >> 16 & 0x3fff) as usize);
        let known = command >> 30 == READ_AND_WRITE && command >> 8 & 0xff == REQUESTS && number == GET_INFO;
        if !known || size < INFO_SIZE {
            return Err(Errno::ENOTTY);
        }
        self.write_info(arg, size).map(|()| 0)
    }
    fn poll(&self, _file: &File) -> u32 {
        match self.has_ended() {
            true if self.is_reaped() => g::POLLIN | g::POLLRDNORM | g::POLLHUP,
            true => g::POLLIN | g::POLLRDNORM,
            false => 0,
        }
    }
    fn poll_queues(&self, _file: &File, _events: u32, out: &mut Queues) {
        out.push(self.process.exit_events());
    }
}

/// Whether a file is a descriptor of a process. Its inode is that of a regular file for some calls.
pub fn is_one(file: &File) -> bool {
    file.downcast::<PidFd>().is_some()
}

/// Whether a process was not reaped yet.
fn is_there(process: &Rc<Process>) -> bool {
    process.pid() == pid::INIT || pid::find_process(process.pid()).is_some_and(|found| Rc::ptr_eq(&found, process))
}

/// Opens a descriptor of a process. EMFILE.
pub(super) fn open(process: &Rc<Process>, flags: u32) -> Result<i32> {
    insert(PidFd { process: process.clone(), thread: None, id: process.pid() }, flags)
}

fn insert(pidfd: PidFd, flags: u32) -> Result<i32> {
    let file = File::new(Rc::new(pidfd), g::O_RDWR, None);
    // PIDFD_THREAD is O_EXCL, which open would clear.
    file.flags.set(g::O_RDWR | flags & (NONBLOCK | THREAD));
    current().files().insert(file, true)
}

/// Target of a descriptor.
pub struct Target {
    /// The process, or that of the thread.
    pub process: Rc<Process>,
    /// Id of the thread or the process.
    pub id: i32,
    /// It refers to a thread.
    pub is_thread: bool,
    /// It was reaped.
    pub is_gone: bool,
}

/// The target of a descriptor, or of one of the constants for the caller. EBADF.
pub fn target_of(fd: i32) -> Result<Target> {
    if matches!(fd, SELF_THREAD | SELF_PROCESS) {
        let (me, is_thread) = (current(), fd == SELF_THREAD);
        let id = if is_thread { me.tid() } else { me.pid() };
        return Ok(Target { process: me.process().clone(), id, is_thread, is_gone: false });
    }
    let file = current().files().get(fd)?;
    let pidfd = file.ops.as_any().downcast_ref::<PidFd>().ok_or(Errno::EBADF)?;
    let (is_thread, is_gone) = (pidfd.thread.is_some(), pidfd.is_reaped());
    Ok(Target { process: pidfd.process.clone(), id: pidfd.id, is_thread, is_gone })
}

/// The process of a descriptor or of one of the constants for the caller. EBADF.
pub fn process_of(fd: i32) -> Result<Rc<Process>> {
    Ok(target_of(fd)?.process)
}

/// Whether waits on a process descriptor are non-blocking. EBADF.
pub(super) fn is_nonblocking(fd: i32) -> Result<bool> {
    Ok(current().files().get(fd)?.flags.get() & NONBLOCK != 0)
}

/// pidfd_open(2). EINVAL, EMFILE, ESRCH.
pub fn sys_pidfd_open(target: i32, flags: u32) -> Result<i32> {
    if flags & !(NONBLOCK | THREAD) != 0 || target <= 0 {
        return Err(Errno::EINVAL);
    }
    let target = pidns::named(target);
    if target == pid::INIT {
        return open(&pid::init_process(), flags);
    }
    let (process, thread) = (pid::find_process(target), pid::find_task(target));
    match (process, thread) {
        (process, Some(task)) if flags & THREAD != 0 => {
            let process = process.unwrap_or_else(|| task.process().clone());
            insert(PidFd { process, thread: Some(Rc::downgrade(&task)), id: target }, flags)
        }
        (Some(process), None) if flags & THREAD != 0 => {
            insert(PidFd { process, thread: Some(Weak::new()), id: target }, flags)
        }
        (Some(process), _) => open(&process, flags),
        // Linux's errno for a thread that is not a group leader.
        (None, Some(_)) => Err(Errno::ENOENT),
        (None, None) => Err(Errno::ESRCH),
    }
}

/// pidfd_getfd(2). EBADF, EINVAL, EMFILE, EPERM, ESRCH.
pub fn sys_pidfd_getfd(pidfd: i32, target: i32, flags: u32) -> Result<i32> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let file = current().files().get(pidfd)?;
    let pidfd = file.ops.as_any().downcast_ref::<PidFd>().ok_or(Errno::EBADF)?;
    if pidfd.id == pid::INIT {
        return Err(Errno::EPERM);
    }
    let task = match pidfd.thread {
        Some(_) => pidfd.living_thread(),
        None => pidfd.process.main_thread(),
    };
    let task = task.ok_or(Errno::ESRCH)?;
    let me = current();
    if !access::may_look(&task, access::Ids::Real) {
        return Err(Errno::EPERM);
    }
    let file = task.try_files().ok_or(Errno::ESRCH)?.get(target)?;
    me.files().insert(file, true)
}
