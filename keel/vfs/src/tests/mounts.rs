//! Trees of mounts: depth, number, propagation, and that nothing of them remains.

use super::World;
use crate::mount::{FileSystem, Loose, MAX, Namespace, change, flags};
use crate::node::{Private, Space};
use crate::{NewNode, PathRef};
use alloc::rc::Rc;
use uapi::Errno;

fn tmpfs() -> Rc<FileSystem> {
    FileSystem::new(Private::new(9, Space::new(100)).node(&NewNode::plain(0o040755, 0, 0)), "tmpfs")
}

fn mount_at(place: PathRef) -> PathRef {
    let tree = Loose::of(&tmpfs(), Rc::from(&b"x"[..]), flags::RELATIME).unwrap();
    let mount = tree.top().clone();
    change::mount(tree, &place.covered()).unwrap();
    PathRef::root_of(&mount)
}

/// A world with a mount at `/m`.
fn world(name: &str) -> (World, PathRef) {
    let w = World::new(super::HostDir::new(name));
    let place = w.mkdir("/m").unwrap();
    let mounted = mount_at(place);
    (w, mounted)
}

#[test]
fn what_is_mounted_is_found_and_goes() {
    let (w, mounted) = world("mounts-found");
    w.write("/m/file", b"inside").unwrap();
    assert_eq!(w.get("/m/file").unwrap().path(None).unwrap(), b"/m/file");
    assert!(w.get("/m/..").unwrap().same(w.tree.root()));
    assert_eq!(w.rmdir("/m"), Err(Errno::EBUSY));
    assert_eq!(w.rename("/m", "/n"), Err(Errno::EBUSY));
    let mount = mounted.mount().clone();
    let used = w.get("/m/file").unwrap();
    drop(mounted);
    assert_eq!(change::unmount(&mount, false, 1), Err(Errno::EBUSY));
    drop(used);
    change::unmount(&mount, false, 1).unwrap();
    assert_eq!(w.get("/m/file").unwrap_err(), Errno::ENOENT);
    w.rmdir("/m").unwrap();
    drop(mount);
    assert!(w.end());
}

#[test]
fn deep_towers_come_down_without_recursion() {
    const DEPTH: usize = 20_000;
    let (w, mounted) = world("mounts-tower");
    let first = mounted.mount().clone();
    let mut top = mounted;
    for _ in 0..DEPTH {
        top = mount_at(top);
    }
    assert!(w.get("/m").unwrap().same(&top));
    assert_eq!(top.path(None).unwrap(), b"/m");
    drop(top);
    change::unmount(&first, true, 1).unwrap();
    drop(first);
    assert_eq!(w.tree.namespace().mounts().unwrap().len(), 4);
    assert!(w.end());
}

#[test]
fn shared_mounts_multiply_until_there_is_no_room() {
    let (w, mounted) = world("mounts-shared");
    mounted.mount().make_shared();
    w.mkdir("/m/a").unwrap();
    // Each bind of the mount into itself doubles it: the namespace is full soon, and stays whole.
    let mut last = Ok(());
    for _ in 0..40 {
        let place = w.get("/m/a").unwrap();
        last = change::copy(&mounted, true).and_then(|copy| change::mount(copy, &place));
        if last.is_err() {
            break;
        }
    }
    assert_eq!(last, Err(Errno::ENOSPC));
    let namespace = w.tree.namespace();
    assert!(namespace.mounts().unwrap().len() <= MAX);
    assert_eq!(
        namespace.copy(false, &mut []).map(|copy| copy.mounts().unwrap().len()).ok(),
        Some(namespace.mounts().unwrap().len())
    );
    let mount = mounted.mount().clone();
    drop(mounted);
    change::unmount(&mount, true, 1).unwrap();
    drop(mount);
    assert!(w.end());
}

#[test]
fn copies_of_a_namespace_are_apart() {
    let (w, mounted) = world("mounts-apart");
    w.write("/m/file", b"seen").unwrap();
    let (mut root, mut inside) = (w.tree.root().clone(), w.get("/m").unwrap());
    let copy: Rc<Namespace> = w.tree.namespace().copy(true, &mut [&mut root, &mut inside]).unwrap();
    assert!(root.same(&copy.root()));
    assert!(!inside.same(&mounted) && Rc::ptr_eq(inside.dentry(), mounted.dentry()));
    assert_eq!(inside.path(Some(&root)).unwrap(), b"/m");
    // It was made by who sees more, and hides what is beneath.
    assert_eq!(change::unmount(inside.mount(), true, 1), Err(Errno::EINVAL));
    assert_eq!(inside.mount().set_flags(0), Err(Errno::EPERM));
    let mount = mounted.mount().clone();
    drop(mounted);
    change::unmount(&mount, true, 1).unwrap();
    assert_eq!(w.get("/m/file").unwrap_err(), Errno::ENOENT);
    assert_eq!(inside.lookup(b"file", &[], false).unwrap().name()[..], b"file"[..]);
    drop((root, inside, mount, copy));
    assert!(w.end());
}
