//! Bytes of streams on their way to the host.

use super::super::super::payload::Output;
use super::super::super::{Errno, Result};
use super::{Send, Socket};
use crate::memory::io::{self, GuestSlice, Position, Wait, total};
use abi::operation::Results;
use rustix::fd::AsFd;

/// Most pieces of guest memory of one call.
const MAX_PIECES: usize = 512;

impl Socket {
    /// [`Self::send_queued`](super::Socket::send_queued) of a stream. The bytes of consecutive operations leave in one call: a program often
    /// sends a head and a body, and each call of the host costs as much as the copy of several pages.
    pub(super) fn send_stream(&mut self, mut done: impl FnMut(u64, bool, Result)) {
        while self.writable && !self.sends.is_empty() {
            if self.joined() > 1 {
                self.send_joined(&mut done);
                continue;
            }
            let Some(mut send) = self.sends.pop_front() else { return };
            match self.try_send(&mut send) {
                Some(outcome) => done(send.id, send.quiet, outcome),
                None => return self.sends.push_front(send),
            }
        }
    }

    /// How many of the next operations leave together: none with an urgent byte, and none without bytes.
    fn joined(&self) -> usize {
        let mut pieces = 0;
        let joins = |send: &&Send| {
            pieces += send.from.len();
            pieces <= MAX_PIECES && !send.urgent && total(&send.from) > 0
        };
        self.sends.iter().take_while(joins).count()
    }

    fn send_joined(&mut self, done: &mut impl FnMut(u64, bool, Result)) {
        let (Some(fd), Some(first)) = (self.fds.first(), self.sends.front()) else { return };
        let mut all: Vec<GuestSlice> = Output::new(&first.from).rest(first.done);
        all.extend(self.sends.iter().take(self.joined()).skip(1).flat_map(|send| send.from.iter().copied()));
        match io::write(fd.as_fd(), &all, Position::Current, Wait::Default) {
            Ok(bytes) => self.took(bytes, done),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => self.writable = false,
            // The next operation meets an error of its own.
            Err(error) => {
                if let Some(send) = self.sends.pop_front() {
                    done(send.id, send.quiet, Err(error));
                }
            }
        }
    }

    /// The host took so many bytes of the first operations.
    fn took(&mut self, mut bytes: usize, done: &mut impl FnMut(u64, bool, Result)) {
        while let Some(mut send) = self.sends.pop_front_if(|_| bytes > 0) {
            let whole = total(&send.from);
            let part = bytes.min(whole.saturating_sub(send.done));
            send.done += part;
            bytes -= part;
            if send.done < whole {
                return self.sends.push_front(send);
            }
            done(send.id, send.quiet, Ok((whole as u64).encode()));
        }
    }
}
