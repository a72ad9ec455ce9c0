//! Names under fuzz: the same random changes below a private layer and in a real directory of the host,
//! which is the oracle.

use crate::io::KernelSrc;
use crate::tests::{HostDir, World};
use crate::{Cred, ops};
use alloc::format;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::string::{String, ToString};
use std::vec::Vec;
use uapi::{Errno, Result};

/// Components of paths; few, so that they collide.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "link", "up"];

/// An image of any bytes.
pub fn image(data: &[u8]) {
    crate::erofs::visit(data.to_vec());
}

/// Random bytes as decisions.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// A path of one to three names.
    fn path(&mut self) -> Option<String> {
        let byte = self.next()?;
        let count = 1 + byte % 3;
        let mut path = String::new();
        for _ in 0..count {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(NAMES[usize::from(self.next()?) % NAMES.len()]);
        }
        Some(path)
    }
}

/// The initial files.
fn plant(root: &Path) -> std::io::Result<()> {
    fs::create_dir_all(root.join("a/b"))?;
    fs::create_dir_all(root.join("d"))?;
    fs::write(root.join("a/c"), "one")?;
    fs::write(root.join("a/b/d"), "two")?;
    fs::write(root.join("c"), "three")?;
    symlink("a/b", root.join("link"))?;
    symlink("../c", root.join("a/link"))?;
    symlink("nowhere", root.join("a/up"))
}

/// The host's way of one change; the error's number or 0.
fn on_host(outcome: std::io::Result<()>) -> i32 {
    outcome.map_or_else(|error| error.raw_os_error().unwrap_or(-1), |()| 0)
}

fn in_layer<T>(outcome: Result<T>) -> i32 {
    outcome.map_or_else(|error| error.code() as i32, |_| 0)
}

/// All files below a directory of the host, in a fixed order.
fn host_list(root: &Path, at: &str, out: &mut Vec<String>) {
    let mut names: Vec<PathBuf> =
        fs::read_dir(root.join(at)).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    names.sort();
    for path in names {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        assert!(!meta.file_type().is_socket());
        if meta.is_dir() {
            out.push(format!("{name}/"));
            host_list(root, &name, out);
        } else if meta.is_symlink() {
            out.push(format!("{name} -> {}", fs::read_link(&path).unwrap_or_default().display()));
        } else {
            out.push(format!("{name} {} {:?}", meta.nlink(), fs::read(&path).unwrap_or_default()));
        }
    }
}

fn layer_list(world: &World, at: &str, out: &mut Vec<String>) {
    let prefix = at.strip_prefix("/h").unwrap_or(at).trim_start_matches('/').to_string();
    for name in world.list(at) {
        if name == "." || name == ".." {
            continue;
        }
        let path = format!("{at}/{name}");
        let shown = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        let Ok(found) = world.walk().resolve(world.tree.root(), path.as_bytes(), false) else {
            out.push(format!("{shown} is listed but not found"));
            continue;
        };
        let attr = found.inode().attr().expect("attributes of a file that exists");
        match attr.mode & 0o170000 {
            0o040000 => {
                out.push(format!("{shown}/"));
                layer_list(world, &path, out);
            }
            0o120000 => {
                let target = found.inode().readlink().expect("a link has a target");
                out.push(format!("{shown} -> {}", String::from_utf8_lossy(&target)));
            }
            _ => {
                let content = crate::tests::content(&**found.inode()).unwrap_or_default();
                out.push(format!("{shown} {} {content:?}", attr.nlink));
            }
        }
    }
}

/// Runs one input.
///
/// # Panics
/// When the layer and the host disagree.
pub fn names(data: &[u8]) {
    let host = HostDir::new("fuzz");
    let model = host.root.with_extension("model");
    let _ = fs::remove_dir_all(&model);
    plant(&host.root).and_then(|()| plant(&model)).expect("room for a few files");
    let world = World::new(host);
    let mut choices = Choices(data);
    let mut step = 0;
    while let Some(kind) = choices.next() {
        step += 1;
        if step > 64 || change(&world, &model, kind, &mut choices).is_none() {
            break;
        }
    }
    let (mut left, mut right) = (Vec::new(), Vec::new());
    host_list(&model, "", &mut left);
    layer_list(&world, "/h", &mut right);
    left.sort();
    right.sort();
    assert_eq!(left, right, "the trees differ");
    fs::remove_dir_all(&model).expect("the model is ours");
    assert!(world.end(), "parts of the tree keep each other alive");
}

/// link(2): of a symbolic link itself.
fn link(world: &World, old: &str, new: &str) -> Result<()> {
    let file = world.walk().resolve(world.tree.root(), old.as_bytes(), false)?;
    ops::link(&file, &world.parent(new)?, &Cred::ROOT)
}

/// Appends a byte.
fn append(world: &World, path: &str) -> Result<()> {
    let file = world.get(path)?;
    let attr = file.inode().attr()?;
    if attr.mode & 0o170000 == 0o040000 {
        return Err(Errno::EISDIR);
    }
    file.inode().write_at(attr.size, &mut KernelSrc(b"+")).map(drop)
}

/// One change on both sides. `None` at the end of the input.
fn change(world: &World, model: &Path, kind: u8, choices: &mut Choices<'_>) -> Option<()> {
    let path = choices.path()?;
    let (layer, host) = (format!("/h/{path}"), model.join(&path));
    let (expected, got) = match kind % 7 {
        0 => (on_host(fs::create_dir(&host)), in_layer(world.mkdir(&layer))),
        1 => (on_host(fs::remove_dir(&host)), in_layer(world.rmdir(&layer))),
        2 => (on_host(fs::remove_file(&host)), in_layer(world.unlink(&layer))),
        3 => {
            let target = choices.path()?;
            (on_host(symlink(&target, &host)), in_layer(world.symlink(&target, &layer)))
        }
        4 => {
            let to = choices.path()?;
            let host = fs::rename(&host, model.join(&to));
            (on_host(host), in_layer(world.rename(&layer, &format!("/h/{to}"))))
        }
        5 => {
            let to = choices.path()?;
            let host = fs::hard_link(&host, model.join(&to));
            (on_host(host), in_layer(link(world, &layer, &format!("/h/{to}"))))
        }
        _ => {
            let host = fs::File::options().append(true).open(&host).and_then(|mut file| {
                use std::io::Write;
                file.write_all(b"+")
            });
            (on_host(host), in_layer(append(world, &layer)))
        }
    };
    assert_eq!(expected, got, "step {}: {layer}", kind % 7);
    Some(())
}
