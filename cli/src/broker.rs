//! The broker's process: started by `hull run` before the pod, ends with it. It opens the pod's sockets, and holds the pod's place
//! among the running pods of the user.

pub mod recorder;

use crate::failure::{EXIT_FAILURE, Failure, Result, reason};
use crate::pods::{Place, Refused};
use broker::seqpacket;
use broker::server::publish::Datagrams;
use broker::server::setup::{MAX_BYTES, Setup};
use broker::server::{Broker, Unable};
use monitor::jail::BrokerRights;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// What the broker sends when it is ready, with the table of prepared peers and without; otherwise what, why and the remedy, each
/// ended by a zero byte.
const READY: [&[u8]; 2] = [b"ready, table", b"ready"];
/// Maximum size of that message.
const MAX_MESSAGE: usize = 64 << 10;
/// How long the broker may take to start, in seconds.
const START: i64 = 30;
/// How long it may take to write its records at the end, in seconds.
const END: i64 = 2;

/// A broker that starts.
#[derive(Debug)]
pub struct Starting(OwnedFd);

/// A broker that is ready.
#[derive(Debug)]
pub struct Ready {
    /// The monitor's end of the pair of sockets.
    pub socket: OwnedFd,
    /// The table of prepared peers, if there is one.
    pub table: Option<OwnedFd>,
    /// Keeps the pod's place in the registry, if it has one.
    pub place: Option<OwnedFd>,
}

/// Ends the broker when it is dropped, and waits until it has written its records and left the registry.
#[derive(Debug)]
pub struct Ending(OwnedFd);

impl Drop for Ending {
    fn drop(&mut self) {
        // What is no request ends it; the jail of a monitor without a network has no shutdown(2). Ignore EPIPE: it has ended.
        let _ = rustix::io::write(&self.0, b".");
        let mut buffer = vec![0; MAX_MESSAGE];
        while wait(&self.0, END) && matches!(rustix::io::read(&self.0, &mut buffer), Ok(1..)) {}
    }
}

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
    /// What ends the broker, whether it gets ready or not.
    pub fn ending(&self) -> Result<Ending> {
        self.0.try_clone().map(Ending).map_err(|error| failed("a descriptor", error))
    }

    /// Waits until the broker is ready.
    pub fn ready(self) -> Result<Ready> {
        let mut buffer = vec![0; MAX_MESSAGE];
        let mut descriptors = Vec::new();
        let length = match wait(&self.0, START) {
            true => seqpacket::receive(&self.0, &mut buffer, &mut descriptors)
                .map_err(|error| failed("its start", error))?,
            false => 0,
        };
        if let Some(kind) = READY.iter().position(|ready| buffer[..length] == **ready) {
            let mut descriptors = descriptors.into_iter();
            let table = if kind == 0 { descriptors.next() } else { None };
            return Ok(Ready { socket: self.0, table, place: descriptors.next() });
        }
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        match text.split('\0').collect::<Vec<_>>()[..] {
            [what, why, remedy, _] => Err(Failure::request(what, why, remedy)),
            _ => Err(Failure::request("the broker", "its process ended", "see hull doctor")),
        }
    }
}

/// Main function of the broker's process; its exit code.
pub fn serve() -> u8 {
    // With the monitor, even if that is killed while another process has a copy of its socket.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let _ = crate::signals::ignore_terminal();
    let Ok(monitor) = rustix::io::dup(std::io::stdout().as_fd()) else { return EXIT_FAILURE };
    match prepare(&monitor) {
        Ok((broker, table, place, _alive)) => {
            // The monitor holds the place, too: a pod whose broker was killed still has its name.
            let locked = place.as_ref().map(Place::locked);
            let descriptors: Vec<_> = table.as_ref().map(AsFd::as_fd).into_iter().chain(locked).collect();
            if seqpacket::send(&monitor, READY[usize::from(table.is_none())], &descriptors).is_ok() {
                drop((monitor, table));
                broker.serve();
            }
            if let Some(place) = place {
                place.remove();
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
    let flags = libc::O_NONBLOCK;
    let entered = File::options().read(true).custom_flags(flags).open(path).and_then(|file| {
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

/// Takes the pod's place in the registry.
fn enter_registry(setup: &Setup) -> std::result::Result<Option<Place>, Unable> {
    let Some(wanted) = &setup.place else { return Ok(None) };
    // Only root's broker changes its user.
    let owner = setup.identity.as_ref().filter(|_| rustix::process::geteuid().is_root());
    let owner = owner.map(|(uid, gid, _)| (*uid, *gid));
    let refused = match Place::take(Path::new(OsStr::from_bytes(&wanted.registry)), &wanted.name, owner) {
        Ok(place) => return Ok(Some(place)),
        // The pod runs without a place, and is not listed.
        Err(_) if !wanted.required => return Ok(None),
        Err(refused) => refused,
    };
    let what = format!("--name {}", wanted.name);
    Err(match refused {
        Refused::Taken(pid) => {
            let process = pid.map_or("which is starting".into(), |pid| format!("process {pid}"));
            Unable(what, format!("a pod of this name runs ({process})"), "choose another name, or end that pod")
        }
        Refused::Host(error) => {
            let registry = OsStr::from_bytes(&wanted.registry).display();
            let why = format!("the registry {registry}: {}", reason(&error.into()));
            Unable(what, why, "set HULL_RUNTIME_DIR to a directory of yours, or leave --name out")
        }
    })
}

/// The broker, the file of its table of prepared peers, the pod's place, and what tells the recorder of its end.
type Prepared = (Broker, Option<OwnedFd>, Option<Place>, Option<recorder::Alive>);

fn prepare(monitor: &OwnedFd) -> std::result::Result<Prepared, Unable> {
    let broken = |why: String| Unable("the broker".into(), why, "see hull doctor");
    let mut bytes = Vec::new();
    std::io::stdin().take(MAX_BYTES as u64).read_to_end(&mut bytes).map_err(|error| broken(error.to_string()))?;
    let setup = Setup::decode(&bytes).ok_or_else(|| broken("its configuration can't be read".into()))?;
    let own = rustix::io::dup(monitor).map_err(|error| broken(error.to_string()))?;
    let place = enter_registry(&setup)?;
    // In the jail the broker starts no process.
    let alive = recorder::start(&setup);
    let prepared = confined(&setup, own, place.as_ref());
    match prepared {
        Ok((broker, table)) => Ok((broker, table, place, alive)),
        Err(unable) => {
            if let Some(place) = place {
                place.remove();
            }
            Err(unable)
        }
    }
}

/// The broker in its namespace and its jail, and the file of its table of prepared peers.
fn confined(
    setup: &Setup,
    own: OwnedFd,
    place: Option<&Place>,
) -> std::result::Result<(Broker, Option<OwnedFd>), Unable> {
    if let Some(path) = &setup.namespace {
        enter(Path::new(OsStr::from_bytes(path)))?;
    }
    let user = rustix::process::geteuid().as_raw();
    let control = place.map(|place| place.control().try_clone_to_owned()).transpose();
    let control = control.map_err(|error| Unable("the broker".into(), reason(&error), "see hull doctor"))?;
    let broker = Broker::new(setup, own, control.map(|socket| (socket, user)))?;
    let mut broker = broker.with_datagrams(Datagrams {
        tell: monitor::connectors::sockets::options::tell_facts,
        receive: monitor::connectors::sockets::told::receive_facts,
    });
    let table = broker.prepare_peers();
    let _ = std::env::set_current_dir("/");
    let identity = setup.identity.clone().map(|(uid, gid, groups)| monitor::jail::Identity { uid, gid, groups });
    let rights = BrokerRights {
        low_ports: setup.host
            || setup.publish.iter().any(|publish| publish.udp && publish.host.port() < 1024)
            || setup.may_listen().iter().any(|listen| listen.ports.first < 1024),
        removable: place.map(Place::directories),
    };
    monitor::jail::enter_broker(identity.as_ref(), rights, setup.weak)
        .map_err(|failure| Unable(format!("the broker: {}", failure.what), reason(&failure.source), failure.remedy))?;
    Ok((broker, table))
}
