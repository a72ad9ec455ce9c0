//! Socket options of the level SOL_SOCKET, socket(7).

use super::Socket;
use core::cell::Cell;
use smallvec::SmallVec;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Default buffer size in bytes (`net.core.wmem_default`).
pub const DEFAULT_BUFFER: u32 = 212_992;
/// Largest and smallest that a program gets (twice `net.core.wmem_max`; `SOCK_MIN_SNDBUF`).
const MAX_BUFFER: u32 = 2 * 212_992;
const MIN_BUFFER: u32 = 4608;

/// Values that all families keep.
#[derive(Debug)]
pub struct Options {
    /// `SO_RCVTIMEO` in ns; 0: wait for ever.
    pub receive_timeout_ns: Cell<u64>,
    /// `SO_SNDTIMEO` in ns; 0: wait for ever.
    pub send_timeout_ns: Cell<u64>,
    /// `SO_SNDBUF` as it is reported.
    pub send_buffer: Cell<u32>,
    /// `SO_RCVBUF` as it is reported.
    pub receive_buffer: Cell<u32>,
    /// `SO_PASSCRED`.
    pub pass_credentials: Cell<bool>,
    /// On-off options by number: stored, and given back.
    switches: Cell<u128>,
    priority: Cell<u32>,
    linger: Cell<[i32; 2]>,
    low_water: Cell<i32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            receive_timeout_ns: Cell::new(0),
            send_timeout_ns: Cell::new(0),
            send_buffer: Cell::new(DEFAULT_BUFFER),
            receive_buffer: Cell::new(DEFAULT_BUFFER),
            pass_credentials: Cell::new(false),
            switches: Cell::new(0),
            priority: Cell::new(0),
            linger: Cell::new([0, 0]),
            low_water: Cell::new(1),
        }
    }
}

/// An option value on its way to the program.
pub type Value = SmallVec<[u8; 16]>;

fn int(value: i32) -> Value {
    Value::from_slice(&value.to_ne_bytes())
}

fn pair(a: i64, b: i64) -> Value {
    let mut value = Value::from_slice(&a.to_ne_bytes());
    value.extend_from_slice(&b.to_ne_bytes());
    value
}

/// The `int` that most options are. EINVAL.
fn read_int(value: &[u8]) -> Result<i32> {
    value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Errno::EINVAL)
}

/// A `struct timeval` in ns. EINVAL, EDOM.
fn read_timeout(value: &[u8]) -> Result<u64> {
    let (Some(seconds), Some(micros)) = (value.first_chunk::<8>(), value.get(8..).and_then(|v| v.first_chunk::<8>()))
    else {
        return Err(Errno::EINVAL);
    };
    let (seconds, micros) = (i64::from_ne_bytes(*seconds), i64::from_ne_bytes(*micros));
    if !(0..1_000_000).contains(&micros) {
        return Err(Errno::EDOM);
    }
    // A negative time is none at all; 1 ns is as near to that as 0 (for ever) allows.
    let Ok(seconds) = u64::try_from(seconds) else { return Ok(1) };
    Ok(seconds.saturating_mul(1_000_000_000).saturating_add(micros as u64 * 1000))
}

fn buffer(value: i32) -> u32 {
    (value.max(0) as u32).saturating_mul(2).clamp(MIN_BUFFER, MAX_BUFFER)
}

/// Whether an option is one that is merely switched on and off.
fn is_switch(name: u32) -> bool {
    matches!(
        name,
        net::SO_DEBUG
            | net::SO_REUSEADDR
            | net::SO_DONTROUTE
            | net::SO_BROADCAST
            | net::SO_KEEPALIVE
            | net::SO_OOBINLINE
            | net::SO_REUSEPORT
            | net::SO_TIMESTAMP_OLD
            | net::SO_PASSSEC
    )
}

/// setsockopt(2) of SOL_SOCKET.
pub fn set(socket: &Socket, name: u32, value: &[u8]) -> Result<()> {
    let options = &socket.options;
    let number = read_int(value)?;
    match name {
        name if is_switch(name) => {
            let bit = 1 << name;
            let switches = options.switches.get();
            options.switches.set(if number != 0 { switches | bit } else { switches & !bit });
        }
        net::SO_SNDBUF | net::SO_SNDBUFFORCE => options.send_buffer.set(buffer(number)),
        net::SO_RCVBUF | net::SO_RCVBUFFORCE => options.receive_buffer.set(buffer(number)),
        net::SO_RCVTIMEO_OLD | net::SO_RCVTIMEO_NEW => options.receive_timeout_ns.set(read_timeout(value)?),
        net::SO_SNDTIMEO_OLD | net::SO_SNDTIMEO_NEW => options.send_timeout_ns.set(read_timeout(value)?),
        net::SO_PASSCRED => options.pass_credentials.set(number != 0),
        net::SO_PRIORITY => options.priority.set(number as u32),
        net::SO_RCVLOWAT => options.low_water.set(number.max(1)),
        net::SO_LINGER => {
            let seconds = value.get(4..).ok_or(Errno::EINVAL).and_then(read_int)?;
            options.linger.set([i32::from(number != 0), seconds]);
        }
        _ => return socket.ops.set_option(net::SOL_SOCKET as i32, name as i32, value),
    }
    Ok(())
}

/// getsockopt(2) of SOL_SOCKET.
pub fn get(socket: &Socket, name: u32) -> Result<Value> {
    let options = &socket.options;
    let timeout = |ns: u64| pair((ns / 1_000_000_000) as i64, (ns % 1_000_000_000 / 1000) as i64);
    Ok(match name {
        name if is_switch(name) => int((options.switches.get() >> name & 1) as i32),
        net::SO_TYPE => int(socket.kind as i32),
        net::SO_DOMAIN => int(socket.family as i32),
        net::SO_PROTOCOL => int(socket.protocol as i32),
        net::SO_ERROR => int(socket.ops.take_error().map_or(0, Errno::code)),
        net::SO_ACCEPTCONN => int(i32::from(socket.ops.is_listening())),
        net::SO_SNDBUF => int(options.send_buffer.get() as i32),
        net::SO_RCVBUF => int(options.receive_buffer.get() as i32),
        net::SO_RCVTIMEO_OLD | net::SO_RCVTIMEO_NEW => timeout(options.receive_timeout_ns.get()),
        net::SO_SNDTIMEO_OLD | net::SO_SNDTIMEO_NEW => timeout(options.send_timeout_ns.get()),
        net::SO_PASSCRED => int(i32::from(options.pass_credentials.get())),
        net::SO_PRIORITY => int(options.priority.get() as i32),
        net::SO_RCVLOWAT => int(options.low_water.get()),
        net::SO_SNDLOWAT => int(1),
        net::SO_LINGER => {
            let [on, seconds] = options.linger.get();
            let mut value = int(on);
            value.extend_from_slice(&seconds.to_ne_bytes());
            value
        }
        net::SO_PEERCRED => {
            let mut value = Value::new();
            for word in socket.ops.peer_credentials()? {
                value.extend_from_slice(&word.to_ne_bytes());
            }
            value
        }
        _ => return socket.ops.get_option(net::SOL_SOCKET as i32, name as i32),
    })
}
