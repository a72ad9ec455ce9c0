//! The environment of the program.

use crate::failure::{Failure, Result, reason};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Variables of hull's environment that every pod gets: those that programs commonly need and that rarely hold secrets.
/// `LC_*` and `PWD` are passed too.
const KEPT: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "LANG", "TZ"];
/// `PATH` if hull's environment has none.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables by name.
pub type Variables = BTreeMap<OsString, OsString>;

/// Environment options of the command line.
#[derive(Debug, Default)]
pub struct Wanted<'o> {
    /// `--env-all`.
    pub all: bool,
    /// `--env-file`, in command line order.
    pub files: &'o [PathBuf],
    /// `--env`, in command line order.
    pub set: &'o [OsString],
}

/// Builds the environment in this order: the passed part of hull's own, `forced`, the files, `--env`.
pub fn build(host: &Variables, forced: Variables, wanted: &Wanted) -> Result<Variables> {
    let kept =
        |name: &OsStr| wanted.all || KEPT.iter().any(|kept| name == *kept) || name.as_bytes().starts_with(b"LC_");
    let passed =
        host.iter().filter(|(name, _)| kept(name)).map(|(name, value)| (name.clone(), value.clone())).collect();
    build_from(passed, host, forced, wanted)
}

/// The same from other variables than those of hull's environment, `host`, which is asked for those without a value.
pub fn build_from(mut variables: Variables, host: &Variables, forced: Variables, wanted: &Wanted) -> Result<Variables> {
    variables.extend(forced);
    for path in wanted.files {
        let what = |line: usize| match line {
            0 => format!("--env-file {}", path.display()),
            line => format!("--env-file {}:{line}", path.display()),
        };
        let content = std::fs::read(path)
            .map_err(|error| Failure::request(what(0), reason(&error), "name a file that can be read"))?;
        // Skip a byte order mark.
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&content);
        for (number, line) in (1..).zip(content.split(|&byte| byte == b'\n')) {
            let line = line.strip_suffix(b"\r").unwrap_or(line).trim_ascii_start();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            if line.split(|&byte| byte == b'=').next().is_some_and(|name| name.iter().any(u8::is_ascii_whitespace)) {
                return Err(Failure::request(what(number), "white space in a name", "write NAME=VALUE or NAME"));
            }
            assign(&mut variables, host, line)
                .map_err(|why| Failure::request(what(number), why, "write NAME=VALUE or NAME"))?;
        }
    }
    for option in wanted.set {
        assign(&mut variables, host, option.as_bytes())
            .map_err(|why| Failure::request(format!("--env {}", option.display()), why, "write NAME=VALUE or NAME"))?;
    }
    variables.entry("PATH".into()).or_insert_with(|| DEFAULT_PATH.into());
    Ok(variables)
}

/// Applies `NAME=VALUE` or `NAME`; returns the reason if it is malformed.
fn assign(variables: &mut Variables, host: &Variables, text: &[u8]) -> std::result::Result<(), &'static str> {
    let (name, value) = match text.iter().position(|&byte| byte == b'=') {
        Some(index) => (&text[..index], Some(OsStr::from_bytes(&text[index + 1..]).to_owned())),
        None => (text, host.get(OsStr::from_bytes(text)).cloned()),
    };
    if name.is_empty() {
        return Err("no name");
    }
    if text.contains(&0) {
        return Err("a zero byte");
    }
    let name = OsStr::from_bytes(name).to_owned();
    match value {
        Some(value) => variables.insert(name, value),
        // A variable that hull itself does not have is removed, as docker does.
        None => variables.remove(&name),
    };
    Ok(())
}

/// The variables as `NAME=value` strings.
pub fn strings(variables: Variables) -> Vec<Vec<u8>> {
    let string = |(name, value): (OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
    variables.into_iter().map(string).collect()
}

/// hull's own environment. It may hold secrets that the pod must not see, so `drop` overwrites the copies.
#[derive(Debug, Default)]
pub struct Host(Variables);

impl std::ops::Deref for Host {
    type Target = Variables;

    fn deref(&self) -> &Variables {
        &self.0
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for (name, value) in std::mem::take(&mut self.0) {
            wipe(name);
            wipe(value);
        }
    }
}

fn wipe(text: OsString) {
    let mut bytes = text.into_vec();
    bytes.fill(0);
    // Keeps the compiler from removing the write.
    std::hint::black_box(&bytes);
}

/// hull's environment; entries without `=` are skipped.
pub fn host() -> Host {
    let mut variables = Variables::new();
    for (name, value) in std::env::vars_os() {
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            wipe(value);
        } else {
            variables.insert(name, value);
        }
    }
    Host(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(list: &[(&str, &str)]) -> Variables {
        list.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn little_is_passed_and_options_override() {
        let host = variables(&[("PATH", "/bin"), ("TOKEN", "secret"), ("LC_ALL", "C"), ("PWD", "/x"), ("TZ", "UTC")]);
        let forced = variables(&[("PWD", "/y")]);
        let options = ["A=b=c".into(), "TOKEN".into(), "NONE".into(), "PATH=/opt".into()];
        let usual = build(&host, forced.clone(), &Wanted::default()).unwrap();
        assert_eq!(usual, variables(&[("PATH", "/bin"), ("LC_ALL", "C"), ("PWD", "/y"), ("TZ", "UTC")]));
        let all = build(&host, forced.clone(), &Wanted { all: true, ..Wanted::default() }).unwrap();
        assert_eq!(all.len(), 5);
        assert_eq!(all[OsStr::new("TOKEN")], "secret");
        let set = build(&host, forced, &Wanted { set: &options, ..Wanted::default() }).unwrap();
        let expected =
            [("PATH", "/opt"), ("TOKEN", "secret"), ("LC_ALL", "C"), ("PWD", "/y"), ("A", "b=c"), ("TZ", "UTC")];
        assert_eq!(set, variables(&expected));
        assert!(build(&host, Variables::new(), &Wanted { set: &["=x".into()], ..Wanted::default() }).is_err());
        assert!(build(&host, Variables::new(), &Wanted { set: &["".into()], ..Wanted::default() }).is_err());
        assert_eq!(strings(variables(&[("A", "b")])), [b"A=b".to_vec()]);
        let none = build(&Variables::new(), Variables::new(), &Wanted::default()).unwrap();
        assert!(none.contains_key(OsStr::new("PATH")));
    }

    #[test]
    fn files_are_read_as_docker_reads_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("env");
        let read = |content: &[u8], set: &[OsString]| {
            std::fs::write(&path, content).unwrap();
            let files = [path.clone()];
            build(
                &variables(&[("TOKEN", "secret"), ("PATH", "/bin")]),
                Variables::new(),
                &Wanted { files: &files, set, all: false },
            )
            .map_err(|failure| failure.to_string())
        };
        let content = b"\xef\xbb\xbf# comment\n\n  A=1 \nB= \"q\" # no comment\r\nTOKEN\nNONE\nC=\nA=2";
        let set = read(content, &["C=3".into()]).unwrap();
        let expected = [("A", "2"), ("B", " \"q\" # no comment"), ("C", "3"), ("TOKEN", "secret"), ("PATH", "/bin")];
        assert_eq!(set, variables(&expected));
        assert!(read(b"A=1\nB C=1\n", &[]).unwrap_err().contains(":2: white space in a name; "));
        assert!(read(b"=1\n", &[]).unwrap_err().contains(":1: no name; "));
        assert!(read(b"A=\0\n", &[]).unwrap_err().contains(":1: a zero byte; "));
        let files = [PathBuf::from("/no/such")];
        let wanted = Wanted { files: &files, ..Wanted::default() };
        let text = build(&Variables::new(), Variables::new(), &wanted).unwrap_err().to_string();
        assert_eq!(text, "--env-file /no/such: no such file or directory; name a file that can be read");
    }
}
