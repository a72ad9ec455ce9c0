//! What is believed of host files after a lock was taken, under which others may have changed them.

use super::World;
use super::host_dir::HostDir;
use crate::Inode;
use crate::host::HostNode;
use crate::io::KernelDst;
use abi::operation::Operation;
use abi::request::{HandleAttr, Read};
use std::rc::Rc;
use uapi::Errno;

fn world(name: &str) -> World {
    World::new(HostDir::new(name))
}

/// The host's file of a path under `/w`, and that a lock of it was taken.
fn has_locked(w: &World, path: &str) {
    let place = w.get(path).unwrap();
    let node: &HostNode = place.inode().as_any().downcast_ref().unwrap();
    place.dentry().doubt_names_beside(node.has_locked());
}

#[test]
fn names_beside_it_are_asked_for_again() {
    let w = world("locked-names");
    w.host.write("db", b"1");
    w.host.write("journal", b"old");
    assert_eq!((w.read("/w/journal").unwrap(), w.get("/w/wal").unwrap_err()), ("old".into(), Errno::ENOENT));
    w.get("/w/db").unwrap();
    std::fs::remove_file(w.host.root.join("journal")).unwrap();
    w.host.write("wal", b"new");
    assert!(w.get("/w/journal").is_ok() && w.get("/w/wal").is_err(), "it is believed for a while");
    has_locked(&w, "/w/db");
    assert_eq!((w.get("/w/journal").unwrap_err(), w.read("/w/wal").unwrap()), (Errno::ENOENT, "new".into()));
    assert!(w.end());
}

#[test]
fn sizes_and_pages_are_asked_for_again() {
    let w = world("locked-pages");
    w.host.write("db", b"abc");
    w.host.write("other", b"abc");
    for path in ["/w/db", "/h/db", "/w/other"] {
        assert_eq!(w.read(path).unwrap(), "abc");
    }
    let place = w.get("/w/db").unwrap();
    let times = std::fs::metadata(w.host.root.join("db")).unwrap();
    // As if it was written in the same tick of the clock: size and times are what they were.
    for name in ["db", "other"] {
        let file = std::fs::File::options().write(true).open(w.host.root.join(name)).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"xyz", 0).unwrap();
        file.set_modified(times.modified().unwrap()).unwrap();
    }
    assert_eq!(w.read("/w/db").unwrap(), "abc", "it is believed for a while");
    has_locked(&w, "/w/db");
    assert_eq!((w.read("/w/db").unwrap(), w.read("/w/other").unwrap()), ("xyz".into(), "xyz".into()));
    // Once is enough.
    w.host.reset();
    assert_eq!(w.read("/w/db").unwrap(), "xyz");
    assert_eq!((w.host.count(Read::NUMBER), w.host.count(HandleAttr::NUMBER)), (0, 0));
    has_locked(&w, "/w/db");
    assert_eq!(w.read("/w/db").unwrap(), "xyz");
    assert!(w.host.calls.borrow().len() > 1, "the pages are read again although nothing seems to have changed");
    drop(place);
    assert!(w.end());
}

#[test]
fn what_is_shown_is_withdrawn() {
    let w = world("locked-shown");
    w.host.write("db", b"abc");
    let place = w.get("/w/db").unwrap();
    let inode: Rc<dyn Inode> = place.inode().clone();
    let shown = inode.shown().unwrap();
    let mut bytes = [0; 3];
    for _ in 0..3 {
        inode.read_at(0, &mut KernelDst(&mut bytes)).unwrap();
        inode.show(0, 3);
    }
    assert!(shown.has_view());
    has_locked(&w, "/w/db");
    assert!(!shown.has_view());
    for _ in 0..2 {
        inode.read_at(0, &mut KernelDst(&mut bytes)).unwrap();
        inode.show(0, 3);
    }
    assert!(shown.has_view());
}

#[test]
fn only_granted_files_have_locks_outside() {
    let w = world("locked-which");
    w.host.write("db", b"abc");
    w.host.write("dir/f", b"abc");
    let root = w.get("/w").unwrap();
    let is_outside = |path: &str| w.get(path).unwrap().inode().locked_outside().is_some();
    assert!(!is_outside("/w/db"));
    root.inode().as_any().downcast_ref::<HostNode>().unwrap().share_locks();
    assert!(is_outside("/w/db") && is_outside("/w/dir/f") && !is_outside("/w/dir") && !is_outside("/h/db"));
    w.write("/h/db", b"own").unwrap();
    assert!(!is_outside("/h/db"));
}
