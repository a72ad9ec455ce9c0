//! Path resolution and changes of names in private directories.

use super::World;
use super::host_dir::HostDir;
use crate::ops::{self, RENAME_EXCHANGE, RENAME_NOREPLACE};
use crate::walk::{Component, Walk, resolve};
use crate::{Change, Cred, NewNode};
use std::string::String;
use uapi::Errno;

fn world(name: &str) -> World {
    World::new(HostDir::new(name))
}

#[test]
fn links_lead_on_and_loops_end() {
    let w = world("links");
    w.mkdir("/a").unwrap();
    w.mkdir("/a/b").unwrap();
    w.write("/a/b/f", b"x").unwrap();
    w.symlink("b", "/a/rel").unwrap();
    w.symlink("/a/rel/f", "/abs").unwrap();
    w.symlink("loop2", "/loop1").unwrap();
    w.symlink("loop1", "/loop2").unwrap();
    w.symlink("nothing", "/dead").unwrap();
    assert_eq!(w.read("/abs").unwrap(), "x");
    assert_eq!(w.get("/a/rel/../b/f").unwrap().path(None).unwrap(), b"/a/b/f");
    assert_eq!(w.get("/loop1").unwrap_err(), Errno::ELOOP);
    assert_eq!(w.get("/dead").unwrap_err(), Errno::ENOENT);
    assert_eq!(w.get("/a/b/f/").unwrap_err(), Errno::ENOTDIR);
    assert_eq!(w.get("/a/b/f/x").unwrap_err(), Errno::ENOTDIR);
    assert_eq!(w.get("/abs/").unwrap_err(), Errno::ENOTDIR);
    assert_eq!(w.get("").unwrap_err(), Errno::ENOENT);
    assert!(w.get("/a/rel/").is_ok());
    assert!(w.get("/../../a/./b//").is_ok());
    let long = String::from_utf8(std::vec![b'n'; 256]).unwrap();
    assert_eq!(w.get(&long).unwrap_err(), Errno::ENAMETOOLONG);
    assert_eq!(w.parent("/a/b/").unwrap().last, Component::Normal(b"b"[..].into()));
    assert_eq!(w.parent("/a/..").unwrap().last, Component::DotDot);
    assert_eq!(w.parent("//").unwrap().last, Component::Root);
}

#[test]
fn forty_links_are_the_limit() {
    let w = world("forty");
    w.write("/l0", b"end").unwrap();
    for i in 1..=41 {
        w.symlink(&std::format!("l{}", i - 1), &std::format!("/l{i}")).unwrap();
    }
    assert_eq!(w.read("/l40").unwrap(), "end");
    assert_eq!(w.get("/l41").unwrap_err(), Errno::ELOOP);
}

#[test]
fn restrictions_of_openat2_hold() {
    let w = world("resolve");
    w.mkdir("/d").unwrap();
    w.mkdir("/d/e").unwrap();
    w.write("/d/f", b"x").unwrap();
    w.symlink("/f", "/d/abs").unwrap();
    w.symlink("../d/f", "/d/up").unwrap();
    w.symlink("f", "/d/in").unwrap();
    let d = w.get("/d").unwrap();
    let try_it = |path: &str, flags| {
        Walk::restricted(w.tree.root().clone(), Cred::ROOT, &d, flags).resolve(&d, path.as_bytes(), true).map(drop)
    };
    assert_eq!(try_it("e/../f", resolve::BENEATH), Ok(()));
    assert_eq!(try_it("..", resolve::BENEATH), Err(Errno::EXDEV));
    assert_eq!(try_it("up", resolve::BENEATH), Err(Errno::EXDEV));
    assert_eq!(try_it("abs", resolve::BENEATH), Err(Errno::EXDEV));
    assert_eq!(try_it("abs", resolve::IN_ROOT), Ok(()));
    assert_eq!(try_it("../../e", resolve::IN_ROOT), Ok(()));
    assert_eq!(try_it("in", resolve::NO_SYMLINKS), Err(Errno::ELOOP));
    assert_eq!(try_it("../h", resolve::NO_XDEV), Err(Errno::EXDEV));
    assert_eq!(try_it("../d", resolve::NO_XDEV), Ok(()));
}

#[test]
fn moves_keep_paths_right() {
    let w = world("moves");
    w.mkdir("/a").unwrap();
    w.mkdir("/a/b").unwrap();
    w.write("/a/b/f", b"x").unwrap();
    let f = w.get("/a/b/f").unwrap();
    w.mkdir("/c").unwrap();
    w.rename("/a/b", "/c/d").unwrap();
    assert_eq!(f.path(None).unwrap(), b"/c/d/f");
    assert_eq!(w.get("/c/d/..").unwrap().path(None).unwrap(), b"/c");
    assert_eq!((w.nlink("/a"), w.nlink("/c")), (2, 3));
    assert_eq!(w.rename("/c", "/c/d/x").unwrap_err(), Errno::EINVAL);
    assert_eq!(w.rename("/c/d", "/c").unwrap_err(), Errno::ENOTEMPTY);
    assert_eq!(w.rename("/c/d/f", "/a").unwrap_err(), Errno::EISDIR);
    assert_eq!(w.rename("/a", "/c/d/f").unwrap_err(), Errno::ENOTDIR);
    assert_eq!(w.rename2("/a", "/c", RENAME_NOREPLACE).unwrap_err(), Errno::EEXIST);
    assert_eq!(w.rename("/h", "/hh").unwrap_err(), Errno::EBUSY);
    assert_eq!(w.rename("/a", "/h/a").unwrap_err(), Errno::EXDEV);
    w.rename2("/a", "/c/d/f", RENAME_EXCHANGE).unwrap();
    assert_eq!(f.path(None).unwrap(), b"/a");
    assert_eq!((w.read("/a").unwrap().as_str(), w.nlink("/c/d")), ("x", 3));
    w.unlink("/a").unwrap();
    assert_eq!(f.display_path(None).unwrap(), b"/a (deleted)");
    assert_eq!(super::content(&**f.inode()).unwrap(), b"x");
    assert_eq!(f.inode().attr().unwrap().nlink, 0);
}

#[test]
fn errors_come_in_order() {
    let w = world("order");
    w.mkdir("/d").unwrap();
    w.write("/f", b"").unwrap();
    assert_eq!(w.mkdir("/d").unwrap_err(), Errno::EEXIST);
    assert_eq!(w.mkdir("/d/.").unwrap_err(), Errno::EEXIST);
    assert_eq!(w.mkdir("/").unwrap_err(), Errno::EEXIST);
    assert_eq!(w.mkdir("/no/x").unwrap_err(), Errno::ENOENT);
    assert_eq!(w.mkdir("/f/x").unwrap_err(), Errno::ENOTDIR);
    assert_eq!(w.create("/new/", 0o100644).unwrap_err(), Errno::ENOENT);
    assert!(w.mkdir("/new/").is_ok());
    assert_eq!(w.unlink("/d").unwrap_err(), Errno::EISDIR);
    assert_eq!(w.rmdir("/f").unwrap_err(), Errno::ENOTDIR);
    assert_eq!(w.rmdir("/d/.").unwrap_err(), Errno::EINVAL);
    assert_eq!(w.rmdir("/d/..").unwrap_err(), Errno::ENOTEMPTY);
    assert_eq!(w.unlink("/f/").unwrap_err(), Errno::ENOTDIR);
    assert_eq!(w.rmdir("/w").unwrap_err(), Errno::EBUSY);
    assert_eq!(w.link("/d", "/e").unwrap_err(), Errno::EPERM);
    assert_eq!(w.link("/f", "/d").unwrap_err(), Errno::EEXIST);
    let d = w.get("/d").unwrap();
    w.rmdir("/d").unwrap();
    let new = NewNode::plain(0o100644, 0, 0);
    assert_eq!(ops::create_in(&d, b"x", &new, &Cred::ROOT).unwrap_err(), Errno::ENOENT);
}

#[test]
fn permissions_are_those_of_the_caller() {
    let w = world("perm");
    w.mkdir("/d").unwrap();
    w.mkdir("/t").unwrap();
    w.write("/t/mine", b"").unwrap();
    w.write("/d/f", b"").unwrap();
    let user = Cred { uid: 7, gid: 8, groups: &[9], caps: 0, domain: None, ids: None };
    let as_user = Walk::new(w.tree.root().clone(), user);
    let set = |path: &str, mode, gid| {
        let change = Change { mode: Some(mode), gid: Some(gid), ..Change::default() };
        w.get(path).unwrap().inode().change(&change).unwrap();
    };
    let resolve = |path: &str| as_user.resolve(w.tree.root(), path.as_bytes(), true).map(drop);
    set("/d", 0o750, 9);
    assert_eq!(resolve("/d/f"), Ok(()));
    set("/d", 0o750, 10);
    assert_eq!(resolve("/d/f"), Err(Errno::EACCES));
    assert_eq!(resolve("/d/nothing"), Err(Errno::EACCES));
    // The owner class counts even where others may do more.
    w.get("/d").unwrap().inode().change(&Change { uid: Some(7), mode: Some(0o077), ..Change::default() }).unwrap();
    assert_eq!(resolve("/d/f"), Err(Errno::EACCES));
    set("/t", 0o1777, 0);
    assert_eq!(ops::unlink(&w.parent("/t/mine").unwrap(), &user).unwrap_err(), Errno::EPERM);
    let mine = ops::create(&w.parent("/t/own").unwrap(), &NewNode::plain(0o100644, 7, 8), &user).unwrap();
    assert_eq!(ops::chmod(&mine, 0o4755, &user), Ok(()));
    assert_eq!(ops::chown(&mine, None, Some(9), &user), Ok(()));
    assert_eq!(mine.inode().attr().unwrap().mode & 0o7777, 0o755);
    assert_eq!(ops::chown(&mine, Some(0), None, &user), Err(Errno::EPERM));
    assert_eq!(ops::unlink(&w.parent("/t/own").unwrap(), &user), Ok(()));
}

/// Whether names `from..to` of a directory are known without asking its file system: how many.
fn known(dir: &crate::PathRef, names: core::ops::Range<usize>) -> usize {
    names.filter(|i| dir.dentry().lookup(std::format!("{i}").as_bytes(), &[], true).is_ok()).count()
}

fn directory_of(w: &World, path: &str, count: usize) -> crate::PathRef {
    let dir = w.mkdir(path).unwrap();
    for i in 0..count {
        w.write(&std::format!("{path}/{i}"), b"").unwrap();
    }
    dir
}

#[test]
fn names_stay_known_as_long_as_there_is_memory() {
    let w = world("many-names");
    // Some 64 MB of the 1 GiB of the simulated machine.
    const COUNT: usize = 60_000;
    let dir = directory_of(&w, "/d", COUNT);
    assert_eq!(known(&dir, 0..COUNT), COUNT);
}

#[test]
fn unused_names_go_when_memory_is_short() {
    let w = world("short-of-memory");
    const COUNT: usize = 20_000;
    let dir = directory_of(&w, "/d", COUNT);
    let used = w.get("/d/7").unwrap();
    assert!(crate::memory::shrink(1) > COUNT / 16, "nothing was given back");
    assert_eq!(known(&dir, 0..COUNT), 1);
    assert!(alloc::rc::Rc::ptr_eq(w.get("/d/7").unwrap().dentry(), used.dentry()));
    // Where there is nothing, it is not sought each time.
    assert_eq!(crate::memory::shrink(1), 0);
    w.get("/d/8").unwrap();
    for _ in 0..1000 {
        crate::memory::shrink(1);
    }
    assert_eq!(known(&dir, 0..COUNT), 1);
}

#[test]
fn more_names_than_are_kept_do_not_displace_each_other_all() {
    let w = world("too-many-names");
    // More than the simulated machine keeps.
    const COUNT: usize = 150_000;
    let dir = directory_of(&w, "/d", COUNT);
    let limit = usize::try_from(hal::frame::ram_usage().limit >> 13).unwrap();
    assert!(crate::dentry::unused::count() <= limit + 1);
    let mut found = 0;
    for i in 0..2 * COUNT {
        let i = i % COUNT;
        found += known(&dir, i..i + 1);
        w.get(&std::format!("/d/{i}")).unwrap();
    }
    assert!(found > COUNT / 4, "{found} of {COUNT} names were known");
    assert!(crate::dentry::unused::count() <= limit + 1);
}
