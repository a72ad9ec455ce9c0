//! The keel image that the build embedded: its segments, its header, its symbols.

use crate::error::Error;
use crate::memory::{GuestMemory, IMAGE_END};
use abi::layout::{DIRECT_BASE, KEEL_IMAGE, PAGE_SIZE};
use object::{Object, ObjectSegment, ObjectSymbol, SegmentFlags, SymbolKind, elf};

/// Keel, linked by the build script.
static KEEL: &[u8] = &PAGES.0;
static PAGES: Pages<[u8; LEN]> = Pages(*include_bytes!(concat!(env!("OUT_DIR"), "/keel.elf")));
const LEN: usize = include_bytes!(concat!(env!("OUT_DIR"), "/keel.elf")).len();

/// Bytes at a page boundary, so that [`GuestMemory::show`] can map them.
#[repr(align(4096))]
struct Pages<B>(B);

/// Upper bound of the image's size in bytes.
const MOST_IMAGE: u64 = 16 << 20;
/// "HULLKEEL": first word of the image.
const MAGIC: u64 = u64::from_le_bytes(*b"HULLKEEL");

/// Entry points of keel.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// First instruction.
    pub entry: u64,
    /// Target of `syscall`.
    pub lstar: u64,
    /// First instruction of a further virtual CPU.
    pub start_cpu: u64,
    /// First guest-physical byte after the image and its bss.
    pub end: u64,
}

/// The embedded image.
#[derive(Debug)]
pub struct Image {
    file: object::File<'static>,
    /// Entry points of keel.
    pub header: Header,
}

impl Image {
    /// Parses the image.
    pub fn embedded() -> Result<Self, Error> {
        let broken = |_| Error::Internal("the embedded keel is not an ELF file");
        let file = object::File::parse(KEEL).map_err(broken)?;
        let first = file.segments().find(|s| s.address() == (DIRECT_BASE + KEEL_IMAGE) as u64);
        let header = first.map(|s| s.data().map_err(broken)).transpose()?.and_then(parse_header);
        let header =
            header.ok_or(Error::Internal("the embedded keel was built for another version of the contract"))?;
        Ok(Self { file, header })
    }

    /// Brings keel into guest memory: what lies on its huge page, and what is written, is copied. The rest is shown as it lies in
    /// this program's file, if pods may share pages.
    pub fn load(&self, memory: &GuestMemory, shared_pages: bool) -> Result<(), Error> {
        for segment in self.file.segments() {
            let bytes = segment.data().map_err(|_| Error::Internal("the embedded keel is not an ELF file"))?;
            let start = segment.address().wrapping_sub(DIRECT_BASE as u64);
            let (huge, small) = bytes.split_at(IMAGE_END.saturating_sub(start).min(bytes.len() as u64) as usize);
            memory.write(start, huge)?;
            let is_read = matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & elf::PF_W == 0);
            let (pages, rest) = small.split_at(small.len() / PAGE_SIZE * PAGE_SIZE);
            let at = start + huge.len() as u64;
            let is_shown = is_read && shared_pages && memory.show(at, pages);
            let (at, copied) = if is_shown { (at + pages.len() as u64, rest) } else { (at, small) };
            if is_read {
                // All that follows, in one call.
                memory.populate_image(at, self.header.end);
            }
            memory.write(at, copied)?;
        }
        crate::memory::forget(KEEL);
        Ok(())
    }
}

fn parse_header(bytes: &[u8]) -> Option<Header> {
    let word = |i: usize| bytes.get(i * 8..i * 8 + 8)?.try_into().ok().map(u64::from_le_bytes);
    if word(0)? != MAGIC || word(1)? as u32 != abi::VERSION {
        return None;
    }
    let end = word(4)?.wrapping_sub(DIRECT_BASE as u64);
    Some(Header { entry: word(2)?, lstar: word(3)?, start_cpu: word(5)?, end })
}

/// Name and offset of the keel function at `address`.
pub fn symbol(address: u64) -> Option<String> {
    let file = object::File::parse(KEEL).ok()?;
    let best = file
        .symbols()
        .filter(|s| s.kind() != SymbolKind::File && s.address() <= address && s.name().is_ok_and(|n| !n.is_empty()))
        .max_by_key(|s| s.address())?;
    // No function lies behind the end of the image.
    let name = best.name().ok().filter(|name| *name != "__bss_end")?;
    Some(format!("{:#}+{:#x}", rustc_demangle::demangle(name), address - best.address()))
}

/// Adds names to the addresses of keel that a report mentions; those of the backtrace get a line each.
pub fn symbolise(report: &str) -> String {
    let name = |word: &str| {
        let address = u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()?;
        let image = (DIRECT_BASE + KEEL_IMAGE) as u64;
        if (image..image + MOST_IMAGE).contains(&address) { symbol(address) } else { None }
    };
    let mut lines = Vec::new();
    for line in report.lines() {
        if let Some(addresses) = line.strip_prefix("backtrace:") {
            lines.push("backtrace:".into());
            let named = addresses.split_ascii_whitespace().map(|word| (word, name(word).unwrap_or_default()));
            lines.extend(named.map(|(word, name)| format!("  {word} {name}")));
        } else {
            let words = line.split(' ').map(|word| match name(word) {
                Some(name) => format!("{word} <{name}>"),
                None => word.into(),
            });
            lines.push(words.collect::<Vec<String>>().join(" "));
        }
    }
    lines.join("\n")
}
