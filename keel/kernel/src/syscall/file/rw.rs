//! read(2), write(2) and their relatives.

use crate::file::File;
use crate::mm::user::{UserDst, UserSrc};
use crate::task::descriptors::{current_file, current_file_in_use, was_read, was_used};
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::io::KernelDst;
use vfs::{Dst, Src};

/// The description, if it was opened for reading. EBADF.
#[inline(always)]
fn reader(fd: i32) -> Result<alloc::rc::Rc<File>> {
    let file = current_file_in_use(fd)?;
    if file.readable() { Ok(file) } else { Err(Errno::EBADF) }
}

/// The description, if it was opened for writing. EBADF.
#[inline(always)]
fn writer(fd: i32) -> Result<alloc::rc::Rc<File>> {
    let file = current_file_in_use(fd)?;
    if file.writable() { Ok(file) } else { Err(Errno::EBADF) }
}

/// read(2).
pub fn sys_read(fd: i32, buf: usize, count: usize) -> Result<usize> {
    let file = reader(fd)?;
    let mut dst = UserDst::new(buf, count)?;
    match file.move_at_once(false, buf, count) {
        Some(done) => Ok(done),
        None => read_here(fd, &file, &mut dst),
    }
}

/// write(2).
pub fn sys_write(fd: i32, buf: usize, count: usize) -> Result<usize> {
    let file = writer(fd)?;
    let mut src = UserSrc::new(buf, count)?;
    match file.move_at_once(true, buf, count) {
        Some(done) => Ok(done),
        None => file.write(&mut src),
    }
}

/// At the file's own position.
#[inline(always)]
fn read_here(fd: i32, file: &File, dst: &mut dyn Dst) -> Result<usize> {
    let done = file.read(dst)?;
    was_read(fd, file, None, done);
    Ok(done)
}

/// A position of the pread family. EINVAL if negative.
fn position(offset: i64) -> Result<u64> {
    u64::try_from(offset).map_err(|_| Errno::EINVAL)
}

/// Files without positions say so (ESPIPE) before their access mode is looked at.
pub(crate) fn seekable(file: &File) -> Result<()> {
    file.ops.seek(file, 0, g::SEEK_CUR).map(|_| ())
}

/// The program's memory; where it is bad, a file without positions says so first.
fn positioned<T>(file: &File, memory: Result<T>) -> Result<T> {
    memory.map_err(|errno| match file.ops.read_at(file, 0, &mut KernelDst(&mut [])) {
        Err(Errno::ESPIPE) => Errno::ESPIPE,
        _ => errno,
    })
}

/// The description for pread(2).
fn positioned_reader(fd: i32) -> Result<alloc::rc::Rc<File>> {
    let file = current_file(fd)?;
    if file.readable() {
        return Ok(file);
    }
    seekable(&file)?;
    Err(Errno::EBADF)
}

/// The description for pwrite(2).
fn positioned_writer(fd: i32) -> Result<alloc::rc::Rc<File>> {
    let file = current_file(fd)?;
    if file.writable() {
        return Ok(file);
    }
    seekable(&file)?;
    Err(Errno::EBADF)
}

/// pread64(2).
pub fn sys_pread64(fd: i32, buf: usize, count: usize, offset: i64) -> Result<usize> {
    let offset = position(offset)?;
    let file = positioned_reader(fd)?;
    let dst = UserDst::new(buf, count);
    let done = read_at(&file, offset, &mut positioned(&file, dst)?)?;
    was_read(fd, &file, Some(offset), done);
    Ok(done)
}

/// pwrite64(2).
pub fn sys_pwrite64(fd: i32, buf: usize, count: usize, offset: i64) -> Result<usize> {
    let offset = position(offset)?;
    let file = positioned_writer(fd)?;
    let src = UserSrc::new(buf, count);
    write_at(&file, offset, &mut positioned(&file, src)?)
}

fn read_at(file: &File, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
    bounded(offset, dst.remaining())?;
    file.read_at(offset, dst)
}

fn write_at(file: &File, offset: u64, src: &mut dyn Src) -> Result<usize> {
    bounded(offset, src.remaining())?;
    file.write_at(offset, src)
}

/// Offsets never pass 2^63 - 1.
pub(crate) fn bounded(offset: u64, count: usize) -> Result<()> {
    match offset.checked_add(count as u64) {
        Some(end) if end <= i64::MAX as u64 => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// readv(2).
pub fn sys_readv(fd: i32, iov: usize, count: usize) -> Result<usize> {
    let file = reader(fd)?;
    let mut dst = UserDst::import(iov, count)?;
    // Unlike read(2), the file is not called at all then.
    if dst.remaining() == 0 { Ok(0) } else { read_here(fd, &file, &mut dst) }
}

/// writev(2).
pub fn sys_writev(fd: i32, iov: usize, count: usize) -> Result<usize> {
    let file = writer(fd)?;
    let mut src = UserSrc::import(iov, count)?;
    if src.remaining() == 0 { Ok(0) } else { file.write(&mut src) }
}

/// preadv(2). The high half of the offset is for 32-bit programs.
pub fn sys_preadv(fd: i32, iov: usize, count: usize, offset: i64, _high: usize) -> Result<usize> {
    let offset = position(offset)?;
    let file = positioned_reader(fd)?;
    let dst = UserDst::import(iov, count);
    let done = read_at(&file, offset, &mut positioned(&file, dst)?)?;
    was_read(fd, &file, Some(offset), done);
    Ok(done)
}

/// pwritev(2).
pub fn sys_pwritev(fd: i32, iov: usize, count: usize, offset: i64, _high: usize) -> Result<usize> {
    let offset = position(offset)?;
    let file = positioned_writer(fd)?;
    let src = UserSrc::import(iov, count);
    write_at(&file, offset, &mut positioned(&file, src)?)
}

/// Flags of preadv2(2) and pwritev2(2) that are known here; the others are EOPNOTSUPP. `RWF_HIPRI`
/// is a hint.
const READ_FLAGS: u32 = g::RWF_HIPRI | g::RWF_NOWAIT | g::RWF_DSYNC | g::RWF_SYNC;
const WRITE_FLAGS: u32 = READ_FLAGS | g::RWF_APPEND;

/// preadv2(2). Offset -1: the file's own position.
pub fn sys_preadv2(fd: i32, iov: usize, count: usize, offset: i64, _high: usize, flags: u32) -> Result<usize> {
    let own = offset == -1;
    let at = if own { 0 } else { position(offset)? };
    let file = if own { reader(fd)? } else { positioned_reader(fd)? };
    let mut dst = UserDst::import(iov, count)?;
    if dst.remaining() == 0 {
        return Ok(0);
    }
    if flags & !READ_FLAGS != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if flags & g::RWF_NOWAIT != 0 && file.ops.poll(&file) & (g::POLLIN | g::POLLHUP) == 0 {
        return Err(Errno::EAGAIN);
    }
    if own { file.read(&mut dst) } else { read_at(&file, at, &mut dst) }
}

/// pwritev2(2). Offset -1: the file's own position.
pub fn sys_pwritev2(fd: i32, iov: usize, count: usize, offset: i64, _high: usize, flags: u32) -> Result<usize> {
    let own = offset == -1;
    let at = if own { 0 } else { position(offset)? };
    let file = if own { writer(fd)? } else { positioned_writer(fd)? };
    let mut src = UserSrc::import(iov, count)?;
    if src.remaining() == 0 {
        return Ok(0);
    }
    if flags & !WRITE_FLAGS != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let regular = file.ops.inode().filter(|inode| inode.file_type() == vfs::FileType::Regular);
    if flags & g::RWF_NOWAIT != 0 && file.ops.poll(&file) & g::POLLOUT == 0 {
        return Err(Errno::EAGAIN);
    }
    let written = match &regular {
        Some(inode) if flags & g::RWF_APPEND != 0 => {
            let _turn = if own { Some(file.lock_position()?) } else { None };
            let (written, end) = inode.append(&mut src)?;
            file.happened(written, g::IN_MODIFY);
            if own {
                file.pos.set(end);
            }
            written
        }
        _ if own => file.write(&mut src)?,
        _ => write_at(&file, at, &mut src)?,
    };
    if let Some(inode) = regular
        && flags & (g::RWF_DSYNC | g::RWF_SYNC) != 0
    {
        inode.sync(flags & g::RWF_SYNC == 0)?;
    }
    Ok(written)
}

/// lseek(2).
pub fn sys_lseek(fd: i32, offset: i64, whence: u32) -> Result<u64> {
    let file = current_file(fd)?;
    if whence > g::SEEK_MAX {
        return Err(Errno::EINVAL);
    }
    let at = file.ops.seek(&file, offset, whence)?;
    was_used(fd, &file);
    Ok(at)
}

/// readahead(2): pages come when they are needed, so only the arguments are checked.
pub fn sys_readahead(fd: i32, _offset: i64, _count: usize) -> Result<()> {
    let file = reader(fd)?;
    match file.ops.inode() {
        Some(inode) if inode.file_type() == vfs::FileType::Regular => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// posix_fadvise(2): advice, taken note of.
pub fn sys_fadvise64(fd: i32, _offset: i64, len: i64, advice: u32) -> Result<()> {
    let file = current_file(fd)?;
    if file.ops.attr().is_ok_and(|attr| attr.mode & g::S_IFMT == g::S_IFIFO) {
        return Err(Errno::ESPIPE);
    }
    if len < 0 || advice > g::POSIX_FADV_NOREUSE {
        return Err(Errno::EINVAL);
    }
    Ok(())
}
