//! The standard streams connector: descriptors 0 to 2 of `hull`, and those of `--pass-fd`.
//!
//! They are shared with other processes of the user (a shell, a pipeline), so their open file
//! descriptions are never switched to non-blocking. Instead a transfer is tried only when poll(2) says
//! that it can't block, in a way that can't block where the kernel offers one, and in amounts that fit
//! where it doesn't. What can't be done at once stays pending until the event loop reports readiness.

pub mod passed;
mod pending;
pub mod signals;
mod stream;
pub mod terminal;
#[cfg(test)]
mod tests;

pub use terminal::TerminalGuard;

use super::payload::{Output, copy_in};
use super::{Errno, Reply, Result};
use crate::memory::io::GuestSlice;
use abi::boot::StreamKind;
use abi::request::Op;
use pending::{Pending, Work};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::SeekFrom;
use std::sync::Arc;
use stream::Stream;

/// Most operations that wait at a time; more are refused with EBUSY.
const MAX_PENDING: usize = 256;

/// The only signal that a guest may leave to `hull`.
const TSTP: u64 = libc::SIGTSTP as u64;

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// It is finished.
    Done(Result),
    /// It waits; [`StreamsConnector::ready`] reports its end.
    Pending,
}

/// Serves the stream operations of one pod.
#[derive(Debug)]
pub struct StreamsConnector {
    /// The standard streams, then those that are passed on.
    streams: Vec<Option<Stream>>,
    pending: Vec<Pending>,
    /// A pending operation began to wait after the last call of [`Self::waiting`].
    unwatched: bool,
    /// Cancelled operations that are not reported yet.
    cancelled: Vec<(u64, Result)>,
    /// The operation that waits for a signal.
    signal_wait: Option<u64>,
    /// Restores the terminal at the end; made when the guest first changes it.
    guard: Option<TerminalGuard>,
}

impl StreamsConnector {
    /// Serves these three descriptors; `None` is a closed one.
    pub fn with(fds: [Option<OwnedFd>; 3]) -> Self {
        let streams = fds.into_iter().map(|fd| fd.map(Stream::new)).collect();
        Self { streams, pending: Vec::new(), unwatched: false, cancelled: Vec::new(), signal_wait: None, guard: None }
    }

    /// Serves the process's own standard streams (through duplicates), as far as they were open when it began.
    pub fn new() -> Self {
        let copy = |number| {
            let fd = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()][number];
            crate::jail::is_standard_open(number).then(|| rustix::io::fcntl_dupfd_cloexec(fd, 3).ok()).flatten()
        };
        Self::with([copy(0), copy(1), copy(2)])
    }

    /// Serves these, too, by the numbers from 3.
    pub fn and(mut self, passed: Vec<OwnedFd>) -> Self {
        self.streams.extend(passed.into_iter().map(|fd| Some(Stream::new(fd))));
        self
    }

    /// What the standard streams are.
    pub fn kinds(&self) -> [StreamKind; 3] {
        let kind = |number: usize| self.streams.get(number)?.as_ref().map(|stream| stream.kind);
        std::array::from_fn(|number| kind(number).unwrap_or(StreamKind::Closed))
    }

    /// Rows and columns of the terminal, if a stream is one.
    pub fn window(&self) -> Option<(u16, u16)> {
        let size = |stream: &Stream| rustix::termios::tcgetwinsize(&stream.fd).ok();
        self.streams.iter().flatten().find_map(size).map(|size| (size.ws_row, size.ws_col))
    }

    /// Whether an operation is served here.
    pub fn serves(op: Op) -> bool {
        (Op::StreamRead as u32..=Op::SignalWait as u32).contains(&(op as u32))
    }

    /// Starts an operation. One that is pending uses the memory of `input` and `output` until it ends.
    /// A cancelled one is reported by the next [`Self::ready`].
    pub fn start(&mut self, id: u64, op: Op, args: &[u64; 6], input: &[GuestSlice], output: &[GuestSlice]) -> Started {
        match op {
            Op::StreamRead => self.begin(id, args[0], args[1], Work::read(output, args[2])),
            Op::StreamWrite => self.begin(id, args[0], args[1], Work::write(input, args[2])),
            Op::StreamPoll => self.begin(id, args[0], args[2], Work::poll(args[1])),
            Op::SignalWait => self.wait_for_signal(id, args[0]),
            Op::Cancel => Started::Done(self.cancel(args[0])),
            _ => Started::Done(self.at_once(op, args, input, output)),
        }
    }

    fn stream(&self, number: u64) -> Result<&Stream> {
        usize::try_from(number).ok().and_then(|index| self.streams.get(index)?.as_ref()).ok_or(Errno::BADF)
    }

    /// Tries an operation, or keeps it.
    fn begin(&mut self, id: u64, number: u64, no_wait: u64, work: Result<Work>) -> Started {
        let (stream, work) = match (self.stream(number), work) {
            (Ok(stream), Ok(work)) if no_wait <= 1 && stream.takes(&work) => (stream, work),
            (Err(error), _) | (_, Err(error)) => return Started::Done(Err(error)),
            _ => return Started::Done(Err(Errno::INVAL)),
        };
        let mut pending = Pending { id, stream: number as usize, work };
        // What waits already comes first.
        let behind = self.pending.iter().any(|other| other.precedes(&pending));
        if !behind && let Some(result) = pending.advance(stream) {
            return Started::Done(result);
        }
        if no_wait == 1 {
            return Started::Done(pending.give_up(Errno::AGAIN));
        }
        if self.pending.len() >= MAX_PENDING {
            return Started::Done(pending.give_up(Errno::BUSY));
        }
        self.pending.push(pending);
        self.unwatched = true;
        Started::Pending
    }

    fn wait_for_signal(&mut self, id: u64, returned: u64) -> Started {
        if self.signal_wait.is_some() {
            return Started::Done(Err(Errno::BUSY));
        }
        let given = signals::forget_given();
        match returned {
            0 => {}
            // Only one that came from the user: a guest that stops `hull` as it likes would stop its time limit, too.
            _ if returned == TSTP && given == Some(returned) => {
                // Stops all threads of `hull` until the user's shell continues them.
                if let Err(error) =
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)
                {
                    return Started::Done(Err(error));
                }
            }
            _ => return Started::Done(Err(Errno::INVAL)),
        }
        signals::listen();
        match signals::take() {
            Some(signal) => Started::Done(Ok(Reply::of(signal.into()))),
            None => {
                self.signal_wait = Some(id);
                Started::Pending
            }
        }
    }

    /// Number of operations that wait.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether a wait was added since the last call of [`Self::waiting`]; clears the mark.
    pub fn take_unwatched(&mut self) -> bool {
        std::mem::take(&mut self.unwatched)
    }

    /// What to wait for; when any of it is ready, call [`Self::ready`].
    pub fn waiting(&mut self) -> Vec<(Arc<OwnedFd>, PollFlags)> {
        self.unwatched = false;
        let wait = |pending: &Pending| {
            let stream = self.streams.get(pending.stream)?.as_ref()?;
            Some((stream.fd.clone(), pending.work.events()))
        };
        self.pending.iter().filter_map(wait).collect()
    }

    /// Goes on with everything that waits; the ids and results of what finished, also by `Cancel`.
    pub fn ready(&mut self) -> Vec<(u64, Result)> {
        let mut done = std::mem::take(&mut self.cancelled);
        if let Some(id) = self.signal_wait
            && let Some(signal) = signals::take()
        {
            self.signal_wait = None;
            done.push((id, Ok(Reply::of(signal.into()))));
        }
        if self.pending.is_empty() {
            return done;
        }
        for mut pending in std::mem::take(&mut self.pending) {
            let behind = self.pending.iter().any(|other| other.precedes(&pending));
            let stream = self.streams.get(pending.stream).and_then(Option::as_ref);
            let result = match stream {
                None => Some(Err(Errno::BADF)),
                Some(_) if behind => None,
                Some(stream) => pending.advance(stream),
            };
            match result {
                Some(result) => done.push((pending.id, result)),
                None => self.pending.push(pending),
            }
        }
        done
    }

    /// ENOENT if the operation is not waiting (any more): its completion is on the way then.
    fn cancel(&mut self, id: u64) -> Result {
        if self.signal_wait.take_if(|waiting| *waiting == id).is_some() {
            self.cancelled.push((id, Err(Errno::CANCELED)));
            return Ok(Reply::default());
        }
        let index = self.pending.iter().position(|pending| pending.id == id).ok_or(Errno::NOENT)?;
        let pending = self.pending.remove(index);
        self.cancelled.push((id, pending.give_up(Errno::CANCELED)));
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

impl Default for StreamsConnector {
    fn default() -> Self {
        Self::new()
    }
}
