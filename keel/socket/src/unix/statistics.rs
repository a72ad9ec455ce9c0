//! Local sockets as sock_diag(7) lists them.

use super::super::netns::NetNs;
use super::super::{Socket, open_sockets};
use super::{Kind, Role, Unix};
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::raw::net;
use vfs::memory::push;

/// States, as those of TCP.
const ESTABLISHED: u8 = 1;
const CLOSED: u8 = 7;
const LISTENING: u8 = 10;

/// A socket.
pub struct Row {
    /// Inode number.
    pub ino: u64,
    /// `SOCK_*`.
    pub kind: u8,
    /// State.
    pub state: u8,
    /// Name as in `sun_path`; `None` if it has none.
    pub name: Option<Vec<u8>>,
    /// Inode and device number of the name.
    pub node: Option<[u32; 2]>,
    /// Inode number of the peer, 0 before it is accepted.
    pub peer: Option<u64>,
    /// Inode numbers of the connections in the backlog.
    pub pending: Vec<u32>,
    /// Bytes to receive and bytes sent; for listeners: length and maximum of the backlog.
    pub queues: [u32; 2],
    /// Directions that were shut down, one bit each.
    pub shutdown: u8,
    /// User id of its creator.
    pub uid: u32,
}

/// All sockets of a namespace that some process has open. ENOMEM.
pub fn rows(ns: &Rc<NetNs>) -> uapi::Result<Vec<Row>> {
    let files = open_sockets(ns, net::AF_UNIX)?;
    let mut rows = Vec::new();
    for (_, file) in &files {
        let socket = file.downcast::<Socket>().and_then(|socket| socket.ops.as_any().downcast_ref());
        socket.map_or(Ok(()), |socket| push(&mut rows, row(socket)?))?;
    }
    Ok(rows)
}

fn row(socket: &Unix) -> uapi::Result<Row> {
    let name = socket.name.borrow().as_ref().map(super::address::address_of);
    let (kind, state) = match (socket.kind, socket.role.get()) {
        (Kind::Datagram, _) => (net::SOCK_DGRAM, if socket.peer().is_some() { ESTABLISHED } else { CLOSED }),
        (kind, role) => {
            let number = if kind == Kind::Stream { net::SOCK_STREAM } else { net::SOCK_SEQPACKET };
            let state = match role {
                Role::Listening => LISTENING,
                Role::Connected => ESTABLISHED,
                Role::Fresh => CLOSED,
            };
            (number, state)
        }
    };
    let backlog = socket.backlog.borrow();
    let queues = if state == LISTENING {
        [backlog.len(), socket.max_backlog.get()]
    } else {
        let waiting = match socket.kind {
            Kind::Datagram => socket.end.inbox.with(0, |packet| packet.left()).unwrap_or(0),
            _ => socket.end.inbox.bytes(),
        };
        [waiting, socket.account.sent.get() as usize]
    };
    // A shutdown of a connected socket applies to its peer too.
    let connected = socket.kind != Kind::Datagram && socket.role.get() == Role::Connected;
    let ends = |socket: &Unix| (socket.read_ended.get(), socket.write_ended.get());
    let (read, write) = ends(socket);
    let (peer_read, peer_write) = match socket.peer().filter(|peer| !peer.closed.get()) {
        Some(peer) if connected => ends(&peer),
        _ => (connected, connected),
    };
    let shutdown = u8::from(read || peer_write) | u8::from(write || peer_read) << 1;
    let peer = socket.peer().filter(|peer| !peer.closed.get());
    Ok(Row {
        ino: socket.ino.get(),
        kind: kind as u8,
        state,
        name: name.map(|name| name.get(2..).unwrap_or_default().to_vec()),
        node: socket.node.get(),
        peer: peer.map(|peer| peer.ino.get()),
        pending: vfs::memory::collect(
            backlog.iter().filter_map(|one| one.peer()).map(|client| client.ino.get() as u32),
        )?,
        queues: queues.map(|n| n as u32),
        shutdown,
        uid: socket.credentials.get()[1],
    })
}
