//! Memory limits of the host's control groups, cgroups(7).
//!
//! The host's OOM killer kills the monitor, and with it the pod, without a message when such a limit is exceeded. So
//! the default of `--memory` is what the limit leaves; keel's own OOM handling then ends the program that uses too
//! much.

use crate::failure::{Failure, Result};
use std::ffi::OsString;
use std::fs::read;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Default of `--memory`, unless a cgroup limit permits less.
pub const DEFAULT_MEMORY: u64 = 512 << 20;

/// Bytes reserved for the monitor itself and for the page cache of its files.
const RESERVE: u64 = 16 << 20;
/// Divisor: share of the limit that KVM's and the host's page tables take for a pod of many processes on
/// software-nested KVM. They are much smaller on hardware KVM.
const TABLES: u64 = 16;

/// Smallest default: less is enough for small programs only, so it has to be asked for.
pub const LEAST_DEFAULT: u64 = 32 << 20;

/// A memory limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Limit in bytes.
    pub bytes: u64,
    /// The file of the limit.
    pub file: PathBuf,
}

impl Limit {
    /// Largest `--memory` with which pod, monitor and KVM together stay below the limit.
    pub fn for_pod(&self) -> u64 {
        let large = abi::layout::LARGE_PAGE_SIZE as u64;
        self.bytes.saturating_sub(self.bytes / TABLES).saturating_sub(RESERVE) / large * large
    }
}

/// The lowest memory limit of this process's control groups and their ancestors, in bytes; `None` without a limit.
pub fn memory_limit() -> Option<Limit> {
    let read = |path: &Path| read(path).ok();
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let mounts = read(Path::new("/proc/self/mountinfo"))?;
    directories(&groups, &mounts).into_iter().filter_map(|group| tightest(&group, read)).min_by_key(|limit| limit.bytes)
}

/// Memory of the pod: `asked`, or the default. Warns if the host's limit is lower.
pub fn pod_memory(asked: Option<u64>) -> Result<u64> {
    let Some(limit) = memory_limit() else { return Ok(asked.unwrap_or(DEFAULT_MEMORY)) };
    let (most, file) = (limit.for_pod(), limit.file.display());
    match asked {
        None if most < LEAST_DEFAULT => {
            let why = format!("the host permits {} ({file}), too little for a pod and its monitor", show(limit.bytes));
            let remedy = if most < monitor::MIN_MEMORY {
                "raise that limit".into()
            } else {
                format!("raise that limit, or give --memory {} for a small program", show(most))
            };
            Err(Failure::request("memory", why, remedy))
        }
        None => Ok(most.min(DEFAULT_MEMORY)),
        Some(asked) if asked > most => {
            let remedy = if most < monitor::MIN_MEMORY {
                "raise that limit".into()
            } else {
                format!("use --memory {} or raise that limit", show(most))
            };
            // Ignore write errors on standard error.
            let _ = writeln!(
                std::io::stderr(),
                "hull: warning: --memory {}: the host permits {} ({file}) and kills what uses more, the pod and its monitor together; {remedy}",
                show(asked),
                show(limit.bytes),
            );
            Ok(asked)
        }
        Some(asked) => Ok(asked),
    }
}

/// Formats a number of bytes as options take it.
pub fn show(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// A group of a controller that limits memory.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    /// Mount point of its hierarchy.
    mount: PathBuf,
    /// Directory of the group, beneath `mount`.
    directory: PathBuf,
    /// Name of the limit's file.
    file: &'static str,
}

/// The groups of this process: in the memory controller's hierarchy (version 1), in the unified hierarchy (version 2),
/// or both. `groups`: `/proc/self/cgroup`, `mounts`: `/proc/self/mountinfo`.
fn directories(groups: &[u8], mounts: &[u8]) -> Vec<Group> {
    let mut found = Vec::new();
    for line in groups.split(|byte| *byte == b'\n') {
        let mut fields = line.splitn(3, |byte| *byte == b':');
        let (Some(number), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (kind, option, file): (&[u8], &[u8], _) = match controllers {
            b"" if number == b"0" => (b"cgroup2", b"", "memory.max"),
            _ if has(controllers, b"memory") => (b"cgroup", b"memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let mount = mounts.split(|byte| *byte == b'\n').find_map(|line| mounted(line, kind, option));
        let Some((root, mount)) = mount else { continue };
        // In a container the path may be relative to the host's root cgroup, or outside of the mounted subtree.
        let inside = Path::new(std::ffi::OsStr::from_bytes(path)).strip_prefix(&root).unwrap_or(Path::new(""));
        let is_plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
        let directory = if is_plain { mount.join(inside) } else { mount.clone() };
        found.push(Group { mount, directory, file });
    }
    found
}

/// Root and mount point if the line is a file system of type `kind`; its super options must contain `option` unless
/// that is empty.
fn mounted(line: &[u8], kind: &[u8], option: &[u8]) -> Option<(PathBuf, PathBuf)> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let end = fields.iter().position(|field| *field == b"-")?;
    let is_it = *fields.get(end + 1)? == kind && (option.is_empty() || has(fields.get(end + 3)?, option));
    is_it.then_some((plain(fields.get(3)?), plain(fields.get(4)?)))
}

/// Whether a comma-separated list has this member.
fn has(list: &[u8], member: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|other| other == member)
}

/// Decodes a path of `mountinfo`, where white space is escaped as octal numbers.
fn plain(escaped: &[u8]) -> PathBuf {
    let (mut path, mut rest) = (Vec::new(), escaped);
    while let [byte, tail @ ..] = rest {
        let digits = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(number) if *byte == b'\\' => {
                path.push(number);
                rest = &tail[3..];
            }
            _ => {
                path.push(*byte);
                rest = tail;
            }
        }
    }
    OsString::from_vec(path).into()
}

/// The lowest limit of a group and its mounted ancestors.
fn tightest(group: &Group, read: impl Fn(&Path) -> Option<Vec<u8>>) -> Option<Limit> {
    let around = group.directory.ancestors().take_while(|directory| directory.starts_with(&group.mount));
    let limits = around.filter_map(|directory| {
        let file = directory.join(group.file);
        let text = read(&file)?;
        // "max" or a number that exceeds any machine's memory: no limit.
        let bytes = std::str::from_utf8(&text).ok()?.trim().parse().ok()?;
        (bytes < i64::MAX as u64 / 2).then_some(Limit { bytes, file })
    });
    limits.min_by_key(|limit| limit.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: &[u8] = b"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const FIRST: &[u8] = b"31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n";

    fn only(groups: &[u8], mounts: &[u8]) -> (PathBuf, &'static str) {
        let mut found = directories(groups, mounts);
        assert_eq!(found.len(), 1, "{found:?}");
        let Group { directory, file, .. } = found.remove(0);
        (directory, file)
    }

    #[test]
    fn groups_are_found_where_they_are_mounted() {
        let place = |text: &str, file| (PathBuf::from(text), file);
        assert_eq!(only(b"0::/a/b.slice\n", SECOND), place("/sys/fs/cgroup/a/b.slice", "memory.max"));
        assert_eq!(only(b"0::/\n", SECOND), place("/sys/fs/cgroup", "memory.max"));
        let first = only(b"4:cpu,cpuacct:/c\n3:memory:/a:b\n", FIRST);
        assert_eq!(first, place("/sys/fs/cgroup/memory/a:b", "memory.limit_in_bytes"));
        // Both.
        let both = directories(b"3:memory:/a\n0::/b\n", FIRST);
        let both: Vec<_> = both.iter().map(|group| group.directory.to_str().unwrap()).collect();
        assert_eq!(both, ["/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/unified/b"]);
        // In a container the mount shows only a subtree; the path is inside of it, outside, or above.
        let part = b"40 23 0:26 /docker/1 /sys/fs/c\\040d rw - cgroup2 cgroup2 rw\n";
        for path in ["/docker/1", "/", "/docker/2", "/docker/1/../2"] {
            assert_eq!(only(format!("0::{path}\n").as_bytes(), part), place("/sys/fs/c d", "memory.max"), "{path}");
        }
        assert_eq!(only(b"0::/docker/1/x\n", part), place("/sys/fs/c d/x", "memory.max"));
        assert_eq!(only(b"0::/../other\n", SECOND), place("/sys/fs/cgroup", "memory.max"));
        for (groups, mounts) in
            [(&b""[..], SECOND), (b"0::/\n", b""), (b"0::/\n", b"- cgroup2\n"), (b"x\n::\n0:\n", FIRST)]
        {
            assert_eq!(directories(groups, mounts), []);
        }
    }

    #[test]
    fn the_tightest_limit_counts() {
        let group = Group { mount: "/m".into(), directory: "/m/a/b".into(), file: "memory.max" };
        let limit = |of: &[(&str, &str)]| {
            let found = tightest(&group, |path| {
                let content = of.iter().find(|(place, _)| Path::new(place) == path)?.1;
                Some(content.into())
            });
            found.map(|limit| (limit.bytes, limit.file.display().to_string()))
        };
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[("/m/a/b/memory.max", "max\n"), ("/m/memory.max", "9223372036854771712\n")]), None);
        let around = [("/m/a/b/memory.max", "200\n"), ("/m/a/memory.max", "100\n"), ("/memory.max", "5\n")];
        assert_eq!(limit(&around), Some((100, "/m/a/memory.max".into())));
        let odd =
            [("/m/a/b/memory.max", "-1"), ("/m/a/memory.max", "99999999999999999999"), ("/m/memory.max", "\u{ff}")];
        assert_eq!(limit(&odd), None);
    }

    #[test]
    fn pods_leave_room_for_their_monitor() {
        let most = |bytes: u64| Limit { bytes, file: PathBuf::new() }.for_pod();
        assert_eq!((most(0), most(16 << 20), most(u64::MAX) > 1 << 60), (0, 0, true));
        assert_eq!((most(64 << 20), most(512 << 20)), (44 << 20, 464 << 20));
        assert_eq!((show(44 << 20), show(1536), show(1000)), ("44M".into(), "1536".into(), "1000".into()));
    }
}
