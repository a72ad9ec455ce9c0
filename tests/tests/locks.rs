//! Locks of granted files between pods, and between pods and processes of the host. What a program is told while a process of the
//! host holds a lock is the same in a pod; and a lock of a pod is for a process of the host like one of another process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hull_tests::compile::{self, Program};
use hull_tests::environment::Scratch;
use hull_tests::hull;
use hull_tests::process::{self, text};

/// Numbers of virtual CPUs with which each case runs.
const CPUS: [&str; 3] = ["--cpus=1", "--cpus=2", "--cpus=4"];
const KINDS: [&str; 3] = ["posix", "ofd", "flock"];
const MODES: [&str; 2] = ["read", "write"];

fn lockers() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let executable = Path::new(env!("CARGO_TARGET_TMPDIR")).join("locks").join("lockers");
    let source = sources.join("shared/lockers.c");
    let program = Program { name: "lockers".into(), source, executable: executable.clone(), flags: Vec::new() };
    compile::build(&program, &sources.join("abi/check.h")).unwrap();
    executable
}

/// A directory with an empty file `f`, and who uses it.
struct Place {
    scratch: Scratch,
    program: PathBuf,
}

impl Place {
    fn new() -> Self {
        hull::require_kvm().unwrap();
        let place = Self { scratch: Scratch::new().unwrap(), program: lockers() };
        fs::write(place.file(), "").unwrap();
        place
    }

    fn file(&self) -> PathBuf {
        self.scratch.0.join("f")
    }

    /// `lockers` on the host.
    fn host(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(arguments[0]).arg(self.file()).args(&arguments[1..]);
        command
    }

    /// A command in a pod with the directory at `/granted`.
    fn pod_of(&self, cpus: &str, how: &str, command: &[&str]) -> Command {
        let grant = format!("{}:/granted", self.scratch.0.display());
        hull::run_command(&[cpus, how, &grant, "--ro", self.program.to_str().unwrap()], command).unwrap()
    }

    /// `lockers` in a pod that may write the directory.
    fn pod(&self, cpus: &str, arguments: &[&str]) -> Command {
        let command = [&[self.program.to_str().unwrap(), arguments[0], "/granted/f"], &arguments[1..]].concat();
        self.pod_of(cpus, "--rw", &command)
    }

    /// What a process of the host is told.
    fn tried(&self) -> String {
        output(&mut self.host(&["try"]))
    }
}

/// Output of a command that must succeed.
#[track_caller]
fn output(command: &mut Command) -> String {
    let outcome = process::run(command, Stdio::null(), hull::host_limit()).unwrap();
    assert!(!outcome.timed_out && outcome.status == 0, "{}{}", text(&outcome.stdout), text(&outcome.stderr));
    text(&outcome.stdout)
}

/// A process that goes on when it is told to.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { input: child.stdin.take(), child, lines }
    }

    /// Waits for its next line, which must be this one.
    #[track_caller]
    fn says(&mut self, what: &str) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), what);
    }

    /// Starts a process and waits until it says this.
    #[track_caller]
    fn saying(command: &mut Command, what: &str) -> Self {
        let mut running = Self::start(command);
        running.says(what);
        running
    }

    fn go_on(&mut self) {
        self.input = None;
    }

    #[track_caller]
    fn ends(mut self) {
        self.go_on();
        assert!(self.child.wait().unwrap().success());
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended can't be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The same without who holds a lock: a pod's are those of an open file description.
fn without_holder(tried: &str) -> String {
    tried.lines().filter(|line| !line.starts_with("holder")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn each_kind_is_respected_both_ways() {
    let place = Place::new();
    for kind in KINDS {
        for mode in MODES {
            let holder = Running::saying(&mut place.host(&["hold", kind, mode]), "held");
            let expected = place.tried();
            assert!(expected.contains("EAGAIN"), "{expected}");
            for cpus in CPUS {
                assert_eq!(output(&mut place.pod(cpus, &["try"])), expected, "{kind} {mode} held by the host, {cpus}");
            }
            holder.ends();
            for cpus in CPUS {
                let holder = Running::saying(&mut place.pod(cpus, &["hold", kind, mode]), "held");
                let told = (place.tried(), output(&mut place.pod(cpus, &["try"])));
                assert_eq!(without_holder(&told.0), without_holder(&expected), "{kind} {mode} held by a pod, {cpus}");
                assert_eq!(without_holder(&told.1), without_holder(&expected), "{kind} {mode}, pod and pod, {cpus}");
                assert!(!told.0.contains("a process") && !told.1.contains("a process"));
                holder.ends();
            }
        }
    }
    let free = place.tried();
    assert!(!free.contains("EAGAIN"), "{free}");
    assert_eq!(output(&mut place.pod("--cpus=2", &["try"])), free);
}

#[test]
fn who_gives_up_a_lock_lets_others_in_at_once() {
    let place = Place::new();
    let free = place.tried();
    for cpus in CPUS {
        for kind in KINDS {
            for (how, said) in [("unlock", "unlocked"), ("close", "closed"), ("kill", "killed")] {
                let running = Running::saying(&mut place.pod(cpus, &[how, kind, "write"]), said);
                assert_eq!(place.tried(), free, "{how} {kind} {cpus}");
                running.ends();
            }
        }
    }
}

#[test]
fn locks_end_with_a_pod_that_is_killed() {
    let place = Place::new();
    let free = place.tried();
    for kind in KINDS {
        let holder = Running::saying(&mut place.pod("--cpus=2", &["hold", kind, "write"]), "held");
        assert_ne!(place.tried(), free);
        holder.kill();
        let since = Instant::now();
        while place.tried() != free {
            assert!(since.elapsed() < Duration::from_secs(20), "{kind}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_signal_ends_the_wait_for_a_lock_outside() {
    let place = Place::new();
    for kind in KINDS {
        let holder = Running::saying(&mut place.host(&["hold", kind, "read"]), "held");
        let expected = output(&mut place.host(&["interrupt", kind, "write"]));
        assert_eq!(expected, "EINTR\nEINTR\nEINTR\n");
        for cpus in CPUS {
            assert_eq!(output(&mut place.pod(cpus, &["interrupt", kind, "write"])), expected, "{kind} {cpus}");
        }
        holder.ends();
    }
}

#[test]
fn who_waits_gets_the_lock() {
    let place = Place::new();
    for cpus in CPUS {
        for kind in KINDS {
            let holder = Running::saying(&mut place.host(&["hold", kind, "write"]), "held");
            let mut waiter = Running::saying(&mut place.pod(cpus, &["wait", kind, "read"]), "waiting");
            std::thread::sleep(Duration::from_millis(50));
            holder.ends();
            waiter.says("locked");
            waiter.ends();
            let holder = Running::saying(&mut place.pod(cpus, &["hold", kind, "read"]), "held");
            let mut waiter = Running::saying(&mut place.host(&["wait", kind, "write"]), "waiting");
            std::thread::sleep(Duration::from_millis(50));
            holder.ends();
            waiter.says("locked");
            waiter.ends();
        }
    }
}

#[test]
fn who_waits_for_some_bytes_keeps_nobody_from_others() {
    let place = Place::new();
    for cpus in CPUS {
        let holder = Running::saying(&mut place.host(&["hold", "posix", "read"]), "held");
        let mut pod = Running::saying(&mut place.pod(cpus, &["beside"]), "beside");
        holder.ends();
        pod.says("locked");
        pod.ends();
    }
}

#[test]
fn the_host_holds_what_the_programs_of_a_pod_hold_together() {
    let place = Place::new();
    for cpus in CPUS {
        let pod = Running::saying(&mut place.pod(cpus, &["aggregate"]), "released");
        let tried = place.tried();
        // Bytes 10 to 29 are read-locked.
        assert!(tried.contains("posix write: a lock of type 0 from 10, 20 bytes\n"), "{tried}");
        assert!(tried.contains("before: locked\nafter: EAGAIN\n"), "{tried}");
        pod.ends();
        assert!(!place.tried().contains("EAGAIN"));
    }
}

#[test]
fn what_was_written_under_a_lock_is_seen_under_the_next() {
    const TURNS: usize = 100;
    let place = Place::new();
    let arguments = |kind| ["count", kind, "write", "100"];
    let mut expected = 0;
    for kind in KINDS {
        for cpus in CPUS {
            let mut all: Vec<Running> = (0..2)
                .map(|_| Running::saying(&mut place.pod(cpus, &arguments(kind)), "ready"))
                .chain([Running::saying(&mut place.host(&arguments(kind)), "ready")])
                .collect();
            all.iter_mut().for_each(Running::go_on);
            all.into_iter().for_each(Running::ends);
            // Two processes in each place.
            expected += 3 * 2 * TURNS;
            let counted: usize = fs::read_to_string(place.file()).unwrap().parse().unwrap();
            assert_eq!(counted, expected, "{kind} {cpus}");
        }
    }
}

#[test]
fn readers_of_a_read_only_grant_exclude_writers_of_the_host() {
    let place = Place::new();
    let flock = |options: &str| Command::new("flock").args(options.split(' ')).arg(place.file()).arg("true").status();
    let script = "flock -s 3; echo held; cat >/dev/null";
    let shell = ["/bin/sh", "-c", &format!("exec 3</granted/f; {script}")];
    let holder = Running::saying(&mut place.pod_of("--cpus=2", "--ro", &shell), "held");
    assert!(flock("-n -s").unwrap().success() && !flock("-n -x").unwrap().success());
    holder.ends();
    let holder = Running::saying(&mut place.host(&["hold", "flock", "write"]), "held");
    let script = "flock -n -s /granted/f true && echo locked || echo held; echo own >/granted/f; \
                  flock -n /granted/f echo own";
    let shell = ["/bin/sh", "-c", script];
    // What the pod has written lies in its private layer, with a lock of its own.
    assert_eq!(output(&mut place.pod_of("--cpus=2", "--ro", &shell)), "held\nown\n");
    holder.ends();
}

/// A process of the host has a lease on a file: a pod that opens it waits until it is given back, as a process of the host does.
#[test]
fn a_lease_of_the_host_is_waited_for() {
    for cpus in CPUS {
        for what in ["open", "cut", "read"] {
            let place = Place::new();
            fs::write(place.file(), "content").unwrap();
            let lease = || Running::saying(&mut place.host(&["lease"]), "leased");
            let holder = lease();
            let expected = output(&mut place.host(&[what]));
            holder.ends();
            fs::write(place.file(), "content").unwrap();
            let mut holder = lease();
            assert_eq!(output(&mut place.pod(cpus, &[what])), expected, "{what} {cpus}");
            holder.says("asked");
            holder.says("given back");
            holder.ends();
        }
    }
}

#[test]
fn databases_survive_writers_on_the_host_and_in_pods() {
    const ROWS: usize = 40;
    const WRITERS: usize = 4;
    // How a journal ends: it is removed, its head is overwritten, or it is cut.
    for (cpus, journal) in CPUS.into_iter().zip(["delete", "persist", "truncate"]) {
        let place = Place::new();
        let database = place.scratch.0.join("db");
        let sqlite = |statement: &str| output(Command::new("sqlite3").arg(&database).arg(statement));
        sqlite("create table t (who text, number integer)");
        let script = |file: &str, who: &str| {
            format!(
                "echo ready; cat >/dev/null; for w in $(seq {WRITERS}); do \
                 (echo '.timeout 100000'; echo 'pragma journal_mode={journal};'; for i in $(seq {ROWS}); do \
                 echo \"insert into t values ('{who} $w', $i);\"; done) | sqlite3 {file} >/dev/null & done; wait"
            )
        };
        let on_host = script(database.to_str().unwrap(), "host");
        let mut host = Command::new("/bin/sh");
        let mut host = Running::saying(host.args(["-c", &on_host]), "ready");
        let shell = ["/bin/sh", "-c", &script("/granted/db", "pod")];
        let mut pod = Running::saying(&mut place.pod_of(cpus, "--rw", &shell), "ready");
        host.go_on();
        pod.go_on();
        host.ends();
        pod.ends();
        assert_eq!(sqlite("pragma integrity_check"), "ok\n", "{cpus}");
        let groups = "select count(*), count(distinct who), count(distinct number) from t";
        assert_eq!(sqlite(groups), format!("{}|{}|{ROWS}\n", 2 * WRITERS * ROWS, 2 * WRITERS), "{cpus}");
        let shell = ["sqlite3", "/granted/db", &format!("{groups}; pragma integrity_check")];
        let seen = output(&mut place.pod_of(cpus, "--rw", &shell));
        assert_eq!(seen, format!("{}|{}|{ROWS}\nok\n", 2 * WRITERS * ROWS, 2 * WRITERS), "{cpus}");
    }
}
