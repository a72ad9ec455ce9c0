//! Directories that are listed before they are asked for.
//!
//! A program that goes through a tree asks for one directory after the other, and a trip costs more than
//! reading a directory. So one answer brings many.

use super::attr;
use super::dir::{Records, is_dots};
use super::export::{ExportConfig, open_to_list};
use super::path::{MAX_PATH, RelPath};
use abi::request::{NodeAttr, dir_record};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::RawDir;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;

/// Deepest that it goes beneath a path: each level keeps a descriptor open.
const MAX_DEPTH: usize = 32;
/// Bytes of names that are read from a directory at once.
const NAMES: usize = 32 << 10;

/// Lists directories until the room ends. One that may not be listed, or that vanishes, is left out: who
/// asks for it itself gets the reason.
pub struct Ahead<'a> {
    export: &'a ExportConfig,
    records: &'a mut Records,
    names: Vec<MaybeUninit<u8>>,
    depth: usize,
    max_depth: usize,
}

impl<'a> Ahead<'a> {
    /// Appends to `records`; if `flat`, nothing that lies beneath other directories.
    pub fn new(export: &'a ExportConfig, records: &'a mut Records, flat: bool) -> Self {
        let max_depth = if flat { 0 } else { MAX_DEPTH };
        Self { export, records, names: vec![MaybeUninit::uninit(); NAMES], depth: 0, max_depth }
    }

    /// Lists the directories `names` in `dir`, whose path is `path`, and those beneath them. Whether there
    /// is room for more.
    pub fn beneath(&mut self, dir: BorrowedFd<'_>, path: &[u8], names: Vec<CString>) -> bool {
        if self.depth == self.max_depth {
            return true;
        }
        self.depth += 1;
        let room_left = names.iter().all(|name| self.directory(dir, path, name));
        self.depth -= 1;
        room_left
    }

    /// Lists the directory at `path` and those beneath it. Whether there is room for more.
    pub fn another(&mut self, path: &[u8]) -> bool {
        let place = RelPath::new(path).ok().and_then(|path| path.split_last());
        let Some((parent, name)) = place else { return true };
        let (Ok(dir), Ok(name)) = (self.export.directory(parent), CString::new(name)) else { return true };
        self.directory(dir.as_fd(), parent.bytes(), &name)
    }

    fn directory(&mut self, parent: BorrowedFd<'_>, parent_path: &[u8], name: &CStr) -> bool {
        let mut path = parent_path.to_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.to_bytes());
        if path.len() > MAX_PATH {
            return true;
        }
        let Ok(dir) = open_to_list(parent, name) else { return true };
        let Ok(stat) = attr::of_fd(dir.as_fd()) else { return true };
        if self.export.check_read(&stat).and_then(|()| self.export.check_search(&stat)).is_err() {
            return true;
        }
        let reach = |path| self.export.check_covers(path, &stat);
        if !self.export.covers.is_empty() && RelPath::new(&path).and_then(reach).is_err() {
            return true;
        }
        let start = self.records.bytes.len();
        if !self.entries(dir.as_fd(), &path, attr::node_attr(&stat)) {
            // Only whole directories.
            self.records.bytes.truncate(start);
            self.records.directories.clear();
            return false;
        }
        let directories = std::mem::take(&mut self.records.directories);
        self.beneath(dir.as_fd(), &path, directories)
    }

    /// Appends a whole directory; false if it does not fit or can't be read to its end.
    fn entries(&mut self, dir: BorrowedFd<'_>, path: &[u8], attr: NodeAttr) -> bool {
        if !self.records.put(dir_record::DIRECTORY, attr, path, &[]) {
            return false;
        }
        let mut entries = RawDir::new(dir, &mut self.names);
        while let Some(entry) = entries.next() {
            let Ok(entry) = entry else { return false };
            let name = entry.file_name();
            if !is_dots(name) && !self.records.entry(dir, name, Some((entry.ino(), entry.file_type()))) {
                return false;
            }
        }
        true
    }
}
