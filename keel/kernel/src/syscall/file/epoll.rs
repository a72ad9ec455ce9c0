//! The calls of epoll(7).

use crate::file::File;
use crate::file::epoll::{EXCLUSIVE_OK, Epoll, Events, Instance, MAX_NESTING, Ready};
use crate::file::unlocked::Kind;
use crate::fs::dev::Memory;
use crate::mm::user;
use crate::sched::wait::{Interrupt, wait_until};
use crate::socket::inet::outward::settle::{Under, settle};
use crate::syscall::file::poll::{Timeout, with_mask};
use crate::task::descriptors::{current_file, current_file_in_use, install};
use alloc::rc::Rc;
use hal::user as raw;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// epoll_create(2).
pub fn sys_epoll_create(size: i32) -> Result<i32> {
    if size <= 0 { Err(Errno::EINVAL) } else { sys_epoll_create1(0) }
}

/// epoll_create1(2).
pub fn sys_epoll_create1(flags: u32) -> Result<i32> {
    if flags & !g::EPOLL_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    let epoll = Epoll::new();
    let ready = epoll.ready.clone();
    let file = File::new(Rc::new(Instance(epoll)), g::O_RDWR, None);
    file.give_unlocked_way(Kind::Epoll(ready));
    install(file, flags)
}

/// epoll_ctl(2).
pub fn sys_epoll_ctl(epfd: i32, operation: u32, fd: i32, event: usize) -> Result<()> {
    let (mut events, data) = match operation {
        g::EPOLL_CTL_DEL => (0, 0),
        _ => {
            let event: g::epoll_event = user::read(event)?;
            (event.events, event.data)
        }
    };
    let holder = current_file(epfd)?;
    let file = current_file(fd)?;
    if !can_be_watched(&file) {
        return Err(Errno::EPERM);
    }
    let epoll = match holder.downcast::<Instance>() {
        Some(epoll) if !Rc::ptr_eq(&holder, &file) => &epoll.0,
        _ => return Err(Errno::EINVAL),
    };
    let nested = file.downcast::<Instance>();
    if operation != g::EPOLL_CTL_DEL && events & g::EPOLLEXCLUSIVE != 0 {
        let bad = events & !EXCLUSIVE_OK != 0 || nested.is_some();
        if operation == g::EPOLL_CTL_MOD || operation == g::EPOLL_CTL_ADD && bad {
            return Err(Errno::EINVAL);
        }
    }
    if operation == g::EPOLL_CTL_ADD
        && let Some(below) = nested
    {
        let depth = below.0.depth_without(epoll).ok_or(Errno::ELOOP)?;
        if depth + epoll.height() + 2 > MAX_NESTING {
            return Err(Errno::ELOOP);
        }
    }
    let key = (fd, Rc::as_ptr(&file).addr());
    let found = epoll.find(key);
    events |= g::EPOLLERR | g::EPOLLHUP;
    match (operation, found) {
        (g::EPOLL_CTL_ADD, None) => {
            epoll.add(key, &file, events, data)?;
            if let Some(below) = nested {
                below.0.parents.borrow_mut().push_back(Rc::downgrade(epoll));
            }
            Ok(())
        }
        (g::EPOLL_CTL_ADD, Some(_)) => Err(Errno::EEXIST),
        (g::EPOLL_CTL_DEL, Some(_)) => {
            epoll.remove(key);
            if let Some(below) = nested {
                let mut parents = below.0.parents.borrow_mut();
                let at = parents.iter().position(|parent| core::ptr::eq(parent.as_ptr(), Rc::as_ptr(epoll)));
                if let Some(at) = at {
                    parents.remove(at);
                }
            }
            Ok(())
        }
        (g::EPOLL_CTL_MOD, Some(item)) => {
            if item.watch.events() & g::EPOLLEXCLUSIVE != 0 {
                return Err(Errno::EINVAL);
            }
            epoll.modify(&item, &file, events, data)
        }
        (g::EPOLL_CTL_DEL | g::EPOLL_CTL_MOD, None) => Err(Errno::ENOENT),
        _ => Err(Errno::EINVAL),
    }
}

/// Regular files, directories and devices of memory are always ready, but for some of `/proc` and `/dev/random`.
fn can_be_watched(file: &File) -> bool {
    if file.downcast::<Memory>().is_some_and(|device| !device.is_watched()) {
        return false;
    }
    use vfs::FileType::{Directory, Regular};
    let ready = |inode: &Rc<dyn vfs::Inode>| matches!(inode.file_type(), Regular | Directory) && !inode.is_polled();
    !file.ops.inode().is_some_and(|inode| ready(&inode))
}

/// epoll_wait(2).
pub fn sys_epoll_wait(epfd: i32, events: usize, max: i32, timeout_ms: i32) -> Result<usize> {
    wait(epfd, events, max, Timeout::after_ms(timeout_ms))
}

/// epoll_pwait(2).
pub fn sys_epoll_pwait(
    epfd: i32,
    events: usize,
    max: i32,
    timeout_ms: i32,
    mask: usize,
    mask_size: usize,
) -> Result<usize> {
    with_mask(mask, mask_size, || wait(epfd, events, max, Timeout::after_ms(timeout_ms)))
}

/// epoll_pwait2(2).
pub fn sys_epoll_pwait2(
    epfd: i32,
    events: usize,
    max: i32,
    timeout: usize,
    mask: usize,
    mask_size: usize,
) -> Result<usize> {
    let timeout = Timeout::from_timespec(timeout)?;
    with_mask(mask, mask_size, || wait(epfd, events, max, timeout))
}

/// Bytes of a `struct epoll_event`.
const SIZE: usize = size_of::<g::epoll_event>();

/// The room for events. EINVAL, EFAULT.
fn checked(address: usize, max: i32) -> Result<usize> {
    let max = match usize::try_from(max) {
        Ok(max) if max > 0 && max <= i32::MAX as usize / SIZE => max,
        _ => return Err(Errno::EINVAL),
    };
    user::access_ok(address, max * SIZE)?;
    Ok(max)
}

/// Events that are there, without the big lock: their number. `None`: left to the handler.
pub fn wait_unlocked(ready: &Ready, address: usize, max: i32, at_once: bool) -> Option<usize> {
    let max = checked(address, max).ok()?;
    ready.take(max, at_once, |i, events, data| {
        raw::copy_out_value(address + i * SIZE, &g::epoll_event { events, data }).ok()
    })
}

fn wait(epfd: i32, address: usize, max: i32, timeout: Timeout) -> Result<usize> {
    let holder = current_file_in_use(epfd)?;
    let max = checked(address, max)?;
    settle(Under::Data);
    let epoll = &holder.downcast::<Instance>().ok_or(Errno::EINVAL)?.0;
    if let Some(found) = wait_unlocked(&epoll.ready, address, max as i32, timeout == Timeout::Now) {
        return Ok(found);
    }
    let epoll = epoll.clone();
    epoll.prepare(timeout != Timeout::Now);
    let mut found = Events::new();
    epoll.collect(max, &mut found);
    if found.is_empty() && timeout != Timeout::Now {
        let check = || {
            epoll.collect(max, &mut found);
            (!found.is_empty()).then_some(())
        };
        match wait_until(core::slice::from_ref(epoll.ready.queue()), timeout.deadline(), Interrupt::BySignal, check) {
            Ok(()) | Err(Errno::ETIMEDOUT) => {}
            Err(Errno::ERESTARTSYS) => return Err(Errno::EINTR),
            Err(errno) => return Err(errno),
        }
    }
    for (i, one) in found.iter().enumerate() {
        let event = g::epoll_event { events: one.events, data: one.item.watch.data() };
        if let Err(errno) = user::write(address + i * SIZE, &event) {
            epoll.put_back(&found[i..]);
            return if i > 0 { Ok(i) } else { Err(errno) };
        }
    }
    Ok(found.len())
}
