//! Credentials and the calls that read and change them; credentials(7), capabilities(7).

mod exec;

pub(crate) use exec::{AfterExec, after_exec, hides};

pub use crate::cred::Cred;
use crate::task::{self, securebits};
use uapi::Result;
pub use uapi::cap;

pub(crate) fn edit(f: impl FnOnce(&mut Cred, &Cred) -> Result<()>) -> Result<()> {
    let task = task::current();
    let old = task.cred();
    let mut new = (*old).clone();
    f(&mut new, &old)?;
    let changes = (new.uid, new.euid, new.suid) != (old.uid, old.euid, old.suid);
    if changes && !securebits::has(&task, securebits::NO_SETUID_FIXUP) {
        new.fix_caps(&old, securebits::has(&task, securebits::KEEP_CAPS));
    }
    if hides(&old, &new) {
        task.process().dumpable.set(0);
        task.parent_death_signal.set(0);
    }
    task.set_cred(new);
    Ok(())
}

/// Whether `sender` may signal `target`, kill(2).
pub fn may_signal(sender: &Cred, target: &Cred) -> bool {
    sender.capable_in(&target.user_ns, cap::KILL)
        || [sender.uid, sender.euid].iter().any(|id| *id == target.uid || *id == target.suid)
}
