//! Which process or thread a directory of `/proc` is about.

use crate::mm::Mm;
use crate::task::cred::cap;
use crate::task::pidns::PidNs;
use crate::task::{self, Process, Task, access, pid};
use alloc::rc::Rc;
use uapi::{Errno, Result};

/// A process, or one of its threads: identified by ids, so that an open file of `/proc` holds no references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    pid: i32,
    /// The thread; the leader for the process.
    tid: i32,
    /// A directory in `task/`: figures are of the thread alone.
    alone: bool,
    /// Inode number of the PID namespace whose ids the file system shows; 0: the first.
    viewer: u64,
    /// Start time: distinguishes the process from earlier ones with the same id.
    started_ns: u64,
}

impl Subject {
    /// The process `id`, or the one that has a thread `id`, seen through that, with ids of a PID namespace (`None`: the
    /// first). ENOENT.
    pub fn of_process(id: i32, viewer: Option<&Rc<PidNs>>) -> Result<Self> {
        let id = viewer.map_or(Some(id), |ns| ns.outward(id)).ok_or(Errno::ENOENT)?;
        let viewer = viewer.map_or(0, |ns| ns.inode());
        let process = find(id).or_else(|| pid::find_task(id).map(|t| t.process().clone())).ok_or(Errno::ENOENT)?;
        Ok(Self { pid: process.pid(), tid: id, alone: false, viewer, started_ns: process.started_ns() })
    }

    /// A thread of this process. ENOENT.
    pub fn thread(&self, tid: i32) -> Result<Self> {
        let tid = match self.viewer {
            0 => tid,
            viewer => PidNs::find(viewer).and_then(|ns| ns.outward(tid)).ok_or(Errno::ENOENT)?,
        };
        let process = self.process().map_err(|_| Errno::ENOENT)?;
        // The leader's directory stays until the process is reaped.
        let known = tid == self.pid || process.threads().any(|t| t.tid() == tid);
        if known { Ok(Self { tid, alone: true, ..*self }) } else { Err(Errno::ENOENT) }
    }

    /// Process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Id of the thread, or of the process.
    pub fn id(&self) -> i32 {
        self.tid
    }

    /// An id as the file system shows it; 0 for one that its PID namespace does not have.
    pub fn shown(&self, id: i32) -> i32 {
        match self.viewer {
            0 => id,
            _ if id <= 0 => id,
            viewer => PidNs::find(viewer).map_or(0, |ns| ns.inward(id)),
        }
    }

    /// The PID namespaces of a process in which the file system shows ids: how many come before.
    pub fn levels_above(&self) -> usize {
        if self.viewer == 0 { 0 } else { PidNs::find(self.viewer).map_or(0, |ns| ns.level() as usize) }
    }

    /// Whether this is about one thread alone.
    pub fn is_thread(&self) -> bool {
        self.alone
    }

    /// Something that differs between bearers of the same id.
    pub fn generation(&self) -> u64 {
        self.started_ns
    }

    /// Whether it is keel itself, which has no program.
    pub fn is_keel(&self) -> bool {
        self.pid == pid::INIT
    }

    /// The process. ESRCH if it was reaped.
    pub fn process(&self) -> Result<Rc<Process>> {
        find(self.pid).filter(|p| p.started_ns() == self.started_ns).ok_or(Errno::ESRCH)
    }

    /// The thread, or a thread of the process; `None` for a zombie. ESRCH if it was reaped.
    pub fn task(&self) -> Result<Option<Rc<Task>>> {
        let process = self.process()?;
        if self.tid == self.pid && !self.alone {
            return Ok(process.main_thread());
        }
        match process.threads().find(|t| t.tid() == self.tid) {
            None if self.tid != self.pid => Err(Errno::ESRCH),
            found => Ok(found),
        }
    }

    /// A thread that lives. ESRCH.
    pub fn living(&self) -> Result<Rc<Task>> {
        self.task()?.ok_or(Errno::ESRCH)
    }

    /// A living thread that the caller may inspect. EACCES, ESRCH.
    pub fn inspected(&self) -> Result<Rc<Task>> {
        let task = self.living()?;
        if may_inspect(&task) { Ok(task) } else { Err(Errno::EACCES) }
    }

    /// As [`Self::inspected`], for world-readable files that check access at each read. EPERM, ESRCH.
    pub fn inspected_later(&self) -> Result<Rc<Task>> {
        let task = self.living()?;
        if may_inspect(&task) { Ok(task) } else { Err(Errno::EPERM) }
    }

    /// Its memory, if the caller may inspect it; `None` if it has ended or has none. EACCES, ESRCH.
    pub fn memory(&self) -> Result<Option<Rc<Mm>>> {
        match self.task()? {
            None => Ok(None),
            Some(task) if may_inspect(&task) => Ok(task.try_mm()),
            Some(_) => Err(Errno::EACCES),
        }
    }

    /// The memory for a `/proc` file that is opened: `None` for a zombie, and for keel, whose memory is not accessible.
    /// `read`: read-only, for which CAP_PERFMON suffices. EACCES, ESRCH.
    pub fn memory_to_open(&self, read: bool) -> Result<Option<Rc<Mm>>> {
        if !self.is_keel() {
            let monitors = |t: &Task| t.cred().capable(cap::PERFMON) || t.cred().capable(cap::SYS_ADMIN);
            return match self.memory() {
                Err(Errno::EACCES) if read && task::with_current(monitors) => Ok(self.living()?.try_mm()),
                other => other,
            };
        }
        if task::with_current(|t| t.cred().capable(cap::SYS_PTRACE)) { Ok(None) } else { Err(Errno::EACCES) }
    }

    /// Owner and group of its files: the effective ids, or root's if it is not dumpable. `searchable`: a world-readable
    /// directory keeps the ids anyway.
    pub fn owner(&self, searchable: bool) -> (u32, u32) {
        let Ok(Some(task)) = self.task() else {
            return (self.process().map_or(0, |p| p.last_uid()), 0);
        };
        if task.process().dumpable.get() != 1 && !searchable {
            return (0, 0);
        }
        let cred = task.cred();
        (cred.euid, cred.egid)
    }
}

fn find(id: i32) -> Option<Rc<Process>> {
    if id == pid::INIT { Some(pid::init_process()) } else { pid::find_process(id) }
}

/// Whether the current thread may inspect `target`.
pub fn may_inspect(target: &Rc<Task>) -> bool {
    access::may_look(target, access::Ids::FileSystem)
}
