//! Sockets as `/proc/net` lists them: those that some process has open.

use crate::file::File;
use crate::file::socket::Socket;
use crate::task::process;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use uapi::raw::net;

/// Open sockets of a family, each once, in the order of their inode numbers.
fn all(family: u32) -> Vec<(u64, Rc<File>)> {
    let mut found: Vec<(u64, Rc<File>)> = Vec::new();
    for files in process::all().into_iter().filter_map(|p| p.main_thread()?.try_files()) {
        for file in files.numbers().into_iter().filter_map(|fd| files.get(fd).ok()) {
            let matches = file.downcast::<Socket>().is_some_and(|socket| socket.family == family);
            if matches && let Ok(attr) = file.ops.attr() {
                found.push((attr.ino, file));
            }
        }
    }
    found.sort_by_key(|(ino, _)| *ino);
    found.dedup_by_key(|(ino, _)| *ino);
    found
}

/// `net/unix`.
pub fn unix() -> Vec<u8> {
    /// `__SO_ACCEPTCON`.
    const LISTENS: u32 = 1 << 16;
    const UNCONNECTED: u32 = 1;
    const CONNECTED: u32 = 3;
    let mut out = b"Num       RefCount Protocol Flags    Type St Inode Path\n".to_vec();
    for (ino, file) in all(net::AF_UNIX) {
        let Some(socket) = file.downcast::<Socket>() else { continue };
        let flags = if socket.ops.is_listening() { LISTENS } else { 0 };
        let (references, state) = if socket.ops.peer().is_ok() { (3, CONNECTED) } else { (2, UNCONNECTED) };
        let line =
            format!("{:016x}: {references:08X} 00000000 {flags:08X} {:04X} {state:02X} {ino:>5}", 0, socket.kind);
        out.extend_from_slice(line.as_bytes());
        let address = socket.ops.local().unwrap_or_default();
        match address.get(2..) {
            Some([0, name @ ..]) => {
                out.extend_from_slice(b" @");
                out.extend(name.iter().map(|&b| if b == 0 { b'@' } else { b }));
            }
            Some(path) if !path.is_empty() => {
                out.push(b' ');
                out.extend(path.iter().take_while(|&&b| b != 0));
            }
            _ => {}
        }
        out.push(b'\n');
    }
    out
}

/// An address of `struct sockaddr_in` or `sockaddr_in6` in hexadecimal, words as they lie in memory.
fn hexadecimal(address: &[u8], family: u32) -> String {
    let part = if family == net::AF_INET { 4..8 } else { 8..24 };
    let len = part.len();
    let bytes = address.get(part).map_or_else(|| alloc::vec![0; len], <[u8]>::to_vec);
    let words: String = bytes
        .chunks_exact(4)
        .map(|w| format!("{:08X}", w.iter().rev().fold(0u32, |word, b| word << 8 | u32::from(*b))))
        .collect();
    let port = address.get(2..4).map_or(0, |p| u16::from(p[0]) << 8 | u16::from(p[1]));
    format!("{words}:{port:04X}")
}

/// Rows of `net/tcp`, `net/udp` and their relatives for IPv6. `width`: lines are padded to that.
pub fn inet(family: u32, kind: u32, width: usize) -> String {
    const ESTABLISHED: u32 = 1;
    const CLOSED: u32 = 7;
    const LISTEN: u32 = 10;
    let stream = kind == net::SOCK_STREAM;
    let of_kind = all(family).into_iter().filter(|(_, f)| f.downcast::<Socket>().is_some_and(|s| s.kind == kind));
    let mut text = String::new();
    for (row, (ino, file)) in of_kind.enumerate() {
        let Some(socket) = file.downcast::<Socket>() else { continue };
        let peer = socket.ops.peer();
        let state = match (&peer, socket.ops.is_listening()) {
            (_, true) => LISTEN,
            (Ok(_), false) => ESTABLISHED,
            (Err(_), false) => CLOSED,
        };
        let local = hexadecimal(&socket.ops.local().unwrap_or_default(), family);
        let peer = hexadecimal(&peer.unwrap_or_default(), family);
        let received = socket.ops.queued(false).unwrap_or(0);
        let uid = file.ops.attr().map_or(0, |attr| attr.uid);
        let head = if stream { format!("{row:>4}") } else { format!("{row:>5}") };
        let tail = if stream { "100 0 0 10 0" } else { "0" };
        let line = format!(
            "{head}: {local} {peer} {state:02X} 00000000:{received:08X} 00:00000000 00000000 {uid:>5}        0 {ino} 2 \
             {:016x} {tail}",
            0
        );
        text.push_str(&format!("{line:<width$}\n"));
    }
    text
}
