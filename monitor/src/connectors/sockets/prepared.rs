//! Connections to peers that the broker prepared: without a question.
//!
//! [`broker::prepared`] says what the table is, and why the jail may allow connect(2) with its entries.

use super::super::{Errno, Result};
use super::opener::Ask;
use broker::prepared::{ADDRESS_BYTES, ENTRIES, ENTRY_BYTES, Entry, MAX_SPARE, TABLE_BYTES};
use rustix::fd::{AsRawFd, OwnedFd};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ptr::NonNull;

/// With so many spare sockets, or fewer, more are asked for.
const LOW: usize = MAX_SPARE / 2;

/// The table of prepared peers, mapped for reading as long as the process lives.
#[derive(Debug)]
pub struct Table(NonNull<u8>);

// SAFETY: the pointer is only passed to the kernel.
#[allow(unsafe_code)]
unsafe impl Send for Table {}

impl Table {
    /// Maps the file of the table, at `place` if that is given and free.
    #[allow(unsafe_code)]
    pub fn map(file: &OwnedFd, place: Option<usize>) -> Result<Self> {
        let fixed = if place.is_some() { libc::MAP_FIXED_NOREPLACE } else { 0 };
        let at = place.unwrap_or(0) as *mut libc::c_void;
        let (access, flags) = (libc::PROT_READ, libc::MAP_SHARED | fixed);
        // SAFETY: a new mapping that replaces none; nothing refers to its bytes.
        let mapped = unsafe { libc::mmap(at, TABLE_BYTES, access, flags, file.as_raw_fd(), 0) };
        if mapped == libc::MAP_FAILED {
            return Err(last_error());
        }
        // Kernels before 4.17 take the place for a hint.
        let table = NonNull::new(mapped.cast()).filter(|_| place.is_none() || mapped == at);
        table.map(Self).ok_or(Errno::EXIST)
    }

    /// Connects a socket that does not block, as connect(2) does.
    #[allow(unsafe_code)]
    fn connect(&self, socket: &OwnedFd, index: u16) -> Result<()> {
        if usize::from(index) >= ENTRIES {
            return Err(Errno::AFNOSUPPORT);
        }
        let address = self.0.as_ptr().wrapping_add(usize::from(index) * ENTRY_BYTES);
        // SAFETY: the kernel reads the address from the mapping, which exists as long as the process.
        match unsafe { libc::connect(socket.as_raw_fd(), address.cast(), ADDRESS_BYTES) } {
            0 => Ok(()),
            _ => Err(last_error()),
        }
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// The prepared peers, and sockets for them.
#[derive(Debug, Default)]
pub struct Prepared {
    table: Option<Table>,
    entries: HashMap<SocketAddr, Entry>,
    /// For IPv4 and IPv6.
    spare: [Spare; 2],
}

#[derive(Debug, Default)]
struct Spare {
    sockets: Vec<OwnedFd>,
    asked: bool,
}

/// A peer without what its sender can write differently.
fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

impl Prepared {
    /// With this table.
    pub fn new(table: Option<Table>) -> Self {
        Self { table, ..Self::default() }
    }

    /// The peer may be connected to again.
    pub fn add(&mut self, peer: SocketAddr, entry: Entry) {
        if self.table.is_some() && self.entries.len() < ENTRIES {
            self.entries.insert(canonical(peer), entry);
        }
    }

    /// Spare sockets came, or none.
    pub fn fill(&mut self, v6: bool, sockets: Vec<OwnedFd>) {
        let spare = &mut self.spare[usize::from(v6)];
        spare.asked = false;
        spare.sockets.extend(sockets.into_iter().take(MAX_SPARE));
    }

    /// Nobody answers any more, nor withdraws entries.
    pub fn end(&mut self) {
        *self = Self::default();
    }

    /// Connects a spare socket to a prepared peer: the socket, or the error of the connection. `None`: the opener must be asked for
    /// the connection. Also returns what else to ask it.
    pub fn connect(&mut self, peer: SocketAddr) -> (Option<Result<OwnedFd>>, Option<Ask>) {
        let peer = canonical(peer);
        let (Some(table), Some(entry)) = (&self.table, self.entries.get(&peer)) else { return (None, None) };
        let v6 = entry.v6;
        let spare = &mut self.spare[usize::from(v6)];
        let socket = spare.sockets.pop();
        let ask = spare.sockets.len() < LOW && !std::mem::replace(&mut spare.asked, true);
        let ask = ask.then_some(Ask::Spare { v6 });
        let Some(socket) = socket else { return (None, ask) };
        match table.connect(&socket, entry.index) {
            Ok(()) | Err(Errno::INPROGRESS) => (Some(Ok(socket)), ask),
            // Withdrawn.
            Err(Errno::AFNOSUPPORT) => {
                spare.sockets.push(socket);
                self.entries.remove(&peer);
                (None, ask)
            }
            Err(errno) => (Some(Err(errno)), ask),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    use std::net::TcpListener;

    #[test]
    fn spare_sockets_reach_prepared_peers() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let file = memfd_create("table", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, TABLE_BYTES as u64).unwrap();
        let at = 3 * ENTRY_BYTES as u64;
        let [high, low] = port.to_be_bytes();
        let family = AddressFamily::INET.as_raw().to_ne_bytes();
        rustix::io::pwrite(&file, &[family[0], family[1], high, low, 127, 0, 0, 1], at).unwrap();
        let mut prepared = Prepared::new(Some(Table::map(&file, None).unwrap()));
        let sockets = || -> Vec<OwnedFd> {
            let one = || {
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap()
            };
            (0..MAX_SPARE + 1).map(|_| one()).collect()
        };
        let peer: SocketAddr = "10.0.2.2:80".parse().unwrap();
        assert!(matches!(prepared.connect(peer), (None, None)));
        prepared.add("[::ffff:10.0.2.2]:80".parse().unwrap(), Entry { index: 3, v6: false });
        assert!(matches!(prepared.connect(peer), (None, Some(Ask::Spare { v6: false }))));
        assert!(matches!(prepared.connect(peer), (None, None)), "asked already");
        prepared.fill(false, sockets());
        assert_eq!(prepared.spare[0].sockets.len(), MAX_SPARE, "no more than asked for");
        let mut asked = 0;
        for left in (0..MAX_SPARE).rev() {
            let (socket, ask) = prepared.connect(peer);
            socket.unwrap().unwrap();
            server.accept().unwrap();
            asked += usize::from(ask.is_some());
            assert_eq!(asked, usize::from(left < LOW));
        }
        prepared.fill(false, sockets());
        // Withdrawn: the socket stays, and the peer is forgotten.
        rustix::io::pwrite(&file, &u16::MAX.to_ne_bytes(), at).unwrap();
        assert!(matches!(prepared.connect(peer), (None, None)));
        assert_eq!((prepared.spare[0].sockets.len(), prepared.entries.len()), (MAX_SPARE, 0));
        // Entries beyond the table, or of the wrong family, are none.
        for entry in [Entry { index: u16::MAX, v6: false }, Entry { index: 4, v6: true }] {
            prepared.add(peer, entry);
            prepared.fill(entry.v6, Vec::new());
            assert!(prepared.connect(peer).0.is_none_or(|outcome| outcome.is_ok()));
        }
        prepared.end();
        assert!(matches!(prepared.connect(peer), (None, None)));
    }
}
