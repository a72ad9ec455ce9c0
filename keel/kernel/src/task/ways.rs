//! Paths that were walked, for calls without the big lock: see [`vfs::ways`].

use super::path::Caller;
use super::{Cred, with_current};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering::Relaxed;
use hal::cell::Global;
use hal::smp;
use uapi::raw::general as g;
use vfs::PathRef;
use vfs::ways::{self, Key, LONGEST, Question};

/// Credentials that have a number, at most.
const MOST_NUMBERED: usize = 32;

type Numbered = Vec<(u64, Rc<Cred>)>;

/// Numbered credentials. No number is used twice.
static NUMBERED: Global<RefCell<Numbered>> = Global::new(RefCell::new(Vec::new()));
static LAST: Global<Cell<u64>> = Global::new(Cell::new(0));

/// A number for all credentials that may access the same files as `cred`. `None`: that is not for sure.
fn number(cred: &Rc<Cred>) -> Option<u64> {
    if cred.domain.is_some() || !cred.user_ns.is_first() {
        return None;
    }
    let ids = |cred: &Cred| (cred.uid, cred.gid, cred.fsuid, cred.fsgid, cred.cap_effective, cred.cap_permitted);
    let is_same = |known: &Rc<Cred>| Rc::ptr_eq(known, cred) || ids(known) == ids(cred) && known.groups == cred.groups;
    let mut numbered = NUMBERED.borrow_mut();
    if let Some((number, _)) = numbered.iter().find(|(_, known)| is_same(known)) {
        return Some(*number);
    }
    if numbered.len() >= MOST_NUMBERED {
        numbered.clear();
    }
    numbered.try_reserve(1).ok()?;
    LAST.set(LAST.get() + 1);
    numbered.push((LAST.get(), cred.clone()));
    Some(LAST.get())
}

impl Caller {
    /// A path led to `place` when this question was asked: the next call may be served without the big lock. May wait.
    #[inline(always)]
    pub fn walked(&self, fd: i32, path: &[u8], question: Question, place: &PathRef) {
        if smp::several() {
            self.learn(fd, path, question, place);
        }
    }

    #[cold]
    #[inline(never)]
    fn learn(&self, fd: i32, path: &[u8], question: Question, place: &PathRef) {
        if let Some(key) = self.key(fd, path, question) {
            self.learn_way(&key, place);
        }
    }

    /// The path of this key led to `place`: learns the way at the second use. May wait.
    pub fn learn_way(&self, key: &Key<'_>, place: &PathRef) {
        ways::learn(key, &self.fs.root(), &self.fs.cwd(), &self.cred(), place);
    }

    /// What the way of a path is found by. `None`: it has none.
    pub fn key<'a>(&self, fd: i32, path: &'a [u8], question: Question) -> Option<Key<'a>> {
        let is_absolute = path.first() == Some(&b'/');
        if path.is_empty() || path.len() > LONGEST || !is_absolute && fd != g::AT_FDCWD {
            return None;
        }
        let caller = number(&self.cred)?;
        with_current(|me| me.caller.store(caller, Relaxed));
        let (root, cwd) = self.fs.number();
        Some(Key { caller, root, base: if is_absolute { 0 } else { cwd }, question, path })
    }
}
