//! Calls that read and change user and group ids and supplementary groups.

use crate::cred::{Cred, userns::Ids};
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

/// An id of the current thread, as its user namespace shows it.
fn shown(get: impl FnOnce(&Cred) -> u32, ids: Ids) -> u32 {
    task::with_current(|t| {
        let cred = t.cred.borrow();
        let id = get(&cred);
        if ids == Ids::Users { cred.user_ns.shown_uid(id) } else { cred.user_ns.shown_gid(id) }
    })
}

/// The system's id of an argument; -1 stays. EINVAL: not mapped in the caller's user namespace.
fn meant(id: u32, ids: Ids) -> Result<u32> {
    if id == KEEP {
        return Ok(KEEP);
    }
    task::with_current(|t| t.cred.borrow().user_ns.outward(ids, id)).ok_or(Errno::EINVAL)
}

/// [`meant`] of several arguments.
fn all_meant<const N: usize>(given: [u32; N], ids: Ids) -> Result<[u32; N]> {
    let mut out = [KEEP; N];
    for (out, given) in out.iter_mut().zip(given) {
        *out = meant(given, ids)?;
    }
    Ok(out)
}

/// getuid(2).
pub fn sys_getuid() -> u32 {
    shown(|cred| cred.uid, Ids::Users)
}
/// geteuid(2).
pub fn sys_geteuid() -> u32 {
    shown(|cred| cred.euid, Ids::Users)
}
/// getgid(2).
pub fn sys_getgid() -> u32 {
    shown(|cred| cred.gid, Ids::Groups)
}
/// getegid(2).
pub fn sys_getegid() -> u32 {
    shown(|cred| cred.egid, Ids::Groups)
}

/// setuid(2). EINVAL, EPERM.
pub fn sys_setuid(uid: u32) -> Result<()> {
    let uid = meant(uid, Ids::Users)?;
    if uid == KEEP {
        return Err(Errno::EINVAL);
    }
    edit(|new, old| {
        if old.capable_here(cap::SETUID) {
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
    let gid = meant(gid, Ids::Groups)?;
    if gid == KEEP {
        return Err(Errno::EINVAL);
    }
    edit(|new, old| {
        if old.capable_here(cap::SETGID) {
            (new.gid, new.egid, new.sgid, new.fsgid) = (gid, gid, gid, gid);
        } else if gid == old.gid || gid == old.sgid {
            (new.egid, new.fsgid) = (gid, gid);
        } else {
            return Err(Errno::EPERM);
        }
        Ok(())
    })
}

/// setreuid(2). EINVAL, EPERM.
pub fn sys_setreuid(ruid: u32, euid: u32) -> Result<()> {
    let [ruid, euid] = all_meant([ruid, euid], Ids::Users)?;
    edit(|new, old| {
        let free = old.capable_here(cap::SETUID);
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

/// setregid(2). EINVAL, EPERM.
pub fn sys_setregid(rgid: u32, egid: u32) -> Result<()> {
    let [rgid, egid] = all_meant([rgid, egid], Ids::Groups)?;
    edit(|new, old| {
        let free = old.capable_here(cap::SETGID);
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

/// setresuid(2). EINVAL, EPERM.
pub fn sys_setresuid(ruid: u32, euid: u32, suid: u32) -> Result<()> {
    let [ruid, euid, suid] = all_meant([ruid, euid, suid], Ids::Users)?;
    edit(|new, old| {
        let own = [old.uid, old.euid, old.suid];
        if !old.capable_here(cap::SETUID) && [ruid, euid, suid].iter().any(|id| *id != KEEP && !own.contains(id)) {
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

/// setresgid(2). EINVAL, EPERM.
pub fn sys_setresgid(rgid: u32, egid: u32, sgid: u32) -> Result<()> {
    let [rgid, egid, sgid] = all_meant([rgid, egid, sgid], Ids::Groups)?;
    edit(|new, old| {
        let own = [old.gid, old.egid, old.sgid];
        if !old.capable_here(cap::SETGID) && [rgid, egid, sgid].iter().any(|id| *id != KEEP && !own.contains(id)) {
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
    let ns = &cred.user_ns;
    user::write(ruid, &ns.shown_uid(cred.uid))?;
    user::write(euid, &ns.shown_uid(cred.euid))?;
    user::write(suid, &ns.shown_uid(cred.suid))
}

/// getresgid(2). EFAULT.
pub fn sys_getresgid(rgid: usize, egid: usize, sgid: usize) -> Result<()> {
    let cred = task::current().cred();
    let ns = &cred.user_ns;
    user::write(rgid, &ns.shown_gid(cred.gid))?;
    user::write(egid, &ns.shown_gid(cred.egid))?;
    user::write(sgid, &ns.shown_gid(cred.sgid))
}

/// setfsuid(2): returns the previous id in any case.
pub fn sys_setfsuid(fsuid: u32) -> Result<u32> {
    let old = task::current().cred();
    let fsuid = meant(fsuid, Ids::Users).unwrap_or(KEEP);
    if fsuid != KEEP && (old.capable_here(cap::SETUID) || [old.uid, old.euid, old.suid, old.fsuid].contains(&fsuid)) {
        edit(|new, _| {
            new.fsuid = fsuid;
            if securebits::has(&task::current(), securebits::NO_SETUID_FIXUP) {
                return Ok(());
            }
            let root = old.root_uid();
            if Some(old.fsuid) == root && Some(fsuid) != root {
                new.cap_effective &= !FS_CAPS;
            } else if Some(old.fsuid) != root && Some(fsuid) == root {
                new.cap_effective |= new.cap_permitted & FS_CAPS;
            }
            Ok(())
        })?;
    }
    Ok(old.user_ns.shown_uid(old.fsuid))
}

/// setfsgid(2): returns the previous id in any case.
pub fn sys_setfsgid(fsgid: u32) -> Result<u32> {
    let old = task::current().cred();
    let fsgid = meant(fsgid, Ids::Groups).unwrap_or(KEEP);
    if fsgid != KEEP && (old.capable_here(cap::SETGID) || [old.gid, old.egid, old.sgid, old.fsgid].contains(&fsgid)) {
        edit(|new, _| {
            new.fsgid = fsgid;
            Ok(())
        })?;
    }
    Ok(old.user_ns.shown_gid(old.fsgid))
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
        let ns = &cred.user_ns;
        if ns.is_first() {
            user::write_bytes(list, bytemuck::cast_slice(&cred.groups[..]))?;
        } else {
            for (i, group) in cred.groups.iter().enumerate() {
                user::write(list.wrapping_add(i * size_of::<u32>()), &ns.shown_gid(*group))?;
            }
        }
    }
    Ok(cred.groups.len())
}

/// setgroups(2). EPERM, EINVAL, EFAULT.
pub fn sys_setgroups(size: i32, list: usize) -> Result<()> {
    let cred = task::current().cred();
    if !cred.capable_here(cap::SETGID) || !cred.user_ns.may_set_groups() {
        return Err(Errno::EPERM);
    }
    if !(0..=NGROUPS_MAX).contains(&size) {
        return Err(Errno::EINVAL);
    }
    let mut groups = user::read_array::<u32>(list, size as usize)?;
    for group in &mut groups {
        *group = cred.user_ns.outward(Ids::Groups, *group).ok_or(Errno::EINVAL)?;
    }
    groups.sort_unstable();
    edit(|new, _| {
        new.groups = Rc::new(groups);
        Ok(())
    })
}
