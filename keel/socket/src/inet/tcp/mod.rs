//! TCP, tcp(7), between sockets of the pod, and through sockets of the host ([`Link`]).
//!
//! Within the pod there are no segments: a send copies directly into the receiver's queue, and FIN and RST take effect at the peer at
//! once. So the protocol states that wait for a segment in transit do not occur.

mod connect;
mod hold;
mod host;
mod info;
mod options;
mod outward;
mod protocol;
mod queue;
mod transfer;

use super::super::options::Options;
use super::Base;
use super::outward::Link;
use super::ports::Member;
use super::statistics::Count;
use alloc::rc::{Rc, Weak};
use core::cell::{Cell, RefCell};
use info::Counters;
pub use info::State;
use keel_core::pieces::Pieces;
use options::TcpOptions;
use queue::Bytes;
use sched::timer::Timer;
use sched::wait::WaitQueue;
use uapi::Errno;

/// `SO_SNDBUF` and `SO_RCVBUF` of new sockets (the middle of `net.ipv4.tcp_wmem` and `tcp_rmem`).
const SEND_BUFFER: u32 = 16384;
const RECEIVE_BUFFER: u32 = 131_072;
/// Linux's maximum of the receive buffer (`net.ipv4.tcp_rmem`).
const MAX_RECEIVE_BUFFER: i32 = 33_554_432;
/// Size to which Linux grows the send buffer of a loopback connection.
const GROWN_SEND_BUFFER: u32 = 2_626_560;

/// State of connect(2), as Linux's `socket_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Unconnected,
    Connecting,
    Connected,
}

/// Urgent byte, `MSG_OOB`.
#[derive(Clone, Copy, Debug)]
struct Urgent {
    /// Position in the stream.
    at: u64,
    byte: u8,
    /// Whether it was received.
    read: bool,
}

/// A TCP socket.
pub struct Tcp {
    me: Weak<Self>,
    base: Base,
    tcp: TcpOptions,
    state: Cell<State>,
    phase: Cell<Phase>,
    /// Shut down for reading, for writing (`sk_shutdown`).
    read_ended: Cell<bool>,
    write_ended: Cell<bool>,
    /// The peer ended its stream (`SOCK_DONE`).
    done: Cell<bool>,
    /// The last descriptor was closed.
    closed: Cell<bool>,
    error: Cell<Option<Errno>>,
    peer: RefCell<Weak<Tcp>>,
    /// The connection of the host in place of a peer, or a listener's of the host.
    link: RefCell<Option<Rc<Link>>>,
    /// The socket of the host that is bound for it, if it is not connected and does not listen.
    bound: Cell<Option<u64>>,
    /// Received data.
    inbox: Bytes,
    urgent: Cell<Option<Urgent>>,
    /// A sender found no room (`SOCK_NOSPACE`).
    wants_room: Cell<bool>,
    readable: Rc<WaitQueue>,
    writable: Rc<WaitQueue>,
    /// Connections to be accepted.
    backlog: RefCell<Pieces<Rc<Tcp>>>,
    max_backlog: Cell<usize>,
    /// Sockets that connect to this one while the backlog is full.
    pending: RefCell<Pieces<Weak<Tcp>>>,
    counters: Counters,
    /// Bytes at the end of the inbox that the peer holds back.
    held: Cell<usize>,
    /// Connections that wait for their first byte (TCP_DEFER_ACCEPT), and the listener of this one.
    deferred: RefCell<Pieces<Rc<Tcp>>>,
    deferred_by: RefCell<Weak<Tcp>>,
    timer: RefCell<Option<Rc<Timer>>>,
    /// `SO_PEEK_OFF`; negative: off.
    peek_offset: Cell<i32>,
    /// Arrival of the newest bytes, if the socket wanted to know then; 0: none.
    last_ns: Cell<u64>,
}

/// With the counts of its `Rc` it lies in the heap's objects of 1 KiB: the next size is twice that, for each connection.
const _: () = assert!(size_of::<Tcp>() + 2 * size_of::<usize>() <= 1024);

impl Member for Tcp {
    fn base(&self) -> &Base {
        &self.base
    }
    fn is_listening(&self) -> bool {
        self.state.get() == State::Listen
    }
}

impl Tcp {
    /// A new socket of `AF_INET` or `AF_INET6`.
    pub fn new(family: u32) -> Rc<Self> {
        let base = Base::new(family, true, Options::with_buffers(SEND_BUFFER, RECEIVE_BUFFER));
        Self::with(base, TcpOptions::default(), State::Close, Phase::Unconnected)
    }

    fn with(base: Base, tcp: TcpOptions, state: State, phase: Phase) -> Rc<Self> {
        let new = Self::new_cyclic(base, tcp, state, phase);
        if new.base.net.device().is_some() {
            new.readable.mark_outside();
            new.writable.mark_outside();
        }
        new
    }

    fn new_cyclic(base: Base, tcp: TcpOptions, state: State, phase: Phase) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            base,
            tcp,
            state: Cell::new(state),
            phase: Cell::new(phase),
            read_ended: Cell::new(false),
            write_ended: Cell::new(false),
            done: Cell::new(false),
            closed: Cell::new(false),
            error: Cell::new(None),
            peer: RefCell::default(),
            link: RefCell::default(),
            bound: Cell::default(),
            inbox: Bytes::default(),
            urgent: Cell::new(None),
            wants_room: Cell::new(false),
            readable: Rc::default(),
            writable: Rc::default(),
            backlog: RefCell::default(),
            max_backlog: Cell::new(0),
            pending: RefCell::default(),
            counters: Counters::default(),
            held: Cell::new(0),
            deferred: RefCell::default(),
            deferred_by: RefCell::default(),
            timer: RefCell::default(),
            peek_offset: Cell::new(-1),
            last_ns: Cell::new(0),
        })
    }

    /// State of the protocol.
    pub fn state(&self) -> State {
        self.state.get()
    }

    /// Common part.
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Connections that wait to be accepted, and how many may.
    pub fn backlog(&self) -> (usize, usize) {
        (self.backlog.borrow().len(), self.max_backlog.get())
    }

    /// Received bytes or connections, and bytes not sent yet.
    pub fn waiting(&self) -> (usize, usize) {
        match self.state.get() {
            State::Listen => (self.backlog().0, 0),
            _ => (self.available(), self.unacknowledged()),
        }
    }

    fn peer(&self) -> Option<Rc<Tcp>> {
        self.peer.borrow().upgrade()
    }

    fn wake_all(&self) {
        self.readable.wake_all();
        self.writable.wake_all();
    }

    /// Bytes that may be on their way to `peer`: both buffers.
    fn limit(&self, peer: &Tcp) -> usize {
        self.own_limit() + peer.window()
    }

    /// Bytes of the stream that the receive buffer holds: half of it, and at least `SO_RCVLOWAT`, for which Linux makes it larger.
    fn window(&self) -> usize {
        let options = &self.base.options;
        (options.receive_buffer.get() as usize / 2).max(options.low_water.get() as usize)
    }

    /// Maximum number of unsent bytes.
    fn own_limit(&self) -> usize {
        let options = &self.base.options;
        let send = if options.send_buffer_locked.get() { options.send_buffer.get() } else { GROWN_SEND_BUFFER };
        send as usize
    }

    /// poll(2) reports POLLOUT when a third of it is free.
    fn has_room(&self, peer: &Tcp) -> bool {
        peer.inbox.len() * 3 <= self.limit(peer) * 2
    }

    /// Ends the connection, as `tcp_done`. Received data stays.
    fn finish(&self) {
        self.state.set(State::Close);
        self.read_ended.set(true);
        self.write_ended.set(true);
        self.release_port();
        self.release_link();
        self.wake_all();
    }

    /// Releases a port that was chosen automatically. getsockname(2) still shows it.
    fn release_port(&self) {
        if !self.base.port_chosen.get() {
            self.base.net.tcp.leave(self);
            self.base.keep_port_as_name();
        }
    }

    /// The peer sent a reset.
    fn reset(&self) {
        let errno = match self.state.get() {
            State::Close => return,
            State::SynSent => Errno::ECONNREFUSED,
            State::CloseWait => Errno::EPIPE,
            _ => Errno::ECONNRESET,
        };
        if errno == Errno::ECONNREFUSED { Count::TcpAttemptFails } else { Count::TcpResets }.add(&self.base.net, 1);
        self.error.set(Some(errno));
        self.finish();
    }

    /// The peer ended its stream.
    fn ended(&self) {
        match self.state.get() {
            State::Established => self.state.set(State::CloseWait),
            State::FinWait2 => {
                self.base.net.tcp.ended(&self.base);
                self.finish();
            }
            _ => return,
        }
        self.done.set(true);
        self.read_ended.set(true);
        self.readable.wake_all();
        if self.state.get() == State::Close {
            self.writable.wake_all();
        }
        self.came_alive();
    }

    /// Ends the own stream, if that has not happened. A link's stream ends when the link does.
    fn end(&self) {
        self.push();
        match self.state.get() {
            State::Established => self.state.set(State::FinWait2),
            State::CloseWait => self.finish(),
            _ => return,
        }
        if let Some(peer) = self.peer() {
            peer.ended();
        }
    }

    /// Breaks the connection off.
    fn abort(&self) {
        if matches!(self.state.get(), State::Established | State::CloseWait | State::FinWait2)
            && let Some(peer) = self.peer()
        {
            peer.reset();
        }
        self.abort_link();
        self.finish();
    }

    /// The listener is closed.
    fn stop_listening(&self) {
        self.state.set(State::Close);
        self.release_port();
        self.release_link();
        for child in self.backlog.take().into_iter().chain(self.deferred.take()) {
            child.closed.set(true);
            child.abort();
            child.base.net.tcp.leave(&child);
        }
        for client in self.pending.take() {
            if let Some(client) = client.upgrade() {
                client.reset();
            }
        }
    }

    /// `disconnect`: resets the socket, except for explicitly bound names. A connection that it breaks off is a pending error.
    fn disconnect(&self) {
        match self.state.get() {
            State::Listen => self.stop_listening(),
            State::Close => self.abort(),
            _ => {
                self.abort();
                self.error.set(Some(Errno::ECONNRESET));
            }
        }
        self.held.set(0);
        self.inbox.clear();
        self.urgent.set(None);
        self.peer.take();
        self.read_ended.set(false);
        self.write_ended.set(false);
        self.done.set(false);
        self.phase.set(Phase::Unconnected);
        if self.base.unname() {
            self.release_bound();
            self.release_port();
        }
        self.wake_all();
    }

    fn is_connected(&self) -> bool {
        !matches!(self.state.get(), State::Close | State::Listen | State::SynSent)
    }
}
