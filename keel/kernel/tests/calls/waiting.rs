//! Waiting for several files: poll, select, epoll, and files that are for waiting: eventfd, timerfd, signalfd, inotify.

use crate::harness::{Program, Random, run, shared};
use crate::{call, fails, ok};
use std::collections::BTreeMap;
use uapi::raw::general as g;

const IN: u32 = 1;
const OUT: u32 = 4;
const HUP: u32 = 16;

/// One `struct pollfd` after poll(2): the result and the events.
fn poll(p: &mut Program, fd: u64, events: u32, timeout: i64) -> (i64, u32) {
    let at = p.ints(&[fd as u32, events]);
    let result = call!(p, poll, at, 1, timeout);
    (result, (p.int(at + 4) as u32) >> 16)
}

fn epoll_add(p: &mut Program, epoll: u64, fd: u64, events: u32, data: u64) {
    let event = p.ints(&[events, data as u32, (data >> 32) as u32]);
    ok!(p, epoll_ctl, epoll, g::EPOLL_CTL_ADD, fd, event);
}

/// Events that are there: data and bits.
fn epoll_wait(p: &mut Program, epoll: u64, timeout: i64) -> Vec<(u64, u32)> {
    let at = p.room(12 * 64);
    let n = ok!(p, epoll_wait, epoll, at, 64, timeout);
    (0..n).map(|i| (p.word(at + 12 * i + 4), p.int(at + 12 * i) as u32)).collect()
}

#[test]
fn poll_tells_what_is_possible_and_waits() {
    run(|p| {
        let [read, write] = p.pipe(0);
        assert_eq!(poll(p, read, IN, 0), (0, 0));
        assert_eq!(poll(p, write, OUT, 0), (1, OUT));
        assert_eq!(poll(p, 99, IN, 0), (1, 32), "POLLNVAL");
        let before = p.now();
        assert_eq!(poll(p, read, IN, 25), (0, 0));
        assert!((25_000_000..26_000_000).contains(&(p.now() - before)));
        p.fork(move |p| {
            p.sleep_ms(3);
            p.write(write, b"x");
            0
        });
        assert_eq!(poll(p, read, IN, -1), (1, IN));
        p.read(read, 1);
        ok!(p, wait4, -1, 0, 0, 0);
        ok!(p, close, write);
        assert_eq!(poll(p, read, IN, -1), (1, HUP));
        let (sets, time) = (p.words(&[1 << read, 0, 0]), p.words(&[0, 1000]));
        assert_eq!(ok!(p, select, read + 1, sets, 0, 0, time), 1);
        assert_eq!(p.word(sets), 1 << read);
    });
}

/// Random readiness of several event counters against a model of level- and edge-triggered events, and of one-shot ones.
#[test]
fn epoll_tells_of_each_file_what_a_model_says() {
    run(|p| {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let epoll = ok!(p, epoll_create1, 0);
            let files: Vec<u64> = (0..6).map(|_| ok!(p, eventfd2, 0, g::O_NONBLOCK)).collect();
            // By file: events, the counter, whether an edge is to be told of, whether it is armed.
            let mut model: BTreeMap<usize, (u32, bool, bool)> = BTreeMap::new();
            let mut counts = [0u64; 6];
            for step in 0..200 {
                let i = random.below(6);
                let fd = files[i];
                match random.below(7) {
                    0 => {
                        let events = IN | [0, g::EPOLLET, g::EPOLLONESHOT][random.below(3)];
                        let event = p.ints(&[events, i as u32, 0]);
                        if model.contains_key(&i) {
                            fails!(p, EEXIST, epoll_ctl, epoll, g::EPOLL_CTL_ADD, fd, event);
                            ok!(p, epoll_ctl, epoll, g::EPOLL_CTL_MOD, fd, event);
                        } else {
                            fails!(p, ENOENT, epoll_ctl, epoll, g::EPOLL_CTL_MOD, fd, event);
                            ok!(p, epoll_ctl, epoll, g::EPOLL_CTL_ADD, fd, event);
                        }
                        model.insert(i, (events, counts[i] > 0, true));
                    }
                    1 => {
                        let known = model.remove(&i).is_some();
                        assert_eq!(call!(p, epoll_ctl, epoll, g::EPOLL_CTL_DEL, fd, 0) == 0, known);
                    }
                    2 | 3 => {
                        assert_eq!(p.write(fd, &3u64.to_le_bytes()), 8);
                        counts[i] += 3;
                        if let Some(entry) = model.get_mut(&i) {
                            entry.1 = true;
                        }
                    }
                    4 => {
                        let room = p.room(8);
                        if counts[i] == 0 {
                            fails!(p, EAGAIN, read, fd, room, 8);
                        } else {
                            ok!(p, read, fd, room, 8);
                            assert_eq!(p.word(room), counts[i]);
                            counts[i] = 0;
                        }
                    }
                    _ => {
                        let mut got: Vec<u64> = epoll_wait(p, epoll, 0).iter().map(|(data, _)| *data).collect();
                        got.sort_unstable();
                        let mut wanted = Vec::new();
                        for (i, (events, edge, armed)) in &mut model {
                            let ready = counts[*i] > 0;
                            let told = ready && *armed && (*events & g::EPOLLET == 0 || *edge);
                            if told {
                                wanted.push(*i as u64);
                                *armed = *events & g::EPOLLONESHOT == 0;
                            }
                            if *events & g::EPOLLET != 0 {
                                *edge = false;
                            }
                        }
                        assert_eq!(got, wanted, "seed {seed}, step {step}");
                    }
                }
            }
            files.iter().for_each(|fd| assert_eq!(call!(p, close, *fd), 0));
            assert_eq!(epoll_wait(p, epoll, 0), [], "closed files are gone");
            ok!(p, close, epoll);
        }
    });
}

#[test]
fn epoll_waits_for_what_comes_later_and_for_other_epolls() {
    run(|p| {
        let (inner, outer) = (ok!(p, epoll_create1, 0), ok!(p, epoll_create1, 0));
        let [read, write] = p.pipe(0);
        epoll_add(p, inner, read, IN, 7);
        epoll_add(p, outer, inner, IN, 8);
        let event = p.ints(&[IN, 0, 0]);
        fails!(p, ELOOP, epoll_ctl, inner, g::EPOLL_CTL_ADD, outer, event);
        fails!(p, EINVAL, epoll_ctl, inner, g::EPOLL_CTL_ADD, inner, event);
        p.fork(move |p| {
            p.sleep_ms(3);
            p.write(write, b"x");
            0
        });
        assert_eq!(epoll_wait(p, outer, -1), [(8, IN)]);
        assert_eq!(epoll_wait(p, inner, -1), [(7, IN)]);
        let before = p.now();
        p.read(read, 1);
        assert_eq!(epoll_wait(p, outer, 11), []);
        assert!(p.now() - before >= 11_000_000);
        let file = p.open("/init", 0);
        fails!(p, EPERM, epoll_ctl, inner, g::EPOLL_CTL_ADD, file, event);
        ok!(p, wait4, -1, 0, 0, 0);
        ok!(p, close, write);
        assert_eq!(epoll_wait(p, inner, -1), [(7, HUP)]);
    });
}

#[test]
fn event_counters_wait_at_both_ends() {
    run(|p| {
        let fd = ok!(p, eventfd2, 5, 0);
        assert_eq!(p.read(fd, 8), 5u64.to_le_bytes());
        let child = p.fork(move |p| {
            p.sleep_ms(2);
            p.write(fd, &(u64::MAX - 1).to_le_bytes());
            // There is no room before the other one reads.
            p.write(fd, &2u64.to_le_bytes());
            0
        });
        assert_eq!(p.read(fd, 8), (u64::MAX - 1).to_le_bytes());
        p.wait(child);
        assert_eq!(p.read(fd, 8), 2u64.to_le_bytes());
        assert_eq!(p.write(fd, &u64::MAX.to_le_bytes()), -22);
        let semaphore = ok!(p, eventfd2, 2, 1);
        assert_eq!(p.read(semaphore, 8), 1u64.to_le_bytes());
        assert_eq!(p.read(semaphore, 8), 1u64.to_le_bytes());
    });
}

#[test]
fn timers_have_descriptors() {
    run(|p| {
        let fd = ok!(p, timerfd_create, g::CLOCK_MONOTONIC, 0);
        // Every 2 ms, from 10 ms on.
        let timer = p.words(&[0, 2_000_000, 0, 10_000_000]);
        ok!(p, timerfd_settime, fd, 0, timer, 0);
        let before = p.now();
        assert_eq!(p.read(fd, 8), 1u64.to_le_bytes());
        assert!((10_000_000..11_000_000).contains(&(p.now() - before)));
        p.sleep_ms(11);
        assert_eq!(p.read(fd, 8), 5u64.to_le_bytes());
        let left = p.room(32);
        ok!(p, timerfd_gettime, fd, left);
        assert_eq!(p.word(left + 8), 2_000_000);
        assert!(p.word(left + 24) <= 2_000_000);
        assert_eq!(poll(p, fd, IN, 5), (1, IN));
    });
}

#[test]
fn signals_have_descriptors() {
    run(|p| {
        p.mask(g::SIG_BLOCK, &[g::SIGUSR1, g::SIGCHLD]);
        let mask = p.words(&[1 << (g::SIGUSR1 - 1) | 1 << (g::SIGCHLD - 1)]);
        let fd = ok!(p, signalfd4, -1, mask, 8, g::O_NONBLOCK);
        let room = p.room(128);
        fails!(p, EAGAIN, read, fd, room, 128);
        let me = ok!(p, getpid);
        ok!(p, kill, me, g::SIGUSR1);
        assert_eq!(poll(p, fd, IN, 0), (1, IN));
        let info = p.read(fd, 128);
        assert_eq!(info.len(), 128);
        assert_eq!(info[0], g::SIGUSR1 as u8);
        let child = p.fork(|_| 3);
        assert_eq!(poll(p, fd, IN, -1), (1, IN));
        let info = p.read(fd, 1000);
        assert_eq!((info[0], info[12..16].to_vec()), (g::SIGCHLD as u8, (child as u32).to_le_bytes().to_vec()));
    });
}

#[test]
fn watches_tell_of_changes() {
    run(|p| {
        let fd = ok!(p, inotify_init1, g::O_NONBLOCK);
        let directory = p.string("/tmp/watched");
        ok!(p, mkdir, directory, 0o755);
        let watch = ok!(p, inotify_add_watch, fd, directory, 0xfff) as u32;
        p.write_file("/tmp/watched/a", b"x");
        let (a, b) = (p.string("/tmp/watched/a"), p.string("/tmp/watched/b"));
        ok!(p, rename, a, b);
        ok!(p, unlink, b);
        let bytes = p.read(fd, 4096);
        let mut events = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four"));
            assert_eq!(number(0), watch);
            let end = 16 + number(12) as usize;
            let name = String::from_utf8_lossy(&rest[16..end]).trim_end_matches('\0').to_owned();
            events.push((number(4), name));
            rest = &rest[end..];
        }
        let named = |mask: u32, name: &str| (mask, name.to_owned());
        let wanted = [(0x100, "a"), (0x20, "a"), (0x2, "a"), (0x8, "a"), (0x40, "a"), (0x80, "b"), (0x200, "b")];
        assert_eq!(events, wanted.map(|(mask, name)| named(mask, name)));
        ok!(p, inotify_rm_watch, fd, watch);
        assert_eq!(p.read(fd, 100)[4..8], 0x8000u32.to_le_bytes());
    });
}

#[test]
fn timers_of_a_process_queue_signals() {
    run(|p| {
        let count = shared((0, 0));
        let inside = count.clone();
        p.on_signal(40, g::SA_SIGINFO, move |p, _, info| {
            let value = p.int(info + 24);
            inside.set((inside.get().0 + 1, value));
        });
        let event = p.room(64);
        p.store(event, &[77u64.to_le_bytes(), [40, 0, 0, 0, 0, 0, 0, 0]].concat());
        let id = p.room(4);
        ok!(p, timer_create, g::CLOCK_MONOTONIC, event, id);
        let timer = p.int(id);
        let time = p.words(&[0, 5_000_000, 0, 5_000_000]);
        ok!(p, timer_settime, timer, 0, time, 0);
        p.compute_ms(52);
        assert!((9..=10).contains(&count.get().0), "{:?}", count.get());
        assert_eq!(count.get().1, 77);
        let now = p.room(32);
        ok!(p, timer_gettime, timer, now);
        assert_eq!(p.word(now + 8), 5_000_000);
        ok!(p, timer_delete, timer);
        fails!(p, EINVAL, timer_gettime, timer, now);
    });
}
