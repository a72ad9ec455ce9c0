//! Pseudo-terminals.

use crate::harness::{Program, run, shared};
use crate::{call, fails, ok};
use uapi::raw::general as g;

const TCGETS: u32 = 0x5401;
const TCSETS: u32 = 0x5402;
const TIOCSCTTY: u32 = 0x540e;
const TIOCGPGRP: u32 = 0x540f;
const TIOCSPGRP: u32 = 0x5410;
const TIOCGWINSZ: u32 = 0x5413;
const TIOCSWINSZ: u32 = 0x5414;
const FIONREAD: u32 = 0x541b;
const TIOCGPTN: u32 = 0x8004_5430;
const TIOCSPTLCK: u32 = 0x4004_5431;

/// A master and its slave's path.
fn open(p: &mut Program) -> (u64, String) {
    let master = p.open("/dev/ptmx", g::O_RDWR | g::O_NOCTTY);
    let (number, lock) = (p.room(4), p.ints(&[0]));
    ok!(p, ioctl, master, TIOCGPTN, number);
    ok!(p, ioctl, master, TIOCSPTLCK, lock);
    let number = p.int(number);
    (master, format!("/dev/pts/{number}"))
}

/// Changes flags of a terminal: which word, bits that go and bits that come.
fn change(p: &mut Program, fd: u64, word: u64, without: u32, with: u32) {
    let at = p.room(64);
    ok!(p, ioctl, fd, TCGETS, at);
    let flags = p.int(at + 4 * word) as u32 & !without | with;
    p.set_int(at + 4 * word, flags as i32);
    ok!(p, ioctl, fd, TCSETS, at);
}

const ICANON: u32 = 2;
const ECHO: u32 = 8;

#[test]
fn a_line_is_edited_and_echoed() {
    run(|p| {
        let (master, path) = open(p);
        let slave = p.open(&path, g::O_RDWR | g::O_NOCTTY | g::O_NONBLOCK);
        p.write(master, b"helllo\x7f\x7fo");
        let room = p.room(64);
        fails!(p, EAGAIN, read, slave, room, 64);
        p.write(master, b"\r");
        assert_eq!(p.read(slave, 64), b"hello\n");
        assert_eq!(p.read(master, 64), b"helllo\x08 \x08\x08 \x08o\r\n");
        p.write(slave, b"out\n");
        assert_eq!(p.read(master, 64), b"out\r\n");
        // Words, whole lines, the end of the file.
        p.write(master, b"one two\x17three\x15last\x04");
        assert_eq!(p.read(slave, 64), b"last");
        p.write(master, b"\x04");
        assert_eq!(p.read(slave, 64), b"");
    });
}

#[test]
fn without_lines_bytes_come_as_they_are() {
    run(|p| {
        let (master, path) = open(p);
        let slave = p.open(&path, g::O_RDWR | g::O_NOCTTY);
        change(p, slave, 3, ICANON | ECHO, 0);
        p.write(master, b"a\x7fb");
        let count = p.room(4);
        ok!(p, ioctl, slave, FIONREAD, count);
        assert_eq!(p.int(count), 3);
        assert_eq!(p.read(slave, 64), b"a\x7fb");
        // VMIN 0 and VTIME 3: three tenths of a second.
        let at = p.room(64);
        ok!(p, ioctl, slave, TCGETS, at);
        p.store(at + 17 + 5, &[3, 0]);
        ok!(p, ioctl, slave, TCSETS, at);
        let before = p.now();
        assert_eq!(p.read(slave, 64), b"");
        assert!((300_000_000..310_000_000).contains(&(p.now() - before)));
        change(p, slave, 1, 1, 0);
        p.write(slave, b"raw\n");
        assert_eq!(p.read(master, 64), b"raw\n");
    });
}

#[test]
fn a_terminal_controls_its_session() {
    run(|p| {
        let (master, path) = open(p);
        let seen = shared(0);
        let inside = seen.clone();
        let child = p.fork(move |p| {
            ok!(p, close, master);
            ok!(p, setsid);
            let slave = p.open(&path, g::O_RDWR);
            ok!(p, ioctl, slave, TIOCSCTTY, 0);
            let group = p.room(4);
            ok!(p, ioctl, slave, TIOCGPGRP, group);
            assert_eq!(p.int(group) as u64, ok!(p, getpid));
            p.on_signal(g::SIGINT, 0, move |_, signal, _| inside.set(signal));
            p.on_signal(g::SIGWINCH, 0, |_, _, _| {});
            call!(p, pause);
            assert!(seen.get() == g::SIGINT as i32);
            call!(p, pause);
            let size = p.room(8);
            ok!(p, ioctl, slave, TIOCGWINSZ, size);
            assert_eq!(p.load(size, 4), [40, 0, 100, 0]);
            // A process in the background may not read.
            let reader = p.fork(move |p| {
                ok!(p, setpgid, 0, 0);
                p.read(slave, 10);
                0
            });
            let status = p.room(4);
            ok!(p, wait4, reader, status, g::WUNTRACED, 0);
            assert_eq!(p.int(status), (g::SIGTTIN << 8 | 0x7f) as i32);
            let foreground = p.ints(&[reader as u32]);
            p.on_signal(g::SIGTTOU, 0, |_, _, _| {});
            ok!(p, ioctl, slave, TIOCSPGRP, foreground);
            ok!(p, kill, reader, g::SIGCONT);
            assert_eq!(p.wait(reader), 0);
            p.on_signal(g::SIGHUP, 0, |_, _, _| {});
            call!(p, pause);
            7
        });
        p.sleep_ms(2);
        p.write(master, b"\x03");
        p.sleep_ms(2);
        let size = p.bytes(&[40, 0, 100, 0, 0, 0, 0, 0]);
        ok!(p, ioctl, master, TIOCSWINSZ, size);
        p.sleep_ms(2);
        p.write(master, b"go on\n");
        p.sleep_ms(2);
        ok!(p, close, master);
        assert_eq!(p.wait(child), 7 << 8);
    });
}

#[test]
fn the_end_of_one_side_is_seen_by_the_other() {
    run(|p| {
        let (master, path) = open(p);
        let slave = p.open(&path, g::O_RDWR | g::O_NOCTTY);
        p.write(slave, b"last words");
        ok!(p, close, slave);
        assert_eq!(p.read(master, 64), b"last words");
        let room = p.room(8);
        fails!(p, EIO, read, master, room, 8);
        let slave = p.open(&path, g::O_RDWR | g::O_NOCTTY);
        ok!(p, close, master);
        assert_eq!(p.read(slave, 8), b"");
        assert_eq!(p.write(slave, b"x"), -5);
        let path = p.string(&path);
        fails!(p, ENOENT, openat, g::AT_FDCWD, path, 0);
    });
}

#[test]
fn any_control_with_any_argument() {
    run(|p| {
        let (master, path) = open(p);
        let slave = p.open(&path, g::O_RDWR | g::O_NOCTTY | g::O_NONBLOCK);
        let child = p.fork(move |p| {
            for signal in [g::SIGTTOU, g::SIGHUP, g::SIGINT] {
                p.on_signal(signal, 0, |_, _, _| {});
            }
            for request in 0x5400u32..0x5480 {
                for fd in [master, slave] {
                    let room = p.ints(&[1, 0, 5, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                    for argument in [0, 1, 2, room] {
                        call!(p, ioctl, fd, request, argument);
                        // Flow may have been stopped.
                        call!(p, ioctl, fd, 0x540a, 1);
                    }
                }
            }
            0
        });
        for _ in 0..100 {
            p.sleep_ms(1000);
            if call!(p, wait4, child, 0, g::WNOHANG, 0) != 0 {
                return;
            }
        }
        panic!("a control waits for ever");
    });
}
