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
        let (bytes, read_only) = match bytes.iter().rposition(|&byte| byte == b':') {
            Some(at) if at > 0 && !bytes[at + 1..].contains(&b'/') => {
                let flags: Vec<&[u8]> = bytes[at + 1..].split(|&byte| byte == b',').collect();
                // Labels and propagation have no counterpart, and no effect that a pod could see.
                if let Some(other) = flags.iter().find(|flag| !matches!(**flag, b"ro" | b"rw" | b"z" | b"Z")) {
                    return Err(format!("unknown option {}; write ro or rw", String::from_utf8_lossy(other)));
                }
                (&bytes[..at], flags.contains(&&b"ro"[..]))
            }
            _ => (bytes, false),
        };
        if !bytes.windows(2).any(|pair| pair == b":/") {
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
        assert_eq!(parse("/data"), Ok(Volume::Private("/data".into())));
        for (text, why) in [
            ("data:/b", "volumes have no names; name a directory by its path, as in ./data"),
            ("/a:/b:rx", "unknown option rx; write ro or rw"),
            ("data", "no absolute path in the pod; write PATH:AT, PATH:AT:ro or AT"),
            ("/a:/b/../c", "the path in the pod can't contain `..`"),
        ] {
            assert_eq!(parse(text), Err(why.into()), "{text}");
        }
    }
}
