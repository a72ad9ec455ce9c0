//! Errors in command lines: one line for each, with the correct option.

mod foreign;
mod remedies;
mod services;

use crate::failure::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use foreign::counterpart;
use std::ffi::OsString;

/// Where all options are documented.
const SEE: &str = "see hull --help";
/// Syntax of a run.
const LINE: &str = "write hull run [OPTIONS] IMAGE [COMMAND]... or hull run [OPTIONS] -- PROGRAM [ARGS]...";

/// Whether an option was probably meant by a name that does not exist: one is the start of the other, or few letters
/// differ.
fn is_near(name: &str, option: &str) -> bool {
    let (name, option) = (name.trim_start_matches('-'), option.trim_start_matches('-'));
    let shorter = name.len().min(option.len());
    if shorter >= 3 && (name.starts_with(option) || option.starts_with(name)) {
        return true;
    }
    distance(name, option) <= (shorter / 3).min(2)
}

/// The least number of bytes to insert, remove or replace to make one word of another.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        row[0] = left;
        for (j, b) in other.bytes().enumerate() {
            let above = row[j + 1];
            left = (diagonal + usize::from(a != b)).min(left + 1).min(above + 1);
            (diagonal, row[j + 1]) = (above, left);
        }
    }
    row[other.len()]
}

/// A word after the last argument that a command has.
fn one_too_many(command: &str, word: &str) -> Failure {
    match command {
        "cp" => {
            let remedy = "copy their directory, or an archive of them: tar -c FILE... | hull cp - IMAGE:PATH";
            Failure::request(format!("cp: {word}"), "one file or directory is copied to one place", remedy)
        }
        _ => Failure::request(word, "one argument too many", format!("see hull {command} --help")),
    }
}

/// Converts a parser error into a failure with a remedy. `arguments` is the whole command line.
pub fn explain(error: &clap::Error, arguments: &[OsString]) -> Failure {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        Some(ContextValue::Strings(list)) => list.first().map(String::as_str),
        _ => None,
    };
    let argument = text(ContextKind::InvalidArg);
    // `--memory <SIZE>` as it is defined; only its name was written.
    let name = argument.map(|argument| argument.split([' ', '=']).next().unwrap_or(argument));
    let command = arguments.get(1).and_then(|word| word.to_str()).unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let name = name.unwrap_or("an argument");
            if !name.starts_with('-') {
                return one_too_many(command, argument.unwrap_or(name));
            }
            // In `trace` single letters are strace's.
            let foreign = (command == "run" || name.starts_with("--")).then(|| counterpart(name)).flatten();
            match (foreign, text(ContextKind::SuggestedArg).filter(|near| is_near(name, near))) {
                (Some(text), _) => Failure::request(name, "Hull has no such option", text),
                (None, Some(near)) => {
                    Failure::request(name, "Hull has no such option", format!("did you mean {near}?"))
                }
                (None, None) => Failure::request(name, "Hull has no such option", format!("see hull {command} --help")),
            }
        }
        ErrorKind::InvalidSubcommand => {
            let what = text(ContextKind::InvalidSubcommand).unwrap_or(command);
            let remedy = match what {
                "exec" | "logs" | "stop" | "kill" | "rm" | "attach" | "start" | "create" | "wait" | "inspect" => {
                    "a pod lives as long as its `hull run`; see hull --help"
                }
                "build" | "commit" => "build images with another tool and read them with hull load",
                "image" => "write hull image ls, pull, push, load, save, import, inspect, history, tag, rm or prune",
                "login" | "logout" => "use that of docker, podman or skopeo: Hull reads their credentials",
                "version" => "see hull --version",
                "info" | "system" => "see hull doctor; hull prune removes what no image needs",
                "volume" | "network" | "container" => "a pod leaves none behind; see hull run --help",
                _ => "see hull --help; to run a program write hull run -- PROGRAM",
            };
            Failure::request(what, "no such command", remedy)
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Failure::request("no command", "nothing to do", "write hull run -- PROGRAM [ARGS]..., or see hull --help")
        }
        ErrorKind::MissingRequiredArgument if matches!(command, "run" | "trace") => {
            let remedy = LINE.replace("run", command);
            Failure::request(command, "no image or program is named", remedy)
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::Strings(list)) => list.join(" "),
                _ => "an argument".to_owned(),
            };
            Failure::request(command, format!("{missing} is missing"), format!("see hull {command} --help"))
        }
        ErrorKind::ArgumentConflict => {
            let name = name.unwrap_or("an option");
            match text(ContextKind::PriorArg).and_then(|prior| prior.split([' ', '=']).next()) {
                Some(prior) if prior != name => {
                    Failure::request(name, format!("contradicts {prior}"), "choose one of them")
                }
                _ => Failure::request(name, "given twice", "give it once"),
            }
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::InvalidUtf8 => {
            let name = name.unwrap_or("a value");
            let value = text(ContextKind::InvalidValue).unwrap_or_default();
            if value.is_empty() {
                let form = argument.unwrap_or(name);
                return Failure::request(name, "a value is missing", format!("write {form}"));
            }
            let what = format!("{name} {value}");
            let source = std::error::Error::source(error).map(ToString::to_string);
            match (source, error.get(ContextKind::ValidValue)) {
                (_, Some(ContextValue::Strings(valid))) if !valid.is_empty() => {
                    Failure::request(what, "not known", format!("choose one of {}", valid.join(", ")))
                }
                (Some(text), _) => match text.split_once("; ") {
                    Some((why, remedy)) => Failure::request(what, why, remedy),
                    None => Failure::request(what, text, format!("see hull {command} --help")),
                },
                (None, _) => Failure::request(what, "not valid", format!("see hull {command} --help")),
            }
        }
        ErrorKind::TooManyValues => {
            Failure::request(name.unwrap_or("an option"), "takes no value here", format!("see hull {command} --help"))
        }
        _ => {
            // The first line without its heading.
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            Failure::request("options", line.strip_prefix("error: ").unwrap_or(line), SEE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Hull;
    use clap::Parser;

    pub(super) fn line(words: &str) -> String {
        let words: Vec<OsString> = words.split(' ').map(Into::into).collect();
        let error = Hull::try_parse_from(&words).unwrap_err();
        let text = explain(&error, &words).to_string();
        assert!(text.lines().count() == 1 && text.contains(": ") && text.contains("; "), "{text}");
        text
    }

    #[test]
    fn wrong_lines() {
        let expect = |words: &str, text: &str| assert_eq!(line(words), text);
        expect("hull", "no command: nothing to do; write hull run -- PROGRAM [ARGS]..., or see hull --help");
        let nothing = format!("run: no image or program is named; {LINE}");
        expect("hull run", &nothing);
        expect("hull run --", &nothing);
        expect("hull run --cpus 1 --cpus 2 -- ls", "--cpus: given twice; give it once");
        expect(
            "hull cp a b t:/",
            "cp: t:/: one file or directory is copied to one place; copy their directory, or an archive of them: \
                tar -c FILE... | hull cp - IMAGE:PATH",
        );
        expect("hull load x", "x: one argument too many; see hull load --help");
        expect("hull trace -c -C -- ls", "--summary-only: contradicts --summary; choose one of them");
        expect("hull run --memory", "--memory: a value is missing; write --memory <SIZE>");
        expect(
            "hull run --memory 1Q -- ls",
            "--memory 1Q: not a size; write a number with an optional suffix K, M, G or T, such as 512M",
        );
        expect("hull run --doorbell=x -- ls", "--doorbell x: not known; choose one of adaptive, exit, event, poll");
        assert!(line("hull run --cpus 17 -- ls").starts_with("--cpus 17: "));
        assert!(line("hull run --ro : -- ls").starts_with("--ro :: no path; write"));
        assert!(line("hull run --no-host=1 -- ls").starts_with("--no-host: "));
        expect("hull tag a", "tag: <NAME[:TAG]> is missing; see hull tag --help");
        expect("hull save -o x", "save: <IMAGE>... is missing; see hull save --help");
        assert!(line("hull login x").contains("Hull reads their credentials"));
        assert!(line("hull image build").starts_with("image: no such command; write hull image ls"));
        assert!(line("hull exec x").starts_with("exec: no such command; a pod lives"));
        assert!(line("hull ls -l").starts_with("ls: no such command; "));
        assert!(line("hull doctor --jsn").contains("did you mean --json?"));
    }
}
