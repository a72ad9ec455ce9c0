//! Structures of sockets and of calls that wait for several descriptors.

use super::super::names::{self, flags, one};
use super::{bytes, list, pointer, quoted, with};
use crate::mm::user;
use alloc::string::String;
use core::fmt::Write;

/// An iovec array with contents, of which the first `filled` bytes are valid.
pub fn pieces(line: &mut String, at: u64, count: usize, mut filled: usize) {
    list(line, count, |line, i| {
        let Ok([base, len]) = user::read::<[u64; 2]>(at as usize + i * 16) else { return false };
        line.push_str("{iov_base=");
        let shown = filled.min(len as usize);
        filled -= shown;
        bytes(line, base, shown);
        let _ = write!(line, ", iov_len={len}}}");
        true
    });
}

/// `struct msghdr`; `filled` as for [`pieces`].
pub fn message(line: &mut String, at: u64, filled: usize) {
    with(line, at, |line, [name, name_len, iov, count, _, control, bits]: [u64; 7]| {
        line.push_str("{msg_name=");
        address(line, name, name_len as u32 as usize);
        line.push_str(", msg_iov=");
        pieces(line, iov, count as usize, filled);
        let _ = write!(line, ", msg_iovlen={count}, msg_controllen={control}, msg_flags=");
        flags(line, bits & 0xffff_ffff, names::MESSAGE);
        line.push('}');
    });
}

/// A socket address.
pub fn address(line: &mut String, at: u64, len: usize) {
    let mut raw = [0; 128];
    let len = len.min(raw.len());
    let Some(raw) = raw.get_mut(..len).filter(|raw| raw.len() >= 2) else { return pointer(line, at) };
    if at == 0 || user::read_bytes(at as usize, raw).is_err() {
        return pointer(line, at);
    }
    let word = |i: usize| u16::from_be_bytes([raw.get(i).copied().unwrap_or(0), raw.get(i + 1).copied().unwrap_or(0)]);
    let family = word(0).swap_bytes();
    line.push_str("{sa_family=");
    one(line, family.into(), names::FAMILY);
    match (family, raw.get(2..).unwrap_or_default()) {
        (1, []) => {}
        (1, [0, name @ ..]) if !name.is_empty() => {
            line.push_str(", sun_path=@");
            quoted(line, name, 108);
        }
        (1, name) => {
            line.push_str(", sun_path=");
            quoted(line, name.split(|b| *b == 0).next().unwrap_or_default(), 108);
        }
        (2, [_, _, a, b, c, d, ..]) => {
            let _ = write!(line, ", sin_port=htons({}), sin_addr=inet_addr(\"{a}.{b}.{c}.{d}\")", word(2));
        }
        (10, rest) if rest.len() >= 22 => {
            let mut ip = [0; 16];
            ip.copy_from_slice(&rest[6..22]);
            let _ = write!(line, ", sin6_port=htons({}), sin6_addr=\"{}\"", word(2), core::net::Ipv6Addr::from(ip));
        }
        (_, rest) => {
            line.push_str(", sa_data=");
            quoted(line, rest, 14);
        }
    }
    line.push('}');
}

/// Length of an address that a call returned.
pub fn length(at: u64) -> usize {
    if at == 0 { 0 } else { user::read::<u32>(at as usize).unwrap_or(0) as usize }
}

/// `struct pollfd`s: requested events, or after the call returned events.
pub fn poll(line: &mut String, at: u64, count: usize, found: bool) {
    list(line, count, |line, i| {
        let Ok([fd, events]) = user::read::<[u32; 2]>(at as usize + i * 8) else { return false };
        let _ = write!(line, "{{fd={}, events=", fd as i32);
        flags(line, u64::from(events & 0xffff), names::POLL);
        if found && events >> 16 != 0 {
            line.push_str(", revents=");
            flags(line, u64::from(events >> 16), names::POLL);
        }
        line.push('}');
        true
    });
}

/// Sets of descriptors of select(2): `[0 3]`.
pub fn descriptor_set(line: &mut String, at: u64, count: usize) {
    if at == 0 {
        return pointer(line, at);
    }
    line.push('[');
    let mut first = true;
    for number in 0..count.min(1024) {
        let Ok(byte) = user::read::<u8>(at as usize + number / 8) else { break };
        if byte >> (number % 8) & 1 != 0 {
            let _ = write!(line, "{}{number}", if core::mem::take(&mut first) { "" } else { " " });
        }
    }
    line.push(']');
}

/// `struct epoll_event`s.
pub fn events(line: &mut String, at: u64, count: usize) {
    list(line, count, |line, i| event(line, at + i as u64 * 12));
}

/// One `struct epoll_event`.
pub fn event(line: &mut String, at: u64) -> bool {
    let Ok([events, low, high]) = user::read::<[u32; 3]>(at as usize) else {
        pointer(line, at);
        return at == 0;
    };
    line.push_str("{events=");
    flags(line, events.into(), names::EPOLL);
    let _ = write!(line, ", data={:#x}}}", u64::from(low) | u64::from(high) << 32);
    true
}
