//! Signal forwarding to the pod.
//!
//! The signals are blocked in every thread; a dedicated thread takes and forwards them. Before the pod runs, and if the
//! pod does not take a signal in time, the signal has its default effect on `hull`; the terminal is restored first. The
//! terminal is also restored before a signal that is not forwarded ends `hull`.
#![allow(unsafe_code)]

use monitor::connectors::streams::TerminalGuard;
use monitor::connectors::streams::signals::{self as pod, Posted};
use rustix::process::{Resource, Rlimit};
use std::time::{Duration, Instant};

/// Forwarded signals.
const PASSED_ON: [libc::c_int; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGWINCH,
];

/// Other signals that end a process by default: they end `hull`.
const ENDING: [libc::c_int; 8] = [
    libc::SIGABRT,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGXCPU,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
];

/// A second SIGINT or SIGTERM within this time ends `hull` if the pod does not react.
const INSISTENCE: Duration = Duration::from_secs(2);
/// Time that a pod has to react.
const REACTION: Duration = Duration::from_millis(200);

/// The signals are blocked but not taken yet.
pub struct Held(libc::sigset_t);

impl Held {
    /// Starts the thread that takes the signals.
    pub fn pass_on(self) -> std::io::Result<()> {
        std::thread::Builder::new().name("signals".into()).spawn(move || pass_on(&self.0))?;
        Ok(())
    }
}

/// Blocks the signals that are not ignored (nohup(1) ignores SIGHUP); ignored signals stay ignored. Ignores SIGXFSZ: a
/// write beyond the host's file size limit (`RLIMIT_FSIZE`) then fails, and the program in the pod gets the error. Call
/// it before any other thread exists: threads inherit the mask.
pub fn hold() -> std::io::Result<Held> {
    // SAFETY: sigset_t and sigaction are plain data that the calls fill; every pointer is to a local.
    unsafe {
        if libc::signal(libc::SIGXFSZ, libc::SIG_IGN) == libc::SIG_ERR {
            return Err(std::io::Error::last_os_error());
        }
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in PASSED_ON.into_iter().chain(ENDING) {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut action) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            if action.sa_sigaction != libc::SIG_IGN {
                libc::sigaddset(&mut set, signal);
            }
        }
        match libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) {
            0 => Ok(Held(set)),
            error => Err(std::io::Error::from_raw_os_error(error)),
        }
    }
}

/// Ignores the signals that a terminal sends to a background process that changes it, or when the session ends.
pub fn ignore_terminal() -> std::io::Result<()> {
    for signal in [libc::SIGTTOU, libc::SIGHUP] {
        // SAFETY: a plain system call; no handler is installed.
        if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Waits for one of the signals.
fn wait(set: &libc::sigset_t) -> libc::c_int {
    loop {
        let mut signal = 0;
        // SAFETY: both pointers are valid; the set holds signals that every thread blocks.
        if unsafe { libc::sigwait(set, &mut signal) } == 0 {
            return signal;
        }
    }
}

/// Forwards signals to the pod, for ever.
fn pass_on(set: &libc::sigset_t) {
    let mut last: Option<Instant> = None;
    loop {
        let signal = wait(set);
        if ENDING.contains(&signal) {
            end_by(signal);
        }
        let posted = pod::post(signal.unsigned_abs());
        let urgent = matches!(signal, libc::SIGINT | libc::SIGTERM);
        match (posted, signal) {
            (Posted::Refused, libc::SIGWINCH) => {}
            (Posted::Refused, libc::SIGTSTP) => stop(),
            (Posted::Refused, _) => end_by(signal),
            (Posted::Waiting, _) if urgent && last.is_some_and(|last| last.elapsed() < INSISTENCE) => {
                std::thread::sleep(REACTION);
                if pod::is_waiting() {
                    end_by(signal);
                }
            }
            _ => {}
        }
        if urgent {
            last = Some(Instant::now());
        }
    }
}

/// Stops the process as SIGTSTP would.
fn stop() {
    // SAFETY: a plain system call. raise can't fail for a valid signal.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Ends the process by the signal itself, so that the shell sees the cause: it reports 128 + the signal's number, and a
/// script stops at an interrupt.
fn end_by(signal: libc::c_int) -> ! {
    TerminalGuard::restore();
    crate::keeper::dismiss();
    // Disable core dumps (SIGQUIT): a core would contain the pod's memory. If that fails, the user's limit applies.
    let _ = rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // SAFETY: plain system calls on a signal of `PASSED_ON` or `ENDING`, whose default action is harmless to memory
    // safety.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(signal);
    }
    std::process::exit(128 + signal)
}
