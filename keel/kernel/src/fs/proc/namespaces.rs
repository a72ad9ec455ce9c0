//! `/proc/PID/ns`: the namespaces of a process, and namespaces as files.

use super::subject::Subject;
use crate::file::File;
use crate::fs::regular::RegularFile;
use crate::fs::setup;
use crate::mm::user;
use crate::task;
use crate::task::cred::cap;
use crate::task::namespaces::Any;
use crate::task::pidns;
use abi::request::FsStat;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::mount::FileSystem;
use vfs::synth::{Entry, SynthDir, SynthLink};
use vfs::{Attr, Change, FileType, Inode};

/// The names.
const NAMES: [&str; 10] =
    ["cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts"];

/// `f_type` of nsfs.
const MAGIC: u64 = 0x6e73_6673;
/// Device of nsfs: keel's own, like those of pipes and sockets.
const DEVICE: u64 = 4;

/// The directory.
pub struct Directory(pub Subject);

impl SynthDir for Directory {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        let &name = NAMES.iter().find(|known| known.as_bytes() == name).ok_or(Errno::ENOENT)?;
        let (uid, gid) = self.0.owner(false);
        Ok(Entry::link(Link { subject: self.0, name }).owned(uid, gid))
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        Ok(NAMES.iter().map(|name| (name.as_bytes().to_vec(), FileType::Symlink)).collect())
    }
}

struct Link {
    subject: Subject,
    name: &'static str,
}

impl Link {
    /// The namespace. EACCES; ENOENT: the process has ended; ESRCH.
    fn find(&self) -> Result<Any> {
        match self.subject.task()? {
            // Keel has the namespaces of the first program.
            None if self.subject.is_keel() && task::with_current(|t| t.cred().capable(cap::SYS_PTRACE)) => {
                Any::first(self.name.as_bytes()).ok_or(Errno::ENOENT)
            }
            None if self.subject.is_keel() => Err(Errno::EACCES),
            None => Err(Errno::ENOENT),
            Some(_) => Any::of(&*self.subject.inspected()?, self.name.as_bytes()).ok_or(Errno::ENOENT),
        }
    }
}

/// What the link to a namespace shows.
fn title(namespace: &Any) -> Vec<u8> {
    format!("{}:[{}]", namespace.kind(), namespace.inode()).into_bytes()
}

impl SynthLink for Link {
    fn target(&self) -> Result<Vec<u8>> {
        Ok(title(&self.find()?))
    }

    fn place(&self) -> Option<Result<PathRef>> {
        Some(self.find().map(place))
    }
}

/// A namespace as a place without a name.
fn place(namespace: Any) -> PathRef {
    let name = title(&namespace);
    setup::tree().unnamed(&name, Rc::new(Namespace(namespace)))
}

/// Requests of ioctl(2), ioctl_nsfs(2).
const GET_USER_NAMESPACE: u32 = 0xb701;
const GET_PARENT: u32 = 0xb702;
const GET_TYPE: u32 = 0xb703;
const GET_OWNER: u32 = 0xb704;

/// ioctl(2) of a namespace; `None` if the file is none. EINVAL, EPERM, ENOTTY.
pub fn request(file: &File, command: u32, arg: usize) -> Option<Result<usize>> {
    let namespace = of_file(file)?;
    let own = task::with_current(|me| me.cred().user_ns.clone());
    Some(match (command, &namespace) {
        (GET_TYPE, any) => Ok(any.flag() as usize),
        (GET_OWNER, Any::User(ns)) => user::write(arg, &own.shown_uid(ns.owner())).map(|()| 0),
        // A parent outside of the caller's is not visible.
        (GET_PARENT, Any::Pid(None)) => Err(Errno::EPERM),
        (GET_PARENT, Any::Pid(Some(ns))) => match (ns.parent(), pidns::here()) {
            (parent, None) => open(Any::Pid(parent.cloned())),
            (Some(parent), Some(own)) if parent.is_within(&own) => open(Any::Pid(Some(parent.clone()))),
            _ => Err(Errno::EPERM),
        },
        (GET_USER_NAMESPACE, any) | (GET_PARENT, any @ Any::User(_)) => match any.owner() {
            Some(owner) if owner.is_within(&own) => open(Any::User(owner)),
            _ => Err(Errno::EPERM),
        },
        (GET_OWNER | GET_PARENT, _) => Err(Errno::EINVAL),
        _ => Err(Errno::ENOTTY),
    })
}

/// Whether an inode is a namespace.
pub fn is_one(inode: &dyn Inode) -> bool {
    inode.as_any().is::<Namespace>()
}

/// The namespace that a file stands for; `None` if it is none.
pub fn of_file(file: &File) -> Option<Any> {
    Some(file.ops.inode()?.as_any().downcast_ref::<Namespace>()?.0.clone())
}

/// The namespace that a place without a name stands for, as a file system of its own that can be mounted; `None` if it stands for
/// none. EINVAL: a mount namespace that is not newer than the caller's, which could hold itself.
pub fn file_system(place: &PathRef) -> Option<Result<Rc<FileSystem>>> {
    let Namespace(namespace) = place.inode().as_any().downcast_ref()?;
    if let Any::Mount(ns) = namespace
        && ns.inode() <= task::with_current(|me| me.namespaces().mount.inode())
    {
        return Some(Err(Errno::EINVAL));
    }
    Some(Ok(FileSystem::new(place.inode().clone(), "nsfs")))
}

/// A descriptor of a namespace. EMFILE.
pub fn open(namespace: Any) -> Result<usize> {
    let place = place(namespace);
    let file = File::new(RegularFile::new(place.inode().clone(), None), g::O_RDONLY, Some(place));
    task::current().files().insert(file, true).map(|fd| fd as usize)
}

/// A namespace as a file: there to be compared and passed to setns(2).
struct Namespace(Any);

impl Inode for Namespace {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(FsStat { kind: MAGIC, bsize: 4096, namelen: 255, ..FsStat::default() })
    }

    fn attr(&self) -> Result<Attr> {
        let mode = FileType::Regular.mode_bits() | 0o444;
        Ok(Attr { ino: self.0.inode(), dev: DEVICE, mode, nlink: 1, blksize: 4096, ..Attr::default() })
    }

    fn file_type(&self) -> FileType {
        FileType::Regular
    }

    fn can_be_mapped(&self) -> bool {
        false
    }

    fn can_be_stored(&self) -> bool {
        false
    }

    fn change(&self, change: &Change) -> Result<()> {
        if *change == Change::default() { Ok(()) } else { Err(Errno::EPERM) }
    }
}
