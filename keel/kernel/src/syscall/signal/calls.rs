//! Calls on a thread's own signals: actions, masks, waits, the alternate stack.

use crate::mm::user;
use crate::sched::wait::{self, Interrupt};
use crate::signal::pending;
use crate::signal::{AltStack, SigAction, UNBLOCKABLE};
use crate::task::{self, Task};
use crate::time;
use alloc::rc::Rc;
use hal::trap::TrapFrame;
use keel_core::sigset::{MAX_SIGNAL, SigSet};
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Bytes of a signal set in the ABI.
const SET_SIZE: usize = 8;
/// `SA_RESTORER`, x86: the restorer field is valid.
const SA_RESTORER: u64 = 0x0400_0000;
/// Flags that Linux supports; others are cleared (SA_UNSUPPORTED protocol of sigaction(2)).
const KNOWN_FLAGS: u64 = g::SA_NOCLDSTOP as u64
    | g::SA_NOCLDWAIT as u64
    | g::SA_SIGINFO as u64
    | g::SA_EXPOSE_TAGBITS as u64
    | g::SA_ONSTACK as u64
    | g::SA_RESTART as u64
    | g::SA_NODEFER as u64
    | g::SA_RESETHAND as u64
    | SA_RESTORER;
/// `MINSIGSTKSZ` of the ABI.
const MIN_STACK: usize = 2048;

/// rt_sigaction(2). EINVAL, EFAULT.
pub fn sys_rt_sigaction(signal: i32, new: usize, old: usize, set_size: usize) -> Result<()> {
    if set_size != SET_SIZE {
        return Err(Errno::EINVAL);
    }
    let action = match new {
        0 => None,
        at => {
            let [handler, flags, restorer, mask] = user::read::<[u64; 4]>(at)?;
            Some(SigAction {
                handler: handler as usize,
                flags: flags & KNOWN_FLAGS,
                restorer: restorer as usize,
                mask: SigSet(mask).without(UNBLOCKABLE),
            })
        }
    };
    let number = signal as u32;
    if !(1..=MAX_SIGNAL).contains(&number) || (action.is_some() && UNBLOCKABLE.has(number)) {
        return Err(Errno::EINVAL);
    }
    let task = task::current();
    let actions = task.signals.actions();
    let before = actions.get(number);
    if let Some(action) = action {
        actions.set(number, action);
        pending::action_changed(task.process(), &actions, number, &before);
    }
    if old != 0 {
        let words = [before.handler as u64, before.flags, before.restorer as u64, before.mask.0];
        user::write(old, &words)?;
    }
    Ok(())
}

/// rt_sigprocmask(2). EINVAL, EFAULT.
pub fn sys_rt_sigprocmask(how: i32, set: usize, old: usize, set_size: usize) -> Result<()> {
    if set_size != SET_SIZE {
        return Err(Errno::EINVAL);
    }
    let task = task::current();
    let before = task.signals.blocked.get();
    if set != 0 {
        let set = SigSet(user::read::<u64>(set)?);
        let mask = match how as u32 {
            g::SIG_BLOCK => before.union(set),
            g::SIG_UNBLOCK => before.without(set),
            g::SIG_SETMASK => set,
            _ => return Err(Errno::EINVAL),
        };
        task.set_blocked(mask);
    }
    if old != 0 {
        user::write(old, &before.0)?;
    }
    Ok(())
}

/// rt_sigpending(2): blocked signals that are pending. EINVAL, EFAULT.
pub fn sys_rt_sigpending(set: usize, set_size: usize) -> Result<()> {
    if set_size > SET_SIZE {
        return Err(Errno::EINVAL);
    }
    let task = task::current();
    let pending = task.signals.pending().union(task.process().signals.pending());
    let bytes = pending.intersection(task.signals.blocked.get()).0.to_ne_bytes();
    user::write_bytes(set, &bytes[..set_size])
}

/// rt_sigsuspend(2). Always fails: EINTR after a handler; EINVAL, EFAULT.
pub fn sys_rt_sigsuspend(set: usize, set_size: usize) -> Result<()> {
    if set_size != SET_SIZE {
        return Err(Errno::EINVAL);
    }
    let mask = SigSet(user::read::<u64>(set)?);
    task::current().set_mask_for_call(mask);
    pause()
}

/// pause(2). Always fails: EINTR after a handler.
pub fn sys_pause() -> Result<()> {
    pause()
}

fn pause() -> Result<()> {
    wait::park(None, Interrupt::BySignal, || None::<()>).map_err(|_| Errno::ERESTARTNOHAND)
}

/// rt_sigtimedwait(2): takes a signal of the set. EAGAIN at the timeout, EINTR, EINVAL, EFAULT.
pub fn sys_rt_sigtimedwait(set: usize, info: usize, timeout: usize, set_size: usize) -> Result<i32> {
    if set_size != SET_SIZE {
        return Err(Errno::EINVAL);
    }
    let wanted = SigSet(user::read::<u64>(set)?).without(UNBLOCKABLE);
    let deadline = match timeout {
        0 => None,
        at => Some(time::deadline_after(time::read_timespec(at)?)),
    };
    let task = task::current();
    let mut found = pending::take(&task, wanted);
    if found.is_none() && deadline.is_none_or(|d| d > hal::clock::monotonic_ns()) {
        // Unblock the set meanwhile, so that its signals are directed to and wake this thread.
        let blocked = task.signals.blocked.get();
        task.signals.awaited.set(blocked.intersection(wanted));
        task.set_blocked(blocked.without(wanted));
        let outcome = wait::park(deadline, Interrupt::BySignal, || pending::take(&task, wanted));
        task.set_blocked(blocked);
        task.signals.awaited.set(SigSet::EMPTY);
        found = match outcome {
            Ok(info) => Some(info),
            Err(Errno::ETIMEDOUT) => None,
            // A signal of the set may have ended the wait.
            Err(_) => Some(pending::take(&task, wanted).ok_or(Errno::EINTR)?),
        };
    }
    let taken = found.ok_or(Errno::EAGAIN)?;
    if info != 0 {
        user::write_bytes(info, bytemuck::bytes_of(&taken))?;
    }
    Ok(taken.signo)
}

/// sigaltstack(2). EFAULT, EINVAL, ENOMEM, EPERM.
pub fn sys_sigaltstack(frame: &mut TrapFrame, new: usize, old: usize) -> Result<()> {
    let task = task::current();
    let before = task.signals.alt_stack.get();
    if new != 0 {
        let [sp, flags, size] = user::read::<[u64; 3]>(new)?;
        set_alt_stack(
            &task,
            AltStack { sp: sp as usize, flags: flags as u32, size: size as usize },
            frame.stack_pointer(),
        )?;
    }
    if old != 0 {
        let state = match () {
            () if before.size == 0 => g::SS_DISABLE,
            () if before.holds(frame.stack_pointer()) => g::SS_ONSTACK,
            () => 0,
        };
        let flags = state | before.flags & g::SS_AUTODISARM;
        user::write(old, &[before.sp as u64, u64::from(flags), before.size as u64])?;
    }
    Ok(())
}

/// Sets the alternate stack of a thread whose stack pointer is `sp`. EPERM, EINVAL, ENOMEM.
pub(crate) fn set_alt_stack(task: &Rc<Task>, alt: AltStack, sp: u64) -> Result<()> {
    if task.signals.alt_stack.get().size != 0 && task.signals.alt_stack.get().holds(sp) {
        return Err(Errno::EPERM);
    }
    let mode = alt.flags & !g::SS_AUTODISARM;
    let set = match mode {
        g::SS_DISABLE => AltStack { sp: 0, flags: alt.flags, size: 0 },
        0 | g::SS_ONSTACK if alt.size < MIN_STACK => return Err(Errno::ENOMEM),
        0 | g::SS_ONSTACK => alt,
        _ => return Err(Errno::EINVAL),
    };
    task.signals.alt_stack.set(AltStack { flags: set.flags & g::SS_AUTODISARM | set.flags & g::SS_DISABLE, ..set });
    Ok(())
}
