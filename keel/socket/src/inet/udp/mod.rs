//! UDP, udp(7), between sockets of the pod, and with peers outside ([`Flow`]).

mod outward;
mod ping;
mod queue;
mod transfer;

use super::super::message::{Control, Received};
use super::super::netns::NetNs;
use super::super::options::{Options, Value, int, read_int};
use super::super::{Address, IN, OUT, Protocol, Usage, family_of, wait};
use super::address::Reach;
use super::outward::flow::{Flow, Publisher};
use super::outward::settle::{Under, settle};
use super::ports::{Member, Ports};
use super::{Base, Endpoint, ip_options};
use abi::request::Transport;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use file::lock::SleepLock;
use file::sigio::Change;
use file::{File, Queues};
use mm::user;
use queue::{Inbox, Reports};
use sched::timer;
use sched::wait::WaitQueue;
use transfer::Pending;
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::{Dst, Src};

/// SOL_UDP option: collects data into one datagram until it is cleared.
const UDP_CORK: u32 = 1;
/// Datagrams to IPv6 without a checksum are sent, and received.
const UDP_NO_CHECK6_TX: u32 = 101;
const UDP_NO_CHECK6_RX: u32 = 102;
/// Splits sent data into datagrams of this size.
pub(super) const UDP_SEGMENT: u32 = 103;
/// Datagrams that were sent together are received together.
pub(super) const UDP_GRO: u32 = 104;
/// Options of the level SOL_UDPLITE.
const UDPLITE_SEND_CSCOV: u32 = 10;
const UDPLITE_RECV_CSCOV: u32 = 11;

/// The protocol of a socket of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UDP.
    Udp,
    /// UDP-Lite.
    Lite,
    /// ICMP's echo.
    Ping,
}

/// A socket of datagrams.
pub struct Udp {
    me: Weak<Self>,
    base: Base,
    kind: Kind,
    /// Bytes that checksums cover: those sent, and the fewest received (UDP-Lite).
    coverage: [Cell<i32>; 2],
    inbox: Inbox,
    reports: Reports,
    error: Cell<Option<Errno>>,
    read_ended: Cell<bool>,
    write_ended: Cell<bool>,
    /// `UDP_CORK`.
    corked: Cell<bool>,
    /// `UDP_NO_CHECK6_TX` and `UDP_NO_CHECK6_RX`.
    unchecked: [Cell<bool>; 2],
    /// `UDP_SEGMENT`; 0: off.
    segment: Cell<u16>,
    /// `UDP_GRO`.
    joins: Cell<bool>,
    /// A datagram that is being put together (`MSG_MORE`).
    pending: RefCell<Option<Pending>>,
    /// Serialises receivers.
    receiving: SleepLock,
    readable: Rc<WaitQueue>,
    /// Peers outside, the last used one last.
    flows: RefCell<Vec<Rc<Flow>>>,
    /// Where the host's peers come from.
    publisher: RefCell<Option<Rc<Publisher>>>,
    /// A sender found no room.
    wants_room: Cell<bool>,
    /// Arrival time of the last received datagram, in ns; 0: none.
    last_ns: Cell<u64>,
    /// `SO_PEEK_OFF`; negative: off.
    peek_offset: Cell<i32>,
}

impl Member for Udp {
    fn base(&self) -> &Base {
        &self.base
    }
    fn is_listening(&self) -> bool {
        false
    }
}

impl Udp {
    /// A new socket of `AF_INET` or `AF_INET6`.
    pub fn new(family: u32, kind: Kind) -> Rc<Self> {
        let new = Self::new_cyclic(family, kind);
        if kind == Kind::Ping {
            new.base.options.share_ports();
        }
        if new.base.net.device().is_some() {
            new.readable.mark_outside();
        }
        new
    }

    fn new_cyclic(family: u32, kind: Kind) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            base: Base::new(family, false, Options::default()),
            kind,
            coverage: Default::default(),
            inbox: Inbox::default(),
            reports: Reports::default(),
            error: Cell::new(None),
            read_ended: Cell::new(false),
            write_ended: Cell::new(false),
            corked: Cell::new(false),
            unchecked: Default::default(),
            segment: Cell::new(0),
            joins: Cell::new(false),
            pending: RefCell::default(),
            receiving: SleepLock::default(),
            readable: Rc::default(),
            flows: RefCell::default(),
            publisher: RefCell::default(),
            wants_room: Cell::new(false),
            last_ns: Cell::new(0),
            peek_offset: Cell::new(-1),
        })
    }

    /// The ports of its protocol.
    fn ports(&self) -> &Ports<Udp> {
        match self.kind {
            Kind::Udp => &self.base.net.udp,
            Kind::Lite => &self.base.net.udp_lite,
            Kind::Ping => &self.base.net.echoes,
        }
    }

    /// Common part.
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Bytes that wait with their overhead, and datagrams that were lost.
    pub fn usage(&self) -> (usize, u64) {
        self.inbox.usage()
    }

    /// Gets a port, if it has none.
    fn autobind(&self) -> Result<()> {
        let local = self.base.local.get();
        if local.port == 0 {
            if self.is_host() {
                let bound = self.bind_host(local);
                // Another thread may have been faster.
                return if self.base.local.get().port == 0 { bound } else { Ok(()) };
            }
            let me = self.me.upgrade().ok_or(Errno::EINVAL)?;
            self.ports().bind(&me, local).map_err(|_| Errno::EAGAIN)?;
            self.ports().join_group(self);
        }
        Ok(())
    }

    fn disconnect(&self) {
        self.close_flows(None);
        if self.base.unname() {
            self.unpublish();
            self.ports().leave(self);
            self.base.forget_port();
        }
    }

    /// A destination, IPv4's also as such. As [`Base::destination`].
    fn target(&self, address: &[u8]) -> Result<Endpoint> {
        let family = family_of(address)?;
        if self.base.family == net::AF_INET6 && family == net::AF_INET {
            if self.base.only_v6() {
                return Err(Errno::ENETUNREACH);
            }
            return Endpoint::parse(address, net::AF_INET);
        }
        self.base.destination(address)
    }

    /// Route of a destination. ENETUNREACH; EACCES for broadcasts without SO_BROADCAST.
    fn route(&self, to: Endpoint) -> Result<(Endpoint, Reach)> {
        let (to, reach) = self.base.resolve(to)?;
        match reach {
            // These protocols are the pod's own there, even in one with the host's network.
            Reach::Outward if to.ip.is_loopback() && self.kind != Kind::Udp => Ok((to, Reach::Loopback)),
            Reach::Broadcast if !self.base.options.is_on(net::SO_BROADCAST) => Err(Errno::EACCES),
            // Only the loopback device could accept it, and only if it was selected.
            Reach::Multicast if !self.base.ip.sends_to_groups(to.ip) && !self.base.options.on_loopback() => {
                Err(Errno::ENETUNREACH)
            }
            _ => Ok((to, reach)),
        }
    }
}

impl Protocol for Udp {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn options(&self) -> &Options {
        &self.base.options
    }

    fn net(&self) -> &Rc<NetNs> {
        &self.base.net
    }

    fn opened(&self, file: &Rc<File>, ino: u64) {
        self.base.opened(file, ino);
    }

    fn bind(&self, address: &[u8]) -> Result<()> {
        if self.is_ping() {
            return self.bind_identifier(address);
        }
        let to = self.base.bindable(address)?;
        if self.is_host() {
            return if self.base.bind_later(Transport::Udp, to)? { Ok(()) } else { self.bind_host(to) };
        }
        let me = self.me.upgrade().ok_or(Errno::EINVAL)?;
        self.base.bind(&me, self.ports(), to)?;
        if self.base.local.get().port != 0 {
            self.ports().join_group(self);
        }
        if to.port != 0 {
            self.publish();
        }
        Ok(())
    }

    fn connect(&self, address: &[u8], _nonblocking: bool) -> Result<()> {
        if family_of(address)? == net::AF_UNSPEC {
            self.disconnect();
            return Ok(());
        }
        self.autobind()?;
        let (to, reach) = self.route(self.target(address)?)?;
        let local = self.base.local.get();
        let mut source = self.base.source_by(to.ip, reach)?;
        let peer = if self.is_ping() { Endpoint { port: 0, ..to } } else { to };
        if reach == Reach::Outward && (to.port != 0 || self.is_ping()) {
            match self.open_flow(peer, None) {
                // As with a firewall, what is sent is denied: programs connect a socket only to learn its address.
                Err(Errno::EACCES) if !self.is_ping() => {}
                // What the host chose, in a pod with its network.
                other => source = other?.local.map_or(source, |local| local.ip),
            }
        }
        self.close_flows(Some(peer));
        self.base.local.set(Endpoint { ip: source, ..local });
        self.base.remote.set(Some(to));
        Ok(())
    }

    fn local(&self) -> Result<Address> {
        Ok(self.base.local_address())
    }

    fn peer(&self) -> Result<Address> {
        let remote = self.base.remote.get().filter(|remote| remote.port != 0).ok_or(Errno::ENOTCONN)?;
        Ok(remote.to_bytes(self.base.family))
    }

    fn send(&self, src: &mut dyn Src, to: Option<&[u8]>, control: Control, flags: u32) -> Result<usize> {
        match self.kind {
            Kind::Ping => self.send_echo(src, to, &control, flags),
            Kind::Udp | Kind::Lite => self.send_datagram(src, to, &control, flags),
        }
    }

    fn receive(&self, dst: &mut dyn Dst, want_from: bool, flags: u32) -> Result<Received> {
        self.receive_datagram(dst, want_from, flags)
    }

    fn shutdown(&self, read: bool, write: bool) -> Result<()> {
        self.read_ended.set(self.read_ended.get() | read);
        self.write_ended.set(self.write_ended.get() | write);
        self.readable.wake_all();
        if self.base.remote.get().is_some() { Ok(()) } else { Err(Errno::ENOTCONN) }
    }

    fn poll(&self) -> u32 {
        if self.inbox.is_empty() {
            self.missed();
        }
        let mut events = 0;
        if self.has_room() {
            events |= OUT | g::POLLWRBAND;
        } else {
            self.wants_room.set(true);
        }
        let reports = !self.reports.is_empty() || !self.base.completions.is_empty();
        if self.error.get().is_some() || reports {
            events |= g::POLLERR;
            if self.base.options.is_on(net::SO_SELECT_ERR_QUEUE) {
                events |= g::POLLPRI;
            }
        }
        if self.read_ended.get() {
            events |= IN | g::POLLRDHUP;
            if self.write_ended.get() {
                events |= g::POLLHUP;
            }
        }
        if !self.inbox.is_empty() {
            events |= IN;
        }
        events
    }

    fn change(&self, reads: bool) -> Option<Change> {
        Some(if self.error.get().is_some() { Change::Error } else { Change::usual(reads) })
    }

    fn poll_queues(&self, _events: u32, out: &mut Queues) {
        out.push(self.readable.clone());
    }

    fn queued(&self, sent: bool) -> Result<usize> {
        if sent {
            // What is sent is at its receiver, or lost, at once.
            return Ok(self.pending.borrow().as_ref().map_or(0, |pending| queue::charge(pending.data.len())));
        }
        settle(Under::Data);
        Ok(self.inbox.front().map_or(0, |datagram| datagram.data.len()))
    }

    fn ioctl(&self, command: u32, arg: usize) -> Result<usize> {
        if !super::is_stamp(command) {
            return self.base.ioctl(command, arg);
        }
        let stamp = match (self.last_ns.get(), command) {
            (0, _) => return Err(Errno::ENOENT),
            (ns, net::SIOCGSTAMP_OLD | uapi::raw::ioctl::SIOCGSTAMP_NEW) => timer::timeval(ns),
            (ns, _) => timer::timespec(ns),
        };
        user::write(arg, &stamp)?;
        Ok(0)
    }

    fn usage(&self) -> Usage {
        let (received, drops) = self.inbox.usage();
        Usage { received, drops, sent: 0 }
    }

    fn take_error(&self) -> Option<Errno> {
        self.error.take()
    }

    fn set_error(&self, errno: Errno) {
        self.error.set(Some(errno));
        self.readable.wake_all();
    }

    fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        match (level as u32, name as u32) {
            (super::IPPROTO_UDPLITE, UDPLITE_SEND_CSCOV | UDPLITE_RECV_CSCOV) if self.kind == Kind::Lite => {
                // Headers are always included; 0 means the whole datagram.
                let bytes = match read_int(value)? {
                    0 => 0,
                    bytes => bytes.clamp(8, 0xffff),
                };
                self.coverage[name as usize - UDPLITE_SEND_CSCOV as usize].set(bytes);
                Ok(())
            }
            // An echo socket has no such options.
            (super::IPPROTO_UDP, _) if self.is_ping() => Err(Errno::ENOPROTOOPT),
            (super::IPPROTO_UDP, UDP_CORK) => {
                self.corked.set(read_int(value)? != 0);
                if !self.corked.get() {
                    self.push_pending()?;
                }
                Ok(())
            }
            (super::IPPROTO_UDP, UDP_NO_CHECK6_TX | UDP_NO_CHECK6_RX) => {
                self.unchecked[(name as u32 - UDP_NO_CHECK6_TX) as usize].set(read_int(value)? != 0);
                self.update_told();
                Ok(())
            }
            (super::IPPROTO_UDP, UDP_SEGMENT) => {
                self.segment.set(u16::try_from(read_int(value)?).map_err(|_| Errno::EINVAL)?);
                Ok(())
            }
            (super::IPPROTO_UDP, UDP_GRO) => {
                self.joins.set(read_int(value)? != 0);
                self.update_told();
                Ok(())
            }
            (net::SOL_SOCKET, net::SO_PEEK_OFF) => {
                self.peek_offset.set(read_int(value)?);
                Ok(())
            }
            (super::IPPROTO_UDP | net::SOL_SOCKET, _) => Err(Errno::ENOPROTOOPT),
            _ => {
                ip_options::set(&self.base, level, name, value)?;
                self.update_told();
                let ip = &self.base.ip;
                if !ip.is_on(net::IP_RECVERR) && !ip.is_on6(net::IPV6_RECVERR) {
                    self.reports.clear();
                }
                Ok(())
            }
        }
    }

    fn get_option(&self, level: i32, name: i32) -> Result<Value> {
        match (level as u32, name as u32) {
            (super::IPPROTO_UDPLITE, UDPLITE_SEND_CSCOV) if self.kind == Kind::Lite => Ok(int(self.coverage[0].get())),
            (super::IPPROTO_UDPLITE, UDPLITE_RECV_CSCOV) if self.kind == Kind::Lite => Ok(int(self.coverage[1].get())),
            (super::IPPROTO_UDP, _) if self.is_ping() => Err(Errno::ENOPROTOOPT),
            (super::IPPROTO_UDP, UDP_CORK) => Ok(int(i32::from(self.corked.get()))),
            (super::IPPROTO_UDP, UDP_NO_CHECK6_TX) => Ok(int(i32::from(self.unchecked[0].get()))),
            (super::IPPROTO_UDP, UDP_NO_CHECK6_RX) => Ok(int(i32::from(self.unchecked[1].get()))),
            (super::IPPROTO_UDP, UDP_SEGMENT) => Ok(int(i32::from(self.segment.get()))),
            (super::IPPROTO_UDP, UDP_GRO) => Ok(int(i32::from(self.joins.get()))),
            (net::SOL_SOCKET, net::SO_PEEK_OFF) => Ok(int(self.peek_offset.get())),
            (super::IPPROTO_UDP | net::SOL_SOCKET, _) => Err(Errno::ENOPROTOOPT),
            _ => ip_options::get(&self.base, level, name),
        }
    }

    fn release(&self) {
        self.inbox.clear();
        self.read_ended.set(true);
        self.close_outward();
        self.ports().leave(self);
        self.readable.wake_all();
    }
}
