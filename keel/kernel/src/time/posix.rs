//! POSIX timers; timer_create(2).

use super::clock::Clock;
use super::{SECOND, timespec};
use crate::mm::user;
use crate::sched::timer::{Timer, watch_cpu_time};
use crate::signal::{self, SigInfo};
use crate::task::{self, Process, Task, pid, pidns};
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use keel_core::sigset::MAX_SIGNAL;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::memory::Text;

/// Maximum reported overrun.
const MAX_OVERRUN: u64 = i32::MAX as u64;
/// Interval, in ns, at which a timer with a pending signal is re-armed: its overruns are counted then, not one by one.
pub(super) const UNTAKEN_NS: u64 = 1_000_000;

/// The timers of a process by id.
#[derive(Default)]
pub struct PosixTimers {
    timers: RefCell<BTreeMap<i32, Rc<PosixTimer>>>,
    next: Cell<i32>,
}

/// The receiver of the expiry.
enum Notify {
    Nobody,
    Process(Weak<Process>),
    Thread(Weak<Task>),
}

struct PosixTimer {
    id: i32,
    clock: Clock,
    /// The clock id.
    clock_id: i32,
    signal: u32,
    value: u64,
    notify: Notify,
    timer: RefCell<Option<Rc<Timer>>>,
    /// Expiry: monotonic ns, or processor time of its clock; 0: not armed.
    at_ns: Cell<u64>,
    interval_ns: Cell<u64>,
    /// Expiries since its signal was queued, and those at the last delivery.
    missed: Cell<u64>,
    overrun: Cell<u64>,
    queued: Cell<bool>,
}

impl PosixTimer {
    /// Counts the expiries up to `now`; afterwards `at_ns` is in the future.
    fn count_expiries(&self, now: u64) -> u64 {
        let at = self.at_ns.get();
        if at == 0 || at > now {
            return 0;
        }
        match (now - at).checked_div(self.interval_ns.get()) {
            Some(missed) => {
                self.at_ns.set(at.saturating_add(self.interval_ns.get().saturating_mul(missed + 1)));
                missed + 1
            }
            None => {
                self.disarm();
                1
            }
        }
    }

    /// Arms the timer for `at_ns`, but not before `earliest`.
    fn arm(&self, earliest: u64) {
        if self.at_ns.get() != 0
            && !self.clock.is_cpu()
            && let Some(timer) = self.timer.borrow().clone()
        {
            timer.arm(self.at_ns.get().max(earliest));
        }
    }

    /// Handles the expiry: queues the signal, or counts an overrun if one is still queued. As on Linux, the timer is
    /// re-armed when the signal is dequeued.
    fn expired(&self, now: u64) {
        let times = self.count_expiries(now);
        self.arm(now + UNTAKEN_NS);
        if times == 0 {
            return;
        }
        if self.is_queued() {
            self.missed.set(self.missed.get() + times);
            return;
        }
        self.missed.set(times - 1);
        let info = SigInfo::timer(self.signal, self.id, self.value);
        let sent = match &self.notify {
            Notify::Nobody => return,
            Notify::Process(process) => process.upgrade().map(|p| signal::send_to_process(&p, info)),
            Notify::Thread(task) => task.upgrade().map(|t| signal::send_to_task(&t, info)),
        };
        self.queued.set(matches!(sent, Some(Ok(()))));
    }

    /// Whether its signal is queued.
    fn is_queued(&self) -> bool {
        let pending = match &self.notify {
            Notify::Nobody => return false,
            Notify::Process(process) => process.upgrade().map(|p| p.signals.pending.borrow().set()),
            Notify::Thread(task) => task.upgrade().map(|t| t.signals.pending.borrow().set()),
        };
        self.queued.get() && pending.is_some_and(|set| set.has(self.signal))
    }

    fn disarm(&self) {
        if self.at_ns.replace(0) != 0 && self.clock.is_cpu() {
            watch_cpu_time(false);
        }
        if let Some(timer) = self.timer.borrow().as_ref() {
            timer.cancel();
        }
    }

    /// The time that `at_ns` is compared with.
    fn now(&self) -> u64 {
        if self.clock.is_cpu() { self.clock.now() } else { hal::clock::monotonic_ns() }
    }

    /// Interval and remaining time.
    fn get(&self) -> (u64, u64) {
        let left = match self.at_ns.get() {
            0 => 0,
            at => at.saturating_sub(self.now()).max(1),
        };
        (self.interval_ns.get(), left)
    }
}

impl PosixTimers {
    fn find(&self, id: i32) -> Result<Rc<PosixTimer>> {
        self.timers.borrow().get(&id).cloned().ok_or(Errno::EINVAL)
    }

    /// The lines of `/proc/PID/timers`. ENOMEM.
    pub(crate) fn describe(&self, pid: i32) -> Result<Vec<u8>> {
        let mut text = Text::default();
        for timer in self.timers.borrow().values() {
            let (kind, whom, id) = match &timer.notify {
                Notify::Nobody => ("none", "pid", pid),
                Notify::Process(_) => ("signal", "pid", pid),
                Notify::Thread(task) => ("signal", "tid", task.upgrade().map_or(0, |t| t.own_tid())),
            };
            let (signal, value) = (timer.signal, timer.value);
            text.print(format_args!(
                "ID: {}\nsignal: {signal}/{value:016x}\nnotify: {kind}/{whom}.{id}\nClockID: {}\n",
                timer.id, timer.clock_id
            ));
        }
        text.done()
    }

    /// Deletes all timers: execve, exit.
    pub(crate) fn clear(&self) {
        let gone = self.timers.take();
        for timer in gone.values() {
            timer.disarm();
        }
    }
}

/// Before a timer's signal is delivered: fills in the overrun.
pub(crate) fn delivered(process: &Rc<Process>, info: &mut SigInfo) {
    let id = info.fields[0] as i32;
    if let Ok(timer) = process.posix_timers.find(id) {
        timer.queued.set(false);
        timer.missed.set(timer.missed.get() + timer.count_expiries(timer.now()));
        timer.arm(0);
        timer.overrun.set(timer.missed.take().min(MAX_OVERRUN));
        info.fields[0] |= timer.overrun.get() << 32;
    }
}

/// At a tick: expires timers on processor time.
pub(crate) fn check_cpu_time(process: &Rc<Process>) {
    for timer in vfs::memory::values(&process.posix_timers.timers) {
        if timer.clock.is_cpu() && timer.at_ns.get() != 0 && timer.clock.now() >= timer.at_ns.get() {
            timer.expired(timer.clock.now());
        }
    }
}

/// timer_create(2). EINVAL, EFAULT, EAGAIN.
pub fn sys_timer_create(clock: i32, event: usize, id_at: usize) -> Result<()> {
    const SIGEV_SIGNAL: i32 = 0;
    const SIGEV_NONE: i32 = 1;
    /// For libraries; the kernel handles it as SIGEV_SIGNAL.
    const SIGEV_THREAD: i32 = 2;
    const SIGEV_THREAD_ID: i32 = 4;
    let clock_id = clock;
    Clock::check_waits(clock)?;
    let clock = Clock::of(clock)?;
    let task = task::current();
    let process = task.process();
    let id = process.posix_timers.next.get();
    let (value, signal, kind, tid) = match event {
        0 => (id as u64, g::SIGALRM as i32, SIGEV_SIGNAL, 0),
        at => {
            // struct sigevent: value, signal and kind, thread id.
            let [value, signal_and_kind, tid] = user::read::<[u64; 3]>(at)?;
            (value, signal_and_kind as i32, (signal_and_kind >> 32) as i32, tid as i32)
        }
    };
    let notify = match kind {
        SIGEV_NONE => Notify::Nobody,
        SIGEV_SIGNAL | SIGEV_THREAD => Notify::Process(Rc::downgrade(process)),
        SIGEV_THREAD_ID => {
            let thread = pid::find_task(pidns::named(tid)).filter(|t| t.pid() == process.pid()).ok_or(Errno::EINVAL)?;
            Notify::Thread(Rc::downgrade(&thread))
        }
        _ => return Err(Errno::EINVAL),
    };
    if kind != SIGEV_NONE && !(1..=MAX_SIGNAL as i32).contains(&signal) {
        return Err(Errno::EINVAL);
    }
    if process.posix_timers.timers.borrow().len() as u64 >= process.limit(g::RLIMIT_SIGPENDING).0 {
        return Err(Errno::EAGAIN);
    }
    user::write(id_at, &id)?;
    process.posix_timers.next.set(id.wrapping_add(1) & i32::MAX);
    let timer = Rc::new(PosixTimer {
        id,
        clock,
        clock_id,
        signal: signal as u32,
        value,
        notify,
        timer: RefCell::new(None),
        at_ns: Cell::new(0),
        interval_ns: Cell::new(0),
        missed: Cell::new(0),
        overrun: Cell::new(0),
        queued: Cell::new(false),
    });
    process.posix_timers.timers.borrow_mut().insert(id, timer);
    Ok(())
}

fn write_spec(at: usize, (interval, left): (u64, u64)) -> Result<()> {
    user::write(at, &[timespec(interval), timespec(left)])
}

/// timer_settime(2). EINVAL, EFAULT.
pub fn sys_timer_settime(id: i32, flags: u32, new: usize, old: usize) -> Result<()> {
    if new == 0 {
        return Err(Errno::EINVAL);
    }
    let words = user::read::<[[i64; 2]; 2]>(new)?;
    let [interval, value] = words.map(|[seconds, nanos]| {
        let valid = seconds >= 0 && (0..SECOND as i64).contains(&nanos);
        valid.then(|| (seconds as u64).saturating_mul(SECOND).saturating_add(nanos as u64))
    });
    let (interval, value) = (interval.ok_or(Errno::EINVAL)?, value.ok_or(Errno::EINVAL)?);
    let timer = task::current().process().posix_timers.find(id)?;
    let before = timer.get();
    timer.disarm();
    timer.interval_ns.set(interval);
    timer.missed.set(0);
    timer.overrun.set(0);
    if value != 0 {
        let absolute = flags & g::TIMER_ABSTIME != 0;
        let at = match (absolute, timer.clock.is_cpu()) {
            (true, true) => value,
            (true, false) => timer.clock.to_monotonic(value),
            (false, _) => timer.now().saturating_add(value),
        };
        timer.at_ns.set(at.max(1));
        if timer.clock.is_cpu() {
            watch_cpu_time(true);
        } else {
            let handle = timer.timer.borrow_mut().get_or_insert_with(|| alarm(&timer)).clone();
            handle.arm(timer.at_ns.get());
        }
    }
    if old != 0 {
        write_spec(old, before)?;
    }
    Ok(())
}

/// The keel timer behind a POSIX timer.
fn alarm(timer: &Rc<PosixTimer>) -> Rc<Timer> {
    let timer = Rc::downgrade(timer);
    Timer::new(Rc::new(move || {
        if let Some(timer) = timer.upgrade() {
            timer.expired(hal::clock::monotonic_ns());
        }
    }))
}

/// timer_gettime(2). EINVAL, EFAULT.
pub fn sys_timer_gettime(id: i32, at: usize) -> Result<()> {
    let timer = task::current().process().posix_timers.find(id)?;
    write_spec(at, timer.get())
}

/// timer_getoverrun(2). EINVAL.
pub fn sys_timer_getoverrun(id: i32) -> Result<i32> {
    Ok(task::current().process().posix_timers.find(id)?.overrun.get() as i32)
}

/// timer_delete(2). EINVAL.
pub fn sys_timer_delete(id: i32) -> Result<()> {
    let gone = task::current().process().posix_timers.timers.borrow_mut().remove(&id).ok_or(Errno::EINVAL)?;
    gone.disarm();
    Ok(())
}
