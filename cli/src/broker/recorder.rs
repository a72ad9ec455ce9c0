//! A process that records, in the file of `--audit`, that the broker was killed: the broker itself can't then, and the monitor has no access to
//! that file. It waits for the end of a pipe that the broker alone holds.

use broker::server::audit::{Audit, Entry};
use broker::server::open_audit;
use broker::server::setup::Setup;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Time in which the monitor ends if the broker ended with it: the kernel kills the broker first.
const WITH_MONITOR: Timespec = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };

/// The broker's end of the pipe. Dropped, it says that the broker ended by itself.
#[derive(Debug)]
pub struct Alive(OwnedFd);

impl Drop for Alive {
    fn drop(&mut self) {
        // Ignore EPIPE: the process that records was killed.
        let _ = rustix::io::write(&self.0, b".");
    }
}

/// Starts the process, if the pod has an audit file. Without it a broker that is killed leaves no record.
pub fn start(setup: &Setup) -> Option<Alive> {
    // The broker tells an error.
    let audit = open_audit(setup).ok()??;
    let (end, own) = pipe_with(PipeFlags::CLOEXEC).ok()?;
    let mut command = Command::new("/proc/self/exe");
    command.args(["record-broker", &setup.pod.to_string()]).env_clear().current_dir("/");
    // Keeps terminal signals away from it, as from the broker.
    command.process_group(0).stdin(end).stdout(audit).stderr(Stdio::null());
    command.spawn().ok()?;
    Some(Alive(own))
}

/// Main function of the process; `pod`: process id of the monitor.
pub fn record(pod: i32) {
    let monitor = Pid::from_raw(pod).and_then(|pod| pidfd_open(pod, PidfdFlags::empty()).ok());
    let (Some(monitor), Ok(audit)) = (monitor, rustix::io::dup(std::io::stdout().as_fd())) else { return };
    if !matches!(std::io::stdin().read(&mut [0]), Ok(0)) {
        return;
    }
    let ended = poll(&mut [PollFd::new(&monitor, PollFlags::IN)], Some(&WITH_MONITOR));
    if ended == Ok(0) {
        let why = "its process was killed: open connections stay, new ones fail".into();
        let entry = Entry { what: "the broker".into(), why, ..Entry::default() };
        Audit::new(Some(audit.into()), pod.unsigned_abs(), false).add(&entry);
    }
}
