//! What a recorded policy contains besides the network: the grants and limits of the command line.

use crate::args::RunArgs;
use crate::values::Grant;
use std::fmt::Write;

/// A TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => drop(write!(quoted, "\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

fn list(name: &str, values: impl Iterator<Item = String>, text: &mut String) {
    let values: Vec<String> = values.map(|value| quoted(&value)).collect();
    if !values.is_empty() {
        let _ = writeln!(text, "{name} = [{}]", values.join(", "));
    }
}

/// The text of a policy file without `[network]`.
pub fn policy(options: &RunArgs) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    // Paths of a policy are relative to its file.
    let grant = |grant: &Grant| {
        let host = here.join(&grant.host);
        match &grant.at {
            Some(at) => format!("{}:{}", host.display(), at.display()),
            None => host.display().to_string(),
        }
    };
    let mut text = String::from("version = 1\n\n[files]\n");
    if options.no_host {
        text += "host = false\n";
    }
    list("read", options.ro.iter().map(grant), &mut text);
    list("write", options.rw.iter().map(grant), &mut text);
    let mut limits = String::new();
    for (name, value) in [("memory", options.memory), ("private-size", options.private_size)] {
        let _ = value.map(|bytes| writeln!(limits, "{name} = \"{bytes}\""));
    }
    let _ = options.cpus.map(|cpus| writeln!(limits, "cpus = {cpus}"));
    let _ = options.timeout.map(|timeout| writeln!(limits, "timeout = \"{}ms\"", timeout.as_millis()));
    let processes = options.rights.pids_limit.filter(|limit| *limit > 0);
    let _ = processes.map(|limit| writeln!(limits, "processes = {limit}"));
    list("rate", options.rate.iter().map(ToString::to_string), &mut limits);
    if !limits.is_empty() {
        let _ = write!(text, "\n[limits]\n{limits}");
    }
    // Values may be secrets: only names are recorded.
    let passed = options.env.iter().filter_map(|variable| variable.to_str()).filter(|text| !text.contains('='));
    let mut environment = String::new();
    if options.env_all {
        environment += "all = true\n";
    }
    list("pass", passed.map(str::to_owned), &mut environment);
    if !environment.is_empty() {
        let _ = write!(text, "\n[environment]\n{environment}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, Hull};
    use clap::Parser;

    #[test]
    fn a_valid_policy() {
        let words =
            "hull run --ro /a:/b --rw /c\"d --memory 64M --cpus 1.5 --timeout 5s -e A -e B=secret --no-host -- x";
        let Command::Run(options) = Hull::try_parse_from(words.split(' ')).unwrap().command else { panic!() };
        let text = policy(&options);
        let policy = policy::Policy::parse(text.as_bytes()).unwrap();
        assert_eq!((policy.files.read, policy.files.write), (vec!["/a:/b".into()], vec!["/c\"d".into()]));
        assert_eq!((policy.limits.memory, policy.limits.cpus), (Some("67108864".into()), Some("1.5".into())));
        assert_eq!((policy.limits.timeout, policy.environment.pass), (Some("5000ms".into()), vec!["A".into()]));
        assert!(!policy.files.host && !text.contains("secret"));
    }
}
