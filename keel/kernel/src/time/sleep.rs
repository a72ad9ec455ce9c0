//! Sleeping.

use super::clock::Clock;
use super::{deadline_after, read_timespec, write_timespec};
use crate::sched::wait;
use crate::sched::wait::Interrupt;
use crate::signal::Restart;
use crate::task;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Sleeps until the monotonic clock reaches `deadline_ns`; if a signal ends the sleep, writes the remaining time to
/// `remaining` unless that is 0. EINTR.
pub(crate) fn sleep_until(deadline_ns: u64, remaining: usize) -> Result<()> {
    match wait::park(Some(deadline_ns), Interrupt::BySignal, || None::<()>) {
        Err(Errno::ETIMEDOUT) | Ok(()) => Ok(()),
        Err(_) => {
            if remaining != 0 {
                write_timespec(remaining, deadline_ns.saturating_sub(hal::clock::monotonic_ns()))?;
            }
            task::current().signals.restart.set(Some(Restart::Sleep { deadline_ns, remaining }));
            Err(Errno::ERESTART_RESTARTBLOCK)
        }
    }
}

/// nanosleep(2). EFAULT, EINVAL, EINTR.
pub fn sys_nanosleep(request: usize, remaining: usize) -> Result<()> {
    let ns = read_timespec(request)?;
    sleep_until(deadline_after(ns), remaining)
}

/// clock_nanosleep(2). EFAULT, EINVAL, EINTR, EOPNOTSUPP.
pub fn sys_clock_nanosleep(id: i32, flags: u32, request: usize, remaining: usize) -> Result<()> {
    Clock::check_waits(id)?;
    let clock = Clock::of(id)?;
    // A sleeping thread's own processor time does not advance.
    if id == g::CLOCK_THREAD_CPUTIME_ID as i32 {
        return Err(Errno::EOPNOTSUPP);
    }
    let ns = read_timespec(request)?;
    let absolute = flags & g::TIMER_ABSTIME != 0;
    if clock.is_cpu() {
        return sleep_cpu(&clock, if absolute { ns } else { clock.now().saturating_add(ns) });
    }
    if !absolute {
        return sleep_until(deadline_after(ns), remaining);
    }
    let deadline = clock.to_monotonic(ns);
    match wait::park(Some(deadline), Interrupt::BySignal, || None::<()>) {
        Err(Errno::ETIMEDOUT) | Ok(()) => Ok(()),
        Err(_) => Err(Errno::ERESTARTNOHAND),
    }
}

/// Waits until a processor-time clock reaches `until`: checks at each time when it could have.
fn sleep_cpu(clock: &Clock, until: u64) -> Result<()> {
    loop {
        let now = clock.now();
        if now >= until {
            return Ok(());
        }
        match wait::park(Some(deadline_after((until - now).max(1_000_000))), Interrupt::BySignal, || None::<()>) {
            Err(Errno::ETIMEDOUT) | Ok(()) => {}
            Err(_) => return Err(Errno::ERESTARTNOHAND),
        }
    }
}
