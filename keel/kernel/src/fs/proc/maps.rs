//! `maps` and `numa_maps`.

use super::subject::Subject;
use crate::mm::Mm;
use crate::mm::area::{AreaFlags, FileName};
use crate::mm::info::{AreaInfo, AreaName};
use crate::mm::policy::Policy;
use crate::task;
use alloc::rc::Rc;
use alloc::vec::Vec;
use hal::paging::Prot;
use uapi::Result;
use vfs::attr::split_dev;
use vfs::memory::Text;
use vfs::{Inode, PathRef};

/// Column at which names start, counted from 0.
const NAME_COLUMN: usize = 73;

/// Makes the first line of each mapping.
pub struct Lines {
    root: PathRef,
    /// Device and inode number of the last file, cached because mappings of a file are adjacent.
    last: Option<(Rc<dyn Inode>, u64, u64)>,
}

impl Lines {
    /// Paths are relative to the current thread's root.
    pub fn new() -> Self {
        Self { root: task::with_current(|t| t.fs()).root(), last: None }
    }

    /// Device and inode number of a mapped file.
    fn identity(&mut self, inode: &Rc<dyn Inode>) -> (u64, u64) {
        if let Some((last, dev, ino)) = &self.last
            && Rc::ptr_eq(last, inode)
        {
            return (*dev, *ino);
        }
        let (dev, ino) = inode.attr().map_or((0, 0), |attr| (attr.dev, attr.ino));
        self.last = Some((inode.clone(), dev, ino));
        (dev, ino)
    }

    /// Device and inode number of what is mapped, 0 for anonymous memory.
    pub fn device(&mut self, area: &AreaInfo) -> (u64, u64) {
        match (&area.name, &area.inode) {
            // Linux keeps them in an internal file system, the first without a device.
            (AreaName::Segment(_, id), _) => (1, *id),
            (_, Some(inode)) => self.identity(inode),
            _ => (0, 0),
        }
    }

    /// Appends the line of a mapping, as in `maps`. ENOMEM.
    pub fn push(&mut self, out: &mut Text, area: &AreaInfo) -> Result<()> {
        let (dev, ino) = self.device(area);
        let (major, minor) = split_dev(dev);
        let letter = |prot, letter| if area.prot.contains(prot) { letter } else { '-' };
        let (r, w, x) = (letter(Prot::READ, 'r'), letter(Prot::WRITE, 'w'), letter(Prot::EXEC, 'x'));
        let shared = if area.flags.contains(AreaFlags::SHARED) { 's' } else { 'p' };
        let start = out.len();
        out.print(format_args!(
            "{:08x}-{:08x} {r}{w}{x}{shared} {:08x} {major:02x}:{minor:02x} {ino} ",
            area.start, area.end, area.offset
        ));
        let name = escaped(&self.name(&area.name)?)?;
        if !name.is_empty() {
            // Without memory for it the text is empty by now.
            let width = (start + NAME_COLUMN).saturating_sub(out.len()).min(NAME_COLUMN);
            out.print(format_args!("{:width$}", ""));
            out.add(&name);
        }
        out.add(b"\n");
        Ok(())
    }

    /// The name of a mapping, empty if it has none. ENOMEM.
    pub fn name(&self, name: &AreaName) -> Result<Vec<u8>> {
        Ok(match name {
            AreaName::File(FileName::Path(place)) => place.display_path(Some(&self.root))?,
            AreaName::File(FileName::Text(text)) => vfs::memory::copy(text)?,
            AreaName::Fixed(name) | AreaName::Deleted(name) => name.as_bytes().to_vec(),
            AreaName::Segment(name, _) => name.as_bytes().to_vec(),
            AreaName::File(FileName::Unknown) | AreaName::None => Vec::new(),
        })
    }
}

/// A path with its line ends as `\012`.
fn escaped(path: &[u8]) -> Result<Vec<u8>> {
    let mut out = Text::default();
    for line in path.split_inclusive(|&b| b == b'\n') {
        let (text, end) = line.strip_suffix(b"\n").map_or((line, &b""[..]), |text| (text, b"\\012"));
        out.add(text);
        out.add(end);
    }
    out.done()
}

/// `maps`.
pub fn text(_subject: &Subject, mm: &Rc<Mm>) -> Result<Vec<u8>> {
    let mut lines = Lines::new();
    let mut out = Text::default();
    for area in mm.areas()? {
        lines.push(&mut out, &area)?;
    }
    out.done()
}

/// `numa_maps`: one node.
pub fn numa(subject: &Subject, mm: &Rc<Mm>) -> Result<Vec<u8>> {
    let of_thread = subject.task()?.and_then(|task| task.memory_policy.get());
    let lines = Lines::new();
    let mut out = Text::default();
    for area in mm.areas()? {
        let policy = Policy::describe(area.policy.or(of_thread));
        out.print(format_args!("{:08x} {policy}", area.start));
        let name = escaped(&lines.name(&area.name)?)?;
        match (&area.name, &name[..]) {
            (_, b"[heap]") => out.add(b" heap"),
            (_, b"[stack]") => out.add(b" stack"),
            (AreaName::File(_), name) => {
                out.add(b" file=");
                out.add(name);
            }
            _ => {}
        }
        let pages = mm.residency_of(area.start, area.end).present / abi::layout::PAGE_SIZE as u64;
        if pages > 0 {
            out.print(format_args!(" N0={pages} kernelpagesize_kB=4"));
        }
        out.add(b"\n");
    }
    out.done()
}
