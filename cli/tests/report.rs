//! The report of `hull` when keel fails.

use std::process::Command;

#[track_caller]
fn report(kind: &str) -> String {
    let program = ["sh", "-c", "cat /etc/passwd >/dev/null; exit 3"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_hull"));
    command.args(["run", "--timeout", "60", &format!("--fail-keel={kind}"), "--"]).args(program);
    let output = command.current_dir("/usr").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    String::from_utf8(output.stderr).unwrap()
}

#[track_caller]
fn has_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("no {part:?} where it should be:\n{text}"));
        rest = &rest[at + part.len()..];
    }
}

/// Parts of both kinds of report.
const COMMON: [&str; 10] = [
    "program: rip 0x",
    "backtrace:\n  0x",
    "keel_kernel::task::exit::",
    "thread 2, maybe in this call:\n  [2] exit_group(0x3, ",
    "last calls, newest first:\n  [2] ",
    "wait4(",
    " = 0x0",
    "reproduce: ",
    "versions: hull 0.",
    " processors\n",
];

#[test]
fn a_panic_is_reported() {
    let text = report("panic");
    assert!(text.starts_with("hull: the pod's kernel failed: as --fail-keel asks (hal/src/kvm/boot.rs:"), "{text}");
    has_in_order(&text, &COMMON);
    assert!(text.contains("--fail-keel=panic -- sh -c 'cat /etc/passwd >/dev/null; exit 3'\n"), "{text}");
}

#[test]
fn an_exception_is_reported() {
    let text = report("fault");
    assert!(text.starts_with("hull: the pod's kernel failed: exception 6 (code 0x0, address 0x"), "{text}");
    has_in_order(&text, &["registers: rsp 0x", " r15 0x"]);
    has_in_order(&text, &COMMON);
}

#[test]
fn a_stack_that_is_too_small_is_reported() {
    let text = report("stack");
    let start = "hull: the pod's kernel failed: a kernel stack overflowed: exception 14 (code 0x";
    assert!(text.starts_with(start), "{text}");
    has_in_order(&text, &["registers: rsp 0x7fc0", "hal::kvm::boot::deeper"]);
    has_in_order(&text, &["thread 2, maybe in this call:\n  [2] exit_group(0x3, ", "reproduce: "]);
}

/// The `reproduce:` line of a report causes the same failure, in any working directory.
#[test]
fn a_report_says_how_to_get_it_again() {
    let first = report("panic");
    let line = first.lines().find_map(|line| line.strip_prefix("reproduce: ")).unwrap();
    assert!(line.starts_with("cd /usr && "), "{line}");
    let again = Command::new("/bin/sh").args(["-c", line]).current_dir("/").output().unwrap();
    let second = String::from_utf8(again.stderr).unwrap();
    assert_eq!(again.status.code(), Some(125), "{second}");
    assert_eq!(first.lines().next(), second.lines().next());
    assert!(second.contains(&format!("\nreproduce: {line}\n")), "{second}");
}
