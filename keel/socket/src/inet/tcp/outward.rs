//! Connections of the host as the peers of sockets: what a [`Link`] does to its socket, and what a socket does with it.

use super::super::super::options::{Value, int};
use super::super::super::{broken, wait};
use super::super::Endpoint;
use super::super::outward::Link;
use super::super::outward::settle::{self, Under, settle};
use super::super::statistics::Count;
use super::transfer::end;
use super::{Phase, State, Tcp};
use alloc::rc::{Rc, Weak};
use hal::frame::Frame;
use keel_core::pipe_buf::Piece;
use sched::connector;
use sched::posted::Pump;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::Src;

/// Bytes that wait for the host, unless the program set `SO_SNDBUF`.
const SEND_QUEUE: usize = 512 << 10;
/// Bytes that are received ahead, unless it set `SO_RCVBUF`.
const RECEIVE_QUEUE: usize = 512 << 10;
/// Bytes that are queued before the monitor is told.
const CHUNK: usize = 128 << 10;
/// Most bytes of `struct tcp_info`.
const INFO: usize = 512;

impl Tcp {
    /// The connection of the host.
    pub(super) fn link(&self) -> Option<Rc<Link>> {
        self.link.borrow().clone()
    }

    /// Connects through the host. The outcome comes to [`Self::link_opened`].
    pub(super) fn connect_outward(&self, own: Endpoint, to: Endpoint) {
        let link = Link::connect(&self.me, self.bound.take(), own, to);
        let old = self.link.replace(Some(link));
        drop(old);
    }

    /// The connection was made, or failed. `name`: the own name, in a pod with the host's network.
    pub fn link_opened(&self, outcome: Result<()>, name: Endpoint) {
        if self.state.get() != State::SynSent {
            return;
        }
        match outcome {
            Ok(()) => {
                self.take_name(name);
                self.state.set(State::Established);
                self.tcp.connected();
                self.forward_all();
                self.wake_all();
            }
            Err(errno) => {
                if name.port != 0 {
                    self.take_name(name);
                }
                Count::TcpAttemptFails.add(&self.base.net, 1);
                self.error.set(Some(errno));
                self.finish();
            }
        }
    }

    /// Bytes arrived; the first of them is urgent if `urgent`.
    pub fn link_received(&self, piece: Piece<Frame>, urgent: bool) {
        self.arrived(piece.len);
        if self.closed.get() {
            return;
        }
        if urgent {
            let mut byte = [0];
            piece.page.read(piece.start, &mut byte);
            self.take_urgent(self.inbox.positions().1, byte[0]);
        }
        self.inbox.append(piece);
    }

    /// What leaves, if it leads to another socket of the pod, is at its place when a program looks for it.
    pub fn note_inside(&self, what: Under) {
        let Some(remote) = self.base.remote.get().filter(|_| self.base.net.is_host()) else { return };
        let is_near = remote.ip.is_loopback() || remote.ip == self.base.local.get().ip;
        // A peer that has ended its stream may be closed, and answers what is sent by a reset.
        if is_near && (self.done.get() || self.base.net.tcp.is_used(remote.port)) {
            settle::note(what);
        }
    }

    /// More has arrived than was received.
    pub fn note_more(&self) {
        if self.base.net.is_host() {
            settle::note(Under::Data);
        }
    }

    /// Wakes receivers after [`Self::link_received`].
    pub fn link_has_more(&self) {
        self.came_alive();
        self.readable.wake_for_data();
    }

    /// The peer's stream ended.
    pub fn link_finished(&self) {
        self.ended();
    }

    /// The connection ended without an error, after the peer's stream.
    pub fn link_over(&self) {
        if self.write_ended.get() && self.state.get() != State::Close {
            self.finish();
        }
    }

    /// Asks the host for the end of a connection that it reports no more: both halves were shut down here, and the peer's may have ended
    /// since. Other threads run meanwhile: hold no borrows.
    pub(super) fn look_for_end(&self) {
        if self.state.get() != State::FinWait2 {
            return;
        }
        let Some(link) = self.link().filter(|link| link.is_given_up()) else { return };
        // `struct tcp_info` begins with the state.
        let (mut info, mut error) = ([0; 8], [0; 4]);
        let told = link.option(super::super::IPPROTO_TCP, net::TCP_INFO, &mut info);
        if told.is_err() || info[0] != State::Close as u8 {
            return;
        }
        let known = link.option(net::SOL_SOCKET, net::SO_ERROR, &mut error).is_ok();
        match i32::from_ne_bytes(error) {
            code if known && code != 0 => self.link_failed(Errno::from_code(code.into())),
            _ => self.ended(),
        }
    }

    /// The connection broke.
    pub fn link_failed(&self, errno: Errno) {
        match (errno, self.state.get()) {
            (_, State::Close) => {}
            (Errno::ECONNRESET | Errno::EPIPE, _) => self.reset(),
            _ => {
                self.error.set(Some(errno));
                self.finish();
            }
        }
    }

    /// The host took bytes.
    pub fn link_has_room(&self) {
        if self.wants_room.get()
            && let Some(link) = self.link()
            && self.has_room_outward(&link)
        {
            self.wants_room.set(false);
            self.writable.wake_all();
        }
    }

    /// Whether more bytes may be received ahead.
    pub fn wants_bytes(&self) -> bool {
        let options = &self.base.options;
        let locked = options.receive_buffer_locked.get();
        let limit = if locked { self.window() } else { self.window().max(RECEIVE_QUEUE) };
        !self.closed.get() && self.inbox.len() < limit
    }

    /// Whether a thread or an epoll instance waits for what is received.
    pub fn is_waited_for(&self) -> bool {
        !self.readable.is_empty()
    }

    /// How many connections may be accepted ahead.
    pub fn connections_wanted(&self) -> usize {
        if self.state.get() != State::Listen {
            return 0;
        }
        let room = self.backlog_room();
        if !self.base.net.is_host() {
            return room;
        }
        // Those that wait here do not wait at the host, whose backlog is smaller by as many. One is needed to learn that there is one.
        let backlog = self.max_backlog.get();
        let waiting = (backlog + 1).saturating_sub(room);
        backlog.clamp(1, Link::MOST_AHEAD).saturating_sub(waiting)
    }

    /// A connection waits at the host.
    pub fn link_waits(&self) {
        self.readable.wake_for_data();
    }

    /// Whether one does.
    pub(super) fn has_waiting(&self) -> bool {
        self.link.borrow().as_ref().is_some_and(|link| link.has_waiting())
    }

    /// Accepts it. Other threads run meanwhile.
    pub(super) fn accept_waiting(&self) {
        if let Some(link) = self.link() {
            link.accept_waiting();
        }
    }

    /// Receives or accepts more ahead, if there is room.
    pub(super) fn receive_more(&self) {
        if let Some(link) = self.link() {
            link.receive_more();
        }
    }

    /// A program found nothing to receive or to accept.
    pub(super) fn missed(&self) {
        if let Some(link) = self.link() {
            link.missed();
        }
    }

    /// The connection of the host ends after what is queued.
    pub(super) fn release_link(&self) {
        if let Some(link) = self.link() {
            link.release();
        }
    }

    /// The connection of the host breaks off.
    pub(super) fn abort_link(&self) {
        let link = self.link.take();
        if let Some(link) = link {
            link.abort();
        }
    }

    /// A listener that others than the pod may reach: asks for the host's listeners. EADDRINUSE, EACCES.
    pub(super) fn publish(&self) -> Result<()> {
        let inside = self.base.local.get().ip.is_loopback() && !self.base.net.is_host();
        if self.base.net.device().is_none() || inside {
            return Ok(());
        }
        let link = Link::listen(&self.me, self.bound.take(), self.base.local.get(), self.max_backlog.get())?;
        let still = self.state.get() == State::Listen;
        match link {
            Some(link) if still => {
                let old = self.link.replace(Some(link.clone()));
                drop(old);
                link.pump();
            }
            Some(link) => link.release(),
            None => {}
        }
        Ok(())
    }

    /// A connection that the host accepted enters the backlog; returns its link, which `make` makes.
    /// `own`: its own name, if the host told it.
    pub fn take_in_from_outside(
        &self,
        peer: Endpoint,
        own: Option<Endpoint>,
        make: impl FnOnce(&Weak<Tcp>) -> Rc<Link>,
    ) -> Rc<Link> {
        let mut local = own.unwrap_or(self.base.local.get());
        if local.ip.is_unspecified() {
            local.ip = self.base.net.source_for(peer.ip);
        }
        let base = self.base.accepted(local, peer);
        let server = Self::with(base, self.tcp.clone(), State::Established, Phase::Connected);
        let link = make(&server.me);
        *server.link.borrow_mut() = Some(link.clone());
        server.tcp.connected();
        server.forward_all();
        self.base.net.tcp.join(local.port, &server);
        Count::TcpPassiveOpens.add(&self.base.net, 1);
        self.enter_backlog(server);
        link
    }

    /// Most bytes that wait for the host.
    pub fn limit_outward(&self) -> usize {
        let options = &self.base.options;
        if options.send_buffer_locked.get() { options.send_buffer.get() as usize } else { SEND_QUEUE }
    }

    /// poll(2) reports POLLOUT when a third of the queue is free.
    pub(super) fn has_room_outward(&self, link: &Link) -> bool {
        link.unsent() * 3 <= self.limit_outward() * 2
    }

    /// With the host's network the host's buffers say when a send blocks, as on Linux: has it take what it has room for. Returns whether it took
    /// something. Other threads run meanwhile.
    fn makes_room(&self, link: &Link) -> bool {
        let before = link.unsent();
        if !self.base.net.is_host() {
            return false;
        }
        settle::note(Under::Data);
        settle(Under::Data);
        link.unsent() < before
    }

    /// send(2).
    pub(super) fn send_outward(
        &self,
        link: &Rc<Link>,
        src: &mut dyn Src,
        flags: u32,
        deadline: Option<u64>,
    ) -> Result<usize> {
        settle(Under::End);
        if hal::ring::has_completion() {
            connector::poll_completions();
        }
        let mut done = 0;
        loop {
            if self.error.get().is_some() || !self.sends() {
                // After some bytes the next call returns the error.
                let errno = || match self.error.take() {
                    None | Some(Errno::EPIPE) => broken(flags),
                    Some(errno) => errno,
                };
                return if done > 0 { Ok(done) } else { Err(errno()) };
            }
            if src.remaining() == 0 {
                return Ok(done);
            }
            let room = self.limit_outward().saturating_sub(link.unsent());
            if room == 0 {
                self.wants_room.set(true);
                link.pump();
                if self.makes_room(link) {
                    continue;
                }
                if flags & net::MSG_DONTWAIT != 0 {
                    return end(done, Errno::EAGAIN);
                }
                let stopped = || self.write_ended.get() || self.error.get().is_some();
                let check = || (self.has_room_outward(link) || stopped()).then_some(());
                if let Err(errno) = wait(&self.writable, deadline, check) {
                    return end(done, errno);
                }
                continue;
            }
            match link.add(src, room.min(CHUNK)) {
                Ok(0) => return Ok(done),
                Ok(bytes) => {
                    self.counters.sent(&self.base.net, bytes);
                    done += bytes;
                }
                Err(errno) => return end(done, errno),
            }
            if flags & net::MSG_OOB != 0 && src.remaining() == 0 {
                link.mark_urgent();
                // Its receiver gets a signal.
                settle(Under::Data);
                return Ok(done);
            }
            if src.remaining() == 0 && self.holds_back(flags) {
                self.hold_back();
            } else {
                link.pump();
            }
        }
    }

    /// Sets an option of the host's socket, too.
    pub(super) fn forward(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        let forwarded = match level as u32 {
            super::super::IPPROTO_TCP => matches!(
                name as u32,
                net::TCP_NODELAY
                    | net::TCP_KEEPIDLE
                    | net::TCP_KEEPINTVL
                    | net::TCP_KEEPCNT
                    | net::TCP_LINGER2
                    | net::TCP_WINDOW_CLAMP
                    | net::TCP_QUICKACK
                    | net::TCP_USER_TIMEOUT
            ),
            net::SOL_SOCKET => matches!(name as u32, net::SO_KEEPALIVE | net::SO_SNDBUF | net::SO_RCVBUF),
            _ => true,
        };
        match self.link().filter(|_| forwarded && self.is_connected()) {
            // As for a socket that is connected: the options are those of the listener or of the socket before.
            Some(link) => match link.set_option(level as u32, name as u32, value) {
                Err(Errno::ENOTCONN | Errno::EBADF) => Ok(()),
                other => other,
            },
            None => Ok(()),
        }
    }

    /// Sets the options that were set before the connection.
    fn forward_all(&self) {
        let Some(link) = self.link() else { return };
        let options = &self.base.options;
        let mut list: alloc::vec::Vec<(u32, u32, i32)> = self.tcp.forwarded().collect();
        if options.is_on(net::SO_KEEPALIVE) {
            list.push((net::SOL_SOCKET, net::SO_KEEPALIVE, 1));
        }
        if options.send_buffer_locked.get() {
            list.push((net::SOL_SOCKET, net::SO_SNDBUF, (options.send_buffer.get() / 2) as i32));
        }
        if options.receive_buffer_locked.get() {
            list.push((net::SOL_SOCKET, net::SO_RCVBUF, (options.receive_buffer.get() / 2) as i32));
        }
        for (level, name, value) in list {
            link.post_option(level, name, value);
        }
    }

    /// `TCP_INFO` of the host's socket.
    pub(super) fn info_outward(&self) -> Option<Value> {
        settle(Under::Data);
        self.look_for_end();
        let link = self.link()?;
        let mut info = [0; INFO];
        let len = link.option(super::super::IPPROTO_TCP, net::TCP_INFO, &mut info).ok()?;
        Some(Value::from_slice(info.get(..len)?))
    }

    /// `TCP_MAXSEG`.
    pub(super) fn segment_size(&self) -> Result<Value> {
        let mut value = [0; 4];
        match self.link().map(|link| link.option(super::super::IPPROTO_TCP, net::TCP_MAXSEG, &mut value)) {
            Some(Ok(4)) => Ok(int(i32::from_ne_bytes(value))),
            _ => self.tcp.get(net::TCP_MAXSEG),
        }
    }
}
