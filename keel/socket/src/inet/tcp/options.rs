//! SOL_TCP options. Most tune the protocol for a network, so they are only stored.

use super::super::super::options::{Value, int, read_int};
use super::info::SEGMENT;
use core::cell::Cell;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Numbers of options that are kept.
const COUNT: usize = 40;
/// Segment size before a connection.
const DEFAULT_SEGMENT: i32 = 536;
const MIN_SEGMENT: i32 = 88;
const MAX_SEGMENT: i32 = 32767;
/// Seconds in FIN_WAIT2 (`net.ipv4.tcp_fin_timeout`).
const DEFAULT_LINGER: i32 = 60;
/// The window that a new connection has.
const WINDOW: i32 = 65536;
/// Smallest `TCP_WINDOW_CLAMP`: half of the smallest receive buffer.
const MIN_CLAMP: i32 = 1152;
/// Names of `TCP_CONGESTION`, with the zero at the end.
const CONGESTION_NAME: usize = 16;
/// Longest retransmission timeout in seconds.
const MAX_TIMEOUT: i32 = 120;

/// Values by number.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    values: [Cell<i32>; COUNT],
    /// `TCP_CONGESTION` is `reno`.
    reno: Cell<bool>,
}

impl Default for TcpOptions {
    fn default() -> Self {
        let options = Self { values: core::array::from_fn(|_| Cell::new(0)), reno: Cell::new(false) };
        let defaults = [
            (net::TCP_MAXSEG, DEFAULT_SEGMENT),
            (net::TCP_KEEPIDLE, 7200),
            (net::TCP_KEEPINTVL, 75),
            (net::TCP_KEEPCNT, 9),
            (net::TCP_SYNCNT, 6),
            (net::TCP_LINGER2, DEFAULT_LINGER),
            (net::TCP_QUICKACK, 1),
        ];
        for (name, value) in defaults {
            options.put(name, value);
        }
        options
    }
}

/// Converts seconds of `TCP_DEFER_ACCEPT` as Linux does: to the time of a number of retransmissions.
fn deferred(seconds: i32) -> i32 {
    if seconds <= 0 {
        return 0;
    }
    let (mut period, mut timeout) = (1, 1);
    // At most 255 retransmissions.
    for _ in 1..u8::MAX {
        if seconds <= period {
            break;
        }
        timeout = (timeout * 2).min(MAX_TIMEOUT);
        period += timeout;
    }
    period
}

fn within(value: i32, min: i32, max: i32) -> Result<i32> {
    if (min..=max).contains(&value) { Ok(value) } else { Err(Errno::EINVAL) }
}

impl TcpOptions {
    fn put(&self, name: u32, value: i32) {
        if let Some(cell) = self.values.get(name as usize) {
            cell.set(value);
        }
    }

    fn value(&self, name: u32) -> i32 {
        self.values.get(name as usize).map_or(0, Cell::get)
    }

    /// The connection is there: its segments have the size of the device.
    pub fn connected(&self) {
        self.put(net::TCP_MAXSEG, SEGMENT as i32);
        if self.value(net::TCP_WINDOW_CLAMP) == 0 {
            self.put(net::TCP_WINDOW_CLAMP, WINDOW);
        }
    }

    /// `TCP_INQ` is on.
    pub fn tells_unread(&self) -> bool {
        self.value(net::TCP_INQ) != 0
    }

    /// `TCP_CORK` is on.
    pub fn is_corked(&self) -> bool {
        self.value(net::TCP_CORK) != 0
    }

    /// Seconds for which a connection without a byte is not accepted, `TCP_DEFER_ACCEPT`.
    pub fn deferral(&self) -> u64 {
        self.value(net::TCP_DEFER_ACCEPT).max(0) as u64
    }

    /// Options that a socket of the host gets when it is connected, if they differ from the defaults: level, name, value.
    pub fn forwarded(&self) -> impl Iterator<Item = (u32, u32, i32)> {
        let names = [
            net::TCP_NODELAY,
            net::TCP_KEEPIDLE,
            net::TCP_KEEPINTVL,
            net::TCP_KEEPCNT,
            net::TCP_LINGER2,
            net::TCP_USER_TIMEOUT,
        ];
        let default = Self::default();
        let set = names.into_iter().filter(move |name| self.value(*name) != default.value(*name));
        set.map(|name| (super::super::IPPROTO_TCP, name, self.value(name)))
    }

    /// setsockopt(2). `connected`: neither closed nor listening; `closed`. EINVAL, ENOENT, EPERM, ENOPROTOOPT.
    pub fn set(&self, name: u32, value: &[u8], connected: bool, closed: bool) -> Result<()> {
        match name {
            net::TCP_CONGESTION => {
                let name = value[..value.len().min(CONGESTION_NAME - 1)].split(|&b| b == 0).next().unwrap_or_default();
                self.reno.set(match name {
                    b"reno" => true,
                    b"cubic" => false,
                    b"" => return Err(Errno::EINVAL),
                    _ => return Err(Errno::ENOENT),
                });
                return Ok(());
            }
            net::TCP_ULP if value.is_empty() => return Err(Errno::EINVAL),
            net::TCP_ULP => return Err(Errno::ENOENT),
            net::TCP_REPAIR => return Err(Errno::EPERM),
            _ => {}
        }
        let number = read_int(value)?;
        let number = match name {
            net::TCP_NODELAY | net::TCP_CORK | net::TCP_QUICKACK => i32::from(number != 0),
            net::TCP_INQ | net::TCP_THIN_LINEAR_TIMEOUTS => within(number, 0, 1)?,
            // Accepted, without effect.
            net::TCP_THIN_DUPACK => within(number, 0, 1).map(|_| 0)?,
            net::TCP_SAVE_SYN => within(number, 0, 2)?,
            net::TCP_FASTOPEN_NO_COOKIE if connected => return Err(Errno::EINVAL),
            net::TCP_FASTOPEN_NO_COOKIE => within(number, 0, 1)?,
            // Only for sockets under repair.
            net::TCP_TIMESTAMP | net::TCP_REPAIR_QUEUE | net::TCP_REPAIR_WINDOW => return Err(Errno::EPERM),
            net::TCP_REPAIR_OPTIONS => return Err(Errno::EINVAL),
            net::TCP_QUEUE_SEQ => return Err(if closed { Errno::EINVAL } else { Errno::EPERM }),
            net::TCP_KEEPIDLE | net::TCP_KEEPINTVL => within(number, 1, 32767)?,
            net::TCP_KEEPCNT | net::TCP_SYNCNT => within(number, 1, 127)?,
            net::TCP_LINGER2 if number == 0 => DEFAULT_LINGER,
            net::TCP_LINGER2 => number.clamp(-1, 120),
            net::TCP_DEFER_ACCEPT => deferred(number),
            net::TCP_WINDOW_CLAMP if number == 0 && !closed => return Err(Errno::EINVAL),
            net::TCP_WINDOW_CLAMP if number != 0 => number.max(MIN_CLAMP),
            net::TCP_WINDOW_CLAMP | net::TCP_NOTSENT_LOWAT => number,
            net::TCP_USER_TIMEOUT => within(number, 0, i32::MAX)?,
            net::TCP_MAXSEG if number == 0 => DEFAULT_SEGMENT,
            net::TCP_MAXSEG => within(number, MIN_SEGMENT, MAX_SEGMENT)?,
            net::TCP_FASTOPEN if connected => return Err(Errno::EINVAL),
            net::TCP_FASTOPEN => within(number, 0, i32::MAX)?,
            // No peer has given a cookie, so a connection is made as without it.
            net::TCP_FASTOPEN_CONNECT if !closed => return Err(Errno::EINVAL),
            net::TCP_FASTOPEN_CONNECT => within(number, 0, 1)?,
            _ => return Err(Errno::ENOPROTOOPT),
        };
        self.put(name, number);
        Ok(())
    }

    /// getsockopt(2). ENOPROTOOPT.
    pub fn get(&self, name: u32) -> Result<Value> {
        match name {
            net::TCP_CONGESTION => {
                let mut value = Value::from_slice(if self.reno.get() { b"reno" } else { b"cubic" });
                value.resize(CONGESTION_NAME, 0);
                Ok(value)
            }
            net::TCP_QUEUE_SEQ | net::TCP_REPAIR_QUEUE | net::TCP_REPAIR_WINDOW => Err(Errno::EINVAL),
            net::TCP_REPAIR => Ok(int(0)),
            // There are no packets, so none is saved.
            net::TCP_ULP | net::TCP_SAVED_SYN => Ok(Value::new()),
            net::TCP_NODELAY
            | net::TCP_CORK
            | net::TCP_QUICKACK
            | net::TCP_THIN_LINEAR_TIMEOUTS
            | net::TCP_THIN_DUPACK
            | net::TCP_SAVE_SYN
            | net::TCP_INQ
            | net::TCP_FASTOPEN_NO_COOKIE
            | net::TCP_KEEPIDLE
            | net::TCP_KEEPINTVL
            | net::TCP_KEEPCNT
            | net::TCP_SYNCNT
            | net::TCP_LINGER2
            | net::TCP_DEFER_ACCEPT
            | net::TCP_WINDOW_CLAMP
            | net::TCP_NOTSENT_LOWAT
            | net::TCP_TIMESTAMP
            | net::TCP_USER_TIMEOUT
            | net::TCP_MAXSEG
            | net::TCP_FASTOPEN_CONNECT
            | net::TCP_FASTOPEN => Ok(int(self.value(name))),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
}
