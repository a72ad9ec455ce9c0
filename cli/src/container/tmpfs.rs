//! `--tmpfs`.

use crate::values::{amount, normal};
use abi::boot::Tmpfs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const NO_SUID: u32 = libc::MS_NOSUID as u32;
const NO_DEV: u32 = libc::MS_NODEV as u32;
const NO_EXEC: u32 = libc::MS_NOEXEC as u32;

fn number(text: &str) -> std::result::Result<u32, String> {
    // -1 is no user.
    let number = text.parse().ok().filter(|number| *number != u32::MAX);
    number.ok_or_else(|| "not a number of a user or group; write uid=N, gid=N".into())
}

/// A file system in memory at a place, with the usual properties.
pub fn tmpfs_at(at: &Path) -> std::result::Result<Tmpfs, String> {
    let at = normal(at)?;
    if at == Path::new("/") {
        return Err("the root can't be replaced; name a directory in it".into());
    }
    let at = at.as_os_str().as_bytes().to_vec();
    Ok(Tmpfs { at, mode: 0o1777, owner: (0, 0), size: None, read_only: false, flags: 0 })
}

/// Parses `--tmpfs`.
pub fn parse(text: &str) -> std::result::Result<Tmpfs, String> {
    let (at, options) = text.split_once(':').unwrap_or((text, ""));
    let mut tmpfs = tmpfs_at(Path::new(at))?;
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option.split_once('=').unwrap_or((option, "")) {
            ("size", value) => tmpfs.size = Some(amount(value)?),
            ("mode", value) => {
                let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o7777);
                tmpfs.mode = mode.ok_or("not a mode; write octal digits, such as mode=1777")?;
            }
            ("ro", "") => tmpfs.read_only = true,
            ("rw", "") => tmpfs.read_only = false,
            ("uid", value) => tmpfs.owner.0 = number(value)?,
            ("gid", value) => tmpfs.owner.1 = number(value)?,
            // The later one of two counts. Without them programs and devices in it are as everywhere in a pod.
            ("noexec", "") => tmpfs.flags |= NO_EXEC,
            ("exec", "") => tmpfs.flags &= !NO_EXEC,
            ("nosuid", "") => tmpfs.flags |= NO_SUID,
            ("suid", "") => tmpfs.flags &= !NO_SUID,
            ("nodev", "") => tmpfs.flags |= NO_DEV,
            ("dev", "") => tmpfs.flags &= !NO_DEV,
            // What is in memory is as it is written, and times of access are as everywhere in a pod.
            ("sync" | "async" | "dirsync" | "atime" | "diratime" | "relatime", "") => {}
            _ => {
                let known = "size=BYTES, mode=OCTAL, uid=N, gid=N, ro, noexec, nosuid or nodev";
                return Err(format!("unknown option {option}; write {known}"));
            }
        }
    }
    Ok(tmpfs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_in_memory() {
        let expect = |text: &str, mode, size, read_only| {
            let expected = Tmpfs { at: b"/a".to_vec(), mode, owner: (0, 0), size, read_only, flags: 0 };
            assert_eq!(parse(text), Ok(expected), "{text}");
        };
        expect("/a", 0o1777, None, false);
        expect("/a/:size=64m,mode=755,ro", 0o755, Some(64 << 20), true);
        let tmpfs = parse("/a:rw,noexec,nosuid,nodev,dev,async,relatime,size=65536k,uid=7,gid=8").unwrap();
        assert_eq!((tmpfs.flags, tmpfs.size, tmpfs.owner), (NO_EXEC | NO_SUID, Some(64 << 20), (7, 8)));
        for wrong in [
            "/a:uid=x",
            "/a:gid=4294967295",
            "/a:noexec=1",
            "/a:noatime",
            "a",
            "/",
            "/a:x",
            "/a:mode=9",
            "/a:size=x",
            "/a:mode=17777",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
