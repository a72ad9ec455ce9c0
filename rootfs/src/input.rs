//! A buffered source that counts its position.

use std::io::{self, Read};

const BUFFER: usize = 256 << 10;

/// Buffered input: [`fill`](Input::fill) shows bytes, [`consume`](Input::consume) takes them.
pub(crate) struct Input<R> {
    source: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes consumed so far.
    pub position: u64,
}

impl<R: Read> Input<R> {
    pub fn new(source: R) -> Self {
        Input { source, buffer: vec![0; BUFFER].into(), start: 0, end: 0, position: 0 }
    }

    /// The bytes that are next: at least `least` (at most [`BUFFER`]), fewer only at the end.
    pub fn fill(&mut self, least: usize) -> io::Result<&[u8]> {
        if self.end - self.start < least && self.buffer.len() - self.start < least {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < least {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Takes `n` of the bytes that [`fill`](Self::fill) showed.
    pub fn consume(&mut self, n: usize) {
        self.start += n;
        self.position += n as u64;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Skips up to `n` bytes; returns how many there were.
    pub fn skip(&mut self, n: u64) -> io::Result<u64> {
        let mut left = n;
        while left > 0 {
            let have = self.fill(1)?.len();
            if have == 0 {
                break;
            }
            let step = (have as u64).min(left);
            self.consume(step as usize);
            left -= step;
        }
        Ok(n - left)
    }
}
