//! Forks, files, threads, mappings and signals, mixed for a while: a pod must not grow.
//!
//! Two minutes; `HULL_TEST_SOAK=MINUTES` for longer.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use hull_tests::{compile, hull};

/// A round: long enough for thousands of each kind of work.
const ROUND_SECONDS: u32 = 10;
/// What may be in use more than after the first part, in percent and at least in KiB.
const GROWTH: (u64, u64) = (2, 512);

/// Bytes of the monitor that are its own, in KiB.
fn monitor_kib(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn assert_flat(what: &str, samples: &[u64]) {
    // The first part fills caches; its end is the base.
    let base = samples[samples.len() / 4];
    let last = *samples.last().expect("there are rounds");
    let limit = base + (base * GROWTH.0 / 100).max(GROWTH.1);
    assert!(last <= limit, "{what} grew from {base} to {last} KiB: {samples:?}");
}

#[test]
fn memory_does_not_grow() {
    hull::require_kvm().unwrap();
    let minutes: u32 = std::env::var("HULL_TEST_SOAK").map_or(2, |text| text.parse().expect("a number of minutes"));
    let rounds = minutes * 60 / ROUND_SECONDS;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("soak");
    let program = compile::one(&sources.join("soak/soak.c"), &output).unwrap();
    let grant = format!("{}:/tests", output.display());
    let limit = (minutes * 60 * 4 + 60).to_string();
    let options = ["--memory", "1G", "--timeout", &limit, "--ro", &grant, "-w", "/tmp"];
    let name = format!("/tests/{}", program.file_name().unwrap().to_str().unwrap());
    let mut command = hull::run_command(&options, &[&name, &rounds.to_string(), &ROUND_SECONDS.to_string()]).unwrap();
    let mut pod = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut kernel, mut monitor) = (Vec::new(), Vec::new());
    for line in BufReader::new(pod.stdout.take().unwrap()).lines() {
        kernel.push(line.unwrap().parse().expect("KiB in use"));
        monitor.push(monitor_kib(pod.id()));
    }
    assert!(pod.wait().unwrap().success(), "the work failed in round {}", kernel.len() + 1);
    assert_eq!(kernel.len(), rounds as usize);
    println!("in use by the pod: {kernel:?} KiB; by its monitor: {monitor:?} KiB");
    assert_flat("the pod's kernel", &kernel);
    // What the pod gave back is seen only when the host wants it: the monitor's is bounded by the peak.
    assert_flat("the monitor", &monitor);
}
