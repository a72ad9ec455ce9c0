//! Flags that disable special rules of user 0; capabilities(7), "The securebits flags". The bit above each is its lock.

use super::Task;
use alloc::rc::Rc;
use uapi::{Errno, Result, cap};

/// Programs of user 0 gain no capabilities.
pub const NOROOT: u32 = 1 << 0;
/// A change of user ids keeps the capabilities.
pub const NO_SETUID_FIXUP: u32 = 1 << 2;
/// Permitted capabilities survive a change from user 0 to others; ends with execve(2).
pub const KEEP_CAPS: u32 = 1 << 4;
/// Ambient capabilities can't be raised.
pub const NO_CAP_AMBIENT_RAISE: u32 = 1 << 6;

/// `SECBIT_EXEC_RESTRICT_FILE` and `SECBIT_EXEC_DENY_INTERACTIVE` with their locks, since Linux 6.14: for script
/// interpreters, which check their scripts; any program may set them.
const UNPRIVILEGED: u32 = 0xf << 8;

const ALL: u32 = 0xfff;
const LOCKS: u32 = 0xaaa;

/// prctl(2), `PR_SET_SECUREBITS`. EPERM.
pub fn set(me: &Rc<Task>, bits: u64) -> Result<()> {
    let old = me.securebits.get();
    let bits = u32::try_from(bits).map_err(|_| Errno::EPERM)?;
    let locked = (old & LOCKS) >> 1;
    if (old ^ bits) & locked != 0
        || old & LOCKS & !bits != 0
        || bits & !ALL != 0
        || (old ^ bits) & !UNPRIVILEGED != 0 && !me.cred().capable_here(cap::SETPCAP)
    {
        return Err(Errno::EPERM);
    }
    me.securebits.set(bits);
    Ok(())
}

/// prctl(2), `PR_SET_KEEPCAPS`. EINVAL, EPERM.
pub fn set_keep_caps(me: &Rc<Task>, keep: u64) -> Result<()> {
    let old = me.securebits.get();
    if keep > 1 {
        return Err(Errno::EINVAL);
    }
    if old & KEEP_CAPS << 1 != 0 {
        return Err(Errno::EPERM);
    }
    me.securebits.set(if keep == 1 { old | KEEP_CAPS } else { old & !KEEP_CAPS });
    Ok(())
}

/// Whether a rule is disabled.
pub fn has(me: &Rc<Task>, bit: u32) -> bool {
    me.securebits.get() & bit != 0
}

/// Called at execve.
pub fn executed(me: &Rc<Task>) {
    me.securebits.set(me.securebits.get() & !KEEP_CAPS);
}
