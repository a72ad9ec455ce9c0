//! ELF64 executables for x86-64, as execve(2) needs them; elf(5).
//!
//! The input is untrusted: no code here panics, and an [`Image`] is consistent (ranges don't overflow and stay below
//! the given limit, and loadable segments are sorted).

use alloc::vec::Vec;
use smallvec::SmallVec;
use uapi::{Errno, Result};

#[cfg(test)]
mod tests;

/// Bytes of the file header.
pub const HEADER_SIZE: usize = 64;
/// Bytes of one program header.
pub const PROGRAM_HEADER_SIZE: usize = 56;
/// Longest path of an interpreter, including its terminator.
pub const PATH_MAX: u64 = 4096;
const PAGE: u64 = 4096;

const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const EM_X86_64: u16 = 62;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_GNU_STACK: u32 = 0x6474_e551;
const PF_X: u32 = 1;
const PF_W: u32 = 2;
const PF_R: u32 = 4;

/// Whether the addresses are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ET_EXEC: linked to its addresses.
    Fixed,
    /// ET_DYN: position independent.
    Dynamic,
}

/// The file header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Fixed or position independent.
    pub kind: Kind,
    /// Address of the first instruction, before the load bias.
    pub entry: u64,
    /// File offset of the program headers.
    pub table_offset: u64,
    /// Number of program headers, at least 1.
    pub table_count: u16,
}

impl Header {
    /// Parses the beginning of a file. ENOEXEC if it is not an x86-64 ELF executable.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let bytes: &[u8; HEADER_SIZE] = bytes.first_chunk().ok_or(Errno::ENOEXEC)?;
        // Magic, 64-bit class, little-endian, version 1.
        if bytes[..7] != *b"\x7fELF\x02\x01\x01" || u16_at(bytes, 18) != EM_X86_64 {
            return Err(Errno::ENOEXEC);
        }
        let kind = match u16_at(bytes, 16) {
            ET_EXEC => Kind::Fixed,
            ET_DYN => Kind::Dynamic,
            _ => return Err(Errno::ENOEXEC),
        };
        let table_count = u16_at(bytes, 56);
        let table_bytes = usize::from(table_count) * PROGRAM_HEADER_SIZE;
        // Linux's limit of the table: 64 KiB.
        if usize::from(u16_at(bytes, 54)) != PROGRAM_HEADER_SIZE || table_count == 0 || table_bytes > 0x1_0000 {
            return Err(Errno::ENOEXEC);
        }
        Ok(Self { kind, entry: u64_at(bytes, 24), table_offset: u64_at(bytes, 32), table_count })
    }

    /// Bytes of the program header table.
    pub fn table_len(&self) -> usize {
        usize::from(self.table_count) * PROGRAM_HEADER_SIZE
    }
}

/// A loadable segment. Addresses are before the load bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte in memory.
    pub addr: u64,
    /// File offset of that byte.
    pub offset: u64,
    /// Bytes that come from the file.
    pub file_len: u64,
    /// Bytes in memory; those beyond `file_len` are zero.
    pub mem_len: u64,
    /// Loads allowed.
    pub read: bool,
    /// Stores allowed.
    pub write: bool,
    /// Instruction fetches allowed.
    pub exec: bool,
}

impl Segment {
    /// First page that the segment touches.
    pub const fn page_start(&self) -> u64 {
        self.addr & !(PAGE - 1)
    }
    /// End of the pages that hold bytes of the file; equal to the start if there are none.
    pub const fn file_end(&self) -> u64 {
        if self.file_len == 0 { self.page_start() } else { page_up(self.addr + self.file_len) }
    }
    /// End of the segment's pages.
    pub const fn page_end(&self) -> u64 {
        page_up(self.addr + self.mem_len)
    }
    /// File offset that belongs to [`Segment::page_start`].
    pub const fn page_offset(&self) -> u64 {
        self.offset.saturating_sub(self.addr - self.page_start())
    }
}

/// The parsed program headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The file header.
    pub header: Header,
    /// Loadable segments, ascending by address, at least one.
    pub segments: SmallVec<[Segment; 6]>,
    /// File offset and bytes of the interpreter's path with its terminator.
    pub interpreter: Option<(u64, usize)>,
    /// The flags of PT_GNU_STACK; `None` without one.
    pub exec_stack: Option<bool>,
    /// Address of the program headers in memory, if a segment holds them (AT_PHDR).
    pub table_addr: Option<u64>,
    /// Alignment of the load bias: the largest alignment of a segment, a power of two of at least a page.
    pub align: u64,
}

impl Image {
    /// Checks the program headers. `limit` is the first address that a program can't use.
    ///
    /// ENOEXEC: a truncated table, a bad interpreter path. EINVAL: no loadable segment, a segment that is shorter in
    /// memory than in the file, out of range, out of order or overlapping, an offset that does not match its address,
    /// an entry point out of range. ENOMEM: more than can be mapped.
    pub fn parse(header: Header, table: &[u8], limit: u64) -> Result<Self> {
        if table.len() < header.table_len() {
            return Err(Errno::ENOEXEC);
        }
        let mut image = Self {
            header,
            segments: SmallVec::new(),
            interpreter: None,
            exec_stack: None,
            table_addr: None,
            align: PAGE,
        };
        for entry in table.chunks_exact(PROGRAM_HEADER_SIZE).take(usize::from(header.table_count)) {
            let flags = u32_at(entry, 4);
            let (offset, addr) = (u64_at(entry, 8), u64_at(entry, 16));
            let (file_len, mem_len) = (u64_at(entry, 32), u64_at(entry, 40));
            match u32_at(entry, 0) {
                PT_LOAD => {
                    let segment = Segment {
                        addr,
                        offset,
                        file_len,
                        mem_len,
                        read: flags & PF_R != 0,
                        write: flags & PF_W != 0,
                        exec: flags & PF_X != 0,
                    };
                    image.add_segment(segment, limit)?;
                    // Linux ignores values that are not a power of two; more than 1 GiB could not be mapped.
                    let align = u64_at(entry, 48);
                    if align.is_power_of_two() && align <= 1 << 30 {
                        image.align = image.align.max(align);
                    }
                }
                PT_INTERP if image.interpreter.is_none() => {
                    if !(2..=PATH_MAX).contains(&file_len) {
                        return Err(Errno::ENOEXEC);
                    }
                    image.interpreter = Some((offset, file_len as usize));
                }
                PT_GNU_STACK => image.exec_stack = Some(flags & PF_X != 0),
                _ => {}
            }
        }
        // As on Linux, an unmapped entry point makes the program fault.
        if image.segments.is_empty() {
            return Err(Errno::EINVAL);
        }
        image.table_addr = image
            .segments
            .iter()
            .find(|s| s.offset <= header.table_offset && header.table_offset - s.offset < s.file_len)
            .map(|s| header.table_offset - s.offset + s.addr);
        Ok(image)
    }

    fn add_segment(&mut self, s: Segment, limit: u64) -> Result<()> {
        if s.mem_len == 0 && s.file_len == 0 {
            return Ok(());
        }
        if s.file_len > s.mem_len || s.addr >= limit || (s.addr ^ s.offset) & (PAGE - 1) != 0 && s.file_len != 0 {
            return Err(Errno::EINVAL);
        }
        if s.mem_len > limit - s.addr || page_up(s.addr + s.mem_len) > limit {
            return Err(Errno::ENOMEM);
        }
        if s.offset.checked_add(s.file_len).is_none_or(|end| end > i64::MAX as u64) {
            return Err(Errno::EINVAL);
        }
        // Linux maps segments in file order, later ones over earlier ones; the ELF specification requires ascending
        // order, which every linker produces. Two segments may share a page.
        if self.segments.last().is_some_and(|prev| prev.addr + prev.mem_len > s.addr) {
            return Err(Errno::EINVAL);
        }
        self.segments.push(s);
        Ok(())
    }

    /// First page of the image.
    pub fn start(&self) -> u64 {
        self.segments.first().map_or(0, Segment::page_start)
    }

    /// End of the image's last page.
    pub fn end(&self) -> u64 {
        self.segments.last().map_or(0, Segment::page_end)
    }
}

/// The path in the bytes of PT_INTERP. ENOEXEC if it has no terminator.
pub fn interpreter_path(bytes: &[u8]) -> Result<Vec<u8>> {
    if bytes.last() != Some(&0) {
        return Err(Errno::ENOEXEC);
    }
    Ok(bytes.iter().copied().take_while(|&b| b != 0).collect())
}

const fn page_up(addr: u64) -> u64 {
    (addr + (PAGE - 1)) & !(PAGE - 1)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u16::from_le_bytes(*b))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
}
