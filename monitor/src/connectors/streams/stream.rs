//! One standard stream, and non-blocking transfers on it.

use super::super::{Errno, Result};
use super::pending::Work;
use crate::memory::io::{self, GuestSlice, Position, Wait};
use abi::boot::StreamKind;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::FileType;
use std::sync::Arc;

/// Bytes that a write to a pipe accepts without blocking after POLLOUT (`PIPE_BUF`).
const PIPE_CHUNK: usize = 4096;
/// The same for a terminal, where POLLOUT means only that there is some room.
const TERMINAL_CHUNK: usize = 256;
/// Maximum bytes of one transfer, to bound the delay of other streams.
const CHUNK: usize = 1 << 20;

/// A descriptor of the user.
#[derive(Debug)]
pub struct Stream {
    /// The descriptor.
    pub fd: Arc<OwnedFd>,
    /// Its kind.
    pub kind: StreamKind,
}

impl Stream {
    /// Detects the kind of `fd`.
    pub fn new(fd: OwnedFd) -> Self {
        let kind = match rustix::fs::fstat(&fd).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::RegularFile | FileType::Directory | FileType::BlockDevice) => StreamKind::File,
            Ok(FileType::CharacterDevice) if rustix::termios::isatty(&fd) => StreamKind::Terminal,
            Ok(FileType::CharacterDevice) => StreamKind::Device,
            _ => StreamKind::Pipe,
        };
        Self { fd: Arc::new(fd), kind }
    }

    /// Whether the stream supports the operation: only files have positions.
    pub fn takes(&self, work: &Work) -> bool {
        self.kind == StreamKind::File || work.position() == Position::Current
    }

    /// Which of `events` hold now, and POLLERR, POLLHUP, POLLNVAL.
    pub fn poll(&self, events: PollFlags) -> Result<PollFlags> {
        let mut fds = [PollFd::from_borrowed_fd(self.fd.as_fd(), events)];
        loop {
            match rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
                Ok(_) => return Ok(fds[0].revents()),
            }
        }
    }

    /// Reads available bytes: EAGAIN if there are none, 0 at the end.
    pub fn read(&self, into: &[GuestSlice], position: Position) -> Result<usize> {
        let fd = self.fd.as_fd();
        if self.kind == StreamKind::File {
            return io::read(fd, into, position, Wait::Default);
        }
        if self.poll(PollFlags::IN)?.is_empty() {
            return Err(Errno::AGAIN);
        }
        // Another reader of the same pipe may be faster: only RWF_NOWAIT avoids blocking then.
        if self.kind == StreamKind::Pipe {
            match io::read(fd, into, Position::Current, Wait::Never) {
                Err(Errno::OPNOTSUPP) => {}
                Err(Errno::INTR) => return Err(Errno::AGAIN),
                other => return other,
            }
        }
        io::read(fd, into, Position::Current, Wait::Default)
    }

    /// Writes as much of `from` as possible without blocking: EAGAIN if nothing.
    pub fn write(&self, from: &[GuestSlice], position: Position) -> Result<usize> {
        let fd = self.fd.as_fd();
        if self.kind == StreamKind::File {
            return io::write(fd, &head(from, CHUNK), position, Wait::Default);
        }
        if self.poll(PollFlags::OUT)?.is_empty() {
            return Err(Errno::AGAIN);
        }
        let chunk = match self.kind {
            StreamKind::Pipe => match io::write(fd, &head(from, CHUNK), Position::Current, Wait::Never) {
                Err(Errno::OPNOTSUPP) => PIPE_CHUNK,
                Err(Errno::INTR) => return Err(Errno::AGAIN),
                other => return other,
            },
            StreamKind::Terminal => TERMINAL_CHUNK,
            _ => CHUNK,
        };
        io::write(fd, &head(from, chunk), Position::Current, Wait::Default)
    }
}

/// The first `len` bytes of a list.
fn head(list: &[GuestSlice], mut len: usize) -> Vec<GuestSlice> {
    let mut head = Vec::new();
    for slice in list {
        let part = slice.part(0, len);
        if len == 0 {
            break;
        }
        len -= part.len();
        head.push(part);
    }
    head
}
