//! Address spaces of programs: mappings, faults, program memory access.
//!
//! An [`Mm`] is a set of mappings ([`area::Area`] in a [`VmaSet`]) and the page tables that show the
//! pages touched so far. Pages appear by faults ([`fault`]), ahead of them where that is cheap, and
//! at execve(2) and fork(2). The page tables are the only record of private pages: a private page's
//! frame is written in place when the table holds its only reference and copied otherwise.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod advise;
pub mod area;
pub mod caller;
pub mod commit;
mod debugger;
pub mod exec;
mod fault;
mod fork;
pub mod info;
pub mod mmap;
pub mod patch;
pub mod policy;
mod program;
pub mod reclaim;
pub mod remap;
pub mod reverse;
mod rules;
pub mod shared;
pub mod special;
pub mod text;
mod unlocked;
pub mod user;
mod user_io;
pub mod vdso;

use abi::layout::{PAGE_SIZE, USER_TOP};
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use area::{Area, FileBacking};
use core::any::Any;
use core::cell::{Cell, RefCell};
use core::ops::{Deref, DerefMut};
use hal::cell::Global;
use hal::paging::{AddressSpace, Root};
use hal::sync::{Guard, Rank, SpinLock};
use keel_core::vma::VmaSet;
pub use program::Program;
pub use reverse::answer_losses;
use rules::Rules;
use uapi::{Errno, Result};
use vfs::Inode;

/// Most mappings of one program: Linux's default vm.max_map_count.
pub const MAX_MAPPINGS: usize = 65_530;
/// Most pieces of mappings of one program that guard pages (`MADV_GUARD_INSTALL`) split: Linux has no limit, but keeps no
/// list of them. What a change of one costs grows with their number.
const MAX_PIECES: usize = 4 * MAX_MAPPINGS;

/// Memory of a program, shared by its threads (and by a vfork child).
pub struct Mm {
    space: Arc<Space>,
    layout: Cell<Layout>,
    limits: Cell<Limits>,
    exe: RefCell<Option<Rc<FileBacking>>>,
    /// Threads that run in it, see [`User`].
    users: Cell<usize>,
    auxv: Vec<u64>,
    /// What was registered with membarrier(2).
    pub membarrier: Cell<u32>,
    /// Contexts of io_setup(2), opaque here.
    pub aio: RefCell<Option<Rc<dyn Any>>>,
}

/// Mappings and page tables, which page faults without the big lock use as well ([`unlocked`]).
pub struct Space {
    inner: SpinLock<Inner>,
}

/// What changes with every mapping; never locked across anything that may block.
struct Inner {
    /// The counts of files and other objects in it are changed under the big lock only.
    vmas: Global<VmaSet<Area>>,
    space: AddressSpace,
    /// Mappings without a wish are placed below this.
    mmap_base: usize,
    /// Current end of the heap.
    brk: usize,
    /// MCL_FUTURE: new mappings are locked.
    lock_future: bool,
    /// `MCL_ONFAULT` with it: new mappings are not populated.
    lock_future_on_fault: bool,
    /// RLIMIT_AS is set.
    limited: bool,
    small: mmap::SmallMappings,
    /// Walks upward through fresh memory, and through pages to be copied.
    ahead: fault::Walks,
    copied: fault::Ahead,
    /// No text is patched: a debugger works on it, or a translator reads it.
    plain_text: bool,
    /// The program has no interpreter and is linked to fixed addresses.
    freestanding: bool,
    rules: Rules,
}

/// [`Inner`], locked under the big lock. A TLB flush that is due is done before it is unlocked.
struct Locked<'a>(Guard<'a, Inner>);

impl Locked<'_> {
    /// Unlocks it. A flush, which takes 10 us and more under software-nested KVM, is done without the big lock: the caller
    /// holds no borrows.
    fn release(self) {
        if self.space.is_stale() {
            hal::smp::without_lock(|| drop(self));
        }
    }
}

impl Deref for Locked<'_> {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.0
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.space.flush_if_stale();
    }
}

/// Addresses that /proc/PID/stat shows; all in bytes, 0 if there is no such thing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    /// First byte of text.
    pub start_code: usize,
    /// End of text.
    pub end_code: usize,
    /// First byte of initialised data.
    pub start_data: usize,
    /// End of initialised data.
    pub end_data: usize,
    /// Start of the heap.
    pub start_brk: usize,
    /// Stack pointer at the start of the program.
    pub start_stack: usize,
    /// First byte of the arguments' strings.
    pub arg_start: usize,
    /// End of the arguments' strings.
    pub arg_end: usize,
    /// First byte of the environment's strings.
    pub env_start: usize,
    /// End of the environment's strings.
    pub env_end: usize,
    /// Where the vDSO lies, or 0.
    pub vdso: usize,
}

/// Resource limits that concern memory, getrlimit(2), in bytes; `u64::MAX`: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// RLIMIT_STACK.
    pub stack: u64,
    /// RLIMIT_AS.
    pub address_space: u64,
    /// RLIMIT_DATA.
    pub data: u64,
}

impl Limits {
    /// Whether new mappings are limited.
    const fn apply(&self) -> bool {
        self.address_space != u64::MAX || self.data != u64::MAX
    }
}

/// What an access wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Instruction fetch.
    Exec,
}

/// Why a fault can't be resolved; becomes a signal with this si_code, or EFAULT in a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultError {
    /// SIGSEGV, SEGV_MAPERR.
    NotMapped,
    /// SIGSEGV, SEGV_ACCERR.
    Forbidden,
    /// SIGBUS, BUS_ADRERR: beyond the end of a file.
    BeyondFile,
    /// The pod's memory is used up.
    NoMemory,
}

/// Where a freshly loaded program starts.
#[derive(Clone, Copy, Debug)]
pub struct StartPoint {
    /// First instruction (the interpreter's, if there is one).
    pub instruction: u64,
    /// Stack pointer, at argc.
    pub stack: u64,
}

/// A function that opens an ELF interpreter by path.
pub type OpenInterpreter<'a> = dyn Fn(&[u8]) -> Result<Rc<Program>> + 'a;

/// What execve(2) loads; strings without their terminators.
pub struct ExecRequest<'a> {
    /// The executable, already opened, permission-checked and (for `#!` scripts) resolved to the
    /// interpreter.
    pub inode: Rc<dyn Inode>,
    /// Opens the ELF interpreter (PT_INTERP) by path.
    pub open_interpreter: &'a OpenInterpreter<'a>,
    /// Arguments.
    pub argv: &'a [Vec<u8>],
    /// Environment.
    pub envp: &'a [Vec<u8>],
    /// Path of the executable.
    pub filename: &'a [u8],
    /// AT_EXECFN: the path that execve(2) was given, a script's if it is one.
    pub given: &'a [u8],
    /// Real and effective ids for the auxiliary vector: uid, euid, gid, egid.
    pub ids: [u32; 4],
    /// AT_SECURE.
    pub secure: bool,
    /// RLIMIT_STACK in bytes.
    pub stack_limit: u64,
    /// The memory that the caller has now: what its process is bound to is inherited.
    pub before: Option<&'a Mm>,
}

impl Mm {
    fn new(mut inner: Inner, layout: Layout, limits: Limits, exe: Option<Rc<FileBacking>>, auxv: Vec<u64>) -> Rc<Self> {
        inner.limited = limits.apply();
        let mm = Rc::new(Self {
            space: Arc::new(Space { inner: SpinLock::new(Rank::Space, inner) }),
            layout: Cell::new(layout),
            limits: Cell::new(limits),
            exe: RefCell::new(exe),
            users: Cell::new(0),
            auxv,
            membarrier: Cell::new(0),
            aio: RefCell::new(None),
        });
        reverse::enter(&mm);
        mm
    }

    /// Its mappings and page tables, locked. The holder may stop programs: page faults without the big lock give up then.
    fn inner(&self) -> Locked<'_> {
        Locked(self.space.inner.lock())
    }

    /// What page faults without the big lock use.
    pub fn unlocked(&self) -> Arc<Space> {
        self.space.clone()
    }

    /// Its root page table.
    pub fn root(&self) -> Root {
        self.inner().space.root()
    }

    /// Interrupts the programs that run in it on other virtual CPUs; they go on when this one leaves keel.
    pub fn stop_others(&self) {
        self.inner().space.stop_others();
    }

    /// Drops all mappings (last user gone), while keel goes on in another space. The pages are freed without the big lock,
    /// so the caller holds no borrows.
    pub fn clear(&self) {
        self.drop_mappings();
        let mut inner = self.inner();
        inner.space.quiesce();
        hal::smp::without_lock(|| {
            inner.space.leave();
            inner.space.unmap_range(0, USER_TOP, |_, page| drop(page));
            drop(inner);
        });
    }

    /// Whether one thread uses it, which must be the caller's.
    pub fn has_one_user(&self) -> bool {
        self.users.get() == 1
    }

    /// Drops all mappings at the end of the last thread, before its parent can wait for it: segments are detached and files
    /// released then (ETXTBSY, unlinked files). The pages go with [`Self::clear`]; program memory must not be used any more.
    pub fn drop_mappings(&self) {
        let gone = core::mem::take(&mut self.inner().vmas);
        shared::note_detached(gone.iter());
        // The last handle of a file may go here, which may block.
        drop(gone);
        drop(self.exe.take());
    }

    /// Resident bytes, for the out-of-memory choice.
    pub fn resident_bytes(&self) -> u64 {
        (self.inner().space.pages() * PAGE_SIZE) as u64
    }

    /// Addresses of the program's parts.
    pub fn layout(&self) -> Layout {
        self.layout.get()
    }

    /// New addresses of the program's parts (`PR_SET_MM`).
    pub fn set_layout(&self, layout: Layout) {
        self.layout.set(layout);
    }

    /// Current end of the heap.
    pub fn brk_end(&self) -> usize {
        self.inner().brk
    }

    /// Limits in force.
    pub fn limits(&self) -> Limits {
        self.limits.get()
    }

    /// New limits (setrlimit, prlimit).
    pub fn set_limits(&self, limits: Limits) {
        self.inner().limited = limits.apply();
        self.limits.set(limits);
    }

    /// Records the executable's open file: for /proc/PID/maps, and to keep it open while it runs.
    pub fn set_exe(&self, program: Rc<Program>) {
        if let Some(exe) = &*self.exe.borrow() {
            *exe.name.borrow_mut() = area::FileName::Path(program.place.clone());
            *exe.opened.borrow_mut() = Some(program);
        }
    }

    /// The auxiliary vector as the program got it, pairs of type and value: /proc/PID/auxv.
    pub fn auxv(&self) -> &[u64] {
        &self.auxv
    }
}

/// A thread's use of its memory.
#[derive(Debug)]
pub struct User(Rc<Mm>);

impl User {
    /// Counts a user.
    pub fn new(mm: Rc<Mm>) -> Self {
        mm.users.set(mm.users.get() + 1);
        Self(mm)
    }

    /// The memory.
    pub fn mm(&self) -> &Rc<Mm> {
        &self.0
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.0.users.set(self.0.users.get() - 1);
    }
}

impl core::fmt::Debug for Mm {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Mm").field("layout", &self.layout.get()).finish_non_exhaustive()
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { stack: 8 << 20, address_space: u64::MAX, data: u64::MAX }
    }
}

impl Inner {
    /// An address space with nothing mapped. ENOMEM.
    fn new(stack_limit: u64) -> Result<Self> {
        Ok(Self {
            vmas: Global::new(VmaSet::new()),
            space: AddressSpace::new().ok_or(Errno::ENOMEM)?,
            mmap_base: mmap_base(stack_limit),
            brk: 0,
            lock_future: false,
            lock_future_on_fault: false,
            limited: false,
            small: mmap::SmallMappings::default(),
            ahead: fault::Walks::default(),
            copied: fault::Ahead::default(),
            plain_text: false,
            freestanding: false,
            rules: Rules::default(),
        })
    }

    /// Bytes mapped, for RLIMIT_AS.
    fn mapped_bytes(&self) -> u64 {
        self.vmas.totals().bytes
    }
}

/// Where mmap(2) starts downward: below the room that the stack may grow into, as in Linux (at least
/// 128 MiB, at most five sixths of the space).
fn mmap_base(stack_limit: u64) -> usize {
    let most = USER_TOP / 6 * 5;
    let room = usize::try_from(stack_limit).unwrap_or(most).saturating_add(area::STACK_GUARD_GAP);
    page_down(USER_TOP - room.clamp(128 << 20, most))
}

/// Start of the page.
pub const fn page_down(addr: usize) -> usize {
    addr & !(PAGE_SIZE - 1)
}

/// End of the page, `None` if that overflows.
pub const fn page_up(addr: usize) -> Option<usize> {
    match addr.checked_add(PAGE_SIZE - 1) {
        Some(end) => Some(page_down(end)),
        None => None,
    }
}

/// The pages of `[addr, addr + len)` for a page-aligned `addr`; `None` if they don't fit into the
/// program's half.
pub fn page_range(addr: usize, len: usize) -> Option<core::ops::Range<usize>> {
    let end = addr.checked_add(page_up(len)?)?;
    (end <= USER_TOP).then_some(addr..end)
}
