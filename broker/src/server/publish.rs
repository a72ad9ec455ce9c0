//! Published ports of the host, those that the pod may open by listening, and those of a pod with the host's network.
//!
//! Their sockets are bound before the pod starts. A TCP port listens while the pod listens. Datagrams of a UDP port come to
//! a socket of the broker; for each peer it makes one that is connected to the peer and has the same port, and the
//! kernel delivers further datagrams there.

pub mod host;

use super::poller::Poller;
use super::setup::Publish;
use crate::facts::Facts;
use crate::protocol::{BIND_GROUPED, BIND_ONLY_V6, BIND_SHARED, FLOW, Id, MAX_DATAGRAM, Transport};
use policy::{Listen, Protocol};
use rustix::io::Errno;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr, set_socket_reuseport};
use rustix::net::{AddressFamily, RecvFlags, Shutdown, SocketFlags, SocketType, recvfrom, socket_with};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Maximum number of ports that the pod opens by listening.
const MOST_OPENED: usize = 1024;
/// Maximum number of listeners of the pod.
const MOST_LISTENERS: usize = 4096;
/// Maximum number of flows; further peers wait until the monitor closes some.
const MOST_FLOWS: usize = 8192;
/// Maximum length of a queue of connections.
const MOST_BACKLOG: u32 = 4096;
/// Datagrams that are read from one port before others have their turn.
const TURN: usize = 128;

/// A published port.
#[derive(Debug)]
struct Port {
    socket: OwnedFd,
    publish: Publish,
    /// Options of the pod's socket, in a pod with the host's network.
    flags: u32,
    /// Listeners of the pod that use it.
    listeners: Vec<Id>,
}

/// A datagram's length, its sender, and what the host tells of it.
pub type Received = (usize, Option<SocketAddr>, Facts);

/// How datagrams of published ports are received. Control data of messages needs code that this crate does without.
#[derive(Clone, Copy, Debug)]
pub struct Datagrams {
    /// Makes the host tell [`Facts`] of what a socket receives, or no more.
    pub tell: fn(BorrowedFd<'_>, bool),
    /// Receives one with its sender, without waiting.
    pub receive: fn(BorrowedFd<'_>, &mut [u8]) -> Result<Received, Errno>,
}

impl Datagrams {
    /// Without facts.
    fn plain() -> Self {
        let receive = |socket: BorrowedFd<'_>, buffer: &mut [u8]| {
            let (length, _, from) = recvfrom(socket, buffer, RecvFlags::DONTWAIT)?;
            Ok((length, from.and_then(|from| SocketAddr::try_from(from).ok()), Facts::default()))
        };
        Self { tell: |_, _| {}, receive }
    }
}

/// All published ports.
#[derive(Debug)]
pub struct Ports {
    /// By index, which is not used again.
    ports: BTreeMap<usize, Port>,
    next_port: usize,
    /// The pod has the host's network: it binds ports, and closes them.
    is_host: bool,
    datagrams: Datagrams,
    /// What the pod may open by listening, and how many it has opened.
    allowed: Vec<Listen>,
    opened: usize,
    /// Peers of published UDP ports, by port and by id.
    flows: HashMap<(usize, SocketAddr), Id>,
    peers: BTreeMap<Id, (usize, SocketAddr)>,
    next: Id,
}

/// What arrived at a published UDP port.
#[derive(Debug)]
pub enum Arrived {
    /// The first datagram of a peer, with a socket that is connected to it.
    Flow {
        /// The pod's listener.
        listener: Id,
        /// Id of the flow.
        flow: Id,
        /// The peer.
        peer: SocketAddr,
        /// The socket.
        socket: OwnedFd,
        /// What the host tells of the datagram.
        facts: Facts,
        /// The datagram.
        datagram: Vec<u8>,
    },
    /// A further datagram that was on its way before the socket was connected.
    Datagram(Id, Facts, Vec<u8>),
}

fn open(publish: &Publish) -> Result<OwnedFd, Errno> {
    let family = if publish.host.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let kind = if publish.udp { SocketType::DGRAM } else { SocketType::STREAM };
    let socket = super::socket(family, kind, None)?;
    if publish.host.is_ipv6() {
        set_ipv6_v6only(&socket, true)?;
    }
    if !publish.udp {
        // Connections of an earlier listener do not keep the port (TIME_WAIT).
        set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, &publish.host)?;
    if !publish.udp {
        // For TCP only a listener shows that the port is free. It is opened for good when the pod listens.
        rustix::net::listen(&socket, 1)?;
        refuse(&socket)?;
    }
    Ok(socket)
}

/// A TCP port refuses connections, but stays taken.
fn refuse(socket: &OwnedFd) -> Result<(), Errno> {
    rustix::net::shutdown(socket, Shutdown::Both)?;
    // While it does not listen, another socket with this option could.
    set_socket_reuseaddr(socket, false)
}

/// A TCP port accepts connections.
fn accept(socket: &OwnedFd, backlog: i32) -> Result<(), Errno> {
    // Connections of an earlier listener do not keep the port.
    set_socket_reuseaddr(socket, true)?;
    rustix::net::listen(socket, backlog)
}

impl Ports {
    /// Binds all ports. The error names the port. `allowed`: those that the pod may open by listening. `is_host`: it may bind any.
    pub fn bind(publish: &[Publish], allowed: Vec<Listen>, is_host: bool) -> Result<Self, (SocketAddr, Errno)> {
        let mut ports = Self {
            ports: BTreeMap::new(),
            next_port: 0,
            is_host,
            datagrams: Datagrams::plain(),
            allowed,
            opened: 0,
            flows: HashMap::new(),
            peers: BTreeMap::new(),
            next: FLOW,
        };
        for publish in publish {
            match open(publish) {
                Ok(socket) => ports.add(Port::new(socket, publish.clone())),
                Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) if publish.optional => {}
                Err(error) => return Err((publish.host, error)),
            }
        }
        Ok(ports)
    }

    /// Receives datagrams like this from now on.
    pub fn receive_by(&mut self, datagrams: Datagrams) {
        self.datagrams = datagrams;
        let ports = self.ports.values().filter(|port| port.publish.udp);
        ports.for_each(|port| (datagrams.tell)(port.socket.as_fd(), true));
    }

    fn add(&mut self, port: Port) {
        if port.publish.udp {
            (self.datagrams.tell)(port.socket.as_fd(), true);
        }
        self.ports.insert(self.next_port, port);
        self.next_port += 1;
    }

    /// Opens the host's ports for a listener of the pod, if it may and they are neither published nor open. From then on they are
    /// like published ones: bound until the pod ends. What it opened; `None`: nothing.
    pub fn open(&mut self, transport: Transport, address: SocketAddr) -> Result<Option<Listen>, Errno> {
        let protocol = match transport {
            Transport::Tcp => Protocol::Tcp,
            Transport::Udp => Protocol::Udp,
            Transport::Icmp => return Ok(None),
        };
        let (udp, pod) = (transport == Transport::Udp, address.port());
        let is_outward = is_outward(address.ip().to_canonical());
        let is_known = self.ports.values().any(|port| port.publish.udp == udp && port.publish.pod == pod);
        let allowed = self.allowed.iter().find(|listen| listen.covers(protocol, pod)).cloned();
        let Some(allowed) = allowed.filter(|_| is_outward && !is_known) else { return Ok(None) };
        let addresses = match allowed.address {
            Some(address) => vec![(address, false)],
            None => vec![(Ipv4Addr::UNSPECIFIED.into(), false), (Ipv6Addr::UNSPECIFIED.into(), true)],
        };
        if self.opened + addresses.len() > MOST_OPENED {
            return Err(Errno::MFILE);
        }
        let mut opened = Vec::new();
        for (ip, optional) in addresses {
            let publish = Publish { udp, host: SocketAddr::new(ip, pod), pod, optional };
            match open(&publish) {
                Ok(socket) => opened.push(Port::new(socket, publish)),
                Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) if optional => {}
                Err(error) => return Err(error),
            }
        }
        self.opened += opened.len();
        opened.into_iter().for_each(|port| self.add(port));
        let ports = policy::Ports { first: pod, last: pod };
        Ok(Some(Listen { protocol: Some(protocol), address: allowed.address, ports }))
    }

    /// The pod listens. The sockets of TCP; UDP ports are watched under their index plus `first`.
    pub fn listen(
        &mut self,
        id: Id,
        transport: Transport,
        address: SocketAddr,
        backlog: u32,
        (poller, first): (&Poller, u64),
    ) -> Result<Vec<BorrowedFd<'_>>, Errno> {
        let users: usize = self.ports.values().map(|port| port.listeners.len()).sum();
        if users >= MOST_LISTENERS || self.ports.values().any(|port| port.listeners.contains(&id)) {
            return Err(Errno::MFILE);
        }
        let mut sockets = Vec::new();
        for (index, port) in &mut self.ports {
            if !port.serves(transport, address) {
                continue;
            }
            let is_first = port.listeners.is_empty();
            match transport {
                Transport::Tcp => {
                    // As a second listen(2) does, it changes the queue's length.
                    let backlog = i32::try_from(backlog.clamp(1, MOST_BACKLOG)).unwrap_or(1);
                    accept(&port.socket, backlog)?;
                    sockets.push(port.socket.as_fd());
                }
                Transport::Udp if is_first => {
                    // What came before the pod listened is lost, as without a listener.
                    while recvfrom(&port.socket, &mut [0; 1], RecvFlags::DONTWAIT).is_ok() {}
                    poller.add(&port.socket, first + *index as u64)?;
                }
                Transport::Udp | Transport::Icmp => {}
            }
            port.listeners.push(id);
        }
        Ok(sockets)
    }

    /// The pod does not listen any more, or the monitor closed a flow.
    pub fn close(&mut self, id: Id, poller: &Poller) {
        if let Some(key) = self.peers.remove(&id) {
            self.flows.remove(&key);
            return;
        }
        for port in self.ports.values_mut().filter(|port| port.listeners.contains(&id)) {
            port.listeners.retain(|own| *own != id);
            if !port.listeners.is_empty() {
                continue;
            }
            if port.publish.udp {
                poller.remove(&port.socket);
            } else if self.is_host {
                // A duplicate that the monitor still has accepts no more. Ignore ENOTCONN: it did not listen.
                let _ = rustix::net::shutdown(&port.socket, Shutdown::Both);
            } else {
                // The port stays bound, and refuses connections. Ignore ENOTCONN.
                let _ = refuse(&port.socket);
            }
        }
        if self.is_host {
            self.ports.retain(|_, port| !port.listeners.is_empty());
        }
    }

    /// The published address from which a datagram socket of the pod with this address sends, if it is published and
    /// open.
    pub fn source(&self, local: SocketAddr, family: &SocketAddr) -> Option<SocketAddr> {
        let port = self.ports.values().find(|port| {
            (port.publish.host.is_ipv4() == family.is_ipv4() || self.is_host && port.takes_both())
                && !port.listeners.is_empty()
                && port.publish.udp
                && port.publish.pod == local.port()
        });
        port.map(|port| port.publish.host)
    }

    /// Connects a datagram socket from a published port; in a pod with the host's network from the address of `local`, if it has one.
    pub fn connect_from(
        &self,
        source: SocketAddr,
        local: Option<SocketAddr>,
        peer: SocketAddr,
    ) -> Result<OwnedFd, Errno> {
        let index = self.ports.iter().find(|(_, port)| port.publish.udp && port.publish.host == source);
        let local = local.map(|local| local.ip()).filter(|ip| self.is_host && !ip.is_unspecified());
        self.connected(*index.ok_or(Errno::NOENT)?.0, local, peer)
    }

    /// A socket with a published port, or its number at another address, that is connected to a peer.
    fn connected(&self, index: usize, local: Option<IpAddr>, peer: SocketAddr) -> Result<OwnedFd, Errno> {
        let Some(port) = self.ports.get(&index) else { return Err(Errno::NOENT) };
        let peer = host::reached_by(&port.publish.host, peer);
        let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
        if peer.is_ipv6() {
            set_ipv6_v6only(&socket, !port.takes_both())?;
        }
        set_socket_reuseport(&socket, port.flags & BIND_GROUPED != 0)?;
        // The port's own socket has the option for this moment only: other processes must not take the port. The connected
        // ones keep it, or those of further peers could not be bound beside them.
        set_socket_reuseaddr(&port.socket, true)?;
        let own = match local {
            Some(ip) => host::reached_by(&port.publish.host, SocketAddr::new(ip, port.publish.host.port())),
            None => port.publish.host,
        };
        let shared = set_socket_reuseaddr(&socket, true).and_then(|()| rustix::net::bind(&socket, &own));
        set_socket_reuseaddr(&port.socket, port.flags & BIND_SHARED != 0)?;
        shared?;
        rustix::net::connect(&socket, &peer)?;
        Ok(socket)
    }

    /// Reads what has arrived at a UDP port.
    pub fn receive(&mut self, index: usize, mut deliver: impl FnMut(Arrived)) {
        let mut buffer = vec![0; MAX_DATAGRAM];
        for _ in 0..TURN {
            let Some(port) = self.ports.get(&index) else { return };
            let Some((length, peer, facts)) = self.receive_from(&port.socket, &mut buffer) else { return };
            self.arrived(index, peer, facts, &buffer[..length], &mut deliver);
        }
    }

    /// A datagram, its sender, and what the host tells of it; `None` if there is none.
    fn receive_from(&self, socket: &OwnedFd, buffer: &mut [u8]) -> Option<(usize, SocketAddr, Facts)> {
        loop {
            match (self.datagrams.receive)(socket.as_fd(), buffer) {
                Ok((length, from, facts)) => {
                    // Addresses of the host are not for a pod with a network of its own.
                    let to = facts.to.filter(|_| self.is_host);
                    return Some((length.min(buffer.len()), from?, Facts { to, ..facts }));
                }
                // An ICMP error of an earlier datagram is reported once.
                Err(Errno::INTR | Errno::CONNREFUSED) => {}
                Err(_) => return None,
            }
        }
    }

    /// What a new socket received until it was connected.
    fn early(&self, socket: &OwnedFd) -> Vec<(SocketAddr, Facts, Vec<u8>)> {
        let mut early = Vec::new();
        let first = recvfrom(socket, &mut [0; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK);
        if matches!(first, Err(Errno::AGAIN)) {
            return early;
        }
        (self.datagrams.tell)(socket.as_fd(), true);
        let mut buffer = vec![0; MAX_DATAGRAM];
        while early.len() < TURN
            && let Some((length, from, facts)) = self.receive_from(socket, &mut buffer)
        {
            early.push((from, facts, buffer[..length].to_vec()));
        }
        (self.datagrams.tell)(socket.as_fd(), false);
        early
    }

    fn arrived(
        &mut self,
        index: usize,
        peer: SocketAddr,
        facts: Facts,
        datagram: &[u8],
        deliver: &mut impl FnMut(Arrived),
    ) {
        if let Some(flow) = self.flows.get(&(index, peer)) {
            return deliver(Arrived::Datagram(*flow, facts, datagram.to_vec()));
        }
        let listener = self.ports.get(&index).and_then(|port| port.listeners.first().copied());
        let Some(listener) = listener.filter(|_| self.flows.len() < MOST_FLOWS) else { return };
        let Ok(socket) = self.connected(index, None, peer) else { return };
        self.next += 1;
        let flow = self.next;
        self.flows.insert((index, peer), flow);
        self.peers.insert(flow, (index, peer));
        // Until it was connected the new socket received what others sent, too.
        let early = self.early(&socket);
        deliver(Arrived::Flow { listener, flow, peer, socket, facts, datagram: datagram.to_vec() });
        for (from, facts, datagram) in early {
            // From other peers: as if it had arrived at the published socket, but without a socket of its own, so that
            // this ends.
            if let Some(flow) = self.flows.get(&(index, from)) {
                deliver(Arrived::Datagram(*flow, facts, datagram));
            }
        }
    }
}

impl Port {
    fn new(socket: OwnedFd, publish: Publish) -> Self {
        Self { socket, publish, flags: BIND_ONLY_V6, listeners: Vec::new() }
    }

    /// Whether its socket of IPv6 is one of IPv4, too.
    fn takes_both(&self) -> bool {
        self.publish.host.is_ipv6() && self.flags & BIND_ONLY_V6 == 0
    }

    /// Whether a listener of the pod is the one that is published: not if it is bound to the pod's loopback device.
    fn serves(&self, transport: Transport, address: SocketAddr) -> bool {
        let kind = if self.publish.udp { Transport::Udp } else { Transport::Tcp };
        let ip = address.ip().to_canonical();
        let family = match ip {
            IpAddr::V4(_) => self.publish.host.is_ipv4(),
            // A wildcard of IPv6 is one of IPv4, too.
            IpAddr::V6(ip) => ip.is_unspecified() || self.publish.host.is_ipv6(),
        };
        kind == transport && family && self.publish.pod == address.port() && is_outward(ip)
    }
}

/// Whether a listener with this address is reachable from outside: not if it is bound to the pod's loopback device.
fn is_outward(ip: IpAddr) -> bool {
    ip.is_unspecified() || crate::address::is_pod(ip)
}
