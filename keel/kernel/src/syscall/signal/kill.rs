//! kill(2) and its relatives.

use crate::mm::user;
use crate::signal::{SigInfo, code, send_to_process, send_to_task};
use crate::task::cred::may_signal;
use crate::task::pidfd::Target;
use crate::task::{self, Process, Task, landlock, pid, pidns, process};
use alloc::rc::Rc;
use keel_core::sigset::MAX_SIGNAL;
use uapi::raw::general as g;
use uapi::{Errno, Result};

fn check_number(signal: i32) -> Result<u32> {
    if (0..=MAX_SIGNAL as i32).contains(&signal) { Ok(signal as u32) } else { Err(Errno::EINVAL) }
}

/// Checks whether the current thread may send `signal` to `process`; returns its number. EINVAL, EPERM.
fn permit(process: &Rc<Process>, signal: i32) -> Result<u32> {
    let signal = check_number(signal)?;
    let me = task::current();
    if Rc::ptr_eq(me.process(), process) {
        return Ok(signal);
    }
    let Some(target) = process.main_thread() else {
        // Zombies have no credentials; keel itself takes no signals.
        let may = process.pid() != pid::INIT || me.cred().capable(task::cred::cap::KILL);
        return if may { Ok(signal) } else { Err(Errno::EPERM) };
    };
    if !landlock::may_signal(&me.cred(), &target) {
        return Err(Errno::EPERM);
    }
    if may_signal(&me.cred(), &target.cred()) || (signal == g::SIGCONT && process.sid() == me.process().sid()) {
        Ok(signal)
    } else {
        Err(Errno::EPERM)
    }
}

fn deliver_to(process: &Rc<Process>, signal: i32, info: SigInfo) -> Result<()> {
    let signal = permit(process, signal)?;
    if signal == 0 || process.pid() == pid::INIT { Ok(()) } else { send_to_process(process, info) }
}

fn own_info(signal: i32, code: i32) -> SigInfo {
    let me = task::current();
    SigInfo::from_process(signal as u32, code, me.pid(), me.cred().uid)
}

/// kill(2). EINVAL, EPERM, ESRCH.
pub fn sys_kill(target: i32, signal: i32) -> Result<()> {
    let info = own_info(signal, code::USER);
    let me = task::current();
    let target = pidns::named_or_group(target);
    match target {
        1.. => {
            let process = find(target).ok_or(Errno::ESRCH)?;
            deliver_to(&process, signal, info)
        }
        0 => kill_group(me.process().group(), signal, info),
        -1 => {
            let mut outcome = Err(Errno::ESRCH);
            for process in process::all() {
                let spared = Rc::ptr_eq(&process, me.process()) || process.pid() == pid::INIT;
                // Not the first process of the caller's PID namespace, and none outside.
                if !spared && pidns::here().is_none_or(|ns| ns.inward(process.pid()) > 1) {
                    match deliver_to(&process, signal, info) {
                        Err(Errno::EPERM) => {}
                        other => outcome = other,
                    }
                }
            }
            outcome
        }
        i32::MIN => Err(Errno::ESRCH),
        group => kill_group(-group, signal, info),
    }
}

/// The process with this thread group id, or with a thread of this id.
fn find(target: i32) -> Option<Rc<Process>> {
    if target == pid::INIT {
        return Some(pid::init_process());
    }
    pid::find_process(target).or_else(|| pid::find_task(target).map(|t| t.process().clone()))
}

fn kill_group(group: i32, signal: i32, info: SigInfo) -> Result<()> {
    let mut outcome = Err(Errno::ESRCH);
    for process in process::of_group(group) {
        let one = deliver_to(&process, signal, info);
        // Succeeds if one member succeeded.
        if outcome.is_err() {
            outcome = one;
        }
    }
    outcome
}

/// The thread `tid` of process `tgid`; -1: of any process.
fn find_thread(tgid: i32, tid: i32) -> Result<Rc<Task>> {
    let task = pid::find_task(tid).ok_or(Errno::ESRCH)?;
    if tgid != -1 && task.pid() != tgid {
        return Err(Errno::ESRCH);
    }
    Ok(task)
}

/// `tgid` and `tid` are ids of the first PID namespace.
fn kill_thread(tgid: i32, tid: i32, signal: i32, info: SigInfo) -> Result<()> {
    if tid == pid::INIT && matches!(tgid, -1 | pid::INIT) {
        return permit(&pid::init_process(), signal).map(|_| ());
    }
    let target = find_thread(tgid, tid)?;
    let signal = permit(target.process(), signal)?;
    if signal == 0 { Ok(()) } else { send_to_task(&target, info) }
}

/// tkill(2). EINVAL, EPERM, ESRCH.
pub fn sys_tkill(tid: i32, signal: i32) -> Result<()> {
    if tid <= 0 {
        return Err(Errno::EINVAL);
    }
    kill_thread(-1, pidns::named(tid), signal, own_info(signal, code::TKILL))
}

/// tgkill(2). EINVAL, EPERM, ESRCH.
pub fn sys_tgkill(tgid: i32, tid: i32, signal: i32) -> Result<()> {
    if tid <= 0 || tgid <= 0 {
        return Err(Errno::EINVAL);
    }
    kill_thread(pidns::named(tgid), pidns::named(tid), signal, own_info(signal, code::TKILL))
}

/// The siginfo argument; only for the caller itself it may have a kernel si_code. EPERM.
fn read_info(target: i32, signal: u32, at: usize) -> Result<SigInfo> {
    let mut info = SigInfo::default();
    user::read_bytes(at, bytemuck::bytes_of_mut(&mut info))?;
    info.signo = signal as i32;
    // Not a timer's signal, whatever its code.
    info.pad = 0;
    if (info.code >= 0 || info.code == code::TKILL) && target != task::current().pid() {
        return Err(Errno::EPERM);
    }
    Ok(info)
}

/// rt_sigqueueinfo(2). EFAULT, EAGAIN, EINVAL, EPERM, ESRCH.
pub fn sys_rt_sigqueueinfo(tgid: i32, signal: i32, info: usize) -> Result<()> {
    let tgid = pidns::named(tgid);
    let info = read_info(tgid, signal as u32, info)?;
    deliver_to(&find(tgid).ok_or(Errno::ESRCH)?, signal, info)
}

/// rt_tgsigqueueinfo(2). EFAULT, EAGAIN, EINVAL, EPERM, ESRCH.
pub fn sys_rt_tgsigqueueinfo(tgid: i32, tid: i32, signal: i32, info: usize) -> Result<()> {
    let info = read_info(pidns::named(tgid), signal as u32, info)?;
    if tid <= 0 || tgid <= 0 {
        return Err(Errno::EINVAL);
    }
    kill_thread(pidns::named(tgid), pidns::named(tid), signal, info)
}

/// pidfd_send_signal(2). EBADF, EINVAL, EPERM, ESRCH.
pub fn sys_pidfd_send_signal(pidfd: i32, signal: i32, info: usize, flags: u32) -> Result<()> {
    const THREAD: u32 = 1;
    const THREAD_GROUP: u32 = 2;
    const PROCESS_GROUP: u32 = 4;
    if flags & !(THREAD | THREAD_GROUP | PROCESS_GROUP) != 0 || flags.count_ones() > 1 {
        return Err(Errno::EINVAL);
    }
    let target = match task::pidfd::target_of(pidfd) {
        // A process's directory in /proc is accepted too.
        Err(Errno::EBADF) => {
            let file = task::current().files().get(pidfd)?;
            let id = crate::fs::proc::process_of(&file).ok_or(Errno::EBADF)?;
            let process = find(id).ok_or(Errno::ESRCH)?;
            Target { process, id, is_thread: false, is_gone: false }
        }
        other => other?,
    };
    // Its process is of a namespace that the caller does not see, as that of a message's sender may be.
    if !target.is_gone && task::pidns::shown(target.id) == 0 {
        return Err(Errno::EINVAL);
    }
    let info = match info {
        0 => own_info(signal, code::USER),
        at => {
            let mut given = SigInfo::default();
            user::read_bytes(at, bytemuck::bytes_of_mut(&mut given))?;
            if given.signo != signal {
                return Err(Errno::EINVAL);
            }
            read_info(target.id, signal as u32, at)?
        }
    };
    match flags {
        // The process group whose id is that of the process.
        PROCESS_GROUP => kill_group(target.id, signal, info),
        _ if target.is_gone => Err(Errno::ESRCH),
        THREAD => kill_thread(-1, target.id, signal, info),
        0 if target.is_thread => kill_thread(-1, target.id, signal, info),
        _ => deliver_to(&target.process, signal, info),
    }
}
