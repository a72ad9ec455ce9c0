//! The connector against real directories, with correct and with hostile requests.
#![allow(unsafe_code)]

mod covers;
mod limits;
mod locks;
mod unnamed;

use super::*;
use crate::connectors::Window;
use crate::connectors::{Reply, errno_of};
use abi::operation::{Arguments, Encoded, MAX_ARGUMENTS, Operation, Word};
use abi::request::{self, AttrChange, DirRecord, FsStat, ListAttributes, dir_record, open_flags, set_attr};
use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
struct FakeWindow(RefCell<Vec<(u64, u64, u64, bool)>>);

impl Window for FakeWindow {
    fn map(&self, gpa: u64, _: BorrowedFd<'_>, offset: u64, len: u64, writable: bool) -> Result<()> {
        self.0.borrow_mut().push((gpa, offset, len, writable));
        Ok(())
    }
    fn populate(&self, gpa: u64, len: u64, write: bool) -> Result<()> {
        let map = self.0.borrow();
        let found = map.iter().find(|entry| entry.0 <= gpa && gpa + len <= entry.0 + entry.2);
        if found.is_some_and(|entry| entry.3 || !write) { Ok(()) } else { Err(Errno::FAULT) }
    }
    fn unmap(&self, gpa: u64, len: u64) -> Result<()> {
        self.0.borrow_mut().retain(|entry| entry.0 < gpa || entry.0 >= gpa + len);
        Ok(())
    }
}

fn slice(bytes: &mut [u8]) -> GuestSlice {
    // SAFETY: the tests use a slice only while its buffer lives and is not otherwise touched.
    unsafe { GuestSlice::ram(bytes.as_mut_ptr(), bytes.len()) }
}

struct Rig {
    dir: tempfile::TempDir,
    files: FilesConnector,
    window: FakeWindow,
}

const RW: u64 = 1;
const RO: u64 = 2;
const PUBLIC: u64 = 3;
const FILE: u64 = 4;

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("sub/deep")).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        for part in ["sub", "sub/deep"] {
            fs::set_permissions(root.join(part), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(root.join("hello"), "hello world").unwrap();
        fs::set_permissions(root.join("hello"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(root.join("sub/deep/file"), "deep").unwrap();
        fs::write(root.join("private"), "secret").unwrap();
        fs::set_permissions(root.join("private"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(root.join("closed")).unwrap();
        fs::write(root.join("closed/inside"), "x").unwrap();
        fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(dir.path().join("outside"), "OUTSIDE").unwrap();
        symlink("../outside", root.join("escape")).unwrap();
        symlink("..", root.join("up")).unwrap();
        let open = |id, path: &Path, writable, public| {
            let mut export = ExportConfig::open(id as u32, path, writable, public).unwrap();
            export.locks = !public;
            export
        };
        let files = FilesConnector::new(vec![
            open(RW, &root, true, false),
            open(RO, &root, false, false),
            open(PUBLIC, &root, false, true),
            open(FILE, &root.join("hello"), true, false),
        ]);
        Self { dir, files, window: FakeWindow::default() }
    }

    fn root(&self) -> std::path::PathBuf {
        self.dir.path().join("root")
    }

    fn call(&mut self, number: u32, args: &[u64], input: &[u8], room: usize) -> Result<(Reply, Vec<u8>)> {
        let mut all = [0; MAX_ARGUMENTS];
        all[..args.len()].copy_from_slice(args);
        let request = FileRequest::decode(&Encoded { number, arguments: Arguments::raw(all) }).map_err(errno_of)?;
        let mut input = input.to_vec();
        let mut output = vec![0; room];
        // Two pieces each, split at an odd offset.
        let third = input.len() / 3;
        let (a, b) = input.split_at_mut(third);
        let (c, d) = output.split_at_mut(room / 3);
        let reply = self.files.handle(request, &[slice(a), slice(b)], &[slice(c), slice(d)], &self.window)?;
        Ok((reply, output))
    }

    fn errno(&mut self, number: u32, args: &[u64], input: &[u8]) -> Errno {
        self.call(number, args, input, 4096).unwrap_err()
    }

    fn open(&mut self, export: u64, flags: u32, path: &[u8]) -> Result<u64> {
        self.call(request::Open::NUMBER, &[export, flags.into(), 0o644], path, 112).map(|(reply, _)| reply.extra[0])
    }
}

fn attrs(bytes: &[u8], count: usize) -> Vec<NodeAttr> {
    bytes.chunks_exact(112).take(count).map(bytemuck::pod_read_unaligned).collect()
}

fn names(mut bytes: &[u8]) -> Vec<(String, String, NodeAttr)> {
    let mut list = Vec::new();
    while !bytes.is_empty() {
        let record: DirRecord = bytemuck::pod_read_unaligned(&bytes[..120]);
        let (name, target) = (usize::from(record.name_len), usize::from(record.target_len));
        let text = |from: usize, len: usize| String::from_utf8(bytes[from..from + len].to_vec()).unwrap();
        list.push((text(120, name), text(120 + name, target), record.attr));
        bytes = &bytes[(120 + name + target).next_multiple_of(8)..];
    }
    list
}

#[test]
fn listings_tell_who_has_lists() {
    let mut rig = Rig::new();
    let root = rig.root();
    for directory in ["lists/plain", "lists/default"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(root.join("lists/without"), "").unwrap();
    fs::write(root.join("lists/with"), "").unwrap();
    // Owner, user 1, group, mask, others.
    let entries = [(1_u16, u32::MAX), (2, 1), (4, u32::MAX), (16, u32::MAX), (32, u32::MAX)];
    let entry = |(tag, id): (u16, u32)| [&tag.to_le_bytes()[..], &6_u16.to_le_bytes(), &id.to_le_bytes()].concat();
    let value = [2_u32.to_le_bytes().to_vec(), entries.map(entry).concat()].concat();
    let set = |file: &str, name: &str| {
        rustix::fs::setxattr(root.join(file), name, &value, rustix::fs::XattrFlags::empty()).is_ok()
    };
    let are_set = set("lists/with", "system.posix_acl_access") && set("lists/default", "system.posix_acl_default");
    assert!(are_set, "the temporary directory's file system has no access control lists: set TMPDIR to one that has");
    let mut told = |attributes| {
        let (reply, out) = rig.call(request::ReadDir::NUMBER, &[RW, 0, 0, 0, attributes], b"lists", 8192).unwrap();
        let mut list = names(&out[..reply.result as usize]);
        list.sort_by(|a, b| a.0.cmp(&b.0));
        list.into_iter().map(|(_, _, attr)| attr.flags).collect::<Vec<_>>()
    };
    let none = abi::request::node_flags::NO_LISTS;
    assert_eq!(told(ListAttributes::WithLists.to_word()), [0, none, 0, none]);
    assert_eq!(told(ListAttributes::All.to_word()), [0; 4]);
}

#[test]
fn walk_reports_components() {
    let mut rig = Rig::new();
    let (reply, out) = rig.call(request::Walk::NUMBER, &[RO, 0], b"sub/deep/file", 4096).unwrap();
    assert_eq!((reply.result, reply.extra), (3, [0, 3]));
    let found = attrs(&out, 3);
    assert_eq!(found[2].size, 4);
    let real = fs::metadata(rig.root().join("sub/deep/file")).unwrap();
    assert_eq!((found[2].ino, found[2].dev, found[2].mode), (real.ino(), real.dev(), real.mode()));
    assert_eq!((found[2].mtime, i64::from(found[2].mtime_ns)), (real.mtime(), real.mtime_nsec()));

    let (reply, out) = rig.call(request::Walk::NUMBER, &[RO, 2], b"sub/deep/file", 4096).unwrap();
    assert_eq!((reply.result, reply.extra), (1, [0, 3]));
    assert_eq!(attrs(&out, 1)[0], found[2]);

    let (reply, _) = rig.call(request::Walk::NUMBER, &[RO, 0], b"sub/none/file", 4096).unwrap();
    assert_eq!((reply.result, reply.extra), (1, [Errno::NOENT.raw_os_error() as u64, 1]));
    let (reply, out) = rig.call(request::Walk::NUMBER, &[RO, 0], b"up/outside", 4096).unwrap();
    assert_eq!((reply.result, reply.extra), (1, [0, 1]));
    assert_eq!(attrs(&out, 1)[0].mode & 0o170000, 0o120000);
    let (reply, _) = rig.call(request::Walk::NUMBER, &[RO, 0], b"hello/x", 4096).unwrap();
    assert_eq!((reply.result, reply.extra), (1, [0, 1]));
    let (reply, out) = rig.call(request::Walk::NUMBER, &[RO, 0], b"", 4096).unwrap();
    assert_eq!(reply.result, 1);
    assert_eq!(attrs(&out, 1)[0].ino, fs::metadata(rig.root()).unwrap().ino());
    let (reply, _) = rig.call(request::Walk::NUMBER, &[RO, 0], b"sub/deep/file", 230).unwrap();
    assert_eq!((reply.result, reply.extra), (2, [0, 2]));
    let (reply, _) = rig.call(request::Walk::NUMBER, &[PUBLIC, 0], b"closed/inside", 4096).unwrap();
    assert_eq!((reply.result, reply.extra), (1, [Errno::ACCESS.raw_os_error() as u64, 1]));
    assert_eq!(rig.errno(request::Walk::NUMBER, &[PUBLIC, 1], b"closed/inside"), Errno::ACCESS);
    assert_eq!(rig.errno(request::Walk::NUMBER, &[FILE, 0], b"x"), Errno::NOTDIR);
    let (_, out) = rig.call(request::Walk::NUMBER, &[FILE, 0], b"", 4096).unwrap();
    assert_eq!(attrs(&out, 1)[0].size, 11);
}

#[test]
fn directories_come_in_pieces() {
    let mut rig = Rig::new();
    let (reply, out) = rig.call(request::ReadDir::NUMBER, &[RO, 0], b"", 8192).unwrap();
    assert_eq!(reply.extra[0], 0);
    let mut all = names(&out[..reply.result as usize]);
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let list: Vec<_> = all.iter().map(|entry| entry.0.as_str()).collect();
    assert_eq!(list, ["closed", "escape", "hello", "private", "sub", "up"]);
    assert_eq!(all[1].1, "../outside");
    assert_eq!(all[2].2.size, 11);

    let mut got = Vec::new();
    let mut handle = 0;
    loop {
        let (reply, out) = rig.call(request::ReadDir::NUMBER, &[RO, handle], b"", 144).unwrap();
        got.extend(names(&out[..reply.result as usize]).into_iter().map(|entry| entry.0));
        handle = reply.extra[0];
        if handle == 0 {
            break;
        }
        assert_eq!(rig.errno(request::ReadDir::NUMBER, &[RW, handle], b""), Errno::BADF);
    }
    got.sort();
    assert_eq!(got, list);

    assert_eq!(rig.call(request::ReadDir::NUMBER, &[RO, 0], b"", 64).unwrap_err(), Errno::INVAL);
    assert_eq!(rig.errno(request::ReadDir::NUMBER, &[RO, 0], b"hello"), Errno::NOTDIR);
    assert_eq!(rig.errno(request::ReadDir::NUMBER, &[RO, 0], b"up"), Errno::LOOP);
    assert_eq!(rig.errno(request::ReadDir::NUMBER, &[RO, 7], b""), Errno::BADF);
    assert_eq!(rig.errno(request::ReadDir::NUMBER, &[FILE, 0], b""), Errno::NOTDIR);
    assert_eq!(rig.errno(request::ReadDir::NUMBER, &[PUBLIC, 0], b"closed"), Errno::ACCESS);
    let (reply, _) = rig.call(request::ReadDir::NUMBER, &[RO, 0], b"", 300).unwrap();
    rig.call(request::Close::NUMBER, &[reply.extra[0]], b"", 0).unwrap();
    assert_eq!(rig.errno(request::ReadDir::NUMBER, &[RO, reply.extra[0]], b""), Errno::BADF);
}

/// Paths of the directories that came ahead, each with the names in it.
fn listed_ahead(mut bytes: &[u8]) -> Vec<(String, Vec<String>)> {
    let mut lists: Vec<(String, Vec<String>)> = Vec::new();
    while !bytes.is_empty() {
        let record: DirRecord = bytemuck::pod_read_unaligned(&bytes[..120]);
        let (name, target) = (usize::from(record.name_len), usize::from(record.target_len));
        let text = String::from_utf8(bytes[120..120 + name].to_vec()).unwrap();
        match (record.kind, lists.last_mut()) {
            (dir_record::DIRECTORY, _) => lists.push((text, Vec::new())),
            (_, Some(list)) => list.1.push(text),
            (_, None) => {}
        }
        bytes = &bytes[(120 + name + target).next_multiple_of(8)..];
    }
    lists
}

#[test]
fn directories_come_ahead() {
    let mut rig = Rig::new();
    let mut ahead = |export, room, others: &[u8], count| {
        let (reply, out) = rig.call(request::ReadDir::NUMBER, &[export, 0, room, count, 0], others, 8192).unwrap();
        assert_eq!(reply.extra[0], 0);
        let mut lists = listed_ahead(&out[..reply.result as usize]);
        lists.sort();
        lists
    };
    let list = |path: &str, name: &str| (path.to_owned(), vec![name.to_owned()]);
    assert_eq!(ahead(RO, 0, b"", 0), []);
    assert_eq!(ahead(RO, 4096, b"", 0), [list("closed", "inside"), list("sub", "deep"), list("sub/deep", "file")]);
    // World-readable files only.
    assert_eq!(ahead(PUBLIC, 4096, b"", 0), [list("sub", "deep"), list("sub/deep", "file")]);
    assert_eq!(ahead(PUBLIC, 4096, b"sub/deep\0closed\0sub", 2), [list("sub", "deep"), list("sub/deep", "file")]);
    // Only complete directories, as many as fit.
    assert_eq!(ahead(RO, 300, b"sub", 0), [list("sub/deep", "file")]);
    assert_eq!(ahead(RO, 200, b"sub", 0), []);
    // Malformed paths are skipped; links are not followed.
    let others = b"sub/deep\0up\0\0escape\0../outside\0none\0hello\0sub/../closed\0closed";
    assert_eq!(ahead(RO, 4096, others, 9), [list("closed", "inside")]);
    // Without attributes, except those of directories.
    let (reply, out) = rig.call(request::ReadDir::NUMBER, &[RO, 0, 0, 0, 1], b"", 8192).unwrap();
    for (name, target, attr) in names(&out[..reply.result as usize]) {
        let real = fs::symlink_metadata(rig.root().join(&name)).unwrap();
        assert_eq!((attr.ino, attr.mode & 0o170000), (real.ino(), real.mode() & 0o170000));
        assert_eq!((attr.nlink != 0, &target[..]), (real.is_dir(), ""));
    }
}

#[test]
fn only_regular_files_open() {
    let mut rig = Rig::new();
    rig.call(request::Mknod::NUMBER, &[RW, 0o010644], b"fifo", 112).unwrap();
    assert_eq!(rig.open(RO, open_flags::READ, b"sub"), Err(Errno::ISDIR));
    assert_eq!(rig.open(RO, open_flags::READ, b""), Err(Errno::ISDIR));
    assert_eq!(rig.open(RO, open_flags::READ, b"escape"), Err(Errno::LOOP));
    assert_eq!(rig.open(RO, open_flags::READ, b"up/outside"), Err(Errno::LOOP));
    assert_eq!(rig.open(RO, open_flags::READ, b"fifo"), Err(Errno::NXIO));
    assert_eq!(rig.open(RO, open_flags::READ, b"../outside"), Err(Errno::INVAL));
    assert_eq!(rig.open(RO, open_flags::READ, b"/etc/passwd"), Err(Errno::INVAL));
    assert_eq!(rig.open(RO, open_flags::READ, b"none"), Err(Errno::NOENT));
    assert_eq!(rig.open(RO, open_flags::READ, b"hello/x"), Err(Errno::NOTDIR));
    assert_eq!(rig.open(RO, 0, b"hello"), Err(Errno::INVAL));
    assert_eq!(rig.open(RO, 1 << 20 | 1, b"hello"), Err(Errno::INVAL));
    assert_eq!(rig.open(9, open_flags::READ, b"hello"), Err(Errno::INVAL));
    assert_eq!(rig.open(u64::MAX, open_flags::READ, b"hello"), Err(Errno::INVAL));
    assert_eq!(rig.open(PUBLIC, open_flags::READ, b"private"), Err(Errno::ACCESS));
    assert_eq!(rig.open(PUBLIC, open_flags::READ, b"closed/inside"), Err(Errno::ACCESS));
    assert!(rig.open(PUBLIC, open_flags::READ, b"hello").is_ok());
    assert!(rig.open(RO, open_flags::READ, b"sub/deep/file").is_ok());
    assert!(rig.open(FILE, open_flags::READ | open_flags::WRITE, b"").is_ok());
}

#[test]
fn read_only_exports_never_change() {
    let mut rig = Rig::new();
    for export in [RO, PUBLIC] {
        assert_eq!(rig.open(export, open_flags::WRITE, b"hello"), Err(Errno::ROFS));
        assert_eq!(rig.open(export, open_flags::READ | open_flags::TRUNCATE, b"hello"), Err(Errno::ROFS));
        assert_eq!(rig.open(export, open_flags::READ | open_flags::CREATE, b"new"), Err(Errno::ROFS));
        assert!(rig.open(export, open_flags::READ | open_flags::CREATE, b"hello").is_ok());
        let both = open_flags::READ | open_flags::CREATE | open_flags::EXCLUSIVE;
        assert_eq!(rig.open(export, both, b"hello"), Err(Errno::EXIST));
        assert_eq!(rig.errno(request::Mkdir::NUMBER, &[export, 0o755], b"d"), Errno::ROFS);
        assert_eq!(rig.errno(request::Mknod::NUMBER, &[export, 0o100644], b"d"), Errno::ROFS);
        assert_eq!(rig.errno(request::Symlink::NUMBER, &[export, 1], b"dx"), Errno::ROFS);
        assert_eq!(rig.errno(request::Link::NUMBER, &[export, 5], b"hellox"), Errno::ROFS);
        assert_eq!(rig.errno(request::Unlink::NUMBER, &[export, 0], b"hello"), Errno::ROFS);
        assert_eq!(rig.errno(request::Rename::NUMBER, &[export, 5, 0], b"hellox"), Errno::ROFS);
        let set = AttrChange { valid: set_attr::MODE, mode: 0o777, ..AttrChange::default() };
        let input = [bytemuck::bytes_of(&set), b"hello"].concat();
        assert_eq!(rig.errno(request::SetAttr::NUMBER, &[export], &input), Errno::ROFS);
        assert_eq!(rig.errno(request::SetXattr::NUMBER, &[export, 5, 6, 0], b"hellouser.av"), Errno::ROFS);
        assert_eq!(rig.errno(request::RemoveXattr::NUMBER, &[export, 5], b"hellouser.a"), Errno::ROFS);
        let handle = rig.open(export, open_flags::READ, b"hello").unwrap();
        assert_eq!(rig.errno(request::Write::NUMBER, &[handle, 0], b"x"), Errno::BADF);
        assert!(rig.call(request::Truncate::NUMBER, &[handle, 0], b"", 0).is_err());
        assert!(rig.call(request::Fallocate::NUMBER, &[handle, 0, 0, 100], b"", 0).is_err());
        let map = [handle, 0, 4096, abi::layout::WINDOW_BASE as u64, 1];
        assert_eq!(rig.errno(request::Map::NUMBER, &map, b""), Errno::ACCESS);
    }
    assert_eq!(fs::read_to_string(rig.root().join("hello")).unwrap(), "hello world");
}

#[test]
fn a_name_that_is_taken_is_told_of() {
    let mut rig = Rig::new();
    let new = open_flags::READ | open_flags::WRITE | open_flags::CREATE | open_flags::EXCLUSIVE;
    let told = |rig: &mut Rig, export, path: &[u8]| {
        let args = [export, (new | open_flags::OR_TELL).into(), 0o640, u64::from(u32::MAX), u64::from(u32::MAX)];
        let (reply, out) = rig.call(request::Open::NUMBER, &args, path, size_of::<NodeAttr>())?;
        Ok::<_, Errno>((reply, bytemuck::pod_read_unaligned::<NodeAttr>(&out)))
    };
    std::os::unix::fs::symlink("nowhere", rig.root().join("dangling")).unwrap();
    fs::create_dir(rig.root().join("directory")).unwrap();
    for (path, kind) in [(&b"hello"[..], 0o100000), (b"dangling", 0o120000), (b"directory", 0o040000), (b"", 0o040000)]
    {
        for export in [RW, RO] {
            let (reply, attr) = told(&mut rig, export, path).unwrap();
            assert_eq!((reply.result, reply.extra[0], attr.mode & 0o170000), (1, 0, kind), "{path:?}");
            assert_eq!(rig.open(export, new, path), Err(Errno::EXIST));
        }
    }
    assert_eq!(told(&mut rig, RO, b"new").unwrap_err(), Errno::ROFS);
    let (reply, attr) = told(&mut rig, RW, b"new").unwrap();
    assert_eq!((reply.result, attr.mode & 0o7777, attr.size), (0, 0o640, 0));
    assert_ne!(reply.extra[0], 0);
    assert_eq!(fs::read_to_string(rig.root().join("hello")).unwrap(), "hello world");
}

#[test]
fn contents_move() {
    let mut rig = Rig::new();
    let both = open_flags::READ | open_flags::WRITE;
    let handle = rig.open(RW, both | open_flags::CREATE, b"new").unwrap();
    let (reply, _) = rig.call(request::Write::NUMBER, &[handle, 4], b"0123456789", 0).unwrap();
    assert_eq!((reply.result, reply.extra[0]), (10, 14));
    let (reply, out) = rig.call(request::Read::NUMBER, &[handle, 2], b"", 100).unwrap();
    assert_eq!(&out[..reply.result as usize], b"\0\x000123456789");
    let (reply, _) = rig.call(request::Write::NUMBER, &[handle, u64::MAX], b"end", 0).unwrap();
    assert_eq!((reply.result, reply.extra[0]), (3, 17));
    rig.call(request::Truncate::NUMBER, &[handle, 5], b"", 0).unwrap();
    rig.call(request::Sync::NUMBER, &[handle, 0], b"", 0).unwrap();
    rig.call(request::Sync::NUMBER, &[handle, 1], b"", 0).unwrap();
    let (_, out) = rig.call(request::HandleAttr::NUMBER, &[handle], b"", 112).unwrap();
    assert_eq!(attrs(&out, 1)[0].size, 5);
    assert_eq!(fs::metadata(rig.root().join("new")).unwrap().mode() & 0o7777, 0o644);
    for offset in [u64::MAX - 1, 1 << 63] {
        assert_eq!(rig.errno(request::Read::NUMBER, &[handle, offset], b""), Errno::INVAL);
        assert_eq!(rig.errno(request::Write::NUMBER, &[handle, offset], b"x"), Errno::INVAL);
        assert_eq!(rig.errno(request::Truncate::NUMBER, &[handle, offset], b""), Errno::INVAL);
        assert_eq!(rig.errno(request::Fallocate::NUMBER, &[handle, 0, offset, 1], b""), Errno::INVAL);
    }
    assert_eq!(rig.errno(request::Fallocate::NUMBER, &[handle, 1 << 30, 0, 1], b""), Errno::OPNOTSUPP);
    assert_eq!(rig.errno(request::Fallocate::NUMBER, &[handle, u64::MAX, 0, 1], b""), Errno::OPNOTSUPP);
    rig.call(request::Close::NUMBER, &[handle], b"", 0).unwrap();
    assert_eq!(rig.errno(request::Close::NUMBER, &[handle], b""), Errno::BADF);
    assert_eq!(rig.errno(request::Read::NUMBER, &[handle, 0], b""), Errno::BADF);
    let handle = rig.open(RW, open_flags::WRITE | open_flags::TRUNCATE, b"new").unwrap();
    let (_, out) = rig.call(request::HandleAttr::NUMBER, &[handle], b"", 112).unwrap();
    assert_eq!(attrs(&out, 1)[0].size, 0);
}

#[test]
fn fetch_delivers_the_beginning() {
    let mut rig = Rig::new();
    let (reply, out) = rig.call(request::Fetch::NUMBER, &[RO], b"hello", 112 + 100).unwrap();
    assert_eq!((reply.result, reply.extra[0]), (11, 0));
    assert_eq!(&out[112..123], b"hello world");
    assert_eq!(attrs(&out, 1)[0].size, 11);
    let (reply, out) = rig.call(request::Fetch::NUMBER, &[RO], b"hello", 112 + 11).unwrap();
    assert_eq!((reply.result, reply.extra[0]), (11, 0));
    assert_eq!(&out[112..], b"hello world");
    let (reply, out) = rig.call(request::Fetch::NUMBER, &[RO], b"hello", 112 + 5).unwrap();
    assert_eq!(&out[112..], b"hello");
    let (reply, out) = rig.call(request::Read::NUMBER, &[reply.extra[0], 5], b"", 100).unwrap();
    assert_eq!(&out[..reply.result as usize], b" world");
    assert_eq!(rig.call(request::Fetch::NUMBER, &[RO], b"hello", 50).unwrap_err(), Errno::RANGE);
    assert_eq!(rig.errno(request::Fetch::NUMBER, &[RO], b"escape"), Errno::LOOP);
    assert_eq!(rig.errno(request::Fetch::NUMBER, &[PUBLIC], b"private"), Errno::ACCESS);
}

#[test]
fn directories_change() {
    let mut rig = Rig::new();
    let root = rig.root();
    let (_, out) = rig.call(request::Mkdir::NUMBER, &[RW, 0o1777, 12, 34], b"made", 112).unwrap();
    let attr = attrs(&out, 1)[0];
    assert_eq!(attr.mode, 0o041777);
    if rustix::process::geteuid().is_root() {
        assert_eq!((attr.uid, attr.gid), (12, 34));
        let handle = rig.call(request::Open::NUMBER, &[RW, 2 | 4, 0o4755, 12, 34], b"made/x", 112).unwrap().0.extra[0];
        let (_, out) = rig.call(request::HandleAttr::NUMBER, &[handle], b"", 112).unwrap();
        let attr = attrs(&out, 1)[0];
        assert_eq!((attr.uid, attr.gid, attr.mode), (12, 34, 0o100755));
        rig.call(request::Unlink::NUMBER, &[RW, 0], b"made/x", 0).unwrap();
    }
    assert_eq!(rig.errno(request::Mkdir::NUMBER, &[RW, 0o755], b"made"), Errno::EXIST);
    assert_eq!(rig.errno(request::Mkdir::NUMBER, &[RW, 0o755], b""), Errno::BUSY);
    rig.call(request::Symlink::NUMBER, &[RW, 9], b"made/linktarget/../..", 112).unwrap();
    assert_eq!(fs::read_link(root.join("made/link")).unwrap(), Path::new("target/../.."));
    let (reply, out) = rig.call(request::ReadLink::NUMBER, &[RW], b"made/link", 6).unwrap();
    assert_eq!((reply.result, &out[..]), (6, &b"target"[..]));
    assert_eq!(rig.errno(request::ReadLink::NUMBER, &[RW], b"hello"), Errno::INVAL);
    let (_, out) = rig.call(request::Link::NUMBER, &[RW, 5], b"hellomade/hard", 112).unwrap();
    assert_eq!(attrs(&out, 1)[0].nlink, 2);
    // A link to a symbolic link links the symbolic link itself.
    rig.call(request::Link::NUMBER, &[RW, 6], b"escapemade/alsolink", 112).unwrap();
    assert!(root.join("made/alsolink").is_symlink());
    rig.call(request::Unlink::NUMBER, &[RW, 0], b"made/alsolink", 0).unwrap();
    assert_eq!(rig.errno(request::Rename::NUMBER, &[RW, 5, 1], b"hellomade/hard"), Errno::EXIST);
    assert_eq!(rig.errno(request::Rename::NUMBER, &[RW, 5, 4], b"helloy"), Errno::INVAL);
    assert_eq!(rig.errno(request::Rename::NUMBER, &[RW, 5, u64::MAX], b"helloy"), Errno::INVAL);
    assert_eq!(rig.errno(request::Rename::NUMBER, &[RW, 99, 0], b"hello"), Errno::INVAL);
    rig.call(request::Rename::NUMBER, &[RW, 9, 0], b"made/linkrenamed", 0).unwrap();
    assert!(root.join("renamed").is_symlink());
    assert_eq!(rig.errno(request::Unlink::NUMBER, &[RW, 1], b"made"), Errno::NOTEMPTY);
    rig.call(request::Unlink::NUMBER, &[RW, 0], b"made/hard", 0).unwrap();
    assert_eq!(rig.errno(request::Unlink::NUMBER, &[RW, 0], b"made"), Errno::ISDIR);
    rig.call(request::Unlink::NUMBER, &[RW, 1], b"made", 0).unwrap();
    assert_eq!(rig.errno(request::Unlink::NUMBER, &[RW, 1], b""), Errno::BUSY);
    assert_eq!(rig.errno(request::Unlink::NUMBER, &[FILE, 0], b""), Errno::BUSY);
    assert_eq!(rig.errno(request::Mknod::NUMBER, &[RW, 0o020644], b"dev"), Errno::PERM);
    assert_eq!(rig.errno(request::Mknod::NUMBER, &[RW, 0o060644], b"dev"), Errno::PERM);
    assert_eq!(rig.errno(request::Mknod::NUMBER, &[RW, 0o120644], b"dev"), Errno::INVAL);
    // Removing through a link is impossible.
    assert_eq!(rig.errno(request::Unlink::NUMBER, &[RW, 0], b"up/outside"), Errno::LOOP);
    assert!(rig.dir.path().join("outside").exists());
}

#[test]
fn attributes_change() {
    let mut rig = Rig::new();
    let set =
        |valid| AttrChange { valid, mode: 0o600, size: 3, mtime: 1_000_000, mtime_ns: 5, ..AttrChange::default() };
    let input = |set: AttrChange, path: &[u8]| [bytemuck::bytes_of(&set), path].concat();
    let change = set_attr::MODE | set_attr::SIZE | set_attr::MTIME;
    let (_, out) = rig.call(request::SetAttr::NUMBER, &[RW], &input(set(change), b"hello"), 112).unwrap();
    let attr = attrs(&out, 1)[0];
    assert_eq!((attr.mode, attr.size, attr.mtime, attr.mtime_ns), (0o100600, 3, 1_000_000, 5));
    assert_eq!(rig.errno(request::SetAttr::NUMBER, &[RW], &input(set(set_attr::SIZE), b"sub")), Errno::ISDIR);
    assert_eq!(rig.errno(request::SetAttr::NUMBER, &[RW], &input(set(1 << 20), b"hello")), Errno::INVAL);
    assert_eq!(rig.errno(request::SetAttr::NUMBER, &[RW], b"short"), Errno::INVAL);
    let bad = AttrChange { valid: set_attr::MTIME, mtime_ns: 1_000_000_000, ..AttrChange::default() };
    assert_eq!(rig.errno(request::SetAttr::NUMBER, &[RW], &input(bad, b"hello")), Errno::INVAL);
    // Another file than the one that is meant has the name.
    let named =
        |ino| AttrChange { ino, dev: attr.dev, btime: attr.btime, btime_ns: attr.btime_ns, ..set(set_attr::MTIME) };
    rig.call(request::SetAttr::NUMBER, &[RW], &input(named(attr.ino), b"hello"), 112).unwrap();
    let other = AttrChange { mode: 0o640, valid: set_attr::MODE, ..named(attr.ino + 1) };
    assert_eq!(rig.errno(request::SetAttr::NUMBER, &[RW], &input(other, b"hello")), Errno::STALE);
    let reused = AttrChange { mode: 0o640, valid: set_attr::MODE, btime: attr.btime - 1, ..named(attr.ino) };
    assert_eq!(rig.errno(request::SetAttr::NUMBER, &[RW], &input(reused, b"hello")), Errno::STALE);
    let (_, out) = rig.call(request::SetAttr::NUMBER, &[RW], &input(named(attr.ino), b"hello"), 112).unwrap();
    assert_eq!(attrs(&out, 1)[0].mode, 0o100600);
    // Operates on the symbolic link itself, never on its target.
    let before = fs::metadata(rig.dir.path().join("outside")).unwrap();
    rig.call(request::SetAttr::NUMBER, &[RW], &input(set(set_attr::MTIME), b"escape"), 112).unwrap();
    assert_eq!(rig.errno(request::SetAttr::NUMBER, &[RW], &input(set(set_attr::MODE), b"escape")), Errno::OPNOTSUPP);
    assert!(rig.call(request::SetAttr::NUMBER, &[RW], &input(set(set_attr::SIZE), b"escape"), 0).is_err());
    let after = fs::metadata(rig.dir.path().join("outside")).unwrap();
    assert_eq!((before.mtime(), before.mode(), before.len()), (after.mtime(), after.mode(), after.len()));
    let (_, out) = rig.call(request::StatFs::NUMBER, &[RO], b"hello", 64).unwrap();
    let stat: FsStat = bytemuck::pod_read_unaligned(&out);
    assert!(stat.bsize > 0 && stat.namelen >= 143);
}

#[test]
fn extended_attributes() {
    let mut rig = Rig::new();
    match rig.call(request::SetXattr::NUMBER, &[RW, 5, 6, 0], b"hellouser.avalue", 0) {
        Err(Errno::OPNOTSUPP) => return, // the file system does not support them
        other => other.unwrap(),
    };
    let (reply, _) = rig.call(request::GetXattr::NUMBER, &[RW, 5], b"hellouser.a", 0).unwrap();
    assert_eq!(reply.result, 5);
    let (reply, out) = rig.call(request::GetXattr::NUMBER, &[RO, 5], b"hellouser.a", 64).unwrap();
    assert_eq!(&out[..reply.result as usize], b"value");
    assert_eq!(rig.call(request::GetXattr::NUMBER, &[RO, 5], b"hellouser.a", 3).unwrap_err(), Errno::RANGE);
    assert_eq!(rig.errno(request::SetXattr::NUMBER, &[RW, 5, 6, 1], b"hellouser.av"), Errno::EXIST);
    assert_eq!(rig.errno(request::SetXattr::NUMBER, &[RW, 5, 6, 64], b"hellouser.av"), Errno::INVAL);
    assert_eq!(rig.errno(request::SetXattr::NUMBER, &[RW, 5, 99, 0], b"hellouser.av"), Errno::INVAL);
    assert_eq!(rig.errno(request::SetXattr::NUMBER, &[RW, 5, 19, 0], b"hellosecurity.capabilityv"), Errno::PERM);
    assert_eq!(rig.errno(request::SetXattr::NUMBER, &[RW, 5, 9, 0], b"hellotrusted.av"), Errno::PERM);
    assert_eq!(rig.errno(request::SetXattr::NUMBER, &[RW, 2, 6, 0], b"upuser.av"), Errno::PERM);
    let (reply, out) = rig.call(request::ListXattr::NUMBER, &[RO], b"hello", 256).unwrap();
    assert!(out[..reply.result as usize].split(|&byte| byte == 0).any(|name| name == b"user.a"));
    rig.call(request::RemoveXattr::NUMBER, &[RW, 5], b"hellouser.a", 0).unwrap();
    assert_eq!(rig.errno(request::GetXattr::NUMBER, &[RO, 5], b"hellouser.a"), Errno::NODATA);
    assert_eq!(rig.errno(request::GetXattr::NUMBER, &[RO, 5], b"hello"), Errno::RANGE);
}

#[test]
fn maps_are_checked() {
    let mut rig = Rig::new();
    let base = abi::layout::WINDOW_BASE as u64;
    let end = base + abi::layout::WINDOW_SIZE as u64;
    let handle = rig.open(RO, open_flags::READ, b"hello").unwrap();
    rig.call(request::Map::NUMBER, &[handle, 0, 4096, base, 0], b"", 0).unwrap();
    assert_eq!(rig.window.0.borrow().as_slice(), [(base, 0, 4096, false)]);
    for (offset, len, gpa) in [
        (1, 4096, base),
        (0, 0, base),
        (0, 100, base),
        (0, 4096, base + 1),
        (0, 4096, 0),
        (0, 8192, end - 4096),
        (0, u64::MAX - 4095, base),
        (1 << 63, 4096, base),
    ] {
        assert!(rig.call(request::Map::NUMBER, &[handle, offset, len, gpa, 0], b"", 0).is_err());
    }
    // The file has only one page.
    for (offset, len) in [(0, 8192), (4096, 4096), (1 << 40, 4096)] {
        assert_eq!(rig.errno(request::Map::NUMBER, &[handle, offset, len, base, 0], b""), Errno::NXIO);
    }
    rig.call(request::Map::NUMBER, &[handle, 0, 4096, base, 0], b"", 0).unwrap();
    rig.call(request::Populate::NUMBER, &[base, 4096, 0], b"", 0).unwrap();
    assert_eq!(rig.errno(request::Populate::NUMBER, &[base, 4096, 1], b""), Errno::FAULT);
    for (gpa, len, write) in
        [(0, 4096, 0), (base + 1, 4096, 0), (base, 0, 0), (base, 4 << 20, 0), (end, 4096, 0), (base, 4096, 2)]
    {
        assert_eq!(rig.errno(request::Populate::NUMBER, &[gpa, len, write], b""), Errno::INVAL);
    }
    for (gpa, len) in [(0, 4096), (base, 0), (end, 4096), (base, u64::MAX - 4095), (u64::MAX - 4095, 4096)] {
        assert_eq!(rig.errno(request::Unmap::NUMBER, &[gpa, len], b""), Errno::INVAL);
    }
    assert_eq!(rig.errno(request::Map::NUMBER, &[handle, 0, 4096, base, 1], b""), Errno::ACCESS);
    rig.call(request::Unmap::NUMBER, &[base, 4096], b"", 0).unwrap();
    assert!(rig.window.0.borrow().is_empty());
}

#[test]
fn window_memory_is_never_copied() {
    let mut rig = Rig::new();
    let mut bytes = *b"hello";
    // SAFETY: the buffer outlives the call.
    let slice = unsafe { GuestSlice::window(bytes.as_mut_ptr(), 5) };
    let stat = request::StatFs { export: RO as u32 };
    assert_eq!(rig.files.handle(stat.into(), &[slice], &[], &rig.window), Err(Errno::FAULT));
}

/// A host process swaps a directory with a link to the outside in a loop while the guest sends requests.
#[test]
fn exchanged_directories_never_lead_outside() {
    let mut rig = Rig::new();
    let root = rig.root();
    fs::create_dir(rig.dir.path().join("secret")).unwrap();
    fs::write(rig.dir.path().join("secret/file"), "OUTSIDE").unwrap();
    fs::create_dir(root.join("flip")).unwrap();
    fs::write(root.join("flip/file"), "inside!").unwrap();
    symlink("../secret", root.join("flop")).unwrap();
    fs::write(root.join("leaf"), "inside!").unwrap();
    symlink("../secret/file", root.join("bait")).unwrap();
    let outside = fs::metadata(rig.dir.path().join("secret/file")).unwrap().ino();
    let stop = Arc::new(AtomicBool::new(false));
    let flipper = std::thread::spawn({
        let (stop, root) = (stop.clone(), root.clone());
        move || {
            let dir = rustix::fs::open(&root, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
            while !stop.load(Ordering::Relaxed) {
                for (a, b) in [("flip", "flop"), ("leaf", "bait")] {
                    rustix::fs::renameat_with(&dir, a, &dir, b, rustix::fs::RenameFlags::EXCHANGE).unwrap();
                }
            }
        }
    });
    let mut hits = 0;
    for _ in 0..4000 {
        for path in [&b"flip/file"[..], b"leaf"] {
            if let Ok((reply, out)) = rig.call(request::Walk::NUMBER, &[RO, 0], path, 4096) {
                assert!(attrs(&out, reply.result as usize).iter().all(|attr| attr.ino != outside));
            }
            if let Ok(handle) = rig.open(RW, open_flags::READ | open_flags::WRITE, path) {
                let (reply, out) = rig.call(request::Read::NUMBER, &[handle, 0], b"", 16).unwrap();
                assert_eq!(&out[..reply.result as usize], b"inside!");
                rig.call(request::Close::NUMBER, &[handle], b"", 0).unwrap();
                hits += 1;
            }
            let set = AttrChange { valid: set_attr::MTIME, mtime: 77, ..AttrChange::default() };
            let _ = rig.call(request::SetAttr::NUMBER, &[RW], &[bytemuck::bytes_of(&set), path].concat(), 112);
            if let Ok((reply, out)) = rig.call(request::ReadDir::NUMBER, &[RO, 0], b"flip", 4096) {
                assert!(names(&out[..reply.result as usize]).iter().all(|entry| entry.2.ino != outside));
            }
        }
        let _ = rig.call(request::Mkdir::NUMBER, &[RW, 0o755], b"flip/made", 112);
        let _ = rig.call(request::Unlink::NUMBER, &[RW, 1], b"flip/made", 0);
    }
    stop.store(true, Ordering::Relaxed);
    flipper.join().unwrap();
    assert!(hits > 0);
    assert_ne!(fs::metadata(rig.dir.path().join("secret/file")).unwrap().mtime(), 77);
    assert!(!rig.dir.path().join("secret/made").exists());
}

/// All changes of one request apply to the same file, even if the name is moved meanwhile.
#[test]
fn attributes_change_together() {
    let mut rig = Rig::new();
    let root = rig.root();
    for name in ["one", "two"] {
        fs::write(root.join(name), "").unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let flipper = std::thread::spawn({
        let (stop, root) = (stop.clone(), root.clone());
        move || {
            while !stop.load(Ordering::Relaxed) {
                let cwd = rustix::fs::CWD;
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(cwd, root.join("one"), cwd, root.join("two"), exchange).unwrap();
            }
        }
    });
    let mut together = true;
    for size in 1..20_000 {
        let set = AttrChange { valid: set_attr::MODE | set_attr::SIZE, mode: 0o600, size, ..AttrChange::default() };
        let input = [bytemuck::bytes_of(&set), b"one"].concat();
        let (_, out) = rig.call(request::SetAttr::NUMBER, &[RW], &input, 112).unwrap();
        together &= attrs(&out, 1)[0].size == size;
    }
    stop.store(true, Ordering::Relaxed);
    flipper.join().unwrap();
    assert!(together);
}

/// Arguments of a hostile guest: export numbers, handles, limits.
fn argument() -> impl proptest::strategy::Strategy<Value = u64> {
    use proptest::prelude::*;
    prop_oneof![
        6 => 0..9u64,
        3 => (1..4u64, 0..6u64).prop_map(|(generation, slot)| generation << 32 | slot),
        2 => proptest::sample::select(vec![0o644, 0o10644, 0o20644, 0o40755, 0o120777, 0o140644, 4096, 8192]),
        2 => proptest::sample::select(vec![u64::MAX, i64::MAX as u64, 1 << 63, u64::MAX - 4095, 1 << 32]),
        1 => proptest::sample::select(vec![abi::layout::WINDOW_BASE as u64, abi::layout::WINDOW_BASE as u64 + 1]),
        1 => any::<u64>().prop_map(|number| number % (1 << 20)),
    ]
}

/// Inputs: paths that try to leave the export, pairs of them, and random bytes.
fn payload() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    use proptest::prelude::*;
    let names = ["hello", "sub", "deep", "file", "escape", "up", "..", ".", "", "outside", "closed", "private", "new"];
    prop_oneof![
        6 => proptest::collection::vec(proptest::sample::select(names.to_vec()), 1..4)
            .prop_map(|names| names.join("/").into_bytes()),
        2 => (proptest::sample::select(names.to_vec()), proptest::sample::select(names.to_vec()))
            .prop_map(|(a, b)| [a, b].concat().into_bytes()),
        1 => proptest::sample::select(vec!["hellouser.a", "hellouser.avalue", "/etc/passwd", "../outside"])
            .prop_map(|text| text.as_bytes().to_vec()),
        2 => (0..256u32, "(hello|sub|escape|up)").prop_map(|(valid, path)| {
            let set = AttrChange { valid, mode: 0o777, ..AttrChange::default() };
            [bytemuck::bytes_of(&set), path.as_bytes()].concat()
        }),
        1 => proptest::collection::vec(any::<u8>(), 0..64),
        1 => Just(vec![b'a'; MAX_INPUT + 1]),
    ]
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 300, failure_persistence: None, ..Default::default() })]

    /// Random requests in random order: no panic, no data from outside, no change outside.
    #[test]
    fn random_requests_stay_inside(
        requests in proptest::collection::vec(
            (
                0..64u32,
                proptest::array::uniform6(argument()),
                payload(),
                proptest::sample::select(vec![0, 8, 64, 112, 113, 300, 5000]),
            ),
            1..40,
        )
    ) {
        let mut rig = Rig::new();
        for (number, args, input, room) in requests {
            // Often the correct number of arguments.
            let known = FileRequest::ALL.iter().find(|(other, _)| *other == number).map_or(args.len(), |(_, count)| *count);
            if let Ok((_, output)) = rig.call(number, &args[..known], &input, room) {
                proptest::prop_assert!(!output.windows(7).any(|window| window == b"OUTSIDE"));
            }
        }
        let outside = rig.dir.path().join("outside");
        proptest::prop_assert_eq!(fs::read(&outside).unwrap(), b"OUTSIDE");
        let mut left: Vec<_> = fs::read_dir(rig.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        proptest::prop_assert_eq!(left, ["outside", "root"]);
        proptest::prop_assert_ne!(fs::metadata(outside).unwrap().mode() & 0o777, 0o777);
    }
}
