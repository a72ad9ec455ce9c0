//! Bytes in frames of their own, between a read and a write: the target may keep the frames, so that it copies nothing.

use super::{Dst, Src};
use alloc::collections::VecDeque;
use hal::frame::{FRAME_SIZE, Frame};
use uapi::{Errno, Result};

/// Bytes that are copied at a time where neither side begins at the start of a frame.
const PART: usize = 512;

/// Frames that are filled as a [`Dst`], and then emptied as a [`Src`].
#[derive(Debug)]
pub struct Frames {
    frames: VecDeque<Frame>,
    /// Where the next byte to take is in the first frame.
    start: usize,
    /// Bytes inside, from there on.
    len: usize,
    /// Bytes that may still be stored.
    room: usize,
}

impl Frames {
    /// Room for so many bytes. ENOMEM.
    pub fn new(bytes: usize) -> Result<Self> {
        let count = bytes.div_ceil(FRAME_SIZE);
        let mut frames = VecDeque::new();
        frames.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
        for _ in 0..count {
            frames.push_back(Frame::alloc().ok_or(Errno::ENOMEM)?);
        }
        Ok(Self { frames, start: 0, len: 0, room: bytes })
    }

    /// Bytes inside.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Calls `store` with each frame for the next bytes, where they begin in it, and which of `bytes` these are.
    fn fill(&mut self, bytes: usize, mut store: impl FnMut(&Frame, usize, core::ops::Range<usize>)) -> usize {
        let bytes = bytes.min(self.room);
        let mut done = 0;
        while done < bytes {
            let at = self.start + self.len;
            let Some(frame) = self.frames.get(at / FRAME_SIZE) else { break };
            let part = (FRAME_SIZE - at % FRAME_SIZE).min(bytes - done);
            store(frame, at % FRAME_SIZE, done..done + part);
            done += part;
            self.len += part;
            self.room -= part;
        }
        done
    }

    /// Calls `take` with each frame of the next bytes, where they begin in it, and which of `bytes` these are.
    fn drain(&mut self, bytes: usize, mut take: impl FnMut(&Frame, usize, core::ops::Range<usize>)) -> usize {
        let bytes = bytes.min(self.len);
        let mut done = 0;
        while done < bytes {
            let Some(frame) = self.frames.front() else { break };
            let part = (FRAME_SIZE - self.start).min(bytes - done);
            take(frame, self.start, done..done + part);
            done += part;
            self.len -= part;
            self.start += part;
            if self.start == FRAME_SIZE {
                self.start = 0;
                self.frames.pop_front();
            }
        }
        done
    }
}

/// Copies bytes of a frame to another one.
fn copy(from: &Frame, from_at: usize, to: &Frame, to_at: usize, len: usize) {
    if from_at == 0 && to_at == 0 && len == FRAME_SIZE {
        return to.copy_from(from);
    }
    let mut part = [0; PART];
    for at in (0..len).step_by(PART) {
        let part = &mut part[..PART.min(len - at)];
        from.read(from_at + at, part);
        to.write(to_at + at, part);
    }
}

impl Dst for Frames {
    fn remaining(&self) -> usize {
        self.room
    }
    fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        Ok(self.fill(bytes.len(), |frame, at, part| frame.write(at, &bytes[part])))
    }
    fn put_frame(&mut self, from: &Frame, offset: usize, len: usize) -> Result<usize> {
        Ok(self.fill(len, |frame, at, part| copy(from, offset + part.start, frame, at, part.len())))
    }
    fn put_zeros(&mut self, len: usize) -> Result<usize> {
        Ok(self.fill(len, |frame, at, part| frame.zero(at, part.len())))
    }
}

impl Src for Frames {
    fn remaining(&self) -> usize {
        self.len
    }
    fn get(&mut self, bytes: &mut [u8]) -> Result<usize> {
        Ok(self.drain(bytes.len(), |frame, at, part| frame.read(at, &mut bytes[part])))
    }
    fn get_frame(&mut self, to: &Frame, offset: usize, len: usize) -> Result<usize> {
        Ok(self.drain(len, |frame, at, part| copy(frame, at, to, offset + part.start, part.len())))
    }
    fn take_frame(&mut self, most: usize) -> Option<(Frame, usize)> {
        let len = self.len.min(FRAME_SIZE);
        if self.start > 0 || len == 0 || len > most {
            return None;
        }
        self.len -= len;
        self.frames.pop_front().map(|frame| (frame, len))
    }
}

#[cfg(test)]
mod tests;
