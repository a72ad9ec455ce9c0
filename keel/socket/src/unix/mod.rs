//! Local sockets, unix(7).
//!
//! A send puts data into the *receiver's* inbox. The ends of a connected pair hold weak references to each other; the
//! listener's backlog owns a connection that is not accepted yet.

mod account;
mod address;
mod connect;
mod packet;
mod protocol;
mod queue;
pub mod rights;
pub mod statistics;
mod stream;
mod unlocked;
mod urgent;

use super::message::{Control, Credentials, NOBODY, Received, own_credentials, sender_credentials, shown_credentials};
use super::netns::NetNs;
use super::options::Options;
use super::{Address, Socket, broken, wait};
use account::Account;
pub use address::Names;
use address::UnixName;
use alloc::rc::{Rc, Weak};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use file::File;
use file::caller::{ProcessRef, caller};
use file::cred::Cred;
use file::place::PathFile;
use keel_core::pieces::Pieces;
use queue::{Inbox, Packet, Turn};
use rights::Rights;
use sched::wait::WaitQueue;
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};
pub use unlocked::End;
use vfs::PathRef;
use vfs::landlock::Domain;

/// Maximum number of queued datagrams (`net.unix.max_dgram_qlen`).
const MAX_DATAGRAMS: usize = 10;

/// `MSG_*` flags of a send that mean something here; others are ignored as in Linux.
const MSG_OOB: u32 = net::MSG_OOB;

/// Local sockets always report POLLWRBAND, as in Linux.
const OUT: u32 = super::OUT | g::POLLWRBAND;

/// Kinds of local sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Stream,
    Datagram,
    SeqPacket,
}

/// State of a connection-oriented socket.
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
    net: Rc<NetNs>,
    options: Options,
    kind: Kind,
    role: Cell<Role>,
    name: RefCell<Option<UnixName>>,
    /// Inode and device number of a name in the tree.
    node: Cell<Option<[u32; 2]>>,
    /// The name's place in the tree, until the socket is closed.
    place: RefCell<Option<PathRef>>,
    peer: RefCell<Weak<Unix>>,
    /// Name of the peer; kept after its end.
    peer_name: RefCell<Option<Address>>,
    peer_credentials: Cell<Option<Credentials>>,
    /// The peer's process, also after its end.
    peer_process: RefCell<Option<ProcessRef>>,
    /// Credentials with the groups of `SO_PEERGROUPS`.
    peer_cred: RefCell<Option<Rc<Cred>>>,
    /// The creator's landlock(7) domain.
    domain: Option<Rc<Domain>>,
    /// Credentials of the caller of listen or connect.
    credentials: Cell<Credentials>,
    /// Account of sent data.
    account: Rc<Account>,
    /// State for calls without the big lock.
    end: Arc<End>,
    /// The packet with the urgent byte.
    urgent: RefCell<Weak<Packet>>,
    /// `SO_PEEK_OFF`; negative: off.
    peek_offset: Cell<i32>,
    /// `SO_INQ`: receives tell how many bytes are left.
    tells_left: Cell<bool>,
    /// The open file, for its owner's signals.
    file: RefCell<Weak<File>>,
    readable: Rc<WaitQueue>,
    /// Senders of datagrams that wait for room here.
    room: Rc<WaitQueue>,
    /// Datagram sockets connected to this one, for their POLLOUT.
    senders: RefCell<Pieces<Weak<Unix>>>,
    read_ended: Cell<bool>,
    write_ended: Cell<bool>,
    closed: Cell<bool>,
    error: Cell<Option<Errno>>,
    backlog: RefCell<Pieces<Rc<Unix>>>,
    max_backlog: Cell<usize>,
}

/// socket(2) for AF_UNIX.
pub fn socket(kind: u32, protocol: i32, flags: u32) -> Result<Rc<File>> {
    let (kind, shown) = check(kind, protocol)?;
    Ok(open(Unix::new(crate::caller::net(), kind), shown, flags))
}

/// socketpair(2) for AF_UNIX.
pub fn pair(kind: u32, protocol: i32, flags: u32) -> Result<(Rc<File>, Rc<File>)> {
    let (kind, shown) = check(kind, protocol)?;
    let (a, b) = (Unix::new(crate::caller::net(), kind), Unix::new(crate::caller::net(), kind));
    for (one, other) in [(&a, &b), (&b, &a)] {
        one.role.set(Role::Connected);
        one.set_peer(other);
        one.join();
        one.remember_peer();
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
    fn new(net: Rc<NetNs>, kind: Kind) -> Rc<Self> {
        let options = Options::default();
        let readable = WaitQueue::for_unlocked();
        let account = Account::new(options.send_buffer.get());
        let end = Arc::new(End::new(kind, Inbox::new(readable.clone()), account.clone()));
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            ino: Cell::new(0),
            net,
            options,
            kind,
            role: Cell::new(Role::Fresh),
            name: RefCell::default(),
            node: Cell::new(None),
            place: RefCell::default(),
            peer: RefCell::default(),
            peer_name: RefCell::default(),
            peer_credentials: Cell::new(None),
            peer_process: RefCell::default(),
            peer_cred: RefCell::default(),
            domain: caller().cred().domain.clone(),
            credentials: Cell::new(own_credentials()),
            account,
            end,
            urgent: RefCell::default(),
            peek_offset: Cell::new(-1),
            tells_left: Cell::new(false),
            file: RefCell::default(),
            readable,
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

    /// Whether its last descriptor was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Whether it has a peer whose descriptors are not all closed.
    pub fn has_open_peer(&self) -> bool {
        self.peer().is_some_and(|peer| !peer.closed.get())
    }

    fn peer(&self) -> Option<Rc<Unix>> {
        self.peer.borrow().upgrade()
    }

    fn set_peer(&self, peer: &Rc<Unix>) {
        *self.peer.borrow_mut() = Rc::downgrade(peer);
        *self.peer_name.borrow_mut() = Some(peer.address());
    }

    /// Sends go to the peer from now on, also without the big lock. Only the peer sends to a connection's inbox.
    fn join(&self) {
        let Some(peer) = self.peer() else { return };
        if self.kind == Kind::Datagram {
            self.end.inbox.set_accepts(peer.account.id());
        } else {
            self.end.inbox.set_sender(peer.account.clone());
        }
        self.end.set_peer(Some(peer.end.clone()));
    }

    /// Excludes calls without the big lock if an option affects them, or a half has been shut down. Before accept(2)
    /// messages carry their sender's credentials.
    fn review(&self) {
        let options = &self.options;
        let is_plain = self.ino.get() != 0
            && !options.wants_sender()
            && !options.wants_stamps()
            && !self.tells_left.get()
            && options.low_water.get() == 1
            && options.filter.borrow().is_none()
            && self.peek_offset.get() < 0
            && self.error.get().is_none()
            && !self.has_urgent()
            && !self.read_ended.get()
            && !self.write_ended.get();
        self.end.inbox.set_special(!is_plain);
        self.account.set_limit(options.send_buffer.get());
    }

    /// Ends halves for good.
    fn end_halves(&self, read: bool, write: bool) {
        self.read_ended.set(self.read_ended.get() | read);
        self.write_ended.set(self.write_ended.get() | write);
        if self.read_ended.get() {
            self.end.inbox.close();
        }
        self.review();
    }

    fn address(&self) -> Address {
        self.name.borrow().as_ref().map_or_else(address::unnamed, address::address_of)
    }

    fn wake_all(&self) {
        self.readable.wake_all();
        self.account.writable.wake_all();
    }

    /// An error for the next call.
    fn fail(&self, errno: Errno) {
        self.error.set(Some(errno));
        self.review();
    }

    /// Takes the pending error.
    fn take_failure(&self) -> Option<Errno> {
        let errno = self.error.take()?;
        self.review();
        Some(errno)
    }

    /// Records the current process as the peer.
    fn remember_peer(&self) {
        self.peer_credentials.set(Some(own_credentials()));
        *self.peer_process.borrow_mut() = Some(caller().process());
        *self.peer_cred.borrow_mut() = Some(caller().cred());
    }

    /// Wakes senders of datagrams: the inbox has room again.
    fn made_room(&self) {
        if self.kind != Kind::Datagram || self.end.inbox.len() > MAX_DATAGRAMS {
            return;
        }
        self.room.wake_all();
        for sender in vfs::memory::items(&self.senders).filter_map(|sender| sender.upgrade()) {
            sender.account.writable.wake_all();
        }
    }

    /// Too many datagrams wait for `sender` to add one. Two that are connected with each other are only limited by
    /// their own buffers.
    fn is_full_for(&self, sender: &Unix) -> bool {
        let mutual = self.peer.borrow().as_ptr() == core::ptr::from_ref(sender);
        self.kind == Kind::Datagram && !mutual && self.end.inbox.len() > MAX_DATAGRAMS
    }

    /// The end of a connection that may be written to. EPIPE and SIGPIPE unless `MSG_NOSIGNAL`.
    fn writable_peer(&self, flags: u32) -> Result<Rc<Unix>> {
        let ended = || if self.kind == Kind::Stream { broken(flags) } else { Errno::EPIPE };
        // The error of a connection that was reset stays pending.
        if self.write_ended.get() {
            return Err(ended());
        }
        if let Some(errno) = self.take_failure() {
            return Err(errno);
        }
        let peer = self.peer().filter(|peer| !peer.closed.get() && !peer.read_ended.get());
        peer.ok_or_else(ended)
    }

    /// Builds a message for `to`. EPERM if it does not accept descriptors.
    fn packet(
        &self,
        to: &Unix,
        data: Vec<u8>,
        charge: usize,
        control: &mut Control,
        urgent: bool,
    ) -> Result<Rc<Packet>> {
        if !control.rights.is_empty() && !to.options.pass_rights.get() {
            return Err(Errno::EPERM);
        }
        // Before accept there is no receiver that could have set the option.
        let wanted = self.options.wants_sender() || to.options.wants_sender() || to.ino.get() == 0;
        let at_ns = if to.options.wants_stamps() { hal::clock::realtime_ns() } else { 0 };
        let process = match control.credentials {
            Some([pid, ..]) => caller().find_process(pid as i32),
            None => wanted.then(|| caller().process()),
        };
        let plain = !urgent && control.rights.is_empty() && process.is_none() && at_ns == 0;
        Ok(Rc::new(Packet {
            data,
            taken: Cell::new(0),
            from: self.address(),
            credentials: control.credentials.or_else(|| wanted.then(sender_credentials)),
            process,
            rights: RefCell::new(Rights::new(core::mem::take(&mut control.rights))?),
            plain,
            at_ns,
            charge: Cell::new(charge.min(account::MOST) as u32),
            sender: self.account.id(),
            account: (self.kind == Kind::Datagram).then(|| self.account.clone()),
        }))
    }

    /// Adds the sender's credentials to a received message, if the socket requests them.
    fn tell_sender(&self, received: &mut Received, sender: Option<Credentials>, process: Option<ProcessRef>) {
        let shown = sender.map_or(NOBODY, shown_credentials);
        received.credentials = self.options.pass_credentials.get().then_some(shown);
        received.wants_process = self.options.pass_pidfd.get();
        received.process = process;
    }

    /// A sender that passes its credentials gets a name, unless it has one.
    fn name_sender(&self) -> Result<()> {
        if self.options.wants_sender() && self.name.borrow().is_none() {
            self.give_name(UnixName::Auto)
        } else {
            Ok(())
        }
    }

    /// `SIOCUNIXFILE`: a descriptor of its name's place in the tree. EPERM, ENOENT, EMFILE.
    fn open_place(&self) -> Result<usize> {
        if !self.net.permits(g::CAP_NET_ADMIN) {
            return Err(Errno::EPERM);
        }
        let place = self.place.borrow().clone().ok_or(Errno::ENOENT)?;
        let file = File::new(PathFile::new(place.inode().clone()), g::O_PATH, Some(place));
        caller().install(file, g::O_CLOEXEC).map(|fd| fd as usize)
    }

    fn give_name(&self, name: UnixName) -> Result<()> {
        let me = self.me.upgrade().ok_or(Errno::EINVAL)?;
        let mode = self.file.borrow().upgrade().and_then(|file| file.ops.attr().ok()).map_or(0o777, |attr| attr.mode);
        let name = address::bind(&me, name, mode & 0o7777)?;
        *self.name.borrow_mut() = Some(name);
        // Packets that were kept have the old name.
        self.account.renew();
        Ok(())
    }

    /// Start of a peek, `SO_PEEK_OFF`.
    fn peek_start(&self, flags: u32) -> usize {
        if flags & net::MSG_PEEK != 0 { self.peek_offset.get().max(0) as usize } else { 0 }
    }

    /// A peek showed `n` bytes, or they were received: `SO_PEEK_OFF` moves.
    fn move_peek(&self, n: usize, peek: bool) {
        let at = self.peek_offset.get();
        let n = i32::try_from(n).unwrap_or(i32::MAX);
        if at >= 0 {
            self.peek_offset.set(if peek { at.saturating_add(n) } else { at.saturating_sub(n).max(0) });
        }
    }

    /// Whether no more data can arrive.
    fn at_end(&self) -> bool {
        let connected = self.kind != Kind::Datagram && self.role.get() == Role::Connected;
        self.read_ended.get() || connected && self.peer().is_none_or(|peer| peer.closed.get())
    }

    /// The peer was closed: shuts both halves down.
    fn end_both(&self) {
        self.end_halves(true, true);
    }

    /// Waits for a packet or datagram after the first `skip` bytes: returns it, the offset within it, and the
    /// receiver's turn; `None` at the end.
    fn wait_for_packet(&self, deadline: Option<u64>, flags: u32, skip: usize) -> Result<Option<Next<'_>>> {
        loop {
            let seen = self.end.inbox.pushed();
            if let Some(errno) = self.take_failure() {
                return Err(errno);
            }
            let turn = self.end.inbox.turn();
            if let Some((packet, skip)) = self.packet_behind(skip, &turn) {
                return Ok(Some((turn, packet, skip)));
            }
            drop(turn);
            let ended = self.at_end();
            if flags & net::MSG_DONTWAIT != 0 {
                return if ended && self.kind != Kind::Datagram { Ok(None) } else { Err(Errno::EAGAIN) };
            }
            if ended {
                return Ok(None);
            }
            let check =
                || (self.end.inbox.pushed() != seen || self.error.get().is_some() || self.at_end()).then_some(());
            wait(&self.readable, deadline, check)?;
        }
    }

    fn packet_behind(&self, mut skip: usize, turn: &Turn<'_>) -> Option<(Rc<Packet>, usize)> {
        for index in 0.. {
            let packet = self.end.inbox.get(index, turn)?;
            if skip < packet.left() || skip == 0 {
                return Some((packet, skip));
            }
            skip -= packet.left();
        }
        None
    }
}

impl Drop for Unix {
    fn drop(&mut self) {
        // Two that are connected refer to each other.
        self.end.set_peer(None);
    }
}

/// The next packet to receive: the receiver's turn, the packet, and the offset within it.
type Next<'a> = (Turn<'a>, Rc<Packet>, usize);
