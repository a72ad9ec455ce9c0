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
/// How much more may be in use at the end of a quarter than at the end of the one before, in percent.
const GROWTH: u64 = 2;
/// And at least, in KiB: a few pages, which matter only where little is in use.
const SLACK: u64 = 64;
/// The host backs a pod's memory with pages of 2 MiB: a peak a little above the last one may touch one more, and what
/// lies between two of them another. Single pages come beside these.
const SLACK_OF_HOST: u64 = 2 * 2048 + SLACK;

/// What a monitor has on the host in KiB: its own anonymous memory (pages of its program are shared with other monitors,
/// so their proportional size depends on these), and the proportional set size of its pod's memory.
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
            // No swap is reserved for the pod's memory (nor for stacks of threads, which are small).
            Some("VmFlags:") if words.any(|flag| flag == "nr") => pod += size,
            Some("VmFlags:") => own += anonymous,
            _ => (),
        }
    }
    (own, pod)
}

fn assert_flat(what: &str, samples: &[u64], slack: u64) {
    // The first quarter fills caches; its end is the base.
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
    // What the pod gave back is seen only when the host wants it: this is bounded by the peak.
    assert_flat("the pod's memory on the host", &memory, SLACK_OF_HOST);
}
