//! File change events, inotify(7).

use super::{Abilities, File, FileOps, Queues, anon, wait_on};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use mm::user;
use sched::wait::WaitQueue;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::memory::Text;
use vfs::notify::{self, Event, Listener};
use vfs::{Attr, Dst, Inode};

/// Most events that wait to be read; `/proc/sys/fs/inotify` shows this and the next two.
const MAX_QUEUED: usize = 16384;
/// Most instances of a user.
const MAX_INSTANCES: usize = 128;
/// Most watches of a user.
const MAX_WATCHES: usize = 192_536;

const HEAD: usize = size_of::<g::inotify_event>();
/// Bits of inotify_add_watch(2) that say how, not what.
const HOW: u32 =
    g::IN_ONLYDIR | g::IN_DONT_FOLLOW | g::IN_EXCL_UNLINK | g::IN_MASK_ADD | g::IN_MASK_CREATE | g::IN_ONESHOT;
/// All bits that inotify_add_watch(2) knows.
pub const ALL: u32 = g::IN_ALL_EVENTS | g::IN_UNMOUNT | g::IN_Q_OVERFLOW | g::IN_IGNORED | g::IN_ISDIR | HOW;

/// Instances and watches by user.
static USERS: Global<RefCell<BTreeMap<u32, (usize, usize)>>> = Global::new(RefCell::new(BTreeMap::new()));

/// Changes a user's counts; `None` if they would exceed the limits.
fn account(uid: u32, instances: isize, watches: isize) -> Option<()> {
    let mut users = USERS.borrow_mut();
    let counts = users.entry(uid).or_default();
    let new = (counts.0.saturating_add_signed(instances), counts.1.saturating_add_signed(watches));
    if new.0 > MAX_INSTANCES || new.1 > MAX_WATCHES {
        return None;
    }
    *counts = new;
    if new == (0, 0) {
        users.remove(&uid);
    }
    Some(())
}

/// An event that waits to be read.
#[derive(PartialEq, Eq)]
struct Queued {
    wd: i32,
    mask: u32,
    cookie: u32,
    name: Box<[u8]>,
}

impl Queued {
    /// Bytes that it takes in the reader's buffer: names are padded with zeros.
    fn len(&self) -> usize {
        HEAD + if self.name.is_empty() { 0 } else { (self.name.len() + 1).next_multiple_of(HEAD) }
    }

    /// Equal to `last`: Linux merges identical successive events.
    fn repeats(&self, last: &Self) -> bool {
        last.mask & g::IN_IGNORED == 0 && (self.wd, self.mask) == (last.wd, last.mask) && self.name == last.name
    }
}

/// An instance: its queue and its watches.
pub struct Inotify {
    events: RefCell<VecDeque<Queued>>,
    /// Bytes of all of them.
    bytes: Cell<usize>,
    watches: RefCell<BTreeMap<i32, Rc<Watch>>>,
    last_wd: Cell<i32>,
    readable: Rc<WaitQueue>,
    uid: u32,
}

/// An inode that is watched by an instance.
struct Watch {
    wd: i32,
    /// Events, and [`HOW`].
    mask: Cell<u32>,
    inode: Rc<dyn Inode>,
    instance: Weak<Inotify>,
}

impl Listener for Watch {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn hear(&self, event: &Event<'_>) {
        let mask = self.mask.get();
        let unlinked = event.unlinked && mask & g::IN_EXCL_UNLINK != 0;
        if mask & event.mask & g::IN_ALL_EVENTS == 0 || unlinked {
            return;
        }
        let Some(instance) = self.instance.upgrade() else { return };
        // Of a directory's own end its type is not told.
        let to_self = event.mask & (g::IN_DELETE_SELF | g::IN_MOVE_SELF) != 0;
        let told = event.mask & (g::IN_ALL_EVENTS | if to_self { 0 } else { g::IN_ISDIR });
        instance.queue(Queued {
            wd: self.wd,
            mask: told,
            cookie: event.cookie,
            name: event.name.unwrap_or_default().into(),
        });
        if mask & g::IN_ONESHOT != 0 {
            instance.forget(self.wd);
        }
    }

    fn gone(&self) {
        if let Some(instance) = self.instance.upgrade() {
            instance.forget(self.wd);
        }
    }
}

impl Inotify {
    /// An instance of a user. EMFILE.
    pub fn new(uid: u32) -> Result<Rc<Self>> {
        account(uid, 1, 0).ok_or(Errno::EMFILE)?;
        Ok(Rc::new(Self {
            events: RefCell::default(),
            bytes: Cell::new(0),
            watches: RefCell::default(),
            last_wd: Cell::new(0),
            readable: Rc::default(),
            uid,
        }))
    }

    /// Queues an event and wakes readers.
    fn queue(&self, event: Queued) {
        let mut events = self.events.borrow_mut();
        if events.back().is_some_and(|last| event.repeats(last)) {
            return;
        }
        let event = if events.len() < MAX_QUEUED && events.try_reserve(1).is_ok() {
            event
        } else if events.back().is_some_and(|last| last.mask == g::IN_Q_OVERFLOW) || events.try_reserve(1).is_err() {
            return;
        } else {
            Queued { wd: -1, mask: g::IN_Q_OVERFLOW, cookie: 0, name: Box::default() }
        };
        self.bytes.set(self.bytes.get() + event.len());
        events.push_back(event);
        drop(events);
        self.readable.wake_all();
    }

    /// Takes an event of at most `room` bytes. EINVAL if the next one is longer.
    fn take(&self, room: usize) -> Option<Result<Queued>> {
        let mut events = self.events.borrow_mut();
        if events.front()?.len() > room {
            return Some(Err(Errno::EINVAL));
        }
        let event = events.pop_front()?;
        self.bytes.set(self.bytes.get().saturating_sub(event.len()));
        Some(Ok(event))
    }

    /// Removes a watch and queues IN_IGNORED. `None` if there is none.
    pub fn forget(&self, wd: i32) -> Option<()> {
        let watch = self.watches.borrow_mut().remove(&wd)?;
        notify::leave(&watch.inode, &*watch);
        account(self.uid, 0, -1)?;
        self.queue(Queued { wd, mask: g::IN_IGNORED, cookie: 0, name: Box::default() });
        Some(())
    }

    /// Adds a watch, or changes the one that the inode has. EEXIST, ENOSPC.
    pub fn watch(self: &Rc<Self>, inode: &Rc<dyn Inode>, mask: u32) -> Result<i32> {
        let events = mask & (g::IN_ALL_EVENTS | g::IN_EXCL_UNLINK | g::IN_ONESHOT);
        let mine = |listener: &Rc<dyn Listener>| {
            let watch = listener.as_any().downcast_ref::<Watch>()?;
            core::ptr::eq(watch.instance.as_ptr(), Rc::as_ptr(self)).then_some(watch.wd)
        };
        let known = notify::find(inode, mine).and_then(|wd| self.watches.borrow().get(&wd).cloned());
        if let Some(watch) = known {
            if mask & g::IN_MASK_CREATE != 0 {
                return Err(Errno::EEXIST);
            }
            let before = if mask & g::IN_MASK_ADD != 0 { watch.mask.get() } else { 0 };
            watch.mask.set(before | events);
            return Ok(watch.wd);
        }
        account(self.uid, 0, 1).ok_or(Errno::ENOSPC)?;
        // Numbers are not used again soon: events of the old watch may still wait.
        let mut wd = self.last_wd.get();
        loop {
            wd = wd.checked_add(1).unwrap_or(1);
            if !self.watches.borrow().contains_key(&wd) {
                break;
            }
        }
        self.last_wd.set(wd);
        let watch = Rc::new(Watch { wd, mask: Cell::new(events), inode: inode.clone(), instance: Rc::downgrade(self) });
        notify::listen(inode, watch.clone());
        self.watches.borrow_mut().insert(wd, watch);
        Ok(wd)
    }

    fn store(event: &Queued, dst: &mut dyn Dst) -> Result<()> {
        let len = event.len();
        let mut bytes = [0; HEAD + (vfs::NAME_MAX + 1).next_multiple_of(HEAD)];
        let head = [event.wd as u32, event.mask, event.cookie, (len - HEAD) as u32];
        for (at, word) in head.iter().enumerate() {
            bytes[at * 4..at * 4 + 4].copy_from_slice(&word.to_ne_bytes());
        }
        let name = bytes.get_mut(HEAD..HEAD + event.name.len()).ok_or(Errno::EINVAL)?;
        name.copy_from_slice(&event.name);
        if dst.put(bytes.get(..len).ok_or(Errno::EINVAL)?)? == len { Ok(()) } else { Err(Errno::EFAULT) }
    }
}

impl Drop for Inotify {
    fn drop(&mut self) {
        let watches = self.watches.take();
        // Nothing is refused when counts fall.
        let _ = account(self.uid, -1, -(watches.len() as isize));
        for watch in watches.values() {
            notify::leave(&watch.inode, &**watch);
        }
    }
}

impl FileOps for Rc<Inotify> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities::READ.with(Abilities::ASYNC)
    }

    fn read(&self, file: &File, dst: &mut dyn Dst) -> Result<usize> {
        let room = dst.remaining();
        let mut event = match self.take(room) {
            Some(event) => event?,
            None if file.nonblocking() => return Err(Errno::EAGAIN),
            None => wait_on(&self.readable, || self.take(room))??,
        };
        let mut done = 0;
        loop {
            Inotify::store(&event, dst)?;
            done += event.len();
            match self.take(room - done) {
                Some(Ok(next)) => event = next,
                Some(Err(_)) | None => return Ok(done),
            }
        }
    }

    fn attr(&self) -> Result<Attr> {
        Ok(anon::anon_attr())
    }

    fn seek(&self, file: &File, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(file.pos.get())
    }

    fn poll(&self, _file: &File) -> u32 {
        if self.events.borrow().is_empty() { 0 } else { g::POLLIN | g::POLLRDNORM }
    }

    fn poll_queues(&self, _file: &File, _events: u32, out: &mut Queues) {
        out.push(self.readable.clone());
    }

    fn ioctl(&self, _file: &File, command: u32, arg: usize) -> Result<usize> {
        if command != uapi::raw::ioctl::FIONREAD {
            return Err(Errno::ENOTTY);
        }
        user::write(arg, &(self.bytes.get() as i32))?;
        Ok(0)
    }

    fn describe(&self, _file: &File, out: &mut Text) {
        for watch in vfs::memory::values(&self.watches).rev() {
            let attr = watch.inode.attr().unwrap_or_default();
            let (major, minor) = vfs::attr::split_dev(attr.dev);
            let (wd, mask) = (watch.wd, watch.mask.get() & g::IN_ALL_EVENTS);
            let sdev = major << 20 | minor;
            out.print(format_args!(
                "inotify wd:{wd:x} ino:{:x} sdev:{sdev:x} mask:{mask:x} ignored_mask:0 \n",
                attr.ino
            ));
        }
    }

    fn link_name(&self) -> Vec<u8> {
        b"anon_inode:inotify".to_vec()
    }
}
