//! Timers as readable counters, timerfd_create(2).

use super::{Abilities, File, FileOps, Queues, anon, wait_on};
use crate::sched::timer::Timer;
use crate::sched::timer::timespec;
use crate::sched::wait::WaitQueue;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::cell::Cell;
use hal::clock::{monotonic_ns, realtime_ns};
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::memory::Text;
use vfs::{Attr, Dst};

/// A timer that counts its expirations until they are read.
pub(crate) struct TimerFd {
    clock: u32,
    timer: Rc<Timer>,
    /// Next (or, while `expired`, last) expiration, monotonic ns; 0: disarmed.
    deadline: Cell<u64>,
    /// ns between expirations; 0: only one.
    interval: Cell<u64>,
    /// Flags of the last timerfd_settime(2).
    pub(crate) flags: Cell<u32>,
    /// Went off and was not read since: it rests until then.
    expired: Cell<bool>,
    queue: Rc<WaitQueue>,
}

impl TimerFd {
    pub(crate) fn new(clock: u32) -> Rc<Self> {
        Rc::new_cyclic(|me: &Weak<Self>| {
            let me = me.clone();
            let fire = move || {
                if let Some(this) = me.upgrade() {
                    this.expired.set(true);
                    this.queue.wake_all();
                }
            };
            Self {
                clock,
                timer: Timer::new(Rc::new(fire)),
                deadline: Cell::new(0),
                interval: Cell::new(0),
                flags: Cell::new(0),
                expired: Cell::new(false),
                queue: Rc::default(),
            }
        })
    }

    /// Expirations so far; an interval timer then runs on to its next one.
    fn take(&self) -> Option<u64> {
        if !self.expired.replace(false) {
            return None;
        }
        let interval = self.interval.get();
        let Some(periods) = monotonic_ns().saturating_sub(self.deadline.get()).checked_div(interval) else {
            self.deadline.set(0);
            return Some(1);
        };
        let next = self.deadline.get().saturating_add((periods + 1).saturating_mul(interval));
        self.deadline.set(next);
        self.timer.arm(next);
        Some(periods + 1)
    }

    /// ns until the next expiration, and the interval: `struct itimerspec`, interval first.
    pub(crate) fn setting(&self) -> [[i64; 2]; 2] {
        let now = monotonic_ns();
        let interval = self.interval.get();
        let mut next = self.deadline.get();
        if next != 0 && next <= now {
            // An interval timer that rests shows when it would go off.
            next = match (now - next).checked_div(interval) {
                Some(periods) => next.saturating_add((periods + 1).saturating_mul(interval)),
                None if self.expired.get() => now,
                None => now + 1,
            };
        }
        [timespec(interval), timespec(next.saturating_sub(now))]
    }

    pub(crate) fn set(&self, value: u64, interval: u64, absolute: bool) {
        self.timer.cancel();
        self.expired.set(false);
        self.interval.set(interval);
        if value == 0 {
            self.deadline.set(0);
            return;
        }
        let now = monotonic_ns();
        let deadline = match (absolute, self.clock) {
            (false, _) => now.saturating_add(value),
            (true, g::CLOCK_REALTIME | g::CLOCK_REALTIME_ALARM) => {
                // A time in the past has passed at the very beginning.
                now.saturating_add(value.saturating_sub(realtime_ns())).max(1)
            }
            (true, _) => value,
        };
        self.deadline.set(deadline);
        self.timer.arm(deadline);
    }
}

impl FileOps for TimerFd {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities::READ.with(Abilities::READ_FLAGS).with(Abilities::NO_WAIT)
    }

    fn read(&self, file: &File, dst: &mut dyn Dst) -> Result<usize> {
        if dst.remaining() < 8 {
            return Err(Errno::EINVAL);
        }
        let count = match self.take() {
            Some(count) => count,
            None if file.nonblocking() => return Err(Errno::EAGAIN),
            None => wait_on(&self.queue, || self.take())?,
        };
        dst.put(&count.to_ne_bytes())
    }

    fn attr(&self) -> Result<Attr> {
        Ok(anon::anon_attr())
    }

    fn seek(&self, file: &File, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(file.pos.get())
    }

    fn poll(&self, _file: &File) -> u32 {
        if self.expired.get() { g::POLLIN } else { 0 }
    }

    fn poll_queues(&self, _file: &File, _events: u32, out: &mut Queues) {
        out.push(self.queue.clone());
    }

    fn link_name(&self) -> Vec<u8> {
        b"anon_inode:[timerfd]".to_vec()
    }

    fn describe(&self, _file: &File, out: &mut Text) {
        let [[interval, interval_ns], [value, value_ns]] = self.setting();
        // Linux counts the expirations of an interval timer that rests when it is read.
        let (ticks, flags) = (u32::from(self.expired.get()), self.flags.get());
        out.print(format_args!(
            "clockid: {}\nticks: {ticks}\nsettime flags: 0{flags:o}\nit_value: ({value}, {value_ns})\n\
             it_interval: ({interval}, {interval_ns})\n",
            self.clock,
        ));
    }
}
