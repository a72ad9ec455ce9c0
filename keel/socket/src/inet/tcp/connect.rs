//! Connections: connect(2), listen(2), accept(2).

use super::super::super::{family_of, wait};
use super::super::Endpoint;
use super::super::address::Reach;
use super::super::outward::settle::{Under, settle};
use super::super::ports::{self, Member};
use super::super::statistics::Count;
use super::{Phase, State, Tcp};
use alloc::rc::Rc;
use file::landlock;
use uapi::raw::net;
use uapi::{Errno, Result};

impl Tcp {
    /// connect(2).
    pub(super) fn start_connect(&self, address: &[u8], nonblocking: bool) -> Result<()> {
        if family_of(address)? == net::AF_UNSPEC {
            self.disconnect();
            return Ok(());
        }
        let first = match self.phase.get() {
            Phase::Connected => return Err(Errno::EISCONN),
            Phase::Connecting => false,
            Phase::Unconnected => {
                if self.state.get() != State::Close {
                    return Err(Errno::EISCONN);
                }
                self.begin(address)?;
                self.phase.set(Phase::Connecting);
                true
            }
        };
        // A non-blocking connect reports its result with the next call, even if it is complete.
        if nonblocking && (first || self.state.get() == State::SynSent) {
            return Err(if first { Errno::EINPROGRESS } else { Errno::EALREADY });
        }
        if self.state.get() == State::SynSent {
            let deadline = self.base.options.send_deadline();
            let done = || (self.state.get() != State::SynSent).then_some(());
            wait(&self.writable, deadline, done)
                .map_err(|errno| if errno == Errno::EAGAIN { Errno::EINPROGRESS } else { errno })?;
        }
        if self.state.get() == State::Close {
            let errno = self.error.take().unwrap_or(Errno::ECONNABORTED);
            self.disconnect();
            return Err(errno);
        }
        self.phase.set(Phase::Connected);
        Ok(())
    }

    /// send(2) with `MSG_FASTOPEN`, where the peer has given no cookie: connect(2) before it. EOPNOTSUPP, EISCONN, EINVAL.
    pub(super) fn connect_to_send(&self, to: Option<&[u8]>, nonblocking: bool) -> Result<()> {
        match to {
            Some(to) if family_of(to)? == net::AF_UNSPEC => Err(Errno::EOPNOTSUPP),
            Some(to) => {
                landlock::check_port(self.base.family, to, true)?;
                self.start_connect(to, nonblocking)
            }
            None if self.phase.get() == Phase::Connected => Err(Errno::EISCONN),
            None => Err(Errno::EINVAL),
        }
    }

    /// Sends the request for a connection, and gets the answer if there is one. EINVAL, EAFNOSUPPORT, ENETUNREACH,
    /// EADDRNOTAVAIL.
    fn begin(&self, address: &[u8]) -> Result<()> {
        let (to, reach) = self.base.resolve(self.base.destination(address)?)?;
        if !matches!(reach, Reach::Loopback | Reach::Outward) {
            return Err(Errno::ENETUNREACH);
        }
        let me = self.me.upgrade().ok_or(Errno::EINVAL)?;
        let source = self.base.source_by(to.ip, reach)?;
        if self.base.net.is_host() {
            self.bind_before_connect()?;
        }
        let port = self.base.local.get().port;
        if self.base.net.is_host() {
            // The host chooses what is not bound.
            self.base.local.set(Endpoint { ip: source, port });
        } else if port == 0 {
            self.base.net.tcp.bind_for(&me, source, to)?;
        } else {
            self.base.local.set(Endpoint { ip: source, port });
        }
        self.base.remote.set(Some(to));
        self.read_ended.set(false);
        self.write_ended.set(false);
        self.error.set(None);
        self.state.set(State::SynSent);
        Count::TcpActiveOpens.add(&self.base.net, 1);
        let own = Endpoint { ip: source, port: self.base.local.get().port };
        if reach == Reach::Outward {
            self.connect_outward(own, to);
            return Ok(());
        }
        match self.listener(to, own) {
            None if to == own => self.meet_itself(),
            None => self.reset(),
            Some(listener) if listener.is_full() => listener.pending.borrow_mut().push_back(self.me.clone()),
            Some(listener) => listener.take_in(&me),
        }
        Ok(())
    }

    /// Both ends are one socket: a simultaneous open.
    fn meet_itself(&self) {
        *self.peer.borrow_mut() = self.me.clone();
        self.state.set(State::Established);
        self.tcp.connected();
        if !self.base.options.send_buffer_locked.get() {
            self.base.options.send_buffer.set(super::GROWN_SEND_BUFFER);
        }
        self.wake_all();
    }

    /// The listener at `to`. With `SO_REUSEPORT` the caller's port selects one.
    fn listener(&self, to: Endpoint, from: Endpoint) -> Option<Rc<Tcp>> {
        let score = |tcp: &Tcp| if tcp.is_listening() { tcp.base.score(to, from) } else { None };
        // What opens a connection has no content.
        ports::select(self.base.net.tcp.best(to, score), from, &[])
    }

    pub(super) fn is_full(&self) -> bool {
        self.backlog_room() == 0
    }

    /// For how many further connections there is room: as on Linux for one more than listen(2) asked for.
    pub(super) fn backlog_room(&self) -> usize {
        let waiting = self.backlog.borrow().len().max(self.deferred.borrow().len());
        self.max_backlog.get().saturating_add(1).saturating_sub(waiting)
    }

    /// Connects `client` with a new socket in the backlog.
    fn take_in(&self, client: &Rc<Tcp>) {
        let Some(to) = client.base.remote.get() else { return };
        let base = self.base.accepted(to, client.base.local.get());
        let server = Self::with(base, self.tcp.clone(), State::Established, Phase::Connected);
        *server.peer.borrow_mut() = Rc::downgrade(client);
        *client.peer.borrow_mut() = Rc::downgrade(&server);
        client.state.set(State::Established);
        for end in [client, &server] {
            end.tcp.connected();
            let options = &end.base.options;
            if !options.send_buffer_locked.get() {
                options.send_buffer.set(super::GROWN_SEND_BUFFER);
            }
        }
        self.base.net.tcp.join(to.port, &server);
        Count::TcpPassiveOpens.add(&self.base.net, 1);
        self.enter_backlog(server);
        client.wake_all();
    }

    /// listen(2).
    pub(super) fn start_listening(&self, backlog: i32) -> Result<()> {
        if self.phase.get() != Phase::Unconnected || !matches!(self.state.get(), State::Close | State::Listen) {
            return Err(Errno::EINVAL);
        }
        self.max_backlog.set((backlog as u32 as usize).min(self.base.net.settings.most_backlog.get() as usize));
        if self.state.get() == State::Listen {
            self.let_in();
            return Ok(());
        }
        let me = self.me.upgrade().ok_or(Errno::EINVAL)?;
        if self.base.net.is_host() {
            self.bind_again()?;
        } else if self.base.local.get().port == 0 {
            self.base.net.tcp.bind(&me, self.base.local.get())?;
        } else if !self.base.net.tcp.still_free(self) {
            return Err(Errno::EADDRINUSE);
        }
        self.read_ended.set(false);
        self.write_ended.set(false);
        self.state.set(State::Listen);
        self.base.net.tcp.join_group(self);
        self.publish().inspect_err(|_| {
            if self.state.get() == State::Listen {
                self.stop_listening();
            }
        })
    }

    /// Admits connections that wait for room in the backlog.
    fn let_in(&self) {
        while !self.is_full() {
            let Some(client) = self.pending.borrow_mut().pop_front() else { return };
            if let Some(client) = client.upgrade().filter(|client| client.state.get() == State::SynSent) {
                self.take_in(&client);
            }
        }
    }

    /// accept(2).
    pub(super) fn next_connection(&self, nonblocking: bool) -> Result<Rc<Tcp>> {
        let take = || {
            if self.state.get() != State::Listen {
                return Some(Err(Errno::EINVAL));
            }
            self.backlog.borrow_mut().pop_front().map(Ok)
        };
        if self.backlog.borrow().is_empty() {
            settle(Under::Data);
            self.accept_waiting();
        }
        let accepted = match take() {
            Some(accepted) => accepted?,
            None if nonblocking => {
                self.missed();
                self.accept_waiting();
                take().unwrap_or(Err(Errno::EAGAIN))?
            }
            None => {
                let deadline = self.base.options.receive_deadline();
                loop {
                    let ready = || take().map(Some).or_else(|| self.has_waiting().then_some(None));
                    if let Some(accepted) = wait(&self.readable, deadline, ready)? {
                        break accepted?;
                    }
                    self.accept_waiting();
                }
            }
        };
        self.let_in();
        self.receive_more();
        Ok(accepted)
    }
}
