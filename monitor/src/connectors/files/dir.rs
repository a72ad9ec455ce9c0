//! Directory listings with attributes of the entries.

use super::super::payload::Output;
use super::super::{Errno, Result};
use super::attr;
use super::export::ExportConfig;
use super::handles::{Handle, Handles, Stream};
use super::path::{MAX_PATH, RelPath};
use super::readahead::TreeReadahead;
use super::xattr;
use abi::request::{DirRecord, ListAttributes, Listed, NodeAttr, ReadDir, dir_record, node_flags};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};
use std::ffi::{CStr, CString};

/// Maximum bytes of records in one answer, even if the guest offers more room.
const MAX_RECORDS: usize = 1 << 20;

/// [`ReadDir`]: as many records as fit; EINVAL if none does. `input`: the path, and the others to list ahead.
pub fn read(
    export: &ExportConfig,
    handles: &mut Handles,
    list: ReadDir,
    input: &[u8],
    out: &mut Output<'_>,
) -> Result<Listed> {
    let ReadDir { handle: number, ahead, others, attributes, flat, .. } = list;
    let mut records = Records { limit: out.room().min(MAX_RECORDS), attributes, ..Records::default() };
    let mut paths = input.split(|&byte| byte == 0);
    let path = RelPath::new(if others == 0 { input } else { paths.next().unwrap_or_default() })?;
    if number != 0 {
        return go_on(export, handles, number, &mut records, out);
    }
    handles.check_room()?;
    let dir = export.directory(path)?;
    export.check_read(&attr::of_fd(dir.as_fd())?)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat2(dir.as_fd(), c".", flags, Mode::empty(), ResolveFlags::BENEATH)?;
    let mut stream = Stream { export: export.id, dir: Dir::new(fd)?, waiting: None };
    let more = fill(&mut stream, &mut records)?;
    if more {
        out.put(&records.bytes)?;
        let number = handles.insert(Handle::Stream(Box::new(stream)))?;
        return Ok(Listed { bytes: out.written() as u64, handle: number });
    }
    if ahead > 0 {
        let end = records.bytes.len().saturating_add(usize::try_from(ahead).unwrap_or(usize::MAX));
        records.limit = end.min(records.limit);
        let names = std::mem::take(&mut records.directories);
        let mut readahead = TreeReadahead::new(export, &mut records, flat);
        if readahead.beneath(dir.as_fd(), path.bytes(), names) && others > 0 {
            paths.take(usize::try_from(others).unwrap_or(usize::MAX)).all(|path| readahead.another(path));
        }
    }
    out.put(&records.bytes)?;
    Ok(Listed { bytes: out.written() as u64, handle: 0 })
}

/// The next part of an unfinished listing.
fn go_on(
    export: &ExportConfig,
    handles: &mut Handles,
    number: u64,
    records: &mut Records,
    out: &mut Output<'_>,
) -> Result<Listed> {
    let stream = handles.stream(number)?;
    if stream.export != export.id {
        return Err(Errno::BADF);
    }
    let more = fill(stream, records)?;
    if !more {
        handles.remove(number)?;
    }
    out.put(&records.bytes)?;
    Ok(Listed { bytes: out.written() as u64, handle: if more { number } else { 0 } })
}

/// Appends records until the end of the directory (false) or of the room (true).
fn fill(stream: &mut Stream, records: &mut Records) -> Result<bool> {
    if let Some(name) = stream.waiting.take()
        && !records.entry(stream.dir.fd()?, &name, None)
    {
        stream.waiting = Some(name);
        return Err(Errno::INVAL);
    }
    while let Some(entry) = stream.dir.read() {
        let entry = entry?;
        let name = entry.file_name();
        if is_dots(name) {
            continue;
        }
        let known = Some((entry.ino(), entry.file_type()));
        if !records.entry(stream.dir.fd()?, name, known) {
            if records.bytes.is_empty() {
                return Err(Errno::INVAL);
            }
            stream.waiting = Some(CString::from(name));
            return Ok(true);
        }
    }
    Ok(false)
}

/// `.` and `..` are not reported.
pub fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// Records of an answer.
#[derive(Debug, Default)]
pub struct Records {
    /// The records so far.
    pub bytes: Vec<u8>,
    /// Maximum size in bytes.
    pub limit: usize,
    /// Selects the entries with attributes.
    pub attributes: ListAttributes,
    /// Names of the directories among the entries.
    pub directories: Vec<CString>,
}

impl Records {
    /// Appends the record of `name` in `dir`; false if it doesn't fit. Skips an entry that was removed meanwhile.
    /// `known`: inode number and type from getdents(2).
    pub fn entry(&mut self, dir: BorrowedFd<'_>, name: &CStr, known: Option<(u64, FileType)>) -> bool {
        if let Some((ino, kind)) = known
            && !self.are_wanted(kind)
        {
            let attr = NodeAttr { ino, mode: kind.as_raw_mode(), ..NodeAttr::default() };
            return self.put(dir_record::ENTRY, attr, name.to_bytes(), &[]);
        }
        let mut attr = match (attr::at(dir, name.to_bytes()), known) {
            (Ok(stat), _) => attr::node_attr(&stat),
            (Err(Errno::NOENT), _) => return true,
            // The directory may be listed (r) but not searched (x).
            (Err(_), Some((ino, kind))) => NodeAttr { ino, mode: kind.as_raw_mode(), ..NodeAttr::default() },
            (Err(_), None) => NodeAttr::default(),
        };
        let kind = FileType::from_raw_mode(attr.mode);
        if self.attributes == ListAttributes::WithLists && attr.nlink > 0 && xattr::has_no_lists(dir, name, kind) {
            attr.flags |= node_flags::NO_LISTS;
        }
        let target = if kind == FileType::Symlink {
            rustix::fs::readlinkat(dir, name, Vec::with_capacity(128)).map(CString::into_bytes).unwrap_or_default()
        } else {
            Vec::new()
        };
        let target = target.get(..target.len().min(MAX_PATH)).unwrap_or_default();
        let fits = self.put(dir_record::ENTRY, attr, name.to_bytes(), target);
        if fits && kind == FileType::Directory {
            self.directories.push(name.to_owned());
        }
        fits
    }

    /// Whether attributes of the entry are requested, or its type is unknown without them.
    fn are_wanted(&self, kind: FileType) -> bool {
        match self.attributes {
            ListAttributes::All | ListAttributes::WithLists => true,
            ListAttributes::Directories => matches!(kind, FileType::Directory | FileType::Unknown),
            ListAttributes::None => kind == FileType::Unknown,
        }
    }

    /// Appends a record; false if it doesn't fit.
    pub fn put(&mut self, kind: u32, attr: NodeAttr, name: &[u8], target: &[u8]) -> bool {
        let len = (size_of::<DirRecord>() + name.len() + target.len()).next_multiple_of(8);
        let end = self.bytes.len() + len;
        if end > self.limit {
            return false;
        }
        // Both lengths are bounded by PATH_MAX.
        let head = DirRecord { attr, name_len: name.len() as u16, target_len: target.len() as u16, kind };
        self.bytes.extend_from_slice(bytemuck::bytes_of(&head));
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(target);
        self.bytes.resize(end, 0);
        true
    }
}
