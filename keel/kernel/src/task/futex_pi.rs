//! Futexes with an owner: locks that keel hands over, `FUTEX_LOCK_PI` and relatives; futex(2).
//!
//! Priorities are not inherited: all threads share the processors fairly, so that no owner starves.

use super::futex::{Key, key};
use super::wait::{Interrupt, park};
use super::{Task, current, pid, sched};
use crate::mm::user;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use hashbrown::HashMap;
use uapi::{Errno, Result};

const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const TID_MASK: u32 = 0x3fff_ffff;

/// A thread that waits for a lock.
pub(super) struct Waiter {
    task: Rc<Task>,
    /// It was made the owner.
    pub(super) owns: Cell<bool>,
}

type Queue = VecDeque<Rc<Waiter>>;

static QUEUES: Global<RefCell<Option<HashMap<Key, Queue>>>> = Global::new(RefCell::new(None));

fn with_queues<R>(f: impl FnOnce(&mut HashMap<Key, Queue>) -> R) -> R {
    f(QUEUES.borrow_mut().get_or_insert_with(HashMap::new))
}

/// Changes the word until nothing else did meanwhile: `f` gives the new value. The value before.
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

/// `FUTEX_LOCK_PI`, `FUTEX_LOCK_PI2`, `FUTEX_TRYLOCK_PI`. EAGAIN, EDEADLK, EFAULT, EINVAL, ESRCH,
/// ETIMEDOUT, EINTR.
pub(super) fn lock(address: usize, private: bool, deadline_ns: Option<u64>, only_try: bool) -> Result<usize> {
    let key = key(address, private)?;
    let me = current();
    let tid = me.tid() as u32;
    let contended = |word: u32| word & TID_MASK != 0;
    let waiting = with_queues(|all| all.contains_key(&key));
    let word = update(address, |word| {
        if word & TID_MASK == tid {
            return Err(Errno::EDEADLK);
        }
        if contended(word) {
            return if only_try { Err(Errno::EAGAIN) } else { Ok(word | WAITERS) };
        }
        Ok(tid | word & OWNER_DIED | if waiting { WAITERS } else { 0 })
    })?;
    if !contended(word) {
        return Ok(0);
    }
    if pid::find_task((word & TID_MASK) as i32).is_none() {
        return Err(Errno::ESRCH);
    }
    let waiter = Rc::new(Waiter { task: me, owns: Cell::new(false) });
    with_queues(|all| all.entry(key).or_default().push_back(waiter.clone()));
    let outcome = park(deadline_ns, Interrupt::BySignal, || waiter.owns.get().then_some(0));
    if outcome.is_err() {
        leave(key, &waiter);
    }
    // An interrupted call starts anew: its time limit is absolute.
    outcome.map_err(|errno| if errno == Errno::ERESTARTSYS { Errno::ERESTARTNOINTR } else { errno })
}

/// Somebody waits no longer.
pub(super) fn leave(key: Key, waiter: &Rc<Waiter>) {
    with_queues(|all| {
        if let Some(queue) = all.get_mut(&key) {
            queue.retain(|w| !Rc::ptr_eq(w, waiter));
            if queue.is_empty() {
                all.remove(&key);
            }
        }
    });
}

/// Makes another thread the owner of a lock, or lets it wait for it. EDEADLK, EFAULT.
pub(super) fn enqueue(address: usize, key: Key, task: &Rc<Task>) -> Result<Rc<Waiter>> {
    let tid = task.tid() as u32;
    let waiting = with_queues(|all| all.contains_key(&key));
    let word = update(address, |word| match word & TID_MASK {
        0 => Ok(tid | word & OWNER_DIED | if waiting { WAITERS } else { 0 }),
        owner if owner == tid => Err(Errno::EDEADLK),
        _ => Ok(word | WAITERS),
    })?;
    let owns = word & TID_MASK == 0;
    let waiter = Rc::new(Waiter { task: task.clone(), owns: Cell::new(owns) });
    if !owns {
        with_queues(|all| all.entry(key).or_default().push_back(waiter.clone()));
    }
    Ok(waiter)
}

/// `FUTEX_UNLOCK_PI`: gives the lock to who has waited longest. EFAULT, EINVAL, EPERM.
pub(super) fn unlock(address: usize, private: bool) -> Result<usize> {
    let key = key(address, private)?;
    if user::load_u32(address)? & TID_MASK != current().tid() as u32 {
        return Err(Errno::EPERM);
    }
    hand_over(address, key, 0)?;
    Ok(0)
}

/// Whether somebody waits for a lock.
pub(super) fn has_waiters(address: usize, private: bool) -> bool {
    key(address, private).is_ok_and(|key| with_queues(|all| all.contains_key(&key)))
}

/// The owner is gone: the next one learns of it by `FUTEX_OWNER_DIED`.
pub(super) fn owner_died(address: usize, private: bool) -> Result<()> {
    hand_over(address, key(address, private)?, OWNER_DIED)
}

fn hand_over(address: usize, key: Key, mark: u32) -> Result<()> {
    let (next, more) = with_queues(|all| {
        let Some(queue) = all.get_mut(&key) else { return (None, false) };
        let next = queue.pop_front();
        let more = !queue.is_empty();
        if !more {
            all.remove(&key);
        }
        (next, more)
    });
    let owner = next.as_ref().map_or(0, |w| w.task.tid() as u32);
    update(address, |_| Ok(owner | mark | if more { WAITERS } else { 0 }))?;
    if let Some(next) = next {
        next.owns.set(true);
        sched::wake(&next.task);
    }
    Ok(())
}
