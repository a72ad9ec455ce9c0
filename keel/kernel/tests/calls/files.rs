//! Files: names, content, locks, attributes.

use crate::harness::{Program, Random, run, shared};
use crate::{call, fails, ok};
use std::collections::BTreeMap;
use uapi::raw::general as g;

#[test]
fn names_come_and_go() {
    run(|p| {
        let (dir, file, link) = (p.string("/tmp/names"), p.string("/tmp/names/f"), p.string("/tmp/names/l"));
        ok!(p, mkdir, dir, 0o755);
        fails!(p, EEXIST, mkdir, dir, 0o755);
        p.write_file("/tmp/names/f", b"content");
        ok!(p, link, file, link);
        let stat = p.room(144);
        ok!(p, stat, link, stat);
        assert_eq!((p.word(stat + 16), p.word(stat + 48)), (2, 7), "links, size");
        fails!(p, ENOTEMPTY, rmdir, dir);
        let symbolic = p.string("/tmp/names/s");
        let target = p.string("f");
        ok!(p, symlink, target, symbolic);
        assert_eq!(p.text("/tmp/names/s"), "content");
        let room = p.room(64);
        assert_eq!(ok!(p, readlink, symbolic, room, 64), 1);
        fails!(p, ELOOP, openat, g::AT_FDCWD, symbolic, g::O_NOFOLLOW);
        let moved = p.string("/tmp/names/m");
        ok!(p, renameat2, g::AT_FDCWD, file, g::AT_FDCWD, moved, 1);
        fails!(p, EEXIST, renameat2, g::AT_FDCWD, link, g::AT_FDCWD, moved, 1);
        fails!(p, ENOENT, stat, symbolic, stat);
        let fd = p.open("/tmp/names", g::O_DIRECTORY);
        let list = p.room(1024);
        let n = ok!(p, getdents64, fd, list, 1024);
        let bytes = p.load(list, n as usize);
        let mut names = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let end = at + usize::from(bytes[at + 16]);
            let name = bytes[at + 19..end].split(|b| *b == 0).next().expect("a name");
            names.push(String::from_utf8_lossy(name).into_owned());
            at = end;
        }
        names.sort();
        assert_eq!(names, [".", "..", "l", "m", "s"]);
    });
}

/// Random writes, truncations, holes and reads against a vector.
#[test]
fn a_file_is_a_vector_of_bytes() {
    run(|p| {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let name = p.string("model");
            let memory = ok!(p, memfd_create, name, 0);
            let file = p.open(&format!("/tmp/vector{seed}"), g::O_RDWR | g::O_CREAT);
            for fd in [memory, file] {
                let mut model: Vec<u8> = Vec::new();
                for step in 0..150 {
                    let (at, len) = (random.below(60_000), 1 + random.below(20_000));
                    match random.below(6) {
                        0 | 1 => {
                            let bytes = random.bytes(len);
                            let from = p.bytes(&bytes);
                            assert_eq!(ok!(p, pwrite64, fd, from, len, at), len as u64);
                            if model.len() < at + len {
                                model.resize(at + len, 0);
                            }
                            model[at..at + len].copy_from_slice(&bytes);
                        }
                        2 => {
                            ok!(p, ftruncate, fd, at);
                            model.resize(at, 0);
                        }
                        3 => {
                            // FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
                            ok!(p, fallocate, fd, 3, at, len);
                            let end = (at + len).min(model.len());
                            if at < end {
                                model[at..end].fill(0);
                            }
                        }
                        _ => {
                            let to = p.room(len);
                            let n = ok!(p, pread64, fd, to, len, at) as usize;
                            let wanted = model.get(at..(at + len).min(model.len())).unwrap_or(&[]);
                            assert_eq!(p.load(to, n), wanted, "seed {seed}, step {step}");
                        }
                    }
                }
                assert_eq!(ok!(p, lseek, fd, 0, 2), model.len() as u64);
                ok!(p, close, fd);
            }
        }
    });
}

/// Random locks of two processes against owners of bytes.
#[test]
fn record_locks_are_what_a_model_says() {
    run(|p| {
        let [ask, asked] = p.pipe(0);
        let [answer, answered] = p.pipe(0);
        p.write_file("/tmp/locks", b"");
        fn lock(p: &mut Program, fd: u64, kind: u16, start: u64, len: u64) -> i64 {
            let mut bytes = vec![0; 32];
            bytes[0] = kind as u8;
            bytes[8..16].copy_from_slice(&start.to_le_bytes());
            bytes[16..24].copy_from_slice(&len.to_le_bytes());
            let at = p.bytes(&bytes);
            call!(p, fcntl, fd, g::F_SETLK, at)
        }
        // The other process does what it is asked for.
        let child = p.fork(move |p| {
            ok!(p, close, asked);
            let fd = p.open("/tmp/locks", g::O_RDWR);
            loop {
                let command = p.read(ask, 3);
                let [kind, start, len] = command[..] else { return 0 };
                let result = lock(p, fd, u16::from(kind), u64::from(start), u64::from(len));
                p.write(answered, &result.to_le_bytes());
            }
        });
        ok!(p, close, ask);
        let fd = p.open("/tmp/locks", g::O_RDWR);
        let mut model = [[2u8; 40]; 2];
        let mut random = Random::new(1);
        for step in 0..800 {
            let (who, kind) = (random.below(2), random.below(3) as u8);
            let start = random.below(30);
            let len = 1 + random.below(9);
            let range = start..start + len;
            let conflicts =
                kind != 2 && model[1 - who][range.clone()].iter().any(|other| *other == 1 || *other == 0 && kind == 1);
            let result = if who == 0 {
                lock(p, fd, u16::from(kind), start as u64, len as u64)
            } else {
                p.write(asked, &[kind, start as u8, len as u8]);
                i64::from_le_bytes(p.read(answer, 8).try_into().expect("eight"))
            };
            assert_eq!(result, if conflicts { -11 } else { 0 }, "step {step}");
            if !conflicts {
                model[who][range].fill(kind);
            }
        }
        ok!(p, close, asked);
        assert_eq!(p.wait(child), 0);
        assert_eq!(lock(p, fd, 1, 0, 0), 0, "the locks of a process end with it");
    });
}

#[test]
fn a_lock_waits_for_another() {
    run(|p| {
        p.write_file("/tmp/flock", b"");
        let fd = p.open("/tmp/flock", g::O_RDWR);
        ok!(p, flock, fd, 2);
        let order = shared(0);
        let inside = order.clone();
        let child = p.fork(move |p| {
            let fd = p.open("/tmp/flock", g::O_RDWR);
            fails!(p, EAGAIN, flock, fd, 2 | 4);
            ok!(p, flock, fd, 2);
            i32::from(inside.get() != 1)
        });
        p.sleep_ms(5);
        order.set(1);
        ok!(p, flock, fd, 8);
        assert_eq!(p.wait(child), 0);
    });
}

#[test]
fn attributes_stay() {
    run(|p| {
        p.write_file("/tmp/attributes", b"x");
        let path = p.string("/tmp/attributes");
        ok!(p, chmod, path, 0o4711);
        ok!(p, chown, path, 5, 6);
        let stat = p.room(144);
        ok!(p, stat, path, stat);
        assert_eq!(
            (p.int(stat + 24), p.int(stat + 28), p.int(stat + 32)),
            (0o100711, 5, 6),
            "chown clears set-user-id"
        );
        let times = p.words(&[1000, 5, 2000, 6]);
        ok!(p, utimensat, g::AT_FDCWD, path, times, 0);
        ok!(p, stat, path, stat);
        assert_eq!((p.word(stat + 72), p.word(stat + 88)), (1000, 2000));
        let (name, value, room) = (p.string("user.a"), p.bytes(b"value"), p.room(64));
        ok!(p, setxattr, path, name, value, 5, 0);
        fails!(p, EEXIST, setxattr, path, name, value, 5, 1);
        assert_eq!(ok!(p, getxattr, path, name, room, 64), 5);
        assert_eq!(ok!(p, listxattr, path, room, 64), 7);
        ok!(p, removexattr, path, name);
        fails!(p, ENODATA, getxattr, path, name, room, 64);
        let statx = p.room(256);
        ok!(p, statx, g::AT_FDCWD, path, 0, 0x7ff, statx);
        assert_eq!(p.word(statx + 40), 1);
        let sizes = p.room(120);
        ok!(p, statfs, path, sizes);
        assert_eq!(p.word(sizes), 0x0102_1994, "tmpfs");
    });
}

#[test]
fn bytes_go_from_file_to_file() {
    run(|p| {
        let mut random = Random::new(3);
        let content = random.bytes(50_000);
        p.write_file("/tmp/source", &content);
        let from = p.open("/tmp/source", 0);
        let to = p.open("/tmp/copy", g::O_RDWR | g::O_CREAT);
        assert_eq!(ok!(p, copy_file_range, from, 0, to, 0, 20_000, 0), 20_000);
        assert_eq!(ok!(p, sendfile, to, from, 0, 10_000), 10_000);
        let [read, write] = p.pipe(0);
        let mut moved = 0;
        while moved < 20_000 {
            let n = ok!(p, splice, from, 0, write, 0, 20_000 - moved, 0);
            assert_eq!(ok!(p, splice, read, 0, to, 0, n, 0), n);
            moved += n;
        }
        assert_eq!(p.content("/tmp/copy"), content);
        p.write(write, b"tee");
        let [second, other] = p.pipe(0);
        assert_eq!(ok!(p, tee, read, other, 10, 0), 3);
        assert_eq!(p.read(second, 10), b"tee");
        assert_eq!(p.read(read, 10), b"tee");
        let bytes = p.bytes(b"vector");
        let vector = p.words(&[bytes, 3, bytes + 3, 3]);
        assert_eq!(ok!(p, vmsplice, write, vector, 2, 0), 6);
        assert_eq!(p.read(read, 10), b"vector");
        assert_eq!(ok!(p, pwritev, to, vector, 2, 100, 0), 6);
        let back = p.room(6);
        let vector = p.words(&[back, 2, back + 2, 4]);
        assert_eq!(ok!(p, preadv, to, vector, 2, 100, 0), 6);
        assert_eq!(p.load(back, 6), b"vector");
    });
}

#[test]
fn descriptors_are_the_lowest_free_numbers() {
    run(|p| {
        p.in_child(|p| {
            let mut random = Random::new(9);
            // By number: close-on-exec.
            let mut model: BTreeMap<u64, bool> = BTreeMap::new();
            let lowest = |model: &BTreeMap<u64, bool>, from| (from..).find(|fd| !model.contains_key(fd)).expect("one");
            for _ in 0..500 {
                let fd = random.below(20) as u64;
                match random.below(6) {
                    0 => {
                        let got = p.open("/dev/zero", g::O_CLOEXEC);
                        assert_eq!(got, lowest(&model, 0));
                        model.insert(got, true);
                    }
                    1 => assert_eq!(call!(p, close, fd) == 0, model.remove(&fd).is_some()),
                    2 => match call!(p, fcntl, fd, g::F_DUPFD, 7) {
                        got if got >= 0 => {
                            assert!(model.contains_key(&fd));
                            assert_eq!(got as u64, lowest(&model, 7));
                            model.insert(got as u64, false);
                        }
                        error => assert!(error == -9 && !model.contains_key(&fd)),
                    },
                    3 => {
                        let to = random.below(20) as u64;
                        let result = call!(p, dup2, fd, to);
                        assert_eq!(result == to as i64, model.contains_key(&fd));
                        if model.contains_key(&fd) && to != fd {
                            model.insert(to, false);
                        }
                    }
                    4 => {
                        let last = fd + random.below(4) as u64;
                        ok!(p, close_range, fd, last, 0);
                        model.retain(|number, _| !(fd..=last).contains(number));
                    }
                    _ => {
                        let wanted = model.get(&fd).map_or(-9, |cloexec| i64::from(*cloexec));
                        assert_eq!(call!(p, fcntl, fd, g::F_GETFD), wanted);
                    }
                }
            }
            let listed = p.open("/proc/self/fd", g::O_DIRECTORY);
            let room = p.room(4096);
            ok!(p, getdents64, listed, room, 4096);
        });
    });
}
