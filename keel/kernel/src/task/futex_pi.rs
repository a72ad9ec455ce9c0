//! Futexes with an owner, which keel hands over: `FUTEX_LOCK_PI` and the like; futex(2).
//!
//! There is no priority inheritance: fair scheduling ensures that no owner starves.

use super::futex::{Key, key};
use super::{Task, current, futex_count, pid, pidns};
use crate::mm::user;
use crate::sched;
use crate::sched::wait::{Interrupt, park};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use keel_core::pieces::Pieces;
use uapi::{Errno, Result};

const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const TID_MASK: u32 = 0x3fff_ffff;

/// A thread that waits for a lock.
pub(super) struct Waiter {
    task: Rc<Task>,
    /// It is the owner now.
    pub(super) owns: Cell<bool>,
    /// The previous owner ended while it held the lock: the word must still be written.
    inherits: Cell<bool>,
}

/// A lock with waiters.
struct Lock {
    owner: Rc<Task>,
    waiters: Pieces<Rc<Waiter>>,
}

static LOCKS: Global<RefCell<BTreeMap<Key, Lock>>> = Global::new(RefCell::new(BTreeMap::new()));

fn with_locks<R>(f: impl FnOnce(&mut BTreeMap<Key, Lock>) -> R) -> R {
    f(&mut LOCKS.borrow_mut())
}

/// Changes the word atomically with a compare-and-exchange loop: `f` returns the new value. Returns the old value.
fn update(address: usize, f: impl Fn(u32) -> Result<u32>) -> Result<u32> {
    let mut old = user::load_u32(address)?;
    loop {
        let seen = user::cmpxchg_u32(address, old, f(old)?)?;
        if seen == old {
            return Ok(old);
        }
        old = seen;
    }
}

/// The owner in the futex word. EINVAL if keel's state has another owner, ESRCH if that thread has ended.
fn owner_of(word: u32, key: Key) -> Result<Rc<Task>> {
    let tid = word & TID_MASK;
    let known = with_locks(|all| all.get(&key).map(|lock| lock.owner.clone()));
    match known {
        Some(owner) if owner.own_tid() as u32 == tid || tid == 0 && word & OWNER_DIED != 0 => Ok(owner),
        Some(_) => Err(Errno::EINVAL),
        // As for threads of the kernel.
        None if pidns::named(tid as i32) == pid::INIT => Err(Errno::EPERM),
        None => pid::find_task(pidns::named(tid as i32)).ok_or(Errno::ESRCH),
    }
}

/// Takes a free lock for `task`, or sets FUTEX_WAITERS; returns the other owner, if any. `mark`: sets FUTEX_WAITERS
/// also when the lock is taken. EDEADLK, EFAULT, EINVAL, ESRCH.
fn take(address: usize, key: Key, task: &Rc<Task>, mark: bool) -> Result<Option<Rc<Task>>> {
    let tid = task.own_tid() as u32;
    let waiting = has_waiters(key);
    let word = update(address, |word| match word & TID_MASK {
        owner if owner == tid => Err(Errno::EDEADLK),
        0 if waiting => owner_of(word, key).map(|_| word | WAITERS),
        0 => Ok(tid | word & OWNER_DIED | if mark { WAITERS } else { 0 }),
        // Check keel's state of the owner before changing the word.
        _ if waiting => owner_of(word, key).map(|_| word | WAITERS),
        _ => Ok(word | WAITERS),
    })?;
    if word & TID_MASK == 0 && !waiting { Ok(None) } else { owner_of(word, key).map(Some) }
}

fn enter(key: Key, owner: Rc<Task>, task: &Rc<Task>) -> Rc<Waiter> {
    let waiter = Rc::new(Waiter { task: task.clone(), owns: Cell::new(false), inherits: Cell::new(false) });
    with_locks(|all| {
        let lock = all.entry(key).or_insert_with(|| Lock { owner, waiters: Pieces::new() });
        lock.waiters.push_back(waiter.clone());
    });
    futex_count::add(key, 1);
    waiter
}

/// `FUTEX_LOCK_PI`, `FUTEX_LOCK_PI2`, `FUTEX_TRYLOCK_PI`. EAGAIN, EDEADLK, EFAULT, EINVAL, ESRCH,
/// ETIMEDOUT, EINTR.
pub(super) fn lock(address: usize, private: bool, deadline_ns: Option<u64>, only_try: bool) -> Result<usize> {
    let key = key(address, private)?;
    let me = current();
    let Some(owner) = take(address, key, &me, false)? else { return Ok(0) };
    if only_try {
        return Err(Errno::EAGAIN);
    }
    let waiter = enter(key, owner, &me);
    let outcome = park(deadline_ns, Interrupt::BySignal, || waiter.owns.get().then_some(0));
    match outcome {
        Ok(done) => settle(address, &waiter).map(|()| done),
        Err(errno) => {
            leave(key, &waiter);
            // An interrupted call is restarted: its timeout is absolute.
            Err(if errno == Errno::ERESTARTSYS { Errno::ERESTARTNOINTR } else { errno })
        }
    }
}

/// Writes the word of a lock whose owner ended. The current thread is the new owner. EFAULT.
pub(super) fn settle(address: usize, waiter: &Waiter) -> Result<()> {
    if waiter.inherits.get() {
        let tid = waiter.task.own_tid() as u32;
        update(address, |_| Ok(tid | WAITERS | OWNER_DIED))?;
    }
    Ok(())
}

/// Removes a waiter.
pub(super) fn leave(key: Key, waiter: &Rc<Waiter>) {
    let gone = with_locks(|all| {
        let lock = all.get_mut(&key)?;
        let before = lock.waiters.len();
        lock.waiters.retain(|w| !Rc::ptr_eq(w, waiter));
        futex_count::remove(key, before - lock.waiters.len());
        if lock.waiters.is_empty() { all.remove(&key) } else { None }
    });
    drop(gone);
}

/// Makes another thread the owner of a lock, or queues it. `mark` as for [`take`]. EDEADLK, EFAULT, EINVAL, ESRCH.
pub(super) fn enqueue(address: usize, key: Key, task: &Rc<Task>, mark: bool) -> Result<Rc<Waiter>> {
    Ok(match take(address, key, task, mark)? {
        None => Rc::new(Waiter { task: task.clone(), owns: Cell::new(true), inherits: Cell::new(false) }),
        Some(owner) => enter(key, owner, task),
    })
}

/// `FUTEX_UNLOCK_PI`: makes the first waiter the owner. EFAULT, EINVAL, EPERM.
pub(super) fn unlock(address: usize, private: bool) -> Result<usize> {
    let me = current();
    // Linux reads the word before it checks the address.
    let word: u32 = user::read(address)?;
    if word & TID_MASK != me.own_tid() as u32 {
        return Err(Errno::EPERM);
    }
    let key = key(address, private)?;
    if super::futex::has_plain_waiters(key) {
        return Err(Errno::EINVAL);
    }
    let next = with_locks(|all| {
        let Some(lock) = all.get(&key) else { return Ok(None) };
        if Rc::ptr_eq(&lock.owner, &me) { Ok(lock.waiters.front().cloned()) } else { Err(Errno::EINVAL) }
    })?;
    update(address, |_| Ok(next.as_ref().map_or(0, |next| next.task.own_tid() as u32 | WAITERS)))?;
    if next.is_some() {
        hand_over(key, false);
    }
    Ok(0)
}

/// Whether a lock has waiters.
pub(super) fn has_waiters(key: Key) -> bool {
    with_locks(|all| all.contains_key(&key))
}

/// A thread ends or executes another program: each lock that it holds goes to the first waiter, with
/// `FUTEX_OWNER_DIED`.
pub(super) fn owner_ended(me: &Rc<Task>) {
    while let Some(key) =
        with_locks(|all| all.iter().find(|(_, lock)| Rc::ptr_eq(&lock.owner, me)).map(|(key, _)| *key))
    {
        hand_over(key, true);
    }
}

/// Makes the first waiter the owner.
fn hand_over(key: Key, inherits: bool) {
    let (next, gone) = with_locks(|all| {
        let Some(lock) = all.get_mut(&key) else { return (None, None) };
        let next = lock.waiters.pop_front();
        if let Some(next) = &next {
            futex_count::remove(key, 1);
            lock.owner = next.task.clone();
        }
        let gone = if lock.waiters.is_empty() { all.remove(&key) } else { None };
        (next, gone)
    });
    drop(gone);
    if let Some(next) = next {
        next.inherits.set(inherits);
        next.owns.set(true);
        sched::wake(&next.task.sched);
    }
}
