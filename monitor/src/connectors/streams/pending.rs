//! Pending operations on streams.

use super::super::payload::Output;
use super::super::{Errno, Result};
use super::stream::Stream;
use crate::memory::io::{GuestSlice, Position, total};
use abi::request::StreamPosition;
use abi::ring::MAX_SEGMENTS;
use rustix::event::PollFlags;

/// Kind of operation.
#[derive(Debug)]
pub enum Work {
    /// Read into this memory.
    Read(Vec<GuestSlice>, Position),
    /// Write this memory; the number of bytes written so far.
    Write(Vec<GuestSlice>, usize, Position),
    /// Wait for these events.
    Poll(PollFlags),
}

impl Work {
    /// A read into guest memory.
    pub fn read(into: &[GuestSlice], position: StreamPosition) -> Result<Self> {
        Self::check(into)?;
        match place(position)? {
            Position::Append => Err(Errno::INVAL),
            position => Ok(Self::Read(into.to_vec(), position)),
        }
    }

    /// A write of guest memory.
    pub fn write(from: &[GuestSlice], position: StreamPosition) -> Result<Self> {
        Self::check(from)?;
        Ok(Self::Write(from.to_vec(), 0, place(position)?))
    }

    /// A wait for events in the encoding of poll(2).
    pub fn poll(events: u16) -> Self {
        Self::Poll(PollFlags::from_bits_retain(events))
    }

    fn check(slices: &[GuestSlice]) -> Result<()> {
        if slices.len() > MAX_SEGMENTS { Err(Errno::INVAL) } else { Ok(()) }
    }

    /// Start position in the stream.
    pub fn position(&self) -> Position {
        match self {
            Work::Read(_, position) | Work::Write(_, _, position) => *position,
            Work::Poll(_) => Position::Current,
        }
    }

    /// Events to wait for.
    pub fn events(&self) -> PollFlags {
        match self {
            Work::Read(..) => PollFlags::IN,
            Work::Write(..) => PollFlags::OUT,
            Work::Poll(events) => *events,
        }
    }
}

/// Converts a position of the guest; EINVAL if it is out of range.
fn place(position: StreamPosition) -> Result<Position> {
    match position {
        StreamPosition::Current => Ok(Position::Current),
        StreamPosition::Append => Ok(Position::Append),
        StreamPosition::At(offset) => i64::try_from(offset).map(Position::At).map_err(|_| Errno::INVAL),
    }
}

/// An operation on a stream.
#[derive(Debug)]
pub struct Pending {
    /// Id of the request.
    pub id: u64,
    /// Number of the stream.
    pub stream: usize,
    /// The operation.
    pub work: Work,
}

impl Pending {
    /// Whether this older operation must complete before `other` may start: transfers on one stream in one direction
    /// keep their order.
    pub fn precedes(&self, other: &Self) -> bool {
        let same =
            matches!((&self.work, &other.work), (Work::Read(..), Work::Read(..)) | (Work::Write(..), Work::Write(..)));
        same && self.stream == other.stream
    }

    /// Advances without blocking; `None` if the operation is still pending.
    pub fn advance(&mut self, stream: &Stream) -> Option<Result<u64>> {
        match &mut self.work {
            Work::Read(into, position) => match stream.read(into, *position) {
                Err(Errno::AGAIN) => None,
                other => Some(other.map(|bytes| bytes as u64)),
            },
            Work::Write(from, done, position) => loop {
                let left = Output::new(from).rest(*done);
                if left.is_empty() && total(from) > 0 {
                    return Some(Ok(*done as u64));
                }
                let position = match *position {
                    Position::At(start) => Position::At(start.saturating_add_unsigned(*done as u64)),
                    other => other,
                };
                match stream.write(&left, position) {
                    Ok(0) => return Some(Ok(*done as u64)),
                    Ok(bytes) => *done += bytes,
                    Err(Errno::AGAIN) => return None,
                    Err(_) if *done > 0 => return Some(Ok(*done as u64)),
                    Err(error) => return Some(Err(error)),
                }
            },
            Work::Poll(events) => match stream.poll(*events) {
                Ok(held) if held.is_empty() => None,
                other => Some(other.map(|held| held.bits().into())),
            },
        }
    }

    /// Ends the operation early: with the bytes transferred so far, or with `error`.
    pub fn give_up(self, error: Errno) -> Result<u64> {
        match self.work {
            Work::Write(_, done, _) if done > 0 => Ok(done as u64),
            // Non-blocking: no event holds.
            Work::Poll(_) if error == Errno::AGAIN => Ok(0),
            _ => Err(error),
        }
    }
}
