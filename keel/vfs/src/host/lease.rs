//! Files on which processes of the host have leases (`F_SETLEASE`).

use uapi::{Errno, Result};

/// First and longest pause between two attempts, in ns.
const FIRST_NS: u64 = 1_000_000;
const MOST_NS: u64 = 50_000_000;

/// Runs what opens or cuts a file until it no longer fails with EAGAIN: a process of the host has a lease on the file then. The
/// attempt makes the host's kernel tell that process to give the lease up; there is no event when it has. `pause` waits for so
/// many ns; its error ends the attempts.
pub fn when_not_leased<R>(mut run: impl FnMut() -> Result<R>, pause: impl Fn(u64) -> Result<()>) -> Result<R> {
    let mut ns = FIRST_NS;
    loop {
        match run() {
            Err(Errno::EAGAIN) => pause(ns)?,
            other => return other,
        }
        ns = MOST_NS.min(2 * ns);
    }
}
