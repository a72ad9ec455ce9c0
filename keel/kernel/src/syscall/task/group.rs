//! Process groups and sessions; setpgid(2), setsid(2).

use crate::task::pidns::{named, shown};
use crate::task::process::{self, Session};
use crate::task::{current, pid, reap, with_current};
use alloc::rc::Rc;
use uapi::{Errno, Result};

/// getpgrp(2).
pub fn sys_getpgrp() -> i32 {
    shown(with_current(|t| t.process().group()))
}

/// getpgid(2). ESRCH.
pub fn sys_getpgid(target: i32) -> Result<i32> {
    if target == 0 {
        return Ok(sys_getpgrp());
    }
    Ok(shown(find(target)?.group()))
}

/// getsid(2). ESRCH.
pub fn sys_getsid(target: i32) -> Result<i32> {
    if target == 0 {
        return Ok(shown(with_current(|t| t.process().sid())));
    }
    Ok(shown(find(target)?.sid()))
}

fn find(target: i32) -> Result<Rc<process::Process>> {
    let target = named(target);
    if target == pid::INIT {
        return Ok(pid::init_process());
    }
    pid::find_process(target).or_else(|| pid::find_task(target).map(|t| t.process().clone())).ok_or(Errno::ESRCH)
}

/// setpgid(2). EACCES, EINVAL, EPERM, ESRCH.
pub fn sys_setpgid(target: i32, group: i32) -> Result<()> {
    let me = current();
    let own = me.process();
    let target = if target == 0 { own.pid() } else { named(target) };
    let group = if group == 0 { target } else { named(group) };
    if group < 0 {
        return Err(Errno::EINVAL);
    }
    let process = if target == own.pid() {
        own.clone()
    } else {
        if pid::find_task(target).is_some_and(|t| !t.is_leader()) {
            return Err(Errno::EINVAL);
        }
        let child = reap::child_of(own, target).ok_or(Errno::ESRCH)?;
        if child.sid() != own.sid() {
            return Err(Errno::EPERM);
        }
        if child.did_exec.get() {
            return Err(Errno::EACCES);
        }
        child
    };
    if process.sid() == process.pid() {
        return Err(Errno::EPERM);
    }
    if group != process.pid() && !process::of_group(group).any(|p| p.sid() == own.sid()) {
        return Err(Errno::EPERM);
    }
    process.set_group(group);
    Ok(())
}

/// setsid(2). EPERM.
pub fn sys_setsid() -> Result<i32> {
    let me = current();
    let own = me.process();
    let leads = own.sid() == own.pid() || process::of_group(own.pid()).next().is_some();
    if leads {
        return Err(Errno::EPERM);
    }
    own.set_session(Session::new(own.pid()));
    own.set_group(own.pid());
    Ok(own.own_pid())
}
