//! `mounts`, `mountinfo`, `mountstats`, `filesystems`.

use crate::fs::setup;
use crate::task::Task;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::Result;
use vfs::attr::split_dev;
use vfs::memory::Text;
use vfs::mount::{Namespace, flags};
use vfs::{Mount, PathRef};

/// `filesystems`.
pub const FILE_SYSTEMS: &str = "nodev\tsysfs\nnodev\ttmpfs\nnodev\tproc\nnodev\tcgroup2\nnodev\tsockfs\nnodev\tpipefs\n\
     nodev\tdevpts\nnodev\toverlay\nnodev\tmqueue\n";

/// A name with blanks and backslashes in octal, as all tables have them.
fn escaped(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for &byte in name {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' | b'#' => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            other => out.push(other),
        }
    }
    out
}

/// Options of a mount, each with a leading comma.
fn options(mount: &Mount) -> Vec<u8> {
    const NAMES: [(u32, &str); 7] = [
        (flags::NO_SUID, ",nosuid"),
        (flags::NO_DEV, ",nodev"),
        (flags::NO_EXEC, ",noexec"),
        (flags::NO_ATIME, ",noatime"),
        (flags::NO_DIR_ATIME, ",nodiratime"),
        (flags::RELATIME, ",relatime"),
        (flags::NO_SYMFOLLOW, ",nosymfollow"),
    ];
    let set = NAMES.iter().filter(|(flag, _)| mount.flags() & flag != 0);
    set.flat_map(|(_, name)| name.bytes()).collect()
}

fn access(is_read_only: bool) -> &'static [u8] {
    if is_read_only { b"ro" } else { b"rw" }
}

/// A mount and its path as the process sees it; `None`: it does not.
fn seen(mount: &Rc<Mount>, root: &PathRef) -> Result<Option<Vec<u8>>> {
    let place = PathRef::root_of(mount);
    if !place.is_within(root) {
        return Ok(None);
    }
    place.path(Some(root)).map(|path| Some(escaped(&path)))
}

/// What a process sees: the mounts of its namespace beneath its root.
pub struct Seen {
    tree: Rc<Namespace>,
    root: PathRef,
}

impl Seen {
    /// What a thread sees; `None`: it has ended.
    pub fn of(task: &Task) -> Option<Self> {
        Some(Self { tree: task.try_namespaces()?.mount.tree().clone(), root: task.try_fs()?.root() })
    }

    /// What the first program sees at its start.
    pub fn first() -> Self {
        let tree = setup::tree();
        Self { tree: tree.namespace().clone(), root: tree.root().clone() }
    }

    /// Calls `add` for each mount, with its path.
    fn each(&self, mut add: impl FnMut(&mut Text, &Rc<Mount>, &[u8])) -> Result<Vec<u8>> {
        let mut out = Text::default();
        for mount in self.tree.mounts()? {
            if let Some(path) = seen(&mount, &self.root)? {
                add(&mut out, &mount, &path);
            }
        }
        out.done()
    }
}

/// `mounts`: fstab(5).
pub fn table(of: &Seen) -> Result<Vec<u8>> {
    of.each(|out, mount, path| {
        let fs = mount.fs();
        let head = [&escaped(&mount.source)[..], b" ", path, b" ", fs.kind.as_bytes(), b" "];
        head.iter().for_each(|part| out.add(part));
        out.add(access(mount.is_read_only()));
        out.add(&options(mount));
        out.add(&fs.options.borrow());
        out.add(b" 0 0\n");
    })
}

/// `mountinfo`.
pub fn info(of: &Seen) -> Result<Vec<u8>> {
    of.each(|out, mount, path| {
        let fs = mount.fs();
        let (major, minor) = split_dev(fs.dev());
        let parent = mount.place().map_or(mount.id, |place| place.mount().id);
        out.add(format!("{} {parent} {major}:{minor} ", mount.id).as_bytes());
        // A path within the file system; one that is too long to be made is left out, as the rest of the text will be.
        out.add(&escaped(&mount.root().path_in_fs().unwrap_or_default()));
        out.add(b" ");
        out.add(path);
        out.add(b" ");
        out.add(access(mount.flags() & flags::READ_ONLY != 0));
        out.add(&options(mount));
        if let Some(group) = mount.group_id() {
            out.add(format!(" shared:{group}").as_bytes());
        }
        if let Some(group) = mount.master_id() {
            out.add(format!(" master:{group}").as_bytes());
        }
        if mount.is_unbindable() {
            out.add(b" unbindable");
        }
        let tail = [b" - ", fs.kind.as_bytes(), b" ", &escaped(&mount.source), b" ", access(fs.is_read_only())];
        tail.iter().for_each(|part| out.add(part));
        out.add(&fs.options.borrow());
        out.add(b"\n");
    })
}

/// `mountstats`.
pub fn statistics(of: &Seen) -> Result<Vec<u8>> {
    of.each(|out, mount, path| {
        let kind = mount.fs().kind.as_bytes();
        let line = [b"device ", &escaped(&mount.source)[..], b" mounted on ", path, b" with fstype ", kind, b"\n"];
        line.iter().for_each(|part| out.add(part));
    })
}
