//! Decisions: the policy, its changes, the answers that the pod was told, and the records of all.

mod changes;

use super::audit::{Audit, Entry};
use super::peers::Peers;
use super::record::Record;
use crate::address;
use crate::protocol::{Refused, Transport};
use policy::rule::{HOST_LOOPBACK, Refusal};
use policy::{Answers, Class, Decision, Listen, Name, Network, Protocol, Reason};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::time::{Duration, Instant};

/// Port to which ping(8) connects a socket of UDP first, to learn the own address. A denial of that would hide the one that
/// matters.
const PING_PORT: u16 = 1025;

/// Where a request to connect leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The broker's name server.
    Resolver,
    /// A peer outside of the pod.
    Peer(SocketAddr),
}

/// The policy of a pod and its state.
#[derive(Debug)]
pub struct Judge {
    network: Network,
    answers: Answers,
    /// Names of `--add-host`: always valid.
    fixed: Vec<(Name, IpAddr)>,
    /// Peers that were allowed.
    peers: Peers,
    audit: Audit,
    record: Option<Record>,
    /// The pod has the host's network: every peer is allowed.
    host: bool,
}

fn errno(error: Errno) -> Refused {
    Refused(u16::try_from(error.raw_os_error()).unwrap_or(1))
}

fn protocol(transport: Transport) -> Protocol {
    match transport {
        Transport::Tcp => Protocol::Tcp,
        Transport::Udp => Protocol::Udp,
        Transport::Icmp => Protocol::Icmp,
    }
}

/// A peer as it is written in rules and records.
fn written(peer: &str, port: Option<u16>) -> String {
    match port {
        None => peer.to_owned(),
        Some(port) if peer.contains(':') => format!("[{peer}]:{port}"),
        Some(port) => format!("{peer}:{port}"),
    }
}

/// An address without what only the sender can choose.
fn canonical(peer: SocketAddr) -> SocketAddr {
    match peer.ip().to_canonical() {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => {
            let scope = if let SocketAddr::V6(v6) = peer { v6.scope_id() } else { 0 };
            SocketAddrV6::new(ip, peer.port(), 0, scope).into()
        }
        ip => SocketAddr::new(ip, peer.port()),
    }
}

/// Whether an address is one of the host's: a socket that is connected to it has it as its own.
fn is_own(ip: IpAddr) -> bool {
    let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let own = || {
        let socket = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        rustix::net::connect(&socket, &SocketAddr::new(ip, 9))?;
        rustix::net::getsockname(&socket)
    };
    own().ok().and_then(|name| SocketAddr::try_from(name).ok()).is_some_and(|name| name.ip() == ip)
}

/// The decision about a peer that is neither the name server nor inside the pod.
fn decide<'p>(network: &'p Network, protocol: Protocol, ip: IpAddr, port: u16, names: &[&Name]) -> Decision<'p> {
    if address::host_loopback(ip).is_some() {
        return network.connect_host(protocol, port);
    }
    let decision = network.connect(protocol, ip, port, names);
    // Asking the host costs some system calls: only if it matters.
    let special = network.connect_host_address(protocol, ip, port, names);
    if special != decision && is_own(ip) { special } else { decision }
}

impl Judge {
    /// A judge without answers.
    pub fn new(network: Network, fixed: Vec<(Name, IpAddr)>, audit: Audit, record: bool) -> Self {
        let (answers, peers) = Default::default();
        Self { network, answers, fixed, peers, audit, record: record.then(Record::default), host: false }
    }

    /// Whether every peer is allowed, by the address that the host knows.
    pub fn set_host(&mut self, host: bool) {
        self.host = host;
    }

    /// Whether each decision is recorded.
    pub fn keeps_records(&self) -> bool {
        self.audit.has_file() || self.record.is_some()
    }

    /// What was recorded.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// Decides about a connection.
    pub fn connect(&mut self, transport: Transport, peer: SocketAddr, now: Instant) -> Result<Target, Refused> {
        let peer = canonical(peer);
        let (ip, protocol) = (peer.ip(), protocol(transport));
        let port = if protocol == Protocol::Icmp { 0 } else { peer.port() };
        if self.host {
            let shown = (protocol != Protocol::Icmp).then_some(port);
            self.allowed_by_host(format!("connect {protocol} {}", written(&ip.to_string(), shown)));
            return Ok(Target::Peer(peer));
        }
        if address::is_resolver(ip) {
            return match (protocol, port) {
                (Protocol::Tcp | Protocol::Udp, address::RESOLVER_PORT) => Ok(Target::Resolver),
                _ => Err(errno(Errno::CONNREFUSED)),
            };
        }
        // Only a monitor that was taken over asks for these: they lie inside the pod.
        if address::is_pod(ip) || policy::address::class(ip) == Class::Loopback {
            return Err(errno(Errno::CONNREFUSED));
        }
        if protocol != Protocol::Icmp && port == 0 {
            return Err(errno(if protocol == Protocol::Tcp { Errno::CONNREFUSED } else { Errno::INVAL }));
        }
        let shown = (protocol != Protocol::Icmp).then_some(port);
        if let Some(loopback) = address::host_loopback(ip) {
            let decision = self.network.connect_host(protocol, port);
            let mut entry = entry(&decision, protocol, HOST_LOOPBACK, shown, vec![]);
            entry.minor = protocol == Protocol::Udp
                && (port == PING_PORT || self.network.connect_host(Protocol::Icmp, 0).is_allowed());
            self.audit.add(&entry);
            if let Some(record) = self.record.as_mut().filter(|_| entry.allowed) {
                record.add(HOST_LOOPBACK.into(), false, protocol, port);
            }
            if entry.allowed {
                self.peers.add((transport, SocketAddr::new(ip, port)), [].iter());
            }
            return refused(&decision).map_or(Ok(Target::Peer(SocketAddr::new(loopback, port))), Err);
        }
        let fixed = self.fixed.iter().filter(|(_, own)| *own == ip).map(|(name, _)| name);
        let names: Vec<&Name> = self.answers.names(ip, now).chain(fixed).collect();
        let decision = decide(&self.network, protocol, ip, port, &names);
        let mut entry = entry(&decision, protocol, &ip.to_string(), shown, names.iter().map(|n| n.as_str()).collect());
        entry.minor = protocol == Protocol::Udp
            && (port == PING_PORT || self.network.connect(Protocol::Icmp, ip, 0, &names).is_allowed());
        self.audit.add(&entry);
        if let Some(record) = self.record.as_mut().filter(|_| entry.allowed) {
            let private = policy::address::class(ip) == Class::Private;
            let name = names.last().map(|name| name.to_string());
            let by_name = name.is_some();
            record.add(name.unwrap_or_else(|| ip.to_string()), by_name && private, protocol, port);
        }
        if entry.allowed {
            self.peers.add((transport, SocketAddr::new(ip, port)), names.iter().copied());
        }
        refused(&decision).map_or(Ok(Target::Peer(peer)), Err)
    }

    /// Until when a peer that [`Self::connect`] allowed stays allowed for a monitor that connects any of its TCP sockets to it, and
    /// those of `others`, by itself. `Some(None)`: until the policy changes. `None`: each connection is to be decided about.
    pub fn stays_allowed(&self, peer: SocketAddr, others: &[Transport], now: Instant) -> Option<Option<Instant>> {
        let peer = canonical(peer);
        let fixed = self.fixed.iter().filter(|(_, own)| *own == peer.ip()).map(|(name, _)| name);
        let names: Vec<&Name> = self.answers.names(peer.ip(), now).chain(fixed).collect();
        let is_allowed = |transport: &Transport| {
            let port = if *transport == Transport::Icmp { 0 } else { peer.port() };
            decide(&self.network, protocol(*transport), peer.ip(), port, &names).is_allowed()
        };
        [Transport::Tcp].iter().chain(others).all(is_allowed).then(|| self.answers.until(peer.ip(), now))
    }

    /// Decides whether a name may be asked for.
    pub fn resolve(&mut self, name: &Name) -> bool {
        let decision = match name.as_str() {
            HOST_LOOPBACK if self.network.names_host() => return true,
            HOST_LOOPBACK => self.network.connect_host(Protocol::Icmp, 0),
            _ => self.network.resolve(name),
        };
        let allowed = decision.is_allowed();
        let remedy = matches!(decision.reason, Reason::NoRule).then(|| format!("--allow {name}"));
        let why = policy::query::reason(&decision);
        self.audit.add(&Entry { what: format!("resolve {name}"), allowed, why, remedy, ..Entry::default() });
        allowed
    }

    /// Records the denial of a question that is not about a host name.
    pub fn unresolvable(&mut self, what: &str) {
        let why = "denied: not a host name".to_owned();
        self.audit.add(&Entry { what: format!("resolve {what}"), why, ..Entry::default() });
    }

    /// Decides about an answer. The pod may connect to the address as the name's rules say if it is acceptable.
    pub fn answer(&mut self, name: &Name, ip: IpAddr, ttl: Duration, now: Instant) -> bool {
        if self.network.may_answer(name, ip) {
            self.answers.told(name, ip, ttl, now);
            return true;
        }
        self.audit.add(&Entry {
            what: format!("answer {ip}"),
            names: vec![name.as_str()],
            why: "denied: a special or private address for a name".to_owned(),
            remedy: (policy::address::class(ip) != Class::Loopback).then(|| format!("--allow {ip}")),
            ..Entry::default()
        });
        false
    }

    /// Records that the pod opened a port of the host by listening, or that it could not.
    pub fn listened(&mut self, transport: Transport, port: u16, outcome: Result<Listen, Errno>) {
        let what = format!("listen {} {port}", protocol(transport));
        let why = match &outcome {
            Ok(_) => "allowed by the option allow-listen".to_owned(),
            Err(error) => format!("denied: the host's port: {}", super::reason(*error)),
        };
        self.audit.add(&Entry { what, allowed: outcome.is_ok(), why, ..Entry::default() });
        if let (Some(record), Ok(ports)) = (&mut self.record, outcome) {
            record.add_listen(&ports);
        }
    }

    /// Records that a pod with the host's network listens.
    pub fn listens(&mut self, address: SocketAddr) {
        self.allowed_by_host(format!("listen tcp {address}"));
    }

    fn allowed_by_host(&mut self, what: String) {
        let why = "allowed: the host's network".to_owned();
        self.audit.add(&Entry { what, allowed: true, why, ..Entry::default() });
    }

    /// Names of `--add-host` and their addresses.
    pub fn fixed(&self, name: &Name) -> impl Iterator<Item = IpAddr> {
        self.fixed.iter().filter(move |(own, _)| own == name).map(|(_, ip)| *ip)
    }
}

fn refused(decision: &Decision<'_>) -> Option<Refused> {
    Some(errno(match decision.refusal? {
        Refusal::Access => Errno::ACCESS,
        Refusal::Unreachable => Errno::NETUNREACH,
        Refusal::Refused => Errno::CONNREFUSED,
    }))
}

fn entry<'a>(
    decision: &Decision<'_>,
    protocol: Protocol,
    peer: &str,
    port: Option<u16>,
    names: Vec<&'a str>,
) -> Entry<'a> {
    let remedy = match decision.reason {
        Reason::NoRule => {
            // A name is what the user knows; it is no remedy if the address is the problem.
            let known = names.first().copied().unwrap_or(peer);
            Some(format!("--allow {protocol}:{}", written(known, port)))
        }
        Reason::LinkLocal | Reason::PrivateAnswer(_) | Reason::HostAddress => {
            Some(format!("--allow {protocol}:{}", written(peer, port)))
        }
        Reason::Rule(_) | Reason::OwnLoopback | Reason::Multicast => None,
    };
    Entry {
        what: format!("connect {protocol} {}", written(peer, port)),
        names,
        allowed: decision.is_allowed(),
        why: policy::query::reason(decision),
        remedy,
        minor: false,
    }
}
