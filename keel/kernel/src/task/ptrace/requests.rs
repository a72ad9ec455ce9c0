//! The requests of ptrace(2).

use super::registers::{self, peek_user, poke_user, register_set, set_registers};
use super::stops::{call_info, listen};
use super::{OPTIONS, attach, detach, resume};
use crate::mm::user;
use crate::signal::{SigInfo, UNBLOCKABLE, send, send_to_task};
use crate::task::{Task, access, current, pid, pidns};
use alloc::rc::Rc;
use keel_core::sigset::{MAX_SIGNAL, SigSet};
use uapi::raw::general as g;
use uapi::{Errno, Result};

const TRACEME: u64 = 0;
const PEEKTEXT: u64 = 1;
const PEEKDATA: u64 = 2;
const PEEKUSER: u64 = 3;
const POKETEXT: u64 = 4;
const POKEDATA: u64 = 5;
const POKEUSER: u64 = 6;
const CONT: u64 = 7;
const KILL: u64 = 8;
const SINGLESTEP: u64 = 9;
const GETREGS: u64 = 12;
const SETREGS: u64 = 13;
const GETFPREGS: u64 = 14;
const SETFPREGS: u64 = 15;
const ATTACH: u64 = 16;
const DETACH: u64 = 17;
const SYSCALL: u64 = 24;
const ARCH_PRCTL: u64 = 30;
/// Codes of arch_prctl(2).
const ARCH_GET_FS: usize = 0x1003;
const ARCH_GET_GS: usize = 0x1004;
const SETOPTIONS: u64 = 0x4200;
const GETEVENTMSG: u64 = 0x4201;
const GETSIGINFO: u64 = 0x4202;
const SETSIGINFO: u64 = 0x4203;
const GETREGSET: u64 = 0x4204;
const SETREGSET: u64 = 0x4205;
const SEIZE: u64 = 0x4206;
const INTERRUPT: u64 = 0x4207;
const LISTEN: u64 = 0x4208;
const GETSIGMASK: u64 = 0x420a;
const SETSIGMASK: u64 = 0x420b;
const GET_SYSCALL_INFO: u64 = 0x420e;
const GET_RSEQ_CONFIGURATION: u64 = 0x420f;

/// ptrace(2). EBUSY, EFAULT, EINVAL, EIO, EPERM, ESRCH.
pub fn sys_ptrace(request: u64, target: i32, address: usize, data: usize) -> Result<usize> {
    let me = current();
    if request == TRACEME {
        let parent = me.process().parent().ok_or(Errno::EPERM)?;
        // keel, the parent of the first program and of orphans, would never resume a tracee.
        if me.traced.is_attached() || parent.pid() == pid::INIT {
            return Err(Errno::EPERM);
        }
        attach(&me, &parent, 0, false);
        return Ok(0);
    }
    let target = pidns::named(target);
    if target == pid::INIT && matches!(request, ATTACH | SEIZE) {
        return Err(Errno::EPERM);
    }
    let task = pid::find_task(target).ok_or(Errno::ESRCH)?;
    if matches!(request, ATTACH | SEIZE) {
        return start(&me, &task, request == SEIZE, address, data);
    }
    let is_ours = task.traced.inner.borrow().tracer.upgrade().is_some_and(|tracer| Rc::ptr_eq(&tracer, me.process()));
    if !is_ours {
        return Err(Errno::ESRCH);
    }
    match request {
        KILL => send::kill_all(task.process(), g::SIGKILL as i32),
        INTERRUPT => {
            if !task.traced.inner.borrow().seized {
                return Err(Errno::EIO);
            }
            if !task.traced.is_stopped() {
                task.traced.interrupted.set(true);
                send::tell(&task);
            }
        }
        _ if !task.traced.is_stopped() => return Err(Errno::ESRCH),
        _ => return of_stopped(&task, request, address, data),
    }
    Ok(0)
}

fn start(me: &Rc<Task>, task: &Rc<Task>, seize: bool, address: usize, options: usize) -> Result<usize> {
    if seize && (address != 0 || options & !(OPTIONS as usize) != 0) {
        return Err(Errno::EIO);
    }
    if Rc::ptr_eq(me.process(), task.process())
        || task.traced.is_attached()
        || !access::may_look(task, access::Ids::Real)
    {
        return Err(Errno::EPERM);
    }
    attach(task, me.process(), if seize { options as u32 } else { 0 }, seize);
    if task.process().signals.stopped_by.get() != 0 {
        // It enters a ptrace stop instead.
        crate::sched::resume(&task.sched);
    }
    if !seize {
        let _ = send_to_task(task, SigInfo::from_kernel(g::SIGSTOP));
    }
    Ok(0)
}

/// Signal number of a request that resumes a thread. EIO.
fn signal_of(data: usize) -> Result<i32> {
    if data <= MAX_SIGNAL as usize { Ok(data as i32) } else { Err(Errno::EIO) }
}

fn of_stopped(task: &Rc<Task>, request: u64, address: usize, data: usize) -> Result<usize> {
    match request {
        PEEKTEXT | PEEKDATA => {
            let mut word = [0; 8];
            let mm = task.try_mm().ok_or(Errno::EIO)?;
            if mm.peek(address, &mut word) < word.len() {
                return Err(Errno::EIO);
            }
            user::write(data, &word)?;
        }
        POKETEXT | POKEDATA => {
            let mm = task.try_mm().ok_or(Errno::EIO)?;
            if mm.poke_forced(address, &(data as u64).to_le_bytes()) < size_of::<u64>() {
                return Err(Errno::EIO);
            }
        }
        PEEKUSER => {
            let word = task.traced.with_stop(|stop| peek_user(stop, address))??;
            user::write(data, &word)?;
        }
        POKEUSER => task.traced.with_stop(|stop| poke_user(stop, address, data as u64))??,
        GETREGS => {
            let registers = task.traced.with_stop(|stop| stop.registers)?;
            user::write(data, &registers)?;
        }
        SETREGS => set_registers(task, user::read(data)?)?,
        GETFPREGS => user::write_bytes(data, &registers::legacy(task)?)?,
        SETFPREGS => {
            let mut bytes = [0; registers::LEGACY_LEN];
            user::read_bytes(data, &mut bytes)?;
            registers::set_legacy(task, &bytes)?;
        }
        ARCH_PRCTL => match data {
            ARCH_GET_FS => user::write(address, &task.thread.fs_base())?,
            ARCH_GET_GS => user::write(address, &0u64)?,
            _ => return Err(Errno::EINVAL),
        },
        GETREGSET | SETREGSET => register_set(task, request == SETREGSET, address, data)?,
        SETOPTIONS => {
            if data & !(OPTIONS as usize) != 0 {
                return Err(Errno::EINVAL);
            }
            task.traced.inner.borrow_mut().options = data as u32;
        }
        GETEVENTMSG => {
            let message = task.traced.with_stop(|stop| stop.message)?;
            user::write(data, &message)?;
        }
        GETSIGINFO => {
            let info = task.traced.with_stop(|stop| stop.info)?;
            user::write_bytes(data, bytemuck::bytes_of(&info))?;
        }
        SETSIGINFO => {
            let mut info = SigInfo::default();
            user::read_bytes(data, bytemuck::bytes_of_mut(&mut info))?;
            task.traced.with_stop(|stop| stop.info = info)?;
        }
        GETSIGMASK => {
            if address != 8 {
                return Err(Errno::EINVAL);
            }
            user::write(data, &task.signals.blocked().0)?;
        }
        SETSIGMASK => {
            if address != 8 {
                return Err(Errno::EINVAL);
            }
            task.set_blocked(SigSet(user::read(data)?).without(UNBLOCKABLE));
        }
        GET_RSEQ_CONFIGURATION => {
            let (area, len, signature) = task.rseq.configuration();
            let words = [area as u64, u64::from(len) | u64::from(signature) << 32, 0];
            let bytes: &[u8] = bytemuck::cast_slice(&words);
            user::write_bytes(data, &bytes[..bytes.len().min(address)])?;
            return Ok(bytes.len());
        }
        GET_SYSCALL_INFO => {
            let (info, len) = task.traced.with_stop(|stop| call_info(stop))?;
            let bytes: &[u8] = bytemuck::cast_slice(&info);
            user::write_bytes(data, &bytes[..len.min(address)])?;
            return Ok(len);
        }
        LISTEN => {
            if !task.traced.inner.borrow().seized {
                return Err(Errno::EIO);
            }
            listen(task)?;
        }
        CONT | SYSCALL | SINGLESTEP => {
            let signal = signal_of(data)?;
            if request == SINGLESTEP {
                task.try_mm().ok_or(Errno::EIO)?.show_plain_text();
            }
            task.traced.stepping.set(request == SINGLESTEP);
            task.traced.inner.borrow_mut().calls = request == SYSCALL;
            resume(task, signal);
        }
        DETACH => detach(task, signal_of(data)?),
        _ => return Err(Errno::EIO),
    }
    Ok(0)
}
