//! Addresses of IPv4 and IPv6, ip(7) and ipv6(7), and where they lead in a pod: to itself, out of it, or nowhere.

use super::super::netns::NetNs;
use super::super::{Address, family_of};
use super::outward;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use uapi::raw::net;
use uapi::{Errno, Result};

/// Bytes of `struct sockaddr_in`, and of `sockaddr_in6` at least (without the scope) and as a whole.
const SIZE4: usize = 16;
const SIZE6_MIN: usize = 24;
const SIZE6: usize = 28;

/// An address and a port. IPv4-mapped IPv6 addresses are `V4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub ip: IpAddr,
    /// The port; 0: none.
    pub port: u16,
}

/// Route of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To the pod itself.
    Loopback,
    /// To all on the loopback network.
    Broadcast,
    /// To a group.
    Multicast,
    /// Out of the pod.
    Outward,
}

impl Endpoint {
    /// The address of a socket of `family` that has none.
    pub fn unspecified(family: u32) -> Self {
        Self { ip: any(family), port: 0 }
    }

    /// Reads a `struct sockaddr_in` or `sockaddr_in6`, whichever `family` is. EINVAL if it is too short,
    /// EAFNOSUPPORT if it is another family's.
    pub fn parse(address: &[u8], family: u32) -> Result<Self> {
        let given = family_of(address)?;
        if address.len() < if family == net::AF_INET { SIZE4 } else { SIZE6_MIN } {
            return Err(Errno::EINVAL);
        }
        if given != family {
            return Err(Errno::EAFNOSUPPORT);
        }
        let port = address.get(2..4).and_then(|b| b.try_into().ok()).map_or(0, u16::from_be_bytes);
        let ip = if family == net::AF_INET {
            let bytes: [u8; 4] = address.get(4..8).and_then(|b| b.try_into().ok()).ok_or(Errno::EINVAL)?;
            IpAddr::V4(Ipv4Addr::from(bytes))
        } else {
            let bytes: [u8; 16] = address.get(8..24).and_then(|b| b.try_into().ok()).ok_or(Errno::EINVAL)?;
            let ip = Ipv6Addr::from(bytes);
            let scope = address.get(24..28).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes);
            if ip.is_unicast_link_local() && scope == 0 {
                return Err(Errno::EINVAL);
            }
            canonical(ip)
        };
        Ok(Self { ip, port })
    }

    /// As the `struct sockaddr` of a socket of `family`.
    pub fn to_bytes(self, family: u32) -> Address {
        let mut out = Address::from_slice(&(family as u16).to_ne_bytes());
        out.extend_from_slice(&self.port.to_be_bytes());
        match self.ip {
            IpAddr::V4(ip) if family == net::AF_INET => {
                out.extend_from_slice(&ip.octets());
                out.resize(SIZE4, 0);
            }
            ip => {
                out.extend_from_slice(&[0; 4]);
                out.extend_from_slice(&to_v6(ip).octets());
                out.resize(SIZE6, 0);
            }
        }
        out
    }

    /// Route of a destination; the unspecified address is replaced by the pod's own. ENETUNREACH.
    pub fn resolve(self, ns: &NetNs) -> Result<(Self, Reach)> {
        let ip = match self.ip {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        ns.reach(ip).map(|reach| (Self { ip, ..self }, reach)).ok_or(Errno::ENETUNREACH)
    }
}

/// Whether a group is one of a device or of a link: an address for each device.
pub fn needs_scope(ip: Ipv6Addr) -> bool {
    ip.is_multicast() && matches!(ip.octets()[1] & 0xf, 1 | 2)
}

/// All zeros.
pub fn any(family: u32) -> IpAddr {
    if family == net::AF_INET { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) }
}

/// `::ffff:a.b.c.d` is an address of IPv4.
pub fn canonical(ip: Ipv6Addr) -> IpAddr {
    ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4)
}

/// The other way round.
pub fn to_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

impl NetNs {
    /// Route of a specified address; `None`: unreachable.
    pub fn reach(&self, ip: IpAddr) -> Option<Reach> {
        match self.lo.reach(ip) {
            Some(Reach::Loopback) if self.is_host() => Some(Reach::Outward),
            Some(reach) => Some(reach),
            None if ip.is_multicast() => Some(Reach::Multicast),
            None if !self.is_first() => None,
            None if outward::is_own(ip) => Some(Reach::Loopback),
            None if outward::is_beyond(ip) => Some(Reach::Outward),
            None => None,
        }
    }

    /// The address that a socket gets which talks to `to` and was not bound to one.
    pub fn source_for(&self, to: IpAddr) -> IpAddr {
        if let Some(own) = self.lo.source_for(to) {
            return own;
        }
        if !to.is_loopback()
            && !to.is_multicast()
            && self.is_first()
            && let Some(own) = outward::source_for(to)
        {
            return own;
        }
        if to.is_ipv4() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { IpAddr::V6(Ipv6Addr::LOCALHOST) }
    }

    /// Whether a socket may be bound to the address. Linux lets sockets be bound to groups and broadcast addresses.
    pub fn is_bindable(&self, ip: IpAddr) -> bool {
        let known = self.reach(ip).is_some_and(|reach| reach != Reach::Outward);
        // The host says which addresses it has.
        self.is_host()
            || ip.is_unspecified()
            || known
            || ip == IpAddr::V4(Ipv4Addr::BROADCAST)
            || self.lo.has_while_down(ip)
    }
}
