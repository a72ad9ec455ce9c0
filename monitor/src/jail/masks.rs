//! Nested grants: an empty mount covers the place of each inner grant in the outer export, so that the host's kernel
//! denies access to it even if the monitor is compromised. The inner grant is reached only through its own mount, with
//! its own rights.
//!
//! A mount point also can't be renamed (EBUSY), and moves along if the host renames the directories above. A place that
//! does not exist on the host can't be mounted over; there only the monitor's own checks apply.

use super::namespaces::{attach, attach_over, clone_mount, set_attributes};
use crate::connectors::files::ExportConfig;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use std::ffi::CString;
use std::io::{Error, Result};

/// Directory in the process's root with the empty directories and files.
const DIRECTORY: &str = "covered";

const MOUNT_ATTR_RDONLY: u64 = 1;

/// Covers the places of the exports. `dirs` are their directories in the process's root, which is mounted at `root`.
pub fn cover(root: &OwnedFd, exports: &[ExportConfig], dirs: &[OwnedFd]) -> Result<()> {
    let mut number = 0;
    for (export, dir) in exports.iter().zip(dirs) {
        for path in export.covered_places() {
            if number == 0 {
                rustix::fs::mkdirat(root, DIRECTORY, Mode::RWXU)?;
            }
            if cover_one(root, dir, path, number)? {
                number += 1;
            }
        }
    }
    Ok(())
}

/// Covers one place; false if it does not exist any more.
fn cover_one(root: &OwnedFd, dir: &OwnedFd, path: &[u8], number: usize) -> Result<bool> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    use rustix::io::Errno;
    let place = match rustix::fs::openat2(dir, path, flags, Mode::empty(), beneath) {
        Ok(place) => place,
        // The host removed it since the export was opened.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let empty = format!("{DIRECTORY}/{number}");
    match FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode) {
        FileType::Directory => rustix::fs::mkdirat(root, &empty, Mode::from_raw_mode(0o555))?,
        // A symbolic link can't be a mount point, and has no content of its own.
        FileType::Symlink => return Ok(false),
        _ => rustix::fs::mknodat(root, &empty, FileType::RegularFile, Mode::from_raw_mode(0o444), 0)?,
    }
    let empty = CString::new(empty).map_err(Error::other)?;
    let (mask, second) = (clone_mount(root.as_fd(), &empty, 0)?, clone_mount(root.as_fd(), &empty, 0)?);
    set_attributes(&mask, MOUNT_ATTR_RDONLY)?;
    set_attributes(&second, MOUNT_ATTR_RDONLY)?;
    // Keep the covered file mounted below another mask, out of reach, so that its inode number is not reused even if
    // the host removes it.
    let covered = clone_mount(place.as_fd(), c"", libc::AT_EMPTY_PATH as libc::c_uint)?;
    attach(&covered, root.as_fd(), empty.as_bytes())?;
    attach(&second, root.as_fd(), empty.as_bytes())?;
    attach_over(&mask, &place)?;
    Ok(true)
}
