//! Who runs: the run queue, switching threads, idling, accounting.
//!
//! One queue serves all virtual CPUs. A thread that waits in it is taken by the virtual CPU that it ran on last if that
//! polls for work, else by the next one that looks: one that is about to switch, or an idle one. Idle ones that wait in the
//! monitor are not woken for each, see [`cpus`]; where a thread waits for long while none switches, the monitor sees that
//! (`Ring::waiting`), and wakes one or has keel start a further one. A virtual CPU that has nothing to run goes on in an
//! idle thread of its own, because the thread that slept may be continued by another one meanwhile.

pub mod connector;
mod cpus;
mod entity;
pub mod io;
pub mod load;
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

/// How long a thread runs while others wait, in ns.
pub const SLICE_NS: u64 = 10_000_000;
/// What a thread that slept may run ahead of the others, in ns of virtual time.
const SLEEP_CREDIT_NS: u64 = SLICE_NS / 2;
/// How much further a thread must be before it has to let another one run.
const PREEMPT_NS: u64 = 1_000_000;

/// With more threads in the queue, a virtual CPU takes the first.
const CROWD: usize = 8;

static QUEUE: Global<RefCell<RunQueue<Rc<Thread>>>> = Global::new(RefCell::new(RunQueue::new()));

/// Makes room in the queue for one more thread than exist, so that waking one takes no memory. ENOMEM.
pub fn reserve() -> Result<()> {
    if QUEUE.borrow_mut().try_reserve(entity::ENTITIES.get() + 1) { Ok(()) } else { Err(Errno::ENOMEM) }
}

/// The scheduler's state of a virtual CPU.
struct Cpu {
    /// A thread that ended: dropped by the next thread there, on another stack and in another address space.
    ended: RefCell<Option<Rc<dyn Owner>>>,
    /// The root page table of the thread that was switched to, until that has loaded it.
    root: Cell<Option<Root>>,
    /// What runs when nothing else does, once several virtual CPUs were awake.
    idle: RefCell<Option<Rc<Context>>>,
    /// How long it polls for work before it idles.
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
/// Threads in the queue that may use all CPUs.
static FREE: Global<Cell<usize>> = Global::new(Cell::new(0));
static TICKING: Global<Cell<bool>> = Global::new(Cell::new(false));

/// This virtual CPU.
fn here() -> &'static Cpu {
    &CPUS[percpu::cpu_index() % MAX_CPUS]
}

/// Ends the sleep of a thread; whether it slept.
pub fn wake(task: &Rc<Thread>) -> bool {
    if !matches!(task.state.get(), State::Sleeping(_)) {
        return false;
    }
    enqueue(task);
    true
}

/// Lets a stopped or new thread run.
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
    // A running thread sees to the tick, and whether it should give way, when its call is over.
    if try_current().is_some_and(|me| me.state.get() == State::Running) {
        percpu::set_work_pending();
    }
}

fn count_free(change: isize) {
    FREE.set(FREE.get().saturating_add_signed(change));
    show_waiting();
}

/// Tells the monitor and polling virtual CPUs whether threads wait for any of these.
fn show_waiting() {
    ring::set_waiting(FREE.get() > 0 && !cpus::is_solo());
}

fn is_crowded() -> bool {
    QUEUE.borrow().len() > CROWD
}

/// Whether this virtual CPU takes no thread of those in the queue, which the one that works alone may all run.
fn leaves_queue() -> bool {
    cpus::retires() && QUEUE.borrow().len() == FREE.get()
}

/// Takes the thread that runs next on this virtual CPU out of the queue.
fn dequeue() -> Option<Rc<Thread>> {
    let cpu = percpu::cpu_index();
    let crowded = is_crowded();
    let next = QUEUE.borrow_mut().pop(|task| cpus::cost(task, cpu, crowded))?;
    if next.free.take() {
        count_free(-1);
    }
    Some(next)
}

/// Makes a running thread look around before it goes on with its program.
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

/// Changes the CPUs that a thread may use.
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

/// The tick is wanted while others wait for the CPU, or while a timer counts processor time.
/// Turning it on costs a doorbell, so it stays on until a kick finds it useless.
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

/// Lets others run first.
pub fn yield_now() {
    if QUEUE.borrow().is_empty() {
        return;
    }
    let me = current();
    me.account();
    // Behind all threads that are queued now.
    let last = QUEUE.borrow().iter().map(|t| t.virtual_time.get()).max().unwrap_or(0);
    me.virtual_time.set(me.virtual_time.get().max(last));
    enqueue(&me);
    drop(me);
    schedule();
}

/// Lets another thread run if it has had less time than the current one.
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

/// Serves completions and due timers.
pub fn poll_events() {
    connector::poll_completions();
    timer::run_due();
    reporting::look();
}

/// The next thread to run: waits until there is one. `None`: the idle thread does that.
fn pick() -> Option<Rc<Thread>> {
    loop {
        // What the last thread still has to look after is its own; while the flag stands, the CPU
        // does not idle. Taken before the look, so that a kick after it is not lost.
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
        // The flag's request was served just now; the thread's own requests are in its entity.
        if !percpu::take_work_pending() {
            idle_until(timer::earliest());
        }
    }
}

/// Exits until there is something to do.
fn idle_until(deadline_ns: Option<u64>) {
    // Served on the way.
    connector::release();
    ring::idle(deadline_ns);
    // By the host's clock the deadline has passed: ours must not be behind it.
    timer::keep_clocks(monotonic_ns());
}

/// Gives the CPU to the next thread; the current one has set its state.
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
    // Nothing on this stack may keep another thread alive while this one sleeps.
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

/// Makes a thread the current one of this virtual CPU, which is about to switch to it.
fn make_current(next: Rc<Thread>) {
    here().root.set(next.root());
    set_current(percpu::cpu_index(), next);
}

/// Leaves a thread for the next one, or for the idle thread.
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
            // A thread that runs, or that another virtual CPU is about to take, may make others runnable soon.
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

/// Makes a thread ready to be switched to.
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
}

/// First thing that a thread does after it got the CPU: goes to its address space, and drops what the one before left
/// behind.
pub fn finish_switch() {
    // Only now, since it is done without the lock: another virtual CPU may continue the thread before on its stack.
    if here().root.take().is_some_and(hal::paging::activate_unlocked) && all_cpus() != 1 {
        with_current(|me| cpus::note_load(me));
    }
    let ended = here().ended.take();
    if let Some(ended) = ended {
        ended.release();
    }
}

/// Ends the current thread. The caller holds no counted handle, nothing on this stack is dropped any more.
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

/// Work of a thread before it returns to its program, except signals.
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
}

/// The running program was interrupted: is the tick still wanted?
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

/// The virtual CPUs other than this one that run a thread, one bit each.
pub fn others_at_work() -> u32 {
    smp::online() & !IDLE.get() & !(1 << percpu::cpu_index())
}

/// Number of threads that wait for a virtual CPU.
pub fn queued() -> usize {
    QUEUE.borrow().len()
}

/// Number of threads that could run now, the current one included: load average.
pub fn runnable() -> usize {
    QUEUE.borrow().len() + (smp::online() & !IDLE.get()).count_ones() as usize
}
