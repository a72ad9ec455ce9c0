//! A queue, and open ones.

use super::directory::{change, figures};
use super::limits::{Charge, Limits};
use crate::file::{Abilities, File, FileOps, Queues, anon};
use crate::ipc::notify::Notification;
use crate::sched::wait::WaitQueue;
use abi::request::FsStat;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use keel_core::pieces::Pieces;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::attr::{self, now};
use vfs::{Attachments, Attr, Change, Claim, Dst, FileType, Inode, NewNode, PathRef};

/// Size of a queue's file in stat(2).
const FILE_SIZE: u64 = 80;

/// A queue.
pub struct Queue {
    this: Weak<Self>,
    limits: Rc<Limits>,
    attr: Cell<Attr>,
    attachments: Attachments,
    /// Held for its drop.
    _charge: Charge,
    pub(super) max_messages: usize,
    pub(super) message_size: usize,
    /// By descending priority, then FIFO.
    messages: RefCell<BTreeMap<core::cmp::Reverse<u32>, Pieces<Vec<u8>>>>,
    count: Cell<usize>,
    bytes: Cell<usize>,
    /// Number of threads that wait for a message.
    pub(super) receivers: Cell<usize>,
    pub(super) notification: RefCell<Option<Notification>>,
    pub(super) readable: Rc<WaitQueue>,
    pub(super) writable: Rc<WaitQueue>,
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.limits.leave();
    }
}

impl Queue {
    /// An empty one. `limit`: RLIMIT_MSGQUEUE. EINVAL, EMFILE, ENOSPC.
    pub(super) fn new(
        limits: &Rc<Limits>,
        new: &NewNode<'_>,
        wanted: Option<(i64, i64)>,
        is_privileged: bool,
        limit: u64,
    ) -> Result<Rc<Self>> {
        limits.enter(is_privileged)?;
        let charged = limits.size(wanted, is_privileged).and_then(|(messages, size)| {
            Charge::take(new.uid, messages, size, limit).map(|charge| (messages, size, charge))
        });
        let (max_messages, message_size, charge) = charged.inspect_err(|_| limits.leave())?;
        let attr = Attr {
            ino: anon::next_ino(),
            dev: anon::dev::MQUEUE,
            mode: new.mode,
            nlink: 1,
            uid: new.uid,
            gid: new.gid,
            size: FILE_SIZE,
            blksize: 4096,
            ..attr::since(now())
        };
        Ok(Rc::new_cyclic(|this| Self {
            this: this.clone(),
            limits: limits.clone(),
            attr: Cell::new(attr),
            attachments: Attachments::default(),
            _charge: charge,
            max_messages,
            message_size,
            messages: RefCell::default(),
            count: Cell::new(0),
            bytes: Cell::new(0),
            receivers: Cell::new(0),
            notification: RefCell::default(),
            readable: Rc::default(),
            writable: Rc::default(),
        }))
    }

    /// Number of messages.
    pub(super) fn count(&self) -> usize {
        self.count.get()
    }

    /// It has no name any more.
    pub(super) fn lost_name(&self) {
        let mut attr = self.attr.get();
        attr.nlink = 0;
        (attr.ctime, attr.ctime_ns) = now();
        self.attr.set(attr);
    }

    /// A message came or went.
    fn was_used(&self) {
        let mut attr = self.attr.get();
        (attr.ctime, attr.ctime_ns) = now();
        (attr.mtime, attr.mtime_ns) = (attr.ctime, attr.ctime_ns);
        (attr.atime, attr.atime_ns) = (attr.ctime, attr.ctime_ns);
        self.attr.set(attr);
    }

    pub(super) fn try_send(&self, message: &mut Option<Vec<u8>>, priority: u32) -> Option<()> {
        if self.count.get() >= self.max_messages {
            return None;
        }
        let text = message.take()?;
        self.bytes.set(self.bytes.get() + text.len());
        self.messages.borrow_mut().entry(core::cmp::Reverse(priority)).or_default().push_back(text);
        self.count.set(self.count.get() + 1);
        self.was_used();
        Some(())
    }

    pub(super) fn try_receive(&self) -> Option<(u32, Vec<u8>)> {
        let mut messages = self.messages.borrow_mut();
        let mut first = messages.first_entry()?;
        let priority = first.key().0;
        let text = first.get_mut().pop_front()?;
        if first.get().is_empty() {
            first.remove();
        }
        self.bytes.set(self.bytes.get() - text.len());
        self.count.set(self.count.get() - 1);
        self.was_used();
        Some((priority, text))
    }
}

impl Inode for Queue {
    /// Unlike other regular files it can be waited for.
    fn is_polled(&self) -> bool {
        true
    }

    fn can_be_mapped(&self) -> bool {
        false
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn can_be_stored(&self) -> bool {
        false
    }

    fn attr(&self) -> Result<Attr> {
        Ok(self.attr.get())
    }

    fn file_type(&self) -> FileType {
        FileType::Regular
    }

    /// Only the size that stat(2) shows changes, as on Linux.
    fn truncate(&self, size: u64) -> Result<()> {
        self.attr.set(Attr { size, ..self.attr.get() });
        self.was_used();
        Ok(())
    }

    fn change(&self, wanted: &Change) -> Result<()> {
        change(&self.attr, wanted);
        Ok(())
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(figures())
    }

    fn attachments(&self) -> Option<&Attachments> {
        Some(&self.attachments)
    }
}

/// An open queue.
pub(super) struct OpenQueue {
    pub(super) queue: Rc<Queue>,
    /// Held for its drop.
    _claim: Option<Claim>,
}

impl OpenQueue {
    /// Opens the queue at a place.
    pub(super) fn open(queue: &Queue, place: &PathRef, flags: u32) -> Result<Rc<File>> {
        let queue = queue.this.upgrade().ok_or(Errno::ENOENT)?;
        let writes = matches!(flags & g::O_ACCMODE, g::O_WRONLY | g::O_RDWR);
        let claim = if writes { Some(Claim::write(place)?) } else { None };
        Ok(File::new(Rc::new(Self { queue, _claim: claim }), flags, Some(place.clone())))
    }
}

impl FileOps for OpenQueue {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities::READ.with(Abilities::POSITIONS)
    }

    /// Reads a line with the queue's state.
    fn read(&self, file: &File, dst: &mut dyn Dst) -> Result<usize> {
        let n = self.read_at(file, file.pos.get(), dst)?;
        file.pos.set(file.pos.get() + n as u64);
        Ok(n)
    }

    fn read_at(&self, _file: &File, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        let queue = &self.queue;
        let (kind, signal, pid) = queue.notification.borrow().as_ref().map_or((0, 0, 0), Notification::describe);
        let line = format!("QSIZE:{:<10} NOTIFY:{kind:<5} SIGNO:{signal:<5} NOTIFY_PID:{pid:<6}\n", queue.bytes.get());
        let rest = usize::try_from(offset).ok().and_then(|at| line.as_bytes().get(at..)).unwrap_or_default();
        let n = rest.len().min(dst.remaining());
        dst.put(&rest[..n])
    }

    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64> {
        let base = match whence {
            g::SEEK_SET => 0,
            g::SEEK_CUR => file.pos.get(),
            g::SEEK_END => self.queue.attr.get().size,
            // All of it is data.
            g::SEEK_DATA | g::SEEK_HOLE => {
                let (size, at) = (self.queue.attr.get().size, u64::try_from(offset).map_err(|_| Errno::EINVAL)?);
                if at >= size {
                    return Err(Errno::ENXIO);
                }
                let at = if whence == g::SEEK_DATA { at } else { size };
                file.pos.set(at);
                return Ok(at);
            }
            _ => return Err(Errno::EINVAL),
        };
        let at = base.checked_add_signed(offset).filter(|at| i64::try_from(*at).is_ok()).ok_or(Errno::EINVAL)?;
        file.pos.set(at);
        Ok(at)
    }

    fn attr(&self) -> Result<Attr> {
        Ok(self.queue.attr.get())
    }

    fn inode(&self) -> Option<Rc<dyn Inode>> {
        Some(self.queue.clone())
    }

    fn poll(&self, _file: &File) -> u32 {
        let count = self.queue.count.get();
        let mut events = 0;
        if count > 0 {
            events |= g::POLLIN | g::POLLRDNORM;
        }
        if count < self.queue.max_messages {
            events |= g::POLLOUT | g::POLLWRNORM;
        }
        events
    }

    fn poll_queues(&self, _file: &File, events: u32, out: &mut Queues) {
        if events & (g::POLLIN | g::POLLRDNORM) != 0 {
            out.push(self.queue.readable.clone());
        }
        if events & (g::POLLOUT | g::POLLWRNORM) != 0 {
            out.push(self.queue.writable.clone());
        }
    }

    /// Removes the notification of a process that closes the queue.
    fn flush(&self, _file: &File) {
        let pid = crate::ipc::caller();
        let gone = self.queue.notification.borrow_mut().take_if(|n| n.is_for(pid));
        if let Some(gone) = gone {
            gone.removed();
        }
    }
}
