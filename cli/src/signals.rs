//! Signals that end a pod.
//!
//! SIGHUP, SIGINT, SIGQUIT and SIGTERM end `hull` and with it the pod; the terminal is restored first. They
//! are blocked in every thread and taken by one of its own, which may do more than a handler may.

use monitor::connectors::streams::TerminalGuard;
use rustix::process::{Resource, Rlimit};

/// The signals.
const ENDING: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Starts to take the signals. Call it before any other thread exists: the mask is inherited.
pub fn watch() -> std::io::Result<()> {
    let set = block()?;
    std::thread::Builder::new().name("signals".into()).spawn(move || end_by(wait(&set)))?;
    Ok(())
}

/// Blocks the signals that are not ignored (as nohup(1) does it with SIGHUP); these stay so.
fn block() -> std::io::Result<libc::sigset_t> {
    // SAFETY: sigset_t and sigaction are plain data that the calls fill; every pointer is to a local.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in ENDING {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut action) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            if action.sa_sigaction != libc::SIG_IGN {
                libc::sigaddset(&mut set, signal);
            }
        }
        match libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) {
            0 => Ok(set),
            error => Err(std::io::Error::from_raw_os_error(error)),
        }
    }
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

/// Ends the process by the signal itself, so that a shell that runs `hull` sees what happened: it reports
/// 128 + the signal's number, and a script stops at an interrupt.
fn end_by(signal: libc::c_int) -> ! {
    TerminalGuard::restore();
    // A core of the monitor (SIGQUIT) would hold the whole memory of the pod. If the limit can't be
    // set, the user's own decides.
    let _ = rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // SAFETY: plain system calls on a signal of `ENDING`; the default action of each ends the process.
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
