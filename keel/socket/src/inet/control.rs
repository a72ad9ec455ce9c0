//! Control data of datagrams: source, destination and delivery.

use super::super::message::{Control, Part};
use super::super::options::{Options, check_priority};
use super::address::{Reach, canonical, to_v6};
use super::ip_options::{LOOPBACK, SOL_IP, SOL_IPV6};
use super::udp::{UDP_GRO, UDP_SEGMENT};
use super::{Base, Endpoint, IPPROTO_UDP};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use sched::timer;
use smallvec::SmallVec;
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Ancillary data for one datagram to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sending {
    /// Source address.
    pub source: Option<IpAddr>,
    /// Hops.
    pub ttl: Option<i32>,
    /// Traffic class.
    pub class: Option<i32>,
    /// `UDP_SEGMENT` of this message.
    pub segment: Option<u16>,
    /// `SO_MARK` and `SO_PRIORITY` of this message.
    pub mark: Option<u32>,
    pub priority: Option<u32>,
}

/// Ancillary data that a receiver may get for one datagram.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Its destination.
    pub to: Endpoint,
    /// Index of the device that it came by.
    pub device: u32,
    /// Hops, if they are known.
    pub ttl: Option<i32>,
    /// Traffic class, if it is known.
    pub class: Option<i32>,
    /// Time of arrival, `CLOCK_REALTIME` in ns.
    pub at_ns: u64,
    /// The sender's `SO_MARK` and `SO_PRIORITY`.
    pub mark: u32,
    pub priority: u32,
    /// With several datagrams received together: size of each but the last. Otherwise 0.
    pub segment: u16,
}

fn part(level: u32, kind: u32, data: &[u8]) -> Part {
    Part { level, kind, data: SmallVec::from_slice(data) }
}

fn number(data: &[u8]) -> Result<i32> {
    data.first_chunk().map(|b| i32::from_ne_bytes(*b)).ok_or(Errno::EINVAL)
}

/// Parses the control data of a datagram to send. EINVAL.
pub fn sending(base: &Base, control: &Control) -> Result<Sending> {
    let mut sending = Sending::default();
    for part in &control.other {
        match (part.level, part.kind) {
            (SOL_IP, net::IP_PKTINFO) => {
                let source: [u8; 4] = part.data.get(4..8).and_then(|b| b.try_into().ok()).ok_or(Errno::EINVAL)?;
                device(number(&part.data)?)?;
                sending.source = Some(IpAddr::V4(Ipv4Addr::from(source)));
            }
            (SOL_IP, net::IP_TTL) => match number(&part.data)? {
                ttl @ 1..=255 => sending.ttl = Some(ttl),
                _ => return Err(Errno::EINVAL),
            },
            (SOL_IP, net::IP_TOS) => {
                let tos =
                    number(&part.data).or_else(|_| part.data.first().map(|&b| i32::from(b)).ok_or(Errno::EINVAL))?;
                sending.class = Some(tos & 0xff);
            }
            (SOL_IPV6, net::IPV6_PKTINFO | net::IPV6_2292PKTINFO) if base.family == net::AF_INET6 => {
                let source: [u8; 16] = part.data.get(..16).and_then(|b| b.try_into().ok()).ok_or(Errno::EINVAL)?;
                device(part.data.get(16..).ok_or(Errno::EINVAL).and_then(number)?)?;
                sending.source = Some(canonical(Ipv6Addr::from(source)));
            }
            (SOL_IPV6, net::IPV6_HOPLIMIT | net::IPV6_2292HOPLIMIT) if base.family == net::AF_INET6 => {
                match number(&part.data)? {
                    ttl @ 0..=255 => sending.ttl = Some(ttl),
                    -1 => {}
                    _ => return Err(Errno::EINVAL),
                }
            }
            (SOL_IPV6, net::IPV6_TCLASS) if base.family == net::AF_INET6 => {
                sending.class = Some(number(&part.data)? & 0xff);
            }
            (IPPROTO_UDP, UDP_SEGMENT) => {
                let bytes: [u8; 2] = part.data[..].try_into().map_err(|_| Errno::EINVAL)?;
                sending.segment = Some(u16::from_ne_bytes(bytes));
            }
            (SOL_IP | SOL_IPV6 | IPPROTO_UDP, _) => return Err(Errno::EINVAL),
            (net::SOL_SOCKET, _) => general(base, part, &mut sending)?,
            _ => {}
        }
    }
    sending.source = sending.source.filter(|ip| !ip.is_unspecified());
    // Which addresses the host has it says itself, when the datagram leaves.
    let is_known = |ip| match base.net.reach(ip) {
        Some(Reach::Loopback) => true,
        Some(Reach::Outward) => base.net.is_host(),
        _ => false,
    };
    if sending.source.is_some_and(|ip| !is_known(ip)) {
        return Err(Errno::EINVAL);
    }
    Ok(sending)
}

/// Control data of the level SOL_SOCKET. EINVAL, EPERM.
pub fn general(base: &Base, part: &Part, sending: &mut Sending) -> Result<()> {
    let ns = &base.net;
    let is_number = part.data.len() == size_of::<i32>();
    match part.kind {
        net::SO_MARK => {
            if !ns.permits(g::CAP_NET_RAW) && !ns.permits(g::CAP_NET_ADMIN) {
                return Err(Errno::EPERM);
            }
            if !is_number {
                return Err(Errno::EINVAL);
            }
            sending.mark = Some(number(&part.data)? as u32);
        }
        net::SO_PRIORITY => {
            if !is_number {
                return Err(Errno::EINVAL);
            }
            let priority = number(&part.data)?;
            check_priority(ns, priority)?;
            sending.priority = Some(priority as u32);
        }
        // No device delays a message until its time.
        net::SO_TXTIME if base.options.inert().has_departures() && part.data.len() == size_of::<u64>() => {}
        // There are no times of departure.
        net::SO_TIMESTAMPING_OLD | net::SO_TIMESTAMPING_NEW if is_number && number(&part.data)? == 0 => {}
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// ENODEV for a device that does not exist.
fn device(index: i32) -> Result<()> {
    if index == 0 || index == LOOPBACK as i32 { Ok(()) } else { Err(Errno::ENODEV) }
}

/// `SO_TIMESTAMP`, `SO_TIMESTAMPNS` and `SO_TIMESTAMPING`.
pub fn stamp(options: &Options, at_ns: u64, out: &mut Vec<Part>) {
    let bytes = |words: [i64; 2]| words.map(i64::to_ne_bytes).concat();
    for name in [net::SO_TIMESTAMP_OLD, net::SO_TIMESTAMP_NEW] {
        if options.is_on(name) {
            out.push(part(net::SOL_SOCKET, name, &bytes(timer::timeval(at_ns))));
        }
    }
    for name in [net::SO_TIMESTAMPNS_OLD, net::SO_TIMESTAMPNS_NEW] {
        if options.is_on(name) {
            out.push(part(net::SOL_SOCKET, name, &bytes(timer::timespec(at_ns))));
        }
    }
    if let Some(kind) = options.stamping.on_arrival() {
        // The times that devices tell follow, which there are none of.
        let [seconds, ns] = timer::timespec(at_ns);
        let words = [seconds, ns, 0, 0, 0, 0].map(i64::to_ne_bytes);
        out.push(part(net::SOL_SOCKET, kind, words.as_flattened()));
    }
}

/// Builds the control data that the socket requests.
pub fn received(base: &Base, facts: &Facts, drops: u32) -> Vec<Part> {
    let mut out = Vec::new();
    stamp(&base.options, facts.at_ns, &mut out);
    let numbers = [
        (net::SO_RXQ_OVFL, drops, drops > 0),
        (net::SO_RCVMARK, facts.mark, true),
        (net::SO_RCVPRIORITY, facts.priority, true),
    ];
    for (name, value, shown) in numbers {
        if shown && base.options.is_on(name) {
            let kind = match name {
                net::SO_RCVMARK => net::SO_MARK,
                net::SO_RCVPRIORITY => net::SO_PRIORITY,
                name => name,
            };
            out.push(part(net::SOL_SOCKET, kind, &value.to_ne_bytes()));
        }
    }
    if facts.segment != 0 {
        out.push(part(IPPROTO_UDP, UDP_GRO, &i32::from(facts.segment).to_ne_bytes()));
    }
    let ip = &base.ip;
    // An IPv6 socket gets the ancillary data of both families for an IPv4 datagram.
    if let IpAddr::V4(to) = facts.to.ip {
        if ip.is_on(net::IP_PKTINFO) {
            let mut data = facts.device.to_ne_bytes().to_vec();
            data.extend(to.octets());
            data.extend(to.octets());
            out.push(part(SOL_IP, net::IP_PKTINFO, &data));
        }
        if let Some(ttl) = facts.ttl.filter(|_| ip.is_on(net::IP_RECVTTL)) {
            out.push(part(SOL_IP, net::IP_TTL, &ttl.to_ne_bytes()));
        }
        if let Some(class) = facts.class.filter(|_| ip.is_on(net::IP_RECVTOS)) {
            out.push(part(SOL_IP, net::IP_TOS, &[class as u8]));
        }
        if ip.is_on(net::IP_RECVORIGDSTADDR) {
            out.push(part(SOL_IP, net::IP_ORIGDSTADDR, &facts.to.to_bytes(net::AF_INET)));
        }
    }
    if base.family == net::AF_INET6 {
        if ip.is_on6(net::IPV6_RECVPKTINFO) {
            let mut data = to_v6(facts.to.ip).octets().to_vec();
            data.extend(facts.device.to_ne_bytes());
            out.push(part(SOL_IPV6, net::IPV6_PKTINFO, &data));
        }
        if facts.to.ip.is_ipv6() {
            if let Some(ttl) = facts.ttl.filter(|_| ip.is_on6(net::IPV6_RECVHOPLIMIT)) {
                out.push(part(SOL_IPV6, net::IPV6_HOPLIMIT, &ttl.to_ne_bytes()));
            }
            if let Some(class) = facts.class.filter(|_| ip.is_on6(net::IPV6_RECVTCLASS)) {
                out.push(part(SOL_IPV6, net::IPV6_TCLASS, &class.to_ne_bytes()));
            }
            if ip.is_on6(net::IPV6_RECVORIGDSTADDR) {
                out.push(part(SOL_IPV6, net::IPV6_ORIGDSTADDR, &facts.to.to_bytes(net::AF_INET6)));
            }
        }
    }
    out
}
