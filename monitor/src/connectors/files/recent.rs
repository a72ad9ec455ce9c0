//! Cache of open directories, so that a lookup of several files in one directory resolves its path once.

use rustix::fd::OwnedFd;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lifetime of an entry. A rename on the host, or a removed `o+x`, takes effect for the pod after at most this time.
const KEPT: Duration = Duration::from_millis(250);
/// Maximum number of entries in all exports.
pub const MAX: usize = 64;

/// Open directories by path, the oldest first.
#[derive(Debug, Default)]
pub struct Recent {
    list: RefCell<VecDeque<Entry>>,
    /// Maximum number of entries.
    pub max: usize,
}

#[derive(Debug)]
struct Entry {
    path: Vec<u8>,
    dir: Arc<OwnedFd>,
    opened: Instant,
}

impl Recent {
    /// The cached directory of `path`.
    pub fn get(&self, path: &[u8]) -> Option<Arc<OwnedFd>> {
        let list = self.list.borrow();
        let entry = list.iter().rev().find(|entry| entry.path == path)?;
        (entry.opened.elapsed() < KEPT).then(|| entry.dir.clone())
    }

    /// Adds a directory that was just opened.
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
