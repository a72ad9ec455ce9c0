//! Forks, files, threads, mappings and signals, mixed for a while: a pod must not grow.
//!
//! Two minutes; `HULL_TEST_SOAK=MINUTES` for longer.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use hull_tests::{compile, hull};

/// Length of a round: enough for thousands of operations of each kind.
const ROUND_SECONDS: u32 = 10;
/// Permitted growth of the memory in use between the ends of two quarters, in percent.
const GROWTH: u64 = 2;
/// Permitted growth in KiB, which matters only if little memory is in use.
const SLACK: u64 = 64;
/// The host backs a pod's memory with 2 MiB pages: a slightly higher peak may touch one more, and fragmentation
/// another. Single pages are added to these.
const SLACK_OF_HOST: u64 = 2 * 2048 + SLACK;

/// Memory of a monitor on the host in KiB: its own anonymous memory (pages of its binary are shared with other
/// monitors, so their PSS depends on these), and the PSS of its pod's memory.
fn monitor_kib(pid: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let (mut own, mut pod, mut size, mut anonymous) = (0, 0, 0, 0);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let name = words.next();
        let mut number = || words.next().and_then(|number| number.parse().ok()).unwrap_or(0);
        match name {
            Some("Pss:") => size = number(),
            Some("Anonymous:") => anonymous = number(),
            // No swap is reserved for the pod's memory (nor for thread stacks, which are small).
            Some("VmFlags:") if words.any(|flag| flag == "nr") => pod += size,
            Some("VmFlags:") => own += anonymous,
            _ => (),
        }
    }
    (own, pod)
}

fn assert_flat(what: &str, samples: &[u64], slack: u64) {
    // Caches fill in the first quarter; its end is the baseline.
    let ends: Vec<u64> = (1..=4).map(|quarter| samples[(samples.len() * quarter).div_ceil(4) - 1]).collect();
    for (number, pair) in ends.windows(2).enumerate() {
        let limit = pair[0] + (pair[0] * GROWTH / 100).max(slack);
        let quarter = number + 2;
        assert!(pair[1] <= limit, "{what} grew from {} to {} KiB in quarter {quarter}: {samples:?}", pair[0], pair[1]);
    }
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
    let (mut kernel, mut monitor, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for line in BufReader::new(pod.stdout.take().unwrap()).lines() {
        kernel.push(line.unwrap().parse().expect("KiB in use"));
        let (own, pod) = monitor_kib(pod.id());
        monitor.push(own);
        memory.push(pod);
    }
    assert!(pod.wait().unwrap().success(), "the work failed in round {}", kernel.len() + 1);
    assert_eq!(kernel.len(), rounds as usize);
    println!("in use by the pod: {kernel:?} KiB, of the host: {memory:?} KiB; by its monitor: {monitor:?} KiB");
    assert_flat("the pod's kernel", &kernel, SLACK);
    assert_flat("the monitor", &monitor, SLACK);
    // Memory that the pod freed lazily remains until the host reclaims it, so this is bounded by the peak.
    assert_flat("the pod's memory on the host", &memory, SLACK_OF_HOST);
}
