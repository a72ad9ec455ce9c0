//! One socket of the pod: its descriptors on the host, and the operations that wait for it.

mod datagrams;
mod receive;
mod stream;

use super::super::payload::Output;
use super::super::{Errno, Result};
use super::options;
use crate::memory::io::{self, GuestSlice, Position, Wait, total};
use abi::operation::Results;
use abi::request::{Outgoing, Received, SocketName, SocketSend, Transport};
use datagrams::Segments;
pub use receive::Datagram;
use rustix::event::epoll::EventFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Most operations of one direction that wait for a socket; further ones fail with EBUSY.
const MAX_WAITING: usize = 128;
/// Most new peers of a published port that wait to be accepted; those of further ones are lost.
const MAX_FLOWS: usize = 256;

/// An operation's id and its outcome.
pub type Done = (u64, Result);

/// Where a socket is in its life.
#[derive(Debug)]
pub enum State {
    /// The question for it is asked.
    Asked {
        /// Number of the question.
        question: u64,
        /// The operation that completes then.
        id: u64,
    },
    /// TCP connects; the operation that completes then.
    Connecting(u64),
    /// Connected.
    Open,
    /// Accepts connections.
    Listening,
    /// Bound to an address of the host; the question that it was bound by.
    Bound(u64),
    /// Of no use.
    Failed,
    /// Broken off, because the policy does not allow its peer any more.
    Revoked,
}

/// Bytes to send.
#[derive(Debug)]
struct Send {
    id: u64,
    from: Vec<GuestSlice>,
    done: usize,
    /// If it succeeds, nobody waits for that.
    quiet: bool,
    /// The last byte is urgent.
    urgent: bool,
    /// How a datagram leaves.
    outgoing: Outgoing,
}

/// A peer of a published port that was not accepted yet.
#[derive(Debug)]
pub struct Flow {
    /// Its number for the opener; 0: none.
    pub number: u64,
    /// Its socket.
    pub socket: OwnedFd,
    /// Its address.
    pub peer: SocketName,
    /// Its first datagrams.
    pub first: VecDeque<Datagram>,
}

/// A socket.
#[derive(Debug)]
pub struct Socket {
    /// Its kind.
    pub transport: Transport,
    /// Its state.
    pub state: State,
    /// The peer that the pod chose, if it did.
    pub peer: Option<SocketAddr>,
    /// Number of the listener or flow that the opener must be told of when it is closed.
    pub ends: Option<u64>,
    /// What it was asked for is its name only.
    pub binds: bool,
    /// Room for its own name.
    pub name_into: Vec<GuestSlice>,
    /// Its descriptors: one, or the listeners.
    fds: Vec<OwnedFd>,
    /// Whether to try: not after EAGAIN, until epoll(7) reports an edge.
    readable: bool,
    writable: bool,
    /// The peer has ended its stream, or the connection broke: no more edges need come.
    ended: bool,
    /// The end of the stream was received.
    finished: bool,
    /// The connection broke, or both halves have ended.
    broken: bool,
    /// The next byte may be an urgent one.
    may_be_urgent: bool,
    receives: VecDeque<(u64, Vec<GuestSlice>)>,
    sends: VecDeque<Send>,
    segments: Segments,
    /// How datagrams leave, as the host's socket is set.
    leaves: Outgoing,
    /// What is told of received datagrams, [`abi::request::tell`].
    tells: u32,
    accepts: VecDeque<(u64, u64, Vec<GuestSlice>)>,
    /// Datagrams that were received and not delivered.
    held: VecDeque<Datagram>,
    flows: VecDeque<Flow>,
}

impl Socket {
    /// A socket in this state.
    pub fn new(transport: Transport, state: State) -> Self {
        Self {
            transport,
            state,
            peer: None,
            ends: None,
            binds: false,
            name_into: Vec::new(),
            fds: Vec::new(),
            readable: true,
            writable: true,
            ended: false,
            finished: false,
            broken: false,
            may_be_urgent: false,
            receives: VecDeque::new(),
            sends: VecDeque::new(),
            segments: Segments::Whole,
            leaves: Outgoing::default(),
            tells: 0,
            accepts: VecDeque::new(),
            held: VecDeque::new(),
            flows: VecDeque::new(),
        }
    }

    /// An open one.
    pub fn open(transport: Transport, flow: Flow) -> (Self, SocketName) {
        let mut socket = Self::new(transport, State::Open);
        socket.ends = Some(flow.number).filter(|number| *number != 0);
        socket.held = flow.first;
        socket.fds.push(flow.socket);
        (socket, flow.peer)
    }

    /// Its descriptors.
    pub fn fds(&self) -> &[OwnedFd] {
        &self.fds
    }

    /// Gives it a descriptor.
    pub fn add(&mut self, fd: OwnedFd) {
        self.fds.push(fd);
    }

    /// Its descriptor, if it is open. ENOTCONN.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        match (&self.state, self.fds.first()) {
            (State::Open, Some(fd)) => Ok(fd.as_fd()),
            _ => Err(Errno::NOTCONN),
        }
    }

    /// ENOTCONN; ECONNABORTED after [`Self::revoke`].
    fn check_open(&self) -> Result<()> {
        match self.state {
            State::Revoked => Err(Errno::CONNABORTED),
            _ => self.fd().map(|_| ()),
        }
    }

    /// Whether it is connected, or connects, to one of these peers that the pod chose. `all`: to any peer.
    pub fn leads_to(&self, transport: Transport, all: bool, is_one: impl FnOnce(SocketAddr) -> bool) -> bool {
        let is_connected = matches!(self.state, State::Connecting(_) | State::Open);
        is_connected && self.transport == transport && self.peer.is_some_and(|peer| all || is_one(peer))
    }

    /// Breaks the connection off, as tcp_abort() and udp_abort() of Linux do: ECONNABORTED.
    pub fn revoke(&mut self, done: &mut Vec<Done>) {
        self.end(Errno::CONNABORTED, done);
        self.fds.drain(..).for_each(|fd| options::break_at_close(fd.as_fd()));
        self.state = State::Revoked;
    }

    /// Records what epoll(7) reported.
    pub fn report(&mut self, events: EventFlags) {
        let broken = EventFlags::ERR | EventFlags::HUP;
        self.readable |= events.intersects(EventFlags::IN | EventFlags::RDHUP | broken);
        self.writable |= events.intersects(EventFlags::OUT | broken);
        self.ended |= events.intersects(EventFlags::RDHUP | broken);
        self.broken |= events.intersects(broken);
        self.may_be_urgent |= events.intersects(EventFlags::PRI);
    }

    /// A new peer of a published port; `false` if there is no room.
    pub fn add_flow(&mut self, flow: Flow) -> bool {
        let takes = matches!(self.state, State::Listening) && self.flows.len() < MAX_FLOWS;
        if takes {
            self.flows.push_back(flow);
        }
        takes
    }

    /// A datagram that came before those in the socket, or in the socket of a flow that was not accepted yet.
    pub fn add_datagram(&mut self, flow: u64, datagram: Datagram) {
        let held = match self.flows.iter_mut().find(|other| other.number == flow) {
            Some(flow) => &mut flow.first,
            None => &mut self.held,
        };
        // Others are lost, as in a full buffer.
        if held.len() < receive::MAX_BATCH {
            held.push_back(datagram);
        }
    }

    /// Numbers of the flows that were not accepted.
    pub fn flows(&self) -> impl Iterator<Item = u64> {
        self.flows.iter().map(|flow| flow.number)
    }

    /// Begins to receive. EBUSY, ENOTCONN.
    pub fn receive(&mut self, id: u64, into: &[GuestSlice], scratch: &mut [u8]) -> Option<Result> {
        let open = self.check_open();
        if open.is_err() || self.receives.len() >= MAX_WAITING {
            return Some(Err(open.err().unwrap_or(Errno::BUSY)));
        }
        if self.receives.is_empty()
            && let Some(outcome) = self.try_receive(into, scratch)
        {
            return Some(outcome);
        }
        self.receives.push_back((id, into.to_vec()));
        None
    }

    /// Queues what is to be sent for the next [`Self::send_queued`]. EBUSY, ENOTCONN. Returns how many operations are queued.
    pub fn queue(&mut self, id: u64, from: &[GuestSlice], send: &SocketSend) -> Result<usize> {
        self.check_open()?;
        if self.sends.len() >= MAX_WAITING {
            return Err(Errno::BUSY);
        }
        let SocketSend { quiet, urgent, outgoing, .. } = *send;
        self.sends.push_back(Send { id, from: from.to_vec(), done: 0, quiet, urgent, outgoing });
        Ok(self.sends.len())
    }

    /// Sends what is queued. Calls `done` for each operation that is complete, with its id, whether it is quiet, and its outcome.
    pub fn send_queued(&mut self, done: impl FnMut(u64, bool, Result)) {
        match self.transport {
            Transport::Tcp => self.send_stream(done),
            Transport::Udp | Transport::Icmp => self.send_datagrams(done),
        }
    }

    /// Begins to accept. EBUSY, EINVAL.
    pub fn accept(&mut self, id: u64, accepted: u64, into: &[GuestSlice]) -> Result<()> {
        if !matches!(self.state, State::Listening) {
            return Err(Errno::INVAL);
        }
        if self.accepts.len() >= MAX_WAITING {
            return Err(Errno::BUSY);
        }
        self.accepts.push_back((id, accepted, into.to_vec()));
        Ok(())
    }

    /// The next connection with the operation that it completes: id, number of the new socket, room for the peer's name.
    pub fn next_accepted(&mut self) -> Option<(u64, u64, Vec<GuestSlice>, Result<Flow>)> {
        if self.accepts.front().is_none_or(|(_, accepted, _)| *accepted == 0) {
            return None;
        }
        let flow = match self.flows.pop_front() {
            Some(flow) => Ok(flow),
            None => self.try_accept()?,
        };
        let (id, accepted, into) = self.accepts.pop_front()?;
        Some((id, accepted, into, flow))
    }

    /// The next operation, if it only asks whether there is a connection and there is one.
    pub fn next_told(&mut self) -> Option<u64> {
        let (id, accepted, _) = self.accepts.front()?;
        let id = *id;
        if *accepted != 0 || self.flows.is_empty() && !self.has_connection() {
            return None;
        }
        self.accepts.pop_front();
        Some(id)
    }

    /// Whether a listener has a connection.
    fn has_connection(&mut self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds: Vec<PollFd<'_>> = self.fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let found = self.readable && matches!(poll(&mut fds, Some(&at_once)), Ok(1..));
        self.readable = found;
        found
    }

    fn try_accept(&mut self) -> Option<Result<Flow>> {
        use rustix::net::{SocketFlags, acceptfrom_with};
        if !self.readable {
            return None;
        }
        for fd in &self.fds {
            loop {
                match acceptfrom_with(fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                    Ok((socket, peer)) => {
                        let peer = peer.and_then(|peer| std::net::SocketAddr::try_from(peer).ok());
                        let peer = peer.map(|peer| SocketName::new(peer.ip(), peer.port())).unwrap_or_default();
                        return Some(Ok(Flow { number: 0, socket, peer, first: VecDeque::new() }));
                    }
                    Err(Errno::INTR | Errno::CONNABORTED) => {}
                    Err(Errno::AGAIN) => break,
                    Err(error) => return Some(Err(error)),
                }
            }
        }
        self.readable = false;
        None
    }

    /// Advances what waits. Operations that are complete are added to `done`.
    pub fn advance(&mut self, scratch: &mut [u8], done: &mut Vec<Done>) {
        if let State::Connecting(id) = self.state {
            let Some(outcome) = self.connected() else { return };
            self.state = if outcome.is_ok() { State::Open } else { State::Failed };
            done.push((id, outcome));
        }
        while let Some((id, into)) = self.receives.pop_front() {
            match self.try_receive(&into, scratch) {
                Some(outcome) => done.push((id, outcome)),
                None => {
                    self.receives.push_front((id, into));
                    break;
                }
            }
        }
        self.send_queued(|id, _, outcome| done.push((id, outcome)));
    }

    /// The outcome of a connection under way; `None`: not known yet.
    fn connected(&self) -> Option<Result> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let fd = self.fds.first()?.as_fd();
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(1) => Some(options::pending_error(fd).map(Results::encode)),
            _ => None,
        }
    }

    fn try_receive(&mut self, into: &[GuestSlice], scratch: &mut [u8]) -> Option<Result> {
        match self.transport {
            Transport::Tcp => self.receive_bytes(into),
            Transport::Udp | Transport::Icmp => self
                .receive_datagrams(into, scratch)
                .map(|outcome| Ok(Received { bytes: outcome? as u64, more: self.readable, ..Received::default() })),
        }
        .map(|outcome| outcome.map(Results::encode))
    }

    fn receive_bytes(&mut self, into: &[GuestSlice]) -> Option<Result<Received>> {
        let fd = self.fds.first()?.as_fd();
        if self.finished {
            return self.broken.then(|| options::pending_error(fd).map(|()| Received::default()));
        }
        if !self.readable {
            return None;
        }
        // A read ends before an urgent byte.
        let urgent = self.may_be_urgent && options::is_at_mark(fd);
        match io::read(fd, into, Position::Current, Wait::Default) {
            Err(Errno::AGAIN) => {
                (self.readable, self.may_be_urgent) = (false, false);
                None
            }
            Ok(bytes) => {
                let is_full = bytes >= total(into);
                // Less than there is room for: nothing is left but what is urgent, and more causes an edge.
                self.readable = self.ended || is_full || self.may_be_urgent && !urgent;
                self.may_be_urgent = is_full || self.may_be_urgent && !urgent;
                self.finished = bytes == 0;
                Some(Ok(Received { bytes: bytes as u64, urgent, more: self.readable && bytes > 0 }))
            }
            Err(error) => Some(Err(error)),
        }
    }

    fn try_send(&mut self, send: &mut Send) -> Option<Result> {
        if !self.writable {
            return None;
        }
        let fd = self.fds.first()?.as_fd();
        let whole = total(&send.from);
        loop {
            let left = Output::new(&send.from).rest(send.done);
            let sent = match (whole, send.urgent) {
                (0, _) => rustix::io::write(fd, &[]),
                (_, true) => send_urgent(fd, &left),
                _ => io::write(fd, &left, Position::Current, Wait::Default),
            };
            match sent {
                Ok(bytes) => {
                    send.done += bytes;
                    if self.transport != Transport::Tcp || send.done >= whole || bytes == 0 {
                        return Some(Ok((send.done as u64).encode()));
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.writable = false;
                    return None;
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Ends all operations that wait.
    pub fn give_up(&mut self, done: &mut Vec<Done>) {
        self.end(Errno::CANCELED, done);
    }

    fn end(&mut self, errno: Errno, done: &mut Vec<Done>) {
        if let State::Asked { id, .. } | State::Connecting(id) = self.state {
            done.push((id, Err(errno)));
        }
        let others = self.receives.drain(..).map(|(id, _)| id);
        let others = others.chain(self.sends.drain(..).map(|send| send.id));
        let others = others.chain(self.accepts.drain(..).map(|(id, _, _)| id));
        done.extend(others.map(|id| (id, Err(errno))));
    }
}

/// Sends bytes of which the last is urgent: it is sent alone.
fn send_urgent(fd: BorrowedFd<'_>, bytes: &[GuestSlice]) -> Result<usize> {
    use rustix::net::{SendFlags, send};
    let Some(before) = total(bytes).checked_sub(1) else { return Ok(0) };
    if before > 0 {
        let mut left = before;
        let ordinary = bytes.iter().map(|slice| {
            let part = slice.part(0, left);
            left -= part.len();
            part
        });
        let ordinary: Vec<GuestSlice> = ordinary.filter(|part| !part.is_empty()).collect();
        return io::write(fd, &ordinary, Position::Current, Wait::Default);
    }
    let mut byte = [0];
    bytes.iter().find(|slice| !slice.is_empty()).ok_or(Errno::FAULT)?.read(&mut byte)?;
    send(fd, &byte, SendFlags::OOB | SendFlags::NOSIGNAL)
}
