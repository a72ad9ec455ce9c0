//! The environment of the program.

use crate::failure::{Failure, Result};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What `--clear-env` keeps.
const KEPT: [&str; 7] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG"];
/// `PATH` if there is none.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables by name.
pub type Variables = BTreeMap<OsString, OsString>;

/// Builds the environment: hull's own (all of it, since the program is the user's; or the harmless part
/// of it), then `forced`, then what `--env` says.
pub fn build(host: Variables, clear: bool, forced: Variables, options: &[OsString]) -> Result<Variables> {
    let keep = |name: &OsStr| !clear || KEPT.iter().any(|kept| name == *kept) || name.as_bytes().starts_with(b"LC_");
    let mut variables: Variables =
        host.iter().filter(|(name, _)| keep(name)).map(|(name, value)| (name.clone(), value.clone())).collect();
    variables.extend(forced);
    for option in options {
        let bytes = option.as_bytes();
        let (name, value) = match bytes.iter().position(|&byte| byte == b'=') {
            Some(0) => {
                let what = format!("--env {}", option.display());
                return Err(Failure::request(what, "no name", "write NAME=VALUE or NAME"));
            }
            Some(index) => (&bytes[..index], Some(OsStr::from_bytes(&bytes[index + 1..]).to_owned())),
            None => (bytes, host.get(option).cloned()),
        };
        let name = OsStr::from_bytes(name).to_owned();
        match value {
            Some(value) => variables.insert(name, value),
            // A variable that hull itself doesn't have is not set in the pod either.
            None => variables.remove(&name),
        };
    }
    variables.entry("PATH".into()).or_insert_with(|| DEFAULT_PATH.into());
    Ok(variables)
}

/// As `NAME=value` strings.
pub fn strings(variables: Variables) -> Vec<Vec<u8>> {
    let string = |(name, value): (OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
    variables.into_iter().map(string).collect()
}

/// A variable from strings for the host's environment; names without a value are left out.
pub fn host() -> Variables {
    std::env::vars_os().filter(|(name, _)| !name.is_empty() && !name.clone().into_vec().contains(&b'=')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(list: &[(&str, &str)]) -> Variables {
        list.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn options_override() {
        let host = variables(&[("PATH", "/bin"), ("TOKEN", "secret"), ("LC_ALL", "C"), ("PWD", "/x")]);
        let forced = variables(&[("PWD", "/y")]);
        let options = ["A=b=c".into(), "TOKEN".into(), "NONE".into(), "PATH=/opt".into()];
        let all = build(host.clone(), false, forced.clone(), &[]).unwrap();
        assert_eq!(all, variables(&[("PATH", "/bin"), ("TOKEN", "secret"), ("LC_ALL", "C"), ("PWD", "/y")]));
        let cleared = build(host.clone(), true, forced.clone(), &[]).unwrap();
        assert_eq!(cleared, variables(&[("PATH", "/bin"), ("LC_ALL", "C"), ("PWD", "/y")]));
        let set = build(host.clone(), true, forced, &options).unwrap();
        let expected = [("PATH", "/opt"), ("TOKEN", "secret"), ("LC_ALL", "C"), ("PWD", "/y"), ("A", "b=c")];
        assert_eq!(set, variables(&expected));
        assert!(build(host, false, Variables::new(), &["=x".into()]).is_err());
        assert_eq!(strings(variables(&[("A", "b")])), [b"A=b".to_vec()]);
        assert!(build(Variables::new(), false, Variables::new(), &[]).unwrap().contains_key(OsStr::new("PATH")));
    }
}
