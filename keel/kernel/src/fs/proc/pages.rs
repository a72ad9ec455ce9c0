//! `pagemap` and `map_files`: the pages and the files of an address space.

use super::memory::of_open_file;
use super::number_in;
use super::subject::Subject;
use crate::mm::Mm;
use crate::mm::area::FileName;
use crate::mm::info::{AreaInfo, AreaName};
use crate::task;
use crate::task::cred::cap;
use abi::layout::{PAGE_SIZE, USER_TOP};
use alloc::format;
use alloc::rc::{Rc, Weak};
use alloc::vec;
use alloc::vec::Vec;
use hal::paging::Prot;
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::synth::{Entry, SynthDir, SynthFile, SynthLink};
use vfs::{Dst, FileType};

/// Bytes of an entry of `pagemap`.
const ENTRY: usize = 8;
/// Entries generated at once.
const BATCH: usize = 512;
/// The page is present.
const PRESENT: u64 = 1 << 63;
/// Page of a file or of shared memory.
const OF_FILE: u64 = 1 << 61;
/// Mapped once.
const EXCLUSIVE: u64 = 1 << 56;

/// `pagemap`: 8 bytes for each page of the address space. Frame numbers are hidden, as Linux hides them
/// from those without privileges.
pub struct PageMap(pub Subject);

impl SynthFile for PageMap {
    fn content(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn bind(&self) -> Result<Option<Rc<dyn SynthFile>>> {
        Ok(Some(Rc::new(OpenPageMap(of_open_file(&self.0, true)?))))
    }
}

/// `pagemap` that is open.
struct OpenPageMap(Weak<Mm>);

impl SynthFile for OpenPageMap {
    fn content(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn read_at(&self, offset: u64, dst: &mut dyn Dst) -> Option<Result<usize>> {
        Some(self.read(offset, dst))
    }
}

impl OpenPageMap {
    fn read(&self, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        let Some(mm) = self.0.upgrade() else { return Ok(0) };
        if !offset.is_multiple_of(ENTRY as u64) || !dst.remaining().is_multiple_of(ENTRY) {
            return Err(Errno::EINVAL);
        }
        let areas = mm.areas()?;
        let first = offset / ENTRY as u64;
        let mut done = 0;
        while dst.remaining() > 0 {
            let start = first.saturating_add((done / ENTRY) as u64).saturating_mul(PAGE_SIZE as u64);
            let Some(start) = usize::try_from(start).ok().filter(|start| *start < USER_TOP) else { break };
            let count = (dst.remaining() / ENTRY).min(BATCH).min((USER_TOP - start) / PAGE_SIZE);
            let mut entries = vec![0u64; count];
            mm.present_pages(start, start + count * PAGE_SIZE, |at, exclusive| {
                let Some(entry) = entries.get_mut((at - start) / PAGE_SIZE) else { return };
                let private = areas.iter().find(|a| a.start <= at && at < a.end).is_none_or(is_private);
                *entry = PRESENT | if private { 0 } else { OF_FILE } | if exclusive { EXCLUSIVE } else { 0 };
            });
            match dst.put(bytemuck::cast_slice(&entries)) {
                Ok(n) => done += n,
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(done)
    }
}

/// Whether the pages of a mapping are anonymous memory.
fn is_private(area: &AreaInfo) -> bool {
    matches!(area.name, AreaName::None | AreaName::Fixed("[heap]" | "[stack]"))
}

/// `map_files`: links to the mapped files, by the addresses of their mappings.
pub struct MapFiles(pub Subject);

/// The name of a mapping and the place of its file.
fn file_of(area: &AreaInfo) -> Option<PathRef> {
    match &area.name {
        AreaName::File(FileName::Path(place)) => Some(place.clone()),
        _ => None,
    }
}

impl SynthDir for MapFiles {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        let mm = self.0.memory()?.ok_or(Errno::ENOENT)?;
        let text = core::str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
        let (start, end) = text.split_once('-').ok_or(Errno::ENOENT)?;
        let (start, end) = (number_in(start, 16).ok_or(Errno::ENOENT)?, number_in(end, 16).ok_or(Errno::ENOENT)?);
        let area = mm.areas()?.into_iter().find(|a| (a.start, a.end) == (start, end)).ok_or(Errno::ENOENT)?;
        let place = file_of(&area).ok_or(Errno::ENOENT)?;
        let write = if area.prot.contains(Prot::WRITE) { 0o200 } else { 0 };
        let (uid, gid) = self.0.owner(false);
        Ok(Entry { mode: 0o400 | write, ..Entry::link(MappedFile(place)).owned(uid, gid).sized(64) })
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        let Some(mm) = self.0.memory()? else { return Ok(Vec::new()) };
        let areas = mm.areas()?;
        let files = areas.iter().filter(|area| file_of(area).is_some());
        vfs::memory::collect(files.map(|a| (format!("{:x}-{:x}", a.start, a.end).into_bytes(), FileType::Symlink)))
    }
}

struct MappedFile(PathRef);

impl SynthLink for MappedFile {
    fn target(&self) -> Result<Vec<u8>> {
        let root = task::with_current(|t| t.fs()).root();
        self.0.display_path(Some(&root))
    }

    /// EPERM without the capabilities that Linux requires.
    fn place(&self) -> Option<Result<PathRef>> {
        let allowed =
            task::with_current(|t| t.cred().capable(cap::SYS_ADMIN) || t.cred().capable(cap::CHECKPOINT_RESTORE));
        Some(if allowed { Ok(self.0.clone()) } else { Err(Errno::EPERM) })
    }
}
