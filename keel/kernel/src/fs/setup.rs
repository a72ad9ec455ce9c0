//! The tree of files at the start of the first program.

use super::host::Monitor;
use crate::file::spare;
use crate::mm::reclaim;
use crate::task::pidns::PidNs;
use crate::task::{FsContext, mountns};
use abi::boot::PodConfig;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use hal::cell::Global;
use uapi::{Errno, Result};
use vfs::attr::makedev;
use vfs::erofs::Image;
use vfs::host::{Export, FIXED_NS, FRESH_NS, Host, HostNode, Opening, SETTLED_NS};
use vfs::mount::{FileSystem, flags};
use vfs::node::{Node, Private, Space};
use vfs::tree::Tree;
use vfs::walk::{Component, Walk};
use vfs::{Cred, Inode, NewNode};

static TREE: Global<RefCell<Option<Rc<Tree>>>> = Global::new(RefCell::new(None));
static HOST: Global<RefCell<Option<Rc<Host>>>> = Global::new(RefCell::new(None));

/// The pod's tree.
///
/// # Panics
/// Before [`init`].
pub fn tree() -> Rc<Tree> {
    match &*TREE.borrow() {
        Some(tree) => tree.clone(),
        None => unreachable!("the tree is made before the first program"),
    }
}

/// File system of files without a name (memfd_create(2), shared anonymous memory).
///
/// # Panics
/// Before [`init`].
pub fn memory_files() -> Rc<Private> {
    match &*MEMORY.borrow() {
        Some(files) => files.clone(),
        None => unreachable!("made with the tree"),
    }
}

/// Makes the host write back all open files of the pod.
pub fn sync_all() {
    let host = HOST.borrow().clone();
    if let Some(host) = host {
        host.sync_all();
    }
}

/// Sends gathered writes.
pub fn flush() {
    let host = HOST.borrow().clone();
    if let Some(host) = host {
        host.flush();
    }
}

/// Releases window pages of removed files; returns whether programs still map some.
pub fn tidy() -> bool {
    let host = HOST.borrow().clone();
    host.is_some_and(|host| host.tidy())
}

/// Gives up to `pages` pages of cached file content back, or names; returns how many, about.
fn shrink(pages: usize) -> usize {
    vfs::ways::clear();
    spare::release_all();
    vfs::memory::shrink(pages)
}

/// Bytes of host files that are cached in RAM.
pub fn cached_bytes() -> u64 {
    let host = HOST.borrow().clone();
    host.map_or(0, |host| (host.cached_pages() * hal::frame::FRAME_SIZE) as u64)
}

/// The room that private file systems share, if they do.
static SHARED: Global<RefCell<Option<Space>>> = Global::new(RefCell::new(None));

/// Room for a tmpfs of so many pages, or of half of the memory; within what all share, if they do.
pub fn temporary_space(pages: Option<usize>) -> Space {
    let half = usize::try_from(hal::frame::ram_usage().limit / PAGE / 2).unwrap_or(usize::MAX);
    match &*SHARED.borrow() {
        Some(shared) => pages.map_or_else(|| shared.clone(), |pages| shared.part(pages)),
        None => Space::new(pages.unwrap_or(half)),
    }
}

static MEMORY: Global<RefCell<Option<Rc<Private>>>> = Global::new(RefCell::new(None));

const PAGE: u64 = hal::frame::FRAME_SIZE as u64;

/// Files up to this size are mapped from RAM, larger ones through the window, whose pages all pods share.
const MAP_FROM_RAM: u64 = 64 << 10;
/// The same if the first touch of a window page costs six times that of a RAM page (software-nested virtualisation):
/// then libraries and interpreters are read as a whole. Small pods spare RAM nevertheless.
const MAP_FROM_RAM_SLOW: u64 = 8 << 20;

/// Builds the tree from the configuration; `pids`: the PID namespace that `/proc` shows, `None`: the first. Asks the
/// monitor, so it runs in a thread.
pub fn init(config: &PodConfig, pids: Option<Rc<PidNs>>) -> Result<Rc<Tree>> {
    let ram = hal::frame::ram_usage();
    let half = usize::try_from(ram.limit / PAGE / 2).unwrap_or(usize::MAX);
    let slow_faults = hal::ring::mode() & abi::boot::flags::SLOW_FAULTS != 0 && !hal::frame::is_small();
    let host = Host::new(Rc::new(Monitor::default()), half, if slow_faults { MAP_FROM_RAM_SLOW } else { MAP_FROM_RAM });
    if hal::ring::mode() & abi::boot::flags::NO_WINDOW != 0 {
        host.has_no_window();
    }
    HOST.replace(Some(host.clone()));
    reclaim::register(shrink);
    vfs::spare::on_release(spare::release);

    // Each file system may use half of the memory, or all together `--private-size`.
    let shared = config.private_limit.map(|bytes| Space::new(usize::try_from(bytes / PAGE).unwrap_or(usize::MAX)));
    SHARED.replace(shared.clone());
    let space = || shared.clone().unwrap_or_else(|| Space::new(half));

    // Parents before their contents.
    let mut exports: Vec<_> = config.exports.iter().collect();
    exports.sort_by_key(|e| (e.at.iter().filter(|&&b| b == b'/').count(), e.at.len()));
    let fresh_ns = |export: &abi::boot::Export| match export {
        export if export.is_image => FIXED_NS,
        export if export.settled => SETTLED_NS,
        _ => FRESH_NS,
    };
    let is_root = |export: &abi::boot::Export| trimmed(&export.at).is_empty();
    let opening = |export: &&abi::boot::Export| Opening {
        id: export.id,
        writable: export.writable && !is_root(export),
        fresh_ns: fresh_ns(export),
    };
    let openings: Vec<_> = exports.iter().map(opening).collect();
    let mut roots: BTreeMap<_, _> = openings.iter().map(|o| o.id).zip(Export::open_all(&host, &openings)?).collect();
    let mut open = |export: &abi::boot::Export| {
        let node = roots.remove(&export.id).unwrap_or(Err(Errno::EINVAL))?;
        if export.named && !export.is_image {
            node.share_locks();
        }
        Ok::<_, Errno>(node)
    };
    let over = |lower: Rc<HostNode>, export: &abi::boot::Export, dev| {
        let layer = Private::overlay(dev, space());
        Ok::<_, Errno>(if export.is_image { layer.over(Image::open(lower, dev)?) } else { layer.over(lower) })
    };
    let dev = makedev(0, 19);
    let root_export = exports.iter().position(|e| is_root(e)).map(|at| exports.remove(at));
    let root = match root_export {
        Some(export) => over(open(export)?, export, dev)?,
        None => Private::new(dev, space()).node(&NewNode::plain(0o040755, 0, 0)),
    };
    let tree = Rc::new(Tree::new(root, if root_export.is_some() { "overlay" } else { "tmpfs" })?);
    TREE.replace(Some(tree.clone()));
    mountns::set_first(tree.namespace().clone());
    MEMORY.replace(Some(Private::new(makedev(0, 1), Space::new(half))));

    let mut temporary = Temporary::new(&exports, config.container.is_some());
    for export in exports {
        temporary.attach_above(&tree, &export.at, &space)?;
        let root = open(export)?;
        let inode: Rc<dyn Inode> = if export.writable { root } else { over(root, export, tree.new_dev())? };
        let kind = if export.writable { "hull" } else { "overlay" };
        tree.attach(&export.at, inode, kind, kind, export.read_only)?;
    }
    for link in &config.links {
        tree.symlink(&link.at, &link.target)?;
    }

    temporary.attach_rest(&tree, &space)?;
    match &config.container {
        Some(container) => container_directories(&tree, container, config),
        None => standard_directories(&tree),
    }
    let pages = |bytes: u64| usize::try_from(bytes / PAGE).unwrap_or(usize::MAX);
    let sized = |bytes: Option<u64>| bytes.map_or_else(&space, |bytes| Space::new(pages(bytes)));
    super::dev::populate(&tree, space(), sized(config.rights.shm_size))?;
    if config.container.is_some() {
        super::dev::mount_queues(&tree)?;
    }
    super::proc::mount(&tree, pids)?;
    super::sys::mount(&tree)?;
    if let Some(container) = &config.container {
        for tmpfs in &container.tmpfs {
            let (uid, gid) = tmpfs.owner;
            let root = Private::new(tree.new_dev(), sized(tmpfs.size));
            let root = root.node(&NewNode::plain(0o040000 | tmpfs.mode, uid, gid));
            let place = tree.attach(&tmpfs.at, root, "tmpfs", "tmpfs", tmpfs.read_only)?;
            let wanted = tmpfs.flags & (flags::NO_SUID | flags::NO_DEV | flags::NO_EXEC);
            place.mount().set_flags(place.mount().flags() | wanted)?;
        }
    }
    network_files(&tree, config, &space);
    given(&tree, config, &space);
    if let Some(container) = config.container.as_ref().filter(|container| container.read_only) {
        // Volumes stay writable, as with docker. What is no directory, or in one of the host, stays as it is.
        for path in &container.directories {
            let _ = volume(&tree, path);
        }
        tree.seal();
    }
    Ok(tree)
}

/// Directories that every container has: mount points, those of its configuration, and its working directory.
fn container_directories(tree: &Rc<Tree>, container: &abi::boot::Container, config: &PodConfig) {
    let named = container.directories.iter().map(|path| &path[..]);
    let fixed = [&b"/etc"[..], b"/proc", b"/sys", b"/dev"];
    for path in fixed.into_iter().chain(named).chain([&config.cwd[..]]) {
        // What is there stays, whatever it is. The first program fails without its working directory.
        let _ = tree.make_dirs(path);
    }
    let _ = make_private(tree, b"/tmp", &NewNode::plain(0o041777, 0, 0));
}

/// Makes a directory of the root a mount of its own, with what it has. EBUSY, ENOENT, ENOTDIR.
fn volume(tree: &Rc<Tree>, path: &[u8]) -> Result<()> {
    let place = tree.make_dirs(path)?;
    if !Rc::ptr_eq(place.mount(), tree.root().mount()) {
        // A mount is there, or above.
        return Ok(());
    }
    let kind = place.mount().fs().kind;
    tree.attach_at(&place, FileSystem::new(place.inode().clone(), kind), kind, false).map(drop)
}

/// The content of a file of the tree, at most `most` bytes of it; nothing if it can't be read.
pub fn small_file(tree: &Rc<Tree>, path: &[u8], most: usize) -> Vec<u8> {
    let read = || {
        let place = Walk::new(tree.root().clone(), Cred::ROOT).resolve(tree.root(), path, true)?;
        let size = usize::try_from(place.inode().attr()?.size).unwrap_or(usize::MAX);
        let mut bytes = vfs::memory::buffer(size.min(most))?;
        let read = place.inode().read_at(0, &mut vfs::io::KernelDst(&mut bytes))?;
        bytes.truncate(read);
        Ok::<_, Errno>(bytes)
    };
    read().unwrap_or_default()
}

/// The first process's context, with the configured directory. A default directory may be missing: then the root is
/// used. ENOENT, ENOTDIR, EACCES.
pub fn first_context(tree: &Rc<Tree>, config: &PodConfig) -> Result<Rc<FsContext>> {
    let caps = if config.uid == 0 { u64::MAX } else { 0 };
    let cred = Cred { uid: config.uid, gid: config.gid, groups: &config.groups, caps, domain: None, ids: None };
    let found = Walk::new(tree.root().clone(), cred).resolve(tree.root(), &config.cwd, true);
    let found = found.and_then(|place| match place.inode().file_type() {
        vfs::FileType::Directory => cred.check(&**place.inode(), vfs::cred::MAY_EXEC).map(|()| place),
        _ => Err(Errno::ENOTDIR),
    });
    let cwd = match found {
        Err(errno) if config.cwd_named => return Err(errno),
        found => found.unwrap_or_else(|_| tree.root().clone()),
    };
    Ok(FsContext::new(tree.root().clone(), cwd, config.umask))
}

/// A path without its slashes at both ends.
fn trimmed(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|&b| b != b'/').unwrap_or(path.len());
    let end = path.iter().rposition(|&b| b != b'/').map_or(start, |i| i + 1);
    &path[start..end]
}

/// Directories that get a file system of their own, with their modes: those that are not there yet.
struct Temporary(Vec<(&'static [u8], u32)>);

impl Temporary {
    /// All but those that exports bring. A container has its own.
    fn new(exports: &[&abi::boot::Export], is_container: bool) -> Self {
        let mut places: Vec<(&[u8], u32)> = match is_container {
            true => Vec::new(),
            false => alloc::vec![(b"tmp", 0o1777), (b"var/tmp", 0o1777), (b"run", 0o755)],
        };
        places.retain(|(path, _)| exports.iter().all(|export| trimmed(&export.at) != *path));
        Self(places)
    }

    /// Attaches the exports that contain `place` first: they must not hide a later mount.
    fn attach_above(&mut self, tree: &Rc<Tree>, place: &[u8], space: &dyn Fn() -> Space) -> Result<()> {
        let is_above = |path: &[u8]| trimmed(place).strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/"));
        while let Some(at) = self.0.iter().position(|(path, _)| is_above(path)) {
            let (path, mode) = self.0.swap_remove(at);
            attach_tmpfs(tree, path, mode, space())?;
        }
        Ok(())
    }

    fn attach_rest(self, tree: &Rc<Tree>, space: &dyn Fn() -> Space) -> Result<()> {
        self.0.into_iter().try_for_each(|(path, mode)| attach_tmpfs(tree, path, mode, space()))
    }
}

fn attach_tmpfs(tree: &Rc<Tree>, path: &[u8], mode: u32, space: Space) -> Result<()> {
    let path = [b"/", path].concat();
    if is_link(tree, &path) {
        return Ok(());
    }
    let root: Rc<Node> = Private::new(tree.new_dev(), space).node(&NewNode::plain(0o040000 | mode, 0, 0));
    match tree.attach(&path, root, "tmpfs", "tmpfs", false) {
        // It would be in a host directory that is passed through.
        Err(Errno::EBUSY) => Ok(()),
        attached => attached.map(|_| ()),
    }
}

/// Directories that programs expect: mount points, homes of links.
fn standard_directories(tree: &Rc<Tree>) {
    for (path, mode) in [
        (&b"/etc"[..], 0o755),
        (b"/proc", 0o755),
        (b"/sys", 0o755),
        (b"/root", 0o700),
        (b"/home", 0o755),
        (b"/mnt", 0o755),
    ] {
        // An existing file or dangling link stays.
        let _ = tree.make_dirs_mode(path, mode);
    }
    for (path, mode) in USUAL {
        let _ = make_private(tree, path, &NewNode::plain(0o040000 | mode, 0, 0));
    }
    for (path, target) in [(&b"/var/run"[..], &b"/run"[..]), (b"/var/lock", b"/run/lock")] {
        let _ = make_private(tree, path, &NewNode { target, ..NewNode::plain(0o120777, 0, 0) });
    }
}

/// Standard directories of the FHS, parents first.
const USUAL: [(&[u8], u32); 14] = [
    (b"/media", 0o755),
    (b"/srv", 0o755),
    (b"/run/lock", 0o1777),
    (b"/var", 0o755),
    (b"/var/backups", 0o755),
    (b"/var/cache", 0o755),
    (b"/var/lib", 0o755),
    (b"/var/lib/misc", 0o755),
    (b"/var/local", 0o755),
    (b"/var/log", 0o755),
    (b"/var/mail", 0o755),
    (b"/var/opt", 0o755),
    (b"/var/spool", 0o755),
    (b"/var/www", 0o755),
];

/// Creates a missing file, unless it would be created on the host. EEXIST, ENOENT, EROFS.
fn make_private(tree: &Rc<Tree>, path: &[u8], new: &NewNode<'_>) -> Result<vfs::PathRef> {
    let parent = Walk::new(tree.root().clone(), Cred::ROOT).parent(tree.root(), path)?;
    if parent.dir.inode().as_any().downcast_ref::<Node>().is_none() {
        return Err(Errno::EROFS);
    }
    vfs::ops::create(&parent, new, &Cred::ROOT)
}

/// Creates configured files: directories that the host's software expects, and replacements of files that pods must not
/// see.
fn given(tree: &Rc<Tree>, config: &PodConfig, space: &dyn Fn() -> Space) {
    for given in &config.given {
        let kind = if given.content.is_some() { 0o100000 } else { 0o040000 };
        let new = NewNode::plain(kind | given.mode & 0o7777, given.uid, given.gid);
        // A pod without one of them still runs.
        let Some(content) = &given.content else {
            let _ = make_private(tree, &given.at, &new);
            continue;
        };
        let _ = put_file(tree, &given.at, &new, content, config.container.as_ref().map(|_| space));
    }
}

/// Puts a file in the place of what a private directory has under this path. What lies below is not looked at. In a directory of
/// the host it is mounted instead, if there is `space` for that. EROFS: there is none; EBUSY: something is mounted there.
fn put_file(
    tree: &Rc<Tree>,
    path: &[u8],
    new: &NewNode<'_>,
    content: &[u8],
    space: Option<&dyn Fn() -> Space>,
) -> Result<()> {
    let place = Walk::new(tree.root().clone(), Cred::ROOT).parent(tree.root(), path)?;
    let Component::Normal(name) = &place.last else { return Err(Errno::EISDIR) };
    let write = |file: &Node| file.write_at(0, &mut vfs::io::KernelSrc(content)).map(drop);
    let Some(parent) = place.dir.inode().as_any().downcast_ref::<Node>() else {
        let there = Walk::new(tree.root().clone(), Cred::ROOT).resolve(tree.root(), path, false);
        if there.is_ok_and(|there| !Rc::ptr_eq(there.mount(), place.dir.mount())) {
            return Err(Errno::EBUSY);
        }
        let file = Private::new(tree.new_dev(), space.ok_or(Errno::EROFS)?()).node(new);
        write(&file)?;
        return tree.attach(path, file, "tmpfs", "tmpfs", false).map(drop);
    };
    let file = match parent.put_over(name, new) {
        Err(Errno::EEXIST) => {
            vfs::ops::unlink(&place, &Cred::ROOT)?;
            parent.put_over(name, new)?
        }
        made => made?,
    };
    place.dir.forget(name);
    write(&file)
}

fn is_link(tree: &Rc<Tree>, path: &[u8]) -> bool {
    let walk = Walk::new(tree.root().clone(), Cred::ROOT);
    walk.resolve(tree.root(), path, false).is_ok_and(|p| p.inode().file_type() == vfs::FileType::Symlink)
}

/// Host names of the pod and others, for resolver libraries. The host's files of these names are covered, not changed; with a
/// pass-through export its own files stay, but in a container they are covered by mounts, as with docker.
fn network_files(tree: &Rc<Tree>, config: &PodConfig, space: &dyn Fn() -> Space) {
    let name = &config.hostname;
    let hosts =
        [b"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t", &name[..], b"\n"].concat();
    let hostname = [&name[..], b"\n"].concat();
    let files: [(&[u8], &[u8]); 3] = [
        (b"/etc/hostname", &hostname),
        (b"/etc/hosts", &hosts),
        (b"/etc/resolv.conf", b"nameserver 127.0.0.53\noptions edns0 trust-ad\n"),
    ];
    let is_given = |path: &[u8]| config.given.iter().any(|given| given.content.is_some() && given.at == path);
    for (path, content) in files.into_iter().filter(|(path, _)| !is_given(path)) {
        // A pod without one of them still runs.
        let new = NewNode::plain(0o100644, 0, 0);
        let _ = put_file(tree, path, &new, content, config.container.as_ref().map(|_| space));
    }
}
