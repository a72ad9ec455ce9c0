//! Ports of the host that a pod with the host's network binds.

use super::{MOST_BACKLOG, MOST_LISTENERS, Port, Ports};
use crate::protocol::{BIND_GROUPED, BIND_ONLY_V6, BIND_SHARED, Id, Transport};
use crate::server::poller::Poller;
use crate::server::setup::Publish;
use rustix::io::Errno;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr, set_socket_reuseport};
use rustix::net::{AddressFamily, SocketType, getsockname};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The name of a socket.
pub fn name(socket: &OwnedFd) -> Result<SocketAddr, Errno> {
    SocketAddr::try_from(getsockname(socket)?).map_err(|_| Errno::AFNOSUPPORT)
}

/// A peer as a socket of this family names it.
pub fn reached_by(socket: &SocketAddr, peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(v4) if socket.is_ipv6() => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        peer => peer,
    }
}

impl Ports {
    /// Binds a socket; one of UDP receives from then on, and is watched under its index plus `first`. Its name.
    pub fn take(
        &mut self,
        id: Id,
        transport: Transport,
        address: SocketAddr,
        flags: u32,
        (poller, first): (&Poller, u64),
    ) -> Result<SocketAddr, Errno> {
        let kind = match transport {
            _ if !self.is_host => return Err(Errno::ACCESS),
            Transport::Tcp => SocketType::STREAM,
            Transport::Udp => SocketType::DGRAM,
            Transport::Icmp => return Err(Errno::INVAL),
        };
        if self.ports.len() >= MOST_LISTENERS || self.ports.values().any(|port| port.listeners.contains(&id)) {
            return Err(Errno::MFILE);
        }
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = crate::server::socket(family, kind, None)?;
        if address.is_ipv6() {
            set_ipv6_v6only(&socket, flags & BIND_ONLY_V6 != 0)?;
        }
        set_socket_reuseaddr(&socket, flags & BIND_SHARED != 0)?;
        set_socket_reuseport(&socket, flags & BIND_GROUPED != 0)?;
        rustix::net::bind(&socket, &address)?;
        let host = name(&socket)?;
        let udp = transport == Transport::Udp;
        if udp {
            poller.add(&socket, first + self.next_port as u64)?;
        }
        let publish = Publish { udp, host, pod: host.port(), optional: false };
        self.add(Port { socket, publish, flags, listeners: vec![id] });
        Ok(host)
    }

    /// Indices of the UDP ports that the pod bound.
    pub fn bound_by_pod(&self) -> Vec<usize> {
        let is_one = |port: &Port| self.is_host && port.publish.udp;
        self.ports.iter().filter(|(_, port)| is_one(port)).map(|(index, _)| *index).collect()
    }

    /// The socket that was bound with this id listens, if there is one.
    pub fn listen_taken(&self, id: Id, backlog: u32) -> Option<Result<BorrowedFd<'_>, Errno>> {
        let port = self.ports.values().find(|port| self.is_host && port.listeners.contains(&id))?;
        let backlog = i32::try_from(backlog.min(MOST_BACKLOG)).unwrap_or(1);
        Some(rustix::net::listen(&port.socket, backlog).map(|()| port.socket.as_fd()))
    }

    /// Connects the socket of TCP that was bound with this id, if there is one. It is not a port any more.
    pub fn connect_taken(&mut self, id: Id, peer: SocketAddr) -> Option<Result<OwnedFd, Errno>> {
        let is_it = |port: &Port| self.is_host && !port.publish.udp && port.listeners.contains(&id);
        let index = *self.ports.iter().find(|(_, port)| is_it(port))?.0;
        let Port { socket, publish, .. } = self.ports.remove(&index)?;
        Some(match rustix::net::connect(&socket, &reached_by(&publish.host, peer)) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        })
    }
}
