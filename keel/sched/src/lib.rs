//! The scheduler: run queue, context switches, idling, accounting.
//!
//! One run queue serves all virtual CPUs. A queued thread runs on its last virtual CPU if that polls for work, else on
//! the next one that checks the queue: one at a context switch, or a polling one. Virtual CPUs that idle in the monitor
//! are not woken for each thread, see [`cpus`]; if a thread waits for long while no virtual CPU switches, the monitor
//! detects that (`Ring::waiting`), and wakes one or makes keel start another one. A virtual CPU without a runnable
//! thread runs an idle thread, because another virtual CPU may continue the thread that slept meanwhile.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod connector;
mod cpus;
mod entity;
pub mod io;
mod linger;
pub mod load;
pub mod posted;
pub mod random;
mod registered;
mod reporting;
pub mod thread;
pub mod timer;
pub mod wait;

pub use cpus::start_on_cpu;
pub use entity::{Entity, State, Usage};
pub use registered::Registered;
pub use thread::{Owner, Thread, current, current_of, try_current, with_current};
pub use wait::Interrupt;

use cpus::{IDLE, all_cpus, call_cpu_for, start_another};
use thread::set_current;

use abi::layout::MAX_CPUS;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use hal::clock::monotonic_ns;
use hal::paging::Root;
use hal::thread::Thread as Context;
use hal::{percpu, ring, smp};
use keel_core::runq::RunQueue;
use uapi::{Errno, Result};

/// Time slice while other threads are queued, in ns.
pub const SLICE_NS: u64 = 10_000_000;
/// Virtual time in ns that a thread that slept may be ahead of the others.
const SLEEP_CREDIT_NS: u64 = SLICE_NS / 2;
/// Difference in virtual time in ns at which a thread is preempted.
const PREEMPT_NS: u64 = 1_000_000;

/// With more queued threads than this, a virtual CPU takes the first.
const CROWD: usize = 8;

static QUEUE: Global<RefCell<RunQueue<Rc<Thread>>>> = Global::new(RefCell::new(RunQueue::new()));

/// Reserves room in the queue for one more thread than exist, so that a wake-up does not allocate. ENOMEM.
pub fn reserve() -> Result<()> {
    if QUEUE.borrow_mut().try_reserve(entity::ENTITIES.get() + 1) { Ok(()) } else { Err(Errno::ENOMEM) }
}

/// Scheduler state of a virtual CPU.
struct Cpu {
    /// An ended thread: the next thread there drops it, on another stack and in another address space.
    ended: RefCell<Option<Rc<dyn Owner>>>,
    /// Root table of the next thread, until it is loaded.
    root: Cell<Option<Root>>,
    /// The idle thread, once several virtual CPUs were awake.
    idle: RefCell<Option<Rc<Context>>>,
    /// Its polling time before it idles.
    poll_ns: Cell<u64>,
}

impl Cpu {
    const fn new() -> Self {
        Self {
            ended: RefCell::new(None),
            root: Cell::new(None),
            idle: RefCell::new(None),
            poll_ns: Cell::new(cpus::LEAST_POLL_NS),
        }
    }
}

static CPUS: Global<[Cpu; MAX_CPUS]> = Global::new([const { Cpu::new() }; MAX_CPUS]);
/// Number of queued threads without affinity mask.
static FREE: Global<Cell<usize>> = Global::new(Cell::new(0));
static TICKING: Global<Cell<bool>> = Global::new(Cell::new(false));

/// The state of this virtual CPU.
fn here() -> &'static Cpu {
    &CPUS[percpu::cpu_index() % MAX_CPUS]
}

/// Wakes a sleeping thread; returns whether it slept.
pub fn wake(task: &Rc<Thread>) -> bool {
    if !matches!(task.state.get(), State::Sleeping(_)) {
        return false;
    }
    enqueue(task);
    true
}

/// Makes a stopped or new thread runnable.
pub fn resume(task: &Rc<Thread>) {
    if task.state.get() == State::Stopped {
        enqueue(task);
    }
}

fn enqueue(task: &Rc<Thread>) {
    let entity: &Entity = task;
    entity.state.set(State::Queued);
    let time = QUEUE.borrow_mut().push(task.clone(), entity.virtual_time.get(), SLEEP_CREDIT_NS);
    entity.virtual_time.set(time);
    let all = all_cpus();
    if all != 1 {
        entity.free.set(entity.affinity.get() & all == all);
        entity.queued_ns.set(monotonic_ns());
        if entity.free.get() {
            count_free(1);
            if cpus::tell_polling(task) {
                return;
            }
        } else {
            call_cpu_for(entity);
        }
    }
    // A running thread sets the tick and checks for preemption at the end of its call.
    if try_current().is_some_and(|me| me.state.get() == State::Running) {
        percpu::set_work_pending();
    }
}

fn count_free(change: isize) {
    FREE.set(FREE.get().saturating_add_signed(change));
    show_waiting();
}

/// Publishes to the monitor and to polling virtual CPUs whether threads without affinity mask are queued.
fn show_waiting() {
    ring::set_waiting(FREE.get() > 0 && !cpus::is_solo());
}

fn is_crowded() -> bool {
    QUEUE.borrow().len() > CROWD
}

/// Whether this virtual CPU leaves the queue to the one that runs alone, which may run all queued threads.
fn leaves_queue() -> bool {
    cpus::retires() && QUEUE.borrow().len() == FREE.get()
}

/// Dequeues the next thread to run on this virtual CPU.
fn dequeue() -> Option<Rc<Thread>> {
    let cpu = percpu::cpu_index();
    let crowded = is_crowded();
    let next = QUEUE.borrow_mut().pop(|task| cpus::cost(task, cpu, crowded))?;
    if next.free.take() {
        count_free(-1);
    }
    Some(next)
}

/// Makes a running thread check for work before it returns to its program.
pub fn call_attention(entity: &Entity) {
    if entity.state.get() != State::Running {
        return;
    }
    let cpu = entity.cpu.get();
    if cpu == percpu::cpu_index() {
        percpu::set_work_pending();
    } else {
        smp::call_attention(cpu);
    }
}

/// Changes the affinity mask of a thread.
pub fn set_affinity(entity: &Entity, mask: u64) {
    entity.affinity.set(mask);
    match entity.state.get() {
        State::Running => call_attention(entity),
        State::Queued => {
            if entity.free.take() {
                count_free(-1);
            }
            call_cpu_for(entity);
        }
        _ => {}
    }
}

/// Requests the tick while other threads are queued or a processor-time timer is armed. Enabling it costs a doorbell,
/// so it stays enabled until a tick finds it useless.
pub fn set_tick() {
    if !QUEUE.borrow().is_empty() || timer::counts_cpu_time() {
        tick(true);
    }
}

fn tick(on: bool) {
    if TICKING.replace(on) != on {
        ring::set_tick(on);
    }
}

/// Parks the current thread until it is woken.
pub fn sleep(interrupt: Interrupt) {
    with_current(|me| {
        me.state.set(State::Sleeping(interrupt));
        me.count(|u| u.voluntary += 1);
    });
    schedule();
}

/// Parks the current thread until [`resume`].
pub fn stop() {
    with_current(|me| me.state.set(State::Stopped));
    schedule();
}

/// sched_yield: runs the other queued threads first.
pub fn yield_now() {
    if QUEUE.borrow().is_empty() {
        return;
    }
    let me = current();
    me.account();
    // Behind all queued threads.
    let last = QUEUE.borrow().iter().map(|t| t.virtual_time.get()).max().unwrap_or(0);
    me.virtual_time.set(me.virtual_time.get().max(last));
    enqueue(&me);
    drop(me);
    schedule();
}

/// Switches to another thread if that has less virtual time than the current one.
pub fn preempt() {
    let cpu = percpu::cpu_index();
    let banned = !with_current(|me| me.may_use(cpu));
    let least = QUEUE.borrow().least(|task| task.may_use(cpu) && !cpus::is_expected(task));
    if least.is_none() && !banned {
        return;
    }
    let me = current();
    me.account();
    if !banned && (least.is_some_and(|least| least + PREEMPT_NS >= me.virtual_time.get()) || cpus::runs_on(&me)) {
        return;
    }
    me.count(|u| u.involuntary += 1);
    enqueue(&me);
    drop(me);
    schedule();
}

/// Handles completions and expired timers.
pub fn poll_events() {
    connector::poll_completions();
    timer::run_due();
    reporting::look();
}

/// Selects the next thread; waits until there is one. `None`: the idle thread must wait.
fn pick() -> Option<Rc<Thread>> {
    loop {
        // The last thread's own pending work is its own; while the flag is set, the CPU does not idle. Clear the flag
        // before the checks, so that a later kick is not lost.
        percpu::take_work_pending();
        poll_events();
        if !leaves_queue()
            && let Some(next) = dequeue()
        {
            return Some(next);
        }
        if smp::several() {
            return None;
        }
        tick(false);
        // The work of the flag is done now; a thread's own pending work is in its entity.
        if !percpu::take_work_pending() {
            let deadline = timer::earliest();
            submit_all();
            if !linger::linger(deadline) {
                let start = monotonic_ns();
                idle_until(deadline);
                linger::note_idle(monotonic_ns().saturating_sub(start));
            }
        }
    }
}

/// Submits what was held back: the exit serves it, too.
fn submit_all() {
    connector::release();
    posted::let_go();
}

/// Exits until there is work.
fn idle_until(deadline_ns: Option<u64>) {
    submit_all();
    posted::told();
    ring::idle(deadline_ns);
    // By the host's clock the deadline has passed: keel's clock must not be behind it.
    timer::keep_clocks(monotonic_ns());
}

/// Switches to the next thread; the current one has set its state.
fn schedule() {
    let me = current();
    me.account();
    let next = pick();
    if let Some(next) = &next {
        prepare(next);
        if Rc::ptr_eq(&me, next) {
            return;
        }
    }
    let from = me.context.clone();
    // No handle on this stack may keep another thread alive while this one sleeps.
    drop(me);
    hand_over(from, next);
    finish_switch();
    with_current(|me| {
        let switches = &me.switches;
        switches.set(switches.get().wrapping_add(1));
        if let Some(owner) = me.owner() {
            owner.resumed();
        }
    });
}

/// Makes a thread the current one of this virtual CPU, before the switch.
fn make_current(next: Rc<Thread>) {
    here().root.set(next.root());
    set_current(percpu::cpu_index(), next);
}

/// Switches from a thread to the next one, or to the idle thread.
fn hand_over(from: Rc<Context>, next: Option<Rc<Thread>>) {
    let to = match next {
        Some(next) => {
            let to = next.context.clone();
            make_current(next);
            to
        }
        None => match here().idle.borrow().as_ref() {
            Some(idle) => idle.clone(),
            None => unreachable!("several virtual CPUs without idle threads"),
        },
    };
    hal::thread::hand_over(from, to);
}

/// hal's hook: the idle thread of this virtual CPU.
pub fn idle() -> ! {
    loop {
        finish_switch();
        let next = wait_for_work();
        prepare(&next);
        let Some(from) = here().idle.borrow().clone() else { unreachable!("this thread is gone") };
        hand_over(from, Some(next));
    }
}

fn wait_for_work() -> Rc<Thread> {
    let own = 1 << percpu::cpu_index();
    // Until it is woken, which has a reason.
    let mut retires = leaves_queue();
    loop {
        percpu::take_work_pending();
        poll_events();
        if !retires && let Some(next) = dequeue() {
            return next;
        }
        if QUEUE.borrow().is_empty() && IDLE.get() | own == smp::online() {
            tick(false);
        }
        if !percpu::take_work_pending() {
            IDLE.set(IDLE.get() | own);
            // A running thread, or one that another virtual CPU is about to take, may soon make others runnable.
            let all_sleep = IDLE.get() == smp::online() && QUEUE.borrow().is_empty();
            if retires {
                set_tick();
            }
            if all_sleep || retires || !cpus::poll() {
                let start = monotonic_ns();
                idle_until(timer::earliest());
                cpus::note_idle(monotonic_ns().saturating_sub(start));
                retires = false;
            }
            IDLE.set(IDLE.get() & !own);
        }
    }
}

/// Prepares the switch to a thread.
fn prepare(next: &Thread) {
    let entity: &Entity = next;
    entity.state.set(State::Running);
    entity.cpu.set(percpu::cpu_index());
    let now = monotonic_ns();
    timer::keep_clocks(now);
    entity.since_ns.set(now);
    entity.got_ns.set(now);
    if all_cpus() != 1 {
        cpus::note_wait(entity, now);
    }
    percpu::take_work_pending();
    if entity.work.get() {
        percpu::set_work_pending();
    }
    timer::program();
    set_tick();
    posted::tell();
}

/// Work of a thread right after a switch to it: loads its address space, and drops the ended previous thread.
pub fn finish_switch() {
    // Not earlier, because it releases the lock: another virtual CPU may then continue the previous thread on its
    // stack.
    if here().root.take().is_some_and(hal::paging::activate_unlocked) && all_cpus() != 1 {
        with_current(|me| cpus::note_load(me));
    }
    let ended = here().ended.take();
    if let Some(ended) = ended {
        ended.release();
    }
}

/// Ends the current thread. The caller must hold no refcounted handle: its stack is never unwound.
pub fn end() -> ! {
    let me = current();
    me.account();
    me.state.set(State::Dead);
    here().ended.replace(me.owner());
    drop(me);
    let next = pick();
    if let Some(next) = &next {
        prepare(next);
    }
    let from = with_current(|me| me.context.clone());
    hand_over(from, next);
    unreachable!("an ended thread runs again")
}

/// Starts the first thread from the boot stack.
pub fn run_first() -> ! {
    let Some(next) = pick() else { unreachable!("one virtual CPU boots") };
    prepare(&next);
    let thread = next.context.clone();
    make_current(next);
    hal::thread::switch(None, &thread);
    unreachable!("the boot stack is never switched to")
}

/// Handles pending work of a thread before it returns to its program, except signals.
pub fn look_around() {
    percpu::take_work_pending();
    with_current(|me| me.work.set(false));
    poll_events();
    if timer::counts_cpu_time() {
        current().owner().inspect(|owner| owner.check_cpu_time());
    }
    preempt();
    timer::program();
    set_tick();
    posted::tell();
}

/// After a kick of a running program: checks whether the tick is still needed.
pub fn kicked() {
    percpu::set_work_pending();
    timer::interrupted();
    if QUEUE.borrow().is_empty() && !timer::counts_cpu_time() {
        tick(false);
    }
    if ring::take_overdue() && FREE.get() > 0 && IDLE.get() == 0 {
        start_another();
    }
}

/// Time slice for sched_rr_get_interval(2).
pub fn slice_ns() -> u64 {
    SLICE_NS
}

/// The other virtual CPUs that run a thread, as a bitmap.
pub fn others_at_work() -> u32 {
    smp::online() & !IDLE.get() & !(1 << percpu::cpu_index())
}

/// Length of the run queue.
pub fn queued() -> usize {
    QUEUE.borrow().len()
}

/// Number of runnable threads, including the current one: load average.
pub fn runnable() -> usize {
    QUEUE.borrow().len() + (smp::online() & !IDLE.get()).count_ones() as usize
}
