//! System V semaphores: semget(2), semop(2), semctl(2).
//!
//! As in Linux, the thread that changes a value carries out the pending operations that become possible, in FIFO order,
//! on behalf of the waiters: a waiter wakes up with a completed call.

mod control;
mod undo;

pub use control::sys_semctl;
pub use undo::{UndoList, inherit, leave, unshare};

use super::namespace::here;
use super::{Got, IPC_NOWAIT, Object, Perm, READ, WRITE, find};
use crate::mm::user;
use crate::sched;
use crate::sched::wait::{Interrupt, park};
use crate::task::{self, Task};
use crate::time::{deadline_after, read_timespec};
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use uapi::{Errno, Result};
use undo::Undo;
use vfs::memory::Text;

/// Maximum semaphores of a set, semaphores in all, operations per call, and sets: Linux's defaults.
const SEMMSL: u32 = 32000;
const SEMMNS: u32 = 1_024_000_000;
const SEMOPM: u32 = 500;
const SEMMNI: u32 = 32000;
/// Maximum value of a semaphore, and maximum undo adjustment.
const SEMVMX: i32 = 32767;
/// Size of an undo structure, as in seminfo.
const SEMUSZ: u32 = 20;

/// Flag of an operation: undo it at exit.
const SEM_UNDO: u16 = 0x1000;

#[derive(Clone, Copy, Default)]
struct Semaphore {
    value: i32,
    /// Process of the last operation.
    pid: i32,
}

/// A set of semaphores.
pub struct Set {
    perm: Perm,
    semaphores: RefCell<Vec<Semaphore>>,
    operated: Cell<i64>,
    changed: Cell<i64>,
    removed: Cell<bool>,
    waiting: RefCell<Vec<Rc<Request>>>,
    /// Undo structures of this set.
    undos: RefCell<Vec<Weak<Undo>>>,
}

impl Object for Set {
    fn perm(&self) -> &Perm {
        &self.perm
    }
}

/// `struct sembuf`.
#[derive(Clone, Copy)]
struct Operation {
    number: usize,
    change: i32,
    flags: u16,
}

/// The operations of a call.
struct Request {
    operations: Vec<Operation>,
    undo: Option<Rc<Undo>>,
    pid: i32,
    task: Rc<Task>,
    /// Index of the operation that blocks.
    blocked_by: Cell<usize>,
    outcome: Cell<Option<Result<()>>>,
}

impl Request {
    fn alters(&self) -> bool {
        self.operations.iter().any(|op| op.change != 0)
    }

    fn finish(&self, outcome: Result<()>) {
        self.outcome.set(Some(outcome));
        sched::wake(&self.task.sched);
    }

    /// Whether it waits for this semaphore to increase, or to become zero.
    fn waits_for(&self, number: usize, zero: bool) -> bool {
        let blocking = self.operations.get(self.blocked_by.get());
        blocking.is_some_and(|op| op.number == number && (op.change == 0) == zero)
    }
}

impl Set {
    fn len(&self) -> usize {
        self.semaphores.borrow().len()
    }

    /// Carries out all operations or none: `None` if one must wait. EAGAIN, ERANGE.
    fn attempt(&self, request: &Request) -> Option<Result<()>> {
        let mut semaphores = self.semaphores.borrow_mut();
        for (i, op) in request.operations.iter().enumerate() {
            // Checked at the start of the call.
            let Some(semaphore) = semaphores.get_mut(op.number) else { return Some(Err(Errno::EFBIG)) };
            let value = semaphore.value + op.change;
            let blocks = value < 0 || op.change == 0 && semaphore.value != 0;
            let undo = request.undo.as_ref().filter(|_| op.flags & SEM_UNDO != 0);
            let failed = match () {
                () if blocks && op.flags & IPC_NOWAIT as u16 != 0 => Some(Some(Err(Errno::EAGAIN))),
                () if blocks => Some(None),
                () if value > SEMVMX => Some(Some(Err(Errno::ERANGE))),
                () if undo.is_some_and(|undo| !undo.add(op.number, -op.change)) => Some(Some(Err(Errno::ERANGE))),
                () => None,
            };
            let Some(outcome) = failed else {
                semaphore.value = value;
                continue;
            };
            request.blocked_by.set(i);
            for done in request.operations[..i].iter().rev() {
                semaphores[done.number].value -= done.change;
                if let Some(undo) = request.undo.as_ref().filter(|_| done.flags & SEM_UNDO != 0) {
                    undo.add(done.number, done.change);
                }
            }
            return outcome;
        }
        for op in &request.operations {
            semaphores[op.number].pid = request.pid;
        }
        self.operated.set(super::now());
        Some(Ok(()))
    }

    /// Carries out all pending operations that have become possible.
    fn update(&self) {
        while self.update_once(false) || self.update_once(true) {}
    }

    /// One pass over the waiters for a change, or for zero; returns whether a value changed.
    fn update_once(&self, altering: bool) -> bool {
        let mut i = 0;
        loop {
            let Some(request) = self.waiting.borrow().get(i).cloned() else { return false };
            if request.alters() != altering {
                i += 1;
                continue;
            }
            let Some(outcome) = self.attempt(&request) else {
                i += 1;
                continue;
            };
            self.waiting.borrow_mut().remove(i);
            request.finish(outcome);
            if altering && outcome.is_ok() {
                return true;
            }
        }
    }

    fn check(&self, wanted: u32) -> Result<()> {
        self.perm.check(wanted)?;
        if self.removed.get() { Err(Errno::EIDRM) } else { Ok(()) }
    }

    /// `struct semid64_ds`.
    fn raw(&self) -> [u64; 13] {
        let mut raw = [0; 13];
        raw[..6].copy_from_slice(&self.perm.raw());
        raw[6] = self.operated.get() as u64;
        raw[8] = self.changed.get() as u64;
        raw[10] = self.len() as u64;
        raw
    }

    /// Clears undo adjustments of one semaphore or all.
    fn forget_undo(&self, number: Option<usize>) {
        for undo in self.undos.borrow().iter().filter_map(Weak::upgrade) {
            undo.clear(number);
        }
    }
}

/// semget(2). EACCES, EEXIST, EINVAL, ENOENT, ENOMEM, ENOSPC.
pub fn sys_semget(key: i32, count: i32, flags: u32) -> Result<i32> {
    let count = usize::try_from(count).ok().filter(|n| *n <= SEMMSL as usize).ok_or(Errno::EINVAL)?;
    let found = find(&here().sets.borrow(), key, flags)?;
    if let Got::Existing(set) = found {
        if count > set.len() {
            return Err(Errno::EINVAL);
        }
        set.perm.check(flags)?;
        return Ok(set.perm.id);
    }
    if count == 0 {
        return Err(Errno::EINVAL);
    }
    let used: usize = here().sets.borrow().items.values().map(|set| set.len()).sum();
    if used + count > SEMMNS as usize {
        return Err(Errno::ENOSPC);
    }
    let mut semaphores = Vec::new();
    semaphores.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
    semaphores.resize(count, Semaphore::default());
    here().sets.borrow_mut().insert(SEMMNI as usize, |id| {
        Ok(Rc::new(Set {
            perm: Perm::new(id, key, flags),
            semaphores: RefCell::new(semaphores),
            operated: Cell::new(0),
            changed: Cell::new(super::now()),
            removed: Cell::new(false),
            waiting: RefCell::default(),
            undos: RefCell::default(),
        }))
    })
}

/// semop(2).
pub fn sys_semop(id: i32, operations: usize, count: u32) -> Result<()> {
    operate(id, operations, count, None)
}

/// semtimedop(2).
pub fn sys_semtimedop(id: i32, operations: usize, count: u32, timeout: usize) -> Result<()> {
    if timeout == 0 {
        return operate(id, operations, count, None);
    }
    // A bad timeout is reported after bad operations, a bad timeout address before.
    let time = match read_timespec(timeout) {
        Err(Errno::EFAULT) => return Err(Errno::EFAULT),
        other => other,
    };
    operate(id, operations, count, Some(time))
}

fn read_operations(at: usize, count: u32) -> Result<Vec<Operation>> {
    let raw: Vec<[u16; 3]> = user::read_array(at, count as usize)?;
    let operation = |[number, change, flags]: [u16; 3]| Operation {
        number: usize::from(number),
        change: i32::from(change as i16),
        flags,
    };
    vfs::memory::collect(raw.into_iter().map(operation))
}

/// E2BIG, EACCES, EAGAIN, EFAULT, EFBIG, EIDRM, EINTR, EINVAL, ENOMEM, ERANGE.
fn operate(id: i32, operations: usize, count: u32, timeout: Option<Result<u64>>) -> Result<()> {
    if count > SEMOPM {
        return Err(Errno::E2BIG);
    }
    if count < 1 {
        return Err(Errno::EINVAL);
    }
    let operations = read_operations(operations, count)?;
    if id < 0 {
        return Err(Errno::EINVAL);
    }
    let deadline = timeout.transpose()?.map(deadline_after);
    let set = here().sets.borrow().get(id)?;
    if operations.iter().any(|op| op.number >= set.len()) {
        return Err(Errno::EFBIG);
    }
    set.check(if operations.iter().any(|op| op.change != 0) { WRITE } else { READ })?;
    let me = task::current();
    let undo = if operations.iter().any(|op| op.flags & SEM_UNDO != 0) { Some(undo::of(&me, &set)?) } else { None };
    let request = Rc::new(Request {
        operations,
        undo,
        pid: me.pid(),
        task: me,
        blocked_by: Cell::new(0),
        outcome: Cell::new(None),
    });
    if let Some(outcome) = set.attempt(&request) {
        if outcome.is_ok() && request.alters() {
            set.update();
        }
        return outcome;
    }
    set.waiting.borrow_mut().push(request.clone());
    let waited = park(deadline, Interrupt::BySignal, || request.outcome.get());
    match waited {
        Ok(outcome) => outcome,
        Err(errno) => {
            set.waiting.borrow_mut().retain(|r| !Rc::ptr_eq(r, &request));
            Err(if errno == Errno::ETIMEDOUT { Errno::EAGAIN } else { Errno::EINTR })
        }
    }
}

/// `/proc/sysvipc/sem`. ENOMEM.
pub fn table() -> Result<Vec<u8>> {
    let mut text = Text::default();
    text.print(format_args!("       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n"));
    for s in here().sets.borrow().items.values() {
        let p = &s.perm;
        text.print(format_args!(
            "{:10} {:10}  {:4o} {:10} {:5} {:5} {:5} {:5} {:10} {:10}\n",
            p.key.get(),
            p.id,
            p.mode.get(),
            s.len(),
            p.uid.get(),
            p.gid.get(),
            p.creator_uid,
            p.creator_gid,
            s.operated.get(),
            s.changed.get(),
        ));
    }
    text.done()
}
