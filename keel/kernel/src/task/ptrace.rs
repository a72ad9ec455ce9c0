//! Tracing of threads by other processes, ptrace(2).
//!
//! A traced thread stops at its signals, calls and events: it leaves its registers in its [`Traced`], tells the tracer
//! and parks until the tracer lets it go on. Who traces is a process here, not one of its threads.

mod requests;

pub use requests::sys_ptrace;

use super::wait::{Interrupt, park};
use super::{Process, Task, current, sched};
use crate::patch;
use crate::signal::{SigInfo, code, send, send_to_process};
use crate::syscall::watch;
use alloc::collections::VecDeque;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use hal::trap::TrapFrame;
use uapi::Errno;
use uapi::raw::general as g;

/// Options.
pub const TRACESYSGOOD: u32 = 1;
const TRACEFORK: u32 = 1 << 1;
const TRACEVFORK: u32 = 1 << 2;
const TRACECLONE: u32 = 1 << 3;
const TRACEEXEC: u32 = 1 << 4;
const TRACEVFORKDONE: u32 = 1 << 5;
const TRACEEXIT: u32 = 1 << 6;
const EXITKILL: u32 = 1 << 20;
/// All that can be set.
pub const OPTIONS: u32 =
    TRACESYSGOOD | TRACEFORK | TRACEVFORK | TRACECLONE | TRACEEXEC | TRACEVFORKDONE | TRACEEXIT | EXITKILL;

/// Events, as the byte above the signal of a status.
const EVENT_FORK: i32 = 1;
const EVENT_VFORK: i32 = 2;
const EVENT_CLONE: i32 = 3;
const EVENT_EXEC: i32 = 4;
const EVENT_VFORK_DONE: i32 = 5;
const EVENT_EXIT: i32 = 6;
const EVENT_STOP: i32 = 128;

const SIGTRAP: i32 = g::SIGTRAP as i32;
/// Code and data selectors that programs see.
const USER_CS: u64 = 0x33;
const USER_SS: u64 = 0x2b;

/// `struct user_regs_struct`.
pub type Registers = [u64; 27];
/// Places in it.
const RAX: usize = 10;
const ORIG_RAX: usize = 15;
const RIP: usize = 16;
const FS_BASE: usize = 21;

/// Where a thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Before a system call.
    Entry,
    /// After one.
    Exit,
    /// Before a signal is delivered.
    Signal,
    /// Anything else.
    Event,
}

/// A stop.
struct Stop {
    kind: Kind,
    /// Signal and event, as wait(2) tells them.
    status: i32,
    told: bool,
    info: SigInfo,
    message: u64,
    registers: Registers,
    changed: bool,
    /// PTRACE_LISTEN: goes on to stop at the next SIGCONT.
    listens: bool,
    resumed: bool,
    /// Signal to be delivered.
    signal: i32,
}

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

/// How a thread is traced.
#[derive(Default)]
pub struct Traced {
    attached: Cell<bool>,
    /// It shall stop (PTRACE_INTERRUPT).
    interrupted: Cell<bool>,
    inner: RefCell<Inner>,
}

/// What a process traces.
#[derive(Default)]
pub struct Tracer {
    tracees: RefCell<Vec<Weak<Task>>>,
    /// Ends of threads that are told to no parent: id, wait status, process.
    ends: RefCell<VecDeque<(i32, i32, Rc<Process>)>>,
}

impl Tracer {
    /// Threads that are traced.
    pub fn tracees(&self) -> Vec<Rc<Task>> {
        self.tracees.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// The end of a thread that `wants` accepts, taken out unless it is only looked at.
    pub fn end(&self, keep: bool, wants: impl Fn(i32) -> bool) -> Option<(i32, i32, Rc<Process>)> {
        let mut ends = self.ends.borrow_mut();
        let at = ends.iter().position(|(id, ..)| wants(*id))?;
        if keep { ends.get(at).cloned() } else { ends.remove(at) }
    }

    /// Whether the end of a thread that `wants` accepts is to be told.
    pub fn has_tracee(&self, wants: impl Fn(i32) -> bool) -> bool {
        self.tracees().iter().any(|task| wants(task.tid()))
    }
}

impl Traced {
    /// Somebody traces the thread.
    pub fn is_attached(&self) -> bool {
        self.attached.get()
    }

    /// It shall stop for its tracer.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.get()
    }

    /// It stands still for its tracer.
    pub fn is_stopped(&self) -> bool {
        self.attached.get() && self.inner.borrow().stop.as_ref().is_some_and(|stop| !stop.resumed)
    }

    /// The status of a stop that wait(2) has not told yet; `take`: it has now.
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
    tracer.tracer.tracees.borrow_mut().push(Rc::downgrade(task));
}

/// Ends tracing; a stopped thread goes on with `signal`.
fn detach(task: &Rc<Task>, signal: i32) {
    task.traced.attached.set(false);
    task.traced.interrupted.set(false);
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

/// Lets a stopped thread go on.
fn resume(task: &Rc<Task>, signal: i32) {
    if let Some(stop) = task.traced.inner.borrow_mut().stop.as_mut() {
        stop.resumed = true;
        stop.signal = signal;
    }
    sched::wake(task);
}

/// Tells the tracer of a stop.
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

/// The registers as a program has them. `number`: of the system call that they belong to.
fn registers(me: &Task, f: &TrapFrame, kind: Kind, number: Option<u64>) -> Registers {
    let mut rax = f.rax;
    if kind == Kind::Entry {
        rax = -i64::from(Errno::ENOSYS.code()) as u64;
    }
    let rip = patch::program_rip(f.rip);
    let orig = number.unwrap_or(u64::MAX);
    [
        f.r15,
        f.r14,
        f.r13,
        f.r12,
        f.rbp,
        f.rbx,
        f.r11,
        f.r10,
        f.r9,
        f.r8,
        rax,
        f.rcx,
        f.rdx,
        f.rsi,
        f.rdi,
        orig,
        rip,
        USER_CS,
        f.rflags,
        f.rsp,
        USER_SS,
        me.thread.fs_base(),
        0,
        0,
        0,
        0,
        0,
    ]
}

/// What a tracer made of the registers; the instruction pointer only if it is another one now.
fn put_registers(me: &Task, f: &mut TrapFrame, new: &Registers, old: &Registers, kind: Kind) {
    let [r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, ..] = *new;
    (f.r15, f.r14, f.r13, f.r12, f.rbp, f.rbx, f.r11, f.r10) = (r15, r14, r13, r12, rbp, rbx, r11, r10);
    (f.r9, f.r8, f.rcx, f.rdx, f.rsi, f.rdi) = (r9, r8, rcx, rdx, rsi, rdi);
    if kind != Kind::Entry {
        f.rax = rax;
    }
    if new[RIP] != old[RIP] {
        f.rip = new[RIP];
    }
    f.rsp = new[19];
    if new[FS_BASE] != old[FS_BASE] && (new[FS_BASE] as usize) < abi::layout::USER_TOP {
        me.thread.set_fs_base(new[FS_BASE]);
    }
    // More than rax: not the fast way back.
    f.entry = hal::trap::Entry::Fault as u64;
}

/// Stops the current thread: the signal that shall be delivered, and the call's number, which the tracer may change.
fn stop_here(
    frame: &mut TrapFrame,
    kind: Kind,
    status: i32,
    info: SigInfo,
    message: u64,
    number: Option<u64>,
) -> (i32, u64) {
    let me = current();
    let before = registers(&me, frame, kind, number);
    me.traced.inner.borrow_mut().stop = Some(Stop {
        kind,
        status,
        told: false,
        info,
        message,
        registers: before,
        changed: false,
        listens: false,
        resumed: false,
        signal: 0,
    });
    tell(&me);
    // At its end a thread counts as killed.
    let interrupt = if status >> 8 == EVENT_EXIT { Interrupt::Never } else { Interrupt::ByKill };
    let resumed = || me.traced.inner.borrow().stop.as_ref().is_none_or(|stop| stop.resumed);
    // Who is killed goes on, to its end.
    let _ = park(None, interrupt, || resumed().then_some(()));
    let Some(stop) = me.traced.inner.borrow_mut().stop.take() else { return (0, number.unwrap_or(0)) };
    if stop.changed {
        put_registers(&me, frame, &stop.registers, &before, kind);
        me.set_work();
    }
    (stop.signal, stop.registers[ORIG_RAX])
}

/// Status of a stop at a system call.
fn call_status(me: &Task) -> i32 {
    if me.traced.option(TRACESYSGOOD) { SIGTRAP | 0x80 } else { SIGTRAP }
}

/// Whether the current thread stops at its calls.
fn stops_at_calls() -> bool {
    super::with_current(|me| me.traced.is_attached() && me.traced.inner.borrow().calls)
}

fn call_stop(frame: &mut TrapFrame, kind: Kind, number: u64) -> u64 {
    let status = super::with_current(call_status);
    let info = SigInfo::new(g::SIGTRAP, status);
    let (signal, number) = stop_here(frame, kind, status, info, 0, Some(number));
    if signal != 0 {
        let me = current();
        let _ = crate::signal::send_to_task(&me, SigInfo::from_kernel(signal as u32));
    }
    number
}

/// Before a call: its number, which the tracer may have changed.
pub fn entering(frame: &mut TrapFrame, number: u64) -> u64 {
    if stops_at_calls() { call_stop(frame, Kind::Entry, number) } else { number }
}

/// After a call, whose result lies in rax.
pub fn leaving(frame: &mut TrapFrame, number: u64) {
    if stops_at_calls() {
        call_stop(frame, Kind::Exit, number);
    }
}

/// A stop that the tracer asked for.
pub fn interrupted(frame: &mut TrapFrame) {
    if super::with_current(|me| me.traced.interrupted.replace(false)) {
        let status = SIGTRAP | EVENT_STOP << 8;
        stop_here(frame, Kind::Event, status, SigInfo::new(g::SIGTRAP, status), 0, None);
    }
}

/// A signal is about to be delivered: what becomes of it.
pub fn delivering(frame: &mut TrapFrame, info: SigInfo) -> Option<SigInfo> {
    let (signal, _) = stop_here(frame, Kind::Signal, info.signo, info, 0, None);
    match signal {
        0 => None,
        same if same == info.signo => Some(info),
        other => Some(SigInfo::from_process(other as u32, code::USER, current().traced.tracer_pid(), 0)),
    }
}

/// A signal would stop the thread: it stops for its tracer.
pub fn group_stop(frame: &mut TrapFrame, signal: u32) {
    let seized = super::with_current(|me| me.traced.inner.borrow().seized);
    let status = if seized { signal as i32 | EVENT_STOP << 8 } else { signal as i32 };
    stop_here(frame, Kind::Event, status, SigInfo::new(g::SIGTRAP, status), 0, None);
}

/// SIGCONT was sent to a thread that waits for it.
pub fn continued(task: &Rc<Task>) {
    let mut inner = task.traced.inner.borrow_mut();
    let Some(stop) = inner.stop.as_mut().filter(|stop| stop.listens) else { return };
    (stop.listens, stop.told, stop.status) = (false, false, SIGTRAP | EVENT_STOP << 8);
    drop(inner);
    tell(task);
}

fn event(frame: &mut TrapFrame, event: i32, message: u64, number: Option<u64>) {
    let status = SIGTRAP | event << 8;
    stop_here(frame, Kind::Event, status, SigInfo::new(g::SIGTRAP, status), message, number);
}

/// A new thread or process: traced as its creator is, if that was asked for. The event to stop at.
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

/// The creator stops.
pub fn create_stop(frame: &mut TrapFrame, which: Option<i32>, child: i32) {
    if let Some(which) = which {
        let number = frame.rax;
        event(frame, which, child as u64, Some(number));
    }
}

/// A vfork(2) is over.
pub fn vfork_done(frame: &mut TrapFrame, child: i32) {
    if super::with_current(|me| me.traced.option(TRACEVFORKDONE)) {
        let number = frame.rax;
        event(frame, EVENT_VFORK_DONE, child as u64, Some(number));
    }
}

/// The current thread executed another program.
pub fn executed(frame: &mut TrapFrame, old_tid: i32) {
    let me = current();
    if !me.traced.is_attached() {
        return;
    }
    if me.traced.option(TRACEEXEC) {
        drop(me);
        event(frame, EVENT_EXEC, old_tid as u64, Some(u64::from(g::__NR_execve)));
    } else if !me.traced.inner.borrow().seized {
        let _ =
            crate::signal::send_to_task(&me, SigInfo::from_process(g::SIGTRAP, code::USER, me.pid(), me.cred().uid));
    }
}

/// The current thread is about to end.
pub fn ending(status: i32) {
    if super::with_current(|me| me.traced.option(TRACEEXIT)) {
        let mut frame = TrapFrame::new(0, 0);
        event(&mut frame, EVENT_EXIT, status as u64, None);
    }
}

/// A thread has ended with this wait status.
pub fn ended(task: &Rc<Task>, status: i32) {
    if !task.traced.is_attached() {
        return;
    }
    let tracer = task.traced.inner.borrow().tracer.upgrade();
    detach(task, 0);
    let Some(tracer) = tracer else { return };
    let is_parent = task.process().parent().is_some_and(|parent| Rc::ptr_eq(&parent, &tracer));
    if !(task.is_leader() && is_parent) {
        tracer.tracer.ends.borrow_mut().push_back((task.tid(), status, task.process().clone()));
        if task.is_leader() {
            let _ = send_to_process(&tracer, SigInfo::child(code::CLD_EXITED, task.tid(), 0, status, 0, 0));
        }
    }
    tracer.child_events.wake_all();
}

/// A process has ended: what it traced is free, or ends too.
pub fn tracer_ended(process: &Process) {
    for task in process.tracer.tracees() {
        let kill = task.traced.option(EXITKILL);
        detach(&task, 0);
        if kill {
            send::kill_all(task.process(), g::SIGKILL as i32);
        }
    }
    let _gone = process.tracer.ends.take();
}

/// `struct ptrace_syscall_info` of a stop, and its bytes that mean something.
fn call_info(stop: &Stop) -> ([u64; 11], usize) {
    const ARCH: u64 = 0xc000_003e;
    let r = &stop.registers;
    let (mut info, op, len) = ([0; 11], stop.kind, 24);
    (info[1], info[2]) = (r[RIP], r[19]);
    let (op, len) = match op {
        Kind::Entry => {
            info[3..10].copy_from_slice(&[r[ORIG_RAX], r[14], r[13], r[12], r[7], r[9], r[8]]);
            (1, 80)
        }
        Kind::Exit => {
            info[3] = r[RAX];
            info[4] = u64::from((-4095..0).contains(&(r[RAX] as i64)));
            (2, 33)
        }
        _ => (0, len),
    };
    info[0] = op | ARCH << 32;
    (info, len)
}
