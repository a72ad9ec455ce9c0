//! Time from the time stamp counter, without leaving the virtual machine.

/// `CLOCK_MONOTONIC` of the host in ns.
pub fn monotonic_ns() -> u64 {
    imp::monotonic_ns()
}

/// `CLOCK_REALTIME` of the host in ns since the epoch.
pub fn realtime_ns() -> u64 {
    imp::realtime_ns()
}

#[cfg(feature = "hosted")]
mod imp {
    use std::time::{SystemTime, UNIX_EPOCH};
    pub fn realtime_ns() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
    }
    pub fn monotonic_ns() -> u64 {
        realtime_ns()
    }
}

#[cfg(not(feature = "hosted"))]
pub use imp::{Calibration, calibration, init, tsc};

#[cfg(not(feature = "hosted"))]
mod imp {
    use crate::cell::Global;
    use core::cell::Cell;

    /// How to turn the counter into time: `ns = base_ns + ((tsc - tsc_base) * mult >> 32)`.
    #[derive(Clone, Copy, Debug)]
    pub struct Calibration {
        /// Counter at the base.
        pub tsc_base: u64,
        /// ns per tick, 32.32 fixed point.
        pub mult: u64,
        /// Monotonic time at the base in ns.
        pub monotonic_ns: u64,
        /// Real time at the base in ns.
        pub realtime_ns: u64,
        /// Boot time at the base in ns.
        pub boottime_ns: u64,
    }

    static CALIBRATION: Global<Cell<Calibration>> = Global::new(Cell::new(Calibration {
        tsc_base: 0,
        mult: 1 << 32,
        monotonic_ns: 0,
        realtime_ns: 0,
        boottime_ns: 0,
    }));

    /// Sets the calibration (boot).
    pub fn init(info: &abi::boot::BootInfo) {
        CALIBRATION.set(Calibration {
            tsc_base: info.tsc_base,
            mult: (1_000_000u64 << 32) / info.tsc_khz.max(1),
            monotonic_ns: info.monotonic_base_ns,
            realtime_ns: info.realtime_base_ns,
            boottime_ns: info.boottime_base_ns,
        });
    }

    /// The calibration, for the vDSO's data page.
    pub fn calibration() -> Calibration {
        CALIBRATION.get()
    }

    /// The time stamp counter.
    pub fn tsc() -> u64 {
        // SAFETY: RDTSC is available at CPL 3 on every x86-64 (CR4.TSD is clear).
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    fn elapsed_ns(c: &Calibration) -> u64 {
        ((u128::from(tsc().saturating_sub(c.tsc_base)) * u128::from(c.mult)) >> 32) as u64
    }

    pub fn monotonic_ns() -> u64 {
        let c = CALIBRATION.get();
        c.monotonic_ns + elapsed_ns(&c)
    }

    pub fn realtime_ns() -> u64 {
        let c = CALIBRATION.get();
        c.realtime_ns + elapsed_ns(&c)
    }
}
