//! Sockets: local ones, UDP and TCP over the loopback device.

use crate::harness::{Program, Random, run};
use crate::{call, fails, ok};
use std::collections::VecDeque;

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const SOCK_SEQPACKET: u32 = 5;
const SOCK_NONBLOCK: u32 = 0o4000;
const MSG_DONTWAIT: u32 = 0x40;
const SOL_SOCKET: u32 = 1;
const SCM_RIGHTS: u32 = 1;

/// An IPv4 address of the loopback device.
fn address(p: &mut Program, port: u16) -> u64 {
    let mut bytes = vec![AF_INET as u8, 0];
    bytes.extend(port.to_be_bytes());
    bytes.extend([127, 0, 0, 1]);
    bytes.extend([0; 8]);
    p.bytes(&bytes)
}

fn listener(p: &mut Program, port: u16, backlog: u32) -> u64 {
    let fd = ok!(p, socket, AF_INET, SOCK_STREAM, 0);
    let at = address(p, port);
    ok!(p, bind, fd, at, 16);
    ok!(p, listen, fd, backlog);
    fd
}

/// Two ends of a connection.
fn connection(p: &mut Program, port: u16) -> [u64; 2] {
    let server = listener(p, port, 5);
    let client = ok!(p, socket, AF_INET, SOCK_STREAM, 0);
    let at = address(p, port);
    ok!(p, connect, client, at, 16);
    let accepted = ok!(p, accept4, server, 0, 0, 0);
    ok!(p, close, server);
    [client, accepted]
}

fn socketpair(p: &mut Program, kind: u32) -> [u64; 2] {
    let ends = p.room(8);
    ok!(p, socketpair, AF_UNIX, kind, 0, ends);
    p.pair(ends)
}

#[test]
fn a_connection_carries_bytes_both_ways_until_it_ends() {
    run(|p| {
        let [a, b] = connection(p, 4000);
        assert_eq!(p.write(a, b"there"), 5);
        assert_eq!(p.write(b, b"back"), 4);
        assert_eq!(p.read(b, 3), b"the");
        assert_eq!(p.read(b, 10), b"re");
        assert_eq!(p.read(a, 10), b"back");
        ok!(p, shutdown, a, 1);
        assert_eq!(p.read(b, 10), b"");
        assert_eq!(p.write(b, b"still"), 5);
        assert_eq!(p.read(a, 10), b"still");
        ok!(p, close, b);
        assert_eq!(p.read(a, 10), b"");
    });
}

#[test]
fn nobody_listens() {
    run(|p| {
        let fd = ok!(p, socket, AF_INET, SOCK_STREAM, 0);
        let at = address(p, 4001);
        fails!(p, ECONNREFUSED, connect, fd, at, 16);
        let room = p.room(8);
        fails!(p, ENOTCONN, read, fd, room, 8);
        fails!(p, ENOTCONN, shutdown, fd, 1);
    });
}

#[test]
fn unread_bytes_reset_a_connection() {
    run(|p| {
        let [a, b] = connection(p, 4002);
        p.write(a, b"unread");
        ok!(p, close, b);
        let room = p.room(8);
        fails!(p, ECONNRESET, read, a, room, 8);
    });
}

#[test]
fn accept_waits_for_connect() {
    run(|p| {
        let server = listener(p, 4003, 1);
        let child = p.fork(|p| {
            p.sleep_ms(3);
            let client = ok!(p, socket, AF_INET, SOCK_STREAM, 0);
            let at = address(p, 4003);
            ok!(p, connect, client, at, 16);
            p.write(client, b"hello");
            0
        });
        let fd = ok!(p, accept, server, 0, 0);
        assert_eq!(p.read(fd, 10), b"hello");
        assert_eq!(p.wait(child), 0);
        let second = ok!(p, socket, AF_INET, SOCK_STREAM, 0);
        let at = address(p, 4003);
        fails!(p, EADDRINUSE, bind, second, at, 16);
    });
}

/// Random sends and receives on both ends against two queues.
fn stream_model(p: &mut Program, ends: [u64; 2], seed: u64) {
    let mut random = Random::new(seed);
    let mut queues = [VecDeque::new(), VecDeque::new()];
    for step in 0..150 {
        let from = random.below(2);
        let len = 1 + random.below(20_000);
        if random.below(2) == 0 {
            let bytes = random.bytes(len);
            let at = p.bytes(&bytes);
            match call!(p, sendto, ends[from], at, len, MSG_DONTWAIT, 0, 0) {
                n if n >= 0 => queues[1 - from].extend(&bytes[..n as usize]),
                n => assert!(n == -11 && queues[1 - from].len() > 10_000, "seed {seed}, step {step}: {n}"),
            }
        } else {
            let queue = &mut queues[from];
            let at = p.room(len);
            // Some look without taking.
            let peek = random.below(4) == 0;
            let flags = MSG_DONTWAIT | if peek { 2 } else { 0 };
            let n = call!(p, recvfrom, ends[from], at, len, flags, 0, 0);
            if queue.is_empty() {
                assert_eq!(n, -11, "seed {seed}, step {step}");
                continue;
            }
            let wanted: Vec<u8> = queue.iter().take(len).copied().collect();
            assert_eq!(p.load(at, n.max(0) as usize), wanted, "seed {seed}, step {step}");
            if !peek {
                queue.drain(..n as usize);
            }
        }
        let count = p.room(4);
        for end in 0..2 {
            ok!(p, ioctl, ends[end], 0x541b, count);
            assert_eq!(p.int(count) as usize, queues[end].len(), "FIONREAD, seed {seed}, step {step}");
        }
    }
    // A reader that waits gets all of the rest.
    ok!(p, shutdown, ends[0], 1);
    let rest: Vec<u8> = queues[1].iter().copied().collect();
    let mut got = Vec::new();
    loop {
        let more = p.read(ends[1], 9999);
        if more.is_empty() {
            break;
        }
        got.extend(more);
    }
    assert_eq!(got, rest, "seed {seed}");
    ok!(p, close, ends[0]);
    ok!(p, close, ends[1]);
}

#[test]
fn tcp_is_two_queues_of_bytes() {
    run(|p| {
        for seed in 0..10 {
            let ends = connection(p, 4100 + seed as u16);
            stream_model(p, ends, seed);
        }
    });
}

#[test]
fn local_streams_are_two_queues_of_bytes() {
    run(|p| {
        for seed in 0..10 {
            let ends = socketpair(p, SOCK_STREAM);
            stream_model(p, ends, seed);
        }
    });
}

#[test]
fn datagrams_keep_their_bounds_and_senders() {
    run(|p| {
        let [a, b] = [5000, 5001].map(|port| {
            let fd = ok!(p, socket, AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
            let at = address(p, port);
            ok!(p, bind, fd, at, 16);
            fd
        });
        let mut random = Random::new(1);
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        let to = address(p, 5001);
        let to = p.load(to, 16);
        for _ in 0..300 {
            if random.below(2) == 0 {
                let len = random.below(3000);
                let bytes = random.bytes(len);
                let (at, to) = (p.bytes(&bytes), p.bytes(&to));
                if call!(p, sendto, a, at, len, 0, to, 16) == len as i64 {
                    model.push_back(bytes);
                }
            } else {
                let (at, from, size) = (p.room(4000), p.room(16), p.ints(&[16]));
                let room = random.below(4000);
                let n = call!(p, recvfrom, b, at, room, 0x20, from, size);
                match model.pop_front() {
                    None => assert_eq!(n, -11),
                    Some(wanted) => {
                        assert_eq!(n, wanted.len() as i64, "MSG_TRUNC gives the whole length");
                        let len = wanted.len().min(room);
                        assert_eq!(p.load(at, len), wanted[..len]);
                        assert_eq!(p.load(from + 2, 2), 5000u16.to_be_bytes());
                    }
                }
            }
        }
    });
}

/// Sends bytes with descriptors.
fn send_with(p: &mut Program, fd: u64, bytes: &[u8], descriptors: &[u64]) -> i64 {
    let at = p.bytes(bytes);
    let vector = p.words(&[at, bytes.len() as u64]);
    let mut control = Vec::new();
    if !descriptors.is_empty() {
        control.extend((16 + 4 * descriptors.len() as u64).to_le_bytes());
        control.extend(SOL_SOCKET.to_le_bytes());
        control.extend(SCM_RIGHTS.to_le_bytes());
        descriptors.iter().for_each(|fd| control.extend((*fd as u32).to_le_bytes()));
        control.resize(control.len().next_multiple_of(8), 0);
    }
    let place = p.bytes(&control);
    let message = p.words(&[0, 0, vector, 1, place, control.len() as u64, 0]);
    call!(p, sendmsg, fd, message, MSG_DONTWAIT)
}

/// Receives bytes with descriptors.
fn receive_with(p: &mut Program, fd: u64, len: usize) -> Result<(Vec<u8>, Vec<u64>), i64> {
    let (at, control) = (p.room(len.max(1)), p.room(256));
    let vector = p.words(&[at, len as u64]);
    let message = p.words(&[0, 0, vector, 1, control, 256, 0]);
    let n = call!(p, recvmsg, fd, message, MSG_DONTWAIT);
    if n < 0 {
        return Err(n);
    }
    let bytes = p.load(at, n as usize);
    let used = p.word(message + 40);
    let mut descriptors = Vec::new();
    if used >= 16 {
        let len = p.word(control);
        for place in (16..len).step_by(4) {
            descriptors.push(p.int(control + place) as u64);
        }
    }
    Ok((bytes, descriptors))
}

/// Random messages with descriptors over local sockets against a queue; each descriptor that comes out is the file that went in.
#[test]
fn local_sockets_carry_descriptors() {
    run(|p| {
        for (kind, seed) in
            [(SOCK_DGRAM, 1), (SOCK_SEQPACKET, 2), (SOCK_DGRAM, 3), (SOCK_SEQPACKET, 4), (SOCK_STREAM, 5)]
        {
            let mut random = Random::new(seed);
            let [a, b] = socketpair(p, kind);
            let mut model: VecDeque<(Vec<u8>, Vec<u64>)> = VecDeque::new();
            let name = p.string("x");
            let mut inodes = 0;
            for step in 0..150 {
                if random.below(2) == 0 && model.len() < 8 {
                    let len = 1 + random.below(200);
                    let bytes = random.bytes(len);
                    // Files that nobody else holds.
                    let count = random.below(4);
                    let files: Vec<u64> = (0..count).map(|_| ok!(p, memfd_create, name, 0)).collect();
                    let mut marks = Vec::new();
                    for file in &files {
                        inodes += 1;
                        ok!(p, ftruncate, *file, inodes);
                        marks.push(inodes);
                    }
                    assert_eq!(send_with(p, a, &bytes, &files), len as i64);
                    for file in files {
                        ok!(p, close, file);
                    }
                    model.push_back((bytes, marks));
                    continue;
                }
                let got = receive_with(p, b, 4096);
                let Some((mut bytes, mut marks)) = model.pop_front() else {
                    assert_eq!(got.err(), Some(-11));
                    continue;
                };
                if kind == SOCK_STREAM {
                    // A stream joins bytes up to the next ones that bring descriptors.
                    while model.front().is_some_and(|(_, next)| next.is_empty() && marks.is_empty()) {
                        bytes.extend(model.pop_front().expect("it is there").0);
                    }
                    if let Some((_, next)) = model.front()
                        && marks.is_empty()
                        && !next.is_empty()
                    {
                        let (more, theirs) = model.pop_front().expect("it is there");
                        bytes.extend(more);
                        marks = theirs;
                    }
                }
                let (got, descriptors) = got.unwrap_or_else(|e| panic!("seed {seed}, step {step}: {e}"));
                assert_eq!(got, bytes, "seed {seed}, step {step}");
                let mut found = Vec::new();
                for fd in descriptors {
                    found.push(ok!(p, lseek, fd, 0, 2));
                    ok!(p, close, fd);
                }
                assert_eq!(found, marks, "seed {seed}, step {step}");
            }
            ok!(p, close, a);
            ok!(p, close, b);
        }
    });
}

#[test]
fn local_addresses_are_files() {
    run(|p| {
        let server = ok!(p, socket, AF_UNIX, SOCK_STREAM, 0);
        let at = p.bytes(b"\x01\0/tmp/socket\0");
        ok!(p, bind, server, at, 14);
        ok!(p, listen, server, 2);
        let client = ok!(p, socket, AF_UNIX, SOCK_STREAM, 0);
        ok!(p, connect, client, at, 14);
        let fd = ok!(p, accept4, server, 0, 0, 0o2000000);
        p.write(client, b"to a file");
        assert_eq!(p.read(fd, 20), b"to a file");
        let path = p.string("/tmp/socket");
        ok!(p, unlink, path);
        let other = ok!(p, socket, AF_UNIX, SOCK_STREAM, 0);
        fails!(p, ENOENT, connect, other, at, 14);
        let (credentials, size) = (p.room(12), p.ints(&[12]));
        ok!(p, getsockopt, client, SOL_SOCKET, 17, credentials, size);
        assert_eq!(p.int(credentials) as u64, ok!(p, getpid));
    });
}
