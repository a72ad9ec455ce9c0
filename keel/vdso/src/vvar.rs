//! The data page: numbers to convert the time stamp counter to clocks.

/// Content of the page before the image.
///
/// A clock's time is its base plus `(counter - tsc_base) * mult / 2^64` ns. For an update keel makes `sequence` odd,
/// writes, and makes it even again; readers retry if it was odd or changed. keel renews the bases periodically, because
/// readings within a second of them are fastest.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vvar {
    /// Even while the other fields are consistent.
    pub sequence: u32,
    /// GS offset of the virtual CPU's number.
    pub cpu_at: u32,
    /// Counter at the time of the bases.
    pub tsc_base: u64,
    /// ns per tick, 0.64 fixed point.
    pub mult: u64,
    /// Time of each clock at the base (real time: since the epoch), by its number. Only those of [`CLOCKS`] are used.
    pub bases: [Base; CLOCK_LIMIT],
}

/// A time in seconds and ns.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// Whole seconds.
    pub seconds: u64,
    /// ns, less than 10^9.
    pub ns: u64,
}

/// Upper bound of clock numbers.
pub const CLOCK_LIMIT: usize = 12;

/// `CLOCK_REALTIME`.
pub const REALTIME: usize = 0;
/// `CLOCK_MONOTONIC`.
pub const MONOTONIC: usize = 1;
/// `CLOCK_MONOTONIC_RAW`.
pub const MONOTONIC_RAW: usize = 4;
/// `CLOCK_REALTIME_COARSE`.
pub const REALTIME_COARSE: usize = 5;
/// `CLOCK_MONOTONIC_COARSE`.
pub const MONOTONIC_COARSE: usize = 6;
/// `CLOCK_BOOTTIME`.
pub const BOOTTIME: usize = 7;
/// `CLOCK_TAI`.
pub const TAI: usize = 11;

/// Bit set of the clocks that the vDSO implements, clock_gettime(2).
pub const CLOCKS: u32 = PRECISE_CLOCKS | 1 << REALTIME_COARSE | 1 << MONOTONIC_COARSE;
/// Clocks with a resolution of 1 ns.
pub const PRECISE_CLOCKS: u32 = 1 << REALTIME | 1 << MONOTONIC | 1 << MONOTONIC_RAW | 1 << BOOTTIME | 1 << TAI;
