//! `maps` and `numa_maps`.

use super::subject::Subject;
use crate::mm::Mm;
use crate::mm::area::{AreaFlags, FileName};
use crate::mm::info::{AreaInfo, AreaName};
use crate::mm::policy::Policy;
use crate::task;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use hal::paging::Prot;
use uapi::{Errno, Result};
use vfs::attr::split_dev;
use vfs::{Inode, PathRef};

/// Column at which names start, counted from 0.
const NAME_COLUMN: usize = 73;
/// Room for a line with a long path.
const LONGEST_LINE: usize = 2 * abi::layout::PAGE_SIZE;

/// Makes the first line of each mapping.
pub struct Lines {
    root: PathRef,
    /// Device and number of the file that was asked last: mappings of a file follow each other.
    last: Option<(Rc<dyn Inode>, u64, u64)>,
}

impl Lines {
    /// Names are shown as the current thread sees them.
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

    /// Appends the line of a mapping, as in `maps`. ENOMEM.
    pub fn push(&mut self, out: &mut Vec<u8>, area: &AreaInfo) -> Result<()> {
        out.try_reserve(LONGEST_LINE).map_err(|_| Errno::ENOMEM)?;
        let (dev, ino) = match (&area.name, &area.inode) {
            // Linux keeps them in a file system of its own, the first without a device.
            (AreaName::Segment(_, id), _) => (1, *id),
            (_, Some(inode)) => self.identity(inode),
            _ => (0, 0),
        };
        let (major, minor) = split_dev(dev);
        let letter = |prot, letter| if area.prot.contains(prot) { letter } else { '-' };
        let (r, w, x) = (letter(Prot::READ, 'r'), letter(Prot::WRITE, 'w'), letter(Prot::EXEC, 'x'));
        let shared = if area.flags.contains(AreaFlags::SHARED) { 's' } else { 'p' };
        let start = out.len();
        out.extend_from_slice(
            format!(
                "{:08x}-{:08x} {r}{w}{x}{shared} {:08x} {major:02x}:{minor:02x} {ino} ",
                area.start, area.end, area.offset
            )
            .as_bytes(),
        );
        let name = self.name(&area.name);
        if !name.is_empty() {
            out.resize(out.len().max(start + NAME_COLUMN), b' ');
            out.extend_from_slice(&name);
        }
        out.push(b'\n');
        Ok(())
    }

    fn name(&self, name: &AreaName) -> Vec<u8> {
        match name {
            AreaName::File(FileName::Path(place)) => escaped(&place.display_path(Some(&self.root))),
            AreaName::File(FileName::Text(text)) => escaped(text),
            AreaName::Fixed(name) | AreaName::Deleted(name) => name.as_bytes().to_vec(),
            AreaName::Segment(name, _) => name.as_bytes().to_vec(),
            AreaName::File(FileName::Unknown) | AreaName::None => Vec::new(),
        }
    }
}

/// A path with its line ends as `\012`.
fn escaped(path: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = path.split(|&b| b == b'\n').collect();
    lines.join(&b"\\012"[..])
}

/// `maps`.
pub fn text(_subject: &Subject, mm: &Rc<Mm>) -> Result<Vec<u8>> {
    let mut lines = Lines::new();
    let mut out = Vec::new();
    for area in mm.areas()? {
        lines.push(&mut out, &area)?;
    }
    Ok(out)
}

/// `numa_maps`: one node.
pub fn numa(subject: &Subject, mm: &Rc<Mm>) -> Result<Vec<u8>> {
    let of_thread = subject.task()?.and_then(|task| task.memory_policy.get());
    let lines = Lines::new();
    let mut out = Vec::new();
    for area in mm.areas()? {
        out.try_reserve(LONGEST_LINE).map_err(|_| Errno::ENOMEM)?;
        let policy = Policy::describe(area.policy.or(of_thread));
        out.extend_from_slice(format!("{:08x} {policy}", area.start).as_bytes());
        let name = lines.name(&area.name);
        match (&area.name, &name[..]) {
            (_, b"[heap]") => out.extend_from_slice(b" heap"),
            (_, b"[stack]") => out.extend_from_slice(b" stack"),
            (AreaName::File(_), name) => out.extend_from_slice(&[&b" file="[..], name].concat()),
            _ => {}
        }
        let pages = mm.residency_of(area.start, area.end).present / abi::layout::PAGE_SIZE as u64;
        if pages > 0 {
            out.extend_from_slice(format!(" N0={pages} kernelpagesize_kB=4").as_bytes());
        }
        out.push(b'\n');
    }
    Ok(out)
}
