//! File data: whole blocks go straight to their place in the image, short tails to a scratch file.

use std::{fs::File, os::unix::fs::FileExt};

use crate::{
    Limits,
    erofs::format::BLOCK,
    error::{Error, Fault, Limit},
    tar::Segment,
};

/// Bytes that are gathered before a write.
const BUFFER: usize = 1 << 20;

/// Smallest size of a file whose last, partial block is a block of its own, so that all its pages can be mapped. It
/// wastes at most a sixteenth of such a file.
const WHOLE: u64 = 64 << 10;

/// Chunks of one sparse file at most, unless the file is too large for chunks of 2 GiB.
const CHUNKS: u64 = 1 << 16;

/// Where a file's data is.
#[derive(Debug)]
pub(crate) enum Place {
    /// Blocks in a row from `block`; the last partial block is among them, or at `tail` in the scratch file.
    Flat { block: u32, tail: Option<u64> },
    /// A file with holes.
    Chunks(Box<Chunks>),
}

/// Data of a file with holes: chunks of `BLOCK << bits` bytes.
#[derive(Debug)]
pub(crate) struct Chunks {
    pub bits: u8,
    /// Chunks that are data, in rows: the first chunk's number, its block, and how many.
    pub rows: Vec<(u64, u32, u64)>,
}

/// An appending writer at a position of a file.
struct Appender {
    file: File,
    /// Offset of the buffer's first byte.
    start: u64,
    buffer: Vec<u8>,
}

impl Appender {
    fn position(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.file.write_all_at(&self.buffer, self.start).map_err(Error::Write)?;
        self.start += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn write(&mut self, data: &[u8]) -> Result<(), Error> {
        if data.len() >= BUFFER / 8 && is_zero(data) {
            return self.zeros(data.len() as u64);
        }
        if self.buffer.is_empty() && data.len() >= BUFFER / 8 {
            self.file.write_all_at(data, self.start).map_err(Error::Write)?;
            self.start += data.len() as u64;
            return Ok(());
        }
        self.buffer.extend_from_slice(data);
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Zeros; long runs become a hole in the file.
    fn zeros(&mut self, count: u64) -> Result<(), Error> {
        if count < BUFFER as u64 / 8 {
            self.buffer.resize(self.buffer.len() + count as usize, 0);
            return if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) };
        }
        self.flush()?;
        self.start += count;
        Ok(())
    }
}

/// The image's data area and the scratch file.
pub(crate) struct Spool {
    image: Appender,
    tails: Appender,
    /// Bytes of the image that files took, for [`Limits::stored`].
    stored: u64,
    /// Blocks of files that are gone: first block and count.
    dead: Vec<(u32, u32)>,
}

/// A source of one file's data: what is at hand, and how much of it was taken.
pub(crate) trait Data {
    /// At least `least` bytes unless the data ends before.
    fn fill(&mut self, least: usize) -> Result<&[u8], Error>;
    /// Takes bytes that `fill` showed.
    fn consume(&mut self, n: usize);
}

impl<R: std::io::Read> Data for crate::tar::Reader<R> {
    fn fill(&mut self, least: usize) -> Result<&[u8], Error> {
        crate::tar::Reader::fill(self, least)
    }

    fn consume(&mut self, n: usize) {
        crate::tar::Reader::consume(self, n);
    }
}

impl Spool {
    /// Data begins after the superblock's block.
    pub fn new(image: File, scratch: File) -> Spool {
        let appender = |file, start| Appender { file, start, buffer: Vec::with_capacity(BUFFER) };
        Spool { image: appender(image, BLOCK), tails: appender(scratch, 0), stored: 0, dead: Vec::new() }
    }

    /// Takes the data of a file of `size` bytes. `room` is the space beside its inode in a metadata block.
    pub fn store(
        &mut self,
        name: &[u8],
        size: u64,
        room: u64,
        data: &mut impl Data,
        limits: &Limits,
    ) -> Result<Place, Error> {
        self.check(name, size, size, limits)?;
        let block = self.block()?;
        let tail = size % BLOCK;
        let is_elf = size >= 4 && data.fill(4)?.starts_with(b"\x7fELF");
        if tail == 0 || tail > room || size >= WHOLE || is_elf {
            copy(data, &mut self.image, size)?;
            self.align()?;
            return Ok(Place::Flat { block, tail: None });
        }
        copy(data, &mut self.image, size - tail)?;
        let at = self.tails.position();
        copy(data, &mut self.tails, tail)?;
        Ok(Place::Flat { block, tail: Some(at) })
    }

    /// Takes the data of a file with holes; `data` has that of the segments only.
    pub fn store_sparse(
        &mut self,
        name: &[u8],
        size: u64,
        segments: &[Segment],
        data: &mut impl Data,
        limits: &Limits,
    ) -> Result<Place, Error> {
        let mut bits = 0;
        while size.div_ceil(BLOCK << bits) > CHUNKS && bits < 31 {
            bits += 1;
        }
        let chunk = BLOCK << bits;
        let mut rows: Vec<(u64, u32, u64)> = Vec::new();
        // Offset in the file of what is written next, and the end of the last chunk that was begun.
        let (mut at, mut end) = (0u64, 0u64);
        for segment in segments {
            let (mut offset, mut left) = (segment.offset, segment.len);
            while left > 0 {
                if offset >= end {
                    self.image.zeros(end - at)?;
                    let number = offset / chunk;
                    let len = chunk.min(size - number * chunk).next_multiple_of(BLOCK);
                    self.check(name, size, len, limits)?;
                    let block = self.block()?;
                    match rows.last_mut() {
                        Some((first, start, count))
                            if *first + *count == number
                                && u64::from(*start) + (*count << bits) == u64::from(block) =>
                        {
                            *count += 1;
                        }
                        _ => rows.push((number, block, 1)),
                    }
                    (at, end) = (number * chunk, number * chunk + len);
                }
                self.image.zeros(offset - at)?;
                let step = left.min(end - offset);
                copy(data, &mut self.image, step)?;
                offset += step;
                left -= step;
                at = offset;
            }
        }
        self.image.zeros(end - at)?;
        Ok(Place::Chunks(Box::new(Chunks { bits, rows })))
    }

    /// Notes that a file's blocks are not used any more.
    pub fn discard(&mut self, place: &Place, size: u64) {
        let mut add = |block: u32, blocks: u64| {
            let blocks = blocks as u32;
            match self.dead.last_mut() {
                _ if blocks == 0 => {}
                Some((first, count)) if *first + *count == block => *count += blocks,
                _ => self.dead.push((block, blocks)),
            }
        };
        match place {
            Place::Flat { block, tail } => add(*block, flat_blocks(size, tail.is_some())),
            Place::Chunks(chunks) => {
                let all = size.div_ceil(BLOCK);
                for &(first, block, count) in &chunks.rows {
                    add(block, (count << chunks.bits).min(all - (first << chunks.bits)));
                }
            }
        }
    }

    /// Reads data of a file, which must lie inside it; holes are zeros.
    pub fn read(&mut self, place: &Place, size: u64, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        self.flush()?;
        out.fill(0);
        let end = offset + out.len() as u64;
        let mut part = |file: &File, at: u64, from: u64, to: u64| {
            // The bytes `from..to` of the file lie at `at`.
            let (start, stop) = (from.max(offset), to.min(end));
            if start >= stop {
                return Ok(());
            }
            let target = &mut out[(start - offset) as usize..(stop - offset) as usize];
            file.read_exact_at(target, at + (start - from)).map_err(Error::Write)
        };
        match place {
            Place::Flat { block, tail } => {
                let whole = if tail.is_some() { size - size % BLOCK } else { size };
                part(&self.image.file, u64::from(*block) * BLOCK, 0, whole)?;
                match tail {
                    Some(at) => part(&self.tails.file, *at, whole, size),
                    None => Ok(()),
                }
            }
            Place::Chunks(chunks) => {
                let chunk = BLOCK << chunks.bits;
                for &(first, block, count) in &chunks.rows {
                    let to = ((first + count) * chunk).min(size);
                    part(&self.image.file, u64::from(block) * BLOCK, first * chunk, to)?;
                }
                Ok(())
            }
        }
    }

    /// Reads a tail from the scratch file.
    pub fn read_tail(&self, at: u64, out: &mut [u8]) -> Result<(), Error> {
        self.tails.file.read_exact_at(out, at).map_err(Error::Write)
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.image.flush()?;
        self.tails.flush()
    }

    /// The image, and its first free block.
    pub fn image(&self) -> Result<(&File, u32), Error> {
        Ok((&self.image.file, self.block()?))
    }

    /// Gives the room of dead blocks back; they read as zeros.
    pub fn punch_dead(&mut self) -> Result<(), Error> {
        use rustix::fs::{FallocateFlags, fallocate};
        for (block, count) in std::mem::take(&mut self.dead) {
            let (mut at, mut left) = (u64::from(block) * BLOCK, u64::from(count) * BLOCK);
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            if fallocate(&self.image.file, flags, at, left).is_ok() {
                continue;
            }
            // A file system without holes.
            let zeros = [0; 64 << 10];
            while left > 0 {
                let step = left.min(zeros.len() as u64);
                self.image.file.write_all_at(&zeros[..step as usize], at).map_err(Error::Write)?;
                at += step;
                left -= step;
            }
        }
        Ok(())
    }

    /// The block at the current position, which is aligned.
    fn block(&self) -> Result<u32, Error> {
        debug_assert!(self.image.position().is_multiple_of(BLOCK));
        u32::try_from(self.image.position() / BLOCK).map_err(|_| Error::TooLarge("more than 16 TiB of data"))
    }

    fn align(&mut self) -> Result<(), Error> {
        self.image.zeros(self.image.position().wrapping_neg() % BLOCK)
    }

    fn check(&mut self, name: &[u8], size: u64, stored: u64, limits: &Limits) -> Result<(), Error> {
        if size > limits.file {
            return Err(Fault::Limit(Limit::File(limits.file)).of(name));
        }
        self.stored = self.stored.saturating_add(stored);
        if self.stored > limits.stored {
            return Err(Fault::Limit(Limit::Stored(limits.stored)).of(name));
        }
        Ok(())
    }
}

/// Blocks in the data area of a file without holes.
pub(crate) fn flat_blocks(size: u64, has_tail: bool) -> u64 {
    if has_tail { size / BLOCK } else { size.div_ceil(BLOCK) }
}

/// Whether all bytes are zero. Most data differ in the first ones.
fn is_zero(data: &[u8]) -> bool {
    data.chunks(256).all(|part| part.iter().fold(0, |all, byte| all | byte) == 0)
}

/// Copies `count` bytes, all of which `data` has.
fn copy(data: &mut impl Data, to: &mut Appender, count: u64) -> Result<(), Error> {
    let mut left = count;
    while left > 0 {
        let have = data.fill(1)?;
        let step = (have.len() as u64).min(left) as usize;
        if step == 0 {
            return Err(Error::Read(std::io::ErrorKind::UnexpectedEof.into()));
        }
        to.write(&have[..step])?;
        data.consume(step);
        left -= step as u64;
    }
    Ok(())
}
