//! Groups that a socket is in, and from whom it wants their packets.

use super::super::super::netns::NetNs;
use super::super::super::options::read_int;
use super::super::Base;
use super::super::address::{Endpoint, Reach};
use super::{IpOptions, LOOPBACK, ipv4, ipv6};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use uapi::raw::net;
use uapi::{Errno, Result};

#[cfg(test)]
mod tests;

/// Maximum number of groups of a socket (`net.ipv4.igmp_max_memberships`).
const MAX_GROUPS: usize = 20;
/// Maximum number of sources of a membership: `net.ipv4.igmp_max_msf`, `net.ipv6.mld_max_msf`.
const MAX_SOURCES: [usize; 2] = [10, 64];

/// A group, through the loopback device.
#[derive(Clone, Debug)]
pub(super) struct Membership {
    group: IpAddr,
    /// Only packets from the sources are wanted, not all but theirs.
    includes: bool,
    /// `None`: there have been none.
    sources: Option<Vec<IpAddr>>,
}

impl Membership {
    fn takes(&self, source: IpAddr) -> bool {
        let listed = self.sources.as_ref().is_some_and(|sources| sources.contains(&source));
        listed == self.includes
    }
}

impl IpOptions {
    /// Whether the socket wants packets to a group from a source; `None`: it is not in the group.
    pub fn takes(&self, group: IpAddr, source: IpAddr) -> Option<bool> {
        let memberships = self.memberships.borrow();
        memberships.iter().find(|one| one.group == group).map(|membership| membership.takes(source))
    }
}

/// The device of a `struct ip_mreq` or `ip_mreqn` (from its second address on): by index, else by address,
/// else where the group is routed to. Whether it is the loopback device; ENODEV if there is none.
pub(super) fn device4(ns: &NetNs, value: &[u8]) -> Result<bool> {
    let address = ipv4(Some(value))?;
    let index = value.get(4..8).map_or(Ok(0), read_int)?;
    match index {
        0 if address.is_unspecified() => Ok(false),
        0 if ns.lo.reach(IpAddr::V4(address)) == Some(Reach::Loopback) => Ok(true),
        index if index == LOOPBACK as i32 => Ok(true),
        _ => Err(Errno::ENODEV),
    }
}

/// Joins a group. EINVAL, EADDRINUSE, ENOBUFS, ENOMEM.
fn join(ip: &IpOptions, group: IpAddr, includes: bool) -> Result<()> {
    if !group.is_multicast() {
        return Err(Errno::EINVAL);
    }
    let mut memberships = ip.memberships.borrow_mut();
    if memberships.iter().any(|one| one.group == group) {
        return Err(Errno::EADDRINUSE);
    }
    if memberships.len() >= MAX_GROUPS {
        return Err(Errno::ENOBUFS);
    }
    vfs::memory::push(&mut memberships, Membership { group, includes, sources: None })
}

/// Leaves a group. EINVAL, EADDRNOTAVAIL.
fn leave(ip: &IpOptions, group: IpAddr) -> Result<()> {
    if !group.is_multicast() {
        return Err(Errno::EINVAL);
    }
    let mut memberships = ip.memberships.borrow_mut();
    let at = memberships.iter().position(|one| one.group == group).ok_or(Errno::EADDRNOTAVAIL)?;
    memberships.swap_remove(at);
    Ok(())
}

/// A change of the sources of a membership.
#[derive(Clone, Copy)]
struct SourceChange {
    /// Of those that are wanted, not of those that are not.
    includes: bool,
    add: bool,
}

impl SourceChange {
    /// What an option does. `None`: it does not change sources.
    fn of(name: u32) -> Option<Self> {
        let (includes, add) = match name {
            net::IP_ADD_SOURCE_MEMBERSHIP | net::MCAST_JOIN_SOURCE_GROUP => (true, true),
            net::IP_DROP_SOURCE_MEMBERSHIP | net::MCAST_LEAVE_SOURCE_GROUP => (true, false),
            net::IP_BLOCK_SOURCE | net::MCAST_BLOCK_SOURCE => (false, true),
            net::IP_UNBLOCK_SOURCE | net::MCAST_UNBLOCK_SOURCE => (false, false),
            _ => return None,
        };
        Some(Self { includes, add })
    }

    /// Makes the change, after `device` was found. EINVAL, ENODEV, EADDRNOTAVAIL, ENOBUFS, ENOMEM.
    fn apply(self, ip: &IpOptions, group: IpAddr, source: IpAddr, has_device: Result<()>) -> Result<()> {
        if !group.is_multicast() {
            return Err(Errno::EINVAL);
        }
        has_device?;
        if self.includes && self.add {
            match join(ip, group, true) {
                Ok(()) | Err(Errno::EADDRINUSE) => {}
                Err(errno) => return Err(errno),
            }
        }
        let mut memberships = ip.memberships.borrow_mut();
        let at = memberships.iter().position(|one| one.group == group).ok_or(Errno::EINVAL)?;
        let membership = &mut memberships[at];
        if membership.sources.is_none() {
            membership.includes = self.includes;
        } else if membership.includes != self.includes {
            return Err(Errno::EINVAL);
        }
        let known = membership.sources.as_ref().and_then(|known| known.iter().position(|one| *one == source));
        if self.add {
            let sources = membership.sources.get_or_insert_default();
            if sources.len() >= MAX_SOURCES[usize::from(group.is_ipv6())] {
                return Err(Errno::ENOBUFS);
            }
            if known.is_some() {
                return Err(Errno::EADDRNOTAVAIL);
            }
            return vfs::memory::push(sources, source);
        }
        let (Some(sources), Some(known)) = (&mut membership.sources, known) else { return Err(Errno::EADDRNOTAVAIL) };
        sources.swap_remove(known);
        if self.includes && sources.is_empty() {
            memberships.swap_remove(at);
        }
        Ok(())
    }
}

/// `MCAST_JOIN_GROUP`, `MCAST_LEAVE_GROUP`: a `struct group_req`.
fn group_request(ip: &IpOptions, value: &[u8], joins: bool) -> Result<()> {
    let index = read_int(value)?;
    let address = value.get(8..).ok_or(Errno::EINVAL)?;
    let family = crate::family_of(address)?;
    let group = Endpoint::parse(address, family)?.ip;
    match index as u32 {
        0 | LOOPBACK if !group.is_multicast() => Err(Errno::EINVAL),
        LOOPBACK if joins => join(ip, group, false),
        LOOPBACK => leave(ip, group),
        _ => Err(Errno::ENODEV),
    }
}

/// A `struct group_source_req` of addresses of this family.
fn source_request(ip: &IpOptions, family: u32, change: SourceChange, value: &[u8]) -> Result<()> {
    /// Bytes of the structure, and where its addresses are.
    const SIZE: usize = 264;
    const GROUP: usize = 8;
    const SOURCE: usize = 136;
    if value.len() != SIZE {
        return Err(Errno::EINVAL);
    }
    let index = read_int(value)?;
    let address = |at: usize| {
        let bytes = value.get(at..).ok_or(Errno::EINVAL)?;
        if crate::family_of(bytes)? == family { Endpoint::parse(bytes, family) } else { Err(Errno::EADDRNOTAVAIL) }
    };
    let (group, source) = (address(GROUP)?.ip, address(SOURCE)?.ip);
    let has_device = if index == LOOPBACK as i32 { Ok(()) } else { Err(Errno::ENODEV) };
    change.apply(ip, group, source, has_device)
}

/// setsockopt(2) of SOL_IP about groups; `None` for other options.
pub(super) fn set4(base: &Base, name: u32, value: &[u8]) -> Option<Result<()>> {
    match name {
        net::IP_ADD_MEMBERSHIP | net::IP_DROP_MEMBERSHIP => Some(member4(base, name == net::IP_ADD_MEMBERSHIP, value)),
        net::MCAST_JOIN_GROUP | net::MCAST_LEAVE_GROUP => {
            Some(group_request(&base.ip, value, name == net::MCAST_JOIN_GROUP))
        }
        net::IP_ADD_SOURCE_MEMBERSHIP
        | net::IP_DROP_SOURCE_MEMBERSHIP
        | net::IP_BLOCK_SOURCE
        | net::IP_UNBLOCK_SOURCE => SourceChange::of(name).map(|change| source4(base, change, value)),
        _ => SourceChange::of(name).map(|change| source_request(&base.ip, net::AF_INET, change, value)),
    }
}

/// A `struct ip_mreq` or `ip_mreqn`.
fn member4(base: &Base, joins: bool, value: &[u8]) -> Result<()> {
    let group = IpAddr::V4(ipv4(Some(value))?);
    let rest = value.get(4..).ok_or(Errno::EINVAL)?;
    if !group.is_multicast() {
        return Err(if joins { Errno::EINVAL } else { Errno::EADDRNOTAVAIL });
    }
    // No group has a route.
    if !device4(&base.net, rest)? && joins {
        return Err(Errno::ENODEV);
    }
    if joins { join(&base.ip, group, false) } else { leave(&base.ip, group) }
}

/// A `struct ip_mreq_source`: group, device and source, each by an address.
fn source4(base: &Base, change: SourceChange, value: &[u8]) -> Result<()> {
    let [g0, g1, g2, g3, d0, d1, d2, d3, s0, s1, s2, s3] = *<&[u8; 12]>::try_from(value).map_err(|_| Errno::EINVAL)?;
    let has_device = match device4(&base.net, &[d0, d1, d2, d3]) {
        Ok(true) => Ok(()),
        // No group has a route.
        Ok(false) => Err(Errno::ENODEV),
        Err(errno) => Err(errno),
    };
    let [group, source] = [[g0, g1, g2, g3], [s0, s1, s2, s3]].map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes)));
    change.apply(&base.ip, group, source, has_device)
}

/// setsockopt(2) of SOL_IPV6 about groups; `None` for other options.
pub(super) fn set6(ip: &IpOptions, name: u32, value: &[u8]) -> Option<Result<()>> {
    match name {
        net::IPV6_ADD_MEMBERSHIP | net::IPV6_DROP_MEMBERSHIP => {
            Some(member6(ip, name == net::IPV6_ADD_MEMBERSHIP, value))
        }
        net::MCAST_JOIN_GROUP | net::MCAST_LEAVE_GROUP => Some(group_request(ip, value, name == net::MCAST_JOIN_GROUP)),
        net::MCAST_JOIN_SOURCE_GROUP
        | net::MCAST_LEAVE_SOURCE_GROUP
        | net::MCAST_BLOCK_SOURCE
        | net::MCAST_UNBLOCK_SOURCE => {
            SourceChange::of(name).map(|change| source_request(ip, net::AF_INET6, change, value))
        }
        _ => None,
    }
}

/// A `struct ipv6_mreq`.
fn member6(ip: &IpOptions, joins: bool, value: &[u8]) -> Result<()> {
    let group = IpAddr::V6(ipv6(Some(value))?);
    let index = value.get(16..).ok_or(Errno::EINVAL).and_then(read_int)?;
    match index {
        _ if !group.is_multicast() => Err(Errno::EINVAL),
        _ if !joins => leave(ip, group),
        index if index == LOOPBACK as i32 => join(ip, group, false),
        _ => Err(Errno::ENODEV),
    }
}
