//! Reads and writes that are collected later, io_submit(2).
//!
//! As in Linux for files that go through the page cache, a request is carried out while it is submitted; only its
//! result waits in the context until io_getevents(2) takes it. Those that wait for a file to be ready ([`poll`]) end
//! later. Contexts belong to an address space.

mod poll;

use super::poll::{Timeout, with_mask};
use crate::file::File;
use crate::file::eventfd::{self, EventFd};
use crate::mm::user::{self, UserDst, UserSrc};
use crate::sched::wait::{Interrupt, WaitQueue, wait_until};
use crate::syscall::file::rw::{bounded, seekable};
use crate::syscall::mm::calls::{sys_mmap, sys_munmap};
use crate::task;
use crate::task::descriptors::current_file;
use abi::layout::PAGE_SIZE;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use keel_core::pieces::Pieces;
use poll::Polls;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::FileType;

/// Most requests of a context: `fs.aio-max-nr`.
const MOST: u32 = 65_536;
/// Largest number that is looked at in Linux.
const MOST_EVENTS: u32 = 0x1000_0000 / 32;
/// Requests that a context has room for at least.
const LEAST: usize = 126;

/// Operations.
const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;
const POLL: u16 = 5;
const PREADV: u16 = 7;
const PWRITEV: u16 = 8;
/// Flag of a request: its completion is added to an eventfd.
const RESFD: u32 = 1;
/// Flags of preadv2(2) that are honoured.
const RW_FLAGS: u32 = g::RWF_HIPRI | g::RWF_DSYNC | g::RWF_SYNC;

/// Words of `struct iocb`.
const WORDS: usize = 8;
/// Place of its `aio_key`.
const KEY: usize = 8;

/// A context.
#[derive(Debug)]
struct Context {
    /// Its address in the program is its name.
    id: usize,
    room: usize,
    /// `struct io_event`s to be collected.
    events: RefCell<Pieces<[u64; 4]>>,
    polls: Polls,
    gone: Cell<bool>,
    queue: Rc<WaitQueue>,
}

impl Context {
    /// A request is over.
    fn push(&self, data: u64, address: usize, outcome: i64) {
        self.events.borrow_mut().push_back([data, address as u64, outcome as u64, 0]);
        self.queue.wake_all();
    }
}

/// The contexts of an address space.
#[derive(Debug, Default)]
pub struct Contexts(RefCell<Pieces<Rc<Context>>>);

/// Those of the current address space.
fn contexts() -> Rc<Contexts> {
    let mm = task::current().mm();
    let found = mm.aio.borrow().clone().and_then(|contexts| contexts.downcast().ok());
    found.unwrap_or_else(|| {
        let new = Rc::new(Contexts::default());
        *mm.aio.borrow_mut() = Some(new.clone());
        new
    })
}

fn find(id: usize) -> Result<Rc<Context>> {
    let contexts = contexts();
    let found = contexts.0.borrow().iter().find(|context| context.id == id).cloned();
    found.ok_or(Errno::EINVAL)
}

/// io_setup(2). EAGAIN, EFAULT, EINVAL, ENOMEM.
pub fn sys_io_setup(count: u32, address: usize) -> Result<()> {
    let old: usize = user::read(address)?;
    if old != 0 || count == 0 || count > MOST_EVENTS {
        return Err(Errno::EINVAL);
    }
    if count > MOST {
        return Err(Errno::EAGAIN);
    }
    // Programs look for a ring of results there; zeros say that there is none.
    let flags = g::MAP_PRIVATE | g::MAP_ANONYMOUS;
    let id = sys_mmap(0, PAGE_SIZE, g::PROT_READ | g::PROT_WRITE, flags, -1, 0)?;
    if let Err(errno) = user::write(address, &id) {
        let _ = sys_munmap(id, PAGE_SIZE);
        return Err(errno);
    }
    let context = Context {
        id,
        room: (count as usize * 2).max(LEAST),
        events: RefCell::default(),
        polls: Polls::default(),
        gone: Cell::new(false),
        queue: Rc::default(),
    };
    contexts().0.borrow_mut().push_back(Rc::new(context));
    Ok(())
}

/// io_destroy(2). EINVAL.
pub fn sys_io_destroy(id: usize) -> Result<()> {
    let context = find(id)?;
    contexts().0.borrow_mut().retain(|other| !Rc::ptr_eq(other, &context));
    context.gone.set(true);
    context.queue.wake_all();
    let _ = sys_munmap(id, PAGE_SIZE);
    Ok(())
}

/// io_submit(2): how many requests were taken. EAGAIN, EBADF, EFAULT, EINVAL.
pub fn sys_io_submit(id: usize, count: isize, requests: usize) -> Result<usize> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    let context = find(id)?;
    for i in 0..count.min(context.room) {
        let request = user::read(requests.wrapping_add(i * size_of::<usize>()));
        if let Err(errno) = request.and_then(|request| submit(&context, request)) {
            return if i > 0 { Ok(i) } else { Err(errno) };
        }
    }
    Ok(count.min(context.room))
}

/// `struct iocb`.
struct Request {
    data: u64,
    flags: u32,
    operation: u16,
    buffer: usize,
    len: usize,
    offset: i64,
}

fn submit(context: &Context, address: usize) -> Result<()> {
    let [data, key, what, buffer, len, offset, reserved, result]: [u64; WORDS] = user::read(address)?;
    if reserved != 0 || len > isize::MAX as u64 {
        return Err(Errno::EINVAL);
    }
    if context.events.borrow().len() + context.polls.len() >= context.room {
        return Err(Errno::EAGAIN);
    }
    let request = Request {
        data,
        flags: (key >> 32) as u32,
        operation: what as u16,
        buffer: buffer as usize,
        len: len as usize,
        offset: offset as i64,
    };
    let file = current_file((what >> 32) as i32)?;
    let counter = if result as u32 & RESFD != 0 {
        let counter = current_file((result >> 32) as i32)?;
        counter.downcast::<EventFd>().ok_or(Errno::EINVAL)?;
        Some(counter)
    } else {
        None
    };
    user::write(address.wrapping_add(KEY), &0u32)?;
    if request.operation == POLL {
        let events = u16::try_from(request.buffer).map_err(|_| Errno::EINVAL)?;
        if request.offset != 0 || request.len != 0 || request.flags != 0 {
            return Err(Errno::EINVAL);
        }
        let place = (address, request.data);
        let Some(ready) = context.polls.add(context, place, &file, u32::from(events), counter.as_ref())? else {
            return Ok(());
        };
        finish(context, &request, address, i64::from(ready), counter.as_ref());
        return Ok(());
    }
    let outcome = run(&request, &file)?;
    let outcome = outcome.map_or_else(|errno| -i64::from(errno.code()), |n| n as i64);
    finish(context, &request, address, outcome, counter.as_ref());
    Ok(())
}

/// Signals the completion of a request.
fn finish(context: &Context, request: &Request, address: usize, outcome: i64, counter: Option<&Rc<File>>) {
    context.push(request.data, address, outcome);
    eventfd::signal(counter);
}

/// Carries a request out: the errors of its arguments come first, its own inside.
fn run(r: &Request, file: &Rc<File>) -> Result<Result<usize>> {
    match r.operation {
        PREAD | PREADV => {
            let offset = prepare(r, file, file.readable())?;
            let mut dst = match r.operation {
                PREAD => UserDst::new(r.buffer, r.len)?,
                _ => UserDst::import(r.buffer, r.len)?,
            };
            bounded(offset, vfs::Dst::remaining(&dst))?;
            Ok(if seekable(file).is_ok() { file.read_at(offset, &mut dst) } else { file.read(&mut dst) })
        }
        PWRITE | PWRITEV => {
            let offset = prepare(r, file, file.writable())?;
            let mut src = match r.operation {
                PWRITE => UserSrc::new(r.buffer, r.len)?,
                _ => UserSrc::import(r.buffer, r.len)?,
            };
            bounded(offset, vfs::Src::remaining(&src))?;
            let written = if seekable(file).is_ok() { file.write_at(offset, &mut src) } else { file.write(&mut src) };
            let stores = r.flags & (g::RWF_DSYNC | g::RWF_SYNC) != 0;
            Ok(match (written, file.ops.inode()) {
                (Ok(n), Some(inode)) if stores => inode.sync(r.flags & g::RWF_SYNC == 0).map(|()| n),
                (written, _) => written,
            })
        }
        FSYNC | FDSYNC => {
            if r.buffer != 0 || r.offset != 0 || r.len != 0 || r.flags != 0 {
                return Err(Errno::EINVAL);
            }
            let stored =
                |inode: &Rc<dyn vfs::Inode>| matches!(inode.file_type(), FileType::Regular | FileType::Directory);
            let inode = file.ops.inode().filter(stored).ok_or(Errno::EINVAL)?;
            Ok(inode.sync(r.operation == FDSYNC).and_then(|()| file.ops.stored(file)).map(|()| 0))
        }
        _ => Err(Errno::EINVAL),
    }
}

/// What reads and writes check first: the offset. EBADF, EINVAL, EOPNOTSUPP.
fn prepare(r: &Request, file: &File, allowed: bool) -> Result<u64> {
    if r.flags & !RW_FLAGS != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if !allowed {
        return Err(Errno::EBADF);
    }
    if file.ops.inode().is_some_and(|inode| inode.file_type() == FileType::Directory) {
        return Err(Errno::EINVAL);
    }
    u64::try_from(r.offset).map_err(|_| Errno::EINVAL)
}

/// io_getevents(2): how many results were stored. EFAULT, EINTR, EINVAL.
pub fn sys_io_getevents(id: usize, least: isize, most: isize, events: usize, timeout: usize) -> Result<usize> {
    let timeout = Timeout::from_timespec(timeout)?;
    collect(id, least, most, events, timeout).map_err(interrupted)
}

/// io_pgetevents(2): with another signal mask meanwhile.
pub fn sys_io_pgetevents(
    id: usize,
    least: isize,
    most: isize,
    events: usize,
    timeout: usize,
    mask: usize,
) -> Result<usize> {
    let timeout = Timeout::from_timespec(timeout)?;
    let [mask, size]: [usize; 2] = if mask == 0 { [0, 0] } else { user::read(mask)? };
    with_mask(mask, size, || collect(id, least, most, events, timeout)).map_err(|errno| match errno {
        // Goes on after a signal without a handler.
        Errno::ERESTARTSYS => Errno::ERESTARTNOHAND,
        other => other,
    })
}

fn interrupted(errno: Errno) -> Errno {
    if errno == Errno::ERESTARTSYS { Errno::EINTR } else { errno }
}

fn collect(id: usize, least: isize, most: isize, address: usize, timeout: Timeout) -> Result<usize> {
    let context = find(id)?;
    if least < 0 || least > most {
        return Err(Errno::EINVAL);
    }
    let (least, most) = (least as usize, most as usize);
    let mut done = 0;
    loop {
        context.polls.settle(&context);
        while done < most {
            let Some(event) = context.events.borrow().front().copied() else { break };
            if let Err(errno) = user::write(address.wrapping_add(done * size_of_val(&event)), &event) {
                return if done > 0 { Ok(done) } else { Err(errno) };
            }
            let _taken = context.events.borrow_mut().pop_front();
            done += 1;
        }
        if done >= least || timeout == Timeout::Now {
            return Ok(done);
        }
        context.polls.prepare();
        let check = || {
            context.polls.settle(&context);
            (context.gone.get() || !context.events.borrow().is_empty()).then_some(())
        };
        match wait_until(core::slice::from_ref(&context.queue), timeout.deadline(), Interrupt::BySignal, check) {
            Ok(()) if context.gone.get() => return if done > 0 { Ok(done) } else { Err(Errno::EINVAL) },
            Ok(()) => {}
            Err(Errno::ETIMEDOUT) => return Ok(done),
            Err(errno) => return if done > 0 { Ok(done) } else { Err(errno) },
        }
    }
}

/// io_cancel(2): of requests that were submitted, only those that wait for a file are not over already. EFAULT,
/// EINPROGRESS: its result comes; EINVAL.
pub fn sys_io_cancel(id: usize, request: usize, _result: usize) -> Result<()> {
    let _key: u32 = user::read(request.wrapping_add(KEY))?;
    let context = find(id)?;
    Err(if context.polls.cancel(&context, request) { Errno::EINPROGRESS } else { Errno::EINVAL })
}
