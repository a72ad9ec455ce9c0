//! Options of `hull run` as docker and podman let users write them: values of switches (`--rm=true`), the short form of
//! `--hostname`, and options that ask for what a pod does anyway.

use crate::args::Hull;
use clap::{ArgAction, Command, CommandFactory};
use std::ffi::{OsStr, OsString};

/// Options that Hull does not have, with the values that ask for what it does. `None`: the option without a value.
const USUAL: [(&str, &[Option<&str>]); 19] = [
    ("--restart", &[Some("no"), Some("")]),
    ("--ipc", &[Some("private")]),
    ("--pid", &[Some("private")]),
    ("--uts", &[Some("private")]),
    ("--cgroupns", &[Some("private")]),
    ("--isolation", &[Some("default")]),
    ("--log-driver", &[Some("none")]),
    ("--sig-proxy", &[None, Some("true")]),
    ("--detach", &[Some("false")]),
    ("-d", &[Some("false")]),
    ("--privileged", &[Some("false")]),
    ("--oom-kill-disable", &[Some("false")]),
    ("--memory-swappiness", &[Some("0"), Some("-1")]),
    ("--no-healthcheck", &[None, Some("true")]),
    ("--disable-content-trust", &[None, Some("true")]),
    ("--http-proxy", &[Some("false")]),
    ("--replace", &[Some("false")]),
    ("--no-hosts", &[Some("false")]),
    ("--systemd", &[Some("false")]),
];
/// Those of them whose value may be the next word.
const WITH_VALUE: [&str; 8] =
    ["--restart", "--ipc", "--pid", "--uts", "--cgroupns", "--isolation", "--log-driver", "--memory-swappiness"];
/// Memory and swap together: if that is the value of `--memory`, there is no swap, as a pod has none.
const SWAP: &str = "--memory-swap";

/// Rewrites the options of `hull run` to those of its parser. Other commands, and the words of the program, stay as they are.
pub fn rewritten(words: Vec<OsString>) -> Vec<OsString> {
    // The parser's description takes 0.1 ms to make, so only if it is needed.
    if words.get(1).is_none_or(|word| word != "run") || !words.iter().any(|word| may_be_rewritten(word)) {
        return words;
    }
    let command = Hull::command();
    let Some(run) = command.find_subcommand("run") else { return words };
    let mut rest = words.into_iter();
    let mut result: Vec<OsString> = rest.by_ref().take(2).collect();
    // The value of `--memory`; that of `--memory-swap`, with its place.
    let (mut memory, mut swap): (Option<OsString>, Option<(usize, OsString)>) = (None, None);
    while let Some(word) = rest.next() {
        let text = word.to_str().unwrap_or_default();
        let is_last = rest.len() == 0;
        if !word.as_encoded_bytes().starts_with(b"-") || text == "-" || text == "--" {
            result.push(word);
            break;
        }
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        // A word that the parser has to see with the next one, its value.
        let mut takes_next = false;
        if matches!(name, "-m" | "--memory") {
            memory = value.map(OsString::from).or_else(|| rest.as_slice().first().cloned());
        } else if let Some(attached) = text.strip_prefix("-m") {
            memory = Some(attached.into());
        }
        if name == SWAP
            && let Some(value) = value.map(OsString::from).or_else(|| rest.next())
        {
            swap = Some((result.len(), value));
        } else if let Some((_, usual)) = USUAL.iter().find(|(usual, _)| *usual == name) {
            if usual.contains(&value) {
                continue;
            }
            let next = rest.as_slice().first().and_then(|next| next.to_str());
            if value.is_none() && WITH_VALUE.contains(&name) && next.is_some() && usual.contains(&next) {
                rest.next();
                continue;
            }
            result.push(word);
        } else if let Some(value) = value.filter(|_| is_switch(run, name)) {
            match truth(value) {
                Some(true) => result.push(name.into()),
                Some(false) => {}
                None => result.push(word),
            }
        } else if text.starts_with("-h") && !text.starts_with("--") && !(text == "-h" && is_last) {
            result.push("--hostname".into());
            match text.get(2..).filter(|rest| !rest.is_empty()) {
                Some(name) => result.push(name.strip_prefix('=').unwrap_or(name).into()),
                None => takes_next = true,
            }
        } else {
            takes_next = value.is_none() && wants_value(run, &word);
            result.push(word);
        }
        if takes_next {
            result.extend(rest.next());
        }
    }
    if let Some((at, swap)) = swap
        && memory.as_ref() != Some(&swap)
    {
        result.splice(at..at, [SWAP.into(), swap]);
    }
    result.extend(rest);
    result
}

/// Whether a word is rewritten where it is an option of `run`, whatever options `run` has.
fn may_be_rewritten(word: &OsStr) -> bool {
    let text = word.to_str().unwrap_or_default();
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    text.starts_with("-h")
        || text.starts_with('-') && value.and_then(truth).is_some()
        || name == SWAP
        || USUAL.iter().any(|(usual, _)| *usual == name)
}

/// A boolean value of docker's.
fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Whether an option without a value is one of `run`.
fn is_switch(run: &Command, name: &str) -> bool {
    find(run, name).is_some_and(|is_switch| is_switch)
}

/// The option of a name: whether it takes no value. `None`: there is none.
fn find(run: &Command, name: &str) -> Option<bool> {
    let is_it = |arg: &&clap::Arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long_and_visible_aliases().is_some_and(|all| all.contains(&long)),
        None => name.strip_prefix('-').is_some_and(|short| short.chars().eq(arg.get_short())),
    };
    run.get_arguments().find(is_it).map(|arg| matches!(arg.get_action(), ArgAction::SetTrue))
}

/// Whether the value of the last option of a word, which may be several short ones, is the next word.
fn wants_value(run: &Command, word: &OsStr) -> bool {
    let Some(text) = word.to_str() else { return false };
    if text.starts_with("--") {
        return find(run, text) == Some(false);
    }
    // The first short option that takes a value has the rest of the word, or the next one.
    let letters: Vec<char> = text.chars().skip(1).collect();
    let first = letters.iter().position(|letter| find(run, &format!("-{letter}")) != Some(true));
    first.is_some_and(|at| at + 1 == letters.len() && find(run, &format!("-{}", letters[at])) == Some(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(before: &str, after: &str) {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(rewritten(words(before)), words(after));
    }

    #[test]
    fn switches_have_values() {
        expect("hull run --rm=true -i=false --init=0 --read-only=1 x", "hull run --rm --read-only x");
        expect("hull run --rm=maybe x", "hull run --rm=maybe x");
        expect("hull run -e A=false --env=rm=false x --rm=true", "hull run -e A=false --env=rm=false x --rm=true");
        expect("hull images --rm=true", "hull images --rm=true");
    }

    #[test]
    fn a_host_name_has_a_short_form() {
        expect("hull run -h box x -h y", "hull run --hostname box x -h y");
        expect("hull run -hbox -it x", "hull run --hostname box -it x");
        expect("hull run -it -h=box x", "hull run -it --hostname box x");
        expect("hull run -h", "hull run -h");
        expect("hull run --help", "hull run --help");
        expect("hull run -- ls -h x", "hull run -- ls -h x");
        // Values of options are none.
        expect("hull run -m 1g -u -h -h a x", "hull run -m 1g -u -h --hostname a x");
        expect("hull run -ite -h x -h y", "hull run -ite -h x -h y");
        expect("hull trace -h x", "hull trace -h x");
    }

    #[test]
    fn what_a_pod_does_anyway() {
        expect("hull run --restart no --ipc=private --sig-proxy --no-healthcheck x", "hull run x");
        expect("hull run -d=false --detach=false --uts private --log-driver none x", "hull run x");
        expect("hull run --restart always x", "hull run --restart always x");
        expect("hull run --ipc=host --detach x", "hull run --ipc=host --detach x");
        expect("hull run x --restart no", "hull run x --restart no");
        expect("hull run -m 64m --memory-swap 64m --memory-swappiness 0 x", "hull run -m 64m x");
        expect("hull run --memory-swap=64m --memory=64m x", "hull run --memory=64m x");
        expect("hull run -m64m --memory-swap 64m x", "hull run -m64m x");
        expect("hull run --memory-swap 128m -m 64m x", "hull run --memory-swap 128m -m 64m x");
        expect("hull run --memory-swap 64m x -m 64m", "hull run --memory-swap 64m x -m 64m");
        expect("hull run --memory-swap -1 x", "hull run --memory-swap -1 x");
        expect("hull run --memory-swap", "hull run --memory-swap");
    }
}
