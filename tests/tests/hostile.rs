//! Programs that attack their pod, its keel, its ring and the monitor (`tests/hostile/*.c`).
//!
//! In each case `hull` ends with a documented code, in bounded time, without a panic and without leaks; other pods are
//! not affected.

use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hull_tests::compile::{self, Program};
use hull_tests::{environment, hull, process};
use libtest_mimic::{Arguments, Failed, Trial};

/// Where a pod sees the programs.
const IN_POD: &str = "/tests";
/// Time limit of a pod whose program never ends.
const POD_LIMIT: &str = "6s";
/// Time limit of `hull` itself: much longer, for a loaded machine.
const HOST_LIMIT: Duration = Duration::from_secs(60);

/// The pod survives.
const FINE: &[i32] = &[0];
/// The pod ends with a message about keel.
const BROKEN: &[i32] = &[125];
/// The time limit ends it.
const ENDLESS: &[i32] = &[124];
/// Any documented end: the outcome is random.
const ANY: &[i32] = &[0, 1, 124, 125, 132, 133, 134, 135, 136, 137, 139];
/// The program gets an error, or is killed.
const LIMITED: &[i32] = &[0, 124, 137];

/// Numbers of virtual CPUs: the same attacks run on one and on several.
const CPUS: [&str; 2] = ["1", "2"];

/// Memory and CPUs of pods that create as many objects as possible.
const OBJECTS: [(&str, &str); 4] = [("32M", "1"), ("32M", "4"), ("64M", "2"), ("64M", "1")];

/// The same for pods so small that the OOM killer may end the program first.
const SMALL: [(&str, &str); 3] = [("6M", "1"), ("8M", "2"), ("12M", "1")];
/// Attacks in such pods.
const SMALL_ATTACKS: [(&str, &str); 9] = [
    ("objects", "early"),
    ("objects", "late"),
    ("exhaust", "memory"),
    ("exhaust", "files-in-memory"),
    ("exhaust", "processes"),
    ("exhaust", "threads"),
    ("exhaust", "mappings"),
    ("exhaust", "bomb-with-memory"),
    ("deep", "wide-descriptors"),
];

/// Program, attack, exit codes, text on standard error.
const ATTACKS: &[(&str, &str, &[i32], &str)] = &[
    ("ring", "garbage", ANY, ""),
    ("ring", "wrapping", BROKEN, "hull: the pod's kernel failed: the guest overran the ring of requests"),
    ("ring", "no-completions-taken", BROKEN, "hull: the pod's kernel failed: the guest takes no completions"),
    ("ring", "racing", ANY, ""),
    ("ring", "endless", &[124, 125], ""),
    ("ring", "self-reference", ANY, ""),
    ("ring", "outside", FINE, ""),
    ("ring", "other-files", FINE, ""),
    ("ring", "many-waiting", FINE, ""),
    ("ring", "many-handles", FINE, ""),
    ("ring", "stop-hull", FINE, ""),
    // keel without its data halts or spins.
    ("ring", "give-away-everything", &[124, 125], ""),
    ("ring", "strange-words", BROKEN, "[31m last words"),
    ("astray", "all", FINE, ""),
    ("machine", "jump-into-keel", ANY, ""),
    // Random words are executed as instructions: the outcome depends on the layout of keel's image.
    ("machine", "overwrite-keel", &[124, 125], ""),
    ("machine", "overwrite-keel-slowly", ANY, ""),
    ("machine", "other-page-tables", BROKEN, "hull: the pod's kernel failed: "),
    ("machine", "page-tables-outside", BROKEN, "hull: the pod's kernel failed: "),
    ("machine", "wrong-page-tables", BROKEN, "hull: the pod's kernel failed: "),
    ("machine", "map-nowhere", BROKEN, "hull: the pod's kernel failed: "),
    ("machine", "halt", BROKEN, "hull: the pod's kernel failed: the virtual processor halted; rip 0x"),
    ("machine", "halt-with-interrupts", BROKEN, "hull: the pod's kernel failed: the virtual processor halted; rip 0x"),
    ("machine", "spin-in-ring0", ENDLESS, ""),
    ("machine", "no-paging", ANY, ""),
    ("machine", "write-msr", ANY, ""),
    ("machine", "read-msr", BROKEN, "hull: the pod's kernel failed: "),
    ("machine", "hypercall", &[124, 125], ""),
    ("machine", "read-ports", &[124, 125], ""),
    ("machine", "reset-ports", &[124, 125], ""),
    ("machine", "no-tables", BROKEN, "hull: the pod's kernel failed: "),
    // It reports its virtual CPU as idle: if another one is on duty, no event wakes it.
    ("machine", "ports", &[0, 124], ""),
    ("machine", "string-port", &[0, 124], ""),
    ("machine", "panic-port", BROKEN, "hull: the pod's kernel failed: the virtual processor halted; rip 0x"),
    ("machine", "spin", ENDLESS, ""),
    ("machine", "spin-with-signals-blocked", ENDLESS, ""),
    ("machine", "privileged", FINE, ""),
    ("exhaust", "memory", LIMITED, ""),
    ("exhaust", "files-in-memory", LIMITED, ""),
    ("exhaust", "processes", LIMITED, ""),
    ("exhaust", "threads", LIMITED, ""),
    ("exhaust", "descriptors", FINE, ""),
    ("exhaust", "mappings", LIMITED, ""),
    ("exhaust", "bomb", LIMITED, ""),
    ("exhaust", "bomb-with-memory", LIMITED, ""),
    ("exhaust", "flood", ENDLESS, ""),
    ("exhaust", "deep-stack", &[139], ""),
    ("deep", "nested-descriptors", FINE, ""),
    ("deep", "wide-descriptors", FINE, ""),
    ("deep", "nested-epoll", FINE, ""),
    ("deep", "removed-directories", FINE, ""),
    ("deep", "removed-host-directories", FINE, ""),
    ("deep", "deep-tree", FINE, ""),
    ("deep", "links", FINE, ""),
    ("deep", "mounts", FINE, ""),
    ("deep", "arguments", FINE, ""),
    ("deep", "vectors", FINE, ""),
    ("deep", "ending-threads", FINE, ""),
    ("deep", "signal-flood", FINE, ""),
    ("deep", "many-areas", FINE, ""),
    ("deep", "process-chain", FINE, ""),
    ("deep", "many-waiters", FINE, ""),
    ("deep", "elf-headers", FINE, ""),
    ("frames", "signal-frames", FINE, ""),
    ("frames", "traced-registers", FINE, ""),
];

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile");
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile");
    let header = sources.join("guest.h");
    let names = ["astray", "ring", "machine", "exhaust", "deep", "frames", "objects"];
    let programs = names.map(|name| Program {
        name: name.into(),
        source: sources.join(name).with_extension("c"),
        executable: output.join(name),
        flags: vec!["-pthread".into(), "-Wno-infinite-recursion".into()],
    });
    if !arguments.list {
        programs.iter().try_for_each(|program| compile::build(program, &header))?;
    }
    let directory = Arc::new(output);
    let trial = |cpus: &'static str, (program, name, codes, text): &'static (&str, &str, &[i32], &str)| {
        let directory = Arc::clone(&directory);
        let run = move || attack(&directory, cpus, program, name, codes, text);
        Trial::test(format!("{program}/{name}, --cpus {cpus}"), move || {
            run().map_err(|e| Failed::from(format!("{e:#}")))
        })
    };
    let mut trials: Vec<Trial> = CPUS.iter().flat_map(|cpus| ATTACKS.iter().map(|a| trial(cpus, a))).collect();
    for ((memory, cpus), half) in OBJECTS.into_iter().flat_map(|pod| [(pod, "early"), (pod, "late")]) {
        let directory = Arc::clone(&directory);
        let run = move || objects(&directory, memory, cpus, half).map_err(|e| Failed::from(format!("{e:#}")));
        trials.push(Trial::test(format!("objects/{half}, --memory {memory} --cpus {cpus}"), run));
    }
    for (memory, cpus) in SMALL {
        let directory = Arc::clone(&directory);
        let run = move || small(&directory, memory, cpus).map_err(|e| Failed::from(format!("{e:#}")));
        trials.push(Trial::test(format!("small, --memory {memory} --cpus {cpus}"), run));
    }
    let bounded = Arc::clone(&directory);
    trials.push(Trial::test("all memory", move || memory(&bounded).map_err(|e| Failed::from(format!("{e:#}")))));
    let neighbour = Arc::clone(&directory);
    trials.push(Trial::test("a neighbour", move || bystander(&neighbour).map_err(|e| Failed::from(format!("{e:#}")))));
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

fn attack(directory: &Path, cpus: &str, program: &str, name: &str, codes: &[i32], text: &str) -> Result<()> {
    hull::require_kvm()?;
    let grant = format!("{}:{IN_POD}", directory.display());
    let options = ["--cpus", cpus, "--timeout", POD_LIMIT, "--memory", "256M", "--ro", &grant];
    let pod = hull::run_command(&options, &[&format!("{IN_POD}/{program}"), name])?;
    let mut command = Command::new(pod.get_program());
    command.args(pod.get_args()).current_dir("/");
    environment::set_variables(&mut command);
    let outcome = process::run(&mut command, Stdio::null(), HOST_LIMIT)?;
    let error = String::from_utf8_lossy(&outcome.stderr);
    let head: String = error.chars().take(2000).collect();
    ensure!(!outcome.timed_out, "hull did not end: {head}");
    ensure!(codes.contains(&outcome.status), "exit code {} is none of {codes:?}: {head}", outcome.status);
    ensure!(error.contains(text), "the message is {head}");
    ensure!(!error.contains("thread '") && !error.contains("internal error"), "the monitor failed: {head}");
    ensure!(outcome.status != 125 || error.contains("hull: "), "no message");
    // Control characters of the guest do not reach the terminal.
    ensure!(name != "strange-words" || !error.contains('\u{1b}'), "{head:?}");
    Ok(())
}

/// A program creates as many objects of each kind as possible, with as many descriptors as possible: each kind ends
/// with an errno, and the pod works after they are freed.
fn objects(directory: &Path, memory: &str, cpus: &str, half: &str) -> Result<()> {
    hull::require_kvm()?;
    let grant = format!("{}:{IN_POD}", directory.display());
    let options = ["--cpus", cpus, "--timeout", "170s", "--memory", memory, "--ro", &grant];
    let pod = hull::run_command(&options, &[&format!("{IN_POD}/objects"), half])?;
    let mut command = Command::new(pod.get_program());
    command.args(pod.get_args()).current_dir("/");
    environment::set_variables(&mut command);
    let outcome = process::run(&mut command, Stdio::null(), 3 * HOST_LIMIT)?;
    let (text, error) = (String::from_utf8_lossy(&outcome.stdout), String::from_utf8_lossy(&outcome.stderr));
    ensure!(outcome.status == 0 && !outcome.timed_out, "exit code {}: {text}{error}", outcome.status);
    ensure!(text.lines().count() > 30 && !text.contains("BAD"), "{text}{error}");
    Ok(())
}

/// In a small pod calls fail, or processes are killed; the pod itself neither fails nor hangs.
fn small(directory: &Path, memory: &str, cpus: &str) -> Result<()> {
    hull::require_kvm()?;
    let grant = format!("{}:{IN_POD}", directory.display());
    let options = ["--cpus", cpus, "--timeout", "100s", "--memory", memory, "--ro", &grant];
    for (program, name) in SMALL_ATTACKS {
        let pod = hull::run_command(&options, &[&format!("{IN_POD}/{program}"), name])?;
        let mut command = Command::new(pod.get_program());
        command.args(pod.get_args()).current_dir("/");
        environment::set_variables(&mut command);
        let outcome = process::run(&mut command, Stdio::null(), 2 * HOST_LIMIT)?;
        let error = String::from_utf8_lossy(&outcome.stderr);
        ensure!([0, 1, 137].contains(&outcome.status), "{program}/{name}: exit code {}: {error}", outcome.status);
        ensure!(!error.contains("failed") && !error.contains("internal error"), "{program}/{name}: {error}");
    }
    Ok(())
}

/// Maximum memory of the monitor besides the pod's memory, in KiB (docs/security.md, *Memory*).
const BESIDE_MEMORY: u64 = 24 << 10;

/// All host memory that a guest can allocate is bounded.
fn memory(directory: &Path) -> Result<()> {
    const LIMIT: u64 = 64 << 10;
    hull::require_kvm()?;
    let scratch = environment::Scratch::new()?;
    std::fs::write(scratch.0.join("cut"), "")?;
    std::fs::create_dir(scratch.0.join("many"))?;
    for name in 0..100 {
        std::fs::write(scratch.0.join(format!("many/{name:0>200}")), "")?;
    }
    let (grant, writable) = (format!("{}:{IN_POD}", directory.display()), format!("{}:/granted", scratch.0.display()));
    let options = ["--memory", "64M", "--cpus", "1", "--timeout", "100s", "--ro", &grant, "--rw", &writable];
    let mut pod = hull::run_command(&options, &[&format!("{IN_POD}/ring"), "memory"])?
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start hull")?;
    let mut line = [0; 6];
    let said = pod.stdout.take().context("no output")?.read_exact(&mut line);
    let of = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", pod.id())).unwrap_or_default();
    let (rollup, status) = (of("smaps_rollup"), of("status"));
    pod.kill()?;
    let outcome = pod.wait_with_output()?;
    let error = String::from_utf8_lossy(&outcome.stderr);
    ensure!(said.is_ok() && &line == b"ready\n", "it ended early: {error}");
    let value = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let parts = [
        value(&rollup, "Pss_Anon").context("no Pss_Anon")?,
        value(&rollup, "Pss_Shmem").context("no Pss_Shmem")?,
        value(&status, "VmPTE").context("no VmPTE")?,
    ];
    ensure!(
        parts.iter().sum::<u64>() <= LIMIT + BESIDE_MEMORY,
        "{parts:?} KiB (anonymous, shared, page tables); {error}"
    );
    // It did use its limit.
    ensure!(parts[0] > LIMIT * 3 / 4, "only {parts:?} KiB");
    Ok(())
}

/// An attacker must not affect another pod.
fn bystander(directory: &Path) -> Result<()> {
    let script = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); seq 1 300 | sort -rn | md5sum; ls /usr/bin | wc -l; done | uniq | wc -l";
    let alone = hull::run(&[], &["/bin/sh", "-c", script])?;
    for (program, name) in
        [("exhaust", "bomb"), ("ring", "racing"), ("machine", "spin-in-ring0"), ("exhaust", "memory")]
    {
        let grant = format!("{}:{IN_POD}", directory.display());
        let options = ["--timeout", POD_LIMIT, "--memory", "256M", "--ro", &grant];
        let mut attacker = hull::run_command(&options, &[&format!("{IN_POD}/{program}"), name])?
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start hull")?;
        let beside = hull::run(&[], &["/bin/sh", "-c", script])?;
        // It ends within its time limit in any case.
        attacker.wait()?;
        ensure!(beside == alone, "beside {name}: {beside:?} instead of {alone:?}");
    }
    Ok(())
}
