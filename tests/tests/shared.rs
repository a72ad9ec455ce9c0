//! Files that several processes write at the same time, in a pod and beside it: no byte is lost, doubled or zeroed.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hull_tests::compile::{self, Program};
use hull_tests::environment::Scratch;
use hull_tests::hull;
use hull_tests::process::{self, Outcome};

/// Numbers of virtual CPUs with which each case runs.
const CPUS: [&str; 3] = ["--cpus=1", "--cpus=2", "--cpus=4"];
const PROCESSES: usize = 4;
const LINES: usize = 500;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn writers() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let executable = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shared").join("writers");
    let source = sources.join("shared/writers.c");
    let program = Program { name: "writers".into(), source, executable: executable.clone(), flags: Vec::new() };
    compile::build(&program, &sources.join("abi/check.h")).unwrap();
    executable
}

/// A pod that may write the scratch directory at `/granted`.
fn pod(scratch: &Scratch, cpus: &str, program: &Path, command: &[&str]) -> Command {
    hull::require_kvm().unwrap();
    let grant = format!("{}:/granted", scratch.0.display());
    hull::run_command(&[cpus, "--rw", &grant, "--ro", program.to_str().unwrap()], command).unwrap()
}

fn run(command: &mut Command) -> Outcome {
    let outcome = process::run(command, Stdio::null(), hull::host_limit()).unwrap();
    assert!(!outcome.timed_out, "it hangs: {}", text(&outcome.stderr));
    outcome
}

/// Every line of every process is there once, and nothing else.
#[track_caller]
fn all_lines(bytes: &[u8], processes: usize, lines: usize, how: &str) {
    let mut seen = BTreeSet::new();
    for line in bytes.chunks(64) {
        let line = text(line);
        let is_whole = line.len() == 64 && line.ends_with('\n') && !line.contains('\0');
        assert!(is_whole && seen.insert(line[..9].to_owned()), "{how}: {line:?}");
    }
    let wanted = (0..processes).flat_map(|process| (0..lines).map(move |line| format!("{process:02} {line:06}")));
    let missing: Vec<String> = wanted.filter(|line| !seen.remove(line)).collect();
    assert_eq!((missing, seen.len()), (Vec::new(), 0), "{how}");
}

#[test]
fn who_holds_the_lock_sees_the_end() {
    let program = writers();
    for cpus in CPUS {
        for how in ["locked", "appended"] {
            let scratch = Scratch::new().unwrap();
            let (count, lines) = (PROCESSES.to_string(), LINES.to_string());
            let command = [program.to_str().unwrap(), how, &count, &lines, "/granted/file"];
            let outcome = run(&mut pod(&scratch, cpus, &program, &command));
            assert_eq!((outcome.status, text(&outcome.stdout).as_str()), (0, ""), "{}", text(&outcome.stderr));
            all_lines(&fs::read(scratch.0.join("file")).unwrap(), PROCESSES, LINES, &format!("{how} {cpus}"));
        }
    }
}

/// A process of the host appends to the same file.
#[test]
fn the_host_appends_too() {
    let program = writers();
    for cpus in CPUS {
        let scratch = Scratch::new().unwrap();
        let (count, lines) = (PROCESSES.to_string(), LINES.to_string());
        let command = [program.to_str().unwrap(), "appended", &count, &lines, "/granted/file"];
        let mut pod = pod(&scratch, cpus, &program, &command);
        let path = scratch.0.join("file");
        let host = std::thread::spawn(move || {
            let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
            for number in 0..LINES {
                file.write_all(format!("{PROCESSES:02} {number:06} {:053}\n", 0).as_bytes()).unwrap();
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        });
        let outcome = run(&mut pod);
        host.join().unwrap();
        assert_eq!((outcome.status, text(&outcome.stdout).as_str()), (0, ""), "{}", text(&outcome.stderr));
        all_lines(&fs::read(scratch.0.join("file")).unwrap(), PROCESSES + 1, LINES, cpus);
    }
}

/// Standard output is a file: writes of several processes with signals in between, and others at a fixed place.
#[test]
fn standard_output_is_a_file() {
    let program = writers();
    for cpus in CPUS {
        let scratch = Scratch::new().unwrap();
        let (count, lines) = (PROCESSES.to_string(), LINES.to_string());
        let mut command = pod(&scratch, cpus, &program, &[program.to_str().unwrap(), "output", &count, &lines]);
        let file = scratch.0.join("output");
        let status = command.stdin(Stdio::null()).stdout(fs::File::create(&file).unwrap()).status().unwrap();
        assert_eq!(status.code(), Some(0), "{cpus}");
        let bytes = fs::read(&file).unwrap();
        assert!(bytes.starts_with(b"99 000000 "), "{cpus}");
        all_lines(&bytes[64..], PROCESSES, LINES, cpus);
    }
}

const DATABASE: &str = r#"
import os, sqlite3, sys
mode = sys.argv[1]
def connect():
    base = sqlite3.connect("/granted/base", timeout=60)
    base.execute("pragma journal_mode=" + mode)
    base.execute("pragma synchronous=normal")
    return base
base = connect()
base.execute("create table rows (process int, number int, filling text)")
base.commit()
base.close()
for process in range(4):
    if os.fork() == 0:
        base = connect()
        for number in range(40):
            base.execute("begin immediate")
            base.execute("insert into rows values (?, ?, ?)", (process, number, "x" * (number * 37 % 3000)))
            base.commit()
        base.close()
        os._exit(0)
bad = [os.wait()[1] for _ in range(4)]
base = connect()
print(bad, base.execute("select count(*), count(distinct process * 1000 + number) from rows").fetchone())
print(base.execute("pragma integrity_check").fetchone())
"#;

#[test]
fn databases_with_several_writers() {
    for cpus in CPUS {
        for mode in ["wal", "delete"] {
            let scratch = Scratch::new().unwrap();
            let command = ["python3", "-c", DATABASE, mode];
            let outcome = run(&mut pod(&scratch, cpus, Path::new("/usr/bin/python3"), &command));
            let output = text(&outcome.stdout);
            assert_eq!(output, "[0, 0, 0, 0] (160, 160)\n('ok',)\n", "{cpus} {mode}: {}", text(&outcome.stderr));
        }
    }
}
