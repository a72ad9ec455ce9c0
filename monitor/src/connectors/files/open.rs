//! Opens regular files, and operations on open files.

use super::super::payload::Output;
use super::super::{Errno, Result, Window, reply};
use super::attr::{self, kind};
use super::change::give;
use super::export::{ExportConfig, Place, open_beneath};
use super::handles::{Handle, Handles, OpenFile};
use super::path::RelPath;
use super::workers::{SyncTimes, Work};
use crate::memory::GuestMemory;
use crate::memory::io::{self, GuestSlice, Position, Wait};
use abi::layout;
use abi::operation::Operation;
use abi::request::{
    Fallocate, Fetched, HandleAttr, Map, NodeAttr, Open, Opened, Populate, Read, Seek, Sync, Truncate, Unmap, Write,
    Written, open_flags as flags,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, FileType, Mode, OFlags, SeekFrom, Statx};
use std::sync::Arc;

/// Retries if a file appears or disappears between lookup and open.
const TRIES: usize = 8;

/// [`Open`]. Only regular files: EISDIR for a directory, ELOOP for a symbolic link, ENXIO for other types (FIFOs and
/// devices of the host can't be opened in a pod).
pub fn open(
    export: &ExportConfig,
    handles: &mut Handles,
    open: Open,
    path: RelPath<'_>,
    out: &mut Output<'_>,
) -> Result<Opened> {
    let Open { flags: wanted, mode, uid, gid, .. } = open;
    let new = flags::CREATE | flags::EXCLUSIVE | flags::UNNAMED | flags::OR_TELL;
    let known = flags::READ | flags::WRITE | flags::TRUNCATE | new;
    if wanted & !known != 0 || wanted & (flags::READ | flags::WRITE) == 0 {
        return Err(Errno::INVAL);
    }
    handles.check_room()?;
    let has = |bit| wanted & bit != 0;
    let owner = (uid, gid);
    let (fd, stat) = if has(flags::UNNAMED) {
        make_unnamed(export, path, wanted, mode, owner)?
    } else {
        if has(flags::CREATE) {
            export.check_new(path)?;
        }
        let place = export.place(path)?;
        match open_or_create(export, &place, wanted, mode, owner)? {
            Found::File(fd, stat) => (fd, stat),
            Found::Exists(stat) if has(flags::OR_TELL) => {
                export.check_node(&stat)?;
                out.put_optional(&attr::node_attr(&stat))?;
                return Ok(Opened { exists: true, handle: 0 });
            }
            Found::Exists(_) => return Err(Errno::EXIST),
        }
    };
    out.put_optional(&attr::node_attr(&stat))?;
    let file = OpenFile { fd, read: has(flags::READ), write: has(flags::WRITE), export: export.id, locks: None };
    Ok(Opened { exists: false, handle: handles.insert(Handle::File(file))? })
}

/// A file without a name in the file system of a directory.
fn make_unnamed(
    export: &ExportConfig,
    path: RelPath<'_>,
    wanted: u32,
    mode: u32,
    owner: (u32, u32),
) -> Result<(OwnedFd, Statx)> {
    if wanted != flags::READ | flags::WRITE | flags::UNNAMED {
        return Err(Errno::INVAL);
    }
    export.check_writable()?;
    let dir = export.directory(path)?;
    make(export, (dir.as_fd(), b"."), OFlags::RDWR | OFlags::TMPFILE, mode, owner)
}

/// Outcome of an open.
enum Found {
    File(OwnedFd, Statx),
    /// The file exists, but was to be created exclusively.
    Exists(Statx),
}

fn open_or_create(
    export: &ExportConfig,
    place: &Place<'_>,
    wanted: u32,
    mode: u32,
    owner: (u32, u32),
) -> Result<Found> {
    let is_new = wanted & (flags::CREATE | flags::EXCLUSIVE) == flags::CREATE | flags::EXCLUSIVE;
    let how = access(wanted) | OFlags::CREATE | OFlags::EXCL;
    let make = || make(export, (place.dir.as_fd(), place.name), how, mode, owner);
    if is_new && !export.is_file() && !place.name.is_empty() && export.check_writable().is_ok() {
        // The common case: it does not exist.
        match make() {
            Err(Errno::EXIST | Errno::ACCESS) => {}
            made => return made.map(|(fd, stat)| Found::File(fd, stat)),
        }
    }
    for _ in 0..TRIES {
        match place.attr() {
            Ok(stat) if is_new => return Ok(Found::Exists(stat)),
            Ok(stat) => match open_existing(export, place, wanted, &stat) {
                Err(Errno::NOENT | Errno::STALE) => continue,
                other => return other.map(|(fd, stat)| Found::File(fd, stat)),
            },
            Err(Errno::NOENT) if wanted & flags::CREATE != 0 && !export.is_file() => {
                export.check_writable()?;
                match make() {
                    Err(Errno::EXIST) => continue,
                    made => return made.map(|(fd, stat)| Found::File(fd, stat)),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(Errno::AGAIN)
}

fn access(wanted: u32) -> OFlags {
    let access = match (wanted & flags::READ != 0, wanted & flags::WRITE != 0) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    };
    // O_NONBLOCK: if the file is replaced by a FIFO at the last moment, open must not block.
    access | OFlags::NONBLOCK | OFlags::NOFOLLOW
}

fn open_existing(export: &ExportConfig, place: &Place<'_>, wanted: u32, seen: &Statx) -> Result<(OwnedFd, Statx)> {
    match kind(seen) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(Errno::ISDIR),
        FileType::Symlink => return Err(Errno::LOOP),
        _ => return Err(Errno::NXIO),
    }
    if wanted & (flags::WRITE | flags::TRUNCATE) != 0 {
        export.check_writable()?;
    }
    export.check_read(seen)?;
    export.check_node(seen)?;
    let cut = if wanted & flags::TRUNCATE != 0 { OFlags::TRUNC } else { OFlags::empty() };
    let fd = open_beneath(place.dir.as_fd(), place.name, access(wanted) | cut, Mode::empty())?;
    let stat = attr::of_fd(fd.as_fd())?;
    if kind(&stat) != FileType::RegularFile {
        return Err(Errno::STALE); // replaced meanwhile: try again
    }
    export.check_read(&stat)?;
    export.check_node(&stat)?;
    Ok((fd, stat))
}

/// Creates a regular file in a directory and changes its owner.
fn make(
    export: &ExportConfig,
    (dir, name): (BorrowedFd<'_>, &[u8]),
    how: OFlags,
    mode: u32,
    (uid, gid): (u32, u32),
) -> Result<(OwnedFd, Statx)> {
    let mode = Mode::from_raw_mode(export.mode(FileType::RegularFile, mode));
    let fd = open_beneath(dir, name, how, mode)?;
    let stat = give(dir, fd.as_fd(), uid, gid)?;
    Ok((fd, stat))
}

/// Converts an offset or a length of the guest; EINVAL if it exceeds i64.
fn offset(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| Errno::INVAL)
}

/// [`Read`]: from the host's page cache directly into guest memory.
pub fn read(handles: &Handles, read: Read, into: &[GuestSlice], wait: Wait) -> Result<u64> {
    let file = handles.file(read.handle)?;
    io::read(file.fd.as_fd(), into, Position::At(offset(read.offset)?), wait).map(|bytes| bytes as u64)
}

/// Duplicates the descriptor for a worker thread: the guest may close the handle meanwhile.
fn again(handles: &Handles, number: u64) -> Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(&handles.file(number)?.fd, 0)
}

/// Wraps an operation for a worker thread.
fn work<O>(operation: O, long: impl FnOnce() -> Result<O::Results> + Send + 'static) -> Work
where
    O: Operation + Send + 'static,
{
    Box::new(move || {
        let reply = reply(operation, long());
        Box::new(move |_| reply)
    })
}

/// [`read`] on a worker thread, which may block; `into` stays mapped until then.
pub fn late_read(handles: &Handles, read: Read, into: &[GuestSlice], memory: &Arc<GuestMemory>) -> Result<Work> {
    let (fd, at) = (again(handles, read.handle)?, offset(read.offset)?);
    let (into, memory) = (into.to_vec(), memory.clone());
    Ok(work(read, move || {
        let done = io::read(fd.as_fd(), &into, Position::At(at), Wait::Default);
        drop(memory);
        done.map(|bytes| bytes as u64)
    }))
}

/// [`Write`]: directly from guest memory. By the attributes before and after it keel detects changes by other processes
/// since its last request.
pub fn write(handles: &Handles, write: Write, from: &[GuestSlice], out: &mut Output<'_>) -> Result<Written> {
    let (fd, at) = (handles.file(write.handle)?.fd.as_fd(), write.offset);
    let position = if at == u64::MAX { Position::Append } else { Position::At(offset(at)?) };
    let tells = out.room() >= 2 * size_of::<NodeAttr>();
    let before = if tells { Some(attr::of_fd(fd)?) } else { None };
    let bytes = io::write(fd, from, position, Wait::Default)? as u64;
    // Only this handle uses the open file description, so its position is the end of the append.
    let end = if at == u64::MAX { rustix::fs::tell(fd)? } else { at.saturating_add(bytes) };
    if let Some(before) = before {
        out.put(bytemuck::bytes_of(&attr::node_attr(&before)))?;
        out.put(bytemuck::bytes_of(&attr::node_attr(&attr::of_fd(fd)?)))?;
    }
    Ok(Written { bytes, end })
}

/// [`abi::request::Fetch`]: attributes and content in one trip.
pub fn fetch(export: &ExportConfig, handles: &mut Handles, path: RelPath<'_>, out: &mut Output<'_>) -> Result<Fetched> {
    let attr_room = size_of::<NodeAttr>();
    let room = out.room().checked_sub(attr_room).ok_or(Errno::RANGE)?;
    let place = export.place(path)?;
    let Found::File(fd, mut stat) = open_or_create(export, &place, flags::READ, 0, (0, 0))? else {
        return Err(Errno::EXIST);
    };
    let mut done = 0;
    let mut ended = false;
    while done < room && !ended {
        let at = offset(done as u64)?;
        let bytes = match io::read(fd.as_fd(), &out.rest(attr_room + done), Position::At(at), Wait::Default) {
            // Return the part that was read; a later read returns the error.
            Err(_) if done > 0 => break,
            bytes => bytes?,
        };
        done += bytes;
        ended = bytes == 0 || done as u64 == stat.stx_size;
    }
    if ended {
        stat.stx_size = done as u64; // bytes delivered; the file may have been truncated
    }
    out.put(bytemuck::bytes_of(&attr::node_attr(&stat)))?;
    let complete = ended || stat.stx_size == done as u64;
    let handle = if complete {
        0
    } else {
        handles.insert(Handle::File(OpenFile { fd, read: true, write: false, export: export.id, locks: None }))?
    };
    Ok(Fetched { bytes: done as u64, handle })
}

/// [`HandleAttr`].
pub fn handle_attr(handles: &Handles, of: HandleAttr, out: &mut Output<'_>) -> Result<()> {
    let attr: NodeAttr = attr::node_attr(&attr::of_fd(handles.file(of.handle)?.fd.as_fd())?);
    out.put(bytemuck::bytes_of(&attr))
}

/// [`Truncate`].
pub fn truncate(handles: &Handles, truncate: Truncate) -> Result<()> {
    let size = offset(truncate.size)? as u64;
    rustix::fs::ftruncate(&handles.file(truncate.handle)?.fd, size)
}

/// [`Fallocate`]; unknown modes give EOPNOTSUPP, as the kernel does.
pub fn fallocate(handles: &Handles, range: Fallocate) -> Result<()> {
    allocate(handles.file(range.handle)?.fd.as_fd(), range)
}

/// The same on a worker thread.
pub fn late_fallocate(handles: &Handles, range: Fallocate) -> Result<Work> {
    let fd = again(handles, range.handle)?;
    Ok(work(range, move || allocate(fd.as_fd(), range)))
}

fn allocate(fd: BorrowedFd<'_>, range: Fallocate) -> Result<()> {
    let known = FallocateFlags::KEEP_SIZE
        | FallocateFlags::PUNCH_HOLE
        | FallocateFlags::COLLAPSE_RANGE
        | FallocateFlags::ZERO_RANGE
        | FallocateFlags::INSERT_RANGE
        | FallocateFlags::UNSHARE_RANGE;
    let (start, len) = (offset(range.offset)? as u64, offset(range.len)? as u64);
    let mode = u32::try_from(range.mode).map(FallocateFlags::from_bits_retain).map_err(|_| Errno::OPNOTSUPP)?;
    if !known.contains(mode) {
        return Err(Errno::OPNOTSUPP);
    }
    rustix::fs::fallocate(fd, mode, start, len)
}

/// [`Seek`]. EBADF unless the file may be read.
pub fn seek(handles: &Handles, seek: Seek) -> Result<u64> {
    let file = handles.file(seek.handle)?;
    let from = offset(seek.offset)? as u64;
    if !file.read {
        return Err(Errno::BADF);
    }
    rustix::fs::seek(&file.fd, if seek.hole { SeekFrom::Hole(from) } else { SeekFrom::Data(from) })
}

/// [`struct@Sync`].
pub fn sync(handles: &Handles, sync: Sync, times: &SyncTimes) -> Result<()> {
    store(handles.file(sync.handle)?.fd.as_fd(), sync, times)
}

/// The same on a worker thread.
pub fn late_sync(handles: &Handles, sync: Sync, times: &Arc<SyncTimes>) -> Result<Work> {
    let (fd, times) = (again(handles, sync.handle)?, times.clone());
    Ok(work(sync, move || store(fd.as_fd(), sync, &times)))
}

fn store(fd: BorrowedFd<'_>, sync: Sync, times: &SyncTimes) -> Result<()> {
    times.time(|| if sync.data_only { rustix::fs::fdatasync(fd) } else { rustix::fs::fsync(fd) })
}

/// EINVAL unless `gpa .. gpa + len` are whole pages inside the window's address range.
fn check_window(gpa: u64, len: u64) -> Result<()> {
    let (base, size) = (layout::WINDOW_BASE as u64, layout::WINDOW_SIZE as u64);
    let page = layout::PAGE_SIZE as u64;
    let inside = gpa.checked_sub(base).and_then(|start| start.checked_add(len)).is_some_and(|end| end <= size);
    if len > 0 && inside && gpa.is_multiple_of(page) && len.is_multiple_of(page) { Ok(()) } else { Err(Errno::INVAL) }
}

/// [`Map`]: EACCES if the handle's access doesn't allow it, ENXIO beyond the page in which the file ends.
pub fn map(exports: &[ExportConfig], handles: &Handles, map: Map, window: &dyn Window) -> Result<()> {
    let Map { handle, offset: at, len, gpa, writable } = map;
    check_window(gpa, len)?;
    let end = at.checked_add(len).ok_or(Errno::OVERFLOW)?;
    if !at.is_multiple_of(layout::PAGE_SIZE as u64) || offset(end).is_err() {
        return Err(Errno::INVAL);
    }
    let file = handles.file(handle)?;
    if !file.read || (writable && !file.write) {
        return Err(Errno::ACCESS);
    }
    if end > attr::of_fd(file.fd.as_fd())?.stx_size.next_multiple_of(layout::PAGE_SIZE as u64) {
        return Err(Errno::NXIO);
    }
    if writable {
        ExportConfig::find(exports, file.export)?.make_plain(file.fd.as_fd())?;
    }
    window.map(gpa, file.fd.as_fd(), at, len, writable)
}

/// [`Unmap`].
pub fn unmap(pages: Unmap, window: &dyn Window) -> Result<()> {
    check_window(pages.gpa, pages.len)?;
    window.unmap(pages.gpa, pages.len)
}

/// [`Populate`]: at most a large page.
pub fn populate(pages: Populate, window: &dyn Window) -> Result<()> {
    let Populate { gpa, len, write } = pages;
    check_window(gpa, len)?;
    if len > layout::LARGE_PAGE_SIZE as u64 {
        return Err(Errno::INVAL);
    }
    window.populate(gpa, len, write)
}
