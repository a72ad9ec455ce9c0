//! What `hull trace` prints about programs in pods.

use std::process::{Command, Output};

fn trace(options: &[&str], program: &[&str]) -> (Output, Vec<String>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hull"));
    command.arg("trace").args(["--timeout", "60"]).args(options).arg("--").args(program);
    let output = command.current_dir("/usr").output().unwrap();
    let lines = String::from_utf8(output.stderr.clone()).unwrap().lines().map(String::from).collect();
    (output, lines)
}

#[track_caller]
fn has(lines: &[String], start: &str, end: &str) {
    let found = lines.iter().any(|line| line.contains(start) && line.ends_with(end));
    assert!(found, "no line with {start:?} and {end:?} at its end:\n{}", lines.join("\n"));
}

#[test]
fn calls_are_decoded_and_children_followed() {
    let (output, lines) = trace(&[], &["sh", "-c", "cat /etc/passwd /no/such >/dev/null; exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{}", lines.join("\n"));
    assert!(output.stdout.is_empty());
    has(&lines, "[2] openat(AT_FDCWD, \"/dev/null\", O_WRONLY|O_CREAT|O_TRUNC, 0666)", " = 3");
    has(&lines, "[2] mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x", "");
    has(&lines, "openat(AT_FDCWD, \"/etc/passwd\", O_RDONLY)", " = 3");
    has(&lines, "read(3, \"root:x:0:0:", "");
    has(&lines, "openat(AT_FDCWD, \"/no/such\", O_RDONLY)", " = -1 ENOENT");
    has(&lines, "execve(\"", "");
    has(&lines, "[3] +++ exited with 1 +++", "");
    has(&lines, "si_code=CLD_EXITED, si_pid=3", "} ---");
    has(&lines, "[{WIFEXITED(s) && WEXITSTATUS(s) == 1}]", " = 3");
    assert_eq!(lines.last().unwrap(), "[2] +++ exited with 7 +++");
}

#[test]
fn filters_choose_calls() {
    let (_, lines) = trace(&["-e", "trace=openat,%process", "-e", "signal=none"], &["cat", "/etc/passwd"]);
    assert!(lines.iter().all(|line| line.contains("openat(") || line.contains("exit_group(")), "{}", lines.join("\n"));
    has(&lines, "\"/etc/passwd\"", " = 3");
    let (_, lines) = trace(&["-e", "!all"], &["sh", "-c", "kill -9 $$"]);
    assert_eq!(lines, ["[2] +++ killed by SIGKILL +++"]);
}

#[test]
fn times_and_lengths() {
    let (_, lines) = trace(&["-T", "-ttt", "-s", "4", "-e", "read,write"], &["head", "-c", "9", "/etc/passwd"]);
    let line = lines.iter().find(|line| line.contains(" write(1, \"root\"..., 9) = 9 <0.")).expect("a line of write");
    let stamp = line.split(' ').nth(1).unwrap();
    assert!(stamp.len() == 17 && stamp.parse::<f64>().is_ok(), "{line}");
    let (_, lines) = trace(&["-r", "-e", "write"], &["echo", "x"]);
    assert!(lines[0].starts_with("[2]      0.000000 write(1, \"x\\n\", 2) = 2"), "{}", lines[0]);
}

#[test]
fn a_table_goes_to_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("table");
    let (output, lines) = trace(&["-c", "-o", file.to_str().unwrap()], &["sh", "-c", "cat /etc/passwd; true"]);
    assert!(output.status.success() && !output.stdout.is_empty() && lines.is_empty(), "{}", lines.join("\n"));
    let table = std::fs::read_to_string(file).unwrap();
    let lines: Vec<String> = table.lines().map(String::from).collect();
    assert!(lines[0].starts_with("% time "), "{table}");
    for name in [" openat", " wait4", " exit_group", " total"] {
        has(&lines, "", name);
    }
    has(&lines, "sites: ", " from generated code");
    let (_, lines) = trace(&["-C", "-e", "write"], &["echo", "x"]);
    has(&lines, "write(1, \"x\\n\", 2)", " = 2");
    has(&lines, "         1           write", "");
    has(&lines, "         1           total", "");
}

#[test]
fn calls_that_are_not_supported_are_told() {
    let (_, lines) = trace(&["-C", "-e", "uselib"], &["perl", "-e", "syscall(134, $x = 'lib'); syscall(999, 1)"]);
    has(&lines, "uselib(\"lib\")", " = -1 ENOSYS (not supported: removed from Linux)");
    has(&lines, "syscall_999(0x1, ", " = -1 ENOSYS (no such call)");
    has(&lines, "not supported: ", "");
    assert!(lines.iter().any(|line| line.contains("uselib (134) 1")), "{}", lines.join("\n"));
}

#[test]
fn output_that_cannot_be_written_is_125() {
    let (output, lines) = trace(&["-o", "/no/such/file"], &["true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(lines.len() == 1 && lines[0].starts_with("hull: --output /no/such/file: "), "{}", lines[0]);
}
