//! Files that several processes write at the same time, in a pod and on the host: no byte is lost, duplicated or
//! zeroed.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hull_tests::compile::{self, Program};
use hull_tests::environment::Scratch;
use hull_tests::hull;
use hull_tests::process::{self, Outcome, text};

/// Numbers of virtual CPUs with which each case runs.
const CPUS: [&str; 3] = ["--cpus=1", "--cpus=2", "--cpus=4"];
const PROCESSES: usize = 4;
const LINES: usize = 500;

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

/// Checks that each line of each process exists exactly once, and no others.
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
        for how in ["locked", "appended", "inherited"] {
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

/// Standard output is a file: several processes write with signals in between, and others write at a fixed offset.
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
mode, place = sys.argv[1:]
def connect():
    base = sqlite3.connect(place + "/base", timeout=60)
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
        for (mode, place) in [("wal", "/granted"), ("delete", "/granted"), ("wal", "/tmp"), ("delete", "/tmp")] {
            let scratch = Scratch::new().unwrap();
            let command = ["python3", "-c", DATABASE, mode, place];
            let outcome = run(&mut pod(&scratch, cpus, Path::new("/usr/bin/python3"), &command));
            let output = text(&outcome.stdout);
            assert_eq!(
                output,
                "[0, 0, 0, 0] (160, 160)\n('ok',)\n",
                "{cpus} {mode} {place}: {}",
                text(&outcome.stderr)
            );
        }
    }
}

const COMMITS: &str = r#"
set -e
cd /granted
export HOME=/tmp GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git config --global safe.directory '*'
git init -q .
for branch in 1 2 3 4; do (
    export GIT_INDEX_FILE=.git/index$branch
    for step in 1 2 3 4 5 6; do
        blob=$(echo "$branch $step" | git hash-object -w --stdin)
        git update-index --add --cacheinfo "100644,$blob,file$step"
        commit=$(git commit-tree $(git write-tree) -m "step $step" $(git rev-parse -q --verify refs/heads/b$branch | sed 's/^/-p /'))
        git update-ref refs/heads/b$branch $commit
    done
) & done
for _ in 1 2; do git repack -q -a; git fsck --full >/dev/null 2>&1 || true; done
wait
git fsck --full --strict
for branch in 1 2 3 4; do git rev-list --count b$branch; git show b$branch:file6; done
"#;

#[test]
fn commits_of_several_processes() {
    for cpus in CPUS {
        let scratch = Scratch::new().unwrap();
        let outcome = run(&mut pod(&scratch, cpus, Path::new("/usr/bin/git"), &["/bin/bash", "-c", COMMITS]));
        let wanted = "6\n1 6\n6\n2 6\n6\n3 6\n6\n4 6\n";
        assert_eq!((outcome.status, text(&outcome.stdout).as_str()), (0, wanted), "{cpus}: {}", text(&outcome.stderr));
        let check = Command::new("git")
            .args(["-c", "safe.directory=*", "-C", scratch.0.to_str().unwrap(), "fsck", "--full", "--strict"])
            .output()
            .unwrap();
        assert!(check.status.success(), "{cpus}, on the host: {}", text(&check.stderr));
    }
}
