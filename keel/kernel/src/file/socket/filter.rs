//! Filters of received datagrams, `SO_ATTACH_FILTER`: classic BPF.

use super::Socket;
use super::options::Options;
use crate::mm::user;
use alloc::rc::Rc;
use alloc::vec::Vec;
use keel_core::bpf::packet::Packet;
use keel_core::bpf::{Instruction, MAX_LEN, Program};
use uapi::raw::net;
use uapi::{Errno, Result};

/// A checked program over packets.
pub type Filter = Program<Packet<'static>>;

/// Bytes of `struct sock_fprog`.
const PROGRAM: usize = 16;

/// Whether a socket's filter is applied: to UDP and local sockets. The others have no packets here.
fn has_packets(socket: &Socket) -> bool {
    socket.family == net::AF_UNIX || socket.kind == net::SOCK_DGRAM && socket.family != net::AF_NETLINK
}

/// `SO_ATTACH_FILTER`. ENOPROTOOPT, EINVAL, EPERM, EFAULT, ENOMEM.
pub fn attach(socket: &Socket, value: &[u8]) -> Result<()> {
    if !has_packets(socket) {
        return Err(Errno::ENOPROTOOPT);
    }
    let bytes: [u8; PROGRAM] = value.try_into().map_err(|_| Errno::EINVAL)?;
    let [l0, l1, .., a0, a1, a2, a3, a4, a5, a6, a7] = bytes;
    let options = socket.ops.options();
    if options.filter_locked.get() {
        return Err(Errno::EPERM);
    }
    let len = usize::from(u16::from_ne_bytes([l0, l1]));
    if len == 0 || len > MAX_LEN {
        return Err(Errno::EINVAL);
    }
    let address = usize::from_ne_bytes([a0, a1, a2, a3, a4, a5, a6, a7]);
    let mut raw = Vec::new();
    raw.try_reserve_exact(len * 8).map_err(|_| Errno::ENOMEM)?;
    raw.resize(len * 8, 0);
    user::read_bytes(address, &mut raw)?;
    let mut instructions = Vec::new();
    instructions.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
    instructions.extend(raw.as_chunks().0.iter().map(|word| Instruction::from_raw(u64::from_ne_bytes(*word))));
    let filter = Filter::new(instructions).ok_or(Errno::EINVAL)?;
    let _old = options.filter.replace(Some(Rc::new(filter)));
    Ok(())
}

/// `SO_DETACH_FILTER`. ENOPROTOOPT, EPERM, ENOENT.
pub fn detach(socket: &Socket) -> Result<()> {
    if !has_packets(socket) {
        return Err(Errno::ENOPROTOOPT);
    }
    let options = socket.ops.options();
    if options.filter_locked.get() {
        return Err(Errno::EPERM);
    }
    options.filter.take().map(drop).ok_or(Errno::ENOENT)
}

/// `SO_LOCK_FILTER`: for ever. EPERM.
pub fn lock(options: &Options, on: bool) -> Result<()> {
    if !on && options.filter_locked.get() {
        return Err(Errno::EPERM);
    }
    options.filter_locked.set(on);
    Ok(())
}

/// Applies the receiver's filter to a packet: returns the number of bytes to keep, `None` if it is dropped.
pub fn keeps(options: &Options, header: &[u8], body: &[u8]) -> Option<usize> {
    let filter = options.filter.borrow().clone();
    let Some(filter) = filter else { return Some(body.len()) };
    match filter.run(&Packet { header, body }) as usize {
        0 => None,
        kept => Some(kept.saturating_sub(header.len()).min(body.len())),
    }
}
