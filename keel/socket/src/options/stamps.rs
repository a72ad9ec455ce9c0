//! `SO_TIMESTAMPING`: which messages get times of arrival and departure.

use super::super::Socket;
use super::super::inet::IPPROTO_TCP;
use super::{Value, pair32, read_int};
use core::cell::Cell;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Flags, by number of the bit.
const TX_SOFTWARE: u32 = 1 << 1;
const RX_SOFTWARE: u32 = 1 << 3;
const SOFTWARE: u32 = 1 << 4;
const OPT_ID: u32 = 1 << 7;
const TX_SCHED: u32 = 1 << 8;
const TX_ACK: u32 = 1 << 9;
const OPT_TSONLY: u32 = 1 << 11;
const OPT_STATS: u32 = 1 << 12;
const BIND_PHC: u32 = 1 << 15;
const OPT_ID_TCP: u32 = 1 << 16;
const TX_COMPLETION: u32 = 1 << 18;
const ALL: u32 = (TX_COMPLETION << 1) - 1;

/// State of the option.
#[derive(Clone, Debug, Default)]
pub struct Stamping {
    flags: Cell<u32>,
    /// Set by `SO_TIMESTAMPING_NEW`.
    new: Cell<bool>,
}

impl Stamping {
    /// The type of the control data with the time of arrival, if the socket wants that.
    pub fn on_arrival(&self) -> Option<u32> {
        let wants = self.flags.get() & (SOFTWARE | RX_SOFTWARE) == SOFTWARE | RX_SOFTWARE;
        wants.then_some(if self.new.get() { net::SO_TIMESTAMPING_NEW } else { net::SO_TIMESTAMPING_OLD })
    }

    /// getsockopt(2).
    pub(super) fn get(&self, name: u32) -> Value {
        let shown = name == net::SO_TIMESTAMPING_OLD || self.new.get();
        pair32(if shown { self.flags.get() } else { 0 }, 0)
    }

    /// setsockopt(2). EINVAL.
    pub(super) fn set(&self, socket: &Socket, name: u32, value: &[u8]) -> Result<()> {
        let flags = read_int(value)? as u32;
        let stream = matches!(socket.family, net::AF_INET | net::AF_INET6) && socket.protocol == IPPROTO_TCP;
        let has = |flag: u32| flags & flag != 0;
        if flags & !ALL != 0
            || has(OPT_ID_TCP) && !has(OPT_ID)
            || has(OPT_STATS) && !has(OPT_TSONLY)
            // The numbers begin with the next byte, which a socket without a connection does not have.
            || has(OPT_ID) && stream && self.flags.get() & OPT_ID == 0 && socket.ops.peer().is_err()
        {
            return Err(Errno::EINVAL);
        }
        // Clocks of devices: there are none. What is sent leaves by no device, so nothing has a time of departure: for
        // sockets that would have such times the flags are unknown, as to an older Linux.
        let leaves = matches!(socket.family, net::AF_INET | net::AF_INET6);
        if has(BIND_PHC) || leaves && has(TX_SOFTWARE | TX_SCHED | TX_ACK | TX_COMPLETION) {
            return Err(Errno::EINVAL);
        }
        self.flags.set(flags);
        self.new.set(name == net::SO_TIMESTAMPING_NEW);
        Ok(())
    }
}
