//! Access checks of one thread to another: ptrace(2), "Ptrace access mode checking".

use super::cred::cap;
use super::{Task, landlock};
use alloc::rc::Rc;

/// Which ids of the caller are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// The real ones, for system calls (`PTRACE_MODE_REALCREDS`).
    Real,
    /// The file system ids, for files of `/proc` (`PTRACE_MODE_FSCREDS`).
    FileSystem,
}

/// Whether the current thread may inspect `target`.
pub fn may_look(target: &Rc<Task>, ids: Ids) -> bool {
    super::with_current(|me| {
        if me.pid() == target.pid() {
            return true;
        }
        let (own, other) = (me.cred(), target.cred());
        if !landlock::may_look(&own, &other) {
            return false;
        }
        let (uid, gid) = match ids {
            Ids::Real => (own.uid, own.gid),
            Ids::FileSystem => (own.fsuid, own.fsgid),
        };
        // For system calls, an ended thread has no memory to protect.
        let dumpable = ids == Ids::Real && target.try_mm().is_none() || target.process().dumpable.get() == 1;
        own.capable_in(&other.user_ns, cap::SYS_PTRACE)
            || [other.uid, other.euid, other.suid].iter().all(|id| *id == uid)
                && [other.gid, other.egid, other.sgid].iter().all(|id| *id == gid)
                && other.cap_permitted & !own.cap_permitted == 0
                && dumpable
    })
}
