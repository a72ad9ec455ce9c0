//! The private layer over host files.

use super::host_dir::{HostDir, append};
use super::{World, content, expire};
use crate::io::{KernelDst, KernelSrc};
use crate::{Change, FileType};
use abi::operation::Operation;
use abi::request::{Fetch, Read, ReadDir, Walk};
use std::fs;
use std::vec::Vec;
use uapi::Errno;

fn world(name: &str) -> World {
    let host = HostDir::new(name);
    host.write("etc/passwd", b"root\n");
    host.write("usr/lib/a/one", b"1");
    host.write("usr/lib/a/two", b"22");
    host.write("usr/big", &[7; 300_000]);
    std::os::unix::fs::symlink("usr/lib", host.root.join("lib")).unwrap();
    fs::hard_link(host.root.join("usr/lib/a/one"), host.root.join("usr/lib/a/uno")).unwrap();
    World::new(host)
}

#[test]
fn one_trip_for_a_path_and_one_for_a_file() {
    let w = world("trips");
    w.get("/h/usr/lib/a/one").unwrap();
    assert_eq!(w.host.trips(), 1);
    w.get("/h/usr/lib/a").unwrap();
    w.get("/h/usr/lib/a/one").unwrap();
    assert_eq!(w.host.trips(), 1);
    assert_eq!(w.read("/h/usr/lib/a/one").unwrap(), "1");
    assert_eq!((w.host.trips(), w.host.count(Fetch::NUMBER)), (2, 1));
    w.read("/h/usr/lib/a/one").unwrap();
    assert_eq!(w.host.trips(), 2);
    assert_eq!(w.get("/h/usr/nothing").unwrap_err(), Errno::ENOENT);
    assert_eq!(w.get("/h/usr/nothing").unwrap_err(), Errno::ENOENT);
    assert_eq!(w.host.trips(), 3);
    w.host.reset();
    // A link is followed, and its target came with the directory.
    assert_eq!(w.list("/h"), ["etc", "lib", "usr"]);
    assert_eq!(w.host.trips(), 1);
    assert_eq!(w.get("/h/lib").unwrap().path(None).unwrap(), b"/h/usr/lib");
    assert_eq!(w.host.trips(), 1);
    w.host.reset();
    w.list("/h/usr/lib/a");
    for name in ["one", "two", "uno"] {
        w.get(&std::format!("/h/usr/lib/a/{name}")).unwrap().inode().attr().unwrap();
    }
    assert_eq!(w.get("/h/usr/lib/a/three").unwrap_err(), Errno::ENOENT);
    assert_eq!(w.host.trips(), 1);
}

#[test]
fn writes_stay_private() {
    let w = world("writes");
    w.write("/h/etc/passwd", b"pod\n").unwrap();
    assert_eq!(w.read("/h/etc/passwd").unwrap(), "pod\n");
    assert_eq!(fs::read(w.host.root.join("etc/passwd")).unwrap(), b"root\n");
    w.host.reset();
    w.read("/h/etc/passwd").unwrap();
    w.write("/h/etc/new", b"n").unwrap();
    assert_eq!(w.read("/h/etc/new").unwrap(), "n");
    assert!(!w.host.root.join("etc/new").exists());
    assert_eq!(w.list("/h/etc"), ["new", "passwd"]);
    expire();
    w.host.reset();
    assert_eq!(w.read("/h/etc/passwd").unwrap(), "pod\n");
    assert!(w.host.count(Read::NUMBER) + w.host.count(Fetch::NUMBER) == 0, "what is private is not asked for");
}

#[test]
fn a_part_is_written_over_a_copy() {
    let w = world("copy");
    let big = w.get("/h/usr/big").unwrap();
    big.inode().write_at(100_000, &mut KernelSrc(b"abc")).unwrap();
    let bytes = content(&**big.inode()).unwrap();
    assert_eq!(bytes.len(), 300_000);
    assert_eq!(&bytes[99_999..100_004], b"\x07abc\x07");
    assert_eq!(big.inode().append(&mut KernelSrc(b"end")).unwrap(), (3, 300_003));
    assert_eq!(big.inode().attr().unwrap().blocks, 74 * 8);
}

#[test]
fn attributes_change_without_data() {
    let w = world("attributes");
    let file = w.get("/h/usr/big").unwrap();
    // Its access control list comes along.
    assert!(file.inode().acl(crate::acl::Kind::Access).unwrap().is_none());
    w.host.reset();
    file.inode().change(&Change { mode: Some(0o600), uid: Some(5), ..Change::default() }).unwrap();
    assert_eq!(w.host.trips(), 0);
    let again = w.get("/h/usr/big").unwrap().inode().attr().unwrap();
    assert_eq!((again.mode, again.uid, again.size), (0o100600, 5, 300_000));
    // The content still comes from the host, and follows it.
    append(w.host.root.join("usr/big"), b"more");
    expire();
    assert_eq!(w.get("/h/usr/big").unwrap().inode().attr().unwrap().size, 300_004);
    assert_eq!(w.get("/h/usr/big").unwrap().inode().perm().unwrap().0, 0o100600);
}

#[test]
fn names_are_hidden_and_come_again() {
    let w = world("whiteouts");
    w.unlink("/h/usr/lib/a/one").unwrap();
    assert_eq!(w.get("/h/usr/lib/a/one").unwrap_err(), Errno::ENOENT);
    assert_eq!(w.list("/h/usr/lib/a"), ["two", "uno"]);
    assert_eq!(w.rmdir("/h/usr/lib/a").unwrap_err(), Errno::ENOTEMPTY);
    w.unlink("/h/usr/lib/a/two").unwrap();
    w.unlink("/h/usr/lib/a/uno").unwrap();
    w.rmdir("/h/usr/lib/a").unwrap();
    assert!(w.list("/h/usr/lib").is_empty());
    // A new directory of the name does not show what the host has there.
    w.mkdir("/h/usr/lib/a").unwrap();
    assert!(w.list("/h/usr/lib/a").is_empty());
    w.write("/h/usr/lib/a/one", b"new").unwrap();
    expire();
    assert_eq!(w.read("/h/usr/lib/a/one").unwrap(), "new");
    assert_eq!(w.list("/h/usr/lib/a"), ["one"]);
}

#[test]
fn directories_move_with_what_is_below() {
    let w = world("dirs");
    w.rename("/h/usr/lib", "/h/etc/moved").unwrap();
    assert_eq!(w.get("/h/usr/lib").unwrap_err(), Errno::ENOENT);
    assert_eq!(w.read("/h/etc/moved/a/two").unwrap(), "22");
    w.rename("/h/etc/moved/a/two", "/h/two").unwrap();
    assert_eq!(w.list("/h/etc/moved/a"), ["one", "uno"]);
    assert_eq!((w.read("/h/two").unwrap().as_str(), w.list("/h").len()), ("22", 4));
    expire();
    assert_eq!(w.read("/h/etc/moved/a/one").unwrap(), "1");
    assert_eq!(w.get("/h/usr/lib").unwrap_err(), Errno::ENOENT);
}

#[test]
fn names_of_one_file_stay_one_file() {
    let w = world("hardlinks");
    assert_eq!(w.nlink("/h/usr/lib/a/one"), 2);
    w.write("/h/usr/lib/a/one", b"changed").unwrap();
    assert_eq!(w.read("/h/usr/lib/a/uno").unwrap(), "changed");
    w.unlink("/h/usr/lib/a/one").unwrap();
    expire();
    assert_eq!(w.read("/h/usr/lib/a/uno").unwrap(), "changed");
    assert_eq!(w.nlink("/h/usr/lib/a/uno"), 1);
    w.link("/h/usr/lib/a/two", "/h/deux").unwrap();
    assert_eq!(w.nlink("/h/usr/lib/a/two"), 2);
    w.write("/h/deux", b"zwei").unwrap();
    assert_eq!(w.read("/h/usr/lib/a/two").unwrap(), "zwei");
}

#[test]
fn what_the_host_changes_is_seen() {
    let w = world("changes");
    assert_eq!(w.read("/h/usr/lib/a/two").unwrap(), "22");
    assert_eq!(w.get("/h/usr/lib/a/three").unwrap_err(), Errno::ENOENT);
    w.host.write("usr/lib/a/two", b"twenty-two");
    w.host.write("usr/lib/a/three", b"3");
    fs::remove_file(w.host.root.join("usr/lib/a/uno")).unwrap();
    let held = w.get("/h/etc/passwd").unwrap();
    fs::rename(w.host.root.join("etc"), w.host.root.join("conf")).unwrap();
    expire();
    assert_eq!(w.read("/h/conf/passwd").unwrap(), "root\n");
    assert_eq!(w.get("/h/etc").unwrap_err(), Errno::ENOENT);
    assert_eq!(content(&**held.inode()).unwrap(), b"root\n");
    assert_eq!(w.read("/h/usr/lib/a/two").unwrap(), "twenty-two");
    assert_eq!(w.read("/h/usr/lib/a/three").unwrap(), "3");
    assert_eq!(w.list("/h/usr/lib/a"), ["one", "three", "two"]);
}

#[test]
fn works_without_fetch() {
    let mut host = HostDir::new("nofetch");
    host.knows_fetch = false;
    host.write("f", &[9; 200_000]);
    let w = World::new(host);
    assert_eq!(content(&**w.get("/h/f").unwrap().inode()).unwrap(), std::vec![9; 200_000]);
}

#[test]
fn big_directories_come_in_pieces() {
    let host = HostDir::new("bigdir");
    for i in 0..3000 {
        host.write(&std::format!("d/file-with-a-long-name-{i:05}"), b"");
    }
    let w = World::new(host);
    assert_eq!(w.list("/h/d").len(), 3000);
    let pieces = w.host.count(ReadDir::NUMBER);
    assert!(pieces > 1);
    w.host.reset();
    for i in 0..3000 {
        w.get(&std::format!("/h/d/file-with-a-long-name-{i:05}")).unwrap();
    }
    // The first three names tell that all attributes are wanted.
    assert_eq!((w.host.trips(), w.host.count(Walk::NUMBER)), (2 + pieces, 2));
}

#[test]
fn private_files_have_holes() {
    let w = world("holes");
    w.write("/f", b"start").unwrap();
    let f = w.get("/f").unwrap();
    let inode = f.inode();
    inode.write_at(1 << 20, &mut KernelSrc(b"end")).unwrap();
    assert_eq!(inode.attr().unwrap().blocks, 16);
    assert_eq!(inode.seek_data(1, true), Ok(4096));
    assert_eq!(inode.seek_data(4096, false), Ok(1 << 20));
    assert_eq!(inode.seek_data((1 << 20) + 3, false), Err(Errno::ENXIO));
    let mut bytes = [1; 4];
    assert_eq!(inode.read_at(500_000, &mut KernelDst(&mut bytes)), Ok(4));
    assert_eq!(bytes, [0; 4]);
    inode.truncate(2).unwrap();
    inode.truncate(10).unwrap();
    assert_eq!(w.read("/f").unwrap(), "st\0\0\0\0\0\0\0\0");
    inode.fallocate(crate::node::FALLOC_PUNCH_HOLE | crate::node::FALLOC_KEEP_SIZE, 1, 5).unwrap();
    assert_eq!(w.read("/f").unwrap(), "s\0\0\0\0\0\0\0\0\0");
    assert_eq!(inode.fallocate(8, 0, 4096), Err(Errno::EOPNOTSUPP));
    assert_eq!(inode.fallocate(0, 0, 100 << 20), Err(Errno::ENOSPC));
    assert_eq!(inode.pages(1, 1, false).map(drop), Err(Errno::ENXIO));
    assert_eq!(inode.pages(0, 4, true).unwrap().len(), 1);
}

#[test]
fn space_is_bounded_and_comes_back() {
    let w = world("space");
    let root = w.tree.root().inode().clone();
    w.create("/f", 0o100644).unwrap();
    let f = w.get("/f").unwrap();
    let page = [1; 4096];
    let written = (0..2000).take_while(|i| f.inode().write_at(i * 4096, &mut KernelSrc(&page)).is_ok()).count();
    assert_eq!(written, 1000);
    assert_eq!(root.statfs().unwrap().bfree, 0);
    w.unlink("/f").unwrap();
    drop(f);
    assert_eq!(root.statfs().unwrap().bfree, 1000);
}

#[test]
fn files_without_a_name_can_get_one() {
    let w = world("tmpfile");
    let root = w.tree.root().clone();
    let inode = root.inode().create_unnamed(&crate::NewNode::plain(0o100600, 0, 0)).unwrap();
    inode.write_at(0, &mut KernelSrc(b"data")).unwrap();
    assert_eq!(inode.attr().unwrap().nlink, 0);
    root.inode().link(b"named", &inode).unwrap();
    assert_eq!((w.read("/named").unwrap().as_str(), w.nlink("/named")), ("data", 1));
    w.unlink("/named").unwrap();
    assert_eq!(root.inode().link(b"again", &inode), Err(Errno::ENOENT));
    let kinds: Vec<FileType> = root.inode().readdir().unwrap().iter().map(|e| e.kind).collect();
    assert_eq!(kinds, [FileType::Directory; 2]);
}
