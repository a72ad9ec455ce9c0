//! Directories with the attributes of their entries.

use super::super::payload::Output;
use super::super::{Errno, Reply, Result};
use super::attr;
use super::export::ExportConfig;
use super::handles::{Handle, Handles, Stream};
use super::path::{MAX_PATH, RelPath};
use abi::request::{DirRecord, NodeAttr};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Dir, FileType, Mode, OFlags};
use std::ffi::{CStr, CString};

/// [`abi::request::Op::ReadDir`]: records as many as fit; EINVAL if not even one does.
pub fn read(
    export: &ExportConfig,
    handles: &mut Handles,
    number: u64,
    path: RelPath<'_>,
    out: &mut Output<'_>,
) -> Result {
    if number == 0 {
        handles.check_room()?;
        let dir = export.directory(path)?;
        export.check_read(&attr::of_fd(dir.as_fd())?)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(dir.as_fd(), c".", flags, Mode::empty())?;
        let mut stream = Stream { export: export.id, dir: Dir::new(fd)?, waiting: None };
        let more = fill(&mut stream, out)?;
        let number = if more { handles.insert(Handle::Stream(Box::new(stream)))? } else { 0 };
        return Ok(Reply { result: out.written() as u64, extra: [number, 0] });
    }
    let stream = handles.stream(number)?;
    if stream.export != export.id {
        return Err(Errno::BADF);
    }
    let more = fill(stream, out)?;
    if !more {
        handles.remove(number)?;
    }
    Ok(Reply { result: out.written() as u64, extra: [if more { number } else { 0 }, 0] })
}

/// Appends records until the directory ends (false) or the room does (true).
fn fill(stream: &mut Stream, out: &mut Output<'_>) -> Result<bool> {
    if let Some(name) = stream.waiting.take()
        && !append(stream.dir.fd()?, &name, None, out)?
    {
        stream.waiting = Some(name);
        return Err(Errno::INVAL);
    }
    while let Some(entry) = stream.dir.read() {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes() == b"." || name.to_bytes() == b".." {
            continue;
        }
        let known = Some((entry.ino(), entry.file_type()));
        if !append(stream.dir.fd()?, name, known, out)? {
            if out.written() == 0 {
                return Err(Errno::INVAL);
            }
            stream.waiting = Some(CString::from(name));
            return Ok(true);
        }
    }
    Ok(false)
}

/// Appends one record; false if it doesn't fit. An entry that vanished meanwhile is left out.
fn append(dir: BorrowedFd<'_>, name: &CStr, known: Option<(u64, FileType)>, out: &mut Output<'_>) -> Result<bool> {
    let bytes = name.to_bytes();
    let attr = match (attr::at(dir, bytes), known) {
        (Ok(stat), _) => attr::node_attr(&stat),
        (Err(Errno::NOENT), _) => return Ok(true),
        // The directory may be listed but not searched: only what the directory itself tells.
        (Err(_), Some((ino, kind))) => NodeAttr { ino, mode: kind.as_raw_mode(), ..NodeAttr::default() },
        (Err(_), None) => NodeAttr::default(),
    };
    let target = if FileType::from_raw_mode(attr.mode) == FileType::Symlink {
        rustix::fs::readlinkat(dir, name, Vec::with_capacity(128)).map(CString::into_bytes).unwrap_or_default()
    } else {
        Vec::new()
    };
    let target = target.get(..target.len().min(MAX_PATH)).unwrap_or_default();
    let len = (size_of::<DirRecord>() + bytes.len() + target.len()).next_multiple_of(8);
    if len > out.room() {
        return Ok(false);
    }
    // Both lengths are bounded by NAME_MAX and PATH_MAX.
    let record = DirRecord { attr, name_len: bytes.len() as u16, target_len: target.len() as u16, reserved: 0 };
    let padding = len - size_of::<DirRecord>() - bytes.len() - target.len();
    out.put(bytemuck::bytes_of(&record))?;
    out.put(bytes)?;
    out.put(target)?;
    out.put([0; 8].get(..padding).unwrap_or_default())?;
    Ok(true)
}
