//! Sends signals: queues them and selects the thread to handle them.

use super::{CORE_SIGNALS, STOP_SIGNALS, SigInfo, UNBLOCKABLE, code, pending};
use crate::sched;
use crate::sched::wait::Interrupt;
use crate::task::{Process, Task, pidns, process, ptrace};
use alloc::rc::Rc;
use core::cell::RefCell;
use keel_core::sigset::{FIRST_REALTIME, SigQueue, SigSet};
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Sends a signal to a process. EAGAIN if too many are queued.
pub fn send_to_process(process: &Rc<Process>, info: SigInfo) -> Result<()> {
    send(process, None, info)
}

/// Sends a signal to one thread. EAGAIN if too many are queued.
pub fn send_to_task(task: &Rc<Task>, info: SigInfo) -> Result<()> {
    send(task.process(), Some(task), info)
}

/// Sends a signal to all members of a process group (a terminal's characters and hang-ups).
pub fn send_to_group(group: i32, info: SigInfo) {
    for process in process::of_group(group) {
        // Never fails: there is always room for standard signals from keel.
        let _ = send_to_process(&process, info);
    }
}

/// Sends a signal that can't be blocked or ignored: it is unblocked, and gets the default action if it was blocked or
/// ignored.
pub fn force(task: &Rc<Task>, info: SigInfo) {
    let signal = info.signal();
    let actions = task.signals.actions();
    let blocked = task.signals.blocked.get();
    if blocked.has(signal) || actions.get(signal).handler == super::SIG_IGN {
        actions.set(signal, super::SigAction::default());
        task.signals.blocked.set(blocked.without(SigSet::of(signal)));
    }
    if task.signals.pending.borrow_mut().push(signal, info) {
        complete(task.process(), Some(task), signal);
    }
    task.set_work();
}

fn send(process: &Rc<Process>, target: Option<&Rc<Task>>, info: SigInfo) -> Result<()> {
    let signal = info.signal();
    let Some((queue, info)) = admit(process, target, info) else { return Ok(()) };
    if signal >= FIRST_REALTIME && info.code != code::KERNEL && !has_room(queue.of(process), process) {
        // Beyond the limit kill(2) still queues the signal, without its siginfo.
        if info.code != code::USER {
            return Err(Errno::EAGAIN);
        }
        if queue.of(process).borrow().set().has(signal) {
            return Ok(());
        }
    }
    if queue.of(process).borrow_mut().push(signal, info) {
        complete(process, target, signal);
    }
    Ok(())
}

/// Sends the signal of a POSIX timer, which no limit concerns. `false`: it is ignored. ENOMEM.
pub(crate) fn send_for_timer(process: &Rc<Process>, target: Option<&Rc<Task>>, info: SigInfo) -> Result<bool> {
    let Some((queue, info)) = admit(process, target, info) else { return Ok(false) };
    queue_for_timer(process, target, queue.of(process), info).map(|()| true)
}

/// Queues the signal of a POSIX timer, which was ignored so far. ENOMEM.
pub(crate) fn queue_ignored(process: &Rc<Process>, target: Option<&Rc<Task>>, info: SigInfo) -> Result<()> {
    let queue = Queue(target.cloned());
    queue_for_timer(process, target, queue.of(process), info)
}

fn queue_for_timer(
    process: &Rc<Process>,
    target: Option<&Rc<Task>>,
    queue: &RefCell<SigQueue<SigInfo>>,
    info: SigInfo,
) -> Result<()> {
    if hal::frame::is_scarce() || !queue.borrow_mut().try_reserve() {
        return Err(Errno::ENOMEM);
    }
    queue.borrow_mut().push_another(info.signal(), info);
    complete(process, target, info.signal());
    Ok(())
}

/// Where a signal is queued: for a thread or its process.
struct Queue(Option<Rc<Task>>);

impl Queue {
    fn of<'a>(&'a self, process: &'a Process) -> &'a RefCell<SigQueue<SigInfo>> {
        self.0.as_ref().map_or(&process.signals.pending, |task| &task.signals.pending)
    }
}

/// Whether a signal has any effect: the queue for it, and what its receiver sees.
fn admit(process: &Rc<Process>, target: Option<&Rc<Task>>, info: SigInfo) -> Option<(Queue, SigInfo)> {
    let signal = info.signal();
    let is_from_keel = info.code == code::KERNEL;
    let info = pidns::seen_by(process, info);
    if process.zombie.get().is_some() || process.signals.group_exit.get().is_some() {
        return None;
    }
    let first = target.cloned().or_else(|| process.main_thread())?;
    prepare(process, signal);
    let unblocked = is_unblocked(&first, signal);
    if unblocked && !first.traced.is_attached() && !UNBLOCKABLE.has(signal) && first.signals.actions().ignores(signal) {
        return None;
    }
    if unblocked && spares_init(process, &first, signal, is_from_keel) {
        return None;
    }
    Some((Queue(target.cloned()), info))
}

fn is_unblocked(first: &Task, signal: u32) -> bool {
    !first.signals.blocked.get().union(first.signals.awaited.get()).has(signal)
}

/// Whether a signal has no effect on a process since that is the first of its PID namespace: it has no handler, and does not come
/// from outside or can be handled; pid_namespaces(7).
fn spares_init(process: &Process, first: &Task, signal: u32, is_from_keel: bool) -> bool {
    if !process.is_ns_init() || first.signals.actions().get(signal).handler != super::SIG_DFL {
        return false;
    }
    let inside = || match (pidns::here(), process.pid_ns()) {
        (Some(sender), Some(ns)) => sender.is_within(ns),
        _ => false,
    };
    !UNBLOCKABLE.has(signal) || !is_from_keel && inside()
}

/// Whether a signal of the user is lost on process 1 of a PID namespace, which has no handler for it.
pub(crate) fn is_lost(process: &Process, signal: u32) -> bool {
    process
        .main_thread()
        .is_some_and(|first| is_unblocked(&first, signal) && spares_init(process, &first, signal, true))
}

/// Whether one more signal may be queued: within the limit, and memory is available.
fn has_room(queue: &RefCell<SigQueue<SigInfo>>, process: &Rc<Process>) -> bool {
    let mut queue = queue.borrow_mut();
    let below_limit = (queue.len() as u64) < process.limit(g::RLIMIT_SIGPENDING).0;
    below_limit && !hal::frame::is_scarce() && queue.try_reserve()
}

/// Stop signals discard a pending SIGCONT and vice versa; SIGCONT continues the process at once.
fn prepare(process: &Rc<Process>, signal: u32) {
    let gone = if STOP_SIGNALS.has(signal) {
        SigSet::of(g::SIGCONT)
    } else if signal == g::SIGCONT {
        STOP_SIGNALS
    } else {
        return;
    };
    pending::discard(process, gone);
    if signal == g::SIGCONT {
        let was_stopped = process.signals.is_stopped();
        process.signals.stopped_by.set(0);
        process.signals.stop_news.set(false);
        for task in process.threads() {
            sched::resume(&task.sched);
            ptrace::continued(&task);
        }
        if was_stopped {
            process.signals.continue_news.set(true);
            notify_parent(process, code::CLD_CONTINUED, g::SIGCONT as i32);
        }
    }
}

/// Finds a thread for a queued signal and wakes it; ends the process at once if the signal is fatal.
fn complete(process: &Rc<Process>, target: Option<&Rc<Task>>, signal: u32) {
    // A stopped thread checks its signals when it is continued.
    let wants = |t: &Rc<Task>| match t.sched.state() {
        sched::State::Dead => false,
        _ if signal == g::SIGKILL => true,
        sched::State::Stopped => false,
        _ => !t.signals.blocked.get().has(signal),
    };
    let chosen = match target {
        Some(task) => Some(task.clone()).filter(|t| wants(t)),
        None => process.main_thread().filter(|t| wants(t)).or_else(|| process.threads().find(|t| wants(t))),
    };
    // Signalfd and sigtimedwait take signals without a handler.
    process.signals.arrivals.wake_all();
    let Some(chosen) = chosen else { return };
    let action = chosen.signals.actions().get(signal);
    let terminates = !STOP_SIGNALS.has(signal) && !super::IGNORED_BY_DEFAULT.has(signal) && !CORE_SIGNALS.has(signal);
    if signal == g::SIGKILL
        || (action.handler == super::SIG_DFL
            && terminates
            && !chosen.traced.is_attached()
            && !chosen.signals.awaited.get().has(signal))
    {
        kill_all(process, signal as i32);
        return;
    }
    tell(&chosen);
}

/// Ends all threads of a process with this wait status.
pub(crate) fn kill_all(process: &Rc<Process>, status: i32) {
    if process.signals.group_exit.get().is_none() {
        process.signals.group_exit.set(Some(status));
    }
    process.signals.stopped_by.set(0);
    for task in process.threads() {
        kill_thread(&task);
    }
}

/// Makes one thread end.
pub(crate) fn kill_thread(task: &Rc<Task>) {
    task.signals.pending.borrow_mut().push(g::SIGKILL, SigInfo::from_kernel(g::SIGKILL));
    task.set_work();
    match task.sched.state() {
        sched::State::Sleeping(Interrupt::BySignal | Interrupt::ByKill) => {
            sched::wake(&task.sched);
        }
        sched::State::Stopped => sched::resume(&task.sched),
        _ => {}
    }
}

/// Makes a thread check its signals.
pub(crate) fn tell(task: &Rc<Task>) {
    task.set_work();
    if task.sched.state() == sched::State::Sleeping(Interrupt::BySignal) {
        sched::wake(&task.sched);
    }
}

/// Notifies the parent (SIGCHLD, wait) that a process stopped or continued.
pub(crate) fn notify_parent(process: &Rc<Process>, code: i32, status: i32) {
    let Some(parent) = process.parent() else { return };
    let no_stop_news = parent
        .main_thread()
        .is_some_and(|t| t.signals.actions().get(g::SIGCHLD).flags & u64::from(g::SA_NOCLDSTOP) != 0);
    if !no_stop_news {
        let usage = process.usage();
        let uid = process.main_thread().map_or(0, |t| t.cred().uid);
        let info = SigInfo::child(code, process.pid(), uid, status, usage.user_ns / TICK_NS, usage.system_ns / TICK_NS);
        let _ = send_to_process(&parent, info);
    }
    parent.child_events.wake_all();
}

/// A clock tick of times(2) in ns.
pub const TICK_NS: u64 = 10_000_000;

/// `task` has blocked more signals: signals pending for its process may need another thread.
pub(crate) fn retarget(task: &Rc<Task>) {
    let process = task.process();
    if process.thread_count() < 2 {
        return;
    }
    let pending = process.signals.pending();
    for other in process.threads() {
        if !Rc::ptr_eq(&other, task) && !pending.without(other.signals.blocked.get()).is_empty() {
            tell(&other);
        }
    }
}
