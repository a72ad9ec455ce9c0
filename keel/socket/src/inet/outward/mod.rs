//! Sockets that lead out of the pod: each is a socket of the host, which the monitor moves bytes to and from
//! ([`abi::request::SocketRequest`]).
//!
//! What a program sends is queued in keel, and what the host receives is fetched ahead, so that programs neither wait
//! for the monitor nor know of it: the families keep their own state, queues and waiters.

mod drain;
pub mod flow;
pub mod link;
mod outbox;
mod room;
pub mod settle;

use super::{Base, Endpoint};
use abi::boot::Network;
use abi::request::{BIND_GROUPED, BIND_ONLY_V6, BIND_SHARED, SocketBind, SocketClose, SocketName, Transport};
use abi::ring::Segment;
use alloc::boxed::Box;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::Cell;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
pub use drain::drain;
use hal::cell::Global;
pub use link::Link;
use sched::posted::Pump;
use sched::timer::{Timer, deadline_after};
use sched::{connector, posted};
use uapi::Result;
use uapi::raw::net;

/// The pod's device besides the loopback device.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// Address and bits of the network, IPv4.
    pub v4: (Ipv4Addr, u8),
    /// The router.
    pub router4: Ipv4Addr,
    /// Address and bits of the network, IPv6.
    pub v6: (Ipv6Addr, u8),
    /// The router.
    pub router6: Ipv6Addr,
}

/// Pause after a lack of memory or of descriptors, in ns.
const PAUSE_NS: u64 = 10_000_000;

/// Calls `pump` after a pause, unless the timer is cancelled.
fn pump_after_pause(pump: Weak<dyn Pump>) -> Rc<Timer> {
    let timer = Timer::new(Rc::new(move || {
        if let Some(pump) = pump.upgrade() {
            pump.pump();
        }
    }));
    timer.arm(deadline_after(PAUSE_NS));
    timer
}

/// The pod has the host's network.
static HOST: Global<Cell<bool>> = Global::new(Cell::new(false));
static DEVICE: Global<Cell<Option<Device>>> = Global::new(Cell::new(None));
/// Number of the next socket.
static NEXT: Global<Cell<u32>> = Global::new(Cell::new(1));
/// Registers the network (boot).
pub fn set(network: &Network) {
    HOST.set(network.host);
    DEVICE.set(Some(Device {
        v4: (network.address4.0.into(), network.address4.1),
        router4: network.gateway4.into(),
        v6: (network.address6.0.into(), network.address6.1),
        router6: network.gateway6.into(),
    }));
}

/// The device, if the pod has one.
#[inline]
pub fn device() -> Option<Device> {
    DEVICE.get()
}

/// Whether the pod has the host's network: all addresses are the host's.
#[inline]
pub fn is_host() -> bool {
    HOST.get()
}

/// Whether an address is the pod's own on its device.
pub fn is_own(ip: IpAddr) -> bool {
    device().filter(|_| !is_host()).is_some_and(|device| ip == IpAddr::V4(device.v4.0) || ip == IpAddr::V6(device.v6.0))
}

/// Whether an address, which is not the pod's own, is beyond the device.
pub fn is_beyond(ip: IpAddr) -> bool {
    let usable = match ip {
        IpAddr::V4(ip) => !ip.is_broadcast() && ip.octets()[0] != 0,
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
    };
    usable && (is_host() || !ip.is_loopback()) && !ip.is_unspecified() && !ip.is_multicast() && device().is_some()
}

/// The pod's address on its device.
pub fn source_for(to: IpAddr) -> Option<IpAddr> {
    let device = device()?;
    Some(if to.is_ipv4() { IpAddr::V4(device.v4.0) } else { IpAddr::V6(device.v6.0) })
}

/// A number for a new socket.
fn next_number() -> u64 {
    let number = NEXT.get();
    NEXT.set(number.checked_add(1).unwrap_or(1));
    posted::count_socket(true);
    number.into()
}

fn name(of: Endpoint) -> SocketName {
    SocketName::new(of.ip, of.port)
}

/// Address and port of a peer that the host accepted. The host's loopback device is known as the router here, unless the pod has
/// the host's network: the pod's own loopback addresses are its own, and its programs may trust them.
fn endpoint(name: &SocketName) -> Endpoint {
    let ip = match (name.ip(), device().filter(|_| !is_host())) {
        (IpAddr::V4(ip), Some(device)) if ip.is_loopback() => IpAddr::V4(device.router4),
        (IpAddr::V6(ip), Some(device)) if ip.is_loopback() => IpAddr::V6(device.router6),
        (ip, _) => ip,
    };
    Endpoint { ip, port: name.port }
}

/// Binds a socket of the host for one of the pod, which has the host's network: its number and its name. Waits for that. Errors of bind(2).
pub fn bind(base: &Base, transport: Transport, to: Endpoint) -> Result<(u64, Endpoint)> {
    let on = |is_on: bool, flag| if is_on { flag } else { 0 };
    let flags = on(base.options.is_on(net::SO_REUSEADDR), BIND_SHARED)
        | on(base.options.is_on(net::SO_REUSEPORT), BIND_GROUPED)
        | on(base.only_v6(), BIND_ONLY_V6);
    let number = next_number();
    let mut bound = [SocketName::default()];
    match connector::call(SocketBind { socket: number, transport, flags }, &[name(to)], &mut bound) {
        Ok(()) => Ok((number, endpoint(&bound[0]))),
        Err(errno) => {
            close(number, false);
            Err(errno)
        }
    }
}

/// Names as a payload; they must live until the completion.
fn payload(names: &[SocketName]) -> Vec<Segment> {
    Vec::from([Segment { gpa: hal::ring::gpa_of(bytemuck::cast_slice(names)), len: size_of_val(names) as u64 }])
}

/// A number was not used after all.
fn forget_number() {
    posted::count_socket(false);
}

/// Closes a socket of the host.
pub fn close(number: u64, abort: bool) {
    // Until then the monitor has the socket, and its helper looks at the ring now and then.
    let closed = |_| posted::count_socket(false);
    connector::send(SocketClose { socket: number, abort }, Vec::new(), Vec::new(), closed);
    posted::tell_soon();
}

/// Names on the heap, where the monitor reads or writes them.
type Names<const N: usize> = Box<[SocketName; N]>;
