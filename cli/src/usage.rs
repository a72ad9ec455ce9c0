//! Errors in command lines: one line for each, with the correct option.

use crate::failure::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Where all options are documented.
const SEE: &str = "see hull --help";
/// Syntax of a run.
const LINE: &str = "write hull run [OPTIONS] IMAGE [COMMAND]... or hull run [OPTIONS] -- PROGRAM [ARGS]...";

const GRANT_RO: &str = "grant with --ro PATH[:AT] (--rw: writable)";
const GRANT_RW: &str = "grant with --rw PATH[:AT]";
const OWN: &str = "leave it out: every pod has its own";
const ISOLATED: &str = "leave it out: a pod shares none with the host";
const PRIVATE: &str = "leave it out: writes stay in the pod's memory except beneath --rw";
const RIGHTS: &str = "leave it out: privileges in a pod apply to that pod only";
const NETWORK: &str = "allow peers with --allow PEER[:PORT], publish ports with --publish HOST:POD";
const NO_COUNTERPART: &str = "leave it out: Hull has no counterpart";

/// Options of other container tools (docker, podman, bubblewrap) and Hull's counterparts.
const FOREIGN: [(&str, &str); 80] = [
    ("--volumes-from", GRANT_RO),
    ("--bind", GRANT_RW),
    ("--bind-try", GRANT_RW),
    ("--bind-fd", GRANT_RW),
    ("--bind-data", GRANT_RO),
    ("--ro-bind", "grant with --ro PATH[:AT]"),
    ("--ro-bind-try", "grant with --ro PATH[:AT]"),
    ("--ro-bind-fd", "grant with --ro PATH[:AT]"),
    ("--ro-bind-data", "grant with --ro PATH[:AT]"),
    ("--dev-bind", "leave it out: devices of the host can't be granted"),
    ("--dev-bind-try", "leave it out: devices of the host can't be granted"),
    ("--device", "leave it out: devices of the host can't be granted"),
    ("--gpus", "leave it out: devices of the host can't be granted"),
    ("--overlay", "grant with --ro PATH[:AT]: writes stay in the pod"),
    ("--overlay-src", "grant with --ro PATH[:AT]: writes stay in the pod"),
    ("--tmp-overlay", "grant with --ro PATH[:AT]: writes stay in the pod"),
    ("--ro-overlay", "grant with --ro PATH[:AT]"),
    ("--remount-ro", "leave it out: only what --rw grants is writable on the host"),
    ("--dir", PRIVATE),
    ("--file", GRANT_RO),
    ("--symlink", "make it in the pod: hull run -- sh -c 'ln -s ...; exec ...'"),
    ("--chmod", "do it in the pod: hull run -- sh -c 'chmod ...; exec ...'"),
    ("--perms", "do it in the pod: hull run -- sh -c 'chmod ...; exec ...'"),
    ("--size", "limit what files in memory take with --private-size SIZE"),
    ("--storage-opt", "limit what files in memory take with --private-size SIZE"),
    ("--dev", OWN),
    ("--proc", OWN),
    ("--mqueue", OWN),
    ("--as-pid-1", "leave it out: the pod's process 1 is its kernel's"),
    ("--restart", "leave it out: start hull again"),
    ("--argv0", "name the program after `--`"),
    ("--args", "write the options out"),
    ("-d", "leave it out: start hull in the background with `&`"),
    ("--detach", "leave it out: start hull in the background with `&`"),
    ("--detach-keys", "leave it out: a pod lives as long as hull"),
    ("-a", "leave it out: standard streams are always connected"),
    ("--attach", "leave it out: standard streams are always connected"),
    ("--sig-proxy", "leave it out: signals are always passed on"),
    ("--stop-timeout", "limit the time with --timeout DURATION"),
    ("--log-driver", "leave it out: redirect standard output"),
    ("--log-opt", "leave it out: redirect standard output"),
    ("--network", NETWORK),
    ("--network-alias", NETWORK),
    ("--share-net", NETWORK),
    ("--ip", NETWORK),
    ("--link", NETWORK),
    ("--mac-address", NETWORK),
    ("--ipc", ISOLATED),
    ("--pid", ISOLATED),
    ("--uts", ISOLATED),
    ("--userns", ISOLATED),
    ("--userns2", ISOLATED),
    ("--cgroupns", ISOLATED),
    ("--cgroup-parent", "start hull in that control group"),
    ("--disable-userns", ISOLATED),
    ("--assert-userns-disabled", ISOLATED),
    ("--isolation", ISOLATED),
    ("--runtime", ISOLATED),
    ("--new-session", "leave it out: input can't be put into the terminal's queue (TIOCSTI)"),
    (
        "--die-with-parent",
        "leave it out: a pod ends with hull; start it with setpriv --pdeathsig KILL if that shall end with its parent",
    ),
    ("--lock-file", "use flock(1) around hull"),
    ("--sync-fd", "wait for hull itself"),
    ("--block-fd", "start hull when it shall start"),
    ("--userns-block-fd", "start hull when it shall start"),
    ("--info-fd", NO_COUNTERPART),
    ("--json-status-fd", "take hull's exit code"),
    ("--privileged", RIGHTS),
    ("--seccomp", RIGHTS),
    ("--add-seccomp-fd", RIGHTS),
    ("--exec-label", RIGHTS),
    ("--file-label", RIGHTS),
    ("--uid", "choose with --user USER[:GROUP]"),
    ("--gid", "choose with --user USER[:GROUP]"),
    ("--chdir", "choose with --workdir DIR"),
    ("--setenv", "set with --env NAME=VALUE"),
    ("--unsetenv", "leave it out: only what --env names and the usual variables are passed; or use env -u in the pod"),
    ("--clearenv", "leave it out: only the usual variables are passed; or use env -i in the pod"),
    ("--clear-env", "leave it out: only the usual variables are passed (--env-all: all)"),
    ("--memory-swap", "limit memory with --memory SIZE"),
    ("--cpuset-cpus", "choose processors with taskset(1), and their number with --cpus N"),
];

/// The remedy for an option of another tool.
fn counterpart(option: &str) -> Option<&'static str> {
    if option.starts_with("--unshare-") {
        return Some(ISOLATED);
    }
    FOREIGN.iter().find(|(name, _)| *name == option).map(|(_, text)| *text)
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
                return Failure::request(argument.unwrap_or(name), "not known here", SEE);
            }
            // In `trace` single letters are strace's.
            let foreign = (command == "run" || name.starts_with("--")).then(|| counterpart(name)).flatten();
            match (foreign, text(ContextKind::SuggestedArg)) {
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
    use clap::{CommandFactory, Parser};

    fn line(words: &str) -> String {
        let words: Vec<OsString> = words.split(' ').map(Into::into).collect();
        let error = Hull::try_parse_from(&words).unwrap_err();
        let text = explain(&error, &words).to_string();
        assert!(text.lines().count() == 1 && text.contains(": ") && text.contains("; "), "{text}");
        text
    }

    #[test]
    fn other_tools_options_lead_to_ours() {
        for (name, text) in FOREIGN {
            assert_eq!(line(&format!("hull run {name} x")), format!("{name}: Hull has no such option; {text}"));
        }
        assert!(line("hull run --unshare-all --share-net -- ls").ends_with(ISOLATED));
        assert!(line("hull run -itd debian").starts_with("-d: "));
        assert!(line("hull trace -p 1 -- ls").ends_with("see hull trace --help"));
        assert!(line("hull run --memroy 1G -- ls").contains("did you mean --memory?"));
    }

    /// Options of `FOREIGN` are not Hull's; options in its remedies are.
    #[test]
    fn the_table_is_true() {
        let mut hull = Hull::command();
        hull.build();
        let run = hull.find_subcommand("run").unwrap();
        let ours: Vec<String> = run.get_arguments().filter_map(|a| a.get_long()).map(|l| format!("--{l}")).collect();
        let short: Vec<String> = run.get_arguments().filter_map(|a| a.get_short()).map(|c| format!("-{c}")).collect();
        for (name, text) in FOREIGN {
            assert!(!ours.contains(&name.into()) && !short.contains(&name.into()), "{name} is an option of Hull");
            for word in text.split([' ', '(', ')', ':', ',', ';']).filter(|word| word.starts_with("--")) {
                assert!(
                    matches!(word, "--" | "--pdeathsig") || ours.contains(&word.into()),
                    "{name}: {word} does not exist"
                );
            }
        }
    }

    #[test]
    fn wrong_lines() {
        let expect = |words: &str, text: &str| assert_eq!(line(words), text);
        expect("hull", "no command: nothing to do; write hull run -- PROGRAM [ARGS]..., or see hull --help");
        let nothing = format!("run: no image or program is named; {LINE}");
        expect("hull run", &nothing);
        expect("hull run --", &nothing);
        expect("hull run --cpus 1 --cpus 2 -- ls", "--cpus: given twice; give it once");
        expect("hull trace -c -C -- ls", "--summary-only: contradicts --summary; choose one of them");
        expect("hull run --memory", "--memory: a value is missing; write --memory <SIZE>");
        expect(
            "hull run --memory 1Q -- ls",
            "--memory 1Q: not a size; write a number with an optional suffix K, M, G or T, such as 512M",
        );
        expect("hull run --doorbell=x -- ls", "--doorbell x: not known; choose one of adaptive, exit, event, poll");
        assert!(line("hull run --cpus 0 -- ls").starts_with("--cpus 0: "));
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
