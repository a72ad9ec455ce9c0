//! Peers outside of the pod: a [`Flow`] each.

use super::super::Endpoint;
use super::super::control::{Facts, Sending};
use super::super::ip_options::LOOPBACK;
use super::super::outward::flow::{Flow, Publisher, look};
use super::super::outward::is_own;
use super::super::outward::settle::{self, Under};
use super::super::statistics::Count;
use super::queue::Datagram;
use super::{Kind, Udp, wait};
use abi::request::{DatagramFacts, Outgoing, SocketName, Transport, tell, told};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::net::IpAddr;
use sched::connector;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Most peers of a socket; that of the longest ago makes room for another.
const MAX_FLOWS: usize = 256;
/// Index of the device that leads out of the pod.
const OUTSIDE: u32 = 2;

impl Udp {
    /// The flow from an address, if one is chosen, to a peer, which becomes the last used one.
    fn flow(&self, peer: Endpoint, source: Option<IpAddr>) -> Option<Rc<Flow>> {
        let mut flows = self.flows.borrow_mut();
        let at = flows.iter().rposition(|flow| flow.peer == peer && flow.source == source)?;
        let flow = flows.remove(at);
        flows.push(flow.clone());
        Some(flow)
    }

    /// A further peer.
    pub fn add_flow(&self, flow: Rc<Flow>) {
        let mut flows = self.flows.borrow_mut();
        let oldest = if flows.len() >= MAX_FLOWS { Some(flows.remove(0)) } else { None };
        flows.push(flow);
        drop(flows);
        if let Some(oldest) = oldest {
            oldest.close();
        }
    }

    /// Forgets a flow.
    pub fn drop_flow(&self, flow: &Flow) {
        let mut flows = self.flows.borrow_mut();
        let at = flows.iter().position(|other| core::ptr::eq(&raw const **other, flow));
        let dropped = at.map(|at| flows.remove(at));
        drop(flows);
        drop(dropped);
    }

    /// The flow to a peer, from this address of the host if one is chosen; opens it. Errors of connect(2), and those of bind(2).
    pub(super) fn open_flow(&self, peer: Endpoint, source: Option<IpAddr>) -> Result<Rc<Flow>> {
        if let Some(flow) = self.flow(peer, source) {
            return Ok(flow);
        }
        let local = self.base.local.get();
        // The host chooses the address itself, unless the socket has one.
        let own = if self.is_host() { local.ip } else { self.base.source(peer.ip) };
        let local = Endpoint { ip: source.unwrap_or(own), ..local };
        let flow = Flow::open(&self.me, local, source, peer)?;
        if self.read_ended.get() && self.write_ended.get() && self.base.local.get().port == 0 {
            flow.close();
            return Err(Errno::EBADF);
        }
        self.add_flow(flow.clone());
        flow.receive_more();
        Ok(flow)
    }

    /// Closes all flows but that to `peer`.
    pub(super) fn close_flows(&self, peer: Option<Endpoint>) {
        let old = self.flows.take();
        let (kept, closed): (Vec<_>, Vec<_>) = old.into_iter().partition(|flow| Some(flow.peer) == peer);
        *self.flows.borrow_mut() = kept;
        closed.iter().for_each(|flow| flow.close());
    }

    /// The socket is closed.
    pub(super) fn close_outward(&self) {
        self.close_flows(None);
        self.unpublish();
    }

    /// The host's port is closed.
    pub(super) fn unpublish(&self) {
        let publisher = self.publisher.take();
        if let Some(publisher) = publisher {
            publisher.close();
            if self.is_host() {
                settle::note_first(Under::End);
            }
        }
    }

    /// A datagram leaves for this address, or one that came from there may be followed by others: one of the host's loopback device is at
    /// its place at once.
    pub fn note_inside(&self, peer: Endpoint) {
        if self.is_host() && (peer.ip.is_loopback() || peer.ip == self.base.local.get().ip) {
            settle::note(Under::Data);
        }
    }

    /// A datagram leaves for this address.
    fn note_sent(&self, to: Endpoint, flow: &Flow) {
        let own = self.base.local.get();
        if !self.is_host() || !(to.ip.is_loopback() || to.ip == own.ip) {
            return;
        }
        let ports = &self.base.net.udp;
        let inside = ports.is_used(to.port);
        flow.set_inside(inside);
        if !inside {
            // The host may answer that nobody is there.
            return settle::note(if flow.is_unheard() { Under::End } else { Under::Data });
        }
        // Otherwise the datagram comes to the receiver's bound socket.
        let is_between = |other: &Rc<Flow>| other.local == Some(to) && Some(other.peer) == flow.local;
        let known = |udp: &Udp| udp.flows.borrow().iter().any(is_between);
        let is_known =
            !ports.best(to, |udp| (udp.base.local.get().port == to.port && known(udp)).then_some(1)).is_empty();
        if is_known { settle::note(Under::Data) } else { settle::note_first(Under::Data) }
    }

    fn sending(&self) -> usize {
        self.flows.borrow().iter().map(|flow| flow.sending()).sum()
    }

    /// Whether another datagram to a peer outside can be queued.
    pub(super) fn has_room(&self) -> bool {
        self.sending() < self.base.options.send_buffer.get() as usize
    }

    /// Whether less than half of the queue is in use.
    pub fn has_much_room(&self) -> bool {
        self.sending() * 2 < self.base.options.send_buffer.get() as usize
    }

    /// The address of the host to send from, if the program chose one that is not the socket's. EINVAL.
    fn chosen_source(&self, to: Endpoint, sending: &Sending) -> Result<Option<IpAddr>> {
        let Some(source) = sending.source.filter(|ip| ip.is_ipv4() == to.ip.is_ipv4()) else { return Ok(None) };
        if self.is_host() {
            return Ok(Some(source).filter(|ip| *ip != self.base.local.get().ip));
        }
        // What leaves the pod has the pod's own address.
        if source.is_loopback() { Err(Errno::EINVAL) } else { Ok(None) }
    }

    /// How a datagram of so many bytes leaves.
    fn outgoing(&self, to: Endpoint, len: usize, sending: &Sending) -> Outgoing {
        let version = if to.ip.is_ipv4() { &self.base.ip.v4 } else { &self.base.ip.v6 };
        let hops = sending.ttl.map_or_else(|| version.chosen_ttl(), |ttl| u8::try_from(ttl).ok());
        let class = sending.class.unwrap_or_else(|| version.class.get()) as u8;
        let segment = sending.segment.filter(|segment| len > usize::from(*segment)).unwrap_or(0);
        Outgoing { segment, hops, class, unchecked: to.ip.is_ipv6() && self.unchecked[0].get() }
    }

    /// Sends to a peer outside. Errors of connect(2), EAGAIN; ENETUNREACH, EINVAL: the host does not have the source address.
    pub(super) fn send_outward(&self, to: Endpoint, data: Vec<u8>, sending: &Sending, flags: u32) -> Result<()> {
        let source = self.chosen_source(to, sending)?;
        self.base.source_by(to.ip, super::Reach::Outward)?;
        if hal::ring::has_completion() {
            connector::poll_completions();
        }
        if self.is_host() {
            settle::settle(Under::End);
            if let Some(errno) = self.error.take() {
                return Err(errno);
            }
        }
        let flow = match self.open_flow(to, source) {
            Err(Errno::EADDRNOTAVAIL) if source.is_some_and(|ip| ip.is_ipv4()) => return Err(Errno::ENETUNREACH),
            Err(Errno::EADDRNOTAVAIL) if source.is_some() => return Err(Errno::EINVAL),
            other => other?,
        };
        if !self.has_room() {
            self.wants_room.set(true);
            if flags & net::MSG_DONTWAIT != 0 {
                return Err(Errno::EAGAIN);
            }
            wait(&self.readable, self.base.options.send_deadline(), || self.has_room().then_some(()))?;
        }
        self.note_sent(to, &flow);
        Count::UdpSent.add(&self.base.net, 1);
        Count::Packets.add(&self.base.net, 1);
        Count::Bytes.add(&self.base.net, data.len() as u64);
        let outgoing = self.outgoing(to, data.len(), sending);
        flow.send(Rc::new(data), outgoing);
        Ok(())
    }

    /// Whether the queue of received datagrams has room.
    pub fn wants_datagrams(&self) -> bool {
        !self.read_ended.get() && self.inbox.usage().0 <= self.base.options.receive_buffer.get() as usize
    }

    /// Whether a datagram is queued.
    pub fn has_datagram(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Whether a thread or an epoll instance waits for datagrams.
    pub fn is_waited_for(&self) -> bool {
        !self.readable.is_empty()
    }

    /// What flows carry.
    pub fn transport(&self) -> Transport {
        if self.is_ping() { Transport::Icmp } else { Transport::Udp }
    }

    /// What the host is to tell of received datagrams, [`tell`].
    pub fn told(&self) -> u32 {
        let on = |is_on: bool, bit| if is_on { bit } else { 0 };
        on(self.base.ip.wants_facts(), tell::FACTS)
            | on(self.base.options.wants_stamps(), tell::TIME)
            | on(self.joins.get(), tell::TOGETHER)
            | on(self.unchecked[1].get(), tell::UNCHECKED)
    }

    /// An option changed.
    pub(super) fn update_told(&self) {
        let flows = vfs::memory::list(self.flows.borrow().iter().cloned()).unwrap_or_default();
        flows.iter().for_each(|flow| flow.update_told(self.told()));
    }

    /// Facts of a datagram from `from` that came to this address, with what is the same for all.
    pub(super) fn facts_here(&self, from: Endpoint, ip: IpAddr) -> Facts {
        let to = Endpoint { ip, port: self.base.local.get().port };
        let at_ns = hal::clock::realtime_ns();
        let device = if from.ip.is_loopback() || ip.is_loopback() || is_own(from.ip) { LOOPBACK } else { OUTSIDE };
        Facts { to, device, ttl: None, class: None, at_ns, segment: 0, mark: 0, priority: 0 }
    }

    /// A datagram arrived, of which the host told these ([`told`]) facts.
    pub fn flow_received(&self, from: Endpoint, data: Vec<u8>, bits: u32, about: &DatagramFacts) {
        let is_told = |bit| bits & bit != 0;
        let local = self.base.local.get();
        let own = if local.ip.is_unspecified() { self.base.source(from.ip) } else { local.ip };
        let mut facts = self.facts_here(from, own);
        if is_told(told::ADDRESS) && self.base.net.is_host() {
            facts.to.ip = SocketName { address: about.address, ..SocketName::default() }.ip();
            facts.device = match about.device {
                0 => facts.device,
                LOOPBACK => LOOPBACK,
                _ => OUTSIDE,
            };
        }
        facts.ttl = is_told(told::HOPS).then_some(about.hops.into());
        facts.class = is_told(told::CLASS).then_some(about.class.into());
        if is_told(told::TIME) {
            facts.at_ns = about.at_ns;
        }
        if self.is_ping() {
            return self.take_echo(from, facts, data);
        }
        if self.base.remote.get().is_some_and(|remote| remote != from) {
            return;
        }
        facts.segment = if is_told(told::SEGMENT) { about.segment } else { 0 };
        self.take_in(Datagram { data: Rc::new(data), from, facts, drops: 0 });
    }

    /// There was no memory for a datagram.
    pub fn flow_lost(&self) {
        Count::UdpDropped.add(&self.base.net, 1);
    }

    /// Sending `data` to a peer, or receiving from it, failed.
    pub fn flow_failed(&self, peer: Endpoint, errno: Errno, data: Rc<Vec<u8>>) {
        if errno == Errno::ECONNREFUSED {
            return self.refused(peer, data);
        }
        if self.base.remote.get() == Some(peer) && !matches!(errno, Errno::ECANCELED | Errno::EBADF | Errno::ENOTCONN) {
            self.error.set(Some(errno));
            self.readable.wake_all();
        }
    }

    /// A datagram left.
    pub fn flow_has_room(&self) {
        if self.wants_room.get() && self.has_room() {
            self.wants_room.set(false);
            self.readable.wake_all();
        }
    }

    /// A program found nothing to receive.
    pub(super) fn missed(&self) {
        if !self.flows.borrow().is_empty() || self.publisher.borrow().is_some() {
            let publisher = self.publisher.borrow().clone();
            if let Some(publisher) = publisher {
                publisher.accept_more();
            }
            // The borrow ends here: what completes in between may add a flow.
            let flows = vfs::memory::list(self.flows.borrow().iter().cloned()).unwrap_or_default();
            look(flows.into_iter());
        }
    }

    /// The queue got room.
    pub(super) fn receive_more(&self) {
        if !self.flows.borrow().is_empty() {
            let flows = vfs::memory::list(self.flows.borrow().iter().cloned()).unwrap_or_default();
            flows.iter().for_each(|flow| flow.receive_more());
        }
    }

    /// Whether its ports are the host's.
    pub(super) fn is_host(&self) -> bool {
        self.kind == Kind::Udp && self.base.net.is_host()
    }

    /// Binds it to a port of the host. EINVAL, and what the host says.
    pub(super) fn bind_host(&self, to: Endpoint) -> Result<()> {
        let me = self.me.upgrade().ok_or(Errno::EINVAL)?;
        let (publisher, name) = Publisher::bind(&self.me, &self.base, to)?;
        // Another thread may have bound it while this one waited.
        if self.base.local.get().port != 0 {
            publisher.close();
            return Err(Errno::EINVAL);
        }
        self.base.bound_by_host(&me, self.ports(), to, name.port);
        publisher.accept_more();
        *self.publisher.borrow_mut() = Some(publisher);
        Ok(())
    }

    /// The socket is bound: asks whether its port is published.
    pub(super) fn publish(&self) {
        let local = self.base.local.get();
        let reachable = local.ip.is_unspecified() || is_own(local.ip);
        if self.base.net.device().is_none() || local.port == 0 || !reachable || self.kind != Kind::Udp {
            return;
        }
        let publisher = Publisher::open(&self.me, local);
        if let Some(publisher) = publisher {
            publisher.accept_more();
            let old = self.publisher.replace(Some(publisher));
            drop(old);
        }
    }
}
