//! Patches the `syscall` instructions of programs so that they call keel instead of trapping.
//!
//! Traps are counted by site ([`keel_core::patch::Sites`], one per file). After enough traps in a page
//! `keel_core::patch` plans jumps for its sites, and a patched copy, which is attached to the file
//! ([`crate::text::PatchedText`]), replaces the page in all programs of the pod that map it. So a page is patched
//! once per pod.
//!
//! Only private, executable mappings of files that were never mapped writable are patched: their content is the file's.
//! Generated code keeps trapping.

use crate::area::TRAMPOLINE_ROOM;
use crate::caller::caller;
use crate::text::{PatchedText, TextSite};
use crate::{Mm, user};
use abi::layout::PAGE_SIZE;
use alloc::rc::Rc;
use alloc::{vec, vec::Vec};
use core::cell::Cell;
use hal::cell::Global;
use hal::frame::Frame;
use hal::trap::TrapFrame;
use keel_core::patch::{ORIGIN, Patch, Verdict};
use smallvec::SmallVec;

/// Bytes behind a page that instructions at its last site may extend to.
const BEHIND: usize = 32;
/// Length of a `syscall` instruction.
const SYSCALL_LEN: u64 = 2;
/// Exception vector of `int3`.
const BREAKPOINT: u8 = 3;
/// Exception vector of undefined opcodes.
const UNDEFINED: u8 = 6;

/// Statistics of the pod.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// System calls that trapped.
    pub traps: u64,
    /// Of those, traps from code that is not unmodified file text.
    pub foreign: u64,
    /// Patched sites.
    pub patched: u64,
    /// Sites that can't be patched.
    pub refused: u64,
    /// Number of resumes at moved instructions.
    pub landings: u64,
}

static STATS: Global<Cell<Stats>> =
    Global::new(Cell::new(Stats { traps: 0, foreign: 0, patched: 0, refused: 0, landings: 0 }));

fn count(change: impl FnOnce(&mut Stats)) {
    let mut stats = STATS.get();
    change(&mut stats);
    STATS.set(stats);
}

/// Returns the statistics.
pub fn stats() -> Stats {
    STATS.get()
}

/// Called after a trapped system call of the current thread (`Entry::Trap`), before it is handled, with the unmodified
/// frame. May block. May change the frame's instruction pointer to the new address of the instructions behind the site.
pub fn on_trap(frame: &mut TrapFrame) {
    let info = hal::boot::boot_info();
    if info.flags & abi::boot::flags::TRAP_ONLY != 0 {
        return;
    }
    count(|s| s.traps += 1);
    let Some(address) = frame.instruction_pointer().checked_sub(SYSCALL_LEN).and_then(|a| usize::try_from(a).ok())
    else {
        return;
    };
    let mm = caller().space();
    let Some((site, text)) = find(&mm, address) else {
        count(|s| s.foreign += 1);
        return;
    };
    let offset = address - site.page_address;
    let change = match text.sites.note(site.file_page, offset as u16, frame.number()) {
        Verdict::Wait => return,
        Verdict::Show(patch) => show(&mm, &site, &text, &patch),
        Verdict::Plan => plan(&mm, &site, &text),
    };
    if change.is_none() {
        return;
    }
    if let Some(moved) = text.sites.resume_for(site.file_page, offset as u16 + SYSCALL_LEN as u16)
        && let Some(moved) = address_of(&site, moved)
    {
        frame.set_instruction_pointer(moved);
    }
}

/// Called after an exception of the current thread. Returns true if it was raised by an overwritten instruction: the
/// frame continues at the moved instruction, and the program gets no signal.
pub fn on_fault(frame: &mut TrapFrame, vector: u8) -> bool {
    let place = match vector {
        // The instruction pointer is behind `int3`.
        BREAKPOINT => frame.instruction_pointer().wrapping_sub(1),
        UNDEFINED => frame.instruction_pointer(),
        _ => return false,
    };
    let mm = caller().space();
    let Some((site, text)) = usize::try_from(place).ok().and_then(|place| find(&mm, place)) else { return false };
    let offset = (place as usize - site.page_address) as u16;
    let Some(moved) = text.sites.resume_for(site.file_page, offset) else { return false };
    let Some(moved) = address_of(&site, moved) else { return false };
    frame.set_instruction_pointer(moved);
    count(|s| s.landings += 1);
    if text.sites.landed(site.file_page, offset) {
        count(|s| (s.patched, s.refused) = (s.patched.saturating_sub(1), s.refused + 1));
        // Rebuild without this patch; the others of the page stay.
        let _ = file_bytes(&site).and_then(|bytes| rebuild(&mm, &site, &text, &bytes));
    }
    true
}

/// The original address of a place in the program: `place`, unless that is in a trampoline. A signal frame must contain
/// it, so that handlers and unwinders find the code. The program may resume there.
pub fn program_address(place: u64) -> u64 {
    let Ok(address) = usize::try_from(place) else { return place };
    let mm = caller().space();
    let Some((text, origin)) = mm.trampoline_text(address) else { return place };
    let original = ORIGIN.checked_add_signed(address as i64 - origin as i64).and_then(|at| text.sites.original_for(at));
    original.map_or(place, |at| at.wrapping_sub(ORIGIN).wrapping_add(origin as u64))
}

/// The address that repeats the system call: `place` is the frame's instruction pointer at entry, or
/// [`program_address`] of it.
pub const fn restart_address(place: u64) -> u64 {
    // A `syscall` precedes every return address of a call, also in trampolines; at the original place of a moved
    // `syscall` is the jump to its trampoline.
    place.wrapping_sub(SYSCALL_LEN)
}

fn find(mm: &Mm, address: usize) -> Option<(TextSite, Rc<PatchedText>)> {
    let site = mm.text_site(address)?;
    let text = PatchedText::of(&site.inode)?;
    Some((site, text))
}

/// Address in the program of a coordinate of [`keel_core::patch::Sites`].
fn address_of(site: &TextSite, at: u64) -> Option<u64> {
    let page = ORIGIN.checked_add(site.file_page.checked_mul(PAGE_SIZE as u64)?)?;
    Some(at.wrapping_sub(page).wrapping_add(site.page_address as u64))
}

/// Maps a patched page into a program that still maps the file's page.
fn show(mm: &Mm, site: &TextSite, text: &PatchedText, patch: &Patch) -> Option<()> {
    if shows(site, patch)? {
        // Trapped by a branch to the `syscall` that stayed in place.
        return None;
    }
    mm.trampoline_area(site)?;
    mm.replace_text_page(&site.inode, site.file_page, &text.page(site.file_page)?);
    Some(())
}

/// Whether the program maps the patched page with this patch.
fn shows(site: &TextSite, patch: &Patch) -> Option<bool> {
    let at = usize::try_from(address_of(site, patch.at)?).ok()?;
    let mut seen: SmallVec<[u8; 8]> = SmallVec::from_elem(0, patch.bytes.len());
    user::read_bytes(at, &mut seen).ok()?;
    Some(seen == patch.bytes)
}

/// Patches the sites of the page of `site`. `None` if no patch was added.
fn plan(mm: &Mm, site: &TextSite, text: &PatchedText) -> Option<()> {
    mm.trampoline_area(site)?;
    let distance = text.distance()?;
    let old = text.page(site.file_page);
    let file = match &old {
        None => unpatched_bytes(site)?,
        Some(_) => file_bytes(site)?,
    };
    let before = text.sites.refused(site.file_page);
    let new = text.sites.plan(site.file_page, &file, distance, TRAMPOLINE_ROOM, hal::percpu::GATE_OFFSET);
    let refused = text.sites.refused(site.file_page) - before;
    count(|s| (s.patched, s.refused) = (s.patched + new.len() as u64, s.refused + refused as u64));
    if new.is_empty() {
        return None;
    }
    let base = text.sites.area_base()?;
    for (patch, code) in &new {
        let at = patch.trampoline - base;
        let frame = text.trampoline(at / PAGE_SIZE as u64)?;
        frame.write(at as usize % PAGE_SIZE, code);
    }
    match old {
        // All programs that map the page must see the change; none of them runs now.
        Some(frame) => {
            hal::smp::stop_others();
            for (patch, _) in &new {
                frame.write(patch.at as usize % PAGE_SIZE, &patch.bytes);
            }
            mm.show_trampolines(site);
            if !shows(site, &new.first()?.0)? {
                mm.replace_text_page(&site.inode, site.file_page, &frame);
            }
            Some(())
        }
        None => {
            mm.show_trampolines(site);
            rebuild(mm, site, text, &file)
        }
    }
}

/// Rebuilds the patched page and maps it.
fn rebuild(mm: &Mm, site: &TextSite, text: &PatchedText, file: &[u8]) -> Option<()> {
    let frame = Frame::alloc()?;
    frame.write(0, file.get(..PAGE_SIZE)?);
    text.sites.for_each_patch(site.file_page, |patch| frame.write(patch.at as usize % PAGE_SIZE, &patch.bytes));
    mm.replace_text_page(&site.inode, site.file_page, &frame);
    Some(())
}

/// The bytes of an unpatched page, read from the program's mapping.
fn unpatched_bytes(site: &TextSite) -> Option<Vec<u8>> {
    let mut page = vec![0; PAGE_SIZE];
    user::read_bytes(site.page_address, &mut page).ok()?;
    // The next page matters only to a site at the very end, and may be patched itself.
    if ends_with_site(&page) { file_bytes(site) } else { Some(page) }
}

/// Whether a site at the end of a page may be followed by instructions that cross into the next page.
fn ends_with_site(page: &[u8]) -> bool {
    page.get(PAGE_SIZE - BEHIND..).is_some_and(|end| end.windows(2).any(|pair| pair == [0x0f, 0x05]))
}

/// The file's page at `site`, and the next one if it belongs to the mapping.
fn file_bytes(site: &TextSite) -> Option<Vec<u8>> {
    let want = if site.end - site.page_address > PAGE_SIZE { 2 } else { 1 };
    let frames = site.inode.pages(site.file_page, want, false).ok()?;
    let mut bytes = vfs::memory::buffer(frames.len().min(want) * PAGE_SIZE).ok()?;
    for (frame, page) in frames.iter().zip(bytes.chunks_exact_mut(PAGE_SIZE)) {
        frame.read(0, page);
    }
    (bytes.len() >= PAGE_SIZE).then_some(bytes)
}
