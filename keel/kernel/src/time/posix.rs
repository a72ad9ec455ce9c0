//! POSIX timers; timer_create(2).

use super::clock::Clock;
use super::{SECOND, timespec};
use crate::mm::user;
use crate::sched::timer::{Timer, watch_cpu_time};
use crate::signal::{SigInfo, code, send};
use crate::task::{self, Process, Task, pid, pidns};
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use keel_core::sigset::{MAX_SIGNAL, SigSet};
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::memory::Text;

/// Maximum reported overrun.
const MAX_OVERRUN: i64 = i32::MAX as i64;
/// ns after which a signal that could not be queued, because memory was used up, is tried again.
const RETRY_NS: u64 = 10_000_000;
/// In the padding of a siginfo: keel's own, not what a program sent with the code of timers.
const OWN: i32 = 1;

/// The timers of a process by id.
#[derive(Default)]
pub struct PosixTimers {
    timers: RefCell<BTreeMap<i32, Rc<PosixTimer>>>,
    next: Cell<i32>,
    /// New timers get the ids that the program names, `PR_TIMER_CREATE_RESTORE_IDS`.
    restores_ids: Cell<bool>,
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
    /// It went off and rests until its signal is delivered, so that it costs nothing while nobody takes the signal.
    rests: Cell<bool>,
    /// Expiries since the last delivery besides the one that queued the signal, and those at the last delivery.
    missed: Cell<i64>,
    overrun: Cell<i64>,
    signal_state: Cell<Signal>,
    /// The signal is that of the present setting; else it is dropped when it is taken.
    valid: Cell<bool>,
}

/// Where the signal of a timer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signal {
    Nowhere,
    Queued,
    /// That of an interval timer, while its action is to ignore it: it is queued once there is another action.
    Ignored,
}

impl PosixTimer {
    /// Moves the expiry of an interval timer into the future; the number of intervals.
    fn forward(&self, now: u64) -> i64 {
        let (at, interval) = (self.at_ns.get(), self.interval_ns.get());
        let late = now.checked_sub(at).and_then(|late| late.checked_div(interval));
        let Some(late) = late.filter(|_| at != 0) else { return 0 };
        let intervals = late.saturating_add(1);
        self.at_ns.set(at.saturating_add(interval.saturating_mul(intervals)));
        i64::try_from(intervals).unwrap_or(i64::MAX)
    }

    /// Whether its expiry is only computed, when it is asked for.
    fn is_silent(&self) -> bool {
        matches!(self.notify, Notify::Nobody)
    }

    /// Arms it for `at_ns`.
    fn arm(self: &Rc<Self>) {
        self.rests.set(false);
        if !self.is_silent() && !self.clock.is_cpu() {
            let handle = self.timer.borrow_mut().get_or_insert_with(|| alarm(self)).clone();
            handle.arm(self.at_ns.get());
        }
    }

    /// Handles the expiry: queues the signal. As on Linux, an interval timer goes on when the signal is delivered.
    fn expired(self: &Rc<Self>) {
        self.rests.set(true);
        self.valid.set(true);
        if self.signal_state.get() != Signal::Queued && !self.send() {
            if let Some(timer) = self.timer.borrow().clone() {
                timer.arm(hal::clock::monotonic_ns() + RETRY_NS);
            }
            self.rests.set(false);
            return;
        }
        if self.interval_ns.get() == 0 {
            self.disarm();
        }
    }

    /// Sends the signal; `false`: no memory.
    fn send(&self) -> bool {
        let sent = self.with_receiver(send::send_for_timer);
        let periodic = self.interval_ns.get() != 0;
        self.signal_state.set(match sent {
            Some(Ok(true)) => Signal::Queued,
            Some(Ok(false)) if periodic => Signal::Ignored,
            Some(Err(_)) => return false,
            _ => Signal::Nowhere,
        });
        true
    }

    /// Calls `f` with the receiver, if there is one, and the signal's information.
    fn with_receiver<T>(&self, f: impl FnOnce(&Rc<Process>, Option<&Rc<Task>>, SigInfo) -> T) -> Option<T> {
        let info = SigInfo { pad: OWN, ..SigInfo::timer(self.signal, self.id, self.value) };
        match &self.notify {
            Notify::Nobody => None,
            Notify::Process(process) => process.upgrade().map(|process| f(&process, None, info)),
            Notify::Thread(task) => task.upgrade().map(|task| f(task.process(), Some(&task), info)),
        }
    }

    fn disarm(&self) {
        if self.at_ns.replace(0) != 0 && self.is_watched() {
            watch_cpu_time(false);
        }
        self.rests.set(false);
        if let Some(timer) = self.timer.borrow().as_ref() {
            timer.cancel();
        }
    }

    /// Whether ticks look for its expiry.
    fn is_watched(&self) -> bool {
        self.clock.is_cpu() && !self.is_silent()
    }

    /// The time that `at_ns` is compared with.
    fn now(&self) -> u64 {
        if self.clock.is_cpu() { self.clock.now() } else { hal::clock::monotonic_ns() }
    }

    /// Interval and remaining time.
    fn get(&self) -> (u64, u64) {
        let now = self.now();
        if self.rests.get() || self.is_silent() {
            self.missed.set(self.missed.get().saturating_add(self.forward(now)));
        }
        let left = match self.at_ns.get() {
            0 => 0,
            at if self.is_silent() => at.saturating_sub(now),
            at => at.saturating_sub(now).max(1),
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

    /// The pending signals of `which` were dropped.
    pub(crate) fn discarded(&self, which: SigSet) {
        for timer in vfs::memory::values(&self.timers) {
            if which.has(timer.signal) && timer.signal_state.get() == Signal::Queued {
                let periodic = timer.interval_ns.get() != 0;
                timer.signal_state.set(if periodic { Signal::Ignored } else { Signal::Nowhere });
            }
        }
    }

    /// Deletes all timers: execve, exit.
    pub(crate) fn clear(&self) {
        self.restores_ids.set(false);
        let gone = self.timers.take();
        for timer in gone.values() {
            timer.disarm();
        }
    }
}

/// When a signal was taken: if it is that of a timer, the timer goes on, and the overrun is filled in. `false`: the timer was
/// set anew or deleted since, so nobody gets the signal.
pub(crate) fn delivered(process: &Rc<Process>, info: &mut SigInfo) -> bool {
    if info.code != code::TIMER || info.pad != OWN {
        return true;
    }
    info.pad = 0;
    let Ok(timer) = process.posix_timers.find(info.fields[0] as i32) else { return false };
    timer.signal_state.set(Signal::Nowhere);
    if !timer.valid.replace(false) {
        return false;
    }
    if timer.rests.get() {
        let missed = timer.missed.get().saturating_add(timer.forward(timer.now()));
        timer.arm();
        timer.missed.set(-1);
        timer.overrun.set(missed.clamp(0, MAX_OVERRUN));
        info.fields[0] |= (timer.overrun.get() as u64) << 32;
    }
    true
}

/// A signal that was ignored is not any more: what timers would have sent meanwhile is queued.
pub(crate) fn no_longer_ignored(process: &Rc<Process>, signal: u32) {
    for timer in vfs::memory::values(&process.posix_timers.timers) {
        if timer.signal == signal
            && timer.signal_state.get() == Signal::Ignored
            && let Some(Ok(())) = timer.with_receiver(send::queue_ignored)
        {
            timer.signal_state.set(Signal::Queued);
        }
    }
}

/// At a tick: expires timers on processor time.
pub(crate) fn check_cpu_time(process: &Rc<Process>) {
    for timer in vfs::memory::values(&process.posix_timers.timers) {
        let at = timer.at_ns.get();
        if at != 0 && timer.is_watched() && !timer.rests.get() && timer.clock.now() >= at {
            timer.expired();
        }
    }
}

impl PosixTimers {
    /// `PR_TIMER_CREATE_RESTORE_IDS`: 0 and 1 switch it, 2 asks. EINVAL.
    pub(crate) fn restore_ids(&self, operation: u64) -> Result<i32> {
        match operation {
            0 | 1 => self.restores_ids.set(operation == 1),
            2 => return Ok(i32::from(self.restores_ids.get())),
            _ => return Err(Errno::EINVAL),
        }
        Ok(0)
    }

    /// Id of a new timer: the next one that is free, or the one that the program stored. EBUSY, EFAULT, EINVAL.
    fn new_id(&self, id_at: usize) -> Result<i32> {
        let is_used = |id: &i32| self.timers.borrow().contains_key(id);
        if !self.restores_ids.get() {
            let mut id = self.next.get();
            while is_used(&id) {
                id = id.wrapping_add(1) & i32::MAX;
            }
            return Ok(id);
        }
        let id = user::read::<i32>(id_at)?;
        if id < 0 {
            return Err(Errno::EINVAL);
        }
        if is_used(&id) { Err(Errno::EBUSY) } else { Ok(id) }
    }
}

/// timer_create(2). EINVAL, EFAULT, EAGAIN; EBUSY of ids that are restored.
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
    let id = process.posix_timers.new_id(id_at)?;
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
    let queued = match &notify {
        Notify::Thread(thread) => thread.upgrade().map_or(0, |thread| thread.signals.pending.borrow().len()),
        _ => process.signals.pending.borrow().len(),
    };
    // Signals of timers that are deleted stay queued.
    let most = process.limit(g::RLIMIT_SIGPENDING).0;
    if process.posix_timers.timers.borrow().len().max(queued) as u64 >= most {
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
        rests: Cell::new(false),
        missed: Cell::new(-1),
        overrun: Cell::new(0),
        signal_state: Cell::new(Signal::Nowhere),
        valid: Cell::new(false),
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
    timer.interval_ns.set(if value == 0 { 0 } else { interval });
    timer.missed.set(-1);
    timer.overrun.set(0);
    timer.valid.set(false);
    if value != 0 {
        let absolute = flags & g::TIMER_ABSTIME != 0;
        let at = match (absolute, timer.clock.is_cpu()) {
            (true, true) => value,
            (true, false) => timer.clock.to_monotonic(value),
            (false, _) => timer.now().saturating_add(value),
        };
        timer.at_ns.set(at.max(1));
        if timer.is_watched() {
            watch_cpu_time(true);
        }
        timer.arm();
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
            timer.expired();
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
