//! Event counters, eventfd(2).

use super::unlocked::{Buffers, Kind};
use super::{Abilities, File, FileOps, Queues, anon, wait_on};
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use hal::cell::Global;
use hal::sync::{Rank, SpinLock};
use sched::wait::WaitQueue;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::memory::Text;
use vfs::{Attr, Dst, Src};

/// Bytes of a read and a write.
const SIZE: usize = 8;

/// Adds 1 to a file's counter, if there is one.
pub fn signal(file: Option<&Rc<File>>) {
    if let Some(counter) = file.and_then(|file| file.downcast::<EventFd>()) {
        counter.signal();
    }
}

/// What a descriptor of a counter points to.
#[derive(Debug)]
pub struct EventFd(Arc<Counter>);

/// A counter. Calls without the big lock use it, too.
#[derive(Debug)]
// No cache line is shared with other objects, which other virtual CPUs use.
#[repr(align(64))]
pub struct Counter {
    count: SpinLock<u64>,
    semaphore: bool,
    /// Waiters: the big lock covers them.
    readable: Global<Rc<WaitQueue>>,
    writable: Global<Rc<WaitQueue>>,
}

impl EventFd {
    /// A counter's open file; each read of a semaphore takes 1. `flags`: `O_NONBLOCK`.
    pub fn open(count: u64, semaphore: bool, flags: u32) -> Rc<File> {
        let counter = Arc::new(Counter {
            count: SpinLock::new(Rank::Counter, count),
            semaphore,
            readable: Global::new(WaitQueue::for_unlocked()),
            writable: Global::new(WaitQueue::for_unlocked()),
        });
        let file = File::new(Rc::new(Self(counter.clone())), g::O_RDWR | flags, None);
        file.give_unlocked_way(Kind::Counter(counter));
        file
    }

    /// Adds 1, unless the counter is full.
    pub fn signal(&self) {
        if self.0.add(1).is_some() {
            self.0.readable.wake_all();
        }
    }
}

impl Counter {
    /// What a read takes of a count.
    fn taken(&self, count: u64) -> u64 {
        if self.semaphore { count.min(1) } else { count }
    }

    /// Takes the counter (or 1 of it); `None` while it is 0.
    fn take(&self) -> Option<u64> {
        let mut count = self.count.lock();
        let taken = self.taken(*count);
        *count -= taken;
        (taken > 0).then_some(taken)
    }

    /// Adds; `None` if the sum would exceed 2^64 - 2.
    fn add(&self, n: u64) -> Option<()> {
        let mut count = self.count.lock();
        *count = count.checked_add(n).filter(|&sum| sum != u64::MAX)?;
        Some(())
    }

    /// poll(2) events now.
    #[inline(always)]
    pub fn poll(&self) -> u32 {
        let count = *self.count.lock();
        let mut events = 0;
        if count > 0 {
            events |= g::POLLIN;
        }
        if count < u64::MAX - 1 {
            events |= g::POLLOUT;
        }
        events
    }

    /// read(2) without the big lock: the bytes. `None`: left to the handler, with nothing done.
    pub fn read_unlocked(&self, into: &Buffers<'_>) -> Option<usize> {
        if into.bytes() < SIZE {
            return None;
        }
        let mut count = self.count.lock();
        let taken = self.taken(*count);
        if taken == 0 {
            return None;
        }
        into.store(0, &taken.to_ne_bytes())?;
        if hal::ring::has_losses() {
            return None;
        }
        *count -= taken;
        Some(SIZE)
    }

    /// write(2) in the same way.
    pub fn write_unlocked(&self, from: &Buffers<'_>) -> Option<usize> {
        let mut bytes = [0; SIZE];
        if from.bytes() != SIZE {
            return None;
        }
        from.fill(&mut bytes)?;
        let value = u64::from_ne_bytes(bytes);
        if value == u64::MAX || hal::ring::has_losses() {
            return None;
        }
        self.add(value)?;
        Some(SIZE)
    }

    /// Those who wait for what a write, or a read, makes possible.
    pub fn waiters(&self, write: bool) -> &WaitQueue {
        if write { &self.readable } else { &self.writable }
    }
}

impl FileOps for EventFd {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        // Writes have no flags, and it is no stream of bytes.
        Abilities::READ.with(Abilities::READ_FLAGS).with(Abilities::WRITE).with(Abilities::NO_WAIT)
    }

    fn read(&self, file: &File, dst: &mut dyn Dst) -> Result<usize> {
        if dst.remaining() < 8 {
            return Err(Errno::EINVAL);
        }
        let counter = &*self.0;
        let value = match counter.take() {
            Some(value) => value,
            None if file.nonblocking() => return Err(Errno::EAGAIN),
            None => wait_on(&counter.readable, || counter.take())?,
        };
        counter.writable.wake_all();
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
        let counter = &*self.0;
        if counter.add(value).is_none() {
            if file.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            wait_on(&counter.writable, || counter.add(value))?;
        }
        counter.readable.wake_for_data();
        Ok(8)
    }

    fn attr(&self) -> Result<Attr> {
        Ok(anon::anon_attr())
    }

    fn seek(&self, file: &File, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(file.pos.get())
    }

    fn poll(&self, _file: &File) -> u32 {
        self.0.poll()
    }

    fn poll_queues(&self, _file: &File, events: u32, out: &mut Queues) {
        if events & g::POLLIN != 0 {
            out.push(self.0.readable.clone());
        }
        if events & g::POLLOUT != 0 {
            out.push(self.0.writable.clone());
        }
    }

    fn describe(&self, _file: &File, out: &mut Text) {
        let count = *self.0.count.lock();
        let semaphore = i32::from(self.0.semaphore);
        out.print(format_args!("eventfd-count: {count:16x}\neventfd-id: 1\neventfd-semaphore: {semaphore}\n"));
    }

    fn link_name(&self) -> Vec<u8> {
        b"anon_inode:[eventfd]".to_vec()
    }
}
