//! The end of threads and processes; exit(2).

use super::process::Process;
use super::{Task, current, futex, futex_pi, pid, ptrace, robust};
use crate::ipc::sem;
use crate::mm::user;
use crate::sched;
use crate::signal::{self, SIG_IGN, SigInfo, code, send};
use crate::task;
use alloc::rc::Rc;
use core::cell::Cell;
use hal::cell::Global;
use uapi::raw::general as g;

/// Wait status of an ordinary exit.
pub const fn exited(code: i32) -> i32 {
    (code & 0xff) << 8
}

/// exit(2): ends the calling thread.
pub fn sys_exit(code: i32) -> uapi::Result<()> {
    exit_thread(exited(code))
}

/// exit_group(2): ends the process.
pub fn sys_exit_group(code: i32) -> uapi::Result<()> {
    let status = kill_group(exited(code));
    exit_thread(status)
}

/// Makes all threads of the current process exit; returns the exit status in effect.
fn kill_group(status: i32) -> i32 {
    let me = current();
    let process = me.process();
    if let Some(earlier) = process.signals.group_exit.get() {
        return earlier;
    }
    send::kill_all(process, status);
    status
}

/// Callbacks at ends, for the tracing of calls.
#[derive(Clone, Copy)]
pub struct Observer {
    /// The current thread ends with this wait status.
    pub ended: fn(i32),
    /// The pod ends.
    pub pod_ends: fn(),
}

static OBSERVER: Global<Cell<Option<Observer>>> = Global::new(Cell::new(None));

/// Registers `observer`.
pub fn observe(observer: Observer) {
    OBSERVER.set(Some(observer));
}

/// Ends the current thread. The caller must not hold a refcounted handle: its stack is never unwound.
pub fn exit_thread(status: i32) -> ! {
    ptrace::ending(status);
    clean_up(status);
    sched::end()
}

/// Releases the thread's resources; its address space is released by the next thread.
fn clean_up(status: i32) {
    let me = current();
    let process = me.process().clone();
    if let Some(observer) = OBSERVER.get() {
        (observer.ended)(process.signals.group_exit.get().unwrap_or(status));
    }
    // No signal wakes or interrupts it from here on.
    me.signals.blocked.set(keel_core::sigset::SigSet(!0));
    robust::release_all(&me);
    release_memory(&me);
    if process.thread_count() == 1 {
        process.itimers.stop(&process);
        process.posix_timers.clear();
    }
    sem::unshare(&me);
    me.seccomp.release();
    let files = me.set_files(None);
    if let Some(files) = files
        && Rc::strong_count(&files) == 1
    {
        files.close_all();
    }
    if let Some(mm) = me.try_mm().filter(|mm| mm.has_one_user()) {
        mm.drop_mappings();
    }
    drop(me.set_fs(None));
    me.set_namespaces(None);
    process.ended_io.add(&me.sched.io);
    let last = process.remove_thread(&me);
    ptrace::ended(&me, process.signals.group_exit.get().unwrap_or(status));
    if last {
        ptrace::process_ended(&process);
    }
    let mut usage = process.ended_usage.get();
    usage.add(&me.sched.usage());
    if last && let Some(mm) = me.try_mm() {
        usage.max_resident = usage.max_resident.max(mm.resident_bytes());
    }
    process.ended_usage.set(usage);
    drop(pid::remove_task(me.tid()));
    // Waiters that queued for a lock of this thread while files were closed.
    futex_pi::owner_ended(&me);
    if last {
        end_process(&process, &me, process.signals.group_exit.get().unwrap_or(status));
    } else {
        leave_children(&process, &me);
        if process.signals.stopped_by.get() != 0 {
            signal::stop::leave(&process);
        }
    }
    process.exit_events.wake_all();
    me.leave_mm(me.set_mm(None));
}

/// Wakes the waiters of `clear_tid` and the vfork parent when a thread stops using its memory: exit and execve.
pub(crate) fn release_memory(me: &Rc<Task>) {
    let at = me.clear_tid.take();
    if at != 0 && user::write(at, &0u32).is_ok() {
        futex::wake_one_shared(at);
    }
    let gate = me.vfork.take();
    if let Some(gate) = gate {
        gate.open();
    }
}

/// The last thread has ended.
fn end_process(process: &Rc<Process>, last: &Rc<Task>, status: i32) {
    if process.pid() == pid::FIRST {
        end_pod(status);
    }
    if process.is_ns_init() {
        end_namespace(process);
    }
    find_heirs(process);
    hang_up(process);
    process.ended_uid.set(last.cred().uid);
    process.ended_comm.set(last.comm().0);
    process.zombie.set(Some(status));
    let Some(parent) = process.parent() else { return };
    let signal = process.exit_signal.get();
    let action = parent.main_thread().map(|t| t.signals.actions().get(g::SIGCHLD));
    let unwanted = signal == g::SIGCHLD
        && action.is_some_and(|a| a.handler == SIG_IGN || a.flags & u64::from(g::SA_NOCLDWAIT) != 0);
    if signal != 0 && !(unwanted && action.is_some_and(|a| a.handler == SIG_IGN)) {
        let mut info = child_info(process, last.cred().uid, status);
        info.signo = signal as i32;
        let _ = signal::send_to_process(&parent, info);
    }
    if parent.pid() == pid::INIT || unwanted {
        reap(&parent, process, false);
    }
    parent.child_events.wake_all();
}

/// siginfo of the end of a process.
pub(super) fn child_info(process: &Process, uid: u32, status: i32) -> SigInfo {
    let (code, value) = match status & 0x7f {
        0 => (code::CLD_EXITED, status >> 8 & 0xff),
        signal if status & 0x80 != 0 => (code::CLD_DUMPED, signal),
        signal => (code::CLD_KILLED, signal),
    };
    let usage = process.usage();
    SigInfo::child(code, process.pid(), uid, value, usage.user_ns / send::TICK_NS, usage.system_ns / send::TICK_NS)
}

/// Removes a zombie. Its resource usage is added to its parent if the parent waited for it, else to keel.
pub(super) fn reap(parent: &Rc<Process>, process: &Rc<Process>, waited: bool) {
    let init = pid::init_process();
    let payer = if waited { parent } else { &init };
    let mut usage = payer.children_usage.get();
    usage.add(&process.usage());
    usage.add(&process.children_usage.get());
    payer.children_usage.set(usage);
    parent.remove_child(process.pid());
    pid::remove_process(process.pid());
}

/// Sends the parent death signal (prctl(2)) to the threads of a child.
fn tell_parent_ended(child: &Process, parent: i32) {
    for thread in child.threads() {
        let signal = thread.parent_death_signal.get();
        if signal != 0 {
            let _ = signal::send_to_task(&thread, SigInfo::from_process(signal, code::USER, parent, 0));
        }
    }
}

/// A thread ends before its process: another thread becomes the parent of its children.
fn leave_children(process: &Rc<Process>, me: &Task) {
    let Some(other) = process.threads().next().map(|thread| thread.tid()) else { return };
    for child in process.children() {
        if child.parent_thread.get() == me.tid() {
            child.parent_thread.set(other);
            tell_parent_ended(&child, process.pid());
        }
    }
}

/// Whether `candidate` is the first process of the PID namespace of `process`.
fn is_init_of(candidate: &Process, process: &Process) -> bool {
    process.pid_ns().is_some_and(|ns| ns.init() == candidate.pid())
}

/// The first process of a PID namespace has ended: ends all others there, pid_namespaces(7).
fn end_namespace(init: &Rc<Process>) {
    let Some(ns) = init.pid_ns() else { return };
    ns.end();
    let is_inside = |process: &Rc<Process>| process.pid_ns().is_some_and(|own| own.is_within(ns));
    for process in task::process::all().filter(|process| is_inside(process) && !Rc::ptr_eq(process, init)) {
        send::kill_all(&process, g::SIGKILL as i32);
    }
}

/// Reparents children to the nearest subreaper, or to keel, which reaps at once; prctl(2).
fn find_heirs(process: &Rc<Process>) {
    let mut heir = process.parent();
    while let Some(candidate) = heir.take() {
        let reaps = candidate.subreaper.get() || is_init_of(&candidate, process);
        if reaps && candidate.thread_count() > 0 {
            heir = Some(candidate);
            break;
        }
        // Orphans stay in their PID namespace.
        heir = if is_init_of(&candidate, process) { None } else { candidate.parent() };
    }
    let heir = heir.unwrap_or_else(pid::init_process);
    for child in process.take_children() {
        let orphaned_before = task::process::is_orphaned(child.group(), None);
        heir.adopt(child.clone());
        tell_parent_ended(&child, process.pid());
        if child.zombie.get().is_some() {
            if heir.pid() == pid::INIT {
                reap(&heir, &child, false);
            } else {
                child.exit_signal.set(g::SIGCHLD);
                let _ = signal::send_to_process(&heir, SigInfo::from_kernel(g::SIGCHLD));
                heir.child_events.wake_all();
            }
        } else {
            child.exit_signal.set(g::SIGCHLD);
            let stopped = child.signals.is_stopped();
            if !orphaned_before && stopped && task::process::is_orphaned(child.group(), Some(process.pid())) {
                signal::send_to_group(child.group(), SigInfo::from_kernel(g::SIGHUP));
                signal::send_to_group(child.group(), SigInfo::from_kernel(g::SIGCONT));
            }
        }
    }
}

/// The end of a session leader detaches the terminal: SIGHUP to the foreground group.
fn hang_up(process: &Rc<Process>) {
    let session = process.session();
    if session.sid != process.pid() {
        return;
    }
    let terminal = session.terminal.take();
    if let Some(terminal) = terminal {
        crate::tty::terminal::leader_ended(&terminal);
    }
    if session.foreground.get() > 0 {
        let group = session.foreground.take();
        signal::send_to_group(group, SigInfo::from_kernel(g::SIGHUP));
        signal::send_to_group(group, SigInfo::from_kernel(g::SIGCONT));
    }
}

/// Ends the pod after the end of its first program.
fn end_pod(status: i32) -> ! {
    let code = match status & 0x7f {
        0 => status >> 8 & 0xff,
        signal => 128 + signal,
    };
    if let Some(observer) = OBSERVER.get() {
        (observer.pod_ends)();
    }
    crate::socket::inet::outward::drain();
    hal::boot::fail_if_asked();
    crate::sched::connector::end(code as u8, &[])
}
