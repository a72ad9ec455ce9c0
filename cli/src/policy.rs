//! `hull policy`, for files and for running pods, and `--policy` of `hull run`.

use crate::args::RunArgs;
use crate::container::Ulimit;
use crate::cpus::Cpus;
use crate::failure::{Failure, Result, reason};
use crate::network::{self, Published};
use crate::pods;
use crate::rate::{self, RateLimit};
use crate::values::{Grant, amount, duration, size};
use clap::{Args, Subcommand};
use policy::file::MAX_BYTES;
use policy::query::Query;
use policy::{Policy, Rule, Verdict};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Exit code of `explain` for what the policy denies.
const EXIT_DENIED: u8 = 1;

/// Options of `policy`.
#[derive(Args, Debug)]
pub struct PolicyArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// The commands of `policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Check a policy file and show its rules
    Check {
        /// The file
        file: PathBuf,
    },
    /// Say which rule of a policy decides; exits with 0 if it allows, with 1 if it denies
    Explain {
        /// The file
        file: PathBuf,
        /// `connect tcp|udp|icmp PEER[:PORT]` or `resolve NAME`
        query: String,
    },
    /// Show the rules of a running pod
    Show {
        /// Its name or id, see hull ps
        pod: String,
    },
    /// Allow peers to a running pod
    Allow(Change),
    /// Deny peers to a running pod; connections to them end
    Deny(Change),
    /// Remove rules of a running pod that were written like this; connections that none of the others allows end
    Revoke(Change),
}

/// A change of a running pod's rules.
#[derive(Args, Debug)]
pub struct Change {
    /// Its name or id, see hull ps
    pod: String,
    /// The peers, as --allow and --deny take them
    #[arg(value_name = "[tcp:|udp:|icmp:]PEER[:PORT[-PORT]]")]
    rule: String,
}

/// Changes a rule of a running pod.
fn change(verb: &str, Change { pod, rule }: &Change) -> Result<(String, u8)> {
    let what = format!("policy {verb} {pod} {rule}");
    // A wrong rule is reported even if no such pod runs.
    Rule::parse(rule, Verdict::Allow).map_err(|error| Failure::request(&what, error, "see docs/policy.md"))?;
    Ok((pods::command(&what, pod, &format!("{verb} {rule}"))?, 0))
}

/// Reads a policy file.
fn load(path: &Path) -> Result<Policy> {
    let what = || format!("policy {}", path.display());
    let unreadable = |error: std::io::Error| Failure::request(what(), reason(&error), "name a file that can be read");
    let mut bytes = Vec::new();
    // One byte more than it may have: more of it is not read.
    File::open(path).map_err(unreadable)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    Policy::parse(&bytes).map_err(|error| Failure::request(what(), error, "see docs/policy.md"))
}

/// Runs `hull policy`; its exit code.
pub fn run(options: &PolicyArgs) -> Result<u8> {
    let (text, code) = match &options.command {
        PolicyCommand::Check { file } => {
            let policy = load(file)?;
            merged(file, &policy)?;
            (summary(&policy), 0)
        }
        PolicyCommand::Explain { file, query } => {
            let policy = load(file)?;
            let query = Query::parse(query).map_err(|error| {
                Failure::request(format!("query {query:?}"), error, "see hull policy explain --help")
            })?;
            let (allowed, text) = query.explain(&policy);
            (text, if allowed { 0 } else { EXIT_DENIED })
        }
        PolicyCommand::Show { pod } => (pods::command(&format!("policy show {pod}"), pod, "show")?, 0),
        PolicyCommand::Allow(options) => change("allow", options)?,
        PolicyCommand::Deny(options) => change("deny", options)?,
        PolicyCommand::Revoke(options) => change("revoke", options)?,
    };
    // Ignore EPIPE and the like: the exit code tells the outcome.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(code)
}

/// The rules in the order of the file.
fn summary(policy: &Policy) -> String {
    let mut text = String::new();
    let grants = [("read", &policy.files.read), ("write", &policy.files.write)];
    for (kind, grant) in grants.into_iter().flat_map(|(kind, paths)| paths.iter().map(move |path| (kind, path))) {
        text += &format!("{kind} {grant}\n");
    }
    for ports in &policy.publish {
        text += &format!("publish {ports}\n");
    }
    for ports in &policy.listen {
        text += &format!("listen {ports}\n");
    }
    for rule in &policy.network.rules {
        text += &format!("{}\n", rule.summary());
    }
    text + "the policy is valid\n"
}

/// What a policy adds to a command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Merged {
    ro: Vec<Grant>,
    rw: Vec<Grant>,
    memory: Option<u64>,
    private_size: Option<u64>,
    cpus: Option<Cpus>,
    timeout: Option<std::time::Duration>,
    processes: Option<i64>,
    open_files: Option<Ulimit>,
    rate: Vec<RateLimit>,
    env: Vec<std::ffi::OsString>,
    publish: Vec<Published>,
}

/// Reads the values of a policy as the options of the same meaning are read. Paths are relative to the file's directory.
fn merged(file: &Path, policy: &Policy) -> Result<Merged> {
    let wrong = |key: &str, value: &str, why: String| {
        let (why, remedy) =
            why.split_once("; ").map_or((why.clone(), "see docs/policy.md"), |(why, remedy)| (why.to_owned(), remedy));
        Failure::request(format!("policy {}: {key} = {value:?}", file.display()), why, remedy)
    };
    let directory = file.parent().unwrap_or(Path::new(""));
    let grants = |key: &str, texts: &[String]| -> Result<Vec<Grant>> {
        let grant = |text: &String| match Grant::parse(text.into()) {
            Ok(grant) => Ok(Grant { host: directory.join(grant.host), at: grant.at }),
            Err(why) => Err(wrong(key, text, why)),
        };
        texts.iter().map(grant).collect()
    };
    fn value<T>(
        key: &str,
        text: &Option<String>,
        parse: fn(&str) -> std::result::Result<T, String>,
        wrong: impl Fn(&str, &str, String) -> Failure,
    ) -> Result<Option<T>> {
        text.as_deref().map(|text| parse(text).map_err(|why| wrong(key, text, why))).transpose()
    }
    let limits = &policy.limits;
    let publish = policy.publish.iter().map(|text| network::publish(text).map_err(|why| wrong("publish", text, why)));
    let rate = |text: &String| rate::parse(text).map_err(|why| wrong("rate", text, why));
    let environment = &policy.environment;
    let set = environment.set.iter().map(|(name, value)| format!("{name}={value}").into());
    Ok(Merged {
        ro: grants("read", &policy.files.read)?,
        rw: grants("write", &policy.files.write)?,
        memory: value("memory", &limits.memory, size, wrong)?,
        private_size: value("private-size", &limits.private_size, amount, wrong)?,
        cpus: value("cpus", &limits.cpus, Cpus::parse, wrong)?,
        timeout: value("timeout", &limits.timeout, duration, wrong)?,
        processes: limits.processes.map(i64::from),
        open_files: limits.open_files.map(Ulimit::of_open_files),
        rate: limits.rate.iter().map(rate).collect::<Result<_>>()?,
        publish: publish.collect::<Result<_>>()?,
        env: environment.pass.iter().map(Into::into).chain(set).collect(),
    })
}

/// Adds what `--policy` says to the other options, which win over its limits and variables.
pub fn apply(mut options: RunArgs) -> Result<RunArgs> {
    let Some(file) = &options.policy else { return Ok(options) };
    let policy = load(file)?;
    let merged = merged(file, &policy)?;
    options.network.add(policy.network.rules, merged.publish, policy.listen);
    options.no_host |= !policy.files.host;
    options.env_all |= policy.environment.all;
    options.ro.splice(..0, merged.ro);
    options.rw.splice(..0, merged.rw);
    options.env.splice(..0, merged.env);
    options.memory = options.memory.or(merged.memory);
    options.private_size = options.private_size.or(merged.private_size);
    options.cpus = options.cpus.or(merged.cpus);
    options.timeout = options.timeout.or(merged.timeout);
    options.rights.pids_limit = options.rights.pids_limit.or(merged.processes);
    // Later values win.
    options.container.ulimit.splice(..0, merged.open_files);
    options.rate.splice(..0, merged.rate);
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, Hull};
    use clap::Parser;
    use std::time::Duration;

    fn applied(policy: &str, line: &[&str]) -> Result<RunArgs> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("policy.toml");
        std::fs::write(&file, policy).unwrap();
        let words = ["hull", "run", "--policy", file.to_str().unwrap()];
        match Hull::try_parse_from(words.iter().chain(line)).unwrap().command {
            Command::Run(options) => apply(options).map(|mut options| {
                for grant in options.ro.iter_mut().chain(&mut options.rw) {
                    grant.host = grant.host.strip_prefix(dir.path()).unwrap_or(&grant.host).into();
                }
                options
            }),
            other => panic!("{other:?}"),
        }
    }

    const POLICY: &str = "version = 1\n[files]\nhost = false\nread = ['data:/data']\nwrite = ['/out']\n[limits]\n\
        memory = '1G'\ncpus = 1.5\ntimeout = '5s'\nprocesses = 9\nopen-files = 64\nrate = ['files=1M/s']\n[environment]\npass = ['LANG']\nset = { A = 'b' }";

    #[test]
    fn the_command_line_wins() {
        let options = applied(POLICY, &["--memory", "2G", "--ro", "more", "-e", "A=c", "--", "x"]).unwrap();
        assert_eq!(
            (options.memory, options.cpus, options.timeout),
            (Some(2 << 30), Some(Cpus::parse("1.5").unwrap()), Some(Duration::from_secs(5)))
        );
        assert_eq!(options.rights.pids_limit, Some(9));
        // No limit, which `run` makes of it.
        assert_eq!(applied(POLICY, &["--timeout", "0", "--", "x"]).unwrap().timeout, Some(Duration::ZERO));
        assert_eq!(options.container.ulimit, [Ulimit::of_open_files(64)]);
        assert_eq!(crate::rate::rates(&options.rate).files.bytes.map(u64::from), Some(1 << 20));
        let grant = |host: &str, at: Option<&str>| Grant { host: host.into(), at: at.map(Into::into) };
        assert_eq!(options.ro, [grant("data", Some("/data")), grant("more", None)]);
        assert_eq!(options.rw, [grant("/out", None)]);
        assert_eq!(options.env, ["LANG", "A=b", "A=c"]);
        assert!(options.no_host && !options.env_all);
        let policy =
            "version = 1\n[network]\nallow = ['a.b:1']\ndeny = ['a.c']\npublish = ['80:80']\nlisten = ['udp:53']";
        let options = applied(policy, &["--allow", "d.e", "-p", "81:81", "--", "x"]).unwrap().network;
        let rules: Vec<String> = options.allow.iter().map(ToString::to_string).collect();
        assert_eq!(rules, ["allow a.b:1", "deny a.c", "allow d.e"]);
        assert_eq!(options.publish.len(), 2);
        assert_eq!(options.allow_listen[0].to_string(), "udp:53");
    }

    #[test]
    fn mistakes_are_one_line() {
        let line = |policy: &str| {
            let text = applied(policy, &["--", "x"]).unwrap_err().to_string();
            text.split_once(".toml: ").unwrap().1.to_owned()
        };
        assert_eq!(
            line("version = 1\n[limits]\nmemory = '1Q'"),
            "memory = \"1Q\": not a size; write a number with an optional suffix K, M, G or T, such as 512M"
        );
        assert!(
            line("version = 1\n[limits]\ncpus = 0.001")
                .starts_with("cpus = \"0.001\": not a number of processors; give 0.01 to ")
        );
        assert!(line("version = 1\n[files]\nread = [':']").starts_with("read = \":\": no path; "));
        assert!(line("version = 1\n[network]\npublish = ['x']").starts_with("publish = \"x\": not a published port; "));
        assert!(line("version = 1\n[network]\nlisten = ['x']").starts_with("line 3: \"x\": not ports to listen on; "));
        assert_eq!(line("version = 3"), "line 1: this hull reads policies of version 1; see docs/policy.md");
    }
}
