//! Walks over a file of an image and all below it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rootfs::{Kind, Stat};

use super::Source;
use crate::error::{Error, Result};

/// Deepest nesting of directories, twice what images have.
const DEPTH: usize = 2048;

/// One step of a walk.
pub(super) enum Step {
    /// A file, or a directory before what is in it.
    Enter(u64),
    /// A directory after what is in it.
    Leave,
}

impl Source {
    /// Calls `visit` with each file and its path, which begins with `top`. Directories come before and after their
    /// files. The list of what is left to do takes the place of a call stack.
    pub(super) fn walk(&self, top: &Path, mut visit: impl FnMut(&Path, &Stat, &Step) -> Result<()>) -> Result<()> {
        let mut left = vec![(top.to_owned(), 0, Step::Enter(self.nid))];
        // Attributes of the directories that were entered and not left.
        let mut open: Vec<Stat> = Vec::new();
        let mut seen: HashSet<u64> = HashSet::new();
        while let Some((path, depth, step)) = left.pop() {
            let Step::Enter(nid) = step else {
                if let Some(stat) = open.pop() {
                    visit(&path, &stat, &step)?;
                }
                continue;
            };
            let stat = self.image.stat(nid).map_err(|error| self.damaged(&error))?;
            visit(&path, &stat, &step)?;
            if stat.kind != Kind::Directory {
                continue;
            }
            if !seen.insert(nid) {
                return Err(self.damaged(&rootfs::Error::Image("a directory is in several places")));
            }
            if depth == DEPTH {
                return Err(Error::new(&self.what, "directories are nested too deep", "copy a part of it"));
            }
            let names = self.image.names(&stat).map_err(|error| self.damaged(&error))?;
            left.push((path.clone(), depth, Step::Leave));
            open.push(stat);
            for (name, nid) in names.into_iter().rev() {
                if matches!(&name[..], b"." | b"..") {
                    continue;
                }
                left.push((self.child(&path, name)?, depth + 1, Step::Enter(nid)));
            }
        }
        Ok(())
    }

    /// The path of a directory's file.
    fn child(&self, path: &Path, name: Vec<u8>) -> Result<PathBuf> {
        if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
            return Err(self.damaged(&rootfs::Error::Image("a name in a directory is not valid")));
        }
        Ok(path.join(OsString::from_vec(name)))
    }
}
