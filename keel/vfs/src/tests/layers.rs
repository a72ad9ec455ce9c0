//! Overlay mounts: what is seen of the layers, what changes leave in the upper one, and that nothing of it remains.

use super::World;
use crate::inode::{Change, SetTime};
use crate::io::KernelSrc;
use crate::mount::{FileSystem, Loose, change, flags};
use crate::overlay::{Layers, Merged, Mounter, Overlay};
use crate::{NewNode, PathRef, ops};
use std::rc::Rc;
use std::vec::Vec;
use uapi::{Errno, Result};

fn root_user() -> Mounter {
    Mounter { uid: 0, gid: 0, groups: Vec::new(), caps: u64::MAX, ids: None }
}

fn overlay(w: &World, lower: &[&str], upper: bool) -> Result<(Rc<Merged>, bool)> {
    let lower = lower.iter().map(|path| w.get(path)).collect::<Result<Vec<_>>>()?;
    let upper = if upper { Some((w.get("/u")?, w.get("/wd")?)) } else { None };
    Overlay::root(77, &Layers { lower, upper, user_attributes: false }, root_user())
}

/// Mounts an overlay at a place.
fn mount(w: &World, at: &str, lower: &[&str], upper: bool) -> Result<()> {
    let (root, is_writable) = overlay(w, lower, upper)?;
    let fs = FileSystem::new(root, "overlay");
    fs.set_read_only(!is_writable);
    let tree = Loose::of(&fs, Rc::from(&b"overlay"[..]), flags::RELATIME)?;
    change::mount(tree, &w.get(at)?.covered())
}

fn unmount(w: &World, at: &str) {
    let mount = w.get(at).unwrap().mount().clone();
    change::unmount(&mount, true, 1).unwrap();
}

/// Two lower layers, an upper one, and the overlay of them at `/m`.
fn world(name: &str) -> World {
    let w = World::new(super::HostDir::new(name));
    for dir in ["/a", "/b", "/u", "/wd", "/m", "/a/both", "/b/both", "/b/dir", "/b/dir/deep"] {
        w.mkdir(dir).unwrap();
    }
    for (path, content) in [
        ("/a/file", "in a"),
        ("/b/file", "in b"),
        ("/b/low", "low"),
        ("/a/both/one", "1"),
        ("/b/both/two", "2"),
        ("/b/dir/deep/x", "x"),
    ] {
        w.write(path, content.as_bytes()).unwrap();
    }
    w.symlink("low", "/b/link").unwrap();
    mount(&w, "/m", &["/a", "/b"], true).unwrap();
    w
}

fn is_whiteout(w: &World, path: &str) -> bool {
    let attr = w.get(path).unwrap().inode().attr().unwrap();
    attr.mode & 0o170000 == 0o020000 && attr.rdev == 0
}

fn opaque(w: &World, path: &str) -> bool {
    w.get(path).unwrap().inode().get_xattr(b"trusted.overlay.opaque").is_ok_and(|value| value == b"y")
}

#[test]
fn layers_are_merged() {
    let w = world("layers-merged");
    assert_eq!(w.list("/m"), ["both", "dir", "file", "link", "low"]);
    assert_eq!(w.list("/m/both"), ["one", "two"]);
    assert_eq!(w.read("/m/file").unwrap(), "in a");
    assert_eq!(w.read("/m/link").unwrap(), "low");
    assert_eq!(w.nlink("/m/both"), 1);
    let numbers = |path: &str| w.get(path).unwrap().inode().attr().map(|attr| (attr.dev, attr.ino)).unwrap();
    assert_eq!(numbers("/m/low").0, 77);
    let low = numbers("/m/low");
    w.write("/m/low", b"changed").unwrap();
    crate::mount::shrink(crate::dentry::unused::Share::All);
    assert_eq!(numbers("/m/low"), low);
    let root = w.get("/m").unwrap();
    for entry in root.inode().readdir().unwrap().iter() {
        assert_eq!(root.lookup(entry.name, &[], false).unwrap().inode().attr().unwrap().ino, entry.ino);
    }
    drop(root);
    assert!(w.end());
}

#[test]
fn changes_go_to_the_upper_layer() {
    let w = world("layers-changes");
    let before = w.get("/b/dir/deep/x").unwrap().inode().attr().unwrap();
    let file = w.get("/m/dir/deep/x").unwrap();
    file.inode().set_xattr(b"user.name", b"value", 0).unwrap();
    assert_eq!((w.list("/u"), w.list("/u/dir/deep")), (std::vec!["dir".into()], std::vec!["x".into()]));
    let after = w.get("/u/dir/deep/x").unwrap().inode().attr().unwrap();
    assert_eq!((after.mtime, after.mtime_ns, after.mode), (before.mtime, before.mtime_ns, before.mode));
    file.inode().append(&mut KernelSrc(b"yz")).unwrap();
    assert_eq!((w.read("/m/dir/deep/x").unwrap(), w.read("/b/dir/deep/x").unwrap()), ("xyz".into(), "x".into()));
    assert_eq!(w.get("/u/dir/deep/x").unwrap().inode().get_xattr(b"user.name").unwrap(), b"value");
    assert_eq!(file.inode().list_xattrs().unwrap(), b"user.name\0");
    let times = Change { atime: Some(SetTime::At(1, 2)), mtime: Some(SetTime::At(3, 4)), ..Change::default() };
    w.get("/m/both").unwrap().inode().change(&times).unwrap();
    assert_eq!(w.get("/u/both").unwrap().inode().attr().unwrap().mtime, 3);
    assert_eq!(w.list("/m/both"), ["one", "two"]);
    assert!(w.list("/wd/work").is_empty());
    assert!(w.end());
}

#[test]
fn removed_names_leave_whiteouts() {
    let w = world("layers-removed");
    w.unlink("/m/file").unwrap();
    assert_eq!(w.get("/m/file").unwrap_err(), Errno::ENOENT);
    assert!(is_whiteout(&w, "/u/file"));
    assert_eq!(w.rmdir("/m/both"), Err(Errno::ENOTEMPTY));
    w.unlink("/m/both/one").unwrap();
    w.unlink("/m/both/two").unwrap();
    w.rmdir("/m/both").unwrap();
    assert!(is_whiteout(&w, "/u/both"));
    assert_eq!(w.list("/m"), ["dir", "link", "low"]);
    w.mkdir("/m/both").unwrap();
    assert!(opaque(&w, "/u/both") && w.list("/m/both").is_empty());
    w.write("/m/file", b"new").unwrap();
    w.unlink("/m/file").unwrap();
    assert!(is_whiteout(&w, "/u/file"));
    w.write("/m/own", b"own").unwrap();
    w.unlink("/m/own").unwrap();
    assert_eq!(w.list("/u"), ["both", "file"]);
    // A link in the place of a whiteout.
    w.link("/m/low", "/m/file").unwrap();
    assert_eq!((w.read("/m/file").unwrap(), w.nlink("/m/low")), ("low".into(), 2));
    assert!(w.list("/wd/work").is_empty());
    assert!(w.end());
}

#[test]
fn names_move() {
    let w = world("layers-move");
    assert_eq!(w.rename("/m/dir", "/m/other"), Err(Errno::EXDEV));
    w.rename("/m/low", "/m/moved").unwrap();
    assert!(is_whiteout(&w, "/u/low"));
    assert_eq!(w.read("/m/moved").unwrap(), "low");
    w.rename("/m/moved", "/m/low").unwrap();
    assert_eq!((w.list("/m").len(), w.list("/u").len()), (5, 1));
    w.mkdir("/m/new").unwrap();
    w.write("/m/new/in", b"in").unwrap();
    w.unlink("/m/dir/deep/x").unwrap();
    w.rmdir("/m/dir/deep").unwrap();
    // Onto a directory of a lower layer, which is empty in the overlay.
    w.rename("/m/new", "/m/dir").unwrap();
    assert!(opaque(&w, "/u/dir"));
    assert_eq!((w.list("/m/dir"), w.read("/m/dir/in").unwrap()), (std::vec!["in".into()], "in".into()));
    w.rename2("/m/dir", "/m/file", ops::RENAME_EXCHANGE).unwrap();
    assert_eq!((w.read("/m/file/in").unwrap(), w.read("/m/dir").unwrap()), ("in".into(), "in a".into()));
    assert_eq!(w.rename2("/m/dir", "/m/low", ops::RENAME_NOREPLACE), Err(Errno::EEXIST));
    assert!(w.end());
}

#[test]
fn a_layer_of_the_host_is_read() {
    let host = super::HostDir::new("layers-host");
    host.write("deep/name", b"host");
    let w = World::new(host);
    for dir in ["/u", "/wd", "/m", "/n"] {
        w.mkdir(dir).unwrap();
    }
    mount(&w, "/m", &["/w"], true).unwrap();
    assert_eq!(w.read("/m/deep/name").unwrap(), "host");
    w.write("/m/deep/name", b"mine").unwrap();
    w.unlink("/m/deep/name").unwrap();
    w.rmdir("/m/deep").unwrap();
    assert_eq!(w.read("/w/deep/name").unwrap(), "host");
    mount(&w, "/n", &["/u", "/h"], false).unwrap();
    assert!(!w.list("/n").contains(&"deep".into()));
    let new = NewNode::plain(0o100644, 0, 0);
    assert_eq!(ops::create(&w.parent("/n/x").unwrap(), &new, &crate::Cred::ROOT).unwrap_err(), Errno::EROFS);
    assert!(w.end());
}

#[test]
fn layers_must_go_together() {
    let w = world("layers-refused");
    let make = |lower: &[&str], upper| overlay(&w, lower, upper).map(drop).unwrap_err();
    assert_eq!(make(&["/a"], false), Errno::EINVAL);
    assert_eq!(make(&[], true), Errno::EINVAL);
    assert_eq!(make(&["/a", "/a"], true), Errno::ELOOP);
    assert_eq!(make(&["/b", "/b/dir/deep"], false), Errno::ELOOP);
    assert_eq!(make(&["/a/file"], true), Errno::EINVAL);
    // Overlays in overlays, but no deeper, and not as upper layers.
    w.mkdir("/n").unwrap();
    mount(&w, "/n", &["/m", "/h"], false).unwrap();
    assert_eq!(w.read("/n/file").unwrap(), "in a");
    assert_eq!(make(&["/n", "/a"], false), Errno::EINVAL);
    let place = |path: &str| -> PathRef { w.get(path).unwrap() };
    let upper = Some((place("/m/both"), place("/m/dir")));
    let layers = Layers { lower: std::vec![place("/h")], upper, user_attributes: false };
    assert_eq!(Overlay::root(78, &layers, root_user()).unwrap_err(), Errno::EINVAL);
    drop(layers);
    unmount(&w, "/n");
    assert!(w.end());
}

#[test]
fn deep_trees_are_copied_and_dropped_without_recursion() {
    const DEPTH: usize = 20_000;
    let w = World::new(super::HostDir::new("layers-deep"));
    for dir in ["/a", "/u", "/wd", "/m"] {
        w.mkdir(dir).unwrap();
    }
    let mut at = w.get("/a").unwrap();
    for _ in 0..DEPTH {
        at = ops::create_in(&at, b"d", &NewNode::plain(0o040755, 0, 0), &crate::Cred::ROOT).unwrap();
    }
    mount(&w, "/m", &["/a"], true).unwrap();
    let mut at = w.get("/m").unwrap();
    for _ in 0..DEPTH {
        at = at.lookup(b"d", &[], false).unwrap();
    }
    let inode = at.inode().clone();
    drop(at);
    inode.change(&Change { mode: Some(0o700), ..Change::default() }).unwrap();
    assert_eq!(w.list("/u"), ["d"]);
    drop(inode);
    unmount(&w, "/m");
    assert!(w.end());
}
