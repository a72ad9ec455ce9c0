//! Signals for the pod.
//!
//! They are blocked in every thread and taken by one of its own, which passes them on. While there is no
//! pod that takes them, and when it does not take them in time, they do to `hull` what they do to any
//! program; the terminal is restored first. So it is before signals end `hull` that are not for the pod.
#![allow(unsafe_code)]

use monitor::connectors::streams::TerminalGuard;
use monitor::connectors::streams::signals::{self as pod, Posted};
use rustix::process::{Resource, Rlimit};
use std::time::{Duration, Instant};

/// Those that are passed on.
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

/// Others that end a program by default: they end `hull`.
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
/// How long a pod may take to react.
const REACTION: Duration = Duration::from_millis(200);

/// The signals are held back.
pub struct Held(libc::sigset_t);

impl Held {
    /// Takes them from now on.
    pub fn pass_on(self) -> std::io::Result<()> {
        std::thread::Builder::new().name("signals".into()).spawn(move || pass_on(&self.0))?;
        Ok(())
    }
}

/// Blocks the signals that are not ignored (as nohup(1) does it with SIGHUP); these stay so. A write beyond the host's
/// limit of a file's size (`RLIMIT_FSIZE`) fails from now on, which the program in the pod is told, instead of ending
/// `hull`. Call it before any other thread exists: the mask is inherited.
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

/// Ignores what a terminal sends to a process in the background that changes it or whose session ends.
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

/// Passes signals on to the pod for ever.
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
    // SAFETY: a plain system call. It can't fail for a signal to oneself.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Ends the process by the signal itself, so that a shell that runs `hull` sees what happened: it reports
/// 128 + the signal's number, and a script stops at an interrupt.
fn end_by(signal: libc::c_int) -> ! {
    TerminalGuard::restore();
    crate::keeper::dismiss();
    // A core of the monitor (SIGQUIT) would hold the whole memory of the pod. If the limit can't be
    // set, the user's own decides.
    let _ = rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // SAFETY: plain system calls on a signal of `PASSED_ON` or `ENDING`; none of them does harm by its default action.
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
