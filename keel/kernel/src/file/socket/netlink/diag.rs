//! Answers about sockets, sock_diag(7): those of TCP and UDP.

use super::super::inet::statistics::{self, Row};
use super::super::inet::tcp::State;
use super::super::inet::{Endpoint, IPPROTO_TCP, IPPROTO_UDP};
use super::reply::{Answer, NLM_F_DUMP, Request, u32_at};
use alloc::vec::Vec;
use uapi::raw::net;
use uapi::{Errno, Result};

/// The one question: sockets of a family.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Bytes of `struct inet_diag_req_v2`.
const REQUEST: usize = 56;

/// EINVAL; ENOENT for families and protocols that are not known.
pub fn handle(request: &Request<'_>, answer: &mut Answer<'_>) -> Result<()> {
    if request.kind != SOCK_DIAG_BY_FAMILY {
        return Err(Errno::EINVAL);
    }
    let &[family, protocol, ..] = request.body else { return Err(Errno::EINVAL) };
    if !matches!(u32::from(family), net::AF_INET | net::AF_INET6) {
        return Err(Errno::ENOENT);
    }
    let rows = match u32::from(protocol) {
        IPPROTO_TCP => statistics::tcp(),
        IPPROTO_UDP => statistics::udp(),
        _ => return Err(Errno::ENOENT),
    };
    if request.body.len() < REQUEST {
        return Err(Errno::EINVAL);
    }
    if request.flags & NLM_F_DUMP == 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let states = u32_at(request.body, 4);
    for row in rows.iter().filter(|row| row.family == u32::from(family) && states >> row.state & 1 != 0) {
        describe(answer, row);
    }
    Ok(())
}

/// An address as `struct inet_diag_sockid` has it: 16 bytes.
fn address(endpoint: Endpoint, family: u32) -> [u8; 16] {
    let bytes = endpoint.to_bytes(family);
    let ip = bytes.get(if family == net::AF_INET { 4..8 } else { 8..24 }).unwrap_or_default();
    core::array::from_fn(|i| ip.get(i).copied().unwrap_or(0))
}

/// `struct inet_diag_msg` of a socket.
fn describe(answer: &mut Answer<'_>, row: &Row) {
    let remote = row.remote.unwrap_or(Endpoint::unspecified(row.family));
    let mut fixed = Vec::from([row.family as u8, row.state, 0, 0]);
    fixed.extend(row.local.port.to_be_bytes());
    fixed.extend(remote.port.to_be_bytes());
    fixed.extend(address(row.local, row.family));
    fixed.extend(address(remote, row.family));
    let sent = if row.state == State::Listen as u8 { row.backlog } else { row.sent };
    let cookie = row.ino as u32;
    for word in [0, cookie, 0, 0, row.received as u32, sent as u32, row.uid, row.ino as u32] {
        fixed.extend(word.to_ne_bytes());
    }
    answer.begin(SOCK_DIAG_BY_FAMILY, &fixed);
    // INET_DIAG_SHUTDOWN.
    answer.add(8, &[0]);
    answer.end();
}
