//! Destinations of reads and sources of writes: program memory or keel's own.

use hal::frame::{FRAME_SIZE, Frame};
use uapi::{Errno, Result};

/// Takes the bytes of a read.
///
/// A call may touch program memory, fault, block and run other threads: the caller holds no
/// `RefCell` borrow. A short count means that the destination is full or, after some bytes, bad;
/// EFAULT that not one byte could be stored.
pub trait Dst {
    /// Room left in bytes.
    fn remaining(&self) -> usize;
    /// Stores bytes of keel's memory.
    fn put(&mut self, bytes: &[u8]) -> Result<usize>;
    /// Stores bytes of a frame.
    fn put_frame(&mut self, frame: &Frame, offset: usize, len: usize) -> Result<usize>;
    /// Stores zeros.
    fn put_zeros(&mut self, len: usize) -> Result<usize>;

    /// Stores all bytes, for which there must be room. EFAULT: only a part could be stored.
    fn put_all(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() || self.put(bytes)? == bytes.len() { Ok(()) } else { Err(Errno::EFAULT) }
    }
}

/// Gives the bytes of a write; the rules of [`Dst`] hold.
pub trait Src {
    /// Bytes left.
    fn remaining(&self) -> usize;
    /// Fetches bytes into keel's memory.
    fn get(&mut self, bytes: &mut [u8]) -> Result<usize>;
    /// Fetches bytes into a frame.
    fn get_frame(&mut self, frame: &Frame, offset: usize, len: usize) -> Result<usize>;
    /// Passes a frame on that begins with the next bytes, at most `most`, and how many these are; `None` if the source has none to spare.
    fn take_frame(&mut self, _most: usize) -> Option<(Frame, usize)> {
        None
    }
}

/// Bytes of a file that lie in one page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The page's number.
    pub page: u64,
    /// Where they start in the page.
    pub in_page: usize,
    /// How many they are.
    pub len: usize,
}

/// Reads content page by page from `offset` until `size`: `store` stores a part and returns how much it stored. Less than
/// the part ends the read; an error ends it, and is its result if nothing was stored before.
#[inline]
pub(crate) fn read_parts(
    offset: u64,
    size: u64,
    dst: &mut dyn Dst,
    mut store: impl FnMut(Part, &mut dyn Dst) -> Result<usize>,
) -> Result<usize> {
    const PAGE: u64 = FRAME_SIZE as u64;
    let (mut at, mut done) = (offset, 0);
    while at < size && dst.remaining() > 0 {
        let in_page = (at % PAGE) as usize;
        let len = (FRAME_SIZE - in_page).min(dst.remaining()).min((size - at) as usize);
        match store(Part { page: at / PAGE, in_page, len }, dst) {
            Ok(stored) => {
                at += stored as u64;
                done += stored;
                if stored < len {
                    break;
                }
            }
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// A destination in keel's memory.
#[derive(Debug)]
pub struct KernelDst<'a>(pub &'a mut [u8]);

impl Dst for KernelDst<'_> {
    fn remaining(&self) -> usize {
        self.0.len()
    }
    fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        let n = bytes.len().min(self.0.len());
        let (head, tail) = core::mem::take(&mut self.0).split_at_mut(n);
        head.copy_from_slice(&bytes[..n]);
        self.0 = tail;
        Ok(n)
    }
    fn put_frame(&mut self, frame: &Frame, offset: usize, len: usize) -> Result<usize> {
        let n = len.min(self.0.len());
        let (head, tail) = core::mem::take(&mut self.0).split_at_mut(n);
        frame.read(offset, head);
        self.0 = tail;
        Ok(n)
    }
    fn put_zeros(&mut self, len: usize) -> Result<usize> {
        let n = len.min(self.0.len());
        let (head, tail) = core::mem::take(&mut self.0).split_at_mut(n);
        head.fill(0);
        self.0 = tail;
        Ok(n)
    }
}

/// A source in keel's memory.
#[derive(Debug)]
pub struct KernelSrc<'a>(pub &'a [u8]);

impl Src for KernelSrc<'_> {
    fn remaining(&self) -> usize {
        self.0.len()
    }
    fn get(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let n = bytes.len().min(self.0.len());
        let (head, tail) = self.0.split_at(n);
        bytes[..n].copy_from_slice(head);
        self.0 = tail;
        Ok(n)
    }
    fn get_frame(&mut self, frame: &Frame, offset: usize, len: usize) -> Result<usize> {
        let n = len.min(self.0.len());
        let (head, tail) = self.0.split_at(n);
        frame.write(offset, head);
        self.0 = tail;
        Ok(n)
    }
}
