//! Answers about sockets, sock_diag(7): those of TCP and UDP, and local ones.

use super::super::inet::statistics::{self, Row};
use super::super::inet::tcp::State;
use super::super::inet::{Endpoint, IPPROTO_TCP, IPPROTO_UDP};
use super::super::netns::NetNs;
use super::super::unix;
use super::reply::{Answer, NLM_F_DUMP, Request, u32_at};
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::raw::net;
use uapi::{Errno, Result};

/// The one question: sockets of a family.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Bytes of `struct inet_diag_req_v2`.
const REQUEST: usize = 56;

/// EINVAL; ENOENT for unknown families and protocols.
pub fn handle(ns: &Rc<NetNs>, request: &Request<'_>, answer: &mut Answer<'_>) -> Result<()> {
    if request.kind != SOCK_DIAG_BY_FAMILY {
        return Err(Errno::EINVAL);
    }
    let &[family, protocol, ..] = request.body else { return Err(Errno::EINVAL) };
    if u32::from(family) == net::AF_UNIX {
        return handle_unix(ns, request, answer);
    }
    if !matches!(u32::from(family), net::AF_INET | net::AF_INET6) {
        return Err(Errno::ENOENT);
    }
    let (mut tcp, mut udp);
    let rows: &mut dyn Iterator<Item = Row> = match u32::from(protocol) {
        IPPROTO_TCP => {
            tcp = statistics::tcp(ns);
            &mut tcp
        }
        IPPROTO_UDP => {
            udp = statistics::datagrams(ns, false);
            &mut udp
        }
        _ => return Err(Errno::ENOENT),
    };
    if request.body.len() < REQUEST {
        return Err(Errno::EINVAL);
    }
    if request.flags & NLM_F_DUMP == 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let states = u32_at(request.body, 4);
    for row in rows.filter(|row| row.family == u32::from(family) && states >> row.state & 1 != 0) {
        describe(answer, &row);
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

/// Bytes of `struct unix_diag_req`, and places in it.
const UNIX_REQUEST: usize = 24;
const UNIX_STATES: usize = 4;
const UNIX_INO: usize = 8;
const UNIX_SHOW: usize = 12;
const UNIX_COOKIE: usize = 16;
/// A wildcard cookie.
const NO_COOKIE: [u32; 2] = [u32::MAX; 2];

/// Requested attributes of local sockets.
const SHOW_NAME: u32 = 1;
const SHOW_NODE: u32 = 2;
const SHOW_PEER: u32 = 4;
const SHOW_PENDING: u32 = 8;
const SHOW_QUEUES: u32 = 0x10;
const SHOW_UID: u32 = 0x40;

/// EINVAL; ENOENT, ESTALE for one that is not there.
fn handle_unix(ns: &Rc<NetNs>, request: &Request<'_>, answer: &mut Answer<'_>) -> Result<()> {
    if request.body.len() < UNIX_REQUEST {
        return Err(Errno::EINVAL);
    }
    let word = |at| u32_at(request.body, at);
    let show = word(UNIX_SHOW);
    let rows = unix::statistics::rows(ns)?;
    if request.flags & NLM_F_DUMP != 0 {
        for row in rows.iter().filter(|row| word(UNIX_STATES) >> row.state & 1 != 0) {
            describe_unix(answer, row, show);
        }
        return Ok(());
    }
    let ino = word(UNIX_INO);
    if ino == 0 {
        return Err(Errno::EINVAL);
    }
    let row = rows.iter().find(|row| row.ino as u32 == ino).ok_or(Errno::ENOENT)?;
    let cookie = [word(UNIX_COOKIE), word(UNIX_COOKIE + 4)];
    if cookie != NO_COOKIE && cookie != [ino, 0] {
        return Err(Errno::ESTALE);
    }
    describe_unix(answer, row, show);
    Ok(())
}

/// `struct unix_diag_msg` of a socket.
fn describe_unix(answer: &mut Answer<'_>, row: &unix::statistics::Row, show: u32) {
    let ino = row.ino as u32;
    let mut fixed = Vec::from([net::AF_UNIX as u8, row.kind, row.state, 0]);
    for word in [ino, ino, 0] {
        fixed.extend(word.to_ne_bytes());
    }
    answer.begin(SOCK_DIAG_BY_FAMILY, &fixed);
    if let Some(name) = row.name.as_ref().filter(|_| show & SHOW_NAME != 0) {
        // UNIX_DIAG_NAME.
        answer.add(0, name);
    }
    if let Some(node) = row.node.filter(|_| show & SHOW_NODE != 0) {
        // UNIX_DIAG_VFS.
        answer.add(1, bytemuck::cast_slice(&node));
    }
    if let Some(peer) = row.peer.filter(|_| show & SHOW_PEER != 0) {
        // UNIX_DIAG_PEER.
        answer.word(2, peer as u32);
    }
    if show & SHOW_PENDING != 0 && !row.pending.is_empty() {
        // UNIX_DIAG_ICONS.
        answer.add(3, bytemuck::cast_slice(&row.pending));
    }
    if show & SHOW_QUEUES != 0 {
        // UNIX_DIAG_RQLEN.
        answer.add(4, bytemuck::cast_slice(&row.queues));
    }
    // UNIX_DIAG_SHUTDOWN.
    answer.add(6, &[row.shutdown]);
    if show & SHOW_UID != 0 {
        // UNIX_DIAG_UID.
        answer.word(7, row.uid);
    }
    answer.end();
}
