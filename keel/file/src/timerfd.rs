//! Timers as readable counters, timerfd_create(2).

use super::{Abilities, File, FileOps, Queues, anon, wait_on};
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::cell::Cell;
use hal::clock::{monotonic_ns, realtime_ns};
use mm::user;
use sched::timer::Timer;
use sched::timer::timespec;
use sched::wait::WaitQueue;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::memory::Text;
use vfs::{Attr, Dst};

/// A timer that counts its expirations until they are read.
pub struct TimerFd {
    clock: u32,
    timer: Rc<Timer>,
    /// Next (or, while `expired`, last) expiration, monotonic ns; 0: disarmed.
    deadline: Cell<u64>,
    /// ns between expirations; 0: only one.
    interval: Cell<u64>,
    /// Flags of the last timerfd_settime(2).
    pub flags: Cell<u32>,
    /// Went off and was neither read nor asked since: it rests until then.
    expired: Cell<bool>,
    /// Expirations that were counted and not read.
    ticks: Cell<u64>,
    queue: Rc<WaitQueue>,
}

impl TimerFd {
    /// A timer that is not armed. `clock`: `CLOCK_*`.
    pub fn new(clock: u32) -> Rc<Self> {
        Rc::new_cyclic(|me: &Weak<Self>| {
            let me = me.clone();
            let fire = move || {
                if let Some(this) = me.upgrade() {
                    this.expired.set(true);
                    this.ticks.set(this.ticks.get() + 1);
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
                ticks: Cell::new(0),
                queue: Rc::default(),
            }
        })
    }

    /// Expirations so far; an interval timer then runs on to its next one.
    fn take(&self) -> Option<u64> {
        if self.ticks.get() == 0 {
            return None;
        }
        self.go_on();
        self.expired.set(false);
        Some(self.ticks.take())
    }

    /// If an interval timer rests, counts what it missed and arms it for its next expiration.
    fn go_on(&self) {
        let interval = self.interval.get();
        let late = monotonic_ns().saturating_sub(self.deadline.get());
        let Some(missed) = late.checked_div(interval).filter(|_| self.expired.get()) else { return };
        self.expired.set(false);
        self.ticks.set(self.ticks.get().saturating_add(missed));
        let next = self.deadline.get().saturating_add((missed + 1).saturating_mul(interval));
        self.deadline.set(next);
        self.timer.arm(next);
    }

    /// ns until the next expiration, and the interval: `struct itimerspec`, interval first.
    pub fn setting(&self) -> [[i64; 2]; 2] {
        self.go_on();
        self.shown()
    }

    /// [`Self::setting`], but what rests goes on resting.
    fn shown(&self) -> [[i64; 2]; 2] {
        let left = if self.timer.is_armed() { self.deadline.get().saturating_sub(monotonic_ns()).max(1) } else { 0 };
        [timespec(self.interval.get()), timespec(left)]
    }

    /// timerfd_settime(2), with times in ns; `value` of 0 disarms it.
    pub fn set(&self, value: u64, interval: u64, absolute: bool) {
        self.timer.cancel();
        self.expired.set(false);
        self.ticks.set(0);
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
        if self.ticks.get() != 0 { g::POLLIN } else { 0 }
    }

    fn poll_queues(&self, _file: &File, _events: u32, out: &mut Queues) {
        out.push(self.queue.clone());
    }

    fn ioctl(&self, _file: &File, command: u32, arg: usize) -> Result<usize> {
        /// Sets the number of expirations, for programs that restore a timer.
        const SET_TICKS: u32 = 0x4008_5400;
        if command != SET_TICKS {
            return Err(Errno::ENOTTY);
        }
        match user::read::<u64>(arg)? {
            0 => Err(Errno::EINVAL),
            ticks => {
                self.ticks.set(ticks);
                self.queue.wake_all();
                Ok(0)
            }
        }
    }

    fn link_name(&self) -> Vec<u8> {
        b"anon_inode:[timerfd]".to_vec()
    }

    fn describe(&self, _file: &File, out: &mut Text) {
        let [[interval, interval_ns], [value, value_ns]] = self.shown();
        let (ticks, flags) = (self.ticks.get(), self.flags.get());
        out.print(format_args!(
            "clockid: {}\nticks: {ticks}\nsettime flags: 0{flags:o}\nit_value: ({value}, {value_ns})\n\
             it_interval: ({interval}, {interval_ns})\n",
            self.clock,
        ));
    }
}
