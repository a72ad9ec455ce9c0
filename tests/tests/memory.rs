//! Memory that a pod frees is returned to the host.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hull_tests::environment::Scratch;
use hull_tests::hull;

/// Memory that the programs use.
const USED_KIB: u64 = 200 << 10;
/// Time limit; half a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A pod whose program advances at each line of input.
struct Pod {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Pod {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    #[track_caller]
    fn expect(&mut self, wanted: &str) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), wanted);
    }

    fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    #[track_caller]
    fn succeeds(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    /// Resident memory of the monitor's process.
    fn resident_kib(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Whether the monitor maps a file of this name.
    fn maps(&self, name: &str) -> bool {
        fs::read_to_string(format!("/proc/{}/maps", self.child.id())).unwrap().contains(name)
    }
}

/// Waits until the condition holds.
fn comes(mut so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !so() {
        if Instant::now() > end {
            return false;
        }
        sleep(Duration::from_millis(50));
    }
    true
}

fn script(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("memory").join(name).display().to_string()
}

#[track_caller]
fn is_given_back(way: &str) {
    hull::require_kvm().unwrap();
    let script = script("use.py");
    let mut pod =
        Pod::start(hull::run_command(&["--memory", "2G", "--ro", &script], &["python3", &script, way]).unwrap());
    pod.expect("given back");
    let mut seen = 0;
    let back = comes(|| {
        seen = pod.resident_kib();
        seen < USED_KIB / 2
    });
    assert!(back, "{way}: {seen} KiB are still the pod's");
    pod.succeeds();
}

#[test]
fn private_mappings_are_given_back() {
    is_given_back("mapping");
}

#[test]
fn shared_mappings_are_given_back() {
    is_given_back("shared");
}

#[test]
fn heaps_are_given_back() {
    is_given_back("objects");
}

#[test]
fn ended_processes_memory_is_given_back() {
    is_given_back("child");
}

#[test]
fn removed_private_files_are_given_back() {
    is_given_back("file");
}

#[test]
fn removed_host_files_are_let_go() {
    hull::require_kvm().unwrap();
    let scratch = Scratch::new().unwrap();
    let grant = format!("{}:/granted", scratch.0.display());
    let script = script("window.py");
    let mut pod = Pod::start(hull::run_command(&["--rw", &grant, "--ro", &script], &["python3", &script]).unwrap());
    pod.expect("removed");
    // keel's check period has passed.
    sleep(Duration::from_secs(1));
    assert!(pod.maps("/big"), "the pod still maps it");
    pod.go_on();
    pod.expect("unmapped");
    assert!(comes(|| !pod.maps("/big")), "a removed file that nobody maps is held");
    pod.go_on();
    pod.succeeds();
}
