//! What execve(2) does to credentials: capabilities(7), "Transformation of capabilities during execve()".

use super::{Cred, cap};
use crate::task::{self, Task, securebits};
use alloc::rc::Rc;
use uapi::{Errno, Result};
use vfs::Inode;
use vfs::capability::FileCapability;

const S_ISUID: u32 = 0o4000;
const S_ISGID_EXEC: u32 = 0o2010;

/// Credentials of a program that is about to run.
pub(crate) struct AfterExec {
    /// They.
    pub cred: Cred,
    /// It must not trust its environment: `AT_SECURE`.
    pub secure: bool,
    /// It gained ids or capabilities, so it starts with a plain personality(2).
    pub gained: bool,
}

/// Capabilities that the file gives, `None` for most. EINVAL: its attribute is none.
fn of_file(inode: &dyn Inode) -> Result<Option<FileCapability>> {
    inode.capability().map_or(Ok(None), |value| FileCapability::parse(&value))
}

/// Credentials after execve(2) of a file. EINVAL, EPERM: its capabilities can't be had.
pub(crate) fn after_exec(task: &Rc<Task>, inode: &dyn Inode) -> Result<AfterExec> {
    let attr = inode.attr()?;
    let old = task.cred();
    let mut new = (*old).clone();
    let mut set_id = false;
    if !task.no_new_privs() {
        if attr.mode & S_ISUID != 0 {
            (new.euid, set_id) = (attr.uid, true);
        }
        if attr.mode & S_ISGID_EXEC == S_ISGID_EXEC {
            (new.egid, set_id) = (attr.gid, true);
        }
    }
    let file = of_file(inode)?;
    let mut effective = false;
    new.cap_permitted = 0;
    if let Some(file) = file {
        effective = file.effective;
        new.cap_permitted = new.cap_bounding & file.permitted | new.cap_inheritable & file.inheritable;
        // A program that does not know capabilities could not tell that it lacks some.
        if effective && file.permitted & !new.cap_permitted != 0 {
            return Err(Errno::EPERM);
        }
    }
    // A set-user-id program of root's that has capabilities of its own gets those only.
    let has_own = file.is_some() && new.uid != 0 && new.euid == 0;
    if !securebits::has(task, securebits::NOROOT) && !has_own {
        if new.uid == 0 || new.euid == 0 {
            new.cap_permitted = new.cap_bounding | new.cap_inheritable;
        }
        effective |= new.euid == 0;
    }
    let gained = new.cap_permitted & !old.cap_permitted != 0;
    let changes_id = new.euid != old.uid || new.egid != old.gid;
    if (changes_id || gained) && (task.no_new_privs() || is_watched(task)) {
        if !old.capable(cap::SETUID) || task.no_new_privs() {
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
    let secure = changes_id || new.uid != 0 && more;
    Ok(AfterExec { cred: new, secure, gained: set_id || gained })
}

/// Whether a change of credentials hides the process from others of its user, and ends its PR_SET_PDEATHSIG.
pub(crate) fn hides(old: &Cred, new: &Cred) -> bool {
    (old.euid, old.egid, old.fsuid, old.fsgid) != (new.euid, new.egid, new.fsuid, new.fsgid)
        || new.cap_permitted & !old.cap_permitted != 0
}

/// Whether others could make a program that gains something do what they like: they trace it without CAP_SYS_PTRACE, or
/// share its root and working directory; execve(2).
fn is_watched(task: &Rc<Task>) -> bool {
    let tracer = if task.traced.is_attached() { task::pid::find_process(task.traced.tracer_pid()) } else { None };
    if task.traced.is_attached()
        && !tracer.and_then(|p| p.main_thread()).is_some_and(|t| t.cred().capable(cap::SYS_PTRACE))
    {
        return true;
    }
    let Some(fs) = task.try_fs() else { return false };
    let shares = |other: Rc<Task>| other.try_fs().is_some_and(|theirs| Rc::ptr_eq(&theirs, &fs));
    let others = task::process::all().filter(|process| process.pid() != task.pid());
    others.into_iter().any(|process| process.threads().any(shares))
}
