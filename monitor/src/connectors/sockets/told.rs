//! Datagrams with what the host tells of them: control data of recvmsg(2).
#![allow(unsafe_code)]

use super::super::Result;
use abi::request::{DatagramFacts, told};
use broker::Facts;
use rustix::fd::{AsRawFd, BorrowedFd};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Words of room for control data: more than all that is asked for.
const ROOM: usize = 64;
/// Bytes of the head of a part of the control data, and what its parts are aligned to.
const HEAD: usize = 16;
const ALIGN: usize = 8;
/// Bytes of the longest name of a socket of IP.
const NAME: usize = 28;

/// What the host told of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Address, device, hops and class.
    pub facts: Facts,
    /// When it arrived, `CLOCK_REALTIME` in ns.
    pub at_ns: Option<u64>,
    /// Size of the datagrams that were received together; 0: it is one.
    pub segment: u16,
}

impl Told {
    /// As in a record: which fields hold, and the fields.
    pub fn record(&self) -> (u32, DatagramFacts) {
        let mut out = DatagramFacts { segment: self.segment, ..DatagramFacts::default() };
        let mut bits = if self.segment == 0 { 0 } else { told::SEGMENT };
        if let Some(hops) = self.facts.hops {
            (bits, out.hops) = (bits | told::HOPS, hops);
        }
        if let Some(class) = self.facts.class {
            (bits, out.class) = (bits | told::CLASS, class);
        }
        if let Some(at_ns) = self.at_ns {
            (bits, out.at_ns) = (bits | told::TIME, at_ns);
        }
        if let Some((address, device)) = self.facts.to {
            (bits, out.device) = (bits | told::ADDRESS, device);
            out.address = abi::request::SocketName::new(address, 0).address;
        }
        (bits, out)
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn number(bytes: &[u8]) -> Option<i32> {
    array(bytes, 0).map(i32::from_ne_bytes)
}

/// A byte, as an `int` or alone.
fn byte(bytes: &[u8]) -> Option<u8> {
    match number(bytes) {
        Some(number) => u8::try_from(number).ok(),
        None => bytes.first().copied(),
    }
}

/// Reads one part of the control data. Others than those that are known tell nothing.
fn take(told: &mut Told, level: i32, kind: i32, data: &[u8]) -> Option<()> {
    match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
            told.facts.hops = Some(byte(data)?);
        }
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            told.facts.class = Some(byte(data)?);
        }
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let address = IpAddr::V4(Ipv4Addr::from(array::<4>(data, 8)?));
            told.facts.to = Some((address, number(data)?.cast_unsigned()));
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let address = IpAddr::V6(Ipv6Addr::from(array::<16>(data, 0)?)).to_canonical();
            told.facts.to = Some((address, number(data.get(16..)?)?.cast_unsigned()));
        }
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
            let seconds = u64::try_from(i64::from_ne_bytes(array(data, 0)?)).ok()?;
            let ns = u64::try_from(i64::from_ne_bytes(array(data, 8)?)).ok()?;
            told.at_ns = seconds.checked_mul(1_000_000_000)?.checked_add(ns);
        }
        (libc::IPPROTO_UDP, libc::UDP_GRO) => told.segment = u16::try_from(number(data)?).ok()?,
        _ => {}
    }
    Some(())
}

/// Reads the control data.
fn parse(mut control: &[u8]) -> Told {
    let mut told = Told::default();
    while let (Some(len), Some(level), Some(kind)) = (array(control, 0), array(control, 8), array(control, 12)) {
        let len = usize::from_ne_bytes(len);
        let Some(data) = control.get(HEAD..len) else { break };
        let _ = take(&mut told, i32::from_ne_bytes(level), i32::from_ne_bytes(kind), data);
        control = len.checked_next_multiple_of(ALIGN).and_then(|next| control.get(next..)).unwrap_or_default();
    }
    told
}

/// Reads the name of a socket of IP.
fn name(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(array(bytes, 2)?);
    match i32::from(u16::from_ne_bytes(array(bytes, 0)?)) {
        libc::AF_INET => Some(SocketAddr::new(Ipv4Addr::from(array::<4>(bytes, 4)?).into(), port)),
        libc::AF_INET6 => {
            let scope = u32::from_ne_bytes(array(bytes, 24)?);
            Some(SocketAddrV6::new(Ipv6Addr::from(array::<16>(bytes, 8)?), port, 0, scope).into())
        }
        _ => None,
    }
}

/// Receives a datagram without waiting: its length, at most the buffer's, its sender, and what the host tells of it.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<(usize, Option<SocketAddr>, Told)> {
    let mut from = [0u8; NAME];
    let mut control = [0u64; ROOM];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: the structure consists of integers and pointers, for which zeros are values.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = from.as_mut_ptr().cast();
    message.msg_namelen = NAME as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the message names the buffer, the name, the control data and the list of one part with their sizes; all are local or
    // exclusively borrowed, and the kernel writes no more than these sizes.
    let got =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) };
    let got = usize::try_from(got).map_err(|_| super::options::last_error())?;
    let control: &[u8] = bytemuck::cast_slice(&control);
    let told = parse(control.get(..message.msg_controllen).unwrap_or_default());
    let from = from.get(..message.msg_namelen as usize).and_then(name);
    Ok((got.min(buffer.len()), from, told))
}

/// [`receive`] for the broker.
pub fn receive_facts(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<(usize, Option<SocketAddr>, Facts)> {
    receive(socket, buffer).map(|(length, from, told)| (length, from, told.facts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectors::Errno;
    use crate::connectors::sockets::options;
    use abi::request::tell;
    use proptest::prelude::*;
    use rustix::fd::AsFd;
    use std::net::UdpSocket;

    fn pair(address: &str) -> (UdpSocket, UdpSocket) {
        let [to, from] = [0; 2].map(|_| UdpSocket::bind(address).unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        (to, from)
    }

    #[test]
    fn what_the_host_tells() {
        for (address, device) in [("127.0.0.1:0", 1), ("[::1]:0", 1)] {
            let (to, from) = pair(address);
            let own = to.local_addr().unwrap();
            let mut buffer = [0; 16];
            assert_eq!(receive(to.as_fd(), &mut buffer), Err(Errno::AGAIN));
            from.send(b"first").unwrap();
            let nothing = Told::default();
            assert_eq!(receive(to.as_fd(), &mut buffer), Ok((5, Some(from.local_addr().unwrap()), nothing)));
            options::tell(to.as_fd(), tell::ALL, true);
            options::set_hops(from.as_fd(), Some(7)).unwrap();
            options::set_class(from.as_fd(), 0x88).unwrap();
            from.send(b"second").unwrap();
            let (length, _, told) = receive(to.as_fd(), &mut buffer).unwrap();
            assert_eq!((length, &buffer[..6]), (6, &b"second"[..]));
            let facts = Facts { to: Some((own.ip(), device)), hops: Some(7), class: Some(0x88) };
            assert_eq!((told.facts, told.segment), (facts, 0));
            assert!(told.at_ns.is_some());
            let (bits, record) = told.record();
            assert_eq!(bits, told::HOPS | told::CLASS | told::ADDRESS | told::TIME);
            assert_eq!((record.hops, record.class, record.device), (7, 0x88, 1));
            options::set_segment(from.as_fd(), 4).unwrap();
            from.send(b"0123456789").unwrap();
            let (length, _, told) = receive(to.as_fd(), &mut buffer).unwrap();
            assert_eq!((length, told.segment), (10, 4));
            options::tell(to.as_fd(), tell::FACTS, false);
            from.send(b"0123456789").unwrap();
            let (length, _, told) = receive(to.as_fd(), &mut buffer).unwrap();
            assert_eq!((length, told.segment, told.at_ns, told.facts.to), (4, 0, None, None));
            assert_eq!(told.facts.hops, Some(7));
            options::set_hops(from.as_fd(), None).unwrap();
            from.send(b"last").unwrap();
            while receive(to.as_fd(), &mut buffer).unwrap().0 != 4 || &buffer[..4] != b"last" {}
        }
    }

    proptest! {
        #[test]
        fn any_control_data(bytes in proptest::collection::vec(any::<u8>(), 0..80), len in 0_usize..40) {
            let _ = (parse(&bytes), name(&bytes));
            let mut bytes = bytes;
            if let Some(head) = bytes.first_chunk_mut() {
                *head = len.to_ne_bytes();
            }
            let _ = parse(&bytes);
        }
    }
}
