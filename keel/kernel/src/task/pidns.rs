//! PID namespaces, pid_namespaces(7).
//!
//! Keel names threads, processes, groups and sessions by the ids of the first namespace. A thread in another namespace has one
//! more id in each namespace from its own up to the first: [`PidNs`] maps them. System calls translate at their boundary, with
//! [`named`] and [`shown`].

use super::{pid, try_with_current};
use crate::cred::{UserNs, userns};
use crate::siginfo::{SigInfo, code};
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// How deep namespaces may be nested.
const MAX_LEVEL: u32 = 32;
/// Most PID namespaces of a pod beside the first: `/proc/sys/user/max_pid_namespaces`.
const MAX_NAMESPACES: u32 = 4096;
/// Inode number of the first, as on Linux.
pub const FIRST_INODE: u64 = 4_026_531_836;
/// No thread, process, group or session has this id.
const NONE: i32 = i32::MAX;

static COUNT: Global<Cell<u32>> = Global::new(Cell::new(0));
static ALL: Global<RefCell<Vec<Weak<PidNs>>>> = Global::new(RefCell::new(Vec::new()));

/// A PID namespace beside the first.
pub struct PidNs {
    inode: u64,
    /// `None`: the first.
    parent: Option<Rc<PidNs>>,
    level: u32,
    user_ns: Rc<UserNs>,
    /// Ids of the first namespace by those here, and the reverse.
    inner: RefCell<Numbers>,
    /// The last id that was allocated.
    last: Cell<i32>,
    /// Id of its first process, in the first namespace; 0 before there is one.
    init: Cell<i32>,
    /// The first process has ended: there are no new ones.
    ended: Cell<bool>,
}

#[derive(Default)]
struct Numbers {
    outward: BTreeMap<i32, i32>,
    inward: BTreeMap<i32, i32>,
    /// Ids (of the first namespace) of ended processes that groups or sessions still had.
    kept: Vec<i32>,
}

impl core::fmt::Debug for PidNs {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PidNs").field("inode", &self.inode).finish_non_exhaustive()
    }
}

impl PidNs {
    /// A namespace within `parent` (`None`: the first). ENOSPC: there are too many, or they are nested too deep.
    pub fn create(parent: Option<Rc<Self>>, user_ns: Rc<UserNs>) -> Result<Rc<Self>> {
        let level = parent.as_ref().map_or(0, |parent| parent.level) + 1;
        if level > MAX_LEVEL || COUNT.get() >= MAX_NAMESPACES {
            return Err(Errno::ENOSPC);
        }
        let mut all = ALL.borrow_mut();
        all.retain(|ns| ns.strong_count() > 0);
        vfs::memory::push(&mut all, Weak::new())?;
        COUNT.set(COUNT.get() + 1);
        let new = Rc::new(Self {
            inode: userns::new_inode(),
            parent,
            level,
            user_ns,
            inner: RefCell::default(),
            last: Cell::new(0),
            init: Cell::new(0),
            ended: Cell::new(false),
        });
        all.pop();
        all.push(Rc::downgrade(&new));
        Ok(new)
    }

    /// The one with an inode number, if anything holds it.
    pub fn find(inode: u64) -> Option<Rc<Self>> {
        ALL.borrow().iter().find_map(|ns| ns.upgrade().filter(|ns| ns.inode == inode))
    }

    /// Number that `/proc/PID/ns/pid` shows.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// The namespace around it; `None`: the first.
    pub fn parent(&self) -> Option<&Rc<Self>> {
        self.parent.as_ref()
    }

    /// How many namespaces are around it.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// The user namespace that it belongs to.
    pub fn user_ns(&self) -> &Rc<UserNs> {
        &self.user_ns
    }

    /// Whether it is `other` or lies within it.
    pub fn is_within(self: &Rc<Self>, other: &Rc<Self>) -> bool {
        let mut at = Some(self);
        while let Some(ns) = at {
            if Rc::ptr_eq(ns, other) {
                return true;
            }
            at = ns.parent.as_ref();
        }
        false
    }

    /// Id of its first process, in the first namespace; 0 before there is one.
    pub fn init(&self) -> i32 {
        self.init.get()
    }

    /// Whether it can have another process.
    pub fn is_open(&self) -> bool {
        !self.ended.get()
    }

    /// Its first process has ended.
    pub fn end(&self) {
        self.ended.set(true);
    }

    /// The id here for one of the first namespace; 0: none.
    pub fn inward(&self, id: i32) -> i32 {
        self.inner.borrow().inward.get(&id).copied().unwrap_or(0)
    }

    /// The id of the first namespace for one here.
    pub fn outward(&self, id: i32) -> Option<i32> {
        self.inner.borrow().outward.get(&id).copied()
    }

    /// The namespaces from this one up to the last before the first.
    fn chain(self: &Rc<Self>) -> impl Iterator<Item = &Rc<Self>> {
        core::iter::successors(Some(self), |ns| ns.parent.as_ref())
    }

    /// Gives a new thread ids here and in the namespaces around. `wanted`: its id here. `is_process`: the first one is the init
    /// process. EAGAIN: no id is free; EEXIST; EINVAL: the first process must have id 1.
    pub(crate) fn enter(self: &Rc<Self>, id: i32, wanted: Option<i32>, is_process: bool) -> Result<i32> {
        let first = self.init.get() == 0 && is_process;
        if wanted.is_some_and(|wanted| first && wanted != 1) {
            return Err(Errno::EINVAL);
        }
        for ns in self.chain() {
            let here = if Rc::ptr_eq(ns, self) { wanted } else { None };
            if let Err(errno) = ns.add(id, here) {
                self.release(id);
                return Err(errno);
            }
        }
        if first {
            self.init.set(id);
        }
        Ok(self.inward(id))
    }

    fn add(&self, id: i32, wanted: Option<i32>) -> Result<()> {
        self.drop_unused();
        let mut inner = self.inner.borrow_mut();
        let here = match wanted {
            Some(wanted) if inner.outward.contains_key(&wanted) => return Err(Errno::EEXIST),
            Some(wanted) => wanted,
            None => {
                let after = self.last.get();
                let free = |id: &i32| !inner.outward.contains_key(id);
                // After a wrap, low ids stay reserved, as in the first namespace.
                let next = (after + 1..pid::PID_MAX).find(free).or_else(|| (300..pid::PID_MAX).find(free));
                let next = next.ok_or(Errno::EAGAIN)?;
                self.last.set(next);
                next
            }
        };
        inner.outward.insert(here, id);
        inner.inward.insert(id, here);
        Ok(())
    }

    /// Forgets ids that only groups and sessions had, and that these no longer have.
    fn drop_unused(&self) {
        let mut inner = self.inner.borrow_mut();
        let kept = core::mem::take(&mut inner.kept);
        for id in kept {
            if pid::is_used(id, true) {
                inner.kept.push(id);
            } else if let Some(here) = inner.inward.remove(&id) {
                inner.outward.remove(&here);
            }
        }
    }

    /// A thread that got ids was not made after all.
    pub(super) fn abandon(self: &Rc<Self>, id: i32) {
        if self.init.get() == id {
            self.init.set(0);
            self.last.set(0);
        }
        self.release(id);
    }

    /// A thread or process has left the table of ids.
    pub(super) fn release(self: &Rc<Self>, id: i32) {
        for ns in self.chain() {
            let mut inner = ns.inner.borrow_mut();
            // Without room for the note, the id is not used again.
            if inner.inward.contains_key(&id) && inner.kept.try_reserve(1).is_ok() {
                inner.kept.push(id);
            }
            drop(inner);
            ns.drop_unused();
        }
    }
}

impl Drop for PidNs {
    fn drop(&mut self) {
        COUNT.set(COUNT.get().saturating_sub(1));
    }
}

/// The PID namespace of the running thread; `None`: the first.
pub fn here() -> Option<Rc<PidNs>> {
    if COUNT.get() == 0 {
        return None;
    }
    try_with_current(|me| me.process().pid_ns().cloned())
}

/// The id of the first namespace for a positive id that the running thread uses; one that nothing has, if there is none. Other
/// values stay.
#[inline]
pub fn named(id: i32) -> i32 {
    match here() {
        Some(ns) if id > 0 => ns.outward(id).unwrap_or(NONE),
        _ => id,
    }
}

/// [`named`], where a negative id stands for a group.
pub fn named_or_group(id: i32) -> i32 {
    match id {
        i32::MIN | -1 => id,
        ..0 => -named(-id),
        _ => named(id),
    }
}

/// The id that the running thread sees for one of the first namespace; 0: none.
#[inline]
pub fn shown(id: i32) -> i32 {
    match here() {
        Some(ns) if id > 0 => ns.inward(id),
        _ => id,
    }
}

/// The id that a process sees for one of the first namespace; 0: none.
pub fn shown_to(reader: &super::Process, id: i32) -> i32 {
    match reader.pid_ns() {
        Some(ns) if id > 0 => ns.inward(id),
        _ => id,
    }
}

/// Information of a signal with the sender's ids as the receiver sees them.
pub fn seen_by(receiver: &super::Process, mut info: SigInfo) -> SigInfo {
    let is_child = info.signal() == g::SIGCHLD && (code::CLD_EXITED..=code::CLD_CONTINUED).contains(&info.code);
    if !is_child && !matches!(info.code, code::USER | code::TKILL | code::MESSAGE) {
        return info;
    }
    let (pid, uid) = (info.fields[0] as u32 as i32, (info.fields[0] >> 32) as u32);
    let uid = receiver.main_thread().map_or(uid, |task| task.cred().user_ns.shown_uid(uid));
    info.fields[0] = u64::from(shown_to(receiver, pid) as u32) | u64::from(uid) << 32;
    info
}

/// The ids that a thread or process has: in the first namespace, and on to its own.
pub fn levels(process: &super::Process, id: i32) -> Vec<i32> {
    let mut ids: Vec<i32> = process.pid_ns().into_iter().flat_map(PidNs::chain).map(|ns| ns.inward(id)).collect();
    ids.push(id);
    ids.reverse();
    ids
}

/// Whether the running thread sees a process or thread of this id.
pub fn sees(id: i32) -> bool {
    here().is_none_or(|ns| ns.inward(id) != 0)
}
