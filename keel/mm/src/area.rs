//! What a mapping of a program is: protection, flags and backing.

use super::Access;
use super::policy::Policy;
use super::shared::SharedObject;
use super::special::Special;
use super::text::PatchedText;
use abi::layout::PAGE_SIZE;
use alloc::rc::Rc;
use alloc::vec::Vec;
use bitflags::bitflags;
use core::any::Any;
use core::cell::RefCell;
use core::fmt;
use core::ops::AddAssign;
use hal::paging::Prot;
use keel_core::vma::Attributes;
use vfs::Inode;
use vfs::PathRef;

/// Bytes that stay free below a stack: Linux's stack_guard_gap, 256 pages.
pub const STACK_GUARD_GAP: usize = 256 * PAGE_SIZE;
/// Bytes that stay free below a private file mapping: room for the trampolines of its patched system
/// call sites, within reach of a `jmp rel32`.
pub const TRAMPOLINE_ROOM: usize = 64 << 10;

bitflags! {
    /// Properties of a mapping besides its protection.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct AreaFlags: u32 {
        /// MAP_SHARED: stores reach the backing.
        const SHARED = 1;
        /// MAP_GROWSDOWN: a stack.
        const GROWS_DOWN = 1 << 1;
        /// MADV_DONTFORK.
        const DONT_FORK = 1 << 2;
        /// MADV_WIPEONFORK.
        const WIPE_ON_FORK = 1 << 3;
        /// MADV_DONTDUMP.
        const DONT_DUMP = 1 << 4;
        /// mlock(2).
        const LOCKED = 1 << 5;
        /// MAP_NORESERVE.
        const NO_RESERVE = 1 << 6;
        /// A shared file that was not opened for writing: mprotect(2) must not add PROT_WRITE.
        const NEVER_WRITE = 1 << 7;
        /// MADV_RANDOM: don't map ahead.
        const RANDOM = 1 << 8;
        /// MADV_SEQUENTIAL.
        const SEQUENTIAL = 1 << 9;
        /// MADV_HUGEPAGE.
        const HUGE = 1 << 10;
        /// MADV_NOHUGEPAGE.
        const NO_HUGE = 1 << 11;
        /// MADV_MERGEABLE.
        const MERGEABLE = 1 << 12;
        /// Keep [`TRAMPOLINE_ROOM`] free below.
        const TRAMPOLINES = 1 << 13;
        /// Mapped by keel itself (vDSO, trampolines): not to be changed piecemeal or grown.
        const SPECIAL = 1 << 14;
        /// The stack that execve(2) made, `[stack]`.
        const MAIN_STACK = 1 << 15;
        /// A private file mapping that is or was writable: may hold pages of its own.
        const WAS_WRITABLE = 1 << 16;
        /// A private mapping of an executable or library: what it may write it soon writes, and nobody
        /// changes the file.
        const IMAGE = 1 << 17;
        /// mseal(2): stays as it is until the program ends.
        const SEALED = 1 << 18;
        /// MADV_GUARD_INSTALL: every access is a fault. Linux has this for pages, keel for mappings that it splits.
        const GUARD = 1 << 19;
        /// `MLOCK_ONFAULT`, besides [`Self::LOCKED`].
        const LOCK_ON_FAULT = 1 << 20;
    }
}

/// A file behind mappings.
pub struct FileBacking {
    /// The file.
    pub inode: Rc<dyn Inode>,
    /// Its name in the tree, for /proc/PID/maps.
    pub name: RefCell<FileName>,
    /// What stays open as long as the mappings: a description, a program.
    pub opened: RefCell<Option<Rc<dyn Any>>>,
}

impl FileBacking {
    /// A file that goes by `name`.
    pub fn new(inode: Rc<dyn Inode>, name: FileName) -> Rc<Self> {
        super::reverse::note_mapped(&inode);
        Rc::new(Self { inode, name: RefCell::new(name), opened: RefCell::new(None) })
    }
}

/// Name of a mapped file.
#[derive(Clone)]
pub enum FileName {
    /// Opened by this name.
    Path(PathRef),
    /// The text that execve(2) was given.
    Text(Vec<u8>),
    /// None.
    Unknown,
}

/// Where the content of a mapping comes from.
#[derive(Clone)]
pub enum Backing {
    /// Zeros, private.
    Anonymous,
    /// A file, from this page on. Private unless [`AreaFlags::SHARED`].
    File(Rc<FileBacking>, u64),
    /// Anonymous memory that mappings share, from this page on.
    Shared(Rc<SharedObject>, u64),
    /// Pages that keel gives, from this page on.
    Special(Rc<Special>, u64),
    /// Trampolines of patched system call sites of an executable, from this page on.
    Trampolines(Rc<PatchedText>, u64),
}

impl Backing {
    /// The same `pages` further.
    fn advance(&self, pages: u64) -> Self {
        let mut moved = self.clone();
        match &mut moved {
            Self::Anonymous => {}
            Self::File(_, page) | Self::Shared(_, page) | Self::Special(_, page) | Self::Trampolines(_, page) => {
                *page += pages;
            }
        }
        moved
    }

    /// The same from `page` on; `None` for what programs did not map themselves.
    pub fn from_page(&self, page: u64) -> Option<Self> {
        match self {
            Self::File(file, _) => Some(Self::File(file.clone(), page)),
            Self::Shared(object, _) => Some(Self::Shared(object.clone(), page)),
            _ => None,
        }
    }

    /// Whether `next` shows what follows so many pages of this. Changes no counts.
    fn is_followed_by(&self, pages: u64, next: &Self) -> bool {
        match (self, next) {
            (Self::Anonymous, Self::Anonymous) => true,
            // Each open makes its own backing; what counts is the file.
            (Self::File(a, i), Self::File(b, j)) => i + pages == *j && same_inode(&a.inode, &b.inode),
            (Self::Shared(a, i), Self::Shared(b, j)) => i + pages == *j && Rc::ptr_eq(a, b),
            (Self::Special(a, i), Self::Special(b, j)) => i + pages == *j && Rc::ptr_eq(a, b),
            (Self::Trampolines(a, i), Self::Trampolines(b, j)) => i + pages == *j && Rc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Whether both show the same object.
    fn same_object(&self, other: &Self) -> bool {
        self.from_page(0).zip(other.from_page(0)).is_some_and(|(a, b)| a.same(&b))
    }

    /// Whether both show the same pages.
    pub fn same(&self, other: &Self) -> bool {
        self.is_followed_by(0, other)
    }
}

/// Whether both are the same inode object.
pub fn same_inode(a: &Rc<dyn Inode>, b: &Rc<dyn Inode>) -> bool {
    core::ptr::addr_eq(Rc::as_ptr(a), Rc::as_ptr(b))
}

/// What a mapping carries.
#[derive(Clone)]
pub struct Area {
    /// What the program may do; empty for PROT_NONE.
    pub prot: Prot,
    /// Other properties.
    pub flags: AreaFlags,
    /// Content.
    pub backing: Backing,
    /// Memory policy, mbind(2).
    pub policy: Option<Policy>,
}

impl Area {
    /// A private anonymous mapping.
    pub const fn anonymous(prot: Prot) -> Self {
        Self { prot, flags: AreaFlags::empty(), backing: Backing::Anonymous, policy: None }
    }

    /// Whether stores stay in this address space.
    pub fn is_private(&self) -> bool {
        matches!(self.backing, Backing::Anonymous | Backing::File(..)) && !self.flags.contains(AreaFlags::SHARED)
    }

    /// Sets or clears the flags of mlock2(2), unless keel itself mapped it.
    pub fn set_locked(&mut self, lock: bool, on_fault: bool) {
        let lock = lock && !self.flags.contains(AreaFlags::SPECIAL);
        self.flags.set(AreaFlags::LOCKED, lock);
        self.flags.set(AreaFlags::LOCK_ON_FAULT, lock && on_fault);
    }

    /// Whether RLIMIT_DATA limits it: private, writable, and no stack.
    pub fn is_data(&self) -> bool {
        self.prot.contains(Prot::WRITE) && self.may_be_data()
    }

    /// Whether RLIMIT_DATA would limit it if it were writable.
    pub fn may_be_data(&self) -> bool {
        self.is_private() && !self.flags.contains(AreaFlags::GROWS_DOWN)
    }

    /// Whether the program may do that.
    pub fn allows(&self, access: Access) -> bool {
        match access {
            Access::Read => !self.prot.is_empty(),
            Access::Write => self.prot.contains(Prot::WRITE),
            Access::Exec => self.prot.contains(Prot::EXEC),
        }
    }

    /// Whether both are shared mappings of the same object with the same rights.
    pub fn is_alike(&self, other: &Self) -> bool {
        let properties = self.flags - AreaFlags::TRAMPOLINES == other.flags - AreaFlags::TRAMPOLINES;
        self.prot == other.prot && properties && self.backing.same_object(&other.backing)
    }

    /// Whether it has no file or other object behind it.
    pub fn is_anonymous(&self) -> bool {
        matches!(self.backing, Backing::Anonymous)
    }

    /// The file behind it, if any.
    pub fn file(&self) -> Option<(&Rc<FileBacking>, u64)> {
        match &self.backing {
            Backing::File(file, page) => Some((file, *page)),
            _ => None,
        }
    }

    /// The file of an executable private mapping that shows nothing but the file's own pages.
    pub fn text_file(&self) -> Option<(&Rc<FileBacking>, u64)> {
        let text = self.prot.contains(Prot::READ | Prot::EXEC) && !self.flags.contains(AreaFlags::WAS_WRITABLE);
        self.file().filter(|_| text && self.is_private())
    }

    /// The patched text that takes the place of the file's pages.
    pub fn patched_text(&self) -> Option<Rc<PatchedText>> {
        PatchedText::existing(&self.text_file()?.0.inode)
    }

    /// Whether `next` continues this after `len` bytes, or would if there were no guard pages: one mapping to the program.
    pub fn continues_but_for_guards(&self, len: usize, next: &Self) -> bool {
        self.prot == next.prot
            && self.flags - AreaFlags::TRAMPOLINES - AreaFlags::GUARD == next.flags - AreaFlags::GUARD
            && self.policy == next.policy
            && self.backing.is_followed_by((len / PAGE_SIZE) as u64, &next.backing)
    }

    /// What pages may be mapped with: x86 can't map a page that is not readable.
    pub fn page_prot(&self) -> Prot {
        if self.prot.is_empty() { self.prot } else { self.prot | Prot::READ }
    }
}

/// Sums over mappings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Number of mappings as the program made them: guard pages split none.
    pub mappings: usize,
    /// Mapped bytes, which RLIMIT_AS limits.
    pub bytes: u64,
    /// Bytes that RLIMIT_DATA limits.
    pub data: u64,
    /// Locked bytes, which RLIMIT_MEMLOCK limits.
    pub locked: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, more: Self) {
        self.mappings += more.mappings;
        self.bytes += more.bytes;
        self.data += more.data;
        self.locked += more.locked;
    }
}

impl Attributes for Area {
    type Totals = Totals;

    fn totals(&self, len: usize, above: Option<&Self>) -> Totals {
        let bytes = len as u64;
        let joined = above.is_some_and(|above| self.continues_but_for_guards(len, above));
        Totals {
            mappings: usize::from(!joined),
            bytes,
            data: if self.is_data() { bytes } else { 0 },
            locked: if self.flags.contains(AreaFlags::LOCKED) { bytes } else { 0 },
        }
    }

    fn advance(&self, bytes: usize) -> Self {
        Self {
            prot: self.prot,
            flags: self.flags - AreaFlags::TRAMPOLINES,
            backing: self.backing.advance((bytes / PAGE_SIZE) as u64),
            policy: self.policy,
        }
    }

    fn continues(&self, len: usize, next: &Self) -> bool {
        self.flags.contains(AreaFlags::GUARD) == next.flags.contains(AreaFlags::GUARD)
            && self.continues_but_for_guards(len, next)
    }

    fn gap_below(&self) -> usize {
        if self.flags.contains(AreaFlags::GROWS_DOWN) {
            STACK_GUARD_GAP
        } else if self.flags.contains(AreaFlags::TRAMPOLINES) {
            TRAMPOLINE_ROOM
        } else {
            0
        }
    }
}

impl fmt::Debug for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Area").field("prot", &self.prot).field("flags", &self.flags).finish_non_exhaustive()
    }
}
