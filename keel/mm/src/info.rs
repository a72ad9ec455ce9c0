//! Information about an address space for /proc.

use super::area::{Area, AreaFlags, Backing, FileName};
use super::policy::Policy;
use super::{Access, Mm};
use abi::layout::{PAGE_SIZE, USER_TOP};
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use hal::frame::Frame;
use hal::paging::Prot;
use keel_core::vma::Vma;
use vfs::Inode;

/// A mapping in /proc/PID/maps and smaps.
#[derive(Clone)]
pub struct AreaInfo {
    /// First byte.
    pub start: usize,
    /// First byte after it.
    pub end: usize,
    /// Protection.
    pub prot: Prot,
    /// Properties.
    pub flags: AreaFlags,
    /// Memory policy.
    pub policy: Option<Policy>,
    /// Offset into the file in bytes.
    pub offset: u64,
    /// The file, for device and inode number.
    pub inode: Option<Rc<dyn Inode>>,
    /// Name.
    pub name: AreaName,
}

/// Name of a mapping.
#[derive(Clone)]
pub enum AreaName {
    /// A file's.
    File(FileName),
    /// With brackets: `[heap]`.
    Fixed(&'static str),
    /// A file without a directory entry: `/dev/zero (deleted)`.
    Deleted(&'static str),
    /// A segment of System V shared memory, and its id.
    Segment(String, u64),
    /// None.
    None,
}

/// Memory figures in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Mapped.
    pub mapped: u64,
    /// Present, anonymous.
    pub anonymous: u64,
    /// Present, of files.
    pub file: u64,
    /// Present, shared anonymous.
    pub shared: u64,
    /// Mapped private writable data.
    pub data: u64,
    /// Mapped stack.
    pub stack: u64,
    /// Mapped text.
    pub text: u64,
    /// Locked.
    pub locked: u64,
}

/// Pages of one mapping in bytes, for smaps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Residency {
    /// Present.
    pub present: u64,
    /// Pages with no other reference, dirty.
    pub private_dirty: u64,
    /// Pages with no other reference, clean.
    pub private_clean: u64,
    /// Pages with other references, dirty.
    pub shared_dirty: u64,
    /// Pages with other references, clean.
    pub shared_clean: u64,
}

impl AreaInfo {
    /// Of a mapping, where the heap is from `heap.0` to `heap.1`.
    fn of(vma: &Vma<Area>, (heap_start, heap_end): (usize, usize)) -> Self {
        let (mut offset, mut inode) = (0, None);
        let name = match &vma.attrs.backing {
            Backing::File(file, page) => {
                (offset, inode) = (page * PAGE_SIZE as u64, Some(file.inode.clone()));
                AreaName::File(file.name.borrow().clone())
            }
            Backing::Shared(object, page) => {
                offset = page * PAGE_SIZE as u64;
                match object.segment() {
                    Some(segment) => AreaName::Segment(segment.name(), segment.id() as u64),
                    None => AreaName::Deleted("/dev/zero (deleted)"),
                }
            }
            Backing::Special(special, _) => AreaName::Fixed(special.name),
            Backing::Trampolines(..) => AreaName::Fixed("[trampolines]"),
            Backing::Anonymous if vma.attrs.flags.contains(AreaFlags::MAIN_STACK) => AreaName::Fixed("[stack]"),
            Backing::Anonymous if vma.start < heap_end && vma.end > heap_start => AreaName::Fixed("[heap]"),
            Backing::Anonymous => AreaName::None,
        };
        let (start, end) = (vma.start, vma.end);
        let Area { prot, flags, policy, .. } = vma.attrs;
        Self { start, end, prot, flags, policy, offset, inode, name }
    }
}

impl Mm {
    /// All mappings, ascending. ENOMEM.
    pub fn areas(&self) -> uapi::Result<Vec<AreaInfo>> {
        let heap = (self.layout().start_brk, self.brk_end());
        let inner = self.inner();
        vfs::memory::collect(inner.vmas.iter().map(|vma| AreaInfo::of(vma, heap)))
    }

    /// The mapping at an address, or with `next` the first one from there up, of those that `wanted(rights, properties,
    /// of a file)` accepts.
    pub fn area_from(
        &self,
        address: usize,
        next: bool,
        mut wanted: impl FnMut(Prot, AreaFlags, bool) -> bool,
    ) -> Option<AreaInfo> {
        let heap = (self.layout().start_brk, self.brk_end());
        let inner = self.inner();
        let from = inner.vmas.overlapping(address, USER_TOP.max(address));
        let found = from.take_while(|vma| next || vma.start <= address).find(|vma| {
            let of_file = matches!(vma.attrs.backing, Backing::File(..) | Backing::Shared(..));
            wanted(vma.attrs.prot, vma.attrs.flags, of_file)
        })?;
        Some(AreaInfo::of(found, heap))
    }

    /// Key of a futex in shared memory: its object (an address, unique while the mapping exists) and the byte offset in
    /// it. `None` for private memory.
    pub fn shared_key(&self, address: usize) -> Option<(usize, u64)> {
        let inner = self.inner();
        let vma = inner.vmas.find(address)?;
        let offset = |first: u64| first * PAGE_SIZE as u64 + (address - vma.start) as u64;
        match &vma.attrs.backing {
            Backing::Shared(object, first) => Some((Rc::as_ptr(object).addr(), offset(*first))),
            Backing::File(file, first) if !vma.attrs.is_private() => {
                Some((Rc::as_ptr(&file.inode).addr(), offset(*first)))
            }
            _ => None,
        }
    }

    /// Whether the program can't change what is there, and nothing else can: private anonymous memory that is not writable.
    pub fn is_constant(&self, address: usize) -> bool {
        let fixed = |area: &Area| area.is_anonymous() && !area.prot.contains(Prot::WRITE);
        self.inner().vmas.find(address).is_some_and(|vma| fixed(&vma.attrs))
    }

    /// Reads memory of this space, active or not; returns the number of bytes up to the first failure. May block.
    pub fn peek(&self, start: usize, bytes: &mut [u8]) -> usize {
        self.each_page(start, bytes.len(), Access::Read, |frame, offset, at, len| {
            if let Some(part) = bytes.get_mut(at..at + len) {
                frame.read(offset, part);
            }
        })
    }

    /// Writes memory of this space that its program could write; returns the number of bytes up to the first failure.
    /// May block.
    pub fn poke(&self, start: usize, bytes: &[u8]) -> usize {
        self.each_page(start, bytes.len(), Access::Write, |frame, offset, at, len| {
            if let Some(part) = bytes.get(at..at + len) {
                frame.write(offset, part);
            }
        })
    }

    /// Calls `f(frame, offset in it, bytes before it, bytes in it)` for the pages of a range, populated for `access`;
    /// stops at the first failure.
    fn each_page(
        &self,
        start: usize,
        len: usize,
        access: Access,
        mut f: impl FnMut(&Frame, usize, usize, usize),
    ) -> usize {
        let mut done = 0;
        while done < len {
            let Some(at) = start.checked_add(done).filter(|at| *at < USER_TOP) else { break };
            let offset = at % PAGE_SIZE;
            let part = (PAGE_SIZE - offset).min(len - done);
            let there = |mm: &Self| {
                let page = mm.inner().space.get(at - offset);
                page.filter(|p| access != Access::Write || p.prot.contains(Prot::WRITE))
            };
            let page = match there(self) {
                Some(page) => page,
                None => match self.fault(at, access).ok().and_then(|()| there(self)) {
                    Some(page) => page,
                    None => break,
                },
            };
            let frame = if access == Access::Read { self.unpatched(at - offset, page.frame) } else { page.frame };
            f(&frame, offset, done, part);
            done += part;
        }
        done
    }

    /// The present pages of a mapping.
    pub fn residency_of(&self, start: usize, end: usize) -> Residency {
        let mut sum = Residency::default();
        self.inner().space.for_each(start, end, |_, page| {
            let bytes = PAGE_SIZE as u64;
            sum.present += bytes;
            let count = match (page.frame.refs() <= 2, page.dirty) {
                (true, true) => &mut sum.private_dirty,
                (true, false) => &mut sum.private_clean,
                (false, true) => &mut sum.shared_dirty,
                (false, false) => &mut sum.shared_clean,
            };
            *count += bytes;
        });
        sum
    }

    /// Calls `f` with the address of each present page of a range, and whether the page has no other reference.
    pub fn present_pages(&self, start: usize, end: usize, mut f: impl FnMut(usize, bool)) {
        self.inner().space.for_each(start, end, |at, page| f(at, page.frame.refs() <= 2));
    }

    /// Mapped bytes, present or not.
    pub fn mapped_bytes(&self) -> u64 {
        self.inner().mapped_bytes()
    }

    /// Figures of /proc/PID/statm and status; visits all present pages.
    pub fn usage(&self) -> Usage {
        let inner = self.inner();
        let mut usage = Usage::default();
        for vma in inner.vmas.iter() {
            let (len, area) = (vma.len() as u64, &vma.attrs);
            usage.mapped += len;
            if area.flags.contains(AreaFlags::GROWS_DOWN) {
                usage.stack += len;
            } else if area.is_private() && area.prot.contains(Prot::WRITE) {
                usage.data += len;
            } else if area.file().is_some() && area.prot.contains(Prot::EXEC) {
                usage.text += len;
            }
            if area.flags.contains(AreaFlags::LOCKED) {
                usage.locked += len;
            }
            let mut present = 0;
            inner.space.for_each(vma.start, vma.end, |_, _| present += PAGE_SIZE as u64);
            match area.backing {
                Backing::Anonymous => usage.anonymous += present,
                Backing::Shared(..) => usage.shared += present,
                _ => usage.file += present,
            }
        }
        usage
    }
}
