//! Futexes.

use crate::harness::{Program, Random, run, shared};
use crate::{call, fails, ok};
use std::cell::RefCell;
use std::rc::Rc;
use uapi::raw::general as g;

const WAIT: u32 = g::FUTEX_WAIT | g::FUTEX_PRIVATE_FLAG;
const WAKE: u32 = g::FUTEX_WAKE | g::FUTEX_PRIVATE_FLAG;

#[test]
fn a_waiter_is_woken_or_times_out() {
    run(|p| {
        let word = p.map(4096);
        fails!(p, EAGAIN, futex, word, WAIT, 1, 0);
        let time = p.words(&[0, 5_000_000]);
        let before = p.now();
        fails!(p, ETIMEDOUT, futex, word, WAIT, 0, time);
        assert!((5_000_000..6_000_000).contains(&(p.now() - before)));
        let done = shared(0);
        let inside = done.clone();
        p.thread(move |p| {
            ok!(p, futex, word, WAIT, 0, 0);
            inside.set(1);
        });
        p.sleep_ms(1);
        assert_eq!(ok!(p, futex, word, WAKE, 10), 1);
        p.sleep_ms(1);
        assert_eq!(done.get(), 1);
    });
}

#[test]
fn shared_futexes_reach_other_processes() {
    run(|p| {
        let word = ok!(p, mmap, 0, 4096, g::PROT_READ | g::PROT_WRITE, g::MAP_SHARED | g::MAP_ANONYMOUS, -1, 0);
        let child = p.fork(move |p| {
            ok!(p, futex, word, g::FUTEX_WAIT, 0, 0);
            0
        });
        p.sleep_ms(1);
        assert_eq!(ok!(p, futex, word, WAKE, 10), 0, "a private wake-up reaches no other process");
        assert_eq!(ok!(p, futex, word, g::FUTEX_WAKE, 10), 1);
        assert_eq!(p.wait(child), 0);
    });
}

/// What a test keeps of its waiting threads: numbers of those that were woken, in order.
type Woken = Rc<RefCell<Vec<usize>>>;

fn waiter(p: &mut Program, word: u64, bits: u32, number: usize, woken: &Woken) {
    let woken = woken.clone();
    p.thread(move |p| {
        let op = g::FUTEX_WAIT_BITSET | g::FUTEX_PRIVATE_FLAG;
        let result = call!(p, futex, word, op, 0, 0, 0, bits);
        assert_eq!(result, 0);
        woken.borrow_mut().push(number);
    });
    p.sleep_ms(1);
}

/// Random waits, wakes with bits, and requeues against lists of waiters in their order.
#[test]
fn waiters_wait_in_order() {
    run(|p| {
        for seed in 0..15 {
            let mut random = Random::new(seed);
            let words = p.map(4096);
            let woken: Woken = Rc::default();
            let mut model: Vec<Vec<(usize, u32)>> = vec![Vec::new(); 4];
            // Those that one call wakes may run in any order.
            let mut expected = Vec::new();
            for number in 0..80 {
                let from = random.below(4);
                let word = words + 4 * from as u64;
                match random.below(3) {
                    0 => {
                        let bits = 1 + random.below(7) as u32;
                        waiter(p, word, bits, number, &woken);
                        model[from].push((number, bits));
                    }
                    1 => {
                        let (most, bits) = (random.below(4), 1 + random.below(7) as u32);
                        let op = g::FUTEX_WAKE_BITSET | g::FUTEX_PRIVATE_FLAG;
                        let mut count = 0;
                        model[from].retain(|(number, theirs)| {
                            let goes = count < most.max(1) && theirs & bits != 0;
                            if goes {
                                count += 1;
                                expected.push(*number);
                            }
                            !goes
                        });
                        assert_eq!(ok!(p, futex, word, op, most.max(1), 0, 0, bits), count as u64, "seed {seed}");
                    }
                    _ => {
                        let to = random.below(4);
                        let (wakes, moves) = (random.below(3), random.below(3));
                        let op = g::FUTEX_CMP_REQUEUE | g::FUTEX_PRIVATE_FLAG;
                        let n = ok!(p, futex, word, op, wakes, moves, words + 4 * to as u64, 0) as usize;
                        let len = model[from].len();
                        let wake: Vec<_> = model[from].drain(..wakes.min(len)).collect();
                        let len = model[from].len();
                        expected.extend(wake.iter().map(|(number, _)| *number));
                        let moved: Vec<_> =
                            if to == from { Vec::new() } else { model[from].drain(..moves.min(len)).collect() };
                        let stay = if to == from { moves.min(len) } else { 0 };
                        assert_eq!(n, wake.len() + moved.len() + stay, "seed {seed}: requeue {from} to {to}");
                        model[to].extend(moved);
                    }
                }
                p.sleep_ms(1);
                woken.borrow_mut().sort_unstable();
                expected.sort_unstable();
                assert_eq!(*woken.borrow(), expected, "seed {seed}");
                woken.borrow_mut().clear();
                expected.clear();
            }
            for (index, waiting) in model.iter().enumerate() {
                let word = words + 4 * index as u64;
                assert_eq!(ok!(p, futex, word, WAKE, i32::MAX), waiting.len() as u64, "seed {seed}");
            }
            p.sleep_ms(1);
        }
    });
}

#[test]
fn a_lock_with_priority_inheritance_changes_hands() {
    run(|p| {
        let word = p.map(4096);
        let lock = g::FUTEX_LOCK_PI | g::FUTEX_PRIVATE_FLAG;
        let unlock = g::FUTEX_UNLOCK_PI | g::FUTEX_PRIVATE_FLAG;
        let me = ok!(p, gettid);
        ok!(p, futex, word, lock, 0, 0);
        assert_eq!(p.int(word) as u64 & 0x3fff_ffff, me);
        fails!(p, EDEADLK, futex, word, lock, 0, 0);
        let done = shared(0);
        let inside = done.clone();
        let id = p.thread(move |p| {
            ok!(p, futex, word, lock, 0, 0);
            inside.set(1);
            p.sleep_ms(5);
            ok!(p, futex, word, unlock);
        });
        p.sleep_ms(1);
        assert_eq!(done.get(), 0);
        ok!(p, futex, word, unlock);
        p.sleep_ms(1);
        assert_eq!(done.get(), 1);
        assert_eq!(p.int(word) as u64 & 0x3fff_ffff, id);
        fails!(p, EPERM, futex, word, unlock);
        ok!(p, futex, word, lock, 0, 0);
        ok!(p, futex, word, unlock);
        assert_eq!(p.int(word), 0);
    });
}

#[test]
fn a_robust_lock_outlives_its_owner() {
    run(|p| {
        let memory = p.map(4096);
        p.thread(move |p| {
            let id = ok!(p, gettid);
            // Head: next entry, offset of the word in it, pending entry.
            let (head, entry) = (memory, memory + 64);
            p.store(head, &[entry.to_le_bytes(), 32u64.to_le_bytes(), [0; 8]].concat());
            p.store(entry, &head.to_le_bytes());
            p.set_int(entry + 32, id as i32);
            ok!(p, set_robust_list, head, 24);
        });
        p.sleep_ms(1);
        assert_eq!(p.int(memory + 64 + 32) as u32, g::FUTEX_OWNER_DIED);
    });
}
