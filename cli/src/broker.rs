//! The broker's process: started by `hull run` before the pod, ends with it.

use crate::failure::{EXIT_FAILURE, Failure, Result, reason};
use broker::server::setup::{MAX_BYTES, Setup};
use broker::server::{Broker, Unable};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, socketpair};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// What the broker sends when it is ready; otherwise what, why and the remedy, each ended by a zero byte.
const READY: &[u8] = b"ready";
/// Maximum size of that message.
const MAX_MESSAGE: usize = 64 << 10;
/// How long the broker may take to start, in seconds.
const START: i64 = 30;
/// How long it may take to write its records at the end, in seconds.
const END: i64 = 2;

/// A broker that starts.
#[derive(Debug)]
pub struct Starting(OwnedFd);

fn failed(what: &str, error: impl Into<std::io::Error>) -> Failure {
    Failure::request(format!("the broker: {what}"), reason(&error.into()), "see hull doctor")
}

/// Starts a broker.
pub fn start(setup: &Setup) -> Result<Starting> {
    let (own, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|error| failed("a pair of sockets", error))?;
    let mut file: File = rustix::fs::memfd_create("setup", MemfdFlags::CLOEXEC)
        .map_err(|error| failed("its configuration", error))?
        .into();
    let written = file.write_all(&setup.encode()).and_then(|()| file.rewind());
    written.map_err(|error| failed("its configuration", error))?;
    Command::new("/proc/self/exe")
        .arg("serve-broker")
        .env_clear()
        // Keeps terminal signals such as SIGINT away from it.
        .process_group(0)
        .stdin(file)
        .stdout(other)
        .stderr(if setup.tells { Stdio::inherit() } else { Stdio::null() })
        .spawn()
        .map_err(|error| failed("its process", error))?;
    Ok(Starting(own))
}

/// Waits until a socket has input or its other end is closed; false if it has neither in time.
fn wait(socket: &OwnedFd, seconds: i64) -> bool {
    let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
    poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)).is_ok_and(|count| count > 0)
}

impl Starting {
    /// Waits until the broker is ready; the monitor's end.
    pub fn ready(self) -> Result<OwnedFd> {
        let mut buffer = vec![0; MAX_MESSAGE];
        let length = match wait(&self.0, START) {
            true => rustix::io::read(&self.0, &mut buffer).map_err(|error| failed("its start", error))?,
            false => 0,
        };
        if &buffer[..length] == READY {
            return Ok(self.0);
        }
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        match text.split('\0').collect::<Vec<_>>()[..] {
            [what, why, remedy, _] => Err(Failure::request(what, why, remedy)),
            _ => Err(Failure::request("the broker", "its process ended", "see hull doctor")),
        }
    }
}

/// Ends the broker at the end of the pod, and waits until it has written its records.
pub fn finish(own: &OwnedFd) {
    // Ignore ENOTCONN: it has ended.
    let _ = rustix::net::shutdown(own, Shutdown::Write);
    let mut buffer = vec![0; MAX_MESSAGE];
    while wait(own, END) && matches!(rustix::io::read(own, &mut buffer), Ok(1..)) {}
}

/// Main function of the broker's process; its exit code.
pub fn serve() -> u8 {
    // With the monitor, even if that is killed while another process has a copy of its socket.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let _ = crate::signals::ignore_terminal();
    let Ok(monitor) = rustix::io::dup(std::io::stdout().as_fd()) else { return EXIT_FAILURE };
    match prepare(&monitor) {
        Ok(broker) => {
            if rustix::net::send(&monitor, READY, rustix::net::SendFlags::NOSIGNAL).is_ok() {
                drop(monitor);
                broker.serve();
            }
            0
        }
        Err(Unable(what, why, remedy)) => {
            let text = format!("{what}\0{why}\0{remedy}\0");
            let _ = rustix::net::send(&monitor, text.as_bytes(), rustix::net::SendFlags::NOSIGNAL);
            EXIT_FAILURE
        }
    }
}

/// Enters a network namespace: the one of all sockets from now on.
fn enter(path: &Path) -> std::result::Result<(), Unable> {
    let entered = File::open(path).and_then(|file| {
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(file.as_fd(), kind).map_err(std::io::Error::from)
    });
    entered.map_err(|error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::PermissionDenied => "run hull as root",
            _ => "name a network namespace, such as /run/netns/NAME",
        };
        Unable(format!("--net-namespace {}", path.display()), reason(&error), remedy)
    })
}

fn prepare(monitor: &OwnedFd) -> std::result::Result<Broker, Unable> {
    let broken = |why: String| Unable("the broker".into(), why, "see hull doctor");
    let mut bytes = Vec::new();
    std::io::stdin().take(MAX_BYTES as u64).read_to_end(&mut bytes).map_err(|error| broken(error.to_string()))?;
    let setup = Setup::decode(&bytes).ok_or_else(|| broken("its configuration can't be read".into()))?;
    let own = rustix::io::dup(monitor).map_err(|error| broken(error.to_string()))?;
    if let Some(path) = &setup.namespace {
        enter(Path::new(OsStr::from_bytes(path)))?;
    }
    let broker = Broker::new(&setup, own)?;
    let _ = std::env::set_current_dir("/");
    let identity = setup.identity.map(|(uid, gid, groups)| monitor::jail::Identity { uid, gid, groups });
    let low_ports = setup.publish.iter().any(|publish| publish.udp && publish.host.port() < 1024);
    monitor::jail::enter_broker(identity.as_ref(), low_ports, setup.weak)
        .map_err(|failure| Unable(format!("the broker: {}", failure.what), reason(&failure.source), failure.remedy))?;
    Ok(broker)
}
