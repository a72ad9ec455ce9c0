//! Datagrams: send(2), recv(2).

use super::super::super::message::{Control, Part, Received};
use super::super::super::{family_of, filter, wait};
use super::super::address::Reach;
use super::super::control::{self, Facts, Sending};
use super::super::ip_options::{LOOPBACK, SOL_IP, SOL_IPV6};
use super::super::outward::settle::{Under, settle};
use super::super::statistics::Count;
use super::super::{Base, Endpoint, ports};
use super::queue::{Datagram, Report};
use super::{Kind, Udp};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::net::IpAddr;
use smallvec::SmallVec;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::{Dst, Src};

/// Maximum size of a datagram: an IP packet without headers.
const MAX4: usize = 65_507;
const MAX6: usize = 65_527;
/// Maximum number of datagrams per send with `UDP_SEGMENT`.
const MOST_SEGMENTS: usize = 128;

/// The wall clock in ns.
fn now_ns() -> u64 {
    hal::clock::realtime_ns()
}

/// A datagram that is being put together (`MSG_MORE`, `UDP_CORK`). Its first part determines where it is sent and how.
pub struct Pending {
    to: Endpoint,
    reach: Reach,
    sending: Sending,
    /// The bytes so far.
    pub data: Vec<u8>,
}

impl Udp {
    /// The route to a destination, unless an error is pending or sending was shut down.
    pub(super) fn ready_to_send(&self, to: Endpoint) -> Result<(Endpoint, Reach)> {
        let route = self.route(to)?;
        if let Some(errno) = self.error.take() {
            return Err(errno);
        }
        if self.write_ended.get() {
            return Err(Errno::EPIPE);
        }
        Ok(route)
    }

    /// send(2).
    pub(super) fn send_datagram(
        &self,
        src: &mut dyn Src,
        to: Option<&[u8]>,
        control: &Control,
        flags: u32,
    ) -> Result<usize> {
        let size = src.remaining();
        if size > 0xffff {
            return Err(Errno::EMSGSIZE);
        }
        if flags & net::MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut datagram = self.begin(to, control)?;
        let more = self.corked.get() || flags & net::MSG_MORE != 0;
        let most = if datagram.to.ip.is_ipv4() { MAX4 } else { MAX6 };
        if datagram.data.len() + size > most {
            return Err(Errno::EMSGSIZE);
        }
        let mut data = vfs::memory::buffer(size)?;
        if size > 0 && src.get(&mut data)? < size {
            return Err(Errno::EFAULT);
        }
        if datagram.data.is_empty() {
            datagram.data = data;
        } else {
            datagram.data.try_reserve(size).map_err(|_| Errno::ENOBUFS)?;
            datagram.data.append(&mut data);
        }
        self.autobind()?;
        if more {
            *self.pending.borrow_mut() = Some(datagram);
        } else {
            self.send_whole(datagram, flags)?;
        }
        if self.base.completions.sent(&self.base.options, size, flags) {
            self.readable.wake_all();
        }
        Ok(size)
    }

    /// The datagram that a part belongs to: the one that was begun, whatever it is sent to now, or a new one. The caller puts it
    /// back; after an error it is lost.
    fn begin(&self, to: Option<&[u8]>, control: &Control) -> Result<Pending> {
        let begun = self.pending.borrow().as_ref().map(|pending| pending.to);
        if let Some(begun) = begun {
            if self.base.family == net::AF_INET6
                && let Some(to) = to
                && self.target(to)?.ip.is_ipv4()
                && begun.ip.is_ipv6()
            {
                return Err(Errno::EINVAL);
            }
            // Another thread may have sent it meanwhile.
            if let Some(pending) = self.pending.take() {
                return Ok(pending);
            }
        }
        let to = self.receiver(to)?;
        let mut sending = control::sending(&self.base, control)?;
        let (to, reach) = self.ready_to_send(to)?;
        sending.segment = Some(sending.segment.unwrap_or_else(|| self.segment.get()));
        Ok(Pending { to, reach, sending, data: Vec::new() })
    }

    /// Sends a datagram. EINVAL, EIO: it has segments that can't be.
    fn send_whole(&self, datagram: Pending, flags: u32) -> Result<()> {
        let Pending { to, reach, sending, data } = datagram;
        let segment = sending.segment.unwrap_or(0);
        if segment != 0 {
            let no_check = match to.ip {
                IpAddr::V4(_) => self.base.options.is_on(net::SO_NO_CHECK),
                IpAddr::V6(_) => self.unchecked[0].get(),
            };
            if data.len() > usize::from(segment) * MOST_SEGMENTS || no_check {
                return Err(Errno::EINVAL);
            }
            if self.kind == Kind::Lite {
                return Err(Errno::EIO);
            }
        }
        if reach == Reach::Outward {
            return self.send_outward(to, data, &sending, flags);
        }
        // The host's addresses are none of the pod's own loopback device.
        if sending.source.is_some_and(|ip| self.base.net.reach(ip) == Some(Reach::Outward) && !ip.is_loopback()) {
            return Err(Errno::EINVAL);
        }
        self.deliver(to, reach, data, &sending);
        Ok(())
    }

    /// Sends the collected data.
    pub(super) fn push_pending(&self) -> Result<()> {
        self.pending.take().map_or(Ok(()), |datagram| self.send_whole(datagram, 0))
    }

    /// The destination of a datagram. EDESTADDRREQ, EINVAL, EAFNOSUPPORT.
    fn receiver(&self, to: Option<&[u8]>) -> Result<Endpoint> {
        let unspecified = |to: &&[u8]| family_of(to).is_ok_and(|family| family == net::AF_UNSPEC);
        let to = match to {
            Some(to) if unspecified(&to) && self.base.family == net::AF_INET => {
                // The family may be left out.
                let mut named = super::Address::from_slice(to);
                named[..2].copy_from_slice(&(net::AF_INET as u16).to_ne_bytes());
                self.target(&named)?
            }
            Some(to) if !unspecified(&to) => self.target(to)?,
            _ => return self.base.remote.get().ok_or(Errno::EDESTADDRREQ),
        };
        if to.port == 0 { Err(Errno::EINVAL) } else { Ok(to) }
    }

    /// Puts a datagram into the inbox of its receiver, or of all it is for.
    fn deliver(&self, to: Endpoint, reach: Reach, data: Vec<u8>, sending: &Sending) {
        let version = if to.ip.is_ipv4() { &self.base.ip.v4 } else { &self.base.ip.v6 };
        let facts = Facts {
            to,
            device: LOOPBACK,
            ttl: Some(sending.ttl.unwrap_or_else(|| version.ttl())),
            class: Some(sending.class.unwrap_or_else(|| version.class.get())),
            at_ns: now_ns(),
            segment: sending.segment.unwrap_or(0),
            mark: sending.mark.unwrap_or_else(|| self.base.options.mark.get()),
            priority: sending.priority.unwrap_or_else(|| self.base.options.priority.get()),
        };
        let unchecked = to.ip.is_ipv6() && self.unchecked[0].get();
        let takes = |udp: &Udp| !unchecked || udp.unchecked[1].get();
        let from = Endpoint {
            ip: sending.source.unwrap_or_else(|| self.base.source(to.ip)),
            port: self.base.local.get().port,
        };
        Count::UdpSent.add(&self.base.net, 1);
        Count::Packets.add(&self.base.net, 1);
        Count::Bytes.add(&self.base.net, data.len() as u64);
        let data = Rc::new(data);
        if reach != Reach::Loopback {
            for udp in self.ports().all() {
                if udp.base.local.get().port == to.port && udp.base.takes_group(to, from, reach) && takes(&udp) {
                    udp.take_in(Datagram { data: data.clone(), from, facts, drops: 0 });
                }
            }
            return;
        }
        let found = self.ports().best(to, |udp| udp.base.score(to, from));
        if let Some(udp) = ports::select(found, from, &data) {
            if takes(&udp) {
                udp.take_in(Datagram { data, from, facts, drops: 0 });
            }
        } else {
            self.refused(to, data);
        }
    }

    /// No socket is bound to the port: the effect of ICMP's port unreachable.
    pub(super) fn refused(&self, to: Endpoint, data: Rc<Vec<u8>>) {
        Count::UdpNoPorts.add(&self.base.net, 1);
        let ip = &self.base.ip;
        let reports = if to.ip.is_ipv4() { ip.is_on(net::IP_RECVERR) } else { ip.is_on6(net::IPV6_RECVERR) };
        if reports {
            self.reports.push(Report { to, data });
        }
        if reports || self.base.remote.get().is_some() {
            self.error.set(Some(Errno::ECONNREFUSED));
            self.readable.wake_all();
        }
    }

    /// Queues received data: one datagram, or several (`UDP_SEGMENT`), merged or separately (`UDP_GRO`).
    pub(super) fn take_in(&self, mut datagram: Datagram) {
        let segment = usize::from(datagram.facts.segment);
        if segment == 0 || datagram.data.len() <= segment {
            datagram.facts.segment = 0;
            return self.take_one(datagram);
        }
        if self.joins.get() {
            return self.take_one(datagram);
        }
        for bytes in datagram.data.chunks(segment) {
            let Ok(mut data) = vfs::memory::buffer(bytes.len()) else {
                Count::UdpDropped.add(&self.base.net, 1);
                continue;
            };
            data.copy_from_slice(bytes);
            let facts = Facts { segment: 0, ..datagram.facts };
            self.take_one(Datagram { data: Rc::new(data), from: datagram.from, facts, drops: 0 });
        }
    }

    pub(super) fn take_one(&self, mut datagram: Datagram) {
        if self.base.options.filter.borrow().is_some() {
            // A filter sees the header, too; an echo's is part of the data.
            let (from, to) = (datagram.from.port.to_be_bytes(), datagram.facts.to.port.to_be_bytes());
            let len = ((datagram.data.len() + 8) as u16).to_be_bytes();
            let header = [from[0], from[1], to[0], to[1], len[0], len[1], 0, 0];
            let header = if self.is_ping() { &[][..] } else { &header };
            let Some(kept) = filter::keeps(&self.base.options, header, &datagram.data) else { return };
            if kept < datagram.data.len() {
                let Ok(data) = vfs::memory::copy(&datagram.data[..kept]) else {
                    return Count::UdpDropped.add(&self.base.net, 1);
                };
                datagram.data = Rc::new(data);
            }
        }
        if self.base.options.is_on(net::SO_RXQ_OVFL) {
            datagram.drops = self.inbox.drops() as u32;
        }
        if self.base.remote.get().is_some() {
            self.base.options.incoming_cpu.set(hal::percpu::cpu_index() as i32);
        }
        if self.inbox.push(datagram, self.base.options.receive_buffer.get() as usize) {
            Count::UdpReceived.add(&self.base.net, 1);
            self.readable.wake_for_data();
        } else {
            Count::UdpDropped.add(&self.base.net, 1);
        }
    }

    /// recv(2).
    pub(super) fn receive_datagram(&self, dst: &mut dyn Dst, want_from: bool, flags: u32) -> Result<Received> {
        if self.inbox.is_empty() || flags & net::MSG_ERRQUEUE != 0 {
            settle(Under::Data);
        }
        if flags & net::MSG_ERRQUEUE != 0 {
            return self.receive_report(dst);
        }
        let peek = flags & net::MSG_PEEK != 0;
        let start = if peek { self.peek_offset.get().max(0) as usize } else { 0 };
        let check = || {
            if let Some(errno) = self.error.take() {
                return Some(Err(errno));
            }
            if self.inbox.behind(start).is_some() {
                return Some(Ok(true));
            }
            (self.read_ended.get() && flags & net::MSG_DONTWAIT == 0).then_some(Ok(false))
        };
        let (_guard, datagram, skip) = loop {
            let some = match check() {
                Some(answer) => answer?,
                None if flags & net::MSG_DONTWAIT != 0 => {
                    self.missed();
                    check().unwrap_or(Err(Errno::EAGAIN))?
                }
                None => wait(&self.readable, self.base.options.receive_deadline(), check)??,
            };
            if !some {
                return Ok(Received::default());
            }
            let guard = self.receiving.lock();
            let found = if peek { self.inbox.behind(start) } else { self.inbox.pop().map(|datagram| (datagram, 0)) };
            if let Some((datagram, skip)) = found {
                break (guard, datagram, skip);
            }
        };
        self.receive_more();
        let mut received = Received::default();
        let size = datagram.data.len() - skip;
        let n = size.min(dst.remaining());
        dst.put_all(&datagram.data[skip..skip + n])?;
        let at = self.peek_offset.get();
        if at >= 0 {
            let size = datagram.data.len() as i32;
            self.peek_offset.set(if peek { at.saturating_add(n as i32) } else { at.saturating_sub(size).max(0) });
        }
        self.last_ns.set(datagram.facts.at_ns);
        received.len = if flags & net::MSG_TRUNC != 0 { size } else { n };
        if n < size {
            received.flags |= net::MSG_TRUNC;
        }
        if want_from {
            received.from = Some(datagram.from.to_bytes(self.base.family));
        }
        received.parts = control::received(&self.base, &datagram.facts, datagram.drops);
        Ok(received)
    }

    /// recv(2) with `MSG_ERRQUEUE`.
    fn receive_report(&self, dst: &mut dyn Dst) -> Result<Received> {
        if let Some(completed) = self.base.completions.report(&self.base) {
            return Ok(completed);
        }
        let report = self.reports.pop().ok_or(Errno::EAGAIN)?;
        if self.reports.is_empty() {
            self.error.set(None);
        }
        let n = report.data.len().min(dst.remaining());
        dst.put_all(&report.data[..n])?;
        let mut received = Received { len: n, flags: net::MSG_ERRQUEUE, ..Received::default() };
        if n < report.data.len() {
            received.flags |= net::MSG_TRUNC;
        }
        received.from = Some(report.to.to_bytes(self.base.family));
        received.parts.push(description(report.to));
        Ok(received)
    }
}

/// `struct sock_extended_err` of an unreachable port, and the offender's address.
fn description(to: Endpoint) -> Part {
    // Origin (SO_EE_ORIGIN_ICMP, _ICMP6), type and code of the message.
    let (level, kind, family, icmp) = match to.ip {
        IpAddr::V4(_) => (SOL_IP, net::IP_RECVERR, net::AF_INET, [2, 3, 3, 0]),
        IpAddr::V6(_) => (SOL_IPV6, net::IPV6_RECVERR, net::AF_INET6, [3, 1, 4, 0]),
    };
    let mut data: SmallVec<[u8; 32]> = SmallVec::from_slice(&(Errno::ECONNREFUSED.code() as u32).to_ne_bytes());
    data.extend_from_slice(&icmp);
    data.extend_from_slice(&[0; 8]);
    data.extend_from_slice(&Endpoint { port: 0, ..to }.to_bytes(family));
    Part { level, kind, data }
}

impl Base {
    /// Whether a datagram to a group or to all is also for this socket.
    fn takes_group(&self, to: Endpoint, from: Endpoint, reach: Reach) -> bool {
        let local = self.local.get().ip;
        let bound = local == to.ip
            || local.is_unspecified() && (local.is_ipv4() == to.ip.is_ipv4() || local.is_ipv6() && !self.only_v6());
        let joined = || match (self.ip.takes(to.ip, from.ip), to.ip) {
            (Some(takes), _) => takes,
            // Other members of the group in the pod get a copy.
            (None, IpAddr::V4(_)) => self.ip.is_on(net::IP_MULTICAST_ALL) && self.anybody_takes(to.ip, from.ip),
            (None, IpAddr::V6(_)) => self.ip.is_on6(net::IPV6_MULTICAST_ALL) && self.anybody_takes(to.ip, from.ip),
        };
        let from_peer = self.remote.get().is_none_or(|remote| remote == from);
        bound && from_peer && (reach == Reach::Broadcast || joined())
    }

    fn anybody_takes(&self, group: IpAddr, source: IpAddr) -> bool {
        self.net.udp.all().any(|udp| udp.base.ip.takes(group, source) == Some(true))
    }
}
