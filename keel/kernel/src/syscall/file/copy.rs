//! Copies between files that do not pass through the program: sendfile(2), copy_file_range(2).

use super::rw::{bounded, seekable};
use super::splice;
use crate::file::{Abilities, File};
use crate::fs::dev::Memory;
use crate::fs::regular::room_at;
use crate::mm::user;
use crate::socket::Socket;
use crate::task::descriptors::current_file;
use alloc::rc::Rc;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::frames::Frames;
use vfs::io::{KernelDst, KernelSrc};
use vfs::memory::chunk;
use vfs::{FileType, Inode};

/// Bytes that are copied at a time.
const CHUNK: usize = 128 << 10;

/// Where a file is read or written: at its own position, or at one that the program keeps.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Address of the program's `loff_t`; 0: the file's own position.
    address: usize,
    /// Position now (only with an address).
    offset: i64,
}

impl Place {
    /// From the pointer argument of a call. EFAULT.
    pub fn new(address: usize) -> Result<Self> {
        Ok(Self { address, offset: if address == 0 { 0 } else { user::read(address)? } })
    }

    /// The program gave a position.
    pub fn is_given(&self) -> bool {
        self.address != 0
    }

    /// The position, of `file` if the program gave none. EINVAL if it is negative.
    pub fn position(&self, file: &File) -> Result<u64> {
        if self.is_given() {
            u64::try_from(self.offset).map_err(|_| Errno::EINVAL)
        } else {
            // What has no position keeps 0.
            Ok(file.ops.seek(file, 0, g::SEEK_CUR).unwrap_or_else(|_| file.position()))
        }
    }

    /// Whether `count` bytes at the given position would pass the largest one.
    pub fn passes_largest(&self, count: usize) -> bool {
        self.is_given() && i64::try_from(count).ok().and_then(|count| self.offset.checked_add(count)).is_none()
    }

    /// Reads into keel's memory.
    pub fn read(&mut self, file: &File, bytes: &mut [u8]) -> Result<usize> {
        let mut dst = KernelDst(bytes);
        if !self.is_given() {
            return file.read(&mut dst);
        }
        let done = file.read_at(self.position(file)?, &mut dst)?;
        self.advance(file, done);
        Ok(done)
    }

    /// Reads into frames.
    fn read_frames(&mut self, file: &File, frames: &mut Frames) -> Result<usize> {
        if !self.is_given() {
            return file.read(frames);
        }
        let done = file.read_at(self.position(file)?, frames)?;
        self.advance(file, done);
        Ok(done)
    }

    /// Writes from keel's memory.
    pub fn write(&mut self, file: &File, bytes: &[u8]) -> Result<usize> {
        let mut src = KernelSrc(bytes);
        if !self.is_given() {
            return file.write(&mut src);
        }
        let done = file.write_at(self.position(file)?, &mut src)?;
        self.advance(file, done);
        Ok(done)
    }

    /// Memory devices have no positions.
    fn advance(&mut self, file: &File, bytes: usize) {
        if file.downcast::<Memory>().is_none() {
            self.offset += bytes as i64;
        }
    }

    /// Goes back by what was read but could not be written.
    pub fn unread(&mut self, file: &File, bytes: usize) {
        if self.is_given() {
            if file.downcast::<Memory>().is_none() {
                self.offset -= bytes as i64;
            }
        } else if let Ok(_turn) = file.lock_position() {
            file.pos.set(file.pos.get().saturating_sub(bytes as u64));
        }
    }

    /// Stores the new position in the program's memory.
    pub fn store(&self) -> Result<()> {
        if self.is_given() { user::write(self.address, &self.offset) } else { Ok(()) }
    }
}

/// Copies up to `count` bytes from a file with positions to any file. An error after some bytes
/// only ends the copy.
pub fn copy(from: &File, mut source: Place, to: &File, target: &mut Place, count: usize) -> Result<(usize, Place)> {
    if to.downcast::<Socket>().is_some() && !target.is_given() {
        return copy_to_socket(from, source, to, count);
    }
    let mut buffer = vfs::memory::buffer(count.min(chunk(CHUNK)))?;
    let mut done = 0;
    while done < count {
        let want = (count - done).min(chunk(CHUNK));
        let got = match source.read(from, &mut buffer[..want]) {
            Ok(0) => break,
            Ok(got) => got,
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        };
        let mut written = 0;
        while written < got {
            match target.write(to, &buffer[written..got]) {
                Ok(0) => break,
                Ok(n) => written += n,
                Err(errno) => {
                    source.unread(from, got - written);
                    return if done + written > 0 { Ok((done + written, source)) } else { Err(errno) };
                }
            }
        }
        done += written;
        if written < got {
            source.unread(from, got - written);
            break;
        }
    }
    Ok((done, source))
}

/// The same to a socket, which may keep the frames that the file is read into.
fn copy_to_socket(from: &File, mut source: Place, to: &File, count: usize) -> Result<(usize, Place)> {
    let mut done = 0;
    while done < count {
        let read = Frames::new((count - done).min(chunk(CHUNK))).and_then(|mut frames| {
            source.read_frames(from, &mut frames)?;
            Ok(frames)
        });
        let mut frames = match read {
            Ok(frames) if frames.is_empty() => break,
            Ok(frames) => frames,
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        };
        let got = frames.len();
        let mut written = 0;
        // What a failed write took out is read again.
        while written < got && frames.len() == got - written {
            match to.write(&mut frames) {
                Ok(0) => break,
                Ok(n) => written += n,
                Err(errno) if done + written == 0 => {
                    source.unread(from, got);
                    return Err(errno);
                }
                Err(_) => break,
            }
        }
        done += written;
        if written < got {
            source.unread(from, got - written);
            break;
        }
    }
    Ok((done, source))
}

/// sendfile(2).
pub fn sys_sendfile(out_fd: i32, in_fd: i32, offset: usize, count: usize) -> Result<usize> {
    let mut source = Place::new(offset)?;
    let done = sendfile(out_fd, in_fd, &mut source, count);
    // The position is stored even when nothing happened.
    source.store()?;
    done
}

fn sendfile(out_fd: i32, in_fd: i32, source: &mut Place, count: usize) -> Result<usize> {
    let from = current_file(in_fd)?;
    if !from.readable() {
        return Err(Errno::EBADF);
    }
    if source.is_given() && !from.can(Abilities::PREAD) {
        return Err(Errno::ESPIPE);
    }
    let count = isize::try_from(count).map_err(|_| Errno::EINVAL)? as usize;
    bounded(source.position(&from)?, count)?;
    let count = count.min(user::MAX_RW_COUNT);
    let to = current_file(out_fd)?;
    if !to.writable() {
        return Err(Errno::EBADF);
    }
    // A pipe takes bytes of anything, others only of files that can be sought in.
    if let Some(pipe) = splice::pipe_of(&to) {
        return splice::to_pipe(&from, source, &pipe, count, from.nonblocking() || to.nonblocking());
    }
    if to.flags.get() & g::O_APPEND != 0 || seekable(&from).is_err() {
        return Err(Errno::EINVAL);
    }
    if count == 0 {
        return Ok(0);
    }
    if !from.can(Abilities::SPLICE_FROM) {
        return Err(Errno::EINVAL);
    }
    if !to.can(Abilities::SPLICE_TO) {
        // Only bytes that can't be written are an error.
        return if source.read(&from, &mut [0])? == 0 { Ok(0) } else { Err(Errno::EINVAL) };
    }
    let (done, moved) = copy(&from, *source, &to, &mut Place::new(0)?, count)?;
    *source = moved;
    Ok(done)
}

/// The inodes of two regular files. EISDIR if one is a directory, else EINVAL.
fn regular_files(from: &File, to: &File) -> Result<(Rc<dyn Inode>, Rc<dyn Inode>)> {
    let inodes = [from.ops.inode(), to.ops.inode()];
    let is = |kind| move |inode: &Option<Rc<dyn Inode>>| inode.as_ref().is_some_and(|inode| inode.file_type() == kind);
    if inodes.iter().any(is(FileType::Directory)) {
        return Err(Errno::EISDIR);
    }
    match inodes {
        [Some(from), Some(to)] if [&from, &to].iter().all(|inode| inode.file_type() == FileType::Regular) => {
            Ok((from, to))
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Whether two files lie in the same file system. Files without a name lie in those of pipes, of sockets, and so on.
pub(super) fn same_file_system(a: &File, b: &File) -> bool {
    match (&a.path, &b.path) {
        (Some(a), Some(b)) => Rc::ptr_eq(a.mount().fs(), b.mount().fs()),
        (None, None) => matches!((a.ops.attr(), b.ops.attr()), (Ok(a), Ok(b)) if a.dev == b.dev),
        _ => false,
    }
}

/// copy_file_range(2).
pub fn sys_copy_file_range(
    in_fd: i32,
    in_offset: usize,
    out_fd: i32,
    out_offset: usize,
    count: usize,
    flags: u32,
) -> Result<usize> {
    let from = current_file(in_fd)?;
    let to = current_file(out_fd)?;
    let source = Place::new(in_offset)?;
    let mut target = Place::new(out_offset)?;
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let (in_inode, out_inode) = regular_files(&from, &to)?;
    if !from.readable() || !to.writable() || to.flags.get() & g::O_APPEND != 0 {
        return Err(Errno::EBADF);
    }
    if !same_file_system(&from, &to) {
        return Err(Errno::EXDEV);
    }
    // As Linux adds them: a negative position overflows too.
    let overflows = |place: &Place| place.is_given() && (place.offset as u64).checked_add(count as u64).is_none();
    if overflows(&source) || overflows(&target) {
        return Err(Errno::EOVERFLOW);
    }
    let (start, end) = (source.position(&from)?, target.position(&to)?);
    let size = in_inode.attr()?.size;
    let count = count.min(size.saturating_sub(start).min(user::MAX_RW_COUNT as u64) as usize);
    // Also for no bytes.
    let count = count.min(usize::try_from(room_at(end)?).unwrap_or(usize::MAX));
    if Rc::ptr_eq(&in_inode, &out_inode) && start < end + count as u64 && end < start + count as u64 {
        return Err(Errno::EINVAL);
    }
    if count == 0 {
        return Ok(0);
    }
    if !from.can(Abilities::SPLICE_FROM) || !to.can(Abilities::SPLICE_TO) {
        return Err(Errno::EINVAL);
    }
    let (done, source) = copy(&from, source, &to, &mut target, count)?;
    source.store()?;
    target.store()?;
    Ok(done)
}
