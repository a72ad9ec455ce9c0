//! ICMP echo sockets (`ping`), icmp(7): datagrams are ICMP messages, and the port is the identifier of the echo.
//!
//! The pod's own addresses answer here. Peers outside are reached through an echo socket of the host, whose identifier is
//! another one; the host's kernel writes its own into what leaves.

use super::super::super::message::Control;
use super::super::address::{Reach, to_v6};
use super::super::control::{self, Facts};
use super::super::{Endpoint, IPPROTO_ICMPV6};
use super::queue::Datagram;
use super::{Address, Kind, Udp};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::net::IpAddr;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::Src;

/// Bytes of the header: type, code, checksum, identifier, sequence number.
const HEADER: usize = 8;
/// Types of a request and its answer.
const ECHO: (u8, u8) = (8, 0);
const ECHO6: (u8, u8) = (128, 129);
/// Hops of an answer.
const TTL: i32 = 64;

/// Adds 16-bit words to a checksum that is not folded.
fn add(sum: u32, bytes: &[u8]) -> u32 {
    let word = |two: &[u8]| u32::from(two[0]) << 8 | two.get(1).map_or(0, |byte| u32::from(*byte));
    bytes.chunks(2).fold(sum, |sum, two| sum + word(two))
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Writes the identifier, with which the checksum changes (RFC 1624).
fn set_identifier(message: &mut [u8], identifier: u16) {
    let Some(header) = message.first_chunk_mut::<HEADER>() else { return };
    let old = u32::from(!u16::from_be_bytes([header[4], header[5]]));
    let sum = u32::from(!u16::from_be_bytes([header[2], header[3]])) + old + u32::from(identifier);
    header[2..4].copy_from_slice(&(!folded(sum)).to_be_bytes());
    header[4..6].copy_from_slice(&identifier.to_be_bytes());
}

/// Makes a request its answer, which goes from `from` to `to`.
fn answer(message: &mut [u8], from: IpAddr, to: IpAddr) {
    let mut sum = 0;
    if from.is_ipv6() {
        for ip in [from, to] {
            sum = add(sum, &to_v6(ip).octets());
        }
        sum = add(sum, &(message.len() as u32).to_be_bytes()) + IPPROTO_ICMPV6;
    }
    message[0] = if from.is_ipv6() { ECHO6.1 } else { ECHO.1 };
    message[2..4].fill(0);
    // At most 64 KiB: the sum does not overflow.
    let sum = !folded(add(sum, message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

impl Udp {
    /// Whether it is an echo socket.
    pub(super) fn is_ping(&self) -> bool {
        self.kind == Kind::Ping
    }

    /// bind(2): identifiers need no right.
    pub(super) fn bind_identifier(&self, address: &[u8]) -> Result<()> {
        let mut named = Address::from_slice(address);
        if let Some(port) = named.get_mut(2..4) {
            port.fill(0);
        }
        let to = self.base.bindable(&named)?;
        let port = address.get(2..4).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
        let me = self.me.upgrade().ok_or(Errno::EINVAL)?;
        self.base.bind(&me, self.ports(), Endpoint { port, ..to })
    }

    /// The destination of a request. EDESTADDRREQ, EINVAL, EAFNOSUPPORT.
    fn echo_target(&self, to: Option<&[u8]>) -> Result<Endpoint> {
        let to = match to {
            Some(to) => Endpoint::parse(to, self.base.family)?,
            None => self.base.remote.get().ok_or(Errno::EDESTADDRREQ)?,
        };
        if to.ip.is_ipv4() != (self.base.family == net::AF_INET) {
            return Err(Errno::EINVAL);
        }
        Ok(Endpoint { port: 0, ..to })
    }

    /// send(2).
    pub(super) fn send_echo(
        &self,
        src: &mut dyn Src,
        to: Option<&[u8]>,
        control: &Control,
        flags: u32,
    ) -> Result<usize> {
        let size = src.remaining();
        match size {
            0x1_0000.. => return Err(Errno::EMSGSIZE),
            ..HEADER => return Err(Errno::EINVAL),
            _ if flags & net::MSG_OOB != 0 => return Err(Errno::EOPNOTSUPP),
            _ => {}
        }
        let mut message = vfs::memory::buffer(size)?;
        if src.get(&mut message)? < size {
            return Err(Errno::EFAULT);
        }
        let echo = if self.base.family == net::AF_INET { ECHO } else { ECHO6 };
        if message[..2] != [echo.0, 0] {
            return Err(Errno::EINVAL);
        }
        let to = self.echo_target(to)?;
        let sending = control::sending(&self.base, control)?;
        let (to, reach) = self.ready_to_send(to)?;
        self.autobind()?;
        match reach {
            Reach::Outward => self.send_outward(to, message, &sending, flags)?,
            Reach::Loopback => {
                let own = sending.source.unwrap_or_else(|| self.base.source(to.ip));
                answer(&mut message, to.ip, own);
                let facts = Facts { ttl: Some(TTL), class: Some(0), ..self.facts_here(to, own) };
                self.deliver_echo(to, facts, message);
            }
            // Nobody answers them.
            Reach::Broadcast | Reach::Multicast => {}
        }
        Ok(size)
    }

    /// An answer within the pod: of several sockets with the identifier the last one gets it.
    fn deliver_echo(&self, from: Endpoint, facts: Facts, message: Vec<u8>) {
        let own = facts.to.ip;
        let to = Endpoint { ip: own, port: self.base.local.get().port };
        let fits = |udp: &Self| {
            let local = udp.base.local.get().ip;
            (udp.base.family == self.base.family && (local.is_unspecified() || local == own)).then_some(1)
        };
        let found = self.ports().best(to, fits).pop();
        if let Some(udp) = found {
            udp.take_echo(from, facts, message);
        }
    }

    /// An answer from `from`.
    pub(super) fn take_echo(&self, from: Endpoint, mut facts: Facts, mut message: Vec<u8>) {
        let port = self.base.local.get().port;
        set_identifier(&mut message, port);
        facts.to.port = port;
        self.take_one(Datagram { data: Rc::new(message), from: Endpoint { port: 0, ..from }, facts, drops: 0 });
    }
}
