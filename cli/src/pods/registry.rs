//! The registry: a directory of the user with one directory for each running pod, `NAME` or, without a name, its id.
//!
//! `NAME/control` is the socket for commands ([`broker::control`]). `NAME/entry` says what runs ([`Entry`]). The pod's broker and monitor hold its file lock (flock(2)), so that an entry whose
//! processes were killed is told from one of a running pod; it is removed when somebody comes across it. Entries are
//! added and removed under the lock of the registry's own directory, except that a broker removes its own without it.

use super::{Entry, is_id};
use crate::failure::{Failure, Result, reason};
use ::broker::control::SOCKET;
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, open, openat, unlinkat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the file that is locked.
const ENTRY: &str = "entry";
/// Maximum size of an entry in bytes.
const MAX_ENTRY: u64 = 64 << 10;
/// Connections that wait until the broker accepts them.
const QUEUE: i32 = 16;
/// How often the registry's lock is tried, and the time between two attempts.
const ATTEMPTS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);
/// How often a pod's socket is tried while others wait there.
const CALLS: u32 = 1000;
/// How often a directory that another process removes is created anew.
const CREATIONS: u32 = 16;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The registry.
#[derive(Debug)]
pub struct Registry {
    directory: OwnedFd,
    path: PathBuf,
}

/// Why a pod can't be entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A running pod has the name; its process id, unless it is starting.
    Taken(Option<u32>),
    /// An error of the host.
    Host(Errno),
}

impl From<Errno> for Refused {
    fn from(error: Errno) -> Self {
        Self::Host(error)
    }
}

/// Where the registry may be: in the first of these directories that can be used.
fn candidates() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(path) = variable("HULL_RUNTIME_DIR") {
        return vec![path];
    }
    let user = rustix::process::geteuid();
    let last = PathBuf::from(format!("/tmp/hull-{}", user.as_raw()));
    if user.is_root() {
        return vec!["/run/hull".into(), last];
    }
    let of_session = variable("XDG_RUNTIME_DIR").map(|path| path.join("hull"));
    let usual = PathBuf::from(format!("/run/user/{}/hull", user.as_raw()));
    of_session.into_iter().chain([usual, last]).collect()
}

/// Opens a directory that belongs to this user alone. EPERM: it belongs to another one, or others have access.
fn open_own(path: &Path) -> rustix::io::Result<OwnedFd> {
    let directory = open(path, DIRECTORY | OFlags::RDONLY, Mode::empty())?;
    let status = fstat(&directory)?;
    if status.st_uid != rustix::process::geteuid().as_raw() || status.st_mode & 0o077 != 0 {
        return Err(Errno::PERM);
    }
    Ok(directory)
}

impl Registry {
    /// Opens the registry, and creates it if it does not exist.
    pub fn create() -> Result<Self> {
        let mut failure = None;
        for path in candidates() {
            // An existing one is examined below.
            let made = match rustix::fs::mkdir(&path, Mode::RWXU) {
                Err(Errno::EXIST) => Ok(()),
                made => made,
            };
            match made.and_then(|()| open_own(&path)) {
                Ok(directory) => return Ok(Self { directory, path }),
                // The first one is where the user expects it.
                Err(error) => drop(failure.get_or_insert_with(|| unusable(&path, error))),
            }
        }
        Err(failure.unwrap_or_else(|| unusable(Path::new(""), Errno::NOENT)))
    }

    /// Opens the registry; `None` if no pod was ever entered.
    pub fn find() -> Result<Option<Self>> {
        for path in candidates() {
            match open_own(&path) {
                Ok(directory) => return Ok(Some(Self { directory, path })),
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => return Err(unusable(&path, error)),
            }
        }
        Ok(None)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the entry of a pod whose place was taken before.
    pub fn write(&self, place: &str, entry: &Entry) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let written = openat(&self.directory, format!("{place}/{ENTRY}"), flags, Mode::empty())
            .map_err(std::io::Error::from)
            .and_then(|file| File::from(file).write_all(&entry.encode()));
        written
            .map_err(|error| Failure::request(self.path.display().to_string(), reason(&error), "check its file system"))
    }

    /// Connects to the socket for commands of a running pod, by its name, its id or the beginning of that.
    pub fn connect(&self, pod: &str) -> Result<OwnedFd> {
        let wrong = |why: &str| Failure::request(format!("pod {pod}"), why, "see hull ps");
        let entries = self.entries()?;
        let is_start = !pod.is_empty() && pod.bytes().all(|byte| byte.is_ascii_hexdigit());
        let named = entries.iter().find(|entry| entry.name.as_deref() == Some(pod));
        let mut others = entries.iter().filter(|entry| is_start && entry.id.starts_with(pod));
        let entry = match (named, others.next(), others.next()) {
            (Some(entry), _, _) | (None, Some(entry), None) => entry,
            (None, Some(_), Some(_)) => return Err(wrong("several pods have an id that begins like this")),
            (None, None, _) => {
                return Err(wrong("no pod of this name or id runs, or it has neither a name nor a network"));
            }
        };
        let place = entry.name.as_deref().unwrap_or(&entry.id);
        if super::name(place).is_err() && !is_id(place) {
            return Err(wrong("its entry names no place of the registry"));
        }
        let failed = |error: Errno| match error {
            Errno::CONNREFUSED | Errno::NOENT => {
                wrong("the process that holds its policy has ended; its connections stay as they are")
            }
            Errno::AGAIN => wrong("it is busy with others' commands; try again"),
            error => wrong(&reason(&error.into())),
        };
        let connected =
            openat(&self.directory, place, DIRECTORY | OFlags::RDONLY, Mode::empty()).and_then(|directory| {
                let (socket, address) = (socket()?, address(directory.as_fd())?);
                for _ in 0..CALLS {
                    match rustix::net::connect(&socket, &address) {
                        Err(Errno::AGAIN | Errno::INTR) => std::thread::sleep(PAUSE),
                        connected => return connected.map(|()| socket),
                    }
                }
                Err(Errno::AGAIN)
            });
        connected.map_err(failed)
    }

    /// The entries of running pods; those of ended ones are removed.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        let failed = |error: Errno| unusable(&self.path, error);
        let _held = lock(self.directory.as_fd()).map_err(failed)?;
        let mut entries = Vec::new();
        for name in names(self.directory.as_fd()).map_err(failed)? {
            if !sweep(self.directory.as_fd(), &name).map_err(failed)? {
                entries.extend(read(self.directory.as_fd(), &name));
            }
        }
        entries.sort_by(|one: &Entry, other| (other.started, &other.id).cmp(&(one.started, &one.id)));
        Ok(entries)
    }
}

fn unusable(path: &Path, error: Errno) -> Failure {
    let (why, remedy) = match error {
        Errno::PERM => {
            ("it is not a directory of yours alone (mode 0700)".into(), "remove it, or set HULL_RUNTIME_DIR")
        }
        Errno::AGAIN => ("another process keeps it locked".into(), "end that process, such as a stopped hull ps"),
        error => (reason(&error.into()), "set HULL_RUNTIME_DIR to a directory of yours"),
    };
    Failure::request(format!("the registry of pods {}", path.display()), why, remedy)
}

/// The registry's lock: held until the descriptor is closed. EAGAIN: another process has it for long.
fn lock(registry: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let own = openat(registry, ".", DIRECTORY | OFlags::RDONLY, Mode::empty())?;
    for _ in 0..ATTEMPTS {
        match flock(&own, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(own),
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
    Err(Errno::AGAIN)
}

/// The names in the registry.
fn names(registry: BorrowedFd<'_>) -> rustix::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for item in Dir::read_from(registry)? {
        let name = item?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

fn read(registry: BorrowedFd<'_>, name: &str) -> Option<Entry> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(registry, format!("{name}/{ENTRY}"), flags, Mode::empty()).ok()?;
    let mut bytes = Vec::new();
    File::from(file).take(MAX_ENTRY).read_to_end(&mut bytes).ok()?;
    Entry::parse(&bytes)
}

/// Removes an entry unless its pod runs; whether it is gone. The caller has the registry's lock.
fn sweep(registry: BorrowedFd<'_>, name: &str) -> rustix::io::Result<bool> {
    let directory = match openat(registry, name, DIRECTORY | OFlags::RDONLY, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(true),
        // No entry of a pod: it is left alone.
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(false),
        Err(error) => return Err(error),
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match openat(&directory, ENTRY, flags, Mode::empty()) {
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
        Ok(file) => match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error),
        },
    }
    remove(registry, directory.as_fd(), name);
    Ok(true)
}

/// Removes an entry's files and its directory, as far as they exist and the process may.
fn remove(registry: BorrowedFd<'_>, directory: BorrowedFd<'_>, name: &str) {
    let _ = unlinkat(directory, SOCKET, AtFlags::empty());
    let _ = unlinkat(directory, ENTRY, AtFlags::empty());
    let _ = unlinkat(registry, name, AtFlags::REMOVEDIR);
}

/// The place of a running pod in the registry: its broker holds it until the pod ends.
#[derive(Debug)]
pub struct Place {
    registry: OwnedFd,
    directory: OwnedFd,
    locked: OwnedFd,
    /// The listening socket for commands.
    control: OwnedFd,
    name: String,
}

/// Address of a pod's socket, of any length of the registry's path.
fn address(directory: BorrowedFd<'_>) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()))
}

fn socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

fn listen(directory: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let socket = socket()?;
    rustix::net::bind(&socket, &address(directory)?)?;
    rustix::fs::chmodat(directory, SOCKET, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
    rustix::net::listen(&socket, QUEUE)?;
    Ok(socket)
}

impl Place {
    /// Takes a place. `owner`: user and group of the process that is to remove it.
    pub fn take(registry: &Path, name: &str, owner: Option<(u32, u32)>) -> std::result::Result<Self, Refused> {
        let registry = open(registry, DIRECTORY | OFlags::RDONLY, Mode::empty())?;
        let _held = lock(registry.as_fd())?;
        for _ in 0..CREATIONS {
            match mkdirat(&registry, name, Mode::RWXU) {
                Err(Errno::EXIST) if sweep(registry.as_fd(), name)? => continue,
                Err(Errno::EXIST) => return Err(Refused::Taken(read(registry.as_fd(), name).map(|entry| entry.pid))),
                made => made?,
            }
            // The broker of an earlier pod of this name may remove the directory as its own while it is empty.
            let made = openat(&registry, name, DIRECTORY | OFlags::RDONLY, Mode::empty()).and_then(|directory| {
                let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                Ok((openat(&directory, ENTRY, flags, Mode::RUSR | Mode::WUSR)?, directory))
            });
            let (locked, directory) = match made {
                Err(Errno::NOENT) => continue,
                made => made?,
            };
            flock(&locked, FlockOperation::NonBlockingLockExclusive)?;
            if let Some((uid, gid)) = owner {
                let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
                rustix::fs::fchown(&directory, Some(uid), Some(gid))?;
            }
            let control = listen(directory.as_fd())?;
            return Ok(Self { registry, directory, locked, control, name: name.to_owned() });
        }
        Err(Refused::Host(Errno::AGAIN))
    }

    /// The descriptor whose copies keep the entry locked.
    pub fn locked(&self) -> BorrowedFd<'_> {
        self.locked.as_fd()
    }

    /// The listening socket for commands.
    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// The registry's directory and the pod's own.
    pub fn directories(&self) -> (BorrowedFd<'_>, BorrowedFd<'_>) {
        (self.registry.as_fd(), self.directory.as_fd())
    }

    /// Removes the entry. A broker that has another user than the registry leaves the empty directory, which the next
    /// look at the registry removes.
    pub fn remove(&self) {
        remove(self.registry.as_fd(), self.directory.as_fd(), &self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn own(dir: &Path) -> Registry {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o700)).unwrap();
        Registry { directory: open_own(dir).unwrap(), path: dir.to_owned() }
    }

    fn entry(name: &str) -> Entry {
        Entry::new("00".repeat(32), Some(name.into()), None, &[b"sh".to_vec()], vec![])
    }

    #[test]
    fn a_name_is_taken_while_its_lock_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let registry = own(dir.path());
        let place = Place::take(dir.path(), "web", None).unwrap();
        assert_eq!(Place::take(dir.path(), "web", None).unwrap_err(), Refused::Taken(None));
        assert_eq!(registry.entries().unwrap(), []);
        registry.write("web", &entry("web")).unwrap();
        let taken = Refused::Taken(Some(std::process::id()));
        assert_eq!(Place::take(dir.path(), "web", None).unwrap_err(), taken);
        let other = Place::take(dir.path(), "other", None).unwrap();
        assert_eq!(registry.entries().unwrap(), [entry("web")]);
        // The monitor's copy holds it, too.
        let copy = place.locked().try_clone_to_owned().unwrap();
        drop(place);
        assert_eq!(Place::take(dir.path(), "web", None).unwrap_err(), taken);
        drop(copy);
        // Killed: the entry stays, and is not one of a running pod.
        assert!(dir.path().join("web/entry").exists());
        let again = Place::take(dir.path(), "web", None).unwrap();
        again.remove();
        other.remove();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_killed_pods_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let registry = own(dir.path());
        drop(Place::take(dir.path(), "killed", None).unwrap());
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let place = Place::take(dir.path(), "runs", None).unwrap();
        registry.write("runs", &entry("runs")).unwrap();
        assert_eq!(registry.entries().unwrap(), [entry("runs")]);
        let mut left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|item| item.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["file", "runs"]);
        // An entry that is no JSON is none of a pod that can be listed.
        std::fs::write(dir.path().join("runs/entry"), "\0".repeat(100)).unwrap();
        assert_eq!(registry.entries().unwrap(), []);
        place.remove();
    }

    #[test]
    fn directories_of_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("open");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(open_own(&path).unwrap_err(), Errno::PERM);
        std::os::unix::fs::symlink(dir.path(), dir.path().join("link")).unwrap();
        assert!(open_own(&dir.path().join("link")).is_err());
        assert!(unusable(&path, Errno::PERM).to_string().contains("not a directory of yours alone"));
    }
}
