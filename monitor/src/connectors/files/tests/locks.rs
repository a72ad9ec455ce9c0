//! Locks that are seen by others on the host.

use super::*;
use abi::request::{HoldLocks, Lock, LockWhole, TestLock};
use rustix::fs::FlockOperation;
use std::os::fd::AsRawFd;

const NONE: u64 = 0;
const SHARED: u64 = 1;
const EXCLUSIVE: u64 = 2;
const RDWR: u32 = open_flags::READ | open_flags::WRITE;

fn hold(rig: &mut Rig, export: u64, flags: u32) -> (u64, u64) {
    let file = rig.open(export, flags, b"hello").unwrap();
    (file, rig.call(HoldLocks::NUMBER, &[file], b"", 0).unwrap().0.result)
}

fn lock(rig: &mut Rig, of: u64, start: u64, end: u64, kind: u64) -> Result<()> {
    rig.call(Lock::NUMBER, &[of, start, end, kind], b"", 0).map(drop)
}

fn lock_whole(rig: &mut Rig, of: u64, kind: u64) -> Result<()> {
    rig.call(LockWhole::NUMBER, &[of, kind], b"", 0).map(drop)
}

/// What another description of the host may do with bytes of the file.
fn outside(file: &fs::File, kind: i32, start: i64, len: i64) -> bool {
    let range =
        libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: start, l_len: len, l_pid: 0 };
    // SAFETY: the kernel reads one structure of this type.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) == 0 }
}

fn other(rig: &Rig) -> fs::File {
    fs::File::options().read(true).write(true).open(rig.root().join("hello")).unwrap()
}

#[test]
fn ranges_exclude_others_and_are_excluded() {
    let mut rig = Rig::new();
    let (_, of) = hold(&mut rig, RW, RDWR);
    let other = other(&rig);
    lock(&mut rig, of, 10, 19, EXCLUSIVE).unwrap();
    assert!(!outside(&other, libc::F_RDLCK, 19, 1) && outside(&other, libc::F_WRLCK, 20, 1));
    assert_eq!(lock(&mut rig, of, 15, 20, SHARED).unwrap_err(), Errno::AGAIN);
    lock(&mut rig, of, 15, 19, SHARED).unwrap();
    assert!(outside(&other, libc::F_RDLCK, 15, 5) && !outside(&other, libc::F_RDLCK, 14, 1));
    assert_eq!(lock(&mut rig, of, 15, 15, EXCLUSIVE).unwrap_err(), Errno::AGAIN);
    let (reply, _) = rig.call(TestLock::NUMBER, &[of, 0, u64::MAX, SHARED], b"", 0).unwrap();
    assert_eq!((reply.result, reply.extra), (4, [20, 20]), "another description's, exclusive");
    let (reply, _) = rig.call(TestLock::NUMBER, &[of, 16, 17, EXCLUSIVE], b"", 0).unwrap();
    assert_eq!((reply.result, reply.extra), (3, [15, 19]), "another description's, shared");
    lock(&mut rig, of, 0, u64::MAX, NONE).unwrap();
    assert!(outside(&other, libc::F_WRLCK, 0, 0));
    assert_eq!(lock(&mut rig, of, 1 << 40, u64::MAX, SHARED).unwrap_err(), Errno::AGAIN);
}

#[test]
fn whole_files_exclude_others_and_are_excluded() {
    let mut rig = Rig::new();
    let (_, of) = hold(&mut rig, RO, open_flags::READ);
    let other = other(&rig);
    lock_whole(&mut rig, of, SHARED).unwrap();
    rustix::fs::flock(&other, FlockOperation::NonBlockingLockShared).unwrap();
    assert_eq!(lock_whole(&mut rig, of, EXCLUSIVE).unwrap_err(), Errno::AGAIN);
    // As on Linux, what was held before is lost.
    rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(lock_whole(&mut rig, of, SHARED).unwrap_err(), Errno::AGAIN);
    drop(other);
    lock_whole(&mut rig, of, EXCLUSIVE).unwrap();
    lock(&mut rig, of, 0, 0, SHARED).unwrap();
    assert_eq!(lock(&mut rig, of, 0, 0, EXCLUSIVE).unwrap_err(), Errno::BADF, "not open for writing");
}

#[test]
fn locks_end_with_their_handle_and_outlive_the_files() {
    let mut rig = Rig::new();
    let (file, of) = hold(&mut rig, RW, RDWR);
    let other = other(&rig);
    lock(&mut rig, of, 0, u64::MAX, EXCLUSIVE).unwrap();
    lock_whole(&mut rig, of, EXCLUSIVE).unwrap();
    rig.call(request::Close::NUMBER, &[file], b"", 0).unwrap();
    assert!(!outside(&other, libc::F_RDLCK, 0, 1));
    assert!(rustix::fs::flock(&other, FlockOperation::NonBlockingLockShared).is_err());
    rig.call(request::Close::NUMBER, &[of], b"", 0).unwrap();
    assert!(outside(&other, libc::F_WRLCK, 0, 0));
    rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
}

#[test]
fn locks_end_although_their_description_stays() {
    let mut rig = Rig::new();
    let (file, of) = hold(&mut rig, RW, RDWR);
    lock(&mut rig, of, 0, u64::MAX, EXCLUSIVE).unwrap();
    lock_whole(&mut rig, of, EXCLUSIVE).unwrap();
    rig.call(request::Close::NUMBER, &[of], b"", 0).unwrap();
    let other = other(&rig);
    assert!(outside(&other, libc::F_WRLCK, 0, 0));
    rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    rig.call(request::Read::NUMBER, &[file, 0], b"", 5).unwrap();
}

#[test]
fn misuse_is_refused() {
    let mut rig = Rig::new();
    let (file, of) = hold(&mut rig, RW, RDWR);
    let public = rig.open(PUBLIC, open_flags::READ, b"hello").unwrap();
    assert_eq!(rig.errno(HoldLocks::NUMBER, &[public], b""), Errno::ACCESS);
    assert_eq!(rig.errno(HoldLocks::NUMBER, &[of], b""), Errno::BADF);
    assert_eq!(rig.errno(HoldLocks::NUMBER, &[12345], b""), Errno::BADF);
    assert_eq!(rig.errno(Lock::NUMBER, &[file, 0, 1, SHARED], b""), Errno::BADF);
    assert_eq!(rig.errno(LockWhole::NUMBER, &[file, SHARED], b""), Errno::BADF);
    assert_eq!(rig.errno(LockWhole::NUMBER, &[of, 3], b""), Errno::INVAL);
    assert_eq!(rig.errno(request::Read::NUMBER, &[of, 0], b""), Errno::BADF);
    assert_eq!(rig.errno(Lock::NUMBER, &[of, 2, 1, SHARED], b""), Errno::INVAL);
    assert_eq!(rig.errno(Lock::NUMBER, &[of, 1 << 63, u64::MAX, SHARED], b""), Errno::INVAL);
    assert_eq!(rig.errno(Lock::NUMBER, &[of, 0, 1, 3], b""), Errno::INVAL);
    assert_eq!(rig.errno(TestLock::NUMBER, &[of, 0, 1, NONE], b""), Errno::INVAL);
    assert_eq!(rig.errno(TestLock::NUMBER, &[file, 0, 1, SHARED], b""), Errno::BADF);
}

#[test]
fn locks_are_bounded() {
    let mut rig = Rig::new();
    let first = rig.open(RW, RDWR, b"hello").unwrap();
    let mut all = vec![rig.call(HoldLocks::NUMBER, &[first], b"", 0).unwrap().0.result];
    assert_eq!(rig.errno(HoldLocks::NUMBER, &[first], b""), Errno::BUSY, "its description has locks that are counted");
    let refused = loop {
        let file = match rig.open(RW, RDWR, b"hello") {
            Ok(file) => file,
            Err(errno) => break errno,
        };
        match rig.call(HoldLocks::NUMBER, &[file], b"", 0) {
            Ok((reply, _)) => all.push(reply.result),
            Err(errno) => break errno,
        }
    };
    // The limit on open files comes first where it is low.
    assert!(matches!(refused, Errno::NOLCK | Errno::MFILE) && all.len() <= super::super::handles::MAX_LOCKED);
    let of = all[0];
    let most = (0..).find(|&n| lock(&mut rig, of, 2 * n, 2 * n, SHARED).is_err()).unwrap();
    assert!((1 << 11..=1 << 12).contains(&most), "{most}");
    assert_eq!(lock(&mut rig, of, 2 * most, 2 * most, SHARED).unwrap_err(), Errno::NOLCK);
    // What is given up makes room.
    lock(&mut rig, of, 0, 10, NONE).unwrap();
    lock(&mut rig, of, 2 * most, 2 * most, SHARED).unwrap();
    lock(&mut rig, of, 0, u64::MAX, NONE).unwrap();
    rig.call(request::Close::NUMBER, &[of], b"", 0).unwrap();
    rig.call(HoldLocks::NUMBER, &[first], b"", 0).unwrap();
}
