//! Ids of threads and processes, and other short calls.

use crate::file::epoll;
use crate::fs::proc::namespaces::of_file;
use crate::mm::user;
use crate::sched;
use crate::syscall::mm::calls::READ_IMPLIES_EXEC;
use crate::task::pidns::named;
use crate::task::{access, current, pid, with_current};
use crate::task::{namespaces, pidfd};
use alloc::vec;
use uapi::{Errno, Result};

/// getpid(2).
pub fn sys_getpid() -> i32 {
    with_current(|t| t.process().own_pid())
}

/// gettid(2).
pub fn sys_gettid() -> i32 {
    with_current(|t| t.own_tid())
}

/// getppid(2).
pub fn sys_getppid() -> i32 {
    with_current(|t| t.process().own_ppid())
}

/// set_tid_address(2).
pub fn sys_set_tid_address(at: usize) -> i32 {
    with_current(|t| {
        t.clear_tid.set(at);
        t.own_tid()
    })
}

/// sched_yield(2).
pub fn sys_sched_yield() {
    sched::poll_events();
    sched::yield_now();
}

/// getcpu(2). EFAULT.
pub fn sys_getcpu(cpu: usize, node: usize, _cache: usize) -> Result<()> {
    if cpu != 0 {
        user::write(cpu, &(hal::percpu::cpu_index() as u32))?;
    }
    if node != 0 {
        user::write(node, &0u32)?;
    }
    Ok(())
}

/// personality(2).
pub fn sys_personality(persona: u32) -> u32 {
    const READ: u32 = u32::MAX;
    with_current(|me| {
        if persona == READ {
            return me.personality.get();
        }
        if persona & READ_IMPLIES_EXEC != 0 {
            me.mm().map_under_lock();
        }
        me.personality.replace(persona)
    })
}

/// arch_prctl(2). EFAULT, EINVAL, EPERM.
///
/// keel uses the GS base: setting it fails.
pub fn sys_arch_prctl(code: u32, at: usize) -> Result<()> {
    const SET_GS: u32 = 0x1001;
    const SET_FS: u32 = 0x1002;
    const GET_FS: u32 = 0x1003;
    const GET_GS: u32 = 0x1004;
    const GET_CPUID: u32 = 0x1011;
    match code {
        SET_FS if at >= abi::layout::USER_TOP => Err(Errno::EPERM),
        SET_FS => {
            with_current(|t| t.thread.set_fs_base(at as u64));
            Ok(())
        }
        GET_FS => {
            let base = with_current(|t| t.thread.fs_base());
            user::write(at, &base)
        }
        GET_GS => user::write(at, &0u64),
        SET_GS if at == 0 => Ok(()),
        SET_GS => Err(Errno::EINVAL),
        // ARCH_GET_CPUID returns 1: CPUID is enabled.
        GET_CPUID => Err(Errno::ENODEV),
        _ => Err(Errno::EINVAL),
    }
}

/// unshare(2). EINVAL, ENOSPC, EPERM.
pub fn sys_unshare(flags: u64) -> Result<()> {
    use uapi::raw::general as g;
    const ALL: u64 = namespaces::ALL_TYPES as u64;
    const SHARING: u64 =
        (g::CLONE_FS | g::CLONE_FILES | g::CLONE_SIGHAND | g::CLONE_VM | g::CLONE_THREAD | g::CLONE_SYSVSEM) as u64;
    let has = |flag: u32| flags & u64::from(flag) != 0;
    if flags & !(ALL | SHARING) != 0 {
        return Err(Errno::EINVAL);
    }
    let me = current();
    let alone = me.process().thread_count() == 1;
    if has(g::CLONE_THREAD | g::CLONE_SIGHAND | g::CLONE_VM | g::CLONE_NEWUSER) && !alone {
        return Err(Errno::EINVAL);
    }
    // All that may fail comes first.
    let own = me.fs().fork();
    let (cred, new) = namespaces::prepare(&me, (flags & ALL) as u32, &own)?;
    if has(g::CLONE_FILES) {
        me.unshare_files()?;
    }
    if has(g::CLONE_SYSVSEM | g::CLONE_NEWIPC) {
        crate::ipc::sem::unshare(&me);
    }
    if has(g::CLONE_FS | g::CLONE_NEWUSER | g::CLONE_NEWNS) {
        drop(me.set_fs(Some(own)));
    }
    if let Some(cred) = cred {
        me.securebits.set(0);
        me.set_cred(cred);
    }
    if new.is_some() {
        me.set_namespaces(new);
    }
    Ok(())
}

/// setns(2). EBADF, EINVAL, EPERM, ESRCH.
pub fn sys_setns(fd: i32, kind: u32) -> Result<()> {
    let file = current().files().get(fd)?;
    let wanted = match of_file(&file) {
        Some(own) if kind == 0 || kind == own.flag() => vec![own],
        None if kind != 0 && kind & !namespaces::ALL_TYPES == 0 => {
            pidfd::namespaces_of(fd, kind).map_err(|errno| if errno == Errno::EBADF { Errno::EINVAL } else { errno })?
        }
        _ => return Err(Errno::EINVAL),
    };
    namespaces::join(&current(), &wanted)
}

/// reboot(2): always fails, because the pod ends with its first program. EINVAL, EPERM.
pub fn sys_reboot(magic: u32, magic2: u32, _command: u32, _arg: usize) -> Result<()> {
    const MAGIC: u32 = 0xfee1_dead;
    const MAGICS: [u32; 4] = [672_274_793, 85_072_278, 369_367_448, 537_993_216];
    let may = current().cred().capable(crate::task::cred::cap::SYS_BOOT);
    if may && (magic != MAGIC || !MAGICS.contains(&magic2)) { Err(Errno::EINVAL) } else { Err(Errno::EPERM) }
}

/// kcmp(2): compares kernel objects of two processes by address. EBADF, EFAULT, EINVAL, ENOENT, EPERM, ESRCH.
pub fn sys_kcmp(pid1: i32, pid2: i32, kind: i32, index1: u64, index2: u64) -> Result<i32> {
    use alloc::rc::Rc;
    const FILE: i32 = 0;
    const VM: i32 = 1;
    const FILES: i32 = 2;
    const FS: i32 = 3;
    const SIGHAND: i32 = 4;
    const IO: i32 = 5;
    const SYSVSEM: i32 = 6;
    const EPOLL_TFD: i32 = 7;
    let a = pid::find_subject(named(pid1))?;
    let b = pid::find_subject(named(pid2))?;
    if ![&a, &b].iter().all(|task| access::may_look(task, access::Ids::Real)) {
        return Err(Errno::EPERM);
    }
    fn order(a: usize, b: usize) -> i32 {
        match a.cmp(&b) {
            core::cmp::Ordering::Equal => 0,
            core::cmp::Ordering::Less => 1,
            core::cmp::Ordering::Greater => 2,
        }
    }
    fn address<T>(value: &Option<Rc<T>>) -> usize {
        value.as_ref().map_or(0, |v| Rc::as_ptr(v).addr())
    }
    Ok(match kind {
        FILE => {
            let first = a.try_files().ok_or(Errno::EBADF)?.get(index1 as i32)?;
            let second = b.try_files().ok_or(Errno::EBADF)?.get(index2 as i32)?;
            order(Rc::as_ptr(&first).addr(), Rc::as_ptr(&second).addr())
        }
        VM => order(address(&a.try_mm()), address(&b.try_mm())),
        FILES => order(address(&a.try_files()), address(&b.try_files())),
        FS => order(address(&a.try_fs()), address(&b.try_fs())),
        SIGHAND => order(Rc::as_ptr(&a.signals.actions()).addr(), Rc::as_ptr(&b.signals.actions()).addr()),
        // I/O contexts are never shared: Linux creates one only with CLONE_IO.
        IO => 0,
        SYSVSEM => order(address(&a.sem_undo.borrow()), address(&b.sem_undo.borrow())),
        EPOLL_TFD => {
            let [epoll, watched, nth] = user::read::<[u32; 3]>(index2 as usize)?;
            let first = a.try_files().ok_or(Errno::EBADF)?.get(index1 as i32)?;
            let epoll = b.try_files().ok_or(Errno::EBADF)?.get(epoll as i32)?;
            let second = epoll::watched(&epoll, watched as i32, nth)?;
            order(Rc::as_ptr(&first).addr(), Rc::as_ptr(&second).addr())
        }
        _ => return Err(Errno::EINVAL),
    })
}
