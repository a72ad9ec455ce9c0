//! A limit of the processor time that a pod uses: a fraction of `--cpus`.
//!
//! The time is that of the whole monitor process: virtual CPUs, the helper and the threads that serve files. A thread sleeps
//! on the process's CPU clock until the quota of a period is used. If the period is not over, no virtual CPU enters the guest
//! until it is: those in the guest are kicked, which also works in a pod that never exits. A pod that computes nothing
//! does not wake the thread.

use super::Shared;
use crate::error::Error;
use crate::server::clock_ns;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
/// Within such a time the pod uses its quota, as with the default period of Linux's CFS bandwidth control.
const PERIOD: u64 = SECOND / 10;

/// Whether virtual CPUs may enter the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    Closed,
    /// The pod ends: open for ever.
    Ended,
}

/// The limit of one pod.
#[derive(Debug)]
pub(super) struct Quota {
    /// Billionths of a processor.
    share: NonZeroU64,
    gate: Mutex<Gate>,
    opened: Condvar,
}

impl Quota {
    /// A limit in billionths of a processor.
    pub(super) fn new(share: NonZeroU64) -> Self {
        Self { share, gate: Mutex::new(Gate::Open), opened: Condvar::new() }
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        // No code panics while it holds the lock.
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the calling virtual CPU may enter the guest.
    pub(super) fn wait(&self) {
        let closed = |gate: &mut Gate| *gate == Gate::Closed;
        drop(self.opened.wait_while(self.gate(), closed).unwrap_or_else(PoisonError::into_inner));
    }

    fn close(&self) {
        let mut gate = self.gate();
        if *gate == Gate::Open {
            *gate = Gate::Closed;
        }
    }

    fn open(&self) {
        let mut gate = self.gate();
        if *gate == Gate::Closed {
            *gate = Gate::Open;
        }
        self.opened.notify_all();
    }

    /// No virtual CPU waits any more.
    pub(super) fn end(&self) {
        *self.gate() = Gate::Ended;
        self.opened.notify_all();
    }

    /// Processor time that the pod may use in a period, in ns.
    fn slice(&self) -> u64 {
        let slice = u128::from(self.share.get()) * u128::from(PERIOD) / u128::from(SECOND);
        u64::try_from(slice).unwrap_or(u64::MAX).max(1)
    }

    /// Time in which the pod may use this processor time; both in ns.
    fn time_for(&self, used: u64) -> u64 {
        let time = u128::from(used) * u128::from(SECOND) / u128::from(self.share.get());
        u64::try_from(time).unwrap_or(u64::MAX)
    }
}

/// Starts the thread that holds the limit, if there is one.
pub(super) fn start(shared: &Arc<Shared>) -> Result<(), Error> {
    let Some(slice) = shared.quota.as_ref().map(Quota::slice) else { return Ok(()) };
    let shared = Arc::downgrade(shared);
    let thread = std::thread::Builder::new().name("quota".into()).spawn(move || hold(&shared, slice));
    thread.map(drop).map_err(|source| Error::Thread { what: "the thread for the processor time", source })
}

/// Holds the limit, of so much processor time (ns) a period, until the pod has ended.
fn hold(shared: &Weak<Shared>, slice: u64) {
    let mut used = clock_ns(ClockId::ProcessCPUTime);
    let mut since = clock_ns(ClockId::Monotonic);
    loop {
        sleep_until(ClockId::ProcessCPUTime, used.saturating_add(slice));
        let (before, now) = (used, clock_ns(ClockId::Monotonic));
        used = clock_ns(ClockId::ProcessCPUTime);
        let Some(shared) = shared.upgrade() else { return };
        let Some(quota) = shared.quota.as_ref().filter(|_| !shared.state.is_over()) else { return };
        let paid = since.saturating_add(quota.time_for(used.saturating_sub(before)));
        // What a pod left unused before does not count.
        since = paid.max(now);
        if paid > now {
            quota.close();
            shared.cpus.kick_running(&shared.state);
            sleep_until(ClockId::Monotonic, paid);
            quota.open();
        }
    }
}

/// Sleeps until a clock has reached a time in ns.
fn sleep_until(clock: ClockId, ns: u64) {
    let time = Timespec { tv_sec: (ns / SECOND) as i64, tv_nsec: (ns % SECOND) as i64 };
    while clock_ns(clock) < ns {
        // EINTR: a signal. Should the clock not be one to sleep on, look again soon.
        if clock_nanosleep_absolute(clock, &time).is_err_and(|error| error != rustix::io::Errno::INTR) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(share: u64) -> Quota {
        Quota::new(NonZeroU64::new(share).unwrap())
    }

    #[test]
    fn slices() {
        assert_eq!((quota(SECOND / 2).slice(), quota(3 * SECOND / 2).slice()), (PERIOD / 2, PERIOD / 2 * 3));
        assert_eq!(quota(1).slice(), 1);
        assert_eq!((quota(SECOND / 2).time_for(PERIOD), quota(2 * SECOND).time_for(PERIOD)), (2 * PERIOD, PERIOD / 2));
        assert_eq!(quota(1).time_for(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_closed_gate_holds_until_it_opens_or_the_pod_ends() {
        for end in [Quota::open, Quota::end] {
            let quota = Arc::new(quota(SECOND));
            quota.wait();
            quota.close();
            let waits = std::thread::spawn({
                let quota = quota.clone();
                move || quota.wait()
            });
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waits.is_finished());
            end(&quota);
            waits.join().unwrap();
        }
        let ended = quota(SECOND);
        ended.end();
        ended.close();
        ended.wait();
    }

    #[test]
    fn sleeps_on_the_cpu_clock() {
        let until = clock_ns(ClockId::ProcessCPUTime) + 20_000_000;
        let sleeper = std::thread::spawn(move || sleep_until(ClockId::ProcessCPUTime, until));
        while !sleeper.is_finished() {
            std::hint::spin_loop();
        }
        sleeper.join().unwrap();
        assert!(clock_ns(ClockId::ProcessCPUTime) >= until);
    }
}
