//! Changes of credentials by execve(2): capabilities(7), "Transformation of capabilities during execve()".

use super::{Cred, cap};
use crate::cred::UserNs;
use crate::task::{self, Task, securebits};
use alloc::rc::Rc;
use uapi::{Errno, Result};
use vfs::capability::FileCapability;
use vfs::mount::flags;
use vfs::{Inode, PathRef};

const S_ISUID: u32 = 0o4000;
const S_ISGID_EXEC: u32 = 0o2010;

/// Credentials of the new program.
pub(crate) struct AfterExec {
    /// The credentials.
    pub cred: Cred,
    /// Secure-execution mode: `AT_SECURE`.
    pub secure: bool,
    /// It gained ids or capabilities, so its personality(2) is reset.
    pub gained: bool,
}

/// File capabilities, if any. EINVAL: malformed attribute.
fn of_file(inode: &dyn Inode) -> Result<Option<FileCapability>> {
    inode.capability().map_or(Ok(None), |value| FileCapability::parse(&value))
}

/// Credentials after execve(2) of a file. EINVAL, EPERM: its capabilities can't be granted.
pub(crate) fn after_exec(task: &Rc<Task>, place: &PathRef) -> Result<AfterExec> {
    let inode = &**place.inode();
    let attr = inode.attr()?;
    let is_trusted = !place.has_flag(flags::NO_SUID);
    let old = task.cred();
    let mut new = (*old).clone();
    let mut set_id = false;
    let root = old.root_uid();
    let is_root = |uid: u32| Some(uid) == root;
    if is_trusted && !task.no_new_privs() && old.user_ns.covers(attr.uid, attr.gid) {
        if attr.mode & S_ISUID != 0 {
            (new.euid, set_id) = (attr.uid, true);
        }
        if attr.mode & S_ISGID_EXEC == S_ISGID_EXEC {
            (new.egid, set_id) = (attr.gid, true);
        }
    }
    let file = if is_trusted { of_file(inode)? } else { None };
    let mut effective = false;
    new.cap_permitted = 0;
    if let Some(file) = file {
        effective = file.effective;
        new.cap_permitted = new.cap_bounding & file.permitted | new.cap_inheritable & file.inheritable;
        // A program that is not capability-aware could not detect missing capabilities.
        if effective && file.permitted & !new.cap_permitted != 0 {
            return Err(Errno::EPERM);
        }
    }
    // A set-user-id-root program with file capabilities gets only those.
    let has_own = file.is_some() && !is_root(new.uid) && is_root(new.euid);
    if !securebits::has(task, securebits::NOROOT) && !has_own {
        if is_root(new.uid) || is_root(new.euid) {
            new.cap_permitted = new.cap_bounding | new.cap_inheritable;
        }
        effective |= is_root(new.euid);
    }
    let gained = new.cap_permitted & !old.cap_permitted != 0;
    let changes_id = new.euid != old.uid || new.egid != old.gid;
    if (changes_id || gained) && (task.no_new_privs() || is_watched(task, &new.user_ns)) {
        if !old.capable_here(cap::SETUID) || task.no_new_privs() {
            (new.euid, new.egid) = (new.uid, new.gid);
        }
        new.cap_permitted &= old.cap_permitted;
    }
    if file.is_some() || changes_id {
        new.cap_ambient = 0;
    }
    new.cap_permitted |= new.cap_ambient;
    new.cap_effective = if effective { new.cap_permitted } else { new.cap_ambient };
    (new.suid, new.fsuid, new.sgid, new.fsgid) = (new.euid, new.euid, new.egid, new.egid);
    let more = effective || new.cap_permitted & !new.cap_ambient != 0;
    let secure = changes_id || !is_root(new.uid) && more;
    Ok(AfterExec { cred: new, secure, gained: set_id || gained })
}

/// Whether a change of credentials makes the process undumpable, and clears its PR_SET_PDEATHSIG.
pub(crate) fn hides(old: &Cred, new: &Cred) -> bool {
    (old.euid, old.egid, old.fsuid, old.fsgid) != (new.euid, new.egid, new.fsuid, new.fsgid)
        || new.cap_permitted & !old.cap_permitted != 0
}

/// Whether another process could control a program that gains privileges: it traces it without CAP_SYS_PTRACE, or
/// shares its root and working directory; execve(2).
fn is_watched(task: &Rc<Task>, user_ns: &Rc<UserNs>) -> bool {
    let tracer = if task.traced.is_attached() { task::pid::find_process(task.traced.tracer_pid()) } else { None };
    if task.traced.is_attached()
        && !tracer.and_then(|p| p.main_thread()).is_some_and(|t| t.cred().capable_in(user_ns, cap::SYS_PTRACE))
    {
        return true;
    }
    let Some(fs) = task.try_fs() else { return false };
    let shares = |other: Rc<Task>| other.try_fs().is_some_and(|theirs| Rc::ptr_eq(&theirs, &fs));
    let others = task::process::all().filter(|process| process.pid() != task.pid());
    others.into_iter().any(|process| process.threads().any(shares))
}
