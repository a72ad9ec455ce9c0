//! The system call sites of one file: their trap counts and patches.

use super::{Area, PAGE, Patch, Planned, Refusal, TrampolineCode, Window, candidates, plan, plan_unseen};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

/// Coordinate of a file's first byte; trampolines are below.
pub const ORIGIN: u64 = 1 << 48;

/// Bytes behind a page that its last instructions may extend to.
const BEHIND: usize = 32;

/// A page is patched after this many traps of its sites. With shadow page tables patching costs as much as sixty traps,
/// but every later program of the pod benefits.
const TRAPS_BEFORE_PATCH: u32 = 32;
/// A program that maps the unpatched page gets the patched one after this many of its traps.
const TRAPS_BEFORE_SHOW: u32 = 4;
/// Minimum number of traps of a site that needs the full decoder.
const TRAPS_BEFORE_THOROUGH: u32 = 512;
/// If programs resume at a site's moved instructions more often than this, a branch targets them, and trapping is
/// cheaper.
const LANDINGS_BEFORE_REMOVAL: u32 = 32;

/// Action for a trap.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// None.
    Wait,
    /// The site is patched; map the page with this patch into the program.
    Show(Rc<Patch>),
    /// Plan patches for the page.
    Plan,
}

/// The sites of a file.
#[derive(Debug, Default)]
pub struct Sites(RefCell<Inner>);

#[derive(Debug, Default)]
struct Inner {
    area: Option<Area>,
    pages: BTreeMap<u64, Page>,
    /// By trampoline address.
    patches: BTreeMap<u64, Rc<Patch>>,
}

#[derive(Debug, Default)]
struct Page {
    traps: u32,
    /// Sites that have trapped and are not patched yet.
    seen: Vec<Seen>,
    /// Offsets of sites that can't be patched.
    refused: Vec<u16>,
    patches: Vec<Installed>,
    /// Removed patches: programs may still map them.
    removed: Vec<Rc<Patch>>,
}

#[derive(Debug)]
struct Seen {
    offset: u16,
    /// Value of rax.
    number: u64,
    traps: u32,
    /// Needs the full decoder.
    unusual: bool,
}

#[derive(Debug)]
struct Installed {
    patch: Rc<Patch>,
    landings: u32,
}

impl Sites {
    /// Counts a trap of the site at `offset` of a file page with this number in rax.
    pub fn note(&self, page: u64, offset: u16, number: u64) -> Verdict {
        let mut inner = self.0.borrow_mut();
        let state = inner.pages.entry(page).or_default();
        if state.refused.contains(&offset) {
            return Verdict::Wait;
        }
        state.traps += 1;
        let site = coordinate(page, offset);
        if let Some(installed) = state.patches.iter().find(|p| p.patch.site == site) {
            let patch = installed.patch.clone();
            return if state.traps.is_multiple_of(TRAPS_BEFORE_SHOW) { Verdict::Show(patch) } else { Verdict::Wait };
        }
        let has_room = state.seen.try_reserve(1).is_ok();
        match state.seen.iter_mut().find(|s| s.offset == offset) {
            Some(seen) => {
                seen.traps += 1;
                if seen.unusual && seen.traps < TRAPS_BEFORE_THOROUGH {
                    return Verdict::Wait;
                }
            }
            // Ignore the trap if out of memory.
            None if !has_room => return Verdict::Wait,
            None => state.seen.push(Seen { offset, number, traps: 1, unusual: false }),
        }
        // A further site of a patched page is cheap: no page is replaced.
        if state.traps < TRAPS_BEFORE_PATCH && state.patches.is_empty() {
            return Verdict::Wait;
        }
        state.traps = 0;
        Verdict::Plan
    }

    /// Plans patches for the sites of a page that trapped, and for unambiguous sites in it. `file` contains the page
    /// and some bytes behind it; the trampoline area of `room` bytes is `distance` bytes from the file's first byte
    /// (the same in every call). The caller must write the code of the trampolines before the patches.
    pub fn plan(
        &self,
        page: u64,
        file: &[u8],
        distance: isize,
        room: usize,
        gate_offset: u32,
    ) -> Vec<(Rc<Patch>, TrampolineCode)> {
        let mut inner = self.0.borrow_mut();
        let inner = &mut *inner;
        let Some(base) = ORIGIN.checked_add_signed(distance as i64) else { return Vec::new() };
        if inner.area.is_none() {
            inner.area = Area::new(base, room);
        }
        let Some(area) = &mut inner.area else { return Vec::new() };
        let state = inner.pages.entry(page).or_default();
        let start = coordinate(page, 0);
        let window = Window { addr: start, bytes: file.get(..PAGE as usize + BEHIND).unwrap_or(file) };
        let mut new = Vec::new();
        for mut seen in core::mem::take(&mut state.seen) {
            let site = coordinate(page, seen.offset);
            let thorough = seen.traps >= TRAPS_BEFORE_THOROUGH;
            match plan(&window, site, seen.number, area, gate_offset, thorough).map(|p| state.install(p, area)) {
                Ok(Some(patch)) => new.push(patch),
                Err(Refusal::Unusual) => {
                    seen.unusual = true;
                    state.seen.push(seen);
                }
                Ok(None) | Err(_) => state.refused.push(seen.offset),
            }
        }
        for site in candidates(&window).take_while(|s| *s < start + PAGE) {
            let offset = (site - start) as u16;
            if state.refused.contains(&offset) || state.patches.iter().any(|p| p.patch.site == site) {
                continue;
            }
            let planned = plan_unseen(&window, site, area, gate_offset).ok();
            new.extend(planned.and_then(|p| state.install(p, area)));
        }
        for patch in &new {
            inner.patches.insert(patch.0.trampoline, patch.0.clone());
        }
        new
    }

    /// Number of sites of a page that can't be patched.
    pub fn refused(&self, page: u64) -> usize {
        self.0.borrow().pages.get(&page).map_or(0, |p| p.refused.len())
    }

    /// Start of the trampoline area, if any patch was planned.
    pub fn area_base(&self) -> Option<u64> {
        self.0.borrow().area.as_ref().map(Area::base)
    }

    /// Calls `f` for each patch of a page.
    pub fn for_each_patch(&self, page: u64, mut f: impl FnMut(&Patch)) {
        if let Some(state) = self.0.borrow().pages.get(&page) {
            state.patches.iter().for_each(|p| f(&p.patch));
        }
    }

    /// New address of the instruction at `offset` of a page, if it was moved.
    pub fn resume_for(&self, page: u64, offset: u16) -> Option<u64> {
        let at = coordinate(page, offset);
        let inner = self.0.borrow();
        let state = inner.pages.get(&page)?;
        let installed = state.patches.iter().map(|p| &p.patch);
        installed.chain(&state.removed).find_map(|p| p.resume_for(at))
    }

    /// Counts that a program resumed at a moved instruction. Returns true if its patch was removed: the page must be
    /// rebuilt.
    pub fn landed(&self, page: u64, offset: u16) -> bool {
        let at = coordinate(page, offset);
        let mut inner = self.0.borrow_mut();
        let Some(state) = inner.pages.get_mut(&page) else { return false };
        let Some(index) = state.patches.iter().position(|p| p.patch.resume_for(at).is_some()) else { return false };
        let Some(installed) = state.patches.get_mut(index) else { return false };
        installed.landings += 1;
        if installed.landings <= LANDINGS_BEFORE_REMOVAL {
            return false;
        }
        let patch = state.patches.remove(index).patch;
        state.refused.push((patch.site % PAGE) as u16);
        state.removed.push(patch);
        true
    }

    /// The original address of a place in a trampoline.
    pub fn original_for(&self, at: u64) -> Option<u64> {
        let inner = self.0.borrow();
        let (_, patch) = inner.patches.range(..=at).next_back()?;
        patch.original_for(at)
    }
}

impl Page {
    /// Adds a patch; frees its trampoline if it overlaps another patch.
    fn install(&mut self, planned: Planned, area: &mut Area) -> Option<(Rc<Patch>, TrampolineCode)> {
        let Planned { patch, code } = planned;
        if self.patches.iter().any(|p| p.patch.at < patch.end && patch.at < p.patch.end) {
            area.give_back(patch.trampoline, code.len());
            return None;
        }
        let patch = Rc::new(patch);
        self.patches.push(Installed { patch: patch.clone(), landings: 0 });
        Some((patch, code))
    }
}

fn coordinate(page: u64, offset: u16) -> u64 {
    // File pages come from mappings of files of at most 2^63 bytes.
    ORIGIN.wrapping_add(page.wrapping_mul(PAGE)).wrapping_add(u64::from(offset))
}
