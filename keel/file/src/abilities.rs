//! Calls that an open file has operations for, whatever it was opened for: Linux's `FMODE_CAN_READ`, `FMODE_PREAD` and their
//! relatives, and the operations that are there or not. They determine the order of errors.

/// A set of abilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities(u16);

impl Abilities {
    /// None.
    pub const NONE: Self = Self(0);
    /// read(2); without it EINVAL, before the buffers are looked at.
    pub const READ: Self = Self(1);
    /// write(2), in the same way.
    pub const WRITE: Self = Self(1 << 1);
    /// Flags of preadv2(2); without it EOPNOTSUPP but for `RWF_HIPRI`.
    pub const READ_FLAGS: Self = Self(1 << 2);
    /// Flags of pwritev2(2).
    pub const WRITE_FLAGS: Self = Self(1 << 3);
    /// pread(2); without it ESPIPE.
    pub const PREAD: Self = Self(1 << 4);
    /// pwrite(2); without it ESPIPE.
    pub const PWRITE: Self = Self(1 << 5);
    /// `RWF_NOWAIT`; without it EOPNOTSUPP.
    pub const NO_WAIT: Self = Self(1 << 6);
    /// SIGIO; without it `FIOASYNC` fails (ENOTTY), and `F_SETFL` ignores `O_ASYNC`.
    pub const ASYNC: Self = Self(1 << 7);
    /// `O_DIRECT` may be set; without it EINVAL.
    pub const DIRECT: Self = Self(1 << 8);
    /// splice(2) and sendfile(2) from it; without it EINVAL.
    pub const SPLICE_FROM: Self = Self(1 << 9);
    /// splice(2) and sendfile(2) to it; without it EINVAL.
    pub const SPLICE_TO: Self = Self(1 << 10);

    /// read(2) and write(2) with flags, and splice(2).
    pub const TRANSFER: Self = Self(0)
        .with(Self::READ)
        .with(Self::WRITE)
        .with(Self::READ_FLAGS)
        .with(Self::WRITE_FLAGS)
        .with(Self::SPLICE_FROM)
        .with(Self::SPLICE_TO);
    /// pread(2) and pwrite(2).
    pub const POSITIONS: Self = Self::PREAD.with(Self::PWRITE);
    /// Those of a stream of bytes that signals its readiness.
    pub const STREAM: Self = Self::TRANSFER.with(Self::NO_WAIT).with(Self::ASYNC);

    /// Both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The first set without the second one.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of the others are among them.
    #[inline(always)]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
