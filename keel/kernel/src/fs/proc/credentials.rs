//! Small files about what a process may do: `uid_map`, `personality`, `timerslack_ns`.

use super::subject::Subject;
use alloc::format;
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// `uid_map`, `gid_map`, `projid_map`: there is one user namespace, in which all ids are themselves.
pub fn id_map(subject: &Subject) -> Result<Vec<u8>> {
    subject.process()?;
    Ok(format!("{:>10} {:>10} {:>10}\n", 0, 0, u32::MAX).into_bytes())
}

/// `personality`.
pub fn personality(subject: &Subject) -> Result<Vec<u8>> {
    Ok(format!("{:08x}\n", subject.inspected()?.personality.get()).into_bytes())
}

/// `timerslack_ns`.
pub fn timer_slack(subject: &Subject) -> Result<Vec<u8>> {
    let task = subject.living()?;
    if !super::subject::may_inspect(&task) {
        return Err(Errno::EPERM);
    }
    Ok(format!("{}\n", task.timer_slack_ns.get()).into_bytes())
}
