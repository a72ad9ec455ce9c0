//! What the pod wrote, read by the pod.

use super::host_dir::HostDir;
use super::{World, content, expire};
use crate::io::KernelSrc;
use crate::{Change, Inode, SetTime};
use abi::operation::Operation;
use abi::request::{Fetch, Read};
use std::fs;
use std::vec::Vec;

const PAGE: [u8; 4096] = [b'p'; 4096];

fn times(seconds: i64) -> Change {
    Change { mtime: Some(SetTime::At(seconds, 7)), ..Change::default() }
}

/// Reads it; whether that took no look at the content on the host.
fn read_back(world: &World, inode: &dyn Inode) -> (Vec<u8>, bool) {
    world.host.reset();
    let read = content(inode).unwrap();
    (read, world.host.count(Fetch::NUMBER) + world.host.count(Read::NUMBER) == 0)
}

#[test]
fn what_was_written_is_read_without_the_host() {
    let world = World::new(HostDir::new("read-back"));
    let files: [&[&[u8]]; 3] = [&[b"a line\n"], &[&PAGE, &PAGE[..100], b"end"], &[&PAGE[..4000], &PAGE]];
    for (number, pieces) in files.into_iter().enumerate() {
        let name = std::format!("new-{number}");
        let new = world.create(&std::format!("/w/{name}"), 0o100600).unwrap();
        let mut at = 0;
        for piece in pieces {
            new.inode().write_at(at, &mut KernelSrc(piece)).unwrap();
            at += piece.len() as u64;
        }
        assert_eq!(read_back(&world, &**new.inode()), (pieces.concat(), true));
        // Changes of attributes leave the content as it is.
        new.inode().change(&times(1_000_000)).unwrap();
        new.inode().settle().unwrap();
        new.inode().change(&Change { mode: Some(0o640), ..Change::default() }).unwrap();
        assert_eq!(read_back(&world, &**new.inode()), (pieces.concat(), true));
        // A new content in place of the old one, as a compiler writes it.
        new.inode().truncate(0).unwrap();
        new.inode().write_at(0, &mut KernelSrc(b"again")).unwrap();
        assert_eq!(read_back(&world, &**new.inode()), (b"again".to_vec(), true));
        new.inode().write_at(5000, &mut KernelSrc(b"after a hole")).unwrap();
        let (read, _) = read_back(&world, &**new.inode());
        assert_eq!(read, fs::read(world.host.root.join(&name)).unwrap());
        // What the host changes is read anew.
        let more = [&pieces.concat()[..], b"by the host"].concat();
        fs::write(world.host.root.join(&name), &more).unwrap();
        expire();
        assert_eq!(read_back(&world, &**new.inode()), (more, false));
    }
}

/// The host changes a file between what the pod knows of it and the pod's change of its times, which hides that.
#[test]
fn times_do_not_hide_a_change_by_the_host() {
    let world = World::new(HostDir::new("read-hidden"));
    let new = world.create("/w/new", 0o100600).unwrap();
    new.inode().write_at(0, &mut KernelSrc(b"ours")).unwrap();
    new.inode().change(&times(1_000_000)).unwrap();
    assert_eq!(content(&**new.inode()).unwrap(), b"ours");
    fs::write(world.host.root.join("new"), b"host").unwrap();
    new.inode().change(&times(1_000_000)).unwrap();
    assert_eq!(content(&**new.inode()).unwrap(), b"host");
}

/// Large files are not kept: a program that writes much would drive out what others read.
#[test]
fn large_files_are_not_kept() {
    let world = World::new(HostDir::new("read-large"));
    let new = world.create("/w/new", 0o100600).unwrap();
    let block = [b'x'; 64 << 10];
    for at in 0..3 {
        new.inode().write_at(at * (64 << 10), &mut KernelSrc(&block)).unwrap();
    }
    let (read, kept) = read_back(&world, &**new.inode());
    assert_eq!((read.len(), kept), (192 << 10, false));
}
