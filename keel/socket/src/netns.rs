//! Network namespaces, network_namespaces(7): each has its own ports, abstract names, loopback device, counters and settings.
//!
//! A socket belongs to the namespace in which it was made and keeps it; an accepted connection to that of its listener. Only the
//! first namespace has a way out of the pod.

use super::inet::loopback::Loopback;
use super::inet::outward::{self, Device};
use super::inet::ports::Ports;
use super::inet::settings::Settings;
use super::inet::statistics::Counted;
use super::inet::tcp::Tcp;
use super::inet::udp::Udp;
use super::netlink::{Listeners, Numbers};
use super::unix::Names;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use file::caller::caller;
use file::cred::{UserNs, userns};
use hal::cell::Global;
use uapi::{Errno, Result};

/// Inode number of the first one, as on Linux.
const FIRST_INODE: u64 = 4_026_531_833;
/// Cookie of the first one (`SO_NETNS_COOKIE`).
const FIRST_COOKIE: u64 = 1;
/// Most of them in a pod, the first not counted (`user.max_net_namespaces`).
pub const MAX_NAMESPACES: u32 = 4096;

/// A network namespace.
pub struct NetNs {
    inode: u64,
    user_ns: Rc<UserNs>,
    cookie: u64,
    /// Ports of TCP.
    pub(super) tcp: Ports<Tcp>,
    /// Ports of UDP.
    pub(super) udp: Ports<Udp>,
    /// Ports of UDP-Lite.
    pub(super) udp_lite: Ports<Udp>,
    /// Identifiers of ICMP echoes.
    pub(super) echoes: Ports<Udp>,
    /// Abstract names of local sockets.
    pub(super) names: Names,
    /// Addresses of netlink sockets.
    pub(super) netlink: RefCell<Numbers>,
    /// Netlink sockets that receive messages about changes.
    pub(super) listeners: RefCell<Listeners>,
    /// Events.
    pub(super) counted: Counted,
    /// The loopback device.
    pub lo: Loopback,
    /// `/proc/sys/net`.
    pub settings: Settings,
}

impl core::fmt::Debug for NetNs {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NetNs").field("inode", &self.inode).finish_non_exhaustive()
    }
}

static FIRST: Global<RefCell<Option<Rc<NetNs>>>> = Global::new(RefCell::new(None));
static COUNT: Global<Cell<u32>> = Global::new(Cell::new(0));
static NEXT_COOKIE: Global<Cell<u64>> = Global::new(Cell::new(FIRST_COOKIE + 1));

impl NetNs {
    fn new(inode: u64, cookie: u64, user_ns: Rc<UserNs>, lo: Loopback) -> Rc<Self> {
        Rc::new(Self {
            inode,
            user_ns,
            cookie,
            tcp: Ports::new(),
            udp: Ports::new(),
            udp_lite: Ports::new(),
            echoes: Ports::new(),
            names: Names::default(),
            netlink: RefCell::default(),
            listeners: RefCell::default(),
            counted: Counted::default(),
            lo,
            settings: Settings::default(),
        })
    }

    /// The namespace of the pod's first program. Its loopback device is up.
    pub fn first() -> Rc<Self> {
        if let Some(first) = &*FIRST.borrow() {
            return first.clone();
        }
        let first = Self::new(FIRST_INODE, FIRST_COOKIE, UserNs::first(), Loopback::up());
        // As container engines set it: programs may ping without a right.
        first.settings.ping_groups.set([0, i32::MAX as u32]);
        FIRST.replace(Some(first.clone()));
        first
    }

    /// One that belongs to a user namespace, with a loopback device that is down. ENOSPC, ENOMEM.
    pub fn create(user_ns: Rc<UserNs>) -> Result<Rc<Self>> {
        if COUNT.get() >= MAX_NAMESPACES {
            return Err(Errno::ENOSPC);
        }
        vfs::memory::check()?;
        let cookie = NEXT_COOKIE.replace(NEXT_COOKIE.get() + 1);
        let new = Self::new(userns::new_inode(), cookie, user_ns, Loopback::down());
        COUNT.set(COUNT.get() + 1);
        Ok(new)
    }

    /// Number that `/proc/PID/ns/net` shows.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// The user namespace that it belongs to.
    pub fn user_ns(&self) -> &Rc<UserNs> {
        &self.user_ns
    }

    /// `SO_NETNS_COOKIE`: differs between all that there ever were.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Whether it is the first.
    #[inline]
    pub fn is_first(&self) -> bool {
        self.cookie == FIRST_COOKIE
    }

    /// The device that leads out of the pod, if there is one here.
    #[inline]
    pub fn device(&self) -> Option<Device> {
        if self.is_first() { outward::device() } else { None }
    }

    /// Whether its sockets of IP are sockets of the host, whatever their addresses are.
    #[inline]
    pub fn is_host(&self) -> bool {
        self.is_first() && outward::is_host()
    }

    /// Whether the running thread has a capability over it.
    pub fn permits(&self, cap: u32) -> bool {
        caller().cred().capable_in(&self.user_ns, cap)
    }
}

impl Drop for NetNs {
    fn drop(&mut self) {
        COUNT.set(COUNT.get() - 1);
    }
}
