//! The data page: numbers that turn the time stamp counter into clocks.

/// What lies at the start of the page before the image.
///
/// A clock's time is its base and `(counter - tsc_base) * mult / 2^64` ns. To change anything, keel
/// makes `sequence` odd, writes, and makes it even again; readers try again when they saw it odd or
/// changed. Keel sets the bases anew from time to time, since no more than a second after them is read fastest.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vvar {
    /// Even while the rest is consistent.
    pub sequence: u32,
    /// GS offset of the number of the virtual CPU.
    pub cpu_at: u32,
    /// Counter at which the bases hold.
    pub tsc_base: u64,
    /// ns per tick, 0.64 fixed point.
    pub mult: u64,
    /// Each clock at the base (real time: since the epoch), by its number. Only those of [`CLOCKS`] are read.
    pub bases: [Base; CLOCK_LIMIT],
}

/// A time: seconds, and ns below one of them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// Whole seconds.
    pub seconds: u64,
    /// ns, less than 10^9.
    pub ns: u64,
}

/// First number that isn't a clock's.
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

/// Bit set of the clocks that the shared object serves, clock_gettime(2).
pub const CLOCKS: u32 = PRECISE_CLOCKS | 1 << REALTIME_COARSE | 1 << MONOTONIC_COARSE;
/// Those with a resolution of 1 ns.
pub const PRECISE_CLOCKS: u32 = 1 << REALTIME | 1 << MONOTONIC | 1 << MONOTONIC_RAW | 1 << BOOTTIME | 1 << TAI;
