//! Nested grants: in any combination, an export must not reach files that the pod sees through another export.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::Parser;
use monitor::connectors::files::{ExportConfig, RelPath};

use crate::args::{Command, Hull};
use crate::run;

use super::ID;

/// Maximum number of grants per input.
const MOST: usize = 6;
/// Host paths to grant, beneath the tree's root.
const HOST: [&str; 12] = ["", "g", "g/a", "g/a/b", "g/a/b/c", "g/a/f", "g/link", "g/alias", "h", "h/x", "h/f", "g/d"];
/// Places in the pod.
const AT: [&str; 16] = [
    "/at",
    "/at/a",
    "/at/a/b",
    "/at/a/b/c",
    "/at/a/f",
    "/at/a/b/missing/deep",
    "/at/link",
    "/at/link/b",
    "/at/alias",
    "/at/new/x",
    "/at/d",
    "/at/up/x",
    "/at/g/a",
    "/at/g/a/b",
    "/",
    "/other",
];

/// The test tree, created once per process.
fn tree() -> &'static Path {
    static TREE: OnceLock<PathBuf> = OnceLock::new();
    TREE.get_or_init(|| {
        let root = std::env::temp_dir().join(format!("hull-fuzz-grants-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for directory in ["g/a/b/c", "g/d/e", "h/x/y"] {
            fs::create_dir_all(root.join(directory)).expect("a directory");
        }
        for file in ["g/a/f", "g/a/b/f2", "g/a/b/c/f3", "h/f", "h/x/f"] {
            fs::write(root.join(file), file).expect("a file");
        }
        symlink("a", root.join("g/link")).expect("a link");
        symlink("..", root.join("g/up")).expect("a link");
        fs::hard_link(root.join("g/a/f"), root.join("g/alias")).expect("a hard link");
        root
    })
}

/// Plans up to six grants, three bytes each: option, host path, place.
pub fn grants(data: &[u8]) {
    let root = tree();
    let mut line: Vec<OsString> = ["hull", "run", "--no-host"].map(Into::into).to_vec();
    for grant in data.chunks_exact(3).take(MOST) {
        let host = root.join(HOST[usize::from(grant[1]) % HOST.len()]);
        let at = AT[usize::from(grant[2]) % AT.len()];
        line.push(if grant[0] & 1 == 0 { "--ro" } else { "--rw" }.into());
        let mut granted = host.into_os_string();
        granted.push(":");
        granted.push(at);
        line.push(granted);
    }
    line.extend(["--", "/bin/true"].map(Into::into));
    let Ok(Hull { command: Command::Run(options) }) = Hull::try_parse_from(line) else { panic!("a command line") };
    let Ok(config) = run::configure(options, None, None, ID) else { return };
    let place = |export: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(export));
    let places: Vec<PathBuf> = config.pod.exports.iter().map(|export| place(&export.at)).collect();
    for (export, at) in config.exports.iter().zip(&places) {
        let covers = places.iter().filter(|inner| *inner != at).filter_map(|inner| inner.strip_prefix(at).ok());
        check(export, &covers.collect::<Vec<_>>());
    }
}

/// Every file of the host beneath an export is reachable through it, except `covers` and everything beneath them;
/// directories on the way to a cover can't be renamed.
fn check(export: &ExportConfig, covers: &[&Path]) {
    if export.is_file() {
        assert!(covers.is_empty(), "something lies in a file");
        return;
    }
    let root = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&export.dir)));
    let is_covered = |path: &Path| covers.iter().any(|cover| path.starts_with(cover));
    let identity = |data: &Metadata| (data.dev(), data.ino());
    let hidden: Vec<_> = covers.iter().filter_map(|cover| root.join(cover).symlink_metadata().ok()).collect();
    let is_hidden = |data: &Metadata| hidden.iter().any(|other| identity(other) == identity(data));
    let masks: Vec<&Path> = export.masks().map(|mask| Path::new(std::ffi::OsStr::from_bytes(mask))).collect();
    for (number, mask) in masks.iter().enumerate() {
        assert!(is_covered(mask), "{mask:?} is masked for nothing");
        let is_other = |(other, path): (usize, &&Path)| other == number || !path.starts_with(mask);
        assert!(masks.iter().enumerate().all(is_other), "{mask:?} is masked twice");
    }
    let mut found = vec![PathBuf::new()];
    while let Some(path) = found.pop() {
        let Ok(data) = root.join(&path).symlink_metadata() else { continue };
        if data.is_dir() || path.as_os_str().is_empty() {
            let entries = fs::read_dir(root.join(&path)).expect("the tree can be read");
            found.extend(entries.flatten().map(|entry| path.join(entry.file_name())));
        }
        if path.as_os_str().is_empty() {
            continue;
        }
        let name = RelPath::new(path.as_os_str().as_bytes()).expect("a plain path");
        let node = export.node(name);
        if is_covered(&path) {
            assert!(node.is_err(), "{path:?} is reached");
            assert!(export.place_to_change(name).is_err(), "{path:?} can be changed");
            assert!(masks.iter().any(|mask| path.starts_with(mask)), "{path:?} is not masked");
        } else if is_hidden(&data) {
            assert!(node.is_err(), "{path:?}, another name of what is covered, is reached");
        } else {
            assert!(node.is_ok(), "{path:?} is not reached: {node:?}");
        }
        if covers.iter().any(|cover| cover.starts_with(&path)) {
            assert!(export.place_to_change(name).is_err(), "{path:?}, on the way to what is covered, can be moved");
            assert!(export.check_new(name).is_err());
        }
    }
}
