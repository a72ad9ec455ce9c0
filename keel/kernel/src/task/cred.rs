//! Credentials and the calls that read and change them; credentials(7), capabilities(7).

use crate::mm::user;
use crate::task::{self, Task, pid};
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// All capabilities that Linux has: `CAP_CHOWN` (0) to `CAP_CHECKPOINT_RESTORE` (40).
pub const ALL_CAPS: u64 = (1 << 41) - 1;

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

/// Credentials of a thread. Replaced as a whole when one changes.
#[derive(Clone, Debug)]
pub struct Cred {
    /// Real user id.
    pub uid: u32,
    /// Effective user id.
    pub euid: u32,
    /// Saved user id.
    pub suid: u32,
    /// File system user id.
    pub fsuid: u32,
    /// Real group id.
    pub gid: u32,
    /// Effective group id.
    pub egid: u32,
    /// Saved group id.
    pub sgid: u32,
    /// File system group id.
    pub fsgid: u32,
    /// Supplementary groups, sorted.
    pub groups: Vec<u32>,
    /// Effective capabilities, one bit each.
    pub cap_effective: u64,
    /// Permitted capabilities.
    pub cap_permitted: u64,
    /// Inheritable capabilities.
    pub cap_inheritable: u64,
    /// Bounding set.
    pub cap_bounding: u64,
    /// Ambient set.
    pub cap_ambient: u64,
}

impl Cred {
    /// Of the pod's first program: all capabilities for user 0, none for others.
    pub fn first(uid: u32, gid: u32, groups: &[u32]) -> Self {
        let caps = if uid == 0 { ALL_CAPS } else { 0 };
        let mut groups = groups.to_vec();
        groups.sort_unstable();
        Self {
            uid,
            euid: uid,
            suid: uid,
            fsuid: uid,
            gid,
            egid: gid,
            sgid: gid,
            fsgid: gid,
            groups,
            cap_effective: caps,
            cap_permitted: caps,
            cap_inheritable: 0,
            cap_bounding: ALL_CAPS,
            cap_ambient: 0,
        }
    }

    /// Whether the effective set has capability number `cap`.
    pub fn capable(&self, cap: u32) -> bool {
        self.cap_effective & (1 << cap) != 0
    }

    /// Whether `gid` is the file system group or a supplementary one.
    pub fn in_group(&self, gid: u32) -> bool {
        self.fsgid == gid || self.groups.binary_search(&gid).is_ok()
    }

    /// What a change of user ids does to the capabilities (capabilities(7), "Effect of user ID
    /// changes"). `old` is the state before.
    fn fix_caps(&mut self, old: &Cred, keep: bool) {
        let had_root = old.uid == 0 || old.euid == 0 || old.suid == 0;
        let has_root = self.uid == 0 || self.euid == 0 || self.suid == 0;
        if had_root && !has_root {
            if !keep {
                self.cap_permitted = 0;
                self.cap_effective = 0;
            }
            self.cap_ambient = 0;
        }
        if old.euid == 0 && self.euid != 0 {
            self.cap_effective = 0;
        } else if old.euid != 0 && self.euid == 0 {
            self.cap_effective = self.cap_permitted;
        }
    }
}

/// Capabilities that go with the file system user id.
const FS_CAPS: u64 = 1 << cap::CHOWN
    | 1 << cap::DAC_OVERRIDE
    | 1 << cap::DAC_READ_SEARCH
    | 1 << cap::FOWNER
    | 1 << cap::FSETID
    | 1 << 9 // CAP_LINUX_IMMUTABLE
    | 1 << cap::MKNOD
    | 1 << 32; // CAP_MAC_OVERRIDE

/// `(uid_t) -1`: leave as it is.
const KEEP: u32 = u32::MAX;

fn edit(f: impl FnOnce(&mut Cred, &Cred) -> Result<()>) -> Result<()> {
    let task = task::current();
    let old = task.cred();
    let mut new = (*old).clone();
    f(&mut new, &old)?;
    if (new.uid, new.euid, new.suid) != (old.uid, old.euid, old.suid) {
        new.fix_caps(&old, task.keep_caps.get());
    }
    if new.euid != old.euid || new.egid != old.egid {
        task.process().dumpable.set(0);
        task.parent_death_signal.set(0);
    }
    task.set_cred(new);
    Ok(())
}

/// getuid(2).
pub fn sys_getuid() -> u32 {
    task::with_current(|t| t.cred.borrow().uid)
}
/// geteuid(2).
pub fn sys_geteuid() -> u32 {
    task::with_current(|t| t.cred.borrow().euid)
}
/// getgid(2).
pub fn sys_getgid() -> u32 {
    task::with_current(|t| t.cred.borrow().gid)
}
/// getegid(2).
pub fn sys_getegid() -> u32 {
    task::with_current(|t| t.cred.borrow().egid)
}

/// setuid(2). EINVAL, EPERM.
pub fn sys_setuid(uid: u32) -> Result<()> {
    if uid == KEEP {
        return Err(Errno::EINVAL);
    }
    edit(|new, old| {
        if old.capable(cap::SETUID) {
            (new.uid, new.suid) = (uid, uid);
        } else if uid != old.uid && uid != old.suid {
            return Err(Errno::EPERM);
        }
        (new.euid, new.fsuid) = (uid, uid);
        Ok(())
    })
}

/// setgid(2). EINVAL, EPERM.
pub fn sys_setgid(gid: u32) -> Result<()> {
    if gid == KEEP {
        return Err(Errno::EINVAL);
    }
    edit(|new, old| {
        if old.capable(cap::SETGID) {
            (new.gid, new.egid, new.sgid, new.fsgid) = (gid, gid, gid, gid);
        } else if gid == old.gid || gid == old.sgid {
            (new.egid, new.fsgid) = (gid, gid);
        } else {
            return Err(Errno::EPERM);
        }
        Ok(())
    })
}

/// setreuid(2). EPERM.
pub fn sys_setreuid(ruid: u32, euid: u32) -> Result<()> {
    edit(|new, old| {
        let free = old.capable(cap::SETUID);
        if ruid != KEEP {
            if !free && ruid != old.uid && ruid != old.euid {
                return Err(Errno::EPERM);
            }
            new.uid = ruid;
        }
        if euid != KEEP {
            if !free && ![old.uid, old.euid, old.suid].contains(&euid) {
                return Err(Errno::EPERM);
            }
            new.euid = euid;
        }
        if ruid != KEEP || (euid != KEEP && euid != old.uid) {
            new.suid = new.euid;
        }
        new.fsuid = new.euid;
        Ok(())
    })
}

/// setregid(2). EPERM.
pub fn sys_setregid(rgid: u32, egid: u32) -> Result<()> {
    edit(|new, old| {
        let free = old.capable(cap::SETGID);
        if rgid != KEEP {
            if !free && rgid != old.gid && rgid != old.egid {
                return Err(Errno::EPERM);
            }
            new.gid = rgid;
        }
        if egid != KEEP {
            if !free && ![old.gid, old.egid, old.sgid].contains(&egid) {
                return Err(Errno::EPERM);
            }
            new.egid = egid;
        }
        if rgid != KEEP || (egid != KEEP && egid != old.gid) {
            new.sgid = new.egid;
        }
        new.fsgid = new.egid;
        Ok(())
    })
}

/// setresuid(2). EPERM.
pub fn sys_setresuid(ruid: u32, euid: u32, suid: u32) -> Result<()> {
    edit(|new, old| {
        let own = [old.uid, old.euid, old.suid];
        if !old.capable(cap::SETUID) && [ruid, euid, suid].iter().any(|id| *id != KEEP && !own.contains(id)) {
            return Err(Errno::EPERM);
        }
        if ruid != KEEP {
            new.uid = ruid;
        }
        if euid != KEEP {
            new.euid = euid;
        }
        if suid != KEEP {
            new.suid = suid;
        }
        new.fsuid = new.euid;
        Ok(())
    })
}

/// setresgid(2). EPERM.
pub fn sys_setresgid(rgid: u32, egid: u32, sgid: u32) -> Result<()> {
    edit(|new, old| {
        let own = [old.gid, old.egid, old.sgid];
        if !old.capable(cap::SETGID) && [rgid, egid, sgid].iter().any(|id| *id != KEEP && !own.contains(id)) {
            return Err(Errno::EPERM);
        }
        if rgid != KEEP {
            new.gid = rgid;
        }
        if egid != KEEP {
            new.egid = egid;
        }
        if sgid != KEEP {
            new.sgid = sgid;
        }
        new.fsgid = new.egid;
        Ok(())
    })
}

/// getresuid(2). EFAULT.
pub fn sys_getresuid(ruid: usize, euid: usize, suid: usize) -> Result<()> {
    let cred = task::current().cred();
    user::write(ruid, &cred.uid)?;
    user::write(euid, &cred.euid)?;
    user::write(suid, &cred.suid)
}

/// getresgid(2). EFAULT.
pub fn sys_getresgid(rgid: usize, egid: usize, sgid: usize) -> Result<()> {
    let cred = task::current().cred();
    user::write(rgid, &cred.gid)?;
    user::write(egid, &cred.egid)?;
    user::write(sgid, &cred.sgid)
}

/// setfsuid(2): the id before, whether it changed or not.
pub fn sys_setfsuid(fsuid: u32) -> Result<u32> {
    let old = task::current().cred();
    if fsuid != KEEP && (old.capable(cap::SETUID) || [old.uid, old.euid, old.suid, old.fsuid].contains(&fsuid)) {
        edit(|new, _| {
            new.fsuid = fsuid;
            if old.fsuid == 0 && fsuid != 0 {
                new.cap_effective &= !FS_CAPS;
            } else if old.fsuid != 0 && fsuid == 0 {
                new.cap_effective |= new.cap_permitted & FS_CAPS;
            }
            Ok(())
        })?;
    }
    Ok(old.fsuid)
}

/// setfsgid(2): the id before, whether it changed or not.
pub fn sys_setfsgid(fsgid: u32) -> Result<u32> {
    let old = task::current().cred();
    if fsgid != KEEP && (old.capable(cap::SETGID) || [old.gid, old.egid, old.sgid, old.fsgid].contains(&fsgid)) {
        edit(|new, _| {
            new.fsgid = fsgid;
            Ok(())
        })?;
    }
    Ok(old.fsgid)
}

/// Most supplementary groups.
const NGROUPS_MAX: i32 = 65536;

/// getgroups(2). EINVAL, EFAULT.
pub fn sys_getgroups(size: i32, list: usize) -> Result<usize> {
    let cred = task::current().cred();
    let size = usize::try_from(size).map_err(|_| Errno::EINVAL)?;
    if size != 0 {
        if cred.groups.len() > size {
            return Err(Errno::EINVAL);
        }
        user::write_bytes(list, bytemuck::cast_slice(&cred.groups))?;
    }
    Ok(cred.groups.len())
}

/// setgroups(2). EPERM, EINVAL, EFAULT.
pub fn sys_setgroups(size: i32, list: usize) -> Result<()> {
    if !task::current().cred().capable(cap::SETGID) {
        return Err(Errno::EPERM);
    }
    if !(0..=NGROUPS_MAX).contains(&size) {
        return Err(Errno::EINVAL);
    }
    let mut groups = user::read_array::<u32>(list, size as usize)?;
    if groups.contains(&KEEP) {
        return Err(Errno::EINVAL);
    }
    groups.sort_unstable();
    edit(|new, _| {
        new.groups = groups;
        Ok(())
    })
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

/// Whether `sender` may signal `target`, kill(2).
pub fn may_signal(sender: &Cred, target: &Cred) -> bool {
    sender.capable(cap::KILL) || [sender.uid, sender.euid].iter().any(|id| *id == target.uid || *id == target.suid)
}

/// Credentials after execve(2) of a file with these ids; the sets by capabilities(7), "root" rules.
pub(crate) fn after_exec(task: &Rc<Task>, mode: u32, file_uid: u32, file_gid: u32) -> (Cred, bool) {
    const S_ISUID: u32 = 0o4000;
    const S_ISGID_EXEC: u32 = 0o2010;
    let old = task.cred();
    let mut new = (*old).clone();
    if !task.no_new_privs() {
        if mode & S_ISUID != 0 {
            new.euid = file_uid;
        }
        if mode & S_ISGID_EXEC == S_ISGID_EXEC {
            new.egid = file_gid;
        }
    }
    let changed = new.euid != old.euid || new.egid != old.egid;
    if new.uid == 0 || new.euid == 0 {
        new.cap_permitted = new.cap_bounding | new.cap_inheritable;
        new.cap_effective = if new.euid == 0 { new.cap_permitted } else { 0 };
        new.cap_ambient = 0;
    } else {
        if changed {
            new.cap_ambient = 0;
        }
        new.cap_permitted = new.cap_ambient;
        new.cap_effective = new.cap_ambient;
    }
    (new.suid, new.fsuid, new.sgid, new.fsgid) = (new.euid, new.euid, new.egid, new.egid);
    let secure = new.euid != new.uid || new.egid != new.gid;
    (new, secure)
}
