//! Readahead of directories.
//!
//! A program that walks a tree lists one directory after the other, and a round trip costs more than reading a
//! directory. So one answer contains many directories.

use super::attr;
use super::dir::{Records, is_dots};
use super::export::{ExportConfig, open_to_list};
use super::path::{MAX_PATH, RelPath};
use abi::request::{NodeAttr, dir_record};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::RawDir;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;

/// Maximum depth beneath a path: each level keeps a descriptor open.
const MAX_DEPTH: usize = 32;
/// Buffer of a getdents(2), in bytes.
const NAMES: usize = 32 << 10;

/// Lists directories until the room is used up. Skips a directory that can't be listed or was removed: a request for it
/// returns the errno.
pub struct TreeReadahead<'a> {
    export: &'a ExportConfig,
    records: &'a mut Records,
    names: Vec<MaybeUninit<u8>>,
    max_depth: usize,
}

/// A listed directory, and its subdirectories that are not listed yet.
struct Level {
    dir: OwnedFd,
    path: Vec<u8>,
    directories: std::vec::IntoIter<CString>,
}

/// The room is used up.
struct Full;

impl<'a> TreeReadahead<'a> {
    /// Appends to `records`; if `flat`, does not descend.
    pub fn new(export: &'a ExportConfig, records: &'a mut Records, flat: bool) -> Self {
        let max_depth = if flat { 0 } else { MAX_DEPTH };
        Self { export, records, names: vec![MaybeUninit::uninit(); NAMES], max_depth }
    }

    /// Lists the directories `names` in `dir`, whose path is `path`, and those beneath them. Returns whether there is
    /// room for more.
    pub fn beneath(&mut self, dir: BorrowedFd<'_>, path: &[u8], names: Vec<CString>) -> bool {
        self.max_depth == 0 || names.iter().all(|name| self.tree(dir, path, name, 1).is_ok())
    }

    /// Lists the directory at `path` and those beneath it. Returns whether there is room for more.
    pub fn another(&mut self, path: &[u8]) -> bool {
        let place = RelPath::new(path).ok().and_then(|path| path.split_last());
        let Some((parent, name)) = place else { return true };
        let (Ok(dir), Ok(name)) = (self.export.directory(parent), CString::new(name)) else { return true };
        self.tree(dir.as_fd(), parent.bytes(), &name, 0).is_ok()
    }

    /// Lists a directory at depth `depth` and those beneath it, parents first.
    fn tree(&mut self, parent: BorrowedFd<'_>, path: &[u8], name: &CStr, depth: usize) -> Result<(), Full> {
        let mut levels = Vec::new();
        let top = self.directory(parent, path, name)?;
        levels.extend(top.filter(|_| depth < self.max_depth));
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.directories.next() else {
                levels.pop();
                continue;
            };
            let next = self.directory(level.dir.as_fd(), &level.path, &name)?;
            if depth + levels.len() < self.max_depth {
                levels.extend(next);
            }
        }
        Ok(())
    }

    /// Lists one directory; `None` if it is skipped.
    fn directory(&mut self, parent: BorrowedFd<'_>, parent_path: &[u8], name: &CStr) -> Result<Option<Level>, Full> {
        let mut path = parent_path.to_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.to_bytes());
        if path.len() > MAX_PATH {
            return Ok(None);
        }
        let Ok(dir) = open_to_list(parent, name) else { return Ok(None) };
        let Ok(stat) = attr::of_fd(dir.as_fd()) else { return Ok(None) };
        if self.export.check_read(&stat).and_then(|()| self.export.check_search(&stat)).is_err() {
            return Ok(None);
        }
        let reach = |path| self.export.check_covers(path, &stat);
        if !self.export.covers.is_empty() && RelPath::new(&path).and_then(reach).is_err() {
            return Ok(None);
        }
        let start = self.records.bytes.len();
        if !self.entries(dir.as_fd(), &path, attr::node_attr(&stat)) {
            // Remove an incomplete directory.
            self.records.bytes.truncate(start);
            self.records.directories.clear();
            return Err(Full);
        }
        let directories = std::mem::take(&mut self.records.directories).into_iter();
        Ok(Some(Level { dir, path, directories }))
    }

    /// Appends the entries of a directory; false if they do not fit or the directory can't be read completely.
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
