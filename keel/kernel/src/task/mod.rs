//! Threads and processes.
//!
//! A [`Task`] is a thread, a [`Process`] a thread group. Keel itself is process 1: it has no thread,
//! adopts orphans and reaps them at once. The pod's first program is process 2, so that default
//! signal actions end it as on the host; when it exits, the pod ends with its status.

pub mod access;
pub mod call;
pub mod caller;
pub mod clone;
pub mod cred;
pub mod descriptors;
mod directories;
pub mod exit;
pub mod futex;
mod futex_count;
mod futex_pi;
pub mod landlock;
pub mod limits;
pub mod mountns;
pub mod namespaces;
pub mod oom;
pub mod path;
pub mod pid;
pub mod pidfd;
pub mod pidns;
pub mod process;
pub mod ptrace;
pub mod reap;
pub mod robust;
pub mod rseq;
pub mod seccomp;
pub mod securebits;
pub mod user_dispatch;
pub mod uts;
pub mod watch;
mod ways;

pub use cred::Cred;
pub use directories::FsContext;
pub use namespaces::Namespaces;
pub use process::Process;

use crate::file::{FdTable, spare::Lent, unlocked::Cores};
use crate::ipc::sem;
use crate::mm::{self, Mm, Space, policy::Policy};
use crate::sched::{self, Interrupt, Owner};
use crate::signal::TaskSignals;
use crate::time::itimer;
use abi::layout::MAX_CPUS;
use alloc::rc::{Rc, Weak};
use core::any::Any;
use core::cell::{Cell, Ref, RefCell};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use hal::cell::{Global, Padded};
use hal::sync::grace::Published;
use hal::thread::Thread;

/// A thread for each virtual CPU.
type ByCpu = Global<[Padded<RefCell<Option<Rc<Task>>>>; MAX_CPUS]>;

/// The running thread of each virtual CPU. Quick calls borrow their own without the big lock; borrow counts are not
/// atomic: only the virtual CPU itself borrows its entry while it runs.
static CURRENT: ByCpu = Global::new([const { Padded::new(RefCell::new(None)) }; MAX_CPUS]);

/// A thread.
pub struct Task {
    /// Changes only when execve(2) makes another thread the leader.
    tid: Cell<i32>,
    /// Thread id in its own PID namespace.
    own_tid: Cell<i32>,
    process: Rc<Process>,
    /// Kernel stack and registers.
    pub thread: Rc<Thread>,
    mm: RefCell<Option<mm::User>>,
    /// State of the address space for page faults without the big lock.
    pub(crate) unlocked_space: Published<Space>,
    /// Memory of the ended thread; released when another thread runs.
    left_mm: RefCell<Option<Rc<Mm>>>,
    files: RefCell<Option<Rc<FdTable>>>,
    /// Its page faults without memory.
    pub(crate) starved: Cell<oom::Starved>,
    /// State of the open files for calls without the big lock.
    pub(crate) unlocked_files: Published<Cores>,
    /// What its table of descriptors lends to calls without the big lock.
    pub(crate) unlocked_lent: Published<Lent>,
    fs: RefCell<Option<Rc<FsContext>>>,
    /// Numbers of its root and working directory for calls without the big lock.
    pub(crate) unlocked_fs: Published<directories::Numbers>,
    /// Number of its credentials in [`vfs::ways`]; 0: not known.
    pub(crate) caller: AtomicU64,
    /// It sees ids as they are: its user namespace is the first.
    pub(crate) sees_ids: AtomicBool,
    pub(crate) cred: RefCell<Rc<Cred>>,
    /// Its namespaces but for the user namespace; `None` after its end.
    namespaces: RefCell<Option<Rc<Namespaces>>>,
    /// Name, at most 15 bytes and a zero byte.
    pub(crate) comm: Cell<[u8; 16]>,
    pub(crate) sched: Rc<sched::Thread>,
    pub(crate) signals: TaskSignals,
    /// Word to clear and wake at exit, set_tid_address(2); 0: none.
    pub(crate) clear_tid: Cell<usize>,
    /// Address to which the new thread writes its id (`CLONE_CHILD_SETTID`); 0: none.
    pub(crate) set_tid: Cell<usize>,
    /// Head of the robust futex list; 0: none.
    pub(crate) robust_list: Cell<usize>,
    /// Woken when this thread no longer uses its parent's memory (vfork(2)).
    pub(crate) vfork: RefCell<Option<Rc<clone::VforkGate>>>,
    /// A signal interrupted its fork(2): the next one keeps the big lock.
    pub(crate) fork_again: Cell<bool>,
    pub(crate) no_new_privs: Cell<bool>,
    /// Signal at the parent's exit, prctl(2) `PR_SET_PDEATHSIG`.
    pub(crate) parent_death_signal: Cell<u32>,
    pub(crate) personality: Cell<u32>,
    pub(crate) securebits: Cell<u32>,
    pub(crate) timer_slack_ns: Cell<u64>,
    /// `PR_MCE_KILL`.
    pub(crate) memory_failure_policy: Cell<u8>,
    /// `PR_SET_IO_FLUSHER`: it serves file systems, so its allocations must not wait for them. keel's never do.
    pub(crate) io_flusher: Cell<bool>,
    /// Default slack, inherited from the creator.
    timer_slack_default_ns: Cell<u64>,
    /// loginuid and sessionid, for audit records; `u32::MAX` before a login.
    pub(crate) login: Cell<(u32, u32)>,
    /// Start, `CLOCK_BOOTTIME`-like ns of the monotonic clock.
    pub(crate) started_ns: u64,
    pub(crate) io_priority: Cell<i32>,
    /// Processor time in ns at the last measured call.
    pub(crate) sampled_ns: Cell<u64>,
    /// Undo adjustments of semaphores, semop(2).
    pub(crate) sem_undo: RefCell<Option<Rc<sem::UndoList>>>,
    /// Tracing state.
    pub(crate) traced: ptrace::Traced,
    /// System call filters.
    pub(crate) seccomp: seccomp::Seccomp,
    /// Syscall user dispatch.
    pub(crate) user_dispatch: user_dispatch::UserDispatch,
    /// Restartable sequences.
    pub(crate) rseq: rseq::Rseq,
    /// Memory policy, set_mempolicy(2).
    pub(crate) memory_policy: Cell<Option<Policy>>,
}

impl core::fmt::Debug for Task {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Task").field("tid", &self.tid).finish_non_exhaustive()
    }
}

/// State that a new thread shares with its creator, or copies.
pub(crate) struct Parts {
    pub process: Rc<Process>,
    pub thread: Thread,
    pub mm: Option<Rc<Mm>>,
    pub files: Rc<FdTable>,
    pub fs: Rc<FsContext>,
    pub cred: Rc<Cred>,
    pub namespaces: Rc<Namespaces>,
    pub signals: TaskSignals,
    pub sched: sched::Entity,
    pub comm: [u8; 16],
}

/// The running thread.
///
/// # Panics
/// Outside of any thread (early boot).
#[inline]
pub fn current() -> Rc<Task> {
    match try_current() {
        Some(task) => task,
        None => unreachable!("no thread runs yet"),
    }
}

/// The running thread; `None` during boot.
#[inline]
pub fn try_current() -> Option<Rc<Task>> {
    CURRENT.get(hal::percpu::cpu_index())?.borrow().clone()
}

/// Runs `f` on the running thread without a refcount. `f` must neither block nor exit.
///
/// # Panics
/// Outside of any thread (early boot).
#[inline(always)]
pub fn with_current<R>(f: impl FnOnce(&Task) -> R) -> R {
    match CURRENT[hal::percpu::cpu_index() % MAX_CPUS].borrow().as_ref() {
        Some(task) => f(task),
        None => unreachable!("no thread runs yet"),
    }
}

/// Like [`with_current`], but `None` instead of a panic.
#[inline(always)]
pub fn try_with_current<R>(f: impl FnOnce(&Task) -> Option<R>) -> Option<R> {
    f(CURRENT.get(hal::percpu::cpu_index())?.try_borrow().ok()?.as_ref()?)
}

/// The running thread, borrowed.
#[inline(always)]
pub fn try_borrow_current() -> Option<Ref<'static, Option<Rc<Task>>>> {
    CURRENT[hal::percpu::cpu_index() % MAX_CPUS].try_borrow().ok()
}

impl Task {
    /// Sets the timer slack; 0: the default.
    pub(crate) fn set_timer_slack(&self, ns: u64) {
        self.timer_slack_ns.set(if ns == 0 { self.timer_slack_default_ns.get() } else { ns });
    }

    /// A new thread inherits its creator's slack, also as default.
    fn inherit_timer_slack(&self, creator: &Self) {
        self.timer_slack_ns.set(creator.timer_slack_ns.get());
        self.timer_slack_default_ns.set(creator.timer_slack_ns.get());
    }

    pub(crate) fn new(tid: i32, parts: Parts) -> Rc<Self> {
        let unlocked_files = Published::empty();
        unlocked_files.replace(Some(parts.files.unlocked()));
        let unlocked_lent = Published::empty();
        unlocked_lent.replace(parts.files.what_is_lent());
        let stack = Rc::new(parts.thread);
        let unlocked_space = Published::empty();
        unlocked_space.replace(parts.mm.as_ref().map(|mm| mm.unlocked()));
        let root = parts.mm.as_ref().map(|mm| mm.root());
        let unlocked_fs = Published::empty();
        unlocked_fs.replace(Some(parts.fs.numbers().clone()));
        Rc::new_cyclic(|me: &Weak<Self>| Self {
            tid: Cell::new(tid),
            own_tid: Cell::new(pidns::shown_to(&parts.process, tid)),
            process: parts.process,
            sched: sched::Thread::new(parts.sched, stack.clone(), root, me.clone()),
            thread: stack,
            mm: RefCell::new(parts.mm.map(mm::User::new)),
            unlocked_space,
            left_mm: RefCell::new(None),
            unlocked_files,
            unlocked_lent,
            files: RefCell::new(Some(parts.files)),
            fs: RefCell::new(Some(parts.fs)),
            unlocked_fs,
            caller: AtomicU64::new(0),
            sees_ids: AtomicBool::new(parts.cred.user_ns.is_first()),
            cred: RefCell::new(parts.cred),
            namespaces: RefCell::new(Some(parts.namespaces)),
            comm: Cell::new(parts.comm),
            signals: parts.signals,
            clear_tid: Cell::new(0),
            set_tid: Cell::new(0),
            robust_list: Cell::new(0),
            vfork: RefCell::new(None),
            fork_again: Cell::new(false),
            starved: Cell::default(),
            no_new_privs: Cell::new(false),
            parent_death_signal: Cell::new(0),
            personality: Cell::new(0),
            securebits: Cell::new(0),
            timer_slack_ns: Cell::new(50_000),
            memory_failure_policy: Cell::new(uapi::raw::prctl::PR_MCE_KILL_DEFAULT as u8),
            io_flusher: Cell::new(false),
            timer_slack_default_ns: Cell::new(50_000),
            login: Cell::new((u32::MAX, u32::MAX)),
            started_ns: hal::clock::monotonic_ns(),
            io_priority: Cell::new(0),
            sampled_ns: Cell::new(0),
            sem_undo: RefCell::new(None),
            traced: ptrace::Traced::default(),
            seccomp: seccomp::Seccomp::default(),
            user_dispatch: user_dispatch::UserDispatch::default(),
            rseq: rseq::Rseq::default(),
            memory_policy: Cell::new(None),
        })
    }

    /// Its memory.
    ///
    /// # Panics
    /// If the thread has exited; see [`Task::try_mm`].
    pub fn mm(&self) -> Rc<Mm> {
        match self.try_mm() {
            Some(mm) => mm,
            None => unreachable!("memory of an exited thread"),
        }
    }

    /// Its memory, unless it has exited.
    pub fn try_mm(&self) -> Option<Rc<Mm>> {
        self.mm.borrow().as_ref().map(|user| user.mm().clone())
    }

    /// Its open files.
    ///
    /// # Panics
    /// If the thread has exited; see [`Task::try_files`].
    #[inline]
    pub fn files(&self) -> Rc<FdTable> {
        match self.try_files() {
            Some(files) => files,
            None => unreachable!("files of an exited thread"),
        }
    }

    /// Its open files, unless it has exited.
    pub fn try_files(&self) -> Option<Rc<FdTable>> {
        self.files.borrow().clone()
    }

    /// Runs `f` on its open files without a refcount; `f` must not block.
    ///
    /// # Panics
    /// If the thread has exited.
    #[inline(always)]
    pub fn with_files<R>(&self, f: impl FnOnce(&FdTable) -> R) -> R {
        match self.files.borrow().as_ref() {
            Some(files) => f(files),
            None => unreachable!("files of an exited thread"),
        }
    }

    /// Copies the thread's open files if they are shared. ENOMEM.
    pub fn unshare_files(&self) -> uapi::Result<()> {
        let files = self.files();
        // The thread's reference and this handle.
        if Rc::strong_count(&files) > 2 {
            let _old = self.set_files(Some(files.fork()?));
        }
        Ok(())
    }

    /// Its root, working directory and umask.
    ///
    /// # Panics
    /// If the thread has exited; see [`Task::try_fs`].
    pub fn fs(&self) -> Rc<FsContext> {
        match self.try_fs() {
            Some(fs) => fs,
            None => unreachable!("directories of an exited thread"),
        }
    }

    /// Its root, working directory and umask, unless it has exited.
    pub fn try_fs(&self) -> Option<Rc<FsContext>> {
        self.fs.borrow().clone()
    }

    /// Its credentials.
    pub fn cred(&self) -> Rc<Cred> {
        self.cred.borrow().clone()
    }

    /// Its namespaces.
    ///
    /// # Panics
    /// If the thread has exited; see [`Task::try_namespaces`].
    pub fn namespaces(&self) -> Rc<Namespaces> {
        match self.try_namespaces() {
            Some(namespaces) => namespaces,
            None => unreachable!("namespaces of an exited thread"),
        }
    }

    /// Its namespaces, unless it has exited.
    pub fn try_namespaces(&self) -> Option<Rc<Namespaces>> {
        self.namespaces.borrow().clone()
    }

    pub(crate) fn set_namespaces(&self, namespaces: Option<Rc<Namespaces>>) {
        let old = self.namespaces.replace(namespaces);
        drop(old);
    }

    /// Replaces its credentials.
    pub(crate) fn set_cred(&self, cred: Cred) {
        self.sees_ids.store(cred.user_ns.is_first(), Relaxed);
        self.caller.store(0, Relaxed);
        let _old = self.cred.replace(Rc::new(cred));
    }

    /// Sets the open files of the running thread.
    pub(crate) fn set_files(&self, files: Option<Rc<FdTable>>) -> Option<Rc<FdTable>> {
        self.unlocked_files.replace(files.as_ref().map(|files| files.unlocked()));
        self.unlocked_lent.replace(files.as_ref().and_then(|files| files.what_is_lent()));
        self.files.replace(files)
    }

    pub(crate) fn set_fs(&self, fs: Option<Rc<FsContext>>) -> Option<Rc<FsContext>> {
        self.unlocked_fs.replace(fs.as_ref().map(|fs| fs.numbers().clone()));
        self.fs.replace(fs)
    }

    /// Keeps the memory alive until another thread runs, see [`Owner::release`].
    pub(crate) fn leave_mm(&self, mm: Option<Rc<Mm>>) {
        let _none = self.left_mm.replace(mm);
    }

    pub(crate) fn set_mm(&self, mm: Option<Rc<Mm>>) -> Option<Rc<Mm>> {
        self.unlocked_space.replace(mm.as_ref().map(|mm| mm.unlocked()));
        self.sched.set_root(mm.as_ref().map(|mm| mm.root()));
        self.mm.replace(mm.map(mm::User::new)).map(|user| user.mm().clone())
    }

    /// Thread id.
    #[inline]
    pub fn tid(&self) -> i32 {
        self.tid.get()
    }

    /// Thread id in its own PID namespace: gettid(2).
    #[inline]
    pub fn own_tid(&self) -> i32 {
        self.own_tid.get()
    }

    pub(crate) fn set_tid_number(&self, tid: i32) {
        self.tid.set(tid);
        self.own_tid.set(pidns::shown_to(&self.process, tid));
    }

    /// Process id.
    #[inline]
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Its process.
    #[inline]
    pub fn process(&self) -> &Rc<Process> {
        &self.process
    }

    /// Its name, without the zero byte: `/proc/PID/comm`.
    pub fn comm(&self) -> ([u8; 16], usize) {
        let comm = self.comm.get();
        (comm, comm.iter().position(|b| *b == 0).unwrap_or(15))
    }

    /// Sets its name; only the first 15 bytes are kept.
    pub fn set_comm(&self, name: &[u8]) {
        let mut comm = [0; 16];
        for (to, from) in comm[..15].iter_mut().zip(name) {
            *to = *from;
        }
        self.comm.set(comm);
    }

    /// State letter of `/proc/PID/stat`: R, S, D, T, Z.
    pub fn state_letter(&self) -> char {
        if self.traced.is_stopped() { 't' } else { self.sched.state().letter() }
    }

    /// Start time in ns of the monotonic clock.
    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// Whether `PR_SET_NO_NEW_PRIVS` holds.
    pub fn no_new_privs(&self) -> bool {
        self.no_new_privs.get()
    }

    /// Whether this is the leader: the thread whose id is the process's.
    pub fn is_leader(&self) -> bool {
        self.tid() == self.pid()
    }

    /// Soft limit, getrlimit(2); `u64::MAX` is unlimited. `resource` is an `RLIMIT_*` number.
    #[inline]
    pub fn limit(&self, resource: u32) -> u64 {
        self.process.limit(resource).0
    }

    /// Makes this thread check for work before it returns to its program.
    pub(crate) fn set_work(self: &Rc<Self>) {
        self.sched.work.set(true);
        sched::call_attention(&self.sched);
    }
}

impl Owner for Task {
    fn is_interrupted(&self, by: Interrupt) -> bool {
        match by {
            Interrupt::BySignal => self.has_signal() || self.traced.is_interrupted(),
            Interrupt::ByKill => self.is_killed(),
            Interrupt::Never => false,
        }
    }

    fn becomes_current(self: Rc<Self>, cpu: usize) {
        if let Some(current) = CURRENT.get(cpu) {
            // The replaced handle is dropped after the borrow ends.
            let _old = current.replace(Some(self));
        }
    }

    fn resumed(&self) {
        rseq::switched(self);
    }

    fn check_cpu_time(&self) {
        itimer::check_cpu_time(&self.process);
    }

    fn release(self: Rc<Self>) {
        let mm = self.left_mm.take();
        drop(self);
        if let Some(mm) = mm
            && Rc::strong_count(&mm) == 1
        {
            mm.clear();
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Calls `f` with the threads that run in the memory of `me` on other virtual CPUs.
pub fn for_each_running_beside(me: &Task, mut f: impl FnMut(&Task)) {
    let Some(mm) = me.try_mm() else { return };
    let others = sched::others_at_work();
    for cpu in (0..MAX_CPUS).filter(|cpu| others >> cpu & 1 != 0) {
        let other = sched::current_of(cpu);
        let Some(other) = other.and_then(|other| other.owner()) else { continue };
        let Some(other) = other.as_any().downcast_ref::<Task>() else { continue };
        let runs = other.sched.state() == sched::State::Running && other.sched.cpu() == cpu;
        if runs && other.try_mm().is_some_and(|other| Rc::ptr_eq(&other, &mm)) {
            f(other);
        }
    }
}
