//! Access control lists of host files: who may do what, and what a private copy takes along.

use super::World;
use super::host_dir::HostDir;
use crate::acl::Kind;
use crate::cred::{MAY_READ, MAY_WRITE};
use crate::{Change, Cred};
use std::vec::Vec;
use uapi::Errno;

/// Owner and user 1000 may write, the group 7 may read, others have no right.
fn list() -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    let entries: [(u16, u16, u32); 6] =
        [(1, 6, u32::MAX), (2, 6, 1000), (4, 0, u32::MAX), (8, 4, 7), (16, 6, u32::MAX), (32, 0, u32::MAX)];
    for (tag, permissions, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

fn world(name: &str) -> World {
    let host = HostDir::new(name);
    host.write("d/f", b"text");
    host.access.borrow_mut().insert(b"d/f".to_vec(), list());
    let path = host.root.join("d/f");
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o660)).unwrap();
    World::new(host)
}

const fn user(uid: u32, groups: &[u32]) -> Cred<'_> {
    Cred { uid, gid: uid, groups, caps: 0, ..Cred::ROOT }
}

#[test]
fn they_decide_below_and_above_the_private_layer() {
    let w = world("lists");
    for path in ["/h/d/f", "/w/d/f"] {
        let file = w.get(path).unwrap();
        let inode = &**file.inode();
        assert_eq!(user(1000, &[]).check(inode, MAY_READ | MAY_WRITE), Ok(()), "{path}");
        assert_eq!(user(1001, &[7]).check(inode, MAY_READ), Ok(()), "{path}");
        assert_eq!(user(1001, &[7]).check(inode, MAY_WRITE), Err(Errno::EACCES), "{path}");
        assert_eq!(user(1001, &[]).check(inode, MAY_READ), Err(Errno::EACCES), "{path}");
        let trips = w.host.trips();
        assert_eq!(user(1002, &[]).check(inode, MAY_READ), Err(Errno::EACCES), "{path}");
        assert_eq!(w.host.trips(), trips, "asked for once");
    }
}

#[test]
fn a_private_copy_keeps_its_list() {
    let w = world("lists-copy");
    let file = w.get("/h/d/f").unwrap();
    file.inode().change(&Change { mode: Some(0o640), ..Change::default() }).unwrap();
    assert_eq!(user(1000, &[]).check(&**file.inode(), MAY_READ), Ok(()));
    assert_eq!(
        user(1000, &[]).check(&**file.inode(), MAY_WRITE),
        Err(Errno::EACCES),
        "the mask is the group's bits now"
    );
    let value = file.inode().acl(Kind::Access).unwrap().unwrap().value().unwrap();
    assert_eq!(value.len(), list().len());
    assert_eq!(w.get("/w/d/f").unwrap().inode().acl(Kind::Access).unwrap().unwrap().value().unwrap(), list());
}

#[test]
fn those_of_a_whole_directory_come_together() {
    let host = HostDir::new("lists-all");
    (0..200).for_each(|number| host.write(&std::format!("d/{number}"), b""));
    host.access.borrow_mut().insert(b"d/77".to_vec(), list());
    let w = World::new(host);
    w.list("/w/d");
    w.host.reset();
    let has_list = |number: usize| {
        let file = w.get(&std::format!("/w/d/{number}")).unwrap();
        file.inode().acl(Kind::Access).unwrap().is_some()
    };
    let with: Vec<usize> = (0..200).filter(|&number| has_list(number)).collect();
    assert_eq!(with, [77]);
    assert!(w.host.trips() < 30, "{}", w.host.trips());
    // What the pod changes counts at once.
    w.host.access.borrow_mut().insert(b"d/5".to_vec(), list());
    w.get("/w/d/5").unwrap().inode().change(&Change { mode: Some(0o660), ..Change::default() }).unwrap();
    assert!(has_list(5));
}
