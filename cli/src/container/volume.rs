//! `--volume`.

use crate::values::{Grant, normal};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What `--volume` and `--mount` put into the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Volume {
    /// A grant of the host.
    Grant {
        /// What and where.
        grant: Grant,
        /// Changes fail.
        read_only: bool,
    },
    /// A private directory.
    Private(PathBuf),
}

impl Volume {
    /// Parses `[PATH:]AT[:ro|:rw]`.
    pub fn parse(text: OsString) -> std::result::Result<Self, String> {
        let bytes = text.as_bytes();
        let has_both = |bytes: &[u8]| bytes.windows(2).any(|pair| pair == b":/");
        let (bytes, read_only) = match bytes.iter().rposition(|&byte| byte == b':') {
            Some(at) if at > 0 && !bytes[at + 1..].contains(&b'/') => {
                let last = String::from_utf8_lossy(&bytes[at + 1..]);
                if last.is_empty() {
                    return Err("nothing after the last colon; write PATH:AT or PATH:AT:ro".into());
                }
                if !has_both(&bytes[..at]) {
                    return Err(format!(
                        "the path in the pod begins with a slash, not as {last}; write PATH:AT or PATH:AT:ro"
                    ));
                }
                let flags: Vec<&[u8]> = bytes[at + 1..].split(|&byte| byte == b',').collect();
                flags.iter().try_for_each(|flag| known(flag))?;
                (&bytes[..at], flags.contains(&&b"ro"[..]))
            }
            _ => (bytes, false),
        };
        if !has_both(bytes) {
            return match normal(Path::new(OsStr::from_bytes(bytes))) {
                Ok(at) => Ok(Self::Private(at)),
                Err(_) => Err("no absolute path in the pod; write PATH:AT, PATH:AT:ro or AT".into()),
            };
        }
        let grant = Grant::parse(OsStr::from_bytes(bytes).to_owned())?;
        if !grant.host.as_os_str().as_bytes().contains(&b'/') && grant.host != Path::new(".") {
            let name = grant.host.display();
            return Err(format!("volumes have no names; name a directory by its path, as in ./{name}"));
        }
        Ok(Self::Grant { grant, read_only })
    }
}

/// Checks a word after the last colon. Labels, and promises about the order of writes, have no counterpart, and no effect
/// that a pod could see; mounts of a pod are private.
fn known(flag: &[u8]) -> std::result::Result<(), String> {
    match flag {
        b"ro" | b"rw" | b"z" | b"Z" | b"consistent" | b"cached" | b"delegated" | b"private" | b"rprivate" => Ok(()),
        b"shared" | b"rshared" | b"slave" | b"rslave" => {
            let flag = String::from_utf8_lossy(flag);
            Err(format!("mounts of a pod stay in the pod; leave {flag} out"))
        }
        other => Err(format!("unknown option {}; write ro or rw", String::from_utf8_lossy(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes() {
        let parse = |text: &str| Volume::parse(text.into());
        let grant = |host: &str, at: &str, read_only| {
            Ok(Volume::Grant { grant: Grant { host: host.into(), at: Some(at.into()) }, read_only })
        };
        assert_eq!(parse("/a:/b"), grant("/a", "/b", false));
        assert_eq!(parse("./a:/b/:ro"), grant("./a", "/b", true));
        assert_eq!(parse(".:/b:rw,z"), grant(".", "/b", false));
        assert_eq!(parse("/a:/b:cached,ro,rprivate"), grant("/a", "/b", true));
        assert_eq!(parse("/data"), Ok(Volume::Private("/data".into())));
        for (text, why) in [
            ("data:/b", "volumes have no names; name a directory by its path, as in ./data"),
            ("a:b", "the path in the pod begins with a slash, not as b; write PATH:AT or PATH:AT:ro"),
            ("/data:ro", "the path in the pod begins with a slash, not as ro; write PATH:AT or PATH:AT:ro"),
            ("/a:/b:", "nothing after the last colon; write PATH:AT or PATH:AT:ro"),
            ("/a:/b:ro,rslave", "mounts of a pod stay in the pod; leave rslave out"),
            ("/a:/b:rx", "unknown option rx; write ro or rw"),
            ("data", "no absolute path in the pod; write PATH:AT, PATH:AT:ro or AT"),
            ("/a:/b/../c", "the path in the pod can't contain `..`"),
        ] {
            assert_eq!(parse(text), Err(why.into()), "{text}");
        }
    }
}
