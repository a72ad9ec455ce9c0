//! Pods with little memory.

use std::time::{Duration, Instant};

use hull_tests::hull::run_to_end as run;
use hull_tests::process::text;
use hull_tests::root::Root;

/// The least that `--memory` accepts, in MiB.
const LEAST: u64 = 6;
/// Time in which a pod ends that has too little memory for its program.
const SOON: Duration = Duration::from_secs(20);

/// A shell with children and a pipe.
const SCRIPT: &str = "true; true; cat /etc/passwd | sort | cat; cat /proc/meminfo >/tmp/a; ls /tmp";
/// What it prints.
const PRINTED: &str = "redis:x:101:102::/var/lib/redis:/bin/false\nroot:x:0:0:root:/root:/bin/sh\na\n";

#[test]
fn busybox_runs_with_the_least_memory() {
    let root = Root::new();
    let (image, directory) = (root.image(&[]), root.dir().display().to_string());
    let memory = format!("{LEAST}M");
    for root in [&image, &directory] {
        let options = ["--memory", &memory, "--root", root];
        let free = run(&options, &["busybox", "free"]);
        assert_eq!((free.status, text(&free.stderr).as_str()), (0, ""));
        let total = text(&free.stdout).split_whitespace().nth(7).unwrap().parse::<u64>().unwrap();
        assert_eq!(total, LEAST << 10);
        let ls = run(&options, &["ls", "/etc"]);
        assert_eq!((ls.status, text(&ls.stdout).as_str()), (0, "group\nhostname\nhosts\npasswd\nresolv.conf\n"));
        let shell = run(&options, &["sh", "-c", SCRIPT]);
        assert_eq!((shell.status, text(&shell.stdout).as_str(), text(&shell.stderr).as_str()), (0, PRINTED, ""));
    }
}

#[test]
fn each_size_is_the_limit_that_the_pod_has() {
    let root = Root::new();
    let image = root.image(&[]);
    for memory in (LEAST..=32).step_by(1) {
        let option = format!("{memory}M");
        let script = format!("{SCRIPT}; read a b c </proc/meminfo; echo $b");
        for cpus in ["1", "2"] {
            let outcome = run(&["--memory", &option, "--cpus", cpus, "--root", &image], &["sh", "-c", &script]);
            let limit = if memory < 31 { memory.next_multiple_of(2) } else { 36 };
            let wanted = format!("{PRINTED}{}\n", limit << 10);
            assert_eq!((outcome.status, text(&outcome.stdout)), (0, wanted), "{option}: {}", text(&outcome.stderr));
        }
    }
}

/// Virtual CPUs keep free memory for themselves: how much, depends on who ran where.
#[test]
fn the_least_memory_is_enough_each_time() {
    const ROUNDS: u32 = 60;
    let root = Root::new();
    let image = root.image(&[]);
    let memory = format!("{LEAST}M");
    for cpus in ["1", "2", "4", "8"] {
        for round in 0..ROUNDS {
            let outcome = run(&["--memory", &memory, "--cpus", cpus, "--root", &image], &["sh", "-c", SCRIPT]);
            let what = (outcome.status, text(&outcome.stdout), text(&outcome.stderr));
            assert_eq!(what, (0, PRINTED.to_owned(), String::new()), "{cpus} virtual CPUs, round {round}");
        }
    }
}

/// One line that names the remedy, and the exit code, in time.
#[track_caller]
fn ends(options: &[&str], command: &[&str], status: i32, line: &str) {
    let began = Instant::now();
    let outcome = run(options, command);
    assert_eq!((outcome.status, text(&outcome.stderr).as_str()), (status, line));
    assert!(began.elapsed() < SOON);
}

#[test]
fn too_little_memory_is_one_line() {
    let root = Root::new();
    let image = root.image(&[]);
    ends(&["--memory", "5M"], &["true"], 125, "hull: --memory 5M: too small; give at least 6M\n");
    let line = "hull: sh: out of memory; raise --memory\n";
    // The text of busybox does not fit.
    ends(&["--memory", "6M", "--no-shared-pages", "--root", &image], &["sh", "-c", SCRIPT], 126, line);
    let environment: Vec<_> = (0..10).map(|i| format!("N{i}={}", "x".repeat(100_000))).collect();
    let mut options = vec!["--memory", "6M", "--root", &image];
    environment.iter().for_each(|variable| options.extend(["-e", variable.as_str()]));
    let line = "hull: --memory 6M: too little for the pod's arguments, environment and settings; give at least 12M\n";
    ends(&options, &["true"], 125, line);
    options[1] = "12M";
    ends(&options, &["true"], 0, "");
}

/// Names that were visited take memory, which is given back when it runs short.
#[test]
fn more_files_are_visited_than_names_fit() {
    let root = Root::new();
    for file in 0..4000 {
        root.file(&format!("data/{}/{file}", file % 40), "content");
    }
    let image = root.image(&[]);
    let script = "for pass in 1 2; do find /data -type f -size -9 | busybox wc -l; done";
    for memory in ["6M", "8M", "12M"] {
        for cpus in ["1", "2"] {
            let outcome = run(&["--memory", memory, "--cpus", cpus, "--root", &image], &["sh", "-c", script]);
            let printed = (text(&outcome.stdout), text(&outcome.stderr));
            assert_eq!(printed, ("4000\n4000\n".into(), String::new()), "{memory}");
        }
    }
}

#[test]
fn a_program_that_uses_more_is_killed() {
    let root = Root::new();
    let image = root.image(&[]);
    for memory in ["6M", "8M", "12M"] {
        let line = format!("hull: out of memory (limit {} MiB): killed 2 (sort)\n", memory.trim_end_matches('M'));
        let outcome = run(&["--memory", memory, "--root", &image], &["sh", "-c", "exec sort </dev/zero"]);
        let error = text(&outcome.stderr);
        let refused = outcome.status == 2 && error == "sort: out of memory\n";
        assert!(refused || (outcome.status, error.as_str()) == (137, &line), "{memory}: {}: {error}", outcome.status);
    }
}
