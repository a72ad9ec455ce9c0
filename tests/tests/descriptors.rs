//! Inherited descriptors of `hull`: the pod's first program gets the same, on the host and in a pod.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use hull_tests::environment::Scratch;
use hull_tests::hull;
use hull_tests::process::{self, Outcome, text};

/// Runs a command from a shell with these redirections.
#[track_caller]
fn redirected(command: &Command, redirections: &str, input: Stdio) -> Outcome {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("exec \"$@\" {redirections}"), "sh"]).arg(command.get_program());
    shell.args(command.get_args()).current_dir("/");
    let outcome = process::run(&mut shell, input, hull::host_limit()).unwrap();
    assert!(!outcome.timed_out, "{redirections}: it hangs: {}", text(&outcome.stderr));
    outcome
}

/// `hull run OPTIONS -- COMMAND`, from a shell.
#[track_caller]
fn pod(options: &[&str], command: &[&str], redirections: &str, input: Stdio) -> Outcome {
    hull::require_kvm().unwrap();
    redirected(&hull::run_command(options, command).unwrap(), redirections, input)
}

/// The same command on the host.
#[track_caller]
fn host(command: &[&str], redirections: &str, input: Stdio) -> Outcome {
    let mut native = Command::new(command[0]);
    native.args(&command[1..]);
    redirected(&native, redirections, input)
}

#[test]
fn closed_standard_streams_are_closed() {
    let script = "code=0; [ -e /proc/self/fd/0 ] && code=1; [ -e /proc/self/fd/1 ] && code=$((code + 2)); \
                  [ -e /proc/self/fd/2 ] && code=$((code + 4)); exit $code";
    let command = ["/bin/sh", "-c", script];
    for open in 0..8 {
        let closed: String = (0..3).filter(|n| open & 1 << n == 0).map(|n| format!("{n}>&- ")).collect();
        assert_eq!(host(&command, &closed, Stdio::null()).status, open, "{closed} on the host");
        assert_eq!(pod(&[], &command, &closed, Stdio::null()).status, open, "{closed} in a pod");
    }
    // The next open reuses the number.
    let command = ["/bin/sh", "-c", "exec </etc/passwd && readlink /proc/self/fd/0"];
    let outcome = pod(&[], &command, "0<&-", Stdio::null());
    assert_eq!((outcome.status, text(&outcome.stdout).trim_end()), (0, "/etc/passwd"), "{}", text(&outcome.stderr));
}

/// Prints descriptors and uses them.
const PROGRAM: &str = r#"
import fcntl, os, select, stat
for n in (3, 4, 5, 6, 8):
    s = os.fstat(n)
    size = s.st_size if stat.S_ISREG(s.st_mode) else ''
    print(n, oct(stat.S_IFMT(s.st_mode)), size, oct(fcntl.fcntl(n, fcntl.F_GETFL)), fcntl.fcntl(n, fcntl.F_GETFD))
print(os.read(3, 4), os.lseek(3, 0, 1), os.pread(3, 3, 1), os.lseek(3, -2, 2), os.read(3, 9), os.read(3, 9))
print(os.write(4, b'more'), os.fstat(4).st_size)
print(os.write(5, b'AB'), os.lseek(5, 0, 0), os.read(5, 4))
p = select.poll()
p.register(6, select.POLLIN)
print(p.poll(20000))
print(os.read(6, 100), p.poll(20000), os.read(6, 100))
print(os.read(8, 10), os.write(8, b'gone'))
for call in (lambda: os.write(3, b'x'), lambda: os.read(4, 1), lambda: os.lseek(6, 0, 1), lambda: os.fstat(7)):
    try:
        print(call())
    except OSError as error:
        print(error.errno)
if os.fork() == 0:
    print(os.lseek(3, 1, 0), os.read(os.dup(3), 2), flush=True)
    os._exit(0)
os.wait()
print(os.lseek(3, 0, 1), sorted(int(n) for n in os.listdir('/proc/self/fd') if int(n) < 7))
os.execvp('sh', ['sh', '-c', 'echo from a shell >&4; head -c 3 <&3'])
"#;

#[test]
fn passed_descriptors_are_what_they_are_on_the_host() {
    let run = |in_pod: bool| {
        let scratch = Scratch::new().unwrap();
        let at = |name: &str| scratch.0.join(name).display().to_string();
        for (name, content) in [("three", "0123456789"), ("four", "old"), ("five", "abcdef"), ("six", "from a pipe")] {
            std::fs::write(at(name), content).unwrap();
        }
        let redirections =
            format!("3<{} 4>>{} 5<>{} 6<&0 8<>/dev/null 0</dev/null", at("three"), at("four"), at("five"));
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"from a pipe").unwrap();
        drop(writer);
        let command = ["/usr/bin/python3", "-u", "-c", PROGRAM];
        let passed = ["--pass-fd", "3", "--pass-fd", "4", "--pass-fd", "5", "--pass-fd", "6", "--pass-fd", "8"];
        let outcome = match in_pod {
            true => pod(&passed, &command, &redirections, reader.into()),
            false => host(&command, &redirections, reader.into()),
        };
        let files = ["three", "four", "five"].map(|name| std::fs::read_to_string(at(name)).unwrap());
        (outcome.status, text(&outcome.stdout), text(&outcome.stderr), files)
    };
    let native = run(false);
    assert_eq!(native.0, 0, "{native:?}");
    assert_eq!(run(true), native);
}

#[test]
fn passed_descriptors_take_other_numbers() {
    let options = ["--pass-fd", "3:9", "--pass-fd", "4:3", "--pass-fd", "3:5"];
    let command = ["/bin/sh", "-c", "head -n 1 <&9; cat <&3; [ ! -e /proc/self/fd/4 ] && [ -e /proc/self/fd/5 ]"];
    let outcome = pod(&options, &command, "3</etc/passwd 4</dev/null", Stdio::null());
    let first = std::fs::read_to_string("/etc/passwd").unwrap().lines().next().unwrap().to_owned();
    assert_eq!((outcome.status, text(&outcome.stdout).trim_end()), (0, &*first), "{}", text(&outcome.stderr));
    // Other descriptors do not exist.
    let command = ["/bin/sh", "-c", "[ ! -e /proc/self/fd/3 ] && [ ! -e /proc/self/fd/4 ]"];
    assert_eq!(pod(&["--pass-fd", "5"], &command, "3</dev/null 4</dev/null 5</dev/null", Stdio::null()).status, 0);
}

#[test]
fn a_passed_socket_is_read_and_written() {
    let (mut own, theirs) = UnixStream::pair().unwrap();
    own.write_all(b"question\n").unwrap();
    let command = ["/bin/sh", "-c", "read line <&7; echo answer to $line >&7; readlink /proc/self/fd/7"];
    let outcome = pod(&["--pass-fd", "7"], &command, "7<&0 0</dev/null", OwnedFd::from(theirs).into());
    assert!(text(&outcome.stdout).starts_with("socket:["), "{}{}", text(&outcome.stdout), text(&outcome.stderr));
    let mut answer = String::new();
    own.read_to_string(&mut answer).unwrap();
    assert_eq!((outcome.status, &*answer), (0, "answer to question\n"));
}

#[test]
fn what_can_not_be_passed_is_refused() {
    let cases = [
        ("3", "", "--pass-fd 3: no such descriptor is open; "),
        ("3", "3</", "--pass-fd 3: a directory; grant it with --ro or --rw"),
        ("3", "3</dev/kvm", "--pass-fd 3: a device of the host; "),
        ("2", "", "--pass-fd 2: not a descriptor; "),
        ("3:2", "3</dev/null", "--pass-fd 3:2: not a descriptor; "),
        ("x", "", "--pass-fd x: not a descriptor; "),
        ("1024", "", "--pass-fd 1024: not a descriptor; "),
    ];
    for (number, redirections, message) in cases {
        let outcome = pod(&["--pass-fd", number], &["/bin/true"], redirections, Stdio::null());
        let error = text(&outcome.stderr);
        assert_eq!(outcome.status, 125, "{number}: {error}");
        assert!(error.starts_with(&format!("hull: {message}")) && error.lines().count() == 1, "{number}: {error}");
    }
    let outcome =
        pod(&["--pass-fd", "3:5", "--pass-fd", "4:5"], &["/bin/true"], "3</dev/null 4</dev/null", Stdio::null());
    assert_eq!(outcome.status, 125);
    assert!(text(&outcome.stderr).contains("another one has that number"), "{}", text(&outcome.stderr));
}

#[test]
fn attributes_of_streams_change_in_the_pod_only() {
    let scratch = Scratch::new().unwrap();
    let file = scratch.0.join("out");
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let before = std::fs::metadata(&file).unwrap();
    let script = "chmod 602 /dev/stdout && chown 1234:4321 /dev/stdout && touch -d @1000 /proc/self/fd/1 && \
                  stat -L -c '%a %u %g %Y %F' /proc/self/fd/3 3>&1 >&2 && stat -L -c '%a %u %g' /dev/stderr >&2 && \
                  setpriv --reuid 1234 --clear-groups sh -c 'chmod 600 /dev/stdout && echo opened >/dev/stdout' && \
                  chmod 640 /proc/self/fd/2 && stat -L -c %a /dev/stderr >&2";
    let outcome = pod(&["--user", "0:0"], &["/bin/sh", "-c", script], &format!(">{}", file.display()), Stdio::null());
    let stderr = text(&outcome.stderr);
    assert_eq!(outcome.status, 0, "{stderr}");
    let lines: Vec<_> = stderr.lines().collect();
    assert_eq!(lines[0], "602 1234 4321 1000 regular empty file");
    assert_eq!((lines[1].split(' ').next(), lines[2]), (Some("600"), "640"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "opened\n");
    use std::os::unix::fs::MetadataExt;
    let after = std::fs::metadata(&file).unwrap();
    assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
    assert!(after.mtime() >= before.mtime());
}
