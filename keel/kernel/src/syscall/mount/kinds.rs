//! Types of file systems that programs mount.

use super::{Admin, overlay};
use crate::cred::UserNs;
use crate::fs::{proc, setup, sys};
use crate::task::pidns::{self, PidNs};
use crate::task::{self, cred::cap};
use crate::tty::pty;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use uapi::{Errno, Result};
use vfs::mount::{FileSystem, Loose, change, flags, namespace};
use vfs::node::{Node, Private};
use vfs::{FileType, NewNode, PathRef};

/// What keel keeps with a file system that a program mounted.
#[derive(Debug)]
struct Owner {
    /// The user namespace whose administrators may change it.
    user_ns: Rc<UserNs>,
}

/// Whether the running thread may change a file system.
pub(super) fn may_administer(fs: &FileSystem) -> bool {
    let cred = task::with_current(|me| me.cred());
    match fs.data.as_ref().and_then(|data| data.downcast_ref::<Owner>()) {
        Some(owner) => cred.capable_in(&owner.user_ns, cap::SYS_ADMIN),
        None => cred.capable(cap::SYS_ADMIN),
    }
}

/// A file system whose administrators are those of `user_ns`. EPERM: the running thread is none.
fn owned(root: Rc<dyn vfs::Inode>, kind: &'static str, user_ns: &Rc<UserNs>) -> Rc<FileSystem> {
    let fs = FileSystem::with(root, kind, Some(Rc::new(Owner { user_ns: user_ns.clone() })));
    if !user_ns.is_first() {
        fs.set_owner(user_ns.clone());
    }
    fs
}

fn check(user_ns: &Rc<UserNs>) -> Result<()> {
    let may = task::with_current(|me| me.cred().capable_in(user_ns, cap::SYS_ADMIN));
    if may { Ok(()) } else { Err(Errno::EPERM) }
}

/// A type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tmpfs,
    Proc,
    Sysfs,
    Cgroup2,
    Devpts,
    Overlay,
    Mqueue,
}

impl Kind {
    /// All types with their names.
    const ALL: [(Self, &'static str); 7] = [
        (Self::Tmpfs, "tmpfs"),
        (Self::Proc, "proc"),
        (Self::Sysfs, "sysfs"),
        (Self::Cgroup2, "cgroup2"),
        (Self::Devpts, "devpts"),
        (Self::Overlay, "overlay"),
        (Self::Mqueue, "mqueue"),
    ];

    /// The type with a name. ENODEV: there is none that programs can mount.
    pub(super) fn named(name: &[u8]) -> Result<Self> {
        let found = Self::ALL.iter().find(|(_, known)| known.as_bytes() == name);
        found.map(|(kind, _)| *kind).ok_or(Errno::ENODEV)
    }

    /// Its name.
    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// Makes a file system of a type, mount(2). EPERM; EINVAL: options.
pub(super) fn make(kind: Kind, data: &[u8], admin: &Admin) -> Result<Rc<FileSystem>> {
    vfs::memory::check()?;
    let tree = setup::tree();
    let here = task::with_current(|me| me.cred().user_ns.clone());
    let name = kind.name();
    let fs = match kind {
        Kind::Tmpfs => {
            check(&here)?;
            let wanted = Temporary::parse(data, &here)?;
            let space = setup::temporary_space(wanted.pages);
            let root = NewNode::plain(0o040000 | wanted.mode, wanted.uid, wanted.gid);
            let private = Private::new(tree.new_dev(), space);
            private.limit(None, wanted.nodes)?;
            let fs = owned(private.node(&root), name, &here);
            fs.options.replace(Rc::from(wanted.shown(&here).into_bytes()));
            fs
        }
        Kind::Proc => {
            let ns: Option<Rc<PidNs>> = pidns::here();
            let owner = ns.as_ref().map_or_else(UserNs::first, |ns| ns.user_ns().clone());
            check(&owner)?;
            if !data.is_empty() {
                return Err(Errno::EINVAL);
            }
            check_visible(admin, name)?;
            owned(proc::root(&tree, ns), name, &owner)
        }
        Kind::Sysfs => {
            check(&UserNs::first())?;
            owned(sys::root(&tree), name, &UserNs::first())
        }
        Kind::Cgroup2 => {
            let owner = task::with_current(|me| me.namespaces().cgroup.user_ns().clone());
            check(&owner)?;
            owned(sys::cgroup_root(&tree), name, &owner)
        }
        Kind::Devpts => {
            check(&here)?;
            let (options, mode) = terminal_options(data)?;
            let fs = owned(pty::file_system(tree.new_dev(), mode), name, &here);
            fs.options.replace(Rc::from(options.into_bytes()));
            fs
        }
        Kind::Mqueue => {
            let ipc = crate::ipc::here();
            check(ipc.user_ns())?;
            if !data.is_empty() {
                return Err(Errno::EINVAL);
            }
            ipc.queues()?.mount().fs().clone()
        }
        Kind::Overlay => {
            check(&here)?;
            let options = overlay::Options::parse(data)?;
            let (root, is_writable) = overlay::root(tree.new_dev(), &options, admin)?;
            let fs = owned(root, name, &here);
            fs.is_fixed.set(!is_writable);
            fs.set_read_only(!is_writable);
            fs.options.replace(namespace::name(&options.shown));
            fs
        }
    };
    Ok(fs)
}

/// EINVAL unless an option suits a type.
pub(super) fn check_options(kind: Kind, data: &[u8]) -> Result<()> {
    let here = task::with_current(|me| me.cred().user_ns.clone());
    match kind {
        Kind::Tmpfs => Temporary::parse(data, &here).map(drop),
        Kind::Devpts => terminal_options(data).map(drop),
        Kind::Overlay => overlay::Options::parse(data).map(drop),
        Kind::Proc | Kind::Sysfs | Kind::Cgroup2 | Kind::Mqueue => Err(Errno::EINVAL),
    }
}

/// EPERM: a user namespace without rights over the pod would see what was hidden from it in all instances that it sees.
fn check_visible(admin: &Admin, kind: &str) -> Result<()> {
    if admin.namespace.user_ns().is_first() {
        return Ok(());
    }
    for mount in admin.tree().mounts()? {
        if mount.fs().kind != kind || !mount.is_whole() {
            continue;
        }
        let hides = |child: &Rc<vfs::Mount>| {
            let is_empty = |place: PathRef| {
                place.inode().file_type() == FileType::Directory && place.inode().readdir().is_ok_and(|l| l.is_empty())
            };
            child.is_locked() && !child.place().is_some_and(is_empty)
        };
        if !mount.is_read_only() && !mount.children()?.iter().any(hides) {
            return Ok(());
        }
    }
    Err(Errno::EPERM)
}

/// Mounts a new file system at a place. EBUSY: it is there already.
pub(super) fn mount(admin: &Admin, fs: Rc<FileSystem>, source: &[u8], flags: u32, place: PathRef) -> Result<()> {
    let place = place.covered();
    if !place.mount().is_in(admin.tree()) {
        return Err(Errno::EINVAL);
    }
    if Rc::ptr_eq(place.mount().fs(), &fs) && place.is_mount_root() {
        return Err(Errno::EBUSY);
    }
    change::mount(Loose::of(&fs, namespace::name(source), flags & flags::ALL)?, &place)
}

/// `MS_REMOUNT` of a file system. EPERM; EBUSY: it would be read-only while files are open for writing; EINVAL: options;
/// EROFS: it can't be written.
pub(super) fn reconfigure(fs: &Rc<FileSystem>, read_only: bool, data: &[u8]) -> Result<()> {
    if !may_administer(fs) {
        return Err(Errno::EPERM);
    }
    if read_only && !fs.is_read_only() {
        fs.check_writers()?;
    }
    if fs.kind == Kind::Tmpfs.name() && !data.is_empty() {
        let here = task::with_current(|me| me.cred().user_ns.clone());
        let wanted = Temporary::parse(data, &here)?;
        let root = fs.root().inode().clone();
        let node = root.as_any().downcast_ref::<Node>().ok_or(Errno::EINVAL)?;
        node.file_system().limit(wanted.pages, wanted.nodes)?;
        let options = wanted.shown_over(&fs.options.borrow());
        fs.options.replace(Rc::from(options));
    }
    if !read_only && fs.is_fixed.get() {
        return Err(Errno::EROFS);
    }
    fs.set_read_only(read_only);
    Ok(())
}

/// Options of tmpfs.
struct Temporary {
    pages: Option<usize>,
    nodes: Option<u64>,
    mode: u32,
    uid: u32,
    gid: u32,
    size_shown: Option<u64>,
}

impl Temporary {
    /// From `size=…,mode=…`. EINVAL.
    fn parse(data: &[u8], user_ns: &Rc<UserNs>) -> Result<Self> {
        let cred = task::with_current(|me| me.cred());
        let mut all =
            Self { pages: None, nodes: None, mode: 0o1777, uid: cred.fsuid, gid: cred.fsgid, size_shown: None };
        let text = core::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let number = |base| u32::from_str_radix(value, base).map_err(|_| Errno::EINVAL);
            match key {
                "size" => {
                    let bytes = size(value)?;
                    all.size_shown = Some(bytes.div_ceil(PAGE) * PAGE);
                    all.pages = Some(usize::try_from(bytes.div_ceil(PAGE)).unwrap_or(usize::MAX));
                }
                "nr_blocks" => {
                    let pages = size(value)?;
                    all.size_shown = Some(pages.saturating_mul(PAGE));
                    all.pages = Some(usize::try_from(pages).unwrap_or(usize::MAX));
                }
                "nr_inodes" => all.nodes = Some(size(value)?).filter(|nodes| *nodes != 0),
                "mode" => all.mode = number(8)? & 0o7777,
                "uid" => {
                    all.uid = user_ns.outward(crate::cred::userns::Ids::Users, number(10)?).ok_or(Errno::EINVAL)?;
                }
                "gid" => {
                    all.gid = user_ns.outward(crate::cred::userns::Ids::Groups, number(10)?).ok_or(Errno::EINVAL)?;
                }
                "inode64" | "inode32" | "huge" | "mpol" | "noswap" => {}
                _ => return Err(Errno::EINVAL),
            }
        }
        // Of size 0: as much as there is.
        all.pages = all.pages.filter(|pages| *pages != 0);
        Ok(all)
    }

    /// As the tables show those that a remount changes: the limits.
    fn limits_shown(&self) -> String {
        let size = self.size_shown.map_or(String::new(), |bytes| format!(",size={}k", bytes / 1024));
        size + &self.nodes.map_or(String::new(), |nodes| format!(",nr_inodes={nodes}"))
    }

    /// The same with the others of `old`, a text of the tables.
    fn shown_over(&self, old: &[u8]) -> Vec<u8> {
        let mut out = self.limits_shown().into_bytes();
        for option in old.split(|&byte| byte == b',').filter(|option| !option.is_empty()) {
            let is_replaced = self.size_shown.is_some() && option.starts_with(b"size=")
                || self.nodes.is_some() && option.starts_with(b"nr_inodes=");
            if !is_replaced {
                out.push(b',');
                out.extend_from_slice(option);
            }
        }
        out
    }

    /// As the tables show them.
    fn shown(&self, user_ns: &Rc<UserNs>) -> String {
        let mut out = self.limits_shown();
        if self.mode != 0o1777 {
            out += &format!(",mode={:o}", self.mode);
        }
        let (uid, gid) = (user_ns.shown_uid(self.uid), user_ns.shown_gid(self.gid));
        if self.uid != 0 {
            out += &format!(",uid={uid}");
        }
        if self.gid != 0 {
            out += &format!(",gid={gid}");
        }
        out + ",inode64"
    }
}

const PAGE: u64 = abi::layout::PAGE_SIZE as u64;

/// A number with `k`, `m`, `g`, or in percent of the memory. EINVAL.
fn size(text: &str) -> Result<u64> {
    if let Some(percent) = text.strip_suffix('%') {
        let percent: u64 = percent.parse().map_err(|_| Errno::EINVAL)?;
        return Ok(hal::frame::ram_usage().limit / 100 * percent.min(1000));
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text.as_bytes()[digits.len()..] {
        b"" => 0,
        b"k" | b"K" => 10,
        b"m" | b"M" => 20,
        b"g" | b"G" => 30,
        b"t" | b"T" => 40,
        _ => return Err(Errno::EINVAL),
    };
    let number: u64 = digits.parse().map_err(|_| Errno::EINVAL)?;
    number.checked_mul(1 << shift).ok_or(Errno::EINVAL)
}

/// Options of devpts: as the tables show them, and the permissions of `ptmx`. EINVAL.
fn terminal_options(data: &[u8]) -> Result<(String, u32)> {
    let text = core::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
    let (mut gid, mut mode, mut master) = (String::new(), 0o600, 0);
    for option in text.split(',').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let octal = u32::from_str_radix(value, 8).map_err(|_| Errno::EINVAL);
        match key {
            "newinstance" => {}
            "mode" => mode = octal? & 0o777,
            "ptmxmode" => master = octal? & 0o777,
            "uid" | "max" => drop(value.parse::<u32>().map_err(|_| Errno::EINVAL)?),
            "gid" => gid = format!(",gid={}", value.parse::<u32>().map_err(|_| Errno::EINVAL)?),
            _ => return Err(Errno::EINVAL),
        }
    }
    Ok((format!("{gid},mode={mode:03o},ptmxmode={master:03o}"), master))
}
