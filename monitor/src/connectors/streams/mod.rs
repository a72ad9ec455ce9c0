//! The standard streams connector: descriptors 0 to 2 of `hull`, and those of `--pass-fd`.
//!
//! Other processes of the user (a shell, a pipeline) share them, so the monitor never sets O_NONBLOCK on their open
//! file descriptions. Instead it starts a transfer only when poll(2) reports readiness, with RWF_NOWAIT where the
//! kernel supports it, and otherwise in sizes that can't block. An operation that would block stays pending until the
//! event loop reports readiness.

pub mod passed;
mod pending;
pub mod signals;
mod stream;
pub mod terminal;
#[cfg(test)]
mod tests;

pub use terminal::TerminalGuard;

use super::payload::{Output, copy_in};
use super::{Errno, Result, reply};
use crate::memory::io::GuestSlice;
use abi::boot::StreamKind;
use abi::operation::Results;
use abi::request::{StreamRequest, StreamSeek, StreamSetTermios, Whence, WindowSize};
use pending::{Pending, Work};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::SeekFrom;
use std::sync::Arc;
use stream::Stream;

/// Maximum number of pending operations; further ones fail with EBUSY.
const MAX_PENDING: usize = 256;

/// The only signal that a guest may return to `hull`.
const TSTP: u32 = libc::SIGTSTP as u32;

/// Serves the stream operations of one pod.
#[derive(Debug)]
pub struct StreamsConnector {
    /// The standard streams, then the passed ones.
    streams: Vec<Option<Stream>>,
    pending: Vec<Pending>,
    /// An operation became pending after the last call of [`Self::waiting`].
    unwatched: bool,
    /// Cancelled operations that are not completed yet.
    cancelled: Vec<(u64, Result)>,
    /// The pending [`SignalWait`].
    signal_wait: Option<u64>,
    /// Restores the terminal at the end; created at the guest's first change.
    guard: Option<TerminalGuard>,
}

impl StreamsConnector {
    /// Serves these three descriptors; `None` is a closed one.
    pub fn with(fds: [Option<OwnedFd>; 3]) -> Self {
        let streams = fds.into_iter().map(|fd| fd.map(Stream::new)).collect();
        Self { streams, pending: Vec::new(), unwatched: false, cancelled: Vec::new(), signal_wait: None, guard: None }
    }

    /// Serves the process's own standard streams (through duplicates); those that were closed at start stay closed.
    pub fn new() -> Self {
        let copy = |number| {
            let fd = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()][number];
            crate::jail::is_standard_open(number).then(|| rustix::io::fcntl_dupfd_cloexec(fd, 3).ok()).flatten()
        };
        Self::with([copy(0), copy(1), copy(2)])
    }

    /// Adds the passed streams, numbered from 3.
    pub fn and(mut self, passed: Vec<OwnedFd>) -> Self {
        self.streams.extend(passed.into_iter().map(|fd| Some(Stream::new(fd))));
        self
    }

    /// Kinds of the standard streams.
    pub fn kinds(&self) -> [StreamKind; 3] {
        let kind = |number: usize| self.streams.get(number)?.as_ref().map(|stream| stream.kind);
        std::array::from_fn(|number| kind(number).unwrap_or(StreamKind::Closed))
    }

    /// Rows and columns of the terminal, if a stream is one.
    pub fn window(&self) -> Option<(u16, u16)> {
        let size = |stream: &Stream| rustix::termios::tcgetwinsize(&stream.fd).ok();
        self.streams.iter().flatten().find_map(size).map(|size| (size.ws_row, size.ws_col))
    }

    /// Starts an operation; `None` if it is pending: [`Self::ready`] reports its completion. A pending operation uses
    /// the memory of `input` and `output` until it completes. The next [`Self::ready`] also completes a cancelled
    /// operation.
    pub fn start(
        &mut self,
        id: u64,
        request: StreamRequest,
        input: &[GuestSlice],
        output: &[GuestSlice],
    ) -> Option<Result> {
        use StreamRequest as S;
        Some(match request {
            S::StreamRead(op) => reply(op, self.begin(id, op.stream, op.nonblocking, Work::read(output, op.position))?),
            S::StreamWrite(op) => {
                reply(op, self.begin(id, op.stream, op.nonblocking, Work::write(input, op.position))?)
            }
            S::StreamPoll(op) => reply(op, self.begin(id, op.stream, op.nonblocking, Ok(Work::poll(op.events)))?),
            S::SignalWait(op) => reply(op, self.wait_for_signal(id, op.returned)?),
            S::Cancel(op) => reply(op, self.cancel(op.id)),
            S::StreamGetTermios(op) => reply(op, self.get_termios(op.stream, &mut Output::new(output))),
            S::StreamSetTermios(op) => reply(op, self.set_termios(op, input)),
            S::StreamGetWindow(op) => reply(op, self.window_size(op.stream)),
            S::StreamSeek(op) => reply(op, self.seek(op)),
            S::StreamStat(op) => reply(op, self.stat(op.stream, &mut Output::new(output))),
        })
    }

    fn stream(&self, number: u64) -> Result<&Stream> {
        usize::try_from(number).ok().and_then(|index| self.streams.get(index)?.as_ref()).ok_or(Errno::BADF)
    }

    /// Tries an operation, or makes it pending.
    fn begin(&mut self, id: u64, number: u64, nonblocking: bool, work: Result<Work>) -> Option<Result<u64>> {
        let (stream, work) = match (self.stream(number), work) {
            (Ok(stream), Ok(work)) if stream.takes(&work) => (stream, work),
            (Err(error), _) | (_, Err(error)) => return Some(Err(error)),
            _ => return Some(Err(Errno::INVAL)),
        };
        let mut pending = Pending { id, stream: number as usize, work };
        // Earlier pending operations go first.
        let behind = self.pending.iter().any(|other| other.precedes(&pending));
        if !behind && let Some(result) = pending.advance(stream) {
            return Some(result);
        }
        if nonblocking {
            return Some(pending.give_up(Errno::AGAIN));
        }
        if self.pending.len() >= MAX_PENDING {
            return Some(pending.give_up(Errno::BUSY));
        }
        self.pending.push(pending);
        self.unwatched = true;
        None
    }

    fn wait_for_signal(&mut self, id: u64, returned: u32) -> Option<Result<u64>> {
        if self.signal_wait.is_some() {
            return Some(Err(Errno::BUSY));
        }
        let given = signals::forget_given();
        match returned {
            0 => {}
            // Only for a signal from the user: a guest that could stop `hull` at will would also stop its time limit.
            _ if returned == TSTP && given == Some(returned) => {
                // Stops all threads of `hull` until the user's shell continues them.
                if let Err(error) =
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)
                {
                    return Some(Err(error));
                }
            }
            _ => return Some(Err(Errno::INVAL)),
        }
        signals::listen();
        match signals::take() {
            Some(signal) => Some(Ok(signal.into())),
            None => {
                self.signal_wait = Some(id);
                None
            }
        }
    }

    /// Number of pending operations.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether an operation became pending since the last call of [`Self::waiting`]; clears the flag.
    pub fn take_unwatched(&mut self) -> bool {
        std::mem::take(&mut self.unwatched)
    }

    /// Descriptors and events to poll; when one is ready, call [`Self::ready`].
    pub fn waiting(&mut self) -> Vec<(Arc<OwnedFd>, PollFlags)> {
        self.unwatched = false;
        let wait = |pending: &Pending| {
            let stream = self.streams.get(pending.stream)?.as_ref()?;
            Some((stream.fd.clone(), pending.work.events()))
        };
        self.pending.iter().filter_map(wait).collect()
    }

    /// Advances all pending operations; returns the ids and results of completed and cancelled ones.
    pub fn ready(&mut self) -> Vec<(u64, Result)> {
        let mut done = std::mem::take(&mut self.cancelled);
        if let Some(id) = self.signal_wait
            && let Some(signal) = signals::take()
        {
            self.signal_wait = None;
            done.push((id, Ok(u64::from(signal).encode())));
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
                Some(result) => done.push((pending.id, result.map(Results::encode))),
                None => self.pending.push(pending),
            }
        }
        done
    }

    /// ENOENT if the operation is not pending (any more): its completion is already queued.
    fn cancel(&mut self, id: u64) -> Result<()> {
        if self.signal_wait.take_if(|waiting| *waiting == id).is_some() {
            self.cancelled.push((id, Err(Errno::CANCELED)));
            return Ok(());
        }
        let index = self.pending.iter().position(|pending| pending.id == id).ok_or(Errno::NOENT)?;
        let pending = self.pending.remove(index);
        self.cancelled.push((id, pending.give_up(Errno::CANCELED).map(Results::encode)));
        Ok(())
    }

    fn get_termios(&self, number: u64, out: &mut Output<'_>) -> Result<()> {
        out.put(&terminal::attributes(self.stream(number)?.fd.as_fd())?)
    }

    fn set_termios(&mut self, set: StreamSetTermios, input: &[GuestSlice]) -> Result<()> {
        let stream = self.stream(set.stream)?;
        let wanted = copy_in(input, terminal::SIZE)?;
        let guard = match self.guard {
            Some(_) => None,
            None => Some(TerminalGuard::new(stream.fd.as_fd())?),
        };
        let result = terminal::set_attributes(stream.fd.as_fd(), set.when, &wanted);
        self.guard = self.guard.take().or(guard);
        result
    }

    fn window_size(&self, number: u64) -> Result<WindowSize> {
        let size = rustix::termios::tcgetwinsize(&self.stream(number)?.fd)?;
        Ok(WindowSize { rows: size.ws_row, columns: size.ws_col })
    }

    fn seek(&self, seek: StreamSeek) -> Result<u64> {
        let stream = self.stream(seek.stream)?;
        if stream.kind != StreamKind::File {
            return Err(Errno::SPIPE);
        }
        let start = || u64::try_from(seek.offset).map_err(|_| Errno::INVAL);
        let to = match seek.whence {
            Whence::Start => SeekFrom::Start(start()?),
            Whence::Current => SeekFrom::Current(seek.offset),
            Whence::End => SeekFrom::End(seek.offset),
            Whence::Data => SeekFrom::Data(start()?),
            Whence::Hole => SeekFrom::Hole(start()?),
        };
        rustix::fs::seek(&stream.fd, to)
    }

    fn stat(&self, number: u64, out: &mut Output<'_>) -> Result<()> {
        out.put(bytemuck::bytes_of(&super::files::attr_of_fd(self.stream(number)?.fd.as_fd())?))
    }
}

impl Default for StreamsConnector {
    fn default() -> Self {
        Self::new()
    }
}
