//! Parsing and classes of IP addresses, in any spelling.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Class of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The own machine: 127.0.0.0/8, ::1, and the unspecified addresses, to which Linux connects as to these.
    Loopback,
    /// The own link, where clouds have their metadata servers: 169.254.0.0/16, fe80::/10, and the metadata addresses that some
    /// clouds have elsewhere.
    LinkLocal,
    /// Private and shared networks: RFC 1918, RFC 6598, RFC 4193, and site-local.
    Private,
    /// Groups, and the broadcast address.
    Multicast,
    /// Everything else.
    Public,
}

/// Metadata servers outside of the link-local ranges: of Amazon (IPv6), Alibaba, Oracle, Azure.
const METADATA: [IpAddr; 4] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];

/// The address that a socket connects to: an IPv4-mapped one (RFC 4291, 2.5.5.2) is IPv4.
pub fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// The IPv4 address that a gateway may extract from a canonical one: IPv4-compatible (RFC 4291, 2.5.5.1),
/// IPv4-translated (RFC 2765), NAT64 (RFC 6052, RFC 8215), 6to4 (RFC 3056), Teredo (RFC 4380), ISATAP (RFC 5214).
pub fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = address else { return None };
    let at = |bytes: [u8; 4]| Some(Ipv4Addr::from(bytes));
    let octets = v6.octets();
    let last = [octets[12], octets[13], octets[14], octets[15]];
    match v6.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0, ..]
        | [0, 0, 0, 0, 0xffff, 0, ..]
        | [0x64, 0xff9b, 0, 0, 0, 0, ..]
        | [0x64, 0xff9b, 1, ..]
        | [_, _, _, _, 0 | 0x200, 0x5efe, ..] => at(last),
        [0x2002, ..] => at([octets[2], octets[3], octets[4], octets[5]]),
        [0x2001, 0, ..] => at(last.map(|byte| !byte)),
        _ => None,
    }
}

fn class_of_v4(address: Ipv4Addr) -> Class {
    let [a, b, ..] = address.octets();
    match () {
        // 0.0.0.0/8 is "this network" (RFC 791): Linux connects to 0.0.0.0 as to the loopback device.
        () if address.is_loopback() || a == 0 => Class::Loopback,
        () if address.is_link_local() => Class::LinkLocal,
        () if address.is_private() || (a == 100 && b & 0xc0 == 64) => Class::Private,
        () if address.is_multicast() || address.is_broadcast() => Class::Multicast,
        () => Class::Public,
    }
}

/// The class of a canonical address, ignoring embedded ones.
pub fn class(address: IpAddr) -> Class {
    if METADATA.contains(&address) {
        return Class::LinkLocal;
    }
    match address {
        IpAddr::V4(v4) => class_of_v4(v4),
        IpAddr::V6(v6) => match () {
            () if v6.is_loopback() || v6.is_unspecified() => Class::Loopback,
            () if v6.is_unicast_link_local() => Class::LinkLocal,
            // Site-local addresses (RFC 3879) are deprecated, but still in use.
            () if v6.is_unique_local() || v6.segments()[0] & 0xffc0 == 0xfec0 => Class::Private,
            () if v6.is_multicast() => Class::Multicast,
            () => Class::Public,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn classes() {
        for (class_wanted, texts) in [
            (Class::Loopback, &["127.0.0.1", "127.255.0.9", "0.0.0.0", "0.1.2.3", "::1", "::"][..]),
            (Class::LinkLocal, &["169.254.169.254", "fe80::1", "fd00:ec2::254", "100.100.100.200"]),
            (Class::Private, &["10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd12::1", "fec0::1"]),
            (Class::Multicast, &["224.0.0.1", "255.255.255.255", "ff02::1"]),
            (Class::Public, &["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111"]),
        ] {
            for text in texts {
                assert_eq!(class(ip(text)), class_wanted, "{text}");
            }
        }
    }

    #[test]
    fn spellings() {
        assert_eq!(canonical(ip("::ffff:169.254.169.254")), ip("169.254.169.254"));
        let metadata = Some(Ipv4Addr::new(169, 254, 169, 254));
        for text in [
            "::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1:2::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "2001:0:1:2:3:4:5601:5601",
            "fe80::5efe:a9fe:a9fe",
            "2001:db8::200:5efe:a9fe:a9fe",
            "::ffff:0:a9fe:a9fe",
        ] {
            assert_eq!(embedded(ip(text)), metadata, "{text}");
        }
        for text in ["::", "::1", "2606:4700::1111", "10.0.0.1"] {
            assert_eq!(embedded(ip(text)), None, "{text}");
        }
    }
}
