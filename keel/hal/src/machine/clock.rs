//! Time from the processor's counter, without leaving the machine.
//!
//! The counter's rate is known to a few parts in 10^7 and the host's own clocks are corrected all the time (NTP), so
//! keel follows the host's: the monitor notes their state in the ring when it has something to do anyway, and
//! [`renew`] takes it over: a clock that is behind is put forward, one that is ahead runs slower until the host has
//! caught up. The monotonic clock never goes back.

use crate::cell::Global;
use crate::instructions::counter;
use crate::ring;
use core::cell::Cell;

/// How to turn the counter into time: `ns = base_ns + ((tsc - tsc_base) * rate >> 64)`.
#[derive(Clone, Copy, Debug)]
pub struct Calibration {
    /// Counter at the base.
    pub tsc_base: u64,
    /// ns per tick, 64.64 fixed point.
    pub rate: u128,
    /// Monotonic time at the base in ns.
    pub monotonic_ns: u64,
    /// Real time at the base in ns.
    pub realtime_ns: u64,
    /// Boot time at the base in ns.
    pub boottime_ns: u64,
}

/// What [`renew`] remembers.
#[derive(Clone, Copy)]
struct Guide {
    /// Counter and monotonic time of the host at boot or after the last jump.
    first: (u64, u64),
    /// The rate as the host states it, or as measured since.
    rate: u128,
    /// The last reading that was used.
    sequence: u32,
}

static CALIBRATION: Global<Cell<Calibration>> =
    Global::new(Cell::new(Calibration { tsc_base: 0, rate: 1 << 64, monotonic_ns: 0, realtime_ns: 0, boottime_ns: 0 }));
static GUIDE: Global<Cell<Guide>> = Global::new(Cell::new(Guide { first: (0, 0), rate: 1 << 64, sequence: 0 }));

/// ns over which the host catches up if it is behind.
const STEER_NS: i64 = 2_000_000_000;
/// Most that the rate differs for that, as a part of them: 1 / 2000, as Linux does it, adjtime(3).
const STEER_MOST: i64 = STEER_NS / 2000;
/// The rate is measured once the pod is this old, in ns: the two readings are exact to 10 us.
const MEASURE_NS: u64 = 60_000_000_000;
/// No correction comes to more: the host slept while the counter went on, or the other way round. In ns.
const JUMP_NS: i64 = 50_000_000;
/// A real time that is further off was set; less is the time between two readings. In ns.
const SET_NS: u64 = 1_000_000;

/// Sets the calibration (boot).
pub(crate) fn init(info: &abi::boot::BootInfo) {
    let rate = (1_000_000u128 << 64) / u128::from(info.tsc_khz.max(1));
    CALIBRATION.set(Calibration {
        tsc_base: info.tsc_base,
        rate,
        monotonic_ns: info.monotonic_base_ns,
        realtime_ns: info.realtime_base_ns,
        boottime_ns: info.boottime_base_ns,
    });
    GUIDE.set(Guide { first: (info.tsc_base, info.monotonic_base_ns), rate, sequence: 0 });
}

/// The calibration, for the vDSO's data page.
pub fn calibration() -> Calibration {
    CALIBRATION.get()
}

/// Sets the base anew, and the rate if the monitor read the host's clocks since the last time. Others may read the
/// clocks only under the big lock.
pub fn renew() {
    let old = CALIBRATION.get();
    let tsc = counter();
    let elapsed = to_ns(tsc, &old);
    let mut new = Calibration {
        tsc_base: tsc.max(old.tsc_base),
        rate: old.rate,
        monotonic_ns: old.monotonic_ns + elapsed,
        realtime_ns: old.realtime_ns + elapsed,
        boottime_ns: old.boottime_ns + elapsed,
    };
    let mut guide = GUIDE.get();
    if let Some(host) = ring::host_clocks()
        && host.sequence != guide.sequence
        && host.tsc >= guide.first.0
    {
        guide.sequence = host.sequence;
        let ours = (new.monotonic_ns as i64).wrapping_add(signed_ns(host.tsc, new.tsc_base, old.rate));
        let behind = (host.monotonic_ns as i64).wrapping_sub(ours);
        let since = (host.tsc - guide.first.0, host.monotonic_ns.saturating_sub(guide.first.1));
        if behind.unsigned_abs() > JUMP_NS as u64 {
            // What was measured over the jump is no rate.
            guide.first = (host.tsc, host.monotonic_ns);
        } else if since.0 != 0 && since.1 > MEASURE_NS {
            guide.rate = (u128::from(since.1) << 64) / u128::from(since.0);
        }
        new.rate = match behind {
            0.. => {
                new.monotonic_ns = new.monotonic_ns.saturating_add_signed(behind);
                guide.rate
            }
            // It can't go back: the host catches up, within about two seconds.
            _ if behind < -JUMP_NS => guide.rate / 2,
            _ => guide.rate - guide.rate / STEER_NS as u128 * u128::from(behind.max(-STEER_MOST).unsigned_abs()),
        };
        let real = host.realtime_ns.wrapping_sub(host.monotonic_ns);
        if real.abs_diff(new.realtime_ns.wrapping_sub(new.monotonic_ns)) > SET_NS {
            new.realtime_ns = new.monotonic_ns.wrapping_add(real);
        }
        let boot = host.boottime_ns.wrapping_sub(host.monotonic_ns);
        if boot.abs_diff(new.boottime_ns.wrapping_sub(new.monotonic_ns)) > SET_NS {
            new.boottime_ns = new.monotonic_ns.wrapping_add(boot);
        }
        GUIDE.set(guide);
    }
    CALIBRATION.set(new);
}

/// The time stamp counter.
pub fn tsc() -> u64 {
    counter()
}

/// Ticks of the counter in `ns`, roughly. Needs no lock.
pub(crate) fn ticks(ns: u64) -> u64 {
    ns.saturating_mul(crate::boot::boot_info().tsc_khz) / 1_000_000
}

/// Ticks of the time stamp counter now, for [`ns_of`]: without the big lock, too.
pub fn stamp() -> u64 {
    counter()
}

/// ns of so many ticks of the counter, roughly.
pub fn ns_of(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000) / crate::boot::boot_info().tsc_khz.max(1)
}

fn scale(ticks: u64, rate: u128) -> u64 {
    let whole = ticks.wrapping_mul((rate >> 64) as u64);
    whole.wrapping_add(((u128::from(ticks) * u128::from(rate as u64)) >> 64) as u64)
}

/// ns from `from` to `to`, which may be the earlier one.
fn signed_ns(to: u64, from: u64, rate: u128) -> i64 {
    let ns = scale(to.abs_diff(from), rate) as i64;
    if to < from { -ns } else { ns }
}

fn to_ns(tsc: u64, c: &Calibration) -> u64 {
    scale(tsc.saturating_sub(c.tsc_base), c.rate)
}

/// `CLOCK_MONOTONIC` of the host in ns.
pub fn monotonic_ns() -> u64 {
    let c = CALIBRATION.get();
    c.monotonic_ns + to_ns(counter(), &c)
}

/// `CLOCK_REALTIME` of the host in ns since the epoch.
pub fn realtime_ns() -> u64 {
    let c = CALIBRATION.get();
    c.realtime_ns + to_ns(counter(), &c)
}
