//! Small writes to granted files, which keel gathers: when they are visible to the host, and how errors are reported.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hull_tests::environment::Scratch;
use hull_tests::hull;
use hull_tests::process::{self, Outcome, text};

const CPUS: [&str; 3] = ["--cpus=1", "--cpus=2", "--cpus=4"];
/// Modes with and without a polling helper.
const DOORBELLS: [&str; 3] = ["--doorbell=adaptive", "--doorbell=exit", "--doorbell=event"];
/// Much longer than the delay of a gathered write, for a busy machine, and much shorter than the programs run.
const SOON: Duration = Duration::from_secs(2);

/// A Python program in a pod that may write the scratch directory at `/granted`.
fn pod(scratch: &Scratch, options: &[&str], program: &str) -> Command {
    hull::require_kvm().unwrap();
    let grant = format!("{}:/granted", scratch.0.display());
    let options: Vec<&str> = options.iter().copied().chain(["--rw", &grant]).collect();
    hull::run_command(&options, &["python3", "-c", program]).unwrap()
}

fn run(command: &mut Command) -> Outcome {
    let outcome = process::run(command, Stdio::null(), hull::host_limit()).unwrap();
    assert!(!outcome.timed_out, "it hangs: {}", text(&outcome.stderr));
    outcome
}

/// Starts a pod; returns the lines that it prints.
fn start(command: &mut Command) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines.map_while(Result::ok))
}

/// Number of consecutive 64-byte lines with ascending numbers.
#[track_caller]
fn count_lines(path: &Path) -> usize {
    let bytes = fs::read(path).unwrap_or_default();
    for (number, line) in bytes.chunks(64).enumerate() {
        assert_eq!(text(line), format!("{number:063}\n"));
    }
    bytes.len() / 64
}

/// A program without a system call after its last write.
#[test]
fn the_host_sees_soon() {
    const PROGRAM: &str = r#"
import os
fd = os.open("/granted/file", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for number in range(300):
    os.write(fd, b"%063d\n" % number)
number = 0
while True: number += 1
"#;
    for doorbell in DOORBELLS {
        let scratch = Scratch::new().unwrap();
        let file = scratch.0.join("file");
        let (mut child, _lines) = start(&mut pod(&scratch, &[doorbell], PROGRAM));
        let started = Instant::now();
        while !file.exists() {
            assert!(started.elapsed() < hull::host_limit(), "nothing is written");
            std::thread::sleep(Duration::from_millis(1));
        }
        let begun = Instant::now();
        while count_lines(&file) < 300 {
            assert!(begun.elapsed() < SOON, "{doorbell}: {} lines after {SOON:?}", count_lines(&file));
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// A host process that is notified of a write by the pod finds it in the file.
#[test]
fn nothing_is_told_before_it_is_there() {
    const PROGRAM: &str = r#"
import os
fd = os.open("/granted/file", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
number = 0
for step in range(40):
    for _ in range(1 + step):
        os.write(fd, b"%063d\n" % number)
        number += 1
    os.write(1, b"%d\n" % number)
    if step % 10 == 9:
        os.mkdir("/granted/%d" % number)
"#;
    for cpus in CPUS {
        for doorbell in DOORBELLS {
            let scratch = Scratch::new().unwrap();
            let file = scratch.0.join("file");
            let (mut child, lines) = start(&mut pod(&scratch, &[cpus, doorbell], PROGRAM));
            let mut last = 0;
            for line in lines {
                last = line.parse().unwrap();
                let seen = count_lines(&file);
                assert!(seen >= last, "{cpus} {doorbell}: {seen} lines of {last}");
                for entry in fs::read_dir(&scratch.0).unwrap().flatten() {
                    let told = entry.file_name().into_string().unwrap().parse::<usize>();
                    assert!(told.is_err() || count_lines(&file) >= told.unwrap(), "{cpus} {doorbell}: a directory");
                }
            }
            assert!(child.wait().unwrap().success());
            assert_eq!((last, count_lines(&file)), (820, 820));
        }
    }
}

/// SIGKILL of the monitor: reported writes are in the file, and there are no gaps.
#[test]
fn a_killed_monitor_loses_only_the_last() {
    const PROGRAM: &str = r#"
import os
fd = os.open("/granted/file", os.O_WRONLY | os.O_CREAT)
number = 0
while True:
    for _ in range(50):
        os.write(fd, b"%063d\n" % number)
        number += 1
    os.fdatasync(fd) if number % 400 == 0 else None
    os.write(1, b"%d\n" % number)
"#;
    for round in 0..12_usize {
        let scratch = Scratch::new().unwrap();
        let doorbell = DOORBELLS[round / 3 % 3];
        let (mut child, mut lines) = start(&mut pod(&scratch, &[CPUS[round % 3], doorbell], PROGRAM));
        let mut last = 0;
        for _ in 0..=round * 7 {
            last = lines.next().unwrap().parse().unwrap();
        }
        std::thread::sleep(Duration::from_micros(round as u64 * 370));
        child.kill().unwrap();
        child.wait().unwrap();
        last = lines.filter_map(|line| line.parse().ok()).last().unwrap_or(last);
        let seen = count_lines(&scratch.0.join("file"));
        assert!(seen >= last, "{seen} lines of {last}");
    }
}

/// Other processes in the pod see each write at once: by other descriptors, mappings and attributes.
/// Attributes of new files: the pod sees them at once, and so does the host when a line was printed.
#[test]
fn attributes_of_new_files() {
    const PROGRAM: &str = r#"
import os, sys
for number in range(2000):
    name = "/granted/%d" % (number % 10)
    if number >= 10: os.unlink(name)
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(fd, b"x" * (number % 100))
    os.utime(fd, ns=(number * 1000000000, number * 1000000007))
    os.fchown(fd, os.getuid(), os.getgid())
    os.fchmod(fd, 0o640 | number % 8)
    if number % 3 == 0: os.fchmod(fd, 0o600 | number % 8)
    if number % 5 == 0: os.write(fd, b"more"); os.utime(fd, ns=(5, number))
    if number % 7 == 0: os.close(fd); fd = os.open(name, os.O_RDONLY)
    stat = os.fstat(fd) if number % 2 == 0 else os.stat(name)
    os.close(fd)
    print(number % 10, oct(stat.st_mode & 0o7777), stat.st_size, stat.st_mtime_ns, flush=True)
"#;
    for (cpus, doorbell) in CPUS.into_iter().zip(DOORBELLS) {
        let scratch = Scratch::new().unwrap();
        let host_scratch = Scratch::new().unwrap();
        let inside = run(&mut pod(&scratch, &[cpus, doorbell], PROGRAM));
        let program = PROGRAM.replace("/granted", host_scratch.0.to_str().unwrap());
        let outside = run(Command::new("python3").args(["-c", &program]));
        assert_eq!(inside.status, outside.status, "{}", text(&inside.stderr));
        assert_eq!(text(&inside.stdout), text(&outside.stdout), "{cpus} {doorbell}");
        for number in 0..10 {
            let [one, other] = [&scratch, &host_scratch].map(|s| fs::metadata(s.0.join(number.to_string())).unwrap());
            let facts = |m: &fs::Metadata| (m.mode(), m.len(), m.modified().unwrap(), m.uid());
            assert_eq!(facts(&one), facts(&other), "{number}");
        }
    }
}

#[test]
fn the_pod_sees_at_once() {
    const PROGRAM: &str = r#"
import mmap, os
fd = os.open("/granted/file", os.O_RDWR | os.O_CREAT)
other = os.open("/granted/file", os.O_RDONLY)
log = os.open("/granted/log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
os.write(fd, b"." * 8192)
view = None
for step in range(1500):
    byte = bytes([97 + step % 26])
    for _ in range(3):
        os.pwrite(fd, byte * 10, step * 5)
    os.write(log, b"%07d\n" % step)
    how = step % 11
    if how == 0: assert os.pread(other, 10, step * 5) == byte * 10, step
    if how == 1: assert os.stat("/granted/file").st_size == max(8192, step * 5 + 10), step
    if how == 2: assert os.lseek(other, 0, os.SEEK_END) == max(8192, step * 5 + 10)
    if how == 3: assert os.lseek(log, 0, os.SEEK_CUR) == 8 * (step + 1)
    if how == 4: assert os.pread(log, 99, 8 * step) == b"%07d\n" % step
    if how == 5 and step > 500:
        with mmap.mmap(other, 0, prot=mmap.PROT_READ) as seen:
            assert seen[step * 5 : step * 5 + 10] == byte * 10, step
    if step == 1200:
        view = mmap.mmap(fd, 8192)
    if view and step * 5 + 10 <= 8192:
        assert view[step * 5 : step * 5 + 10] == byte * 10
    if how == 6 and os.fork() == 0:
        os._exit(os.stat("/granted/log").st_size != 8 * (step + 1))
    if how == 6:
        assert os.wait()[1] == 0, step
os.close(fd)
print(os.stat("/granted/log").st_size)
"#;
    for cpus in CPUS {
        let scratch = Scratch::new().unwrap();
        let outcome = run(&mut pod(&scratch, &[cpus], PROGRAM));
        assert_eq!((outcome.status, text(&outcome.stdout).as_str()), (0, "12000\n"), "{}", text(&outcome.stderr));
    }
}

/// On a full disk the write itself fails, as on the host.
#[test]
fn a_full_disk() {
    const PROGRAM: &str = r#"
import os, sys
os.chdir(sys.argv[1])
fd = os.open("file", os.O_WRONLY | os.O_CREAT)
written = 0
try:
    while True:
        written += os.write(fd, b"x" * 100)
except OSError as error:
    print(error.strerror)
os.close(fd)
print(written, os.stat("file").st_size)
"#;
    hull::require_kvm().unwrap();
    let scratch = Scratch::new().unwrap();
    let directory = scratch.0.to_str().unwrap();
    let on_small = |command: &Command| {
        let script = format!("mount -t tmpfs -o size=256k small {directory} && exec \"$@\"");
        let mut small = Command::new("unshare");
        small.args(["-m", "/bin/sh", "-c", &script, "sh"]).arg(command.get_program()).args(command.get_args());
        hull_tests::environment::set_variables(&mut small);
        run(small.current_dir("/"))
    };
    let host = on_small(Command::new("python3").args(["-c", PROGRAM, directory]));
    assert_eq!((host.status, host.stderr.len()), (0, 0), "{}", text(&host.stderr));
    let grant = format!("{directory}:/granted");
    let command = hull::run_command(&["--rw", &grant], &["python3", "-c", PROGRAM, "/granted"]).unwrap();
    let pod = on_small(&command);
    assert_eq!((pod.status, text(&pod.stdout)), (0, text(&host.stdout)), "{}", text(&pod.stderr));
}
