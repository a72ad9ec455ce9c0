//! Prepared peers: those that the monitor may connect to again without a question.
//!
//! The broker owns a file in memory with an array of socket addresses, the *entries*. The monitor maps it without the right to write,
//! at a place that its jail protects, and its jail allows connect(2) only with the address of an entry there. So the monitor can
//! connect to these peers and to no others, whatever it stores elsewhere. An entry belongs to one peer as long as the pod
//! runs. When its peer is not allowed any more, or to be decided about anew, the broker withdraws it: then it names an
//! address family that does not exist, and connect(2) fails with EAFNOSUPPORT.
//!
//! The monitor gets unconnected TCP sockets for that from the broker.

/// Number of entries.
pub const ENTRIES: usize = 4096;
/// Size of an entry: `struct sockaddr_in` or `struct sockaddr_in6` (`AF_INET6` is the larger one) and zeros.
pub const ENTRY_BYTES: usize = 32;
/// Length of the address that connect(2) is given, for both families.
pub const ADDRESS_BYTES: u32 = 28;
/// Size of the table.
pub const TABLE_BYTES: usize = ENTRIES * ENTRY_BYTES;
/// Most spare sockets that one reply carries.
pub const MAX_SPARE: usize = 16;

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the table; smaller than [`ENTRIES`].
    pub index: u16,
    /// It is an IPv6 address.
    pub v6: bool,
}

impl Entry {
    /// As a word that is not 0.
    pub(crate) fn encode(self) -> u64 {
        1 | u64::from(self.v6) << 1 | u64::from(self.index) << 16
    }

    /// Of such a word.
    pub(crate) fn decode(word: u64) -> Option<Self> {
        (word & 1 != 0).then_some(Self { index: (word >> 16) as u16, v6: word & 2 != 0 })
    }
}
