//! Robust futexes: handles the locks of an ended owner; get_robust_list(2).

use super::{Task, access, current, futex, futex_pi, pid, pidns};
use crate::mm::user;
use alloc::rc::Rc;
use uapi::{Errno, Result};

/// `sizeof(struct robust_list_head)`.
const HEAD_SIZE: usize = 24;
/// Maximum number of entries, to limit circular lists.
const MOST: usize = 2048;

const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const TID_MASK: u32 = 0x3fff_ffff;

/// set_robust_list(2). EINVAL.
pub fn sys_set_robust_list(head: usize, len: usize) -> Result<()> {
    if len != HEAD_SIZE {
        return Err(Errno::EINVAL);
    }
    current().robust_list.set(head);
    Ok(())
}

/// get_robust_list(2). EFAULT, EPERM, ESRCH.
pub fn sys_get_robust_list(tid: i32, head: usize, len: usize) -> Result<()> {
    let target = if tid == 0 { current() } else { pid::find_subject(pidns::named(tid))? };
    if !access::may_look(&target, access::Ids::Real) {
        return Err(Errno::EPERM);
    }
    user::write(len, &HEAD_SIZE)?;
    user::write(head, &target.robust_list.get())
}

/// The current thread ends, or executes another program: marks its locks and wakes one waiter of each.
pub(crate) fn release_all(me: &Rc<Task>) {
    let head = me.robust_list.take();
    if head != 0 {
        // Stop at an unreadable entry: an exiting thread can't get an error.
        let _ = walk(me, head);
    }
    futex_pi::owner_ended(me);
}

fn walk(me: &Rc<Task>, head: usize) -> Result<()> {
    let [mut entry, offset, pending] = user::read::<[usize; 3]>(head)?;
    let mut left = MOST;
    while entry & !1 != head && left > 0 {
        // Read the next pointer first: the entry may be freed after its lock is released.
        let next = user::read::<usize>(entry & !1);
        if entry & !1 != pending & !1 {
            release(me, (entry & !1).wrapping_add(offset), entry & 1 != 0, false)?;
        }
        entry = next?;
        left -= 1;
    }
    if pending != 0 {
        release(me, (pending & !1).wrapping_add(offset), pending & 1 != 0, true)?;
    }
    Ok(())
}

fn release(me: &Rc<Task>, address: usize, priority_inherits: bool, pending: bool) -> Result<()> {
    if !address.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    let mut word = user::load_u32(address)?;
    loop {
        let owner = word & TID_MASK;
        if pending && owner == 0 && !priority_inherits {
            // It died between unlocking and waking.
            futex::wake_one_shared(address);
            return Ok(());
        }
        if owner != me.own_tid() as u32 {
            return Ok(());
        }
        let seen = user::cmpxchg_u32(address, word, word & WAITERS | OWNER_DIED)?;
        if seen == word {
            break;
        }
        word = seen;
    }
    // futex_pi hands PI locks over.
    if !priority_inherits && word & WAITERS != 0 {
        futex::wake_one_shared(address);
    }
    Ok(())
}
