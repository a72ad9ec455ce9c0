//! The loopback device of a network namespace: whether it is up, and its addresses.

use super::address::Reach;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use uapi::{Errno, Result};

/// `IFF_UP`.
pub const UP: u32 = 1;
/// `IFF_LOOPBACK`, and `IFF_RUNNING` of a device that is up.
const LOOPBACK: u32 = 8;
const RUNNING: u32 = 0x40;
/// Flags that programs may change: `IFF_UP`, `IFF_DEBUG`, `IFF_NOTRAILERS`, `IFF_NOARP`, `IFF_PROMISC`, `IFF_ALLMULTI`,
/// `IFF_MULTICAST`, `IFF_PORTSEL`, `IFF_AUTOMEDIA`, `IFF_DYNAMIC`.
const CHANGEABLE: u32 = UP | 0x4 | 0x20 | 0x80 | 0x100 | 0x200 | 0x1000 | 0x2000 | 0x4000 | 0x8000;
/// Most addresses of a version of IP.
const MAX_ADDRESSES: usize = 1024;
/// MTU of a new device, and the queue that it says it has.
const MTU: u32 = 65536;
const QUEUE: u32 = 1000;
/// The addresses that it gets when it comes up.
const OWN4: (Ipv4Addr, u8) = (Ipv4Addr::LOCALHOST, 8);
const OWN6: (Ipv6Addr, u8) = (Ipv6Addr::LOCALHOST, 128);

/// An address with the bits of its network.
pub type Network<T> = (T, u8);

/// The device.
pub struct Loopback {
    /// It is up and has the addresses that it gets by itself, and no others.
    usual: Cell<bool>,
    flags: Cell<u32>,
    /// It was up before.
    used: Cell<bool>,
    /// Bytes of its largest packet.
    pub mtu: Cell<u32>,
    /// Packets that may wait.
    pub queue: Cell<u32>,
    v4: RefCell<Vec<Network<Ipv4Addr>>>,
    v6: RefCell<Vec<Network<Ipv6Addr>>>,
}

/// The first and the last address of a network.
fn ends((address, bits): Network<Ipv4Addr>) -> [u32; 2] {
    let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
    [u32::from(address) & mask, u32::from(address) | !mask]
}

/// Whether a network has an address.
fn covers(own: Network<Ipv4Addr>, ip: Ipv4Addr) -> bool {
    let [first, last] = ends(own);
    (first..=last).contains(&u32::from(ip))
}

/// How far an address of IPv6 reaches: `IPV6_ADDR_SCOPE_*`.
fn scope(ip: Ipv6Addr) -> u8 {
    match () {
        () if ip.is_loopback() => 1,
        () if ip.is_unicast_link_local() => 2,
        () => 14,
    }
}

impl Loopback {
    /// A new device, without addresses.
    pub fn down() -> Self {
        Self {
            usual: Cell::new(false),
            flags: Cell::new(0),
            used: Cell::new(false),
            mtu: Cell::new(MTU),
            queue: Cell::new(QUEUE),
            v4: RefCell::default(),
            v6: RefCell::default(),
        }
    }

    /// A device that is up.
    pub fn up() -> Self {
        let device = Self::down();
        device.change_flags(UP, UP);
        device
    }

    /// Whether it is up.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.flags.get() & UP != 0
    }

    /// Whether it ever was up.
    pub fn was_up(&self) -> bool {
        self.used.get()
    }

    /// `IFF_*` as programs see them.
    pub fn flags(&self) -> u32 {
        self.flags.get() | LOOPBACK | if self.is_up() { RUNNING } else { 0 }
    }

    /// Changes the flags in `mask` that can be changed. A device that comes up gets addresses; one that goes down loses
    /// those of IPv6.
    pub fn change_flags(&self, flags: u32, mask: u32) {
        let (old, mask) = (self.flags.get(), mask & CHANGEABLE);
        self.flags.set(old & !mask | flags & mask);
        let (mut v4, mut v6) = (self.v4.borrow_mut(), self.v6.borrow_mut());
        match (old & UP != 0, self.is_up()) {
            (false, true) => {
                self.used.set(true);
                if v4.is_empty() {
                    v4.push(OWN4);
                }
                if !v6.contains(&OWN6) {
                    v6.push(OWN6);
                }
            }
            (true, false) => v6.clear(),
            _ => {}
        }
        drop((v4, v6));
        self.review();
    }

    fn review(&self) {
        let usual = self.is_up() && *self.v4.borrow() == [OWN4] && *self.v6.borrow() == [OWN6];
        self.usual.set(usual);
    }

    /// Its addresses of IPv4. ENOMEM.
    pub fn v4(&self) -> Result<Vec<Network<Ipv4Addr>>> {
        vfs::memory::collect(self.v4.borrow().iter().copied())
    }

    /// Its addresses of IPv6. ENOMEM.
    pub fn v6(&self) -> Result<Vec<Network<Ipv6Addr>>> {
        vfs::memory::collect(self.v6.borrow().iter().copied())
    }

    /// Its first address of IPv4.
    pub fn first_v4(&self) -> Option<Network<Ipv4Addr>> {
        self.v4.borrow().first().copied()
    }

    /// Adds an address. EEXIST, ENOSPC, ENOMEM.
    pub fn add(&self, ip: IpAddr, bits: u8) -> Result<()> {
        match ip {
            IpAddr::V4(ip) => add(&self.v4, (ip, bits), |old| *old == (ip, bits)),
            IpAddr::V6(ip) => add(&self.v6, (ip, bits), |old| old.0 == ip),
        }?;
        if let IpAddr::V6(ip) = ip {
            // The widest scope comes first, and among equals the newest.
            let mut v6 = self.v6.borrow_mut();
            let at = v6.iter().position(|own| scope(own.0) <= scope(ip)).unwrap_or(0);
            v6.get_mut(at..).unwrap_or_default().rotate_right(1);
        }
        self.review();
        Ok(())
    }

    /// Removes an address. EADDRNOTAVAIL.
    pub fn remove(&self, ip: IpAddr, bits: u8) -> Result<()> {
        let removed = match ip {
            IpAddr::V4(ip) => remove(&self.v4, (ip, bits)),
            IpAddr::V6(ip) => remove(&self.v6, (ip, bits)),
        };
        self.review();
        if removed { Ok(()) } else { Err(Errno::EADDRNOTAVAIL) }
    }

    /// Route of an address of its networks.
    #[inline]
    pub fn reach(&self, ip: IpAddr) -> Option<Reach> {
        if !self.usual.get() {
            return self.search(ip);
        }
        match ip {
            IpAddr::V4(ip) if ip.octets() == [127, 255, 255, 255] => Some(Reach::Broadcast),
            ip if ip.is_loopback() => Some(Reach::Loopback),
            _ => None,
        }
    }

    #[cold]
    fn search(&self, ip: IpAddr) -> Option<Reach> {
        if !self.is_up() {
            return None;
        }
        let v4 = self.v4.borrow();
        match ip {
            IpAddr::V4(ip) => {
                let mut found = None;
                for &own in v4.iter() {
                    if own.1 < 31 && u32::from(ip) == ends(own)[1] {
                        return Some(Reach::Broadcast);
                    }
                    if covers(own, ip) {
                        found = Some(Reach::Loopback);
                    }
                }
                found
            }
            IpAddr::V6(ip) => self.v6.borrow().iter().any(|own| own.0 == ip).then_some(Reach::Loopback),
        }
    }

    /// Whether sockets may be bound to an address although the device is down: one of its networks of IPv4; before it has the first
    /// of them, each, as on Linux.
    #[cold]
    pub fn has_while_down(&self, ip: IpAddr) -> bool {
        let IpAddr::V4(ip) = ip else { return false };
        let v4 = self.v4.borrow();
        !self.is_up() && (v4.is_empty() && !self.was_up() || v4.iter().any(|own| covers(*own, ip)))
    }

    /// Its address that packets to one of its networks come from.
    pub fn source_for(&self, to: IpAddr) -> Option<IpAddr> {
        if self.usual.get() || !self.is_up() {
            return None;
        }
        match to {
            IpAddr::V4(to) => {
                let v4 = self.v4.borrow();
                let exact = v4.iter().find(|own| own.0 == to);
                exact.or_else(|| v4.iter().find(|own| covers(**own, to))).map(|own| IpAddr::V4(own.0))
            }
            IpAddr::V6(to) => self.v6.borrow().iter().find(|own| own.0 == to).map(|own| IpAddr::V6(own.0)),
        }
    }
}

fn add<T>(list: &RefCell<Vec<T>>, new: T, is_same: impl Fn(&T) -> bool) -> Result<()> {
    let mut list = list.borrow_mut();
    if list.iter().any(is_same) {
        return Err(Errno::EEXIST);
    }
    if list.len() >= MAX_ADDRESSES {
        return Err(Errno::ENOSPC);
    }
    vfs::memory::push(&mut list, new)
}

fn remove<T: PartialEq>(list: &RefCell<Vec<T>>, gone: T) -> bool {
    let mut list = list.borrow_mut();
    let at = list.iter().position(|one| *one == gone);
    at.map(|at| list.remove(at)).is_some()
}
