//! Local sockets, unix(7).
//!
//! What is sent goes into the *receiver's* inbox. A connected pair knows each other weakly; a
//! connection that waits to be accepted is owned by the listener's backlog.

use super::message::{Control, Credentials, Received, own_credentials};
use super::unix_address::{self as address, UnixName};
use super::unix_queue::{Inbox, Packet};
use super::{Address, Protocol, Socket};
use crate::file::lock::SleepLock;
use crate::file::{File, Queues};
use crate::task::wait::{Interrupt, WaitQueue, wait_until};
use alloc::collections::VecDeque;
use alloc::rc::{Rc, Weak};
use alloc::vec;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::{Dst, Src};

/// Most bytes that wait in one inbox before senders do.
const LIMIT: usize = super::options::DEFAULT_BUFFER as usize;
/// Most datagrams that wait (`net.unix.max_dgram_qlen`).
const MAX_DATAGRAMS: usize = 10;
/// Bytes of a stream that are queued at a time.
const STREAM_CHUNK: usize = 32 << 10;
/// Largest backlog (`net.core.somaxconn`).
const MAX_BACKLOG: usize = 4096;

/// `MSG_*` flags of a send that mean something here; others are ignored as in Linux.
const MSG_OOB: u32 = net::MSG_OOB;

const IN: u32 = g::POLLIN | g::POLLRDNORM;
const OUT: u32 = g::POLLOUT | g::POLLWRNORM | g::POLLWRBAND;

/// Kinds of local sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Stream,
    Datagram,
    SeqPacket,
}

/// What a connection-oriented socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Fresh,
    Listening,
    Connected,
}

/// A local socket.
pub struct Unix {
    me: Weak<Self>,
    kind: Kind,
    role: Cell<Role>,
    name: RefCell<Option<UnixName>>,
    peer: RefCell<Weak<Unix>>,
    /// Its name stays known after it has gone.
    peer_name: RefCell<Option<Address>>,
    peer_credentials: Cell<Option<Credentials>>,
    /// Of whoever called listen or connect.
    credentials: Cell<Credentials>,
    inbox: Inbox,
    /// One receiver at a time.
    receiving: SleepLock,
    readable: Rc<WaitQueue>,
    writable: Rc<WaitQueue>,
    /// Senders of datagrams that wait for room here.
    room: Rc<WaitQueue>,
    /// Datagram sockets connected to this one, for their POLLOUT.
    senders: RefCell<Vec<Weak<Unix>>>,
    read_ended: Cell<bool>,
    write_ended: Cell<bool>,
    closed: Cell<bool>,
    error: Cell<Option<Errno>>,
    backlog: RefCell<VecDeque<Rc<Unix>>>,
    max_backlog: Cell<usize>,
}

/// socket(2) for AF_UNIX.
pub fn socket(kind: u32, protocol: i32, flags: u32) -> Result<Rc<File>> {
    let (kind, shown) = check(kind, protocol)?;
    Ok(open(Unix::new(kind), shown, flags))
}

/// socketpair(2) for AF_UNIX.
pub fn pair(kind: u32, protocol: i32, flags: u32) -> Result<(Rc<File>, Rc<File>)> {
    let (kind, shown) = check(kind, protocol)?;
    let (a, b) = (Unix::new(kind), Unix::new(kind));
    for (one, other) in [(&a, &b), (&b, &a)] {
        one.role.set(Role::Connected);
        one.set_peer(other);
        one.peer_credentials.set(Some(own_credentials()));
    }
    Ok((open(a, shown, flags), open(b, shown, flags)))
}

fn open(unix: Rc<Unix>, kind: u32, flags: u32) -> Rc<File> {
    Socket::open(net::AF_UNIX, kind, 0, unix, flags)
}

fn check(kind: u32, protocol: i32) -> Result<(Kind, u32)> {
    if protocol != 0 && protocol != net::AF_UNIX as i32 {
        return Err(Errno::EPROTONOSUPPORT);
    }
    match kind {
        net::SOCK_STREAM => Ok((Kind::Stream, kind)),
        net::SOCK_DGRAM | net::SOCK_RAW => Ok((Kind::Datagram, net::SOCK_DGRAM)),
        net::SOCK_SEQPACKET => Ok((Kind::SeqPacket, kind)),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

impl Unix {
    fn new(kind: Kind) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            kind,
            role: Cell::new(Role::Fresh),
            name: RefCell::default(),
            peer: RefCell::default(),
            peer_name: RefCell::default(),
            peer_credentials: Cell::new(None),
            credentials: Cell::new(own_credentials()),
            inbox: Inbox::default(),
            receiving: SleepLock::default(),
            readable: Rc::default(),
            writable: Rc::default(),
            room: Rc::default(),
            senders: RefCell::default(),
            read_ended: Cell::new(false),
            write_ended: Cell::new(false),
            closed: Cell::new(false),
            error: Cell::new(None),
            backlog: RefCell::default(),
            max_backlog: Cell::new(0),
        })
    }

    /// Its last descriptor was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    fn peer(&self) -> Option<Rc<Unix>> {
        self.peer.borrow().upgrade()
    }

    fn set_peer(&self, peer: &Rc<Unix>) {
        *self.peer.borrow_mut() = Rc::downgrade(peer);
        *self.peer_name.borrow_mut() = Some(peer.address());
    }

    fn address(&self) -> Address {
        self.name.borrow().as_ref().map_or_else(address::unnamed, address::address_of)
    }

    fn wake_all(&self) {
        self.readable.wake_all();
        self.writable.wake_all();
    }

    /// Tells senders that the inbox has room again.
    fn made_room(&self) {
        self.room.wake_all();
        if self.kind == Kind::Datagram {
            let senders: Vec<Rc<Unix>> = self.senders.borrow().iter().filter_map(Weak::upgrade).collect();
            for sender in senders {
                sender.writable.wake_all();
            }
        }
        if let Some(peer) = self.peer() {
            peer.writable.wake_all();
        }
    }

    /// No more may be put into the inbox now.
    fn is_full(&self) -> bool {
        match self.kind {
            Kind::Datagram => self.inbox.len() > MAX_DATAGRAMS || self.inbox.bytes() >= LIMIT,
            Kind::Stream | Kind::SeqPacket => self.inbox.bytes() >= LIMIT,
        }
    }

    /// A listener for connections of `kind`. ECONNREFUSED, EPROTOTYPE.
    fn listener(kind: Kind, name: &UnixName) -> Result<Rc<Unix>> {
        let listener = address::find(name)?;
        if listener.kind != kind {
            return Err(Errno::EPROTOTYPE);
        }
        if listener.role.get() != Role::Listening || listener.read_ended.get() {
            return Err(Errno::ECONNREFUSED);
        }
        Ok(listener)
    }

    fn connect_stream(&self, socket: &Socket, name: &UnixName, nonblocking: bool) -> Result<()> {
        match self.role.get() {
            Role::Fresh => {}
            Role::Connected => return Err(Errno::EISCONN),
            Role::Listening => return Err(Errno::EINVAL),
        }
        let listener = Self::listener(self.kind, name)?;
        let full = || listener.backlog.borrow().len() > listener.max_backlog.get();
        if full() {
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            let check = || (!full() || listener.read_ended.get()).then_some(());
            wait(&listener.room, socket.send_deadline(), check)?;
        }
        if listener.role.get() != Role::Listening || listener.read_ended.get() {
            return Err(Errno::ECONNREFUSED);
        }
        if self.role.get() != Role::Fresh {
            return Err(Errno::EISCONN);
        }
        let Some(me) = self.me.upgrade() else { return Err(Errno::EINVAL) };
        self.credentials.set(own_credentials());
        let other = Unix::new(self.kind);
        *other.name.borrow_mut() = listener.name.borrow().clone();
        other.role.set(Role::Connected);
        other.set_peer(&me);
        other.peer_credentials.set(Some(self.credentials.get()));
        self.role.set(Role::Connected);
        self.set_peer(&other);
        self.peer_credentials.set(Some(listener.credentials.get()));
        listener.backlog.borrow_mut().push_back(other);
        listener.readable.wake_all();
        self.writable.wake_all();
        Ok(())
    }

    fn connect_datagram(&self, to: &[u8]) -> Result<()> {
        if to.first_chunk::<2>().is_some_and(|family| u16::from_ne_bytes(*family) == net::AF_UNSPEC as u16) {
            self.forget_peer();
            return Ok(());
        }
        let target = self.datagram_target(&address::parse(to)?)?;
        self.forget_peer();
        self.set_peer(&target);
        self.peer_credentials.set(Some(own_credentials()));
        self.role.set(Role::Connected);
        let mut senders = target.senders.borrow_mut();
        senders.retain(|sender| sender.strong_count() > 0);
        senders.push(self.me.clone());
        Ok(())
    }

    fn forget_peer(&self) {
        let old = self.peer();
        if let Some(old) = old {
            old.senders.borrow_mut().retain(|sender| !Weak::ptr_eq(sender, &self.me));
        }
        *self.peer.borrow_mut() = Weak::new();
        *self.peer_name.borrow_mut() = None;
        self.role.set(Role::Fresh);
    }

    /// Where datagrams to a name go. EPROTOTYPE; EPERM if it only listens to somebody else.
    fn datagram_target(&self, name: &UnixName) -> Result<Rc<Unix>> {
        let target = address::find(name)?;
        if target.kind != self.kind {
            return Err(Errno::EPROTOTYPE);
        }
        if !target.accepts_from(self) {
            return Err(Errno::EPERM);
        }
        Ok(target)
    }

    /// Not connected to another one.
    fn accepts_from(&self, sender: &Unix) -> bool {
        self.role.get() != Role::Connected || self.peer.borrow().as_ptr() == core::ptr::from_ref(sender)
    }

    /// The end of a connection that may be written to. EPIPE and SIGPIPE unless `MSG_NOSIGNAL`.
    fn writable_peer(&self, flags: u32) -> Result<Rc<Unix>> {
        if let Some(errno) = self.error.take() {
            return Err(errno);
        }
        let peer = self.peer().filter(|peer| !peer.closed.get() && !peer.read_ended.get());
        match peer {
            Some(peer) if !self.write_ended.get() => Ok(peer),
            _ if flags & net::MSG_NOSIGNAL != 0 || self.kind != Kind::Stream => Err(Errno::EPIPE),
            _ => Err(crate::file::pipe::broken_pipe()),
        }
    }

    fn packet(&self, data: Vec<u8>, control: &mut Control) -> Packet {
        Packet {
            data,
            taken: Cell::new(0),
            from: self.address(),
            credentials: control.credentials.unwrap_or_else(own_credentials),
            rights: RefCell::new(core::mem::take(&mut control.rights)),
        }
    }

    fn send_stream(&self, socket: &Socket, src: &mut dyn Src, mut control: Control, flags: u32) -> Result<usize> {
        let mut done = 0;
        let end = |done: usize, errno: Errno| if done > 0 { Ok(done) } else { Err(errno) };
        let deadline = socket.send_deadline();
        loop {
            let peer = match self.writable_peer(flags) {
                Ok(peer) => peer,
                Err(errno) => return end(done, errno),
            };
            if src.remaining() == 0 {
                return Ok(done);
            }
            if peer.is_full() {
                if flags & net::MSG_DONTWAIT != 0 {
                    return end(done, Errno::EAGAIN);
                }
                let check = || {
                    (!peer.is_full() || peer.closed.get() || peer.read_ended.get() || self.write_ended.get())
                        .then_some(())
                };
                if let Err(errno) = wait(&self.writable, deadline, check) {
                    return end(done, errno);
                }
                continue;
            }
            let mut data = vec![0; src.remaining().min(STREAM_CHUNK)];
            let got = match src.get(&mut data) {
                Ok(0) => return Ok(done),
                Ok(got) => got,
                Err(errno) => return end(done, errno),
            };
            data.truncate(got);
            peer.inbox.push(self.packet(data, &mut control));
            peer.readable.wake_all();
            done += got;
        }
    }

    fn send_packet(
        &self,
        socket: &Socket,
        src: &mut dyn Src,
        to: Option<&[u8]>,
        mut control: Control,
        flags: u32,
    ) -> Result<usize> {
        let size = src.remaining();
        if size > socket.options.send_buffer.get() as usize - 32 {
            return Err(Errno::EMSGSIZE);
        }
        let name = to.map(address::parse).transpose()?;
        let mut data = vec![0; size];
        if size > 0 && src.get(&mut data)? < size {
            return Err(Errno::EFAULT);
        }
        let deadline = socket.send_deadline();
        loop {
            let target = match &name {
                Some(name) => self.datagram_target(name)?,
                None if self.kind == Kind::SeqPacket => self.writable_peer(flags)?,
                None => self.connected_datagram_peer()?,
            };
            if self.write_ended.get() || target.read_ended.get() {
                return Err(if flags & net::MSG_NOSIGNAL != 0 {
                    Errno::EPIPE
                } else {
                    crate::file::pipe::broken_pipe()
                });
            }
            if !target.is_full() {
                target.inbox.push(self.packet(data, &mut control));
                target.readable.wake_all();
                return Ok(size);
            }
            if flags & net::MSG_DONTWAIT != 0 {
                return Err(Errno::EAGAIN);
            }
            let check = || (!target.is_full() || target.closed.get() || target.read_ended.get()).then_some(());
            wait(&target.room, deadline, check)?;
        }
    }

    fn connected_datagram_peer(&self) -> Result<Rc<Unix>> {
        if self.role.get() != Role::Connected {
            return Err(Errno::ENOTCONN);
        }
        match self.peer().filter(|peer| !peer.closed.get()) {
            Some(peer) if peer.accepts_from(self) => Ok(peer),
            Some(_) => Err(Errno::EPERM),
            None => {
                self.forget_peer();
                Err(Errno::ECONNREFUSED)
            }
        }
    }

    /// Nothing will come any more.
    fn at_end(&self) -> bool {
        let connected = self.kind != Kind::Datagram && self.role.get() == Role::Connected;
        self.read_ended.get() || connected && self.peer().is_none_or(|peer| peer.closed.get() || peer.write_ended.get())
    }

    /// Waits until something can be received: `false` at the end.
    fn wait_for_packet(&self, deadline: Option<u64>, flags: u32, index: usize) -> Result<bool> {
        let check = || {
            if self.inbox.len() > index {
                return Some(Ok(true));
            }
            if let Some(errno) = self.error.take() {
                return Some(Err(errno));
            }
            self.at_end().then_some(Ok(false))
        };
        if let Some(answer) = check() {
            return answer;
        }
        if flags & net::MSG_DONTWAIT != 0 {
            return Err(Errno::EAGAIN);
        }
        wait(&self.readable, deadline, check)?
    }

    fn receive_stream(&self, socket: &Socket, dst: &mut dyn Dst, flags: u32) -> Result<Received> {
        if self.role.get() != Role::Connected {
            return Err(Errno::EINVAL);
        }
        let peek = flags & net::MSG_PEEK != 0;
        let show_credentials = socket.options.pass_credentials.get();
        let deadline = socket.receive_deadline();
        let mut received = Received::default();
        let mut index = 0;
        let mut sender = None;
        // Even an empty read looks for something to read.
        loop {
            let wait_flags = if received.len > 0 && flags & net::MSG_WAITALL == 0 { net::MSG_DONTWAIT } else { flags };
            match self.wait_for_packet(deadline, wait_flags, index) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) if received.len > 0 => break,
                Err(errno) => return Err(errno),
            }
            let guard = self.receiving.lock();
            let Some(packet) = self.inbox.get(index) else { continue };
            // Bytes of different senders, or beyond descriptors, are not joined.
            let other_sender = show_credentials && sender.is_some_and(|one| one != packet.credentials);
            if received.len > 0 && (other_sender || !received.rights.is_empty()) {
                break;
            }
            let rest = &packet.data[packet.taken.get()..];
            let n = match dst.put(&rest[..rest.len().min(dst.remaining())]) {
                Ok(n) => n,
                Err(_) if received.len > 0 => break,
                Err(errno) => return Err(errno),
            };
            received.len += n;
            sender = Some(packet.credentials);
            if received.from.is_none() && packet.from.len() > 2 {
                received.from = Some(packet.from.clone());
            }
            if peek {
                received.rights.extend(packet.rights.borrow().iter().cloned());
                index += 1;
            } else {
                received.rights.append(&mut packet.rights.borrow_mut());
                self.inbox.consume(n);
            }
            drop(guard);
            if !peek {
                self.made_room();
            }
            if dst.remaining() == 0 {
                break;
            }
        }
        received.credentials = sender.filter(|_| show_credentials);
        Ok(received)
    }

    fn receive_packet(&self, socket: &Socket, dst: &mut dyn Dst, flags: u32) -> Result<Received> {
        if self.kind == Kind::SeqPacket && self.role.get() != Role::Connected {
            return Err(Errno::ENOTCONN);
        }
        let peek = flags & net::MSG_PEEK != 0;
        let (_guard, packet) = loop {
            if !self.wait_for_packet(socket.receive_deadline(), flags, 0)? {
                return Ok(Received::default());
            }
            let guard = self.receiving.lock();
            if let Some(packet) = self.inbox.get(0) {
                break (guard, packet);
            }
        };
        let mut received = Received::default();
        let size = packet.data.len();
        let n = size.min(dst.remaining());
        let put = if n > 0 { dst.put(&packet.data[..n]) } else { Ok(0) };
        if !peek {
            self.inbox.drop_front();
            self.made_room();
        }
        put?;
        received.len = if flags & net::MSG_TRUNC != 0 { size } else { n };
        if n < size {
            received.flags |= net::MSG_TRUNC;
        }
        if self.kind == Kind::SeqPacket {
            received.flags |= net::MSG_EOR;
        }
        received.rights = packet.rights.borrow().clone();
        received.credentials = Some(packet.credentials).filter(|_| socket.options.pass_credentials.get());
        received.from = Some(packet.from.clone()).filter(|from| from.len() > 2);
        Ok(received)
    }
}

/// Waits on one queue. EAGAIN after the deadline, as the socket timeouts have it.
fn wait<T>(queue: &Rc<WaitQueue>, deadline: Option<u64>, check: impl FnMut() -> Option<T>) -> Result<T> {
    match wait_until(core::slice::from_ref(queue), deadline, Interrupt::BySignal, check) {
        Err(Errno::ETIMEDOUT) => Err(Errno::EAGAIN),
        // With a timeout an interrupted call is not restarted, signal(7).
        Err(Errno::ERESTARTSYS) if deadline.is_some() => Err(Errno::EINTR),
        other => other,
    }
}

impl Protocol for Unix {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn bind(&self, address: &[u8]) -> Result<()> {
        let name = address::parse(address)?;
        if self.name.borrow().is_some() {
            // Choosing a name for a socket that has one does nothing.
            return if name == UnixName::Auto { Ok(()) } else { Err(Errno::EINVAL) };
        }
        let me = self.me.upgrade().ok_or(Errno::EINVAL)?;
        let name = address::bind(&me, name)?;
        *self.name.borrow_mut() = Some(name);
        Ok(())
    }

    fn connect(&self, socket: &Socket, address: &[u8], nonblocking: bool) -> Result<()> {
        match self.kind {
            Kind::Datagram => self.connect_datagram(address),
            Kind::Stream | Kind::SeqPacket => self.connect_stream(socket, &address::parse(address)?, nonblocking),
        }
    }

    fn listen(&self, backlog: i32) -> Result<()> {
        if self.kind == Kind::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.name.borrow().is_none() || self.role.get() == Role::Connected {
            return Err(Errno::EINVAL);
        }
        self.max_backlog.set((backlog as u32 as usize).min(MAX_BACKLOG));
        self.credentials.set(own_credentials());
        self.role.set(Role::Listening);
        self.room.wake_all();
        Ok(())
    }

    fn accept(&self, socket: &Socket, nonblocking: bool) -> Result<Rc<dyn Protocol>> {
        if self.kind == Kind::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.role.get() != Role::Listening {
            return Err(Errno::EINVAL);
        }
        let take = || {
            if self.read_ended.get() {
                return Some(Err(Errno::EINVAL));
            }
            self.backlog.borrow_mut().pop_front().map(Ok)
        };
        let accepted = match take() {
            Some(accepted) => accepted?,
            None if nonblocking => return Err(Errno::EAGAIN),
            None => wait(&self.readable, socket.receive_deadline(), take)??,
        };
        self.room.wake_all();
        Ok(accepted)
    }

    fn local(&self) -> Result<Address> {
        Ok(self.address())
    }

    fn peer(&self) -> Result<Address> {
        if self.role.get() != Role::Connected {
            return Err(Errno::ENOTCONN);
        }
        Ok(self.peer_name.borrow().clone().unwrap_or_else(address::unnamed))
    }

    fn send(
        &self,
        socket: &Socket,
        src: &mut dyn Src,
        to: Option<&[u8]>,
        control: Control,
        flags: u32,
    ) -> Result<usize> {
        if flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.kind == Kind::Datagram {
            return self.send_packet(socket, src, to, control, flags);
        }
        let connected = self.role.get() == Role::Connected;
        if self.kind == Kind::Stream && to.is_some() {
            return Err(if connected { Errno::EISCONN } else { Errno::EOPNOTSUPP });
        }
        if !connected {
            return Err(Errno::ENOTCONN);
        }
        match self.kind {
            Kind::Stream => self.send_stream(socket, src, control, flags),
            // The address of a connected packet socket is ignored.
            _ => self.send_packet(socket, src, None, control, flags),
        }
    }

    fn receive(&self, socket: &Socket, dst: &mut dyn Dst, _want_from: bool, flags: u32) -> Result<Received> {
        if flags & MSG_OOB != 0 {
            return Err(if self.kind == Kind::Stream { Errno::EINVAL } else { Errno::EOPNOTSUPP });
        }
        match self.kind {
            Kind::Stream => self.receive_stream(socket, dst, flags),
            Kind::Datagram | Kind::SeqPacket => self.receive_packet(socket, dst, flags),
        }
    }

    fn shutdown(&self, read: bool, write: bool) -> Result<()> {
        if self.kind != Kind::Datagram && self.role.get() == Role::Fresh {
            return Err(Errno::ENOTCONN);
        }
        self.read_ended.set(self.read_ended.get() | read);
        self.write_ended.set(self.write_ended.get() | write);
        self.wake_all();
        self.room.wake_all();
        if let Some(peer) = self.peer() {
            peer.wake_all();
        }
        Ok(())
    }

    fn poll(&self) -> u32 {
        if self.role.get() == Role::Listening {
            return if self.backlog.borrow().is_empty() { 0 } else { IN };
        }
        let mut events = 0;
        if self.error.get().is_some() {
            events |= g::POLLERR;
        }
        if !self.inbox.is_empty() {
            events |= IN;
        }
        let peer = self.peer().filter(|peer| !peer.closed.get());
        let connected = self.kind != Kind::Datagram && self.role.get() == Role::Connected;
        let gone = connected && peer.is_none();
        if self.at_end() {
            events |= IN | g::POLLRDHUP;
        }
        let ended = |unix: &Unix| unix.read_ended.get() && unix.write_ended.get();
        let both = ended(self) || connected && peer.as_ref().is_some_and(|peer| self.at_end() && peer.read_ended.get());
        if gone || both || self.kind != Kind::Datagram && self.role.get() == Role::Fresh {
            events |= g::POLLHUP;
        }
        let full = match (&peer, self.kind) {
            (Some(peer), Kind::Datagram) => peer.is_full(),
            // Writable again only when most of the inbox has been read: fewer wake-ups.
            (Some(peer), _) => peer.inbox.bytes() * 4 > LIMIT,
            (None, _) => false,
        };
        if !full {
            events |= OUT;
        }
        events
    }

    fn poll_queues(&self, events: u32, out: &mut Queues) {
        // Errors and hang-ups wake both.
        if events & (IN | g::POLLRDHUP) != 0 || events & OUT == 0 {
            out.push(self.readable.clone());
        }
        if events & OUT != 0 {
            out.push(self.writable.clone());
        }
    }

    fn queued(&self, sent: bool) -> Result<usize> {
        if self.role.get() == Role::Listening {
            return Err(Errno::EINVAL);
        }
        if sent {
            return Ok(self.peer().map_or(0, |peer| peer.inbox.bytes()));
        }
        Ok(match self.kind {
            Kind::Datagram => self.inbox.get(0).map_or(0, |packet| packet.left()),
            Kind::Stream | Kind::SeqPacket => self.inbox.bytes(),
        })
    }

    fn take_error(&self) -> Option<Errno> {
        self.error.take()
    }

    fn is_listening(&self) -> bool {
        self.role.get() == Role::Listening
    }

    fn peer_credentials(&self) -> Result<Credentials> {
        // Without a peer: process 0, and ids that nobody has.
        Ok(self.peer_credentials.get().unwrap_or([0, u32::MAX, u32::MAX]))
    }

    fn release(&self) {
        self.closed.set(true);
        let name = self.name.borrow().clone();
        if let Some(name) = name
            && self.role.get() != Role::Connected
        {
            address::unbind(&name);
        }
        let unread = self.inbox.clear();
        let waiting = self.backlog.take();
        for connection in &waiting {
            connection.closed.set(true);
            if let Some(client) = connection.peer() {
                client.error.set(Some(Errno::ECONNRESET));
                client.wake_all();
            }
        }
        if let Some(peer) = self.peer() {
            if unread && self.kind != Kind::Datagram {
                peer.error.set(Some(Errno::ECONNRESET));
            }
            peer.wake_all();
        }
        self.read_ended.set(true);
        self.wake_all();
        self.room.wake_all();
    }
}
