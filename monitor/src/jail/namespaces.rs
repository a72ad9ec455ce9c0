//! Namespaces: restrict which host files the process can name.
//!
//! The process gets a new root: a small tmpfs mounted over the host's. It contains the granted directories and files,
//! each as a separate mount, and the directory of the process's descriptors. The host's tree stays mounted below:
//! detaching it would wait for a grace period at every start.
//!
//! This requires CAP_SYS_ADMIN over the host's mounts, which root has. An ordinary user could get it in a user
//! namespace, but there the files of other users have the overflow id: see the decision.
#![allow(unsafe_code)]

use super::rights::check;
use crate::connectors::files::ExportConfig;
use libc::{c_char, c_int, c_long, c_uint};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::ffi::CStr;
use std::io::{Error, Result};

/// Of linux/mount.h.
const OPEN_TREE_CLONE: c_uint = 1;
const OPEN_TREE_CLOEXEC: c_uint = libc::O_CLOEXEC as c_uint;
const AT_RECURSIVE: c_uint = 0x8000;
const AT_EMPTY_PATH: c_uint = libc::AT_EMPTY_PATH as c_uint;
const MOVE_MOUNT_F_EMPTY_PATH: c_uint = 4;
const MOVE_MOUNT_T_EMPTY_PATH: c_uint = 0x40;
const FSOPEN_CLOEXEC: c_uint = 1;
const FSMOUNT_CLOEXEC: c_uint = 1;
const FSCONFIG_SET_STRING: c_uint = 1;
const FSCONFIG_CMD_CREATE: c_uint = 6;
const MOUNT_ATTR_RDONLY: u64 = 1;
const MOUNT_ATTR_NOSUID: u64 = 2;
const MOUNT_ATTR_NODEV: u64 = 4;
const MOUNT_ATTR_NOEXEC: u64 = 8;

/// `struct mount_attr`.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Directory of the process's own descriptors.
const DESCRIPTORS: &CStr = c"/proc/self/fd";

fn descriptor(result: c_long) -> Result<OwnedFd> {
    match result {
        // SAFETY: the calls that this is used for return a new descriptor, which has no other owner.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(result as c_int) }),
        _ => Err(Error::last_os_error()),
    }
}

fn done(result: c_long) -> Result<()> {
    check(result).map_err(|()| Error::last_os_error())
}

/// Clones a mount at a path, with all mounts beneath it if `flags` say so.
pub(super) fn clone_mount(dir: BorrowedFd<'_>, path: &CStr, flags: c_uint) -> Result<OwnedFd> {
    let flags = flags | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
    // SAFETY: the path lives across the call.
    descriptor(unsafe { libc::syscall(libc::SYS_open_tree, dir.as_raw_fd(), path.as_ptr(), flags) })
}

/// Restricts a mount and those beneath it: by `attributes`, noexec and nodev.
pub(super) fn set_attributes(mount: &OwnedFd, attributes: u64) -> Result<()> {
    let attributes = MountAttr {
        set: attributes | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
        clear: 0,
        // Mounts of the host propagate into it, not the other way.
        propagation: libc::MS_SLAVE,
        user_namespace: 0,
    };
    // SAFETY: the structure and the path live across the call.
    done(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            AT_EMPTY_PATH | AT_RECURSIVE,
            &raw const attributes,
            size_of::<MountAttr>(),
        )
    })
}

/// The mount of an export, restricted to its rights.
fn export_mount(export: &ExportConfig) -> Result<OwnedFd> {
    let mount = match &export.file {
        None => clone_mount(export.dir.as_fd(), c"", AT_EMPTY_PATH | AT_RECURSIVE)?,
        Some(name) => {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&export.dir, name.as_slice(), flags, Mode::empty())?;
            clone_mount(file.as_fd(), c"", AT_EMPTY_PATH)?
        }
    };
    set_attributes(&mount, if export.writable { 0 } else { MOUNT_ATTR_RDONLY })?;
    Ok(mount)
}

/// An empty tmpfs with room for mount points.
fn empty_root() -> Result<OwnedFd> {
    // SAFETY: all texts live across the calls, and the descriptors are open.
    unsafe {
        let context = descriptor(libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), FSOPEN_CLOEXEC))?;
        let configure = |command: c_uint, key: *const c_char, value: *const c_char| {
            done(libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), command, key, value, 0))
        };
        configure(FSCONFIG_SET_STRING, c"size".as_ptr(), c"64k".as_ptr())?;
        configure(FSCONFIG_SET_STRING, c"mode".as_ptr(), c"755".as_ptr())?;
        configure(FSCONFIG_CMD_CREATE, std::ptr::null(), std::ptr::null())?;
        let attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
        descriptor(libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, attributes))
    }
}

/// Attaches a mount at a name, over an existing mount.
pub(super) fn attach(mount: &OwnedFd, dir: BorrowedFd<'_>, path: &[u8]) -> Result<()> {
    move_mount(mount, dir, &std::ffi::CString::new(path)?, 0)
}

/// Attaches a mount on `place` itself, an `O_PATH` descriptor.
pub(super) fn attach_over(mount: &OwnedFd, place: &OwnedFd) -> Result<()> {
    move_mount(mount, place.as_fd(), c"", MOVE_MOUNT_T_EMPTY_PATH)
}

fn move_mount(mount: &OwnedFd, dir: BorrowedFd<'_>, path: &CStr, flags: c_uint) -> Result<()> {
    let (from, to, flags) = (mount.as_raw_fd(), dir.as_raw_fd(), flags | MOVE_MOUNT_F_EMPTY_PATH);
    // SAFETY: the paths live across the call.
    done(unsafe { libc::syscall(libc::SYS_move_mount, from, c"".as_ptr(), to, path.as_ptr(), flags) })
}

/// Attaches the mounts beneath the new root; returns the new base directories of the exports.
fn furnish(
    root: &OwnedFd,
    descriptors: &OwnedFd,
    mounts: Vec<OwnedFd>,
    exports: &[ExportConfig],
) -> Result<Vec<OwnedFd>> {
    let mode = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
    for directory in ["proc", "proc/self", "proc/self/fd"] {
        rustix::fs::mkdirat(root, directory, mode)?;
    }
    attach(descriptors, root.as_fd(), b"proc/self/fd")?;
    let place = |(mount, export): (OwnedFd, &ExportConfig)| {
        let mut path = export.id.to_string().into_bytes();
        rustix::fs::mkdirat(root, path.as_slice(), mode)?;
        let Some(name) = &export.file else {
            attach(&mount, root.as_fd(), &path)?;
            return Ok(mount);
        };
        // Keep the name of a file, in a separate directory.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(root, path.as_slice(), flags, Mode::empty())?;
        path.push(b'/');
        path.extend_from_slice(name);
        rustix::fs::mknodat(root, path.as_slice(), FileType::RegularFile, Mode::RUSR, 0)?;
        attach(&mount, root.as_fd(), &path)?;
        Ok(dir)
    };
    mounts.into_iter().zip(exports).map(place).collect()
}

/// Changes the root to one that contains only the exports, which are reopened, and unshares the IPC and UTS namespaces,
/// and the network namespace if `network`. Returns false, with no relevant change, if the host does not permit it.
pub fn enter(exports: &mut [ExportConfig], network: bool) -> bool {
    // If one export can't be mounted separately it would be a way out: then leave all unchanged.
    let Ok(dirs) = try_enter(exports, network) else { return false };
    exports.iter_mut().zip(dirs).for_each(|(export, dir)| export.move_to(dir));
    true
}

/// Whether the host permits these namespaces: tries it on a thread that then ends.
pub fn available() -> bool {
    let trial = std::thread::Builder::new().spawn(|| enter(&mut [], false));
    trial.is_ok_and(|thread| thread.join().unwrap_or(false))
}

fn try_enter(exports: &[ExportConfig], network: bool) -> Result<Vec<OwnedFd>> {
    // The host's mounts can be cloned only in their own mount namespace.
    let descriptors = clone_mount(CWD, DESCRIPTORS, 0)?;
    let mounts = exports.iter().map(export_mount).collect::<Result<Vec<_>>>()?;
    let root = empty_root()?;
    let spaces = libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    let network = if network { libc::CLONE_NEWNET } else { 0 };
    let everything = libc::MS_REC | libc::MS_SLAVE;
    // SAFETY: plain system calls on strings that live across them. There is no other thread to leave behind.
    unsafe {
        done(libc::unshare(spaces | network).into())?;
        done(libc::mount(c"none".as_ptr(), c"/".as_ptr(), std::ptr::null(), everything, std::ptr::null()).into())?;
    }
    let dirs = furnish(&root, &descriptors, mounts, exports)?;
    attach(&root, CWD, b"/")?;
    super::masks::cover(&root, exports, &dirs)?;
    rustix::process::fchdir(&root)?;
    rustix::process::chroot(".")?;
    Ok(dirs)
}
