//! Forced ends of the process: a forbidden call, a fault, an exceeded time limit.
//!
//! Each has a documented exit code and, if it is a bug in Hull, one line of text. The handlers do not allocate and take
//! no locks.
#![allow(unsafe_code)]

use super::Failure;
use super::rights::check;
use crate::connectors::streams::TerminalGuard;
use crate::run::EXIT_TIMEOUT;
use libc::c_int;
use std::io::{Error, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Hull itself failed.
const EXIT_FAILURE: c_int = 125;

/// `siginfo_t` (128 bytes); only the first fields are declared.
#[repr(C)]
struct Info {
    signal: c_int,
    error: c_int,
    code: c_int,
    padding: c_int,
    /// Depends on the signal: an address; a process and its user; for SIGSYS an address.
    value: u64,
    /// SIGSYS: number of the call.
    call: c_int,
}

type Handler = extern "C" fn(c_int, *const Info, *const libc::c_void);

/// Installs `handler` for a signal, on the thread's alternate stack if it has one, with all signals blocked.
fn take(signal: c_int, handler: Handler, flags: c_int) -> Result<(), Failure> {
    // SAFETY: the handlers of this module make only system calls. An all-zero sigaction is valid, and so is the
    // pointer to it.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | flags;
        libc::sigfillset(&mut action.sa_mask);
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    check(result.into()).map_err(|()| Failure::new("a handler of signals", Error::last_os_error()))
}

/// Restores the terminal and ends the process.
fn end(code: c_int) -> ! {
    TerminalGuard::restore_from_handler();
    // SAFETY: a plain system call.
    unsafe { libc::_exit(code) }
}

/// Prints a line to standard error from a signal handler.
fn print(text: std::fmt::Arguments<'_>) {
    let mut line = [0; 200];
    let mut left = line.as_mut_slice();
    // The buffer is longer than all messages.
    let _ = left.write_fmt(text);
    let len = 200 - left.len();
    // SAFETY: a plain system call on a buffer that lives.
    unsafe { libc::write(2, line.as_ptr().cast(), len) };
}

/// Makes calls that the filter forbids end the process with a message.
pub fn report_violations() -> Result<(), Failure> {
    take(libc::SIGSYS, violated, 0)
}

/// Handler of SIGSYS, which the filter raises for a forbidden call.
extern "C" fn violated(_signal: c_int, info: *const Info, _context: *const libc::c_void) {
    // SAFETY: the kernel passes a siginfo_t that lives during the handler.
    let number = unsafe { (*info).call }.unsigned_abs();
    print(format_args!(
        "hull: jail: the monitor made the forbidden host call {number}; the pod was ended, please report this\n"
    ));
    end(EXIT_FAILURE);
}

/// Signals of faults in the process.
const FAULTS: [c_int; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT];

/// Makes faults of the process (including a stack overflow and abort(3)) end it with a message and code 125. The same
/// signals from other processes have their default action.
pub fn report_faults() -> Result<(), Failure> {
    FAULTS.into_iter().try_for_each(|signal| take(signal, faulted, 0))
}

extern "C" fn faulted(signal: c_int, info: *const Info, _context: *const libc::c_void) {
    // SAFETY: the kernel passes a siginfo_t that lives during the handler.
    let (code, value) = unsafe { ((*info).code, (*info).value) };
    // SAFETY: a plain system call.
    let own = unsafe { libc::getpid() };
    // For a signal sent by a process, the value is that process and its user.
    if code <= 0 && value as u32 != own.unsigned_abs() {
        TerminalGuard::restore_from_handler();
        // SAFETY: plain system calls. The signal is blocked here and ends the process when the handler returns.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    }
    if code <= 0 {
        print(format_args!("hull: internal error: the monitor gave up (signal {signal}); please report this\n"));
    } else {
        print(format_args!(
            "hull: internal error: signal {signal} in the monitor, address {value:#x}; please report this\n"
        ));
    }
    end(EXIT_FAILURE);
}

/// Time after which the process ends with code 124, in ns of `CLOCK_MONOTONIC`; `u64::MAX`: never.
static OVERDUE_NS: AtomicU64 = AtomicU64::new(u64::MAX);

fn monotonic_ns() -> u64 {
    crate::server::clock_ns(rustix::time::ClockId::Monotonic)
}

/// Makes the host's kernel end the process some time after `limit`, even if it hangs or is compromised: the jail does
/// not allow the calls that could change these timers.
///
/// At the limit SIGCONT continues a stopped process, so that it can end the pod. If it has not ended `grace` later (a
/// system call may block for ever, on an unreachable network file system or a full pipe on standard error), the handler
/// ends it with code 124. If the handler can't run either, SIGKILL follows after another `grace`.
pub fn limit_time(limit: Duration, grace: Duration) -> Result<(), Failure> {
    let overdue = limit.saturating_add(grace);
    let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    // Shortly before the timer's second expiry.
    let end = monotonic_ns().saturating_add(ns(overdue.saturating_sub(grace / 8)));
    OVERDUE_NS.store(end, Ordering::SeqCst);
    take(libc::SIGCONT, time_passed, libc::SA_RESTART)?;
    set_timer(libc::SIGCONT, limit, grace)?;
    set_timer(libc::SIGKILL, overdue.saturating_add(grace), Duration::ZERO)
}

/// Handler of SIGCONT, which the timer sends, and any process that continues a stopped one.
extern "C" fn time_passed(_signal: c_int, _info: *const Info, _context: *const libc::c_void) {
    if monotonic_ns() >= OVERDUE_NS.load(Ordering::SeqCst) {
        end(EXIT_TIMEOUT.into());
    }
}

/// Sends `signal` to this process after a delay, then periodically if `interval` is not zero.
fn set_timer(signal: c_int, after: Duration, interval: Duration) -> Result<(), Failure> {
    let failed = |()| {
        const WHAT: &str = "the timer of --timeout";
        let source = Error::last_os_error();
        if source.raw_os_error() == Some(libc::EAGAIN) {
            let remedy = "raise the limit on pending signals (ulimit -i), or leave out --timeout";
            return Failure { remedy, ..Failure::new(WHAT, source) };
        }
        Failure::new(WHAT, source)
    };
    // Maximum of the timer; longer than any uptime.
    const LONGEST: u64 = 1 << 32;
    let spec = |time: Duration| libc::timespec {
        tv_sec: time.as_secs().min(LONGEST) as i64,
        tv_nsec: time.subsec_nanos().into(),
    };
    let times = libc::itimerspec { it_value: spec(after), it_interval: spec(interval) };
    // SAFETY: all-zero structures are valid, and every pointer is to a local.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = signal;
        let mut timer: libc::timer_t = std::mem::zeroed();
        check(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer).into()).map_err(failed)?;
        check(libc::timer_settime(timer, 0, &times, std::ptr::null_mut()).into()).map_err(failed)
    }
}

/// End of a limit that begins now; `None` if out of range.
pub fn end_of(limit: Duration) -> Option<Instant> {
    Instant::now().checked_add(limit)
}
