//! The broker's side of the table of [prepared peers](crate::prepared).

use crate::prepared::{ENTRIES, ENTRY_BYTES, Entry, TABLE_BYTES};
use rustix::fs::{MemfdFlags, Mode, OFlags, ftruncate, memfd_create, open};
use rustix::io::{Errno, pwrite};
use rustix::net::AddressFamily;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long an entry is good at most: then the monitor asks again, and the broker decides anew.
const LONGEST: Duration = Duration::from_secs(10);
/// The address family of an entry that is withdrawn: none.
const WITHDRAWN: u16 = u16::MAX;

/// The table.
#[derive(Debug)]
pub struct Table {
    file: OwnedFd,
    entries: HashMap<SocketAddr, u16>,
    /// Entries that are good, and how long.
    good: HashMap<u16, Instant>,
}

impl Table {
    /// An empty one, and its file without the right to write.
    pub fn new() -> Result<(Self, OwnedFd), Errno> {
        let file = memfd_create("prepared-peers", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, TABLE_BYTES as u64)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let readable = open(format!("/proc/self/fd/{}", file.as_raw_fd()), flags, Mode::empty())?;
        Ok((Self { file, entries: HashMap::new(), good: HashMap::new() }, readable))
    }

    /// Lets the monitor connect to a peer again, `until` then at the longest. `None`: it has to ask.
    pub fn offer(&mut self, peer: SocketAddr, until: Option<Instant>, now: Instant) -> Option<Entry> {
        let entry = Entry { index: self.index(peer)?, v6: peer.is_ipv6() };
        let longest = now + LONGEST;
        let until = until.map_or(longest, |until| until.min(longest));
        if self.good.insert(entry.index, until).is_none() {
            let family = if entry.v6 { AddressFamily::INET6 } else { AddressFamily::INET };
            if self.set_family(entry.index, family.as_raw()).is_err() {
                self.good.remove(&entry.index);
                return None;
            }
        }
        Some(entry)
    }

    /// The entry of a peer, which is withdrawn if it is new.
    fn index(&mut self, peer: SocketAddr) -> Option<u16> {
        if let Some(index) = self.entries.get(&peer) {
            return Some(*index);
        }
        let index = u16::try_from(self.entries.len()).ok().filter(|index| usize::from(*index) < ENTRIES)?;
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..2].copy_from_slice(&WITHDRAWN.to_ne_bytes());
        bytes[2..4].copy_from_slice(&peer.port().to_be_bytes());
        match peer {
            SocketAddr::V4(v4) => bytes[4..8].copy_from_slice(&v4.ip().octets()),
            SocketAddr::V6(v6) => {
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            }
        }
        let written = pwrite(&self.file, &bytes, u64::from(index) * ENTRY_BYTES as u64);
        (written == Ok(ENTRY_BYTES)).then(|| {
            self.entries.insert(peer, index);
            index
        })
    }

    fn set_family(&self, index: u16, family: u16) -> Result<(), Errno> {
        match pwrite(&self.file, &family.to_ne_bytes(), u64::from(index) * ENTRY_BYTES as u64)? {
            2 => Ok(()),
            _ => Err(Errno::IO),
        }
    }

    /// Withdraws all entries.
    pub fn withdraw(&mut self) {
        self.withdraw_if(|_| true);
    }

    /// Withdraws the entries whose time has passed.
    pub fn expire(&mut self, now: Instant) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.withdraw_if(|until| until <= now);
        }
    }

    fn withdraw_if(&mut self, is_over: impl Fn(Instant) -> bool) {
        let over: Vec<u16> = self.good.iter().filter(|(_, until)| is_over(**until)).map(|(index, _)| *index).collect();
        for index in over {
            // The page exists since the entry was made, so that the file can be written. What can't be withdrawn is tried again.
            if self.set_family(index, WITHDRAWN).is_ok() {
                self.good.remove(&index);
            }
        }
    }

    /// When the next entry is over.
    pub fn deadline(&self) -> Option<Instant> {
        self.good.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(file: &OwnedFd, index: u16) -> u16 {
        let mut bytes = [0; 2];
        rustix::io::pread(file, &mut bytes, u64::from(index) * ENTRY_BYTES as u64).unwrap();
        u16::from_ne_bytes(bytes)
    }

    #[test]
    fn entries_come_and_go() {
        let (mut table, file) = Table::new().unwrap();
        assert_eq!(pwrite(&file, b"x", 0), Err(Errno::BADF));
        let now = Instant::now();
        let (one, other) = ("192.0.2.1:80".parse().unwrap(), "[2001:db8::1]:443".parse().unwrap());
        let soon = now + Duration::from_secs(1);
        assert_eq!(table.offer(one, Some(soon), now), Some(Entry { index: 0, v6: false }));
        assert_eq!(table.offer(other, None, now), Some(Entry { index: 1, v6: true }));
        assert_eq!((family(&file, 0), family(&file, 1)), (AddressFamily::INET.as_raw(), AddressFamily::INET6.as_raw()));
        assert_eq!(table.deadline(), Some(soon));
        table.expire(soon);
        assert_eq!((family(&file, 0), family(&file, 1)), (WITHDRAWN, AddressFamily::INET6.as_raw()));
        assert_eq!(table.deadline(), Some(now + LONGEST));
        // It gets its entry again.
        assert_eq!(table.offer(one, None, soon), Some(Entry { index: 0, v6: false }));
        table.withdraw();
        assert_eq!((family(&file, 0), family(&file, 1), table.deadline()), (WITHDRAWN, WITHDRAWN, None));
        let mut bytes = [0; 2 * ENTRY_BYTES];
        rustix::io::pread(&file, &mut bytes, 0).unwrap();
        assert_eq!(bytes[2..8], [0, 80, 192, 0, 2, 1]);
        assert_eq!((&bytes[34..36], bytes[40], bytes[55]), (&[1, 187][..], 0x20, 1));
        for number in 0..ENTRIES as u32 {
            let peer = SocketAddr::new(std::net::Ipv4Addr::from_bits(number).into(), 1);
            assert_eq!(table.offer(peer, None, now).is_some(), number < ENTRIES as u32 - 2);
        }
    }
}
