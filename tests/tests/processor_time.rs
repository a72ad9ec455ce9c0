//! `hull run --cpus` with a fraction: the pod uses no more processor time.

use std::fs;
use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hull_tests::hull::{require_kvm, run_command, run_to_end as run, slowness};
use hull_tests::process::text;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

const LOOP: &str = "while :; do :; done";

/// Starts a pod, and waits until its program runs.
fn start(options: &[&str], script: &str) -> Child {
    require_kvm().unwrap();
    let mut command = run_command(options, &["sh", "-c", &format!("echo ready; {script}")]).unwrap();
    let mut pod = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 6];
    pod.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"ready\n");
    pod
}

/// Processor time of an ended process that is not reaped, as a fraction of a second.
fn time_used(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // proc_pid_stat(5): utime and stime are the fields 14 and 15, the name is the second.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

/// Computes until it is told to stop; returns how much of a processor the host gave it.
fn compute(stop: &AtomicBool) -> f64 {
    let began = Instant::now();
    while !stop.load(Relaxed) {
        std::hint::spin_loop();
    }
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_secs_f64() / began.elapsed().as_secs_f64()
}

/// Runs a pod that computes for a while: how much of a processor it used, and how much a thread of the host got meanwhile.
fn shares(options: &[&str], script: &str) -> (f64, f64) {
    let seconds = 2 * slowness();
    let limit = format!("{seconds}s");
    let options: Vec<&str> = options.iter().copied().chain(["--timeout", &limit]).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let computes = scope.spawn(|| compute(&stop));
        let began = Instant::now();
        let mut pod = start(&options, script);
        let pid = pod.id();
        waitid(WaitId::Pid(Pid::from_child(&pod)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        let used = time_used(pid) / began.elapsed().as_secs_f64();
        stop.store(true, Relaxed);
        assert_eq!(pod.wait().unwrap().code(), Some(124));
        (used, computes.join().unwrap())
    })
}

/// A busy pod uses its share, less only if the host is too busy to give so much to one thread.
#[track_caller]
fn assert_share(share: f64, options: &[&str], script: &str) {
    let (used, thread) = shares(options, script);
    assert!(used < share * 1.25 + 0.1, "{script}: {used}");
    assert!(used > share.min(thread) * 0.5, "{script}: {used}, a thread got {thread}");
}

#[test]
fn a_busy_pod_uses_its_share() {
    // A pod that never leaves the guest, one that makes system calls, and one whose requests reach the monitor.
    let calls = "while :; do read line </proc/self/stat; done";
    let requests = "while :; do cat /etc/passwd /usr/bin/env >/dev/null; done";
    for script in [LOOP, calls, requests] {
        assert_share(0.5, &["--cpus=0.5"], script);
    }
    assert_share(0.1, &["--cpus=0.1"], LOOP);
}

#[test]
fn the_share_is_that_of_all_virtual_cpus() {
    assert_share(1.5, &["--cpus=1.5", "--busy-cpus=2"], &format!("{LOOP} & {LOOP}"));
    // Threads that wait for each other.
    let pipes = "while :; do echo x | cat | cat >/dev/null; done & while :; do echo y | cat >/dev/null; done";
    assert_share(1.1, &["--cpus=1.1", "--busy-cpus=2"], pipes);
}

#[test]
fn a_pod_with_a_share_goes_on_and_ends() {
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 0.2; echo $i | cat; exit 7";
    for options in [&["--cpus=0.5"][..], &["--cpus=1.5", "--busy-cpus=2"], &["--cpus=0.3", "--doorbell=poll"]] {
        let outcome = run(options, &["sh", "-c", script]);
        assert_eq!((outcome.status, text(&outcome.stdout).as_str()), (7, "200000\n"), "{options:?}");
    }
    // A signal ends a pod that stands still.
    let mut pod = start(&["--cpus=0.02"], LOOP);
    std::thread::sleep(Duration::from_millis(500));
    rustix::process::kill_process(Pid::from_child(&pod), rustix::process::Signal::TERM).unwrap();
    assert_eq!(pod.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn only_a_fraction_is_watched() {
    let watched = |options: &[&str]| {
        let mut pod = start(options, "sleep 50");
        let threads = fs::read_dir(format!("/proc/{}/task", pod.id())).unwrap();
        let names = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("comm")).unwrap());
        let names: Vec<String> = names.collect();
        pod.kill().unwrap();
        pod.wait().unwrap();
        assert!(names.iter().any(|name| name == "helper\n"), "{names:?}");
        names.iter().any(|name| name == "quota\n")
    };
    assert!(watched(&["--cpus=0.5"]) && watched(&["--cpus=1.01"]));
    assert!(!watched(&["--cpus=1"]) && !watched(&["--cpus=2.0"]) && !watched(&[]));
}

/// What programs see of the limit: control groups as in a container of docker, and as many processors as virtual CPUs.
#[test]
fn programs_see_the_limit() {
    require_kvm().unwrap();
    let script = "cat /sys/fs/cgroup/cpu.max; nproc; grep -c ^processor /proc/cpuinfo; \
        python3 -c 'import os; print(len(os.sched_getaffinity(0)))'";
    for (cpus, limit, count) in [
        (Some("0.5"), "50000", "1"),
        (Some("1.5"), "150000", "2"),
        (Some("0.01"), "1000", "1"),
        (Some("3"), "300000", "3"),
        (Some("0"), "max", ""),
        (None, "max", ""),
    ] {
        // One of 0.01 would take a minute for all of it.
        let script = if cpus == Some("0.01") { "read line </sys/fs/cgroup/cpu.max; echo $line" } else { script };
        let options: Vec<&str> = cpus.iter().flat_map(|cpus| ["--cpus", cpus]).collect();
        let outcome = run(&options, &["sh", "-c", script]);
        let out = text(&outcome.stdout);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(
            lines.first().copied(),
            Some(format!("{limit} 100000").as_str()),
            "{cpus:?}: {}",
            text(&outcome.stderr)
        );
        assert!(lines[1..].iter().all(|line| *line == lines[1]), "{cpus:?}: {out}");
        if !count.is_empty() {
            assert!(lines[1..].iter().all(|line| *line == count), "{cpus:?}: {out}");
        }
    }
}
