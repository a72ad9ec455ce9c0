//! Port numbers: bound sockets, sharing rules, and lookup of receivers.

use super::Base;
use super::address::Endpoint;
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use core::cell::RefCell;
use core::net::IpAddr;
use keel_core::pieces::Pieces;
use sched::random;
use smallvec::SmallVec;
use uapi::raw::net;
use uapi::{Errno, Result};

/// How long the active closer's end of a connection keeps its port: `TCP_TIMEWAIT_LEN`.
const TIME_WAIT_NS: u64 = 60_000_000_000;
/// Number of ended connections at which expired ones are removed.
const SWEEP_AT: usize = 4096;

/// A socket that holds a port.
pub trait Member {
    /// The common state.
    fn base(&self) -> &Base;
    /// Whether it listens.
    fn is_listening(&self) -> bool;
}

/// A connection in TIME_WAIT.
#[derive(Debug)]
struct Ended {
    ip: IpAddr,
    reuse: bool,
    until_ns: u64,
}

struct Port<T> {
    members: Pieces<Weak<T>>,
    ended: Pieces<Ended>,
}

impl<T> Default for Port<T> {
    fn default() -> Self {
        Self { members: Pieces::new(), ended: Pieces::new() }
    }
}

/// The ports of a protocol.
pub struct Ports<T> {
    ports: RefCell<BTreeMap<u16, Port<T>>>,
    ended: core::cell::Cell<usize>,
}

/// A socket's properties for binding a port.
struct Wish<'a> {
    base: &'a Base,
    ip: IpAddr,
    /// It may share an automatically chosen port with other sockets that permit it.
    relaxed: bool,
}

/// Whether two addresses overlap; the unspecified address overlaps all.
fn overlap(a: IpAddr, a_only6: bool, b: IpAddr, b_only6: bool) -> bool {
    if a == b || a.is_ipv4() == b.is_ipv4() {
        return a == b || a.is_unspecified() || b.is_unspecified();
    }
    let covers = |six: IpAddr, only: bool| six.is_ipv6() && six.is_unspecified() && !only;
    covers(a, a_only6) || covers(b, b_only6)
}

impl Wish<'_> {
    /// Whether a socket that holds the port rules this one out.
    fn conflicts(&self, other: &Base, listening: bool) -> bool {
        let (mine, theirs) = (&self.base.options, &other.options);
        let both = |name| mine.is_on(name) && theirs.is_on(name);
        if both(net::SO_REUSEPORT) && self.base.uid == other.uid {
            return false;
        }
        if both(net::SO_REUSEADDR) && !listening && self.relaxed {
            return false;
        }
        overlap(self.ip, self.base.only_v6(), other.local.get().ip, other.only_v6())
    }

    fn conflicts_with_ended(&self, ended: &Ended) -> bool {
        let shares = ended.reuse && self.base.options.is_on(net::SO_REUSEADDR) && self.relaxed;
        !shares && overlap(self.ip, self.base.only_v6(), ended.ip, false)
    }
}

impl<T: Member> Ports<T> {
    /// The port is free.
    pub const fn new() -> Self {
        Self { ports: RefCell::new(BTreeMap::new()), ended: core::cell::Cell::new(0) }
    }

    fn members(&self, port: u16) -> impl Iterator<Item = Rc<T>> + '_ {
        let member = move |i| self.ports.borrow().get(&port)?.members.get(i).cloned();
        (0..).map_while(member).filter_map(|member: Weak<T>| member.upgrade())
    }

    fn is_free_for(&self, port: u16, wish: &Wish<'_>, except: &T) -> bool {
        let now = hal::clock::monotonic_ns();
        let members_agree = self.members(port).all(|member| {
            core::ptr::eq(&raw const *member, except) || !wish.conflicts(member.base(), member.is_listening())
        });
        let ports = self.ports.borrow();
        let ended = ports.get(&port).map(|p| p.ended.iter());
        members_agree && !ended.into_iter().flatten().any(|e| e.until_ns > now && wish.conflicts_with_ended(e))
    }

    /// Whether `socket` could still bind its port: listen(2) checks again.
    pub fn still_free(&self, socket: &T) -> bool {
        let base = socket.base();
        let local = base.local.get();
        self.is_free_for(local.port, &Wish { base, ip: local.ip, relaxed: true }, socket)
    }

    /// Ephemeral ports, all of them, from a random one on.
    fn candidates(base: &Base) -> impl Iterator<Item = u16> + use<T> {
        let [first, last] = base.net.settings.ephemeral.get().map(u32::from);
        let count = (last + 1).saturating_sub(first).max(1);
        let start = u32::from(u16::from_ne_bytes(random::bytes())) % count;
        (0..count).map(move |i| (first + (start + i) % count) as u16)
    }

    /// Gives `socket` the address, or a free port if it has none. EADDRINUSE.
    pub fn bind(&self, socket: &Rc<T>, to: Endpoint) -> Result<()> {
        let base = socket.base();
        let wish = Wish { base, ip: to.ip, relaxed: to.port != 0 };
        let port = match to.port {
            0 => Self::candidates(base).find(|&port| self.is_free_for(port, &wish, socket)),
            port => Some(port).filter(|&port| self.is_free_for(port, &wish, socket)),
        };
        let port = port.ok_or(Errno::EADDRINUSE)?;
        base.local.set(Endpoint { ip: to.ip, port });
        self.join(port, socket);
        Ok(())
    }

    /// Binds `socket` to a port for a connection to `to`: an unused one, or one whose users are connected elsewhere.
    /// EADDRNOTAVAIL.
    pub fn bind_for(&self, socket: &Rc<T>, ip: IpAddr, to: Endpoint) -> Result<()> {
        let base = socket.base();
        let nobody = |port: &u16| self.ports.borrow().get(port).is_none_or(|p| p.members.is_empty());
        let elsewhere =
            |port: &u16| self.members(*port).all(|m| m.base().remote.get().is_some_and(|remote| remote != to));
        // Few tries usually do; the pod has hardly more connections than ports.
        let port = Self::candidates(base).find(nobody).or_else(|| Self::candidates(base).find(elsewhere));
        let port = port.ok_or(Errno::EADDRNOTAVAIL)?;
        socket.base().local.set(Endpoint { ip, port });
        self.join(port, socket);
        Ok(())
    }

    /// Whether a socket holds the port.
    pub fn is_used(&self, port: u16) -> bool {
        self.ports.borrow().get(&port).is_some_and(|port| !port.members.is_empty())
    }

    /// `socket` holds `port` too.
    pub fn join(&self, port: u16, socket: &Rc<T>) {
        let mut ports = self.ports.borrow_mut();
        let entry = ports.entry(port).or_default();
        entry.members.push_back(Rc::downgrade(socket));
    }

    /// Releases the port of `socket`, if it has one.
    pub fn leave(&self, socket: &T) {
        let port = socket.base().local.get().port;
        let mut ports = self.ports.borrow_mut();
        if let Some(entry) = ports.get_mut(&port) {
            entry.members.retain(|member| !core::ptr::eq(member.as_ptr(), socket));
            if entry.members.is_empty() && entry.ended.is_empty() {
                ports.remove(&port);
            }
        }
    }

    /// A connection of `socket`'s port was closed on this side first.
    pub fn ended(&self, base: &Base) {
        let now = hal::clock::monotonic_ns();
        let local = base.local.get();
        let mut ports = self.ports.borrow_mut();
        if self.ended.get() >= SWEEP_AT {
            for port in ports.values_mut() {
                port.ended.retain(|ended| ended.until_ns > now);
            }
            ports.retain(|_, port| !port.members.is_empty() || !port.ended.is_empty());
            self.ended.set(ports.values().map(|port| port.ended.len()).sum());
        }
        let entry = ports.entry(local.port).or_default();
        let reuse = base.options.is_on(net::SO_REUSEADDR);
        let until_ns = now + TIME_WAIT_NS;
        let known = entry.ended.iter_mut().find(|ended| ended.ip == local.ip && ended.reuse == reuse);
        if known.map(|ended| ended.until_ns = until_ns).is_none() {
            entry.ended.push_back(Ended { ip: local.ip, reuse, until_ns });
            self.ended.set(self.ended.get() + 1);
        }
    }

    /// The sockets with the highest `score` for the destination `to`.
    pub fn best(&self, to: Endpoint, score: impl Fn(&T) -> Option<u32>) -> SmallVec<[Rc<T>; 2]> {
        let mut best = (0, SmallVec::new());
        for member in self.members(to.port) {
            let Some(score) = score(&member) else { continue };
            if score > best.0 {
                best = (score, SmallVec::new());
            }
            // Without memory for more, one of those that are found is chosen.
            if score == best.0 && best.1.try_reserve(1).is_ok() {
                best.1.push(member);
            }
        }
        best.1
    }

    /// All that hold a port, by port.
    pub fn all(&self) -> impl Iterator<Item = Rc<T>> + '_ {
        let mut next = Some(0);
        let used = core::iter::from_fn(move || {
            let port = *self.ports.borrow().range(next?..).next()?.0;
            next = port.checked_add(1);
            Some(port)
        });
        used.flat_map(|port| self.members(port))
    }
}
