//! Internet sockets, ip(7) and ipv6(7), inside the pod.
//!
//! The loopback device carries no packets: a send copies directly into the *receiver's* queue. All other destinations
//! are reached through sockets of the host ([`outward`]), or not at all in a pod without a network.

mod address;
mod completions;
mod control;
pub mod interface;
mod ip_options;
pub mod loopback;
pub mod outward;
pub(super) mod ports;
pub mod settings;
pub mod statistics;
pub mod tcp;
pub mod udp;

pub use address::{Endpoint, Reach};
pub use control::stamp;
pub use loopback::Network;

use super::netns::NetNs;
use super::options::Options;
use super::{Address, Socket};
use abi::request::Transport;
use alloc::rc::{Rc, Weak};
use completions::Completions;
use core::cell::{Cell, RefCell};
use core::net::IpAddr;
use file::File;
use file::caller::caller;
use ip_options::IpOptions;
use ports::{Member, Ports};
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Protocol numbers.
pub const IPPROTO_ICMP: u32 = 1;
/// TCP.
pub const IPPROTO_TCP: u32 = 6;
/// UDP.
pub const IPPROTO_UDP: u32 = 17;
/// UDP-Lite: without data corruption it is UDP with a separate port space.
pub const IPPROTO_UDPLITE: u32 = 136;
const IPPROTO_ICMPV6: u32 = 58;
/// Larger protocol numbers do not exist.
const IPPROTO_MAX: i32 = 263;

/// Whether an ioctl(2) reads the time of the last packet: `SIOCGSTAMP` and its variants.
fn is_stamp(command: u32) -> bool {
    use uapi::raw::ioctl::{SIOCGSTAMP_NEW, SIOCGSTAMPNS_NEW};
    matches!(command, net::SIOCGSTAMP_OLD | net::SIOCGSTAMPNS_OLD | SIOCGSTAMP_NEW | SIOCGSTAMPNS_NEW)
}

/// Common state of TCP and UDP sockets.
pub struct Base {
    /// `AF_INET` or `AF_INET6`.
    pub family: u32,
    /// TCP, not UDP.
    pub stream: bool,
    /// The namespace that it belongs to.
    pub net: Rc<NetNs>,
    /// Options of the level SOL_SOCKET.
    pub options: Options,
    /// Options of the levels SOL_IP and SOL_IPV6.
    pub ip: IpOptions,
    /// Sends without a copy that are done.
    pub completions: Completions,
    /// Own address; port 0: none yet.
    pub local: Cell<Endpoint>,
    /// The peer's.
    pub remote: Cell<Option<Endpoint>>,
    /// The program chose address and port itself.
    address_chosen: Cell<bool>,
    port_chosen: Cell<bool>,
    /// A port that was released and is still part of the name.
    old_port: Cell<u16>,
    /// Effective uid of its creator.
    pub uid: u32,
    /// Inode number; 0: not accepted yet.
    pub ino: Cell<u64>,
    file: RefCell<Weak<File>>,
}

impl Base {
    fn new(family: u32, stream: bool, options: Options) -> Self {
        let net = crate::caller::net();
        Self {
            family,
            stream,
            options,
            ip: IpOptions::new(&net),
            net,
            completions: Completions::default(),
            local: Cell::new(Endpoint::unspecified(family)),
            remote: Cell::new(None),
            address_chosen: Cell::new(false),
            port_chosen: Cell::new(false),
            old_port: Cell::new(0),
            uid: caller().cred().fsuid,
            ino: Cell::new(0),
            file: RefCell::default(),
        }
    }

    /// For an accepted connection: inherits the listener's settings.
    fn accepted(&self, local: Endpoint, remote: Endpoint) -> Self {
        Self {
            family: self.family,
            stream: self.stream,
            net: self.net.clone(),
            options: self.options.alone(),
            ip: self.ip.clone(),
            completions: Completions::default(),
            local: Cell::new(local),
            remote: Cell::new(Some(remote)),
            address_chosen: Cell::new(true),
            port_chosen: Cell::new(false),
            old_port: Cell::new(0),
            uid: self.uid,
            ino: Cell::new(0),
            file: RefCell::default(),
        }
    }

    fn opened(&self, file: &Rc<File>, ino: u64) {
        self.ino.set(ino);
        *self.file.borrow_mut() = Rc::downgrade(file);
    }

    /// The open file, for its owner's signals.
    fn file(&self) -> Option<Rc<File>> {
        self.file.borrow().upgrade()
    }

    /// Whether an IPv6 socket rejects IPv4.
    fn only_v6(&self) -> bool {
        self.family == net::AF_INET6 && self.ip.is_on6(net::IPV6_V6ONLY)
    }

    /// Checks the address of bind(2). EINVAL, EAFNOSUPPORT, EADDRNOTAVAIL, EACCES.
    fn bindable(&self, address: &[u8]) -> Result<Endpoint> {
        let to = match Endpoint::parse(address, self.family) {
            // Old programs leave the family out.
            Err(Errno::EAFNOSUPPORT)
                if self.family == net::AF_INET && address.starts_with(&[0, 0]) && address[4..8] == [0; 4] =>
            {
                let port = u16::from_be_bytes([address[2], address[3]]);
                Endpoint { port, ..Endpoint::unspecified(self.family) }
            }
            other => other?,
        };
        if self.family == net::AF_INET6 && to.ip.is_ipv6() && to.ip.is_multicast() && self.stream {
            return Err(Errno::EINVAL);
        }
        if let IpAddr::V6(ip) = to.ip
            && address::needs_scope(ip)
            && address.get(24..28).is_none_or(|scope| scope == [0; 4])
            && self.options.device.get() == 0
        {
            return Err(Errno::EINVAL);
        }
        let ns = &*self.net;
        let free =
            self.ip.is_on(net::IP_FREEBIND) || self.ip.is_on(net::IP_TRANSPARENT) || ns.settings.binds_anywhere.get();
        if self.family == net::AF_INET && !ns.is_bindable(to.ip) && !free {
            return Err(Errno::EADDRNOTAVAIL);
        }
        let privileged = to.port != 0 && to.port < ns.settings.first_unprivileged.get();
        if privileged && !ns.permits(g::CAP_NET_BIND_SERVICE) {
            return Err(Errno::EACCES);
        }
        if self.local.get().port != 0 {
            return Err(Errno::EINVAL);
        }
        if self.family == net::AF_INET6 {
            if to.ip.is_ipv4() && self.only_v6() {
                return Err(Errno::EINVAL);
            }
            if !ns.is_bindable(to.ip) && !free {
                return Err(Errno::EADDRNOTAVAIL);
            }
        }
        Ok(to)
    }

    /// bind(2), for a socket of `ports` that is still free.
    fn bind<T: Member>(&self, me: &Rc<T>, ports: &Ports<T>, to: Endpoint) -> Result<()> {
        if to.port == 0 && self.ip.is_on(net::IP_BIND_ADDRESS_NO_PORT) {
            self.local.set(to);
        } else {
            ports.bind(me, to)?;
        }
        self.address_chosen.set(!to.ip.is_unspecified());
        self.port_chosen.set(to.port != 0);
        self.old_port.set(0);
        Ok(())
    }

    /// bind(2) with `IP_BIND_ADDRESS_NO_PORT` in a pod with the host's network: the host is asked for the address alone. Whether it is that.
    fn bind_later(&self, transport: Transport, to: Endpoint) -> Result<bool> {
        if to.port != 0 || !self.ip.is_on(net::IP_BIND_ADDRESS_NO_PORT) {
            return Ok(false);
        }
        let (number, _) = outward::bind(self, transport, to)?;
        outward::close(number, false);
        if self.local.get().port != 0 {
            return Err(Errno::EINVAL);
        }
        self.local.set(to);
        self.address_chosen.set(!to.ip.is_unspecified());
        Ok(true)
    }

    /// bind(2) of a socket that the host bound to this port.
    fn bound_by_host<T: Member>(&self, me: &Rc<T>, ports: &Ports<T>, to: Endpoint, port: u16) {
        self.local.set(Endpoint { port, ..to });
        self.address_chosen.set(!to.ip.is_unspecified());
        self.port_chosen.set(to.port != 0);
        ports.join(port, me);
    }

    /// The own address of a socket that is about to talk to `to`.
    fn source(&self, to: IpAddr) -> IpAddr {
        let ip = self.local.get().ip;
        if ip.is_unspecified() || ip.is_multicast() { self.net.source_for(to) } else { ip }
    }

    /// The same, for a destination with this route. ENETUNREACH; EINVAL: a loopback address leads nowhere else.
    fn source_by(&self, to: IpAddr, reach: Reach) -> Result<IpAddr> {
        let source = self.source(to);
        if source.is_ipv4() != to.is_ipv4() {
            return Err(Errno::ENETUNREACH);
        }
        let stays = source.is_loopback() && !to.is_loopback() && !self.net.is_host();
        if reach == Reach::Outward && stays { Err(Errno::EINVAL) } else { Ok(source) }
    }

    /// Clears the peer, and an automatically chosen name: returns whether the port must be released.
    fn unname(&self) -> bool {
        self.remote.set(None);
        let mut local = self.local.get();
        if !self.address_chosen.get() {
            local.ip = address::any(self.family);
            self.local.set(local);
        }
        !self.port_chosen.get()
    }

    /// The port was released.
    fn forget_port(&self) {
        self.local.set(Endpoint { port: 0, ..self.local.get() });
    }

    /// A destination of connect(2) or sendto(2). EINVAL, EAFNOSUPPORT, ENETUNREACH.
    fn destination(&self, address: &[u8]) -> Result<Endpoint> {
        let to = Endpoint::parse(address, self.family)?;
        if to.ip.is_ipv4() && self.only_v6() { Err(Errno::ENETUNREACH) } else { Ok(to) }
    }

    /// The route to a destination. ENETUNREACH, ENODEV: the socket is bound to a device that does not exist.
    fn resolve(&self, to: Endpoint) -> Result<(Endpoint, Reach)> {
        match self.options.device.get() {
            0 | 1 => to.resolve(&self.net),
            _ if to.ip.is_ipv4() => Err(Errno::ENODEV),
            _ => Err(Errno::ENETUNREACH),
        }
    }

    /// The port was released, but stays part of the name until the socket gets another one, as in Linux after a connection.
    fn keep_port_as_name(&self) {
        let local = self.local.get();
        if local.port != 0 {
            self.old_port.set(local.port);
            self.forget_port();
        }
    }

    /// Match score of the socket for a packet from `from` to `to`: higher is better, `None` no match.
    fn score(&self, to: Endpoint, from: Endpoint) -> Option<u32> {
        let local = self.local.get();
        let mut score = 1 + u32::from(local.ip.is_ipv4());
        if local.ip != to.ip {
            let any = local.ip.is_unspecified();
            let fits = any && (local.ip.is_ipv4() == to.ip.is_ipv4() || local.ip.is_ipv6() && !self.only_v6());
            if !fits {
                return None;
            }
        } else {
            score += 4;
        }
        // A socket that is bound to the device precedes others.
        score += if self.options.device.get() == ip_options::LOOPBACK as i32 { 4 } else { 0 };
        // The choice among sockets that share a port.
        score += u32::from(self.options.incoming_cpu.get() == hal::percpu::cpu_index() as i32);
        match self.remote.get() {
            Some(remote) if remote == from => Some(score + 8),
            Some(_) => None,
            None => Some(score),
        }
    }

    fn ioctl(&self, command: u32, arg: usize) -> Result<usize> {
        if self.family == net::AF_INET { interface::ioctl4(&self.net, command, arg) } else { Err(Errno::ENOTTY) }
    }

    fn local_address(&self) -> Address {
        let local = self.local.get();
        let port = if local.port == 0 { self.old_port.get() } else { local.port };
        Endpoint { port, ..local }.to_bytes(self.family)
    }
}

/// Whether `net.ipv4.ping_group_range` has a group of the running thread.
fn may_ping() -> bool {
    let caller = caller();
    let ([first, last], cred) = (crate::caller::net().settings.ping_groups.get(), caller.cred());
    let range = first..=last;
    range.contains(&cred.user_ns.shown_gid(cred.fsgid))
        || cred.groups.iter().any(|&gid| range.contains(&cred.user_ns.shown_gid(gid)))
}

/// socket(2) for AF_INET and AF_INET6.
pub fn socket(family: u32, kind: u32, protocol: i32, flags: u32) -> Result<Rc<File>> {
    if !(0..IPPROTO_MAX).contains(&protocol) {
        return Err(Errno::EINVAL);
    }
    let ping = if family == net::AF_INET { IPPROTO_ICMP } else { IPPROTO_ICMPV6 };
    match (kind, protocol as u32) {
        (net::SOCK_STREAM, 0 | IPPROTO_TCP) => {
            Ok(Socket::open(family, kind, IPPROTO_TCP, tcp::Tcp::new(family), flags))
        }
        (net::SOCK_DGRAM, 0 | IPPROTO_UDP) => {
            Ok(Socket::open(family, kind, IPPROTO_UDP, udp::Udp::new(family, udp::Kind::Udp), flags))
        }
        (net::SOCK_DGRAM, IPPROTO_UDPLITE) => {
            Ok(Socket::open(family, kind, IPPROTO_UDPLITE, udp::Udp::new(family, udp::Kind::Lite), flags))
        }
        (net::SOCK_DGRAM, protocol) if protocol == ping => {
            if !may_ping() {
                return Err(Errno::EACCES);
            }
            Ok(Socket::open(family, kind, protocol, udp::Udp::new(family, udp::Kind::Ping), flags))
        }
        (net::SOCK_RAW, _) if !crate::caller::net().permits(g::CAP_NET_RAW) => Err(Errno::EPERM),
        (net::SOCK_STREAM | net::SOCK_DGRAM | net::SOCK_RAW, _) => Err(Errno::EPROTONOSUPPORT),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}
