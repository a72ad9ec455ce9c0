//! Capabilities: their numbers, capget(2) and capset(2).

use super::{ALL_CAPS, edit};
use crate::mm::user;
use crate::task::{self, pid};
use uapi::{Errno, Result};

/// Capability numbers, capabilities(7).
pub mod cap {
    /// Change owners of files.
    pub const CHOWN: u32 = 0;
    /// Bypass permission checks of files.
    pub const DAC_OVERRIDE: u32 = 1;
    /// Bypass read permission checks.
    pub const DAC_READ_SEARCH: u32 = 2;
    /// Act as the owner of any file.
    pub const FOWNER: u32 = 3;
    /// Keep set-id bits at changes.
    pub const FSETID: u32 = 4;
    /// Signal any process.
    pub const KILL: u32 = 5;
    /// Change group ids.
    pub const SETGID: u32 = 6;
    /// Change user ids.
    pub const SETUID: u32 = 7;
    /// Change capability sets.
    pub const SETPCAP: u32 = 8;
    /// Bind to ports below 1024.
    pub const NET_BIND_SERVICE: u32 = 10;
    /// Raw sockets.
    pub const NET_RAW: u32 = 13;
    /// Lock memory.
    pub const IPC_LOCK: u32 = 14;
    /// Everything with every object of System V IPC.
    pub const IPC_OWNER: u32 = 15;
    /// chroot(2).
    pub const SYS_CHROOT: u32 = 18;
    /// Trace any process.
    pub const SYS_PTRACE: u32 = 19;
    /// Administration.
    pub const SYS_ADMIN: u32 = 21;
    /// Restart the machine.
    pub const SYS_BOOT: u32 = 22;
    /// Raise priorities.
    pub const SYS_NICE: u32 = 23;
    /// Override resource limits.
    pub const SYS_RESOURCE: u32 = 24;
    /// Set clocks.
    pub const SYS_TIME: u32 = 25;
    /// Make device files.
    pub const MKNOD: u32 = 27;
    /// Checkpoint and restore processes.
    pub const CHECKPOINT_RESTORE: u32 = 40;
}

const CAP_VERSION_1: u32 = 0x1998_0330;
const CAP_VERSION_2: u32 = 0x2007_1026;
const CAP_VERSION_3: u32 = 0x2008_0522;

/// Checks the header of capget and capset: number of 32-bit groups, or `None` after the preferred
/// version was written for a probe with an unknown one.
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
    let (effective, permitted, inheritable) = if target == pid::INIT {
        (ALL_CAPS, ALL_CAPS, 0)
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
    if target != 0 && target != task.tid() {
        return Err(Errno::EPERM);
    }
    let words = user::read_array::<u32>(data, 3 * groups)?;
    let set = |which: usize| {
        words.chunks_exact(3).enumerate().fold(0u64, |set, (i, group)| set | u64::from(group[which]) << (32 * i))
    };
    let (effective, permitted, inheritable) = (set(0) & ALL_CAPS, set(1) & ALL_CAPS, set(2) & ALL_CAPS);
    edit(|new, old| {
        let may_inherit = if old.capable(cap::SETPCAP) { old.cap_bounding } else { old.cap_permitted };
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
