//! Programs in pods whose keel fails every third allocation of more than a page: calls may fail and programs may end,
//! but the pod must survive. An infallible allocation ends the pod with a message that names the function.

use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use hull_tests::compile::{self, Program};
use hull_tests::{hull, process};
use libtest_mimic::{Arguments, Failed, Trial};

/// Where a pod sees the programs.
const IN_POD: &str = "/tests";
/// Time limit of a program that waits for ever after a failure.
const POD_LIMIT: &str = "15s";
/// The two parts of `tests/hostile/objects.c`.
const OBJECTS: [&str; 2] = ["early", "late"];
/// Time limit of `hull` itself: much longer, for a loaded machine.
const HOST_LIMIT: Duration = Duration::from_secs(90);
/// The pod's kernel failed.
const BROKEN: i32 = 125;

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let abi = compile::discover(&tests.join("abi"), &output.join("abi"))?;
    let hostile = ["deep", "exhaust", "objects"].map(|name| Program {
        name: name.into(),
        source: tests.join("hostile").join(name).with_extension("c"),
        executable: output.join("hostile").join(name),
        flags: vec!["-pthread".into(), "-Wno-infinite-recursion".into()],
    });
    if arguments.list {
        return Ok(ExitCode::SUCCESS);
    }
    hull::require_kvm()?;
    let hull = Arc::new(hull::failing_binary()?);
    let mut trials = Vec::new();
    let mut add = |name: String, header: &Path, program: Program, words: Vec<&'static str>| {
        let (hull, header) = (Arc::clone(&hull), header.to_path_buf());
        let run = move || survives(&hull, &header, &program, &words).map_err(|e| Failed::from(format!("{e:#}")));
        trials.push(Trial::test(name, run));
    };
    for program in abi {
        add(program.name.clone(), &tests.join("abi/check.h"), program, vec![]);
    }
    let header = tests.join("hostile/guest.h");
    let [deep, exhaust, objects] = hostile;
    for attack in ["nested-epoll", "many-areas", "many-waiters", "deep-tree", "removed-directories", "vectors"] {
        add(format!("deep/{attack}"), &header, deep.clone(), vec![attack]);
    }
    for attack in ["files-in-memory", "processes", "threads", "descriptors", "mappings"] {
        add(format!("exhaust/{attack}"), &header, exhaust.clone(), vec![attack]);
    }
    for half in OBJECTS {
        add(format!("objects/{half}"), &header, objects.clone(), vec![half]);
    }
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

/// Runs a program; the pod's kernel must survive.
fn survives(hull: &Path, header: &Path, program: &Program, words: &[&str]) -> Result<()> {
    compile::build(program, header)?;
    let directory = program.executable.parent().unwrap_or(Path::new("/"));
    let grant = format!("{}:{IN_POD}", directory.display());
    let name = program.executable.file_name().unwrap_or_default().to_string_lossy();
    let limit = if words.iter().any(|word| OBJECTS.contains(word)) { "80s" } else { POD_LIMIT };
    let options = ["--memory", "128M", "--timeout", limit, "--ro", &grant];
    let shell = format!("cd /tmp; exec {IN_POD}/{name} \"$@\"");
    let command: Vec<&str> = ["/bin/sh", "-c", &shell, "sh"].into_iter().chain(words.iter().copied()).collect();
    let outcome = process::run(&mut hull::run_command_of(hull, &options, &command)?, Stdio::null(), HOST_LIMIT)?;
    let error = String::from_utf8_lossy(&outcome.stderr);
    let head: String = error.chars().take(2000).collect();
    ensure!(!outcome.timed_out, "hull did not end: {head}");
    ensure!(outcome.status != BROKEN && !error.contains("kernel failed"), "exit code {}: {head}", outcome.status);
    Ok(())
}
