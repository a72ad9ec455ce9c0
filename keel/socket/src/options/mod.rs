//! Socket options of the level SOL_SOCKET, socket(7).

mod get;
mod inert;
mod stamps;

use super::Socket;
use super::filter::{self, Filter};
use super::group::{self, Group};
use super::inet;
use super::netns::NetNs;
use alloc::boxed::Box;
use alloc::rc::Rc;
use core::cell::{Cell, OnceCell, RefCell};
pub use get::{Answer, get};
use inert::Inert;
use smallvec::SmallVec;
use stamps::Stamping;
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Default buffer size in bytes (`net.core.wmem_default`).
pub const DEFAULT_BUFFER: u32 = 212_992;
/// Maximum value of a request (`net.core.wmem_max` and `rmem_max`); the buffer gets twice that.
const MAX_BUFFER: u32 = 4_194_304;
/// Smallest that it gets: `SOCK_MIN_SNDBUF` and `SOCK_MIN_RCVBUF`.
const MIN_SEND_BUFFER: u32 = 4608;
const MIN_RECEIVE_BUFFER: u32 = 2304;
/// Largest priority that needs no capability.
const MAX_PRIORITY: i32 = 6;
/// Number of the loopback device.
const LOOPBACK: i32 = 1;
/// `SO_BUF_LOCK`: the size that was set for sends and for receives holds.
const LOCK_SEND: i32 = 1;
const LOCK_RECEIVE: i32 = 2;
/// Bytes of a device's name with the zero at its end, `IFNAMSIZ`.
const DEVICE_NAME: usize = 16;

/// Values that all families keep.
#[derive(Clone, Debug)]
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
    /// `SO_PASSPIDFD`.
    pub pass_pidfd: Cell<bool>,
    /// `SO_PASSRIGHTS`: descriptors are accepted.
    pub pass_rights: Cell<bool>,
    /// The program chose `SO_SNDBUF` itself.
    pub send_buffer_locked: Cell<bool>,
    /// The same for `SO_RCVBUF`.
    pub receive_buffer_locked: Cell<bool>,
    /// `SO_LINGER`: on, seconds.
    pub linger: Cell<[i32; 2]>,
    /// `SO_RCVLOWAT`.
    pub low_water: Cell<i32>,
    /// Number of the device that it is bound to (`SO_BINDTODEVICE`), 0: none. The loopback device has 1; others do not
    /// exist.
    pub device: Cell<i32>,
    /// `SO_INCOMING_CPU`; -1: none yet.
    pub incoming_cpu: Cell<i32>,
    /// `SO_TIMESTAMPING`.
    pub stamping: Stamping,
    /// Options without effect, once one of them was used: few sockets have them, and there may be many sockets.
    inert: OnceCell<Box<Inert>>,
    /// On-off options by number: stored and returned.
    switches: Cell<u128>,
    /// `SO_ATTACH_FILTER`.
    pub filter: RefCell<Option<Rc<Filter>>>,
    /// `SO_LOCK_FILTER`.
    pub filter_locked: Cell<bool>,
    /// Those with which it shares its address, `SO_REUSEPORT`.
    pub(crate) group: RefCell<Option<Rc<Group>>>,
    /// `SO_PRIORITY`.
    pub priority: Cell<u32>,
    /// `SO_MARK`.
    pub mark: Cell<u32>,
    busy_poll_us: Cell<i32>,
}

impl Default for Options {
    fn default() -> Self {
        Self::with_buffers(DEFAULT_BUFFER, DEFAULT_BUFFER)
    }
}

impl Options {
    /// For a new socket with these buffer sizes in bytes.
    pub fn with_buffers(send: u32, receive: u32) -> Self {
        Self {
            receive_timeout_ns: Cell::new(0),
            send_timeout_ns: Cell::new(0),
            send_buffer: Cell::new(send),
            receive_buffer: Cell::new(receive),
            send_buffer_locked: Cell::new(false),
            receive_buffer_locked: Cell::new(false),
            device: Cell::new(0),
            incoming_cpu: Cell::new(-1),
            stamping: Stamping::default(),
            inert: OnceCell::new(),
            mark: Cell::new(0),
            busy_poll_us: Cell::new(0),
            pass_credentials: Cell::new(false),
            pass_pidfd: Cell::new(false),
            pass_rights: Cell::new(true),
            switches: Cell::new(0),
            filter: RefCell::default(),
            filter_locked: Cell::new(false),
            group: RefCell::default(),
            priority: Cell::new(0),
            linger: Cell::new([0, 0]),
            low_water: Cell::new(1),
        }
    }

    /// Those of a socket that is made of this one, and shares its port as its connection.
    pub fn alone(&self) -> Self {
        let new = self.clone();
        drop(new.group.take());
        new
    }

    /// Whether receivers get the sender's credentials.
    pub fn wants_sender(&self) -> bool {
        self.pass_credentials.get() || self.pass_pidfd.get()
    }

    /// Inherits options of the listener for an accepted connection: those on credentials.
    pub fn inherit_passing(&self, listener: &Self) {
        self.pass_credentials.set(listener.pass_credentials.get());
        self.pass_pidfd.set(listener.pass_pidfd.get());
        self.pass_rights.set(listener.pass_rights.get());
        self.switch(net::SO_PASSSEC, listener.is_on(net::SO_PASSSEC));
    }

    /// Until when a receive may wait: `SO_RCVTIMEO`.
    pub fn receive_deadline(&self) -> Option<u64> {
        deadline(&self.receive_timeout_ns)
    }

    /// Until when a send may wait: `SO_SNDTIMEO`.
    pub fn send_deadline(&self) -> Option<u64> {
        deadline(&self.send_timeout_ns)
    }

    /// Whether it is bound to the loopback device.
    pub fn on_loopback(&self) -> bool {
        self.device.get() == LOOPBACK
    }

    /// Options without effect.
    pub fn inert(&self) -> &Inert {
        self.inert.get_or_init(Box::default)
    }

    /// Whether messages get their time of arrival by `SO_TIMESTAMP` or `SO_TIMESTAMPNS`.
    pub fn wants_time(&self) -> bool {
        self.switches.get() & STAMP_BITS != 0
    }

    /// Whether messages get their time of arrival.
    pub fn wants_stamps(&self) -> bool {
        self.wants_time() || self.stamping.on_arrival().is_some()
    }

    /// Whether an option that is merely switched on and off is on.
    pub fn is_on(&self, name: u32) -> bool {
        self.switches.get() >> name & 1 != 0
    }

    /// Shares its port with others that do, as if a program had set `SO_REUSEADDR`.
    pub fn share_ports(&self) {
        self.switch(net::SO_REUSEADDR, true);
    }

    fn switch(&self, name: u32, on: bool) {
        let (bit, switches) = (1 << name, self.switches.get());
        self.switches.set(if on { switches | bit } else { switches & !bit });
    }
}

fn deadline(timeout: &Cell<u64>) -> Option<u64> {
    match timeout.get() {
        0 => None,
        ns => Some(hal::clock::monotonic_ns().saturating_add(ns)),
    }
}

/// An option value on its way to the program.
pub type Value = SmallVec<[u8; 16]>;

/// An `int`.
pub fn int(value: i32) -> Value {
    Value::from_slice(&value.to_ne_bytes())
}

fn pair(a: i64, b: i64) -> Value {
    let mut value = Value::from_slice(&a.to_ne_bytes());
    value.extend_from_slice(&b.to_ne_bytes());
    value
}

fn pair32(a: u32, b: u32) -> Value {
    let mut value = Value::from_slice(&a.to_ne_bytes());
    value.extend_from_slice(&b.to_ne_bytes());
    value
}

/// The `int` that most options are. EINVAL.
pub fn read_int(value: &[u8]) -> Result<i32> {
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
    // More than the clock counts is no limit.
    Ok(seconds.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(micros as u64 * 1000)).unwrap_or(0))
}

/// The buffer size for a request of `value` bytes; `any`: may exceed the maximum.
fn buffer(value: i32, min: u32, any: bool) -> u32 {
    // As in Linux, a negative number is a large one.
    let max = if any { i32::MAX as u32 / 2 } else { MAX_BUFFER };
    (value as u32).min(max).saturating_mul(2).max(min)
}

/// EPERM without CAP_NET_ADMIN.
fn administrator(socket: &Socket) -> Result<()> {
    if socket.ops.net().permits(g::CAP_NET_ADMIN) { Ok(()) } else { Err(Errno::EPERM) }
}

/// EPERM without CAP_NET_RAW or CAP_NET_ADMIN.
fn raw_or_administrator(socket: &Socket) -> Result<()> {
    if socket.ops.net().permits(g::CAP_NET_RAW) { Ok(()) } else { administrator(socket) }
}

/// EPERM if a priority needs a capability that the caller does not have.
pub fn check_priority(ns: &NetNs, priority: i32) -> Result<()> {
    let has = |capability| ns.permits(capability);
    let free = (0..=MAX_PRIORITY).contains(&priority);
    if free || has(g::CAP_NET_RAW) || has(g::CAP_NET_ADMIN) { Ok(()) } else { Err(Errno::EPERM) }
}

/// Binds to a device by its number, 0: to none. EPERM: it is bound already.
fn bind_device(socket: &Socket, device: i32) -> Result<()> {
    let bound = &socket.ops.options().device;
    if bound.get() != 0 && !socket.ops.net().permits(g::CAP_NET_RAW) {
        return Err(Errno::EPERM);
    }
    if device < 0 {
        return Err(Errno::EINVAL);
    }
    bound.set(device);
    Ok(())
}

/// Whether `SO_BINDTODEVICE` names the loopback device; no name: none. ENODEV.
fn names_loopback(value: &[u8]) -> Result<bool> {
    let name = value[..value.len().min(DEVICE_NAME - 1)].split(|&b| b == 0).next().unwrap_or_default();
    match name {
        b"" => Ok(false),
        b"lo" => Ok(true),
        _ => Err(Errno::ENODEV),
    }
}

/// Whether an option is one that is merely switched on and off.
fn is_switch(name: u32) -> bool {
    inert::is_switch(name)
        || matches!(
            name,
            net::SO_REUSEADDR
                | net::SO_DONTROUTE
                | net::SO_BROADCAST
                | net::SO_KEEPALIVE
                | net::SO_OOBINLINE
                | net::SO_REUSEPORT
                | net::SO_TIMESTAMP_OLD
                | net::SO_TIMESTAMPNS_OLD
                | net::SO_TIMESTAMP_NEW
                | net::SO_TIMESTAMPNS_NEW
                | net::SO_NO_CHECK
                | net::SO_RXQ_OVFL
                | net::SO_SELECT_ERR_QUEUE
                | net::SO_RCVMARK
                | net::SO_RCVPRIORITY
                | net::SO_ZEROCOPY
        )
}

/// EOPNOTSUPP for options that only local sockets (some also netlink sockets) support.
fn check_passing(socket: &Socket, name: u32) -> Result<()> {
    let allowed = match name {
        net::SO_PASSCRED | net::SO_PASSSEC => matches!(socket.family, net::AF_UNIX | net::AF_NETLINK),
        net::SO_PASSPIDFD | net::SO_PASSRIGHTS => socket.family == net::AF_UNIX,
        _ => true,
    };
    if allowed { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

/// The options for time stamps exclude each other.
const STAMPS: [u32; 4] =
    [net::SO_TIMESTAMP_OLD, net::SO_TIMESTAMPNS_OLD, net::SO_TIMESTAMP_NEW, net::SO_TIMESTAMPNS_NEW];

/// The same as bits of the switches.
const STAMP_BITS: u128 = 1 << STAMPS[0] | 1 << STAMPS[1] | 1 << STAMPS[2] | 1 << STAMPS[3];

/// setsockopt(2) of SOL_SOCKET.
pub fn set(socket: &Socket, name: u32, value: &[u8]) -> Result<()> {
    change(socket, name, value)?;
    socket.ops.options_changed();
    socket.ops.option_changed(name, value);
    Ok(())
}

fn change(socket: &Socket, name: u32, value: &[u8]) -> Result<()> {
    let options = socket.ops.options();
    if name == net::SO_BINDTODEVICE {
        return bind_device(socket, if names_loopback(value)? { LOOPBACK } else { 0 });
    }
    let number = read_int(value)?;
    check_passing(socket, name)?;
    check(socket, name, number)?;
    match name {
        name if is_switch(name) => {
            if STAMPS.contains(&name) {
                STAMPS.iter().for_each(|&other| options.switch(other, false));
            }
            options.switch(name, number != 0);
        }
        net::SO_SNDBUF | net::SO_SNDBUFFORCE => {
            options.send_buffer.set(buffer(number, MIN_SEND_BUFFER, name == net::SO_SNDBUFFORCE));
            options.send_buffer_locked.set(true);
            socket.ops.send_buffer_changed();
        }
        net::SO_RCVBUF | net::SO_RCVBUFFORCE => {
            options.receive_buffer.set(buffer(number, MIN_RECEIVE_BUFFER, name == net::SO_RCVBUFFORCE));
            options.receive_buffer_locked.set(true);
        }
        net::SO_BUF_LOCK => {
            options.send_buffer_locked.set(number & LOCK_SEND != 0);
            options.receive_buffer_locked.set(number & LOCK_RECEIVE != 0);
        }
        net::SO_RCVTIMEO_OLD | net::SO_RCVTIMEO_NEW => options.receive_timeout_ns.set(read_timeout(value)?),
        net::SO_SNDTIMEO_OLD | net::SO_SNDTIMEO_NEW => options.send_timeout_ns.set(read_timeout(value)?),
        net::SO_TIMESTAMPING_OLD | net::SO_TIMESTAMPING_NEW => options.stamping.set(socket, name, value)?,
        net::SO_PASSCRED => options.pass_credentials.set(number != 0),
        net::SO_ATTACH_FILTER => filter::attach(socket, value)?,
        net::SO_ATTACH_BPF | net::SO_ATTACH_REUSEPORT_EBPF => return Err(filter::loaded(options, number, value)),
        net::SO_ATTACH_REUSEPORT_CBPF => group::attach(socket, value)?,
        net::SO_DETACH_REUSEPORT_BPF => group::detach(options)?,
        net::SO_DETACH_FILTER => filter::detach(options)?,
        net::SO_LOCK_FILTER => filter::lock(options, number != 0)?,
        net::SO_PASSPIDFD => options.pass_pidfd.set(number != 0),
        net::SO_PASSRIGHTS => options.pass_rights.set(number != 0),
        net::SO_PRIORITY => options.priority.set(number as u32),
        net::SO_MARK => options.mark.set(number as u32),
        net::SO_RCVLOWAT => {
            let number = if number < 0 { i32::MAX } else { number.max(1) };
            options.low_water.set(number.min(socket.ops.most_low_water()));
        }
        net::SO_BUSY_POLL => options.busy_poll_us.set(number),
        net::SO_INCOMING_CPU => options.incoming_cpu.set(number),
        net::SO_BINDTOIFINDEX => bind_device(socket, number)?,
        net::SO_LINGER => {
            let seconds = value.get(4..).ok_or(Errno::EINVAL).and_then(read_int)?;
            let old = options.linger.get()[1];
            options.linger.set([i32::from(number != 0), if number != 0 { seconds } else { old }]);
        }
        _ => match inert::set(socket, options.inert(), name, value) {
            Err(Errno::ENOPROTOOPT) => return socket.ops.set_option(net::SOL_SOCKET as i32, name as i32, value),
            other => other?,
        },
    }
    Ok(())
}

/// What the caller may set, and what the socket supports. EACCES, EPERM, EINVAL, EOPNOTSUPP.
fn check(socket: &Socket, name: u32, number: i32) -> Result<()> {
    let is_inet = matches!(socket.family, net::AF_INET | net::AF_INET6);
    match name {
        net::SO_DEBUG if number != 0 => administrator(socket).map_err(|_| Errno::EACCES),
        net::SO_SNDBUFFORCE | net::SO_RCVBUFFORCE => administrator(socket),
        net::SO_PREFER_BUSY_POLL if number != 0 => administrator(socket),
        net::SO_PRIORITY => check_priority(socket.ops.net(), number),
        net::SO_MARK => raw_or_administrator(socket),
        net::SO_REUSEPORT if number != 0 && !is_inet => Err(Errno::EOPNOTSUPP),
        net::SO_ZEROCOPY if !is_inet || !matches!(socket.protocol, inet::IPPROTO_TCP | inet::IPPROTO_UDP) => {
            Err(Errno::EOPNOTSUPP)
        }
        net::SO_ZEROCOPY if !(0..=1).contains(&number) => Err(Errno::EINVAL),
        net::SO_BUSY_POLL if number < 0 => Err(Errno::EINVAL),
        net::SO_BUF_LOCK if number & !(LOCK_SEND | LOCK_RECEIVE) != 0 => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}
