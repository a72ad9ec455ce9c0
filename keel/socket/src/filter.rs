//! Filters of received messages, `SO_ATTACH_FILTER`: classic BPF.

use super::options::{Answer, Options, Value};
use super::{Socket, inet};
use alloc::rc::Rc;
use alloc::vec::Vec;
use file::caller::caller;
use keel_core::bpf::packet::Packet;
use keel_core::bpf::{Instruction, MAX_LEN, Program};
use mm::user;
use uapi::raw::net;
use uapi::{Errno, Result};

/// A checked program over packets.
pub type Filter = Program<Packet<'static>>;

/// Bytes of an instruction.
const INSTRUCTION: usize = 8;
/// Bytes of `struct sock_fprog`.
const PROGRAM: usize = 16;

/// Whether a socket's filter is applied. A TCP connection has no packets here.
fn has_packets(socket: &Socket) -> bool {
    socket.protocol != inet::IPPROTO_TCP || !matches!(socket.family, net::AF_INET | net::AF_INET6)
}

/// The program of a `struct sock_fprog`. EINVAL, EPERM, EFAULT, ENOMEM.
pub(super) fn read(options: &Options, value: &[u8]) -> Result<Filter> {
    let bytes: [u8; PROGRAM] = value.try_into().map_err(|_| Errno::EINVAL)?;
    let [l0, l1, .., a0, a1, a2, a3, a4, a5, a6, a7] = bytes;
    if options.filter_locked.get() {
        return Err(Errno::EPERM);
    }
    let len = usize::from(u16::from_ne_bytes([l0, l1]));
    let address = usize::from_ne_bytes([a0, a1, a2, a3, a4, a5, a6, a7]);
    if len == 0 || len > MAX_LEN || address == 0 {
        return Err(Errno::EINVAL);
    }
    let mut raw = Vec::new();
    raw.try_reserve_exact(len * INSTRUCTION).map_err(|_| Errno::ENOMEM)?;
    raw.resize(len * INSTRUCTION, 0);
    user::read_bytes(address, &mut raw)?;
    let mut instructions = Vec::new();
    instructions.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
    instructions.extend(raw.as_chunks().0.iter().map(|word| Instruction::from_raw(u64::from_ne_bytes(*word))));
    Filter::new(instructions).ok_or(Errno::EINVAL)
}

/// `SO_ATTACH_FILTER`. ENOPROTOOPT, EINVAL, EPERM, EFAULT, ENOMEM.
pub fn attach(socket: &Socket, value: &[u8]) -> Result<()> {
    let options = socket.ops.options();
    let filter = read(options, value)?;
    if !has_packets(socket) {
        return Err(Errno::ENOPROTOOPT);
    }
    let _old = options.filter.replace(Some(Rc::new(filter)));
    Ok(())
}

/// `SO_GET_FILTER`: its length is a number of instructions, and without room only that is told. EINVAL, ENOMEM.
pub fn get(options: &Options, room: usize) -> Result<Answer> {
    let filter = options.filter.borrow().clone();
    let len = filter.as_ref().map_or(0, |filter| filter.len());
    let mut bytes = Value::new();
    if let Some(filter) = filter.filter(|_| room > 0) {
        if room < len {
            return Err(Errno::EINVAL);
        }
        bytes.try_reserve(len * INSTRUCTION).map_err(|_| Errno::ENOMEM)?;
        for instruction in filter.instructions() {
            bytes.extend_from_slice(&instruction.to_raw().to_ne_bytes());
        }
    }
    Ok(Answer { bytes, len })
}

/// Why a descriptor is no loaded program: there are none. EINVAL, EPERM, EBADF.
pub fn loaded(options: &Options, fd: i32, value: &[u8]) -> Errno {
    if value.len() != size_of::<i32>() {
        return Errno::EINVAL;
    }
    if options.filter_locked.get() {
        return Errno::EPERM;
    }
    caller().file(fd).err().unwrap_or(Errno::EINVAL)
}

/// `SO_DETACH_FILTER`. EPERM, ENOENT.
pub fn detach(options: &Options) -> Result<()> {
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
