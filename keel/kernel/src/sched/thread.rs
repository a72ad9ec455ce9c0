//! A thread as the scheduler sees it.

use super::{Entity, Interrupt};
use abi::layout::MAX_CPUS;
use alloc::rc::Rc;
use core::cell::RefCell;
use hal::cell::{Global, Padded};
use hal::paging::Root;
use hal::thread::Thread;

/// What can be scheduled. The scheduler knows its own state of a thread, its kernel stack and its address space; what
/// else belongs to a thread it reaches by these few calls.
pub trait Schedulable {
    /// The scheduler's state of it.
    fn entity(&self) -> &Entity;
    /// Kernel stack and registers.
    fn thread(&self) -> &Rc<Thread>;
    /// The root page table that it runs with; `None` once it has left its address space.
    fn root(&self) -> Option<Root>;
    /// Whether this virtual CPU would have to load its address space.
    fn needs_load(&self) -> bool;
    /// Whether something has come that ends a sleep of this kind.
    fn is_interrupted(&self, by: Interrupt) -> bool;
    /// It becomes the current thread of a virtual CPU.
    fn becomes_current(self: Rc<Self>, cpu: usize);
    /// It runs again after another thread did, in its own address space.
    fn resumed(&self);
    /// Looks after limits and timers that count its process's processor time.
    fn check_cpu_time(&self);
    /// It ended, and another thread runs on another stack: drops what it could not drop itself.
    fn release(self: Rc<Self>);
    /// The same thread for the scheduler's queues.
    fn scheduled(self: Rc<Self>) -> Rc<dyn Schedulable>;
}

/// A virtual CPU's current thread.
type Current = Padded<RefCell<Option<Rc<dyn Schedulable>>>>;

/// The thread that runs on each virtual CPU, for that CPU only.
static CURRENT: Global<[Current; MAX_CPUS]> = Global::new([const { Padded::new(RefCell::new(None)) }; MAX_CPUS]);

/// The running thread.
///
/// # Panics
/// Outside of any thread (early boot).
#[inline]
pub fn current() -> Rc<dyn Schedulable> {
    match try_current() {
        Some(thread) => thread,
        None => unreachable!("no thread runs yet"),
    }
}

/// The running thread; `None` during boot.
#[inline]
pub fn try_current() -> Option<Rc<dyn Schedulable>> {
    CURRENT.get(hal::percpu::cpu_index())?.borrow().clone()
}

/// Runs `f` on the running thread without counting a reference. `f` must neither block nor exit.
///
/// # Panics
/// Outside of any thread (early boot).
#[inline]
pub(super) fn with_current<R>(f: impl FnOnce(&dyn Schedulable) -> R) -> R {
    match CURRENT[hal::percpu::cpu_index() % MAX_CPUS].borrow().as_ref() {
        Some(thread) => f(&**thread),
        None => unreachable!("no thread runs yet"),
    }
}

/// Runs `f` on the scheduler's state of the running thread. `f` must neither block nor exit.
///
/// # Panics
/// Outside of any thread (early boot).
#[inline(always)]
pub fn with_entity<R>(f: impl FnOnce(&Entity) -> R) -> R {
    with_current(|thread| f(thread.entity()))
}

/// Like [`with_current`], but `None` during boot.
pub(super) fn try_with_current<R>(f: impl FnOnce(&dyn Schedulable) -> Option<R>) -> Option<R> {
    f(&**CURRENT.get(hal::percpu::cpu_index())?.try_borrow().ok()?.as_ref()?)
}

/// Makes a thread the current one of a virtual CPU: this one, or one that does not run yet.
pub(super) fn set_current(cpu: usize, thread: Rc<dyn Schedulable>) {
    if let Some(current) = CURRENT.get(cpu) {
        // The replaced handle is dropped after the borrow ends.
        let _old = current.replace(Some(thread.clone()));
        thread.becomes_current(cpu);
    }
}
