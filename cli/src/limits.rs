//! Resource limits: those that `hull` itself needs, and those that the pod gets.

use crate::failure::{Failure, Result};
use rustix::process::{Resource, Rlimit};

/// A smaller stack than this overflows before a pod runs, in bytes.
const LEAST_STACK: u64 = 96 << 10;

/// Refuses to go on with too small a stack, rather than overflowing it.
pub fn check_stack() -> Result<()> {
    match rustix::process::getrlimit(Resource::Stack).current {
        Some(limit) if limit < LEAST_STACK => {
            let why = format!("hull needs {} KiB, the limit is {} KiB", LEAST_STACK >> 10, limit >> 10);
            Err(Failure::request("stack", why, "raise the limit (ulimit -s)"))
        }
        _ => Ok(()),
    }
}

/// Fewer open files than this, and neither the monitor nor any program gets far.
const LEAST_FILES: u64 = 192;

/// Refuses to start with too few descriptors, rather than failing anywhere later.
pub fn check_files() -> Result<()> {
    match rustix::process::getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < LEAST_FILES => {
            let why = format!("a pod needs {LEAST_FILES}, the limit is {limit}");
            Err(Failure::request("open files", why, "raise the hard limit (ulimit -Hn)"))
        }
        _ => Ok(()),
    }
}

/// Allows as many open files as the host permits: each file that the pod has open is one here.
pub fn raise_files() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    // Less is no failure: the pod then gets EMFILE earlier.
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
