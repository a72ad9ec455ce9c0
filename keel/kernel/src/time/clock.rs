//! Reading clocks; clock_gettime(2).

use super::{SECOND, timespec, timeval, write_timespec};
use crate::mm::user;
use crate::sched::Usage;
use crate::task::{self, Process, Task, pid, pidns};
use alloc::rc::Rc;
use hal::clock::{monotonic_ns, realtime_ns};
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Resolution of the coarse clocks and of processor clocks' ticks: that of a kernel with `HZ=250`.
const COARSE_NS: u64 = 4_000_000;

/// A clock id.
#[derive(Clone, Debug)]
pub enum Clock {
    /// Wall clock.
    Realtime,
    /// Monotonic time; also `CLOCK_MONOTONIC_RAW`.
    Monotonic,
    /// Time since boot, including suspension.
    Boottime,
    /// International atomic time: without leap seconds, as on a Linux without a time daemon.
    Tai,
    /// Processor time of a process; `true`: user time only.
    Process(Rc<Process>, bool),
    /// Processor time of a thread; `true`: user time only.
    Thread(Rc<Task>, bool),
}

impl Clock {
    /// Decodes a `clockid_t`. EINVAL.
    pub fn of(id: i32) -> Result<Self> {
        if id < 0 {
            return Self::of_cpu(id);
        }
        Ok(match id as u32 {
            g::CLOCK_REALTIME | g::CLOCK_REALTIME_COARSE => Self::Realtime,
            g::CLOCK_MONOTONIC | g::CLOCK_MONOTONIC_RAW | g::CLOCK_MONOTONIC_COARSE => Self::Monotonic,
            // There are no alarm clocks: no clock here could wake a suspended machine.
            g::CLOCK_BOOTTIME => Self::Boottime,
            g::CLOCK_TAI => Self::Tai,
            g::CLOCK_PROCESS_CPUTIME_ID => Self::Process(task::current().process().clone(), false),
            g::CLOCK_THREAD_CPUTIME_ID => Self::Thread(task::current(), false),
            _ => return Err(Errno::EINVAL),
        })
    }

    /// EOPNOTSUPP for clocks that can't be waited for, and for alarm clocks.
    pub fn check_waits(id: i32) -> Result<()> {
        const SHOWING: [u32; 5] = [
            g::CLOCK_MONOTONIC_RAW,
            g::CLOCK_REALTIME_COARSE,
            g::CLOCK_MONOTONIC_COARSE,
            g::CLOCK_REALTIME_ALARM,
            g::CLOCK_BOOTTIME_ALARM,
        ];
        if u32::try_from(id).is_ok_and(|id| SHOWING.contains(&id)) { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
    }

    /// Decodes a clock of another process or thread: `~pid << 3 | per_thread << 2 | kind`.
    fn of_cpu(id: i32) -> Result<Self> {
        const PROF: i32 = 0;
        const VIRT: i32 = 1;
        const SCHED: i32 = 2;
        let target = pidns::named(!(id >> 3));
        let kind = id & 3;
        if ![PROF, VIRT, SCHED].contains(&kind) {
            return Err(Errno::EINVAL);
        }
        if id & 4 != 0 {
            let thread = if target == 0 { task::current() } else { pid::find_task(target).ok_or(Errno::EINVAL)? };
            if thread.pid() != task::current().pid() {
                return Err(Errno::EINVAL);
            }
            return Ok(Self::Thread(thread, kind == VIRT));
        }
        let process = match target {
            0 => task::current().process().clone(),
            pid::INIT => pid::init_process(),
            other => pid::find_process(other).ok_or(Errno::EINVAL)?,
        };
        Ok(Self::Process(process, kind == VIRT))
    }

    /// Current time in ns.
    pub fn now(&self) -> u64 {
        match self {
            Self::Realtime | Self::Tai => realtime_ns(),
            Self::Monotonic => monotonic_ns(),
            Self::Boottime => boottime_ns(),
            Self::Process(process, user) => used(process.usage(), *user),
            Self::Thread(task, user) => used(task.sched.usage(), *user),
        }
    }

    /// Whether it counts processor time.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Process(..) | Self::Thread(..))
    }

    /// Monotonic time at which a clock with constant rate reaches `ns`.
    pub fn to_monotonic(&self, ns: u64) -> u64 {
        let ahead = i128::from(ns) - i128::from(self.now());
        u64::try_from(i128::from(monotonic_ns()) + ahead).unwrap_or(if ahead < 0 { 0 } else { u64::MAX })
    }
}

fn used(usage: Usage, user_only: bool) -> u64 {
    if user_only { usage.user_ns } else { usage.user_ns + usage.system_ns }
}

/// `CLOCK_BOOTTIME` in ns: the monotonic clock plus the host's suspended time before the pod's start.
pub fn boottime_ns() -> u64 {
    let c = hal::clock::calibration();
    monotonic_ns() + c.boottime_ns.saturating_sub(c.monotonic_ns)
}

/// clock_gettime(2). EINVAL, EFAULT.
pub fn sys_clock_gettime(id: i32, at: usize) -> Result<()> {
    let ns = match id as u32 {
        // The most frequent clocks, without refcounts.
        g::CLOCK_MONOTONIC => monotonic_ns(),
        g::CLOCK_REALTIME => realtime_ns(),
        _ => Clock::of(id)?.now(),
    };
    write_timespec(at, ns)
}

/// clock_getres(2). EINVAL, EFAULT.
pub fn sys_clock_getres(id: i32, at: usize) -> Result<()> {
    Clock::of(id)?;
    let coarse = id >= 0 && [g::CLOCK_REALTIME_COARSE, g::CLOCK_MONOTONIC_COARSE].contains(&(id as u32));
    if at == 0 {
        return Ok(());
    }
    write_timespec(at, if coarse { COARSE_NS } else { 1 })
}

/// clock_settime(2): the clocks are the host's. EPERM, EINVAL, EFAULT.
pub fn sys_clock_settime(id: i32, at: usize) -> Result<()> {
    let settable = matches!(Clock::of(id)?, Clock::Realtime) && id == g::CLOCK_REALTIME as i32;
    super::read_timespec(at)?;
    Err(if settable { Errno::EPERM } else { Errno::EINVAL })
}

/// settimeofday(2): the clock is the host's. EFAULT, EINVAL, EPERM.
pub fn sys_settimeofday(tv: usize, tz: usize) -> Result<()> {
    if tv != 0 {
        let [seconds, us] = user::read::<[i64; 2]>(tv)?;
        if seconds < 0 || !(0..1_000_000).contains(&us) {
            return Err(Errno::EINVAL);
        }
    }
    if tz != 0 {
        user::read::<[i32; 2]>(tz)?;
    }
    Err(Errno::EPERM)
}

/// gettimeofday(2). EFAULT.
pub fn sys_gettimeofday(tv: usize, tz: usize) -> Result<()> {
    if tv != 0 {
        user::write(tv, &timeval(realtime_ns()))?;
    }
    if tz != 0 {
        user::write(tz, &[0i32; 2])?;
    }
    Ok(())
}

/// time(2). EFAULT.
pub fn sys_time(at: usize) -> Result<i64> {
    let [seconds, _] = timespec(realtime_ns());
    if at != 0 {
        user::write(at, &seconds)?;
    }
    Ok(seconds)
}

/// Bytes of `struct timex`.
const TIMEX_SIZE: usize = 208;

/// adjtimex(2): reading only. EFAULT, EPERM.
pub fn sys_adjtimex(at: usize) -> Result<i32> {
    const TIME_OK: i32 = 0;
    let modes = user::read::<u32>(at)?;
    // ADJ_OFFSET_SS_READ reads the remaining adjustment, which is 0.
    const OFFSET_SS_READ: u32 = 0xa001;
    if modes != 0 && modes != OFFSET_SS_READ {
        return Err(Errno::EPERM);
    }
    let mut timex = [0i64; TIMEX_SIZE / 8];
    timex[0] = i64::from(modes);
    timex[3] = 16_000_000; // maxerror, us
    timex[4] = 16_000_000; // esterror, us
    timex[5] = 0x40; // status: STA_UNSYNC
    timex[6] = 2; // constant
    timex[7] = 1; // precision, us
    timex[8] = 32_768_000; // tolerance, scaled ppm
    let [seconds, micros] = timeval(realtime_ns());
    timex[9] = seconds;
    timex[10] = micros;
    timex[11] = (SECOND / 100 / 1000) as i64; // tick, us
    user::write(at, &timex)?;
    Ok(TIME_OK)
}

/// clock_adjtime(2): reading only. EINVAL, EOPNOTSUPP, EFAULT, EPERM.
pub fn sys_clock_adjtime(id: i32, at: usize) -> Result<i32> {
    match Clock::of(id)? {
        Clock::Realtime if id == g::CLOCK_REALTIME as i32 => sys_adjtimex(at),
        _ => Err(Errno::EOPNOTSUPP),
    }
}
