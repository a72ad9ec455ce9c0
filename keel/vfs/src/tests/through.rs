//! Writable exports: changes go to the host at once.

use super::host_dir::{HostDir, append};
use super::{World, content, expire};
use crate::io::KernelSrc;
use crate::{Change, SetTime};
use abi::operation::Operation;
use abi::request::{Open, ReadDir, Unlink, Walk, Write};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use uapi::Errno;

fn world(name: &str) -> World {
    let host = HostDir::new(name);
    host.write("d/f", b"from the host");
    World::new(host)
}

#[test]
fn the_host_has_what_the_pod_wrote() {
    let w = world("t-write");
    w.mkdir("/w/new").unwrap();
    w.write("/w/new/file", b"text").unwrap();
    w.symlink("file", "/w/new/link").unwrap();
    w.link("/w/new/file", "/w/d/second").unwrap();
    assert_eq!(fs::read(w.host.root.join("new/link")).unwrap(), b"text");
    assert_eq!((w.nlink("/w/new/file"), w.read("/w/d/second").unwrap().as_str()), (2, "text"));
    w.rename("/w/new", "/w/d/moved").unwrap();
    w.write("/w/d/moved/file", b"longer text").unwrap();
    assert_eq!(fs::read(w.host.root.join("d/second")).unwrap(), b"longer text");
    assert_eq!(w.get("/w/new").unwrap_err(), Errno::ENOENT);
    assert_eq!(w.rmdir("/w/d/moved").unwrap_err(), Errno::ENOTEMPTY);
    w.unlink("/w/d/moved/link").unwrap();
    w.unlink("/w/d/moved/file").unwrap();
    w.rmdir("/w/d/moved").unwrap();
    assert_eq!(w.list("/w/d"), ["f", "second"]);
    assert!(!w.host.root.join("d/moved").exists());
}

#[test]
fn creation_is_one_trip() {
    let w = world("t-trips");
    w.get("/w/d").unwrap();
    assert_eq!(w.get("/w/d/n").unwrap_err(), Errno::ENOENT);
    // The directory's default list, which the first file that is made there asks for.
    assert!(w.get("/w/d").unwrap().inode().acl(crate::acl::Kind::Default).unwrap().is_none());
    w.host.reset();
    let n = w.create("/w/d/n", 0o100644).unwrap();
    n.inode().write_at(0, &mut KernelSrc(b"abc")).unwrap();
    assert_eq!((w.host.trips(), w.host.count(Open::NUMBER), w.host.count(Write::NUMBER)), (2, 1, 1));
    assert_eq!(n.inode().attr().unwrap().size, 3);
}

#[test]
fn unseen_names_are_created_in_one_trip() {
    let w = world("t-unseen");
    assert!(w.get("/w/d").unwrap().inode().acl(crate::acl::Kind::Default).unwrap().is_none());
    w.host.reset();
    for number in 0..4 {
        let path = std::format!("/w/d/{number}");
        drop(w.create(&path, 0o100644).unwrap());
        w.unlink(&path).unwrap();
    }
    assert_eq!((w.host.trips(), w.host.count(Open::NUMBER), w.host.count(Unlink::NUMBER)), (8, 4, 4));
    // What exists is told of in the same trip.
    w.host.write("d/there", b"x");
    w.host.reset();
    assert_eq!(w.create("/w/d/there", 0o100644).unwrap_err(), Errno::EEXIST);
    assert_eq!(w.get("/w/d/there").unwrap().inode().attr().unwrap().size, 1);
    assert_eq!((w.host.trips(), w.host.count(Open::NUMBER)), (1, 1));
    assert_eq!(w.mkdir("/w/d/there").unwrap_err(), Errno::EEXIST);
}

#[test]
fn names_stay_known_when_they_are_listed() {
    let w = world("t-listed");
    let file = w.create("/w/a", 0o100644).unwrap();
    w.link("/w/a", "/w/b").unwrap();
    expire();
    assert_eq!(w.list("/w"), ["a", "b", "d"]);
    w.unlink("/w/a").unwrap();
    w.link("/w/b", "/w/c").unwrap();
    assert_eq!(file.inode().attr().unwrap().nlink, 2);
}

#[test]
fn new_directories_are_known_to_be_empty() {
    let w = world("t-empty");
    w.host.reset();
    w.mkdir("/w/new").unwrap();
    assert_eq!(w.get("/w/new/a").unwrap_err(), Errno::ENOENT);
    w.create("/w/new/a", 0o100644).unwrap();
    w.mkdir("/w/new/b").unwrap();
    assert_eq!(w.list("/w/new"), ["a", "b"]);
    assert_eq!((w.host.count(Walk::NUMBER), w.host.count(ReadDir::NUMBER)), (0, 0));
    // Others on the host have put something in: seen when what is known is old.
    w.host.write("new/c", b"");
    expire();
    assert!(w.get("/w/new/c").is_ok());
    assert_eq!(w.list("/w/new"), ["a", "b", "c"]);
}

#[test]
fn reads_see_both_sides() {
    let w = world("t-both");
    let f = w.get("/w/d/f").unwrap();
    assert_eq!(content(&**f.inode()).unwrap(), b"from the host");
    f.inode().write_at(0, &mut KernelSrc(b"FROM")).unwrap();
    assert_eq!(content(&**f.inode()).unwrap(), b"FROM the host");
    assert_eq!(f.inode().append(&mut KernelSrc(b"!")).unwrap(), (1, 14));
    assert_eq!(content(&**f.inode()).unwrap(), b"FROM the host!");
    append(w.host.root.join("d/f"), b" more");
    expire();
    assert_eq!(content(&**f.inode()).unwrap(), b"FROM the host! more");
    f.inode().truncate(4).unwrap();
    assert_eq!(content(&**f.inode()).unwrap(), b"FROM");
    f.inode().change(&Change { mode: Some(0o640), mtime: Some(SetTime::At(1000, 5)), ..Change::default() }).unwrap();
    let attr = w.get("/w/d/f").unwrap().inode().attr().unwrap();
    assert_eq!((attr.mode & 0o777, attr.mtime, attr.mtime_ns), (0o640, 1000, 5));
}

#[test]
fn removed_files_stay_readable_while_open() {
    let w = world("t-removed");
    let f = w.get("/w/d/f").unwrap();
    let open = f.inode().clone();
    w.unlink("/w/d/f").unwrap();
    assert_eq!(content(&*open).unwrap(), b"from the host");
    assert_eq!(open.attr().unwrap().nlink, 0);
    // The name may be taken by another file.
    w.write("/w/d/f", b"other").unwrap();
    assert_eq!(content(&*open).unwrap(), b"from the host");
    assert_eq!(w.read("/w/d/f").unwrap(), "other");
}

#[test]
fn files_with_several_names_stay_reachable() {
    let w = world("t-names");
    // As git writes an object.
    w.write("/w/d/tmp", b"object").unwrap();
    w.link("/w/d/tmp", "/w/d/object").unwrap();
    w.unlink("/w/d/tmp").unwrap();
    let object = w.get("/w/d/object").unwrap();
    object.inode().change(&Change { mode: Some(0o444), ..Change::default() }).unwrap();
    assert_eq!(w.read("/w/d/object").unwrap(), "object");
    w.link("/w/d/object", "/w/second").unwrap();
    w.rename("/w/d/object", "/w/d/third").unwrap();
    w.unlink("/w/second").unwrap();
    w.link("/w/d/third", "/w/fourth").unwrap();
    w.rename("/w/d/f", "/w/d/third").unwrap();
    assert_eq!(w.read("/w/d/third").unwrap(), "from the host");
    assert_eq!((w.read("/w/fourth").unwrap().as_str(), w.nlink("/w/fourth")), ("object", 1));
    w.get("/w/fourth").unwrap().inode().change(&Change { mode: Some(0o400), ..Change::default() }).unwrap();
}

#[test]
fn a_refused_name_is_no_longer_absent() {
    let w = world("t-refused");
    w.get("/w/d").unwrap();
    w.write("/w/d/file", b"x").unwrap();
    let file = w.get("/w/d/file").unwrap();
    for name in ["dir", "file2", "link", "hard"] {
        let path = std::format!("/w/d/{name}");
        assert_eq!(w.get(&path).unwrap_err(), Errno::ENOENT);
        fs::create_dir(w.host.root.join("d").join(name)).unwrap();
        let made = match name {
            "dir" => w.mkdir(&path).map(drop),
            "file2" => w.create(&path, 0o100644).map(drop),
            "link" => w.symlink("x", &path).map(drop),
            _ => crate::ops::link(&file, &w.parent(&path).unwrap(), &crate::Cred::ROOT),
        };
        assert_eq!(made.unwrap_err(), Errno::EEXIST, "{name}");
        assert!(w.get(&path).is_ok(), "{name}");
    }
}

/// The host puts another file in the place of one that the pod knows: a change that notices it fails once, and the name leads to the
/// new file from then on, however long names are believed.
#[test]
fn a_replaced_file_is_stale_once() {
    let host = HostDir::new("replaced");
    host.write("f", b"old");
    host.write("g", b"old");
    let w = World::believing(host, 1 << 60);
    let replace = |name: &str| {
        w.host.write("new", b"new file");
        fs::rename(w.host.root.join("new"), w.host.root.join(name)).unwrap();
    };
    let old = w.get("/w/f").unwrap();
    replace("f");
    assert_eq!(crate::ops::chmod(&old, 0o600, &crate::Cred::ROOT), Err(Errno::ESTALE));
    assert_ne!(
        fs::metadata(w.host.root.join("f")).unwrap().permissions().mode() & 0o777,
        0o600,
        "the new file is left alone"
    );
    let new = w.get("/w/f").unwrap();
    assert!(!Rc::ptr_eq(new.inode(), old.inode()));
    crate::ops::chmod(&new, 0o640, &crate::Cred::ROOT).unwrap();
    assert_eq!(w.read("/w/f").unwrap(), "new file");
    let old = w.get("/w/g").unwrap();
    replace("g");
    assert_eq!(old.unless_stale(old.inode().open(true)).map(drop), Err(Errno::ESTALE));
    w.get("/w/g").unwrap().inode().open(true).unwrap();
    assert_eq!(w.read("/w/g").unwrap(), "new file");
}
