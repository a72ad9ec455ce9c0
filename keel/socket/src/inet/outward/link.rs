//! The outward end of a TCP socket: a connection of the host, or its listeners.

use super::super::tcp::Tcp;
use super::super::{Endpoint, IPPROTO_TCP};
use super::drain::{self, count_busy};
use super::outbox::Outbox;
use super::room::{Rest, Room, Size};
use super::settle::{self, Under};
use super::{Names, close, endpoint, forget_number, is_host, name, next_number, payload, pump_after_pause};
use abi::request::{
    Nop, Outgoing, Received, SocketAccept, SocketConnect, SocketGetOption, SocketHalf, SocketListen, SocketName,
    SocketReceive, SocketSend, SocketSetOption, SocketShutdown, Transport,
};
use abi::ring::Segment;
use alloc::boxed::Box;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use hal::frame::{FRAME_SIZE, Frame};
use sched::connector;
use sched::posted::{Pump, hold, missed, pump_later, tell_if_awaited, tell_soon};
use sched::timer::Timer;
use uapi::raw::net::TCP_INFO;
use uapi::{Errno, Result};
use vfs::Src;

/// Place of `tcpi_bytes_acked` in `struct tcp_info`.
const ARRIVED: usize = 120;
/// Most requests of a listener that accept at a time: so many connections that arrive together take one trip.
const MAX_ACCEPTS: usize = 16;
/// Most requests that send at a time: the monitor refuses too many.
const MOST_SENDS: usize = 16;
/// Places for names of peers in a page, a power of two.
const PEERS: usize = 64;
const _: () = assert!(PEERS >= MAX_ACCEPTS && PEERS * 2 * size_of::<SocketName>() <= FRAME_SIZE);

/// Where a link is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Connecting.
    Opening,
    /// Connected.
    Open,
    /// Accepts connections.
    Listening,
    /// The socket of the host is closed.
    Closed,
}

/// How a link ends after its last byte was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// Not at all.
    Not,
    /// The own stream ends.
    Stream,
    /// The socket of the host is closed.
    Socket,
}

/// A connection of the host, or its listeners.
pub struct Link {
    me: Weak<Self>,
    tcp: Weak<Tcp>,
    number: u64,
    phase: Cell<Phase>,
    end: Cell<End>,
    /// The end of the own stream was requested.
    ended: Cell<bool>,
    outbox: Outbox,
    /// Bytes of the requests that send, and how many these are.
    sending: Cell<usize>,
    sends: Cell<usize>,
    /// It is among those that hold something back.
    holds: Cell<bool>,
    /// It counts as busy.
    busy: Cell<bool>,
    /// Bytes that the peer is known to have taken.
    arrived: Cell<u64>,
    /// A request receives.
    receiving: Cell<bool>,
    /// Requests that accept.
    accepting: Cell<usize>,
    /// Connections stay at the host until a program accepts them: its backlog holds one alone.
    lazy: Cell<bool>,
    /// Then: one waits there.
    waits: Cell<bool>,
    /// Where they write names of peers, and how many used it before.
    peers: RefCell<Option<(Frame, usize)>>,
    /// The peer's stream has ended.
    finished: Cell<bool>,
    /// Nothing more can come, not even an error.
    over: Cell<bool>,
    /// The program reads no more, and sends no more.
    unread: Cell<bool>,
    /// Room of the next request that receives.
    room: Cell<Size>,
    /// Where it begins.
    rest: RefCell<Option<Rest>>,
    timer: RefCell<Option<Rc<Timer>>>,
}

impl Link {
    /// Most connections that a listener accepts ahead of the program, in a pod with the host's network.
    pub const MOST_AHEAD: usize = MAX_ACCEPTS;

    fn new(tcp: &Weak<Tcp>, phase: Phase, number: u64) -> Rc<Self> {
        let link = Rc::new_cyclic(|me| Self {
            me: me.clone(),
            tcp: tcp.clone(),
            number,
            phase: Cell::new(phase),
            end: Cell::new(End::Not),
            ended: Cell::new(false),
            outbox: Outbox::default(),
            sending: Cell::new(0),
            sends: Cell::new(0),
            holds: Cell::new(false),
            busy: Cell::new(false),
            arrived: Cell::new(0),
            receiving: Cell::new(false),
            accepting: Cell::new(0),
            lazy: Cell::new(false),
            waits: Cell::new(false),
            peers: RefCell::default(),
            finished: Cell::new(false),
            over: Cell::new(false),
            unread: Cell::new(false),
            room: Cell::new(Size::PAGE),
            rest: RefCell::default(),
            timer: RefCell::default(),
        });
        drain::register(number, Rc::downgrade(&link));
        link
    }

    /// Connects to a peer, with the socket of this number if it is bound. The outcome comes to [`Tcp::link_opened`].
    pub fn connect(tcp: &Weak<Tcp>, bound: Option<u64>, local: Endpoint, peer: Endpoint) -> Rc<Self> {
        let link = Self::new(tcp, Phase::Opening, bound.unwrap_or_else(next_number));
        let names: Names<2> = Box::new([name(local), name(peer)]);
        let mut called: Names<1> = Box::default();
        let input = payload(&names[..]);
        let output = Vec::from([Segment {
            gpa: hal::ring::gpa_of_mut(bytemuck::cast_slice_mut(&mut called[..])),
            len: size_of::<SocketName>() as u64,
        }]);
        let own = link.clone();
        let connect = SocketConnect { socket: link.number, transport: Transport::Tcp };
        connector::send(connect, input, output, move |outcome| {
            drop(names);
            own.opened(outcome, endpoint(&called[0]));
        });
        tell_soon();
        link
    }

    /// Asks for the host's listeners of a port, or lets the socket of this number listen. `None`: there are none. EADDRINUSE, EACCES: the
    /// host's port can't be had.
    pub fn listen(tcp: &Weak<Tcp>, bound: Option<u64>, local: Endpoint, backlog: usize) -> Result<Option<Rc<Self>>> {
        let link = Self::new(tcp, Phase::Closed, bound.unwrap_or_else(next_number));
        // In a pod with the host's network the connections that are accepted ahead count, too.
        let ahead = if is_host() { Self::MOST_AHEAD } else { 0 };
        let rest = u32::try_from(backlog.saturating_sub(ahead)).unwrap_or(u32::MAX);
        let listen = SocketListen { socket: link.number, transport: Transport::Tcp, backlog: rest };
        match connector::call(listen, &[name(local)], &mut ()) {
            Ok(0) => {
                forget_number();
                Ok(None)
            }
            Ok(_) => {
                link.lazy.set(is_host() && backlog == 0);
                link.phase.set(Phase::Listening);
                Ok(Some(link))
            }
            Err(errno) => {
                close(link.number, false);
                match errno {
                    Errno::EADDRINUSE | Errno::EACCES => Err(errno),
                    _ if bound.is_some() => Err(errno),
                    // Nobody outside reaches it.
                    _ => Ok(None),
                }
            }
        }
    }

    /// `name`: the own name, in a pod with the host's network.
    fn opened(&self, outcome: Result<()>, name: Endpoint) {
        if self.phase.get() != Phase::Opening {
            return;
        }
        match outcome {
            Ok(()) => self.phase.set(Phase::Open),
            Err(_) => {
                self.phase.set(Phase::Closed);
                close(self.number, false);
            }
        }
        if let Some(tcp) = self.tcp.upgrade() {
            tcp.link_opened(outcome, name);
            // The listener has a connection.
            tcp.note_inside(Under::Data);
        }
        self.later();
    }

    /// Posts requests after the completions that are being consumed.
    fn later(&self) {
        if let Some(me) = self.me.upgrade() {
            pump_later(me);
        }
    }

    /// Bytes that the host has not taken yet.
    pub fn unsent(&self) -> usize {
        self.outbox.len() + self.sending.get()
    }

    /// Queues bytes to send; they leave at the next [`Pump::pump`].
    pub fn add(&self, src: &mut dyn Src, limit: usize) -> Result<usize> {
        self.note_inside(Under::Data);
        self.outbox.add(src, limit)
    }

    /// The last of the queued bytes is urgent.
    pub fn mark_urgent(&self) {
        self.outbox.mark();
        self.pump();
        // What follows leaves later.
        self.let_go();
    }

    /// The own stream ends after what is queued.
    pub fn end_stream(&self) {
        self.note_inside(Under::End);
        self.end.set(self.end.get().max(End::Stream));
        self.pump();
    }

    /// Neither half is used any more: what comes breaks the connection.
    pub fn end_both(&self) {
        self.unread.set(true);
        if self.ended.get() && self.phase.get() == Phase::Open {
            self.post_shutdown(SocketHalf::Receive);
        }
    }

    /// Whether the program has given up both halves: the host then reports an end of the peer's stream that is the own doing.
    pub fn is_given_up(&self) -> bool {
        self.unread.get() && self.end.get() != End::Not && self.phase.get() == Phase::Open
    }

    fn post_shutdown(&self, half: SocketHalf) {
        let shutdown = SocketShutdown { socket: self.number, half };
        connector::send(shutdown, Vec::new(), Vec::new(), |_| {});
        tell_soon();
    }

    /// The socket of the host is closed after what is queued.
    pub fn release(&self) {
        self.note_inside(Under::End);
        self.end.set(End::Socket);
        // As on Linux, a connection that is not made yet is given up.
        if matches!(self.phase.get(), Phase::Listening | Phase::Opening) {
            return self.shut(false);
        }
        self.pump();
    }

    /// Breaks the connection off. What is queued is lost.
    pub fn abort(&self) {
        self.outbox.clear();
        self.shut(true);
    }

    /// What leaves leads to another socket of the pod.
    fn note_inside(&self, what: Under) {
        if let Some(tcp) = self.tcp.upgrade() {
            tcp.note_inside(what);
        }
    }

    fn shut(&self, abort: bool) {
        self.note_inside(Under::End);
        if self.phase.replace(Phase::Closed) != Phase::Closed {
            close(self.number, abort);
        }
        let timer = self.timer.take();
        if let Some(timer) = timer {
            timer.cancel();
        }
        self.update_busy();
    }

    fn update_busy(&self) {
        let busy = self.phase.get() != Phase::Closed && (self.unsent() > 0 || self.end.get() == End::Socket);
        if self.busy.replace(busy) != busy {
            count_busy(busy);
        }
    }

    /// Whether something is on its way to the host.
    pub fn is_busy(&self) -> bool {
        self.busy.get()
    }

    /// Asks how much the peer has taken; more than before is progress of [`drain`].
    pub fn ask_arrived(&self) {
        let Some(own) = self.me.upgrade().filter(|_| self.phase.get() == Phase::Open) else { return };
        let mut info = Box::new([0; ARRIVED + size_of::<u64>()]);
        let output = Vec::from([Segment { gpa: hal::ring::gpa_of_mut(&mut info[..]), len: info.len() as u64 }]);
        let get = SocketGetOption { socket: self.number, level: IPPROTO_TCP, name: TCP_INFO };
        connector::send(get, Vec::new(), output, move |outcome| {
            let arrived = info.last_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            if outcome.is_ok() && arrived > own.arrived.replace(arrived) {
                drain::note_progress();
            }
        });
    }

    /// A program found nothing to receive.
    pub fn missed(&self) {
        self.receive_more();
        missed();
    }

    /// Receives more, if there is room for it.
    pub fn receive_more(&self) {
        match self.phase.get() {
            Phase::Open if self.receiving.get() || self.over.get() => {}
            Phase::Open if self.finished.get() => self.await_break(),
            Phase::Open => self.post_receive(),
            Phase::Listening if self.lazy.get() => self.ask_waiting(),
            Phase::Listening => self.post_accepts(),
            _ => {}
        }
    }

    fn post_receive(&self) {
        let Some(tcp) = self.tcp.upgrade().filter(|tcp| tcp.wants_bytes()) else { return };
        let Some(room) = Room::new(self.room.get(), self.rest.take()) else { return self.pause() };
        let Some(own) = self.me.upgrade() else { return };
        self.receiving.set(true);
        let list = room.segments();
        let done = move |outcome| own.received(room, outcome);
        connector::send(SocketReceive { socket: self.number }, Vec::new(), list, done);
        if tcp.is_waited_for() {
            tell_if_awaited();
        }
    }

    /// After the end of the peer's stream: waits for the connection to break.
    fn await_break(&self) {
        let Some(own) = self.me.upgrade() else { return };
        self.receiving.set(true);
        connector::send(SocketReceive { socket: self.number }, Vec::new(), Vec::new(), move |outcome| {
            own.receiving.set(false);
            own.over.set(true);
            match (outcome, own.tcp.upgrade(), own.phase.get()) {
                (Err(errno), Some(tcp), Phase::Open) => tcp.link_failed(errno),
                (Ok(_), Some(tcp), Phase::Open) if !own.is_given_up() => tcp.link_over(),
                _ => {}
            }
        });
    }

    /// Bytes arrived in this room.
    fn received(&self, room: Room, outcome: Result<Received>) {
        self.receiving.set(false);
        let Some(tcp) = self.tcp.upgrade() else { return };
        if self.phase.get() != Phase::Open {
            return;
        }
        match outcome {
            Ok(Received { bytes: 0, .. }) => {
                self.finished.set(true);
                if !self.is_given_up() {
                    tcp.link_finished();
                }
                tcp.note_more();
            }
            Ok(Received { bytes, urgent, more }) => {
                if more {
                    tcp.note_more();
                }
                let mut urgent = urgent;
                let (rest, next) = room.fill(bytes, self.room.get(), |piece| {
                    tcp.link_received(piece, core::mem::take(&mut urgent));
                });
                self.room.set(next);
                *self.rest.borrow_mut() = rest;
                tcp.link_has_more();
            }
            Err(errno) => {
                self.finished.set(true);
                self.over.set(true);
                tcp.link_failed(errno);
            }
        }
        self.later();
    }

    /// Asks for as many connections as the backlog has room for: those that come together are accepted in one trip.
    fn post_accepts(&self) {
        let Some(tcp) = self.tcp.upgrade() else { return };
        let most = tcp.connections_wanted().min(MAX_ACCEPTS);
        let any = self.accepting.get() < most;
        while self.accepting.get() < most {
            if !self.post_accept() {
                return self.pause();
            }
        }
        if any && tcp.is_waited_for() {
            tell_if_awaited();
        }
    }

    /// Returns false if there is no memory for that.
    fn post_accept(&self) -> bool {
        let (Some((page, at)), Some(own)) = (self.place_for_peer(), self.me.upgrade()) else { return false };
        let number = next_number();
        // In a pod with the host's network also for the own name.
        let names = if is_host() { 2 } else { 1 };
        let len = (names * size_of::<SocketName>()) as u64;
        let output = Vec::from([Segment { gpa: page.gpa() + at as u64, len }]);
        self.accepting.set(self.accepting.get() + 1);
        let accept = SocketAccept { socket: self.number, accepted: number };
        connector::send(accept, Vec::new(), output, move |outcome| own.accepted(number, (&page, at), outcome));
        true
    }

    /// Asks whether a connection waits at the host.
    fn ask_waiting(&self) {
        let (Some(own), Some(tcp)) = (self.me.upgrade(), self.tcp.upgrade()) else { return };
        if self.waits.get() || self.accepting.get() > 0 {
            return;
        }
        self.accepting.set(1);
        let ask = SocketAccept { socket: self.number, accepted: 0 };
        connector::send(ask, Vec::new(), Vec::new(), move |outcome| {
            own.accepting.set(0);
            let listener = own.tcp.upgrade().filter(|_| outcome.is_ok() && own.phase.get() == Phase::Listening);
            if let Some(listener) = listener {
                own.waits.set(true);
                listener.link_waits();
            }
        });
        if tcp.is_waited_for() {
            tell_if_awaited();
        }
    }

    /// Whether a connection waits at the host that is accepted when a program wants it.
    pub fn has_waiting(&self) -> bool {
        self.waits.get()
    }

    /// Accepts that connection. Other threads run meanwhile.
    pub fn accept_waiting(&self) {
        if self.phase.get() != Phase::Listening || !self.waits.replace(false) {
            return;
        }
        if !self.post_accept() {
            return self.pause();
        }
        // If the connection is gone, the request accepts the next one.
        settle::note(Under::Data);
        settle::settle(Under::Data);
    }

    /// Where in a page the next name of a peer goes. Places are used again in turn: there are more than [`MAX_ACCEPTS`], and the requests
    /// of a listener complete in order.
    fn place_for_peer(&self) -> Option<(Frame, usize)> {
        let mut peers = self.peers.borrow_mut();
        let (page, used) = match peers.take() {
            Some(peers) => peers,
            None => (Frame::alloc()?, 0),
        };
        let at = used % PEERS * 2 * size_of::<SocketName>();
        *peers = Some((page.clone(), used.wrapping_add(1)));
        Some((page, at))
    }

    /// A connection with this number; the peer's name is in the page at this offset.
    fn accepted(&self, number: u64, (page, at): (&Frame, usize), outcome: Result<()>) {
        self.accepting.set(self.accepting.get().saturating_sub(1));
        let listener = self.tcp.upgrade().filter(|_| self.phase.get() == Phase::Listening);
        match (outcome, listener) {
            (Ok(()), Some(listener)) => {
                let mut names = [SocketName::default(); 2];
                page.read(at, bytemuck::cast_slice_mut(&mut names));
                let [peer, own] = names;
                let own = (listener.base().net.is_host() && own.port != 0).then(|| endpoint(&own));
                let make = |tcp: &Weak<Tcp>| Self::new(tcp, Phase::Open, number);
                let link = listener.take_in_from_outside(endpoint(&peer), own, make);
                link.room.set(Size::PART);
                link.later();
                self.later();
            }
            (Ok(()), None) => close(number, true),
            (Err(_), listener) => {
                forget_number();
                if listener.is_some() {
                    self.pause();
                }
            }
        }
    }

    /// Tries again a little later.
    fn pause(&self) {
        let old = self.timer.replace(Some(pump_after_pause(self.me.clone())));
        drop(old);
    }

    /// Posts what is queued: at once if nothing is under way, otherwise when that is done, or no thread can run.
    fn send_more(&self) {
        if self.phase.get() != Phase::Open {
            return;
        }
        if self.sending.get() > 0 {
            let waits = self.outbox.len() > 0 || self.end.get() != End::Not;
            if waits
                && !self.holds.replace(true)
                && let Some(me) = self.me.upgrade()
            {
                hold(me);
            }
            return;
        }
        if self.post_send(self.end.get() == End::Not) {
            return;
        }
        match self.end.get() {
            End::Socket => self.shut(false),
            End::Stream if !self.ended.replace(true) => {
                self.post_shutdown(if self.unread.get() { SocketHalf::Both } else { SocketHalf::Send });
            }
            _ => {}
        }
    }

    /// Posts what is queued. `quiet`: nothing follows soon. Returns whether there was something.
    fn post_send(&self, quiet: bool) -> bool {
        let (pages, list, urgent) = self.outbox.take();
        let Some(own) = self.me.upgrade().filter(|_| !pages.is_empty()) else { return false };
        let bytes: usize = list.iter().map(|segment| segment.len as usize).sum();
        self.sending.set(self.sending.get() + bytes);
        self.sends.set(self.sends.get() + 1);
        let small = || self.tcp.upgrade().is_some_and(|tcp| self.sending.get() <= tcp.limit_outward() / 3);
        let quiet = quiet && self.outbox.len() == 0 && small();
        connector::send(
            SocketSend { socket: self.number, quiet, urgent, outgoing: Outgoing::default() },
            list,
            Vec::new(),
            move |outcome| {
                drop(pages);
                own.sent(bytes, outcome);
            },
        );
        tell_soon();
        true
    }

    fn sent(&self, bytes: usize, outcome: Result<u64>) {
        self.sends.set(self.sends.get().saturating_sub(1));
        self.sending.set(self.sending.get().saturating_sub(bytes));
        if let (Some(tcp), Phase::Open) = (self.tcp.upgrade(), self.phase.get()) {
            match outcome {
                Ok(_) => tcp.link_has_room(),
                Err(errno) => {
                    self.outbox.clear();
                    tcp.link_failed(errno);
                }
            }
        } else if outcome.is_err() {
            self.outbox.clear();
        }
        self.later();
    }

    /// Sets an option of the host's socket.
    pub fn set_option(&self, level: u32, name: u32, value: &[u8]) -> Result<()> {
        if !matches!(self.phase.get(), Phase::Open | Phase::Listening) {
            return Err(Errno::ENOTCONN);
        }
        connector::call(SocketSetOption { socket: self.number, level, name }, value, &mut ())
    }

    /// The same, without waiting for the outcome.
    pub fn post_option(&self, level: u32, name: u32, value: i32) {
        let value = Box::new(value.to_ne_bytes());
        let input = Vec::from([Segment { gpa: hal::ring::gpa_of(&value[..]), len: value.len() as u64 }]);
        let set = SocketSetOption { socket: self.number, level, name };
        connector::send(set, input, Vec::new(), move |_| drop(value));
        tell_soon();
    }

    /// Reads an option of the host's socket; how many bytes.
    pub fn option(&self, level: u32, name: u32, value: &mut [u8]) -> Result<usize> {
        if self.phase.get() != Phase::Open {
            return Err(Errno::ENOTCONN);
        }
        connector::call(SocketGetOption { socket: self.number, level, name }, &(), value).map(|len| len as usize)
    }
}

impl Pump for Link {
    fn pump(&self) {
        self.send_more();
        self.receive_more();
        self.update_busy();
    }

    fn let_go(&self) {
        self.holds.set(false);
        if self.phase.get() == Phase::Open
            && self.sending.get() > 0
            // Otherwise some of those under way are not quiet.
            && self.sends.get() < MOST_SENDS
            && !self.post_send(false)
            && self.end.get() != End::Not
            && let Some(me) = self.me.upgrade()
        {
            // What is under way may be quiet.
            connector::send(Nop { after_files: false }, Vec::new(), Vec::new(), move |_| me.later());
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        drain::forget(self.number);
    }
}

impl core::fmt::Debug for Link {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Link").field("number", &self.number).field("phase", &self.phase).finish_non_exhaustive()
    }
}
