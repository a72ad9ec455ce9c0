//! The requests of ptrace(2).

use super::{OPTIONS, Stop, attach, call_info, detach, resume};
use crate::mm::user;
use crate::signal::{SigInfo, send, send_to_task};
use crate::task::{Task, current, pid, prctl};
use alloc::rc::Rc;
use keel_core::sigset::MAX_SIGNAL;
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
const GETREGS: u64 = 12;
const SETREGS: u64 = 13;
const ATTACH: u64 = 16;
const DETACH: u64 = 17;
const SYSCALL: u64 = 24;
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
const GET_SYSCALL_INFO: u64 = 0x420e;

/// Register set of the general registers, and its size in bytes.
const NT_PRSTATUS: usize = 1;
const REGISTERS_LEN: usize = size_of::<super::Registers>();

/// ptrace(2). EBUSY, EFAULT, EINVAL, EIO, EPERM, ESRCH.
pub fn sys_ptrace(request: u64, target: i32, address: usize, data: usize) -> Result<usize> {
    let me = current();
    if request == TRACEME {
        let parent = me.process().parent().ok_or(Errno::EPERM)?;
        // Keel, as the parent of the first program and of orphans, would never let anybody go on.
        if me.traced.is_attached() || parent.pid() == pid::INIT {
            return Err(Errno::EPERM);
        }
        attach(&me, &parent, 0, false);
        return Ok(0);
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
    if Rc::ptr_eq(me.process(), task.process()) || task.traced.is_attached() || !prctl::may_inspect(task) {
        return Err(Errno::EPERM);
    }
    attach(task, me.process(), if seize { options as u32 } else { 0 }, seize);
    if !seize {
        let _ = send_to_task(task, SigInfo::from_kernel(g::SIGSTOP));
    }
    Ok(0)
}

/// Signal number of a request that lets a thread go on. EIO.
fn signal_of(data: usize) -> Result<i32> {
    if data <= MAX_SIGNAL as usize { Ok(data as i32) } else { Err(Errno::EIO) }
}

fn with_stop<R>(task: &Task, f: impl FnOnce(&mut Stop) -> R) -> Result<R> {
    task.traced.inner.borrow_mut().stop.as_mut().map(f).ok_or(Errno::ESRCH)
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
            if mm.poke(address, &(data as u64).to_le_bytes()) < size_of::<u64>() {
                return Err(Errno::EIO);
            }
        }
        PEEKUSER => {
            let word = with_stop(task, |stop| peek_user(stop, address))??;
            user::write(data, &word)?;
        }
        POKEUSER => with_stop(task, |stop| {
            let register =
                stop.registers.get_mut(address / 8).filter(|_| address.is_multiple_of(8)).ok_or(Errno::EIO)?;
            *register = data as u64;
            stop.changed = true;
            Ok(())
        })??,
        GETREGS => {
            let registers = with_stop(task, |stop| stop.registers)?;
            user::write(data, &registers)?;
        }
        SETREGS => set_registers(task, user::read(data)?)?,
        GETREGSET | SETREGSET => register_set(task, request == SETREGSET, address, data)?,
        SETOPTIONS => {
            if data & !(OPTIONS as usize) != 0 {
                return Err(Errno::EINVAL);
            }
            task.traced.inner.borrow_mut().options = data as u32;
        }
        GETEVENTMSG => {
            let message = with_stop(task, |stop| stop.message)?;
            user::write(data, &message)?;
        }
        GETSIGINFO => {
            let info = with_stop(task, |stop| stop.info)?;
            user::write_bytes(data, bytemuck::bytes_of(&info))?;
        }
        SETSIGINFO => {
            let mut info = SigInfo::default();
            user::read_bytes(data, bytemuck::bytes_of_mut(&mut info))?;
            with_stop(task, |stop| stop.info = info)?;
        }
        GETSIGMASK => {
            if address != 8 {
                return Err(Errno::EINVAL);
            }
            user::write(data, &task.signals.blocked().0)?;
        }
        GET_SYSCALL_INFO => {
            let (info, len) = with_stop(task, |stop| call_info(stop))?;
            let bytes: &[u8] = bytemuck::cast_slice(&info);
            user::write_bytes(data, &bytes[..len.min(address)])?;
            return Ok(len);
        }
        LISTEN => {
            if !task.traced.inner.borrow().seized {
                return Err(Errno::EIO);
            }
            with_stop(task, |stop| stop.listens = true)?;
        }
        CONT | SYSCALL => {
            let signal = signal_of(data)?;
            task.traced.inner.borrow_mut().calls = request == SYSCALL;
            resume(task, signal);
        }
        DETACH => detach(task, signal_of(data)?),
        _ => return Err(Errno::EIO),
    }
    Ok(0)
}

/// A word of `struct user`: the registers come first, the rest is not kept.
fn peek_user(stop: &Stop, offset: usize) -> Result<u64> {
    const USER_LEN: usize = 912;
    if !offset.is_multiple_of(8) || offset >= USER_LEN {
        return Err(Errno::EIO);
    }
    Ok(stop.registers.get(offset / 8).copied().unwrap_or(0))
}

fn set_registers(task: &Rc<Task>, registers: super::Registers) -> Result<()> {
    with_stop(task, |stop| {
        stop.registers = registers;
        stop.changed = true;
    })
}

/// `PTRACE_GETREGSET` and `SETREGSET` of the general registers. EFAULT, EINVAL.
fn register_set(task: &Rc<Task>, set: bool, kind: usize, vector: usize) -> Result<()> {
    let [base, len]: [usize; 2] = user::read(vector)?;
    if kind != NT_PRSTATUS || !len.is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let len = len.min(REGISTERS_LEN);
    let mut registers = with_stop(task, |stop| stop.registers)?;
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut registers);
    if set {
        user::read_bytes(base, &mut bytes[..len])?;
        set_registers(task, registers)?;
    } else {
        user::write_bytes(base, &bytes[..len])?;
    }
    user::write(vector.wrapping_add(8), &len)
}
