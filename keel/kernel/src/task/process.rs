//! Processes: thread groups, parents and children, sessions and process groups.

use super::pidns::{self, PidNs};
use super::{Task, pid, ptrace};
use crate::sched::Usage;
use crate::sched::io::IoCounters;
use crate::sched::wait::WaitQueue;
use crate::signal::ProcessSignals;
use crate::time::itimer::IntervalTimers;
use crate::time::posix::PosixTimers;
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use keel_core::pieces::Pieces;
use vfs::Attachments;

/// Resource limits: soft and hard, `u64::MAX` is unlimited.
pub type Limits = [(u64, u64); 16];

/// A session, setsid(2).
pub struct Session {
    /// Process id of its leader.
    pub sid: i32,
    /// Controlling terminal, opaque here.
    pub terminal: RefCell<Option<Rc<dyn Any>>>,
    /// Foreground process group of the terminal.
    pub foreground: Cell<i32>,
}

impl core::fmt::Debug for Session {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Session").field("sid", &self.sid).finish_non_exhaustive()
    }
}

impl Session {
    /// A session without a terminal.
    pub fn new(sid: i32) -> Rc<Self> {
        Rc::new(Self { sid, terminal: RefCell::new(None), foreground: Cell::new(0) })
    }
}

/// A process.
pub struct Process {
    pid: i32,
    /// Its PID namespace; `None`: the first.
    pid_ns: Option<Rc<PidNs>>,
    /// Process id in its own namespace.
    own_pid: i32,
    /// Process id of the last parent in its own namespace; 0: the parent is outside.
    own_ppid: Cell<i32>,
    parent: RefCell<Weak<Process>>,
    /// Process id of the last parent: getppid(2) without a counted reference.
    parent_pid: Cell<i32>,
    /// The thread that created it; after its end another thread of the parent.
    pub(super) parent_thread: Cell<i32>,
    children: RefCell<BTreeMap<i32, Rc<Process>>>,
    threads: RefCell<Pieces<Rc<Task>>>,
    group: Cell<i32>,
    session: RefCell<Rc<Session>>,
    /// Signal to the parent at its end; 0: none.
    pub(crate) exit_signal: Cell<u32>,
    pub(crate) signals: ProcessSignals,
    /// Woken when a child changes state.
    pub(crate) child_events: Rc<WaitQueue>,
    /// Woken when a thread ends (execve waits) and when the process ends (pidfd).
    pub(crate) exit_events: Rc<WaitQueue>,
    /// Locks of its descriptors, pidfd_open(2).
    pub(crate) attachments: Rc<Attachments>,
    /// Real user id of the last thread.
    pub(crate) ended_uid: Cell<u32>,
    /// Name of the last thread.
    pub(crate) ended_comm: Cell<[u8; 16]>,
    /// Wait status of a zombie.
    pub(crate) zombie: Cell<Option<i32>>,
    limits: Cell<Limits>,
    /// Resource usage of its ended threads.
    pub(crate) ended_usage: Cell<Usage>,
    /// Resource usage of its reaped children.
    pub(crate) children_usage: Cell<Usage>,
    pub(crate) did_exec: Cell<bool>,
    pub(crate) subreaper: Cell<bool>,
    /// An ancestor is a subreaper.
    pub(crate) has_subreaper: Cell<bool>,
    /// prctl(2) `PR_SET_DUMPABLE`.
    pub(crate) dumpable: Cell<i32>,
    /// Its executable, for `/proc/PID/exe`.
    pub(crate) exe: RefCell<Option<vfs::PathRef>>,
    pub(crate) itimers: IntervalTimers,
    pub(crate) posix_timers: PosixTimers,
    pub(crate) tracer: ptrace::Tracer,
    pub(crate) oom_score_adj: Cell<i32>,
    /// Kinds of memory in a core file, core(5).
    pub(crate) dump_filter: Cell<u32>,
    /// I/O of its ended threads.
    pub(crate) ended_io: IoCounters,
    pub(crate) started_ns: u64,
}

impl core::fmt::Debug for Process {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Process").field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl Process {
    /// `within`: its PID namespace and its id there, unless that is the first.
    pub(crate) fn new(
        pid: i32,
        group: i32,
        session: Rc<Session>,
        limits: Limits,
        within: Option<(Rc<PidNs>, i32)>,
    ) -> Rc<Self> {
        let own_pid = within.as_ref().map_or(pid, |(_, id)| *id);
        Rc::new(Self {
            pid,
            pid_ns: within.map(|(ns, _)| ns),
            own_pid,
            own_ppid: Cell::new(0),
            parent: RefCell::new(Weak::new()),
            parent_pid: Cell::new(0),
            parent_thread: Cell::new(0),
            children: RefCell::default(),
            threads: RefCell::default(),
            group: Cell::new(group),
            session: RefCell::new(session),
            exit_signal: Cell::new(0),
            signals: ProcessSignals::default(),
            child_events: Rc::new(WaitQueue::new()),
            exit_events: Rc::new(WaitQueue::new()),
            attachments: Rc::default(),
            ended_uid: Cell::new(0),
            ended_comm: Cell::default(),
            zombie: Cell::new(None),
            limits: Cell::new(limits),
            ended_usage: Cell::default(),
            children_usage: Cell::default(),
            did_exec: Cell::new(false),
            subreaper: Cell::new(false),
            has_subreaper: Cell::new(false),
            dumpable: Cell::new(1),
            exe: RefCell::new(None),
            itimers: IntervalTimers::default(),
            posix_timers: PosixTimers::default(),
            tracer: ptrace::Tracer::default(),
            oom_score_adj: Cell::new(0),
            dump_filter: Cell::new(0x33),
            ended_io: IoCounters::default(),
            started_ns: hal::clock::monotonic_ns(),
        })
    }

    /// Process id.
    #[inline]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Its PID namespace; `None`: the first.
    pub fn pid_ns(&self) -> Option<&Rc<PidNs>> {
        self.pid_ns.as_ref()
    }

    /// Process id in its own PID namespace: getpid(2).
    #[inline]
    pub fn own_pid(&self) -> i32 {
        self.own_pid
    }

    /// Process id of the parent in its own PID namespace, or 0: getppid(2).
    #[inline]
    pub fn own_ppid(&self) -> i32 {
        self.own_ppid.get()
    }

    /// Whether it is the first process of a PID namespace, which signals without a handler do not end.
    pub fn is_ns_init(&self) -> bool {
        self.pid_ns.as_ref().is_some_and(|ns| ns.init() == self.pid)
    }

    /// Its parent; `None` after that ended without a new parent (end of the pod).
    pub fn parent(&self) -> Option<Rc<Process>> {
        self.parent.borrow().upgrade()
    }

    /// Process id of the parent, or 0.
    #[inline]
    pub fn ppid(&self) -> i32 {
        self.parent_pid.get()
    }

    /// Makes `child` a child of this process.
    pub(crate) fn adopt(self: &Rc<Self>, child: Rc<Process>) {
        *child.parent.borrow_mut() = Rc::downgrade(self);
        child.parent_pid.set(self.pid);
        child.own_ppid.set(pidns::shown_to(&child, self.pid));
        self.children.borrow_mut().insert(child.pid, child);
    }

    /// Its children, zombies too, by id.
    pub fn children(&self) -> impl Iterator<Item = Rc<Process>> + '_ {
        vfs::memory::values(&self.children)
    }

    pub(crate) fn take_children(&self) -> impl Iterator<Item = Rc<Process>> {
        self.children.take().into_values()
    }

    pub(crate) fn remove_child(&self, pid: i32) {
        let gone = self.children.borrow_mut().remove(&pid);
        drop(gone);
    }

    /// Its threads that have not ended, the oldest first.
    pub fn threads(&self) -> impl Iterator<Item = Rc<Task>> + '_ {
        vfs::memory::items(&self.threads)
    }

    /// Number of threads that have not ended.
    pub fn thread_count(&self) -> usize {
        self.threads.borrow().len()
    }

    /// The leader, or another thread that has not ended.
    pub fn main_thread(&self) -> Option<Rc<Task>> {
        let threads = self.threads.borrow();
        threads.iter().find(|t| t.is_leader()).or_else(|| threads.front()).cloned()
    }

    pub(crate) fn add_thread(&self, task: Rc<Task>) {
        self.threads.borrow_mut().push_back(task);
    }

    /// Removes an ended thread; returns whether it was the last.
    pub(crate) fn remove_thread(&self, task: &Rc<Task>) -> bool {
        let mut threads = self.threads.borrow_mut();
        threads.retain(|t| !Rc::ptr_eq(t, task));
        threads.is_empty()
    }

    /// Process group id.
    pub fn group(&self) -> i32 {
        self.group.get()
    }

    pub(crate) fn set_group(&self, group: i32) {
        self.group.set(group);
    }

    /// Its session.
    pub fn session(&self) -> Rc<Session> {
        self.session.borrow().clone()
    }

    pub(crate) fn set_session(&self, session: Rc<Session>) {
        let _old = self.session.replace(session);
    }

    /// Session id.
    pub fn sid(&self) -> i32 {
        self.session.borrow().sid
    }

    /// Soft and hard limit of an `RLIMIT_*` resource.
    #[inline]
    pub fn limit(&self, resource: u32) -> (u64, u64) {
        self.limits.get().get(resource as usize).copied().unwrap_or((u64::MAX, u64::MAX))
    }

    /// All limits by number.
    pub fn limits(&self) -> Limits {
        self.limits.get()
    }

    pub(crate) fn set_limit(&self, resource: u32, value: (u64, u64)) {
        if resource == uapi::raw::general::RLIMIT_NOFILE {
            crate::file::table::limit_was_set(value.0);
        }
        let mut limits = self.limits.get();
        if let Some(limit) = limits.get_mut(resource as usize) {
            *limit = value;
        }
        self.limits.set(limits);
    }

    /// Wait status of a zombie.
    pub fn zombie_status(&self) -> Option<i32> {
        self.zombie.get()
    }

    /// Real user id of a living thread, or of the last one.
    pub fn last_uid(&self) -> u32 {
        self.main_thread().map_or(self.ended_uid.get(), |t| t.cred().uid)
    }

    /// Name of the last thread, after its end.
    pub fn ended_comm(&self) -> Vec<u8> {
        self.ended_comm.get().into_iter().take_while(|b| *b != 0).collect()
    }

    /// State letter of `/proc/PID/stat`.
    pub fn state_letter(&self) -> char {
        match self.main_thread() {
            Some(task) => task.state_letter(),
            None => 'Z',
        }
    }

    /// Resource usage of all its threads, including ended ones.
    pub fn usage(&self) -> Usage {
        let mut sum = self.ended_usage.get();
        for task in self.threads.borrow().iter() {
            sum.add(&task.sched.usage());
        }
        sum
    }

    /// I/O of all its threads, including ended ones.
    pub fn io(&self) -> IoCounters {
        let sum = IoCounters::default();
        sum.add(&self.ended_io);
        for task in self.threads.borrow().iter() {
            sum.add(&task.sched.io);
        }
        sum
    }

    /// Resource usage of its reaped children.
    pub fn children_usage(&self) -> Usage {
        self.children_usage.get()
    }

    /// Start time in ns of the monotonic clock.
    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// The executable that it runs.
    pub fn exe(&self) -> Option<vfs::PathRef> {
        self.exe.borrow().clone()
    }

    /// Wait queue that is woken when the process ends.
    pub fn exit_events(&self) -> Rc<WaitQueue> {
        self.exit_events.clone()
    }
}

/// All processes that are visible to programs, including zombies, by process id.
pub fn all() -> impl Iterator<Item = Rc<Process>> {
    pid::processes()
}

/// Members of a process group.
pub fn of_group(group: i32) -> impl Iterator<Item = Rc<Process>> {
    all().filter(move |p| p.group() == group)
}

/// Whether the process group is orphaned: the default action of terminal stop signals is then to ignore them.
///
/// The group of the pod's first program counts as controlled by a shell, as on the host, except for that program
/// itself: its stop would stop the pod.
pub fn ignores_job_control(process: &Process) -> bool {
    process.pid == pid::FIRST || (process.group() != pid::FIRST && is_orphaned(process.group(), None))
}

/// Whether no member of the group has a parent in another group of the same session: terminal stop signals have no
/// effect then, setpgid(2).
pub fn is_orphaned(group: i32, ignored: Option<i32>) -> bool {
    of_group(group).filter(|p| Some(p.pid) != ignored && p.zombie.get().is_none()).all(|p| {
        p.parent().is_none_or(|parent| parent.group() == group || parent.sid() != p.sid() || parent.pid == pid::INIT)
    })
}
