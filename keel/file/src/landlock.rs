//! Restrictions of a landlock(7) domain on sockets: TCP ports, abstract names.

use super::caller::caller;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::landlock::Domain;

/// Rights on ports, `LANDLOCK_ACCESS_NET_*`.
const BIND_TCP: u64 = 1;
const CONNECT_TCP: u64 = 2;
/// All rights on ports.
pub const PORT_RIGHTS: u64 = BIND_TCP | CONNECT_TCP;
/// `LANDLOCK_SCOPE_*`.
const SCOPE_ABSTRACT_SOCKET: u64 = 1;
/// `LANDLOCK_SCOPE_SIGNAL`.
pub const SCOPE_SIGNAL: u64 = 2;
/// All scopes.
pub const SCOPES: u64 = SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL;

/// Checks whether the current thread may use an abstract socket of a domain. EPERM.
pub fn check_abstract(owner: Option<&Domain>) -> Result<()> {
    match &caller().cred().domain {
        Some(domain) if domain.confines(owner, SCOPE_ABSTRACT_SOCKET) => Err(Errno::EPERM),
        _ => Ok(()),
    }
}

/// Whether the current thread may bind or connect a TCP socket of a family to an address. EACCES, EAFNOSUPPORT, EINVAL.
pub fn check_port(family: u32, address: &[u8], connect: bool) -> Result<()> {
    let Some(domain) = caller().cred().domain.clone() else { return Ok(()) };
    let Some(&[low, high]) = address.first_chunk() else { return Err(Errno::EINVAL) };
    let given = u32::from(u16::from_ne_bytes([low, high]));
    const SIZE: usize = 16;
    const SIZE_IPV6: usize = 24;
    match given {
        // Undoing a connection is always allowed.
        net::AF_UNSPEC if connect => return Ok(()),
        net::AF_UNSPEC | net::AF_INET if address.len() < SIZE => return Err(Errno::EINVAL),
        net::AF_INET6 if address.len() < SIZE_IPV6 => return Err(Errno::EINVAL),
        net::AF_UNSPEC if address.get(4..8) != Some(&[0; 4]) => return Err(Errno::EAFNOSUPPORT),
        net::AF_UNSPEC | net::AF_INET | net::AF_INET6 => {}
        _ => return Ok(()),
    }
    if given != family && given != net::AF_UNSPEC {
        return Err(Errno::EINVAL);
    }
    let Some(&[_, _, high, low]) = address.first_chunk() else { return Err(Errno::EINVAL) };
    let port = u16::from_be_bytes([high, low]);
    domain.check_port(port, if connect { CONNECT_TCP } else { BIND_TCP })
}
