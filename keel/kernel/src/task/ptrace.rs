//! Tracing of threads by other processes, ptrace(2).
//!
//! A traced thread stops at its signals, calls and events: it saves its registers in its [`Traced`], notifies the
//! tracer and parks until the tracer resumes it. The tracer is a process here, not one of its threads.

mod registers;
mod requests;
mod stops;

pub use requests::sys_ptrace;
pub use stops::{
    arm, clear_step, continued, create_stop, delivering, ending, entering, executed, filtered, group_stop,
    handler_entered, interrupted, leaving, vfork_done,
};

use super::{Process, Task};
use crate::sched;
use crate::signal::{SigInfo, code, send, send_to_process};
use crate::task::watch;
use alloc::rc::{Rc, Weak};
use core::cell::{Cell, RefCell};
use hal::trap::TrapFrame;
use keel_core::pieces::Pieces;
use stops::{EVENT_CLONE, EVENT_FORK, EVENT_VFORK, Stop};
use uapi::raw::general as g;

/// Options.
pub const TRACESYSGOOD: u32 = 1;
const TRACEFORK: u32 = 1 << 1;
const TRACEVFORK: u32 = 1 << 2;
const TRACECLONE: u32 = 1 << 3;
const TRACEEXEC: u32 = 1 << 4;
const TRACEVFORKDONE: u32 = 1 << 5;
const TRACEEXIT: u32 = 1 << 6;
const TRACESECCOMP: u32 = 1 << 7;
const EXITKILL: u32 = 1 << 20;
/// All options.
pub const OPTIONS: u32 = TRACESYSGOOD
    | TRACEFORK
    | TRACEVFORK
    | TRACECLONE
    | TRACEEXEC
    | TRACEVFORKDONE
    | TRACEEXIT
    | TRACESECCOMP
    | EXITKILL;

#[derive(Default)]
struct Inner {
    tracer: Weak<Process>,
    options: u32,
    seized: bool,
    /// Stops at system calls.
    calls: bool,
    stop: Option<Stop>,
    _watched: Option<watch::Reason>,
}

/// Tracing state of a thread.
#[derive(Default)]
pub struct Traced {
    attached: Cell<bool>,
    /// It must stop (PTRACE_INTERRUPT).
    interrupted: Cell<bool>,
    /// It must stop after one instruction.
    stepping: Cell<bool>,
    /// Its tracer resumed it while its process is stopped.
    left_stop: Cell<bool>,
    inner: RefCell<Inner>,
}

/// Tracer state of a process.
#[derive(Default)]
pub struct Tracer {
    tracees: RefCell<Pieces<Weak<Task>>>,
    /// Exits that only the tracer may reap: id, wait status, process.
    ends: RefCell<Pieces<(i32, i32, Rc<Process>)>>,
    /// Tracer of this process's first thread, which has ended, and its wait status.
    leader_end: RefCell<Option<(Weak<Process>, i32)>>,
}

impl Tracer {
    /// Threads that are traced.
    pub fn tracees(&self) -> impl Iterator<Item = Rc<Task>> + '_ {
        vfs::memory::items(&self.tracees).filter_map(|task| task.upgrade())
    }

    /// The end of a thread that `wants` accepts; removed unless `keep`.
    pub fn end(&self, keep: bool, wants: impl Fn(i32) -> bool) -> Option<(i32, i32, Rc<Process>)> {
        let mut ends = self.ends.borrow_mut();
        let at = ends.iter().position(|(id, ..)| wants(*id))?;
        if keep { ends.get(at).cloned() } else { ends.remove(at) }
    }

    /// Whether an end of a thread that `wants` accepts is still to be reported.
    pub fn has_tracee(&self, wants: impl Fn(i32) -> bool) -> bool {
        self.tracees().any(|task| wants(task.tid()))
    }
}

impl Traced {
    /// The thread has a tracer.
    pub fn is_attached(&self) -> bool {
        self.attached.get()
    }

    /// Whether it must stop after one instruction.
    pub fn is_stepping(&self) -> bool {
        self.stepping.get()
    }

    /// Whether it must stop for its tracer.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.get()
    }

    /// Whether it takes part in group stops: not if its tracer resumed it.
    pub fn joins_stop(&self) -> bool {
        !self.left_stop.get()
    }

    /// Whether it is stopped for its tracer.
    pub fn is_stopped(&self) -> bool {
        self.attached.get() && self.inner.borrow().stop.as_ref().is_some_and(|stop| !stop.resumed)
    }

    /// Status of a stop that wait(2) has not reported; `take`: marks it as reported.
    pub fn news(&self, take: bool) -> Option<i32> {
        let mut inner = self.inner.borrow_mut();
        let stop = inner.stop.as_mut().filter(|stop| !stop.told && !stop.resumed)?;
        stop.told |= take;
        Some(stop.status)
    }

    /// The process that traces, 0 if there is none: `/proc/PID/status`.
    pub fn tracer_pid(&self) -> i32 {
        self.inner.borrow().tracer.upgrade().map_or(0, |tracer| tracer.pid())
    }

    fn option(&self, option: u32) -> bool {
        self.attached.get() && self.inner.borrow().options & option != 0
    }
}

/// The general registers of a thread as `struct user_regs_struct`.
pub fn general_registers(task: &Task, frame: &TrapFrame) -> [u64; 27] {
    registers::registers(task, frame, stops::Kind::Event, None)
}

/// Starts tracing.
fn attach(task: &Rc<Task>, tracer: &Rc<Process>, options: u32, seized: bool) {
    let inner = Inner {
        tracer: Rc::downgrade(tracer),
        options,
        seized,
        calls: false,
        stop: None,
        _watched: Some(watch::Reason::new()),
    };
    let _old = task.traced.inner.replace(inner);
    task.traced.attached.set(true);
    task.traced.left_stop.set(false);
    tracer.tracer.tracees.borrow_mut().push_back(Rc::downgrade(task));
}

/// Ends tracing; resumes a stopped thread with `signal`.
fn detach(task: &Rc<Task>, signal: i32) {
    task.traced.attached.set(false);
    task.traced.left_stop.set(false);
    task.traced.interrupted.set(false);
    task.traced.stepping.set(false);
    let tracer = task.traced.inner.borrow().tracer.upgrade();
    if let Some(tracer) = tracer {
        tracer.tracer.tracees.borrow_mut().retain(|t| !core::ptr::eq(t.as_ptr(), Rc::as_ptr(task)));
    }
    let mut inner = task.traced.inner.borrow_mut();
    inner.tracer = Weak::new();
    (inner.options, inner.calls, inner._watched) = (0, false, None);
    drop(inner);
    resume(task, signal);
}

/// Resumes a stopped thread.
fn resume(task: &Rc<Task>, signal: i32) {
    if let Some(stop) = task.traced.inner.borrow_mut().stop.as_mut() {
        stop.resumed = true;
        stop.signal = signal;
    }
    sched::wake(&task.sched);
}

/// Notifies the tracer of a stop.
fn tell(task: &Rc<Task>) {
    let inner = task.traced.inner.borrow();
    let (tracer, status) = (inner.tracer.upgrade(), inner.stop.as_ref().map_or(0, |stop| stop.status));
    drop(inner);
    let Some(tracer) = tracer else { return };
    let quiet = tracer
        .main_thread()
        .is_some_and(|t| t.signals.actions().get(g::SIGCHLD).flags & u64::from(g::SA_NOCLDSTOP) != 0);
    if !quiet {
        let info = SigInfo::child(code::CLD_TRAPPED, task.tid(), task.cred().uid, status, 0, 0);
        let _ = send_to_process(&tracer, info);
    }
    tracer.child_events.wake_all();
}

/// A new thread or process: traced like its creator if PTRACE_O_TRACE* is set. Returns the event to stop at.
pub fn created(me: &Rc<Task>, child: &Rc<Task>, vfork: bool, exit_signal: u32) -> Option<i32> {
    let (option, event) = match () {
        () if vfork => (TRACEVFORK, EVENT_VFORK),
        () if exit_signal != g::SIGCHLD => (TRACECLONE, EVENT_CLONE),
        () => (TRACEFORK, EVENT_FORK),
    };
    if !me.traced.option(option) {
        return None;
    }
    let inner = me.traced.inner.borrow();
    let (tracer, options, seized) = (inner.tracer.upgrade()?, inner.options, inner.seized);
    drop(inner);
    attach(child, &tracer, options, seized);
    if seized {
        child.traced.interrupted.set(true);
    } else {
        let _ = crate::signal::send_to_task(child, SigInfo::from_kernel(g::SIGSTOP));
    }
    Some(event)
}

/// A thread has ended with this wait status.
pub fn ended(task: &Rc<Task>, status: i32) {
    if !task.traced.is_attached() {
        return;
    }
    let tracer = task.traced.inner.borrow().tracer.upgrade();
    detach(task, 0);
    let Some(tracer) = tracer else { return };
    let process = task.process();
    let is_parent = process.parent().is_some_and(|parent| Rc::ptr_eq(&parent, &tracer));
    if !task.is_leader() {
        tell_end(&tracer, (task.tid(), status, process.clone()));
    } else if is_parent {
        tracer.child_events.wake_all();
    } else {
        *process.tracer.leader_end.borrow_mut() = Some((Rc::downgrade(&tracer), status));
    }
}

/// The last thread of a process has ended: only now the exit of its leader is reported.
pub fn process_ended(process: &Rc<Process>) {
    let end = process.tracer.leader_end.take();
    if let Some((tracer, status)) = end
        && let Some(tracer) = tracer.upgrade()
    {
        tell_end(&tracer, (process.pid(), status, process.clone()));
    }
    tracer_ended(process);
}

fn tell_end(tracer: &Rc<Process>, (id, status, process): (i32, i32, Rc<Process>)) {
    tracer.tracer.ends.borrow_mut().push_back((id, status, process));
    let (signal, exit) = (status & 0x7f, status >> 8 & 0xff);
    let (code, value) = if signal == 0 { (code::CLD_EXITED, exit) } else { (code::CLD_KILLED, signal) };
    let _ = send_to_process(tracer, SigInfo::child(code, id, 0, value, 0, 0));
    tracer.child_events.wake_all();
}

/// A process has ended: detaches or kills its tracees.
fn tracer_ended(process: &Process) {
    loop {
        let Some(task) = process.tracer.tracees.borrow_mut().pop_front() else { break };
        let Some(task) = task.upgrade() else { continue };
        let kill = task.traced.option(EXITKILL);
        detach(&task, 0);
        if kill {
            send::kill_all(task.process(), g::SIGKILL as i32);
        }
    }
    let _gone = process.tracer.ends.take();
}
