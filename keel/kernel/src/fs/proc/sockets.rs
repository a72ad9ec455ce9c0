//! Sockets as `/proc/net` lists them: those that some process has open.

use crate::socket::inet::Endpoint;
use crate::socket::inet::statistics::{self, Row};
use crate::socket::inet::tcp::State;
use crate::socket::netns::NetNs;
use crate::socket::unix::Unix;
use crate::socket::{Socket, open_sockets};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use uapi::Result;
use uapi::raw::net;
use vfs::memory::Text;

/// `net/unix`. ENOMEM.
pub fn unix(ns: &Rc<NetNs>) -> Result<Vec<u8>> {
    /// `__SO_ACCEPTCON`.
    const LISTENS: u32 = 1 << 16;
    const UNCONNECTED: u32 = 1;
    const CONNECTED: u32 = 3;
    let mut out = Text::default();
    out.add(b"Num       RefCount Protocol Flags    Type St Inode Path\n");
    for (ino, file) in open_sockets(ns, net::AF_UNIX)? {
        let Some(socket) = file.downcast::<Socket>() else { continue };
        let flags = if socket.ops.is_listening() { LISTENS } else { 0 };
        let state = if socket.ops.peer().is_ok() { CONNECTED } else { UNCONNECTED };
        // A peer holds one.
        let has_peer = socket.ops.as_any().downcast_ref().is_some_and(Unix::has_open_peer);
        let references = 2 + u32::from(state == CONNECTED && has_peer);
        let kind = socket.kind;
        out.print(format_args!("{:016x}: {references:08X} 00000000 {flags:08X} {kind:04X} {state:02X} {ino:>5}", 0));
        let address = socket.ops.local().unwrap_or_default();
        match address.get(2..) {
            Some([0, name @ ..]) => {
                out.add(b" @");
                name.iter().for_each(|&b| out.add(&[if b == 0 { b'@' } else { b }]));
            }
            Some(path) if !path.is_empty() => {
                out.add(b" ");
                out.add(path.split(|&b| b == 0).next().unwrap_or_default());
            }
            _ => {}
        }
        out.add(b"\n");
    }
    out.done()
}

/// An address in hexadecimal, as words in memory order.
fn hexadecimal(endpoint: Option<Endpoint>, family: u32) -> String {
    let address = endpoint.unwrap_or(Endpoint::unspecified(family)).to_bytes(family);
    let ip = address.get(if family == net::AF_INET { 4..8 } else { 8..24 }).unwrap_or_default();
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
    let words: String = ip.chunks_exact(4).map(|bytes| format!("{:08X}", word(bytes))).collect();
    format!("{words}:{:04X}", endpoint.map_or(0, |endpoint| endpoint.port))
}

/// Kinds of sockets that have a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP's echoes.
    Echo,
}

/// `net/tcp`, `net/udp`, `net/icmp` and their relatives for IPv6, beginning with `head`. `width`: lines are padded to that.
/// ENOMEM.
pub fn inet(ns: &NetNs, head: &str, family: u32, kind: Kind, width: usize) -> Result<Vec<u8>> {
    let stream = kind == Kind::Tcp;
    let mut text = Text::default();
    text.add(head.as_bytes());
    let (tcp, others) = (statistics::tcp(ns), statistics::datagrams(ns, kind == Kind::Echo));
    let (tcp, others) = (tcp.filter(|_| stream), others.filter(|_| !stream));
    for (number, row) in tcp.chain(others).filter(|row| row.family == family).enumerate() {
        let (local, peer) = (hexadecimal(Some(row.local), family), hexadecimal(row.remote, family));
        let head = if stream { format!("{number:>4}") } else { format!("{number:>5}") };
        let tail = match (stream, row.state == State::Listen as u8) {
            (true, true) => String::from("100 0 0 10 0"),
            (true, false) => String::from("20 4 0 10 -1"),
            (false, _) => format!("{}", row.drops),
        };
        let line = format!(
            "{head}: {local} {peer} {:02X} {:08X}:{:08X} 00:00000000 00000000 {:>5}        0 {} 2 {:016x} {tail}",
            row.state, row.sent, row.received, row.uid, row.ino, 0
        );
        text.print(format_args!("{line:<width$}\n"));
    }
    text.done()
}

/// Sockets in use: all, TCP's and UDP's of a family. ENOMEM.
pub fn in_use(ns: &Rc<NetNs>, family: u32) -> Result<[usize; 3]> {
    let of = |row: &Row| row.family == family;
    let (tcp, udp) = (statistics::tcp(ns).filter(of).count(), statistics::datagrams(ns, false).filter(of).count());
    let others = open_sockets(ns, net::AF_UNIX)?.len() + open_sockets(ns, net::AF_NETLINK)?.len();
    Ok([tcp + udp + others, tcp, udp])
}
