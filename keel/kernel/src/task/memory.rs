//! What memory asks of the running thread.

use super::cred::cap;
use super::{current, oom, with_current};
use crate::mm::Mm;
use crate::mm::caller::Caller;
use alloc::rc::Rc;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// The running thread.
#[derive(Debug)]
pub struct Current;

impl Caller for Current {
    fn space(&self) -> Rc<Mm> {
        with_current(|me| me.mm())
    }

    fn make_room(&self) {
        oom::kill_largest();
    }

    fn may_lock(&self, locked: u64, bytes: u64) -> Result<()> {
        let me = current();
        let limit = me.limit(g::RLIMIT_MEMLOCK);
        match () {
            () if me.cred().capable(cap::IPC_LOCK) => Ok(()),
            () if limit == 0 => Err(Errno::EPERM),
            () if locked.saturating_add(bytes) <= limit => Ok(()),
            () => Err(Errno::ENOMEM),
        }
    }

    fn may_map_low(&self) -> bool {
        with_current(|me| me.cred().capable(cap::SYS_RAWIO))
    }
}
