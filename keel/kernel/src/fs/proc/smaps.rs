//! `smaps` and `smaps_rollup`: present pages of each mapping.

use super::maps::Lines;
use super::subject::Subject;
use crate::mm::Mm;
use crate::mm::area::AreaFlags;
use crate::mm::info::{AreaInfo, AreaName, Residency};
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use hal::paging::Prot;
use uapi::Result;
use vfs::memory::Text;

/// Figures of one mapping, or of all, in bytes.
#[derive(Clone, Copy, Default)]
struct Figures {
    pages: Residency,
    anonymous: u64,
    file: u64,
    shared_memory: u64,
    locked: u64,
}

impl Figures {
    fn of(area: &AreaInfo, pages: Residency) -> Self {
        let mut figures = Self { pages, ..Self::default() };
        let dirty = pages.private_dirty + pages.shared_dirty;
        match area.name {
            // Private pages that were written are the process's own, no longer the file's.
            AreaName::File(_) if !area.flags.contains(AreaFlags::SHARED) && area.prot.contains(Prot::WRITE) => {
                (figures.anonymous, figures.file) = (dirty, pages.present - dirty);
            }
            AreaName::File(_) => figures.file = pages.present,
            AreaName::Deleted(_) | AreaName::Segment(..) => figures.shared_memory = pages.present,
            AreaName::Fixed("[heap]" | "[stack]") | AreaName::None => figures.anonymous = pages.present,
            AreaName::Fixed(_) => {}
        }
        if area.flags.contains(AreaFlags::LOCKED) {
            figures.locked = pages.present;
        }
        figures
    }

    fn add(&mut self, other: &Self) {
        self.pages.present += other.pages.present;
        self.pages.private_dirty += other.pages.private_dirty;
        self.pages.private_clean += other.pages.private_clean;
        self.pages.shared_dirty += other.pages.shared_dirty;
        self.pages.shared_clean += other.pages.shared_clean;
        self.anonymous += other.anonymous;
        self.file += other.file;
        self.shared_memory += other.shared_memory;
        self.locked += other.locked;
    }

    /// Appends the lines from `Rss` to `Locked`. `parts`: proportional sizes by kind, too (`smaps_rollup`).
    fn print(&self, out: &mut Text, parts: bool) {
        let p = &self.pages;
        // The number of sharers is not counted: PSS assumes two.
        let shared = p.shared_clean + p.shared_dirty;
        let proportional = p.present - shared + shared / 2;
        let part = |of: u64| (of as u128 * proportional as u128 / p.present.max(1) as u128) as u64;
        line(out, "Rss", p.present);
        line(out, "Pss", proportional);
        line(out, "Pss_Dirty", p.private_dirty + p.shared_dirty / 2);
        if parts {
            line(out, "Pss_Anon", part(self.anonymous));
            line(out, "Pss_File", part(self.file));
            line(out, "Pss_Shmem", part(self.shared_memory));
        }
        for (name, bytes) in [
            ("Shared_Clean", p.shared_clean),
            ("Shared_Dirty", p.shared_dirty),
            ("Private_Clean", p.private_clean),
            ("Private_Dirty", p.private_dirty),
            ("Referenced", p.present),
            ("Anonymous", self.anonymous),
            ("KSM", 0),
            ("LazyFree", 0),
            ("AnonHugePages", 0),
            ("ShmemPmdMapped", 0),
            ("FilePmdMapped", 0),
            ("Shared_Hugetlb", 0),
            ("Private_Hugetlb", 0),
            ("Swap", 0),
            ("SwapPss", 0),
            ("Locked", self.locked),
        ] {
            line(out, name, bytes);
        }
    }
}

/// Appends a line of a size in kB. There are two dozen for each mapping, and `format!` takes much longer.
fn line(out: &mut Text, name: &str, bytes: u64) {
    let mut text = [b' '; 24];
    for (place, letter) in text.iter_mut().zip(name.bytes().chain([b':'])) {
        *place = letter;
    }
    // The sizes of ranges, which can be long, have short names.
    let mut rest = bytes / 1024;
    for place in text.iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.add(&text);
    out.add(b" kB\n");
}

/// Appends the two-letter flags of a mapping.
fn print_flags(out: &mut Text, area: &AreaInfo, figures: &Figures) {
    let (prot, flags) = (area.prot, area.flags);
    let shared = flags.contains(AreaFlags::SHARED);
    let never_write = flags.contains(AreaFlags::NEVER_WRITE);
    let special = flags.contains(AreaFlags::SPECIAL);
    // Private memory counts once it was writable, and what was never touched no longer when it isn't.
    let accounted = match area.name {
        _ if shared || flags.contains(AreaFlags::NO_RESERVE) => false,
        AreaName::None | AreaName::Fixed("[heap]" | "[stack]") => {
            prot.contains(Prot::WRITE) || figures.pages.private_dirty + figures.pages.shared_dirty > 0
        }
        AreaName::File(_) => flags.contains(AreaFlags::WAS_WRITABLE),
        _ => false,
    };
    let letters = [
        (prot.contains(Prot::READ), "rd"),
        (prot.contains(Prot::WRITE), "wr"),
        (prot.contains(Prot::EXEC), "ex"),
        (shared && !never_write, "sh"),
        (true, "mr"),
        (!never_write, "mw"),
        (true, "me"),
        (shared, "ms"),
        (flags.contains(AreaFlags::GROWS_DOWN), "gd"),
        (flags.contains(AreaFlags::LOCKED), "lo"),
        (flags.contains(AreaFlags::LOCK_ON_FAULT), "lf"),
        (flags.contains(AreaFlags::SEQUENTIAL), "sr"),
        (flags.contains(AreaFlags::RANDOM), "rr"),
        (flags.contains(AreaFlags::DONT_FORK), "dc"),
        (special, "de"),
        (accounted, "ac"),
        (flags.contains(AreaFlags::NO_RESERVE), "nr"),
        (flags.contains(AreaFlags::WIPE_ON_FORK), "wf"),
        (flags.contains(AreaFlags::DONT_DUMP), "dd"),
        (flags.contains(AreaFlags::HUGE), "hg"),
        (flags.contains(AreaFlags::NO_HUGE), "nh"),
        (flags.contains(AreaFlags::MERGEABLE), "mg"),
    ];
    out.add(b"VmFlags: ");
    for (_, name) in letters.iter().filter(|(on, _)| *on) {
        out.add(name.as_bytes());
        out.add(b" ");
    }
    out.add(b"\n");
}

/// `smaps`.
pub fn text(_subject: &Subject, mm: &Rc<Mm>) -> Result<Vec<u8>> {
    let mut lines = Lines::new();
    let mut out = Text::default();
    for area in mm.areas()? {
        lines.push(&mut out, &area)?;
        let figures = Figures::of(&area, mm.residency_of(area.start, area.end));
        line(&mut out, "Size", (area.end - area.start) as u64);
        out.add(b"KernelPageSize:        4 kB\nMMUPageSize:           4 kB\n");
        figures.print(&mut out, false);
        out.add(b"THPeligible:           0\n");
        print_flags(&mut out, &area, &figures);
    }
    out.done()
}

/// `smaps_rollup`.
pub fn rollup(_subject: &Subject, mm: &Rc<Mm>) -> Result<Vec<u8>> {
    let areas = mm.areas()?;
    let mut sum = Figures::default();
    for area in &areas {
        sum.add(&Figures::of(area, mm.residency_of(area.start, area.end)));
    }
    let (start, end) = (areas.first().map_or(0, |a| a.start), areas.last().map_or(0, |a| a.end));
    let mut out = Text::default();
    let head = format!("{start:08x}-{end:08x} ---p 00000000 00:00 0 ");
    out.print(format_args!("{head:<73}[rollup]\n"));
    sum.print(&mut out, true);
    out.done()
}
