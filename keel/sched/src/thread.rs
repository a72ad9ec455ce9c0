//! A thread as the scheduler sees it.

use super::{Entity, Interrupt};
use abi::layout::MAX_CPUS;
use alloc::rc::{Rc, Weak};
use core::any::Any;
use core::cell::{Cell, RefCell};
use core::ops::Deref;
use hal::cell::{Global, Padded};
use hal::paging::Root;
use hal::thread::Thread as Context;

/// Callbacks of the scheduler into the layers above, for a thread.
pub trait Owner {
    /// Whether an event interrupts a sleep of this kind.
    fn is_interrupted(&self, by: Interrupt) -> bool;
    /// It becomes the current thread of a virtual CPU.
    fn becomes_current(self: Rc<Self>, cpu: usize);
    /// It runs again after another thread, in its own address space.
    fn resumed(&self);
    /// Checks processor-time limits and timers of its process.
    fn check_cpu_time(&self);
    /// It ended, and another thread runs on another stack: releases its remaining resources.
    fn release(self: Rc<Self>);
    /// For downcasts by the implementing layer.
    fn as_any(&self) -> &dyn Any;
}

/// A thread that can be scheduled: the scheduler's state, a kernel stack with registers, and an address space.
pub struct Thread {
    entity: Entity,
    /// Kernel stack and registers.
    pub(super) context: Rc<Context>,
    /// Its root table; `None` after it left its address space.
    root: Cell<Option<Root>>,
    owner: Weak<dyn Owner>,
}

impl core::fmt::Debug for Thread {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Thread").field("entity", &self.entity).finish_non_exhaustive()
    }
}

impl Deref for Thread {
    type Target = Entity;

    #[inline(always)]
    fn deref(&self) -> &Entity {
        &self.entity
    }
}

impl Thread {
    /// A thread, stopped.
    pub fn new(entity: Entity, context: Rc<Context>, root: Option<Root>, owner: Weak<dyn Owner>) -> Rc<Self> {
        Rc::new(Self { entity, context, root: Cell::new(root), owner })
    }

    /// Its callbacks; `None` after the owner was dropped.
    pub fn owner(&self) -> Option<Rc<dyn Owner>> {
        self.owner.upgrade()
    }

    /// Sets its root table, or, after its end, none.
    pub fn set_root(&self, root: Option<Root>) {
        self.root.set(root);
    }

    pub(super) fn root(&self) -> Option<Root> {
        self.root.get()
    }

    /// Whether this virtual CPU would have to load its address space.
    pub(super) fn needs_load(&self) -> bool {
        self.root.get().is_some_and(|root| !root.is_active())
    }

    /// Whether an event interrupts a sleep of this kind.
    pub fn is_interrupted(&self, by: Interrupt) -> bool {
        by != Interrupt::Never && self.owner().is_none_or(|owner| owner.is_interrupted(by))
    }
}

/// A virtual CPU's current thread.
type Current = Padded<RefCell<Option<Rc<Thread>>>>;

/// The thread that runs on each virtual CPU; under the big lock.
static CURRENT: Global<[Current; MAX_CPUS]> = Global::new([const { Padded::new(RefCell::new(None)) }; MAX_CPUS]);

/// The running thread.
///
/// # Panics
/// Outside of any thread (early boot).
#[inline]
pub fn current() -> Rc<Thread> {
    match try_current() {
        Some(thread) => thread,
        None => unreachable!("no thread runs yet"),
    }
}

/// The running thread; `None` during boot.
#[inline]
pub fn try_current() -> Option<Rc<Thread>> {
    CURRENT.get(hal::percpu::cpu_index())?.borrow().clone()
}

/// Runs `f` on the running thread without a refcount. `f` must neither block nor exit.
///
/// # Panics
/// Outside of any thread (early boot).
#[inline]
pub fn with_current<R>(f: impl FnOnce(&Thread) -> R) -> R {
    match CURRENT[hal::percpu::cpu_index() % MAX_CPUS].borrow().as_ref() {
        Some(thread) => f(thread),
        None => unreachable!("no thread runs yet"),
    }
}

/// The current or last thread of a virtual CPU.
pub fn current_of(cpu: usize) -> Option<Rc<Thread>> {
    CURRENT.get(cpu)?.borrow().clone()
}

/// Makes a thread the current one of a virtual CPU: this one, or one that was not started yet.
pub(super) fn set_current(cpu: usize, thread: Rc<Thread>) {
    let owner = thread.owner();
    if let Some(current) = CURRENT.get(cpu) {
        // The replaced handle is dropped after the borrow ends.
        let _old = current.replace(Some(thread));
    }
    if let Some(owner) = owner {
        owner.becomes_current(cpu);
    }
}
