//! Who runs: the run queue, switching threads, idling, accounting.

use super::process::Usage;
use super::wait::Interrupt;
use super::{Task, current, set_current};
use crate::mm::Mm;
use crate::{connector, time};
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use hal::clock::monotonic_ns;
use hal::{percpu, ring, thread};
use keel_core::runq::{RunQueue, virtual_ns};

/// How long a thread runs while others wait, in ns.
pub const SLICE_NS: u64 = 10_000_000;
/// What a thread that slept may run ahead of the others, in ns of virtual time.
const SLEEP_CREDIT_NS: u64 = SLICE_NS / 2;
/// How much further a thread must be before it has to let another one run.
const PREEMPT_NS: u64 = 1_000_000;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// On a virtual CPU.
    Running,
    /// In the run queue.
    Queued,
    /// Waits; what may end that early.
    Sleeping(Interrupt),
    /// Stopped by a signal.
    Stopped,
    /// Ended.
    Dead,
}

impl State {
    /// As `/proc/PID/stat` shows it.
    pub fn letter(self) -> char {
        match self {
            Self::Running | Self::Queued => 'R',
            Self::Sleeping(Interrupt::BySignal) => 'S',
            Self::Sleeping(_) => 'D',
            Self::Stopped => 'T',
            Self::Dead => 'Z',
        }
    }
}

/// What the scheduler knows about a thread.
#[derive(Debug)]
pub struct Entity {
    state: Cell<State>,
    /// Weighted processor time in ns.
    virtual_time: Cell<u64>,
    /// When it got the CPU, or when it was last accounted.
    since_ns: Cell<u64>,
    usage: Cell<Usage>,
    /// Nice value, -20 to 19.
    pub nice: Cell<i32>,
    /// `SCHED_*` policy and its static priority, as set; all run alike.
    pub policy: Cell<(u32, u32)>,
    /// CPUs that it may use, one bit each.
    pub affinity: Cell<u64>,
    /// It must look around before it returns to its program.
    pub work: Cell<bool>,
}

impl Entity {
    /// Of a new thread; inherits from its creator.
    pub fn new(from: Option<&Entity>) -> Self {
        Self {
            state: Cell::new(State::Stopped),
            virtual_time: Cell::new(from.map_or(0, |e| e.virtual_time.get())),
            since_ns: Cell::new(0),
            usage: Cell::default(),
            nice: Cell::new(from.map_or(0, |e| e.nice.get())),
            policy: Cell::new(from.map_or((0, 0), |e| e.policy.get())),
            affinity: Cell::new(from.map_or(u64::MAX, |e| e.affinity.get())),
            work: Cell::new(false),
        }
    }

    /// State now.
    pub fn state(&self) -> State {
        self.state.get()
    }

    /// Processor time and counts, up to now for the running thread.
    pub fn usage(&self) -> Usage {
        if self.state.get() == State::Running {
            self.account();
        }
        self.usage.get()
    }

    /// Changes the counts.
    pub fn count(&self, f: impl FnOnce(&mut Usage)) {
        let mut usage = self.usage.get();
        f(&mut usage);
        self.usage.set(usage);
    }

    /// Adds the time since the last call: to the program's share.
    fn account(&self) {
        let now = monotonic_ns();
        let ns = now.saturating_sub(self.since_ns.replace(now));
        self.count(|u| u.user_ns += ns);
        super::load::add(ns, now);
        self.virtual_time.set(self.virtual_time.get() + virtual_ns(ns, self.nice.get()));
    }

    /// Moves `ns` of the accounted time from the program's share to keel's.
    pub fn was_system(&self, ns: u64) {
        self.account();
        self.count(|u| {
            let ns = ns.min(u.user_ns);
            u.user_ns -= ns;
            u.system_ns += ns;
        });
    }
}

static QUEUE: Global<RefCell<RunQueue<Rc<Task>>>> = Global::new(RefCell::new(RunQueue::new()));
/// A thread and the memory that it used.
type Ended = (Rc<Task>, Option<Rc<Mm>>);

/// A thread that ended: dropped by whoever runs next, on another stack and in
/// another address space.
static ENDED: Global<RefCell<Option<Ended>>> = Global::new(RefCell::new(None));
static TICKING: Global<Cell<bool>> = Global::new(Cell::new(false));

/// Ends the sleep of a thread; whether it slept.
pub fn wake(task: &Rc<Task>) -> bool {
    if !matches!(task.sched.state.get(), State::Sleeping(_)) {
        return false;
    }
    enqueue(task);
    true
}

/// Lets a stopped or new thread run.
pub fn resume(task: &Rc<Task>) {
    if task.sched.state.get() == State::Stopped {
        enqueue(task);
    }
}

fn enqueue(task: &Rc<Task>) {
    task.sched.state.set(State::Queued);
    let time = QUEUE.borrow_mut().push(task.clone(), task.sched.virtual_time.get(), SLEEP_CREDIT_NS);
    task.sched.virtual_time.set(time);
    // A running thread sees to the tick, and whether it should give way, when its call is over.
    if super::try_current().is_some_and(|me| me.sched.state.get() == State::Running) {
        percpu::set_work_pending();
    }
}

/// The tick is wanted while others wait for the CPU, or while somebody counts processor time.
/// Turning it on costs a doorbell, so it stays on until a kick finds it useless.
pub fn set_tick() {
    if !QUEUE.borrow().is_empty() || time::counts_cpu_time() {
        tick(true);
    }
}

fn tick(on: bool) {
    if TICKING.replace(on) != on {
        ring::set_tick(on);
    }
}

/// Parks the current thread until somebody wakes it.
pub fn sleep(interrupt: Interrupt) {
    super::with_current(|me| {
        me.sched.state.set(State::Sleeping(interrupt));
        me.sched.count(|u| u.voluntary += 1);
    });
    schedule();
}

/// Parks the current thread until [`resume`].
pub fn stop() {
    super::with_current(|me| me.sched.state.set(State::Stopped));
    schedule();
}

/// Lets others run first.
pub fn yield_now() {
    if QUEUE.borrow().is_empty() {
        return;
    }
    let me = current();
    me.sched.account();
    // Behind everybody who waits now.
    let last = QUEUE.borrow().iter().map(|t| t.sched.virtual_time.get()).max().unwrap_or(0);
    me.sched.virtual_time.set(me.sched.virtual_time.get().max(last));
    enqueue(&me);
    drop(me);
    schedule();
}

/// Lets another thread run if it has had less time than the current one.
pub fn preempt() {
    let least = QUEUE.borrow().least();
    let Some(least) = least else { return };
    let me = current();
    me.sched.account();
    if least + PREEMPT_NS >= me.sched.virtual_time.get() {
        return;
    }
    me.sched.count(|u| u.involuntary += 1);
    enqueue(&me);
    drop(me);
    schedule();
}

/// Serves completions and due timers.
pub fn poll_events() {
    connector::poll_completions();
    time::run_due();
}

/// The next thread to run: waits until there is one.
fn pick() -> Rc<Task> {
    loop {
        // What the last thread still has to look after is its own; while the flag stands, the CPU
        // does not idle. Taken before the look, so that a kick after it is not lost.
        percpu::take_work_pending();
        poll_events();
        let next = QUEUE.borrow_mut().pop();
        if let Some(next) = next {
            return next;
        }
        tick(false);
        // What this flag asks for was done just now; the thread's own wishes stand in its entity.
        if !percpu::take_work_pending() {
            ring::idle(time::earliest());
        }
    }
}

/// Gives the CPU to the next thread; the current one has set its state.
fn schedule() {
    let me = current();
    me.sched.account();
    let next = pick();
    prepare(&next);
    if Rc::ptr_eq(&me, &next) {
        return;
    }
    let (from, to) = (me.thread.clone(), next.thread.clone());
    set_current(next);
    // Nothing on this stack may keep another thread alive while this one sleeps.
    drop(me);
    thread::hand_over(from, to);
    finish_switch();
}

/// Makes a thread ready to be switched to.
fn prepare(next: &Rc<Task>) {
    next.sched.state.set(State::Running);
    next.sched.since_ns.set(monotonic_ns());
    if let Some(mm) = next.try_mm() {
        mm.activate();
    }
    percpu::take_work_pending();
    if next.sched.work.get() {
        percpu::set_work_pending();
    }
    time::program();
    set_tick();
}

/// First thing that a thread does after it got the CPU: drops what the one before left behind.
pub fn finish_switch() {
    let ended = ENDED.take();
    if let Some((task, mm)) = ended {
        drop(task);
        if let Some(mm) = mm
            && Rc::strong_count(&mm) == 1
        {
            mm.clear();
        }
    }
}

/// Ends the current thread: `mm` is the memory that it used. The caller holds no counted handle,
/// nothing on this stack is dropped any more.
pub fn end(mm: Option<Rc<Mm>>) -> ! {
    let me = current();
    me.sched.account();
    me.sched.state.set(State::Dead);
    ENDED.replace(Some((me, mm)));
    let next = pick();
    prepare(&next);
    let from = super::with_current(|me| me.thread.clone());
    let to = next.thread.clone();
    set_current(next);
    thread::hand_over(from, to);
    unreachable!("an ended thread runs again")
}

/// Starts the first thread from the boot stack.
pub fn run_first() -> ! {
    let next = pick();
    prepare(&next);
    let thread = next.thread.clone();
    set_current(next);
    thread::switch(None, &thread);
    unreachable!("the boot stack is never switched to")
}

/// What a thread looks after before it returns to its program, but for signals.
pub fn look_around() {
    percpu::take_work_pending();
    super::with_current(|me| me.sched.work.set(false));
    poll_events();
    if time::counts_cpu_time() {
        time::itimer::check_cpu_time(current().process());
    }
    preempt();
    time::program();
    set_tick();
}

/// The running program was interrupted: is the tick still wanted?
pub fn kicked() {
    percpu::set_work_pending();
    if QUEUE.borrow().is_empty() && !time::counts_cpu_time() {
        tick(false);
    }
}

/// Time slice for sched_rr_get_interval(2).
pub fn slice_ns() -> u64 {
    SLICE_NS
}

/// Number of threads that could run now, the current one included: load average.
pub fn runnable() -> usize {
    QUEUE.borrow().len() + 1
}
