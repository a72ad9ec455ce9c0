//! The sockets connector: sockets of the host that are connected to peers, and published listeners.
//!
//! It holds what an [`Opener`] gave it and moves bytes; it neither opens sockets nor chooses peers. All descriptors are
//! watched by one epoll(7) instance, edge-triggered: an operation that finds nothing waits for the next edge.

pub mod broker;
pub mod opener;
pub mod options;
pub mod prepared;
mod socket;
#[cfg(test)]
mod tests;
pub mod told;
#[cfg(any(test, feature = "fuzzing"))]
pub mod toy;

use super::payload::copy_in;
use super::{Errno, Reply, Result, reply};
use crate::memory::io::GuestSlice;
use abi::operation::Results;
use abi::request::{
    MAX_DATAGRAM, SocketBind, SocketClose, SocketConnect, SocketGetOption, SocketHalf, SocketListen, SocketName,
    SocketRequest, SocketSetOption, SocketShutdown, Transport,
};
use opener::{Answer, Ask, Opener};
use prepared::{Prepared, Table};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::Shutdown;
use socket::{Datagram, Done, Flow, Socket, State};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use told::Told;

/// Most sockets, whatever the limit on descriptors is.
const MAX_SOCKETS: u64 = 1 << 15;
/// Descriptors that sockets leave to others, at least half of all.
const RESERVED: u64 = 208;
/// Numbers of sockets are smaller.
const NUMBERS: u64 = 1 << 32;
/// The opener's number among the sockets.
const OPENER: u64 = u64::MAX;
/// Events of one look.
const EVENTS: usize = 64;
/// Most operations that wait until the opener has settled; others wait for the monitor alone.
const MAX_SETTLING: usize = 1024;
/// Most looks of one request to settle: each socket has its turn.
const MAX_LOOKS: usize = MAX_SOCKETS as usize / EVENTS;
/// How long the sockets are watched after the last one is closed: a client opens the next one soon, and the threads of the monitor then need
/// not be told of it.
const WATCHED: Duration = Duration::from_millis(50);
/// Number of queued operations of a socket that are worth sending at once.
const ENOUGH: usize = 64;

/// Serves the socket operations of one pod.
#[derive(Debug)]
pub struct SocketsConnector {
    inner: Option<Inner>,
}

#[derive(Debug)]
struct Inner {
    opener: Box<dyn Opener>,
    /// The opener has ended.
    ended: bool,
    prepared: Prepared,
    /// The pod has the host's network, and may know its addresses.
    host: bool,
    epoll: Arc<OwnedFd>,
    sockets: HashMap<u64, Socket>,
    limit: usize,
    /// Sockets by the questions for them.
    asked: HashMap<u64, u64>,
    next_question: u64,
    /// Operations that settle, by the questions that they wait for, and those that wait for one look more.
    settling: HashMap<u64, u64>,
    settled: Vec<u64>,
    /// Questions that found no room.
    unasked: VecDeque<Ask>,
    done: Vec<Done>,
    /// When the last socket was closed.
    emptied: Option<Instant>,
    /// A first socket was opened since [`SocketsConnector::take_unwatched`]: threads that sleep do not poll the descriptor.
    unwatched: bool,
    /// Sockets with something queued to send.
    unsent: Vec<u64>,
    /// Operations that sent: id, whether it is quiet, outcome.
    sent: Vec<(u64, bool, Result)>,
    /// Where datagrams are received.
    scratch: Vec<u8>,
}

impl SocketsConnector {
    /// Of a pod without a network: every operation fails with ENETUNREACH.
    pub fn none() -> Self {
        Self { inner: None }
    }

    /// Serves sockets of this opener, which prepares peers in this table.
    pub fn new(opener: Box<dyn Opener>, table: Option<Table>) -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let edges = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        epoll::add(&epoll, opener.fd(), EventData::new_u64(OPENER), edges)?;
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = (files / 2).min(files.saturating_sub(RESERVED)).clamp(1, MAX_SOCKETS) as usize;
        let inner = Inner {
            opener,
            ended: false,
            prepared: Prepared::new(table),
            host: false,
            epoll: Arc::new(epoll),
            sockets: HashMap::new(),
            limit,
            asked: HashMap::new(),
            next_question: 1,
            settling: HashMap::new(),
            settled: Vec::new(),
            unasked: VecDeque::new(),
            done: Vec::new(),
            emptied: None,
            unwatched: false,
            unsent: Vec::new(),
            sent: Vec::new(),
            scratch: vec![0; MAX_DATAGRAM + 1],
        };
        Ok(Self { inner: Some(inner) })
    }

    /// The pod has the host's network, or not.
    #[must_use]
    pub fn of_host(mut self, host: bool) -> Self {
        if let Some(inner) = &mut self.inner {
            inner.host = host;
        }
        self
    }

    /// The descriptor to poll for input, while operations wait; when it is ready, call [`Self::ready`].
    pub fn waiting(&self) -> Option<Arc<OwnedFd>> {
        self.inner.as_ref().filter(|inner| inner.is_watched()).map(|inner| inner.epoll.clone())
    }

    /// Whether [`Self::waiting`] names the descriptor only since this was asked last.
    pub fn take_unwatched(&mut self) -> bool {
        self.inner.as_mut().is_some_and(|inner| std::mem::take(&mut inner.unwatched))
    }

    /// Maximum number of sockets; 0 without a network.
    pub fn limit(&self) -> usize {
        self.inner.as_ref().map_or(0, |inner| inner.limit)
    }

    /// Starts an operation; `None` if it completes later.
    pub fn start(
        &mut self,
        id: u64,
        request: SocketRequest,
        input: &[GuestSlice],
        output: &[GuestSlice],
    ) -> Option<Result> {
        match &mut self.inner {
            Some(inner) => inner.start(id, request, input, output).transpose(),
            None => Some(Err(Errno::NETUNREACH)),
        }
    }

    /// Sends what is queued: at the end of a pass over the ring. Operations that are complete: id, whether it is quiet, outcome.
    pub fn flush(&mut self) -> Vec<(u64, bool, Result)> {
        self.inner.as_mut().map(Inner::flush).unwrap_or_default()
    }

    /// Completes operations whose sockets are ready, and cancelled ones.
    pub fn ready(&mut self) -> Vec<Done> {
        self.inner.as_mut().map(Inner::ready).unwrap_or_default()
    }
}

impl Inner {
    /// Whether threads that wait poll the descriptor.
    fn is_watched(&self) -> bool {
        !self.sockets.is_empty() || self.emptied.is_some_and(|since| since.elapsed() < WATCHED)
    }

    fn start(
        &mut self,
        id: u64,
        request: SocketRequest,
        input: &[GuestSlice],
        output: &[GuestSlice],
    ) -> Result<Option<Reply>> {
        // What follows finds it sent.
        if !matches!(request, SocketRequest::SocketSend(_) | SocketRequest::SocketReceive(_)) {
            self.send_queued();
        }
        match request {
            SocketRequest::SocketConnect(connect) => self.connect(id, connect, input, output).map(|()| None),
            SocketRequest::SocketBind(bind) => self.bind(id, bind, input, output).map(|()| None),
            SocketRequest::SocketListen(listen) => self.listen(id, listen, input).map(|()| None),
            SocketRequest::SocketReceive(receive) => {
                let socket = self.sockets.get_mut(&receive.socket).ok_or(Errno::BADF)?;
                socket.receive(id, output, &mut self.scratch).transpose()
            }
            SocketRequest::SocketSend(send) => {
                let socket = self.sockets.get_mut(&send.socket).ok_or(Errno::BADF)?;
                if send.urgent && socket.transport != Transport::Tcp {
                    return Err(Errno::OPNOTSUPP);
                }
                match socket.queue(id, input, &send)? {
                    1 => self.unsent.push(send.socket),
                    ENOUGH.. => self.send_queued(),
                    _ => {}
                }
                Ok(None)
            }
            SocketRequest::SocketAccept(accept) => {
                let socket = self.sockets.get_mut(&accept.socket).ok_or(Errno::BADF)?;
                socket.accept(id, accept.accepted, output)?;
                self.admit(accept.socket);
                // Completed with the others, if at all.
                Ok(None)
            }
            SocketRequest::SocketShutdown(shutdown) => reply(shutdown, self.shut_down(shutdown)).map(Some),
            SocketRequest::SocketClose(close) => reply(close, self.close(close)).map(Some),
            SocketRequest::SocketSetOption(set) => reply(set, self.set_option(set, input)).map(Some),
            SocketRequest::SocketGetOption(get) => reply(get, self.get_option(get, output)).map(Some),
            SocketRequest::SocketTell(tell) => {
                let host = self.host;
                let socket = self.sockets.get_mut(&tell.socket).ok_or(Errno::BADF);
                reply(tell, socket.and_then(|socket| socket.tell(tell.what, host))).map(Some)
            }
            SocketRequest::SocketSettle(settle) => {
                self.settle(id, settle.datagrams);
                Ok(None)
            }
        }
    }

    /// Sends what is queued, of all sockets.
    fn send_queued(&mut self) {
        for number in std::mem::take(&mut self.unsent) {
            if let Some(socket) = self.sockets.get_mut(&number) {
                socket.send_queued(|id, quiet, outcome| self.sent.push((id, quiet, outcome)));
            }
        }
    }

    fn flush(&mut self) -> Vec<(u64, bool, Result)> {
        self.send_queued();
        std::mem::take(&mut self.sent)
    }

    fn socket(&self, number: u64) -> Result<&Socket> {
        self.sockets.get(&number).ok_or(Errno::BADF)
    }

    /// Reserves a number. EINVAL, EEXIST, EMFILE.
    fn check_number(&self, number: u64) -> Result<()> {
        match number {
            0 | NUMBERS.. => Err(Errno::INVAL),
            _ if self.sockets.contains_key(&number) => Err(Errno::EXIST),
            _ if self.sockets.len() >= self.limit => Err(Errno::MFILE),
            _ => Ok(()),
        }
    }

    fn question(&mut self, number: u64) -> u64 {
        let question = self.next_question;
        self.next_question += 1;
        self.asked.insert(question, number);
        question
    }

    fn connect(&mut self, id: u64, connect: SocketConnect, input: &[GuestSlice], output: &[GuestSlice]) -> Result<()> {
        let [local, peer] = names(input)?;
        if let Some((question, socket)) = self.bound(connect.socket) {
            // The opener has it no longer, whatever comes of it.
            (socket.peer, socket.ends, socket.name_into) = (Some(peer), None, output.to_vec());
            socket.state = State::Asked { question, id };
            self.ask(Ask::Connect { id: question, transport: Transport::Tcp, local, peer });
            return Ok(());
        }
        self.check_number(connect.socket)?;
        let (prepared, ask) = match connect.transport {
            Transport::Tcp => self.prepared.connect(peer),
            Transport::Udp | Transport::Icmp => (None, None),
        };
        if let Some(ask) = ask {
            self.ask(ask);
        }
        let question = if prepared.is_some() { 0 } else { self.question(connect.socket) };
        let mut socket = Socket::new(connect.transport, State::Asked { question, id });
        (socket.peer, socket.name_into) = (Some(peer), output.to_vec());
        self.unwatched |= !self.is_watched();
        if let Some(outcome) = prepared {
            self.attach(id, connect.socket, &mut socket, outcome);
            self.sockets.insert(connect.socket, socket);
            return Ok(());
        }
        self.sockets.insert(connect.socket, socket);
        self.ask(Ask::Connect { id: question, transport: connect.transport, local, peer });
        Ok(())
    }

    fn listen(&mut self, id: u64, listen: SocketListen, input: &[GuestSlice]) -> Result<()> {
        let [address] = names(input)?;
        if let Some((question, socket)) = self.bound(listen.socket) {
            socket.state = State::Asked { question, id };
            let (transport, backlog) = (Transport::Tcp, listen.backlog);
            self.ask(Ask::Listen { id: question, transport, address, backlog });
            return Ok(());
        }
        self.check_number(listen.socket)?;
        let question = self.question(listen.socket);
        let socket = Socket::new(listen.transport, State::Asked { question, id });
        self.unwatched |= !self.is_watched();
        self.sockets.insert(listen.socket, socket);
        self.ask(Ask::Listen { id: question, transport: listen.transport, address, backlog: listen.backlog });
        Ok(())
    }

    fn bind(&mut self, id: u64, bind: SocketBind, input: &[GuestSlice], output: &[GuestSlice]) -> Result<()> {
        let [address] = names(input)?;
        self.check_number(bind.socket)?;
        let question = self.question(bind.socket);
        let mut socket = Socket::new(bind.transport, State::Asked { question, id });
        (socket.binds, socket.name_into) = (true, output.to_vec());
        self.unwatched |= !self.is_watched();
        self.sockets.insert(bind.socket, socket);
        self.ask(Ask::Bind { id: question, transport: bind.transport, address, flags: bind.flags });
        Ok(())
    }

    /// A socket of TCP that is bound and nothing else, with the question that it was bound by.
    fn bound(&mut self, number: u64) -> Option<(u64, &mut Socket)> {
        let socket = self.sockets.get_mut(&number).filter(|socket| socket.transport == Transport::Tcp)?;
        if let State::Bound(question) = socket.state { Some((question, socket)) } else { None }
    }

    fn ask(&mut self, question: Ask) {
        self.unasked.push_back(question);
        self.ask_more();
    }

    /// There are no more answers: the user is told once.
    fn opener_ended(&mut self) {
        self.prepared.end();
        if !std::mem::replace(&mut self.ended, true) {
            let text = "hull: the broker: its process ended; open connections stay, new ones fail with ENETDOWN: start the pod again";
            // Ignore errors of standard error.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }

    /// Asks what found no room before.
    fn ask_more(&mut self) {
        while let Some(question) = self.unasked.front().copied() {
            match self.opener.ask(&question) {
                Ok(()) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.opener_ended();
                    self.settled.extend(self.settling.drain().map(|(_, id)| id));
                    if let Ask::Connect { id, .. } | Ask::Listen { id, .. } | Ask::Bind { id, .. } = question {
                        self.refuse(id, Errno::NETDOWN);
                    }
                }
            }
            self.unasked.pop_front();
        }
    }

    /// The socket of a question gets no descriptor.
    fn refuse(&mut self, question: u64, errno: Errno) {
        let Some(number) = self.asked.remove(&question) else { return };
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        if let State::Asked { id, .. } = std::mem::replace(&mut socket.state, State::Failed) {
            self.done.push((id, Err(errno)));
        }
    }

    fn take_answers(&mut self) {
        // Many come together: one look at the sockets is for all of them.
        let mut revoked = BTreeSet::new();
        loop {
            match self.opener.take() {
                Ok(Answer::Revoked { transport, peer }) => drop(revoked.insert((transport, peer))),
                Ok(answer) => {
                    // What is opened after that is allowed.
                    self.revoke(&mut revoked);
                    self.answered(answer);
                }
                Err(Errno::AGAIN) => return self.revoke(&mut revoked),
                Err(_) => {
                    self.revoke(&mut revoked);
                    // Open sockets stay.
                    self.opener_ended();
                    self.settled.extend(self.settling.drain().map(|(_, id)| id));
                    let asked = |(question, number): (&u64, &u64)| {
                        let socket = self.sockets.get(number)?;
                        matches!(socket.state, State::Asked { .. }).then_some(*question)
                    };
                    let unanswered: Vec<u64> = self.asked.iter().filter_map(asked).collect();
                    unanswered.into_iter().for_each(|question| self.refuse(question, Errno::NETDOWN));
                    return;
                }
            }
        }
    }

    /// Breaks connections to these peers off.
    fn revoke(&mut self, revoked: &mut BTreeSet<(Transport, SocketAddr)>) {
        if revoked.is_empty() {
            return;
        }
        let whole = |transport| revoked.contains(&(transport, SocketAddr::from(([0, 0, 0, 0], 0))));
        for socket in self.sockets.values_mut() {
            let transport = socket.transport;
            let is_one = |peer: SocketAddr| {
                let port = if transport == Transport::Icmp { 0 } else { peer.port() };
                revoked.contains(&(transport, SocketAddr::new(peer.ip().to_canonical(), port)))
            };
            if socket.leads_to(transport, whole(transport), is_one) {
                socket.revoke(&mut self.done);
            }
        }
        revoked.clear();
    }

    fn answered(&mut self, answer: Answer) {
        match answer {
            // By the caller.
            Answer::Revoked { .. } => {}
            Answer::Refused { id, errno } => self.refuse(id, errno),
            Answer::Settled { id } => self.settled.extend(self.settling.remove(&id)),
            Answer::Spare { v6, sockets } => self.prepared.fill(v6, sockets),
            Answer::Opened { id: question, socket: fd, entry } => {
                // Closed meanwhile: the descriptor is dropped.
                let Some(number) = self.asked.remove(&question) else { return };
                let Some(mut socket) = self.sockets.remove(&number) else { return };
                if let (Some(peer), Some(entry)) = (socket.peer, entry) {
                    self.prepared.add(peer, entry);
                }
                if let State::Asked { id, .. } = socket.state {
                    self.attach(id, number, &mut socket, Ok(fd));
                }
                self.sockets.insert(number, socket);
            }
            Answer::Bound { id: question, name } => self.named(question, name),
            Answer::Listening { id: question, listeners } => self.listening(question, listeners),
            Answer::Flow { listener, flow, peer, socket, facts, first } => {
                let number = self.asked.get(&listener).copied();
                let owner = number.and_then(|number| self.sockets.get_mut(&number));
                let peer = SocketName::new(peer.ip(), peer.port());
                let first = Datagram { bytes: first, told: Told { facts, ..Told::default() } };
                let new = Flow { number: flow, socket, peer, first: VecDeque::from([first]) };
                let taken = owner.is_some_and(|owner| owner.add_flow(new));
                match number {
                    Some(number) if taken => {
                        self.asked.insert(flow, number);
                        self.admit(number);
                    }
                    _ => self.ask(Ask::Close { id: flow }),
                }
            }
            Answer::Datagram { flow, facts, bytes } => {
                let number = self.asked.get(&flow).copied();
                if let Some((number, socket)) = number.and_then(|number| Some((number, self.sockets.get_mut(&number)?)))
                {
                    socket.add_datagram(flow, Datagram { bytes, told: Told { facts, ..Told::default() } });
                    socket.advance(&mut self.scratch, &mut self.done);
                    self.admit(number);
                }
            }
        }
    }

    /// A socket that was asked for gets its descriptor, which is connected or connects, or has failed to.
    fn attach(&mut self, id: u64, number: u64, socket: &mut Socket, outcome: Result<OwnedFd>) {
        let watched = outcome.and_then(|fd| watch(&self.epoll, &fd, number).map(|()| fd));
        match watched {
            Err(errno) => {
                socket.state = State::Failed;
                self.done.push((id, Err(errno)));
            }
            Ok(fd) if socket.transport == Transport::Tcp => {
                socket.add(fd);
                socket.state = State::Connecting(id);
                socket.advance(&mut self.scratch, &mut self.done);
            }
            Ok(fd) => {
                socket.add(fd);
                socket.state = State::Open;
                self.done.push((id, Ok(().encode())));
            }
        }
    }

    /// The name of a socket: it is bound, or opened next.
    fn named(&mut self, question: u64, name: SocketAddr) {
        let Some(number) = self.asked.get(&question).copied() else {
            // Closed meanwhile.
            return self.ask(Ask::Close { id: question });
        };
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        let State::Asked { id, .. } = socket.state else { return };
        let into = std::mem::take(&mut socket.name_into);
        let written = super::payload::Output::new(&into).put_optional(&SocketName::new(name.ip(), name.port()));
        if !std::mem::take(&mut socket.binds) {
            return;
        }
        socket.state = if socket.transport == Transport::Tcp { State::Bound(question) } else { State::Listening };
        socket.ends = Some(question);
        self.done.push((id, written.map(Results::encode)));
    }

    fn listening(&mut self, question: u64, listeners: Vec<OwnedFd>) {
        let Some(number) = self.asked.get(&question).copied() else {
            return self.ask(Ask::Close { id: question });
        };
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        let State::Asked { id, .. } = socket.state else { return };
        let watched = listeners.iter().try_for_each(|fd| watch(&self.epoll, fd, number));
        let published = !listeners.is_empty() || socket.transport != Transport::Tcp;
        let count = listeners.len() as u64;
        listeners.into_iter().for_each(|fd| socket.add(fd));
        match watched {
            Ok(()) if published => {
                socket.state = State::Listening;
                socket.ends = Some(question);
                self.done.push((id, Ok(count.max(1).encode())));
            }
            outcome => {
                self.sockets.remove(&number);
                self.asked.remove(&question);
                self.done.push((id, outcome.map(|()| 0u64.encode())));
                self.ask(Ask::Close { id: question });
            }
        }
    }

    /// Accepts connections of a listener for the operations that wait for them.
    fn admit(&mut self, number: u64) {
        loop {
            let Some(socket) = self.sockets.get_mut(&number) else { return };
            let transport = socket.transport;
            while let Some(id) = socket.next_told() {
                self.done.push((id, Ok(().encode())));
            }
            let Some((id, accepted, into, flow)) = socket.next_accepted() else { return };
            let outcome = flow.and_then(|flow| {
                self.check_number(accepted)?;
                watch(&self.epoll, &flow.socket, accepted)?;
                let mut output = super::payload::Output::new(&into);
                let own = if output.room() < 2 * size_of::<SocketName>() { None } else { own_name(&flow.socket) };
                let (socket, peer) = Socket::open(transport, flow);
                if let Some(flow) = socket.ends {
                    self.asked.insert(flow, accepted);
                }
                self.sockets.insert(accepted, socket);
                output.put(bytemuck::bytes_of(&peer))?;
                own.map_or(Ok(()), |own| output.put_optional(&own))
            });
            self.done.push((id, outcome.map(Results::encode)));
        }
    }

    fn shut_down(&mut self, shutdown: SocketShutdown) -> Result<()> {
        let how = match shutdown.half {
            SocketHalf::Receive => Shutdown::Read,
            SocketHalf::Send => Shutdown::Write,
            SocketHalf::Both => Shutdown::Both,
        };
        rustix::net::shutdown(self.socket(shutdown.socket)?.fd()?, how)
    }

    fn close(&mut self, close: SocketClose) -> Result<()> {
        let mut socket = self.sockets.remove(&close.socket).ok_or(Errno::BADF)?;
        if self.sockets.is_empty() {
            self.emptied = Some(Instant::now());
        }
        socket.give_up(&mut self.done);
        if close.abort {
            socket.fds().iter().for_each(|fd| options::break_at_close(fd.as_fd()));
        }
        if let State::Asked { question, .. } = socket.state {
            self.asked.remove(&question);
        }
        for number in socket.ends.into_iter().chain(socket.flows()) {
            self.asked.remove(&number);
            self.ask(Ask::Close { id: number });
        }
        Ok(())
    }

    fn set_option(&mut self, set: SocketSetOption, input: &[GuestSlice]) -> Result<()> {
        let value = copy_in(input, options::MAX_VALUE)?;
        let socket = self.socket(set.socket)?;
        let mut fds = socket.fds().iter();
        fds.try_for_each(|fd| options::set(fd.as_fd(), set.level, set.name, &value))
    }

    fn get_option(&mut self, get: SocketGetOption, output: &[GuestSlice]) -> Result<u64> {
        let mut value = [0; options::MAX_VALUE];
        let mut output = super::payload::Output::new(output);
        let room = output.room().min(value.len());
        let value = value.get_mut(..room).ok_or(Errno::INVAL)?;
        let len = options::get(self.socket(get.socket)?.fd()?, get.level, get.name, value)?;
        output.put(value.get(..len).ok_or(Errno::FAULT)?)?;
        Ok(len as u64)
    }

    fn ready(&mut self) -> Vec<Done> {
        // Otherwise nothing waits for the opener either.
        if self.is_watched() || !self.unasked.is_empty() {
            self.look();
        }
        let sent = self.flush().into_iter().map(|(id, _, outcome)| (id, outcome));
        let mut done = std::mem::take(&mut self.done);
        done.extend(sent);
        done
    }

    /// Completes what the requests before have made ready, then this operation. What comes to bound sockets of datagrams comes to the
    /// opener first, which also closes them.
    fn settle(&mut self, id: u64, datagrams: bool) {
        if datagrams && self.settling.len() < MAX_SETTLING {
            let question = self.next_question;
            self.next_question += 1;
            self.settling.insert(question, id);
            return self.ask(Ask::Settle { id: question });
        }
        self.settled.push(id);
        self.look();
    }

    /// Takes the events of one look. Others stay with epoll(7), unless operations wait for all.
    fn look(&mut self) {
        for _ in 0..MAX_LOOKS {
            let count = self.look_once();
            if self.settled.is_empty() || count < EVENTS {
                break;
            }
        }
        self.done.extend(self.settled.drain(..).map(|id| (id, Ok(().encode()))));
    }

    /// How many events there were.
    fn look_once(&mut self) -> usize {
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS];
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = epoll::wait(&self.epoll, &mut events[..], Some(&at_once)).unwrap_or(0);
        for event in events.iter().take(count) {
            let number = { event.data }.u64();
            if number == OPENER {
                self.take_answers();
                self.ask_more();
                continue;
            }
            let Some(socket) = self.sockets.get_mut(&number) else { continue };
            socket.report(event.flags);
            socket.advance(&mut self.scratch, &mut self.done);
            self.admit(number);
        }
        count
    }
}

/// The name of a socket of IP.
fn own_name(socket: &OwnedFd) -> Option<SocketName> {
    let name = SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()?;
    Some(SocketName::new(name.ip(), name.port()))
}

/// Watches a descriptor of a socket.
fn watch(epoll: &OwnedFd, fd: &OwnedFd, number: u64) -> Result<()> {
    let edges = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::PRI | EventFlags::ET;
    epoll::add(epoll, fd, EventData::new_u64(number), edges)
}

/// The addresses of a request. EINVAL.
fn names<const N: usize>(input: &[GuestSlice]) -> Result<[SocketAddr; N]> {
    let bytes = copy_in(input, N * size_of::<SocketName>())?;
    let mut all = [SocketAddr::from(([0, 0, 0, 0], 0)); N];
    if bytes.len() != N * size_of::<SocketName>() {
        return Err(Errno::INVAL);
    }
    for (to, bytes) in all.iter_mut().zip(bytes.chunks_exact(size_of::<SocketName>())) {
        let name: SocketName = bytemuck::pod_read_unaligned(bytes);
        *to = SocketAddr::new(name.ip(), name.port);
    }
    Ok(all)
}
