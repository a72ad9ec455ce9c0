//! Port numbers: bound sockets, sharing rules, and lookup of receivers.

use super::super::group;
use super::Base;
use super::address::Endpoint;
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use core::cell::{Cell, RefCell};
use core::net::{IpAddr, Ipv4Addr};
use keel_core::pieces::Pieces;
use sched::random;
use smallvec::SmallVec;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Seconds for which the active closer's end of a connection keeps its port: `TCP_TIMEWAIT_LEN`.
const TIME_WAIT: u32 = 60;
/// Ended connections that are kept, as `net.ipv4.tcp_max_tw_buckets` bounds them in Linux by the memory: in a small pod, and in others.
const MOST_ENDED_SMALL: usize = 256;
const MOST_ENDED: usize = 4096;

/// A socket that holds a port.
pub trait Member {
    /// The common state.
    fn base(&self) -> &Base;
    /// Whether it listens.
    fn is_listening(&self) -> bool;
}

/// A port's connections in TIME_WAIT that have the same address, and `SO_REUSEADDR` or not.
type Ended = (u16, IpAddr, bool);

struct Port<T> {
    members: Pieces<Weak<T>>,
}

impl<T> Default for Port<T> {
    fn default() -> Self {
        Self { members: Pieces::new() }
    }
}

/// The ports of a protocol.
pub struct Ports<T> {
    ports: RefCell<BTreeMap<u16, Port<T>>>,
    /// When they are over, in seconds of the monotonic clock.
    ended: RefCell<BTreeMap<Ended, u32>>,
    /// When the first of them is over.
    sweep_at: Cell<u32>,
}

/// A socket's properties for binding a port.
struct Wish<'a> {
    base: &'a Base,
    ip: IpAddr,
    /// It may share an automatically chosen port with other sockets that permit it.
    relaxed: bool,
}

/// The monotonic clock.
fn seconds() -> u32 {
    (hal::clock::monotonic_ns() / 1_000_000_000) as u32
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

    fn conflicts_with_ended(&self, &(_, ip, reuse): &Ended) -> bool {
        let shares = reuse && self.base.options.is_on(net::SO_REUSEADDR) && self.relaxed;
        !shares && overlap(self.ip, self.base.only_v6(), ip, false)
    }
}

/// The one of several sockets that match equally well, in the order in which they were bound: the last one, or, if that has
/// `SO_REUSEPORT`, the one among those that share the port with it that their program chooses by the content, or the sender's
/// port selects.
pub fn select<T: Member>(mut found: SmallVec<[Rc<T>; 2]>, from: Endpoint, content: &[u8]) -> Option<Rc<T>> {
    let last = found.last()?.base();
    if !last.options.is_on(net::SO_REUSEPORT) {
        return found.pop();
    }
    let group = last.options.group.borrow().clone();
    let all = found.iter().map(|member| &member.base().options);
    if let Some(chosen) = group.and_then(|group| group.choose(content, all)) {
        return Some(found.swap_remove(chosen));
    }
    let last = found.last()?.base();
    let uid = last.uid;
    found.retain(|member| member.base().options.is_on(net::SO_REUSEPORT) && member.base().uid == uid);
    let chosen = usize::from(from.port) % found.len().max(1);
    if chosen < found.len() { Some(found.swap_remove(chosen)) } else { None }
}

impl<T: Member> Ports<T> {
    /// The port is free.
    pub const fn new() -> Self {
        Self { ports: RefCell::new(BTreeMap::new()), ended: RefCell::new(BTreeMap::new()), sweep_at: Cell::new(0) }
    }

    fn members(&self, port: u16) -> impl Iterator<Item = Rc<T>> + '_ {
        let member = move |i| self.ports.borrow().get(&port)?.members.get(i).cloned();
        (0..).map_while(member).filter_map(|member: Weak<T>| member.upgrade())
    }

    fn is_free_for(&self, port: u16, wish: &Wish<'_>, except: &T) -> bool {
        let members_agree = self.members(port).all(|member| {
            core::ptr::eq(&raw const *member, except) || !wish.conflicts(member.base(), member.is_listening())
        });
        let (now, ended) = (seconds(), self.ended.borrow());
        let first = (port, IpAddr::V4(Ipv4Addr::UNSPECIFIED), false);
        let mut of_port = ended.range(first..).take_while(|((of, ..), _)| *of == port);
        members_agree && !of_port.any(|(ended, until)| *until > now && wish.conflicts_with_ended(ended))
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

    /// `socket`, which holds a port and listens if it can, joins those with which it shares its address.
    pub fn join_group(&self, socket: &T) {
        let (base, local) = (socket.base(), socket.base().local.get());
        let shares = |other: &Base| {
            let same = (other.uid, other.family, other.only_v6()) == (base.uid, base.family, base.only_v6());
            same && other.local.get() == local && other.options.is_on(net::SO_REUSEPORT)
        };
        let group_of = |member: Rc<T>| {
            let other = member.base();
            let group = other.options.group.borrow().clone()?;
            (!core::ptr::eq(other, base) && shares(other) && group.has(&other.options)).then_some(group)
        };
        let others =
            if base.options.is_on(net::SO_REUSEPORT) { self.members(local.port).find_map(group_of) } else { None };
        group::join(&base.options, others);
    }

    /// Releases the port of `socket`, if it has one.
    pub fn leave(&self, socket: &T) {
        group::leave(&socket.base().options);
        let port = socket.base().local.get().port;
        let mut ports = self.ports.borrow_mut();
        if let Some(entry) = ports.get_mut(&port) {
            entry.members.retain(|member| !core::ptr::eq(member.as_ptr(), socket));
            if entry.members.is_empty() {
                ports.remove(&port);
            }
        }
    }

    /// A connection of `socket`'s port was closed on this side first. Where there are too many, its port is free at once, as in Linux.
    pub fn ended(&self, base: &Base) {
        let (now, local) = (seconds(), base.local.get());
        let most = if hal::frame::is_small() { MOST_ENDED_SMALL } else { MOST_ENDED };
        let mut ended = self.ended.borrow_mut();
        if ended.len() >= most && now >= self.sweep_at.get() {
            ended.retain(|_, until| *until > now);
            self.sweep_at.set(ended.values().min().copied().unwrap_or(0));
        }
        // A second that has begun counts as none.
        let until = now.saturating_add(TIME_WAIT + 1);
        let entry = (local.port, local.ip, base.options.is_on(net::SO_REUSEADDR));
        if ended.len() < most {
            ended.insert(entry, until);
        } else if let Some(known) = ended.get_mut(&entry) {
            *known = until;
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
