//! The order in which locks are taken.

/// Rank of a lock. A lock may be taken only while all held locks have a higher rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rank {
    /// The frame allocator.
    Frames,
    /// The heap's free lists.
    Heap,
    /// Free page tables.
    Tables,
    /// Replaced values with readers.
    Grace,
    /// A pipe's buffer.
    Pipe,
    /// A socket's receive queue.
    Socket,
    /// An event counter.
    Counter,
    /// The ready list of an epoll instance.
    Ready,
    /// Subscribers of a file's events.
    Told,
    /// Mappings and page tables of an address space that fork(2) makes, while its parent's lock is held.
    NewSpace,
    /// Mappings and page tables of an address space.
    Space,
}

impl Rank {
    /// All ranks, lowest first.
    pub const ALL: [Self; 11] = [
        Self::Frames,
        Self::Heap,
        Self::Tables,
        Self::Grace,
        Self::Pipe,
        Self::Socket,
        Self::Counter,
        Self::Ready,
        Self::Told,
        Self::NewSpace,
        Self::Space,
    ];

    /// What the locks of this rank protect, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frames => "frame allocator",
            Self::Heap => "heap",
            Self::Tables => "free page tables",
            Self::Grace => "replaced values",
            Self::Pipe => "pipe",
            Self::Socket => "socket queue",
            Self::Counter => "event counter",
            Self::Ready => "epoll ready list",
            Self::Told => "event subscribers",
            Self::NewSpace => "new address space",
            Self::Space => "address space",
        }
    }

    /// The rank's bit in a word of held ranks.
    #[cfg_attr(not(any(test, feature = "lock-ranks")), allow(dead_code, reason = "checked builds only"))]
    const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// Whether a lock of this rank may be taken while those in `held` are.
    #[cfg_attr(not(any(test, feature = "lock-ranks")), allow(dead_code, reason = "checked builds only"))]
    const fn may_follow(self, held: u32) -> bool {
        held & (self.bit() | (self.bit() - 1)) == 0
    }
}

/// Records that a lock of this rank is taken. Panics on a violation of the order, in checked builds.
#[inline(always)]
pub(super) fn taken(rank: Rank) {
    #[cfg(all(feature = "lock-ranks", not(feature = "hosted")))]
    {
        let held = crate::percpu::held_ranks();
        assert!(rank.may_follow(held), "lock order: {rank:?} taken while ranks {held:#x} are held");
        crate::percpu::set_held_ranks(held | rank.bit());
    }
    #[cfg(not(all(feature = "lock-ranks", not(feature = "hosted"))))]
    let _ = rank;
}

/// Records that a lock of this rank is released.
#[inline(always)]
pub(super) fn released(rank: Rank) {
    #[cfg(all(feature = "lock-ranks", not(feature = "hosted")))]
    crate::percpu::set_held_ranks(crate::percpu::held_ranks() & !rank.bit());
    #[cfg(not(all(feature = "lock-ranks", not(feature = "hosted"))))]
    let _ = rank;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_in_descending_rank() {
        assert!(Rank::Heap.may_follow(0));
        assert!(Rank::Frames.may_follow(Rank::Heap.bit()));
        assert!(!Rank::Heap.may_follow(Rank::Frames.bit()), "ascending");
        assert!(!Rank::Heap.may_follow(Rank::Heap.bit()), "twice");
    }
}
