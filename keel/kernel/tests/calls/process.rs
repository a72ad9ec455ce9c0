//! Processes and threads: their start, programs and end; groups, limits, credentials.

use crate::harness::{numbers, run, shared};
use crate::{call, fails, ok};
use uapi::raw::general as g;

#[test]
fn a_call_is_served_at_each_way_in() {
    run(|p| {
        let id = ok!(p, getpid);
        assert_eq!(p.trap(numbers::getpid, &[]) as u64, id);
        assert_eq!(p.trap(numbers::getppid, &[]), 2, "the first program's");
        assert_eq!(p.trap(400, &[]), -38, "no such call");
        assert_eq!(call!(p, gettid) as u64, id);
    });
}

#[test]
fn a_program_replaces_another() {
    run(|p| {
        p.install("/tmp/program", |p| {
            // Arguments and environment are on the stack.
            let stack = p.cpu.registers().rsp;
            assert_eq!(p.word(stack), 2);
            let argument = p.word(stack + 16);
            assert_eq!(p.load(argument, 4), b"arg\0");
            let variable = p.word(stack + 32);
            assert_eq!(p.load(variable, 4), b"A=b\0");
            assert_eq!(p.text("/proc/self/comm"), "program\n");
            assert_eq!(p.text("/proc/self/cmdline"), "zero\0arg\0");
            // Descriptors without the flag stay.
            fails!(p, EBADF, fcntl, 20, g::F_GETFD);
            ok!(p, fcntl, 21, g::F_GETFD);
            5
        });
        let child = p.fork(|p| {
            let fd = p.open("/dev/null", g::O_RDWR);
            ok!(p, dup3, fd, 20, g::O_CLOEXEC);
            ok!(p, dup2, fd, 21);
            p.on_signal(g::SIGUSR1, 0, |_, _, _| {});
            let (path, zero, one, env) = (p.string("/tmp/program"), p.string("zero"), p.string("arg"), p.string("A=b"));
            let (arguments, environment) = (p.words(&[zero, one, 0]), p.words(&[env, 0]));
            ok!(p, execve, path, arguments, environment);
            unreachable!("another program runs");
        });
        assert_eq!(p.wait(child), 5 << 8);
        let (missing, none) = (p.string("/tmp/missing"), p.words(&[0]));
        fails!(p, ENOENT, execve, missing, none, none);
        p.write_file("/tmp/text", b"text");
        let text = p.string("/tmp/text");
        fails!(p, EACCES, execve, text, none, none);
        ok!(p, chmod, text, 0o755);
        fails!(p, ENOEXEC, execve, text, none, none);
    });
}

#[test]
fn a_thread_of_several_executes() {
    run(|p| {
        p.install("/tmp/last", |p| {
            let id = ok!(p, gettid);
            assert_eq!(id, ok!(p, getpid), "the thread has the process's id now");
            6
        });
        let child = p.fork(|p| {
            p.thread(|p| {
                let (path, none) = (p.string("/tmp/last"), p.words(&[0]));
                ok!(p, execve, path, none, none);
            });
            call!(p, pause);
            1
        });
        assert_eq!(p.wait(child), 6 << 8);
    });
}

#[test]
fn children_of_the_dead_go_to_the_first_process() {
    run(|p| {
        let parent = shared(0);
        let inside = parent.clone();
        p.in_child(move |p| {
            p.fork(move |p| {
                p.sleep_ms(10);
                inside.set(ok!(p, getppid));
                0
            });
        });
        p.sleep_ms(30);
        assert_eq!(parent.get(), 1);
    });
}

#[test]
fn a_subreaper_gets_them_first() {
    run(|p| {
        ok!(p, prctl, 36, 1, 0, 0, 0);
        let child = p.fork(|p| {
            p.fork(|p| {
                p.sleep_ms(5);
                4
            });
            0
        });
        assert_eq!(p.wait(child), 0);
        let status = p.room(4);
        ok!(p, wait4, -1, status, 0, 0);
        assert_eq!(p.int(status), 4 << 8);
    });
}

#[test]
fn threads_share_what_processes_do_not() {
    run(|p| {
        let at = p.map(4096);
        let word = p.map(4096);
        p.set_int(word, 1);
        let flags = g::CLONE_VM
            | g::CLONE_FILES
            | g::CLONE_FS
            | g::CLONE_SIGHAND
            | g::CLONE_THREAD
            | g::CLONE_CHILD_CLEARTID
            | g::CLONE_PARENT_SETTID
            | g::CLONE_SETTLS;
        let ids = p.room(8);
        let thread = p.clone_vm(u64::from(flags), [ids, word, 0x1234_5000], move |p| {
            p.store(at, b"thread");
            let path = p.string("/tmp");
            ok!(p, chdir, path);
            let base = p.room(8);
            ok!(p, arch_prctl, 0x1003, base);
            assert_eq!(p.word(base), 0x1234_5000);
            0
        });
        assert_eq!(p.int(ids) as u64, thread);
        // The end clears the word and wakes who waits for that.
        let result = call!(p, futex, word, g::FUTEX_WAIT, 1, 0);
        assert!(result == 0 || result == -11);
        assert_eq!(p.int(word), 0);
        assert_eq!(p.load(at, 6), b"thread");
        let room = p.room(64);
        ok!(p, getcwd, room, 64);
        assert_eq!(p.load(room, 5), b"/tmp\0");
    });
}

#[test]
fn the_last_exit_of_a_group_counts() {
    run(|p| {
        let child = p.fork(|p| {
            p.thread(|p| {
                p.sleep_ms(5);
                call!(p, exit_group, 9);
            });
            call!(p, exit, 1);
            0
        });
        assert_eq!(p.wait(child), 9 << 8);
    });
}

#[test]
fn groups_and_sessions() {
    run(|p| {
        let child = p.fork(|p| {
            let id = ok!(p, setsid);
            assert_eq!(id, ok!(p, getpid));
            assert_eq!(ok!(p, getpgid, 0), id);
            fails!(p, EPERM, setsid);
            let member = p.fork(|p| {
                call!(p, pause);
                0
            });
            ok!(p, setpgid, member, member);
            assert_eq!(ok!(p, getpgid, member), member);
            ok!(p, kill, -(member as i64), g::SIGTERM);
            assert_eq!(p.wait(member), g::SIGTERM as i32);
            0
        });
        assert_eq!(p.wait(child), 0);
    });
}

#[test]
fn a_user_may_do_less() {
    run(|p| {
        p.in_child(|p| {
            let groups = p.ints(&[7]);
            ok!(p, setgroups, 1, groups);
            ok!(p, setresgid, 100, 100, 100);
            ok!(p, setresuid, 100, 100, 100);
            fails!(p, EPERM, setuid, 0);
            fails!(p, EPERM, kill, 1, g::SIGTERM);
            let path = p.string("/root/x");
            fails!(p, EACCES, openat, g::AT_FDCWD, path, g::O_CREAT | g::O_WRONLY, 0o600);
            let status = p.text("/proc/self/status");
            assert!(status.contains("Uid:\t100\t100\t100\t100"), "{status}");
            assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
        });
    });
}

/// The processes of another user, and one of the same user that kept all capabilities.
#[test]
fn a_user_may_not_schedule_what_may_do_more() {
    run(|p| {
        let [from, to] = p.pipe(0);
        for (uid, saved) in [(100, 100), (100, 0), (0, 0), (200, 200)] {
            let target = p.fork(move |p| {
                ok!(p, setresgid, uid, uid, uid);
                ok!(p, setresuid, uid, uid, saved);
                ok!(p, prctl, 4, 1); // PR_SET_DUMPABLE
                assert_eq!(p.write(to, b"r"), 1);
                call!(p, pause);
                0
            });
            assert_eq!(p.read(from, 1), b"r");
            let pidfd = ok!(p, pidfd_open, target, 0);
            let memory = p.map(4096);
            p.in_child(move |p| {
                let (one, nothing, page) = (p.words(&[1]), p.words(&[0]), p.words(&[memory, 4096]));
                ok!(p, setresgid, 100, 100, 100);
                ok!(p, setresuid, 100, 100, 100);
                if (uid, saved) == (100, 100) {
                    ok!(p, setpriority, g::PRIO_PROCESS, target, 5);
                    ok!(p, sched_setaffinity, target, 8, one);
                    ok!(p, sched_setscheduler, target, g::SCHED_BATCH, nothing);
                    ok!(p, ioprio_set, 1, target, 2 << 13);
                    ok!(p, kcmp, target, target, 1, 0, 0);
                    fails!(p, EPERM, process_madvise, pidfd, page, 1, g::MADV_COLD, 0);
                    return;
                }
                fails!(p, EPERM, setpriority, g::PRIO_PROCESS, target, 5);
                fails!(p, EPERM, sched_setaffinity, target, 8, one);
                fails!(p, EPERM, sched_setscheduler, target, g::SCHED_BATCH, nothing);
                fails!(p, EPERM, ioprio_set, 1, target, 2 << 13);
                fails!(p, EPERM, kcmp, target, target, 1, 0, 0);
                fails!(p, EACCES, process_madvise, pidfd, page, 1, g::MADV_COLD, 0);
            });
            ok!(p, kill, target, g::SIGKILL);
            assert_eq!(p.wait(target), g::SIGKILL as i32);
            ok!(p, close, pidfd);
        }
    });
}

#[test]
fn limits_hold() {
    run(|p| {
        p.in_child(|p| {
            let limit = p.words(&[10, 10]);
            ok!(p, prlimit64, 0, g::RLIMIT_NOFILE, limit, 0);
            let mut last = 0;
            loop {
                let path = p.string("/dev/null");
                match call!(p, openat, g::AT_FDCWD, path, 0) {
                    fd if fd >= 0 => last = fd,
                    error => break assert_eq!(error, -24),
                }
            }
            assert_eq!(last, 9);
            let size = p.words(&[100, 100]);
            ok!(p, prlimit64, 0, g::RLIMIT_FSIZE, size, 0);
            ok!(p, close, last);
            p.on_signal(g::SIGXFSZ, 0, |_, _, _| {});
            let fd = p.open("/tmp/limited", g::O_CREAT | g::O_WRONLY | g::O_TRUNC);
            assert_eq!(p.write(fd, &[1; 200]), 100);
            assert_eq!(p.write(fd, &[1; 1]), -27);
        });
    });
}

#[test]
fn a_process_has_a_descriptor() {
    run(|p| {
        let child = p.fork(|p| {
            call!(p, pause);
            0
        });
        let fd = ok!(p, pidfd_open, child, 0);
        let set = p.room(8);
        p.set_int(set, fd as i32);
        p.store(set + 4, &[1, 0]);
        assert_eq!(ok!(p, poll, set, 1, 0), 0);
        ok!(p, pidfd_send_signal, fd, g::SIGKILL, 0, 0);
        assert_eq!(ok!(p, poll, set, 1, 1000), 1);
        let info = p.room(128);
        ok!(p, waitid, 3, fd, info, g::WEXITED, 0);
        assert_eq!((p.int(info + 8), p.int(info + 24)), (2, g::SIGKILL as i32));
    });
}

#[test]
fn the_processor_is_shared() {
    run(|p| {
        let counts: Vec<_> = (0..3).map(|_| shared(0)).collect();
        let children: Vec<u64> = counts
            .iter()
            .map(|count| {
                let count = count.clone();
                p.fork(move |p| {
                    for _ in 0..400 {
                        p.compute(1_000_000);
                        count.set(count.get() + 1);
                    }
                    0
                })
            })
            .collect();
        p.sleep_ms(600);
        let seen: Vec<i32> = counts.iter().map(|count| count.get()).collect();
        assert!(seen.iter().all(|count| (150..=250).contains(count)), "{seen:?}");
        for child in children {
            assert_eq!(p.wait(child), 0);
        }
    });
}

#[test]
fn a_nicer_process_gets_less() {
    run(|p| {
        let counts = [shared(0), shared(0)];
        let children: Vec<u64> = [0, 10]
            .into_iter()
            .zip(&counts)
            .map(|(nice, count)| {
                let count = count.clone();
                p.fork(move |p| {
                    ok!(p, setpriority, 0, 0, nice);
                    for _ in 0..2000 {
                        p.compute(1_000_000);
                        count.set(count.get() + 1);
                    }
                    0
                })
            })
            .collect();
        p.sleep_ms(1000);
        let (normal, nice) = (counts[0].get(), counts[1].get());
        assert!(normal > 4 * nice && nice > 0, "{normal} {nice}");
        for child in children {
            ok!(p, kill, child, g::SIGKILL);
            p.wait(child);
        }
    });
}

#[test]
fn ports_and_quotas_are_refused_as_in_linux() {
    run(|p| {
        ok!(p, iopl, 0);
        for level in 1..4 {
            fails!(p, EPERM, iopl, level);
        }
        fails!(p, EINVAL, iopl, 4);
        fails!(p, EPERM, ioperm, 0x80, 1, 1);
        ok!(p, ioperm, 0x80, 1, 0);
        for (from, count) in [(0x80, 0), (65_535, 2), (65_536, 1), (u64::MAX, 2)] {
            fails!(p, EINVAL, ioperm, from, count, 0);
        }
        ok!(p, ioperm, 0, 65_536, 0);
        fails!(p, ENODEV, quotactl, 0x80_0007 << 8, 0, 0, 0);
    });
}

#[test]
fn process_descriptors_are_no_programs() {
    run(|p| {
        let id = ok!(p, getpid);
        let fd = ok!(p, pidfd_open, id, 0);
        let (none, path) = (p.string(""), p.string(&format!("/proc/self/fd/{fd}")));
        ok!(p, faccessat2, fd, none, 6, g::AT_EMPTY_PATH);
        fails!(p, EACCES, faccessat2, fd, none, 1, g::AT_EMPTY_PATH);
        fails!(p, EACCES, access, path, 1);
    });
}
