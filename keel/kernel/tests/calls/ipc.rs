//! System V IPC and POSIX message queues.

use crate::harness::{Random, run, shared};
use crate::{call, fails, ok};
use std::collections::VecDeque;
use uapi::raw::general as g;

const CREATE: u32 = 0o1000;
const NOWAIT: u32 = 0o4000;
const REMOVE: u32 = 0;

/// Random operations on sets of semaphores against their values: all of a call happen, or none.
#[test]
fn semaphores_change_together_or_not_at_all() {
    run(|p| {
        let set = ok!(p, semget, 0, 4, CREATE | 0o600);
        let mut model = [0i32; 4];
        let mut random = Random::new(5);
        for step in 0..500 {
            let count = 1 + random.below(3);
            let mut bytes = Vec::new();
            let mut next = model;
            let mut possible = true;
            for _ in 0..count {
                let (number, change) = (random.below(4), random.below(7) as i16 - 3);
                bytes.extend((number as u16).to_le_bytes());
                bytes.extend(change.to_le_bytes());
                bytes.extend((NOWAIT as u16).to_le_bytes());
                let value = &mut next[number];
                if possible {
                    possible = if change == 0 { *value == 0 } else { *value + i32::from(change) >= 0 };
                    *value += i32::from(change);
                }
            }
            let at = p.bytes(&bytes);
            assert_eq!(call!(p, semop, set, at, count), if possible { 0 } else { -11 }, "step {step}");
            if possible {
                model = next;
            }
            for (number, value) in model.iter().enumerate() {
                assert_eq!(ok!(p, semctl, set, number, 12, 0), *value as u64, "step {step}");
            }
        }
        ok!(p, semctl, set, 0, REMOVE, 0);
        fails!(p, EINVAL, semctl, set, 0, 12, 0);
    });
}

#[test]
fn a_semaphore_is_waited_for_and_undone() {
    run(|p| {
        let set = ok!(p, semget, 0, 1, CREATE | 0o600);
        let order = shared(0);
        let inside = order.clone();
        let child = p.fork(move |p| {
            let down = p.bytes(&[0, 0, 0xff, 0xff, 0, 0]);
            ok!(p, semop, set, down, 1);
            i32::from(inside.get() != 1)
        });
        p.sleep_ms(3);
        assert_eq!(ok!(p, semctl, set, 0, 14, 0), 1, "GETNCNT");
        order.set(1);
        ok!(p, semctl, set, 0, 16, 1);
        assert_eq!(p.wait(child), 0);
        p.in_child(move |p| {
            // SEM_UNDO
            let up = p.bytes(&[0, 0, 5, 0, 0, 0x10]);
            ok!(p, semop, set, up, 1);
            assert_eq!(ok!(p, semctl, set, 0, 12, 0), 5);
        });
        assert_eq!(ok!(p, semctl, set, 0, 12, 0), 0, "the end undoes it");
        let (down, time) = (p.bytes(&[0, 0, 0xff, 0xff, 0, 0]), p.words(&[0, 2_000_000]));
        fails!(p, EAGAIN, semtimedop, set, down, 1, time);
        let child = p.fork(move |p| {
            let down = p.bytes(&[0, 0, 0xff, 0xff, 0, 0]);
            fails!(p, EIDRM, semop, set, down, 1);
            0
        });
        p.sleep_ms(2);
        ok!(p, semctl, set, 0, REMOVE, 0);
        assert_eq!(p.wait(child), 0);
    });
}

/// Random sends and receives by type against a queue.
#[test]
fn messages_are_chosen_by_type() {
    run(|p| {
        let queue = ok!(p, msgget, 0, CREATE | 0o600);
        let mut model: VecDeque<(i64, Vec<u8>)> = VecDeque::new();
        let mut random = Random::new(6);
        for step in 0..600 {
            if random.below(2) == 0 {
                let kind = 1 + random.below(4) as i64;
                let len = random.below(300);
                let bytes = random.bytes(len);
                let at = p.bytes(&[&kind.to_le_bytes()[..], &bytes].concat());
                let used: usize = model.iter().map(|(_, bytes)| bytes.len()).sum();
                let fits = used + bytes.len() <= 16384;
                assert_eq!(call!(p, msgsnd, queue, at, bytes.len(), NOWAIT), if fits { 0 } else { -11 }, "step {step}");
                if fits {
                    model.push_back((kind, bytes));
                }
            } else {
                let wanted = random.below(9) as i64 - 4;
                let place = match wanted {
                    0 => (!model.is_empty()).then_some(0),
                    1.. => model.iter().position(|(kind, _)| *kind == wanted),
                    _ => {
                        let least = model.iter().map(|(kind, _)| *kind).filter(|kind| *kind <= -wanted).min();
                        least.and_then(|least| model.iter().position(|(kind, _)| *kind == least))
                    }
                };
                let at = p.room(512);
                let result = call!(p, msgrcv, queue, at, 400, wanted, NOWAIT);
                match place.and_then(|place| model.remove(place)) {
                    None => assert_eq!(result, -42, "ENOMSG, step {step}"),
                    Some((kind, bytes)) => {
                        assert_eq!(result, bytes.len() as i64, "step {step}");
                        assert_eq!(p.word(at) as i64, kind, "step {step}");
                        assert_eq!(p.load(at + 8, bytes.len()), bytes, "step {step}");
                    }
                }
            }
        }
        let state = p.room(120);
        ok!(p, msgctl, queue, 2, state);
        assert_eq!(p.word(state + 80), model.len() as u64, "IPC_STAT");
        let child = p.fork(move |p| {
            let at = p.room(64);
            fails!(p, EIDRM, msgrcv, queue, at, 8, 99, 0);
            0
        });
        p.sleep_ms(1);
        ok!(p, msgctl, queue, REMOVE, 0);
        assert_eq!(p.wait(child), 0);
    });
}

#[test]
fn segments_are_shared_until_the_last_detaches() {
    run(|p| {
        let segment = ok!(p, shmget, 77, 10_000, CREATE | 0o600);
        assert_eq!(ok!(p, shmget, 77, 0, 0), segment);
        fails!(p, EEXIST, shmget, 77, 10_000, CREATE | 0o2000 | 0o600);
        let at = ok!(p, shmat, segment, 0, 0);
        p.store(at, b"first");
        p.in_child(move |p| {
            assert_eq!(p.load(at, 5), b"first");
            let again = ok!(p, shmat, segment, 0, 0);
            p.store(again + 5, b"second");
        });
        assert_eq!(p.load(at, 11), b"firstsecond");
        let state = p.room(112);
        ok!(p, shmctl, segment, 2, state);
        assert_eq!(p.word(state + 88), 1, "attached");
        ok!(p, shmctl, segment, REMOVE, 0);
        assert_eq!(p.load(at, 5), b"first");
        ok!(p, shmdt, at);
        fails!(p, EINVAL, shmctl, segment, 2, state);
    });
}

/// Random messages with priorities against a sorted list.
#[test]
fn message_queues_sort_by_priority() {
    run(|p| {
        let name = p.string("queue");
        let attributes = p.words(&[0, 8, 64, 0]);
        let queue = ok!(p, mq_open, name, g::O_CREAT | g::O_RDWR | g::O_NONBLOCK, 0o600, attributes);
        let mut model: Vec<(u32, Vec<u8>)> = Vec::new();
        let mut random = Random::new(7);
        for step in 0..400 {
            if random.below(2) == 0 {
                let priority = random.below(4) as u32;
                let len = random.below(65);
                let bytes = random.bytes(len);
                let at = p.bytes(&bytes);
                let result = call!(p, mq_timedsend, queue, at, bytes.len(), priority, 0);
                assert_eq!(result, if model.len() < 8 { 0 } else { -11 }, "step {step}");
                if result == 0 {
                    let place = model.iter().position(|(other, _)| *other < priority).unwrap_or(model.len());
                    model.insert(place, (priority, bytes));
                }
            } else {
                let (at, priority) = (p.room(64), p.room(4));
                let result = call!(p, mq_timedreceive, queue, at, 64, priority, 0);
                if model.is_empty() {
                    assert_eq!(result, -11, "step {step}");
                } else {
                    let (wanted, bytes) = model.remove(0);
                    assert_eq!(result, bytes.len() as i64, "step {step}");
                    assert_eq!((p.int(priority) as u32, p.load(at, bytes.len())), (wanted, bytes), "step {step}");
                }
            }
        }
        let room = p.room(32);
        ok!(p, mq_getsetattr, queue, 0, room);
        assert_eq!(p.word(room + 24), model.len() as u64);
        let at = p.room(64);
        while call!(p, mq_timedreceive, queue, at, 64, 0, 0) >= 0 {}
        // A signal tells of the first message.
        let told = shared(0);
        let inside = told.clone();
        p.on_signal(g::SIGUSR1, g::SA_SIGINFO, move |p, _, info| inside.set(p.int(info + 24)));
        let event = p.room(64);
        p.store(event, &[99u64.to_le_bytes(), [10, 0, 0, 0, 0, 0, 0, 0]].concat());
        ok!(p, mq_notify, queue, event);
        fails!(p, EBUSY, mq_notify, queue, event);
        ok!(p, mq_timedsend, queue, at, 1, 0, 0);
        assert_eq!(told.get(), 99);
        ok!(p, mq_unlink, name);
        fails!(p, ENOENT, mq_unlink, name);
    });
}
