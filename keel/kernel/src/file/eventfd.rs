//! Event counters, eventfd(2).

use super::{File, FileOps, Queues, anon, wait_on};
use crate::sched::wait::WaitQueue;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::Cell;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::memory::Text;
use vfs::{Attr, Dst, Src};

/// Adds 1 to a file's counter, if there is one.
pub fn signal(file: Option<&Rc<File>>) {
    if let Some(counter) = file.and_then(|file| file.downcast::<EventFd>()) {
        counter.signal();
    }
}

/// A counter.
#[derive(Debug)]
pub struct EventFd {
    count: Cell<u64>,
    semaphore: bool,
    readable: Rc<WaitQueue>,
    writable: Rc<WaitQueue>,
}

impl EventFd {
    /// A counter; each read of a semaphore takes 1.
    pub fn new(count: u64, semaphore: bool) -> Self {
        Self { count: Cell::new(count), semaphore, readable: Rc::default(), writable: Rc::default() }
    }

    /// Takes the counter (or 1 of it); `None` while it is 0.
    fn take(&self) -> Option<u64> {
        let count = self.count.get();
        let taken = if self.semaphore { count.min(1) } else { count };
        self.count.set(count - taken);
        (taken > 0).then_some(taken)
    }

    /// Adds 1, unless the counter is full.
    pub fn signal(&self) {
        if self.add(1).is_some() {
            self.readable.wake_all();
        }
    }

    /// Adds; `None` if the sum would exceed 2^64 - 2.
    fn add(&self, n: u64) -> Option<()> {
        let sum = self.count.get().checked_add(n).filter(|&sum| sum != u64::MAX)?;
        self.count.set(sum);
        Some(())
    }
}

impl FileOps for EventFd {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read(&self, file: &File, dst: &mut dyn Dst) -> Result<usize> {
        if dst.remaining() < 8 {
            return Err(Errno::EINVAL);
        }
        let value = match self.take() {
            Some(value) => value,
            None if file.nonblocking() => return Err(Errno::EAGAIN),
            None => wait_on(&self.readable, || self.take())?,
        };
        self.writable.wake_all();
        dst.put_all(&value.to_ne_bytes()).map(|()| size_of_val(&value))
    }

    fn write(&self, file: &File, src: &mut dyn Src) -> Result<usize> {
        if src.remaining() != 8 {
            return Err(Errno::EINVAL);
        }
        let mut bytes = [0; 8];
        if src.get(&mut bytes)? < 8 {
            return Err(Errno::EFAULT);
        }
        let value = u64::from_ne_bytes(bytes);
        if value == u64::MAX {
            return Err(Errno::EINVAL);
        }
        if self.add(value).is_none() {
            if file.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            wait_on(&self.writable, || self.add(value))?;
        }
        self.readable.wake_for_data();
        Ok(8)
    }

    fn attr(&self) -> Result<Attr> {
        Ok(anon::anon_attr())
    }

    fn seek(&self, file: &File, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(file.pos.get())
    }

    fn poll(&self, _file: &File) -> u32 {
        let count = self.count.get();
        let mut events = 0;
        if count > 0 {
            events |= g::POLLIN;
        }
        if count < u64::MAX - 1 {
            events |= g::POLLOUT;
        }
        events
    }

    fn poll_queues(&self, _file: &File, events: u32, out: &mut Queues) {
        if events & g::POLLIN != 0 {
            out.push(self.readable.clone());
        }
        if events & g::POLLOUT != 0 {
            out.push(self.writable.clone());
        }
    }

    fn describe(&self, _file: &File, out: &mut Text) {
        let count = self.count.get();
        let semaphore = i32::from(self.semaphore);
        out.print(format_args!("eventfd-count: {count:16x}\neventfd-id: 1\neventfd-semaphore: {semaphore}\n"));
    }

    fn link_name(&self) -> Vec<u8> {
        b"anon_inode:[eventfd]".to_vec()
    }
}
