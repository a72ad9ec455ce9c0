//! semctl(2).

use super::super::namespace::here;
use super::super::{IPC_INFO, IPC_RMID, IPC_SET, IPC_STAT, READ, WRITE, caller, now};
use super::{SEMMNI, SEMMNS, SEMMSL, SEMOPM, SEMUSZ, SEMVMX, Semaphore, Set};
use crate::mm::user;
use crate::task::pidns;
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// Commands of semctl.
const GETPID: i32 = 11;
const GETVAL: i32 = 12;
const GETALL: i32 = 13;
const GETNCNT: i32 = 14;
const GETZCNT: i32 = 15;
const SETVAL: i32 = 16;
const SETALL: i32 = 17;
const SEM_STAT: i32 = 18;
const SEM_INFO: i32 = 19;
const SEM_STAT_ANY: i32 = 20;

/// `struct seminfo`, and the highest index.
fn info(command: i32) -> ([u32; 10], usize) {
    let home = here();
    let table = home.sets.borrow();
    let (sets, semaphores) = if command == SEM_INFO {
        (table.items.len() as u32, table.items.values().map(|set| set.len() as u32).sum())
    } else {
        (SEMUSZ, SEMVMX as u32)
    };
    let info = [SEMMNS, SEMMNI, SEMMNS, SEMMNS, SEMMSL, SEMOPM, SEMOPM, sets, SEMVMX as u32, semaphores];
    (info, table.highest())
}

/// semctl(2). EACCES, EFAULT, EIDRM, EINVAL, ENOMEM, EPERM, ERANGE.
pub fn sys_semctl(id: i32, number: i32, command: i32, argument: u64) -> Result<usize> {
    if id < 0 {
        return Err(Errno::EINVAL);
    }
    let at = argument as usize;
    match command {
        IPC_INFO | SEM_INFO => {
            let (info, highest) = info(command);
            user::write(at, &info)?;
            Ok(highest)
        }
        IPC_STAT | SEM_STAT | SEM_STAT_ANY => {
            let by_index = command != IPC_STAT;
            let set = if by_index { here().sets.borrow().at(id) } else { here().sets.borrow().get(id) }?;
            if command != SEM_STAT_ANY {
                set.perm.check(READ)?;
            }
            user::write(at, &set.raw())?;
            Ok(if by_index { set.perm.id as usize } else { 0 })
        }
        GETALL => {
            let set = here().sets.borrow().get(id)?;
            set.check(READ)?;
            let values = vfs::memory::collect(set.semaphores.borrow().iter().map(|s| s.value as u16))?;
            user::write_bytes(at, bytemuck::cast_slice(&values))?;
            Ok(0)
        }
        SETALL => set_all(&here().sets.borrow().get(id)?, at),
        SETVAL => set_value(id, number, argument as i32),
        GETVAL | GETPID | GETNCNT | GETZCNT => get(id, number, command),
        IPC_SET => {
            let raw: [u64; 13] = user::read(at)?;
            let set = here().sets.borrow().get(id)?;
            set.perm.check_owner()?;
            set.perm.set([raw[0], raw[1], raw[2], raw[3], raw[4], raw[5]])?;
            set.changed.set(now());
            Ok(0)
        }
        IPC_RMID => {
            let set = here().sets.borrow().get(id)?;
            set.perm.check_owner()?;
            let gone = here().sets.borrow_mut().remove(&set.perm);
            drop(gone);
            set.removed.set(true);
            let waiting = set.waiting.take();
            waiting.iter().for_each(|request| request.finish(Err(Errno::EIDRM)));
            Ok(0)
        }
        _ => Err(Errno::EINVAL),
    }
}

fn get(id: i32, number: i32, command: i32) -> Result<usize> {
    let set = here().sets.borrow().get(id)?;
    set.check(READ)?;
    let number = usize::try_from(number).map_err(|_| Errno::EINVAL)?;
    let semaphore = set.semaphores.borrow().get(number).copied().ok_or(Errno::EINVAL)?;
    Ok(match command {
        GETVAL => semaphore.value as usize,
        GETPID => pidns::shown(semaphore.pid) as usize,
        _ => set.waiting.borrow().iter().filter(|r| r.waits_for(number, command == GETZCNT)).count(),
    })
}

fn set_value(id: i32, number: i32, value: i32) -> Result<usize> {
    if !(0..=SEMVMX).contains(&value) {
        return Err(Errno::ERANGE);
    }
    let set = here().sets.borrow().get(id)?;
    let number = usize::try_from(number).ok().filter(|n| *n < set.len()).ok_or(Errno::EINVAL)?;
    set.check(WRITE)?;
    set.forget_undo(Some(number));
    if let Some(semaphore) = set.semaphores.borrow_mut().get_mut(number) {
        *semaphore = Semaphore { value, pid: caller() };
    }
    set.changed.set(now());
    set.update();
    Ok(0)
}

fn set_all(set: &Rc<Set>, at: usize) -> Result<usize> {
    set.check(WRITE)?;
    let values: Vec<u16> = user::read_array(at, set.len())?;
    if values.iter().any(|v| i32::from(*v) > SEMVMX) {
        return Err(Errno::ERANGE);
    }
    if set.removed.get() {
        return Err(Errno::EIDRM);
    }
    let pid = caller();
    for (semaphore, value) in set.semaphores.borrow_mut().iter_mut().zip(values) {
        *semaphore = Semaphore { value: i32::from(value), pid };
    }
    set.forget_undo(None);
    set.changed.set(now());
    set.update();
    Ok(0)
}
