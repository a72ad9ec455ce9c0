//! Datagrams to send. They are queued until the end of a pass over the ring, so that those of one length leave together: the host's kernel
//! splits what one call sends (`UDP_SEGMENT`).

use super::super::super::payload::Output;
use super::super::super::{Errno, Result};
use super::super::options;
use super::{Send, Socket};
use crate::memory::io::{self, GuestSlice, Position, Wait, total};
use abi::operation::Results;
use abi::request::Outgoing;
use rustix::fd::AsFd;

/// Most datagrams that leave together; the limit of older kernels.
const MAX_RUN: usize = 64;
/// Most bytes of them, less than the longest datagram.
const MAX_BYTES: usize = 64_000;
/// Longest datagram of several, so that none needs to be fragmented on usual networks.
const MAX_EACH: usize = 1_400;
/// Most pieces of guest memory of them.
const MAX_PIECES: usize = 512;

/// How the host's kernel splits what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segments {
    /// Not at all.
    Whole,
    /// Into pieces of so many bytes.
    Of(usize),
    /// It can't.
    Never,
}

impl Socket {
    /// [`Self::send_queued`] of datagrams.
    pub(super) fn send_datagrams(&mut self, mut done: impl FnMut(u64, bool, Result)) {
        while self.writable && !self.sends.is_empty() {
            let run = self.run();
            self.prepare();
            if run > 1 && self.send_run(run, &mut done) {
                continue;
            }
            for _ in 0..run {
                let Some(mut send) = self.sends.pop_front() else { return };
                let segment = usize::from(send.outgoing.segment);
                let sent = if segment != 0 && total(&send.from) > segment {
                    self.try_send_segments(&mut send, segment)
                } else {
                    self.allow(total(&send.from));
                    self.try_send(&mut send)
                };
                match sent {
                    Some(outcome) => done(send.id, send.quiet, outcome),
                    None => return self.sends.push_front(send),
                }
            }
        }
    }

    /// How many datagrams of one length come next.
    fn run(&self) -> usize {
        let Some(first) = self.sends.front() else { return 0 };
        let len = total(&first.from);
        let outgoing = first.outgoing;
        if self.segments == Segments::Never
            || !(1..=MAX_EACH).contains(&len)
            || outgoing.segment != 0
            || outgoing.unchecked
        {
            return 1;
        }
        let mut pieces = 0;
        let fits = |send: &&Send| {
            pieces += send.from.len();
            pieces <= MAX_PIECES && total(&send.from) == len && send.outgoing == outgoing
        };
        self.sends.iter().take(MAX_RUN.min(MAX_BYTES / len)).take_while(fits).count().max(1)
    }

    /// Sends so many of one length in one call. Returns false if they must be sent one by one.
    fn send_run(&mut self, run: usize, done: &mut impl FnMut(u64, bool, Result)) -> bool {
        let Some(len) = self.sends.front().map(|send| total(&send.from)) else { return false };
        if self.segments != Segments::Of(len) && !self.set_segments(Segments::Of(len)) {
            self.segments = Segments::Never;
            return false;
        }
        let Some(fd) = self.fds.first() else { return false };
        let all: Vec<GuestSlice> = self.sends.iter().take(run).flat_map(|send| send.from.iter().copied()).collect();
        match io::write(fd.as_fd(), &all, Position::Current, Wait::Default) {
            Ok(_) => self.sends.drain(..run).for_each(|send| done(send.id, send.quiet, Ok((len as u64).encode()))),
            Err(Errno::AGAIN) => self.writable = false,
            // One of them lies in memory that is gone.
            Err(Errno::FAULT) => return false,
            // The device or the kernel can't.
            Err(Errno::INVAL | Errno::IO | Errno::MSGSIZE | Errno::NOBUFS | Errno::NOMEM | Errno::OPNOTSUPP) => {
                self.set_segments(Segments::Whole);
                self.segments = Segments::Never;
                return false;
            }
            // An earlier datagram's error, which one call reports.
            Err(error) => {
                if let Some(send) = self.sends.pop_front() {
                    done(send.id, send.quiet, Err(error));
                }
            }
        }
        true
    }

    /// The first datagram leaves with its hops and class.
    fn prepare(&mut self) {
        let (Some(first), Some(fd)) = (self.sends.front(), self.fds.first()) else { return };
        let Outgoing { hops, class, unchecked, .. } = first.outgoing;
        // Ignore errors: a socket that is not one of IP has neither.
        if self.leaves.hops != hops {
            let _ = options::set_hops(fd.as_fd(), hops);
        }
        if self.leaves.class != class {
            let _ = options::set_class(fd.as_fd(), class);
        }
        if self.leaves.unchecked != unchecked {
            let _ = options::set_unchecked(fd.as_fd(), unchecked);
        }
        self.leaves = first.outgoing;
        if unchecked {
            // The kernel splits none of these, and refuses to be told to.
            self.allow(usize::MAX);
        }
    }

    /// Sends what is to leave as several datagrams: in one call, or one by one if the host can't.
    fn try_send_segments(&mut self, send: &mut Send, segment: usize) -> Option<Result> {
        let whole = total(&send.from);
        let can = self.segments == Segments::Of(segment)
            || self.segments != Segments::Never && self.set_segments(Segments::Of(segment));
        if can && send.done == 0 {
            match self.try_send(send) {
                Some(Err(Errno::INVAL | Errno::IO | Errno::MSGSIZE | Errno::OPNOTSUPP)) => {}
                other => return other,
            }
        }
        self.allow(usize::MAX);
        let fd = self.fds.first()?;
        while self.writable && send.done < whole {
            let mut left = segment.min(whole - send.done);
            let rest = Output::new(&send.from).rest(send.done);
            let part = rest.iter().map(|slice| {
                let part = slice.part(0, left);
                left -= part.len();
                part
            });
            let part: Vec<GuestSlice> = part.filter(|part| !part.is_empty()).collect();
            match io::write(fd.as_fd(), &part, Position::Current, Wait::Default) {
                Ok(0) => return Some(Err(Errno::IO)),
                Ok(bytes) => send.done += bytes,
                Err(Errno::AGAIN) => self.writable = false,
                Err(error) => return Some(Err(error)),
            }
        }
        (send.done >= whole).then(|| Ok((whole as u64).encode()))
    }

    /// Makes sure that a datagram of `len` bytes is sent as one.
    fn allow(&mut self, len: usize) {
        if matches!(self.segments, Segments::Of(most) if len > most) {
            self.set_segments(Segments::Whole);
        }
    }

    fn set_segments(&mut self, segments: Segments) -> bool {
        let len = if let Segments::Of(len) = segments { len as i32 } else { 0 };
        let set = self.fds.first().is_some_and(|fd| options::set_segment(fd.as_fd(), len).is_ok());
        if set {
            self.segments = segments;
        }
        set
    }
}
