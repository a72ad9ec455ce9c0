//! POSIX message queues, mq_overview(7): named queues of messages with priorities, behind descriptors.

use super::namespace::here;
use super::notify::Notification;
use crate::file::{File, FileOps, Queues, anon};
use crate::mm::user;
use crate::sched::wait::{Interrupt, WaitQueue, wait_until};
use crate::task::descriptors;
use crate::task::descriptors::current_file;
use crate::task::path::Caller;
use crate::task::{self, cred::cap};
use crate::time::{clock::Clock, read_timespec};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use keel_core::pieces::Pieces;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::{Attr, Dst, PATH_MAX};

/// Linux's defaults of new queues, and the maxima without CAP_SYS_RESOURCE.
const MSG_DEFAULT: i64 = 10;
const MSGSIZE_DEFAULT: i64 = 8192;
const MSG_MAX: i64 = 10;
const MSGSIZE_MAX: i64 = 8192;
const QUEUES_MAX: usize = 256;
/// Absolute maximum of messages.
const HARD_MSG_MAX: i64 = 65_536;
const HARD_MSGSIZE_MAX: i64 = 16 << 20;
/// Priorities are below this.
const PRIO_MAX: u32 = 32_768;
/// Longest name.
const NAME_MAX: usize = 255;
/// Size of a queue's file in stat(2).
const FILE_SIZE: u64 = 80;
/// Bytes per message besides its text that count against RLIMIT_MSGQUEUE, as in Linux.
const MESSAGE_OVERHEAD: u64 = 48;

/// A queue.
pub(super) struct Queue {
    name: Vec<u8>,
    attr: Attr,
    max_messages: usize,
    message_size: usize,
    /// By descending priority, then FIFO.
    messages: RefCell<BTreeMap<core::cmp::Reverse<u32>, Pieces<Vec<u8>>>>,
    count: Cell<usize>,
    bytes: Cell<usize>,
    /// Number of threads that wait for a message.
    receivers: Cell<usize>,
    notification: RefCell<Option<Notification>>,
    readable: Rc<WaitQueue>,
    writable: Rc<WaitQueue>,
}

impl Queue {
    /// Bytes that count against the owner's RLIMIT_MSGQUEUE.
    fn charge(&self) -> u64 {
        charge(self.max_messages, self.message_size)
    }

    /// Whether the current thread may open it. EACCES.
    fn check(&self, flags: u32) -> Result<()> {
        let wanted = match flags & g::O_ACCMODE {
            g::O_RDONLY => 4,
            g::O_WRONLY => 2,
            _ => 6,
        };
        let caller = Caller::current();
        let cred = caller.cred();
        let shift = match () {
            () if cred.uid == self.attr.uid => 6,
            () if cred.in_group(self.attr.gid) => 3,
            () => 0,
        };
        let granted = self.attr.mode >> shift & wanted == wanted;
        if granted || cred.has_over(cap::DAC_OVERRIDE, self.attr.uid, self.attr.gid) {
            Ok(())
        } else {
            Err(Errno::EACCES)
        }
    }

    fn try_send(&self, message: &mut Option<Vec<u8>>, priority: u32) -> Option<()> {
        if self.count.get() >= self.max_messages {
            return None;
        }
        let text = message.take()?;
        self.bytes.set(self.bytes.get() + text.len());
        self.messages.borrow_mut().entry(core::cmp::Reverse(priority)).or_default().push_back(text);
        self.count.set(self.count.get() + 1);
        Some(())
    }

    fn try_receive(&self) -> Option<(u32, Vec<u8>)> {
        let mut messages = self.messages.borrow_mut();
        let mut first = messages.first_entry()?;
        let priority = first.key().0;
        let text = first.get_mut().pop_front()?;
        if first.get().is_empty() {
            first.remove();
        }
        self.bytes.set(self.bytes.get() - text.len());
        self.count.set(self.count.get() - 1);
        Some((priority, text))
    }
}

fn charge(max_messages: usize, message_size: usize) -> u64 {
    (max_messages as u64).saturating_mul(message_size as u64 + MESSAGE_OVERHEAD)
}

/// An open queue.
struct OpenQueue(Rc<Queue>);

impl FileOps for OpenQueue {
    fn as_any(&self) -> &dyn Any {
        self
    }

    /// Reads a line with the queue's state.
    fn read(&self, file: &File, dst: &mut dyn Dst) -> Result<usize> {
        let n = self.read_at(file, file.pos.get(), dst)?;
        file.pos.set(file.pos.get() + n as u64);
        Ok(n)
    }

    fn read_at(&self, _file: &File, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        let (kind, signal, pid) = self.0.notification.borrow().as_ref().map_or((0, 0, 0), Notification::describe);
        let line = format!("QSIZE:{:<10} NOTIFY:{kind:<5} SIGNO:{signal:<5} NOTIFY_PID:{pid:<6}\n", self.0.bytes.get());
        let rest = usize::try_from(offset).ok().and_then(|at| line.as_bytes().get(at..)).unwrap_or_default();
        let n = rest.len().min(dst.remaining());
        dst.put(&rest[..n])
    }

    fn attr(&self) -> Result<Attr> {
        Ok(self.0.attr)
    }

    fn poll(&self, _file: &File) -> u32 {
        let count = self.0.count.get();
        let mut events = 0;
        if count > 0 {
            events |= g::POLLIN | g::POLLRDNORM;
        }
        if count < self.0.max_messages {
            events |= g::POLLOUT | g::POLLWRNORM;
        }
        events
    }

    fn poll_queues(&self, _file: &File, events: u32, out: &mut Queues) {
        if events & (g::POLLIN | g::POLLRDNORM) != 0 {
            out.push(self.0.readable.clone());
        }
        if events & (g::POLLOUT | g::POLLWRNORM) != 0 {
            out.push(self.0.writable.clone());
        }
    }

    fn link_name(&self) -> Vec<u8> {
        [b"/", &self.0.name[..]].concat()
    }

    /// Removes the notification of a process that closes the queue.
    fn flush(&self, _file: &File) {
        let pid = super::caller();
        let gone = self.0.notification.borrow_mut().take_if(|n| n.is_for(pid));
        drop(gone);
    }
}

/// The open queue behind a descriptor. EBADF.
fn open_queue(fd: i32) -> Result<(Rc<File>, Rc<Queue>)> {
    let file = current_file(fd)?;
    let queue = file.downcast::<OpenQueue>().ok_or(Errno::EBADF)?.0.clone();
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

/// Creates a queue. EINVAL, EMFILE, ENOSPC.
fn create(name: &[u8], mode: u32, attributes: Option<[i64; 8]>) -> Result<Rc<Queue>> {
    let task = task::current();
    let privileged = task.cred().capable(cap::SYS_RESOURCE);
    if !privileged && here().named.borrow().len() >= QUEUES_MAX {
        return Err(Errno::ENOSPC);
    }
    let (max_messages, message_size) = match attributes {
        None => (MSG_DEFAULT, MSGSIZE_DEFAULT),
        Some([_, messages, size, ..]) => {
            let most = if privileged { (HARD_MSG_MAX, HARD_MSGSIZE_MAX) } else { (MSG_MAX, MSGSIZE_MAX) };
            if !(1..=most.0).contains(&messages) || !(1..=most.1).contains(&size) {
                return Err(Errno::EINVAL);
            }
            (messages, size)
        }
    };
    let (max_messages, message_size) = (max_messages as usize, message_size as usize);
    let umask = task.fs().umask();
    let attr =
        Attr { size: FILE_SIZE, ..anon::attr(anon::next_ino(), anon::dev::ANON, 0o100000 | mode & 0o7777 & !umask) };
    let used: u64 = here().named.borrow().values().filter(|q| q.attr.uid == attr.uid).map(|q| q.charge()).sum();
    if used.saturating_add(charge(max_messages, message_size)) > task.limit(g::RLIMIT_MSGQUEUE) {
        return Err(Errno::EMFILE);
    }
    let queue = Rc::new(Queue {
        name: name.to_vec(),
        attr,
        max_messages,
        message_size,
        messages: RefCell::default(),
        count: Cell::new(0),
        bytes: Cell::new(0),
        receivers: Cell::new(0),
        notification: RefCell::default(),
        readable: Rc::default(),
        writable: Rc::default(),
    });
    here().named.borrow_mut().insert(name.to_vec(), queue.clone());
    Ok(queue)
}

/// mq_open(2). EACCES, EEXIST, EFAULT, EINVAL, EMFILE, ENAMETOOLONG, ENOENT, ENOSPC.
pub fn sys_mq_open(name: usize, flags: u32, mode: u32, attributes: usize) -> Result<i32> {
    let attributes = if attributes == 0 { None } else { Some(user::read::<[i64; 8]>(attributes)?) };
    let name = read_name(name)?;
    let found = here().named.borrow().get(&name).cloned();
    let queue = match found {
        None if flags & g::O_CREAT == 0 => return Err(Errno::ENOENT),
        None => create(&name, mode, attributes)?,
        Some(_) if flags & g::O_CREAT != 0 && flags & g::O_EXCL != 0 => return Err(Errno::EEXIST),
        Some(_) if flags & g::O_ACCMODE == g::O_ACCMODE => return Err(Errno::EINVAL),
        Some(queue) => {
            queue.check(flags)?;
            queue
        }
    };
    let kept = flags & (g::O_ACCMODE | g::O_NONBLOCK);
    descriptors::install(File::new(Rc::new(OpenQueue(queue)), kept, None), g::O_CLOEXEC)
}

/// mq_unlink(2). EACCES, ENAMETOOLONG, ENOENT, EPERM.
pub fn sys_mq_unlink(name: usize) -> Result<()> {
    let name = read_name(name)?;
    let queue = here().named.borrow().get(&name).cloned().ok_or(Errno::ENOENT)?;
    // The directory of queues is owned by root, world-writable and sticky.
    let caller = Caller::current();
    let cred = caller.cred();
    if cred.uid != 0 && !cred.owns(queue.attr.uid, queue.attr.gid) {
        return Err(Errno::EPERM);
    }
    let gone = here().named.borrow_mut().remove(&name);
    drop(gone);
    Ok(())
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
    if queue.count.get() == 1 && queue.receivers.get() == 0 {
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
        current.take_if(|n| n.is_for(pid));
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
        queue.count.get() as i64,
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
