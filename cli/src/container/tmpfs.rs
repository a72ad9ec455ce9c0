//! `--tmpfs`.

use crate::values::{amount, normal};
use abi::boot::Tmpfs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A file system in memory at a place, with the usual properties.
pub fn tmpfs_at(at: &Path) -> std::result::Result<Tmpfs, String> {
    let at = normal(at)?;
    if at == Path::new("/") {
        return Err("the root can't be replaced; name a directory in it".into());
    }
    Ok(Tmpfs { at: at.as_os_str().as_bytes().to_vec(), mode: 0o1777, size: None, read_only: false })
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
            // Programs and devices in it run as everywhere in a pod.
            ("rw" | "exec" | "suid" | "dev", "") => {}
            _ => return Err(format!("unknown option {option}; write size=BYTES, mode=OCTAL or ro")),
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
            assert_eq!(parse(text), Ok(Tmpfs { at: b"/a".to_vec(), mode, size, read_only }), "{text}");
        };
        expect("/a", 0o1777, None, false);
        expect("/a/:size=64m,mode=755,ro", 0o755, Some(64 << 20), true);
        for wrong in ["a", "/", "/a:x", "/a:mode=9", "/a:size=x", "/a:mode=17777"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
