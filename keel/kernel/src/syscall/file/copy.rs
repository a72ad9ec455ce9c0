//! Copies between files that do not pass through the program: sendfile(2), copy_file_range(2).

use super::rw::{bounded, seekable};
use crate::file::File;
use crate::mm::user;
use crate::task::descriptors::current_file;
use alloc::rc::Rc;
use uapi::raw::general as g;
use uapi::{Errno, Result};
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
        self.offset += done as i64;
        Ok(done)
    }

    /// Writes from keel's memory.
    pub fn write(&mut self, file: &File, bytes: &[u8]) -> Result<usize> {
        let mut src = KernelSrc(bytes);
        if !self.is_given() {
            return file.write(&mut src);
        }
        let done = file.write_at(self.position(file)?, &mut src)?;
        self.offset += done as i64;
        Ok(done)
    }

    /// Goes back by what was read but could not be written.
    pub fn unread(&mut self, file: &File, bytes: usize) {
        if self.is_given() {
            self.offset -= bytes as i64;
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
    let positioned = seekable(&from);
    if source.is_given() {
        positioned?;
    }
    let count = isize::try_from(count).map_err(|_| Errno::EINVAL)? as usize;
    let to = current_file(out_fd)?;
    if !to.writable() {
        return Err(Errno::EBADF);
    }
    if positioned.is_err() || to.flags.get() & g::O_APPEND != 0 {
        return Err(Errno::EINVAL);
    }
    if from.ops.inode().is_some_and(|inode| inode.file_type() == FileType::Directory) {
        return Err(Errno::EINVAL);
    }
    let count = count.min(user::MAX_RW_COUNT);
    bounded(source.position(&from)?, count)?;
    let (done, moved) = copy(&from, *source, &to, &mut Place::new(0)?, count)?;
    *source = moved;
    Ok(done)
}

/// A regular file. EISDIR, EINVAL.
fn regular(file: &File) -> Result<Rc<dyn Inode>> {
    let inode = file.ops.inode().ok_or(Errno::EINVAL)?;
    match inode.file_type() {
        FileType::Regular => Ok(inode),
        FileType::Directory => Err(Errno::EISDIR),
        _ => Err(Errno::EINVAL),
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
    let (in_inode, out_inode) = (regular(&from)?, regular(&to)?);
    if !from.readable() || !to.writable() || to.flags.get() & g::O_APPEND != 0 {
        return Err(Errno::EBADF);
    }
    // As Linux adds them: a negative position overflows too.
    let overflows = |place: &Place| place.is_given() && (place.offset as u64).checked_add(count as u64).is_none();
    if overflows(&source) || overflows(&target) {
        return Err(Errno::EOVERFLOW);
    }
    let (start, end) = (source.position(&from)?, target.position(&to)?);
    let size = in_inode.attr()?.size;
    let count = count.min(size.saturating_sub(start).min(user::MAX_RW_COUNT as u64) as usize);
    if Rc::ptr_eq(&in_inode, &out_inode) && start < end + count as u64 && end < start + count as u64 {
        return Err(Errno::EINVAL);
    }
    if count == 0 {
        return Ok(0);
    }
    bounded(end, count).map_err(|_| Errno::EFBIG)?;
    let (done, source) = copy(&from, source, &to, &mut target, count)?;
    source.store()?;
    target.store()?;
    Ok(done)
}
