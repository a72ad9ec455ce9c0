//! Additions of `hull` to keel's failure report: how to reproduce the failure.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The command line and the component versions. Call it before the pod runs: the jail forbids some of the calls.
pub fn reproduction() -> String {
    let name = rustix::system::uname();
    let processors = monitor::processors();
    // Relative paths and the default grants depend on the working directory.
    let cd = std::env::current_dir().map(|dir| format!("cd {} && ", word(dir.as_os_str()))).unwrap_or_default();
    let kvm = if monitor::kvm::is_software_nested() { "software-nested KVM" } else { "hardware KVM" };
    format!(
        "reproduce: {cd}{}\nversions: hull {} (contract {}), Linux {} {}, {kvm}, {processors} processors",
        command_line(std::env::args_os()),
        env!("CARGO_PKG_VERSION"),
        abi::VERSION,
        name.release().to_string_lossy(),
        name.machine().to_string_lossy(),
    )
}

/// Quotes arguments for a shell.
fn command_line(arguments: impl Iterator<Item = OsString>) -> String {
    arguments.map(|argument| word(&argument)).collect::<Vec<_>>().join(" ")
}

/// Quotes one word for a shell, on one line. Non-UTF-8 and control bytes use bash's `$'...'`.
fn word(argument: &OsStr) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    match argument.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(plain) => text.into(),
        Some(text) if !text.contains(|c: char| c.is_control()) => format!("'{}'", text.replace('\'', "'\\''")),
        _ => {
            let byte = |byte: &u8| match byte {
                b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                b' '..=b'~' => char::from(*byte).to_string(),
                // Three digits: the next character may be a digit.
                other => format!("\\{other:03o}"),
            };
            format!("$'{}'", argument.as_bytes().iter().map(byte).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_can_be_pasted() {
        let line = |words: &[&str]| command_line(words.iter().map(OsString::from));
        assert_eq!(line(&["hull", "run", "-m", "1G", "--", "/bin/ls"]), "hull run -m 1G -- /bin/ls");
        assert_eq!(line(&["sh", "-c", "echo $A; it's", ""]), r"sh -c 'echo $A; it'\''s' ''");
        let bytes = |bytes: &[u8]| word(OsStr::from_bytes(bytes));
        assert_eq!(bytes(b"a\n1'\xff\\"), r"$'a\0121\'\377\\'");
    }

    #[test]
    fn versions_are_named() {
        let text = reproduction();
        assert!(text.starts_with("reproduce: ") && text.contains("\nversions: hull 0."), "{text}");
    }
}
