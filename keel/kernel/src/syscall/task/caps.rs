//! capget(2) and capset(2).

use crate::mm::user;
use crate::task::cred::edit;
use crate::task::{self, pid, pidns};
use uapi::{Errno, Result, cap};

const CAP_VERSION_1: u32 = 0x1998_0330;
const CAP_VERSION_2: u32 = 0x2007_1026;
const CAP_VERSION_3: u32 = 0x2008_0522;

/// Checks the header of capget and capset: returns the number of 32-bit groups, or `None` after writing the preferred
/// version for an unknown one.
fn cap_header(header: usize) -> Result<(usize, i32)> {
    let [version, pid] = user::read::<[u32; 2]>(header)?;
    match version {
        CAP_VERSION_1 => Ok((1, pid as i32)),
        CAP_VERSION_2 | CAP_VERSION_3 => Ok((2, pid as i32)),
        _ => {
            user::write(header, &CAP_VERSION_3)?;
            Err(Errno::EINVAL)
        }
    }
}

/// capget(2). EFAULT, EINVAL, ESRCH.
pub fn sys_capget(header: usize, data: usize) -> Result<()> {
    let (groups, target) = match cap_header(header) {
        Err(Errno::EINVAL) if data == 0 => return Ok(()),
        other => other?,
    };
    if target < 0 {
        return Err(Errno::EINVAL);
    }
    let target = pidns::named(target);
    let (effective, permitted, inheritable) = if target == pid::INIT {
        (cap::ALL, cap::ALL, 0)
    } else {
        let of = if target == 0 { task::current() } else { pid::find_task(target).ok_or(Errno::ESRCH)? };
        let cred = of.cred();
        (cred.cap_effective, cred.cap_permitted, cred.cap_inheritable)
    };
    if data == 0 {
        return Ok(());
    }
    let mut words = [0u32; 6];
    for (i, group) in words.chunks_exact_mut(3).enumerate() {
        group[0] = (effective >> (32 * i)) as u32;
        group[1] = (permitted >> (32 * i)) as u32;
        group[2] = (inheritable >> (32 * i)) as u32;
    }
    user::write_bytes(data, bytemuck::cast_slice(&words[..3 * groups]))
}

/// capset(2). EFAULT, EINVAL, EPERM.
pub fn sys_capset(header: usize, data: usize) -> Result<()> {
    let (groups, target) = cap_header(header)?;
    let task = task::current();
    if target != 0 && target != task.own_tid() {
        return Err(Errno::EPERM);
    }
    let words = user::read_array::<u32>(data, 3 * groups)?;
    let set = |which: usize| {
        words.chunks_exact(3).enumerate().fold(0u64, |set, (i, group)| set | u64::from(group[which]) << (32 * i))
    };
    let (effective, permitted, inheritable) = (set(0) & cap::ALL, set(1) & cap::ALL, set(2) & cap::ALL);
    edit(|new, old| {
        let may_inherit = if old.capable_here(cap::SETPCAP) { old.cap_bounding } else { old.cap_permitted };
        let beyond = inheritable & !(old.cap_inheritable | may_inherit) != 0
            || inheritable & !(old.cap_inheritable | old.cap_bounding) != 0
            || permitted & !old.cap_permitted != 0
            || effective & !permitted != 0;
        if beyond {
            return Err(Errno::EPERM);
        }
        (new.cap_effective, new.cap_permitted, new.cap_inheritable) = (effective, permitted, inheritable);
        new.cap_ambient &= permitted & inheritable;
        Ok(())
    })
}
