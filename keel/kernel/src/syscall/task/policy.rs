//! Scheduling policies and priorities; sched(7).
//!
//! All threads share the processors fairly by their nice values. Real-time policies are stored and reported, with
//! Linux's permission checks, but do not affect scheduling.

use crate::mm::user;
use crate::sched;
use crate::task::cred::{Cred, cap, may_signal};
use crate::task::process::{self, Process};
use crate::task::{Task, current, pid, pidns};
use crate::time::write_timespec;
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::memory::push;

/// `SCHED_RESET_ON_FORK`.
const RESET_ON_FORK: u32 = 0x4000_0000;
/// Time slice of `SCHED_RR`, `kernel.sched_rr_timeslice_ms`.
const RR_SLICE_NS: u64 = 100_000_000;
/// Size of the first version of `struct sched_attr`.
const ATTR_SIZE: u32 = 48;
/// Size of the version with utilisation clamps.
const ATTR_SIZE_NEW: u32 = 56;

/// The thread to change. EPERM (keel's own process), ESRCH.
fn find(target: i32) -> Result<Rc<Task>> {
    let target = pidns::named(target);
    match target {
        0 => Ok(current()),
        pid::INIT => Err(Errno::EPERM),
        tid => pid::find_task(tid).ok_or(Errno::ESRCH),
    }
}

/// Scheduling parameters of a thread.
struct Seen {
    policy: u32,
    priority: u32,
    nice: i32,
    affinity: u64,
}

/// Scheduling parameters of a thread, or of keel's own process. ESRCH.
fn see(target: i32) -> Result<Seen> {
    if pidns::named(target) == pid::INIT {
        return Ok(Seen { policy: g::SCHED_NORMAL, priority: 0, nice: 0, affinity: u64::MAX });
    }
    let task = find(target)?;
    let (policy, priority) = task.sched.policy.get();
    Ok(Seen { policy, priority, nice: task.sched.nice.get(), affinity: task.sched.affinity.get() })
}

/// The same, for calls that reject negative ids. EINVAL, ESRCH.
fn see_positive(target: i32) -> Result<Seen> {
    if target < 0 { Err(Errno::EINVAL) } else { see(target) }
}

fn may_change(target: &Rc<Task>) -> bool {
    let (own, other) = (current().cred(), target.cred());
    own.capable_in(&other.user_ns, cap::SYS_NICE)
        || (own.euid == other.euid || own.euid == other.uid) && is_within(&own, &other)
}

/// Whether a thread has no capability that the caller lacks: how that one is scheduled only CAP_SYS_NICE lets change.
fn is_within(own: &Cred, other: &Cred) -> bool {
    other.cap_permitted & !own.cap_permitted == 0 || own.capable_in(&other.user_ns, cap::SYS_NICE)
}

/// SCHED_EXT: Linux returns its priority range even if it is not built in, and so does keel.
const SCHED_EXT: u32 = 7;

/// Lowest and highest static priority of a policy. EINVAL.
fn priorities(policy: u32) -> Result<(u32, u32)> {
    match policy {
        g::SCHED_FIFO | g::SCHED_RR => Ok((1, 99)),
        g::SCHED_NORMAL | g::SCHED_BATCH | g::SCHED_IDLE | g::SCHED_DEADLINE | SCHED_EXT => Ok((0, 0)),
        _ => Err(Errno::EINVAL),
    }
}

/// sched_get_priority_max(2). EINVAL.
pub fn sys_sched_get_priority_max(policy: i32) -> Result<u32> {
    priorities(policy as u32).map(|(_, max)| max)
}

/// sched_get_priority_min(2). EINVAL.
pub fn sys_sched_get_priority_min(policy: i32) -> Result<u32> {
    priorities(policy as u32).map(|(min, _)| min)
}

fn set_policy(target: i32, policy: Option<u32>, priority: u32) -> Result<()> {
    let task = find(target)?;
    let policy = policy.unwrap_or(task.sched.policy.get().0);
    let plain = policy & !RESET_ON_FORK;
    let (min, max) = priorities(plain)?;
    if plain == SCHED_EXT || !(min..=max).contains(&priority) {
        return Err(Errno::EINVAL);
    }
    let privileged = current().cred().capable(cap::SYS_NICE);
    if plain == g::SCHED_DEADLINE {
        return Err(if privileged { Errno::EINVAL } else { Errno::EPERM });
    }
    let real_time = max > 0;
    let limit = task.limit(g::RLIMIT_RTPRIO);
    if !may_change(&task) || (real_time && !privileged && u64::from(priority) > limit) {
        return Err(Errno::EPERM);
    }
    if task.sched.policy.get().0 & RESET_ON_FORK != 0 && policy & RESET_ON_FORK == 0 && !privileged {
        return Err(Errno::EPERM);
    }
    task.sched.policy.set((policy, priority));
    if real_time {
        task.timer_slack_ns.set(0);
    } else if task.timer_slack_ns.get() == 0 {
        task.set_timer_slack(0);
    }
    Ok(())
}

/// sched_setscheduler(2). EFAULT, EINVAL, EPERM, ESRCH.
pub fn sys_sched_setscheduler(target: i32, policy: i32, param: usize) -> Result<()> {
    if policy < 0 || target < 0 || param == 0 {
        return Err(Errno::EINVAL);
    }
    let priority = user::read::<u32>(param)?;
    set_policy(target, Some(policy as u32), priority)
}

/// sched_setparam(2). EFAULT, EINVAL, EPERM, ESRCH.
pub fn sys_sched_setparam(target: i32, param: usize) -> Result<()> {
    if target < 0 || param == 0 {
        return Err(Errno::EINVAL);
    }
    let priority = user::read::<u32>(param)?;
    set_policy(target, None, priority)
}

/// sched_getscheduler(2). EINVAL, ESRCH.
pub fn sys_sched_getscheduler(target: i32) -> Result<u32> {
    Ok(see_positive(target)?.policy)
}

/// sched_getparam(2). EFAULT, EINVAL, ESRCH.
pub fn sys_sched_getparam(target: i32, param: usize) -> Result<()> {
    if param == 0 {
        return Err(Errno::EINVAL);
    }
    let priority = see_positive(target)?.priority;
    user::write(param, &priority)
}

/// sched_rr_get_interval(2). EFAULT, EINVAL, ESRCH.
pub fn sys_sched_rr_get_interval(target: i32, at: usize) -> Result<()> {
    let policy = see_positive(target)?.policy;
    write_timespec(
        at,
        match policy & !RESET_ON_FORK {
            g::SCHED_FIFO => 0,
            g::SCHED_RR => RR_SLICE_NS,
            _ => sched::slice_ns(),
        },
    )
}

/// sched_setattr(2). E2BIG, EFAULT, EINVAL, EPERM, ESRCH.
pub fn sys_sched_setattr(target: i32, attr: usize, flags: u32) -> Result<()> {
    if attr == 0 || target < 0 || flags != 0 {
        return Err(Errno::EINVAL);
    }
    let size = user::read::<u32>(attr)?;
    if size != 0 && !(ATTR_SIZE..=ATTR_SIZE_NEW).contains(&size) {
        user::write(attr, &ATTR_SIZE_NEW)?;
        return Err(Errno::E2BIG);
    }
    const RESET: u64 = 1;
    const KEEP_POLICY: u64 = 8;
    const KEEP_PARAMETERS: u64 = 0x10;
    const CLAMPS: u64 = 0x60;
    const KNOWN: u64 = 0x7f;
    // size, policy; flags; nice, priority.
    let [_, policy] = user::read::<[u32; 2]>(attr)?;
    let how: u64 = user::read(attr.wrapping_add(8))?;
    let [nice, priority] = user::read::<[u32; 2]>(attr.wrapping_add(16))?;
    if (policy as i32) < 0 || how & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    if how & CLAMPS != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let (old, old_priority) = find(target)?.sched.policy.get();
    let keeps = how & KEEP_PARAMETERS != 0;
    let policy = if how & KEEP_POLICY != 0 { old & !RESET_ON_FORK } else { policy };
    let reset = if how & RESET != 0 { RESET_ON_FORK } else { 0 };
    set_policy(target, Some(policy | reset), if keeps { old_priority } else { priority })?;
    if !keeps && matches!(policy, g::SCHED_NORMAL | g::SCHED_BATCH) {
        set_nice(&find(target)?, nice as i32).map_err(|_| Errno::EPERM)?;
    }
    Ok(())
}

/// sched_getattr(2). EFAULT, EINVAL, ESRCH.
pub fn sys_sched_getattr(target: i32, attr: usize, size: u32, flags: u32) -> Result<()> {
    if attr == 0 || target < 0 || flags != 0 || size < ATTR_SIZE || size as usize > abi::layout::PAGE_SIZE {
        return Err(Errno::EINVAL);
    }
    let Seen { policy, priority, nice, .. } = see(target)?;
    let used = size.min(ATTR_SIZE_NEW);
    let mut words = [0u32; ATTR_SIZE_NEW as usize / 4];
    words[0] = used;
    words[1] = policy & !RESET_ON_FORK;
    words[2] = u32::from(policy & RESET_ON_FORK != 0);
    words[4] = nice as u32;
    words[5] = priority;
    user::write_bytes(attr, &bytemuck::cast_slice::<u32, u8>(&words)[..used as usize])
}

fn cpus() -> u32 {
    hal::boot::boot_info().cpus.clamp(1, 64)
}

/// sched_setaffinity(2). EFAULT, EINVAL, EPERM, ESRCH.
pub fn sys_sched_setaffinity(target: i32, len: u32, at: usize) -> Result<()> {
    let mut mask = [0u8; 8];
    let n = (len as usize).min(mask.len());
    user::read_bytes(at, &mut mask[..n])?;
    let task = find(target)?;
    if !may_change(&task) {
        return Err(Errno::EPERM);
    }
    let mask = u64::from_le_bytes(mask) & (u64::MAX >> (64 - cpus()));
    if mask == 0 {
        return Err(Errno::EINVAL);
    }
    sched::set_affinity(&task.sched, mask);
    Ok(())
}

/// sched_getaffinity(2): bytes written. EFAULT, EINVAL, ESRCH.
pub fn sys_sched_getaffinity(target: i32, len: u32, at: usize) -> Result<usize> {
    if len.saturating_mul(8) < cpus() || !len.is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let mask = see(target)?.affinity & (u64::MAX >> (64 - cpus()));
    user::write(at, &mask)?;
    Ok(8)
}

/// The processes that getpriority and setpriority select. EINVAL, ENOMEM, ESRCH.
fn chosen(which: i32, who: i32) -> Result<Vec<Rc<Task>>> {
    let me = current();
    let mut found = Vec::new();
    let mut add = |process: Rc<Process>, wants: &dyn Fn(&Task) -> bool| {
        process.threads().filter(|task| wants(task)).try_for_each(|task| push(&mut found, task))
    };
    match which as u32 {
        g::PRIO_PROCESS => found.extend(if who == 0 { Some(me) } else { pid::find_task(pidns::named(who)) }),
        g::PRIO_PGRP => {
            let group = if who == 0 { me.process().group() } else { pidns::named(who) };
            process::of_group(group).try_for_each(|process| add(process, &|_| true))?;
        }
        g::PRIO_USER => {
            let uid = if who == 0 { me.cred().uid } else { who as u32 };
            let seen = process::all().filter(|process| pidns::sees(process.pid()));
            seen.into_iter().try_for_each(|process| add(process, &|task| task.cred().uid == uid))?;
        }
        _ => return Err(Errno::EINVAL),
    }
    if found.is_empty() { Err(Errno::ESRCH) } else { Ok(found) }
}

/// getpriority(2): 20 minus the nice value, 1 to 40. EINVAL, ESRCH.
pub fn sys_getpriority(which: i32, who: i32) -> Result<i32> {
    if which as u32 == g::PRIO_PROCESS && pidns::named(who) == pid::INIT {
        return Ok(20 - see(who)?.nice);
    }
    let found = chosen(which, who)?;
    Ok(found.iter().map(|t| 20 - t.sched.nice.get()).max().unwrap_or(20))
}

fn set_nice(task: &Rc<Task>, nice: i32) -> Result<()> {
    let nice = nice.clamp(-20, 19);
    let lowest = 20 - task.limit(g::RLIMIT_NICE).min(40) as i32;
    if nice < task.sched.nice.get() && nice < lowest && !current().cred().capable(cap::SYS_NICE) {
        return Err(Errno::EACCES);
    }
    if !is_within(&current().cred(), &task.cred()) {
        return Err(Errno::EPERM);
    }
    task.sched.nice.set(nice);
    Ok(())
}

/// setpriority(2). EACCES, EINVAL, EPERM, ESRCH.
pub fn sys_setpriority(which: i32, who: i32, nice: i32) -> Result<()> {
    if which as u32 == g::PRIO_PROCESS && pidns::named(who) == pid::INIT {
        return Err(Errno::EPERM);
    }
    let own = current().cred();
    let mut outcome = Err(Errno::ESRCH);
    for task in chosen(which, who)? {
        let other = task.cred();
        let may = own.capable_in(&other.user_ns, cap::SYS_NICE) || own.euid == other.euid || own.euid == other.uid;
        let one = if may { set_nice(&task, nice) } else { Err(Errno::EPERM) };
        if outcome == Err(Errno::ESRCH) || one.is_err() {
            outcome = one;
        }
    }
    outcome
}

/// `IOPRIO_WHO_PROCESS`.
const IO_PROCESS: i32 = 1;

/// ioprio_get(2). EINVAL, EPERM, ESRCH.
pub fn sys_ioprio_get(which: i32, who: i32) -> Result<i32> {
    if which == IO_PROCESS && pidns::named(who) == pid::INIT {
        return Ok(0);
    }
    Ok(io_chosen(which, who)?.iter().map(|t| t.io_priority.get()).min().unwrap_or(0))
}

/// ioprio_set(2): stored; the host schedules the I/O. EINVAL, EPERM, ESRCH.
pub fn sys_ioprio_set(which: i32, who: i32, priority: i32) -> Result<()> {
    const CLASS_SHIFT: i32 = 13;
    const REAL_TIME: i32 = 1;
    let (class, level) = (priority >> CLASS_SHIFT & 7, priority & 7);
    match class {
        REAL_TIME if !current().cred().capable(cap::SYS_ADMIN) => return Err(Errno::EPERM),
        0 if level != 0 => return Err(Errno::EINVAL),
        0..=3 => {}
        _ => return Err(Errno::EINVAL),
    }
    if which == IO_PROCESS && pidns::named(who) == pid::INIT {
        return Err(Errno::EPERM);
    }
    for task in io_chosen(which, who)? {
        let (own, other) = (current().cred(), task.cred());
        if !may_signal(&own, &other) || !is_within(&own, &other) {
            return Err(Errno::EPERM);
        }
        task.io_priority.set(priority);
    }
    Ok(())
}

fn io_chosen(which: i32, who: i32) -> Result<Vec<Rc<Task>>> {
    // IOPRIO_WHO_PROCESS, _PGRP, _USER are 1 to 3, one more than the others.
    if (1..=3).contains(&which) { chosen(which - 1, who) } else { Err(Errno::EINVAL) }
}
