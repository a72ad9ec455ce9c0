//! Failures of the host and of `hull` itself: no data is lost, no process hangs, no resource leaks.
//!
//! `HULL_TEST_LONG=1` kills 500 pods instead of 50.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hull_tests::compile::{self, Program};
use hull_tests::environment::Scratch;
use hull_tests::hull;
use hull_tests::process::{self, Outcome, text};

/// Fails if the caller may not mount file systems.
#[track_caller]
fn require_root() {
    // SAFETY: asks for a number.
    assert_eq!(unsafe { libc::geteuid() }, 0, "mounting a small file system needs the root user");
}

/// The command `hull run OPTIONS -- /bin/sh -c SCRIPT`.
fn pod(options: &[&str], script: &str) -> Command {
    hull::require_kvm().unwrap();
    hull::run_command(options, &["/bin/sh", "-c", script]).unwrap()
}

/// Runs a host shell in which `$HULL` is the command of [`pod`].
#[track_caller]
fn from_shell(host: &str, options: &[&str], script: &str) -> Outcome {
    let pod = pod(options, script);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", host, "sh"]).arg(pod.get_program()).args(pod.get_args()).current_dir("/");
    let outcome = process::run(&mut shell, Stdio::null(), hull::host_limit()).unwrap();
    assert!(!outcome.timed_out, "hull hangs: {}", text(&outcome.stderr));
    outcome
}

/// Checks that standard error is one line of Hull's with a remedy.
#[track_caller]
fn one_line(outcome: &Outcome) {
    let error = text(&outcome.stderr);
    assert!(error.starts_with("hull: ") && error.contains("; ") && error.lines().count() == 1, "{error}");
}

struct Running {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Reads up to this line; returns the text before it.
    fn until(&mut self, wanted: &str) -> String {
        let mut before = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "it ended after {before}");
            if line.trim_end() == wanted {
                return before;
            }
            before.push_str(&line);
        }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: a signal to a child that was not waited for.
        unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
    }

    /// The rest of its output and its status.
    fn end(mut self) -> (String, i32) {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.lines, &mut rest).unwrap();
        (rest, process::shell_status(self.child.wait().unwrap()))
    }
}

fn names(directory: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap().flatten().map(|entry| entry.file_name());
    let names = entries.map(|name| name.to_string_lossy().into_owned());
    // Other tests and benchmarks run at the same time.
    names.filter(|name| name.contains("hull") && !name.starts_with("hull-")).collect()
}

fn available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn killed_at_any_moment_nothing_remains() {
    let long = std::env::var_os("HULL_TEST_LONG").is_some();
    let count = if long { 500 } else { 50 };
    let look = || {
        // Other tests mount disks and bind sockets in their own directories at the same time.
        let foreign = |line: &&str| !line.contains("/hull-");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mounts: Vec<String> = mounts.lines().filter(foreign).map(str::to_owned).collect();
        let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let sockets = sockets.lines().filter(foreign).filter(|line| line.contains("hull")).count();
        (mounts, sockets, names("/tmp"), names("/dev/shm"), names("/run"))
    };
    let scratch = Scratch::new().unwrap();
    let grant = format!("{}:/granted", scratch.0.display());
    let script = "cd /granted; for i in 1 2 3 4 5 6 7 8 9; do (seq 1 2000 | sort -rn >f$i) & done; wait; exec sleep 5";
    let (before, memory) = (look(), available());
    let mut seed = u64::from(std::process::id());
    for round in 0..count {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let delay = Duration::from_micros(seed >> 33 & 0x3_ffff); // up to 262 ms: setup, boot, work
        let mut command = pod(&["--rw", &grant], script);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap();
        let id = child.id();
        std::thread::sleep(delay);
        child.kill().unwrap();
        assert_eq!(process::shell_status(child.wait().unwrap()), 128 + 9, "round {round}");
        // Processes beside the monitor end with it, and the host's first process reaps them: not at once on a busy machine.
        let end = Instant::now() + Duration::from_secs(10);
        // SAFETY: checks for processes of a group that this test created; sends no signal.
        while unsafe { libc::kill(-(id as libc::pid_t), 0) } == 0 {
            assert!(Instant::now() < end, "round {round}: a process of the group lives");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert_eq!(before, look());
    if long {
        // A leaked pod has more than 8 MB. Other processes use the machine too.
        let lost = memory.saturating_sub(available());
        assert!(lost < (count * 8) << 10, "{lost} KiB less memory");
    }
    // Files written by the pods are complete, and the grant is usable.
    let outcome = from_shell("exec \"$@\"", &["--rw", &grant], "cd /granted; rm -f f*; echo x >g; cat g");
    assert_eq!((outcome.status, text(&outcome.stdout).as_str()), (0, "x\n"));
}

#[test]
fn closed_standard_streams() {
    for closed in ["0<&-", "1>&-", "2>&-", "0<&- 1>&-", "0<&- 2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"] {
        let outcome = from_shell(&format!("exec \"$@\" {closed}"), &[], "echo x; echo y >&2; cat; exit 3");
        assert_eq!(outcome.status, 3, "{closed}: {}", text(&outcome.stderr));
        let outcome = from_shell(&format!("exec \"$@\" {closed}"), &["--ro", "/no/such"], "exit 3");
        assert_eq!(outcome.status, 125, "{closed}");
    }
}

#[test]
fn streams_that_take_nothing() {
    let outcome = from_shell("exec \"$@\" >/dev/full", &[], "cat /etc/passwd; exit $?");
    assert_ne!(outcome.status, 0);
    assert!(text(&outcome.stderr).to_lowercase().contains("no space"), "{}", text(&outcome.stderr));
    // A failed write of the message does not change the exit code.
    assert_eq!(from_shell("exec \"$@\" 2>/dev/full", &["--ro", "/no/such"], "true").status, 125);
    assert_eq!(from_shell("\"$@\" 2>/dev/full; exit $?", &["--memory", "64M"], "exit 4").status, 4);
    let binary = hull::binary().unwrap().display().to_string();
    let outcome = process::run(
        Command::new("/bin/sh").args(["-c", &format!("{binary} doctor >/dev/full; {binary} doctor | head -c 1")]),
        Stdio::null(),
        hull::host_limit(),
    );
    assert!(!text(&outcome.unwrap().stderr).contains("panicked"));
}

#[test]
fn a_full_target_is_told_to_the_program() {
    require_root();
    let scratch = Scratch::new().unwrap();
    let path = scratch.0.display().to_string();
    let host = format!("exec unshare -m sh -c 'mount -t tmpfs -o size=1m none {path} && exec \"$@\"' sh \"$@\"");
    let script = "cd /granted; head -c 3000000 /dev/zero >big; echo $?; ls -s big | wc -l; rm big; echo fits >small; cat small; \
                  mkdir d; head -c 3000000 /dev/zero >d/again; rm d/again; echo $(cat small)";
    let outcome = from_shell(&host, &["--rw", &format!("{path}:/granted")], script);
    assert_eq!(
        (outcome.status, text(&outcome.stdout).as_str()),
        (0, "1\n1\nfits\nfits\n"),
        "{}",
        text(&outcome.stderr)
    );
    assert!(text(&outcome.stderr).contains("No space left on device"));
}

#[test]
fn a_full_directory_for_temporary_files_is_no_matter() {
    require_root();
    let full = "mount -t tmpfs -o size=4k none /tmp && head -c 4096 /dev/zero >/tmp/full";
    // The binary may be in that directory.
    let host = format!("exec 9<\"$1\"; shift; exec unshare -m sh -c '{full} && exec /proc/self/fd/9 \"$@\"' sh \"$@\"");
    let outcome = from_shell(&host, &[], "cd /tmp; head -c 3000000 /dev/zero >own; wc -c <own; exit 5");
    assert_eq!((outcome.status, text(&outcome.stdout).as_str()), (5, "3000000\n"), "{}", text(&outcome.stderr));
}

/// The pod has the host's limit; a program may raise its own, but hull can't.
#[test]
fn files_that_may_not_grow() {
    let scratch = Scratch::new().unwrap();
    let grant = format!("{}:/granted", scratch.0.display());
    let write = "head -c 1000000 /dev/zero >/granted/f; echo $?; stat -c %s /granted/f";
    let script = format!("{write}; trap '' XFSZ; {write}; ulimit -f unlimited; {write}; rm /granted/f; exit 5");
    let outcome = from_shell("ulimit -f 200; exec \"$@\"", &["--rw", &grant], &script);
    let error = text(&outcome.stderr);
    let (stopped, told) = ("153\n102400\n", "1\n102400\n");
    assert_eq!((outcome.status, text(&outcome.stdout)), (5, format!("{stopped}{told}{told}")), "{error}");
    assert_eq!(error.matches("File too large").count(), 2, "{error}");
}

/// A cgroup of the host with a memory limit; removed on drop.
struct Group {
    directory: PathBuf,
    file: PathBuf,
}

impl Group {
    /// Creates a group with a limit in bytes. `None`: not possible here.
    fn new(name: &str, limit: u64) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let groups = fs::read_to_string("/proc/self/mounts").unwrap();
        let mount = |kind: &str, option: &str| {
            let found = groups.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|mount| {
                mount[2] == kind && (option.is_empty() || mount[3].split(',').any(|other| other == option))
            });
            found.map(|mount| PathBuf::from(mount[1]))
        };
        // cgroup v1 names its controllers, v2 has one hierarchy.
        let (root, file) = match mount("cgroup", "memory") {
            Some(root) => (root, "memory.limit_in_bytes"),
            None => {
                let place = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
                (mount("cgroup2", "")?.join(place), "memory.max")
            }
        };
        let directory = root.join(format!("hull-tests-{name}-{}", std::process::id()));
        let group = Self { file: directory.join(file), directory };
        fs::create_dir(&group.directory).ok()?;
        group.limit(limit).ok()?;
        Some(group)
    }

    fn limit(&self, bytes: u64) -> std::io::Result<()> {
        fs::write(&self.file, bytes.to_string())
    }

    /// A host command that runs a pod in the group.
    fn enter(&self) -> String {
        format!("echo $$ >{}/cgroup.procs && exec \"$@\"", self.directory.display())
    }

    #[track_caller]
    fn is_empty(&self) {
        let left = fs::read_to_string(self.directory.join("cgroup.procs")).unwrap();
        assert_eq!(left, "", "a process of the pod is left");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}

/// `--memory` above the limit of the monitor's cgroup: `hull` warns, the host kills the monitor, and the exit code is
/// that of SIGKILL.
#[test]
fn less_memory_for_the_group_than_for_the_pod() {
    let group =
        Group::new("less", 64 << 20).expect("a group of processes with a limit of memory; run the tests as root");
    let options = ["--memory", "512M", "--timeout", "30s"];
    let warned = |outcome: &Outcome| {
        one_line(outcome);
        let error = text(&outcome.stderr);
        assert!(error.starts_with("hull: warning: --memory 512M: the host permits 64M ("), "{error}");
        assert!(
            error.contains(&group.file.display().to_string()) && error.contains("; use --memory 44M or "),
            "{error}"
        );
    };
    let outcome = from_shell(&group.enter(), &options, "head -c 3000000 /dev/zero >/tmp/own; exit 5");
    assert_eq!(outcome.status, 5, "{}", text(&outcome.stderr));
    warned(&outcome);
    let started = Instant::now();
    let outcome = from_shell(&group.enter(), &options, "head -c 200000000 /dev/zero >/tmp/own; exit 5");
    assert!([128 + 9, 124].contains(&outcome.status), "{}: {}", outcome.status, text(&outcome.stderr));
    assert!(started.elapsed() < Duration::from_secs(60));
    if outcome.status != 124 {
        warned(&outcome);
    }
    group.is_empty();
}

/// Without `--memory` a pod stays below the limit of the monitor's cgroup, and keel ends the program that exceeds it.
#[test]
fn pods_respect_the_memory_of_their_group() {
    let group =
        Group::new("respect", 96 << 20).expect("a group of processes with a limit of memory; run the tests as root");
    let script =
        "grep MemTotal /proc/meminfo | tr -dc 0-9; echo; head -c 200000000 /dev/zero >/tmp/own; echo $?; rm /tmp/own
        /usr/bin/python3 -c '[bytearray(8 << 20) for _ in range(40)]'; echo $?; echo alive; exit 5";
    let outcome = from_shell(&group.enter(), &["--timeout", "40s"], script);
    let error = text(&outcome.stderr);
    // 96 MiB less 16 MiB and a sixteenth, in pages of 2 MiB.
    assert_eq!((outcome.status, text(&outcome.stdout).as_str()), (5, "75776\n1\n137\nalive\n"), "{error}");
    assert!(error.contains("No space left") && error.contains("hull: out of memory (limit 74 MiB): killed"), "{error}");
    // The requested memory fits.
    let outcome = from_shell(&group.enter(), &["--memory", "64M"], "exit 5");
    assert_eq!((outcome.status, text(&outcome.stderr).as_str()), (5, ""));
    group.limit(32 << 20).unwrap();
    let outcome = from_shell(&group.enter(), &[], "exit 5");
    assert_eq!(outcome.status, 125);
    one_line(&outcome);
    let error = text(&outcome.stderr);
    assert!(error.starts_with("hull: memory: the host permits 32M ("), "{error}");
    assert!(error.ends_with("; raise that limit, or give --memory 14M for a small program\n"), "{error}");
    let outcome = from_shell(&group.enter(), &["--memory", "14M"], "exit 5");
    assert_eq!((outcome.status, text(&outcome.stderr).as_str()), (5, ""));
    group.is_empty();
}

#[test]
fn few_descriptors() {
    for limit in [8, 10, 12, 14, 16, 20, 32, 128] {
        let outcome = from_shell(&format!("ulimit -n {limit}; exec \"$@\""), &[], "exit 5");
        assert_eq!(outcome.status, 125, "{limit}");
        one_line(&outcome);
        assert!(text(&outcome.stderr).contains("ulimit -Hn"));
    }
    // The soft limit applies to the program, not to hull.
    let script =
        "ulimit -n; i=0; while [ $i -lt 300 ]; do cat /etc/passwd >/dev/null || exit 1; i=$((i+1)); done; exit 5";
    for limit in ["ulimit -Sn 16", "ulimit -n 200"] {
        let outcome = from_shell(&format!("{limit}; exec \"$@\""), &[], script);
        assert_eq!(outcome.status, 5, "{limit}: {}", text(&outcome.stderr));
    }
}

#[test]
fn too_little_memory_on_the_host() {
    for limit in [1 << 20, 3 << 20, 4 << 20] {
        let outcome = from_shell(&format!("ulimit -v {limit}; exec \"$@\""), &[], "exit 5");
        if outcome.status != 5 {
            assert_eq!(outcome.status, 125, "{}", text(&outcome.stderr));
            one_line(&outcome);
            assert!(text(&outcome.stderr).contains("memory"), "{}", text(&outcome.stderr));
        }
    }
}

/// A missing requirement of the start: one line that names it, and code 125.
#[test]
fn starts_without_what_they_need() {
    require_root();
    let scratch = Scratch::new().unwrap();
    let path = scratch.0.display();
    let gone = format!("mkdir {path}/gone; cd {path}/gone; rmdir {path}/gone; exec \"$@\"");
    let cases: [(&str, &[&str], &str); 7] = [
        ("exec unshare -m sh -c 'mount -t tmpfs none /dev; exec \"$@\"' sh \"$@\"", &[], "/dev/kvm: no such device; "),
        ("exec unshare -m sh -c 'mount --bind /dev/null /dev/kvm; exec \"$@\"' sh \"$@\"", &[], "/dev/kvm: "),
        ("exec setpriv --reuid 65534 --clear-groups \"$@\"", &[], "/dev/kvm: permission denied; "),
        ("ulimit -p 0; exec \"$@\"", &["--user", "65534:65534"], "ulimit -u"),
        ("ulimit -s 64; exec \"$@\"", &[], "stack: hull needs 96 KiB, the limit is 64 KiB; "),
        ("ulimit -d 1000; exec \"$@\"", &[], "memory"),
        (&gone, &[], "the current directory: no such file or directory; "),
    ];
    for (host, options, told) in cases {
        let outcome = from_shell(host, options, "exit 5");
        assert_eq!(outcome.status, 125, "{host}: {}", text(&outcome.stderr));
        one_line(&outcome);
        assert!(text(&outcome.stderr).contains(told), "{host}: {}", text(&outcome.stderr));
    }
}

/// Runs a pod on a terminal whose mode the pod changes, and kills the monitor or its keeper.
const ON_A_TERMINAL: &str = r#"
import os, pty, sys, termios, time
script = 'stty raw -echo; echo ready; sleep 2; exit 7'
for victim, signal in (('keeper', 9), ('hull', 9), ('hull', 15)):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.argv[1], ['hull', 'run', '--timeout', '60s', '--', '/bin/sh', '-c', script])
    output = b''
    while b'ready' not in output:
        output += os.read(terminal, 100)
    keeper, = open(f'/proc/{pid}/task/{pid}/children').read().split()
    os.kill(int(keeper) if victim == 'keeper' else pid, signal)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    end = time.time() + 10
    mode = lambda: termios.tcgetattr(terminal)[3] & termios.ECHO
    while time.time() < end and (not mode() or os.path.exists(f'/proc/{keeper}')):
        time.sleep(0.05)
    print(victim, signal, status, bool(mode()), os.path.exists(f'/proc/{keeper}'))
"#;

#[test]
fn killed_at_a_terminal_nothing_remains() {
    hull::require_kvm().unwrap();
    let mut python = Command::new("python3");
    python.args(["-c", ON_A_TERMINAL]).arg(hull::binary().unwrap()).current_dir("/");
    let outcome = process::run(&mut python, Stdio::null(), hull::host_limit()).unwrap();
    let expected = "keeper 9 7 True False\nhull 9 -9 True False\nhull 15 143 True False\n";
    assert_eq!(text(&outcome.stdout), expected, "{}", text(&outcome.stderr));
}

/// The format of `hull doctor --json`.
#[test]
fn doctor_is_read_by_programs() {
    let check = "import json, sys\nd = json.load(sys.stdin)\nassert set(d) == {'version', 'ready', 'checks'}, d\n\
                 assert d['ready'] is True and len(d['checks']) > 10\nfor c in d['checks']:\n \
                 assert set(c) == {'check', 'state', 'text', 'remedy'}, c\n \
                 assert c['state'] in ('ok', 'warn', 'fail') and (c['remedy'] is None) == (c['state'] == 'ok'), c";
    let binary = hull::binary().unwrap().display().to_string();
    let line = "\"$0\" doctor --json | python3 -c \"$1\"";
    let outcome =
        process::run(Command::new("/bin/sh").args(["-c", line, &binary, check]), Stdio::null(), hull::host_limit());
    let outcome = outcome.unwrap();
    assert_eq!(outcome.status, 0, "{}", text(&outcome.stderr));
}

/// Standard error is a pipe without a reader: messages are lost, exit codes are not, and no process blocks.
#[test]
fn nobody_reads_messages() {
    let host = |command: &str| format!("exec 9>&1; {{ {command}; echo $? >&9; }} 2>&1 >/dev/null | true");
    for (options, script, code) in
        [(&["--ro", "/no/such"][..], "true", "125"), (&[], "exit 4", "4"), (&[], "echo x >&2; exit 6", "6")]
    {
        let outcome = from_shell(&host("sleep 0.2; \"$@\""), options, &format!("trap '' PIPE; {script}"));
        assert_eq!(text(&outcome.stdout).trim_end(), code, "{options:?}");
    }
}

#[test]
fn storms_of_signals() {
    let script = "trap : USR1 USR2 HUP WINCH; echo ready; i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; exit 7";
    let mut running = Running::start(pod(&[], script));
    running.until("ready");
    let end = Instant::now() + Duration::from_secs(2);
    let mut count = 0;
    while Instant::now() < end && running.child.try_wait().unwrap().is_none() {
        for signal in
            [libc::SIGUSR1, libc::SIGUSR2, libc::SIGHUP, libc::SIGWINCH, libc::SIGCONT, libc::SIGURG, libc::SIGCHLD]
        {
            running.signal(signal);
            count += 1;
        }
    }
    assert!(count > 1000);
    assert_eq!(running.end().1, 7);
}

#[test]
fn stopped_and_continued() {
    let script = "echo ready; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; date +%s%N; done; cat; exit 6";
    let mut running = Running::start(pod(&[], script));
    running.until("ready");
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(120));
        running.signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(700));
        running.signal(libc::SIGCONT);
    }
    let (output, status) = running.end();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    assert_eq!(status, 6);
    let times: Vec<u128> = output.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(times.len(), 10);
    assert!(times.is_sorted(), "{times:?}");
    // The pod's clock continued while it was stopped.
    let behind = now.abs_diff(times[9]);
    assert!(behind < 30_000_000_000, "{behind} ns off");
    assert!(times[9] - times[0] > 1_400_000_000, "{times:?}");
}

/// The time limit also ends a stopped pod, without a SIGCONT from outside.
#[test]
fn stopped_over_its_time_limit() {
    let started = Instant::now();
    let mut running = Running::start(pod(&["--timeout", "1500ms"], "echo ready; while :; do :; done"));
    running.until("ready");
    running.signal(libc::SIGSTOP);
    assert_eq!(running.end().1, 124);
    let took = started.elapsed();
    assert!(took > Duration::from_millis(1500) && took < Duration::from_secs(10), "{took:?}");
    // Stopped and continued within the limit: no effect.
    let mut running = Running::start(pod(&["--timeout", "30s"], "echo ready; read line; exit 6"));
    running.until("ready");
    running.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(300));
    running.signal(libc::SIGCONT);
    running.say("go on");
    assert_eq!(running.end().1, 6);
}

/// Builds a program of `tests/hostile` for a pod: returns the directory to grant, and its name there.
fn guest(name: &str) -> (PathBuf, String) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile");
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults");
    let executable = output.join(format!("{name}-{:?}", std::thread::current().id()));
    let program = Program {
        name: name.into(),
        source: sources.join(format!("{name}.c")),
        executable: executable.clone(),
        flags: vec!["-Wno-unused".into()],
    };
    compile::build(&program, &sources.join("guest.h")).unwrap();
    (output, executable.file_name().unwrap().to_string_lossy().into_owned())
}

/// The output of the program that maps a file, after a change to the file, and whether the monitor had mapped it.
fn mapped_by(options: &[&str], change: impl FnOnce(&Path)) -> (String, bool) {
    let (output, name) = guest("mapped");
    let scratch = Scratch::new().unwrap();
    let file = scratch.0.join("file");
    fs::write(&file, "a".repeat(16 << 20)).unwrap();
    let (tests, granted) = (format!("{}:/tests", output.display()), format!("{}:/granted", scratch.0.display()));
    let options = [options, &["--ro", &tests, "--ro", &granted]].concat();
    let command = hull::run_command(&options, &[&format!("/tests/{name}"), "/granted/file"]).unwrap();
    let mut running = Running::start(command);
    assert_eq!(running.until("ready"), "page 0 a\npage 2048 a\n");
    let maps = fs::read_to_string(format!("/proc/{}/maps", running.child.id())).unwrap_or_default();
    let number = fs::metadata(&file).unwrap().ino().to_string();
    let is_mapped = maps.lines().any(|line| line.split_ascii_whitespace().nth(4) == Some(&number));
    change(&file);
    running.say("go on");
    let (output, status) = running.end();
    assert_eq!(status, 0, "{output}");
    (output, is_mapped)
}

fn mapped(change: impl FnOnce(&Path)) -> String {
    mapped_by(&[], change).0
}

/// With `--no-shared-pages` the monitor maps no file; the pod has copies.
#[test]
fn pages_of_files_are_copies() {
    require_root();
    let whole = "page 4095 a\npage 2048 a\npage 0 a\npage 1365 a\ncopy 4096\n";
    assert_eq!(mapped_by(&[], |_| {}), (whole.into(), true));
    assert_eq!(mapped_by(&["--no-shared-pages"], |_| {}), (whole.into(), false));
    // A shared writable mapping of a writable file is not possible.
    let scratch = Scratch::new().unwrap();
    let granted = format!("{}:/granted", scratch.0.display());
    let script = "import mmap\nf = open('/granted/f', 'w+b'); f.write(b'x' * 5000); f.flush()\n\
        try: mmap.mmap(f.fileno(), 5000)\nexcept OSError as e: print(e.errno)\n\
        m = mmap.mmap(f.fileno(), 5000, access=mmap.ACCESS_READ); print(m[4999])\n\
        m = mmap.mmap(f.fileno(), 5000, access=mmap.ACCESS_COPY); m[0] = 1; print(m[0], f.seek(0), f.read(1))\n";
    let options = ["--no-shared-pages", "--rw", &granted];
    let command = hull::run_command(&options, &["python3", "-c", script]).unwrap();
    assert_eq!(Running::start(command).end(), (format!("{}\n120\n1 0 b'x'\n", libc::ENODEV), 0));
}

#[test]
fn a_mapped_file_is_cut() {
    let output = mapped(|file| fs::File::options().write(true).open(file).unwrap().set_len(4096).unwrap());
    let signals =
        "signal 7 code 2 page 4095\nsignal 7 code 2 page 2048\npage 0 a\nsignal 7 code 2 page 1365\ncopy 4096\n";
    assert_eq!(output, signals);
}

/// What the host appended to a mapped file is there at once, although the pod knew the file as shorter a moment ago.
#[test]
fn a_mapped_file_grows() {
    let script = "import mmap, os, time\nf = open('/granted/f', 'rb')\n\
        maps = [mmap.mmap(f.fileno(), 65536, flags=flags, prot=prot) for flags, prot in ((1, 1), (2, 1), (2, 3))]\n\
        print('mapped', flush=True); input()\nwhile os.fstat(f.fileno()).st_size > 4096: time.sleep(0.05)\n\
        print(*(m[0] for m in maps), flush=True); input()\nmaps[2][36864] += 1; print(*(m[36864] for m in maps), flush=True); input()\n\
        maps[2][61440] += 1; print(*(m[61440] for m in maps))\n";
    for options in [["--ro"].as_slice(), &["--rw"], &["--no-shared-pages", "--ro"]] {
        let scratch = Scratch::new().unwrap();
        let path = scratch.0.join("f");
        fs::write(&path, [b'a'; 65536]).unwrap();
        let file = fs::File::options().append(true).open(&path).unwrap();
        let granted = format!("{}:/granted", scratch.0.display());
        let options = [options, &[&granted]].concat();
        let mut running = Running::start(hull::run_command(&options, &["python3", "-c", script]).unwrap());
        running.until("mapped");
        file.set_len(4096).unwrap();
        running.say("it is short");
        running.until("97 97 97");
        (&file).write_all(&[b'b'; 36864]).unwrap();
        running.say("it has 10 pages");
        running.until("98 98 99");
        (&file).write_all(&[b'c'; 24576]).unwrap();
        running.say("it has 16");
        assert_eq!(running.end(), ("99 99 100\n".into(), 0));
    }
}

#[test]
fn some_of_many_mapped_files_are_cut() {
    const FILES: usize = 300;
    let (output, name) = guest("many_mapped");
    let scratch = Scratch::new().unwrap();
    let path = |number: usize| scratch.0.join(number.to_string());
    (0..FILES).for_each(|number| fs::write(path(number), "a".repeat(8192)).unwrap());
    let (tests, granted) = (format!("{}:/tests", output.display()), format!("{}:/granted", scratch.0.display()));
    let program = format!("/tests/{name}");
    let command =
        hull::run_command(&["--ro", &tests, "--rw", &granted], &[&program, &FILES.to_string(), "/granted"]).unwrap();
    let mut running = Running::start(command);
    running.until("ready");
    for number in (0..FILES).step_by(3) {
        fs::File::options().write(true).open(path(number)).unwrap().set_len(4096).unwrap();
    }
    running.say("go on");
    assert_eq!(running.end(), ("100 lost\n".into(), 0));
}

#[test]
fn a_mapped_file_is_replaced_or_removed() {
    let whole = "page 4095 a\npage 2048 a\npage 0 a\npage 1365 a\ncopy 4096\n";
    let replace = |file: &Path| {
        fs::write(file.with_extension("new"), "b").unwrap();
        fs::rename(file.with_extension("new"), file).unwrap();
    };
    assert_eq!(mapped(replace), whole);
    assert_eq!(mapped(|file| fs::remove_file(file).unwrap()), whole);
}

#[test]
fn a_granted_directory_is_removed() {
    for option in ["--ro", "--rw"] {
        let scratch = Scratch::new().unwrap();
        let path = scratch.0.join("granted");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("file"), "x").unwrap();
        let script = "cd /granted; cat file; echo; echo ready; read go; sleep 1.2; ls; touch new 2>/dev/null; cat file 2>/dev/null; exit 8";
        let mut running = Running::start(pod(&[option, &format!("{}:/granted", path.display())], script));
        assert_eq!(running.until("ready"), "x\n");
        fs::remove_dir_all(&path).unwrap();
        running.say("go");
        let (_, status) = running.end();
        assert_eq!(status, 8);
        assert!(!path.exists());
    }
}
