//! Rules of memberships and their sources, ip(7).

use super::*;
use core::net::Ipv6Addr;
use std::sync::{Mutex, PoisonError};

/// Options of a new socket. Tests run in several threads, and the namespace counts its users without atomics.
fn options() -> IpOptions {
    static FIRST: Mutex<()> = Mutex::new(());
    let _held = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
    let first = NetNs::first();
    let options = IpOptions::new(&first);
    drop(first);
    options
}

fn group(last: u8) -> IpAddr {
    Ipv4Addr::new(239, 1, 2, last).into()
}

fn source(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

fn change(ip: &IpOptions, name: u32, of: IpAddr, from: IpAddr) -> Result<()> {
    SourceChange::of(name).unwrap().apply(ip, of, from, Ok(()))
}

#[test]
fn a_group_is_joined_once_and_left_once() {
    let ip = options();
    assert_eq!(ip.takes(group(1), source(1)), None);
    join(&ip, group(1), false).unwrap();
    assert_eq!(join(&ip, group(1), false), Err(Errno::EADDRINUSE));
    assert_eq!(ip.takes(group(1), source(1)), Some(true));
    leave(&ip, group(1)).unwrap();
    assert_eq!(leave(&ip, group(1)), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(join(&ip, source(1), false), Err(Errno::EINVAL));
}

#[test]
fn groups_are_limited() {
    let ip = options();
    for last in 0..MAX_GROUPS as u8 {
        join(&ip, group(last), false).unwrap();
    }
    assert_eq!(join(&ip, group(200), false), Err(Errno::ENOBUFS));
}

#[test]
fn wanted_sources_make_and_end_a_membership() {
    let ip = options();
    change(&ip, net::IP_ADD_SOURCE_MEMBERSHIP, group(1), source(1)).unwrap();
    assert_eq!((ip.takes(group(1), source(1)), ip.takes(group(1), source(2))), (Some(true), Some(false)));
    assert_eq!(change(&ip, net::IP_ADD_SOURCE_MEMBERSHIP, group(1), source(1)), Err(Errno::EADDRNOTAVAIL));
    // Blocking is the other kind of list.
    assert_eq!(change(&ip, net::IP_BLOCK_SOURCE, group(1), source(2)), Err(Errno::EINVAL));
    change(&ip, net::IP_DROP_SOURCE_MEMBERSHIP, group(1), source(1)).unwrap();
    assert_eq!(ip.takes(group(1), source(1)), None);
}

#[test]
fn blocked_sources_need_a_membership() {
    let ip = options();
    assert_eq!(change(&ip, net::IP_BLOCK_SOURCE, group(1), source(1)), Err(Errno::EINVAL));
    join(&ip, group(1), false).unwrap();
    change(&ip, net::IP_BLOCK_SOURCE, group(1), source(1)).unwrap();
    assert_eq!((ip.takes(group(1), source(1)), ip.takes(group(1), source(2))), (Some(false), Some(true)));
    assert_eq!(change(&ip, net::IP_UNBLOCK_SOURCE, group(1), source(2)), Err(Errno::EADDRNOTAVAIL));
    change(&ip, net::IP_UNBLOCK_SOURCE, group(1), source(1)).unwrap();
    assert_eq!(ip.takes(group(1), source(1)), Some(true));
}

#[test]
fn sources_are_limited_by_family() {
    let ip = options();
    let six = IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 9));
    for (of, most) in [(group(1), MAX_SOURCES[0]), (six, MAX_SOURCES[1])] {
        for last in 0..most as u8 {
            change(&ip, net::MCAST_JOIN_SOURCE_GROUP, of, source(last)).unwrap();
        }
        assert_eq!(change(&ip, net::MCAST_JOIN_SOURCE_GROUP, of, source(250)), Err(Errno::ENOBUFS));
    }
}
