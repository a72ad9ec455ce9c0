//! read(2), write(2) and their relatives.

use crate::file::pipe::PipeEnd;
use crate::file::{Abilities, File};
use crate::fs::regular::RegularFile;
use crate::mm::user::{UserDst, UserSrc};
use crate::task::descriptors::{current_file, current_file_in_use, was_read, was_used};
use alloc::rc::Rc;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::{Dst, Src};

/// The description, if it was opened for reading, or for writing. EBADF; EINVAL: it has no such operation.
#[inline(always)]
fn opened(file: Rc<File>, write: bool) -> Result<Rc<File>> {
    if !file.allows(write) {
        return Err(Errno::EBADF);
    }
    if file.can(if write { Abilities::WRITE } else { Abilities::READ }) { Ok(file) } else { Err(Errno::EINVAL) }
}

/// The description for read(2).
#[inline(always)]
fn reader(fd: i32) -> Result<Rc<File>> {
    opened(current_file_in_use(fd)?, false)
}

/// The description for write(2).
#[inline(always)]
fn writer(fd: i32) -> Result<Rc<File>> {
    opened(current_file_in_use(fd)?, true)
}

/// The description for pread(2) or pwrite(2): a file without positions says so before its access mode is looked at. ESPIPE.
fn positioned(fd: i32, write: bool) -> Result<Rc<File>> {
    let file = current_file(fd)?;
    if !file.can(if write { Abilities::PWRITE } else { Abilities::PREAD }) {
        return Err(Errno::ESPIPE);
    }
    opened(file, write)
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

/// ESPIPE if lseek(2) does not work.
pub(crate) fn seekable(file: &File) -> Result<()> {
    file.ops.seek(file, 0, g::SEEK_CUR).map(|_| ())
}

/// pread64(2).
pub fn sys_pread64(fd: i32, buf: usize, count: usize, offset: i64) -> Result<usize> {
    let offset = position(offset)?;
    let file = positioned(fd, false)?;
    let done = read_at(&file, offset, &mut UserDst::new(buf, count)?)?;
    was_read(fd, &file, Some(offset), done);
    Ok(done)
}

/// pwrite64(2).
pub fn sys_pwrite64(fd: i32, buf: usize, count: usize, offset: i64) -> Result<usize> {
    let offset = position(offset)?;
    let file = positioned(fd, true)?;
    write_at(&file, offset, &mut UserSrc::new(buf, count)?)
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
    let file = positioned(fd, false)?;
    let mut dst = UserDst::import(iov, count)?;
    if dst.remaining() == 0 {
        return Ok(0);
    }
    let done = read_at(&file, offset, &mut dst)?;
    was_read(fd, &file, Some(offset), done);
    Ok(done)
}

/// pwritev(2).
pub fn sys_pwritev(fd: i32, iov: usize, count: usize, offset: i64, _high: usize) -> Result<usize> {
    let offset = position(offset)?;
    let file = positioned(fd, true)?;
    let mut src = UserSrc::import(iov, count)?;
    if src.remaining() == 0 { Ok(0) } else { write_at(&file, offset, &mut src) }
}

/// Do not append, though the file has `O_APPEND`.
const RWF_NOAPPEND: u32 = 0x20;

/// Flags of preadv2(2) and pwritev2(2) that are known here. `RWF_HIPRI` is a hint.
const FLAGS: u32 = g::RWF_HIPRI | g::RWF_DSYNC | g::RWF_SYNC | g::RWF_NOWAIT | g::RWF_APPEND | RWF_NOAPPEND;

/// Flags that a file takes. EINVAL, EOPNOTSUPP.
fn check_flags(file: &File, flags: u32, write: bool) -> Result<()> {
    let takes_all = file.can(if write { Abilities::WRITE_FLAGS } else { Abilities::READ_FLAGS });
    if flags & !(if takes_all { FLAGS } else { g::RWF_HIPRI }) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if flags & g::RWF_APPEND != 0 && flags & RWF_NOAPPEND != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & g::RWF_NOWAIT == 0 {
        return Ok(());
    }
    if !write && file.downcast::<RegularFile>().is_some() {
        // What is cached is read.
        return Ok(());
    }
    if !file.can(Abilities::NO_WAIT) || is_named_pipe(file) {
        return Err(Errno::EOPNOTSUPP);
    }
    let (wanted, ended) = if write { (g::POLLOUT, g::POLLERR) } else { (g::POLLIN, 0) };
    // Where nothing was asked for a moment, readiness is as the file knows it.
    if file.ops.poll(file) & (wanted | ended | g::POLLHUP) == 0 && !file.nonblocking() {
        return Err(Errno::EAGAIN);
    }
    Ok(())
}

/// A FIFO: Linux lets calls return at once for pipes without a name only.
fn is_named_pipe(file: &File) -> bool {
    file.path.is_some() && file.downcast::<PipeEnd>().is_some()
}

/// preadv2(2). Offset -1: the file's own position.
pub fn sys_preadv2(fd: i32, iov: usize, count: usize, offset: i64, _high: usize, flags: u32) -> Result<usize> {
    let own = offset == -1;
    let at = if own { 0 } else { position(offset)? };
    let file = if own { reader(fd)? } else { positioned(fd, false)? };
    let mut dst = UserDst::import(iov, count)?;
    if dst.remaining() == 0 {
        return Ok(0);
    }
    if !own {
        bounded(at, dst.remaining())?;
    }
    check_flags(&file, flags, false)?;
    if flags & g::RWF_NOWAIT != 0
        && let Some(regular) = file.downcast::<RegularFile>()
    {
        return regular.read_cached(&file, if own { None } else { Some(at) }, &mut dst);
    }
    if own { file.read(&mut dst) } else { file.read_at(at, &mut dst) }
}

/// pwritev2(2). Offset -1: the file's own position.
pub fn sys_pwritev2(fd: i32, iov: usize, count: usize, offset: i64, _high: usize, flags: u32) -> Result<usize> {
    let own = offset == -1;
    let at = if own { 0 } else { position(offset)? };
    let file = if own { writer(fd)? } else { positioned(fd, true)? };
    let mut src = UserSrc::import(iov, count)?;
    if src.remaining() == 0 {
        return Ok(0);
    }
    if !own {
        bounded(at, src.remaining())?;
    }
    check_flags(&file, flags, true)?;
    let regular = file.ops.inode().filter(|inode| inode.file_type() == vfs::FileType::Regular);
    let in_place = file.downcast::<RegularFile>().filter(|_| flags & RWF_NOAPPEND != 0);
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
        _ if let Some(in_place) = in_place => {
            in_place.write_in_place(&file, if own { None } else { Some(at) }, &mut src)?
        }
        _ if own => file.write(&mut src)?,
        _ => file.write_at(at, &mut src)?,
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
    let file = current_file(fd)?;
    if !file.readable() {
        return Err(Errno::EBADF);
    }
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
