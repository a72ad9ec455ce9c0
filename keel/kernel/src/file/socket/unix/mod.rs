//! Local sockets, unix(7).
//!
//! What is sent goes into the *receiver's* inbox. A connected pair knows each other weakly; a
//! connection that waits to be accepted is owned by the listener's backlog.

mod address;
mod connect;
mod packet;
mod protocol;
mod queue;
pub mod statistics;
mod stream;

use super::message::{Control, Credentials, own_credentials};
use super::options::{self, Options};
use super::{Address, Socket, broken, wait};
use crate::file::File;
use crate::file::lock::SleepLock;
use crate::task::wait::WaitQueue;
use address::UnixName;
use alloc::collections::VecDeque;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use queue::{Inbox, Packet};
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};

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
    /// Inode number of its open file, 0 before accept(2).
    ino: Cell<u64>,
    options: Options,
    kind: Kind,
    role: Cell<Role>,
    name: RefCell<Option<UnixName>>,
    /// Inode and device number of a name in the tree.
    node: Cell<Option<[u32; 2]>>,
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
            ino: Cell::new(0),
            options: Options::default(),
            kind,
            role: Cell::new(Role::Fresh),
            name: RefCell::default(),
            node: Cell::new(None),
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
