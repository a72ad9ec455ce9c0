//! Writable exports: changes go to the host at once.

use super::host_dir::{HostDir, append};
use super::{World, content, expire};
use crate::io::KernelSrc;
use crate::{Change, SetTime};
use abi::request::Op;
use std::fs;
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
    w.host.reset();
    let n = w.create("/w/d/n", 0o100644).unwrap();
    n.inode().write_at(0, &mut KernelSrc(b"abc")).unwrap();
    assert_eq!((w.host.trips(), w.host.count(Op::Open), w.host.count(Op::Write)), (2, 1, 1));
    assert_eq!(n.inode().attr().unwrap().size, 3);
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
