//! Answers about the network, rtnetlink(7): the devices, their addresses and routes.

use super::super::inet::interface::{self, Interface, broadcast, netmask};
use super::super::inet::outward;
use super::super::inet::{Network, Reach};
use super::super::netns::NetNs;
use super::change;
use super::reply::{self, Answer, NLM_F_DUMP, Request, u32_at};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use file::caller::caller;
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Types of messages; a question follows the two that add and remove.
pub const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
pub const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_GETNEIGH: u16 = 30;
const RTM_NEWRULE: u16 = 32;
const RTM_GETRULE: u16 = 34;
const RTM_GETQDISC: u16 = 38;
const RTM_GETNETCONF: u16 = 82;
const RTM_GETNSID: u16 = 90;
/// Types end here.
const RTM_MAX: u16 = 127;

/// The loopback device's index.
const INDEX: u32 = 1;
/// `IFF_LOWER_UP`.
const LOWER_UP: u32 = 0x10000;
/// Tables of routes.
const TABLE_DEFAULT: u8 = 253;
const TABLE_MAIN: u8 = 254;
const TABLE_LOCAL: u8 = 255;
/// Kinds of routes.
const LOCAL: u8 = 2;
const BROADCAST: u8 = 3;
const UNICAST: u8 = 1;
/// Scopes of addresses and routes.
const SCOPE_UNIVERSE: u8 = 0;
const SCOPE_LINK: u8 = 253;
const SCOPE_HOST: u8 = 254;
/// Made by the kernel (`RTPROT_KERNEL`).
const BY_KERNEL: u8 = 2;
/// `RTM_F_CLONED` and `RTCF_LOCAL`.
const CLONED: u32 = 0x200;
const LOCAL_CACHE: u32 = 0x8000_0000;
/// `IFA_F_PERMANENT`.
const PERMANENT: u8 = 0x80;

pub const INET: u8 = net::AF_INET as u8;
pub const INET6: u8 = net::AF_INET6 as u8;

/// EOPNOTSUPP for unknown types and changes; EPERM for changes without CAP_NET_ADMIN; errors of [`change`].
pub fn handle(ns: &Rc<NetNs>, request: &Request<'_>, answer: &mut Answer<'_>) -> Result<()> {
    if request.kind > RTM_MAX {
        return Err(Errno::EOPNOTSUPP);
    }
    // NEW, DEL, GET, SET: only GET is no change.
    if request.kind & 3 != 2 {
        answer.of_change();
        return if ns.permits(g::CAP_NET_ADMIN) { change::handle(ns, request) } else { Err(Errno::EPERM) };
    }
    let family = request.body.first().copied().unwrap_or(0);
    let dump = request.flags & NLM_F_DUMP != 0;
    match request.kind {
        RTM_GETLINK if dump => interface::all(ns).for_each(|device| link(answer, ns, &device)),
        RTM_GETLINK => link(answer, ns, &one_link(ns, request.body)?),
        RTM_GETADDR if dump => {
            for device in interface::all(ns) {
                addresses(answer, ns, family, &device)?;
            }
        }
        RTM_GETROUTE if dump => routes(answer, ns, family)?,
        RTM_GETROUTE => one_route(answer, ns, request.body)?,
        RTM_GETRULE if dump => rules(answer, family),
        RTM_GETNEIGH | RTM_GETQDISC | RTM_GETNETCONF | RTM_GETNSID if dump => {}
        _ => return Err(Errno::EOPNOTSUPP),
    }
    Ok(())
}

/// The device that a request for one means. ENODEV, EINVAL.
pub fn one_link(ns: &NetNs, body: &[u8]) -> Result<Interface> {
    /// Attributes with a name.
    const IFNAME: u16 = 3;
    const ALT_IFNAME: u16 = 53;
    let named = reply::attributes(body.get(16..).unwrap_or(&[])).find(|(kind, _)| matches!(*kind, IFNAME | ALT_IFNAME));
    let name = named.map(|(_, name)| name.split(|&b| b == 0).next().unwrap_or_default());
    match (u32_at(body, 4), name) {
        (0, None) => Err(Errno::EINVAL),
        (0, Some(name)) => interface::all(ns).find(|device| device.name == name).ok_or(Errno::ENODEV),
        (index, _) => interface::all(ns).find(|device| device.index == index).ok_or(Errno::ENODEV),
    }
}

/// `struct ifinfomsg` and attributes of the device.
pub fn link(answer: &mut Answer<'_>, ns: &NetNs, device: &Interface) {
    let mut fixed = Vec::from([0, 0]);
    fixed.extend(device.kind.to_ne_bytes());
    let up = device.is_up();
    for word in [device.index, device.flags | if up { LOWER_UP } else { 0 }, 0] {
        fixed.extend(word.to_ne_bytes());
    }
    answer.begin(RTM_NEWLINK, &fixed);
    answer.add(3, &[device.name, b"\0"].concat());
    answer.word(13, device.queue);
    // State down, unknown (of the loopback device) or up, mode default.
    answer.add(16, &[if !up { 2 } else { if device.is_loopback() { 0 } else { 6 } }]);
    answer.add(17, &[0]);
    answer.word(4, device.mtu);
    // Smallest and largest packet size, group, promiscuity, queues.
    for (kind, value) in [(50, 0), (51, 0), (27, 0), (30, 0), (31, 1), (32, 1)] {
        answer.word(kind, value);
    }
    // Carrier and its changes, discipline of the queue.
    answer.add(33, &[1]);
    answer.word(35, 0);
    // A device that never was up has another one.
    answer.add(6, if ns.lo.was_up() || !device.is_loopback() { &b"noqueue\0"[..] } else { b"noop\0" });
    // Addresses of the hardware; counters.
    answer.add(1, &device.hardware);
    answer.add(2, &if device.is_loopback() { [0; 6] } else { [0xff; 6] });
    answer.add(23, &[0; 200]);
    answer.add(7, &[0; 100]);
    answer.end();
}

/// `struct ifaddrmsg` and attributes of the device's addresses. ENOMEM.
fn addresses(answer: &mut Answer<'_>, ns: &NetNs, family: u8, device: &Interface) -> Result<()> {
    let (v4, v6) = (device.v4(ns)?, device.v6(ns)?);
    if family == 0 || family == INET {
        v4.into_iter().for_each(|(ip, bits)| address(answer, RTM_NEWADDR, device, (ip.into(), bits)));
    }
    if family == 0 || family == INET6 {
        v6.into_iter().for_each(|(ip, bits)| address(answer, RTM_NEWADDR, device, (ip.into(), bits)));
    }
    Ok(())
}

/// A message about an address of a device.
pub fn address(answer: &mut Answer<'_>, kind: u16, device: &Interface, (ip, bits): Network<IpAddr>) {
    let scope = match ip {
        IpAddr::V4(ip) if !ip.is_loopback() => SCOPE_UNIVERSE,
        IpAddr::V6(ip) if !ip.is_loopback() => SCOPE_UNIVERSE,
        _ => SCOPE_HOST,
    };
    let (of, octets) = match ip {
        IpAddr::V4(ip) => (INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (INET6, ip.octets().to_vec()),
    };
    let mut fixed = Vec::from([of, bits, PERMANENT, scope]);
    fixed.extend(device.index.to_ne_bytes());
    answer.begin(kind, &fixed);
    answer.add(1, &octets);
    if let IpAddr::V4(ip) = ip {
        answer.add(2, &octets);
        if !device.is_loopback() {
            answer.add(4, &broadcast((ip, bits)));
        }
        answer.add(3, &[device.name, b"\0"].concat());
    }
    answer.word(8, u32::from(PERMANENT));
    // Valid for ever; created at boot.
    let forever = u32::MAX.to_ne_bytes();
    answer.add(6, &[forever, forever, [0; 4], [0; 4]].concat());
    answer.end();
}

/// `struct rtmsg` and attributes of a route in the table of local ones. `source`: of IPv4.
fn local_route(answer: &mut Answer<'_>, kind: u8, to: &[u8], bits: u8, source: Option<Ipv4Addr>) {
    let family = if to.len() == 4 { INET } else { INET6 };
    let scope = match (kind, family) {
        (BROADCAST, _) => SCOPE_LINK,
        (_, INET) => SCOPE_HOST,
        _ => SCOPE_UNIVERSE,
    };
    answer.begin(RTM_NEWROUTE, &[family, bits, 0, 0, TABLE_LOCAL, BY_KERNEL, scope, kind, 0, 0, 0, 0]);
    answer.word(15, u32::from(TABLE_LOCAL));
    answer.add(1, to);
    match source {
        Some(source) => answer.add(7, &source.octets()),
        None => answer.word(6, 0),
    }
    answer.word(4, INDEX);
    if source.is_none() {
        // Preference: medium.
        answer.add(20, &[0]);
    }
    answer.end();
}

fn routes(answer: &mut Answer<'_>, ns: &NetNs, family: u8) -> Result<()> {
    if ns.lo.is_up() {
        let (v4, v6) = (ns.lo.v4()?, ns.lo.v6()?);
        for (own, bits) in v4.into_iter().filter(|_| family == 0 || family == INET) {
            let (octets, mask) = (own.octets(), netmask(bits));
            let network: [u8; 4] = core::array::from_fn(|i| octets[i] & mask[i]);
            if bits < 32 {
                local_route(answer, LOCAL, &network, bits, Some(own));
            }
            local_route(answer, LOCAL, &octets, 32, Some(own));
            if bits < 31 {
                local_route(answer, BROADCAST, &broadcast((own, bits)), 32, Some(own));
            }
        }
        for (own, _) in v6.into_iter().filter(|_| family == 0 || family == INET6) {
            local_route(answer, LOCAL, &own.octets(), 128, None);
        }
    }
    routes_outward(answer, ns, family);
    Ok(())
}

/// The routes of the device that leads out of the pod: its network, and all else through its router.
fn routes_outward(answer: &mut Answer<'_>, ns: &NetNs, family: u8) {
    let (Some(device), Some(eth0)) = (ns.device(), interface::all(ns).find(|device| !device.is_loopback())) else {
        return;
    };
    /// The router of the host's kind (`RTPROT_BOOT`).
    const BY_BOOT: u8 = 3;
    let mut add = |of: u8, bits: u8, table: u8, kind: u8, scope: u8, attributes: &[(u16, &[u8])]| {
        if family != 0 && family != of {
            return;
        }
        let by = if bits == 0 { BY_BOOT } else { BY_KERNEL };
        answer.begin(RTM_NEWROUTE, &[of, bits, 0, 0, table, by, scope, kind, 0, 0, 0, 0]);
        answer.word(15, u32::from(table));
        for (kind, value) in attributes {
            answer.add(*kind, value);
        }
        answer.word(4, eth0.index);
        answer.end();
    };
    let (own, bits, router) = (device.v4.0.octets(), device.v4.1, device.router4.octets());
    let network = core::array::from_fn::<u8, 4, _>(|i| own[i] & netmask(bits)[i]);
    add(INET, 0, TABLE_MAIN, UNICAST, SCOPE_UNIVERSE, &[(5, &router)]);
    add(INET, bits, TABLE_MAIN, UNICAST, SCOPE_LINK, &[(1, &network), (7, &own)]);
    add(INET, 32, TABLE_LOCAL, LOCAL, SCOPE_HOST, &[(1, &own), (7, &own)]);
    add(INET, 32, TABLE_LOCAL, BROADCAST, SCOPE_LINK, &[(1, &broadcast(device.v4)), (7, &own)]);
    let (own, bits, router) = (device.v6.0.octets(), device.v6.1, device.router6.octets());
    let network = (u128::from_be_bytes(own) & u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)).to_be_bytes();
    add(INET6, bits, TABLE_MAIN, UNICAST, SCOPE_UNIVERSE, &[(1, &network), (6, &256u32.to_ne_bytes())]);
    add(INET6, 0, TABLE_MAIN, UNICAST, SCOPE_UNIVERSE, &[(5, &router), (6, &1024u32.to_ne_bytes())]);
    add(INET6, 128, TABLE_LOCAL, LOCAL, SCOPE_UNIVERSE, &[(1, &own), (6, &0u32.to_ne_bytes())]);
}

/// The route to an address outside of the pod, or to the pod's own. `None`: there is none.
fn one_route_outward(answer: &mut Answer<'_>, ns: &NetNs, to: &[u8]) -> Option<()> {
    let ip = ip_of(to)?;
    let device = ns.device()?;
    let own = outward::is_own(ip);
    if !own && !outward::is_beyond(ip) {
        return None;
    }
    let eth0 = interface::all(ns).find(|device| !device.is_loopback())?;
    let family = if to.len() == 4 { INET } else { INET6 };
    let kind = if own { LOCAL } else { UNICAST };
    let flags = (CLONED | if own { LOCAL_CACHE } else { 0 }).to_ne_bytes();
    answer.begin(RTM_NEWROUTE, &[&[family, to.len() as u8 * 8, 0, 0, TABLE_MAIN, 0, 0, kind], &flags[..]].concat());
    answer.word(15, u32::from(TABLE_MAIN));
    answer.add(1, to);
    if !own {
        match family {
            INET => answer.add(5, &device.router4.octets()),
            _ => answer.add(5, &device.router6.octets()),
        }
    }
    answer.word(4, if own { INDEX } else { eth0.index });
    match family {
        INET => answer.add(7, &device.v4.0.octets()),
        _ => answer.add(7, &device.v6.0.octets()),
    }
    answer.word(25, caller().cred().uid);
    answer.add(12, &[0; 32]);
    answer.end();
    Some(())
}

/// An address in an attribute.
pub fn ip_of(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(<[u8; 4]>::try_from(value).ok()?.into()),
        16 => Some(<[u8; 16]>::try_from(value).ok()?.into()),
        _ => None,
    }
}

/// The route to one address. ENETUNREACH.
fn one_route(answer: &mut Answer<'_>, ns: &NetNs, body: &[u8]) -> Result<()> {
    let to = reply::attributes(body.get(12..).unwrap_or(&[])).find(|(kind, _)| *kind == 1).map(|(_, to)| to);
    let to = to.unwrap_or_default();
    let ip = ip_of(to).ok_or(Errno::ENETUNREACH)?;
    let kind = match ns.lo.reach(ip) {
        Some(Reach::Broadcast) => BROADCAST,
        Some(_) => LOCAL,
        None => return one_route_outward(answer, ns, to).ok_or(Errno::ENETUNREACH),
    };
    // A generated answer (`RTM_F_CLONED`), and its destination (`RTCF_LOCAL`).
    let flags = (CLONED | if kind == LOCAL { LOCAL_CACHE } else { 0 }).to_ne_bytes();
    let family = if to.len() == 4 { INET } else { INET6 };
    let bits = to.len() as u8 * 8;
    // As on Linux: the main table, whichever was requested.
    answer.begin(RTM_NEWROUTE, &[&[family, bits, 0, 0, TABLE_MAIN, 0, 0, kind], &flags[..]].concat());
    answer.word(15, u32::from(TABLE_MAIN));
    answer.add(1, to);
    answer.word(4, INDEX);
    match ns.source_for(ip) {
        IpAddr::V4(source) => answer.add(7, &source.octets()),
        IpAddr::V6(source) => answer.add(7, &source.octets()),
    }
    answer.word(25, caller().cred().uid);
    answer.add(12, &[0; 32]);
    answer.end();
    Ok(())
}

/// `struct fib_rule_hdr` and attributes of the rules that there always are.
fn rules(answer: &mut Answer<'_>, family: u8) {
    for of in [INET, INET6] {
        if family != 0 && family != of {
            continue;
        }
        for (priority, table) in [(0, TABLE_LOCAL), (32766, TABLE_MAIN), (32767, TABLE_DEFAULT)] {
            // IPv6 has no default table.
            if of == INET6 && table == TABLE_DEFAULT {
                continue;
            }
            answer.begin(RTM_NEWRULE, &[of, 0, 0, 0, table, 0, 0, 1, 0, 0, 0, 0]);
            answer.word(15, u32::from(table));
            answer.word(14, u32::MAX);
            if priority != 0 {
                answer.word(6, priority);
            }
            answer.end();
        }
    }
}
