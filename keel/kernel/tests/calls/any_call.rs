//! Any call with any arguments: keel answers with a result or an error, and goes on.

use crate::harness::{Program, Random, numbers, run};
use crate::{call, ok};
use uapi::raw::general as g;

/// Calls that end the program, change where it is or make others, and that reach the whole pod.
const LEFT_OUT: [u64; 23] = [
    numbers::adjtimex,
    numbers::clock_adjtime,
    numbers::clock_settime,
    numbers::clone,
    numbers::clone3,
    numbers::exit,
    numbers::exit_group,
    numbers::fork,
    numbers::kill,
    numbers::mount,
    numbers::move_mount,
    numbers::pidfd_send_signal,
    numbers::pivot_root,
    numbers::reboot,
    numbers::rt_sigqueueinfo,
    numbers::rt_sigreturn,
    numbers::rt_tgsigqueueinfo,
    numbers::setdomainname,
    numbers::sethostname,
    numbers::settimeofday,
    numbers::tkill,
    numbers::umount2,
    numbers::vfork,
];

/// A child makes calls; what blocks is ended by an alarm.
fn child(p: &mut Program, seed: u64, calls: usize) {
    let child = p.fork(move |p| {
        let mut random = Random::new(seed);
        for signal in 1..32 {
            if signal != g::SIGKILL && signal != g::SIGSTOP {
                p.on_signal(signal, 0, |_, _, _| {});
            }
        }
        if seed.is_multiple_of(2) {
            ok!(p, setresuid, 1000, 1000, 1000);
        }
        for _ in 0..calls {
            any(p, &mut random);
        }
        0
    });
    // Stops and waits end here.
    for _ in 0..50 {
        p.sleep_ms(100);
        if call!(p, wait4, child, 0, g::WNOHANG, 0) != 0 {
            return;
        }
        call!(p, kill, child, g::SIGCONT);
        call!(p, kill, child, g::SIGUSR1);
    }
    call!(p, kill, child, g::SIGKILL);
    call!(p, wait4, child, 0, 0, 0);
}

/// An argument that may mean something.
fn argument(p: &mut Program, random: &mut Random, memory: u64) -> u64 {
    match random.below(12) {
        0 => 0,
        1 => random.below(8) as u64,
        2 => random.below(70) as u64,
        3 => u64::MAX,
        4 => 1 << random.below(64),
        5 => random.below(1 << 20) as u64,
        6 => 0x1000 * random.below(1 << 16) as u64,
        7 => (-100i64) as u64,
        8 => {
            let path =
                ["/tmp/a", "/tmp/b", "/proc/self/maps", "/tmp", "/", "", "/dev/null", "/proc", "b"][random.below(9)];
            p.string(path)
        }
        _ => memory + random.below(8000) as u64,
    }
}

fn any(p: &mut Program, random: &mut Random) {
    let number = random.below(470) as u64;
    if LEFT_OUT.contains(&number) {
        return;
    }
    let memory = p.map(8192);
    let words = [0u64, 1, 2, 3, memory, memory + 100, 16, 1 << 32, u64::MAX];
    for place in 0..64 {
        let word = words[random.below(words.len())];
        p.store(memory + 8 * place, &word.to_le_bytes());
    }
    let mut arguments = [0; 6];
    for slot in &mut arguments {
        *slot = argument(p, random, memory);
    }
    p.call(number, &arguments);
}

#[test]
fn any_call_with_any_arguments() {
    run(|p| {
        for seed in 0..150 {
            child(p, seed, 200);
        }
        assert!(ok!(p, getpid) > 1);
    });
}
