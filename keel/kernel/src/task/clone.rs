//! Creates threads and processes; clone(2).

use super::namespaces;
use super::pidns::{self, PidNs};
use super::process::Process;
use super::{Parts, Task, current, oom, pid, pidfd, ptrace};
use crate::ipc::sem;
use crate::mm::{Mm, user};
use crate::sched;
use crate::sched::wait::{Interrupt, WaitQueue, wait_until};
use crate::signal::{AltStack, TaskSignals};
use abi::layout::USER_TOP;
use alloc::rc::Rc;
use core::cell::Cell;
use hal::thread::Thread;
use hal::trap::TrapFrame;
use keel_core::sigset::MAX_SIGNAL;
use uapi::raw::general as g;
use uapi::{Errno, Result};

const VM: u64 = g::CLONE_VM as u64;
const FS: u64 = g::CLONE_FS as u64;
const FILES: u64 = g::CLONE_FILES as u64;
const SIGHAND: u64 = g::CLONE_SIGHAND as u64;
const THREAD: u64 = g::CLONE_THREAD as u64;
const VFORK: u64 = g::CLONE_VFORK as u64;
const PARENT: u64 = g::CLONE_PARENT as u64;
const SETTLS: u64 = g::CLONE_SETTLS as u64;
const PARENT_SETTID: u64 = g::CLONE_PARENT_SETTID as u64;
const CHILD_SETTID: u64 = g::CLONE_CHILD_SETTID as u64;
const CHILD_CLEARTID: u64 = g::CLONE_CHILD_CLEARTID as u64;
const PIDFD: u64 = g::CLONE_PIDFD as u64;
const SYSVSEM: u64 = g::CLONE_SYSVSEM as u64;
const DETACHED: u64 = g::CLONE_DETACHED as u64;
const NEWTIME: u64 = g::CLONE_NEWTIME as u64;
const CLEAR_SIGHAND: u64 = g::CLONE_CLEAR_SIGHAND;
const INTO_CGROUP: u64 = g::CLONE_INTO_CGROUP;
/// Low byte of clone's flags: the signal at the child's end.
const EXIT_SIGNAL: u64 = 0xff;
/// New namespaces.
const NAMESPACES: u64 = namespaces::ALL_TYPES as u64;

/// A vfork(2) parent waits for it.
#[derive(Debug, Default)]
pub struct VforkGate {
    open: Cell<bool>,
    queue: Rc<WaitQueue>,
}

impl VforkGate {
    /// Called when the child no longer uses the parent's memory.
    pub fn open(&self) {
        self.open.set(true);
        self.queue.wake_all();
    }
}

/// Arguments of clone3(2); those of the other calls are converted to it.
#[derive(Clone, Copy, Debug, Default)]
struct Request {
    flags: u64,
    pidfd: usize,
    child_tid: usize,
    parent_tid: usize,
    exit_signal: u32,
    /// New stack pointer; 0: the caller's.
    stack: u64,
    tls: u64,
    /// Requested thread id.
    set_tid: Option<i32>,
}

/// clone(2), x86-64 order of arguments. EAGAIN, EINVAL, ENOMEM, EPERM.
pub fn sys_clone(
    frame: &mut TrapFrame,
    flags: u64,
    stack: u64,
    parent_tid: usize,
    child_tid: usize,
    tls: u64,
) -> Result<i32> {
    // The flags of clone are 32 bits.
    let flags = flags & 0xffff_ffff;
    if flags & PIDFD != 0 && flags & (PARENT_SETTID | DETACHED) != 0 {
        return Err(Errno::EINVAL);
    }
    let request = Request {
        flags: flags & !(EXIT_SIGNAL | DETACHED),
        pidfd: if flags & PIDFD != 0 { parent_tid } else { 0 },
        child_tid,
        parent_tid,
        exit_signal: (flags & EXIT_SIGNAL) as u32,
        stack,
        tls,
        set_tid: None,
    };
    run(frame, &request)
}

/// fork(2). EAGAIN, ENOMEM.
pub fn sys_fork(frame: &mut TrapFrame) -> Result<i32> {
    run(frame, &Request { exit_signal: g::SIGCHLD, ..Request::default() })
}

/// vfork(2). EAGAIN, ENOMEM.
pub fn sys_vfork(frame: &mut TrapFrame) -> Result<i32> {
    run(frame, &Request { flags: VM | VFORK, exit_signal: g::SIGCHLD, ..Request::default() })
}

/// clone3(2). E2BIG, EAGAIN, EEXIST, EFAULT, EINVAL, ENOMEM, EPERM.
pub fn sys_clone3(frame: &mut TrapFrame, args: usize, size: usize) -> Result<i32> {
    const FIRST_SIZE: usize = 64;
    const KNOWN_SIZE: usize = size_of::<g::clone_args>();
    const MAX_PID_LEVELS: u64 = 32;
    if size > abi::layout::PAGE_SIZE {
        return Err(Errno::E2BIG);
    }
    if size < FIRST_SIZE {
        return Err(Errno::EINVAL);
    }
    let mut words = [0u64; KNOWN_SIZE / 8];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    user::read_bytes(args, &mut bytes[..size.min(KNOWN_SIZE)])?;
    if size > KNOWN_SIZE {
        let rest = user::read_array::<u8>(args.wrapping_add(KNOWN_SIZE), size - KNOWN_SIZE)?;
        if rest.iter().any(|b| *b != 0) {
            return Err(Errno::E2BIG);
        }
    }
    let [flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup] =
        words;
    if set_tid_size > MAX_PID_LEVELS || (set_tid == 0) != (set_tid_size == 0) {
        return Err(Errno::EINVAL);
    }
    // One id per PID namespace, the innermost first; others than that get the next free one here.
    if set_tid_size > 1 {
        return Err(Errno::EINVAL);
    }
    if exit_signal > u64::from(MAX_SIGNAL) || (flags & INTO_CGROUP != 0 && cgroup > i32::MAX as u64) {
        return Err(Errno::EINVAL);
    }
    if flags & INTO_CGROUP != 0 {
        return Err(Errno::EBADF);
    }
    if flags & (DETACHED | (EXIT_SIGNAL & !NEWTIME)) != 0 || flags >> 34 != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & (THREAD | PARENT) != 0 && exit_signal != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & SIGHAND != 0 && flags & CLEAR_SIGHAND != 0 {
        return Err(Errno::EINVAL);
    }
    if (stack == 0) != (stack_size == 0) {
        return Err(Errno::EINVAL);
    }
    let top = stack.checked_add(stack_size).filter(|top| *top <= USER_TOP as u64).ok_or(Errno::EINVAL)?;
    let set_tid = if set_tid == 0 { None } else { Some(user::read::<i32>(set_tid as usize)?) };
    let request = Request {
        flags,
        pidfd: pidfd as usize,
        child_tid: child_tid as usize,
        parent_tid: parent_tid as usize,
        exit_signal: exit_signal as u32,
        stack: top,
        tls,
        set_tid,
    };
    run(frame, &request)
}

/// Rejects invalid combinations of flags.
fn check(r: &Request) -> Result<()> {
    let has = |flag: u64| r.flags & flag != 0;
    if has(SIGHAND) && !has(VM) || has(THREAD) && !has(SIGHAND) {
        return Err(Errno::EINVAL);
    }
    if has(g::CLONE_NEWNS as u64) && has(FS) || has(g::CLONE_NEWUSER as u64) && has(FS) {
        return Err(Errno::EINVAL);
    }
    if has(THREAD) && has((g::CLONE_NEWUSER | g::CLONE_NEWPID) as u64) {
        return Err(Errno::EINVAL);
    }
    if has(SYSVSEM) && has(g::CLONE_NEWIPC as u64) {
        return Err(Errno::EINVAL);
    }
    let me = current();
    if has(PARENT) && me.process().is_ns_init() {
        return Err(Errno::EINVAL);
    }
    let for_children = me.namespaces().pid_for_children.clone();
    let is_own = |ns: Option<&Rc<PidNs>>| ns.map(Rc::as_ptr) == me.process().pid_ns().map(Rc::as_ptr);
    if has(THREAD) && !is_own(for_children.as_ref()) {
        return Err(Errno::EINVAL);
    }
    if for_children.is_some_and(|ns| !ns.is_open()) && !has(THREAD) {
        return Err(Errno::ENOMEM);
    }
    if has(SETTLS) && r.tls as usize >= USER_TOP {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// The id of clone3(2) `set_tid`. EEXIST, EINVAL, EPERM.
fn chosen_id(me: &Rc<Task>, wanted: i32) -> Result<i32> {
    let cred = me.cred();
    if !(1..pid::PID_MAX).contains(&wanted) {
        return Err(Errno::EINVAL);
    }
    if !cred.capable(super::cred::cap::CHECKPOINT_RESTORE) && !cred.capable(super::cred::cap::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    Ok(wanted)
}

/// Ids in PID namespaces of a thread that is not in the table yet.
struct Rollback {
    ns: Option<Rc<PidNs>>,
    id: i32,
}

impl Rollback {
    fn keep(mut self) {
        self.ns = None;
    }
}

impl Drop for Rollback {
    fn drop(&mut self) {
        if let Some(ns) = self.ns.take() {
            ns.abandon(self.id);
        }
    }
}

fn run(frame: &mut TrapFrame, request: &Request) -> Result<i32> {
    check(request)?;
    let me = current();
    let child = create(&me, frame, request)?;
    let told = pidns::shown(child.tid());
    let gate = child.vfork.borrow().clone();
    let event = ptrace::created(&me, &child, gate.is_some(), request.exit_signal);
    sched::resume(&child.sched);
    drop(child);
    ptrace::create_stop(frame, event, told);
    if let Some(gate) = gate {
        // A parent that is killed does not wait: the child keeps the memory alive.
        let _ =
            wait_until(core::slice::from_ref(&gate.queue), None, Interrupt::ByKill, || gate.open.get().then_some(()));
        ptrace::vfork_done(frame, told);
    }
    Ok(told)
}

/// RLIMIT_NPROC, and the limit of the pod. EAGAIN.
fn check_count(me: &Task) -> Result<()> {
    if !pid::may_add_thread() {
        return Err(Errno::EAGAIN);
    }
    let (most, _) = me.process().limit(g::RLIMIT_NPROC);
    let exempt = || me.cred().capable(super::cred::cap::SYS_RESOURCE);
    if pid::thread_count() as u64 >= most && !exempt() { Err(Errno::EAGAIN) } else { Ok(()) }
}

/// The memory of a child process. ENOMEM; ERESTARTNOINTR: a signal came meanwhile.
fn copy_memory(me: &Task) -> Result<Rc<Mm>> {
    let mm = me.mm();
    // The thread has one handle, and so has each other thread or vfork child in the same memory.
    let alone = Rc::strong_count(&mm) == 2 && !me.fork_again.take();
    let copy = oom::with_memory(|| mm.fork(alone))?;
    // The same for a signal that was sent while the big lock was released; the next attempt keeps the lock.
    if alone && me.has_signal() {
        copy.clear();
        me.fork_again.set(true);
        return Err(Errno::ERESTARTNOINTR);
    }
    Ok(copy)
}

fn create(me: &Rc<Task>, frame: &TrapFrame, r: &Request) -> Result<Rc<Task>> {
    let has = |flag: u64| r.flags & flag != 0;
    let parent = me.process();
    check_count(me)?;
    // As on Linux: signals that came before are handled before, so that one to the process group reaches the child as well.
    if me.has_signal() {
        return Err(Errno::ERESTARTNOINTR);
    }

    let fs = if has(FS) { me.fs() } else { me.fs().fork() };
    let (new_cred, new_namespaces) = namespaces::prepare(me, (r.flags & NAMESPACES) as u32, &fs)?;
    let mut start = frame.clone();
    start.set_result(0);
    start.set_replaced();
    if me.traced.is_stepping() {
        ptrace::clear_step(&mut start);
    }
    if r.stack != 0 {
        start.set_stack_pointer(r.stack);
    }
    let thread = Thread::new(&start).ok_or(Errno::ENOMEM)?;
    thread.inherit_fpu(&me.thread);
    thread.set_fs_base(if has(SETTLS) { r.tls } else { me.thread.fs_base() });

    let mm = if has(VM) { me.mm() } else { copy_memory(me)? };
    // Others may have made threads while the memory was copied.
    check_count(me)?;
    sched::reserve()?;
    let files = me.files();
    let files = if has(FILES) {
        files.share();
        files
    } else {
        files.fork()?
    };
    let pid_ns = new_namespaces.as_ref().map_or_else(|| me.namespaces(), Rc::clone).pid_for_children.clone();
    let tid = match r.set_tid {
        Some(wanted) if pid_ns.is_none() => pid::choose(chosen_id(me, wanted)?)?,
        _ => pid::allocate()?,
    };
    let own_tid = match &pid_ns {
        Some(ns) => ns.enter(tid, r.set_tid.map(|wanted| chosen_id(me, wanted)).transpose()?, !has(THREAD))?,
        None => tid,
    };
    // Gives the ids in PID namespaces back if it fails from here on.
    let rollback = Rollback { ns: pid_ns.clone(), id: tid };
    let actions = if has(SIGHAND) { me.signals.actions() } else { me.signals.actions().fork() };
    if has(CLEAR_SIGHAND) {
        actions.reset_handlers();
    }
    // A thread starts without an alternate stack; a vfork child keeps its parent's.
    let keeps_stack = !has(VM) || has(VFORK);
    let alt_stack = if keeps_stack { me.signals.alt_stack.get() } else { AltStack::NONE };
    let process = if has(THREAD) {
        parent.clone()
    } else {
        let within = pid_ns.map(|ns| (ns, own_tid));
        let child = Process::new(tid, parent.group(), parent.session(), parent.limits(), within);
        child.exit_signal.set(if has(PARENT) { parent.exit_signal.get() } else { r.exit_signal });
        child.dumpable.set(parent.dumpable.get());
        child.has_subreaper.set(parent.has_subreaper.get() || parent.subreaper.get());
        child.oom_score_adj.set(parent.oom_score_adj.get());
        child.dump_filter.set(parent.dump_filter.get());
        *child.exe.borrow_mut() = parent.exe();
        child
    };
    let task = Task::new(
        tid,
        Parts {
            process: process.clone(),
            thread,
            mm: Some(mm),
            files,
            fs,
            cred: new_cred.map_or_else(|| me.cred(), Rc::new),
            namespaces: new_namespaces.unwrap_or_else(|| me.namespaces()),
            signals: TaskSignals::new(actions, me.signals.blocked.get(), alt_stack),
            sched: sched::Entity::new(Some(&me.sched)),
            comm: me.comm.get(),
        },
    );
    task.signals.trap.set(me.signals.trap.get());
    task.no_new_privs.set(me.no_new_privs.get());
    task.personality.set(me.personality.get());
    // The first program of a user namespace begins without securebits.
    if r.flags & g::CLONE_NEWUSER as u64 == 0 {
        task.securebits.set(me.securebits.get());
    }
    task.inherit_timer_slack(me);
    task.memory_failure_policy.set(me.memory_failure_policy.get());
    task.io_flusher.set(me.io_flusher.get());
    task.login.set(me.login.get());
    task.io_priority.set(me.io_priority.get());
    task.memory_policy.set(me.memory_policy.get());
    task.seccomp.replace(me.seccomp.inherited());
    if !has(VM) {
        task.rseq.inherit(&me.rseq);
    }
    if has(SYSVSEM) {
        sem::inherit(me, &task);
    }
    if has(CHILD_CLEARTID) {
        task.clear_tid.set(r.child_tid);
    }
    if has(CHILD_SETTID) {
        task.set_tid.set(r.child_tid);
    }
    if has(VFORK) {
        *task.vfork.borrow_mut() = Some(Rc::default());
    }
    if has(PIDFD) {
        let fd = pidfd::open(&process, 0)?;
        if let Err(errno) = user::write(r.pidfd, &fd) {
            // Ignore errors: another thread may have closed the descriptor meanwhile.
            let _ = me.files().close(fd);
            return Err(errno);
        }
    }
    if has(PARENT_SETTID) {
        // Linux ignores a bad address here, too.
        let _ = user::write(r.parent_tid, &pidns::shown(tid));
    }
    rollback.keep();

    process.add_thread(task.clone());
    pid::enter(tid, task.clone(), (!has(THREAD)).then(|| process.clone()));
    if !has(THREAD) {
        let real_parent = if has(PARENT) { parent.parent() } else { Some(parent.clone()) };
        let thread = if has(PARENT) { parent.parent_thread.get() } else { current().tid() };
        process.parent_thread.set(thread);
        real_parent.unwrap_or_else(pid::init_process).adopt(process);
    } else {
        let stopping = &process.signals.stopping;
        if process.signals.stopped_by.get() != 0 {
            stopping.set(stopping.get() + 1);
        }
    }
    // It must check signals that its group got meanwhile.
    task.sched.work.set(true);
    Ok(task)
}

/// Initial work of a new thread.
pub fn begin() {
    let me = current();
    let at = me.set_tid.take();
    if at != 0 {
        // Linux ignores a bad address here.
        let _ = user::write(at, &me.own_tid());
    }
}
