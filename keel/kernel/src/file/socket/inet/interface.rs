//! Requests of ioctl(2) about network devices, netdevice(7). There is one: the loopback device.

use super::ip_options::LOOPBACK;
use crate::mm::user;
use uapi::raw::ioctl as i;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Name, flags (`IFF_UP`, `IFF_LOOPBACK`, `IFF_RUNNING`), largest packet and kind (`ARPHRD_LOOPBACK`) of the device.
pub const NAME: &[u8] = b"lo";
/// Flags.
pub const FLAGS: u32 = 0x49;
/// Bytes of its largest packet.
pub const MTU: u32 = 65536;
/// `ARPHRD_LOOPBACK`.
pub const KIND: u16 = 772;
/// Packets that may wait.
pub const QUEUE: u32 = 1000;

/// Bytes of `struct ifreq`, and where its union begins.
const REQUEST: usize = 40;
const VALUE: usize = 16;

/// Name of the request, which must be the device's. ENODEV, EFAULT.
fn check_name(arg: usize) -> Result<()> {
    let name: [u8; VALUE] = user::read(arg)?;
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    // An alias is the same device.
    let name = name.split(|&byte| byte == b':').next().unwrap_or_default();
    if name == NAME { Ok(()) } else { Err(Errno::ENODEV) }
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
    let mut used = REQUEST;
    if buffer != 0 {
        if usize::try_from(room).is_ok_and(|room| room >= REQUEST) {
            let mut request = [0; REQUEST];
            request[..NAME.len()].copy_from_slice(NAME);
            request[VALUE..VALUE + 16].copy_from_slice(&inet([127, 0, 0, 1]));
            user::write(buffer, &request)?;
        } else {
            used = 0;
        }
    }
    user::write(arg, &(used as i32))?;
    Ok(0)
}

/// `SIOCETHTOOL`.
const ETHTOOL: u32 = 0x8946;

/// Requests of all socket families. ENODEV, EPERM, ENOTTY.
pub fn ioctl(command: u32, arg: usize) -> Result<usize> {
    let value: &[u8] = match command {
        i::SIOCGIFCONF => return list(arg),
        i::SIOCGIFNAME => {
            let index: u32 = user::read(arg + VALUE)?;
            if index != LOOPBACK {
                return Err(Errno::ENODEV);
            }
            let mut name = [0; VALUE];
            name[..NAME.len()].copy_from_slice(NAME);
            return user::write(arg, &name).map(|()| 0);
        }
        i::SIOCGIFFLAGS => &(FLAGS as u16).to_ne_bytes(),
        i::SIOCGIFINDEX => &LOOPBACK.to_ne_bytes(),
        i::SIOCGIFMTU => &MTU.to_ne_bytes(),
        i::SIOCGIFTXQLEN => &QUEUE.to_ne_bytes(),
        i::SIOCGIFHWADDR => &KIND.to_ne_bytes(),
        i::SIOCGIFMETRIC | i::SIOCGIFMAP => &[],
        i::SIOCSIFFLAGS | i::SIOCSIFMTU | i::SIOCSIFNAME | i::SIOCSIFHWADDR | i::SIOCSIFTXQLEN => {
            check_name(arg)?;
            return Err(Errno::EPERM);
        }
        // The loopback device has no registers, media and the like.
        ETHTOOL => {
            check_name(arg)?;
            return Err(Errno::EOPNOTSUPP);
        }
        _ => return Err(Errno::ENOTTY),
    };
    check_name(arg)?;
    store(arg, value)?;
    Ok(0)
}

/// Requests of AF_INET sockets only. ENODEV, EPERM, ENOTTY.
pub fn ioctl4(command: u32, arg: usize) -> Result<usize> {
    let address = match command {
        i::SIOCGIFADDR | i::SIOCGIFDSTADDR => [127, 0, 0, 1],
        i::SIOCGIFBRDADDR => [0; 4],
        i::SIOCGIFNETMASK => [255, 0, 0, 0],
        i::SIOCSIFADDR | i::SIOCSIFDSTADDR | i::SIOCSIFBRDADDR | i::SIOCSIFNETMASK => {
            check_name(arg)?;
            return Err(Errno::EPERM);
        }
        _ => return Err(Errno::ENOTTY),
    };
    check_name(arg)?;
    store(arg, &inet(address))?;
    Ok(0)
}
