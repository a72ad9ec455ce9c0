//! Netlink sockets, netlink(7): queries and changes of network configuration, rtnetlink(7), and queries of sockets, sock_diag(7).
//! Multicast groups get a message when the loopback device or its addresses change; listeners for devices get none.

mod change;
mod diag;
mod reply;
mod route;

pub use change::tell_link;

use super::message::{Control, Received, shown_credentials};
use super::netns::NetNs;
use super::options::{Options, Value, int, read_int};
use super::{Address, IN, OUT, Protocol, Socket, family_of, filter, wait};
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use file::caller::caller;
use file::{File, Queues};
use keel_core::pieces::Pieces;
use sched::wait::WaitQueue;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::{Dst, Src};

/// Protocols that exist: the network, sockets, events of devices.
const NETLINK_ROUTE: u32 = 0;
const NETLINK_SOCK_DIAG: u32 = 4;
const NETLINK_KOBJECT_UEVENT: u32 = 15;
/// Protocol numbers end here.
const MAX_PROTOCOL: i32 = 32;
/// Level of options.
const SOL_NETLINK: i32 = 270;
/// Bytes of `struct sockaddr_nl`.
const ADDRESS: usize = 12;
/// Largest request, and most bytes of answers that wait.
const MAX_REQUEST: usize = 65536;
const MAX_WAITING: usize = 1 << 20;

/// Addresses ("port ids") in use in a network namespace, by protocol and number.
pub type Numbers = BTreeMap<(u32, u32), ()>;
/// Sockets of a network namespace that are in a multicast group.
pub type Listeners = Pieces<Weak<Netlink>>;

/// A netlink socket.
pub struct Netlink {
    me: Weak<Self>,
    options: Options,
    net: Rc<NetNs>,
    protocol: u32,
    /// Own address; 0: none.
    id: Cell<u32>,
    groups: Cell<u32>,
    /// Options of the level SOL_NETLINK by number.
    switches: Cell<u32>,
    inbox: RefCell<Pieces<Rc<Vec<u8>>>>,
    waiting: Cell<usize>,
    error: Cell<Option<Errno>>,
    readable: Rc<WaitQueue>,
}

/// socket(2) for AF_NETLINK.
pub fn socket(kind: u32, protocol: i32, flags: u32) -> Result<Rc<File>> {
    if !matches!(kind, net::SOCK_RAW | net::SOCK_DGRAM) {
        return Err(Errno::ESOCKTNOSUPPORT);
    }
    let known = matches!(protocol as u32, NETLINK_ROUTE | NETLINK_SOCK_DIAG | NETLINK_KOBJECT_UEVENT);
    if !(0..MAX_PROTOCOL).contains(&protocol) || !known {
        return Err(Errno::EPROTONOSUPPORT);
    }
    let netlink = Rc::new_cyclic(|me: &Weak<Netlink>| Netlink {
        me: me.clone(),
        options: Options::default(),
        net: crate::caller::net(),
        protocol: protocol as u32,
        id: Cell::new(0),
        groups: Cell::new(0),
        switches: Cell::new(0),
        inbox: RefCell::default(),
        waiting: Cell::new(0),
        error: Cell::new(None),
        readable: Rc::default(),
    });
    Ok(Socket::open(net::AF_NETLINK, kind, protocol as u32, netlink, flags))
}

/// Number and groups of a `struct sockaddr_nl`. EINVAL.
fn parse(address: &[u8]) -> Result<(u32, u32)> {
    let word = |at: usize| address.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes);
    if address.len() < ADDRESS || family_of(address)? != net::AF_NETLINK {
        return Err(Errno::EINVAL);
    }
    Ok((word(4), word(8)))
}

fn address(id: u32, groups: u32) -> Address {
    let mut out = Address::from_slice(&net::AF_NETLINK.to_ne_bytes());
    out.extend_from_slice(&id.to_ne_bytes());
    out.extend_from_slice(&groups.to_ne_bytes());
    out
}

impl Netlink {
    /// Assigns an address; 0: the process id, or another one if that is in use. EADDRINUSE, EINVAL.
    fn take_id(&self, wanted: u32) -> Result<()> {
        if self.id.get() != 0 {
            return if wanted == 0 || wanted == self.id.get() { Ok(()) } else { Err(Errno::EINVAL) };
        }
        let mut bound = self.net.netlink.borrow_mut();
        let is_free = |id: u32| !bound.contains_key(&(self.protocol, id));
        let id = match wanted {
            0 => {
                let own = caller().shown(caller().pid()) as u32;
                // Others are negative numbers.
                core::iter::once(own).chain((0..=u32::MAX - 4096).rev()).find(|&id| is_free(id))
            }
            id => Some(id).filter(|&id| is_free(id)),
        };
        let id = id.ok_or(Errno::EADDRINUSE)?;
        bound.insert((self.protocol, id), ());
        self.id.set(id);
        Ok(())
    }

    /// Joins these multicast groups and leaves all others.
    fn set_groups(&self, groups: u32) {
        let joins = self.groups.replace(groups) == 0 && groups != 0;
        let mut listeners = self.net.listeners.borrow_mut();
        if joins || groups == 0 {
            listeners.retain(|one| one.strong_count() > 0 && !Weak::ptr_eq(one, &self.me));
        }
        if joins && self.protocol == NETLINK_ROUTE {
            listeners.push_back(self.me.clone());
        }
    }

    /// Queues a message that nobody asked for; it is lost if there is no room.
    pub fn deliver(&self, message: &[u8]) {
        match vfs::memory::copy(message) {
            Ok(message) => self.answer(message),
            Err(_) => self.error.set(Some(Errno::ENOBUFS)),
        }
        self.readable.wake_all();
    }

    /// Queues an answer.
    fn answer(&self, message: Vec<u8>) {
        let Some(kept) = filter::keeps(&self.options, &[], &message).filter(|&kept| kept > 0) else { return };
        let mut message = message;
        message.truncate(kept);
        if self.waiting.get() > MAX_WAITING {
            self.error.set(Some(Errno::ENOBUFS));
            return;
        }
        self.waiting.set(self.waiting.get() + message.len());
        self.inbox.borrow_mut().push_back(Rc::new(message));
    }
}

/// Sends a message to the members of multicast group number `group` of a namespace.
fn notify(ns: &NetNs, group: u32, message: &[u8]) {
    let listeners = ns.listeners.borrow();
    for netlink in listeners.iter().filter_map(Weak::upgrade) {
        if netlink.groups.get() >> (group - 1) & 1 == 0 {
            continue;
        }
        netlink.deliver(message);
    }
}

/// The netlink socket behind a file. ENOTSOCK; EINVAL: a socket of another family.
pub fn of(file: &File) -> Result<Rc<Netlink>> {
    let socket = file.downcast::<Socket>().ok_or(Errno::ENOTSOCK)?;
    let netlink = socket.ops.as_any().downcast_ref::<Netlink>();
    netlink.and_then(|netlink| netlink.me.upgrade()).ok_or(Errno::EINVAL)
}

impl Protocol for Netlink {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn net(&self) -> &Rc<NetNs> {
        &self.net
    }

    fn bind(&self, to: &[u8]) -> Result<()> {
        let (id, groups) = parse(to)?;
        self.take_id(id)?;
        self.set_groups(groups);
        Ok(())
    }

    fn connect(&self, to: &[u8], _nonblocking: bool) -> Result<()> {
        if family_of(to)? == net::AF_UNSPEC {
            return Ok(());
        }
        let (id, groups) = parse(to)?;
        // The kernel is the only peer.
        if id != 0 || groups != 0 {
            return Err(Errno::EPERM);
        }
        self.take_id(0)
    }

    fn local(&self) -> Result<Address> {
        Ok(address(self.id.get(), self.groups.get()))
    }

    fn peer(&self) -> Result<Address> {
        Ok(address(0, 0))
    }

    fn send(&self, src: &mut dyn Src, to: Option<&[u8]>, control: Control, flags: u32) -> Result<usize> {
        control.check_general()?;
        if flags & net::MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if src.remaining() == 0 {
            return Err(Errno::ENODATA);
        }
        if let Some(to) = to {
            let (id, groups) = parse(to)?;
            if id != 0 || groups != 0 {
                return Err(if groups != 0 { Errno::EPERM } else { Errno::ECONNREFUSED });
            }
        }
        self.take_id(0)?;
        let size = src.remaining();
        if size > MAX_REQUEST {
            return Err(Errno::EMSGSIZE);
        }
        let mut data = vfs::memory::buffer(size)?;
        if size > 0 && src.get(&mut data)? < size {
            return Err(Errno::EFAULT);
        }
        let handle = match self.protocol {
            NETLINK_ROUTE => route::handle,
            NETLINK_SOCK_DIAG => diag::handle,
            _ => return Err(Errno::ECONNREFUSED),
        };
        reply::answers(&self.net, &data, self.id.get(), handle, |message| self.answer(message));
        self.readable.wake_all();
        Ok(size)
    }

    fn receive(&self, dst: &mut dyn Dst, want_from: bool, flags: u32) -> Result<Received> {
        if flags & net::MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let peek = flags & net::MSG_PEEK != 0;
        let take = || {
            if let Some(errno) = self.error.take() {
                return Some(Err(errno));
            }
            let mut inbox = self.inbox.borrow_mut();
            let message = if peek { inbox.front().cloned() } else { inbox.pop_front() };
            message.map(Ok)
        };
        let message = match take() {
            Some(message) => message?,
            None if flags & net::MSG_DONTWAIT != 0 => return Err(Errno::EAGAIN),
            None => wait(&self.readable, self.options.receive_deadline(), take)??,
        };
        if !peek {
            self.waiting.set(self.waiting.get().saturating_sub(message.len()));
        }
        let n = message.len().min(dst.remaining());
        dst.put_all(&message[..n])?;
        let len = if flags & net::MSG_TRUNC != 0 { message.len() } else { n };
        let mut received = Received { len, ..Received::default() };
        if n < message.len() {
            received.flags |= net::MSG_TRUNC;
        }
        // The kernel is no process, and its ids are root's.
        received.credentials = self.options.pass_credentials.get().then(|| shown_credentials([0; 3]));
        if want_from {
            received.from = Some(address(0, 0));
        }
        Ok(received)
    }

    fn shutdown(&self, _read: bool, _write: bool) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    fn poll(&self) -> u32 {
        let error = if self.error.get().is_some() { uapi::raw::general::POLLERR } else { 0 };
        OUT | uapi::raw::general::POLLWRBAND | error | if self.inbox.borrow().is_empty() { 0 } else { IN }
    }

    fn poll_queues(&self, _events: u32, out: &mut Queues) {
        out.push(self.readable.clone());
    }

    fn queued(&self, _sent: bool) -> Result<usize> {
        Err(Errno::ENOTTY)
    }

    fn take_error(&self) -> Option<Errno> {
        self.error.take()
    }

    fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        if level as u32 == net::SOL_SOCKET && name as u32 == net::SO_PEEK_OFF {
            return Err(Errno::EOPNOTSUPP);
        }
        if level != SOL_NETLINK || !(1..=12).contains(&name) {
            return Err(Errno::ENOPROTOOPT);
        }
        let number = read_int(value)?;
        // NETLINK_ADD_MEMBERSHIP, NETLINK_DROP_MEMBERSHIP.
        if name <= 2 {
            if !(1..=32).contains(&number) {
                return Err(Errno::EINVAL);
            }
            let (bit, groups) = (1 << (number - 1), self.groups.get());
            self.set_groups(if name == 1 { groups | bit } else { groups & !bit });
            return Ok(());
        }
        let (bit, switches) = (1 << name, self.switches.get());
        self.switches.set(if number != 0 { switches | bit } else { switches & !bit });
        Ok(())
    }

    fn get_option(&self, level: i32, name: i32) -> Result<Value> {
        match name {
            // NETLINK_LIST_MEMBERSHIPS.
            9 if level == SOL_NETLINK => Ok(Value::from_slice(&self.groups.get().to_ne_bytes())),
            _ if level as u32 == net::SOL_SOCKET && name as u32 == net::SO_PEEK_OFF => Err(Errno::EOPNOTSUPP),
            3..=12 if level == SOL_NETLINK => Ok(int((self.switches.get() >> name & 1) as i32)),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn release(&self) {
        self.set_groups(0);
        if self.id.get() != 0 {
            self.net.netlink.borrow_mut().remove(&(self.protocol, self.id.get()));
        }
    }
}
