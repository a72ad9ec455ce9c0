//! System V shared memory: shmget(2), shmat(2), shmctl(2).
//!
//! The pages of a segment are a [`SharedObject`]. Its mappings hold references to it, and the segment until it is
//! removed: so the number of attachments follows from the refcount, and the last detach frees the pages.

use super::namespace::{Namespace, here};
use super::{EXEC, Got, IPC_INFO, IPC_PRIVATE, IPC_RMID, IPC_SET, IPC_STAT, Object, Perm, READ, WRITE, find};
use crate::mm::area::{Area, AreaFlags, Backing};
use crate::mm::commit;
use crate::mm::mmap::Placement;
use crate::mm::shared::{self, SharedObject};
use crate::mm::user;
use crate::task::{self, Task, cred::cap, pidns};
use abi::layout::PAGE_SIZE;
use alloc::format;
use alloc::rc::{Rc, Weak};
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use hal::paging::Prot;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::memory::Text;

/// Maximum bytes of a segment, and maximum pages of all segments: Linux's defaults.
const SHMMAX: u64 = u64::MAX - (1 << 24);
const SHMALL: u64 = SHMMAX;
/// Maximum number of segments.
const SHMMNI: usize = 4096;

/// Flags of shmget: large pages, no reservation.
const SHM_HUGETLB: u32 = 0o4000;
const SHM_NORESERVE: u32 = 0o10000;
/// Flags of shmat.
const SHM_RDONLY: u32 = 0o10000;
const SHM_RND: u32 = 0o20000;
const SHM_REMAP: u32 = 0o40000;
const SHM_EXEC: u32 = 0o100000;
/// Bits of a segment's mode: removed, locked.
const SHM_DEST: u32 = 0o1000;
const SHM_LOCKED: u32 = 0o2000;
/// Commands of shmctl.
const SHM_LOCK: i32 = 11;
const SHM_UNLOCK: i32 = 12;
const SHM_STAT: i32 = 13;
const SHM_INFO: i32 = 14;
const SHM_STAT_ANY: i32 = 15;

/// Addresses are rounded down to a multiple of this with `SHM_RND`.
const SHMLBA: usize = PAGE_SIZE;

/// A segment of shared memory.
#[derive(Debug)]
pub struct Segment {
    perm: Perm,
    home: Weak<Namespace>,
    /// Requested size in bytes.
    size: usize,
    /// `None` after IPC_RMID.
    kept: RefCell<Option<Rc<SharedObject>>>,
    object: Weak<SharedObject>,
    attached: Cell<i64>,
    detached: Cell<i64>,
    changed: Cell<i64>,
    creator: i32,
    last: Cell<i32>,
}

impl Object for Segment {
    fn perm(&self) -> &Perm {
        &self.perm
    }
}

impl shared::Segment for Segment {
    fn id(&self) -> i32 {
        self.perm.id
    }

    fn name(&self) -> String {
        format!("/SYSV{:08x} (deleted)", self.perm.key.get())
    }

    fn note_attach(&self) {
        self.attached.set(super::now());
        self.last.set(super::caller());
    }

    fn note_detach(&self) {
        self.detached.set(super::now());
        self.last.set(super::caller());
    }

    fn gone(&self) {
        let Some(home) = self.home.upgrade() else { return };
        let gone = home.segments.borrow_mut().remove(&self.perm);
        drop(gone);
    }
}

impl Segment {
    fn pages(&self) -> u64 {
        (self.size as u64).div_ceil(PAGE_SIZE as u64)
    }

    /// Number of attachments.
    fn attachments(&self) -> usize {
        self.object.strong_count() - usize::from(self.kept.borrow().is_some())
    }

    fn resident(&self) -> u64 {
        self.object.upgrade().map_or(0, |object| object.present() as u64)
    }

    /// `struct shmid64_ds`.
    fn raw(&self) -> [u64; 14] {
        let mut raw = [0; 14];
        raw[..6].copy_from_slice(&self.perm.raw());
        raw[6] = self.size as u64;
        raw[7] = self.attached.get() as u64;
        raw[8] = self.detached.get() as u64;
        raw[9] = self.changed.get() as u64;
        raw[10] = u64::from(pidns::shown(self.creator) as u32) | u64::from(pidns::shown(self.last.get()) as u32) << 32;
        raw[11] = self.attachments() as u64;
        raw
    }
}

/// shmget(2). EACCES, EEXIST, EINVAL, ENOENT, ENOMEM, ENOSPC.
pub fn sys_shmget(key: i32, size: usize, flags: u32) -> Result<i32> {
    let found = find(&here().segments.borrow(), key, flags)?;
    if let Got::Existing(segment) = found {
        if size > segment.size {
            return Err(Errno::EINVAL);
        }
        segment.perm.check(flags)?;
        return Ok(segment.perm.id);
    }
    if size == 0 || size as u64 > SHMMAX {
        return Err(Errno::EINVAL);
    }
    let pages = (size as u64).div_ceil(PAGE_SIZE as u64);
    let total: u64 = here().segments.borrow().items.values().map(|segment| segment.pages()).sum();
    if total.saturating_add(pages) > SHMALL {
        return Err(Errno::ENOSPC);
    }
    // There are no reserved huge pages.
    if flags & SHM_HUGETLB != 0 {
        return Err(Errno::ENOMEM);
    }
    if flags & SHM_NORESERVE == 0 {
        commit::check(pages.saturating_mul(PAGE_SIZE as u64))?;
    }
    let home = here();
    home.segments.borrow_mut().insert(SHMMNI, |id| {
        let segment = |object: &Weak<SharedObject>| Segment {
            perm: Perm::new(id, key, flags),
            home: Rc::downgrade(&home),
            size,
            kept: RefCell::new(None),
            object: object.clone(),
            attached: Cell::new(0),
            detached: Cell::new(0),
            changed: Cell::new(super::now()),
            creator: super::caller(),
            last: Cell::new(0),
        };
        let mut made = None;
        let object = Rc::new_cyclic(|weak| {
            let segment = made.insert(Rc::new(segment(weak)));
            SharedObject::of_segment(segment.clone(), pages)
        });
        let segment = made.ok_or(Errno::ENOMEM)?;
        *segment.kept.borrow_mut() = Some(object);
        Ok(segment)
    })
}

/// shmat(2): the address. EACCES, EINVAL, ENOMEM, EPERM.
pub fn sys_shmat(id: i32, address: usize, flags: u32) -> Result<usize> {
    if id < 0 {
        return Err(Errno::EINVAL);
    }
    let mut address = address;
    if address == 0 && flags & SHM_REMAP != 0 {
        return Err(Errno::EINVAL);
    }
    let given = address != 0;
    if !address.is_multiple_of(SHMLBA) {
        if flags & SHM_RND == 0 {
            return Err(Errno::EINVAL);
        }
        address -= address % SHMLBA;
        if address == 0 && flags & SHM_REMAP != 0 {
            return Err(Errno::EINVAL);
        }
    }
    let (mut prot, mut wanted) = (Prot::READ, READ);
    if flags & SHM_RDONLY == 0 {
        (prot, wanted) = (prot | Prot::WRITE, wanted | WRITE);
    }
    if flags & SHM_EXEC != 0 {
        (prot, wanted) = (prot | Prot::EXEC, wanted | EXEC);
    }
    let segment = here().segments.borrow().get(id)?;
    segment.perm.check(wanted)?;
    let object = segment.object.upgrade().ok_or(Errno::EIDRM)?;
    let len = segment.size.checked_next_multiple_of(PAGE_SIZE).ok_or(Errno::EINVAL)?;
    let placement = match () {
        () if !given => Placement::Hint(0),
        () if flags & SHM_REMAP != 0 => Placement::Fixed(address),
        () => {
            address.checked_add(len).ok_or(Errno::EINVAL)?;
            Placement::FixedNoReplace(address)
        }
    };
    let backing = Backing::Shared(object, 0);
    let mut area = Area { flags: AreaFlags::SHARED, backing, ..Area::anonymous(prot) };
    area.flags.set(AreaFlags::NEVER_WRITE, flags & SHM_RDONLY != 0);
    let start = task::current().mm().map(placement, len, area).map_err(|errno| match errno {
        Errno::EEXIST => Errno::EINVAL,
        other => other,
    })?;
    shared::Segment::note_attach(&*segment);
    Ok(start)
}

/// shmdt(2). EINVAL.
pub fn sys_shmdt(address: usize) -> Result<()> {
    if !address.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    task::current().mm().detach(address)
}

/// Marks a segment as removed; its last detach frees it.
pub(super) fn remove(segment: &Rc<Segment>) {
    segment.perm.key.set(IPC_PRIVATE);
    segment.perm.mode.set(segment.perm.mode.get() | SHM_DEST);
    let kept = segment.kept.take();
    drop(kept);
}

/// shmctl(2). EACCES, EFAULT, EINVAL, EPERM.
pub fn sys_shmctl(id: i32, command: i32, buffer: usize) -> Result<usize> {
    if id < 0 || command < 0 {
        return Err(Errno::EINVAL);
    }
    match command {
        IPC_INFO => {
            let highest = here().segments.borrow().highest();
            user::write(buffer, &[SHMMAX, 1, SHMMNI as u64, SHMMNI as u64, SHMALL, 0, 0, 0, 0])?;
            Ok(highest)
        }
        SHM_INFO => {
            let (highest, words) = {
                let home = here();
                let segments = home.segments.borrow();
                let all = || segments.items.values();
                let total: u64 = all().map(|segment| segment.pages()).sum();
                let resident: u64 = all().map(|segment| segment.resident()).sum();
                (segments.highest(), [all().len() as u64, total, resident, 0, 0, 0])
            };
            user::write(buffer, &words)?;
            Ok(highest)
        }
        IPC_STAT | SHM_STAT | SHM_STAT_ANY => {
            let by_index = command != IPC_STAT;
            let segment = if by_index { here().segments.borrow().at(id) } else { here().segments.borrow().get(id) }?;
            if command != SHM_STAT_ANY {
                segment.perm.check(READ)?;
            }
            user::write(buffer, &segment.raw())?;
            Ok(if by_index { segment.perm.id as usize } else { 0 })
        }
        IPC_SET => {
            let raw: [u64; 14] = user::read(buffer)?;
            let segment = here().segments.borrow().get(id)?;
            segment.perm.check_owner()?;
            segment.perm.set([raw[0], raw[1], raw[2], raw[3], raw[4], raw[5]])?;
            segment.changed.set(super::now());
            Ok(0)
        }
        IPC_RMID => {
            let segment = here().segments.borrow().get(id)?;
            segment.perm.check_owner()?;
            remove(&segment);
            Ok(0)
        }
        SHM_LOCK | SHM_UNLOCK => {
            // All memory of a pod is resident, so only the flag is set.
            let segment = here().segments.borrow().get(id)?;
            let task = task::current();
            if !task.cred().capable(cap::IPC_LOCK)
                && (!segment.perm.is_own() || command == SHM_LOCK && task.limit(g::RLIMIT_MEMLOCK) == 0)
            {
                return Err(Errno::EPERM);
            }
            if command == SHM_LOCK {
                check_lock(&segment, &task)?;
            }
            let mode = segment.perm.mode.get() & !SHM_LOCKED;
            segment.perm.mode.set(if command == SHM_LOCK { mode | SHM_LOCKED } else { mode });
            Ok(0)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Whether a segment may be locked: the total of the user stays within RLIMIT_MEMLOCK. ENOMEM.
fn check_lock(segment: &Segment, task: &Task) -> Result<()> {
    let limit = task.limit(g::RLIMIT_MEMLOCK);
    if segment.perm.mode.get() & SHM_LOCKED != 0 || task.cred().capable(cap::IPC_LOCK) {
        return Ok(());
    }
    let uid = segment.perm.uid.get();
    let is_counted = |s: &&Rc<Segment>| s.perm.mode.get() & SHM_LOCKED != 0 && s.perm.uid.get() == uid;
    let pages = |s: &Segment| (s.size as u64).next_multiple_of(PAGE_SIZE as u64);
    let locked: u64 = here().segments.borrow().items.values().filter(is_counted).map(|s| pages(s)).sum();
    if locked.saturating_add(pages(segment)) <= limit { Ok(()) } else { Err(Errno::ENOMEM) }
}

/// `/proc/sysvipc/shm`. ENOMEM.
pub fn table() -> Result<Vec<u8>> {
    let mut text = Text::default();
    text.print(format_args!(
        "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      \
         ctime                   rss                  swap\n"
    ));
    for s in here().segments.borrow().items.values() {
        let p = &s.perm;
        text.print(format_args!(
            "{:10} {:10}  {:4o} {:21} {:5} {:5}  {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10} {:21} {:21}\n",
            p.key.get(),
            p.id,
            p.mode.get(),
            s.size,
            s.creator,
            s.last.get(),
            s.attachments(),
            p.uid.get(),
            p.gid.get(),
            p.creator_uid,
            p.creator_gid,
            s.attached.get(),
            s.detached.get(),
            s.changed.get(),
            s.resident() * PAGE_SIZE as u64,
            0,
        ));
    }
    text.done()
}
