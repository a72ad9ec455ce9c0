//! epoll(7).
//!
//! An [`Item`] per watched descriptor subscribes to the wait queues of its file. A wake puts it on
//! the instance's ready list ([`ready`]); epoll_wait(2) polls the files on that list. Items refer
//! to files weakly: a description that is closed drops out by itself.

mod ready;

pub use ready::{Ready, Watch};

use super::{Abilities, File, FileOps, Queues, anon};
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering::Relaxed;
use keel_core::pieces::Pieces;
use mm::user;
use sched::wait::{Tell, Wake};
use smallvec::SmallVec;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::Attr;
use vfs::memory::{Text, items, values};

/// Bits of `epoll_event.events` that are no poll(2) events.
const PRIVATE: u32 = g::EPOLLWAKEUP | g::EPOLLONESHOT | g::EPOLLET | g::EPOLLEXCLUSIVE;
/// What may come with `EPOLLEXCLUSIVE`.
pub const EXCLUSIVE_OK: u32 = g::EPOLLIN | g::EPOLLOUT | g::EPOLLERR | g::EPOLLHUP | PRIVATE & !g::EPOLLONESHOT;
/// ioctl_epoll(2).
const EPIOCSPARAMS: u32 = 0x4008_8a01;
const EPIOCGPARAMS: u32 = 0x8008_8a02;
/// Packets of one poll of a device that need no capability.
const MOST_PACKETS: u16 = 64;

/// Checks `struct epoll_params`. EINVAL, EPERM.
fn checked_params(bytes: [u8; 8]) -> Result<[u8; 8]> {
    let [m0, m1, m2, m3, b0, b1, prefer, pad] = bytes;
    if pad != 0 || u32::from_ne_bytes([m0, m1, m2, m3]) > i32::MAX as u32 || prefer > 1 {
        return Err(Errno::EINVAL);
    }
    let allowed = || super::caller::caller().cred().capable(g::CAP_NET_ADMIN);
    if u16::from_ne_bytes([b0, b1]) > MOST_PACKETS && !allowed() { Err(Errno::EPERM) } else { Ok(bytes) }
}

/// Longest chain of instances that watch each other.
pub const MAX_NESTING: usize = 5;

/// An epoll instance.
pub struct Epoll {
    items: RefCell<BTreeMap<Key, Rc<Item>>>,
    /// What may be ready, and who waits for that.
    pub ready: Arc<Ready>,
    /// Instances that watch this one.
    pub parents: RefCell<Pieces<Weak<Epoll>>>,
    /// Sweep items of closed files when there are this many.
    sweep_at: Cell<usize>,
    /// `struct epoll_params`: how long to poll network devices, of which there are none that would be polled.
    params: Cell<[u8; 8]>,
}

/// Descriptor and description: the same descriptor may come back with another description.
type Key = (i32, usize);

/// A watched descriptor.
pub struct Item {
    key: Key,
    file: Weak<File>,
    /// What calls without the big lock use of it.
    pub watch: Arc<Watch>,
    /// Where it has subscribed.
    queues: Queues,
    /// Taken out of the instance.
    dead: Cell<bool>,
}

impl Item {
    /// What holds now of what is wanted.
    fn holds(&self) -> u32 {
        let mask = self.watch.mask();
        if mask == 0 {
            return 0;
        }
        self.file.upgrade().map_or(0, |file| file.ops.poll(&file) & mask)
    }

    /// Ends its subscriptions, and takes it off the list.
    fn retire(self: &Rc<Self>) {
        if self.dead.replace(true) {
            return;
        }
        let weak: Weak<Self> = Rc::downgrade(self);
        let weak: Weak<dyn Wake> = weak;
        let told: Arc<dyn Tell> = self.watch.clone();
        for queue in &self.queues {
            if self.watch.is_told() && queue.is_unlocked() {
                queue.unsubscribe_told(&told);
            } else {
                queue.unsubscribe(&weak);
            }
        }
        self.watch.dequeue();
    }
}

impl Wake for Item {
    fn wake(&self) -> bool {
        let ready = self.watch.ready();
        if self.dead.get() || self.watch.mask() == 0 {
            return false;
        }
        let waited_for = !ready.queue().is_empty();
        self.watch.enqueue();
        ready.queue().wake_all();
        waited_for && self.is_exclusive()
    }

    fn is_exclusive(&self) -> bool {
        self.watch.events() & g::EPOLLEXCLUSIVE != 0
    }
}

impl Epoll {
    /// An instance without items.
    pub fn new() -> Rc<Self> {
        Rc::new(Self {
            items: RefCell::default(),
            ready: Ready::new(),
            parents: RefCell::default(),
            sweep_at: Cell::new(64),
            params: Cell::new([0; 8]),
        })
    }

    /// Adds an item and its subscriptions; ready at once if something holds.
    pub fn add(&self, key: Key, file: &Rc<File>, events: u32, data: u64) -> Result<()> {
        vfs::memory::check()?;
        let mut queues = Queues::new();
        file.ops.poll_queues(file, events, &mut queues);
        if queues.is_empty() {
            let mut any = Queues::new();
            file.ops.poll_queues(file, u32::MAX, &mut any);
            if any.is_empty() && !file.ops.inode().is_some_and(|inode| inode.is_polled()) {
                // Always ready files can't be watched.
                return Err(Errno::EPERM);
            }
        }
        let core = file.unlocked.get().filter(|core| core.can_poll()).cloned();
        let item = Rc::new_cyclic(|me| Item {
            key,
            file: Rc::downgrade(file),
            watch: Watch::new(self.ready.clone(), me.clone(), core, events, data),
            queues,
            dead: Cell::new(false),
        });
        for queue in &item.queues {
            if queue.is_outside() {
                self.ready.queue().mark_outside();
            }
            let subscribed = if item.watch.is_told() && queue.is_unlocked() {
                queue.subscribe_told(item.watch.clone())
            } else {
                let weak: Weak<Item> = Rc::downgrade(&item);
                queue.subscribe(weak)
            };
            subscribed.inspect_err(|_| item.retire())?;
        }
        self.sweep();
        self.items.borrow_mut().insert(key, item.clone());
        if file.ops.poll_needs_prepare() {
            self.ready.prepares.store(true, Relaxed);
            file.ops.poll_prepare(file, events & !PRIVATE, true);
        }
        self.check(&item);
        Ok(())
    }

    /// Puts an item on the ready list if something holds.
    fn check(&self, item: &Item) {
        if item.holds() != 0 {
            item.watch.enqueue();
            self.ready.queue().wake_all();
        }
    }

    /// Removes an item.
    pub fn remove(&self, key: Key) -> Option<Rc<Item>> {
        let item = self.items.borrow_mut().remove(&key)?;
        item.retire();
        Some(item)
    }

    /// Forgets items of closed files now and then.
    fn sweep(&self) {
        let mut items = self.items.borrow_mut();
        if items.len() >= self.sweep_at.get() {
            // Items own nothing whose drop could come back to this table.
            items.retain(|_, item| {
                let is_open = item.file.strong_count() > 0;
                if !is_open {
                    item.retire();
                }
                is_open
            });
            self.sweep_at.set((items.len() * 2).max(64));
        }
    }

    /// The item of a file that is open still.
    pub fn find(&self, key: Key) -> Option<Rc<Item>> {
        self.items.borrow().get(&key).filter(|item| item.file.strong_count() > 0).cloned()
    }

    /// Changes an item. What it subscribed to depends on its events, so others make a new one.
    pub fn modify(&self, item: &Rc<Item>, file: &Rc<File>, events: u32, data: u64) -> Result<()> {
        let interest = g::EPOLLIN | g::EPOLLRDNORM | g::EPOLLRDHUP | g::EPOLLPRI | g::EPOLLOUT | g::EPOLLWRNORM;
        if (item.watch.events() ^ events) & interest != 0 {
            self.remove(item.key);
            return self.add(item.key, file, events, data);
        }
        item.watch.set(events, data);
        if file.ops.poll_needs_prepare() {
            file.ops.poll_prepare(file, events & !PRIVATE, true);
        }
        self.check(item);
        Ok(())
    }

    /// Refreshes the readiness of files that cache it.
    pub fn prepare(&self, will_wait: bool) {
        if !self.ready.prepares.load(Relaxed) {
            return;
        }
        for item in values(&self.items) {
            if let Some(file) = item.file.upgrade()
                && item.watch.mask() != 0
                && file.ops.poll_needs_prepare()
            {
                file.ops.poll_prepare(&file, item.watch.mask(), will_wait);
                if item.watch.events() & g::EPOLLET == 0 && item.holds() != 0 {
                    item.watch.enqueue();
                }
            }
        }
    }

    /// Takes up to `max` events off the ready list.
    pub fn collect(&self, max: usize, out: &mut Events) {
        let mut left = self.ready.len();
        // What there is no memory for stays ready.
        while left > 0 && out.len() < max && out.try_reserve(1).is_ok() {
            left -= 1;
            let Some(watch) = self.ready.pop() else { return };
            let Some(item) = watch.item.upgrade().filter(|item| !item.dead.get()) else { continue };
            if item.file.strong_count() == 0 {
                self.remove(item.key);
                continue;
            }
            let events = item.holds();
            if events == 0 {
                continue;
            }
            let Some(wanted) = watch.fire() else { continue };
            if wanted & (g::EPOLLONESHOT | g::EPOLLET) == 0 {
                watch.enqueue();
            }
            out.push(Found { events, wanted, item });
        }
    }

    /// Events that could not be stored in the program's memory: they are for the next call.
    pub fn put_back(&self, rest: &[Found]) {
        for Found { wanted, item, .. } in rest {
            item.watch.restore(*wanted);
            if !item.dead.get() {
                item.watch.enqueue();
            }
        }
        self.ready.queue().wake_all();
    }

    /// Instances below this one: the longest chain. `None` if `target` is among them.
    pub fn depth_without(&self, target: &Epoll) -> Option<usize> {
        if core::ptr::eq(self, target) {
            return None;
        }
        let mut depth = 0;
        for file in values(&self.items).filter_map(|item| item.file.upgrade()) {
            if let Some(epoll) = file.downcast::<Instance>() {
                depth = depth.max(1 + epoll.0.depth_without(target)?);
            }
        }
        Some(depth)
    }

    /// The longest chain of instances above this one.
    pub fn height(&self) -> usize {
        self.parents.borrow_mut().retain(|parent| parent.strong_count() > 0);
        let parents = items(&self.parents).filter_map(|parent| parent.upgrade());
        parents.map(|parent| 1 + parent.height()).max().unwrap_or(0)
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        for item in self.items.get_mut().values() {
            item.retire();
        }
    }
}

/// Something that holds.
pub struct Found {
    /// `EPOLL*`.
    pub events: u32,
    /// What was wanted, with private bits, before a one-shot item fired.
    wanted: u32,
    /// Whose they are.
    pub item: Rc<Item>,
}

/// The event as the program gets it.
pub type Events = SmallVec<[Found; 16]>;

/// What a descriptor of an instance points to.
pub struct Instance(pub Rc<Epoll>);

impl FileOps for Instance {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities::NONE
    }
    fn attr(&self) -> Result<Attr> {
        Ok(anon::anon_attr())
    }
    fn seek(&self, file: &File, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(file.pos.get())
    }
    fn poll(&self, _file: &File) -> u32 {
        let ready = |watch: Arc<Watch>| watch.item.upgrade().is_some_and(|item| !item.dead.get() && item.holds() != 0);
        let any = (0..).map_while(|i| self.0.ready.get(i)).any(ready);
        if any { g::POLLIN | g::POLLRDNORM } else { 0 }
    }
    fn poll_needs_prepare(&self) -> bool {
        self.0.ready.prepares.load(Relaxed)
    }
    fn poll_prepare(&self, _file: &File, _events: u32, will_wait: bool) {
        self.0.prepare(will_wait);
    }
    fn poll_queues(&self, _file: &File, _events: u32, out: &mut Queues) {
        out.push(self.0.ready.queue().clone());
    }

    fn ioctl(&self, _file: &File, command: u32, arg: usize) -> Result<usize> {
        match command {
            EPIOCGPARAMS => user::write(arg, &self.0.params.get())?,
            EPIOCSPARAMS => self.0.params.set(checked_params(user::read(arg)?)?),
            _ => return Err(Errno::EINVAL),
        }
        Ok(0)
    }

    fn describe(&self, _file: &File, out: &mut Text) {
        for item in values(&self.0.items) {
            let Some(file) = item.file.upgrade() else { continue };
            let Ok(attr) = file.ops.attr() else { continue };
            let (fd, events, data, pos) = (item.key.0, item.watch.events(), item.watch.data(), file.pos.get());
            out.print(format_args!(
                "tfd: {fd:8} events: {events:8x} data: {data:16x}  pos:{pos} ino:{:x} sdev:{:x}\n",
                attr.ino, attr.dev
            ));
        }
    }

    fn link_name(&self) -> Vec<u8> {
        b"anon_inode:[eventpoll]".to_vec()
    }
}

/// The file that an instance watches as descriptor `fd`; if several were, the `nth`. EINVAL, ENOENT.
pub fn watched(instance: &File, fd: i32, nth: u32) -> Result<Rc<File>> {
    let Instance(epoll) = instance.ops.as_any().downcast_ref().ok_or(Errno::EINVAL)?;
    let items = epoll.items.borrow();
    let mut files = items.range((fd, 0)..=(fd, usize::MAX)).filter_map(|(_, item)| item.file.upgrade());
    files.nth(nth as usize).ok_or(Errno::ENOENT)
}
