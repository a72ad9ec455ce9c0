//! Barriers between the threads of all processors, membarrier(2).

use crate::task::current;
use uapi::{Errno, Result};

const GLOBAL: u32 = 1;
const GLOBAL_EXPEDITED: u32 = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: u32 = 1 << 2;
const PRIVATE_EXPEDITED: u32 = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: u32 = 1 << 4;
const PRIVATE_EXPEDITED_SYNC_CORE: u32 = 1 << 5;
const REGISTER_PRIVATE_EXPEDITED_SYNC_CORE: u32 = 1 << 6;
const PRIVATE_EXPEDITED_RSEQ: u32 = 1 << 7;
const REGISTER_PRIVATE_EXPEDITED_RSEQ: u32 = 1 << 8;
const GET_REGISTRATIONS: u32 = 1 << 9;
const ALL: u32 = (GET_REGISTRATIONS << 1) - 1;

/// Flag: only the processor that is named.
const FLAG_CPU: u32 = 1;

/// membarrier(2). EINVAL, EPERM.
pub fn sys_membarrier(command: u32, flags: u32, _cpu: i32) -> Result<u32> {
    let known = if command == PRIVATE_EXPEDITED_RSEQ { FLAG_CPU } else { 0 };
    if flags & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let me = current();
    let mm = me.mm();
    let registered = mm.membarrier.get();
    // A thread that does not run has passed through keel, and so a barrier, since it last did.
    match command {
        0 => return Ok(ALL),
        GLOBAL | GLOBAL_EXPEDITED => hal::smp::stop_others(),
        REGISTER_GLOBAL_EXPEDITED
        | REGISTER_PRIVATE_EXPEDITED
        | REGISTER_PRIVATE_EXPEDITED_SYNC_CORE
        | REGISTER_PRIVATE_EXPEDITED_RSEQ => mm.membarrier.set(registered | command),
        // The registration's bit is the one above.
        PRIVATE_EXPEDITED | PRIVATE_EXPEDITED_SYNC_CORE | PRIVATE_EXPEDITED_RSEQ if registered & command << 1 == 0 => {
            return Err(Errno::EPERM);
        }
        PRIVATE_EXPEDITED | PRIVATE_EXPEDITED_SYNC_CORE => mm.stop_others(),
        PRIVATE_EXPEDITED_RSEQ => {
            crate::task::for_each_running_beside(&me, |other| other.rseq.set_fence());
            mm.stop_others();
        }
        GET_REGISTRATIONS => {
            // The special ones include the simple one.
            let special = REGISTER_PRIVATE_EXPEDITED_SYNC_CORE | REGISTER_PRIVATE_EXPEDITED_RSEQ;
            let simple = if registered & special != 0 { REGISTER_PRIVATE_EXPEDITED } else { 0 };
            return Ok(registered | simple);
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}
