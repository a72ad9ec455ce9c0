//! Interval timers of a process: setitimer(2), alarm(2), and the limit of processor time.

use super::{SECOND, deadline_after, timeval, timeval_ns};
use crate::mm::user;
use crate::sched::timer::{Timer, watch_cpu_time};
use crate::signal::{self, SigInfo};
use crate::task::{self, Process};
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// A timer on processor time.
#[derive(Clone, Copy, Debug, Default)]
struct CpuTimer {
    /// Processor time of its expiry; 0: not armed.
    at_ns: u64,
    interval_ns: u64,
}

/// The three interval timers of a process.
#[derive(Default)]
pub struct IntervalTimers {
    real: RefCell<Option<Rc<Timer>>>,
    real_deadline: Cell<u64>,
    real_interval: Cell<u64>,
    user: Cell<CpuTimer>,
    all: Cell<CpuTimer>,
    /// Processor time in s of the last SIGXCPU.
    cpu_warned: Cell<u64>,
}

/// Sends a standard signal to a process; never fails.
fn raise(process: &Rc<Process>, signal: u32) {
    let _ = signal::send_to_process(process, SigInfo::from_kernel(signal));
}

impl IntervalTimers {
    /// Arms (or with 0 disarms) the real-time timer.
    fn set_real(&self, process: &Rc<Process>, value_ns: u64, interval_ns: u64) {
        self.real_interval.set(interval_ns);
        if value_ns == 0 {
            if let Some(timer) = self.real.borrow().as_ref() {
                timer.cancel();
            }
            self.real_deadline.set(0);
            return;
        }
        let timer = self
            .real
            .borrow_mut()
            .get_or_insert_with(|| {
                let process = Rc::downgrade(process);
                Timer::new(Rc::new(move || {
                    if let Some(process) = process.upgrade() {
                        process.itimers.real_expired(&process);
                    }
                }))
            })
            .clone();
        let deadline = deadline_after(value_ns);
        self.real_deadline.set(deadline);
        timer.arm(deadline);
    }

    /// An interval timer rests until SIGALRM is taken, as on Linux: it costs nothing while nobody takes the signal.
    fn real_expired(&self, process: &Rc<Process>) {
        raise(process, g::SIGALRM);
        if self.real_interval.get() == 0 {
            self.real_deadline.set(0);
        }
    }

    /// SIGALRM was dequeued: an interval timer that rests goes on, at the first multiple in the future.
    pub(crate) fn alarm_taken(&self) {
        let (deadline, interval) = (self.real_deadline.get(), self.real_interval.get());
        let resting = self.real.borrow().clone().filter(|timer| !timer.is_armed());
        if let Some(timer) = resting
            && deadline != 0
            && interval != 0
        {
            let late = hal::clock::monotonic_ns().saturating_sub(deadline);
            let next = deadline.saturating_add(interval.saturating_mul(late / interval + 1));
            self.real_deadline.set(next);
            timer.arm(next);
        }
    }

    /// Remaining time and interval of a timer.
    fn get(&self, process: &Process, which: u32) -> (u64, u64) {
        let left = |timer: CpuTimer, used: u64| {
            let left = if timer.at_ns == 0 { 0 } else { timer.at_ns.saturating_sub(used).max(1000) };
            (left, timer.interval_ns)
        };
        let usage = process.usage();
        match which {
            g::ITIMER_REAL => {
                let armed = self.real.borrow().as_ref().is_some_and(|timer| timer.is_armed());
                let left = match self.real_deadline.get() {
                    at if armed => at.saturating_sub(hal::clock::monotonic_ns()).max(1000),
                    _ => 0,
                };
                (left, self.real_interval.get())
            }
            g::ITIMER_VIRTUAL => left(self.user.get(), usage.user_ns),
            _ => left(self.all.get(), usage.user_ns + usage.system_ns),
        }
    }

    fn set(&self, process: &Rc<Process>, which: u32, value_ns: u64, interval_ns: u64) {
        let usage = process.usage();
        let (cell, used) = match which {
            g::ITIMER_REAL => return self.set_real(process, value_ns, interval_ns),
            g::ITIMER_VIRTUAL => (&self.user, usage.user_ns),
            _ => (&self.all, usage.user_ns + usage.system_ns),
        };
        let was = cell.get().at_ns != 0;
        cell.set(CpuTimer { at_ns: if value_ns == 0 { 0 } else { used.saturating_add(value_ns) }, interval_ns });
        if was != (value_ns != 0) {
            watch_cpu_time(value_ns != 0);
        }
    }

    /// Disarms all timers (exit; execve keeps them).
    pub(crate) fn stop(&self, process: &Rc<Process>) {
        for which in [g::ITIMER_REAL, g::ITIMER_VIRTUAL, g::ITIMER_PROF] {
            self.set(process, which, 0, 0);
        }
        let _gone = self.real.take();
    }
}

/// At a tick: sends the signals of expired processor-time timers.
pub(crate) fn check_cpu_time(process: &Rc<Process>) {
    let usage = process.usage();
    let timers = &process.itimers;
    let used_all = usage.user_ns + usage.system_ns;
    for (cell, used, signal) in [(&timers.user, usage.user_ns, g::SIGVTALRM), (&timers.all, used_all, g::SIGPROF)] {
        let timer = cell.get();
        if timer.at_ns == 0 || used < timer.at_ns {
            continue;
        }
        raise(process, signal);
        if timer.interval_ns == 0 {
            cell.set(CpuTimer::default());
            watch_cpu_time(false);
        } else {
            cell.set(CpuTimer { at_ns: used + timer.interval_ns, ..timer });
        }
    }
    let (soft, hard) = process.limit(g::RLIMIT_CPU);
    let seconds = used_all / SECOND;
    if seconds >= hard {
        raise(process, g::SIGKILL);
    } else if seconds >= soft && timers.cpu_warned.get() < seconds {
        timers.cpu_warned.set(seconds);
        raise(process, g::SIGXCPU);
    }
    super::posix::check_cpu_time(process);
}

fn check_which(which: i32) -> Result<u32> {
    match which as u32 {
        which @ (g::ITIMER_REAL | g::ITIMER_VIRTUAL | g::ITIMER_PROF) => Ok(which),
        _ => Err(Errno::EINVAL),
    }
}

fn write(at: usize, (left, interval): (u64, u64)) -> Result<()> {
    user::write(at, &[timeval(interval), timeval(left)])
}

/// getitimer(2). EINVAL, EFAULT.
pub fn sys_getitimer(which: i32, at: usize) -> Result<()> {
    let which = check_which(which)?;
    let task = task::current();
    write(at, task.process().itimers.get(task.process(), which))
}

/// setitimer(2). EINVAL, EFAULT.
pub fn sys_setitimer(which: i32, new: usize, old: usize) -> Result<()> {
    let which_result = check_which(which);
    let (value, interval) = match new {
        // As on Linux, a null pointer disarms the timer.
        0 => (0, 0),
        at => {
            let [interval, value] = user::read::<[[i64; 2]; 2]>(at)?;
            (timeval_ns(value)?, timeval_ns(interval)?)
        }
    };
    let which = which_result?;
    let task = task::current();
    let process = task.process();
    let before = process.itimers.get(process, which);
    process.itimers.set(process, which, value, interval);
    if old != 0 {
        write(old, before)?;
    }
    Ok(())
}

/// alarm(2): returns the remaining seconds.
pub fn sys_alarm(seconds: u32) -> u32 {
    let task = task::current();
    let process = task.process();
    let (left, _) = process.itimers.get(process, g::ITIMER_REAL);
    process.itimers.set(process, g::ITIMER_REAL, u64::from(seconds) * SECOND, 0);
    // Rounded, but not to 0 if any time remains.
    let rounded = ((left + SECOND / 2) / SECOND) as u32;
    if left > 0 { rounded.max(1) } else { 0 }
}
