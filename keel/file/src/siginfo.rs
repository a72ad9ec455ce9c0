//! Information of a signal: `siginfo_t`, sigaction(2).

use bytemuck::{Pod, Zeroable};
use uapi::raw::general as g;

/// `si_code` values, sigaction(2).
pub mod code {
    /// kill(2).
    pub const USER: i32 = 0;
    /// The kernel.
    pub const KERNEL: i32 = 0x80;
    /// sigqueue(3).
    pub const QUEUE: i32 = -1;
    /// A POSIX timer.
    pub const TIMER: i32 = -2;
    /// mq_notify(3).
    pub const MESSAGE: i32 = -3;
    /// tkill(2), tgkill(2).
    pub const TKILL: i32 = -6;
    /// Child exited.
    pub const CLD_EXITED: i32 = 1;
    /// Child killed.
    pub const CLD_KILLED: i32 = 2;
    /// Child killed with a core dump.
    pub const CLD_DUMPED: i32 = 3;
    /// Traced child stopped.
    pub const CLD_TRAPPED: i32 = 4;
    /// Child stopped.
    pub const CLD_STOPPED: i32 = 5;
    /// Child continued.
    pub const CLD_CONTINUED: i32 = 6;
}

/// `siginfo_t` in its ABI layout.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct SigInfo {
    /// Signal number.
    pub signo: i32,
    /// Error number, mostly 0.
    pub errno: i32,
    /// Cause, [`code`].
    pub code: i32,
    /// Zero for programs; marks signals of timers while they are queued.
    pub pad: i32,
    /// The union, by `code`.
    pub fields: [u64; 14],
}
const _: () = assert!(size_of::<SigInfo>() == 128);

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl SigInfo {
    /// Without further information.
    pub fn new(signal: u32, code: i32) -> Self {
        Self { signo: signal as i32, code, ..Self::default() }
    }

    /// Sent by a process: kill, tgkill.
    pub fn from_process(signal: u32, code: i32, pid: i32, uid: u32) -> Self {
        let mut info = Self::new(signal, code);
        info.fields[0] = pair(pid as u32, uid);
        info
    }

    /// Sent by keel (a terminal, the end of a parent, a limit).
    pub fn from_kernel(signal: u32) -> Self {
        Self::new(signal, code::KERNEL)
    }

    /// A fault at an address.
    pub fn fault(signal: u32, code: i32, address: u64) -> Self {
        let mut info = Self::new(signal, code);
        info.fields[0] = address;
        info
    }

    /// SIGSYS for a call at `place`, by syscall user dispatch or a filter.
    pub fn call(code: i32, place: u64, number: u64) -> Self {
        let mut info = Self::fault(g::SIGSYS, code, place);
        info.fields[1] = with_arch(number);
        info
    }

    /// State change of a child. Times in clock ticks.
    pub fn child(code: i32, pid: i32, uid: u32, status: i32, utime: u64, stime: u64) -> Self {
        let mut info = Self::from_process(g::SIGCHLD, code, pid, uid);
        info.fields[1] = pair(status as u32, 0);
        info.fields[2] = utime;
        info.fields[3] = stime;
        info
    }

    /// Expiry of a POSIX timer.
    pub fn timer(signal: u32, id: i32, value: u64) -> Self {
        let mut info = Self::new(signal, code::TIMER);
        info.fields[0] = pair(id as u32, 0);
        info.fields[1] = value;
        info
    }

    /// Signal number.
    pub fn signal(&self) -> u32 {
        self.signo as u32
    }
}

/// A word of two halves; the upper one is the ABI of the call number: `AUDIT_ARCH_X86_64`.
pub const fn with_arch(number: u64) -> u64 {
    number & 0xffff_ffff | 0xc000_003e << 32
}
