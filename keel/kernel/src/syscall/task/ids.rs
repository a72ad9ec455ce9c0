//! Calls that read and change user and group ids and supplementary groups.

use crate::mm::user;
use crate::task::cred::edit;
use crate::task::{self, securebits};
use alloc::rc::Rc;
use uapi::{Errno, Result, cap};

/// Capabilities that depend on the file system user id.
const FS_CAPS: u64 = 1 << cap::CHOWN
    | 1 << cap::DAC_OVERRIDE
    | 1 << cap::DAC_READ_SEARCH
    | 1 << cap::FOWNER
    | 1 << cap::FSETID
    | 1 << cap::LINUX_IMMUTABLE
    | 1 << cap::MKNOD
    | 1 << cap::MAC_OVERRIDE;

/// `(uid_t) -1`: leave unchanged.
const KEEP: u32 = u32::MAX;

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

/// setfsuid(2): returns the previous id in any case.
pub fn sys_setfsuid(fsuid: u32) -> Result<u32> {
    let old = task::current().cred();
    if fsuid != KEEP && (old.capable(cap::SETUID) || [old.uid, old.euid, old.suid, old.fsuid].contains(&fsuid)) {
        edit(|new, _| {
            new.fsuid = fsuid;
            if securebits::has(&task::current(), securebits::NO_SETUID_FIXUP) {
                return Ok(());
            }
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

/// setfsgid(2): returns the previous id in any case.
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

/// Maximum number of supplementary groups.
const NGROUPS_MAX: i32 = 65536;

/// getgroups(2). EINVAL, EFAULT.
pub fn sys_getgroups(size: i32, list: usize) -> Result<usize> {
    let cred = task::current().cred();
    let size = usize::try_from(size).map_err(|_| Errno::EINVAL)?;
    if size != 0 {
        if cred.groups.len() > size {
            return Err(Errno::EINVAL);
        }
        user::write_bytes(list, bytemuck::cast_slice(&cred.groups[..]))?;
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
        new.groups = Rc::new(groups);
        Ok(())
    })
}
