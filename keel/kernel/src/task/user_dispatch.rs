//! Syscall user dispatch: prctl(2) `PR_SET_SYSCALL_USER_DISPATCH`.
//!
//! Calls from outside of one code range raise SIGSYS while a selector byte in the program's memory says block, for
//! programs that run foreign code with another system call ABI.

use super::current;
use crate::mm::user;
use crate::patch;
use crate::signal::{SigInfo, send};
use crate::task::watch;
use core::cell::RefCell;
use hal::trap::TrapFrame;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Modes.
const OFF: u64 = 0;
const ON: u64 = 1;

/// Values of the selector.
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;

/// si_code of SIGSYS.
const SYS_USER_DISPATCH: i32 = 2;

#[derive(Debug)]
struct Rule {
    /// Code whose calls are always allowed.
    start: u64,
    len: u64,
    /// Address of the selector byte; 0: dispatch all other calls.
    selector: usize,
    _watched: watch::Reason,
}

/// Dispatch setting of a thread.
#[derive(Debug, Default)]
pub struct UserDispatch(RefCell<Option<Rule>>);

impl UserDispatch {
    /// execve(2): the setting is cleared.
    pub(crate) fn clear(&self) {
        let _old = self.0.take();
    }
}

/// prctl(2) `PR_SET_SYSCALL_USER_DISPATCH`. EFAULT, EINVAL.
pub fn set(mode: u64, start: u64, len: u64, selector: usize) -> Result<i32> {
    let rule = match mode {
        OFF if start == 0 && len == 0 && selector == 0 => None,
        ON if start == 0 || start.checked_add(len).is_some_and(|end| end > start) => {
            user::access_ok(selector, 1)?;
            Some(Rule { start, len, selector, _watched: watch::Reason::new() })
        }
        _ => return Err(Errno::EINVAL),
    };
    let _old = current().user_dispatch.0.replace(rule);
    Ok(0)
}

/// Whether the program handles the call that the current thread is about to make: SIGSYS is pending then.
pub fn catches(frame: &TrapFrame, number: u64) -> bool {
    let me = current();
    let Some((start, len, selector)) = me.user_dispatch.0.borrow().as_ref().map(|r| (r.start, r.len, r.selector))
    else {
        return false;
    };
    let place = patch::program_address(frame.instruction_pointer());
    if place.wrapping_sub(start) < len {
        return false;
    }
    if selector != 0 {
        match user::read::<u8>(selector) {
            Ok(ALLOW) => return false,
            Ok(BLOCK) => {}
            Ok(_) => {
                send::kill_all(me.process(), g::SIGSYS as i32);
                return true;
            }
            Err(_) => {
                send::kill_all(me.process(), g::SIGSEGV as i32);
                return true;
            }
        }
    }
    send::force(&me, SigInfo::call(SYS_USER_DISPATCH, place, number));
    true
}
