//! The network devices: the loopback device, and one in a pod with a network; requests of ioctl(2) about them, netdevice(7).

use super::ip_options::LOOPBACK;
use super::outward;
use crate::mm::user;
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
    /// Its address of IPv4, and the bits of its network.
    pub v4: ([u8; 4], u8),
    /// The same of IPv6.
    pub v6: ([u8; 16], u8),
}

/// Packets that may wait.
pub const QUEUE: u32 = 1000;
/// The loopback device: `IFF_UP`, `IFF_LOOPBACK`, `IFF_RUNNING`; `ARPHRD_LOOPBACK`.
const LO: Interface = Interface {
    index: LOOPBACK,
    name: b"lo",
    flags: 0x49,
    mtu: 65536,
    kind: 772,
    hardware: [0; 6],
    v4: ([127, 0, 0, 1], 8),
    v6: ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 128),
};

/// The devices that there are.
pub fn all() -> impl Iterator<Item = Interface> {
    // `IFF_UP`, `IFF_BROADCAST`, `IFF_RUNNING`, `IFF_MULTICAST`; `ARPHRD_ETHER`.
    let eth0 = outward::device().map(|device| Interface {
        index: LOOPBACK + 1,
        name: b"eth0",
        flags: 0x1043,
        mtu: 1500,
        kind: 1,
        hardware: [2, b'h', b'u', b'l', b'l', 0],
        v4: (device.v4.0.octets(), device.v4.1),
        v6: (device.v6.0.octets(), device.v6.1),
    });
    [LO].into_iter().chain(eth0)
}

impl Interface {
    /// Whether it is the loopback device.
    pub fn is_loopback(&self) -> bool {
        self.index == LOOPBACK
    }

    /// The mask of its network.
    pub fn netmask(&self) -> [u8; 4] {
        u32::MAX.checked_shl(32 - u32::from(self.v4.1)).unwrap_or(0).to_be_bytes()
    }

    /// The broadcast address of its network.
    pub fn broadcast(&self) -> [u8; 4] {
        let (address, mask) = (self.v4.0, self.netmask());
        core::array::from_fn(|i| address[i] | !mask[i])
    }
}

/// Bytes of `struct ifreq`, and where its union begins.
const REQUEST: usize = 40;
const VALUE: usize = 16;

/// The device that a request names. ENODEV, EFAULT.
fn named(arg: usize) -> Result<Interface> {
    let name: [u8; VALUE] = user::read(arg)?;
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    // An alias is the same device.
    let name = name.split(|&byte| byte == b':').next().unwrap_or_default();
    all().find(|device| device.name == name).ok_or(Errno::ENODEV)
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
fn list(arg: usize) -> Result<usize> {
    let room: i32 = user::read(arg)?;
    let buffer: usize = user::read(arg + 8)?;
    let room = usize::try_from(room).unwrap_or(0) / REQUEST;
    let mut used = 0;
    for device in all().take(if buffer == 0 { usize::MAX } else { room }) {
        if buffer != 0 {
            let mut request = [0; REQUEST];
            request[..device.name.len()].copy_from_slice(device.name);
            request[VALUE..VALUE + 16].copy_from_slice(&inet(device.v4.0));
            user::write(buffer + used, &request)?;
        }
        used += REQUEST;
    }
    user::write(arg, &(used as i32))?;
    Ok(0)
}

/// `SIOCETHTOOL`.
const ETHTOOL: u32 = 0x8946;

/// Requests of all socket families. ENODEV, EPERM, ENOTTY.
pub fn ioctl(command: u32, arg: usize) -> Result<usize> {
    match command {
        i::SIOCGIFCONF => return list(arg),
        i::SIOCGIFNAME => {
            let index: u32 = user::read(arg + VALUE)?;
            let device = all().find(|device| device.index == index).ok_or(Errno::ENODEV)?;
            let mut name = [0; VALUE];
            name[..device.name.len()].copy_from_slice(device.name);
            return user::write(arg, &name).map(|()| 0);
        }
        i::SIOCGIFFLAGS => store(arg, &(named(arg)?.flags as u16).to_ne_bytes()),
        i::SIOCGIFINDEX => store(arg, &named(arg)?.index.to_ne_bytes()),
        i::SIOCGIFMTU => store(arg, &named(arg)?.mtu.to_ne_bytes()),
        i::SIOCGIFTXQLEN => {
            named(arg)?;
            store(arg, &QUEUE.to_ne_bytes())
        }
        i::SIOCGIFHWADDR => {
            let device = named(arg)?;
            let [a, b] = device.kind.to_ne_bytes();
            let [c, d, e, f, g, h] = device.hardware;
            store(arg, &[a, b, c, d, e, f, g, h])
        }
        i::SIOCGIFMETRIC | i::SIOCGIFMAP => {
            named(arg)?;
            store(arg, &[])
        }
        i::SIOCSIFFLAGS | i::SIOCSIFMTU | i::SIOCSIFNAME | i::SIOCSIFHWADDR | i::SIOCSIFTXQLEN => {
            named(arg)?;
            return Err(Errno::EPERM);
        }
        // The devices have no registers, media and the like.
        ETHTOOL => {
            named(arg)?;
            return Err(Errno::EOPNOTSUPP);
        }
        _ => return Err(Errno::ENOTTY),
    }?;
    Ok(0)
}

/// Requests of AF_INET sockets only. ENODEV, EPERM, ENOTTY.
pub fn ioctl4(command: u32, arg: usize) -> Result<usize> {
    let address: fn(&Interface) -> [u8; 4] = match command {
        i::SIOCGIFADDR | i::SIOCGIFDSTADDR => |device| device.v4.0,
        i::SIOCGIFBRDADDR => |device| if device.is_loopback() { [0; 4] } else { device.broadcast() },
        i::SIOCGIFNETMASK => Interface::netmask,
        i::SIOCSIFADDR | i::SIOCSIFDSTADDR | i::SIOCSIFBRDADDR | i::SIOCSIFNETMASK => {
            named(arg)?;
            return Err(Errno::EPERM);
        }
        _ => return Err(Errno::ENOTTY),
    };
    let device = named(arg)?;
    store(arg, &inet(address(&device)))?;
    Ok(0)
}
