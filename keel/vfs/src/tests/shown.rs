//! What calls without the big lock see of files is what handlers see, or nothing.

use super::host_dir::HostDir;
use super::{World, content, expire};
use crate::io::KernelSrc;
use crate::{Attr, Change, Inode, SetTime};
use hal::sync::grace;
use std::fs;
use std::string::ToString;
use std::vec::Vec;

/// What is shown: attributes, and the content if that is shown too.
fn seen(inode: &dyn Inode) -> Option<(Attr, Option<Vec<u8>>)> {
    let shown = inode.shown().unwrap();
    grace::read(|reading| {
        let view = shown.view(reading)?;
        let mut bytes = Vec::new();
        let done = view.read(&shown, reading, 0, 1 << 20, |part| {
            let start = bytes.len();
            bytes.resize(start + part.len, 0);
            part.frame.inspect(|frame| frame.read(part.offset, &mut bytes[start..]));
            Some(())
        });
        Some((*view.attr(), done.map(|_| bytes)))
    })
}

/// Uses a file until it is shown as far as it can be.
fn use_often(inode: &dyn Inode) {
    inode.shown().unwrap();
    for _ in 0..3 {
        let len = content(inode).unwrap().len();
        inode.show(0, len);
    }
}

fn agrees(inode: &dyn Inode) {
    if let Some((attr, bytes)) = seen(inode) {
        assert_eq!(attr, inode.attr().unwrap());
        assert!(bytes.is_none_or(|bytes| bytes == content(inode).unwrap()));
    }
}

#[test]
fn each_change_is_seen() {
    let host = HostDir::new("t-shown");
    for i in 0..8 {
        host.write(&i.to_string(), &[b'h'; 70_000]);
    }
    let w = World::new(host);
    let read_only = |i: usize| std::format!("/h/{i}");
    let writable = |i: usize| std::format!("/w/{}", i + 4);
    let private = |i: usize| std::format!("/{i}");
    for i in 0..4 {
        w.write(&private(i), &[b'p'; 70_000]).unwrap();
    }
    let mut x = 1u64;
    let mut random = |below: u64| {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33) % below
    };
    let mut shown = 0;
    for step in 0..600 {
        let i = random(4) as usize;
        let path = [read_only(i), writable(i), private(i)][random(3) as usize].clone();
        let file = w.get(&path).unwrap();
        let inode = file.inode();
        use_often(&**inode);
        if let Some((_, Some(bytes))) = seen(&**inode) {
            assert_eq!(bytes, content(&**inode).unwrap());
            shown += 1;
        }
        let (at, len) = (random(90_000), 1 + random(9_000));
        match random(if path.starts_with("/h") && step < 300 { 3 } else { 9 }) {
            0 => drop(inode.attr().unwrap()),
            1 => {
                w.link(&path, "/link").or_else(|_| w.link(&path, &std::format!("{path}link"))).unwrap();
                agrees(&**inode);
                w.unlink("/link").or_else(|_| w.unlink(&std::format!("{path}link"))).unwrap();
            }
            2 => {
                let change = Change { mode: Some(random(512) as u32), ..Change::default() };
                inode.change(&change).unwrap();
            }
            3 => inode.change(&Change { mtime: Some(SetTime::At(step, 0)), ..Change::default() }).unwrap(),
            4 => inode.truncate(at).unwrap(),
            5 => drop(inode.fallocate(1 | 2, at, len)),
            6 => drop(inode.pages(at / 4096, 3, path.starts_with("/h")).ok()),
            7 => drop(inode.append(&mut KernelSrc(&[b'a'; 5])).unwrap()),
            _ => drop(inode.write_at(at, &mut KernelSrc(&std::vec![b'w'; len as usize])).unwrap()),
        }
        agrees(&**inode);
    }
    assert!(shown > 300, "{shown}");
}

#[test]
fn what_the_host_changed_is_seen_when_what_is_known_expires() {
    let host = HostDir::new("t-shown-host");
    host.write("f", b"before");
    let w = World::new(host);
    for path in ["/h/f", "/w/f"] {
        fs::write(w.host.root.join("f"), b"before").unwrap();
        expire();
        let file = w.get(path).unwrap();
        use_often(&**file.inode());
        assert_eq!(seen(&**file.inode()).unwrap().1.unwrap(), b"before");
        fs::write(w.host.root.join("f"), b"and after").unwrap();
        expire();
        assert_eq!(seen(&**file.inode()), None);
        assert_eq!(content(&**file.inode()).unwrap(), b"and after");
        agrees(&**file.inode());
        use_often(&**file.inode());
        assert_eq!(seen(&**file.inode()).unwrap().1.unwrap(), b"and after");
    }
}

#[test]
fn what_did_not_change_is_shown_on_with_its_pages() {
    let host = HostDir::new("t-shown-same");
    host.write("f", &[b'x'; 9000]);
    let w = World::new(host);
    let file = w.get("/w/f").unwrap();
    // The first read may have moved the access time on the host.
    use_often(&**file.inode());
    expire();
    use_often(&**file.inode());
    expire();
    assert_eq!(seen(&**file.inode()), None);
    let size = file.inode().attr().unwrap().size;
    file.inode().show(0, 0);
    assert_eq!(seen(&**file.inode()).unwrap().1.map(|bytes| bytes.len() as u64), Some(size));
}
