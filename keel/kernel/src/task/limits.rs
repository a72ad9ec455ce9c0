//! Resource limits; getrlimit(2).

use super::{Process, Task, cred, current, pid, pidns};
use crate::mm::{self, user};
use crate::sched::timer;
use alloc::rc::Rc;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Maximum hard limit of descriptors, `/proc/sys/fs/nr_open`.
const NR_OPEN: u64 = 1 << 20;

fn check(resource: i32) -> Result<u32> {
    if (0..g::RLIM_NLIMITS as i32).contains(&resource) { Ok(resource as u32) } else { Err(Errno::EINVAL) }
}

/// getrlimit(2). EFAULT, EINVAL.
pub fn sys_getrlimit(resource: i32, at: usize) -> Result<()> {
    let (soft, hard) = current().process().limit(check(resource)?);
    user::write(at, &[soft, hard])
}

/// setrlimit(2). EFAULT, EINVAL, EPERM.
pub fn sys_setrlimit(resource: i32, at: usize) -> Result<()> {
    let new = user::read::<[u64; 2]>(at)?;
    change(&current(), check(resource)?, new)
}

/// prlimit(2). EFAULT, EINVAL, EPERM, ESRCH.
pub fn sys_prlimit64(target: i32, resource: i32, new: usize, old: usize) -> Result<()> {
    let new = if new == 0 { None } else { Some(user::read::<[u64; 2]>(new)?) };
    let me = current();
    let task = match target {
        0 => me.clone(),
        _ => pid::find_subject(pidns::named(target))?,
    };
    if !Rc::ptr_eq(&task, &me) && !may_change(&me, &task) {
        return Err(Errno::EPERM);
    }
    let resource = check(resource)?;
    let (soft, hard) = task.process().limit(resource);
    if let Some(new) = new {
        change(&task, resource, new)?;
    }
    if old != 0 {
        user::write(old, &[soft, hard])?;
    }
    Ok(())
}

/// prlimit(2): the ids of caller and target match, or CAP_SYS_RESOURCE.
fn may_change(me: &Rc<Task>, target: &Rc<Task>) -> bool {
    let (own, other) = (me.cred(), target.cred());
    let same = [other.uid, other.euid, other.suid].iter().all(|id| *id == own.uid)
        && [other.gid, other.egid, other.sgid].iter().all(|id| *id == own.gid);
    same || own.capable_in(&other.user_ns, cred::cap::SYS_RESOURCE)
}

fn change(task: &Rc<Task>, resource: u32, [soft, hard]: [u64; 2]) -> Result<()> {
    let process = task.process();
    let (old_soft, old_hard) = process.limit(resource);
    if soft > hard {
        return Err(Errno::EINVAL);
    }
    if resource == g::RLIMIT_NOFILE && hard > NR_OPEN {
        return Err(Errno::EPERM);
    }
    if hard > old_hard && !current().cred().capable(cred::cap::SYS_RESOURCE) {
        return Err(Errno::EPERM);
    }
    process.set_limit(resource, (soft, hard));
    if resource == g::RLIMIT_CPU && (old_soft == u64::MAX) != (soft == u64::MAX) {
        timer::watch_cpu_time(soft != u64::MAX);
    }
    if matches!(resource, g::RLIMIT_STACK | g::RLIMIT_AS | g::RLIMIT_DATA)
        && let Some(mm) = task.try_mm()
    {
        mm.set_limits(of_memory(process));
    }
    Ok(())
}

/// Limits of a process on its memory.
pub(crate) fn of_memory(process: &Process) -> mm::Limits {
    mm::Limits {
        stack: process.limit(g::RLIMIT_STACK).0,
        address_space: process.limit(g::RLIMIT_AS).0,
        data: process.limit(g::RLIMIT_DATA).0,
    }
}
