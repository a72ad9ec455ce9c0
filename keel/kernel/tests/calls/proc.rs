//! /proc and /sys.

use crate::harness::{Program, run};
use crate::{call, ok};
use std::collections::BTreeSet;
use uapi::raw::general as g;

/// Names in a directory with their types.
fn list(p: &mut Program, path: &str) -> Vec<(String, u8)> {
    let path = p.string(path);
    let fd = call!(p, openat, g::AT_FDCWD, path, g::O_DIRECTORY | g::O_NONBLOCK);
    let mut names = Vec::new();
    if fd < 0 {
        return names;
    }
    let room = p.room(8192);
    loop {
        let n = call!(p, getdents64, fd, room, 8192);
        if n <= 0 {
            break;
        }
        let bytes = p.load(room, n as usize);
        let mut at = 0;
        while at < bytes.len() {
            let end = at + usize::from(u16::from_le_bytes([bytes[at + 16], bytes[at + 17]]));
            let name = bytes[at + 19..end].split(|b| *b == 0).next().expect("a name");
            names.push((String::from_utf8_lossy(name).into_owned(), bytes[at + 18]));
            at = end;
        }
    }
    ok!(p, close, fd);
    names.retain(|(name, _)| name != "." && name != "..");
    names
}

/// Reads all files below a directory; how many there are.
fn read_all(p: &mut Program, path: &str, depth: usize) -> usize {
    let mut count = 0;
    for (name, kind) in list(p, path) {
        let path = format!("{path}/{name}");
        let at = p.string(&path);
        let room = p.room(144);
        let stat = call!(p, newfstatat, g::AT_FDCWD, at, room, g::AT_SYMLINK_NOFOLLOW);
        assert!(stat == 0 || stat == -2, "{path}: {stat}");
        match kind {
            4 if depth > 0 => count += read_all(p, &path, depth - 1),
            10 => {
                let room = p.room(4096);
                call!(p, readlink, at, room, 4096);
            }
            8 if !path.ends_with("/kmsg") => {
                let fd = call!(p, openat, g::AT_FDCWD, at, g::O_RDONLY | g::O_NONBLOCK);
                if fd < 0 {
                    continue;
                }
                let room = p.room(32_768);
                while (1..=32_768).contains(&call!(p, read, fd, room, 32_768)) && count < 10_000 {
                    if path.ends_with("pagemap") || path.ends_with("/mem") {
                        break;
                    }
                }
                ok!(p, close, fd);
                count += 1;
            }
            _ => {}
        }
    }
    count
}

#[test]
fn every_file_can_be_read() {
    run(|p| {
        let mut descriptors = BTreeSet::new();
        let [read, write] = p.pipe(0);
        descriptors.extend([read, write]);
        descriptors.insert(ok!(p, eventfd2, 0, 0));
        descriptors.insert(ok!(p, epoll_create1, 0));
        descriptors.insert(ok!(p, timerfd_create, 1, 0));
        descriptors.insert(ok!(p, inotify_init1, 0));
        descriptors.insert(ok!(p, socket, 1, 1, 0));
        descriptors.insert(ok!(p, socket, 2, 1, 0));
        descriptors.insert(ok!(p, socket, 2, 2, 0));
        descriptors.insert(ok!(p, socket, 10, 1, 0));
        descriptors.insert(p.open("/proc/self/maps", 0));
        let mask = p.words(&[1]);
        descriptors.insert(ok!(p, signalfd4, -1, mask, 8, 0));
        p.thread(|p| {
            call!(p, pause);
        });
        assert!(read_all(p, "/proc", 5) > 300);
        assert!(read_all(p, "/sys", 8) > 50);
        for fd in descriptors {
            let info = p.text(&format!("/proc/self/fdinfo/{fd}"));
            assert!(info.starts_with("pos:"), "{info}");
        }
    });
}

#[test]
fn a_process_sees_itself() {
    run(|p| {
        let me = ok!(p, getpid);
        let status = p.text("/proc/self/status");
        assert!(status.contains(&format!("Pid:\t{me}\n")), "{status}");
        assert!(status.contains("Threads:\t1\n"), "{status}");
        let stat = p.text("/proc/self/stat");
        assert!(stat.starts_with(&format!("{me} (init) R 2 ")), "{stat}");
        let room = p.room(64);
        let path = p.string("/proc/self");
        let n = ok!(p, readlink, path, room, 64);
        assert_eq!(p.load(room, n as usize), me.to_string().into_bytes());
        ok!(p, prctl, 15, room, 0, 0, 0);
        // Another process's memory.
        let at = p.map(4096);
        p.store(at, b"of the parent");
        p.in_child(move |p| {
            let fd = p.open(&format!("/proc/{me}/mem"), g::O_RDWR);
            let room = p.room(16);
            assert_eq!(ok!(p, pread64, fd, room, 13, at), 13);
            assert_eq!(p.load(room, 13), b"of the parent");
            let new = p.bytes(b"by the child!");
            assert_eq!(ok!(p, pwrite64, fd, new, 13, at), 13);
            let (local, remote) = (p.words(&[room, 13]), p.words(&[at, 13]));
            assert_eq!(ok!(p, process_vm_readv, me, local, 1, remote, 1, 0), 13);
        });
        assert_eq!(p.load(at, 13), b"by the child!");
        p.write_file("/proc/self/comm", b"renamed");
        assert_eq!(p.text("/proc/self/comm"), "renamed\n");
    });
}

#[test]
fn settings_are_read_and_written() {
    run(|p| {
        for name in ["other", "hosted"] {
            let at = p.string(name);
            ok!(p, sethostname, at, name.len());
            assert_eq!(p.text("/proc/sys/kernel/hostname"), format!("{name}\n"));
        }
        assert!(p.text("/proc/meminfo").contains("MemTotal:"));
        assert!(p.text("/proc/mounts").contains(" /tmp tmpfs "));
        let before: Vec<u8> = p.content("/proc/uptime");
        p.sleep_ms(2000);
        assert_ne!(p.content("/proc/uptime"), before);
    });
}
