//! Resource limits: those that `hull` needs, and those of the pod.

use crate::failure::{Failure, Result};
use rustix::process::{Resource, Rlimit};

/// Minimum stack in bytes: with a smaller one `hull` overflows it before the pod runs.
const LEAST_STACK: u64 = 96 << 10;

/// Fails if the stack limit is too small; the stack would overflow later.
pub fn check_stack() -> Result<()> {
    match rustix::process::getrlimit(Resource::Stack).current {
        Some(limit) if limit < LEAST_STACK => {
            let why = format!("hull needs {} KiB, the limit is {} KiB", LEAST_STACK >> 10, limit >> 10);
            Err(Failure::request("stack", why, "raise the limit (ulimit -s)"))
        }
        _ => Ok(()),
    }
}

/// Minimum number of open files for the monitor and a small program.
const LEAST_FILES: u64 = 192;

/// Fails if the limit of open files is too small; operations would fail later.
pub fn check_files() -> Result<()> {
    match rustix::process::getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < LEAST_FILES => {
            let why = format!("a pod needs {LEAST_FILES}, the limit is {limit}");
            Err(Failure::request("open files", why, "raise the hard limit (ulimit -Hn)"))
        }
        _ => Ok(()),
    }
}

/// Raises the soft limit of open files to the hard limit: each open file of the pod takes a descriptor of the monitor.
pub fn raise_files() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    // Ignore errors: with the lower limit the pod gets EMFILE earlier.
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Resource limits of this process, by number.
pub fn all() -> Vec<(u64, u64)> {
    let all = [
        Resource::Cpu,
        Resource::Fsize,
        Resource::Data,
        Resource::Stack,
        Resource::Core,
        Resource::Rss,
        Resource::Nproc,
        Resource::Nofile,
        Resource::Memlock,
        Resource::As,
        Resource::Locks,
        Resource::Sigpending,
        Resource::Msgqueue,
        Resource::Nice,
        Resource::Rtprio,
        Resource::Rttime,
    ];
    let number = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    all.map(rustix::process::getrlimit).map(|limit| (number(limit.current), number(limit.maximum))).to_vec()
}
