//! Stops of traced threads: at signals, system calls, events and after single steps.

use super::registers::{self, ORIG_RAX, RAX, RIP, RSP, Registers};
use super::{TRACEEXEC, TRACEEXIT, TRACESECCOMP, TRACESYSGOOD, TRACEVFORKDONE, Traced, tell};
use crate::patch;
use crate::sched::wait::{Interrupt, park};
use crate::signal::{SigInfo, code, send, with_arch};
use crate::task::{Task, current, with_current};
use alloc::rc::Rc;
use alloc::vec::Vec;
use hal::trap::TrapFrame;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Events, in the byte above the signal of a status.
pub(super) const EVENT_FORK: i32 = 1;
pub(super) const EVENT_VFORK: i32 = 2;
pub(super) const EVENT_CLONE: i32 = 3;
const EVENT_EXEC: i32 = 4;
const EVENT_VFORK_DONE: i32 = 5;
const EVENT_EXIT: i32 = 6;
const EVENT_SECCOMP: i32 = 7;
const EVENT_STOP: i32 = 128;

const SIGTRAP: i32 = g::SIGTRAP as i32;
/// `si_code` of a step over a system call.
const TRAP_BRKPT: i32 = 1;

/// Kind of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Before a system call.
    Entry,
    /// Before a call for which a filter returned SECCOMP_RET_TRACE.
    Filter,
    /// After a system call.
    Exit,
    /// Before a signal is delivered.
    Signal,
    /// Anything else.
    Event,
}

/// A stop.
pub(super) struct Stop {
    pub kind: Kind,
    /// Signal and event, as wait(2) reports them.
    pub status: i32,
    pub told: bool,
    pub info: SigInfo,
    pub message: u64,
    pub registers: Registers,
    /// The tracer changed general registers.
    pub changed: bool,
    /// Extended registers set by the tracer: an XSAVE image.
    pub extended: Option<Vec<u8>>,
    /// PTRACE_LISTEN: stays stopped until the next SIGCONT.
    pub listens: bool,
    /// SIGCONT came before PTRACE_LISTEN.
    pub continued: bool,
    pub resumed: bool,
    /// Signal to be delivered.
    pub signal: i32,
}

impl Stop {
    /// A group stop, or a stop requested by the tracer.
    fn is_event_stop(&self) -> bool {
        self.status >> 8 == EVENT_STOP
    }
}

/// The tracer's request for a thread that continues.
struct Resumed {
    /// Signal to be delivered, or 0.
    signal: i32,
    info: SigInfo,
    /// The call's number, which the tracer may have changed.
    number: Option<u64>,
    /// Whether it changed registers.
    changed: bool,
    result: u64,
}

impl Traced {
    /// Calls `f` on the stop. ESRCH: the thread is not stopped.
    pub(super) fn with_stop<R>(&self, f: impl FnOnce(&mut Stop) -> R) -> Result<R> {
        self.inner.borrow_mut().stop.as_mut().map(f).ok_or(Errno::ESRCH)
    }
}

/// Stops the current thread. `number`: of its current call.
fn stop_here(
    frame: &mut TrapFrame,
    kind: Kind,
    status: i32,
    info: SigInfo,
    message: u64,
    number: Option<u64>,
) -> Resumed {
    let me = current();
    disarm(&me, frame);
    let before = registers::registers(&me, frame, kind, number);
    me.traced.inner.borrow_mut().stop = Some(Stop {
        kind,
        status,
        told: false,
        info,
        message,
        registers: before,
        changed: false,
        extended: None,
        listens: false,
        continued: false,
        resumed: false,
        signal: 0,
    });
    tell(&me);
    // At its end a thread counts as killed.
    let interrupt = if status >> 8 == EVENT_EXIT { Interrupt::Never } else { Interrupt::ByKill };
    let resumed = || me.traced.inner.borrow().stop.as_ref().is_none_or(|stop| stop.resumed);
    // A killed thread continues to its end.
    let _ = park(None, interrupt, || resumed().then_some(()));
    let Some(stop) = me.traced.inner.borrow_mut().stop.take() else {
        return Resumed { signal: 0, info, number, changed: false, result: frame.result() };
    };
    if stop.changed {
        registers::put_registers(&me, frame, &stop.registers, &before, kind);
    }
    if let Some(image) = &stop.extended {
        hal::fpu::load(frame, image);
    }
    if me.try_mm().is_some_and(|mm| mm.shows_plain_text()) {
        // Resume at the original address, not in a trampoline, so that all breakpoints are hit.
        frame.set_instruction_pointer(patch::program_address(frame.instruction_pointer()));
    }
    if stop.changed || stop.extended.is_some() || me.traced.stepping.get() {
        me.set_work();
    }
    let number = Some(stop.registers[ORIG_RAX]).filter(|number| (*number as i64) >= 0);
    let result = stop.registers[RAX];
    Resumed { signal: stop.signal, info: stop.info, number, changed: stop.changed, result }
}

/// Status of a stop at a system call.
fn call_status(me: &Task) -> i32 {
    if me.traced.option(TRACESYSGOOD) { SIGTRAP | 0x80 } else { SIGTRAP }
}

/// Whether the current thread stops at its calls.
fn stops_at_calls() -> bool {
    with_current(|me| me.traced.is_attached() && me.traced.inner.borrow().calls)
}

fn call_stop(frame: &mut TrapFrame, kind: Kind, number: u64) -> u64 {
    let status = with_current(call_status);
    let info = SigInfo::new(g::SIGTRAP, status);
    let resumed = stop_here(frame, kind, status, info, 0, Some(number));
    if resumed.signal != 0 {
        let me = current();
        let _ = crate::signal::send_to_task(&me, SigInfo::from_kernel(resumed.signal as u32));
    }
    resumed.number.unwrap_or(u64::MAX)
}

/// Before a call: returns its number, which the tracer may have changed.
pub fn entering(frame: &mut TrapFrame, number: u64) -> u64 {
    if stops_at_calls() { call_stop(frame, Kind::Entry, number) } else { number }
}

/// After a call, whose result is in the frame.
pub fn leaving(frame: &mut TrapFrame, number: u64) {
    if stops_at_calls() {
        call_stop(frame, Kind::Exit, number);
    } else if with_current(|me| me.traced.stepping.get()) {
        // The call was the single step.
        let here = patch::program_address(frame.instruction_pointer());
        send::force(&current(), SigInfo::fault(g::SIGTRAP, TRAP_BRKPT, here));
    }
}

/// SECCOMP_RET_TRACE with `data`: returns the call's number, or its result if the tracer cancelled it. `None`: no
/// tracer requested the event.
pub fn filtered(frame: &mut TrapFrame, number: u64, data: u32) -> Option<core::result::Result<u64, u64>> {
    if !with_current(|me| me.traced.option(TRACESECCOMP)) {
        return None;
    }
    let status = SIGTRAP | EVENT_SECCOMP << 8;
    let info = SigInfo::new(g::SIGTRAP, status);
    let resumed = stop_here(frame, Kind::Filter, status, info, u64::from(data), Some(number));
    Some(resumed.number.ok_or(resumed.result))
}

/// On the return to the program: sets TF if the tracer requested a single step.
#[inline(always)]
pub fn arm(frame: &mut TrapFrame) {
    if with_current(|me| me.traced.stepping.get()) {
        frame.set_stepped(true);
    }
}

/// Ends a single step.
fn disarm(me: &Task, frame: &mut TrapFrame) {
    if me.traced.stepping.take() {
        clear_step(frame);
    }
}

/// Clears TF of a thread that is not single-stepped.
pub fn clear_step(frame: &mut TrapFrame) {
    frame.set_stepped(false);
}

/// A signal handler is entered instead of the instruction to step over.
pub fn handler_entered(frame: &mut TrapFrame) {
    if with_current(|me| me.traced.stepping.get()) {
        let me = current();
        let info = SigInfo::from_process(g::SIGTRAP, SIGTRAP, me.tid(), me.cred().uid);
        drop(me);
        stop_here(frame, Kind::Event, SIGTRAP, info, 0, None);
    }
}

/// A stop that the tracer requested (PTRACE_INTERRUPT). `call` as in [`delivering`].
pub fn interrupted(frame: &mut TrapFrame, call: Option<u64>) -> Option<Option<u64>> {
    if !with_current(|me| me.traced.interrupted.replace(false)) {
        return None;
    }
    let status = SIGTRAP | EVENT_STOP << 8;
    let resumed = stop_here(frame, Kind::Event, status, SigInfo::new(g::SIGTRAP, status), 0, call);
    resumed.changed.then_some(resumed.number)
}

/// Before a signal is delivered: returns the signal after the tracer's changes. `call`: the number of the call whose
/// result is in the frame. The second result is set if the tracer changed registers: the call that they now belong to.
pub fn delivering(frame: &mut TrapFrame, info: SigInfo, call: Option<u64>) -> (Option<SigInfo>, Option<Option<u64>>) {
    let resumed = stop_here(frame, Kind::Signal, info.signo, info, 0, call);
    let info = match resumed.signal {
        0 => None,
        same if same == info.signo => Some(resumed.info),
        other => Some(SigInfo::from_process(other as u32, code::USER, current().traced.tracer_pid(), 0)),
    };
    (info, resumed.changed.then_some(resumed.number))
}

/// A stop signal: the thread enters a group stop for its tracer.
pub fn group_stop(frame: &mut TrapFrame, signal: u32) {
    let seized = with_current(|me| me.traced.inner.borrow().seized);
    let status = if seized { signal as i32 | EVENT_STOP << 8 } else { signal as i32 };
    with_current(|me| me.traced.left_stop.set(true));
    stop_here(frame, Kind::Event, status, SigInfo::new(g::SIGTRAP, status), 0, None);
}

/// SIGCONT was sent to a thread: in a group stop it notifies its tracer, as soon as that uses PTRACE_LISTEN.
pub fn continued(task: &Rc<Task>) {
    task.traced.left_stop.set(false);
    let mut inner = task.traced.inner.borrow_mut();
    let Some(stop) = inner.stop.as_mut().filter(|stop| stop.is_event_stop()) else { return };
    stop.continued = true;
    if stop.listens {
        drop(inner);
        stop_again(task);
    }
}

/// PTRACE_LISTEN. EIO: the thread is in another stop; ESRCH.
pub(super) fn listen(task: &Rc<Task>) -> Result<()> {
    let continued = task.traced.with_stop(|stop| {
        if !stop.is_event_stop() {
            return Err(Errno::EIO);
        }
        stop.listens = true;
        Ok(stop.continued)
    })??;
    if continued {
        stop_again(task);
    }
    Ok(())
}

/// Notifies the tracer of a thread in a group stop that its process continues.
fn stop_again(task: &Rc<Task>) {
    let status = SIGTRAP | EVENT_STOP << 8;
    let _ = task.traced.with_stop(|stop| {
        (stop.listens, stop.continued, stop.told) = (false, false, false);
        (stop.status, stop.info) = (status, SigInfo::new(g::SIGTRAP, status));
    });
    tell(task);
}

fn event(frame: &mut TrapFrame, event: i32, message: u64, number: Option<u64>) {
    let status = SIGTRAP | event << 8;
    stop_here(frame, Kind::Event, status, SigInfo::new(g::SIGTRAP, status), message, number);
}

/// Stops the creator of a thread: PTRACE_EVENT_FORK and the like.
pub fn create_stop(frame: &mut TrapFrame, which: Option<i32>, child: i32) {
    if let Some(which) = which {
        let number = frame.number();
        event(frame, which, child as u64, Some(number));
    }
}

/// A vfork(2) is over.
pub fn vfork_done(frame: &mut TrapFrame, child: i32) {
    if with_current(|me| me.traced.option(TRACEVFORKDONE)) {
        let number = frame.number();
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
    if with_current(|me| me.traced.option(TRACEEXIT)) {
        let mut frame = TrapFrame::new(0, 0);
        event(&mut frame, EVENT_EXIT, status as u64, None);
    }
}

/// `struct ptrace_syscall_info` of a stop, and its valid size.
pub(super) fn call_info(stop: &Stop) -> ([u64; 11], usize) {
    let r = &stop.registers;
    let (mut info, op, len) = ([0; 11], stop.kind, 24);
    (info[1], info[2]) = (r[RIP], r[RSP]);
    let (op, len) = match op {
        Kind::Entry | Kind::Filter => {
            info[3..10].copy_from_slice(&[r[ORIG_RAX], r[14], r[13], r[12], r[7], r[9], r[8]]);
            info[10] = if op == Kind::Filter { stop.message } else { 0 };
            if op == Kind::Filter { (3, 84) } else { (1, 80) }
        }
        Kind::Exit => {
            info[3] = r[RAX];
            info[4] = u64::from((-4095..0).contains(&(r[RAX] as i64)));
            (2, 33)
        }
        _ => (0, len),
    };
    info[0] = with_arch(op);
    (info, len)
}
