//! Fast user-space locks; futex(2).

use super::{Task, current, futex_count, futex_pi};
use crate::mm::user;
use crate::sched;
use crate::sched::wait::{Interrupt, park};
use crate::signal::Restart;
use crate::time::{clock::Clock, deadline_after, read_timespec};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use hal::user as raw;
use keel_core::pieces::Pieces;
use uapi::raw::general as g;
use uapi::{Errno, Result};

const MATCH_ANY: u32 = u32::MAX;
const COMMANDS: u32 = !(g::FUTEX_PRIVATE_FLAG | g::FUTEX_CLOCK_REALTIME);

/// Identity of a futex: a word of an address space or of a shared object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// Address space (its identity) and address.
    Private(usize, usize),
    /// Private memory accessed without `FUTEX_PRIVATE_FLAG`; never matches [`Key::Private`].
    Own(usize, usize),
    /// Object (its identity) and offset.
    Shared(usize, u64),
}

pub(super) struct Waiter {
    pub(super) task: Rc<Task>,
    bits: u32,
    key: Cell<Key>,
    woken: Cell<bool>,
    /// Target lock of `FUTEX_WAIT_REQUEUE_PI`.
    pub(super) lock: Option<Key>,
    /// Its entry at the lock, after it was requeued.
    pub(super) moved: RefCell<Option<Rc<futex_pi::Waiter>>>,
}

impl Waiter {
    /// Queues the current thread.
    fn enter(key: Key, bits: u32, lock: Option<Key>) -> Rc<Self> {
        let (task, key) = (current(), Cell::new(key));
        let waiter = Rc::new(Self { task, bits, key, woken: Cell::new(false), lock, moved: RefCell::default() });
        with_waiters(|all| all.entry(waiter.key.get()).or_default().push_back(waiter.clone()));
        futex_count::add(waiter.key.get(), 1);
        waiter
    }

    /// Dequeues it.
    fn leave(self: &Rc<Self>) {
        if self.woken.get() {
            return;
        }
        with_waiters(|all| {
            let key = self.key.get();
            if let Some(queue) = all.get_mut(&key) {
                let before = queue.len();
                queue.retain(|w| !Rc::ptr_eq(w, self));
                futex_count::remove(key, before - queue.len());
                if queue.is_empty() {
                    all.remove(&key);
                }
            }
        });
    }
}

/// Waiters by key, FIFO.
type Waiters = BTreeMap<Key, Pieces<Rc<Waiter>>>;

static WAITERS: Global<RefCell<Waiters>> = Global::new(RefCell::new(BTreeMap::new()));

fn with_waiters<R>(f: impl FnOnce(&mut Waiters) -> R) -> R {
    f(&mut WAITERS.borrow_mut())
}

/// Whether an address can hold a futex; [`key`] returns the errno.
#[inline(always)]
fn can_be_at(address: usize) -> bool {
    address.is_multiple_of(4) && address < abi::layout::USER_TOP
}

/// The key of an address. EINVAL if unaligned, EFAULT.
pub(crate) fn key(address: usize, private: bool) -> Result<Key> {
    if !address.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    if address >= abi::layout::USER_TOP {
        return Err(Errno::EFAULT);
    }
    if !private {
        // The word must be mapped, because its page identifies the futex.
        user::load_u32(address)?;
    }
    let mm = current().mm();
    let identity = Rc::as_ptr(&mm).addr();
    if private {
        return Ok(Key::Private(identity, address));
    }
    if mm.is_constant(address) {
        return Err(Errno::EFAULT);
    }
    Ok(match mm.shared_key(address) {
        Some((object, offset)) => Key::Shared(object, offset),
        None => Key::Own(identity, address),
    })
}

/// Whether threads wait there that take no lock.
pub(super) fn has_plain_waiters(key: Key) -> bool {
    !futex_count::is_quiet(key) && with_waiters(|all| all.contains_key(&key))
}

/// Wakes up to `count` waiters of `key` with one of `bits`. EINVAL if one of them waits for requeueing to a lock with
/// an owner.
/// owner.
pub(crate) fn wake(key: Key, count: usize, bits: u32) -> Result<usize> {
    let mut woken = 0;
    if futex_count::is_quiet(key) {
        return Ok(0);
    }
    while woken < count {
        let next = with_waiters(|all| {
            let Some(queue) = all.get_mut(&key) else { return Ok(None) };
            let Some(i) = queue.iter().position(|w| w.lock.is_some() || w.bits & bits != 0) else { return Ok(None) };
            if queue.get(i).is_some_and(|w| w.lock.is_some()) {
                return Err(Errno::EINVAL);
            }
            let waiter = queue.remove(i);
            futex_count::remove(key, 1);
            if queue.is_empty() {
                all.remove(&key);
            }
            Ok(waiter)
        })?;
        let Some(waiter) = next else {
            return if futex_pi::has_waiters(key) { Err(Errno::EINVAL) } else { Ok(woken) };
        };
        waiter.woken.set(true);
        sched::wake(&waiter.task.sched);
        woken += 1;
    }
    Ok(woken)
}

/// Wakes a waiter of a robust futex, without `FUTEX_PRIVATE_FLAG`.
pub(super) fn wake_one_shared(address: usize) {
    if let Ok(key) = key(address, false) {
        let _ = wake(key, 1, MATCH_ANY);
    }
}

/// Whether a word has changed after the thread was queued, because calls without the big lock may have changed it:
/// EAGAIN, EFAULT.
fn changed(address: usize, value: u32) -> Option<Errno> {
    if !hal::sync::several() {
        return None;
    }
    match user::load_u32(address) {
        Ok(word) => (word != value).then_some(Errno::EAGAIN),
        Err(errno) => Some(errno),
    }
}

/// A call without the big lock: there is no waiter to wake, or the word has another value. `None`: call the handler, as always
/// without `FUTEX_PRIVATE_FLAG`, because the mapping decides whether there can be a futex.
pub fn unlocked(address: usize, op: u32, value: u32, timeout: usize, value3: u32) -> Option<isize> {
    if op & g::FUTEX_PRIVATE_FLAG == 0 || !can_be_at(address) {
        return None;
    }
    match op & !g::FUTEX_PRIVATE_FLAG {
        g::FUTEX_WAKE => {}
        g::FUTEX_WAKE_BITSET if value3 != 0 => {}
        g::FUTEX_WAIT | g::FUTEX_WAIT_BITSET if timeout == 0 => {
            let waits = op & COMMANDS == g::FUTEX_WAIT || value3 != 0;
            let differs = waits && raw::load_u32(address).ok()? != value && !hal::ring::has_losses();
            return differs.then_some(-(Errno::EAGAIN.code() as isize));
        }
        _ => return None,
    }
    futex_count::nobody_waits(address).then_some(0)
}

pub(crate) fn wait(address: usize, private: bool, value: u32, bits: u32, deadline_ns: Option<u64>) -> Result<()> {
    if bits == 0 {
        return Err(Errno::EINVAL);
    }
    let key = key(address, private)?;
    if user::load_u32(address)? != value {
        return Err(Errno::EAGAIN);
    }
    let waiter = Waiter::enter(key, bits, None);
    let outcome = match changed(address, value) {
        // Reading the word may block: honour a wake-up meanwhile.
        Some(errno) => waiter.woken.get().then_some(()).ok_or(errno),
        None => park(deadline_ns, Interrupt::BySignal, || waiter.woken.get().then_some(())),
    };
    if outcome.is_err() {
        waiter.leave();
    }
    outcome
}

/// `FUTEX_WAIT_REQUEUE_PI`: waits until it was requeued to a lock and owns it. EAGAIN, EFAULT, EINTR, EINVAL,
/// ETIMEDOUT.
fn wait_for_lock(
    address: usize,
    private: bool,
    value: u32,
    deadline_ns: Option<u64>,
    lock_address: usize,
) -> Result<usize> {
    if address == lock_address {
        return Err(Errno::EINVAL);
    }
    let (key, lock) = (key(address, private)?, key(lock_address, private)?);
    if key == lock {
        return Err(Errno::EINVAL);
    }
    if user::load_u32(address)? != value {
        return Err(Errno::EAGAIN);
    }
    let waiter = Waiter::enter(key, MATCH_ANY, Some(lock));
    let owns = || waiter.moved.borrow().as_ref().is_some_and(|moved| moved.owns.get());
    let outcome = match changed(address, value) {
        Some(errno) if waiter.moved.borrow().is_none() => Err(errno),
        _ => park(deadline_ns, Interrupt::BySignal, || owns().then_some(0)),
    };
    let moved = waiter.moved.take();
    match (outcome, moved) {
        (Ok(done), Some(moved)) => futex_pi::settle(lock_address, &moved).map(|()| done),
        (Ok(done), None) => Ok(done),
        (Err(errno), Some(moved)) => {
            futex_pi::leave(lock, &moved);
            Err(if errno == Errno::ERESTARTSYS { Errno::EAGAIN } else { errno })
        }
        (Err(errno), None) => {
            waiter.leave();
            Err(if errno == Errno::ERESTARTSYS { Errno::ERESTARTNOINTR } else { errno })
        }
    }
}

/// `FUTEX_CMP_REQUEUE_PI`: makes the first waiter the owner of the lock if it is free, and requeues up to `move_count`
/// more to it. EAGAIN, EFAULT, EINVAL.
fn requeue_to_lock(address: usize, private: bool, move_count: usize, lock: usize, value: u32) -> Result<usize> {
    let (from, to) = (key(address, private)?, key(lock, private)?);
    if from == to {
        return Err(Errno::EINVAL);
    }
    if user::load_u32(address)? != value {
        return Err(Errno::EAGAIN);
    }
    user::load_u32(lock)?;
    let mut done = 0;
    while done <= move_count {
        let next = with_waiters(|all| all.get(&from)?.front().cloned());
        let Some(waiter) = next else {
            return if futex_pi::has_waiters(from) { Err(Errno::EINVAL) } else { Ok(done) };
        };
        if waiter.lock != Some(to) {
            return Err(Errno::EINVAL);
        }
        let moved = futex_pi::enqueue(lock, to, &waiter.task, move_count > 0)?;
        waiter.leave();
        waiter.woken.set(true);
        let owns = moved.owns.get();
        waiter.moved.replace(Some(moved));
        if owns {
            sched::wake(&waiter.task.sched);
        }
        done += 1;
    }
    Ok(done)
}

/// Waits for the first of several words; returns its index. `each`: address, whether private, value. EAGAIN, EFAULT,
/// EINVAL, ERESTARTSYS, ETIMEDOUT.
pub(crate) fn wait_any(each: &[(usize, bool, u32)], deadline_ns: Option<u64>) -> Result<usize> {
    let keys: Vec<Key> = each.iter().map(|(address, private, _)| key(*address, *private)).collect::<Result<_>>()?;
    let waiters: Vec<Rc<Waiter>> = keys.into_iter().map(|key| Waiter::enter(key, MATCH_ANY, None)).collect();
    // Reading the words may block: honour a wake-up meanwhile.
    let changed = each.iter().find_map(|(address, _, value)| match user::load_u32(*address) {
        Ok(word) if word == *value => None,
        Ok(_) => Some(Errno::EAGAIN),
        Err(errno) => Some(errno),
    });
    let woken = || waiters.iter().rposition(|w| w.woken.get());
    let outcome = match changed {
        Some(errno) => woken().ok_or(errno),
        None => park(deadline_ns, Interrupt::BySignal, woken),
    };
    for waiter in &waiters {
        waiter.leave();
    }
    outcome
}

/// Waits, and saves the state for a restart after a signal.
fn wait_restartable(address: usize, private: bool, value: u32, bits: u32, deadline_ns: Option<u64>) -> Result<usize> {
    match wait(address, private, value, bits, deadline_ns) {
        Err(Errno::ERESTARTSYS) => {
            let Some(deadline_ns) = deadline_ns else { return Err(Errno::ERESTARTSYS) };
            let flags = if private { g::FUTEX_PRIVATE_FLAG } else { 0 };
            let restart = Restart::Futex { address, value, bitset: bits, flags, deadline_ns };
            current().signals.restart.set(Some(restart));
            Err(Errno::ERESTART_RESTARTBLOCK)
        }
        other => other.map(|()| 0),
    }
}

/// Restarts a wait that a stop interrupted.
pub(crate) fn wait_restarted(address: usize, value: u32, bits: u32, flags: u32, deadline_ns: u64) -> Result<usize> {
    wait_restartable(address, flags & g::FUTEX_PRIVATE_FLAG != 0, value, bits, Some(deadline_ns))
}

/// Requeues waiters: wakes up to `wake_count`, then moves up to `move_count` to `to`. EINVAL if one waits for
/// requeueing to a lock with an owner.
pub(crate) fn requeue(from: Key, to: Key, wake_count: usize, move_count: usize) -> Result<usize> {
    let woken = wake(from, wake_count, MATCH_ANY)?;
    if move_count > 0 && futex_pi::has_waiters(from) {
        return Err(Errno::EINVAL);
    }
    let moved = with_waiters(|all| {
        let Some(mut queue) = all.remove(&from) else { return Ok(0) };
        let n = queue.len().min(move_count);
        if queue.iter().take(n).any(|waiter| waiter.lock.is_some()) {
            all.insert(from, queue);
            return Err(Errno::EINVAL);
        }
        if from == to {
            // Same key: the queue does not change.
            all.insert(from, queue);
            return Ok(n);
        }
        futex_count::remove(from, n);
        futex_count::add(to, n);
        let mut moved = Pieces::new();
        for waiter in (0..n).map_while(|_| queue.pop_front()) {
            waiter.key.set(to);
            moved.push_back(waiter);
        }
        if !queue.is_empty() {
            all.insert(from, queue);
        }
        if n > 0 {
            let queue = all.entry(to).or_default();
            while let Some(waiter) = moved.pop_front() {
                queue.push_back(waiter);
            }
        }
        Ok(n)
    })?;
    Ok(woken + moved)
}

/// `FUTEX_WAKE_OP`: changes the second word; returns whether its old value satisfies the comparison.
fn change_word(address: usize, code: u32) -> Result<bool> {
    const ARG_SHIFT: u32 = 8;
    let mut arg = ((code << 8) as i32 >> 20) as u32;
    let compare_arg = (code << 20) as i32 >> 20;
    let op = code >> 28;
    if op & ARG_SHIFT != 0 {
        // As in Linux, of a number of bits that is too large the low ones count.
        arg = 1 << (arg & 31);
    }
    let apply = |old: u32| {
        Some(match op & 7 {
            0 => arg,
            1 => old.wrapping_add(arg),
            2 => old | arg,
            3 => old & !arg,
            4 => old ^ arg,
            _ => return None,
        })
    };
    let compare = code >> 24 & 15;
    let mut old = user::load_u32(address)?;
    loop {
        let new = apply(old).ok_or(Errno::ENOSYS)?;
        let seen = user::cmpxchg_u32(address, old, new)?;
        if seen == old {
            break;
        }
        old = seen;
    }
    let old = old as i32;
    Ok(match compare {
        0 => old == compare_arg,
        1 => old != compare_arg,
        2 => old < compare_arg,
        3 => old <= compare_arg,
        4 => old > compare_arg,
        5 => old >= compare_arg,
        // Found after the change, as in Linux.
        _ => return Err(Errno::ENOSYS),
    })
}

fn deadline_of(op: u32, at: usize) -> Result<Option<u64>> {
    if at == 0 {
        return Ok(None);
    }
    let ns = read_timespec(at)?;
    Ok(Some(match op & COMMANDS {
        // Relative, for any clock.
        g::FUTEX_WAIT => deadline_after(ns),
        _ if op & g::FUTEX_CLOCK_REALTIME != 0 => Clock::Realtime.to_monotonic(ns),
        _ => ns,
    }))
}

/// futex(2). EAGAIN, EFAULT, EINTR, EINVAL, ENOSYS, ETIMEDOUT.
pub fn sys_futex(address: usize, op: u32, value: u32, timeout: usize, address2: usize, value3: u32) -> Result<usize> {
    // Most wakes find no waiter.
    if op == g::FUTEX_WAKE | g::FUTEX_PRIVATE_FLAG
        && can_be_at(address)
        && futex_count::is_quiet(Key::Private(0, address))
    {
        return Ok(0);
    }
    perform(address, op, value, timeout, address2, value3)
}

#[inline(never)]
fn perform(address: usize, op: u32, value: u32, timeout: usize, address2: usize, value3: u32) -> Result<usize> {
    let command = op & COMMANDS;
    let private = op & g::FUTEX_PRIVATE_FLAG != 0;
    let takes_clock = [g::FUTEX_WAIT_BITSET, g::FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2];
    if op & g::FUTEX_CLOCK_REALTIME != 0 && !takes_clock.contains(&command) {
        return Err(Errno::ENOSYS);
    }
    // As in Linux, a negative count wakes at least one for WAKE and is rejected for REQUEUE.
    let count = |n: u32| usize::try_from(n as i32).map_err(|_| Errno::EINVAL);
    let wake_count = (value as i32).max(1) as usize;
    match command {
        g::FUTEX_WAIT => wait_restartable(address, private, value, MATCH_ANY, deadline_of(op, timeout)?),
        g::FUTEX_WAIT_BITSET => wait_restartable(address, private, value, value3, deadline_of(op, timeout)?),
        g::FUTEX_WAKE => wake(key(address, private)?, wake_count, MATCH_ANY),
        g::FUTEX_WAKE_BITSET if value3 == 0 => Err(Errno::EINVAL),
        g::FUTEX_WAKE_BITSET => wake(key(address, private)?, wake_count, value3),
        g::FUTEX_REQUEUE | g::FUTEX_CMP_REQUEUE => {
            let (wakes, moves) = (count(value)?, count(timeout as u32)?);
            let (from, to) = (key(address, private)?, key(address2, private)?);
            if command == g::FUTEX_CMP_REQUEUE && user::load_u32(address)? != value3 {
                return Err(Errno::EAGAIN);
            }
            requeue(from, to, wakes, moves)
        }
        g::FUTEX_WAKE_OP => {
            let (first, second) = (key(address, private)?, key(address2, private)?);
            let passes = change_word(address2, value3)?;
            let mut woken = wake(first, wake_count, MATCH_ANY)?;
            if passes {
                woken += wake(second, (timeout as i32).max(1) as usize, MATCH_ANY)?;
            }
            Ok(woken)
        }
        // The timeout of the first version is CLOCK_REALTIME.
        g::FUTEX_LOCK_PI => {
            futex_pi::lock(address, private, deadline_of(op | g::FUTEX_CLOCK_REALTIME, timeout)?, false)
        }
        FUTEX_LOCK_PI2 => futex_pi::lock(address, private, deadline_of(op, timeout)?, false),
        g::FUTEX_TRYLOCK_PI => futex_pi::lock(address, private, None, true),
        g::FUTEX_UNLOCK_PI => futex_pi::unlock(address, private),
        g::FUTEX_WAIT_REQUEUE_PI => wait_for_lock(address, private, value, deadline_of(op, timeout)?, address2),
        g::FUTEX_CMP_REQUEUE_PI => {
            let moves = count(timeout as u32)?;
            if value != 1 {
                return Err(Errno::EINVAL);
            }
            requeue_to_lock(address, private, moves, address2, value3)
        }
        _ => Err(Errno::ENOSYS),
    }
}

/// `FUTEX_LOCK_PI2`.
const FUTEX_LOCK_PI2: u32 = 13;
