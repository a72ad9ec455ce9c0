//! Going through trees of the host: few trips, and the same as the host has.

use super::host_dir::HostDir;
use super::{World, expire};
use abi::operation::Operation;
use abi::request::{ListAttributes, ReadDir};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::string::String;
use std::vec::Vec;

/// 400 directories with five files each and an empty one.
fn world(name: &str) -> World {
    let host = HostDir::new(name);
    for a in 0..20 {
        for b in 0..20 {
            for f in 0..5 {
                host.write(&std::format!("t/a{a}/b{b}/f{f}"), &std::vec![b'x'; a * b + f]);
            }
            std::fs::create_dir(host.root.join(std::format!("t/a{a}/b{b}/empty"))).unwrap();
        }
    }
    World::new(host)
}

/// All paths beneath `path`, depth first, and the sizes of files if `sizes`.
fn tree(w: &World, path: &str, sizes: bool, found: &mut BTreeMap<String, u64>) {
    for entry in w.get(path).unwrap().inode().readdir().unwrap().iter() {
        let path = std::format!("{path}/{}", core::str::from_utf8(entry.name).unwrap());
        let is_dir = entry.kind == crate::FileType::Directory;
        let size = if sizes && !is_dir { w.get(&path).unwrap().inode().attr().unwrap().size } else { 0 };
        found.insert(path.clone(), size);
        if is_dir {
            tree(w, &path, sizes, found);
        }
    }
}

fn real(w: &World, sizes: bool) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut left: Vec<_> = std::vec![w.host.root.join("t")];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let m = entry.metadata().unwrap();
            let path = entry.path();
            let name = path.strip_prefix(&w.host.root).unwrap().to_str().unwrap();
            found.insert(std::format!("/h/{name}"), if sizes && !m.is_dir() { m.size() } else { 0 });
            if m.is_dir() {
                left.push(path);
            }
        }
    }
    found
}

fn check(w: &World, sizes: bool, most: usize) {
    w.host.reset();
    let mut found = BTreeMap::new();
    tree(w, "/h/t", sizes, &mut found);
    assert!(found == real(w, sizes));
    assert!(w.host.trips() <= most, "{} trips, {} of them listings", w.host.trips(), w.host.count(ReadDir::NUMBER));
}

#[test]
fn names_take_few_trips() {
    let w = world("trees-names");
    check(&w, false, 20);
    check(&w, false, 0);
    // What changed on the host comes out.
    w.host.write("t/a3/b4/new", b"new");
    std::fs::remove_dir_all(w.host.root.join("t/a5")).unwrap();
    expire();
    check(&w, false, 20);
}

#[test]
fn attributes_take_few_trips() {
    let w = world("trees-attributes");
    check(&w, true, 40);
    check(&w, true, 0);
    w.host.write("t/a3/b4/f1", &[b'y'; 1000]);
    expire();
    check(&w, true, 40);
}

#[test]
fn attributes_come_after_names() {
    let w = world("trees-both");
    check(&w, false, 20);
    check(&w, true, 90);
}

/// Looks up files by sorted paths, as git does, in directories that nobody listed.
#[test]
fn sought_directories_take_few_trips() {
    let host = HostDir::new("trees-sought");
    for d in 10..50 {
        for f in 10..60 {
            host.write(&std::format!("t/d{d}/f{f}"), b"x");
        }
    }
    let w = World::new(host);
    w.host.reset();
    for d in 10..50 {
        for f in 10..60 {
            assert_eq!(w.get(&std::format!("/h/t/d{d}/f{f}")).unwrap().inode().attr().unwrap().size, 1);
        }
    }
    assert!(w.host.trips() <= 40, "{} trips, {} of them listings", w.host.trips(), w.host.count(ReadDir::NUMBER));
}

/// Few of many names are wanted, and more that are not there.
#[test]
fn few_names_bring_no_attributes() {
    let host = HostDir::new("trees-few");
    for f in 0..1000 {
        host.write(&std::format!("t/f{f}"), b"x");
    }
    let w = World::new(host);
    w.host.reset();
    for f in [500, 3, 720, 41, 999] {
        assert!(w.get(&std::format!("/h/t/f{f}")).is_ok());
        for extension in ["so", "py", "zip", "txt"] {
            assert!(w.get(&std::format!("/h/t/f{f}.{extension}")).is_err());
        }
    }
    assert_eq!(w.host.asked_attributes(), [ListAttributes::None]);
    assert!(w.host.trips() < 25, "{} trips", w.host.trips());
}

#[test]
fn one_directory_brings_no_others() {
    let w = world("trees-one");
    w.list("/h/t");
    w.host.reset();
    w.list("/h/t");
    assert_eq!(w.host.trips(), 0);
    assert_eq!(w.list("/h/t/a0/b0").len(), 6);
}

/// What was renamed, linked, removed and replaced, by the pod and by the host, is not kept alive by itself.
#[test]
fn nothing_of_a_tree_remains() {
    let w = world("remains");
    for path in ["a/b/c", "a/d", "e/f/g"] {
        w.host.write(path, b"x");
    }
    assert!(w.read("/h/a/b/c").is_ok() && w.read("/w/e/f/g").is_ok());
    w.mkdir("/h/new").unwrap();
    w.write("/h/new/file", b"y").unwrap();
    w.link("/h/new/file", "/h/a/linked").unwrap();
    w.link("/h/a/d", "/h/new/d").unwrap();
    w.rename("/h/a/b/c", "/h/new/c").unwrap();
    w.symlink("new", "/h/link").unwrap();
    assert!(w.read("/h/link/c").is_ok());
    // With names beneath that are known.
    w.rename("/h/new", "/h/a/b/new").unwrap();
    w.unlink("/h/a/b/new/file").unwrap();
    w.unlink("/h/a/b/new/d").unwrap();
    w.unlink("/h/a/b/new/c").unwrap();
    w.rmdir("/h/a/b/new").unwrap();
    std::fs::remove_dir_all(w.host.root.join("e")).unwrap();
    expire();
    assert!(w.read("/w/e/f/g").is_err() && w.read("/h/e/f/g").is_err());
    assert!(w.end());
}
