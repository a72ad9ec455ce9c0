//! Who watches system calls: tracers and filters.

use crate::harness::{Program, numbers, run};
use crate::{call, fails, ok};
use uapi::raw::general as g;

const TRACEME: u32 = 0;
const PEEK: u32 = 2;
const POKE: u32 = 5;
const CONT: u32 = 7;
const GETREGS: u32 = 12;
const SETREGS: u32 = 13;
const SYSCALL: u32 = 24;
const SETOPTIONS: u32 = 0x4200;
const GETEVENTMSG: u32 = 0x4201;
const GETSIGINFO: u32 = 0x4202;
const SEIZE: u32 = 0x4206;
const INTERRUPT: u32 = 0x4207;

/// Status of the next stop of a child, as (signal, event).
fn stop(p: &mut Program, child: u64) -> (u32, u32) {
    let status = p.room(4);
    ok!(p, wait4, child, status, 0x4000_0000, 0);
    let status = p.int(status) as u32;
    assert_eq!(status & 0xff, 0x7f, "{status:#x}");
    (status >> 8 & 0xff, status >> 16)
}

#[test]
fn a_tracer_sees_and_changes_calls() {
    run(|p| {
        let memory = p.map(4096);
        let child = p.fork(move |p| {
            ok!(p, ptrace, TRACEME, 0, 0, 0);
            let me = ok!(p, getpid);
            ok!(p, kill, me, g::SIGSTOP);
            p.store(memory, b"of the child");
            let id = call!(p, getppid);
            assert_eq!(id, 4242, "the tracer changed the result");
            assert_eq!(p.load(memory, 7), b"changed");
            3
        });
        assert_eq!(stop(p, child), (g::SIGSTOP, 0));
        ok!(p, ptrace, SETOPTIONS, child, 0, 1);
        let registers = p.room(27 * 8);
        let mut seen = Vec::new();
        let mut inside = false;
        loop {
            ok!(p, ptrace, SYSCALL, child, 0, 0);
            let status = p.room(4);
            ok!(p, wait4, child, status, 0, 0);
            let status = p.int(status);
            if status & 0x7f == 0 {
                assert_eq!(status, 3 << 8);
                break;
            }
            assert_eq!(status as u32 >> 8, g::SIGTRAP | 0x80);
            ok!(p, ptrace, GETREGS, child, 0, registers);
            inside = !inside;
            let number = p.word(registers + 15 * 8);
            if inside {
                seen.push(number);
                assert_eq!(p.word(registers + 10 * 8) as i64, -38);
            } else if number == numbers::getppid {
                p.store(registers + 10 * 8, &4242u64.to_le_bytes());
                ok!(p, ptrace, SETREGS, child, 0, registers);
                let room = p.room(8);
                ok!(p, ptrace, PEEK, child, memory, room);
                assert_eq!(p.load(room, 8), *b"of the c");
                ok!(p, ptrace, POKE, child, memory, u64::from_le_bytes(*b"changed!"));
            }
        }
        assert!(seen.contains(&numbers::getppid) && seen.contains(&numbers::exit_group), "{seen:?}");
    });
}

#[test]
fn a_tracer_is_told_of_children_programs_and_ends() {
    run(|p| {
        p.install("/tmp/traced", |_| 4);
        let child = p.fork(|p| {
            call!(p, pause);
            let grandchild = p.fork(|_| 0);
            p.wait(grandchild);
            let (path, none) = (p.string("/tmp/traced"), p.words(&[0]));
            call!(p, execve, path, none, none);
            1
        });
        p.sleep_ms(1);
        // Forks, programs, ends.
        ok!(p, ptrace, SEIZE, child, 0, 2 | 0x10 | 0x40);
        ok!(p, ptrace, INTERRUPT, child, 0, 0);
        assert_eq!(stop(p, child), (g::SIGTRAP, 128));
        ok!(p, ptrace, CONT, child, 0, 0);
        ok!(p, kill, child, g::SIGUSR1);
        assert_eq!(stop(p, child), (g::SIGUSR1, 0));
        let info = p.room(128);
        ok!(p, ptrace, GETSIGINFO, child, 0, info);
        assert_eq!(p.int(info) as u32, g::SIGUSR1);
        // The signal is swallowed, and pause goes on until another one that the child ignores ends it.
        ok!(p, ptrace, CONT, child, 0, 0);
        p.sleep_ms(1);
        ok!(p, kill, child, g::SIGKILL);
        let (status, event) = {
            let at = p.room(4);
            ok!(p, wait4, child, at, 0, 0);
            (p.int(at) as u32 & 0xffff, p.int(at) as u32 >> 16)
        };
        if event == 6 {
            let message = p.room(8);
            ok!(p, ptrace, GETEVENTMSG, child, 0, message);
            assert_eq!(p.word(message), u64::from(g::SIGKILL));
            ok!(p, ptrace, CONT, child, 0, 0);
            assert_eq!(p.wait(child), g::SIGKILL as i32);
        } else {
            assert_eq!(status, g::SIGKILL);
        }
    });
}

/// Events of a traced child that forks and executes.
#[test]
fn events_stop_the_child() {
    run(|p| {
        p.install("/tmp/traced2", |_| 4);
        let child = p.fork(|p| {
            ok!(p, ptrace, TRACEME, 0, 0, 0);
            let me = ok!(p, getpid);
            ok!(p, kill, me, g::SIGSTOP);
            let grandchild = p.fork(|_| 0);
            p.wait(grandchild);
            let (path, none) = (p.string("/tmp/traced2"), p.words(&[0]));
            call!(p, execve, path, none, none);
            1
        });
        stop(p, child);
        ok!(p, ptrace, SETOPTIONS, child, 0, 2 | 0x10 | 0x40);
        ok!(p, ptrace, CONT, child, 0, 0);
        assert_eq!(stop(p, child), (g::SIGTRAP, 1), "fork");
        let message = p.room(8);
        ok!(p, ptrace, GETEVENTMSG, child, 0, message);
        let grandchild = p.word(message);
        assert_eq!(stop(p, grandchild).0, g::SIGSTOP);
        ok!(p, ptrace, CONT, child, 0, 0);
        ok!(p, ptrace, CONT, grandchild, 0, 0);
        assert_eq!(stop(p, grandchild), (g::SIGTRAP, 6), "exit");
        ok!(p, ptrace, CONT, grandchild, 0, 0);
        let mut events = Vec::new();
        loop {
            let at = p.room(4);
            let who = ok!(p, wait4, -1, at, 0x4000_0000, 0);
            let status = p.int(at) as u32;
            if who == child {
                if status & 0x7f == 0 {
                    assert_eq!(status, 4 << 8);
                    break;
                }
                events.push(status >> 16);
                let signal = if status >> 16 == 0 { status >> 8 & 0xff } else { 0 };
                ok!(p, ptrace, CONT, child, 0, signal);
            }
        }
        assert!(events.contains(&4) && events.contains(&6), "exec and exit: {events:?}");
    });
}

/// A filter that looks at the number of the call.
fn filter(p: &mut Program, number: u64, action: u32) -> u64 {
    let mut code = Vec::new();
    let mut step = |op: u16, yes: u8, no: u8, k: u32| {
        code.extend(op.to_le_bytes());
        code.extend([yes, no]);
        code.extend(k.to_le_bytes());
    };
    step(0x20, 0, 0, 0);
    step(0x15, 0, 1, number as u32);
    step(0x06, 0, 0, action);
    step(0x06, 0, 0, 0x7fff_0000);
    let code = p.bytes(&code);
    p.words(&[4, code])
}

#[test]
fn filters_refuse_calls() {
    run(|p| {
        p.in_child(|p| {
            let program = filter(p, numbers::getppid, 0x0005_0000 | 77);
            ok!(p, prctl, 38, 1, 0, 0, 0);
            ok!(p, seccomp, 1, 0, program);
            assert_eq!(call!(p, getppid), -77);
            assert!(call!(p, getpid) > 0);
            p.in_child(|p| assert_eq!(call!(p, getppid), -77));
            // SECCOMP_RET_TRAP
            let seen = crate::harness::shared((0, 0));
            let inside = seen.clone();
            p.on_signal(g::SIGSYS, g::SA_SIGINFO, move |p, signal, info| inside.set((signal, p.int(info + 24))));
            let program = filter(p, numbers::gettid, 0x0003_0000);
            ok!(p, seccomp, 1, 0, program);
            call!(p, gettid);
            assert_eq!(seen.get(), (g::SIGSYS as i32, numbers::gettid as i32));
        });
        let child = p.fork(|p| {
            let program = filter(p, numbers::getuid, 0x8000_0000);
            ok!(p, seccomp, 1, 0, program);
            call!(p, getuid);
            0
        });
        assert_eq!(p.wait(child) & 0x7f, g::SIGSYS as i32);
        let child = p.fork(|p| {
            let room = p.room(8);
            let [read, write] = p.pipe(0);
            ok!(p, seccomp, 0, 0, 0);
            p.write(write, b"x");
            ok!(p, read, read, room, 1);
            call!(p, getpid);
            0
        });
        assert_eq!(p.wait(child) & 0x7f, g::SIGKILL as i32);
    });
}

#[test]
fn a_supervisor_answers_calls() {
    run(|p| {
        let child = p.fork(|p| {
            let program = filter(p, numbers::getppid, 0x7fc0_0000);
            let listener = ok!(p, seccomp, 1, 8, program);
            let supervised = p.fork(|p| {
                assert_eq!(call!(p, getppid), 1234);
                assert_eq!(call!(p, getppid), -5);
                0
            });
            for (value, error) in [(1234u64, 0i32), (0, -5)] {
                let request = p.room(80);
                ok!(p, ioctl, listener, 0xc050_2100u32, request);
                assert_eq!(p.int(request + 16) as u64, numbers::getppid);
                let id = p.word(request);
                let answer = p.room(24);
                p.store(answer, &[id.to_le_bytes(), value.to_le_bytes()].concat());
                p.set_int(answer + 16, error);
                ok!(p, ioctl, listener, 0xc018_2101u32, answer);
            }
            p.wait(supervised)
        });
        assert_eq!(p.wait(child), 0);
        fails!(p, EINVAL, seccomp, 99, 0, 0);
    });
}
