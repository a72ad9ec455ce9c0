//! The system calls about memory: arguments checked in Linux's order.

use crate::file::File;
use crate::fs::dev::Memory;
use crate::mm::area::{Area, AreaFlags, Backing, FileBacking, FileName};
use crate::mm::caller::caller;
use crate::mm::mmap::Placement;
use crate::mm::remap::Target;
use crate::mm::shared::SharedObject;
use crate::mm::{Mm, advise, commit, page_down, page_range, page_up, user};
use crate::socket::Socket;
use crate::task;
use abi::layout::PAGE_SIZE;
use alloc::rc::Rc;
use hal::paging::Prot;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::node::{F_SEAL_FUTURE_WRITE, F_SEAL_WRITE, Node};
use vfs::{FILE_MAX, FileType, Inode};

const MAP_TYPE: u32 = 0xf;
/// Flags that MAP_SHARED_VALIDATE accepts: Linux's LEGACY_MAP_MASK. MAP_SYNC is for persistent memory.
const VALIDATED: u32 = g::MAP_SHARED
    | g::MAP_PRIVATE
    | g::MAP_FIXED
    | g::MAP_ANONYMOUS
    | g::MAP_DENYWRITE
    | g::MAP_EXECUTABLE
    | g::MAP_UNINITIALIZED
    | g::MAP_GROWSDOWN
    | g::MAP_LOCKED
    | g::MAP_NORESERVE
    | g::MAP_POPULATE
    | g::MAP_NONBLOCK
    | g::MAP_STACK
    | g::MAP_HUGETLB
    | g::MAP_32BIT
    | MAP_ABOVE4G
    | HUGE_SIZES;
/// Bits of `MAP_HUGE_2MB` and `MAP_HUGE_1GB`.
const HUGE_SIZES: u32 = 21 << 26 | 30 << 26;
/// Of personality(2).
pub const READ_IMPLIES_EXEC: u32 = 0x0040_0000;
/// Place above 4 GiB; where keel places anyway.
const MAP_ABOVE4G: u32 = 0x80;

fn mm() -> Rc<Mm> {
    task::current().mm()
}

/// What a program wants of its memory, `PROT_*`.
pub fn prot_of(prot: u32) -> Prot {
    let mut allowed = Prot::empty();
    allowed.set(Prot::READ, prot & g::PROT_READ != 0);
    allowed.set(Prot::WRITE, prot & g::PROT_WRITE != 0);
    allowed.set(Prot::EXEC, prot & g::PROT_EXEC != 0);
    allowed
}

/// What the thread gets of its memory: with `READ_IMPLIES_EXEC` in its personality(2), it may execute what it may read.
fn granted(prot: u32) -> Prot {
    let wanted = prot_of(prot);
    let implied = wanted.contains(Prot::READ) && task::with_current(|me| me.personality.get() & READ_IMPLIES_EXEC != 0);
    if implied { wanted | Prot::EXEC } else { wanted }
}

/// mmap(2).
pub fn sys_mmap(addr: usize, len: usize, prot: u32, flags: u32, fd: i32, offset: u64) -> Result<usize> {
    if !offset.is_multiple_of(PAGE_SIZE as u64) {
        return Err(Errno::EINVAL);
    }
    let file = if flags & g::MAP_ANONYMOUS == 0 {
        let file = task::current().files().get(fd)?;
        if file.is_path() {
            return Err(Errno::EBADF);
        }
        if flags & g::MAP_HUGETLB != 0 {
            return Err(Errno::EINVAL);
        }
        Some(file)
    } else {
        if flags & g::MAP_HUGETLB != 0 {
            // No huge pages are reserved.
            return Err(Errno::ENOMEM);
        }
        None
    };
    if len == 0 {
        return Err(Errno::EINVAL);
    }
    let len = page_up(len).ok_or(Errno::ENOMEM)?;
    let first = offset / PAGE_SIZE as u64;
    if let Some(file) = &file {
        let largest = largest_offset(file);
        if len as u64 > largest || offset > largest - len as u64 {
            return Err(Errno::EOVERFLOW);
        }
    }
    if flags & g::MAP_FIXED_NOREPLACE != 0 && addr.is_multiple_of(PAGE_SIZE) && mm().is_used(addr, len) {
        return Err(Errno::EEXIST);
    }
    let wanted = if file.as_ref().is_some_and(|file| is_never_executed(file)) { prot_of(prot) } else { granted(prot) };
    let fixed = flags & (g::MAP_FIXED | g::MAP_FIXED_NOREPLACE) != 0;
    let placement = match () {
        () if flags & g::MAP_FIXED_NOREPLACE != 0 => Placement::FixedNoReplace(addr),
        () if fixed => Placement::Fixed(addr),
        () if flags & g::MAP_32BIT != 0 => Placement::Low,
        () => Placement::Hint(addr),
    };
    let mut area = match &file {
        Some(file) => file_area(file, first, flags, wanted)?,
        None => anonymous_area(flags, (len / PAGE_SIZE) as u64)?,
    };
    area.prot = wanted;
    if area.flags.contains(AreaFlags::SHARED) && file.as_ref().is_some_and(|file| is_sealed(file)) {
        if area.prot.contains(Prot::WRITE) {
            return Err(Errno::EPERM);
        }
        area.flags |= AreaFlags::NEVER_WRITE;
    }
    let shares_nothing = |file: &Rc<File>| file.ops.inode().is_some_and(|inode| !inode.takes_stores());
    if area.flags.contains(AreaFlags::SHARED) && file.as_ref().is_some_and(shares_nothing) {
        // As of a file in FUSE that bypasses the page cache.
        if area.prot.contains(Prot::WRITE) && !area.flags.contains(AreaFlags::NEVER_WRITE) {
            return Err(Errno::ENODEV);
        }
        area.flags |= AreaFlags::NEVER_WRITE;
    }
    let private_file = area.is_private() && area.file().is_some();
    area.flags.set(AreaFlags::WAS_WRITABLE, private_file && area.prot.contains(Prot::WRITE));
    area.flags.set(AreaFlags::TRAMPOLINES, private_file && !fixed);
    // Has no other meaning any more, and dynamic linkers still give it.
    area.flags.set(AreaFlags::IMAGE, private_file && flags & g::MAP_DENYWRITE != 0);
    area.flags.set(AreaFlags::GROWS_DOWN, flags & g::MAP_GROWSDOWN != 0);
    area.flags.set(AreaFlags::LOCKED, flags & g::MAP_LOCKED != 0);
    area.flags.set(AreaFlags::NO_RESERVE, flags & g::MAP_NORESERVE != 0);
    if matches!(area.backing, Backing::Shared(..)) && flags & g::MAP_NORESERVE == 0 {
        // Whatever may be done with it now: others that get it may do more.
        commit::check(len as u64)?;
    }
    // As in Linux since 6.7: stacks get no huge pages.
    area.flags.set(AreaFlags::NO_HUGE, flags & g::MAP_STACK != 0);
    let accessible = !area.prot.is_empty();
    let mm = mm();
    if private_file && area.prot.contains(Prot::EXEC) {
        mm.maps_text();
    }
    let start = mm.map(placement, len, area)?;
    if flags & g::MAP_POPULATE != 0 && flags & g::MAP_NONBLOCK == 0 && accessible {
        // As in Linux the mapping stands even if not all of it can be had now.
        let _ = mm.populate(start, start + len);
    }
    Ok(start)
}

/// The file is sealed against writing.
fn is_sealed(file: &File) -> bool {
    let seals = file.ops.inode().and_then(|inode| inode.as_any().downcast_ref::<Node>()?.seals());
    seals.is_some_and(|seals| seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE) != 0)
}

/// The end of the last mapping of a file: devices and directories have no largest size of their own.
fn largest_offset(file: &File) -> u64 {
    let is_bounded = match file.ops.inode() {
        Some(inode) => matches!(inode.file_type(), FileType::Regular | FileType::BlockDevice),
        None => file.downcast::<Socket>().is_some(),
    };
    if is_bounded { FILE_MAX } else { u64::MAX }
}

/// Whether programs in it can't be run: everything that lies in no tree, and in file systems of generated files.
fn is_never_executed(file: &File) -> bool {
    let generated = |inode: Rc<dyn Inode>| !inode.can_be_stored();
    match &file.path {
        Some(place) => place.has_flag(vfs::mount::flags::NO_EXEC) || file.ops.inode().is_some_and(generated),
        None => true,
    }
}

/// What a mapping of a file is, without its protection. EACCES, EPERM, ENODEV, EINVAL, EOPNOTSUPP.
fn file_area(file: &Rc<File>, first: u64, flags: u32, prot: Prot) -> Result<Area> {
    let mut area = Area::anonymous(Prot::empty());
    match flags & MAP_TYPE {
        g::MAP_SHARED_VALIDATE if flags & !VALIDATED & !MAP_TYPE != 0 => return Err(Errno::EOPNOTSUPP),
        g::MAP_SHARED | g::MAP_SHARED_VALIDATE => {
            area.flags |= AreaFlags::SHARED;
            area.flags.set(AreaFlags::NEVER_WRITE, !file.writable());
            if prot.contains(Prot::WRITE) && !file.writable() {
                return Err(Errno::EACCES);
            }
        }
        g::MAP_PRIVATE => {}
        _ => return Err(Errno::EINVAL),
    }
    if !file.readable() {
        return Err(Errno::EACCES);
    }
    if prot.contains(Prot::EXEC) && is_never_executed(file) {
        return Err(Errno::EPERM);
    }
    let inode = file.ops.inode().filter(|inode| match inode.file_type() {
        FileType::Regular => inode.can_be_mapped(),
        FileType::CharDevice => file.downcast::<Memory>().is_some_and(Memory::is_zero),
        _ => false,
    });
    // Sockets have the operation, but no family has.
    if inode.is_none() && file.downcast::<Socket>().is_none() {
        return Err(Errno::ENODEV);
    }
    if flags & g::MAP_GROWSDOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let inode = inode.ok_or(Errno::ENODEV)?;
    if inode.file_type() == FileType::CharDevice {
        if area.flags.contains(AreaFlags::SHARED) {
            area.backing = Backing::Shared(Rc::new(SharedObject::default()), first);
        }
        return Ok(area);
    }
    let name = file.path.clone().map_or(FileName::Unknown, FileName::Path);
    let backing = FileBacking::new(inode, name);
    *backing.opened.borrow_mut() = Some(file.clone());
    area.backing = Backing::File(backing, first);
    Ok(area)
}

/// What an anonymous mapping of `pages` is, without its protection. EINVAL.
fn anonymous_area(flags: u32, pages: u64) -> Result<Area> {
    let mut area = Area::anonymous(Prot::empty());
    match flags & MAP_TYPE {
        g::MAP_SHARED if flags & g::MAP_GROWSDOWN != 0 => return Err(Errno::EINVAL),
        g::MAP_SHARED => {
            area.flags |= AreaFlags::SHARED;
            area.backing = Backing::Shared(Rc::new(SharedObject::of_pages(pages)), 0);
        }
        g::MAP_PRIVATE => {}
        _ => return Err(Errno::EINVAL),
    }
    Ok(area)
}

/// munmap(2).
pub fn sys_munmap(addr: usize, len: usize) -> Result<()> {
    if !addr.is_multiple_of(PAGE_SIZE) || len == 0 {
        return Err(Errno::EINVAL);
    }
    let range = page_range(addr, len).ok_or(Errno::EINVAL)?;
    mm().unmap(range.start, range.end)
}

/// mprotect(2).
pub fn sys_mprotect(addr: usize, len: usize, prot: u32) -> Result<()> {
    const KNOWN: u32 = g::PROT_READ | g::PROT_WRITE | g::PROT_EXEC | g::PROT_SEM;
    const GROWS: u32 = g::PROT_GROWSDOWN | g::PROT_GROWSUP;
    if prot & GROWS == GROWS || !addr.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    if len == 0 {
        return Ok(());
    }
    let mut start = addr;
    let end = page_up(len).and_then(|len| addr.checked_add(len)).filter(|end| *end > addr).ok_or(Errno::ENOMEM)?;
    if prot & !(KNOWN | GROWS) != 0 {
        return Err(Errno::EINVAL);
    }
    let mm = mm();
    if prot & GROWS != 0 {
        // No mapping grows upward on x86.
        start = mm.stack_start(addr, end)?.filter(|_| prot & g::PROT_GROWSDOWN != 0).ok_or(Errno::EINVAL)?;
    }
    mm.protect(start, end, granted(prot))
}

/// pkey_mprotect(2) without protection keys: only "no key" is known.
pub fn sys_pkey_mprotect(addr: usize, len: usize, prot: u32, pkey: i32) -> Result<()> {
    if pkey != -1 {
        return Err(Errno::EINVAL);
    }
    sys_mprotect(addr, len, prot)
}

/// brk(2).
pub fn sys_brk(addr: usize) -> usize {
    mm().brk(addr, granted(g::PROT_READ | g::PROT_WRITE))
}

/// mremap(2).
pub fn sys_mremap(old: usize, old_len: usize, new_len: usize, flags: u32, new: usize) -> Result<usize> {
    const FIXED: u32 = g::MREMAP_FIXED;
    const MAY_MOVE: u32 = g::MREMAP_MAYMOVE;
    const KEEP: u32 = g::MREMAP_DONTUNMAP;
    let may_move = flags & MAY_MOVE != 0;
    if flags & !(FIXED | MAY_MOVE | KEEP) != 0 || flags & FIXED != 0 && !may_move {
        return Err(Errno::EINVAL);
    }
    if flags & KEEP != 0 && (!may_move || old_len != new_len) || !old.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let (Some(old_len), Some(new_len)) = (page_up(old_len), page_up(new_len)) else { return Err(Errno::EINVAL) };
    if new_len == 0 || new_len > abi::layout::USER_TOP {
        return Err(Errno::EINVAL);
    }
    let target = match () {
        () if flags & FIXED != 0 && !new.is_multiple_of(PAGE_SIZE) => return Err(Errno::EINVAL),
        () if flags & FIXED != 0 => Target::At(new),
        () if may_move => Target::Anywhere,
        () => Target::Stay,
    };
    mm().remap(old, old_len, new_len, target, flags & KEEP != 0)
}

/// remap_file_pages(2), as in Linux by mappings of their own. EINVAL, ENOMEM, EOVERFLOW.
pub fn sys_remap_file_pages(addr: usize, size: usize, prot: u32, page: u64, flags: u32) -> Result<()> {
    let (start, size) = (page_down(addr), page_down(size));
    let end = start.checked_add(size).filter(|end| *end > start).ok_or(Errno::EINVAL)?;
    if prot != 0 || page.checked_add((size / PAGE_SIZE) as u64).is_none() {
        return Err(Errno::EINVAL);
    }
    mm().rearrange(start, end, page, flags & g::MAP_NONBLOCK == 0)
}

/// madvise(2).
pub fn sys_madvise(addr: usize, len: usize, advice: u32) -> Result<()> {
    if !advise::is_known(advice) || !addr.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let end = page_up(len).and_then(|len| addr.checked_add(len)).ok_or(Errno::EINVAL)?;
    if end == addr { Ok(()) } else { mm().advise(addr, end, advice) }
}

/// mseal(2). EINVAL, ENOMEM.
pub fn sys_mseal(addr: usize, len: usize, flags: u64) -> Result<()> {
    if flags != 0 || !addr.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let end = page_up(len).and_then(|len| addr.checked_add(len)).ok_or(Errno::EINVAL)?;
    if end == addr { Ok(()) } else { mm().seal(addr, end) }
}

/// msync(2).
pub fn sys_msync(addr: usize, len: usize, flags: u32) -> Result<()> {
    if flags & !(g::MS_ASYNC | g::MS_INVALIDATE | g::MS_SYNC) != 0 || !addr.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    if flags & g::MS_ASYNC != 0 && flags & g::MS_SYNC != 0 {
        return Err(Errno::EINVAL);
    }
    // Linux doesn't notice a length that wraps round.
    let end = addr.checked_add(page_up(len).unwrap_or(0)).ok_or(Errno::ENOMEM)?;
    if end == addr {
        return Ok(());
    }
    let (files, covered, locked) = mm().shared_files(addr, end);
    if flags & g::MS_INVALIDATE != 0 && locked {
        return Err(Errno::EBUSY);
    }
    if flags & g::MS_SYNC != 0 {
        for file in files {
            file.inode.sync(true)?;
        }
    }
    if covered { Ok(()) } else { Err(Errno::ENOMEM) }
}

/// mincore(2).
pub fn sys_mincore(addr: usize, len: usize, vec: usize) -> Result<()> {
    /// Pages looked at in one go.
    const CHUNK: usize = 1 << 16;
    if !addr.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let range = page_range(addr, len).ok_or(Errno::ENOMEM)?;
    user::access_ok(vec, range.len() / PAGE_SIZE)?;
    let mm = mm();
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at + CHUNK * PAGE_SIZE);
        let present = mm.residency(at, end)?;
        user::write_bytes(vec + (at - addr) / PAGE_SIZE, &present)?;
        at = end;
    }
    Ok(())
}

/// mlock(2).
pub fn sys_mlock(addr: usize, len: usize) -> Result<()> {
    lock(addr, len, true, false)
}

/// mlock2(2).
pub fn sys_mlock2(addr: usize, len: usize, flags: u32) -> Result<()> {
    if flags & !g::MLOCK_ONFAULT != 0 {
        return Err(Errno::EINVAL);
    }
    lock(addr, len, true, flags & g::MLOCK_ONFAULT != 0)
}

/// munlock(2).
pub fn sys_munlock(addr: usize, len: usize) -> Result<()> {
    lock(addr, len, false, false)
}

fn lock(addr: usize, len: usize, lock: bool, on_fault: bool) -> Result<()> {
    let start = page_down(addr);
    // Linux doesn't notice that the end wraps round.
    let len = page_up(len.wrapping_add(addr - start)).unwrap_or(0);
    let mm = mm();
    if lock {
        // What is locked already counts once.
        let others = mm.locked_bytes() - mm.locked_within(start, start.saturating_add(len));
        caller().may_lock(others, len as u64)?;
    }
    let end = start.checked_add(len).ok_or(Errno::EINVAL)?;
    if end == start { Ok(()) } else { mm.lock(start, end, lock, on_fault) }
}

/// mlockall(2).
pub fn sys_mlockall(flags: u32) -> Result<()> {
    const KNOWN: u32 = g::MCL_CURRENT | g::MCL_FUTURE | g::MCL_ONFAULT;
    if flags == 0 || flags & !KNOWN != 0 || flags == g::MCL_ONFAULT {
        return Err(Errno::EINVAL);
    }
    let mm = mm();
    let current = flags & g::MCL_CURRENT != 0;
    caller().may_lock(mm.locked_bytes(), if current { mm.usage().mapped - mm.locked_bytes() } else { 0 })?;
    mm.lock_all(current, flags & g::MCL_FUTURE != 0, flags & g::MCL_ONFAULT != 0);
    Ok(())
}

/// munlockall(2).
pub fn sys_munlockall() -> Result<()> {
    mm().lock_all(false, false, false);
    Ok(())
}
