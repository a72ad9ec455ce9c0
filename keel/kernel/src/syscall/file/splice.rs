//! Moving data through pipes without the program's memory: splice(2), tee(2), vmsplice(2).

use super::copy::Place;
use crate::file::caller::broken_pipe;
use crate::file::pipe::{Pipe, PipeEnd};
use crate::file::{Abilities, File};
use crate::mm::user::{self, UserDst, UserSrc};
use crate::socket::Socket;
use crate::task::descriptors::current_file;
use alloc::sync::Arc;
use alloc::vec;
use hal::frame::Frame;
use keel_core::pipe_buf::{PAGE, Piece};
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::{Dst, Src};

/// All flags. `SPLICE_F_MOVE` and `SPLICE_F_GIFT` are hints; `SPLICE_F_MORE` matters to sockets.
const FLAGS: u32 = g::SPLICE_F_MOVE | g::SPLICE_F_NONBLOCK | g::SPLICE_F_MORE | g::SPLICE_F_GIFT;

pub(super) fn pipe_of(file: &File) -> Option<Arc<Pipe>> {
    file.downcast::<PipeEnd>().map(|end| end.pipe().clone())
}

/// splice(2).
pub fn sys_splice(
    in_fd: i32,
    in_offset: usize,
    out_fd: i32,
    out_offset: usize,
    count: usize,
    flags: u32,
) -> Result<usize> {
    if count == 0 {
        return Ok(0);
    }
    if flags & !FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let from = current_file(in_fd)?;
    let to = current_file(out_fd)?;
    let (in_pipe, out_pipe) = (pipe_of(&from), pipe_of(&to));
    if in_pipe.is_some() && in_offset != 0 || out_pipe.is_some() && out_offset != 0 {
        return Err(Errno::ESPIPE);
    }
    let mut source = Place::new(in_offset)?;
    let mut target = Place::new(out_offset)?;
    if !from.readable() || !to.writable() {
        return Err(Errno::EBADF);
    }
    source.position(&from)?;
    target.position(&to)?;
    if source.passes_largest(count) || target.passes_largest(count) {
        return Err(Errno::EINVAL);
    }
    let count = count.min(user::MAX_RW_COUNT);
    let nonblocking = flags & g::SPLICE_F_NONBLOCK != 0;
    match (in_pipe, out_pipe) {
        (Some(a), Some(b)) if Arc::ptr_eq(&a, &b) => Err(Errno::EINVAL),
        (Some(a), Some(b)) => {
            pipe_to_pipe(&a, &b, count, [nonblocking || from.nonblocking(), nonblocking || to.nonblocking()])
        }
        (Some(pipe), None) => {
            let has_place = !target.is_given() || to.can(Abilities::PWRITE);
            if !has_place || to.flags.get() & g::O_APPEND != 0 || !to.can(Abilities::SPLICE_TO) {
                return Err(Errno::EINVAL);
            }
            let more = flags & g::SPLICE_F_MORE != 0;
            let done = from_pipe(&pipe, &to, &mut target, count, more, nonblocking || from.nonblocking())?;
            target.store()?;
            Ok(done)
        }
        (None, Some(pipe)) => {
            if source.is_given() && !from.can(Abilities::PREAD) {
                return Err(Errno::EINVAL);
            }
            let done = to_pipe(&from, &mut source, &pipe, count, nonblocking || to.nonblocking())?;
            source.store()?;
            Ok(done)
        }
        (None, None) => Err(Errno::EINVAL),
    }
}

/// Moves pieces, whole where possible.
fn pipe_to_pipe(from: &Pipe, to: &Pipe, count: usize, nonblocking: [bool; 2]) -> Result<usize> {
    let some = from.wait_readable(nonblocking[0])?;
    to.wait_writable(nonblocking[1])?;
    if !some {
        return Ok(0);
    }
    let mut done = 0;
    while done < count && to.has_room() {
        let Some(piece) = from.take_piece(count - done) else { break };
        let len = piece.len;
        if to.push_piece(piece).is_err() {
            // The room was just seen, and nothing ran in between.
            return Err(Errno::EIO);
        }
        done += len;
    }
    Ok(done)
}

/// Writes what is in a pipe to a file. `more`: `SPLICE_F_MORE`.
fn from_pipe(pipe: &Pipe, to: &File, target: &mut Place, count: usize, more: bool, nonblocking: bool) -> Result<usize> {
    if !pipe.wait_readable(nonblocking)? {
        return Ok(0);
    }
    let mut buffer = vec![0; PAGE];
    let mut done = 0;
    while done < count {
        // Taken out first: the write may wait, and another reader must not get the same bytes.
        let Some(mut piece) = pipe.take_piece(count - done) else { break };
        piece.page.read(piece.start, &mut buffer[..piece.len]);
        let result = match to.downcast::<Socket>() {
            Some(socket) => {
                // All pieces are one datagram.
                let rest = || done + piece.len < count && pipe.peek_piece(0, 1).is_some();
                socket.splice(to, &buffer[..piece.len], more || socket.has_messages() && rest())
            }
            None => target.write(to, &buffer[..piece.len]),
        };
        let written = *result.as_ref().unwrap_or(&0);
        done += written;
        if written < piece.len {
            piece.start += written;
            piece.len -= written;
            pipe.put_back(piece);
            // As in Linux the rest is tried again: what it fails with may come with a signal.
            if written == 0 || to.downcast::<Socket>().is_some() {
                return if done > 0 { Ok(done) } else { result };
            }
        }
    }
    Ok(done)
}

/// Reads a file into a pipe, as much as there is room for. EINVAL: that can't be read so.
pub(super) fn to_pipe(from: &File, source: &mut Place, pipe: &Pipe, count: usize, nonblocking: bool) -> Result<usize> {
    pipe.wait_writable(nonblocking)?;
    if count == 0 {
        return Ok(0);
    }
    if !from.can(Abilities::SPLICE_FROM) {
        return Err(Errno::EINVAL);
    }
    let mut buffer = vec![0; PAGE];
    let mut done = 0;
    while done < count && pipe.has_room() {
        // Only the first read may wait.
        if done > 0 && from.ops.poll(from) & g::POLLIN == 0 {
            break;
        }
        let want = (count - done).min(PAGE);
        let got = match source.read(from, &mut buffer[..want]) {
            Ok(0) => break,
            Ok(got) => got,
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        };
        let page = Frame::alloc().ok_or(Errno::ENOMEM)?;
        page.write(0, &buffer[..got]);
        // The read may have waited while another writer filled the pipe.
        let mut piece = Piece { page, start: 0, len: got, mergeable: true, packet: false };
        while let Err(back) = pipe.push_piece(piece) {
            piece = back;
            pipe.wait_writable(false)?;
        }
        done += got;
    }
    Ok(done)
}

/// tee(2).
pub fn sys_tee(in_fd: i32, out_fd: i32, count: usize, flags: u32) -> Result<usize> {
    if flags & !FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    if count == 0 {
        return Ok(0);
    }
    let from = current_file(in_fd)?;
    let to = current_file(out_fd)?;
    if !from.readable() || !to.writable() {
        return Err(Errno::EBADF);
    }
    let (Some(source), Some(target)) = (pipe_of(&from), pipe_of(&to)) else { return Err(Errno::EINVAL) };
    if Arc::ptr_eq(&source, &target) {
        return Err(Errno::EINVAL);
    }
    let nonblocking = flags & g::SPLICE_F_NONBLOCK != 0;
    let some = source.wait_readable(nonblocking || from.nonblocking())?;
    target.wait_writable(nonblocking || to.nonblocking())?;
    if !some {
        return Ok(0);
    }
    let mut done = 0;
    let mut index = 0;
    while done < count {
        let Some(piece) = source.peek_piece(index, count - done) else { break };
        let len = piece.len;
        if target.push_piece(piece).is_err() {
            break;
        }
        source.share_piece(index);
        done += len;
        index += 1;
    }
    Ok(done)
}

/// Copies what a program gives into a pipe, as much as there is room for once there is any.
fn copy_in(pipe: &Pipe, src: &mut dyn Src, nonblocking: bool) -> Result<usize> {
    if src.remaining() == 0 {
        return Ok(0);
    }
    pipe.wait_writable(nonblocking)?;
    let mut buffer = vec![0; PAGE];
    let mut done = 0;
    while pipe.has_room() {
        let want = src.remaining().min(PAGE);
        let got = match src.get(&mut buffer[..want]) {
            Ok(0) => break,
            Ok(got) => got,
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        };
        let Some(page) = Frame::alloc() else { return if done > 0 { Ok(done) } else { Err(Errno::ENOMEM) } };
        page.write(0, &buffer[..got]);
        if pipe.push_piece(Piece { page, start: 0, len: got, mergeable: false, packet: false }).is_err() {
            break;
        }
        done += got;
    }
    Ok(done)
}

/// vmsplice(2). The pages are copied: later stores of the program do not show in the pipe.
pub fn sys_vmsplice(fd: i32, iov: usize, count: usize, flags: u32) -> Result<usize> {
    if flags & !FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let file = current_file(fd)?;
    let pipe = |bytes: usize| if bytes == 0 { Ok(None) } else { pipe_of(&file).map(Some).ok_or(Errno::EBADF) };
    // Only this flag counts, not that of the description.
    let nonblocking = flags & g::SPLICE_F_NONBLOCK != 0;
    if file.writable() {
        let mut src = UserSrc::import(iov, count)?;
        let Some(pipe) = pipe(src.remaining())? else { return Ok(0) };
        if nonblocking && !pipe.is_broken() && !pipe.has_room() {
            return Err(Errno::EAGAIN);
        }
        if pipe.is_broken() {
            return Err(broken_pipe());
        }
        copy_in(&pipe, &mut src, nonblocking)
    } else {
        let mut dst = UserDst::import(iov, count)?;
        let Some(pipe) = pipe(dst.remaining())? else { return Ok(0) };
        if pipe.wait_readable(nonblocking)? { file.ops.read(&file, &mut dst) } else { Ok(0) }
    }
}
