//! The outward ends of a UDP socket: a connected socket of the host for each peer, and what the host publishes.

use super::super::Base;
use super::super::Endpoint;
use super::super::udp::Udp;
use super::{bind, close, endpoint, forget_number, name, next_number, pump_after_pause};
use abi::request::{
    DatagramFacts, DatagramRecord, Outgoing, Received, SocketAccept, SocketConnect, SocketListen, SocketName,
    SocketReceive, SocketSend, SocketTell, Transport,
};
use abi::ring::Segment;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::net::IpAddr;
use hal::frame::{FRAME_SIZE, Frame};
use sched::connector;
use sched::posted::{Pump, missed, pump_later, tell_if_awaited, tell_soon};
use sched::timer::Timer;
use uapi::{Errno, Result};

/// Pages that hold a record of any size.
const MAX_PAGES: usize =
    (abi::request::MAX_DATAGRAM + size_of::<DatagramRecord>() + size_of::<DatagramFacts>()).div_ceil(FRAME_SIZE) + 1;

/// Datagrams to a peer that has not answered, of which each is first told whether the one before was refused.
const MOST_UNHEARD: u8 = 8;

/// What both kinds of ends share: one request at a time that waits for something from outside.
struct Port {
    number: u64,
    closed: Cell<bool>,
    /// A request receives, or accepts.
    receiving: Cell<bool>,
    timer: RefCell<Option<Rc<Timer>>>,
}

impl Port {
    fn new(number: u64) -> Self {
        Self { number, closed: Cell::new(false), receiving: Cell::new(false), timer: RefCell::default() }
    }

    fn close(&self) {
        if !self.closed.replace(true) {
            close(self.number, false);
        }
        let timer = self.timer.take();
        if let Some(timer) = timer {
            timer.cancel();
        }
    }

    fn may_post(&self) -> bool {
        !self.closed.get() && !self.receiving.get()
    }

    /// Calls `pump` a little later.
    fn pause(&self, pump: Weak<dyn Pump>) {
        let old = self.timer.replace(Some(pump_after_pause(pump)));
        drop(old);
    }
}

/// A peer of a UDP socket.
pub struct Flow {
    me: Weak<Self>,
    udp: Weak<Udp>,
    /// The peer.
    pub peer: Endpoint,
    /// The own name, if the host told it.
    pub local: Option<Endpoint>,
    /// The address of the host that it sends from, if the program chose it for a datagram.
    pub source: Option<IpAddr>,
    port: Port,
    /// What the host tells of received datagrams, [`abi::request::tell`].
    told: Cell<u32>,
    /// Datagrams that were sent before the peer sent one, as far as counted.
    unheard: Cell<u8>,
    /// The last of these, for its report (`IP_RECVERR`).
    last: RefCell<Rc<Vec<u8>>>,
    /// The peer is a socket of the pod.
    inside: Cell<bool>,
    /// Bytes on their way to the host.
    sending: Cell<usize>,
    /// Pages of the next request that receives.
    pages: Cell<usize>,
}

impl Flow {
    fn new(udp: &Weak<Udp>, peer: Endpoint, local: Option<Endpoint>, source: Option<IpAddr>, number: u64) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            udp: udp.clone(),
            peer,
            local,
            source,
            port: Port::new(number),
            told: Cell::new(0),
            unheard: Cell::new(0),
            inside: Cell::new(false),
            last: RefCell::default(),
            sending: Cell::new(0),
            pages: Cell::new(1),
        })
    }

    /// Gets a socket of the host; waits for that. Errors of connect(2).
    pub fn open(udp: &Weak<Udp>, local: Endpoint, source: Option<IpAddr>, peer: Endpoint) -> Result<Rc<Self>> {
        let transport = udp.upgrade().map_or(Transport::Udp, |udp| udp.transport());
        let number = next_number();
        let mut called = [SocketName::default()];
        let connect = SocketConnect { socket: number, transport };
        if let Err(errno) = connector::call(connect, &[name(local), name(peer)], &mut called) {
            close(number, false);
            return Err(errno);
        }
        let local = called.first().filter(|name| name.port != 0).map(endpoint);
        Ok(Self::new(udp, peer, local, source, number))
    }

    /// Bytes on their way to the host.
    pub fn sending(&self) -> usize {
        self.sending.get()
    }

    /// Whether it is not known if there is a peer: it has sent nothing yet, and this is one of the first datagrams to it.
    pub fn is_unheard(&self) -> bool {
        self.unheard.get() < MOST_UNHEARD
    }

    /// The peer is a socket of the pod, or not any more.
    pub fn set_inside(&self, inside: bool) {
        if self.inside.replace(inside) && !inside {
            self.unheard.set(0);
        }
    }

    /// Closes it. What was sent still leaves.
    pub fn close(&self) {
        self.port.close();
    }

    /// Sends a datagram; does not wait.
    pub fn send(&self, data: Rc<Vec<u8>>, outgoing: Outgoing) {
        let before = if self.is_unheard() { self.last.replace(data.clone()) } else { Rc::default() };
        self.unheard.set(self.unheard.get().saturating_add(1));
        self.post_send(data, outgoing, Some(before));
        tell_soon();
    }

    /// `before`: the datagram that an error is about, unless this one is sent again.
    fn post_send(&self, data: Rc<Vec<u8>>, outgoing: Outgoing, before: Option<Rc<Vec<u8>>>) {
        let Some(own) = self.me.upgrade() else { return };
        let segment =
            Segment { gpa: if data.is_empty() { 0 } else { hal::ring::gpa_of(&data) }, len: data.len() as u64 };
        let input = if data.is_empty() { Vec::new() } else { Vec::from([segment]) };
        let charge = data.len() + FRAME_SIZE / 8;
        self.sending.set(self.sending.get() + charge);
        // A sender that waits for room is told of the last ones.
        let quiet = self.udp.upgrade().is_some_and(|udp| udp.has_much_room());
        connector::send(
            SocketSend { socket: self.port.number, quiet, urgent: false, outgoing },
            input,
            Vec::new(),
            move |outcome| {
                own.sending.set(own.sending.get().saturating_sub(charge));
                own.sent((data, outgoing), outcome, before);
            },
        );
    }

    /// The policy does not allow the peer any more: what is sent next asks for it anew.
    fn end_if_aborted(&self, udp: &Udp, errno: Errno) {
        if errno == Errno::ECONNABORTED {
            udp.drop_flow(self);
            self.port.close();
        }
    }

    fn sent(&self, (data, outgoing): (Rc<Vec<u8>>, Outgoing), outcome: Result<u64>, before: Option<Rc<Vec<u8>>>) {
        let Some(udp) = self.udp.upgrade() else { return };
        if let Err(errno) = outcome {
            let again = before.is_none();
            udp.flow_failed(self.peer, errno, before.unwrap_or_default());
            self.end_if_aborted(&udp, errno);
            // The error was an earlier datagram's, and this one was not sent.
            if errno == Errno::ECONNREFUSED && !again && !self.port.closed.get() {
                self.post_send(data, outgoing, None);
            }
        }
        udp.flow_has_room();
    }

    /// Has the host tell this of received datagrams.
    pub fn update_told(&self, what: u32) {
        if self.port.closed.get() || self.told.replace(what) == what {
            return;
        }
        // An error leaves what is told unknown.
        connector::send(SocketTell { socket: self.port.number, what }, Vec::new(), Vec::new(), |_| {});
        tell_soon();
    }

    /// Receives more, if the socket has room for it.
    pub fn receive_more(&self) {
        if !self.port.may_post() {
            return;
        }
        let Some(udp) = self.udp.upgrade().filter(|udp| udp.wants_datagrams()) else { return };
        let Some(own) = self.me.upgrade() else { return };
        self.update_told(udp.told());
        let mut pages: Vec<Frame> = Vec::with_capacity(self.pages.get());
        while pages.len() < self.pages.get() {
            let Some(page) = Frame::alloc() else { return self.pause() };
            pages.push(page);
        }
        let list = pages.iter().map(|page| Segment { gpa: page.gpa(), len: FRAME_SIZE as u64 }).collect();
        self.port.receiving.set(true);
        let done = move |outcome| own.received(&pages, outcome);
        connector::send(SocketReceive { socket: self.port.number }, Vec::new(), list, done);
        if udp.is_waited_for() {
            tell_if_awaited();
        }
    }

    fn pause(&self) {
        let me: Weak<Self> = self.me.clone();
        self.port.pause(me);
    }

    fn received(&self, pages: &[Frame], outcome: Result<Received>) {
        self.port.receiving.set(false);
        let Some(udp) = self.udp.upgrade() else { return };
        if self.port.closed.get() {
            return;
        }
        match outcome {
            Ok(Received { bytes, more, .. }) => {
                let room = pages.len() * FRAME_SIZE;
                let end = (bytes as usize).min(room);
                self.deliver(&udp, pages, end);
                // If a filter drops all that arrived, the next datagram may have arrived at the host since.
                if more || !udp.has_datagram() {
                    udp.note_inside(self.peer);
                }
                if end > room / 4 * 3 {
                    self.pages.set((pages.len() * 2).min(MAX_PAGES));
                } else if end < room / 4 {
                    self.pages.set((pages.len() / 2).max(1));
                }
            }
            Err(Errno::ENOBUFS) => {
                self.pages.set(MAX_PAGES);
                udp.note_inside(self.peer);
            }
            Err(Errno::ECANCELED | Errno::ENOTCONN | Errno::EBADF | Errno::EBUSY) => return self.port.close(),
            Err(errno) => {
                udp.flow_failed(self.peer, errno, self.last.take());
                self.end_if_aborted(&udp, errno);
            }
        }
        if let Some(me) = self.me.upgrade() {
            pump_later(me);
        }
    }

    /// Passes the records in the pages to the socket.
    fn deliver(&self, udp: &Udp, pages: &[Frame], end: usize) {
        const HEAD: usize = size_of::<DatagramRecord>();
        let mut at = 0;
        while at + HEAD <= end {
            let mut head = DatagramRecord::default();
            copy(pages, at, bytemuck::bytes_of_mut(&mut head));
            let len = head.len as usize;
            at += HEAD;
            let mut facts = DatagramFacts::default();
            if head.told != 0 {
                copy(pages, at, bytemuck::bytes_of_mut(&mut facts));
                at += size_of::<DatagramFacts>();
            }
            if at > end || len > end - at {
                return;
            }
            match vfs::memory::buffer(len) {
                Ok(mut data) => {
                    copy(pages, at, &mut data);
                    self.unheard.set(MOST_UNHEARD);
                    drop(self.last.take());
                    udp.flow_received(self.peer, data, head.told, &facts);
                }
                Err(_) => udp.flow_lost(),
            }
            at += len.next_multiple_of(HEAD);
        }
    }
}

/// Copies out of consecutive pages. Stops at their end.
fn copy(pages: &[Frame], at: usize, to: &mut [u8]) {
    let mut done = 0;
    while done < to.len() {
        let from = at + done;
        let Some(page) = pages.get(from / FRAME_SIZE) else { return };
        let len = (FRAME_SIZE - from % FRAME_SIZE).min(to.len() - done);
        page.read(from % FRAME_SIZE, &mut to[done..done + len]);
        done += len;
    }
}

impl Pump for Flow {
    fn pump(&self) {
        self.receive_more();
    }
}

/// A bound UDP port that others than the pod may reach: gets a [`Flow`] for each of them.
pub struct Publisher {
    me: Weak<Self>,
    udp: Weak<Udp>,
    port: Port,
}

impl Publisher {
    /// Asks whether the port is published. `None`: it is not.
    pub fn open(udp: &Weak<Udp>, local: Endpoint) -> Option<Rc<Self>> {
        let publisher =
            Rc::new_cyclic(|me: &Weak<Self>| Self { me: me.clone(), udp: udp.clone(), port: Port::new(next_number()) });
        let listen = SocketListen { socket: publisher.port.number, transport: Transport::Udp, backlog: 0 };
        match connector::call(listen, &[name(local)], &mut ()) {
            Ok(0) => {
                forget_number();
                None
            }
            Ok(_) => Some(publisher),
            Err(_) => {
                publisher.port.close();
                None
            }
        }
    }

    /// Binds a socket of the host, in a pod with the host's network; also returns its name. Errors of bind(2).
    pub fn bind(udp: &Weak<Udp>, base: &Base, to: Endpoint) -> Result<(Rc<Self>, Endpoint)> {
        let (number, name) = bind(base, Transport::Udp, to)?;
        let publisher = |me: &Weak<Self>| Self { me: me.clone(), udp: udp.clone(), port: Port::new(number) };
        Ok((Rc::new_cyclic(publisher), name))
    }

    /// Closes it.
    pub fn close(&self) {
        self.port.close();
    }

    /// Accepts the next peer.
    pub fn accept_more(&self) {
        let (Some(own), true) = (self.me.upgrade(), self.port.may_post()) else { return };
        let Some(page) = Frame::alloc() else { return self.pause() };
        let number = next_number();
        // In a pod with the host's network also for the own name.
        let names = if super::is_host() { 2 } else { 1 };
        let output = Vec::from([Segment { gpa: page.gpa(), len: (names * size_of::<SocketName>()) as u64 }]);
        self.port.receiving.set(true);
        let accept = SocketAccept { socket: self.port.number, accepted: number };
        connector::send(accept, Vec::new(), output, move |outcome| own.accepted(number, &page, outcome));
        tell_if_awaited();
    }

    fn pause(&self) {
        let me: Weak<Self> = self.me.clone();
        self.port.pause(me);
    }

    fn accepted(&self, number: u64, page: &Frame, outcome: Result<()>) {
        self.port.receiving.set(false);
        let udp = self.udp.upgrade().filter(|_| !self.port.closed.get());
        match (outcome, udp) {
            (Ok(()), Some(udp)) => {
                let mut names = [SocketName::default(); 2];
                let read = if super::is_host() { &mut names[..] } else { &mut names[..1] };
                page.read(0, bytemuck::cast_slice_mut(read));
                let [peer, own] = names;
                let own = (own.port != 0).then(|| endpoint(&own));
                let flow = Flow::new(&self.udp, endpoint(&peer), own, None, number);
                udp.add_flow(flow.clone());
                udp.note_inside(flow.peer);
                pump_later(flow);
                if let Some(me) = self.me.upgrade() {
                    pump_later(me);
                }
            }
            (Ok(()), None) => close(number, false),
            (Err(errno), udp) => {
                forget_number();
                if udp.is_some() && errno != Errno::ECANCELED {
                    self.pause();
                }
            }
        }
    }
}

impl Pump for Publisher {
    fn pump(&self) {
        self.accept_more();
    }
}

/// A program found nothing to receive.
pub fn look(flows: impl Iterator<Item = Rc<Flow>>) {
    flows.for_each(|flow| flow.receive_more());
    missed();
}
