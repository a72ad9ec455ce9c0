//! Files of the host: what the pod's exports hold, cached.
//!
//! A [`HostNode`] stands for one file of an [`Export`]. Attributes and names are believed for
//! [`FRESH_NS`] (in exports that seldom change [`SETTLED_NS`]) after they were fetched, and fetched again
//! at the next use. Trips to the host are what
//! costs, so every trip brings more than was asked for: a lookup all components of the path, a
//! directory its entries' attributes, a read what follows.

mod cache;
mod content;
mod dir;
mod file;
mod gather;
mod image;
mod lease;
mod list;
mod lists;
mod locks;
mod mounted;
mod node;
mod order;
mod paths;
mod prefetch;
mod rename;
mod window;

pub use gather::{End, Landing};
pub use lease::when_not_leased;
pub use locks::Outside;
pub use node::HostNode;

use abi::operation::{Encoded, Operation, Payload, Reply, Results};
use abi::request::{Close, NodeAttr, Read, Unmap, Walk, Walked};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cache::Cache;
use core::cell::{Cell, RefCell};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use hal::frame::Frame;
use order::{Asked, Recent};
use uapi::{Errno, Result};
use window::Window;

/// How long attributes and names of the host are believed, in ns.
pub const FRESH_NS: u64 = 1_000_000_000;
/// The same for exports that seldom change, such as the host's `/usr`.
pub const SETTLED_NS: u64 = 10_000_000_000;
/// The same for images, which do not change: they are believed until pages are lost.
pub const FIXED_NS: u64 = u64::MAX / 2;

/// Receives the reply to a request that nobody waits for.
pub type Done = Box<dyn FnOnce(Result<Reply>)>;

/// The files connector as this crate sees it.
pub trait HostFiles {
    /// Sends a request and waits for its completion. Other threads may run meanwhile.
    fn call(&self, operation: Encoded, input: &[u8], output: &mut [u8]) -> Result<Reply>;
    /// Reads at most `len` bytes into `frames`, one after the other, from their byte `start` on. Returns how many came.
    fn read_frames(&self, read: Read, frames: &[Frame], start: usize, len: usize) -> Result<usize>;
    /// Closes a handle. Never blocks.
    fn close(&self, close: Close);
    /// Sends a request whose input lies in frames, and its output in another one. Never waits, and holds no
    /// borrow of this crate's later: `done` is called when it is completed, before what was sent after it, and the frames
    /// stay until then.
    fn send(&self, operation: Encoded, input: Parts<'_>, output: Part<'_>, done: Done);
    /// Calls `done` of requests that are completed, without a trip.
    fn collect(&self) {}
    /// Writes were gathered that must be sent, by [`Host::flush`], before the next request of any kind, and within `ns`.
    fn gathered(&self, _ns: u64) {}
    /// All gathered writes have reached the host.
    fn all_landed(&self) {}
    /// A handle on a page of the window, by guest-physical address; `None` where there is no window.
    fn window_page(&self, gpa: u64) -> Option<Frame>;
    /// Shows pages of the window no more. Never waits; what is sent later finds them gone.
    fn unmap(&self, _unmap: Unmap) {}
    /// Sends a request that gives up a lock, and has the monitor serve it soon. Never waits.
    fn unlock(&self, _operation: Encoded) {}
    /// Blocks the thread until `is_so` holds, which is looked at again after each [`HostFiles::wake`].
    fn wait(&self, is_so: &dyn Fn() -> bool) -> Result<()>;
    /// Pauses the calling thread. EINTR: it is being killed.
    fn pause(&self, ns: u64) -> Result<()>;
    /// Something happened that threads in [`HostFiles::wait`] may wait for. Never blocks.
    fn wake(&self) {}
    /// Pieces of the window have lost their files: [`Host::tidy`] is to be called in a while.
    fn retired(&self) {}
    /// Whether the host lost pages of the window, which read as zeros since, and nobody has called
    /// [`crate::Inode::drop_window`].
    fn has_losses(&self) -> bool {
        false
    }
    /// Whether the monitor looks for requests all the time, so that one costs no exit.
    fn is_polled(&self) -> bool {
        false
    }
    /// What a short request takes now, on the way and on the host, in ns: an estimate.
    fn trip_ns(&self) -> u64 {
        30_000
    }
    /// Whether so little memory is left that half of the cache must do.
    fn memory_is_short(&self) -> bool {
        false
    }
}

/// Bytes of a frame: where they begin, and how many.
pub type Part<'a> = (&'a Frame, usize, usize);

/// Bytes of frames, one after the other: where they begin, and how many.
pub type Parts<'a> = (&'a [Frame], usize, usize);

/// What all exports share: the way to the host and the bounds of the caches.
pub struct Host {
    io: Rc<dyn HostFiles>,
    cache: Cache,
    window: Window,
    gather: gather::Gather,
    /// How many directories in a row were listed right after the one they lie in.
    tree_steps: Cell<u32>,
    /// In how many directories in a row names were sought, one after the other.
    sought_steps: Cell<u32>,
    /// Since the last listing somebody looked up something that is no directory.
    looked_up: Cell<bool>,
    /// The directory that was listed last because names were sought in it.
    sought: RefCell<Weak<HostNode>>,
    /// Directories that are being listed: number of the request, export and path.
    underway: RefCell<Vec<(u64, u32, Vec<u8>)>>,
    /// A transfer buffer that is not in use now.
    scratch: Cell<Vec<u8>>,
    /// Files up to this size are mapped from RAM instead of the window.
    map_from_ram: u64,
    /// The monitor knows [`abi::request::Fetch`].
    has_fetch: Cell<bool>,
    /// Requests to write so far.
    writes: Cell<u64>,
    /// Changes of the pod that were done so far, see [`order`].
    changes: Cell<u64>,
    /// Handles for locks, see [`locks`].
    holdings: Cell<usize>,
}

impl core::fmt::Debug for Host {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

impl Host {
    /// `cache_pages`: most pages of file content that are kept in RAM. `map_from_ram`: files up to
    /// this size (bytes) are mapped from there, larger ones through the window.
    pub fn new(io: Rc<dyn HostFiles>, cache_pages: usize, map_from_ram: u64) -> Rc<Self> {
        let host = Rc::new(Self {
            io,
            map_from_ram,
            cache: Cache::new(cache_pages),
            window: Window::default(),
            gather: gather::Gather::default(),
            tree_steps: Cell::new(0),
            sought_steps: Cell::new(0),
            looked_up: Cell::new(false),
            sought: RefCell::default(),
            underway: RefCell::default(),
            scratch: Cell::default(),
            has_fetch: Cell::new(true),
            writes: Cell::new(0),
            changes: Cell::new(0),
            holdings: Cell::new(0),
        });
        crate::memory::reclaim_from(&host);
        host
    }

    /// Sends a request and waits for its completion. Other threads may run meanwhile.
    fn call<O: Operation>(&self, operation: O, input: &O::Input, output: &mut O::Output) -> Result<O::Results> {
        let reply = self.io.call(operation.encode(), input.bytes(), output.bytes_mut())?;
        O::Results::decode(reply).ok_or(Errno::EIO)
    }

    /// Closes a handle.
    fn close(&self, handle: u64) {
        self.io.close(Close { handle });
    }

    /// Gives cached content back until `pages` pages were freed or nothing is left, then all names: memory
    /// is short.
    pub fn shrink(&self, pages: usize) -> usize {
        match self.cache.shrink(pages) {
            0 => self.cache.drop_names(),
            freed => freed,
        }
    }

    /// Lets all nodes go that the caches hold: at its end.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn forget(&self) {
        self.cache.drop_names();
        self.cache.drop_ahead();
    }

    /// Has the host store what was written through open handles, sync(2).
    pub fn sync_all(&self) {
        for node in self.cache.handle_users() {
            // sync(2) returns no errors.
            let _ = node.sync_content(false);
        }
    }

    /// Pages of file content that are cached in RAM.
    pub fn cached_pages(&self) -> usize {
        self.cache.pages()
    }

    /// Runs `f` with a transfer buffer of `len` bytes. ENOMEM.
    fn with_buffer<R>(&self, len: usize, f: impl FnOnce(&mut [u8]) -> Result<R>) -> Result<R> {
        let mut buffer = self.scratch.take();
        if buffer.len() < len {
            buffer.try_reserve_exact(len - buffer.len()).map_err(|_| Errno::ENOMEM)?;
            buffer.resize(len, 0);
        }
        let result = f(&mut buffer[..len]);
        // Keep the bigger one if another thread put its own back meanwhile.
        let other = self.scratch.take();
        self.scratch.set(if other.len() > buffer.len() { other } else { buffer });
        result
    }
}

/// Identity of a host file: device, inode, and birth time against reuse of the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    dev: u64,
    ino: u64,
    btime: i64,
    btime_ns: u32,
}

impl Key {
    const fn of(attr: &NodeAttr) -> Self {
        Self { dev: attr.dev, ino: attr.ino, btime: attr.btime, btime_ns: attr.btime_ns }
    }
}

/// A host directory (or file) that the pod may see.
pub struct Export {
    host: Rc<Host>,
    id: u32,
    writable: bool,
    /// How long attributes and names are believed, in ns.
    fresh_ns: u64,
    /// A tree, because many nodes would need a big table in one piece.
    nodes: RefCell<BTreeMap<Key, Weak<HostNode>>>,
    recent: RefCell<Recent>,
    paths: paths::Paths,
    /// When the pod took a lock of one of its files last (monotonic ns): what was asked for before may be old.
    locked: Arc<AtomicU64>,
    /// Locks of its files are held on the host, too.
    shares_locks: Cell<bool>,
}

impl core::fmt::Debug for Export {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Export").field("id", &self.id).field("writable", &self.writable).finish_non_exhaustive()
    }
}

/// An export that is opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Its number.
    pub id: u32,
    /// Whether changes go to the host.
    pub writable: bool,
    /// How long what is known of it is believed, in ns.
    pub fresh_ns: u64,
}

impl Export {
    /// Opens exports: their roots, all in one trip. ENOMEM; of each export the errno of the host.
    pub fn open_all(host: &Rc<Host>, exports: &[Opening]) -> Result<Vec<Result<Rc<HostNode>>>> {
        const SIZE: usize = size_of::<NodeAttr>();
        let (asked, mut roots) = (host.ask(), Vec::new());
        roots.try_reserve_exact(exports.len()).map_err(|_| Errno::ENOMEM)?;
        let opened = |export, walked: Result<Walked>, attr: &NodeAttr| match walked? {
            Walked { stopped: 0, .. } => Ok(Self::new(host, export).node(None, attr, asked)),
            Walked { stopped, .. } => Err(Errno::from_code(stopped.into())),
        };
        for exports in exports.chunks(hal::frame::FRAME_SIZE / SIZE) {
            let Some((last, exports)) = exports.split_last() else { break };
            let room = Frame::alloc_zeroed().ok_or(Errno::ENOMEM)?;
            let outcomes = Rc::new(RefCell::new(alloc::vec![Err(Errno::EIO); exports.len()]));
            for (number, export) in exports.iter().enumerate() {
                let outcomes = outcomes.clone();
                let done = move |outcome| outcomes.borrow_mut()[number] = outcome;
                let walk = Walk { export: export.id, skip: 0 };
                host.io.send(walk.encode(), (&[], 0, 0), (&room, number * SIZE, SIZE), Box::new(done));
            }
            // Its answer comes after theirs, also if the host holds requests back.
            let mut attr = [NodeAttr::default()];
            let walked = host.call(Walk { export: last.id, skip: 0 }, &[], &mut attr);
            for (number, export) in exports.iter().enumerate() {
                let walked = outcomes.borrow()[number].and_then(|reply| Walked::decode(reply).ok_or(Errno::EIO));
                let mut attr = NodeAttr::default();
                room.read(number * SIZE, bytemuck::bytes_of_mut(&mut attr));
                roots.push(opened(export, walked, &attr));
            }
            roots.push(opened(last, walked, &attr[0]));
        }
        Ok(roots)
    }

    /// Opens one export, for tests.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn open(host: &Rc<Host>, id: u32, writable: bool, fresh_ns: u64) -> Result<Rc<HostNode>> {
        Self::open_all(host, &[Opening { id, writable, fresh_ns }])?.pop().unwrap_or(Err(Errno::EIO))
    }

    fn new(host: &Rc<Host>, &Opening { id, writable, fresh_ns }: &Opening) -> Rc<Self> {
        Rc::new(Self {
            host: host.clone(),
            id,
            writable,
            fresh_ns,
            nodes: RefCell::default(),
            recent: RefCell::default(),
            paths: paths::Paths::default(),
            locked: Arc::default(),
            shares_locks: Cell::new(false),
        })
    }

    /// When the pod took a lock of one of its files last.
    fn locked_at(&self) -> u64 {
        self.locked.load(Relaxed)
    }

    /// Whether what was asked for `at` is believed `now`; 0: never.
    fn believes(&self, at: u64, now: u64) -> bool {
        at != 0 && at >= self.locked_at() && now.saturating_sub(at) < self.fresh_ns
    }

    /// The node of a file, made when it is not known yet; the attributes are those of a request.
    fn node(
        self: &Rc<Self>,
        place: Option<(Rc<HostNode>, crate::Name)>,
        attr: &NodeAttr,
        asked: Asked,
    ) -> Rc<HostNode> {
        if let Some(node) = self.known(attr) {
            node.learn(attr, asked);
            if let Some((dir, name)) = place {
                node.has_name(&dir, &name);
            }
            return node;
        }
        let node = HostNode::new(self.clone(), place, attr, asked);
        self.nodes.borrow_mut().insert(Key::of(attr), Rc::downgrade(&node));
        node
    }

    /// The node of a file, if there is one.
    fn known(&self, attr: &NodeAttr) -> Option<Rc<HostNode>> {
        let known = self.nodes.borrow().get(&Key::of(attr)).and_then(Weak::upgrade);
        known.filter(|node| node.attr_cached().mode & 0o170000 == attr.mode & 0o170000)
    }
}

/// `CLOCK_MONOTONIC` now, never 0 (which stands for "never fetched").
fn now() -> u64 {
    hal::clock::monotonic_ns().max(1)
}
