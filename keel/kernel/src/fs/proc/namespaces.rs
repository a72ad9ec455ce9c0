//! `/proc/PID/ns`: the namespaces, of which there is one each.

use super::subject::Subject;
use crate::file::File;
use crate::fs::regular::RegularFile;
use crate::fs::setup;
use crate::mm::user;
use crate::task;
use crate::task::cred::cap;
use crate::task::namespaces::TYPES;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::synth::{Entry, SynthDir, SynthLink};
use vfs::{Attr, FileType, Inode};

/// Names, namespace types, and the inode numbers of Linux's initial namespaces.
const NAMESPACES: [(&str, &str, u64); 10] = [
    ("cgroup", "cgroup", 4_026_531_835),
    ("ipc", "ipc", 4_026_531_839),
    ("mnt", "mnt", 4_026_531_832),
    ("net", "net", 4_026_531_833),
    ("pid", "pid", 4_026_531_836),
    ("pid_for_children", "pid", 4_026_531_836),
    ("time", "time", 4_026_531_834),
    ("time_for_children", "time", 4_026_531_834),
    ("user", "user", 4_026_531_837),
    ("uts", "uts", 4_026_531_838),
];

/// Device of nsfs: keel's own, like those of pipes and sockets.
const DEVICE: u64 = 4;

/// The directory.
pub struct Directory(pub Subject);

impl SynthDir for Directory {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        let &(_, kind, ino) = NAMESPACES.iter().find(|n| n.0.as_bytes() == name).ok_or(Errno::ENOENT)?;
        let (uid, gid) = self.0.owner(false);
        Ok(Entry::link(Link { subject: self.0, kind, ino }).owned(uid, gid))
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        Ok(NAMESPACES.iter().map(|n| (n.0.as_bytes().to_vec(), FileType::Symlink)).collect())
    }
}

struct Link {
    subject: Subject,
    kind: &'static str,
    ino: u64,
}

impl SynthLink for Link {
    fn target(&self) -> Result<Vec<u8>> {
        // Keel has the same namespaces; an ended process has none.
        match self.subject.task()? {
            None if self.subject.is_keel() && task::with_current(|t| t.cred().capable(cap::SYS_PTRACE)) => {}
            None if self.subject.is_keel() => return Err(Errno::EACCES),
            None => return Err(Errno::ENOENT),
            Some(_) => drop(self.subject.inspected()?),
        }
        Ok(format!("{}:[{}]", self.kind, self.ino).into_bytes())
    }

    fn place(&self) -> Option<Result<PathRef>> {
        Some(self.target().map(|name| setup::tree().unnamed(&name, Rc::new(Namespace { ino: self.ino }))))
    }
}

/// Requests of ioctl(2), ioctl_nsfs(2).
const GET_USER_NAMESPACE: u32 = 0xb701;
const GET_PARENT: u32 = 0xb702;
const GET_TYPE: u32 = 0xb703;
const GET_OWNER: u32 = 0xb704;

/// ioctl(2) of a namespace; `None` if the file is none. EINVAL, EPERM, ENOTTY.
pub fn request(file: &File, command: u32, arg: usize) -> Option<Result<usize>> {
    let inode = file.ops.inode()?;
    let ino = inode.as_any().downcast_ref::<Namespace>()?.ino;
    let &(_, kind, _) = NAMESPACES.iter().find(|n| n.2 == ino)?;
    Some(match command {
        GET_TYPE => TYPES.iter().find(|(name, _)| *name == kind).map(|(_, flag)| *flag as usize).ok_or(Errno::EINVAL),
        GET_OWNER if kind == "user" => user::write(arg, &0u32).map(|()| 0),
        // There is no parent namespace, or it is not visible.
        GET_PARENT if matches!(kind, "user" | "pid") => Err(Errno::EPERM),
        GET_USER_NAMESPACE if kind == "user" => Err(Errno::EPERM),
        GET_USER_NAMESPACE => open_user_namespace(),
        GET_OWNER | GET_PARENT => Err(Errno::EINVAL),
        _ => Err(Errno::ENOTTY),
    })
}

/// The type of a namespace, as clone(2) has it; `None` if the file is none.
pub fn type_of(file: &File) -> Option<u32> {
    let ino = file.ops.inode()?.as_any().downcast_ref::<Namespace>()?.ino;
    let &(_, kind, _) = NAMESPACES.iter().find(|n| n.2 == ino)?;
    TYPES.iter().find(|(name, _)| *name == kind).map(|(_, flag)| *flag)
}

/// A descriptor of the user namespace, to which all others belong.
fn open_user_namespace() -> Result<usize> {
    open("user")
}

/// A descriptor of the namespace that a process has under a name in its `ns`. EINVAL, EMFILE.
pub fn open(name: &str) -> Result<usize> {
    let &(_, kind, ino) = NAMESPACES.iter().find(|n| n.0 == name).ok_or(Errno::EINVAL)?;
    let inode: Rc<dyn Inode> = Rc::new(Namespace { ino });
    let place = setup::tree().unnamed(format!("{kind}:[{ino}]").as_bytes(), inode.clone());
    let file = File::new(RegularFile::new(inode, None), g::O_RDONLY, Some(place));
    task::current().files().insert(file, true).map(|fd| fd as usize)
}

/// A namespace as a file: there to be compared and passed to setns(2).
struct Namespace {
    ino: u64,
}

impl Inode for Namespace {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn attr(&self) -> Result<Attr> {
        let mode = FileType::Regular.mode_bits() | 0o444;
        Ok(Attr { ino: self.ino, dev: DEVICE, mode, nlink: 1, blksize: 4096, ..Attr::default() })
    }

    fn file_type(&self) -> FileType {
        FileType::Regular
    }
}
