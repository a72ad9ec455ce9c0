//! Operations that wait for a stream.

use super::super::payload::Output;
use super::super::{Errno, Reply, Result};
use super::stream::Stream;
use crate::memory::io::{GuestSlice, total};
use abi::ring::MAX_SEGMENTS;
use rustix::event::PollFlags;

/// What an operation does.
#[derive(Debug)]
pub enum Work {
    /// Read into this memory.
    Read(Vec<GuestSlice>),
    /// Write this memory; so many bytes are out already.
    Write(Vec<GuestSlice>, usize),
    /// Wait for these events.
    Poll(PollFlags),
}

impl Work {
    /// A read into guest memory.
    pub fn read(into: &[GuestSlice]) -> Result<Self> {
        Self::check(into)?;
        Ok(Self::Read(into.to_vec()))
    }

    /// A write of guest memory.
    pub fn write(from: &[GuestSlice]) -> Result<Self> {
        Self::check(from)?;
        Ok(Self::Write(from.to_vec(), 0))
    }

    /// A wait for events in the encoding of poll(2).
    pub fn poll(events: u64) -> Result<Self> {
        let events = u16::try_from(events).map_err(|_| Errno::INVAL)?;
        Ok(Self::Poll(PollFlags::from_bits_retain(events)))
    }

    fn check(slices: &[GuestSlice]) -> Result<()> {
        if slices.len() > MAX_SEGMENTS { Err(Errno::INVAL) } else { Ok(()) }
    }

    /// What to wait for.
    pub fn events(&self) -> PollFlags {
        match self {
            Work::Read(_) => PollFlags::IN,
            Work::Write(..) => PollFlags::OUT,
            Work::Poll(events) => *events,
        }
    }
}

/// An operation on a stream.
#[derive(Debug)]
pub struct Pending {
    /// Id of the request.
    pub id: u64,
    /// Number of the stream.
    pub stream: usize,
    /// What it does.
    pub work: Work,
}

impl Pending {
    /// Whether this one, being older, must finish before `other` may start: transfers on one stream in
    /// one direction keep their order.
    pub fn precedes(&self, other: &Self) -> bool {
        let same =
            matches!((&self.work, &other.work), (Work::Read(_), Work::Read(_)) | (Work::Write(..), Work::Write(..)));
        same && self.stream == other.stream
    }

    /// Does what is possible now; `None` if the operation has to wait further.
    pub fn advance(&mut self, stream: &Stream) -> Option<Result> {
        match &mut self.work {
            Work::Read(into) => match stream.read(into) {
                Err(Errno::AGAIN) => None,
                other => Some(other.map(|bytes| Reply::of(bytes as u64))),
            },
            Work::Write(from, done) => loop {
                let left = Output::new(from).rest(*done);
                if left.is_empty() && total(from) > 0 {
                    return Some(Ok(Reply::of(*done as u64)));
                }
                match stream.write(&left) {
                    Ok(0) => return Some(Ok(Reply::of(*done as u64))),
                    Ok(bytes) => *done += bytes,
                    Err(Errno::AGAIN) => return None,
                    Err(_) if *done > 0 => return Some(Ok(Reply::of(*done as u64))),
                    Err(error) => return Some(Err(error)),
                }
            },
            Work::Poll(events) => match stream.poll(*events) {
                Ok(held) if held.is_empty() => None,
                other => Some(other.map(|held| Reply::of(held.bits().into()))),
            },
        }
    }

    /// Ends the operation early: with `error`, or with what it has done so far.
    pub fn give_up(self, error: Errno) -> Result {
        match self.work {
            Work::Write(_, done) if done > 0 => Ok(Reply::of(done as u64)),
            // Asked without waiting: no event holds.
            Work::Poll(_) if error == Errno::AGAIN => Ok(Reply::default()),
            _ => Err(error),
        }
    }
}
