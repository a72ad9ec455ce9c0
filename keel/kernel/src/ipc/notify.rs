//! Notification of a message that arrives in an empty POSIX queue, mq_notify(2).

use crate::mm::user;
use crate::signal::{SigInfo, code, send_to_process};
use crate::task::descriptors::current_file;
use crate::task::{self, Process};
use alloc::rc::{Rc, Weak};
use keel_core::sigset::MAX_SIGNAL;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// A registration.
pub struct Notification {
    process: Weak<Process>,
    pid: i32,
    /// `SIGEV_*`.
    kind: u32,
    signal: u32,
    value: u64,
}

impl Notification {
    /// From a `struct sigevent`, for the current process. EFAULT, EINVAL; SIGEV_THREAD needs a netlink socket:
    /// EBADF, ENOTSOCK.
    pub fn read(event: usize) -> Result<Self> {
        let [value, numbers]: [u64; 2] = user::read(event)?;
        let (signal, kind) = (numbers as u32, (numbers >> 32) as u32);
        match kind {
            g::SIGEV_NONE => {}
            g::SIGEV_SIGNAL if signal <= MAX_SIGNAL => {}
            g::SIGEV_THREAD => {
                current_file(signal as i32)?;
                return Err(Errno::ENOTSOCK);
            }
            _ => return Err(Errno::EINVAL),
        }
        let process: Rc<Process> = task::current().process().clone();
        let signal = if kind == g::SIGEV_SIGNAL { signal } else { 0 };
        Ok(Self { process: Rc::downgrade(&process), pid: process.pid(), kind, signal, value })
    }

    /// `SIGEV_*`, signal and process id.
    pub fn describe(&self) -> (u32, u32, i32) {
        (self.kind, self.signal, self.pid)
    }

    /// Whether the process `pid` registered it.
    pub fn is_for(&self, pid: i32) -> bool {
        self.pid == pid
    }

    /// Whether the registered process ended.
    pub fn is_stale(&self) -> bool {
        self.process.upgrade().is_none_or(|process| process.zombie_status().is_some())
    }

    /// Delivers the notification, with the current thread as sender.
    pub fn send(self) {
        let Some(process) = self.process.upgrade().filter(|_| self.signal != 0) else { return };
        let sender = task::current();
        let mut info = SigInfo::from_process(self.signal, code::MESSAGE, sender.pid(), sender.cred().uid);
        info.fields[1] = self.value;
        // Lost if the signal queue is full, as in Linux.
        let _ = send_to_process(&process, info);
    }
}
