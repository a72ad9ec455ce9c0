//! Small writes that go to the host together.

use super::host_dir::{HostDir, append};
use super::{World, content};
use crate::host::End;
use crate::io::KernelSrc;
use crate::{Change, PathRef, SetTime};
use abi::operation::Operation;
use abi::request::{HandleAttr, SetAttr, StatFs, Write};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::string::String;
use std::vec::Vec;
use uapi::Errno;

/// A file in a world, whose small writes are gathered from now on.
fn file(name: &str) -> (World, PathRef) {
    let host = HostDir::new(name);
    host.write("f", b"");
    let world = World::new(host);
    let file = world.get("/w/f").unwrap();
    for _ in 0..2 {
        file.inode().append(&mut KernelSrc(b"first ")).unwrap();
    }
    world.host.reset();
    (world, file)
}

fn on_host(world: &World) -> String {
    fs::read_to_string(world.host.root.join("f")).unwrap()
}

/// Appends until one is gathered: on a slow machine the time between two may be too long.
fn gather(world: &World, file: &PathRef) -> (String, End) {
    let mut text = on_host(world);
    for _ in 0..1000 {
        text.push_str("more ");
        let (_, end) = file.inode().append_later(&mut KernelSrc(b"more ")).unwrap();
        if matches!(end, End::Later(..)) {
            return (text, end);
        }
    }
    panic!("nothing is gathered");
}

#[test]
fn many_take_one_trip() {
    let (world, file) = file("many");
    gather(&world, &file);
    world.flush();
    world.host.reset();
    let before = on_host(&world).len();
    for _ in 0..500 {
        file.inode().append_later(&mut KernelSrc(b"0123456789")).unwrap();
    }
    world.flush();
    assert_eq!(on_host(&world).len(), before + 5000);
    assert!(world.host.count(Write::NUMBER) < 100, "{}", world.host.count(Write::NUMBER));
}

#[test]
fn what_follows_is_one_write() {
    let (world, file) = file("pages");
    gather(&world, &file);
    world.flush();
    let mut text = on_host(&world);
    world.host.reset();
    for number in 0..60 {
        let piece: String = std::iter::repeat_n((b'a' + number % 26) as char, 1000).collect();
        file.inode().append_later(&mut KernelSrc(piece.as_bytes())).unwrap();
        text.push_str(&piece);
    }
    world.flush();
    world.host.carry_out_sent();
    assert_eq!(on_host(&world), text);
    assert!(world.host.count(Write::NUMBER) <= 8, "{}", world.host.count(Write::NUMBER));
}

#[test]
fn new_files_are_filled_in_few_trips() {
    let (world, file) = file("new");
    gather(&world, &file);
    for tries in 0..1000 {
        file.inode().settle().unwrap();
        world.host.reset();
        let new = world.create(&std::format!("/w/new-{tries}"), 0o100644).unwrap();
        for _ in 0..3 {
            new.inode().append_later(&mut KernelSrc(b"line ")).unwrap();
        }
        new.inode().settle().unwrap();
        assert_eq!(new.inode().attr().unwrap().size, 15);
        // Unless the machine is slow: one request makes it, one writes all, one waits.
        if world.host.count(Write::NUMBER) == 1 && world.host.count(StatFs::NUMBER) == 0 && world.host.trips() <= 4 {
            return;
        }
    }
    panic!("the first write is not gathered");
}

/// Every use of the file, and every request to the host, comes after what was gathered.
#[test]
fn nobody_sees_less() {
    let (world, file) = file("seen");
    let (text, _) = gather(&world, &file);
    assert_ne!(on_host(&world), text, "it is gathered");
    assert_eq!(file.inode().attr().unwrap().size, text.len() as u64);
    assert_eq!(on_host(&world), text);
    let (text, _) = gather(&world, &file);
    assert_eq!(content(&**file.inode()).unwrap(), text.as_bytes());
    let (text, _) = gather(&world, &file);
    world.mkdir("/w/other").unwrap();
    assert_eq!(on_host(&world), text, "a request about something else");
    let (text, _) = gather(&world, &file);
    assert_ne!(on_host(&world), text);
    file.inode().sync(false).unwrap();
    assert_eq!(on_host(&world), text);
}

#[test]
fn an_append_is_where_the_host_has_it() {
    let (world, file) = file("where");
    let (text, end) = gather(&world, &file);
    append(world.host.root.join("f"), b"by the host ");
    file.inode().settle().unwrap();
    let End::Later(landing, after, expected) = end else { unreachable!() };
    assert_eq!(expected, text.len() as u64);
    assert_eq!(landing.start().unwrap() + after, on_host(&world).len() as u64);
    assert!(on_host(&world).ends_with("by the host more "));
    assert_eq!(content(&**file.inode()).unwrap(), on_host(&world).as_bytes());
}

#[test]
fn failures_are_told_later() {
    let (world, file) = file("failures");
    let (told, _) = file.inode().failure();
    gather(&world, &file);
    world.host.fails.set(true);
    file.inode().settle().unwrap();
    assert_eq!(file.inode().failure(), (told + 1, Some(Errno::ENOSPC)));
    world.host.fails.set(false);
    assert_eq!(content(&**file.inode()).unwrap(), on_host(&world).as_bytes());
}

const OWNER: Change = Change { mode: None, uid: Some(0), gid: Some(0), atime: None, mtime: None };

fn times(seconds: i64) -> Change {
    Change { mtime: Some(SetTime::At(seconds, 7)), ..Change::default() }
}

fn mode(mode: u32) -> Change {
    Change { mode: Some(mode), ..Change::default() }
}

/// A file is made, filled, and gets its attributes, as from an archive: nothing but making it is waited for.
#[test]
fn attributes_of_new_files_take_no_trip() {
    let (world, file) = file("attributes-new");
    gather(&world, &file);
    let mut waits = 0;
    for tries in 0..20 {
        file.inode().settle().unwrap();
        let name = std::format!("new-{tries}");
        let new = world.create(&std::format!("/w/{name}"), 0o100600).unwrap();
        let (_, uid, gid) = new.inode().perm().unwrap();
        new.inode().append_later(&mut KernelSrc(b"line ")).unwrap();
        world.host.reset();
        let owner = Change { uid: Some(uid), gid: Some(gid), ..OWNER };
        for change in [times(1_000_000), owner, mode(0o640), mode(0o644)] {
            new.inode().change(&change).unwrap();
        }
        assert_eq!(new.inode().perm().unwrap().0, 0o100644);
        waits += world.host.trips();
        assert_eq!(new.inode().attr().unwrap().mode, 0o100644);
        assert_eq!((new.inode().attr().unwrap().mtime, new.inode().attr().unwrap().size), (1_000_000, 5));
        assert_eq!((world.host.count(SetAttr::NUMBER), world.host.count(HandleAttr::NUMBER)), (1, 0));
        let there = fs::metadata(world.host.root.join(&name)).unwrap();
        assert_eq!((there.mode(), there.mtime(), there.len()), (0o100644, 1_000_000, 5));
    }
    // On a slow machine some are no longer new.
    assert!(waits < 40, "{waits} trips");
}

/// The answer to a write that the host carried out before the change of the mode tells the mode before it.
#[test]
fn a_gathered_mode_stays_believed() {
    let (world, file) = file("attributes-mode");
    gather(&world, &file);
    let new = world.create("/w/new", 0o100600).unwrap();
    new.inode().append_later(&mut KernelSrc(b"line ")).unwrap();
    new.inode().change(&mode(0o640)).unwrap();
    world.flush();
    for _ in 0..4 {
        assert_eq!(new.inode().perm().unwrap().0, 0o100640);
        world.host.carry_out_one();
    }
    assert_eq!(new.inode().attr().unwrap().mode, 0o100640);
}

#[test]
fn refused_changes_are_told_later() {
    let (world, file) = file("attributes-refused");
    gather(&world, &file);
    for tries in 0..1000 {
        let new = world.create(&std::format!("/w/new-{tries}"), 0o100600).unwrap();
        file.inode().settle().unwrap();
        world.host.reset();
        new.inode().change(&mode(0o640)).unwrap();
        if world.host.trips() > 0 {
            continue;
        }
        let (told, _) = new.inode().failure();
        world.host.fails.set(true);
        new.inode().settle().unwrap();
        world.host.fails.set(false);
        assert_eq!(new.inode().failure(), (told + 1, Some(Errno::ENOSPC)));
        assert_eq!(new.inode().perm().unwrap().0, 0o100600);
        return;
    }
    panic!("no change is gathered");
}

/// Other owners and set-id bits are for the host to decide.
#[test]
fn doubtful_changes_are_asked_at_once() {
    let (world, _file) = file("attributes-doubtful");
    let new = world.create("/w/new", 0o100600).unwrap();
    world.host.reset();
    new.inode().change(&mode(0o4755)).unwrap();
    new.inode().change(&Change { uid: Some(54321), ..Change::default() }).unwrap();
    assert_eq!(world.host.count(SetAttr::NUMBER), 2);
}

#[test]
fn a_nearly_full_disk_is_asked_each_time() {
    let host = HostDir::new("full");
    host.write("f", b"");
    host.free_pages.set(100);
    let world = World::new(host);
    let file = world.get("/w/f").unwrap();
    for _ in 0..50 {
        file.inode().append_later(&mut KernelSrc(b"x")).unwrap();
    }
    assert_eq!(world.host.gathers.get(), 0);
    assert_eq!(on_host(&world).len(), 50);
}

#[test]
fn places_are_kept_in_order() {
    let (world, file) = file("order");
    gather(&world, &file);
    world.flush();
    let mut model = on_host(&world).into_bytes();
    let mut seed = 7_u64;
    for step in 0..2000_u64 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let at = (seed >> 33) as usize % (model.len() + 1);
        let data: Vec<u8> = std::vec![b'a' + (step % 26) as u8; 1 + (seed >> 20) as usize % 300];
        if step % 3 == 0 {
            file.inode().append_later(&mut KernelSrc(&data)).unwrap();
            model.extend_from_slice(&data);
        } else {
            file.inode().write_at(at as u64, &mut KernelSrc(&data)).unwrap();
            model.resize(model.len().max(at + data.len()), 0);
            model[at..at + data.len()].copy_from_slice(&data);
        }
        if step % 97 == 0 {
            assert_eq!(content(&**file.inode()).unwrap(), model, "{step}");
        }
    }
    world.flush();
    assert_eq!(on_host(&world).into_bytes(), model);
    assert!(world.host.gathers.get() > 0);
}
