//! Options of the levels SOL_IP and SOL_IPV6.

mod membership;

use super::super::netns::NetNs;
use super::super::options::{Value, int, read_int};
use super::Base;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use membership::{Membership, device4};
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Levels of options.
pub const SOL_IP: u32 = 0;
/// IPv6's.
pub const SOL_IPV6: u32 = 41;
/// Default TTL (`net.ipv4.ip_default_ttl`).
pub const DEFAULT_TTL: i32 = 64;
/// Largest value of `IP_MTU`.
const MAX_MTU4: u32 = 65535;
/// Index of the loopback device.
pub const LOOPBACK: u32 = 1;

/// Values of one version of IP.
#[derive(Clone, Debug)]
pub struct Version {
    /// On-off options by number.
    switches: Cell<u128>,
    /// `IP_TOS`, `IPV6_TCLASS`.
    pub class: Cell<i32>,
    /// `IP_TTL`, `IPV6_UNICAST_HOPS`; -1: the default.
    hops: Cell<i32>,
    multicast_hops: Cell<i32>,
    mtu_discovery: Cell<i32>,
    /// Groups are sent to through the loopback device.
    multicast_loopback: Cell<bool>,
}

impl Version {
    fn new(on: &[u32]) -> Self {
        Self {
            switches: Cell::new(on.iter().fold(0, |bits, name| bits | 1 << name)),
            class: Cell::new(0),
            hops: Cell::new(-1),
            multicast_hops: Cell::new(1),
            mtu_discovery: Cell::new(net::IP_PMTUDISC_WANT as i32),
            multicast_loopback: Cell::new(false),
        }
    }

    /// TTL of sent packets, if the program chose it.
    pub fn chosen_ttl(&self) -> Option<u8> {
        u8::try_from(self.hops.get()).ok()
    }

    /// TTL of sent packets.
    pub fn ttl(&self) -> i32 {
        if self.hops.get() < 0 { DEFAULT_TTL } else { self.hops.get() }
    }

    /// TCP's two lowest bits (congestion notification) are its own.
    fn set_class(&self, class: i32, stream: bool) {
        const CONGESTION: i32 = 3;
        self.class.set(if stream { class & !CONGESTION | self.class.get() & CONGESTION } else { class });
    }

    fn switch(&self, name: u32, on: bool) {
        let (bit, switches) = (1 << name, self.switches.get());
        self.switches.set(if on { switches | bit } else { switches & !bit });
    }
}

/// All of them.
#[derive(Clone, Debug)]
pub struct IpOptions {
    /// IPv4's.
    pub v4: Version,
    /// IPv6's.
    pub v6: Version,
    memberships: RefCell<Vec<Membership>>,
}

impl IpOptions {
    /// Those of a new socket.
    pub fn new(ns: &NetNs) -> Self {
        let new = Self {
            v4: Version::new(&[net::IP_MULTICAST_LOOP, net::IP_MULTICAST_ALL]),
            v6: Version::new(&[net::IPV6_MULTICAST_LOOP, net::IPV6_MULTICAST_ALL]),
            memberships: RefCell::default(),
        };
        new.v6.switch(net::IPV6_V6ONLY, ns.settings.only_v6.get());
        new
    }
}

fn is_switch4(name: u32) -> bool {
    matches!(
        name,
        net::IP_PKTINFO
            | net::IP_RECVTTL
            | net::IP_RECVTOS
            | net::IP_RECVERR
            | net::IP_RECVOPTS
            | net::IP_RETOPTS
            | net::IP_RECVORIGDSTADDR
            | net::IP_FREEBIND
            | net::IP_TRANSPARENT
            | net::IP_BIND_ADDRESS_NO_PORT
            | net::IP_MULTICAST_LOOP
            | net::IP_MULTICAST_ALL
            | net::IP_ROUTER_ALERT
            | net::IP_RECVERR_RFC4884
    )
}

fn is_switch6(name: u32) -> bool {
    matches!(
        name,
        net::IPV6_V6ONLY
            | net::IPV6_RECVPKTINFO
            | net::IPV6_RECVHOPLIMIT
            | net::IPV6_RECVTCLASS
            | net::IPV6_RECVERR
            | net::IPV6_RECVHOPOPTS
            | net::IPV6_RECVDSTOPTS
            | net::IPV6_RECVRTHDR
            | net::IPV6_RECVPATHMTU
            | net::IPV6_RECVORIGDSTADDR
            | net::IPV6_2292PKTINFO
            | net::IPV6_2292HOPLIMIT
            | net::IPV6_FLOWINFO
            | net::IPV6_FREEBIND
            | net::IPV6_TRANSPARENT
            | net::IPV6_DONTFRAG
            | net::IPV6_AUTOFLOWLABEL
            | net::IPV6_MULTICAST_LOOP
            | net::IPV6_MULTICAST_ALL
            | net::IPV6_FLOWINFO_SEND
            | net::IPV6_RECVERR_RFC4884
    )
}

/// `int` or, as IPv4 allows, one byte.
fn number4(value: &[u8]) -> Result<i32> {
    read_int(value).or_else(|_| value.first().map(|&byte| i32::from(byte)).ok_or(Errno::EINVAL))
}

/// The value, if it is `-1` (the default) or in the range. EINVAL.
fn ranged(value: i32, min: i32, max: i32) -> Result<i32> {
    if value == -1 || (min..=max).contains(&value) { Ok(value) } else { Err(Errno::EINVAL) }
}

fn ipv4(bytes: Option<&[u8]>) -> Result<Ipv4Addr> {
    let bytes: [u8; 4] = bytes.and_then(|b| b.first_chunk().copied()).ok_or(Errno::EINVAL)?;
    Ok(Ipv4Addr::from(bytes))
}

fn ipv6(bytes: Option<&[u8]>) -> Result<Ipv6Addr> {
    let bytes: [u8; 16] = bytes.and_then(|b| b.first_chunk().copied()).ok_or(Errno::EINVAL)?;
    Ok(Ipv6Addr::from(bytes))
}

impl IpOptions {
    /// Whether an option of IPv4 is on.
    pub fn is_on(&self, name: u32) -> bool {
        self.v4.switches.get() >> name & 1 != 0
    }

    /// Whether an option of IPv6 is on.
    pub fn is_on6(&self, name: u32) -> bool {
        self.v6.switches.get() >> name & 1 != 0
    }

    /// Whether something of where a received datagram came to, its hops and its class is wanted.
    pub fn wants_facts(&self) -> bool {
        let on4 = [net::IP_PKTINFO, net::IP_RECVTTL, net::IP_RECVTOS, net::IP_RECVORIGDSTADDR];
        let on6 = [net::IPV6_RECVPKTINFO, net::IPV6_RECVHOPLIMIT, net::IPV6_RECVTCLASS, net::IPV6_RECVORIGDSTADDR];
        on4.into_iter().any(|name| self.is_on(name)) || on6.into_iter().any(|name| self.is_on6(name))
    }

    /// Whether multicast packets of this IP version go to the loopback device. What IPv4 sends by it is received whether or not
    /// `IP_MULTICAST_LOOP` is on.
    pub fn sends_to_groups(&self, group: IpAddr) -> bool {
        match group {
            IpAddr::V4(_) => self.v4.multicast_loopback.get(),
            IpAddr::V6(_) => self.v6.multicast_loopback.get() && self.is_on6(net::IPV6_MULTICAST_LOOP),
        }
    }
}

fn capable(base: &Base) -> bool {
    base.net.permits(g::CAP_NET_ADMIN) || base.net.permits(g::CAP_NET_RAW)
}

/// Priority of what is sent with this type of service, `rt_tos2priority`.
fn priority_of(class: i32) -> u32 {
    [0, 2, 6, 4][(class >> 3 & 3) as usize]
}

/// setsockopt(2) of SOL_IP. ENOPROTOOPT.
pub fn set4(base: &Base, name: u32, value: &[u8]) -> Result<()> {
    let v4 = &base.ip.v4;
    if name == net::IP_MULTICAST_IF {
        if value.len() < 4 {
            return Err(Errno::EINVAL);
        }
        // An address alone, or the device of a group.
        let device = if value.len() < 8 { value } else { &value[4..] };
        v4.multicast_loopback.set(device4(&base.net, device).map_err(|_| Errno::EADDRNOTAVAIL)?);
        return Ok(());
    }
    if let Some(done) = membership::set4(base, name, value) {
        return done;
    }
    let number = number4(value)?;
    match name {
        net::IP_TRANSPARENT if number != 0 && !capable(base) => return Err(Errno::EPERM),
        net::IP_MULTICAST_LOOP | net::IP_MULTICAST_ALL
            if value.len() >= 4 && number as u32 > 1 && name != net::IP_MULTICAST_LOOP =>
        {
            return Err(Errno::EINVAL);
        }
        name if is_switch4(name) => v4.switch(name, number != 0),
        net::IP_TOS => {
            let before = v4.class.get();
            v4.set_class(number & 0xff, base.stream);
            if v4.class.get() != before {
                base.options.priority.set(priority_of(v4.class.get()));
            }
        }
        net::IP_TTL => v4.hops.set(ranged(number, 1, 255)?),
        net::IP_MULTICAST_TTL => v4.multicast_hops.set(ranged(number, 0, 255)?.abs()),
        net::IP_MTU_DISCOVER if (0..=net::IP_PMTUDISC_OMIT as i32).contains(&number) => v4.mtu_discovery.set(number),
        net::IP_MTU_DISCOVER => return Err(Errno::EINVAL),
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

/// getsockopt(2) of SOL_IP. ENOPROTOOPT.
pub fn get4(base: &Base, name: u32) -> Result<Value> {
    let v4 = &base.ip.v4;
    Ok(match name {
        name if is_switch4(name) => int(i32::from(base.ip.is_on(name))),
        net::IP_TOS => int(v4.class.get()),
        net::IP_TTL => int(v4.ttl()),
        net::IP_MULTICAST_TTL => int(v4.multicast_hops.get()),
        net::IP_MTU_DISCOVER => int(v4.mtu_discovery.get()),
        net::IP_MTU if base.remote.get().is_some() => int(base.net.lo.mtu.get().min(MAX_MTU4) as i32),
        net::IP_MTU => return Err(Errno::ENOTCONN),
        net::IP_OPTIONS => Value::new(),
        net::IP_MULTICAST_IF => Value::from_slice(&[0; 4]),
        net::IP_PROTOCOL => return Err(Errno::ENOPROTOOPT),
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

/// setsockopt(2) of SOL_IPV6. ENOPROTOOPT.
pub fn set6(base: &Base, name: u32, value: &[u8]) -> Result<()> {
    let (ip, v6) = (&base.ip, &base.ip.v6);
    if let Some(done) = membership::set6(ip, name, value) {
        return done;
    }
    let number = read_int(value)?;
    match name {
        net::IPV6_V6ONLY if base.local.get().port != 0 => return Err(Errno::EINVAL),
        net::IPV6_TRANSPARENT if number != 0 && !capable(base) => return Err(Errno::EPERM),
        name if is_switch6(name) => v6.switch(name, number != 0),
        net::IPV6_TCLASS => v6.set_class(ranged(number, 0, 255)?.max(0), base.stream),
        net::IPV6_UNICAST_HOPS => v6.hops.set(ranged(number, 0, 255)?),
        net::IPV6_MULTICAST_HOPS => v6.multicast_hops.set(ranged(number, 0, 255)?.abs()),
        net::IPV6_MTU_DISCOVER if (0..=net::IPV6_PMTUDISC_OMIT as i32).contains(&number) => {
            v6.mtu_discovery.set(number)
        }
        net::IPV6_MTU_DISCOVER => return Err(Errno::EINVAL),
        net::IPV6_MULTICAST_IF => match number {
            0 => v6.multicast_loopback.set(false),
            1 => v6.multicast_loopback.set(true),
            _ => return Err(Errno::ENODEV),
        },
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

/// getsockopt(2) of SOL_IPV6. ENOPROTOOPT.
pub fn get6(base: &Base, name: u32) -> Result<Value> {
    let v6 = &base.ip.v6;
    Ok(match name {
        name if is_switch6(name) => int(i32::from(base.ip.is_on6(name))),
        net::IPV6_TCLASS => int(v6.class.get()),
        net::IPV6_UNICAST_HOPS => int(v6.ttl()),
        net::IPV6_MULTICAST_HOPS => int(v6.multicast_hops.get()),
        net::IPV6_MTU_DISCOVER => int(v6.mtu_discovery.get()),
        net::IPV6_MULTICAST_IF => int(i32::from(v6.multicast_loopback.get())),
        net::IPV6_MTU if base.remote.get().is_some() => int(base.net.lo.mtu.get() as i32),
        net::IPV6_MTU => return Err(Errno::ENOTCONN),
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

/// setsockopt(2) of either level. ENOPROTOOPT.
pub fn set(base: &Base, level: i32, name: i32, value: &[u8]) -> Result<()> {
    match level as u32 {
        SOL_IP => set4(base, name as u32, value),
        SOL_IPV6 if base.family == net::AF_INET6 => set6(base, name as u32, value),
        _ => Err(Errno::ENOPROTOOPT),
    }
}

/// getsockopt(2) of either level. ENOPROTOOPT.
pub fn get(base: &Base, level: i32, name: i32) -> Result<Value> {
    match level as u32 {
        SOL_IP => get4(base, name as u32),
        SOL_IPV6 if base.family == net::AF_INET6 => get6(base, name as u32),
        _ if base.family == net::AF_INET6 => Err(Errno::ENOPROTOOPT),
        _ => Err(Errno::EOPNOTSUPP),
    }
}
