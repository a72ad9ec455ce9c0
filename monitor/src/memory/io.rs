//! Guest memory as the source and target of copies and of host reads and writes.
//!
//! The guest may change its memory at any moment. So there are no Rust references to it: bytes are copied in or out
//! through raw pointers, or the kernel moves them (`preadv2`, `pwritev2`).
#![allow(unsafe_code)]

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::{Errno, Result};

/// A piece of guest memory in the monitor's address space.
#[derive(Clone, Copy, Debug)]
pub struct GuestSlice {
    ptr: *mut u8,
    len: usize,
    copyable: bool,
}

// SAFETY: a `GuestSlice` is an address and a length; the caller of its constructor guaranteed that the range is valid
// in the whole process for as long as the slice is used, on any thread.
unsafe impl Send for GuestSlice {}
// SAFETY: as above; all access goes through raw pointers, none of it forms a reference.
unsafe impl Sync for GuestSlice {}

impl GuestSlice {
    /// Guest RAM: anonymous memory that the monitor itself may read and write.
    ///
    /// # Safety
    /// `ptr .. ptr + len` must stay mapped readable and writable, not backed by a file that others can truncate, and
    /// unused by any Rust reference, for as long as the slice or a copy of it is used.
    pub unsafe fn ram(ptr: *mut u8, len: usize) -> Self {
        Self { ptr, len, copyable: true }
    }

    /// Window memory: pages of host files, of which some may be missing or read-only. Only the kernel
    /// may move bytes there (it answers EFAULT); a copy by the monitor would raise SIGBUS.
    ///
    /// # Safety
    /// `ptr .. ptr + len` must belong to the monitor's mapping of the window (whatever is mapped there at
    /// the moment) for as long as the slice or a copy of it is used, so that the kernel can't write
    /// into unrelated memory.
    pub unsafe fn window(ptr: *mut u8, len: usize) -> Self {
        Self { ptr, len, copyable: false }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// No bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The part from `start`, of at most `len` bytes; empty if `start` is past the end.
    pub fn part(&self, start: usize, len: usize) -> Self {
        let start = start.min(self.len);
        // SAFETY: start <= self.len, so the result points into the slice or one past its end.
        Self { ptr: unsafe { self.ptr.add(start) }, len: len.min(self.len - start), copyable: self.copyable }
    }

    /// Copies the first `to.len()` bytes out of guest memory; EFAULT if there are fewer or if they
    /// lie in the window.
    pub fn read(&self, to: &mut [u8]) -> Result<()> {
        if !self.copyable || to.len() > self.len {
            return Err(Errno::FAULT);
        }
        // SAFETY: the range is mapped (`ram`) and within the slice; `to` is exclusively borrowed. The guest may write
        // at the same time: the bytes are then arbitrary, which every reader must expect anyway.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies `from` to the start of the slice; EFAULT if it is shorter or lies in the window.
    pub fn write(&self, from: &[u8]) -> Result<()> {
        if !self.copyable || from.len() > self.len {
            return Err(Errno::FAULT);
        }
        // SAFETY: the range is mapped (`ram`) and within the slice, and no Rust object lives there.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.ptr, from.len()) };
        Ok(())
    }
}

/// Total bytes of a list; saturates.
pub fn total(slices: &[GuestSlice]) -> usize {
    slices.iter().fold(0, |sum, slice| sum.saturating_add(slice.len))
}

/// Maximum number of segments of one system call (`UIO_MAXIOV`).
const MAX_PIECES: usize = 1024;

/// File position of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Transfer at this offset, without the file position.
    At(i64),
    /// Use and advance the file position.
    Current,
    /// Append; the file position is then the end of the written bytes.
    Append,
}

/// Blocking behaviour of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// As the descriptor's flags say.
    Default,
    /// EAGAIN instead of blocking; EOPNOTSUPP if the file does not support RWF_NOWAIT.
    Never,
}

fn vectors(slices: &[GuestSlice]) -> Vec<libc::iovec> {
    let piece = |slice: &GuestSlice| libc::iovec { iov_base: slice.ptr.cast(), iov_len: slice.len };
    slices.iter().filter(|slice| slice.len > 0).take(MAX_PIECES).map(piece).collect()
}

/// Moves bytes between a file and guest memory; EINTR is retried only if nothing was moved.
fn transfer(fd: BorrowedFd<'_>, slices: &[GuestSlice], position: Position, wait: Wait, write: bool) -> Result<usize> {
    let list = vectors(slices);
    let (offset, mut flags) = match position {
        Position::At(offset) => (offset, 0),
        Position::Current => (-1, 0),
        Position::Append => (-1, libc::RWF_APPEND),
    };
    if wait == Wait::Never {
        flags |= libc::RWF_NOWAIT;
    }
    loop {
        // SAFETY: each iovec covers the memory of a `GuestSlice`, which is valid; the list outlives the call.
        let moved = unsafe {
            let (fd, count) = (fd.as_raw_fd(), list.len() as libc::c_int);
            if write {
                libc::pwritev2(fd, list.as_ptr(), count, offset, flags)
            } else {
                libc::preadv2(fd, list.as_ptr(), count, offset, flags)
            }
        };
        if moved >= 0 {
            return Ok(moved as usize);
        }
        let error = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        if error != libc::EINTR || wait == Wait::Never {
            return Err(Errno::from_raw_os_error(error));
        }
    }
}

/// Reads from a file into guest memory; returns the number of bytes.
pub fn read(fd: BorrowedFd<'_>, into: &[GuestSlice], position: Position, wait: Wait) -> Result<usize> {
    transfer(fd, into, position, wait, false)
}

/// Writes guest memory to a file; returns the number of bytes.
pub fn write(fd: BorrowedFd<'_>, from: &[GuestSlice], position: Position, wait: Wait) -> Result<usize> {
    transfer(fd, from, position, wait, true)
}
