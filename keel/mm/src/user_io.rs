//! Program memory as the destination of reads and the source of writes: one buffer, or an iovec list.

use super::Access;
use super::user::{access_ok, pump, read};
use hal::frame::Frame;
use hal::user as raw;
use smallvec::SmallVec;
use uapi::{Errno, Result};
use vfs::{Dst, Src};

/// Maximum number of segments of a list: UIO_MAXIOV.
pub const IOV_MAX: usize = 1024;
/// Maximum number of bytes of one call; longer transfers are truncated as in Linux.
pub const MAX_RW_COUNT: usize = 0x7fff_f000;

/// Position in a list of the program's buffers.
#[derive(Debug)]
struct Cursor {
    /// The rest of the current buffer.
    addr: usize,
    len: usize,
    /// Remaining bytes of all buffers, including the current one.
    remaining: usize,
    /// Buffers after the current one, the next one last.
    rest: SmallVec<[(usize, usize); 8]>,
}

impl Cursor {
    #[inline]
    fn single(addr: usize, len: usize) -> Result<Self> {
        access_ok(addr, len)?;
        let len = len.min(MAX_RW_COUNT);
        Ok(Self { addr, len, remaining: len, rest: SmallVec::new() })
    }

    /// From a `struct iovec` array.
    fn import(iov: usize, count: usize) -> Result<Self> {
        // Linux uses 32 bits of it.
        let count = count as u32 as usize;
        if count > IOV_MAX {
            return Err(Errno::EINVAL);
        }
        let mut list: SmallVec<[(usize, usize); 8]> = SmallVec::new();
        for i in 0..count {
            let [base, len] = read::<[usize; 2]>(iov.checked_add(i * 16).ok_or(Errno::EFAULT)?)?;
            if len > isize::MAX as usize {
                return Err(Errno::EINVAL);
            }
            list.push((base, len));
        }
        let mut total = 0;
        for (base, len) in &mut list {
            access_ok(*base, *len)?;
            *len = (*len).min(MAX_RW_COUNT - total);
            total += *len;
        }
        list.reverse();
        Ok(Self { addr: 0, len: 0, remaining: total, rest: list })
    }

    /// Moves up to `want` bytes; `step(address, offset, len)` moves some of keel's bytes from `offset` on. EFAULT if
    /// none could be moved.
    #[inline(always)]
    fn transfer(
        &mut self,
        want: usize,
        access: Access,
        mut step: impl FnMut(usize, usize, usize) -> core::result::Result<(), raw::Stopped>,
    ) -> Result<usize> {
        let mut done = 0;
        while done < want {
            if self.len == 0 {
                let Some((addr, len)) = self.rest.pop() else { break };
                (self.addr, self.len) = (addr, len);
                continue;
            }
            let (addr, n) = (self.addr, self.len.min(want - done));
            let moved = pump(n, access, |k| step(addr + k, done + k, n - k));
            self.addr += moved;
            self.len -= moved;
            self.remaining -= moved;
            done += moved;
            if moved < n {
                return if done == 0 { Err(Errno::EFAULT) } else { Ok(done) };
            }
        }
        Ok(done)
    }
}

/// Program memory as the destination of a read.
#[derive(Debug)]
pub struct UserDst(Cursor);

impl UserDst {
    /// One buffer, truncated to [`MAX_RW_COUNT`] bytes. EFAULT if it is not in the user address range.
    #[inline]
    pub fn new(addr: usize, len: usize) -> Result<Self> {
        Cursor::single(addr, len).map(Self)
    }
    /// An array of `count` `struct iovec`s, readv(2). EINVAL: too many or a negative length; EFAULT.
    pub fn import(iov: usize, count: usize) -> Result<Self> {
        Cursor::import(iov, count).map(Self)
    }
}

impl Dst for UserDst {
    #[inline]
    fn remaining(&self) -> usize {
        self.0.remaining
    }
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.transfer(bytes.len(), Access::Write, |addr, at, n| raw::copy_out(addr, &bytes[at..at + n]))
    }
    #[inline]
    fn put_frame(&mut self, frame: &Frame, offset: usize, len: usize) -> Result<usize> {
        self.0.transfer(len, Access::Write, |addr, at, n| raw::copy_frame_out(addr, frame, offset + at, n))
    }
    fn put_zeros(&mut self, len: usize) -> Result<usize> {
        self.0.transfer(len, Access::Write, |addr, _, n| raw::clear(addr, n))
    }
}

/// Program memory as the source of a write.
#[derive(Debug)]
pub struct UserSrc(Cursor);

impl UserSrc {
    /// One buffer, truncated to [`MAX_RW_COUNT`] bytes. EFAULT if it is not in the user address range.
    #[inline]
    pub fn new(addr: usize, len: usize) -> Result<Self> {
        Cursor::single(addr, len).map(Self)
    }
    /// An array of `count` `struct iovec`s, writev(2). EINVAL: too many or a negative length; EFAULT.
    pub fn import(iov: usize, count: usize) -> Result<Self> {
        Cursor::import(iov, count).map(Self)
    }
}

impl Src for UserSrc {
    #[inline]
    fn remaining(&self) -> usize {
        self.0.remaining
    }
    #[inline]
    fn get(&mut self, bytes: &mut [u8]) -> Result<usize> {
        self.0.transfer(bytes.len(), Access::Read, |addr, at, n| raw::copy_in(&mut bytes[at..at + n], addr))
    }
    #[inline]
    fn get_frame(&mut self, frame: &Frame, offset: usize, len: usize) -> Result<usize> {
        self.0.transfer(len, Access::Read, |addr, at, n| raw::copy_frame_in(frame, offset + at, addr, n))
    }
}
