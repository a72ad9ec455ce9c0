//! `--mount`: docker's long form of `--volume` and `--tmpfs`.

use super::tmpfs::tmpfs_at;
use super::volume::Volume;
use crate::values::{Grant, amount, normal};
use abi::boot::Tmpfs;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What is put somewhere in the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mount {
    /// Files of the host, or a private directory.
    Volume(Volume),
    /// A file system in memory.
    Tmpfs(Tmpfs),
}

const FORM: &str = "write type=bind,source=PATH,target=AT[,readonly], type=volume,target=AT or type=tmpfs,target=AT";

impl Mount {
    /// Parses `type=bind|volume|tmpfs,KEY=VALUE,...`.
    pub fn parse(text: OsString) -> Result<Self, String> {
        let (mut kind, mut source, mut target, mut read_only) = (b"volume".to_vec(), None, None, false);
        let (mut size, mut mode) = (None, None);
        for field in text.as_bytes().split(|&byte| byte == b',') {
            let at = field.iter().position(|&byte| byte == b'=');
            let (key, value) = at.map_or((field, None), |at| (&field[..at], Some(&field[at + 1..])));
            let (key, shown) = (String::from_utf8_lossy(key), String::from_utf8_lossy(field));
            let path = |value: Option<&[u8]>| match value {
                Some(value) if !value.is_empty() => Ok(PathBuf::from(OsString::from_vec(value.to_vec()))),
                _ => Err(format!("{key} has no value; {FORM}")),
            };
            match (&*key, value) {
                ("type", Some(value)) => kind = value.to_vec(),
                ("source" | "src", value) => source = Some(path(value)?),
                ("target" | "destination" | "dst", value) => {
                    target = Some(normal(&path(value)?).map_err(|why| format!("{why}; {FORM}"))?)
                }
                ("readonly" | "ro", None | Some(b"true" | b"1")) => read_only = true,
                ("readonly" | "ro", Some(b"false" | b"0")) => read_only = false,
                // What is mounted beneath a grant belongs to it, and mounts of the pod stay in the pod.
                ("bind-propagation", Some(b"private" | b"rprivate")) | ("consistency", Some(_)) => {}
                ("bind-recursive", Some(b"enabled" | b"writable")) | ("bind-nonrecursive", Some(b"false" | b"0")) => {}
                ("bind-recursive" | "bind-nonrecursive", _) => {
                    let remedy = "leave it out, or cover it with an inner grant (--ro empty:AT)";
                    return Err(format!("what is mounted beneath a grant belongs to it; {remedy}"));
                }
                ("volume-nocopy", _) => {
                    return Err(
                        "a private directory has what the image has there; use type=tmpfs for an empty one".into()
                    );
                }
                ("volume-driver" | "volume-opt" | "volume-label" | "volume-subpath", _) => {
                    return Err(format!("volumes have no names, drivers or labels; leave {key} out"));
                }
                ("bind-propagation", _) => return Err("mounts of a pod stay in the pod; leave it out".into()),
                ("tmpfs-size", Some(value)) => size = Some(amount(&String::from_utf8_lossy(value))?),
                ("tmpfs-mode", Some(value)) => {
                    let value = u32::from_str_radix(&String::from_utf8_lossy(value), 8).ok();
                    let value = value.filter(|mode| *mode <= 0o7777);
                    mode = Some(value.ok_or("not a mode; write octal digits, such as tmpfs-mode=1777")?);
                }
                _ => return Err(format!("unknown field {shown}; {FORM}")),
            }
        }
        let at = target.ok_or_else(|| format!("no target is named; {FORM}"))?;
        if kind != b"tmpfs" && (size.is_some() || mode.is_some()) {
            return Err("tmpfs-size and tmpfs-mode are for type=tmpfs; leave them out".into());
        }
        match (&kind[..], source) {
            (b"bind", Some(host)) => Ok(Self::Volume(Volume::Grant { grant: Grant { host, at: Some(at) }, read_only })),
            (b"bind", None) => Err(format!("no source is named; {FORM}")),
            (b"volume", None) if read_only => {
                Err("a new directory that can't be changed stays empty; leave readonly out".into())
            }
            (b"volume", None) => Ok(Self::Volume(Volume::Private(at))),
            (b"volume", Some(name)) => {
                let name = name.display();
                Err(format!("volumes have no names; write type=bind,source=PATH, or leave source={name} out"))
            }
            (b"tmpfs", Some(_)) => Err("a file system in memory has no source; leave it out".into()),
            (b"tmpfs", None) => {
                let tmpfs = tmpfs_at(Path::new(&at))?;
                Ok(Self::Tmpfs(Tmpfs { size, mode: mode.unwrap_or(tmpfs.mode), read_only, ..tmpfs }))
            }
            (other, _) => Err(format!("unknown type {}; {FORM}", String::from_utf8_lossy(other))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts() {
        let parse = |text: &str| Mount::parse(text.into());
        let bind = |host: &str, at: &str, read_only| {
            let grant = Grant { host: host.into(), at: Some(at.into()) };
            Ok(Mount::Volume(Volume::Grant { grant, read_only }))
        };
        assert_eq!(parse("type=bind,source=/a,target=/b"), bind("/a", "/b", false));
        assert_eq!(parse("type=bind,src=a=b,dst=/b/,ro"), bind("a=b", "/b", true));
        assert_eq!(parse("readonly=true,destination=/b,source=.,type=bind"), bind(".", "/b", true));
        assert_eq!(parse("type=bind,src=/a,dst=/b,bind-recursive=enabled"), bind("/a", "/b", false));
        assert_eq!(parse("type=volume,target=/v"), Ok(Mount::Volume(Volume::Private("/v".into()))));
        assert_eq!(parse("target=/v"), Ok(Mount::Volume(Volume::Private("/v".into()))));
        let tmpfs = Tmpfs { mode: 0o700, size: Some(1 << 20), ..tmpfs_at(Path::new("/t")).unwrap() };
        assert_eq!(parse("type=tmpfs,target=/t,tmpfs-size=1m,tmpfs-mode=700"), Ok(Mount::Tmpfs(tmpfs)));
        for (text, why) in [
            ("type=bind,target=/b", "no source is named"),
            ("type=bind,source=/a", "no target is named"),
            ("type=bind,source=,target=/b", "source has no value"),
            ("type=bind,source=/a,target=b", "the path in the pod must begin"),
            ("type=npipe,target=/b", "unknown type npipe"),
            ("type=bind,source=/a,target=/b,x=1", "unknown field x=1"),
            ("type=bind,source=/a,target=/b,bind-propagation=shared", "mounts of a pod stay"),
            ("type=bind,source=/a,target=/b,bind-recursive=disabled", "what is mounted beneath a grant"),
            ("type=bind,source=/a,target=/b,bind-nonrecursive", "what is mounted beneath a grant"),
            ("target=/b,volume-nocopy", "a private directory has"),
            ("target=/b,volume-driver=x", "volumes have no names, drivers or labels; leave volume-driver out"),
            ("type=volume,source=data,target=/b", "volumes have no names"),
            ("type=volume,target=/b,ro", "a new directory"),
            ("type=tmpfs,target=/", "the root can't"),
            ("type=tmpfs,target=/t,tmpfs-mode=9", "not a mode"),
            ("type=bind,source=/a,target=/b,tmpfs-size=1", "tmpfs-size"),
            ("", "unknown field"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(why) && error.contains("; "), "{text}: {error}");
        }
    }
}
