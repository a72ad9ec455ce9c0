//! Options of SOL_SOCKET that are stored and returned and change nothing else. Each is one that changes nothing in Linux
//! either, on a system with the pod's devices: a loopback device without a queue.

use super::super::Socket;
use super::super::inet::IPPROTO_TCP;
use super::{Value, administrator, int, pair32, read_int};
use core::cell::Cell;
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Bytes of a token of `SO_DEVMEM_DONTNEED`, and most of them.
const TOKEN: usize = 8;
const MAX_TOKENS: usize = 128;
/// Bytes of `struct sock_txtime`.
const TXTIME: usize = 8;
/// `SOF_TXTIME_DEADLINE_MODE` and `SOF_TXTIME_REPORT_ERRORS`.
const TXTIME_FLAGS: u32 = 3;

/// Values of these options.
#[derive(Clone, Debug)]
pub struct Inert {
    /// `SO_MAX_PACING_RATE`: a queue of the device, or TCP, keeps the pace. There is no queue, and TCP refuses the option.
    pacing: Cell<u64>,
    /// `SO_BUSY_POLL_BUDGET`: packets that a polling program takes from a driver at a time.
    budget: Cell<i32>,
    /// `SO_TXREHASH`: another path after retransmissions; there are none.
    rehash: Cell<i32>,
    /// `SO_TXTIME`: clock and flags of departures, which a queue delays.
    departures: Cell<Option<[u32; 2]>>,
}

impl Default for Inert {
    fn default() -> Self {
        Self { pacing: Cell::new(u64::MAX), budget: Cell::new(0), rehash: Cell::new(1), departures: Cell::new(None) }
    }
}

/// Whether the option is one of those that are merely switched on and off.
pub(super) fn is_switch(name: u32) -> bool {
    matches!(
        name,
        // Messages of the kernel, which it has only where it is built for them.
        net::SO_DEBUG
            // Status of frames of a wireless device, and checksums that an Ethernet device leaves out.
            | net::SO_WIFI_STATUS
            | net::SO_NOFCS
            // Packets stay with the driver for the program that polls.
            | net::SO_PREFER_BUSY_POLL
            // Labels of a security module.
            | net::SO_PASSSEC
    )
}

impl Inert {
    /// Whether a message may have a time of departure.
    pub fn has_departures(&self) -> bool {
        self.departures.get().is_some()
    }
}

/// Sets one of them. ENOPROTOOPT: it is not one.
pub(super) fn set(socket: &Socket, inert: &Inert, name: u32, value: &[u8]) -> Result<()> {
    let number = read_int(value)?;
    let is_tcp = is_tcp(socket);
    match name {
        // The first is without effect since Linux 2.4. The second says that a route is bad; there is no other.
        net::SO_BSDCOMPAT | net::SO_CNX_ADVICE => {}
        net::SO_BUSY_POLL_BUDGET => {
            if number > inert.budget.get() {
                administrator(socket)?;
            }
            if !(0..=i32::from(u16::MAX)).contains(&number) {
                return Err(Errno::EINVAL);
            }
            inert.budget.set(number);
        }
        net::SO_MAX_PACING_RATE => {
            let rate = match value.first_chunk() {
                Some(bytes) => u64::from_ne_bytes(*bytes),
                None if number == -1 => u64::MAX,
                None => u64::from(number as u32),
            };
            if is_tcp && rate != u64::MAX {
                return Err(Errno::ENOPROTOOPT);
            }
            inert.pacing.set(rate);
        }
        net::SO_TXREHASH if !is_tcp => return Err(Errno::EOPNOTSUPP),
        net::SO_TXREHASH => inert.rehash.set(match number {
            -1 => 1,
            0 | 1 => number,
            _ => return Err(Errno::EINVAL),
        }),
        net::SO_TXTIME => inert.departures.set(Some(departures(socket, value)?)),
        // Returns memory of a device that received bytes lie in; there is none.
        net::SO_DEVMEM_DONTNEED if !is_tcp => return Err(Errno::EBADF),
        net::SO_DEVMEM_DONTNEED if !value.len().is_multiple_of(TOKEN) || value.len() > TOKEN * MAX_TOKENS => {
            return Err(Errno::EINVAL);
        }
        net::SO_DEVMEM_DONTNEED => {}
        // Reserves memory of a cgroup; there are none in a pod.
        net::SO_RESERVE_MEM if number < 0 => return Err(Errno::EINVAL),
        net::SO_RESERVE_MEM => return Err(Errno::EOPNOTSUPP),
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

/// `SO_TXTIME`. EINVAL, EPERM.
fn departures(socket: &Socket, value: &[u8]) -> Result<[u32; 2]> {
    let bytes: [u8; TXTIME] = value.try_into().map_err(|_| Errno::EINVAL)?;
    let [a, b, c, d, flags @ ..] = bytes;
    let (clock, flags) = (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes(flags));
    if flags & !TXTIME_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    if clock != g::CLOCK_MONOTONIC {
        administrator(socket)?;
    }
    match clock {
        g::CLOCK_REALTIME | g::CLOCK_MONOTONIC | g::CLOCK_TAI => Ok([clock, flags]),
        _ => Err(Errno::EINVAL),
    }
}

/// Whether it is a socket of TCP; numbers of netlink's protocols are others.
fn is_tcp(socket: &Socket) -> bool {
    matches!(socket.family, net::AF_INET | net::AF_INET6) && socket.protocol == IPPROTO_TCP
}

/// The value of one of them, for a program with room for so many bytes. ENOPROTOOPT: it is not one.
pub(super) fn get(socket: &Socket, inert: &Inert, name: u32, room: usize) -> Result<Value> {
    Ok(match name {
        // Packets come by no queue of a device (`SO_INCOMING_NAPI_ID`).
        net::SO_BSDCOMPAT | net::SO_INCOMING_NAPI_ID | net::SO_RESERVE_MEM => int(0),
        net::SO_MAX_PACING_RATE if room >= 8 => Value::from_slice(&inert.pacing.get().to_ne_bytes()),
        net::SO_MAX_PACING_RATE => int(inert.pacing.get().min(u64::from(u32::MAX)) as i32),
        net::SO_TXREHASH if is_tcp(socket) => int(inert.rehash.get()),
        net::SO_TXREHASH => return Err(Errno::EOPNOTSUPP),
        net::SO_TXTIME => {
            let [clock, flags] = inert.departures.get().unwrap_or_default();
            pair32(clock, flags)
        }
        _ => return Err(Errno::ENOPROTOOPT),
    })
}
