//! Directories that were opened lately, so that files of one directory do not each cost the whole way.

use rustix::fd::OwnedFd;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a directory is found at the path at which it was opened. What the host renames or closes to the
/// public meanwhile is noticed that much later.
const KEPT: Duration = Duration::from_millis(250);
/// Most directories that are kept open in all exports.
pub const MAX: usize = 64;

/// Open directories by their paths, the oldest first.
#[derive(Debug, Default)]
pub struct Recent {
    list: RefCell<VecDeque<Entry>>,
    /// Most entries.
    pub max: usize,
}

#[derive(Debug)]
struct Entry {
    path: Vec<u8>,
    dir: Arc<OwnedFd>,
    opened: Instant,
}

impl Recent {
    /// The directory that was opened at `path`.
    pub fn get(&self, path: &[u8]) -> Option<Arc<OwnedFd>> {
        let list = self.list.borrow();
        let entry = list.iter().rev().find(|entry| entry.path == path)?;
        (entry.opened.elapsed() < KEPT).then(|| entry.dir.clone())
    }

    /// Keeps a directory that was opened just now.
    pub fn keep(&self, path: &[u8], dir: Arc<OwnedFd>) {
        if self.max == 0 {
            return;
        }
        let mut list = self.list.borrow_mut();
        list.retain(|entry| entry.path != path);
        if list.len() >= self.max {
            list.pop_front();
        }
        list.push_back(Entry { path: path.to_vec(), dir, opened: Instant::now() });
    }
}
