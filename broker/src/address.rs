//! Addresses of the pod's network as its programs see it.
//!
//! They exist inside the pod only: nothing is sent to them. The IPv4 ones are those that QEMU, VirtualBox and slirp have given
//! such networks for decades, so that hosts rarely use them otherwise; the IPv6 ones are unique local (RFC 4193).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const fn v6(last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd68, 0x756c, 0x6c00, 0, 0, 0, 0, last)
}

/// The pod itself: source of its connections, and where its published listeners are.
pub const POD_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
/// The same, IPv6.
pub const POD_V6: Ipv6Addr = v6(0x15);
/// `host.hull.internal`: the host's loopback device, 127.0.0.1.
pub const HOST_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// `host.hull.internal`: the host's loopback device, `::1`.
pub const HOST_V6: Ipv6Addr = v6(2);
/// The name server, port 53.
pub const RESOLVER_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);
/// The same, IPv6.
pub const RESOLVER_V6: Ipv6Addr = v6(3);
/// Port of the name server.
pub const RESOLVER_PORT: u16 = 53;

/// The address on the host's loopback device for which one of `host.hull.internal` stands.
pub fn host_loopback(address: IpAddr) -> Option<IpAddr> {
    match address.to_canonical() {
        IpAddr::V4(HOST_V4) => Some(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(HOST_V6) => Some(Ipv6Addr::LOCALHOST.into()),
        _ => None,
    }
}

/// Whether this is the name server's address.
pub fn is_resolver(address: IpAddr) -> bool {
    matches!(address.to_canonical(), IpAddr::V4(RESOLVER_V4) | IpAddr::V6(RESOLVER_V6))
}

/// Whether this is the pod's own address.
pub fn is_pod(address: IpAddr) -> bool {
    matches!(address.to_canonical(), IpAddr::V4(POD_V4) | IpAddr::V6(POD_V6))
}
