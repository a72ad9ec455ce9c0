//! Changes of the loopback device, rtnetlink(7). Other devices cannot be changed, made or removed.

use super::super::inet::Network;
use super::super::inet::interface::{self, Interface};
use super::super::netns::NetNs;
use super::reply::{self, Answer, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Request, u32_at};
use super::route::{self, INET, INET6, RTM_NEWADDR, RTM_NEWLINK};
use alloc::rc::Rc;
use core::net::IpAddr;
use uapi::{Errno, Result};

/// Types of messages.
const RTM_DELLINK: u16 = 17;
const RTM_SETLINK: u16 = 19;
const RTM_DELADDR: u16 = 21;
/// Multicast groups: of devices, and of addresses of either version.
const GROUP_LINK: u32 = 1;
const GROUP_ADDRESS4: u32 = 5;
const GROUP_ADDRESS6: u32 = 9;

/// EOPNOTSUPP, EINVAL, ENODEV, EEXIST, EADDRNOTAVAIL, ENOSPC, ENOMEM. The caller has CAP_NET_ADMIN.
pub fn handle(ns: &Rc<NetNs>, request: &Request<'_>) -> Result<()> {
    match request.kind {
        RTM_NEWLINK | RTM_SETLINK => change_link(ns, request),
        RTM_DELLINK => route::one_link(ns, request.body).and(Err(Errno::EOPNOTSUPP)),
        RTM_NEWADDR | RTM_DELADDR => change_address(ns, request),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// Flags, MTU and length of the queue of the loopback device.
fn change_link(ns: &Rc<NetNs>, request: &Request<'_>) -> Result<()> {
    /// Attributes: address and name, MTU, queue; change of the namespace by process or descriptor.
    const ADDRESS: u16 = 1;
    const NAME: u16 = 3;
    const MTU: u16 = 4;
    const QUEUE: u16 = 13;
    const NS_PID: u16 = 19;
    const NS_FD: u16 = 28;
    let device = match route::one_link(ns, request.body) {
        // A device that shall be made, of a type that is not there.
        Err(Errno::ENODEV | Errno::EINVAL) if request.kind == RTM_NEWLINK && request.flags & NLM_F_CREATE != 0 => {
            return Err(Errno::EOPNOTSUPP);
        }
        Err(Errno::EINVAL) if request.kind == RTM_NEWLINK => return Err(Errno::ENODEV),
        other => other?,
    };
    if request.kind == RTM_NEWLINK && request.flags & NLM_F_EXCL != 0 {
        return Err(Errno::EEXIST);
    }
    if !device.is_loopback() {
        return Err(Errno::EOPNOTSUPP);
    }
    let attributes = || reply::attributes(request.body.get(16..).unwrap_or(&[]));
    for (kind, value) in attributes() {
        match kind {
            MTU | QUEUE if value.len() != 4 || u32_at(value, 0) > i32::MAX as u32 => return Err(Errno::EINVAL),
            NS_PID | NS_FD => return Err(Errno::EINVAL),
            ADDRESS => return Err(Errno::EOPNOTSUPP),
            NAME if value.split(|&byte| byte == 0).next() != Some(device.name) => return Err(Errno::EOPNOTSUPP),
            _ => {}
        }
    }
    for (kind, value) in attributes() {
        match kind {
            MTU => ns.lo.mtu.set(u32_at(value, 0)),
            QUEUE => ns.lo.queue.set(u32_at(value, 0)),
            _ => {}
        }
    }
    let (flags, mask) = (u32_at(request.body, 8), u32_at(request.body, 12));
    if flags != 0 || mask != 0 {
        ns.lo.change_flags(flags, if mask == 0 { u32::MAX } else { mask });
    }
    tell_link(ns)
}

/// Notifies listeners of the loopback device's state. ENOMEM.
pub fn tell_link(ns: &Rc<NetNs>) -> Result<()> {
    for device in interface::all(ns).filter(Interface::is_loopback) {
        let mut notice = Answer::notice();
        route::link(&mut notice, ns, &device);
        super::notify(ns, GROUP_LINK, &notice.bytes()?);
    }
    Ok(())
}

/// The address of a request with the bits of its network: of `struct ifaddrmsg` and its attributes. EINVAL.
fn address(request: &Request<'_>) -> Result<Network<IpAddr>> {
    let &[family, bits, ..] = request.body else { return Err(Errno::EINVAL) };
    let find = |wanted| {
        let all = reply::attributes(request.body.get(8..).unwrap_or(&[]));
        all.filter(|(kind, _)| *kind == wanted).find_map(|(_, value)| route::ip_of(value))
    };
    // `IFA_LOCAL`; of IPv6, `IFA_ADDRESS` is the same.
    let ip = match family {
        INET => find(2),
        _ => find(2).or_else(|| find(1)),
    };
    let ip = ip.filter(|ip| ip.is_ipv4() == (family == INET)).ok_or(Errno::EINVAL)?;
    if bits > if ip.is_ipv4() { 32 } else { 128 } { Err(Errno::EINVAL) } else { Ok((ip, bits)) }
}

fn change_address(ns: &Rc<NetNs>, request: &Request<'_>) -> Result<()> {
    if !matches!(request.body.first(), Some(&(INET | INET6))) {
        return Err(Errno::EOPNOTSUPP);
    }
    let (ip, bits) = address(request)?;
    let index = u32_at(request.body, 4);
    let device = interface::all(ns).find(|device| device.index == index).ok_or(Errno::ENODEV)?;
    if !device.is_loopback() {
        return Err(Errno::EOPNOTSUPP);
    }
    if request.kind == RTM_NEWADDR {
        match ns.lo.add(ip, bits) {
            Err(Errno::EEXIST) if request.flags & (NLM_F_REPLACE | NLM_F_EXCL) == NLM_F_REPLACE => {}
            other => other?,
        }
    } else {
        ns.lo.remove(ip, bits)?;
    }
    let mut notice = Answer::notice();
    route::address(&mut notice, request.kind, &device, (ip, bits));
    let group = if ip.is_ipv4() { GROUP_ADDRESS4 } else { GROUP_ADDRESS6 };
    super::notify(ns, group, &notice.bytes()?);
    Ok(())
}
