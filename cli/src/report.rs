//! What a report of a failure adds to what the pod's kernel says: how to make it happen again.

use std::ffi::OsString;

/// The command line and the versions of all that takes part. Made before the pod runs: the jail allows little.
pub fn reproduction() -> String {
    let name = rustix::system::uname();
    let kvm = if monitor::kvm::is_software_nested() { "software-nested KVM" } else { "hardware KVM" };
    format!(
        "reproduce: {}\nversions: hull {} (contract {}), Linux {} {}, {kvm}",
        command_line(std::env::args_os()),
        env!("CARGO_PKG_VERSION"),
        abi::VERSION,
        name.release().to_string_lossy(),
        name.machine().to_string_lossy(),
    )
}

/// Arguments as a shell takes them.
fn command_line(arguments: impl Iterator<Item = OsString>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    let quoted = arguments.map(|argument| {
        let text = argument.to_string_lossy();
        match !text.is_empty() && text.chars().all(plain) {
            true => text.into_owned(),
            false => format!("'{}'", text.replace('\'', "'\\''")),
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_can_be_pasted() {
        let line = |words: &[&str]| command_line(words.iter().map(OsString::from));
        assert_eq!(line(&["hull", "run", "-m", "1G", "--", "/bin/ls"]), "hull run -m 1G -- /bin/ls");
        assert_eq!(line(&["sh", "-c", "echo $A; it's", ""]), r"sh -c 'echo $A; it'\''s' ''");
    }

    #[test]
    fn versions_are_named() {
        let text = reproduction();
        assert!(text.starts_with("reproduce: ") && text.contains("\nversions: hull 0."), "{text}");
    }
}
