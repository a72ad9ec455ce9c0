//! ptrace(2), "Ptrace access mode checking": whether a thread may look into another one.

use super::cred::cap;
use super::{Task, landlock};
use alloc::rc::Rc;

/// Which ids of the caller count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// The real ones, for system calls (`PTRACE_MODE_REALCREDS`).
    Real,
    /// The file system ids, for files of `/proc` (`PTRACE_MODE_FSCREDS`).
    FileSystem,
}

/// Whether the current thread may look into `target`.
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
        // To calls one that has ended has no memory to protect.
        let dumpable = ids == Ids::Real && target.try_mm().is_none() || target.process().dumpable.get() == 1;
        own.capable(cap::SYS_PTRACE)
            || [other.uid, other.euid, other.suid].iter().all(|id| *id == uid)
                && [other.gid, other.egid, other.sgid].iter().all(|id| *id == gid)
                && other.cap_permitted & !own.cap_permitted == 0
                && dumpable
    })
}
