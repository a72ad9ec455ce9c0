//! Names of a directory of an overlay.

use super::Merged;
use super::marks::is_whiteout;
use crate::cred::MAY_READ;
use crate::memory::{check, push};
use crate::{DirEntry, FileType, Listing, Name, PathRef};
use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// Names between two checks of free memory.
const STEP: usize = 64;

impl Merged {
    /// See [`crate::Inode::readdir`].
    pub(super) fn list(&self) -> Result<Listing> {
        if self.kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        let upper = self.upper();
        let mut layers: Vec<PathRef> = Vec::new();
        for layer in upper.iter().chain(&self.lowers) {
            push(&mut layers, layer.clone())?;
        }
        let mut all = Listing::new();
        // A tree, because a big directory would need a big table in one piece.
        let mut seen: BTreeSet<Name> = BTreeSet::new();
        for (i, layer) in layers.iter().enumerate() {
            self.overlay().check(layer, MAY_READ)?;
            let (is_upper, is_last) = (i == 0 && upper.is_some(), i + 1 == layers.len());
            let dev = layer.inode().attr()?.dev;
            for (n, entry) in layer.inode().readdir()?.iter().enumerate() {
                if n % STEP == 0 {
                    check()?;
                }
                if seen.contains(entry.name) {
                    continue;
                }
                if !is_hidden(layer, &entry) {
                    // A file of the upper layer may have the number that it had in a lower one.
                    let known = if is_upper { self.find(entry.name, &[]).ok() } else { None };
                    let known =
                        known.and_then(|found| found.inode.as_any().downcast_ref::<Self>().map(|node| node.ino));
                    let ino = known.unwrap_or_else(|| self.overlay().number(dev, entry.ino));
                    all.push(entry.name, ino, entry.kind)?;
                }
                if !is_last {
                    seen.insert(Rc::from(entry.name));
                }
            }
        }
        Ok(all)
    }
}

/// Whether an entry of a layer is a whiteout.
fn is_hidden(layer: &PathRef, entry: &DirEntry<'_>) -> bool {
    let whiteout = |place: PathRef| is_whiteout(&**place.inode()).unwrap_or(false);
    entry.kind == FileType::CharDevice && layer.lookup(entry.name, &[], false).is_ok_and(whiteout)
}
