//! Local sockets, unix(7).
//!
//! What is sent goes into the *receiver's* inbox. A connected pair knows each other weakly; a
//! connection that waits to be accepted is owned by the listener's backlog.

mod address;
mod connect;
mod packet;
mod queue;
mod stream;

use super::message::{Control, Credentials, Received, own_credentials};
use super::options::{self, Options, Value};
use super::{Address, IN, Protocol, Socket, broken, wait};
use crate::file::lock::SleepLock;
use crate::file::{File, Queues};
use crate::task::wait::WaitQueue;
use address::UnixName;
use alloc::collections::VecDeque;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use queue::{Inbox, Packet};
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::{Dst, Src};

/// Most bytes that wait in one inbox before senders do.
const LIMIT: usize = options::DEFAULT_BUFFER as usize;
/// Most datagrams that wait (`net.unix.max_dgram_qlen`).
const MAX_DATAGRAMS: usize = 10;
/// Largest backlog (`net.core.somaxconn`).
const MAX_BACKLOG: usize = 4096;

/// `MSG_*` flags of a send that mean something here; others are ignored as in Linux.
const MSG_OOB: u32 = net::MSG_OOB;

/// Local sockets tell that there is room for urgent bytes too, which they do not know.
const OUT: u32 = super::OUT | g::POLLWRBAND;

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
    options: Options,
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
            options: Options::default(),
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

    /// The end of a connection that may be written to. EPIPE and SIGPIPE unless `MSG_NOSIGNAL`.
    fn writable_peer(&self, flags: u32) -> Result<Rc<Unix>> {
        if let Some(errno) = self.error.take() {
            return Err(errno);
        }
        let peer = self.peer().filter(|peer| !peer.closed.get() && !peer.read_ended.get());
        match peer {
            Some(peer) if !self.write_ended.get() => Ok(peer),
            _ if self.kind != Kind::Stream => Err(Errno::EPIPE),
            _ => Err(broken(flags)),
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
}

impl Protocol for Unix {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn options(&self) -> &Options {
        &self.options
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

    fn connect(&self, address: &[u8], nonblocking: bool) -> Result<()> {
        match self.kind {
            Kind::Datagram => self.connect_datagram(address),
            Kind::Stream | Kind::SeqPacket => self.connect_stream(&address::parse(address)?, nonblocking),
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

    fn accept(&self, nonblocking: bool) -> Result<Rc<dyn Protocol>> {
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
            None => wait(&self.readable, self.options.receive_deadline(), take)??,
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

    fn send(&self, src: &mut dyn Src, to: Option<&[u8]>, control: Control, flags: u32) -> Result<usize> {
        if flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.kind == Kind::Datagram {
            return self.send_packet(src, to, control, flags);
        }
        let connected = self.role.get() == Role::Connected;
        if self.kind == Kind::Stream && to.is_some() {
            return Err(if connected { Errno::EISCONN } else { Errno::EOPNOTSUPP });
        }
        if !connected {
            return Err(Errno::ENOTCONN);
        }
        match self.kind {
            Kind::Stream => self.send_stream(src, control, flags),
            // The address of a connected packet socket is ignored.
            _ => self.send_packet(src, None, control, flags),
        }
    }

    fn receive(&self, dst: &mut dyn Dst, _want_from: bool, flags: u32) -> Result<Received> {
        if flags & MSG_OOB != 0 {
            return Err(if self.kind == Kind::Stream { Errno::EINVAL } else { Errno::EOPNOTSUPP });
        }
        match self.kind {
            Kind::Stream => self.receive_stream(dst, flags),
            Kind::Datagram | Kind::SeqPacket => self.receive_packet(dst, flags),
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

    fn set_option(&self, level: i32, _name: i32, _value: &[u8]) -> Result<()> {
        Err(if level as u32 == net::SOL_SOCKET { Errno::ENOPROTOOPT } else { Errno::EOPNOTSUPP })
    }

    fn get_option(&self, level: i32, _name: i32) -> Result<Value> {
        Err(if level as u32 == net::SOL_SOCKET { Errno::ENOPROTOOPT } else { Errno::EOPNOTSUPP })
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
