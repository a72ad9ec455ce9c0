//! Calls about timers as files, timerfd_create(2).

use crate::file::File;
use crate::file::timerfd::TimerFd;
use crate::mm::user;
use crate::task::descriptors::{current_file, install};
use crate::time::SECOND;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// timerfd_create(2).
pub fn sys_timerfd_create(clock: u32, flags: u32) -> Result<i32> {
    let known = matches!(
        clock,
        g::CLOCK_REALTIME | g::CLOCK_MONOTONIC | g::CLOCK_BOOTTIME | g::CLOCK_REALTIME_ALARM | g::CLOCK_BOOTTIME_ALARM
    );
    if flags & !g::TFD_CREATE_FLAGS != 0 || !known {
        return Err(Errno::EINVAL);
    }
    if matches!(clock, g::CLOCK_REALTIME_ALARM | g::CLOCK_BOOTTIME_ALARM)
        && crate::task::current().cred().cap_effective >> g::CAP_WAKE_ALARM & 1 == 0
    {
        return Err(Errno::EPERM);
    }
    install(File::new(TimerFd::new(clock), g::O_RDWR | flags & g::O_NONBLOCK, None), flags)
}

/// A `struct timespec` as ns. EINVAL.
fn nanoseconds([seconds, nanoseconds]: [i64; 2]) -> Result<u64> {
    match (u64::try_from(seconds), u64::try_from(nanoseconds)) {
        (Ok(seconds), Ok(nanoseconds)) if nanoseconds < SECOND => {
            // The clock counts no further.
            Ok(seconds.saturating_mul(SECOND).saturating_add(nanoseconds).min(i64::MAX as u64))
        }
        _ => Err(Errno::EINVAL),
    }
}

/// timerfd_settime(2). The realtime clock is never set, so `TFD_TIMER_CANCEL_ON_SET` cancels nothing.
pub fn sys_timerfd_settime(fd: i32, flags: u32, new: usize, old: usize) -> Result<()> {
    let [interval, value]: [[i64; 2]; 2] = user::read(new)?;
    if flags & !(g::TFD_TIMER_ABSTIME | g::TFD_TIMER_CANCEL_ON_SET) != 0 {
        return Err(Errno::EINVAL);
    }
    let (interval, value) = (nanoseconds(interval)?, nanoseconds(value)?);
    let file = current_file(fd)?;
    let timer = file.downcast::<TimerFd>().ok_or(Errno::EINVAL)?;
    let before = timer.setting();
    timer.flags.set(flags);
    timer.set(value, interval, flags & g::TFD_TIMER_ABSTIME != 0);
    if old != 0 {
        user::write(old, &before)?;
    }
    Ok(())
}

/// timerfd_gettime(2).
pub fn sys_timerfd_gettime(fd: i32, setting: usize) -> Result<()> {
    let file = current_file(fd)?;
    let timer = file.downcast::<TimerFd>().ok_or(Errno::EINVAL)?;
    user::write(setting, &timer.setting())
}
