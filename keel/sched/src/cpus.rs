//! Further virtual CPUs: when they are started or woken, and how long they poll before they idle.
//!
//! An idle virtual CPU first polls (as Linux's haltpoll does): a thread that ran there last can continue at once,
//! without an exit, in its own address space. A virtual CPU that idles in the monitor is woken if threads spent much of
//! the last millisecond in the run queue, which justifies an exit; another one is started if that goes on for longer.
//! At most as many virtual CPUs are busy as the host has processors: one that the host has preempted may hold a lock.

use super::thread::{set_current, try_current};
use super::{CPUS, Entity, Thread, here};
use abi::layout::MAX_CPUS;
use alloc::rc::Rc;
use core::cell::Cell;
use hal::cell::Global;
use hal::clock::monotonic_ns;
use hal::thread::{self, Thread as Context};
use hal::{percpu, ring, smp};

/// Virtual CPUs without a runnable thread, one bit each: they poll, or wait in the monitor.
pub(crate) static IDLE: Global<Cell<u32>> = Global::new(Cell::new(0));
/// Those of them that poll.
static POLLING: Global<Cell<u32>> = Global::new(Cell::new(0));
/// The virtual CPU that runs alone, if two contend for the lock more than they work.
static SOLO: Global<Cell<Option<Solo>>> = Global::new(Cell::new(None));
/// Recent queueing delays.
static PRESSURE: Global<Cell<Pressure>> =
    Global::new(Cell::new(Pressure { since_ns: 0, waited_ns: 0, windows: 0, contended: 0 }));

/// Minimum polling time of a virtual CPU in ns: about the cost of an exit and entry.
pub(crate) const LEAST_POLL_NS: u64 = 20_000;
/// Maximum polling time in ns: used if polling succeeded before.
const MOST_POLL_NS: u64 = 200_000;
/// Time in the run queue in ns, behind a busy virtual CPU, after which another one takes a thread whose address space
/// it must load: the waker often sleeps soon, and the thread then runs where its data is cached.
const STEAL_NS: u64 = 15_000;
/// Time in ns that it waits for its last virtual CPU while that polls, or seems to: the host may have preempted it.
const OWNER_NS: u64 = 50_000;
/// Virtual time in ns that a migration to another virtual CPU costs.
const MOVE_NS: u64 = 200_000;
/// The same for a switch of address space; loading a root table takes up to 20 us under software-nested KVM.
const SPACE_NS: u64 = 500_000;
/// Cost in ns of loading a root table and refilling the TLB, and the same under software-nested KVM.
const LOAD_NS: u64 = 1_000;
const SLOW_LOAD_NS: u64 = 12_000;
/// While many threads are queued and loads of root tables are slow, a thread runs at least this long before a thread
/// that it woke preempts it, in ns: so a sender fills the buffer, instead of alternating with a receiver after each
/// message.
const LEAST_RUN_NS: u64 = 200_000;
/// A new thread waits this long for its creator, in ns, because the creator often sleeps soon.
const PARENT_NS: u64 = 50_000;
/// Window in ns over which queueing delays are added up.
const WINDOW_NS: u64 = 1_000_000;
/// Sum of queueing delays in a window, in ns, that justifies waking a virtual CPU.
const WORTH_NS: u64 = 200_000;
/// Number of consecutive such windows before another virtual CPU is started.
const WINDOWS_TO_START: u32 = 4;

/// Waits for the big lock in a window, in ns, above which one virtual CPU alone is faster if many threads are queued:
/// 0.4 of its time.
const CONTENDED_NS: u64 = 400_000;
/// Number of consecutive such windows before one runs alone.
const WINDOWS_TO_SOLO: u32 = 8;
/// How long it then runs alone, in ns.
const SOLO_NS: u64 = 50_000_000;

/// A virtual CPU that runs alone.
#[derive(Clone, Copy)]
struct Solo {
    until_ns: u64,
    cpu: usize,
}

/// Whether one virtual CPU runs alone.
pub(crate) fn is_solo() -> bool {
    SOLO.get().is_some()
}

/// Whether this virtual CPU leaves the queued threads to the one that runs alone.
pub(crate) fn retires() -> bool {
    SOLO.get().is_some_and(|solo| {
        solo.cpu != percpu::cpu_index() && IDLE.get() >> solo.cpu & 1 == 0 && monotonic_ns() < solo.until_ns
    })
}

/// Queueing delays of threads.
#[derive(Clone, Copy)]
struct Pressure {
    /// Start of the window.
    since_ns: u64,
    /// Sum of the delays in it.
    waited_ns: u64,
    /// Number of consecutive earlier windows that justified another virtual CPU.
    windows: u32,
    /// Number of consecutive earlier windows in which the big lock was contended.
    contended: u32,
}

/// Counts the load of an address space for a thread: with another virtual CPU, each could have kept its own. The first
/// load does not count, because it is necessary anywhere.
pub(crate) fn note_load(entity: &Entity) {
    if is_new(entity) {
        return;
    }
    let slow = loads_are_slow();
    let mut pressure = PRESSURE.get();
    pressure.waited_ns = pressure.waited_ns.saturating_add(if slow { SLOW_LOAD_NS } else { LOAD_NS });
    PRESSURE.set(pressure);
}

/// Whether loading a root table is slow.
fn loads_are_slow() -> bool {
    hal::boot::boot_info().flags & abi::boot::flags::SLOW_FAULTS != 0
}

/// Whether a running thread keeps its virtual CPU for a while, even if another one was woken.
pub(crate) fn runs_on(entity: &Entity) -> bool {
    super::is_crowded() && loads_are_slow() && monotonic_ns().saturating_sub(entity.got_ns.get()) < LEAST_RUN_NS
}

/// Whether a thread has not slept yet.
fn is_new(entity: &Entity) -> bool {
    entity.switches.get() == 0
}

/// Records the queueing delay of a thread that ends at `now`.
pub(crate) fn note_wait(entity: &Entity, now: u64) {
    let mut pressure = PRESSURE.get();
    let waited = now.saturating_sub(entity.queued_ns.get());
    let waited = waited.saturating_sub(if is_new(entity) { PARENT_NS } else { 0 });
    pressure.waited_ns = pressure.waited_ns.saturating_add(waited);
    let age = now.saturating_sub(pressure.since_ns);
    if age < WINDOW_NS {
        return PRESSURE.set(pressure);
    }
    let contended = smp::take_contended_ns().saturating_mul(WINDOW_NS) / age >= CONTENDED_NS;
    // With few threads each may have a virtual CPU and keep its address space loaded, which is better.
    let contended = if contended && super::is_crowded() { pressure.contended.saturating_add(1) } else { 0 };
    if contended >= WINDOWS_TO_SOLO {
        SOLO.set(Some(Solo { until_ns: now + SOLO_NS, cpu: percpu::cpu_index() }));
    } else if SOLO.get().is_some_and(|solo| solo.until_ns <= now) {
        SOLO.set(None);
    }
    super::show_waiting();
    // A sum over a longer time is scaled down.
    let worth = pressure.waited_ns.saturating_mul(WINDOW_NS) / age >= WORTH_NS;
    let windows = if worth { pressure.windows.saturating_add(1) } else { 0 };
    PRESSURE.set(Pressure { since_ns: now, waited_ns: 0, windows, contended });
    if worth && SOLO.get().is_none() {
        add_cpu(windows >= WINDOWS_TO_START);
    }
}

/// Wakes an idle virtual CPU, or starts one if `start` and none is idle, if the host has a processor for it.
fn add_cpu(start: bool) {
    let idle = IDLE.get();
    let busy = (smp::online() & !idle | POLLING.get()).count_ones();
    if busy >= processors() {
        return;
    }
    match idle & !POLLING.get() {
        0 if start => start_another(),
        0 => {}
        waiting => wake_cpu(waiting.trailing_zeros() as usize),
    }
}

/// Starts another virtual CPU, if the pod may have one and the host has a processor for it.
pub(crate) fn start_another() {
    let more = all_cpus() & !u64::from(smp::online());
    if more != 0 && smp::online().count_ones() < processors() {
        start_cpu(more.trailing_zeros() as usize);
    }
}

fn processors() -> u32 {
    hal::boot::boot_info().processors.max(1)
}

/// Whether the last virtual CPU of a queued thread polls, and will take the thread soon.
pub(crate) fn is_expected(entity: &Entity) -> bool {
    let polling = POLLING.get();
    polling != 0
        && entity.cpu.get() != percpu::cpu_index()
        && polling & entity.affinity.get() as u32 & 1 << entity.cpu.get() != 0
        && monotonic_ns().saturating_sub(entity.queued_ns.get()) < OWNER_NS
}

/// Cost of running a queued thread on this virtual CPU rather than another one, as ns of virtual time; `None`: it must
/// not run here. If the queue is `crowded`, all threads that may run here cost the same.
pub(crate) fn cost(task: &Thread, cpu: usize, crowded: bool) -> Option<u64> {
    let entity: &Entity = task;
    if !entity.may_use(cpu) || is_expected(entity) {
        return None;
    }
    if crowded {
        return Some(0);
    }
    let moves = entity.cpu.get() != cpu;
    let other_space = task.needs_load();
    if moves && other_space && is_fresh(entity) {
        return None;
    }
    Some(if moves { MOVE_NS } else { 0 } + if other_space { SPACE_NS } else { 0 })
}

/// Whether a thread was queued only just now while its last virtual CPU is busy.
fn is_fresh(entity: &Entity) -> bool {
    let busy = smp::online() & !IDLE.get();
    busy >> entity.cpu.get() & 1 != 0
        && entity.may_use(entity.cpu.get())
        && monotonic_ns().saturating_sub(entity.queued_ns.get()) < STEAL_NS
}

/// Notifies a polling virtual CPU of a queued thread: its last one, or any if this one would have to load its address
/// space. Returns whether there is one.
pub(crate) fn tell_polling(task: &Thread) -> bool {
    let entity: &Entity = task;
    let polling = POLLING.get() & entity.affinity.get() as u32;
    if polling == 0 {
        return false;
    }
    if polling >> entity.cpu.get() & 1 == 0 {
        if !task.needs_load() {
            return false;
        }
        entity.cpu.set(polling.trailing_zeros() as usize);
    }
    smp::nudge(entity.cpu.get());
    true
}

/// Polls for work, for longer if that succeeded before. Returns whether there is some.
pub(crate) fn poll() -> bool {
    let own = 1 << percpu::cpu_index();
    POLLING.set(POLLING.get() | own);
    let found = ring::poll_for_work(here().poll_ns.get(), STEAL_NS);
    POLLING.set(POLLING.get() & !own);
    // A nudge is sent under the lock, perhaps after the last check.
    let found = found || percpu::work_pending();
    adapt(found);
    found
}

/// Records how long the virtual CPU waited in the monitor: polling for that long would have avoided the exit.
pub(crate) fn note_idle(ns: u64) {
    adapt(ns < MOST_POLL_NS);
}

fn adapt(longer: bool) {
    let ns = here().poll_ns.get();
    here().poll_ns.set(if longer { ns * 2 } else { ns / 2 }.clamp(LEAST_POLL_NS, MOST_POLL_NS));
}

/// All virtual CPUs that the pod may have, as a bitmap.
pub(crate) fn all_cpus() -> u64 {
    u64::MAX >> (64 - hal::boot::boot_info().cpus.clamp(1, MAX_CPUS as u32))
}

/// Ensures that a queued thread with an affinity mask gets an allowed CPU.
pub(crate) fn call_cpu_for(entity: &Entity) {
    let wanted = entity.affinity.get() & all_cpus();
    let here = 1u64 << percpu::cpu_index();
    let online = u64::from(smp::online());
    let idle = u64::from(IDLE.get()) & wanted;
    if idle != 0 {
        wake_cpu(idle.trailing_zeros() as usize);
    } else if wanted & here == 0 && wanted & online == 0 && wanted != 0 {
        start_cpu(wanted.trailing_zeros() as usize);
    } else if wanted & here == 0 {
        // It shares the CPU with the thread that runs there.
        smp::call_attention((wanted & online).trailing_zeros() as usize);
    }
}

fn wake_cpu(cpu: usize) {
    if POLLING.get() >> cpu & 1 != 0 {
        return smp::nudge(cpu);
    }
    IDLE.set(IDLE.get() & !(1 << cpu));
    smp::wake(cpu);
}

/// Starts another virtual CPU. Out of memory, the existing ones continue. As on any idle virtual CPU, its current
/// thread runs elsewhere or not at all.
fn start_cpu(cpu: usize) {
    for cpu in [percpu::cpu_index(), cpu] {
        let Some(slot) = CPUS.get(cpu) else { return };
        if slot.idle.borrow().is_none() {
            let Some(thread) = Context::idle() else { return };
            *slot.idle.borrow_mut() = Some(Rc::new(thread));
        }
    }
    let idle = CPUS.get(cpu).and_then(|slot| slot.idle.borrow().clone());
    if let Some(idle) = idle {
        if let Some(me) = try_current() {
            set_current(cpu, me);
        }
        smp::start(cpu, &idle);
    }
}

/// hal's hook: a further virtual CPU begins to run.
pub fn start_on_cpu() -> ! {
    let idle = here().idle.borrow().clone();
    let Some(idle) = idle else { unreachable!("started without an idle thread") };
    thread::switch(None, &idle);
    unreachable!("the boot stack is never switched to")
}
