//! The return to the program: delivers pending signals and restarts interrupted calls.

use super::frame;
use crate::sched;
use crate::signal::{IGNORED_BY_DEFAULT, SIG_DFL, SIG_IGN, STOP_SIGNALS, SigAction, SigInfo, pending, stop};
use crate::syscall::signal::coredump;
use crate::syscall::trace;
use crate::task::{self, Task, process, ptrace, rseq};
use alloc::rc::Rc;
use hal::percpu;
use hal::trap::TrapFrame;
use keel_core::sigset::SigSet;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// What the entry code does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Continue the program with the frame.
    Program,
    /// Dispatch this call (again).
    Call(u64),
}

/// Action for a thread's signals.
enum Action {
    /// Nothing (more).
    None,
    /// Run a handler.
    Handle(SigInfo, SigAction),
    /// End with this wait status.
    Exit(i32),
    /// Stop until continued.
    Stop,
}

/// Handles all pending work. `call`: the number of the system call whose result is in the frame, `None` after other
/// entries. Does not return if the thread ends.
pub fn leave(frame: &mut TrapFrame, call: Option<u64>) -> Next {
    match settle(frame, call) {
        Ok(next) => next,
        // No refcounted handle is on this stack any more.
        Err(status) => task::exit::exit_thread(status),
    }
}

/// [`leave`], with the wait status if the thread must end.
fn settle(frame: &mut TrapFrame, call: Option<u64>) -> core::result::Result<Next, i32> {
    let mut call = Pending::of(frame, call);
    if call.errno.is_none() {
        // A call that was not interrupted ends with its temporary mask in effect.
        restore_mask();
    }
    loop {
        sched::look_around();
        let task = task::current();
        loop {
            match next_action(&task, frame, &mut call) {
                Action::None => break,
                Action::Exit(status) => return Err(status),
                Action::Stop => sched::stop(),
                Action::Handle(info, action) => {
                    let restart = call.before_handler(frame, &action);
                    call.errno = None;
                    rseq::abort_section(frame);
                    if frame::push(&task, frame, &info, &action, restart).is_err() {
                        // As on Linux, if the signal frame can't be stored, the program gets SIGSEGV, with the default
                        // action if that was the signal.
                        if info.signal() == g::SIGSEGV {
                            task.signals.actions().set(g::SIGSEGV, SigAction::default());
                        }
                        crate::signal::send::force(&task, SigInfo::from_kernel(g::SIGSEGV));
                    } else {
                        ptrace::handler_entered(frame);
                    }
                }
            }
        }
        drop(task);
        restore_mask();
        rseq::settle(frame);
        ptrace::arm(frame);
        crate::syscall::exception::check_place(frame);
        if !percpu::work_pending() {
            return Ok(call.without_handler(frame));
        }
    }
}

/// Restores the mask that a call such as ppoll replaced.
fn restore_mask() {
    let task = task::current();
    if let Some(mask) = task.signals.saved_mask.take() {
        task.set_blocked(mask);
    }
}

/// A finished call that may have to be restarted.
struct Pending {
    /// Number of the call whose result is in the frame; `None` after anything else.
    number: Option<u64>,
    /// The restart code, if the call must be restarted.
    errno: Option<Errno>,
}

impl Pending {
    fn of(frame: &TrapFrame, call: Option<u64>) -> Self {
        let errno = Errno::from_code((frame.result() as i64).wrapping_neg());
        let errno = (call.is_some() && crate::syscall::is_restart(frame.result() as isize)).then_some(errno);
        Self { number: call, errno }
    }

    /// Before a handler runs: the call ends with EINTR or is restarted when the handler returns (signal(7)). Returns
    /// the number to restart.
    fn before_handler(&self, frame: &mut TrapFrame, action: &SigAction) -> Option<u64> {
        let again = match self.errno? {
            Errno::ERESTARTNOINTR => true,
            Errno::ERESTARTSYS => action.flags & u64::from(g::SA_RESTART) != 0,
            _ => false,
        };
        let number = self.number.filter(|_| again);
        frame.set_result(number.unwrap_or(-i64::from(Errno::EINTR.code()) as u64));
        number
    }

    /// Without a handler: restarts the call.
    fn without_handler(&self, frame: &mut TrapFrame) -> Next {
        frame.set_result(match (self.errno, self.number) {
            (None, _) | (_, None) => return Next::Program,
            (Some(Errno::ERESTART_RESTARTBLOCK), _) => u64::from(g::__NR_restart_syscall),
            (Some(_), Some(number)) => number,
        });
        Next::Call(frame.result())
    }
}

/// Dequeues signals until one requires an action.
fn next_action(task: &Rc<Task>, frame: &mut TrapFrame, call: &mut Pending) -> Action {
    let process = task.process();
    loop {
        if let Some(status) = process.signals.group_exit.get() {
            return Action::Exit(status);
        }
        if task.signals.pending().has(g::SIGKILL) {
            return Action::Exit(g::SIGKILL as i32);
        }
        if task.traced.is_interrupted() {
            if let Some(other) = ptrace::interrupted(frame, call.number) {
                *call = Pending::of(frame, other);
            }
            continue;
        }
        let stopped_by = process.signals.stopped_by.get();
        if stopped_by != 0 && task.traced.joins_stop() {
            stop::enter(process);
            if task.traced.is_attached() {
                ptrace::group_stop(frame, stopped_by);
                continue;
            }
            return Action::Stop;
        }
        let wanted = SigSet(!0).without(task.signals.blocked.get());
        let Some(info) = pending::take(task, wanted) else { return Action::None };
        let info = if task.traced.is_attached() {
            let (info, changed) = ptrace::delivering(frame, info, call.number);
            if let Some(other) = changed {
                *call = Pending::of(frame, other);
            }
            info
        } else {
            Some(info)
        };
        let Some(info) = info else { continue };
        let signal = info.signal();
        if trace::is_on() {
            trace::signal(&info);
        }
        let action = task.signals.actions().get(signal);
        match action.handler {
            SIG_IGN => {}
            SIG_DFL if IGNORED_BY_DEFAULT.has(signal) => {}
            SIG_DFL if STOP_SIGNALS.has(signal) && task.traced.is_attached() => ptrace::group_stop(frame, signal),
            SIG_DFL if STOP_SIGNALS.has(signal) => {
                if signal == g::SIGSTOP || !process::ignores_job_control(process) {
                    stop::begin(process, signal);
                }
            }
            SIG_DFL => {
                return Action::Exit(coredump::end(frame, &info));
            }
            _ => {
                if action.flags & u64::from(g::SA_ONESHOT) != 0 {
                    task.signals.actions().set(signal, SigAction { handler: SIG_DFL, ..action });
                }
                return Action::Handle(info, action);
            }
        }
    }
}

/// restart_syscall(2): continues a call that a stop interrupted.
pub fn sys_restart_syscall() -> Result<usize> {
    let restart = task::current().signals.restart.take().ok_or(Errno::EINTR)?;
    match restart {
        crate::signal::Restart::Sleep { deadline_ns, remaining } => {
            crate::time::sleep::sleep_until(deadline_ns, remaining).map(|()| 0)
        }
        crate::signal::Restart::Futex { address, value, bitset, flags, deadline_ns } => {
            task::futex::wait_restarted(address, value, bitset, flags, deadline_ns)
        }
    }
}
