//! Commands to a running pod.

use super::Registry;
use crate::failure::{Failure, Result, reason};
use ::broker::control::{DONE, MAX_COMMAND, MAX_PART, REFUSED};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// How long a pod may take for an answer, in seconds.
const LONGEST: i64 = 10;
/// Maximum size of an answer in bytes.
const MAX_ANSWER: usize = 4 << 20;

/// Sends a command to a pod and returns its answer. `what`: the command for messages of errors.
pub fn command(what: &str, pod: &str, text: &str) -> Result<String> {
    if text.len() > MAX_COMMAND {
        return Err(Failure::request(what, "the rule is too long", "write a shorter one"));
    }
    let Some(registry) = Registry::find()? else {
        return Err(Failure::request(format!("pod {pod}"), "no pod with a name or a network runs", "see hull ps"));
    };
    let socket = registry.connect(pod)?;
    let failed = |error: Errno| {
        let why = match error {
            Errno::TIME => "no answer in time".into(),
            Errno::PIPE | Errno::CONNRESET | Errno::PROTO => "it did not answer".into(),
            error => reason(&error.into()),
        };
        Failure::request(format!("pod {pod}"), why, "see hull ps, and try again")
    };
    let answer = rustix::net::send(&socket, text.as_bytes(), rustix::net::SendFlags::NOSIGNAL)
        .and_then(|_| receive(&socket))
        .map_err(failed)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match answer.split_first() {
        Some((&DONE, rest)) => Ok(text(rest)),
        Some((&REFUSED, rest)) => {
            let why = text(rest);
            let (why, remedy) = why.split_once("; ").unwrap_or((&why, "see docs/policy.md"));
            Err(Failure::request(what, why, remedy))
        }
        _ => Err(failed(Errno::PROTO)),
    }
}

/// All messages of an answer.
fn receive(socket: &OwnedFd) -> rustix::io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    let mut part = vec![0; MAX_PART];
    while answer.len() <= MAX_ANSWER {
        let timeout = Timespec { tv_sec: LONGEST, tv_nsec: 0 };
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(Errno::TIME),
            Err(Errno::INTR) => continue,
            outcome => drop(outcome?),
        }
        match rustix::io::read(socket, &mut part) {
            Ok(0) => return Ok(answer),
            Ok(length) => answer.extend_from_slice(&part[..length]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::PROTO)
}
