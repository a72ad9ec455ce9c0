//! Small files about credentials and settings: `uid_map`, `personality`, `timerslack_ns`, `coredump_filter`.

use super::subject::Subject;
use super::written_number;
use crate::task::cred::cap;
use crate::task::{self, Task};
use alloc::format;
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// `personality`. EPERM.
pub fn personality(subject: &Subject) -> Result<Vec<u8>> {
    Ok(format!("{:08x}\n", subject.inspected_later()?.personality.get()).into_bytes())
}

/// Whether the current thread may read or set the timer slack of `task`. EPERM.
fn check_slack(task: &Task) -> Result<()> {
    let allowed =
        task::with_current(|t| t.tid() == task.tid() || t.cred().capable_in(&task.cred().user_ns, cap::SYS_NICE));
    if allowed { Ok(()) } else { Err(Errno::EPERM) }
}

/// `timerslack_ns`. EPERM.
pub fn timer_slack(subject: &Subject) -> Result<Vec<u8>> {
    let task = subject.living()?;
    check_slack(&task)?;
    Ok(format!("{}\n", task.timer_slack_ns.get()).into_bytes())
}

/// A write to `timerslack_ns`; 0 puts the default back. EINVAL, EPERM.
pub fn set_timer_slack(subject: &Subject, data: &[u8]) -> Result<()> {
    let value = u64::try_from(written_number(data)?).map_err(|_| Errno::EINVAL)?;
    let task = subject.living()?;
    check_slack(&task)?;
    task.set_timer_slack(value);
    Ok(())
}

/// Login uid and session id, also of an ended process.
fn login(subject: &Subject) -> Result<(u32, u32)> {
    subject.process()?;
    Ok(subject.task()?.map_or((u32::MAX, u32::MAX), |task| task.login.get()))
}

/// `loginuid`.
pub fn login_uid(subject: &Subject) -> Result<Vec<u8>> {
    login(subject).map(|(uid, _)| format!("{uid}").into_bytes())
}

/// `sessionid`.
pub fn login_session(subject: &Subject) -> Result<Vec<u8>> {
    login(subject).map(|(_, session)| format!("{session}").into_bytes())
}

/// A write to `loginuid`, for oneself only: begins a session, or ends it with `u32::MAX`. Who has one already needs
/// CAP_AUDIT_CONTROL. EINVAL, EPERM, ERANGE.
pub fn set_login_uid(subject: &Subject, data: &[u8]) -> Result<()> {
    /// The last session.
    static SESSION: hal::cell::Global<core::cell::Cell<u32>> = hal::cell::Global::new(core::cell::Cell::new(0));
    let task = subject.living()?;
    if !task::with_current(|me| me.tid() == task.tid()) {
        return Err(Errno::EPERM);
    }
    let uid = match written_number(data)? {
        ..0 => return Err(Errno::EINVAL),
        value => u32::try_from(value).map_err(|_| Errno::ERANGE)?,
    };
    let is_set = task.login.get().0 != u32::MAX;
    if is_set && !task::with_current(|t| t.cred().capable(cap::AUDIT_CONTROL)) {
        return Err(Errno::EPERM);
    }
    let session = if uid == u32::MAX {
        u32::MAX
    } else {
        SESSION.set(SESSION.get() + 1);
        SESSION.get()
    };
    task.login.set((uid, session));
    Ok(())
}

/// `timens_offsets`: there is one time namespace.
pub fn time_offsets(subject: &Subject) -> Result<Vec<u8>> {
    subject.process()?;
    Ok(format!("{:<10} {:>10} {:>9}\n{:<10} {:>10} {:>9}\n", "monotonic", 0, 0, "boottime", 0, 0).into_bytes())
}

/// Bits of `coredump_filter` that mean something.
const DUMP_BITS: u32 = 0x1ff;

/// `coredump_filter`.
pub fn dump_filter(subject: &Subject) -> Result<Vec<u8>> {
    match subject.task()?.and_then(|t| t.try_mm()) {
        Some(_) => Ok(format!("{:08x}\n", subject.process()?.dump_filter.get()).into_bytes()),
        None => Ok(Vec::new()),
    }
}

/// A write to `coredump_filter`: a number as C writes it. EINVAL.
pub fn set_dump_filter(subject: &Subject, data: &[u8]) -> Result<()> {
    let text = core::str::from_utf8(data).map_err(|_| Errno::EINVAL)?.trim_end_matches('\n');
    let (digits, base) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let value = super::number_in(digits, base).and_then(|value| u32::try_from(value).ok()).ok_or(Errno::EINVAL)?;
    subject.process()?.dump_filter.set(value & DUMP_BITS);
    Ok(())
}
