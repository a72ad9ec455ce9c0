//! System V message queues: msgget(2), msgop(2), msgctl(2).

use super::namespace::here;
use super::{Got, IPC_INFO, IPC_NOWAIT, IPC_RMID, IPC_SET, IPC_STAT, Object, Perm, READ, WRITE, find};
use crate::mm::user;
use crate::sched::wait::{Interrupt, WaitQueue, wait_until};
use crate::task::{self, cred::cap, pidns};
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use uapi::{Errno, Result};
use vfs::memory::Text;

/// Maximum size of a message, default size of a queue in bytes, maximum number of queues: Linux's defaults.
const MSGMAX: usize = 8192;
const MSGMNB: usize = 16384;
const MSGMNI: usize = 32000;
/// msginfo's fields for segments, which Linux no longer uses.
const MSGSSZ: u32 = 16;
const MSGSEG: u32 = 0xffff;

/// Flags of msgrcv: truncate long messages, take any other type, copy the message.
const MSG_NOERROR: u32 = 0o10000;
const MSG_EXCEPT: u32 = 0o20000;
const MSG_COPY: u32 = 0o40000;
/// Commands of msgctl.
const MSG_STAT: i32 = 11;
const MSG_INFO: i32 = 12;
const MSG_STAT_ANY: i32 = 13;

struct Message {
    kind: i64,
    text: Vec<u8>,
}

/// A message queue.
pub(super) struct Queue {
    perm: Perm,
    messages: RefCell<VecDeque<Message>>,
    /// Bytes in the queue, and their limit.
    bytes: Cell<usize>,
    limit: Cell<usize>,
    sent: Cell<i64>,
    received: Cell<i64>,
    changed: Cell<i64>,
    sender: Cell<i32>,
    receiver: Cell<i32>,
    removed: Cell<bool>,
    readable: Rc<WaitQueue>,
    writable: Rc<WaitQueue>,
}

impl Object for Queue {
    fn perm(&self) -> &Perm {
        &self.perm
    }
}

/// The message that msgrcv takes.
#[derive(Clone, Copy)]
enum Wanted {
    First,
    Of(i64),
    NotOf(i64),
    /// The first message of the lowest type up to this.
    UpTo(i64),
    /// The n-th, which stays in the queue (`MSG_COPY`).
    Copy(i64),
}

impl Wanted {
    fn new(kind: i64, flags: u32) -> Self {
        match kind {
            _ if flags & MSG_COPY != 0 => Self::Copy(kind),
            0 => Self::First,
            ..0 => Self::UpTo(kind.checked_neg().unwrap_or(i64::MAX)),
            _ if flags & MSG_EXCEPT != 0 => Self::NotOf(kind),
            _ => Self::Of(kind),
        }
    }

    fn find(self, messages: &VecDeque<Message>) -> Option<usize> {
        match self {
            Self::First => (!messages.is_empty()).then_some(0),
            Self::Of(kind) => messages.iter().position(|m| m.kind == kind),
            Self::NotOf(kind) => messages.iter().position(|m| m.kind != kind),
            Self::UpTo(kind) => {
                let low = messages.iter().map(|m| m.kind).filter(|k| *k <= kind).min()?;
                messages.iter().position(|m| m.kind == low)
            }
            Self::Copy(n) => usize::try_from(n).ok().filter(|n| *n < messages.len()),
        }
    }
}

impl Queue {
    /// Sends a message if there is room; returns it otherwise. EACCES, EIDRM.
    fn try_send(&self, message: &mut Option<Message>) -> Option<Result<()>> {
        if let Err(errno) = self.check(WRITE) {
            return Some(Err(errno));
        }
        let len = message.as_ref().map_or(0, |m| m.text.len());
        let mut messages = self.messages.borrow_mut();
        let limit = self.limit.get();
        if self.bytes.get() + len > limit || messages.len() + 1 > limit {
            return None;
        }
        if messages.try_reserve(1).is_err() {
            return Some(Err(Errno::ENOMEM));
        }
        messages.extend(message.take());
        self.bytes.set(self.bytes.get() + len);
        self.sent.set(super::now());
        self.sender.set(super::caller());
        Some(Ok(()))
    }

    /// Receives a message. E2BIG, EACCES, EIDRM.
    fn try_receive(&self, wanted: Wanted, room: usize, flags: u32) -> Option<Result<Message>> {
        if let Err(errno) = self.check(READ) {
            return Some(Err(errno));
        }
        let mut messages = self.messages.borrow_mut();
        let index = wanted.find(&messages)?;
        let found = messages.get(index)?;
        if found.text.len() > room && flags & MSG_NOERROR == 0 {
            return Some(Err(Errno::E2BIG));
        }
        if let Wanted::Copy(_) = wanted {
            return Some(Ok(Message { kind: found.kind, text: found.text.clone() }));
        }
        let message = messages.remove(index)?;
        self.bytes.set(self.bytes.get() - message.text.len());
        self.received.set(super::now());
        self.receiver.set(super::caller());
        Some(Ok(message))
    }

    fn check(&self, wanted: u32) -> Result<()> {
        if self.removed.get() { Err(Errno::EIDRM) } else { self.perm.check(wanted) }
    }

    /// `struct msqid64_ds`.
    fn raw(&self) -> [u64; 15] {
        let mut raw = [0; 15];
        raw[..6].copy_from_slice(&self.perm.raw());
        raw[6] = self.sent.get() as u64;
        raw[7] = self.received.get() as u64;
        raw[8] = self.changed.get() as u64;
        raw[9] = self.bytes.get() as u64;
        raw[10] = self.messages.borrow().len() as u64;
        raw[11] = self.limit.get() as u64;
        raw[12] = u64::from(pidns::shown(self.sender.get()) as u32)
            | u64::from(pidns::shown(self.receiver.get()) as u32) << 32;
        raw
    }
}

/// Waits on a queue; these calls are never restarted after a handler. EINTR, and the errors of `ready`.
fn wait<T>(queue: &Rc<WaitQueue>, ready: impl FnMut() -> Option<Result<T>>) -> Result<T> {
    match wait_until(core::slice::from_ref(queue), None, Interrupt::BySignal, ready) {
        Ok(outcome) => outcome,
        Err(Errno::ERESTARTSYS) => Err(Errno::ERESTARTNOHAND),
        Err(errno) => Err(errno),
    }
}

/// msgget(2). EACCES, EEXIST, ENOENT, ENOSPC.
pub fn sys_msgget(key: i32, flags: u32) -> Result<i32> {
    let found = find(&here().queues.borrow(), key, flags)?;
    if let Got::Existing(queue) = found {
        queue.perm.check(flags)?;
        return Ok(queue.perm.id);
    }
    here().queues.borrow_mut().insert(MSGMNI, |id| {
        Ok(Rc::new(Queue {
            perm: Perm::new(id, key, flags),
            messages: RefCell::default(),
            bytes: Cell::new(0),
            limit: Cell::new(MSGMNB),
            sent: Cell::new(0),
            received: Cell::new(0),
            changed: Cell::new(super::now()),
            sender: Cell::new(0),
            receiver: Cell::new(0),
            removed: Cell::new(false),
            readable: Rc::default(),
            writable: Rc::default(),
        }))
    })
}

/// msgsnd(2). EACCES, EAGAIN, EFAULT, EIDRM, EINTR, EINVAL, ENOMEM.
pub fn sys_msgsnd(id: i32, message: usize, size: usize, flags: u32) -> Result<()> {
    let kind = user::read::<i64>(message)?;
    if size > MSGMAX || id < 0 || kind < 1 {
        return Err(Errno::EINVAL);
    }
    let text = user::read_array::<u8>(message.checked_add(8).ok_or(Errno::EFAULT)?, size)?;
    let queue = here().queues.borrow().get(id)?;
    let mut message = Some(Message { kind, text });
    match queue.try_send(&mut message) {
        Some(outcome) => outcome?,
        None if flags & IPC_NOWAIT != 0 => return Err(Errno::EAGAIN),
        None => wait(&queue.writable, || queue.try_send(&mut message))?,
    }
    queue.readable.wake_all();
    Ok(())
}

/// msgrcv(2): the bytes of the message. E2BIG, EACCES, EFAULT, EIDRM, EINTR, EINVAL, ENOMSG.
pub fn sys_msgrcv(id: i32, at: usize, size: usize, kind: i64, flags: u32) -> Result<usize> {
    if id < 0 || size > isize::MAX as usize {
        return Err(Errno::EINVAL);
    }
    if flags & MSG_COPY != 0 && (flags & MSG_EXCEPT != 0 || flags & IPC_NOWAIT == 0) {
        return Err(Errno::EINVAL);
    }
    let queue = here().queues.borrow().get(id)?;
    let wanted = Wanted::new(kind, flags);
    let message = match queue.try_receive(wanted, size, flags) {
        Some(outcome) => outcome?,
        None if flags & IPC_NOWAIT != 0 => return Err(Errno::ENOMSG),
        None => wait(&queue.readable, || queue.try_receive(wanted, size, flags))?,
    };
    queue.writable.wake_all();
    user::write(at, &message.kind)?;
    let text = &message.text[..message.text.len().min(size)];
    user::write_bytes(at.checked_add(8).ok_or(Errno::EFAULT)?, text)?;
    Ok(text.len())
}

/// `struct msginfo`, and the highest index.
fn info(command: i32) -> ([u32; 8], usize) {
    let home = here();
    let table = home.queues.borrow();
    let (pool, map, total) = if command == MSG_INFO {
        let messages: usize = table.items.values().map(|q| q.messages.borrow().len()).sum();
        let bytes: usize = table.items.values().map(|q| q.bytes.get()).sum();
        (table.items.len() as u32, messages as u32, bytes as u32)
    } else {
        ((MSGMNI * MSGMNB / 1024) as u32, MSGMNB as u32, MSGMNB as u32)
    };
    ([pool, map, MSGMAX as u32, MSGMNB as u32, MSGMNI as u32, MSGSSZ, total, MSGSEG], table.highest())
}

/// msgctl(2). EACCES, EFAULT, EINVAL, EPERM.
pub fn sys_msgctl(id: i32, command: i32, buffer: usize) -> Result<usize> {
    if id < 0 || command < 0 {
        return Err(Errno::EINVAL);
    }
    match command {
        IPC_INFO | MSG_INFO => {
            let (info, highest) = info(command);
            user::write(buffer, &info)?;
            Ok(highest)
        }
        IPC_STAT | MSG_STAT | MSG_STAT_ANY => {
            let by_index = command != IPC_STAT;
            let queue = if by_index { here().queues.borrow().at(id) } else { here().queues.borrow().get(id) }?;
            if command != MSG_STAT_ANY {
                queue.perm.check(READ)?;
            }
            user::write(buffer, &queue.raw())?;
            Ok(if by_index { queue.perm.id as usize } else { 0 })
        }
        IPC_SET => {
            let raw: [u64; 15] = user::read(buffer)?;
            let queue = here().queues.borrow().get(id)?;
            queue.perm.check_owner()?;
            let limit = usize::try_from(raw[11]).unwrap_or(usize::MAX);
            if limit > MSGMNB && !task::current().cred().capable(cap::SYS_RESOURCE) {
                return Err(Errno::EPERM);
            }
            queue.perm.set([raw[0], raw[1], raw[2], raw[3], raw[4], raw[5]])?;
            queue.limit.set(limit);
            queue.changed.set(super::now());
            // Permissions and limits may have changed.
            queue.readable.wake_all();
            queue.writable.wake_all();
            Ok(0)
        }
        IPC_RMID => {
            let queue = here().queues.borrow().get(id)?;
            queue.perm.check_owner()?;
            let gone = here().queues.borrow_mut().remove(&queue.perm);
            drop(gone);
            queue.removed.set(true);
            queue.readable.wake_all();
            queue.writable.wake_all();
            Ok(0)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// `/proc/sysvipc/msg`. ENOMEM.
pub fn table() -> Result<Vec<u8>> {
    let mut text = Text::default();
    text.print(format_args!(
        "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      \
         ctime\n"
    ));
    for q in here().queues.borrow().items.values() {
        let p = &q.perm;
        text.print(format_args!(
            "{:10} {:10}  {:4o}  {:10} {:10} {:5} {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10}\n",
            p.key.get(),
            p.id,
            p.mode.get(),
            q.bytes.get(),
            q.messages.borrow().len(),
            q.sender.get(),
            q.receiver.get(),
            p.uid.get(),
            p.gid.get(),
            p.creator_uid,
            p.creator_gid,
            q.sent.get(),
            q.received.get(),
            q.changed.get(),
        ));
    }
    text.done()
}
