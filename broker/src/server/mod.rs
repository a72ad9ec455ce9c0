//! The process: serves the monitor's requests until the monitor has ended.

pub mod audit;
pub mod control;
pub mod judge;
mod peers;
pub mod poller;
pub mod publish;
pub mod record;
pub mod setup;
pub mod table;

use crate::dns::Context;
use crate::dns::Resolver;
use crate::dns::hosts::{Configuration, Hosts};
use crate::prepared::{Entry, MAX_SPARE};
use crate::protocol::{Id, MAX_DESCRIPTORS, MAX_MESSAGE, REQUEST_BYTES, Refused, Reply, Request, Transport};
use crate::seqpacket;
use audit::Audit;
use control::{Caller, Control};
use judge::{Judge, Target};
use policy::Network;
use poller::Poller;
use publish::{Arrived, Datagrams, Ports};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_oobinline;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, ipproto, socket_with};
use setup::Setup;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::time::Instant;
use table::Table;

/// Token of the monitor's socket; those of published ports, of the name server and of the control socket follow.
const MONITOR: u64 = 0;
const PORTS: u64 = 1;
const RESOLVER: u64 = 1 << 32;
const CONTROL: u64 = 1 << 62;
/// Replies that wait until the monitor reads; beyond it no requests are read and datagrams are dropped.
const MOST_WAITING: usize = 64;
/// Requests that are served before other sockets have their turn.
const TURN: usize = 64;

/// A reply that the monitor has no room for.
#[derive(Debug)]
struct Waiting {
    message: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// The broker of one pod.
#[derive(Debug)]
pub struct Broker {
    monitor: OwnedFd,
    poller: Poller,
    judge: Judge,
    ports: Ports,
    resolver: Resolver,
    waiting: VecDeque<Waiting>,
    /// Whether the monitor's socket is watched for input and for room for output.
    watched: (bool, bool),
    buffer: Box<[u8; MAX_MESSAGE]>,
    control: Option<Control>,
    /// The pod has a network.
    network: bool,
    /// It is the host's.
    host: bool,
    /// Peers that the monitor may connect to again.
    table: Option<Table>,
    /// Kinds of IP sockets besides TCP's that the monitor got: it can connect those to prepared peers, too.
    gave: Vec<Transport>,
    record: Option<(File, String)>,
}

/// Why a broker does not start: what, why, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unable(pub String, pub String, pub &'static str);

fn reason(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    text.split_once(" (os error").map_or(text.clone(), |(text, _)| text.to_lowercase())
}

/// Opens a file for records.
fn create(option: &str, path: &[u8], append: bool) -> Result<File, Unable> {
    let path = std::path::PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()));
    let file = File::options().create(true).write(true).append(append).truncate(!append).open(&path);
    file.map_err(|error| {
        let why = Errno::from_io_error(&error).map_or_else(|| error.to_string(), reason);
        Unable(format!("{option} {}", path.display()), why, "name a file that can be written")
    })
}

/// Opens the file of `--audit`, if there is one.
///
/// # Errors
///
/// It can't be written.
pub fn open_audit(setup: &Setup) -> Result<Option<File>, Unable> {
    setup.audit.as_deref().map(|path| create("--audit", path, true)).transpose()
}

impl Broker {
    /// Opens the files, binds the ports and reads the host's configuration. `monitor`: this end of the socket pair. `control`: a
    /// listening socket for commands, and the user who may give them.
    pub fn new(setup: &Setup, monitor: OwnedFd, control: Option<(OwnedFd, u32)>) -> Result<Self, Unable> {
        let broken = |errno| Unable("the broker".into(), reason(errno), "see hull doctor");
        let rules =
            setup.rules().map_err(|error| Unable("the policy".into(), error.to_string(), "see docs/policy.md"))?;
        let audit = open_audit(setup)?;
        let record = match &setup.record {
            Some((path, text)) => Some((create("--record-policy", path, false)?, text.clone())),
            None => None,
        };
        let ports = Ports::bind(&setup.publish, setup.may_listen(), setup.host).map_err(|(host, error)| {
            let remedy = match error {
                Errno::ADDRINUSE => "choose another port, or end the program that has it",
                Errno::ACCESS => "choose a port from 1024 on, or run hull with CAP_NET_BIND_SERVICE",
                _ => "choose an address of this host",
            };
            Unable(format!("--publish {host}"), reason(error), remedy)
        })?;
        let mut configuration = Configuration::of_host();
        if !setup.dns.is_empty() {
            configuration.servers = setup.dns.iter().map(|ip| SocketAddr::new(*ip, 53)).collect();
        }
        let poller = Poller::new().map_err(broken)?;
        poller.add(&monitor, MONITOR).map_err(broken)?;
        let audit = Audit::new(audit, setup.pod, setup.tells);
        let mut judge = Judge::new(Network { rules }, setup.fixed(), audit, record.is_some());
        judge.set_host(setup.host);
        let control = control.map(|(listener, owner)| Control::new(listener, owner, CONTROL, &poller));
        Ok(Self {
            monitor,
            poller,
            judge,
            ports,
            resolver: Resolver::new(configuration, Hosts::of_host(), RESOLVER),
            waiting: VecDeque::new(),
            watched: (true, false),
            buffer: Box::new([0; MAX_MESSAGE]),
            control: control.transpose().map_err(broken)?,
            network: setup.network,
            host: setup.host,
            table: None,
            gave: Vec::new(),
            record,
        })
    }

    /// Receives datagrams of published ports like this.
    #[must_use]
    pub fn with_datagrams(mut self, datagrams: Datagrams) -> Self {
        self.ports.receive_by(datagrams);
        self
    }

    /// Makes the table of [prepared peers](crate::prepared), without which the monitor asks for each connection. Returns its file for the
    /// monitor, without the right to write; `None` if the host refuses, or decisions are recorded.
    pub fn prepare_peers(&mut self) -> Option<OwnedFd> {
        // The names of its sockets come from the broker.
        if !self.network || self.host || self.judge.keeps_records() {
            return None;
        }
        let (table, file) = Table::new().ok()?;
        self.table = Some(table);
        Some(file)
    }

    /// Serves the monitor until it has ended.
    pub fn serve(mut self) {
        while self.turn() {}
        if let Some((mut file, text)) = self.record.take() {
            let network = self.judge.record().map(record::Record::text).unwrap_or_default();
            // Ignore errors: nobody is left to read about them.
            let _ = file.write_all(format!("{text}\n{network}").as_bytes());
        }
    }

    /// Waits for events and serves them; false at the end.
    fn turn(&mut self) -> bool {
        let deadlines = [
            self.resolver.deadline(),
            self.control.as_ref().and_then(Control::deadline),
            self.table.as_ref().and_then(Table::deadline),
        ];
        let deadline = deadlines.into_iter().flatten().min();
        let wait = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let tokens = self.poller.wait(wait);
        let now = Instant::now();
        for token in tokens {
            match token {
                MONITOR if !self.serve_monitor(now) => return false,
                MONITOR => {}
                PORTS..RESOLVER => self.receive(usize::try_from(token - PORTS).unwrap_or(usize::MAX)),
                CONTROL.. => self.serve_control(token, now),
                _ => {
                    let mut context = Context { judge: &mut self.judge, poller: &self.poller, now };
                    self.resolver.ready(token, &mut context);
                }
            }
        }
        let mut context = Context { judge: &mut self.judge, poller: &self.poller, now };
        self.resolver.expire(&mut context);
        if let Some(table) = &mut self.table {
            table.expire(now);
        }
        if let Some(control) = &mut self.control {
            control.expire(now, &self.poller);
        }
        true
    }

    /// Serves the user's commands.
    fn serve_control(&mut self, token: u64, now: Instant) {
        let Some(mut control) = self.control.take() else { return };
        let poller = &self.poller;
        let (judge, network, host) = (&mut self.judge, self.network, self.host);
        let mut revoked = Vec::new();
        let stranger = control.ready(token, now, poller, |message, caller: Caller| {
            let command = crate::control::parse(message)?;
            if !network && command != crate::control::Command::Show {
                return Err("the pod has no network; start it with --net policy, or with a rule".into());
            }
            if host && command != crate::control::Command::Show {
                return Err("the pod has the host's network, which no rules limit; start it with --net policy".into());
            }
            let (text, peers) = judge.command(&command, caller)?;
            revoked = peers;
            Ok(text)
        });
        if let Some(caller) = stranger {
            self.judge.stranger(caller);
        }
        self.control = Some(control);
        // What the monitor connects to from now on is decided by the changed policy; it learns below what must end.
        if let Some(table) = &mut self.table {
            table.withdraw();
        }
        // All of them wait if they must: what the policy denies must end.
        for (transport, peer) in revoked {
            self.send(Reply::Revoked { transport, peer }, vec![]);
        }
        self.watch();
    }

    /// Sends what waits and serves requests; false if the monitor has ended, or does not follow the protocol.
    fn serve_monitor(&mut self, now: Instant) -> bool {
        if !self.flush() {
            return false;
        }
        let mut descriptors = Vec::new();
        for _ in 0..TURN {
            if self.waiting.len() >= MOST_WAITING {
                break;
            }
            let mut buffer = [0; REQUEST_BYTES + 1];
            let length = match seqpacket::receive(&self.monitor, &mut buffer, &mut descriptors) {
                Err(Errno::AGAIN) => break,
                Ok(length) if length > 0 => length,
                _ => return false,
            };
            let Some(request) = Request::decode(&buffer[..length]) else { return false };
            if !self.handle(request, now) {
                return false;
            }
        }
        self.watch()
    }

    /// Watches the monitor's socket for what can be done.
    fn watch(&mut self) -> bool {
        let wanted = (self.waiting.len() < MOST_WAITING, !self.waiting.is_empty());
        let same = std::mem::replace(&mut self.watched, wanted) == wanted;
        same || self.poller.set(&self.monitor, MONITOR, wanted.0, wanted.1).is_ok()
    }

    fn handle(&mut self, request: Request, now: Instant) -> bool {
        match request {
            Request::Connect { id, transport, local, peer } => match self.connect(id, transport, local, peer, now) {
                Ok((socket, entry)) => {
                    self.tell_name(id, &socket) && self.send(Reply::Opened { id, entry }, vec![socket])
                }
                Err(error) => self.send(Reply::Refused { id, error }, vec![]),
            },
            Request::Bind { id, transport, address, flags } => {
                if transport == Transport::Udp {
                    self.gives(transport);
                }
                match self.ports.take(id, transport, address, flags, (&self.poller, PORTS)) {
                    Ok(name) => self.send(Reply::Bound { id, name }, vec![]),
                    Err(error) => self.send(Reply::Refused { id, error: refused(error) }, vec![]),
                }
            }
            Request::Listen { id, address, backlog, .. } if self.host => {
                let socket = self.ports.listen_taken(id, backlog).unwrap_or(Err(Errno::INVAL));
                match socket.and_then(rustix::io::dup) {
                    Ok(socket) => {
                        self.judge.listens(address);
                        self.send(Reply::Listening { id }, vec![socket])
                    }
                    Err(error) => self.send(Reply::Refused { id, error: refused(error) }, vec![]),
                }
            }
            Request::Listen { id, transport, address, backlog } => {
                match self.ports.open(transport, address) {
                    Ok(None) => {}
                    Ok(Some(ports)) => self.judge.listened(transport, address.port(), Ok(ports)),
                    Err(error) => {
                        self.judge.listened(transport, address.port(), Err(error));
                        return self.send(Reply::Refused { id, error: refused(error) }, vec![]);
                    }
                }
                let sockets = self.ports.listen(id, transport, address, backlog, (&self.poller, PORTS));
                // Duplicates: the broker keeps its own.
                let sockets = sockets.and_then(|sockets| match sockets.len() {
                    0..=MAX_DESCRIPTORS => sockets.into_iter().map(rustix::io::dup).collect(),
                    _ => Err(Errno::MFILE),
                });
                match sockets {
                    Ok(sockets) => self.send(Reply::Listening { id }, sockets),
                    Err(error) => {
                        self.ports.close(id, &self.poller);
                        self.send(Reply::Refused { id, error: refused(error) }, vec![])
                    }
                }
            }
            Request::Close { id } => {
                self.ports.close(id, &self.poller);
                true
            }
            Request::Settle { id } => {
                for port in self.ports.bound_by_pod() {
                    self.receive(port);
                }
                self.send(Reply::Settled { id }, vec![])
            }
            Request::Spare { v6 } => {
                let family = if v6 { AddressFamily::INET6 } else { AddressFamily::INET };
                let wanted = if self.table.is_some() { MAX_SPARE } else { 0 };
                let sockets = (0..wanted).map_while(|_| socket(family, SocketType::STREAM, None).ok());
                let sockets = sockets.collect();
                self.send(Reply::Spare { v6 }, sockets)
            }
        }
    }

    /// Tells the name of a socket that is passed next, if the pod has the host's network.
    fn tell_name(&mut self, id: Id, socket: &OwnedFd) -> bool {
        match publish::host::name(socket) {
            Ok(name) if self.host => self.send(Reply::Bound { id, name }, vec![]),
            _ => true,
        }
    }

    fn connect(
        &mut self,
        id: Id,
        transport: Transport,
        local: Option<SocketAddr>,
        peer: SocketAddr,
        now: Instant,
    ) -> Result<(OwnedFd, Option<Entry>), Refused> {
        let target = match self.judge.connect(transport, peer, now)? {
            Target::Resolver => {
                let socket = self.resolver.open(transport == Transport::Tcp, &self.poller).map_err(refused)?;
                return Ok((socket, None));
            }
            Target::Peer(target) => target,
        };
        if transport != Transport::Tcp {
            self.gives(transport);
        }
        if transport == Transport::Tcp
            && let Some(socket) = self.ports.connect_taken(id, target)
        {
            return Ok((socket.map_err(refused)?, None));
        }
        let source = local.filter(|_| transport == Transport::Udp).and_then(|local| self.ports.source(local, &target));
        let socket = match source {
            Some(source) => self.ports.connect_from(source, local, target).map_err(refused)?,
            None => match open(transport, target) {
                Ok((socket, Ok(()))) => socket,
                Ok((socket, Err(error))) => {
                    // The port was the socket's, and getsockname(2) goes on to show it. The next message finds out if the monitor has ended.
                    self.tell_name(id, &socket);
                    return Err(refused(error));
                }
                Err(error) => return Err(refused(error)),
            },
        };
        let entry = self.table.as_mut().filter(|_| transport == Transport::Tcp).and_then(|table| {
            let until = self.judge.stays_allowed(peer, &self.gave, now)?;
            table.offer(target, until, now)
        });
        Ok((socket, entry))
    }

    /// The monitor gets an IP socket of this kind, not TCP's. From then on prepared peers must be allowed for this kind, too.
    fn gives(&mut self, transport: Transport) {
        if !self.gave.contains(&transport) {
            self.gave.push(transport);
            if let Some(table) = &mut self.table {
                table.withdraw();
            }
        }
    }

    /// Delivers what arrived at a published UDP port.
    fn receive(&mut self, index: usize) {
        let mut arrived = Vec::new();
        self.gives(Transport::Udp);
        self.ports.receive(index, |one| arrived.push(one));
        for one in arrived {
            // As any queue of datagrams, this one drops them when it is full.
            let is_full = self.waiting.len() >= MOST_WAITING;
            match one {
                Arrived::Flow { flow, .. } if is_full => self.ports.close(flow, &self.poller),
                Arrived::Flow { listener, flow, peer, socket, facts, datagram } => {
                    self.send(Reply::Flow { listener, flow, peer, facts, datagram: &datagram }, vec![socket]);
                }
                Arrived::Datagram(..) if is_full => {}
                Arrived::Datagram(flow, facts, datagram) => {
                    self.send(Reply::Datagram { flow, facts, datagram: &datagram }, vec![]);
                }
            }
        }
        self.watch();
    }

    /// Sends a reply, or keeps it until the monitor reads; false if the monitor has ended.
    fn send(&mut self, reply: Reply<'_>, descriptors: Vec<OwnedFd>) -> bool {
        let length = reply.encode(&mut self.buffer);
        let waiting = Waiting { message: self.buffer[..length].to_vec(), descriptors };
        self.waiting.push_back(waiting);
        self.flush()
    }

    fn flush(&mut self) -> bool {
        while let Some(Waiting { message, descriptors }) = self.waiting.front() {
            let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
            match seqpacket::send(&self.monitor, message, &borrowed) {
                // Too many descriptors are on their way to other processes of the user: until they arrive.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::TOOMANYREFS) => return true,
                Err(_) => return false,
                Ok(()) => drop(self.waiting.pop_front()),
            }
        }
        true
    }
}

fn refused(error: Errno) -> Refused {
    Refused(u16::try_from(error.raw_os_error()).unwrap_or(1))
}

fn socket(family: AddressFamily, kind: SocketType, protocol: Option<Protocol>) -> Result<OwnedFd, Errno> {
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, protocol)?;
    if kind == SocketType::STREAM {
        // Keel has urgent bytes in the stream, and knows their places.
        set_socket_oobinline(&socket, true)?;
    }
    Ok(socket)
}

/// A socket, and whether it is connected to a peer or connects.
fn open(transport: Transport, peer: SocketAddr) -> Result<(OwnedFd, Result<(), Errno>), Errno> {
    let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let (kind, protocol) = match transport {
        Transport::Tcp => (SocketType::STREAM, None),
        Transport::Udp => (SocketType::DGRAM, None),
        Transport::Icmp if peer.is_ipv4() => (SocketType::DGRAM, Some(ipproto::ICMP)),
        Transport::Icmp => (SocketType::DGRAM, Some(ipproto::ICMPV6)),
    };
    let socket = socket(family, kind, protocol)?;
    let connected = match rustix::net::connect(&socket, &peer) {
        Err(Errno::INPROGRESS) => Ok(()),
        other => other,
    };
    Ok((socket, connected))
}

#[cfg(test)]
mod tests;
