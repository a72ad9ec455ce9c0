//! `hull trace -c`: what its table tells.

use hull_tests::hull;
use hull_tests::process::{self, text};
use std::process::{Command, Stdio};

/// What `hull trace -c` prints about a shell script, which must succeed.
#[track_caller]
fn table(cpus: &str, script: &str) -> String {
    hull::require_kvm().unwrap();
    let mut trace = Command::new(hull::binary().unwrap());
    trace.args(["trace", "-c", "--cpus", cpus, "--", "/bin/sh", "-c", script]);
    let outcome = process::run(&mut trace, Stdio::null(), hull::host_limit()).unwrap();
    let told = text(&outcome.stderr).to_string();
    assert!(outcome.status == 0 && !outcome.timed_out, "{told}");
    told
}

#[test]
fn calls_are_counted() {
    let told = table("1", "for i in 1 2 3 4 5 6 7; do kill -0 $$; done");
    let row = told.lines().find(|line| line.ends_with(" kill")).unwrap_or_else(|| panic!("{told}"));
    assert_eq!(row.split_whitespace().nth(3), Some("7"), "{told}");
    assert!(told.lines().any(|line| line.ends_with(" total")), "{told}");
}

/// With one virtual CPU nothing waits; two that make processes wait for the big lock sooner or later.
#[test]
fn waits_for_locks_are_told() {
    let told = table("1", "for i in 1 2 3; do /bin/true; done");
    assert!(!told.contains("waits for locks"), "{told}");
    let work = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do /bin/true; done";
    let told = table("2", &format!("({work}) & ({work}) & ({work}) & ({work}) & wait"));
    let line = told.lines().find(|line| line.starts_with("waits for locks: ")).unwrap_or_else(|| panic!("{told}"));
    let count = line.split("big lock ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(count.is_some_and(|count| count > 0), "{line}");
}
