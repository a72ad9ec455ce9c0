//! Pipes.

use crate::harness::{Random, run};
use crate::{fails, ok};
use std::collections::VecDeque;
use uapi::raw::general as g;

#[test]
fn bytes_come_out_as_they_went_in() {
    run(|p| {
        let [read, write] = p.pipe(0);
        assert_eq!(p.write(write, b"abc"), 3);
        assert_eq!(p.read(read, 2), b"ab");
        assert_eq!(p.read(read, 10), b"c");
        ok!(p, close, write);
        assert_eq!(p.read(read, 10), b"");
    });
}

#[test]
fn a_reader_waits_for_a_writer_in_another_process() {
    run(|p| {
        let [read, write] = p.pipe(0);
        let child = p.fork(move |p| {
            p.sleep_ms(20);
            p.write(write, b"late");
            7
        });
        assert_eq!(p.read(read, 10), b"late");
        assert_eq!(p.wait(child), 7 << 8);
    });
}

#[test]
fn without_waiting_an_empty_pipe_and_a_full_one_fail() {
    run(|p| {
        let [read, write] = p.pipe(g::O_NONBLOCK);
        let room = p.room(4096);
        fails!(p, EAGAIN, read, read, room, 8);
        let mut taken = 0;
        loop {
            match p.write(write, &[1; 4096]) {
                n if n > 0 => taken += n,
                n => break assert_eq!(n, -11),
            }
        }
        assert_eq!(taken, 65536);
        ok!(p, close, read);
        p.on_signal(g::SIGPIPE, 0, |_, _, _| {});
        fails!(p, EPIPE, write, write, room, 1);
    });
}

#[test]
fn a_full_pipe_lets_its_writer_wait_until_there_is_room() {
    run(|p| {
        let [read, write] = p.pipe(0);
        let child = p.fork(move |p| {
            let sent = (0..40).map(|i| p.write(write, &[i; 5000])).sum::<i64>();
            i32::from(sent != 40 * 5000)
        });
        ok!(p, close, write);
        let mut got = Vec::new();
        loop {
            let more = p.read(read, 7000);
            if more.is_empty() {
                break;
            }
            got.extend(more);
        }
        assert_eq!(p.wait(child), 0);
        let wanted: Vec<u8> = (0..40).flat_map(|i| [i; 5000]).collect();
        assert_eq!(got, wanted);
    });
}

/// Random operations against a queue of bytes.
#[test]
fn a_pipe_is_a_queue() {
    run(|p| {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let [read, write] = p.pipe(g::O_NONBLOCK);
            let mut model: VecDeque<u8> = VecDeque::new();
            for _ in 0..200 {
                if random.below(2) == 0 {
                    let len = 1 + random.below(9000);
                    let bytes = random.bytes(len);
                    match p.write(write, &bytes) {
                        n if n >= 0 => {
                            // Writes of up to a page are done as a whole or not at all.
                            assert!(bytes.len() > 4096 || n as usize == bytes.len(), "seed {seed}");
                            model.extend(&bytes[..n as usize]);
                        }
                        n => assert!(n == -11 && model.len() + bytes.len() > 4096, "seed {seed}: {n}"),
                    }
                } else {
                    let len = 1 + random.below(9000);
                    if model.is_empty() {
                        let room = p.room(16);
                        fails!(p, EAGAIN, read, read, room, 1);
                        continue;
                    }
                    let got = p.read(read, len);
                    let wanted: Vec<u8> = model.drain(..len.min(model.len())).collect();
                    assert_eq!(got, wanted, "seed {seed}");
                }
                let count = p.room(4);
                ok!(p, ioctl, read, 0x541b, count);
                assert_eq!(p.int(count) as usize, model.len(), "FIONREAD, seed {seed}");
            }
            ok!(p, close, read);
            ok!(p, close, write);
        }
    });
}
