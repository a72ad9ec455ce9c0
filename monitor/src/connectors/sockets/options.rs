//! Options of sockets of the host that a pod may set and read.
#![allow(unsafe_code)]

use super::super::{Errno, Result};
use abi::request::tell;
use rustix::fd::{AsRawFd, BorrowedFd};

/// Levels.
const SOCKET: u32 = libc::SOL_SOCKET as u32;
const TCP: u32 = libc::IPPROTO_TCP as u32;
const IP: u32 = libc::IPPROTO_IP as u32;
const IPV6: u32 = libc::IPPROTO_IPV6 as u32;
const UDP: u32 = libc::IPPROTO_UDP as u32;

/// `UDP_NO_CHECK6_TX` and `UDP_NO_CHECK6_RX`.
const NO_CHECK6_TX: u32 = 101;
const NO_CHECK6_RX: u32 = 102;

/// `SIOCATMARK` of ioctl(2).
pub const SIOCATMARK: libc::c_ulong = 0x8905;

/// Longest value in bytes.
pub const MAX_VALUE: usize = 512;

/// Options that may be set: none changes where packets go or what other sockets get.
pub const SETTABLE: &[(u32, &[u32])] = &[
    (
        SOCKET,
        &[
            libc::SO_KEEPALIVE as u32,
            libc::SO_LINGER as u32,
            libc::SO_SNDBUF as u32,
            libc::SO_RCVBUF as u32,
            libc::SO_OOBINLINE as u32,
        ],
    ),
    (
        TCP,
        &[
            libc::TCP_NODELAY as u32,
            libc::TCP_MAXSEG as u32,
            libc::TCP_CORK as u32,
            libc::TCP_KEEPIDLE as u32,
            libc::TCP_KEEPINTVL as u32,
            libc::TCP_KEEPCNT as u32,
            libc::TCP_LINGER2 as u32,
            libc::TCP_WINDOW_CLAMP as u32,
            libc::TCP_QUICKACK as u32,
            libc::TCP_USER_TIMEOUT as u32,
            libc::TCP_NOTSENT_LOWAT as u32,
        ],
    ),
    (IP, &[libc::IP_TOS as u32, libc::IP_TTL as u32]),
    (IPV6, &[libc::IPV6_UNICAST_HOPS as u32, libc::IPV6_TCLASS as u32]),
];

/// Options that only the monitor itself sets.
pub const OWN: &[(u32, &[u32])] = &[
    (UDP, &[libc::UDP_SEGMENT as u32, libc::UDP_GRO as u32, NO_CHECK6_TX, NO_CHECK6_RX]),
    (SOCKET, &[libc::SO_TIMESTAMPNS as u32]),
    (IP, TELL4),
    (IPV6, TELL6),
];

/// Options that have the host tell hops, class, and at last the address of datagrams, of IPv4.
pub const TELL4: &[u32] = &[libc::IP_RECVTTL as u32, libc::IP_RECVTOS as u32, libc::IP_PKTINFO as u32];
/// The same of IPv6.
pub const TELL6: &[u32] =
    &[libc::IPV6_RECVHOPLIMIT as u32, libc::IPV6_RECVTCLASS as u32, libc::IPV6_RECVPKTINFO as u32];

/// Options that may be read.
pub const READABLE: &[(u32, &[u32])] = &[
    (SOCKET, &[libc::SO_ERROR as u32, libc::SO_SNDBUF as u32, libc::SO_RCVBUF as u32]),
    (TCP, &[libc::TCP_INFO as u32, libc::TCP_MAXSEG as u32]),
];

fn is_in(list: &[(u32, &[u32])], level: u32, name: u32) -> bool {
    list.iter().any(|(of, names)| *of == level && names.contains(&name))
}

/// Sets an option. ENOPROTOOPT for one that a pod may not set.
pub fn set(socket: BorrowedFd<'_>, level: u32, name: u32, value: &[u8]) -> Result<()> {
    if !is_in(SETTABLE, level, name) {
        return Err(Errno::NOPROTOOPT);
    }
    change(socket, level, name, value)
}

/// `UDP_SEGMENT`: the kernel splits what is sent into datagrams of so many bytes; 0: it does not.
pub fn set_segment(socket: BorrowedFd<'_>, bytes: i32) -> Result<()> {
    change(socket, UDP, libc::UDP_SEGMENT as u32, &bytes.to_ne_bytes())
}

/// What the host tells of received datagrams, [`abi::request::tell`]; with the addresses that they came to, if `addresses`.
pub fn tell(socket: BorrowedFd<'_>, what: u32, addresses: bool) {
    tell_some(socket, what & tell::FACTS != 0, addresses);
    switch(socket, SOCKET, libc::SO_TIMESTAMPNS as u32, what & tell::TIME != 0);
    switch(socket, UDP, libc::UDP_GRO as u32, what & tell::TOGETHER != 0);
    switch(socket, UDP, NO_CHECK6_RX, what & tell::UNCHECKED != 0);
}

/// The facts of [`tell`] alone, for the broker.
pub fn tell_facts(socket: BorrowedFd<'_>, on: bool) {
    tell_some(socket, on, on);
}

fn tell_some(socket: BorrowedFd<'_>, facts: bool, addresses: bool) {
    for (level, names) in [(IP, TELL4), (IPV6, TELL6)] {
        for (at, name) in names.iter().enumerate() {
            switch(socket, level, *name, facts && (addresses || at + 1 < names.len()));
        }
    }
}

/// Ignores errors: a socket of IPv4 has no options of IPv6, and an older kernel lacks some. Then less is told.
fn switch(socket: BorrowedFd<'_>, level: u32, name: u32, on: bool) {
    let _ = change(socket, level, name, &i32::from(on).to_ne_bytes());
}

/// Sets a number of both versions: a socket of IPv6 may be connected to a peer of IPv4. The error if it has neither.
fn set_both(socket: BorrowedFd<'_>, name4: i32, name6: i32, value: i32) -> Result<()> {
    let value = value.to_ne_bytes();
    let [first, second] = [(IP, name4), (IPV6, name6)].map(|(level, name)| change(socket, level, name as u32, &value));
    if second.is_ok() { Ok(()) } else { first }
}

/// Hops of what is sent; `None`: the default.
pub fn set_hops(socket: BorrowedFd<'_>, hops: Option<u8>) -> Result<()> {
    set_both(socket, libc::IP_TTL, libc::IPV6_UNICAST_HOPS, hops.map_or(-1, i32::from))
}

/// Traffic class of what is sent.
pub fn set_class(socket: BorrowedFd<'_>, class: u8) -> Result<()> {
    set_both(socket, libc::IP_TOS, libc::IPV6_TCLASS, class.into())
}

/// Whether datagrams to a peer of IPv6 leave without a checksum.
pub fn set_unchecked(socket: BorrowedFd<'_>, unchecked: bool) -> Result<()> {
    change(socket, UDP, NO_CHECK6_TX, &i32::from(unchecked).to_ne_bytes())
}

fn change(socket: BorrowedFd<'_>, level: u32, name: u32, value: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads the value, whose length is given.
    let result = unsafe {
        let len = value.len() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level as i32, name as i32, value.as_ptr().cast(), len)
    };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Reads an option into `value`; returns its length. ENOPROTOOPT for one that a pod may not read.
pub fn get(socket: BorrowedFd<'_>, level: u32, name: u32, value: &mut [u8]) -> Result<usize> {
    if !is_in(READABLE, level, name) {
        return Err(Errno::NOPROTOOPT);
    }
    let mut len = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to the value.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level as i32, name as i32, value.as_mut_ptr().cast(), &raw mut len)
    };
    if result == 0 { Ok(len as usize) } else { Err(last_error()) }
}

/// `SO_ERROR`.
pub fn pending_error(socket: BorrowedFd<'_>) -> Result<()> {
    let mut value = [0; 4];
    get(socket, SOCKET, libc::SO_ERROR as u32, &mut value)?;
    match i32::from_ne_bytes(value) {
        0 => Ok(()),
        errno => Err(Errno::from_raw_os_error(errno)),
    }
}

/// Whether the next byte of a stream is an urgent one (`SIOCATMARK`).
pub fn is_at_mark(socket: BorrowedFd<'_>) -> bool {
    let mut at_mark: libc::c_int = 0;
    // SAFETY: the kernel writes an integer there.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCATMARK, &raw mut at_mark) };
    result == 0 && at_mark != 0
}

/// Makes close(2) break the connection off.
pub fn break_at_close(socket: BorrowedFd<'_>) {
    let linger = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
    // Sockets of other kinds have no connection to break off.
    let _ = set(socket, SOCKET, libc::SO_LINGER as u32, &linger);
}

/// The error of the last call.
pub fn last_error() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}
