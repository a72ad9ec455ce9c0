//! The network devices: the loopback device, and one in a pod with a network; requests of ioctl(2) about them, netdevice(7).

use super::super::netlink;
use super::super::netns::NetNs;
use super::ip_options::LOOPBACK;
use super::loopback::{self, Network};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};
use mm::user;
use uapi::raw::general as g;
use uapi::raw::ioctl as i;
use uapi::raw::net;
use uapi::{Errno, Result};

/// A network device.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: &'static [u8],
    /// `IFF_*`.
    pub flags: u32,
    /// Bytes of its largest packet.
    pub mtu: u32,
    /// `ARPHRD_*`.
    pub kind: u16,
    /// Its address of the hardware.
    pub hardware: [u8; 6],
    /// Packets that may wait.
    pub queue: u32,
}

/// Packets that may wait at a device other than the loopback device.
const QUEUE: u32 = 1000;

/// The devices of a namespace.
pub fn all(ns: &NetNs) -> impl Iterator<Item = Interface> + use<> {
    // `ARPHRD_LOOPBACK`.
    let lo = Interface {
        index: LOOPBACK,
        name: b"lo",
        flags: ns.lo.flags(),
        mtu: ns.lo.mtu.get(),
        kind: 772,
        hardware: [0; 6],
        queue: ns.lo.queue.get(),
    };
    // `IFF_UP`, `IFF_BROADCAST`, `IFF_RUNNING`, `IFF_MULTICAST`; `ARPHRD_ETHER`.
    let eth0 = ns.device().map(|_| Interface {
        index: LOOPBACK + 1,
        name: b"eth0",
        flags: 0x1043,
        mtu: 1500,
        kind: 1,
        hardware: [2, b'h', b'u', b'l', b'l', 0],
        queue: QUEUE,
    });
    [lo].into_iter().chain(eth0)
}

impl Interface {
    /// Whether it is the loopback device.
    pub fn is_loopback(&self) -> bool {
        self.index == LOOPBACK
    }

    /// Whether it is up.
    pub fn is_up(&self) -> bool {
        self.flags & loopback::UP != 0
    }

    /// Its addresses of IPv4, with the bits of their networks. ENOMEM.
    pub fn v4(&self, ns: &NetNs) -> Result<Vec<Network<Ipv4Addr>>> {
        if self.is_loopback() { ns.lo.v4() } else { Ok(ns.device().into_iter().map(|device| device.v4).collect()) }
    }

    /// Its addresses of IPv6, with the bits of their networks. ENOMEM.
    pub fn v6(&self, ns: &NetNs) -> Result<Vec<Network<Ipv6Addr>>> {
        if self.is_loopback() { ns.lo.v6() } else { Ok(ns.device().into_iter().map(|device| device.v6).collect()) }
    }

    /// Its first address of IPv4.
    fn first_v4(&self, ns: &NetNs) -> Option<Network<Ipv4Addr>> {
        if self.is_loopback() { ns.lo.first_v4() } else { ns.device().map(|device| device.v4) }
    }
}

/// The mask of a network.
pub fn netmask(bits: u8) -> [u8; 4] {
    u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0).to_be_bytes()
}

/// The broadcast address of a network.
pub fn broadcast((address, bits): Network<Ipv4Addr>) -> [u8; 4] {
    let (address, mask) = (address.octets(), netmask(bits));
    core::array::from_fn(|i| address[i] | !mask[i])
}

/// Bytes of `struct ifreq`, and where its union begins.
const REQUEST: usize = 40;
const VALUE: usize = 16;

/// The device that a request names. ENODEV, EFAULT.
fn named(ns: &NetNs, arg: usize) -> Result<Interface> {
    let name: [u8; VALUE] = user::read(arg)?;
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    // An alias is the same device.
    let name = name.split(|&byte| byte == b':').next().unwrap_or_default();
    all(ns).find(|device| device.name == name).ok_or(Errno::ENODEV)
}

/// The device that a request changes. ENODEV, EFAULT; EPERM: the thread may not, or the device cannot be changed.
fn changed(ns: &NetNs, arg: usize) -> Result<Interface> {
    let device = named(ns, arg)?;
    if ns.permits(g::CAP_NET_ADMIN) && device.is_loopback() { Ok(device) } else { Err(Errno::EPERM) }
}

/// Stores a value, the rest of it zero.
fn store(arg: usize, value: &[u8]) -> Result<()> {
    let mut bytes = [0; REQUEST - VALUE];
    for (to, from) in bytes.iter_mut().zip(value) {
        *to = *from;
    }
    user::write(arg + VALUE, &bytes)
}

/// `struct sockaddr_in` of an address.
fn inet(address: [u8; 4]) -> [u8; 16] {
    let mut out = [0; 16];
    out[..2].copy_from_slice(&(net::AF_INET as u16).to_ne_bytes());
    out[4..8].copy_from_slice(&address);
    out
}

/// `SIOCGIFCONF`: the devices with an address of IPv4. EFAULT.
fn list(ns: &NetNs, arg: usize) -> Result<usize> {
    let room: i32 = user::read(arg)?;
    let buffer: usize = user::read(arg + 8)?;
    let room = usize::try_from(room).unwrap_or(0) / REQUEST;
    let mut used = 0;
    for device in all(ns) {
        for (address, _) in device.v4(ns)? {
            if buffer != 0 && used == room * REQUEST {
                break;
            }
            if buffer != 0 {
                let mut request = [0; REQUEST];
                request[..device.name.len()].copy_from_slice(device.name);
                request[VALUE..VALUE + 16].copy_from_slice(&inet(address.octets()));
                user::write(buffer + used, &request)?;
            }
            used += REQUEST;
        }
    }
    user::write(arg, &(used as i32))?;
    Ok(0)
}

/// `SIOCETHTOOL`.
const ETHTOOL: u32 = 0x8946;

/// Requests of all socket families. ENODEV, EPERM, EINVAL, ENOTTY.
pub fn ioctl(ns: &Rc<NetNs>, command: u32, arg: usize) -> Result<usize> {
    match command {
        i::SIOCGIFCONF => return list(ns, arg),
        i::SIOCGIFNAME => {
            let index: u32 = user::read(arg + VALUE)?;
            let device = all(ns).find(|device| device.index == index).ok_or(Errno::ENODEV)?;
            let mut name = [0; VALUE];
            name[..device.name.len()].copy_from_slice(device.name);
            return user::write(arg, &name).map(|()| 0);
        }
        i::SIOCGIFFLAGS => store(arg, &(named(ns, arg)?.flags as u16).to_ne_bytes()),
        i::SIOCGIFINDEX => store(arg, &named(ns, arg)?.index.to_ne_bytes()),
        i::SIOCGIFMTU => store(arg, &named(ns, arg)?.mtu.to_ne_bytes()),
        i::SIOCGIFTXQLEN => store(arg, &named(ns, arg)?.queue.to_ne_bytes()),
        i::SIOCGIFHWADDR => {
            let device = named(ns, arg)?;
            let [a, b] = device.kind.to_ne_bytes();
            let [c, d, e, f, g, h] = device.hardware;
            store(arg, &[a, b, c, d, e, f, g, h])
        }
        i::SIOCGIFMETRIC | i::SIOCGIFMAP => {
            named(ns, arg)?;
            store(arg, &[])
        }
        i::SIOCSIFFLAGS => {
            changed(ns, arg)?;
            let flags: u16 = user::read(arg + VALUE)?;
            ns.lo.change_flags(flags.into(), u16::MAX.into());
            Ok(())
        }
        i::SIOCSIFMTU => {
            changed(ns, arg)?;
            let mtu: i32 = user::read(arg + VALUE)?;
            ns.lo.mtu.set(u32::try_from(mtu).map_err(|_| Errno::EINVAL)?);
            Ok(())
        }
        i::SIOCSIFTXQLEN => {
            changed(ns, arg)?;
            let packets: i32 = user::read(arg + VALUE)?;
            ns.lo.queue.set(u32::try_from(packets).map_err(|_| Errno::EINVAL)?);
            Ok(())
        }
        i::SIOCSIFNAME | i::SIOCSIFHWADDR => {
            named(ns, arg)?;
            return Err(if ns.permits(g::CAP_NET_ADMIN) { Errno::EOPNOTSUPP } else { Errno::EPERM });
        }
        // The devices have no registers, media and the like.
        ETHTOOL => {
            named(ns, arg)?;
            return Err(Errno::EOPNOTSUPP);
        }
        _ => return Err(Errno::ENOTTY),
    }?;
    if matches!(command, i::SIOCSIFFLAGS | i::SIOCSIFMTU | i::SIOCSIFTXQLEN) {
        netlink::tell_link(ns)?;
    }
    Ok(0)
}

/// `SIOCSIFADDR`: the first address of the loopback device, with the mask of its class; the device comes up. EINVAL, ENOMEM.
fn set_address(ns: &NetNs, arg: usize) -> Result<()> {
    let given: [u8; 16] = user::read(arg + VALUE)?;
    let family = u32::from(u16::from_ne_bytes([given[0], given[1]]));
    let [.., a, b, c, d] = *given.first_chunk::<8>().ok_or(Errno::EINVAL)?;
    let ip = Ipv4Addr::new(a, b, c, d);
    let bits = match a {
        0 if ip.is_unspecified() => 0,
        0..128 => 8,
        128..192 => 16,
        192..224 => 24,
        _ => return Err(Errno::EINVAL),
    };
    if family != net::AF_INET {
        return Err(Errno::EINVAL);
    }
    if ns.lo.first_v4() == Some((ip, bits)) {
        return Ok(());
    }
    if let Some((old, bits)) = ns.lo.first_v4() {
        ns.lo.remove(old.into(), bits)?;
    }
    if !ip.is_unspecified() {
        ns.lo.add(ip.into(), bits)?;
        ns.lo.change_flags(loopback::UP, loopback::UP);
    }
    Ok(())
}

/// Requests of AF_INET sockets only. ENODEV, EPERM, EADDRNOTAVAIL, ENOTTY.
pub fn ioctl4(ns: &NetNs, command: u32, arg: usize) -> Result<usize> {
    let value: fn(&Interface, Network<Ipv4Addr>) -> [u8; 4] = match command {
        i::SIOCGIFADDR | i::SIOCGIFDSTADDR => |_, own| own.0.octets(),
        i::SIOCGIFBRDADDR => |device, own| if device.is_loopback() { [0; 4] } else { broadcast(own) },
        i::SIOCGIFNETMASK => |_, own| netmask(own.1),
        i::SIOCSIFADDR => {
            changed(ns, arg)?;
            return set_address(ns, arg).map(|()| 0);
        }
        i::SIOCSIFDSTADDR | i::SIOCSIFBRDADDR | i::SIOCSIFNETMASK => {
            named(ns, arg)?;
            return Err(if ns.permits(g::CAP_NET_ADMIN) { Errno::EOPNOTSUPP } else { Errno::EPERM });
        }
        _ => return Err(Errno::ENOTTY),
    };
    let device = named(ns, arg)?;
    let own = device.first_v4(ns).ok_or(Errno::EADDRNOTAVAIL)?;
    store(arg, &inet(value(&device, own)))?;
    Ok(0)
}
