//! Serves the ring: takes submissions, passes them to the connectors, publishes completions.

use crate::connectors::files::{FilesConnector, Waker};
use crate::connectors::sockets::SocketsConnector;
use crate::connectors::streams::StreamsConnector;
use crate::connectors::{Errno, Reply, Result, errno_of};
use crate::memory::GuestMemory;
use crate::memory::io::GuestSlice;
use crate::pace::Pacer;
use crate::ring::RingEnd;
use abi::operation::Operation;
use abi::request::{FileRequest, PodRequest, Request, SocketRequest, SocketSend};
use abi::ring::{Completion, MAX_SEGMENTS, Segment, Submission, sub_flags};
use rustix::event::PollFlags;
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

/// Maximum number of requests that are pending or completed but not consumed, besides those of sockets; keel never has more
/// than the ring holds, so a guest with more is hostile.
const MAX_BACKLOG: usize = 4 * abi::ring::ENTRIES;
/// The same for each socket that a pod may have: a receive, a send and its close. A program that ends closes all its sockets
/// before keel consumes a completion.
const PER_SOCKET: usize = 3;
/// Maximum number of requests of one pass: bounds the time in the server if a guest writes the ring meanwhile.
const MAX_PASS: usize = 4 * abi::ring::ENTRIES;
/// Request limit of a small pod. A pod with more soon uses all memory that is on small pages.
const REQUESTS_OF_SMALL: u64 = 40;
/// Longest text of a log line or a crash report in bytes.
const MAX_TEXT: usize = 8192;

/// How a pod ended by its own request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The first program ended: exit code.
    Exit(u8),
    /// Keel failed: its report.
    Crash(String),
    /// The guest broke the contract of the ring.
    Hostile(&'static str),
}

/// The connectors of one pod and the state of its ring.
#[derive(Debug)]
pub struct Server {
    memory: Arc<GuestMemory>,
    ring: RingEnd,
    files: FilesConnector,
    streams: StreamsConnector,
    sockets: SocketsConnector,
    pacer: Pacer,
    backlog: VecDeque<Completion>,
    /// Number of completions up to the last one that is not quiet; wraps.
    urgent: u32,
    ending: Option<Ending>,
    served: u64,
    trace_output: Option<File>,
}

impl Server {
    /// A server over these connectors.
    pub fn new(memory: Arc<GuestMemory>, ring: RingEnd, files: FilesConnector, streams: StreamsConnector) -> Self {
        Self {
            memory,
            ring,
            files,
            streams,
            sockets: SocketsConnector::none(),
            pacer: Pacer::default(),
            backlog: VecDeque::new(),
            urgent: 0,
            ending: None,
            served: 0,
            trace_output: None,
        }
    }

    /// Serves these sockets of the host instead of none.
    pub fn with_sockets(self, sockets: SocketsConnector) -> Self {
        Self { sockets, ..self }
    }

    /// Holds requests that exceed the rates of `pacer`.
    pub fn with_pacer(self, pacer: Pacer) -> Self {
        Self { pacer, ..self }
    }

    /// Sets the output of traced calls instead of standard error.
    pub fn with_trace_output(self, trace_output: Option<File>) -> Self {
        Self { trace_output, ..self }
    }

    /// How the guest ended, if it did.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Streams that late operations wait for.
    pub fn streams(&mut self) -> &mut StreamsConnector {
        &mut self.streams
    }

    /// Descriptors and events to poll for late operations; when one is ready, call [`Self::serve_late`].
    pub fn waiting(&mut self) -> Vec<(Arc<OwnedFd>, PollFlags)> {
        let mut all = self.streams.waiting();
        all.extend(self.sockets.waiting().map(|fd| (fd, PollFlags::IN)));
        all
    }

    /// Whether threads that sleep do not poll all of [`Self::waiting`].
    pub fn take_unwatched(&mut self) -> bool {
        self.streams.take_unwatched() | self.sockets.take_unwatched()
    }

    /// Whether the pod has sockets of the host.
    pub fn has_sockets(&self) -> bool {
        self.sockets.waiting().is_some()
    }

    /// Serves the pending submissions. Returns whether there were any.
    pub fn serve(&mut self) -> bool {
        let before = self.served;
        self.flush();
        for _ in 0..MAX_PASS {
            if self.ending.is_some() {
                break;
            }
            if self.ring.is_overrun() {
                self.ending = Some(Ending::Hostile("the guest overran the ring of requests"));
                break;
            }
            let Some(request) = self.ring.take() else { break };
            self.served += 1;
            if self.served == REQUESTS_OF_SMALL {
                self.memory.warm();
            }
            if self.pacer.is_off() || !self.pacer.hold(&request, monotonic()) {
                self.begin(&request);
            } else if self.pacer.len() > self.most_pending() {
                self.ending = Some(Ending::Hostile("too many requests are pending"));
            }
            if self.backlog.len() > self.most_pending() {
                self.ending = Some(Ending::Hostile("the guest takes no completions"));
            }
        }
        for (id, quiet, outcome) in self.sockets.flush() {
            self.charge_network(&outcome);
            self.complete(id, quiet, outcome);
        }
        self.served != before
    }

    /// Maximum number of requests that are held, or completed but not consumed.
    fn most_pending(&self) -> usize {
        MAX_BACKLOG + PER_SOCKET * self.sockets.limit()
    }

    /// Starts a request and publishes its completion, unless it completes late.
    fn begin(&mut self, request: &Submission) {
        if let Some(outcome) = self.start(request) {
            self.complete(request.id, is_quiet(request), outcome);
        }
    }

    /// Publishes a completion. `quiet`: keel does not wait for it if the request succeeded.
    fn complete(&mut self, id: u64, quiet: bool, outcome: Result) {
        let quiet = quiet && outcome.is_ok();
        self.publish(id, outcome);
        if !quiet {
            self.urgent = self.ring.completions().0;
        }
    }

    /// Starts held requests whose time has come; at the end of the pod all. Returns whether there were any.
    fn release(&mut self, all: bool) -> bool {
        let mut any = false;
        while self.ending.is_none()
            && let Some(request) = self.pacer.release(monotonic(), all)
        {
            any = true;
            self.begin(&request);
        }
        any
    }

    /// Counts the bytes of a completed request to a socket.
    fn charge_network(&mut self, outcome: &Result) {
        if let Ok(reply) = outcome
            && !self.pacer.is_off()
        {
            self.pacer.charge_network(reply.result, monotonic());
        }
    }

    /// Sets the waker that workers call when slow file operations are done: [`Self::serve_late`] publishes them.
    pub fn set_waker(&self, waker: Waker) {
        self.files.set_waker(waker);
    }

    /// Completes late operations: those with ready streams, and finished file operations. Returns whether there were
    /// any.
    pub fn serve_late(&mut self) -> bool {
        let released = self.release(false);
        let mut ready = self.streams.ready();
        ready.extend(self.files.ready());
        // Not more than keel takes: a pod has more sockets than the queue has room.
        if self.backlog.is_empty() {
            let sockets = self.sockets.ready();
            sockets.iter().for_each(|(_, outcome)| self.charge_network(outcome));
            ready.extend(sockets);
        }
        let any = !ready.is_empty();
        for (id, outcome) in ready {
            self.publish(id, outcome);
        }
        if any {
            self.urgent = self.ring.completions().0;
        }
        any || released
    }

    /// Whether there is a completion that keel has not consumed, other than quiet ones.
    pub fn has_urgent(&self) -> bool {
        let (published, consumed) = self.ring.completions();
        let outstanding = published.wrapping_sub(consumed);
        !self.backlog.is_empty() || outstanding > 0 && published.wrapping_sub(self.urgent) < outstanding
    }

    fn publish(&mut self, id: u64, outcome: Result) {
        let completion = match outcome {
            Ok(Reply { result, extra }) => Completion { id, result: result.min(i64::MAX as u64) as i64, extra },
            Err(errno) => Completion { id, result: -i64::from(errno.raw_os_error()), extra: [0; 2] },
        };
        if !self.backlog.is_empty() || !self.ring.complete(&completion) {
            self.backlog.push_back(completion);
        }
    }

    fn flush(&mut self) {
        while let Some(completion) = self.backlog.front() {
            if !self.ring.complete(completion) {
                return;
            }
            self.backlog.pop_front();
        }
    }

    /// The outcome, or `None` if the operation completes late or never.
    fn start(&mut self, request: &Submission) -> Option<Result> {
        match self.try_start(request) {
            Ok(outcome) => outcome.map(Ok),
            Err(errno) => Some(Err(errno)),
        }
    }

    fn try_start(&mut self, submission: &Submission) -> Result<Option<Reply>> {
        let request = Request::decode(&submission.operation()).map_err(errno_of)?;
        let (input, output) = self.payloads(submission)?;
        let (outcome, pending) = match request {
            Request::Pod(request) => return self.own(request, &input),
            Request::File(request) => {
                (self.files.start(submission.id, request, (&input, &output), &self.memory), self.files.pending())
            }
            Request::Stream(request) => {
                (self.streams.start(submission.id, request, &input, &output), self.streams.pending())
            }
            // Bounded by the number of sockets.
            Request::Socket(request) => (self.sockets.start(submission.id, request, &input, &output), 0),
        };
        if !self.pacer.is_off() {
            self.pacer.charge(&request, moved(&request, (&input, &output), &outcome), monotonic());
        }
        if outcome.is_none() && pending > MAX_BACKLOG {
            self.ending = Some(Ending::Hostile("too many requests are pending"));
        }
        outcome.transpose()
    }

    fn own(&mut self, request: PodRequest, input: &[GuestSlice]) -> Result<Option<Reply>> {
        let reply = match request {
            PodRequest::Nop(nop) => nop.reply(()),
            PodRequest::Exit(exit) => {
                // What was written before must reach the host.
                self.release(true);
                let last_words = text(input);
                if !last_words.is_empty() {
                    drop(writeln!(std::io::stderr(), "{last_words}"));
                }
                self.ending = Some(Ending::Exit(exit.code));
                return Ok(None);
            }
            PodRequest::Crash(_) => {
                self.ending = Some(Ending::Crash(text(input)));
                return Ok(None);
            }
            PodRequest::Log(log) => {
                let line = text(input);
                match &mut self.trace_output {
                    // Ignore write errors.
                    Some(file) if log.trace => drop(writeln!(file, "{line}")),
                    _ => drop(writeln!(std::io::stderr(), "{line}")),
                }
                log.reply(())
            }
            PodRequest::GrowRam(more) => more.reply(self.memory.grow_ram(more.bytes).map_err(|_| Errno::NOMEM)?),
            PodRequest::Release(part) => part.reply(self.memory.release(part.gpa, part.len)?),
            PodRequest::GrowWindow(more) => more.reply(self.memory.grow_window(more.bytes).map_err(|_| Errno::NOMEM)?),
        };
        Ok(Some(reply))
    }

    /// The payloads of a request as checked slices of guest memory.
    fn payloads(&self, request: &Submission) -> Result<(Vec<GuestSlice>, Vec<GuestSlice>)> {
        let list = |gpa, len, is_list| self.pieces(gpa, len, is_list);
        Ok((
            list(request.in_gpa, request.in_len, request.flags & sub_flags::IN_LIST != 0)?,
            list(request.out_gpa, request.out_len, request.flags & sub_flags::OUT_LIST != 0)?,
        ))
    }

    fn pieces(&self, gpa: u64, len: u32, is_list: bool) -> Result<Vec<GuestSlice>> {
        if len == 0 {
            return Ok(Vec::new());
        }
        if !is_list {
            return Ok(vec![self.memory.slice(gpa, u64::from(len))?]);
        }
        if len as usize > MAX_SEGMENTS {
            return Err(Errno::INVAL);
        }
        let mut segments = vec![Segment::default(); len as usize];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut segments);
        self.memory.slice(gpa, bytes.len() as u64)?.read(bytes)?;
        segments.iter().map(|s| self.memory.slice(s.gpa, s.len)).collect()
    }
}

/// Whether keel does not wait for the completion of a request that succeeds at once.
fn is_quiet(request: &Submission) -> bool {
    request.op == SocketSend::NUMBER
        && matches!(SocketRequest::decode(&request.operation()), Ok(SocketRequest::SocketSend(send)) if send.quiet)
}

/// Bytes that a started request moves between the pod and the host. Those of sockets are counted when it completes, those of a
/// late read now.
fn moved(request: &Request, (input, output): (&[GuestSlice], &[GuestSlice]), outcome: &Option<Result>) -> u64 {
    let sum = |slices: &[GuestSlice]| slices.iter().map(|slice| slice.len() as u64).sum::<u64>();
    let result = |late: u64| match outcome {
        Some(outcome) => outcome.as_ref().map_or(0, |reply| reply.result),
        None => late,
    };
    match request {
        Request::File(FileRequest::Write(_)) => sum(input),
        Request::File(FileRequest::Read(_) | FileRequest::Fetch(_) | FileRequest::ReadDir(_)) => result(sum(output)),
        Request::Socket(_) => result(0),
        _ => 0,
    }
}

/// CLOCK_MONOTONIC in ns.
fn monotonic() -> u64 {
    clock_ns(rustix::time::ClockId::Monotonic)
}

/// Text from the guest without control characters that could harm a terminal.
fn text(input: &[GuestSlice]) -> String {
    let bytes = crate::connectors::payload::copy_in(input, MAX_TEXT).unwrap_or_default();
    String::from_utf8_lossy(&bytes).chars().filter(|c| !c.is_control() || *c == '\n').collect()
}

/// A host clock in ns.
pub fn clock_ns(clock: rustix::time::ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
