//! Operations on a process; prctl(2).

use super::places;
use crate::mm::user;
use crate::task::cred::cap;
use crate::task::{Task, current, seccomp, securebits, user_dispatch};
use alloc::rc::Rc;
use keel_core::sigset::MAX_SIGNAL;
use uapi::raw::prctl as p;
use uapi::{Errno, Result};

/// Whether timer_create(2) takes the ids of timers from the program, since Linux 6.15.
const PR_TIMER_CREATE_RESTORE_IDS: u32 = 77;

/// Bytes of a thread's name with its zero byte.
const NAME: usize = 16;

/// prctl(2). EACCES, EBADF, EFAULT, EINVAL, ENODEV, EPERM.
pub fn sys_prctl(option: i32, arg2: u64, arg3: u64, arg4: u64, arg5: u64) -> Result<i32> {
    let me = current();
    let process = me.process();
    let rest_is_zero = arg3 == 0 && arg4 == 0 && arg5 == 0;
    let check = |valid: bool| if valid { Ok(()) } else { Err(Errno::EINVAL) };
    let at = arg2 as usize;
    match option as u32 {
        p::PR_SET_PDEATHSIG => {
            check(arg2 <= u64::from(MAX_SIGNAL))?;
            me.parent_death_signal.set(arg2 as u32);
            Ok(0)
        }
        p::PR_GET_PDEATHSIG => user::write(at, &me.parent_death_signal.get()).map(|()| 0),
        p::PR_GET_DUMPABLE => Ok(process.dumpable.get()),
        p::PR_SET_DUMPABLE => {
            check(arg2 <= 1)?;
            process.dumpable.set(arg2 as i32);
            Ok(0)
        }
        p::PR_GET_KEEPCAPS => Ok(i32::from(securebits::has(&me, securebits::KEEP_CAPS))),
        p::PR_SET_KEEPCAPS => securebits::set_keep_caps(&me, arg2).map(|()| 0),
        p::PR_SET_NAME => {
            let mut name = [0; NAME];
            read_name(at, &mut name[..NAME - 1])?;
            me.set_comm(&name);
            Ok(0)
        }
        p::PR_GET_NAME => user::write(at, &me.comm.get()).map(|()| 0),
        p::PR_GET_TIMING => Ok(p::PR_TIMING_STATISTICAL as i32),
        p::PR_SET_TIMING => {
            check(arg2 == u64::from(p::PR_TIMING_STATISTICAL))?;
            Ok(0)
        }
        p::PR_GET_SECCOMP => Ok(seccomp::mode()),
        p::PR_SET_SECCOMP => seccomp::set_mode(arg2, arg3 as usize),
        p::PR_CAPBSET_READ => {
            check(arg2 < 64 && cap::ALL & 1 << arg2 != 0)?;
            Ok(i32::from(me.cred().cap_bounding & 1 << arg2 != 0))
        }
        p::PR_CAPBSET_DROP => drop_bounding(&me, arg2),
        p::PR_GET_TSC => user::write(at, &p::PR_TSC_ENABLE).map(|()| 0),
        p::PR_SET_TSC => {
            check(arg2 == u64::from(p::PR_TSC_ENABLE))?;
            Ok(0)
        }
        p::PR_GET_SECUREBITS => Ok(me.securebits.get() as i32),
        p::PR_SET_SECUREBITS => securebits::set(&me, arg2).map(|()| 0),
        // Threads of real-time policies have none.
        p::PR_SET_TIMERSLACK if me.timer_slack_ns.get() == 0 => Ok(0),
        p::PR_SET_TIMERSLACK => {
            me.set_timer_slack(if arg2 as i64 <= 0 { 0 } else { arg2 });
            Ok(0)
        }
        p::PR_GET_TIMERSLACK => Ok(me.timer_slack_ns.get().min(i32::MAX as u64) as i32),
        p::PR_MCE_KILL_GET => {
            check(arg2 == 0 && rest_is_zero)?;
            Ok(i32::from(me.memory_failure_policy.get()))
        }
        p::PR_SET_CHILD_SUBREAPER => {
            process.subreaper.set(arg2 != 0);
            Ok(0)
        }
        p::PR_GET_CHILD_SUBREAPER => user::write(at, &u32::from(process.subreaper.get())).map(|()| 0),
        p::PR_SET_NO_NEW_PRIVS => {
            check(arg2 == 1 && rest_is_zero)?;
            me.no_new_privs.set(true);
            Ok(0)
        }
        p::PR_GET_NO_NEW_PRIVS => {
            check(arg2 == 0 && rest_is_zero)?;
            Ok(i32::from(me.no_new_privs.get()))
        }
        p::PR_GET_THP_DISABLE => {
            check(arg2 == 0 && rest_is_zero)?;
            Ok(me.mm().huge_disabled() as i32)
        }
        p::PR_SET_THP_DISABLE => {
            check(arg4 == 0 && arg5 == 0)?;
            me.mm().disable_huge(arg2 != 0, arg3).map(|()| 0)
        }
        p::PR_GET_MDWE => {
            check(arg2 == 0 && rest_is_zero)?;
            Ok(me.mm().execution_rules() as i32)
        }
        p::PR_SET_MDWE => {
            check(rest_is_zero)?;
            me.mm().set_execution_rules(arg2).map(|()| 0)
        }
        p::PR_SET_SYSCALL_USER_DISPATCH => user_dispatch::set(arg2, arg3, arg4, arg5 as usize),
        p::PR_GET_TID_ADDRESS => user::write(at, &me.clear_tid.get()).map(|()| 0),
        p::PR_CAP_AMBIENT => ambient(&me, arg2, arg3, arg4 == 0 && arg5 == 0),
        // There are no performance counters to enable.
        p::PR_TASK_PERF_EVENTS_DISABLE | p::PR_TASK_PERF_EVENTS_ENABLE => Ok(0),
        p::PR_SET_MM => places::set(&me, arg2, arg3, arg4, arg5).map(|()| 0),
        places::PR_GET_AUXV => places::auxiliary_vector(&me, at, arg3 as usize, arg4 == 0 && arg5 == 0),
        p::PR_GET_IO_FLUSHER | p::PR_SET_IO_FLUSHER if !me.cred().capable(cap::SYS_RESOURCE) => Err(Errno::EPERM),
        p::PR_SET_IO_FLUSHER => {
            check(arg2 <= 1 && rest_is_zero)?;
            me.io_flusher.set(arg2 == 1);
            Ok(0)
        }
        p::PR_GET_IO_FLUSHER => {
            check(arg2 == 0 && rest_is_zero)?;
            Ok(i32::from(me.io_flusher.get()))
        }
        PR_TIMER_CREATE_RESTORE_IDS => {
            check(rest_is_zero)?;
            process.posix_timers.restore_ids(arg2)
        }
        p::PR_GET_SPECULATION_CTRL => {
            check(rest_is_zero)?;
            speculation(arg2)
        }
        p::PR_SET_SPECULATION_CTRL => {
            check(arg4 == 0 && arg5 == 0)?;
            speculation(arg2)?;
            if arg2 == u64::from(p::PR_SPEC_INDIRECT_BRANCH) {
                return indirect_branches(arg3);
            }
            // A thread can't change the processor's mitigations.
            Err(if arg2 == u64::from(p::PR_SPEC_L1D_FLUSH) { Errno::EPERM } else { Errno::ENXIO })
        }
        p::PR_MCE_KILL => {
            check(arg4 == 0 && arg5 == 0)?;
            let policy = memory_failure_policy(arg2, arg3)?;
            me.memory_failure_policy.set(policy as u8);
            Ok(0)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// State of a speculation mitigation: not controllable per thread. ENODEV.
fn speculation(kind: u64) -> Result<i32> {
    match u32::try_from(kind) {
        Ok(p::PR_SPEC_STORE_BYPASS | p::PR_SPEC_INDIRECT_BRANCH) => Ok(p::PR_SPEC_ENABLE as i32),
        Ok(p::PR_SPEC_L1D_FLUSH) => Ok(p::PR_SPEC_FORCE_DISABLE as i32),
        _ => Err(Errno::ENODEV),
    }
}

/// `PR_SET_SPECULATION_CTRL` of indirect branches where nothing restricts them. EPERM, ERANGE.
fn indirect_branches(control: u64) -> Result<i32> {
    match u32::try_from(control) {
        Ok(p::PR_SPEC_ENABLE) => Ok(0),
        Ok(p::PR_SPEC_DISABLE | p::PR_SPEC_FORCE_DISABLE) => Err(Errno::EPERM),
        _ => Err(Errno::ERANGE),
    }
}

/// `PR_MCE_KILL`: when a thread is told of a memory page that failed. There are no such pages in a pod, so only
/// `PR_MCE_KILL_GET` shows it. EINVAL.
fn memory_failure_policy(operation: u64, policy: u64) -> Result<u32> {
    match (u32::try_from(operation), u32::try_from(policy)) {
        (Ok(p::PR_MCE_KILL_CLEAR), Ok(0)) => Ok(p::PR_MCE_KILL_DEFAULT),
        (
            Ok(p::PR_MCE_KILL_SET),
            Ok(policy @ (p::PR_MCE_KILL_LATE | p::PR_MCE_KILL_EARLY | p::PR_MCE_KILL_DEFAULT)),
        ) => Ok(policy),
        _ => Err(Errno::EINVAL),
    }
}

/// Reads a name of at most `out.len()` bytes, which may end at the end of mapped memory.
fn read_name(at: usize, out: &mut [u8]) -> Result<()> {
    for (i, byte) in out.iter_mut().enumerate() {
        match user::read::<u8>(at.wrapping_add(i))? {
            0 => break,
            other => *byte = other,
        }
    }
    Ok(())
}

fn drop_bounding(me: &Rc<Task>, which: u64) -> Result<i32> {
    let old = me.cred();
    if !old.capable_here(cap::SETPCAP) {
        return Err(Errno::EPERM);
    }
    if which >= 64 || cap::ALL & 1 << which == 0 {
        return Err(Errno::EINVAL);
    }
    let mut new = (*old).clone();
    new.cap_bounding &= !(1 << which);
    me.set_cred(new);
    Ok(0)
}

fn ambient(me: &Rc<Task>, operation: u64, which: u64, rest_is_zero: bool) -> Result<i32> {
    let old = me.cred();
    let mut new = (*old).clone();
    if !rest_is_zero {
        return Err(Errno::EINVAL);
    }
    if operation as u32 == p::PR_CAP_AMBIENT_CLEAR_ALL {
        if which != 0 {
            return Err(Errno::EINVAL);
        }
        new.cap_ambient = 0;
        me.set_cred(new);
        return Ok(0);
    }
    if which >= 64 || cap::ALL & 1 << which == 0 {
        return Err(Errno::EINVAL);
    }
    let bit = 1 << which;
    match operation as u32 {
        p::PR_CAP_AMBIENT_IS_SET => return Ok(i32::from(old.cap_ambient & bit != 0)),
        p::PR_CAP_AMBIENT_RAISE => {
            let refused = securebits::has(me, securebits::NO_CAP_AMBIENT_RAISE);
            if refused || old.cap_permitted & old.cap_inheritable & bit == 0 {
                return Err(Errno::EPERM);
            }
            new.cap_ambient |= bit;
        }
        p::PR_CAP_AMBIENT_LOWER => new.cap_ambient &= !bit,
        _ => return Err(Errno::EINVAL),
    }
    me.set_cred(new);
    Ok(0)
}
