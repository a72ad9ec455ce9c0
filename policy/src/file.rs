//! Policy files: TOML, version 1.

use crate::listen::Listen;
use crate::network::Network;
use crate::rule::{Peer, Refusal, Rule, Verdict};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;

/// The version that this program writes and reads.
pub const VERSION: u32 = 1;
/// Maximum size of a file in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// An error in a file, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The line, from 1 on; 0: the whole file.
    pub line: usize,
    /// The error, in one line.
    pub why: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.why),
            line => write!(f, "line {line}: {}", self.why),
        }
    }
}

impl std::error::Error for FileError {}

/// A policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Files of the host.
    pub files: Files,
    /// Peers.
    pub network: Network,
    /// Published ports, as of `--publish`.
    pub publish: Vec<String>,
    /// Ports that the pod may open by listening.
    pub listen: Vec<Listen>,
    /// Limits, in the format of the options of `hull run`.
    pub limits: Limits,
    /// The program's environment.
    pub environment: Environment,
}

/// `[files]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Files {
    /// The host's system directories are visible, as without `--no-host`.
    pub host: bool,
    /// Grants as of `--ro`.
    pub read: Vec<String>,
    /// Grants as of `--rw`.
    pub write: Vec<String>,
}

impl Default for Files {
    fn default() -> Self {
        Self { host: true, read: Vec::new(), write: Vec::new() }
    }
}

/// `[limits]`: texts in the format of the options of `hull run` with the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Limits {
    /// `--memory`.
    pub memory: Option<String>,
    /// `--private-size`.
    pub private_size: Option<String>,
    /// `--cpus`: a number, also with a point.
    #[serde(deserialize_with = "number")]
    pub cpus: Option<String>,
    /// `--timeout`.
    pub timeout: Option<String>,
    /// `--pids-limit`: most threads of all processes.
    pub processes: Option<u32>,
    /// Soft and hard limit of open files of each process, `--ulimit nofile=`.
    pub open_files: Option<u64>,
    /// Each as `--rate`.
    pub rate: Vec<String>,
}

/// The text of a number.
fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "not a number without quotes, such as 1.5")]
    enum Number {
        Whole(i64),
        Fraction(f64),
    }
    Ok(Some(match Number::deserialize(deserializer)? {
        Number::Whole(number) => number.to_string(),
        Number::Fraction(number) => number.to_string(),
    }))
}

/// `[environment]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Environment {
    /// All of hull's environment, as `--env-all`.
    pub all: bool,
    /// Variables passed from hull's environment, as `--env NAME`.
    pub pass: Vec<String>,
    /// Variables set, as `--env NAME=VALUE`.
    pub set: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    version: Spanned<u32>,
    #[serde(default)]
    files: Files,
    #[serde(default)]
    network: RawNetwork,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    environment: Environment,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawNetwork {
    allow: Vec<Spanned<RawAllow>>,
    deny: Vec<Spanned<RawDeny>>,
    publish: Vec<String>,
    listen: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawAllow {
    Peer(String),
    Table(AllowTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AllowTable {
    peer: String,
    #[serde(default)]
    private: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawDeny {
    Peer(String),
    Table(DenyTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DenyTable {
    peer: String,
    #[serde(default)]
    error: Refusal,
}

/// The line that contains byte `at` of a text.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
}

impl Policy {
    /// Parses a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, FileError> {
        let whole = |why: &str| FileError { line: 0, why: why.to_owned() };
        if bytes.len() > MAX_BYTES {
            return Err(whole("larger than 1 MiB"));
        }
        let text = std::str::from_utf8(bytes).map_err(|error| FileError {
            line: 1 + bytes.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count(),
            why: "not UTF-8".to_owned(),
        })?;
        let raw: Raw = toml::from_str(text).map_err(|error| FileError {
            line: error.span().map_or(0, |span| line_of(text, span.start)),
            why: error.message().lines().next().unwrap_or("no TOML").to_owned(),
        })?;
        if *raw.version.get_ref() != VERSION {
            let line = line_of(text, raw.version.span().start);
            return Err(FileError { line, why: format!("this hull reads policies of version {VERSION}") });
        }
        let mut rules = Vec::new();
        for spanned in raw.network.allow {
            let line = line_of(text, spanned.span().start);
            let (peer, private) = match spanned.into_inner() {
                RawAllow::Peer(peer) => (peer, false),
                RawAllow::Table(table) => (table.peer, table.private),
            };
            let mut rule = parse_rule(&peer, Verdict::Allow, line)?;
            rule.private = private;
            if private && !matches!(rule.peer, Peer::Name(_) | Peer::Below(_)) {
                return Err(FileError { line, why: format!("\"{peer}\": only names have `private`") });
            }
            rules.push(rule);
        }
        for spanned in raw.network.deny {
            let line = line_of(text, spanned.span().start);
            let (peer, refusal) = match spanned.into_inner() {
                RawDeny::Peer(peer) => (peer, Refusal::default()),
                RawDeny::Table(table) => (table.peer, table.error),
            };
            rules.push(parse_rule(&peer, Verdict::Deny(refusal), line)?);
        }
        let mut listen = Vec::new();
        for spanned in raw.network.listen {
            let line = line_of(text, spanned.span().start);
            let ports = spanned.get_ref();
            let wrong = |why| FileError { line, why: format!("\"{}\": {why}", ports.escape_default()) };
            listen.push(ports.parse().map_err(wrong)?);
        }
        let Raw { files, limits, environment, .. } = raw;
        Ok(Self { files, network: Network { rules }, publish: raw.network.publish, listen, limits, environment })
    }
}

fn parse_rule(peer: &str, verdict: Verdict, line: usize) -> Result<Rule, FileError> {
    match Rule::parse(peer, verdict) {
        Ok(rule) => Ok(Rule { line, ..rule }),
        Err(error) => Err(FileError { line, why: format!("\"{}\": {error}", peer.escape_default()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
version = 1

[files]
host = false
read = ["/srv/data:/data"]
write = ["."]

[network]
allow = [
    "pypi.org:443",
    { peer = "db.corp:5432", private = true },
]
deny = [{ peer = "tcp:10.0.0.0/8", error = "refused" }, "1.1.1.1"]

[limits]
memory = "1G"
private-size = "64M"
cpus = 2
timeout = "30s"

[environment]
pass = ["HTTP_PROXY"]
set = { MODE = "test" }
"#;

    #[test]
    fn a_whole_file() {
        let policy = Policy::parse(WHOLE.as_bytes()).unwrap();
        let rules: Vec<(String, usize)> = policy.network.rules.iter().map(|r| (r.to_string(), r.line)).collect();
        let wanted =
            [("allow pypi.org:443", 11), ("allow db.corp:5432", 12), ("deny tcp:10.0.0.0/8", 14), ("deny 1.1.1.1", 14)];
        assert_eq!(rules, wanted.map(|(rule, line)| (rule.to_owned(), line)));
        assert!(policy.network.rules[1].private && !policy.network.rules[0].private);
        assert_eq!(policy.network.rules[2].verdict, Verdict::Deny(Refusal::Refused));
        assert_eq!(policy.limits.cpus.as_deref(), Some("2"));
        assert!(!policy.files.host && policy.files.read == ["/srv/data:/data"]);
        assert_eq!(policy.environment.set["MODE"], "test");
        assert!(Policy::parse(b"version = 1").unwrap().files.host);
    }

    #[test]
    fn mistakes_have_a_place() {
        let error = |text: &str| Policy::parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error("version = 2"), "line 1: this hull reads policies of version 1");
        assert!(error("").contains("version"), "{}", error(""));
        assert_eq!(
            error("version = 1\n[network]\nallow = [\n\"a:b\"]"),
            "line 4: \"a:b\": a port is a number from 1 to 65535, a range is PORT-PORT"
        );
        assert!(error("version = 1\n[network]\nalow = []").starts_with("line 3: unknown field `alow`"));
        assert_eq!(error("version = 1\n[limits]\ncpus = \"2\""), "line 3: not a number without quotes, such as 1.5");
        assert!(error("version = 1\n[limits\n").starts_with("line 2: "));
        assert_eq!(
            error("version = 1\n[network]\nallow = [{ peer = \"1.1.1.1\", private = true }]"),
            "line 3: \"1.1.1.1\": only names have `private`"
        );
        assert_eq!(Policy::parse(b"version = 1\n\xff").unwrap_err().to_string(), "line 2: not UTF-8");
        assert_eq!(Policy::parse(&vec![b' '; MAX_BYTES + 1]).unwrap_err().to_string(), "larger than 1 MiB");
    }
}
