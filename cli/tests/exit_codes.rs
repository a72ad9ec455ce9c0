//! Messages and exit codes of `hull` when no pod is started.

use std::process::{Command, Output};

fn hull(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hull")).args(arguments).current_dir("/usr").output().unwrap()
}

#[track_caller]
fn fails(arguments: &[&str], code: i32, message: &str) {
    let output = hull(arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.contains(message) && text.starts_with("hull: ") && text.contains("; "), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(output.stdout.is_empty());
}

#[test]
fn help_and_version_succeed() {
    for arguments in [&["--help"][..], &["help", "run"], &["run", "--help"], &["trace", "-h"], &["--version"]] {
        let output = hull(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty());
    }
    let help = String::from_utf8(hull(&["run", "--help"]).stdout).unwrap();
    assert!(help.contains("Examples:") && help.contains("Exit codes:"));
}

#[test]
fn wrong_usage_is_125() {
    fails(&[], 125, "see hull --help");
    fails(&["run"], 125, "PROGRAM");
    fails(&["run", "--pull=never", "ls"], 125, "write hull run -- ls");
    fails(&["run", "--pull", "never", "no-such-image", "ls"], 125, "no-such-image: no such image; see hull images");
    fails(&["run", "--privileged", "-it", "debian", "ls"], 125, "--privileged: ");
    fails(&["run", "--mount", "/srv:/srv", "--", "ls"], 125, "type=bind,source=PATH");
    fails(&["run", "-v", "data:/srv", "--", "ls"], 125, "volumes have no names");
    fails(&["run", "--root", "/dev/null", "--", "ls"], 125, "neither a directory nor a regular file");
    fails(&["run", "--env-file", "/no/such", "--", "ls"], 125, "no such file");
    fails(&["run", "--memory", "many", "--", "ls"], 125, "not a size");
    fails(&["run", "--memory", "1K", "--", "ls"], 125, "too small");
    fails(&["run", "--nonsense", "--", "ls"], 125, "--nonsense");
}

#[test]
fn requests_that_cannot_be_met_are_one_line() {
    for arguments in [
        &["run", "--ro", "/no/such", "--", "ls"][..],
        &["run", "--rw", "/dev/null:/x", "--", "ls"],
        &["run", "-u", "no-such-user", "--", "ls"],
        &["run", "--hostname", "a b", "--", "ls"],
    ] {
        let output = hull(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert!(text.starts_with("hull: ") && text.contains("; ") && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn a_directory_is_no_program() {
    let output = hull(&["run", "--", "/"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(126), "{text}");
    // The remedy must not advise a grant.
    assert!(!text.contains("--ro"), "{text}");
}

#[test]
fn a_program_outside_the_view_is_127() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("program");
    std::fs::write(&file, "").unwrap();
    fails(&["run", "--", file.to_str().unwrap()], 127, "--ro ");
}

#[test]
fn doctor_reports_line_by_line() {
    let output = hull(&["doctor"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| ["ok ", "warn ", "FAIL "].iter().any(|state| line.starts_with(state))), "{text}");
    let failed = text.contains("FAIL ");
    assert_eq!(output.status.code(), Some(if failed { 125 } else { 0 }));
}

#[test]
fn doctor_reports_to_programs() {
    let output = hull(&["doctor", "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let ready = output.status.code() == Some(0);
    assert!(text.starts_with("{\n  \"version\": \"") && text.contains(&format!("\"ready\": {ready}")), "{text}");
    for check in ["kvm", "processor", "kernel", "memory", "huge pages", "open files", "cgroups", "seccomp", "landlock"]
    {
        assert!(text.contains(&format!("{{\"check\": \"{check}\", \"state\": \"")), "{check}: {text}");
    }
    assert_eq!(text.matches("\"remedy\": null").count(), text.matches("\"state\": \"ok\"").count());
}
