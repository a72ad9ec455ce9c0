//! Page tables of one address space.
#![allow(unsafe_code)]

use super::tables;
use crate::cell::Global;
use crate::frame::{FRAME_SIZE, Frame, LargeFrame};
use crate::page_table::{ACCESSED, ADDRESS, DIRTY, ENTRIES, Entry, LARGE, OCCUPIED, PRESENT, Table};
use crate::page_table::{entry_of, entry_of_table, index, part, prot_of};
use crate::privileged;
use abi::layout::{BOOT_TABLES, KEEL_PML4_SLOT, LARGE_PAGE_SIZE, MAX_CPUS, USER_TOP};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU64, fence};

pub use crate::mapping::{Mapping, Prot};

/// Root table in each virtual CPU.
static ACTIVE: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(BOOT_TABLES as u64) }; MAX_CPUS];

/// Root table that a virtual CPU still has while it loads another one without the big lock; 0: none.
static LEFT: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// Whether a virtual CPU has this root table, or is about to leave it.
fn is_root_used(root: u64) -> bool {
    ACTIVE.iter().any(|active| active.load(SeqCst) == root) || LEFT.iter().any(|left| left.load(SeqCst) == root)
}

/// Whether a virtual CPU has this root table.
fn is_active_in(cpu: usize, root: u64) -> bool {
    ACTIVE.get(cpu).is_some_and(|active| active.load(SeqCst) == root)
}

/// The root table that this virtual CPU translates with.
#[cfg(feature = "hosted")]
pub(crate) fn active_root() -> Table {
    Table(active().load(Relaxed))
}

/// Root table in this virtual CPU.
fn active() -> &'static AtomicU64 {
    &ACTIVE[crate::percpu::cpu_index() % MAX_CPUS]
}

/// Forgets the cached translations of this virtual CPU.
pub(crate) fn reload() {
    load_root(active().load(Relaxed));
}

/// Loads one of this module's root tables, which no other module makes.
fn load_root(root: u64) {
    // SAFETY: `AddressSpace::new` makes keel's slot part of each root table, and none goes to other use while it is loaded.
    unsafe { privileged::load_root(root as usize) }
}

/// Root tables of spaces that are gone, with the tables below them but without pages, and the virtual CPU that freed
/// them. The next space is likely to need its tables at the same places; what KVM made of them is still there.
static SPACES: Global<RefCell<VecDeque<(Table, usize)>>> = Global::new(RefCell::new(VecDeque::new()));
/// Most such spaces, and tables of each.
const MOST_SPACES: usize = 4;
const MOST_SPACE_TABLES: usize = 32;

/// Root tables without tables below that idle virtual CPUs had when their spaces ended. They are used as root
/// tables only.
static ROOTS: Global<RefCell<Vec<Table>>> = Global::new(RefCell::new(Vec::new()));

fn give_table(table: Table) {
    tables::give(table.0);
}

fn new_table() -> Option<Table> {
    tables::take().map(Table)
}

/// The table that an entry holds; a new one if there was none. `None` when memory is used up.
pub(crate) fn child_or_new(table: Table, index: usize) -> Option<Table> {
    if let Some(child) = table.child(index) {
        return Some(child);
    }
    let child = new_table()?;
    table.entry(index).set(entry_of_table(child));
    Some(child)
}

fn mapping(value: u64, frame: Frame) -> Mapping {
    Mapping { frame, prot: prot_of(value), dirty: value & DIRTY != 0, accessed: value & ACCESSED != 0 }
}

/// Takes the frame out of an entry, with its reference.
fn take(entry: &Entry) -> Mapping {
    let value = entry.replace(0);
    // SAFETY: the entry is empty now.
    mapping(value, unsafe { Frame::from_entry(value & ADDRESS) })
}

/// Shows an entry with a handle of its own.
fn show(value: u64) -> Mapping {
    // SAFETY: the handle is not dropped, so the reference stays the entry's.
    let held = core::mem::ManuallyDrop::new(unsafe { Frame::from_entry(value & ADDRESS) });
    mapping(value, Frame::clone(&held))
}

/// Whether a large page may take the place of what an entry of a page directory holds: nothing, or under the big lock a table
/// without pages.
fn is_vacant(directory: u64) -> bool {
    let pages = Table(directory & ADDRESS);
    let is_empty = || (0..ENTRIES).all(|i| pages.entry(i).get() & OCCUPIED == 0);
    directory & PRESENT == 0 || directory & LARGE == 0 && crate::smp::is_held() && is_empty()
}

/// Turns a large page into a table of small ones that allow the same. Cached translations stay right.
fn split(directory: &Entry, spare: &mut Vec<Table>) -> Table {
    let large = directory.get();
    let table = spare.pop().expect("a spare table was put aside for each large page");
    for i in 0..ENTRIES {
        table.entry(i).set(part(large, i));
    }
    directory.set(entry_of_table(table));
    table
}

/// The page tables of a program's half of memory. Keel's own part is shared by all of them.
///
/// A present entry holds one reference of its frame. Changes that only add permissions need no
/// flush; after changes that take any away, call [`AddressSpace::flush`] before relying on them.
///
/// Pages may be added, and permissions may grow, without the big lock; nothing else but what [`AddressSpace::map`] says, and
/// anything while no program runs in the space ([`AddressSpace::quiesce`]).
#[derive(Debug)]
pub struct AddressSpace {
    root: u64,
    /// Entries that hold a frame.
    pages: usize,
    /// A table for each large page, for when it has to be split.
    spare: Vec<Table>,
    /// No virtual CPU runs the program, see [`AddressSpace::quiesce`].
    quiesced: bool,
    /// This virtual CPU may have cached translations that are gone.
    stale: bool,
}

impl AddressSpace {
    /// Empty tables; `None` when memory is used up.
    pub fn new() -> Option<Self> {
        // The oldest one: where programs fork and execute in turn, each finds what the same step used.
        // Preferably of this virtual CPU: shadow page tables that one has used before cost it less.
        let mut spaces = SPACES.borrow_mut();
        let cpu = crate::percpu::cpu_index();
        let own = spaces.iter().position(|(_, freed_by)| *freed_by == cpu).unwrap_or(0);
        let kept = spaces.remove(own);
        drop(spaces);
        if let Some((root, _)) = kept {
            return Some(Self { root: root.0, pages: 0, spare: Vec::new(), quiesced: false, stale: false });
        }
        let left = ROOTS.borrow_mut().pop();
        if let Some(root) = left {
            return Some(Self { root: root.0, pages: 0, spare: Vec::new(), quiesced: false, stale: false });
        }
        let root = new_table()?;
        let keel = Table(BOOT_TABLES as u64).entry(KEEL_PML4_SLOT).get();
        root.entry(KEEL_PML4_SLOT).set(keel);
        Some(Self { root: root.0, pages: 0, spare: Vec::new(), quiesced: false, stale: false })
    }

    /// The entry of the page directory for `va`.
    fn directory_entry(&self, va: usize) -> Option<&'static Entry> {
        let table = Table(self.root).child(index(va, 3))?.child(index(va, 2))?;
        Some(table.entry(index(va, 1)))
    }

    /// The entry for `va` in a table of pages; a large page there is split.
    fn leaf(&mut self, va: usize) -> Option<&'static Entry> {
        let directory = self.directory_entry(va)?;
        let value = directory.get();
        if value & PRESENT == 0 {
            return None;
        }
        let table = if value & LARGE != 0 { split(directory, &mut self.spare) } else { Table(value & ADDRESS) };
        Some(table.entry(index(va, 0)))
    }

    /// Maps a page (4 KiB aligned `va` below `USER_TOP`), replacing what was there.
    /// `None` when memory for a table is used up; and without the big lock if another frame is there and another virtual
    /// CPU has this space, whose translation would have to be forgotten.
    pub fn map(&mut self, va: usize, frame: Frame, prot: Prot) -> Option<()> {
        assert!(va < USER_TOP && va.is_multiple_of(FRAME_SIZE), "mapping outside the program's half");
        let mut table = Table(self.root);
        for level in (1..4).rev() {
            let entry = table.entry(index(va, level));
            table = if level == 1 && entry.get() & LARGE != 0 {
                split(entry, &mut self.spare)
            } else {
                child_or_new(table, index(va, level))?
            };
        }
        let entry = table.entry(index(va, 0));
        let old = entry.get();
        if old & OCCUPIED != 0 {
            let shrinks = old & ADDRESS != frame.gpa() || !prot.contains(prot_of(old));
            if shrinks && crate::smp::is_held() {
                self.stop_others();
            }
            let gone = take(entry);
            if shrinks && !self.quiesced && !crate::smp::is_held() && self.is_elsewhere() {
                entry.set(old);
                gone.frame.into_entry();
                return None;
            }
            drop(gone);
        } else {
            self.pages += 1;
        }
        entry.set(entry_of(frame.into_entry(), prot));
        Some(())
    }

    /// Whether [`Self::map_large`] would find room at `va`.
    pub fn is_vacant(&self, va: usize) -> bool {
        self.directory_entry(va).is_none_or(|entry| is_vacant(entry.get()))
    }

    /// Maps a large page (2 MiB aligned `va` below `USER_TOP`, `prot` with `READ`). `None` if something is mapped there, or
    /// when memory for a table is used up; and without the big lock if there is a table.
    pub fn map_large(&mut self, va: usize, frame: LargeFrame, prot: Prot) -> Option<()> {
        assert!(va < USER_TOP && va.is_multiple_of(LARGE_PAGE_SIZE) && prot.contains(Prot::READ));
        let table = child_or_new(child_or_new(Table(self.root), index(va, 3))?, index(va, 2))?;
        let entry = table.entry(index(va, 1));
        let old = entry.get();
        self.spare.try_reserve(1).ok()?;
        if !is_vacant(old) {
            return None;
        }
        if old & PRESENT != 0 {
            let pages = Table(old & ADDRESS);
            // An empty table left from earlier; the CPU must forget that it was one.
            self.stop_others();
            entry.set(0);
            self.flush();
            self.spare.push(pages);
        } else {
            self.spare.push(new_table()?);
        }
        entry.set(entry_of(frame.into_entry(), prot) | LARGE);
        self.pages += ENTRIES;
        Some(())
    }

    /// Number of pages mapped, hidden ones included.
    pub const fn pages(&self) -> usize {
        self.pages
    }

    /// Looks a page up.
    pub fn get(&self, va: usize) -> Option<Mapping> {
        let directory = self.directory_entry(va)?.get();
        let value = match directory {
            value if value & PRESENT == 0 => return None,
            value if value & LARGE != 0 => part(value, index(va, 0)),
            value => Table(value & ADDRESS).entry(index(va, 0)).get(),
        };
        (value & OCCUPIED != 0).then(|| show(value))
    }

    /// Removes one page.
    pub fn unmap(&mut self, va: usize) -> Option<Mapping> {
        let entry = self.leaf(va).filter(|entry| entry.get() & OCCUPIED != 0)?;
        self.stop_others();
        self.pages -= 1;
        Some(take(entry))
    }

    /// Calls `page` with each occupied entry of `[start, end)`, skipping absent tables. `large` gets
    /// the directory entry of a large page and the part of the range in it, and gives the table that it
    /// was split into, or `None` if it has dealt with it.
    fn walk(
        &self,
        start: usize,
        end: usize,
        mut large: impl FnMut(&Entry, core::ops::Range<usize>) -> Option<Table>,
        mut page: impl FnMut(usize, &Entry),
    ) {
        let end = end.min(USER_TOP);
        let mut va = start & !(FRAME_SIZE - 1);
        'next: while va < end {
            let mut table = Table(self.root);
            for level in (1..4).rev() {
                let span = 1 << (12 + 9 * level);
                let after = (va & !(span - 1)) + span;
                let entry = table.entry(index(va, level));
                let found = match entry.get() {
                    value if value & PRESENT == 0 => None,
                    value if value & LARGE != 0 => large(entry, va..after.min(end)),
                    value => Some(Table(value & ADDRESS)),
                };
                match found {
                    Some(child) => table = child,
                    None => {
                        va = after;
                        continue 'next;
                    }
                }
            }
            let stop = end.min((va & !((ENTRIES * FRAME_SIZE) - 1)) + ENTRIES * FRAME_SIZE);
            while va < stop {
                let entry = table.entry(index(va, 0));
                if entry.get() & OCCUPIED != 0 {
                    page(va, entry);
                }
                va += FRAME_SIZE;
            }
        }
    }

    /// Removes all pages of `[start, end)`, skipping absent tables quickly.
    pub fn unmap_range(&mut self, start: usize, end: usize, each: impl FnMut(usize, Mapping)) {
        let each = core::cell::RefCell::new(each);
        let mut spare = core::mem::take(&mut self.spare);
        let removed = Cell::new(0);
        let stop = || {
            if removed.get() == 0 {
                self.stop_others();
            }
        };
        self.walk(
            start,
            end,
            |entry, range| {
                if range.len() < LARGE_PAGE_SIZE {
                    return Some(split(entry, &mut spare));
                }
                stop();
                let value = entry.replace(0);
                for (i, va) in range.step_by(FRAME_SIZE).enumerate() {
                    let value = part(value, i);
                    // SAFETY: the directory's entry is empty now; it held a reference of each of its frames.
                    let frame = unsafe { Frame::from_entry(value & ADDRESS) };
                    each.borrow_mut()(va, mapping(value, frame));
                }
                removed.set(removed.get() + ENTRIES);
                if let Some(table) = spare.pop() {
                    give_table(table);
                }
                None
            },
            |va, entry| {
                stop();
                removed.set(removed.get() + 1);
                each.borrow_mut()(va, take(entry));
            },
        );
        self.spare = spare;
        self.pages -= removed.get();
    }

    /// Removes all pages of `[start, end)`, at most 2 MiB, without the big lock, and calls `each` with them: whether there were
    /// any. `None`, and nothing has changed, if another virtual CPU has this space, or if there is a large page.
    pub fn unmap_alone(&mut self, start: usize, end: usize, mut each: impl FnMut(&Frame)) -> Option<bool> {
        assert!(end - start <= LARGE_PAGE_SIZE, "more than is put aside");
        if self.is_elsewhere() {
            return None;
        }
        let mut removed = [0; ENTRIES];
        let place = |va: usize| (va - start) / FRAME_SIZE;
        let (mut has_large, mut count) = (false, 0);
        self.walk(
            start,
            end,
            |_, _| {
                has_large = true;
                None
            },
            |va, entry| {
                removed[place(va)] = entry.replace(0);
                count += 1;
            },
        );
        let occupied = |va: &usize| removed[place(*va)] != 0;
        if has_large || count > 0 && self.is_elsewhere() {
            for va in (start..end).step_by(FRAME_SIZE).filter(occupied) {
                if let Some(entry) = self.leaf(va) {
                    entry.set(removed[place(va)]);
                }
            }
            return None;
        }
        for value in removed.into_iter().filter(|value| *value != 0) {
            // SAFETY: the entry, which held a reference, is empty now.
            let frame = unsafe { Frame::from_entry(value & ADDRESS) };
            each(&frame);
        }
        self.pages -= count;
        Some(count > 0)
    }

    /// Changes permissions of the pages of `[start, end)`: `f(va, mapping)` gives the new ones.
    pub fn update_range(&mut self, start: usize, end: usize, mut f: impl FnMut(usize, &Mapping) -> Prot) {
        let mut spare = core::mem::take(&mut self.spare);
        self.walk(
            start,
            end,
            |entry, _| Some(split(entry, &mut spare)),
            |va, entry| {
                let value = entry.get();
                let prot = f(va, &show(value));
                if prot != prot_of(value) {
                    if !prot.contains(prot_of(value)) {
                        self.stop_others();
                    }
                    entry.set(entry_of(value & ADDRESS, prot) | value & (ACCESSED | DIRTY));
                }
            },
        );
        self.spare = spare;
    }

    /// Calls `f` for each present page of `[start, end)`.
    pub fn for_each(&self, start: usize, end: usize, f: impl FnMut(usize, &Mapping)) {
        let f = core::cell::RefCell::new(f);
        self.walk(
            start,
            end,
            |entry, range| {
                for va in range.step_by(FRAME_SIZE) {
                    f.borrow_mut()(va, &show(part(entry.get(), index(va, 0))));
                }
                None
            },
            |va, entry| f.borrow_mut()(va, &show(entry.get())),
        );
    }

    /// Its root table, for [`activate_unlocked`].
    pub fn root(&self) -> Root {
        Root(self.root)
    }

    /// Stops the other virtual CPUs that run in this space until this one leaves keel; they forget their
    /// cached translations before they go on. The methods that take permissions away do so themselves.
    pub fn stop_others(&self) {
        if crate::smp::several() && !self.quiesced {
            crate::smp::stop(|cpu| is_active_in(cpu, self.root));
        }
    }

    /// Until [`Self::resume`], no thread runs in the space, and none is about to: changes stop no other virtual CPU, and
    /// may be made without the big lock.
    pub fn quiesce(&mut self) {
        self.quiesced = true;
    }

    /// Under the big lock: threads may run in the space again. `shrunk`: permissions shrank meanwhile, so idle virtual CPUs
    /// that still have the space flush their TLBs before they run a program.
    pub fn resume(&mut self, shrunk: bool) {
        self.quiesced = false;
        if shrunk {
            self.stop_others();
        }
    }

    /// Makes this virtual CPU leave the space if it has it, for one without a program.
    pub fn leave(&self) {
        if self.root().is_active() {
            load(BOOT_TABLES as u64);
        }
    }

    /// Whether another virtual CPU has this space, and so may have cached a translation from before the last change of an
    /// entry. One that loads the root table now does so after it said so, and then sees the changed entry.
    fn is_elsewhere(&self) -> bool {
        fence(SeqCst);
        crate::smp::others().any(|cpu| is_active_in(cpu, self.root))
    }

    /// Forgets cached translations if this space is active; the next activation does otherwise.
    pub fn flush(&self) {
        if self.root().is_active() {
            load(self.root);
        }
    }

    /// Notes that this virtual CPU has to flush, before the program runs again: [`Self::flush_if_stale`].
    pub fn set_stale(&mut self) {
        self.stale = true;
    }

    /// Whether a flush is due.
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    /// Flushes if that is due.
    #[inline]
    pub fn flush_if_stale(&mut self) {
        if core::mem::take(&mut self.stale) {
            self.flush();
        }
    }

    /// Forgets one cached translation if this space is active.
    pub fn flush_page(&self, va: usize) {
        if self.root().is_active() {
            privileged::invalidate_page(va);
        }
    }
}

/// The root table of an address space.
#[derive(Clone, Copy, Debug)]
pub struct Root(u64);

impl Root {
    /// Whether it is the CPU's.
    pub fn is_active(self) -> bool {
        active().load(Relaxed) == self.0
    }
}

/// Makes a space the CPU's, without the big lock: under software-nested KVM loading a root table takes some 10 us. The caller holds no borrows, is the thread that runs in the space, and so keeps it.
///
/// Meanwhile the CPU counts as one that runs in the new space, for TLB flushes, and the old root table is not used for
/// anything else. Whether it was another one.
pub fn activate_unlocked(root: Root) -> bool {
    let old = active().load(Relaxed);
    if old == root.0 {
        return false;
    }
    if !crate::smp::several() {
        load(root.0);
        return true;
    }
    let left = &LEFT[crate::percpu::cpu_index() % MAX_CPUS];
    left.store(old, SeqCst);
    active().store(root.0, SeqCst);
    crate::smp::without_lock(|| {
        load_root(root.0);
        left.store(0, SeqCst);
    });
    true
}

fn load(root: u64) {
    active().store(root, SeqCst);
    load_root(root);
}

/// Number of entries of a table of this level that belong to programs.
const fn own_entries(level: usize) -> usize {
    if level == 3 { KEEL_PML4_SLOT } else { ENTRIES }
}

/// Tables below one, which maps no pages.
fn count_tables(table: Table, level: usize) -> usize {
    let children = (0..own_entries(level)).filter_map(|i| table.child(i));
    children.map(|child| 1 + if level > 1 { count_tables(child, level - 1) } else { 0 }).sum()
}

/// Gives the tables below one back, which maps no pages and is zero afterwards.
fn free_tables(table: Table, level: usize) {
    for i in 0..own_entries(level) {
        if let Some(child) = table.child(i) {
            if level > 1 {
                free_tables(child, level - 1);
            }
            table.entry(i).set(0);
            give_table(child);
        }
    }
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        self.leave();
        self.quiesced = false;
        // Idle ones may still be in this space: the table stays a root table as long as they are.
        self.stop_others();
        if self.pages > 0 {
            self.unmap_range(0, USER_TOP, |_, page| drop(page));
        }
        for table in self.spare.drain(..) {
            give_table(table);
        }
        let root = Table(self.root);
        let mut spaces = SPACES.borrow_mut();
        let keep = spaces.len() < MOST_SPACES && count_tables(root, 3) <= MOST_SPACE_TABLES;
        if keep && spaces.try_reserve(1).is_ok() {
            spaces.push_back((root, crate::percpu::cpu_index()));
            return;
        }
        free_tables(root, 3);
        if is_root_used(self.root) {
            ROOTS.borrow_mut().push(root);
            return;
        }
        root.entry(KEEL_PML4_SLOT).set(0);
        give_table(root);
    }
}
