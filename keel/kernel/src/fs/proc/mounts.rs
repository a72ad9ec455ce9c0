//! `mounts`, `mountinfo`, `mountstats`, `filesystems`.

use crate::fs::setup;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::Result;
use vfs::attr::split_dev;
use vfs::walk::Walk;
use vfs::{Cred, Mount};

/// `filesystems`.
pub const FILE_SYSTEMS: &str = "nodev\tsysfs\nnodev\ttmpfs\nnodev\tproc\nnodev\tcgroup2\nnodev\tsockfs\nnodev\tpipefs\n\
     nodev\tdevpts\nnodev\toverlay\nnodev\thull\n";

/// A name with blanks and backslashes in octal, as both tables have them.
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

fn options(mount: &Mount) -> &'static str {
    if mount.read_only.get() { "ro,relatime" } else { "rw,relatime" }
}

/// `mounts`: fstab(5).
pub fn table() -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for mount in setup::tree().mounts() {
        let tail = format!(" {} {} 0 0\n", mount.kind, options(&mount));
        out.extend_from_slice(
            &[&escaped(mount.source.as_bytes())[..], b" ", &escaped(&mount.at), tail.as_bytes()].concat(),
        );
    }
    Ok(out)
}

/// Device number of the file system that is attached there; 0:0 if it is unknown.
fn device(mount: &Rc<Mount>) -> (u32, u32) {
    let tree = setup::tree();
    let place = Walk::new(tree.root().clone(), Cred::ROOT).resolve(tree.root(), &mount.at, false);
    split_dev(place.and_then(|p| p.inode().attr()).map_or(0, |attr| attr.dev))
}

/// `mountinfo`.
pub fn info() -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for mount in setup::tree().mounts() {
        let (major, minor) = device(&mount);
        let head = format!("{} {} {major}:{minor} / ", mount.id, mount.parent);
        let access = if mount.read_only.get() { "ro" } else { "rw" };
        let tail = format!(" {} - {} {} {access}\n", options(&mount), mount.kind, mount.source);
        out.extend_from_slice(&[head.as_bytes(), &escaped(&mount.at), tail.as_bytes()].concat());
    }
    Ok(out)
}

/// `mountstats`.
pub fn statistics() -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for mount in setup::tree().mounts() {
        let head = format!("device {} mounted on ", mount.source);
        let tail = format!(" with fstype {}\n", mount.kind);
        out.extend_from_slice(&[head.as_bytes(), &escaped(&mount.at), tail.as_bytes()].concat());
    }
    Ok(out)
}
