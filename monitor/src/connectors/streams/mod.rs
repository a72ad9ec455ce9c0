//! The standard streams connector: the three descriptors that `hull` was started with.
//!
//! They are shared with other processes of the user (a shell, a pipeline), so their open file
//! descriptions are never switched to non-blocking. Instead a transfer is tried only when poll(2) says
//! that it can't block, in a way that can't block where the kernel offers one, and in amounts that fit
//! where it doesn't. What can't be done at once stays pending until the event loop reports readiness.

mod pending;
mod stream;
mod terminal;
#[cfg(test)]
mod tests;

pub use terminal::TerminalGuard;

use super::payload::{Output, copy_in};
use super::{Errno, Reply, Result};
use crate::memory::io::GuestSlice;
use abi::boot::StreamKind;
use abi::request::Op;
use pending::{Pending, Work};
use rustix::event::PollFd;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::SeekFrom;
use stream::Stream;

/// Most operations that wait at a time; more are refused with EBUSY.
const MAX_PENDING: usize = 256;

/// An operation that is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The id that it was started with.
    pub id: u64,
    /// Its answer.
    pub result: Result,
}

/// Serves the stream operations of one pod.
#[derive(Debug)]
pub struct StreamsConnector {
    streams: [Option<Stream>; 3],
    pending: Vec<Pending>,
    /// Restores the terminal at the end; made when the guest first changes it.
    guard: Option<TerminalGuard>,
}

impl StreamsConnector {
    /// Serves these three descriptors; `None` is a closed one.
    pub fn new(fds: [Option<OwnedFd>; 3]) -> Self {
        Self { streams: fds.map(|fd| fd.map(Stream::new)), pending: Vec::new(), guard: None }
    }

    /// Serves the process's own standard streams (through duplicates).
    pub fn from_stdio() -> Self {
        let copy = |fd| rustix::io::fcntl_dupfd_cloexec(fd, 3).ok();
        Self::new([copy(rustix::stdio::stdin()), copy(rustix::stdio::stdout()), copy(rustix::stdio::stderr())])
    }

    /// What the streams are.
    pub fn kinds(&self) -> [StreamKind; 3] {
        self.streams.each_ref().map(|stream| stream.as_ref().map_or(StreamKind::Closed, |stream| stream.kind))
    }

    /// Rows and columns of the terminal, if a stream is one.
    pub fn window(&self) -> Option<(u16, u16)> {
        let size = |stream: &Stream| rustix::termios::tcgetwinsize(&stream.fd).ok();
        self.streams.iter().flatten().find_map(size).map(|size| (size.ws_row, size.ws_col))
    }

    /// Whether an operation is served here.
    pub fn serves(op: Op) -> bool {
        (Op::StreamRead as u32..=Op::StreamStat as u32).contains(&(op as u32))
    }

    /// Starts an operation. What finishes by it is appended to `done`: the operation itself, unless it
    /// has to wait, and one that it cancels. The memory of `input` and `output` is used until then.
    pub fn start(
        &mut self,
        id: u64,
        op: Op,
        args: &[u64; 6],
        input: &[GuestSlice],
        output: &[GuestSlice],
        done: &mut Vec<Completed>,
    ) {
        let result = match op {
            Op::StreamRead => self.begin(id, args[0], args[1], Work::read(output)),
            Op::StreamWrite => self.begin(id, args[0], args[1], Work::write(input)),
            Op::StreamPoll => self.begin(id, args[0], args[2], Work::poll(args[1])),
            Op::Cancel => Some(self.cancel(args[0], done)),
            _ => Some(self.at_once(op, args, input, output)),
        };
        if let Some(result) = result {
            done.push(Completed { id, result });
        }
    }

    fn stream(&self, number: u64) -> Result<&Stream> {
        usize::try_from(number).ok().and_then(|index| self.streams.get(index)?.as_ref()).ok_or(Errno::BADF)
    }

    /// Tries an operation; `None` if it waits now.
    fn begin(&mut self, id: u64, number: u64, no_wait: u64, work: Result<Work>) -> Option<Result> {
        let mut pending = match (self.stream(number), work) {
            (Ok(_), Ok(work)) if no_wait <= 1 => Pending { id, stream: number as usize, work },
            (Err(error), _) | (_, Err(error)) => return Some(Err(error)),
            _ => return Some(Err(Errno::INVAL)),
        };
        // What waits already comes first.
        let behind = self.pending.iter().any(|other| other.precedes(&pending));
        if !behind {
            let result = pending.advance(self.stream(number).ok()?);
            if result.is_some() {
                return result;
            }
        }
        if no_wait == 1 {
            return Some(pending.give_up(Errno::AGAIN));
        }
        if self.pending.len() >= MAX_PENDING {
            return Some(pending.give_up(Errno::BUSY));
        }
        self.pending.push(pending);
        None
    }

    /// Whether nothing waits.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Appends what the event loop should wait for; when any of it is ready, call [`Self::ready`].
    pub fn poll_fds<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        for pending in &self.pending {
            if let Some(Some(stream)) = self.streams.get(pending.stream) {
                fds.push(PollFd::from_borrowed_fd(stream.fd.as_fd(), pending.work.events()));
            }
        }
    }

    /// Goes on with everything that waits; what finished is appended to `done`.
    pub fn ready(&mut self, done: &mut Vec<Completed>) {
        let waiting = std::mem::take(&mut self.pending);
        for mut pending in waiting {
            let behind = self.pending.iter().any(|other| other.precedes(&pending));
            let stream = self.streams.get(pending.stream).and_then(Option::as_ref);
            let result = match stream {
                None => Some(Err(Errno::BADF)),
                Some(_) if behind => None,
                Some(stream) => pending.advance(stream),
            };
            match result {
                Some(result) => done.push(Completed { id: pending.id, result }),
                None => self.pending.push(pending),
            }
        }
    }

    /// ENOENT if the operation is not waiting (any more): its completion is on the way then.
    fn cancel(&mut self, id: u64, done: &mut Vec<Completed>) -> Result {
        let index = self.pending.iter().position(|pending| pending.id == id).ok_or(Errno::NOENT)?;
        let pending = self.pending.remove(index);
        done.push(Completed { id, result: pending.give_up(Errno::CANCELED) });
        Ok(Reply::default())
    }

    /// Operations that never wait.
    fn at_once(&mut self, op: Op, args: &[u64; 6], input: &[GuestSlice], output: &[GuestSlice]) -> Result {
        let stream = self.stream(args[0])?;
        let mut out = Output::new(output);
        match op {
            Op::StreamGetTermios => {
                out.put(&terminal::attributes(stream.fd.as_fd())?)?;
                Ok(Reply::default())
            }
            Op::StreamSetTermios => {
                let wanted = copy_in(input, terminal::SIZE)?;
                let guard = match self.guard {
                    Some(_) => None,
                    None => Some(TerminalGuard::new(stream.fd.as_fd())?),
                };
                let result = terminal::set_attributes(stream.fd.as_fd(), args[1], &wanted);
                self.guard = self.guard.take().or(guard);
                result.map(|()| Reply::default())
            }
            Op::StreamGetWindow => {
                let size = rustix::termios::tcgetwinsize(&stream.fd)?;
                Ok(Reply { result: 0, extra: [size.ws_row.into(), size.ws_col.into()] })
            }
            Op::StreamSeek => {
                if stream.kind != StreamKind::File {
                    return Err(Errno::SPIPE);
                }
                let start = || u64::try_from(args[1] as i64).map_err(|_| Errno::INVAL);
                let to = match args[2] {
                    0 => SeekFrom::Start(start()?),
                    1 => SeekFrom::Current(args[1] as i64),
                    2 => SeekFrom::End(args[1] as i64),
                    3 => SeekFrom::Data(start()?),
                    4 => SeekFrom::Hole(start()?),
                    _ => return Err(Errno::INVAL),
                };
                rustix::fs::seek(&stream.fd, to).map(Reply::of)
            }
            Op::StreamStat => {
                out.put(bytemuck::bytes_of(&super::files::attr_of_fd(stream.fd.as_fd())?))?;
                Ok(Reply::default())
            }
            _ => Err(Errno::NOSYS),
        }
    }
}
