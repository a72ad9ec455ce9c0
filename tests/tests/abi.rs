//! Every program of `tests/abi` must have the same output and exit status in a pod as on the host. Programs about files
//! run twice: in the pod's tmpfs against a tmpfs of the host, and, as `NAME@granted`, in a writable grant against
//! another directory of the same host file system.
//!
//! `HULL_TEST_ORACLE=N` runs each program N times on the host only and demands stable output: for work on the
//! programs themselves. 0 only builds them.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hull_tests::cases::Expected;
use hull_tests::compile::{self, Program};
use hull_tests::environment::{self, Scratch};
use hull_tests::process::Outcome;
use hull_tests::{compare, hull, process};
use libtest_mimic::{Arguments, Failed, Trial};

/// Time limit of a program on the host.
const NATIVE_LIMIT: Duration = Duration::from_secs(60);
/// Where a pod sees the programs.
const IN_POD: &str = "/tests";
/// Prefixes of the programs that also run in a granted directory.
const ABOUT_FILES: [&str; 10] = [
    "files/",
    "fuzz/contents",
    "fuzz/mappings",
    "fuzz/names",
    "memory/mmap_file",
    "memory/shared",
    "process/text_busy",
    "threads/parallel_files",
    "threads/parallel_open",
    "threads/parallel_paths",
];
/// Exceptions that would take minutes there, because they create many files.
const LONG_THERE: [&str; 1] = ["files/inotify_corners"];
/// Prefix of the programs whose ports may be in use on the host.
const SOCKETS: &str = "sockets/";
/// Suffix of such cases.
const GRANTED: &str = "@granted";

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi");
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("abi");
    let programs = compile::discover(&sources, &output)?;
    let mut cases: Vec<(String, Program, bool)> = Vec::new();
    for program in programs {
        cases.push((program.name.clone(), program.clone(), false));
        let about_files = ABOUT_FILES.iter().any(|start| program.name.starts_with(start));
        if about_files && !LONG_THERE.contains(&program.name.as_str()) {
            cases.push((format!("{}{GRANTED}", program.name), program, true));
        }
    }
    let names: Vec<String> = cases.iter().map(|(name, ..)| name.clone()).collect();
    let expected = Arc::new(Expected::read(&sources.join("expected.toml"))?);
    ensure!(expected.unknown(&names).is_empty(), "expected.toml names no program: {:?}", expected.unknown(&names));
    let oracle_runs = std::env::var("HULL_TEST_ORACLE").ok().map(|count| count.parse::<u32>()).transpose()?;

    let header = sources.join("check.h");
    let trials = cases.into_iter().map(|(name, program, granted)| {
        let (header, output, expected) = (header.clone(), output.clone(), Arc::clone(&expected));
        Trial::test(name.clone(), move || match oracle_runs {
            Some(runs) => stable(&program, &header, granted, runs).map_err(failed),
            None => {
                let may_fail = expected.has_older_host(&name);
                let (host, pod) = on_both(&program, &header, &output, (granted, may_fail)).map_err(failed)?;
                expected.verdict(&name, &host, &pod)
            }
        })
    });
    Ok(libtest_mimic::run(&arguments, trials.collect()).exit_code())
}

fn failed(error: anyhow::Error) -> Failed {
    format!("{error:#}").into()
}

/// A new directory: in the file system of the build directory, or in a tmpfs as the pod's `/tmp`.
fn scratch(on_disk: bool) -> Result<Scratch> {
    if on_disk { Scratch::new_in(Path::new(env!("CARGO_TARGET_TMPDIR"))) } else { Scratch::new() }
}

/// Runs the program on the host, in a new directory. It must succeed, unless it `may_fail`: then the host's kernel
/// lacks a feature and is no oracle.
fn native(program: &Program, granted: bool, may_fail: bool) -> Result<Outcome> {
    let directory = scratch(granted)?;
    let mut command = Command::new(&program.executable);
    environment::set_variables(&mut command);
    command.current_dir(&directory.0);
    if program.name.starts_with(SOCKETS) {
        process::with_own_network(&mut command);
    }
    let outcome = process::run(&mut command, Stdio::null(), NATIVE_LIMIT * hull::slowness())?;
    ensure!(!outcome.timed_out, "the host did not finish the program in time");
    ensure!(
        outcome.status == 0 || may_fail,
        "the program failed on the host with {}:\n{}{}",
        outcome.status,
        String::from_utf8_lossy(&outcome.stdout),
        String::from_utf8_lossy(&outcome.stderr)
    );
    Ok(outcome)
}

/// Runs the program on the host and in a pod.
fn on_both(
    program: &Program,
    header: &Path,
    output: &Path,
    (granted, may_fail): (bool, bool),
) -> Result<(Outcome, Outcome)> {
    compile::build(program, header)?;
    hull::require_kvm()?;
    let host = native(program, granted, may_fail)?;
    let not_utf8 = "the target directory's name is not UTF-8";
    let grant = format!("{}:{IN_POD}", output.to_str().context(not_utf8)?);
    let command = format!("{IN_POD}/{}", program.name);
    if !granted {
        return Ok((host, hull::run(&["--ro", &grant, "-w", "/tmp"], &[&command])?));
    }
    let directory = scratch(true)?;
    let place = format!("{}:/granted", directory.0.to_str().context(not_utf8)?);
    // Set-id bits are compared too.
    let pod = hull::run(&["--ro", &grant, "--rw", &place, "--keep-setid", "-w", "/granted"], &[&command])?;
    Ok((host, pod))
}

fn stable(program: &Program, header: &Path, granted: bool, runs: u32) -> Result<()> {
    compile::build(program, header)?;
    if runs == 0 {
        return Ok(());
    }
    let first = native(program, granted, false)?;
    for _ in 1..runs {
        if let Some(difference) = compare::difference(&first, &native(program, granted, false)?) {
            anyhow::bail!("two runs on the host differ:\n{difference}");
        }
    }
    Ok(())
}
