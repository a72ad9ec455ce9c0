//! Descriptions on their way in messages, `SCM_RIGHTS`: their number, and those that can't be received any more.
//!
//! Garbage collection of sockets whose only references are messages in each other's queues. The table counts the
//! references in messages of each socket. A socket with references only in messages is reachable if a reachable
//! socket's queue contains it; after marking, the messages of the other sockets are dropped. All state is in the
//! entries, so that a collection needs no memory and no recursion.

use super::super::Socket;
use super::Unix;
use super::queue::Packet;
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ops::Bound;
use file::File;
use file::caller::caller;
use hal::cell::Global;
use uapi::cap;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Below this many sockets in flight, each close of a local socket runs the garbage collection.
const FEW: usize = 64;
/// With more entries, a collection runs after as many closes as this share of them: that bounds the cost of a close.
const SHARE: usize = 4;
/// Number of entries from which sending another descriptor runs a collection.
const MANY: usize = 1024;

/// A local socket that is on its way.
struct Entry {
    file: Weak<File>,
    /// Uses that are messages.
    count: usize,
    /// Uses that are messages in candidates.
    inner: usize,
    state: State,
    /// Next entry of the mark list.
    next: Option<usize>,
    held: Option<Rc<File>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Has a descriptor, or can be received.
    Reachable,
    /// All of its uses are messages.
    Candidate,
}

/// Sockets on their way, by the address of their description.
static SOCKETS: Global<RefCell<BTreeMap<usize, Entry>>> = Global::new(RefCell::new(BTreeMap::new()));
/// Number of descriptors in messages, by the sending user.
static BY_USER: Global<RefCell<BTreeMap<u32, u64>>> = Global::new(RefCell::new(BTreeMap::new()));
/// Closed sockets since the last collection.
static ENDS: Global<Cell<usize>> = Global::new(Cell::new(0));
/// The number of sockets in flight from which on a sent message runs the garbage collection.
static LOOK_AT: Global<Cell<usize>> = Global::new(Cell::new(MANY));
static COLLECTING: Global<Cell<bool>> = Global::new(Cell::new(false));

/// Descriptions in a message.
#[derive(Default)]
pub struct Rights {
    files: Vec<Rc<File>>,
    user: u32,
}

impl core::fmt::Debug for Rights {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Rights").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

fn key(file: &Rc<File>) -> usize {
    Rc::as_ptr(file).addr()
}

fn unix(file: &File) -> Option<&Unix> {
    file.downcast::<Socket>()?.ops.as_any().downcast_ref()
}

impl Rights {
    /// Puts descriptions on their way. ETOOMANYREFS: the user has more there than RLIMIT_NOFILE, without CAP_SYS_RESOURCE
    /// or CAP_SYS_ADMIN.
    pub fn new(files: Vec<Rc<File>>) -> Result<Self> {
        if files.is_empty() {
            return Ok(Self::default());
        }
        let cred = caller().cred();
        let user = cred.uid;
        {
            let mut users = BY_USER.borrow_mut();
            let sent = users.get(&user).copied().unwrap_or(0);
            let unlimited = || cred.capable(cap::SYS_RESOURCE) || cred.capable(cap::SYS_ADMIN);
            if sent > caller().limit(g::RLIMIT_NOFILE) && !unlimited() {
                return Err(Errno::ETOOMANYREFS);
            }
            users.insert(user, sent + files.len() as u64);
        }
        let waiting = {
            let mut sockets = SOCKETS.borrow_mut();
            for file in files.iter().filter(|file| unix(file).is_some()) {
                let entry = sockets.entry(key(file)).or_insert_with(|| Entry {
                    file: Rc::downgrade(file),
                    count: 0,
                    inner: 0,
                    state: State::Reachable,
                    next: None,
                    held: None,
                });
                entry.count += 1;
            }
            sockets.len()
        };
        if waiting >= LOOK_AT.get() {
            collect();
            LOOK_AT.set(MANY.max(SOCKETS.borrow().len() * 2));
        }
        Ok(Self { files, user })
    }

    /// The descriptions.
    pub fn files(&self) -> &[Rc<File>] {
        &self.files
    }

    /// Takes them out: they have arrived.
    pub fn take(&mut self) -> Vec<Rc<File>> {
        let files = core::mem::take(&mut self.files);
        if !files.is_empty() {
            arrived(&files, self.user);
        }
        files
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        drop(self.take());
    }
}

fn arrived(files: &[Rc<File>], user: u32) {
    let mut users = BY_USER.borrow_mut();
    if let Some(sent) = users.get_mut(&user) {
        *sent = sent.saturating_sub(files.len() as u64);
        if *sent == 0 {
            users.remove(&user);
        }
    }
    drop(users);
    let mut sockets = SOCKETS.borrow_mut();
    for file in files {
        let Some(entry) = sockets.get_mut(&key(file)) else { continue };
        entry.count = entry.count.saturating_sub(1);
        // A held entry is removed when it is released.
        if entry.count == 0 && entry.held.is_none() {
            sockets.remove(&key(file));
        }
    }
}

/// A local socket has ended: others may be reachable only through messages now.
pub fn socket_ended() {
    ENDS.set(ENDS.get() + 1);
    let waiting = SOCKETS.borrow().len();
    if waiting > 0 && (waiting <= FEW || ENDS.get() * SHARE >= waiting) {
        collect();
    }
}

/// Calls `f` with the key of each socket that waits in a message of `socket`, or of a connection that waits for it.
fn each_waiting(socket: &Unix, f: &mut dyn FnMut(usize)) {
    let mut of = |socket: &Unix| {
        let mut index = 0;
        // The callback does not access inboxes.
        let mut each = |packet: &Rc<Packet>| packet.rights.borrow().files().iter().for_each(|file| f(key(file)));
        while socket.end.inbox.with(index, &mut each).is_some() {
            index += 1;
        }
    };
    of(socket);
    socket.backlog.borrow().iter().for_each(|connection| of(connection));
}

/// Calls `f` with each entry of the table; `f` may remove others.
fn each_entry(mut f: impl FnMut(usize)) {
    let mut at = Bound::Unbounded;
    loop {
        let Some(key) = SOCKETS.borrow().range((at, Bound::Unbounded)).next().map(|(key, _)| *key) else { return };
        f(key);
        at = Bound::Excluded(key);
    }
}

fn with_entry<R>(key: usize, f: impl FnOnce(&mut Entry) -> R) -> Option<R> {
    SOCKETS.borrow_mut().get_mut(&key).map(f)
}

fn file_of(key: usize) -> Option<Rc<File>> {
    with_entry(key, |entry| entry.file.upgrade()).flatten()
}

fn is_candidate(key: usize) -> bool {
    with_entry(key, |entry| entry.state == State::Candidate).unwrap_or(false)
}

/// Drops the messages of sockets that have no descriptor and can't be received.
pub fn collect() {
    ENDS.set(0);
    if SOCKETS.borrow().is_empty() || COLLECTING.replace(true) {
        return;
    }
    let mut candidates = 0;
    for entry in SOCKETS.borrow_mut().values_mut() {
        let is_candidate = entry.file.strong_count() == entry.count;
        entry.state = if is_candidate { State::Candidate } else { State::Reachable };
        (entry.inner, entry.next) = (0, None);
        candidates += usize::from(is_candidate);
    }
    if candidates > 0 {
        mark();
        sweep();
    }
    COLLECTING.set(false);
}

/// Leaves those as candidates that can be received from nowhere else.
fn mark() {
    each_entry(|key| {
        if is_candidate(key)
            && let Some(file) = file_of(key)
            && let Some(socket) = unix(&file)
        {
            each_waiting(socket, &mut |inner| {
                with_entry(inner, |entry| entry.inner += 1);
            });
        }
    });
    let list: Cell<Option<usize>> = Cell::new(None);
    let reach = |key: usize| {
        with_entry(key, |entry| {
            if entry.state == State::Candidate {
                entry.state = State::Reachable;
                entry.next = list.replace(Some(key));
            }
        });
    };
    each_entry(|key| {
        if with_entry(key, |entry| entry.inner < entry.count).unwrap_or(false) {
            reach(key);
        }
    });
    while let Some(key) = list.get() {
        list.set(with_entry(key, |entry| entry.next.take()).flatten());
        if let Some(file) = file_of(key)
            && let Some(socket) = unix(&file)
        {
            each_waiting(socket, &mut |inner| reach(inner));
        }
    }
}

/// Drops the messages of the candidates. All of them are held until the last one is empty: none ends within another.
fn sweep() {
    let doomed: fn(usize) -> bool = |key| with_entry(key, |entry| entry.held.is_some()).unwrap_or(false);
    each_entry(|key| {
        with_entry(key, |entry| {
            if entry.state == State::Candidate {
                entry.held = entry.file.upgrade();
            }
        });
    });
    each_entry(|key| {
        if doomed(key)
            && let Some(file) = file_of(key)
            && let Some(socket) = unix(&file)
        {
            socket.end.inbox.clear();
            for connection in socket.backlog.borrow().iter() {
                connection.end.inbox.clear();
            }
        }
    });
    each_entry(|key| {
        let held = {
            let mut sockets = SOCKETS.borrow_mut();
            let held = sockets.get_mut(&key).and_then(|entry| entry.held.take());
            if sockets.get(&key).is_some_and(|entry| entry.count == 0) {
                sockets.remove(&key);
            }
            held
        };
        drop(held);
    });
}
