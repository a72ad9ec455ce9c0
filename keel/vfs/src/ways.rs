//! Where paths lead, for calls without the big lock.
//!
//! A [`Way`] is the result of a path resolution: it is a [published value](hal::sync::grace), made under the big lock after
//! a path was walked repeatedly ([`learn`]). Each directory has a *stamp*, a counter that it shares with others by the hash
//! of its address. A way has the values that the stamps of all directories on it had before they were looked at, and holds
//! while none has changed; [`changed`] counts a change. So a change of a name, or of the permissions of a directory,
//! invalidates the ways through this directory, and a reader that finds all stamps unchanged has seen a state that held
//! when it read the first one.
//!
//! What else a path resolution depends on is in the [`Key`] (caller, root, working directory), or changes seldom:
//! [`changed_everywhere`] invalidates all ways. A way has no handle on an inode or a directory entry, whose counts are
//! not atomic: it has the place where attributes are [shown](crate::shown).

use crate::cred::{MAY_EXEC, MAY_READ, MAY_WRITE};
use crate::shown::Shown;
use crate::walk::{Record, Walk};
use crate::{Cred, FileType, Inode, PathRef};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::{Cell, RefCell};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use hal::cell::{Global, Padded};
use hal::sync::grace::{Published, Reading, read};

/// Longest path of a way in bytes.
pub const LONGEST: usize = 255;
/// Directories that a way crosses at most, those of symbolic links included.
const MOST_CROSSED: usize = 16;
/// Ways.
const WAYS: usize = 2048;
/// Stamps.
const STAMPS: usize = 1024;

static TABLE: Padded<[Published<Way>; WAYS]> = Padded::new([const { Published::empty() }; WAYS]);
/// Stamps of directories. They lie apart from what calls write.
static STAMP: Padded<[AtomicU64; STAMPS]> = Padded::new([const { AtomicU64::new(0) }; STAMPS]);
/// The stamp of all ways.
static EVERYWHERE: Padded<AtomicU64> = Padded::new(AtomicU64::new(0));
/// The number of the last way.
static LAST: Global<Cell<u64>> = Global::new(Cell::new(0));
/// Hashes of keys that were used once, each in the place of its way.
static USED: Global<[Cell<u32>; WAYS]> = Global::new([const { Cell::new(0) }; WAYS]);

/// What a call asks of a path: the same path with another question is another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question(u32);

const FOLLOWS: u32 = 1;
const READS_LINK: u32 = 2;
const CHECKS: u32 = 4;
const REAL: u32 = 8;
const OPENS: u32 = 1 << 7;
const MODE_SHIFT: u32 = 4;

impl Question {
    /// The target of a symbolic link, readlink(2).
    pub const LINK: Self = Self(READS_LINK);

    /// Attributes, stat(2) and lstat(2).
    pub const fn attributes(follow: bool) -> Self {
        Self(if follow { FOLLOWS } else { 0 })
    }

    /// Whether access as of access(2) is allowed; `real`: with the real ids.
    pub const fn access(mode: u32, real: bool, follow: bool) -> Self {
        Self(CHECKS | (mode & 7) << MODE_SHIFT | if real { REAL } else { 0 } | if follow { FOLLOWS } else { 0 })
    }

    /// A regular file to be opened for reading, open(2).
    pub const fn open(follow: bool) -> Self {
        Self(OPENS | if follow { FOLLOWS } else { 0 })
    }

    const fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }
}

/// What a way is found by.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Number of the credentials.
    pub caller: u64,
    /// Number of the root directory, [`PathRef::number`].
    pub root: u64,
    /// Number of the directory where a relative path starts; 0 for an absolute one.
    pub base: u64,
    /// What is asked.
    pub question: Question,
    /// The path, at most [`LONGEST`] bytes.
    pub path: &'a [u8],
}

impl Key<'_> {
    fn hash(&self) -> u64 {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR);
        let head = [self.caller, self.root, self.base, u64::from(self.question.0), self.path.len() as u64];
        let hash = head.into_iter().fold(0, mix);
        let words = self.path.chunks(8).map(|chunk| {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            u64::from_le_bytes(bytes)
        });
        let hash = words.fold(hash, mix);
        hash ^ hash >> 32
    }

    const fn slot(hash: u64) -> usize {
        hash as usize % WAYS
    }

    /// Not 0, and not what [`Self::slot`] uses alone.
    const fn mark(hash: u64) -> u32 {
        (hash >> 32) as u32 | 1
    }
}

/// The stamps that a way depends on, with their values.
#[derive(Clone, Copy, Debug)]
struct Crossed {
    everywhere: u64,
    stamps: [(u16, u64); MOST_CROSSED],
    count: usize,
    /// `CLOCK_MONOTONIC` ns until which names and permissions are believed.
    expires: u64,
    /// There can be no way.
    is_refused: bool,
}

/// A path resolution that is recorded.
struct Trail(RefCell<Crossed>);

impl Trail {
    fn new() -> Self {
        let everywhere = EVERYWHERE.load(Relaxed);
        let stamps = [(0, 0); MOST_CROSSED];
        Self(RefCell::new(Crossed { everywhere, stamps, count: 0, expires: u64::MAX, is_refused: false }))
    }
}

impl Record for Trail {
    fn cross(&self, inode: &dyn Inode) {
        let mut crossed = self.0.borrow_mut();
        let count = crossed.count;
        let (Some(address), true) = (inode.stamp_address(), count < MOST_CROSSED) else {
            crossed.is_refused = true;
            return;
        };
        let index = index_of(address);
        if !crossed.stamps.iter().take(count).any(|(known, _)| usize::from(*known) == index) {
            crossed.stamps[count] = (index as u16, STAMP[index].load(Relaxed));
            crossed.count += 1;
        }
    }

    fn searched(&self, directory: &dyn Inode, cred: &Cred<'_>) {
        if !cred.needs_no_permission(MAY_EXEC) {
            self.expires(directory.permissions_expire());
        }
    }

    fn expires(&self, expires: u64) {
        let mut crossed = self.0.borrow_mut();
        crossed.expires = crossed.expires.min(expires);
    }

    fn refuse(&self) {
        self.0.borrow_mut().is_refused = true;
    }
}

/// See the module.
#[derive(Debug)]
pub struct Way {
    number: u64,
    caller: u64,
    root: u64,
    base: u64,
    question: Question,
    path: Box<[u8]>,
    crossed: Crossed,
    shown: Option<Arc<Shown>>,
    target: Box<[u8]>,
    mount: (u32, bool),
}

impl Way {
    fn is_of(&self, key: &Key<'_>) -> bool {
        (self.caller, self.root, self.base, self.question) == (key.caller, key.root, key.base, key.question)
            && *self.path == *key.path
    }

    fn holds(&self) -> bool {
        let Crossed { everywhere, stamps, count, expires, .. } = &self.crossed;
        EVERYWHERE.load(Acquire) == *everywhere
            && stamps
                .iter()
                .take(*count)
                .all(|(index, value)| STAMP.get(usize::from(*index)).is_some_and(|stamp| stamp.load(Acquire) == *value))
            && (*expires == u64::MAX || hal::clock::monotonic_ns() < *expires)
    }

    /// A number that no other way has. Less than 2^62.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where the file is shown, for [`Question::attributes`] and [`Question::open`].
    pub fn shown(&self) -> Option<&Shown> {
        self.shown.as_deref()
    }

    /// Target of the symbolic link, for [`Question::LINK`].
    pub fn target(&self) -> &[u8] {
        &self.target
    }

    /// Number of the mount, and whether the file is its root.
    pub fn mount(&self) -> (u32, bool) {
        self.mount
    }
}

fn index_of(address: usize) -> usize {
    (address >> 4 ^ address >> 14) % STAMPS
}

/// Names in a directory were changed, or permissions of a file or directory, whose [`Inode::stamp_address`] this is. Under
/// the big lock, after the change and before anything that may wait.
#[inline]
pub fn changed(address: usize) {
    let stamp = &STAMP[index_of(address)];
    stamp.store(stamp.load(Relaxed) + 1, Release);
}

/// Mounts, their options or many directory entries were changed: no way holds any more. As [`changed`].
pub fn changed_everywhere() {
    EVERYWHERE.store(EVERYWHERE.load(Relaxed) + 1, Release);
}

/// Changes whenever all ways become invalid.
pub fn generation() -> u64 {
    EVERYWHERE.load(Relaxed)
}

/// The way of this key, if one is known and holds at this moment.
#[inline]
pub fn find<'r>(key: &Key<'_>, reading: &'r Reading) -> Option<&'r Way> {
    TABLE[Key::slot(key.hash())].get(reading).filter(|way| way.is_of(key) && way.holds())
}

/// A handler has walked the path to `place`, with success: learns the way at the second use, and shows the file's
/// attributes if the question is about them. Under the big lock; may wait.
pub fn learn(key: &Key<'_>, root: &PathRef, base: &PathRef, cred: &Cred<'_>, place: &PathRef) {
    let hash = key.hash();
    let slot = &TABLE[Key::slot(hash)];
    let (is_known, holds) = read(|reading| {
        slot.get(reading).filter(|way| way.is_of(key)).map_or((false, false), |way| (true, way.holds()))
    });
    let used = &USED[Key::slot(hash)];
    if !holds {
        if !is_known && used.replace(Key::mark(hash)) != Key::mark(hash) || hal::frame::is_scarce() {
            return;
        }
        match walk(key, root, base, cred) {
            Some(way) => slot.replace(Some(Arc::new(way))),
            // The next attempt is two uses away, too.
            None => return used.set(0),
        }
    }
    if !key.question.has(READS_LINK | CHECKS | OPENS) {
        place.inode().show_attributes();
    }
}

/// Walks once more, with a record.
fn walk(key: &Key<'_>, root: &PathRef, base: &PathRef, cred: &Cred<'_>) -> Option<Way> {
    // Where the file lies decides what a domain allows.
    if key.path.len() > LONGEST || cred.domain.is_some() {
        return None;
    }
    let question = key.question;
    let walk = Walk::recorded(root.clone(), *cred, Trail::new());
    let place = walk.resolve(base, key.path, question.has(FOLLOWS)).ok()?;
    let record = walk.into_record();
    let inode = &**place.inode();
    let (mut shown, mut target) = (None, Box::default());
    if question.has(READS_LINK) {
        let link = inode.readlink().ok()?;
        target = Box::from(link.get(..crate::PATH_MAX.min(link.len()))?);
    } else if question.has(CHECKS) {
        let mode = question.0 >> MODE_SHIFT & 7;
        if mode != 0 {
            record.cross(inode);
            cred.check(inode, mode).ok()?;
            if mode & MAY_EXEC != 0 && place.has_flag(crate::mount::flags::NO_EXEC) {
                return None;
            }
            record.expires(inode.permissions_expire());
        }
        let is_stored = matches!(inode.file_type(), FileType::Regular | FileType::Directory | FileType::Symlink);
        if mode & MAY_WRITE != 0 && is_stored {
            crate::ops::check_writable(&place).ok()?;
        }
    } else {
        if question.has(OPENS) {
            if inode.file_type() != FileType::Regular {
                return None;
            }
            record.cross(inode);
            cred.check(inode, MAY_READ).ok()?;
            record.expires(inode.permissions_expire());
        }
        shown = Some(inode.shown()?);
    }
    let crossed = record.0.into_inner();
    let mount = (place.mount().id, place.is_mount_root());
    let Key { caller, root, base, question, path } = *key;
    if crossed.is_refused {
        return None;
    }
    let number = LAST.get() + 1;
    LAST.set(number);
    Some(Way { number, caller, root, base, question, path: Box::from(path), crossed, shown, target, mount })
}

/// Drops all ways: memory is short.
pub fn clear() {
    for way in TABLE.iter() {
        if read(|reading| way.get(reading).is_some()) {
            way.replace(None);
        }
    }
}
