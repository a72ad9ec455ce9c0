//! Notification of a message that arrives in an empty POSIX queue, mq_notify(2).

use crate::mm::user;
use crate::signal::{SigInfo, code, send_to_process};
use crate::socket::netlink::{self, Netlink};
use crate::task::descriptors::current_file;
use crate::task::{self, Process};
use alloc::rc::{Rc, Weak};
use keel_core::sigset::MAX_SIGNAL;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// What a notification by a netlink socket sends: bytes that the program gave, the last one replaced by what happened.
const COOKIE: usize = 32;
const WOKEN: u8 = 1;
const REMOVED: u8 = 2;

/// A registration.
pub struct Notification {
    process: Weak<Process>,
    pid: i32,
    /// `SIGEV_*`.
    kind: u32,
    signal: u32,
    value: u64,
    /// SIGEV_THREAD: the C library waits for the bytes at this socket, and starts the thread.
    socket: Option<(Rc<Netlink>, [u8; COOKIE])>,
}

impl Notification {
    /// From a `struct sigevent`, for the current process. EFAULT, EINVAL; for SIGEV_THREAD, without a netlink socket: EBADF,
    /// ENOTSOCK.
    pub fn read(event: usize) -> Result<Self> {
        let [value, numbers]: [u64; 2] = user::read(event)?;
        let (signal, kind) = (numbers as u32, (numbers >> 32) as u32);
        let mut socket = None;
        match kind {
            g::SIGEV_NONE => {}
            g::SIGEV_SIGNAL if signal <= MAX_SIGNAL => {}
            g::SIGEV_THREAD => {
                let cookie = user::read::<[u8; COOKIE]>(value as usize)?;
                let file = current_file(signal as i32)?;
                socket = Some((netlink::of(&file)?, cookie));
            }
            _ => return Err(Errno::EINVAL),
        }
        let process: Rc<Process> = task::current().process().clone();
        let signal = if kind == g::SIGEV_SIGNAL { signal } else { 0 };
        Ok(Self { process: Rc::downgrade(&process), pid: process.pid(), kind, signal, value, socket })
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

    /// Sends to the socket, if that was asked for, what happened.
    fn tell(&self, what: u8) {
        let Some((socket, mut cookie)) = self.socket.as_ref().map(|(socket, cookie)| (socket, *cookie)) else { return };
        cookie[COOKIE - 1] = what;
        socket.deliver(&cookie);
    }

    /// The process took it back.
    pub fn removed(self) {
        self.tell(REMOVED);
    }

    /// Delivers the notification, with the current thread as sender.
    pub fn send(self) {
        self.tell(WOKEN);
        let Some(process) = self.process.upgrade().filter(|_| self.signal != 0) else { return };
        let sender = task::current();
        let mut info = SigInfo::from_process(self.signal, code::MESSAGE, sender.pid(), sender.cred().uid);
        info.fields[1] = self.value;
        // Lost if the signal queue is full, as in Linux.
        let _ = send_to_process(&process, info);
    }
}
