//! Signals: handlers, masks, queues.

use crate::harness::{Random, run, shared};
use crate::{call, fails, ok};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use uapi::raw::general as g;

#[test]
fn a_handler_runs_on_the_way_out() {
    run(|p| {
        let count = shared(0);
        let inside = count.clone();
        p.on_signal(g::SIGUSR1, 0, move |_, signal, _| inside.set(inside.get() + signal));
        let me = ok!(p, getpid);
        ok!(p, kill, me, g::SIGUSR1);
        assert_eq!(count.get(), g::SIGUSR1 as i32);
        p.mask(g::SIG_BLOCK, &[g::SIGUSR1]);
        ok!(p, kill, me, g::SIGUSR1);
        ok!(p, kill, me, g::SIGUSR1);
        assert_eq!(count.get(), g::SIGUSR1 as i32);
        p.mask(g::SIG_UNBLOCK, &[g::SIGUSR1]);
        assert_eq!(count.get(), 2 * g::SIGUSR1 as i32, "standard signals do not queue");
    });
}

#[test]
fn a_signal_interrupts_a_read_or_lets_it_go_on() {
    run(|p| {
        for (flags, restarts) in [(0, false), (g::SA_RESTART, true)] {
            let [read, write] = p.pipe(0);
            let count = shared(0);
            let inside = count.clone();
            p.on_signal(g::SIGUSR2, flags, move |_, _, _| inside.set(inside.get() + 1));
            let me = ok!(p, getpid);
            let child = p.fork(move |p| {
                p.sleep_ms(5);
                ok!(p, kill, me, g::SIGUSR2);
                p.sleep_ms(5);
                p.write(write, b"x");
                0
            });
            let room = p.room(8);
            let got = call!(p, read, read, room, 8);
            assert_eq!(got, if restarts { 1 } else { -4 });
            assert_eq!(count.get(), 1);
            p.wait(child);
        }
    });
}

#[test]
fn a_sleep_tells_what_is_left() {
    run(|p| {
        p.on_signal(g::SIGALRM, 0, |_, _, _| {});
        let timer = p.words(&[0, 0, 0, 30_000]);
        ok!(p, setitimer, g::ITIMER_REAL, timer, 0);
        let (time, left) = (p.words(&[1, 0]), p.room(16));
        let before = p.now();
        fails!(p, EINTR, nanosleep, time, left);
        let took = p.now() - before;
        let rest = p.word(left) * 1_000_000_000 + p.word(left + 8);
        assert!((30_000_000..31_000_000).contains(&took), "{took}");
        assert!((took + rest).abs_diff(1_000_000_000) < 1_000_000, "{took} {rest}");
    });
}

/// Random sending of queued and standard signals with values against queues.
#[test]
fn queued_signals_come_in_order_with_their_values() {
    run(|p| {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let signals = [10u32, 12, 34, 35, 40, 64];
            let got: Rc<RefCell<Vec<(u32, u64)>>> = Rc::default();
            for signal in signals {
                let inside = got.clone();
                p.on_signal(signal, g::SA_SIGINFO, move |p, signal, info| {
                    let value = p.word(info + 24);
                    inside.borrow_mut().push((signal as u32, value));
                });
            }
            p.mask(g::SIG_BLOCK, &signals);
            let me = ok!(p, getpid);
            let mut model: Vec<(u32, VecDeque<u64>)> = signals.iter().map(|s| (*s, VecDeque::new())).collect();
            for value in 0..random.below(60) as u64 {
                let (signal, queue) = &mut model[random.below(signals.len())];
                let info = p.room(128);
                p.set_int(info, *signal as i32);
                p.set_int(info + 8, -1);
                p.store(info + 24, &value.to_le_bytes());
                ok!(p, rt_sigqueueinfo, me, *signal, info);
                if *signal >= 32 || queue.is_empty() {
                    queue.push_back(value);
                }
            }
            let pending = p.room(8);
            ok!(p, rt_sigpending, pending, 8);
            let wanted = model.iter().filter(|(_, q)| !q.is_empty()).fold(0, |set, (s, _)| set | 1u64 << (s - 1));
            assert_eq!(p.word(pending), wanted, "seed {seed}");
            // Some are taken by sigtimedwait, the smallest number first.
            for _ in 0..random.below(10) {
                let set = p.words(&[!0]);
                let (info, zero) = (p.room(128), p.words(&[0, 0]));
                let next = model.iter_mut().find(|(_, queue)| !queue.is_empty());
                let Some((signal, queue)) = next else {
                    fails!(p, EAGAIN, rt_sigtimedwait, set, info, zero, 8);
                    continue;
                };
                assert_eq!(ok!(p, rt_sigtimedwait, set, info, zero, 8), u64::from(*signal), "seed {seed}");
                assert_eq!(p.word(info + 24), queue.pop_front().expect("not empty"), "seed {seed}");
            }
            p.mask(g::SIG_UNBLOCK, &signals);
            // Handlers nest: the last one whose frame was made runs first, so compare as sets for each signal in order.
            for (signal, queue) in &model {
                let values: Vec<u64> = got.borrow().iter().filter(|(s, _)| s == signal).map(|(_, v)| *v).collect();
                assert_eq!(values, queue.iter().copied().collect::<Vec<_>>(), "seed {seed}, signal {signal}");
            }
        }
    });
}

#[test]
fn children_tell_of_their_end() {
    run(|p| {
        let seen = shared((0, 0, 0));
        let inside = seen.clone();
        p.on_signal(g::SIGCHLD, g::SA_SIGINFO, move |p, _, info| {
            inside.set((p.int(info + 8), p.int(info + 16), p.int(info + 24)));
        });
        let child = p.fork(|_| 9);
        let set = p.words(&[0]);
        call!(p, rt_sigsuspend, set, 8);
        assert_eq!(seen.get(), (1, child as i32, 9));
        assert_eq!(p.wait(child), 9 << 8);
        fails!(p, ECHILD, wait4, -1, 0, 0, 0);
    });
}

#[test]
fn a_stopped_child_goes_on() {
    run(|p| {
        let child = p.fork(|p| {
            let me = ok!(p, getpid);
            ok!(p, kill, me, g::SIGSTOP);
            3
        });
        let status = p.room(4);
        ok!(p, wait4, child, status, g::WUNTRACED, 0);
        assert_eq!(p.int(status), (g::SIGSTOP << 8 | 0x7f) as i32);
        ok!(p, kill, child, g::SIGCONT);
        ok!(p, wait4, child, status, g::WCONTINUED, 0);
        assert_eq!(p.int(status), 0xffff);
        assert_eq!(p.wait(child), 3 << 8);
    });
}

#[test]
fn handlers_run_on_the_alternate_stack() {
    run(|p| {
        let stack = p.map(64 << 10);
        let place = p.words(&[stack, 0, 64 << 10]);
        ok!(p, sigaltstack, place, 0);
        let at = shared(0);
        let inside = at.clone();
        p.on_signal(g::SIGUSR1, g::SA_ONSTACK, move |p, _, _| inside.set(p.cpu.registers().rsp));
        let me = ok!(p, getpid);
        ok!(p, tgkill, me, me, g::SIGUSR1);
        assert!((stack..stack + (64 << 10)).contains(&at.get()), "{:#x} {stack:#x}", at.get());
    });
}

#[test]
fn a_busy_program_is_interrupted_by_its_timers() {
    run(|p| {
        for (which, signal) in
            [(g::ITIMER_REAL, g::SIGALRM), (g::ITIMER_VIRTUAL, g::SIGVTALRM), (g::ITIMER_PROF, g::SIGPROF)]
        {
            let count = shared(0);
            let inside = count.clone();
            p.on_signal(signal, 0, move |_, _, _| inside.set(inside.get() + 1));
            let timer = p.words(&[0, 50_000, 0, 50_000]);
            ok!(p, setitimer, which, timer, 0);
            p.compute_ms(520);
            let off = p.words(&[0, 0, 0, 0]);
            ok!(p, setitimer, which, off, 0);
            assert!((9..=11).contains(&count.get()), "timer {which}: {}", count.get());
        }
    });
}

#[test]
fn threads_have_masks_of_their_own() {
    run(|p| {
        let count = shared((0, 0));
        let inside = count.clone();
        p.on_signal(g::SIGUSR1, 0, move |p, _, _| {
            let id = ok!(p, gettid);
            inside.set((inside.get().0 + 1, id));
        });
        p.mask(g::SIG_BLOCK, &[g::SIGUSR1]);
        let me = ok!(p, getpid);
        let id = p.thread(|p| {
            p.mask(g::SIG_UNBLOCK, &[g::SIGUSR1]);
            let time = p.words(&[0, 50_000_000]);
            fails!(p, EINTR, nanosleep, time, 0);
        });
        p.sleep_ms(10);
        ok!(p, kill, me, g::SIGUSR1);
        p.sleep_ms(10);
        assert_eq!(count.get(), (1, id), "the thread that does not block it runs the handler");
    });
}
