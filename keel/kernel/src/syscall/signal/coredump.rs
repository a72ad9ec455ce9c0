//! Core files, core(5), of programs that a signal ended.
//!
//! An ELF file `core` in the working directory, with the registers of all threads ([`notes`]) and the memory that
//! `/proc/PID/coredump_filter` selects. Pages that were never touched are holes.

mod notes;

use crate::fs::open;
use crate::mm::Mm;
use crate::mm::area::AreaFlags;
use crate::mm::info::{AreaInfo, AreaName};
use crate::signal::{CORE_SIGNALS, SigInfo, send};
use crate::task::{Task, current};
use abi::layout::PAGE_SIZE;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use hal::paging::Prot;
use hal::trap::TrapFrame;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::io::KernelSrc;
use vfs::memory::Text;

/// Bit of a wait status: a core file was written.
const DUMPED: i32 = 0x80;

/// Bits of `coredump_filter`.
const ANONYMOUS: u32 = 1;
const SHARED: u32 = 1 << 1;
const FILE: u32 = 1 << 2;
const SHARED_FILE: u32 = 1 << 3;
const ELF_HEADERS: u32 = 1 << 4;

/// ELF: sizes of the file header and of a program header, types of program headers, and the maximum number of them in
/// the header.
const FILE_HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const MOST_HEADERS: usize = 0xfffe;

/// The part of a mapping to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Nothing,
    /// The first page.
    Head,
    /// Present pages.
    Present,
    /// All pages, read from the file if necessary.
    All,
}

/// Ends the current process by `info`'s signal, after writing a core file if the signal requires one; returns the wait
/// status.
pub fn end(frame: &TrapFrame, info: &SigInfo) -> i32 {
    let me = current();
    let signals = &me.process().signals;
    let dumped = write(&me, frame, info);
    send::kill_all(me.process(), info.signo);
    if dumped && signals.group_exit.get() == Some(info.signo) {
        signals.group_exit.set(Some(info.signo | DUMPED));
    }
    signals.group_exit.get().unwrap_or(info.signo)
}

/// Writes the core file; returns whether it was written.
fn write(me: &Rc<Task>, frame: &TrapFrame, info: &SigInfo) -> bool {
    let process = me.process();
    let limit = process.limit(g::RLIMIT_CORE).0;
    if !CORE_SIGNALS.has(info.signal()) || limit < PAGE_SIZE as u64 || process.dumpable.get() != 1 {
        return false;
    }
    let Some(mm) = me.try_mm() else { return false };
    dump(me, &mm, frame, info, limit).is_ok()
}

fn dump(me: &Rc<Task>, mm: &Mm, frame: &TrapFrame, info: &SigInfo, limit: u64) -> Result<()> {
    let mut areas = mm.areas()?;
    areas.truncate(MOST_HEADERS - 1);
    let notes = notes::all(me, mm, &areas, frame, info)?;
    // End the other threads first, so that they don't change the memory.
    send::kill_all(me.process(), info.signo);
    let filter = me.process().dump_filter.get();
    let headers = FILE_HEADER + (areas.len() + 1) * PROGRAM_HEADER;
    let start = (headers + notes.len()).next_multiple_of(PAGE_SIZE);

    let mut head = Text::default();
    head.add(&file_header(areas.len() + 1));
    program_header(&mut head, PT_NOTE, 0, headers, 0, notes.len(), 0);
    let mut places = Vec::new();
    places.try_reserve_exact(areas.len()).map_err(|_| Errno::ENOMEM)?;
    let mut at = start;
    for area in &areas {
        let part = part_of(area, filter);
        let len = match part {
            Part::Nothing => 0,
            Part::Head => PAGE_SIZE,
            Part::Present | Part::All => area.end - area.start,
        };
        places.push((part, at, len));
        program_header(&mut head, PT_LOAD, flags_of(area), at, area.start, len, area.end - area.start);
        at += len;
    }
    head.add(&notes);
    let head = head.done()?;

    let file = open::create_core()?;
    let put = |offset: usize, bytes: &[u8]| {
        let room = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(offset);
        let bytes = bytes.get(..bytes.len().min(room)).unwrap_or_default();
        let written = if bytes.is_empty() { 0 } else { file.write_at(offset as u64, &mut KernelSrc(bytes))? };
        if written == bytes.len() { Ok(()) } else { Err(Errno::ENOSPC) }
    };
    put(0, &head)?;
    let mut page = vec![0; PAGE_SIZE];
    for (area, (part, offset, len)) in areas.iter().zip(places) {
        let mut present = Vec::new();
        let mut listed = Ok(());
        if matches!(part, Part::Present) {
            mm.present_pages(area.start, area.end, |va, _| {
                if listed.is_ok() {
                    listed = vfs::memory::push(&mut present, va);
                }
            });
        }
        listed?;
        let whole = if matches!(part, Part::Present) { 0 } else { len };
        for va in present.into_iter().chain((area.start..area.start + whole).step_by(PAGE_SIZE)) {
            if mm.peek(va, &mut page) == PAGE_SIZE {
                put(offset + (va - area.start), &page)?;
            }
        }
    }
    // Extend the file to the size in its headers, even if it ends with a hole.
    if at > start { put(at - 1, &[0; 1]).or(Ok(())) } else { Ok(()) }
}

/// The part of a mapping to write.
fn part_of(area: &AreaInfo, filter: u32) -> Part {
    let has = |bit: u32| filter & bit != 0;
    let shared = area.flags.contains(AreaFlags::SHARED);
    match &area.name {
        AreaName::Fixed("[trampolines]") => Part::Nothing,
        AreaName::Fixed("[vdso]") => Part::All,
        _ if area.flags.contains(AreaFlags::DONT_DUMP) => Part::Nothing,
        AreaName::Fixed("[vvar]") => Part::Nothing,
        AreaName::File(_) if shared => {
            if has(SHARED_FILE) {
                Part::All
            } else {
                Part::Nothing
            }
        }
        AreaName::File(_) => match () {
            () if area.flags.contains(AreaFlags::WAS_WRITABLE) && has(ANONYMOUS) => Part::All,
            () if has(FILE) => Part::All,
            () if has(ELF_HEADERS) && area.offset == 0 && area.prot.contains(Prot::READ) => Part::Head,
            () => Part::Nothing,
        },
        _ if has(if shared { SHARED } else { ANONYMOUS }) => Part::Present,
        _ => Part::Nothing,
    }
}

/// `p_flags` of a mapping.
fn flags_of(area: &AreaInfo) -> u32 {
    [(Prot::EXEC, 1), (Prot::WRITE, 2), (Prot::READ, 4)]
        .into_iter()
        .filter(|(right, _)| area.prot.contains(*right))
        .map(|(_, flag)| flag)
        .sum()
}

/// `Elf64_Ehdr` of a core file with `count` program headers.
fn file_header(count: usize) -> Vec<u8> {
    /// ELF, 64 bits, little endian, version 1.
    const IDENTITY: [u8; 16] = [0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut header = IDENTITY.to_vec();
    // ET_CORE, EM_X86_64.
    header.extend_from_slice(&[4, 0, 62, 0, 1, 0, 0, 0]);
    for word in [0, FILE_HEADER as u64, 0] {
        header.extend_from_slice(&word.to_le_bytes());
    }
    header.extend_from_slice(&[0; 4]);
    for half in [FILE_HEADER as u16, PROGRAM_HEADER as u16, count as u16, 0, 0, 0] {
        header.extend_from_slice(&half.to_le_bytes());
    }
    header
}

/// Appends an `Elf64_Phdr`.
fn program_header(out: &mut Text, kind: u32, flags: u32, offset: usize, va: usize, len: usize, memory: usize) {
    out.add(&kind.to_le_bytes());
    out.add(&flags.to_le_bytes());
    let align = if kind == PT_LOAD { PAGE_SIZE } else { 4 };
    for word in [offset, va, 0, len, memory, align] {
        out.add(&(word as u64).to_le_bytes());
    }
}
