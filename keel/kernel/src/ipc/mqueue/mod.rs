//! POSIX message queues, mq_overview(7): named queues of messages with priorities, behind descriptors.
//!
//! The queues of an IPC namespace are the files of a [file system](directory), which programs mount as `mqueue`.

mod directory;
mod limits;
mod queue;

pub use directory::Directory;
pub use limits::{Limits, SETTINGS, Setting};
pub use queue::Queue;

use super::namespace::here;
use super::notify::Notification;
use crate::file::File;
use crate::mm::user;
use crate::sched::wait::{Interrupt, wait_until};
use crate::task::descriptors;
use crate::task::descriptors::current_file;
use crate::task::path::Caller;
use crate::time::{clock::Clock, read_timespec};
use alloc::rc::Rc;
use alloc::vec::Vec;
use queue::OpenQueue;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::cred::{MAY_EXEC, MAY_READ, MAY_WRITE};
use vfs::walk::{Component, Parent};
use vfs::{NewNode, PATH_MAX, PathRef, notify, ops};

/// Priorities are below this.
const PRIO_MAX: u32 = 32_768;
/// Longest name.
const NAME_MAX: usize = 255;

/// The open queue behind a descriptor. EBADF.
fn open_queue(fd: i32) -> Result<(Rc<File>, Rc<Queue>)> {
    let file = current_file(fd)?;
    let queue = file.downcast::<OpenQueue>().ok_or(Errno::EBADF)?.queue.clone();
    Ok((file, queue))
}

/// Reads a queue's name; the C library has removed the slash. EACCES, EFAULT, ENAMETOOLONG, ENOENT.
fn read_name(at: usize) -> Result<Vec<u8>> {
    let name = user::read_cstr(at, PATH_MAX)?;
    match &name[..] {
        b"" => Err(Errno::ENOENT),
        name if name.contains(&b'/') || name == b"." || name == b".." => Err(Errno::EACCES),
        name if name.len() > NAME_MAX => Err(Errno::ENAMETOOLONG),
        _ => Ok(name),
    }
}

/// Creates a queue. EACCES, EINVAL, EMFILE, ENOSPC, EROFS.
fn create(root: &PathRef, name: &[u8], mode: u32, attributes: Option<[i64; 8]>) -> Result<PathRef> {
    let caller = Caller::current();
    let cred = caller.cred();
    ops::check_writable(root)?;
    ops::check_ids(root, &cred)?;
    cred.check(&**root.inode(), MAY_WRITE | MAY_EXEC)?;
    let new = NewNode::plain(0o100000 | mode & 0o7777, cred.uid, cred.gid);
    let (new, _) = ops::inherit(root, &NewNode { umask: caller.fs.umask(), ..new }, &cred)?;
    let changes = root.changes();
    let directory = root.inode().as_any().downcast_ref::<Directory>().ok_or(Errno::EACCES)?;
    let queue = directory.make(name, &new, attributes.map(|[_, messages, size, ..]| (messages, size)))?;
    let place = root.adopt_new(name, queue, u64::MAX, changes);
    notify::created(root, name, place.inode(), false);
    Ok(place)
}

/// mq_open(2). EACCES, EEXIST, EFAULT, EINVAL, EMFILE, ENAMETOOLONG, ENOENT, ENOSPC.
pub fn sys_mq_open(name: usize, flags: u32, mode: u32, attributes: usize) -> Result<i32> {
    let attributes = if attributes == 0 { None } else { Some(user::read::<[i64; 8]>(attributes)?) };
    let name = read_name(name)?;
    let root = here().queues()?;
    let place = match root.lookup(&name, &[], false) {
        Err(Errno::ENOENT) if flags & g::O_CREAT != 0 => create(&root, &name, mode, attributes)?,
        Ok(_) if flags & g::O_CREAT != 0 && flags & g::O_EXCL != 0 => return Err(Errno::EEXIST),
        Ok(_) if flags & g::O_ACCMODE == g::O_ACCMODE => return Err(Errno::EINVAL),
        Ok(place) => {
            let wanted = match flags & g::O_ACCMODE {
                g::O_RDONLY => MAY_READ,
                g::O_WRONLY => MAY_WRITE,
                _ => MAY_READ | MAY_WRITE,
            };
            Caller::current().cred().check(&**place.inode(), wanted)?;
            place
        }
        Err(errno) => return Err(errno),
    };
    let kept = flags & (g::O_ACCMODE | g::O_NONBLOCK);
    let file = open(&place, kept).ok_or(Errno::EACCES)??;
    descriptors::install(file, g::O_CLOEXEC)
}

/// Opens the file at a place if it is a queue, whoever may.
pub fn open(place: &PathRef, flags: u32) -> Option<Result<Rc<File>>> {
    let queue = place.inode().as_any().downcast_ref::<Queue>()?;
    Some(OpenQueue::open(queue, place, flags))
}

/// mq_unlink(2). EACCES, ENAMETOOLONG, ENOENT, EPERM, EROFS.
pub fn sys_mq_unlink(name: usize) -> Result<()> {
    let name = read_name(name)?;
    let last = Component::Normal(Rc::from(&name[..]));
    let parent = Parent { dir: here().queues()?, last, trailing_slash: false };
    ops::unlink(&parent, &Caller::current().cred())
}

/// The time limit of a call, of the wall clock. EFAULT, EINVAL.
fn deadline(at: usize) -> Result<Option<u64>> {
    if at == 0 {
        return Ok(None);
    }
    Ok(Some(Clock::Realtime.to_monotonic(read_timespec(at)?)))
}

/// mq_timedsend(2). EAGAIN, EBADF, EFAULT, EINTR, EINVAL, EMSGSIZE, ETIMEDOUT.
pub fn sys_mq_timedsend(fd: i32, text: usize, len: usize, priority: u32, timeout: usize) -> Result<()> {
    let deadline = deadline(timeout)?;
    if priority >= PRIO_MAX {
        return Err(Errno::EINVAL);
    }
    let (file, queue) = open_queue(fd)?;
    if !file.writable() {
        return Err(Errno::EBADF);
    }
    if len > queue.message_size {
        return Err(Errno::EMSGSIZE);
    }
    let mut message = Some(user::read_array::<u8>(text, len)?);
    if queue.try_send(&mut message, priority).is_none() {
        if file.nonblocking() {
            return Err(Errno::EAGAIN);
        }
        let queues = core::slice::from_ref(&queue.writable);
        wait_until(queues, deadline, Interrupt::BySignal, || queue.try_send(&mut message, priority))?;
    }
    if queue.count() == 1 && queue.receivers.get() == 0 {
        let notification = queue.notification.take();
        if let Some(notification) = notification {
            notification.send();
        }
    }
    queue.readable.wake_all();
    Ok(())
}

/// mq_timedreceive(2): the bytes of the message. EAGAIN, EBADF, EFAULT, EINTR, EINVAL, EMSGSIZE, ETIMEDOUT.
pub fn sys_mq_timedreceive(fd: i32, at: usize, len: usize, priority_at: usize, timeout: usize) -> Result<usize> {
    let deadline = deadline(timeout)?;
    let (file, queue) = open_queue(fd)?;
    if !file.readable() {
        return Err(Errno::EBADF);
    }
    if len < queue.message_size {
        return Err(Errno::EMSGSIZE);
    }
    let (priority, text) = match queue.try_receive() {
        Some(message) => message,
        None if file.nonblocking() => return Err(Errno::EAGAIN),
        None => {
            queue.receivers.set(queue.receivers.get() + 1);
            let queues = core::slice::from_ref(&queue.readable);
            let outcome = wait_until(queues, deadline, Interrupt::BySignal, || queue.try_receive());
            queue.receivers.set(queue.receivers.get() - 1);
            outcome?
        }
    };
    queue.writable.wake_all();
    if priority_at != 0 {
        user::write(priority_at, &priority)?;
    }
    user::write_bytes(at, &text)?;
    Ok(text.len())
}

/// mq_notify(2). EBADF, EBUSY, EFAULT, EINVAL, ENOTSOCK.
pub fn sys_mq_notify(fd: i32, event: usize) -> Result<()> {
    let wanted = if event == 0 { None } else { Some(Notification::read(event)?) };
    let (_file, queue) = open_queue(fd)?;
    let mut current = queue.notification.borrow_mut();
    current.take_if(|n| n.is_stale());
    let Some(wanted) = wanted else {
        let pid = super::caller();
        let gone = current.take_if(|n| n.is_for(pid));
        drop(current);
        if let Some(gone) = gone {
            gone.removed();
        }
        return Ok(());
    };
    if current.is_some() {
        return Err(Errno::EBUSY);
    }
    *current = Some(wanted);
    Ok(())
}

/// mq_getsetattr(2). EBADF, EFAULT, EINVAL.
pub fn sys_mq_getsetattr(fd: i32, new: usize, old: usize) -> Result<()> {
    let new = if new == 0 { None } else { Some(user::read::<[i64; 8]>(new)?) };
    if new.is_some_and(|new| new[0] & !i64::from(g::O_NONBLOCK) != 0) {
        return Err(Errno::EINVAL);
    }
    let (file, queue) = open_queue(fd)?;
    let flags = file.flags.get();
    let before = [
        i64::from(flags & g::O_NONBLOCK),
        queue.max_messages as i64,
        queue.message_size as i64,
        queue.count() as i64,
        0,
        0,
        0,
        0,
    ];
    if let Some(new) = new {
        file.flags.set(flags & !g::O_NONBLOCK | new[0] as u32 & g::O_NONBLOCK);
    }
    if old != 0 {
        user::write(old, &before)?;
    }
    Ok(())
}
