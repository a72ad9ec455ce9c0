//! Bounds of what is cached of the host: content pages, open handles, names.

use super::HostNode;
use alloc::rc::{Rc, Weak};
use core::cell::{Cell, RefCell};
use keel_core::pieces::Pieces;

/// Most handles that stay open.
const MAX_HANDLES: usize = 512;
/// Bytes that a remembered name takes, about: its record, its place in the tables, its share of nodes.
const NAME_BYTES: usize = 384;
/// Fewest names that may be remembered in all directories.
const MIN_NAMES: usize = 16 << 10;
/// Files with more pages lose a part of them at a time.
const FEW_PAGES: usize = 64;
/// Most nodes that are kept alive because they were fetched ahead.
const MAX_AHEAD: usize = 64;

/// Lists of nodes by the resources they hold, oldest first. Entries of nodes that are gone stay until they come up.
pub(super) struct Cache {
    pages: Cell<usize>,
    max_pages: usize,
    with_pages: RefCell<Pieces<Weak<HostNode>>>,
    with_handles: RefCell<Pieces<Weak<HostNode>>>,
    names: Cell<usize>,
    max_names: usize,
    /// These stay alive for their names.
    with_names: RefCell<Pieces<Rc<HostNode>>>,
    ahead: RefCell<Pieces<Rc<HostNode>>>,
}

impl Cache {
    pub(super) fn new(max_pages: usize) -> Self {
        Self {
            pages: Cell::new(0),
            max_pages,
            with_pages: RefCell::default(),
            with_handles: RefCell::default(),
            names: Cell::new(0),
            // Names take at most a quarter of what content may.
            max_names: (max_pages / 4 * hal::frame::FRAME_SIZE / NAME_BYTES).max(MIN_NAMES),
            with_names: RefCell::default(),
            ahead: RefCell::default(),
        }
    }

    pub(super) fn pages(&self) -> usize {
        self.pages.get()
    }

    /// `node` cached a page and is not in the list of those with pages.
    pub(super) fn has_pages(&self, node: Weak<HostNode>) {
        self.with_pages.borrow_mut().push_back(node);
    }

    /// Accounts for pages that were cached; drops others' if there are too many. When memory `is_short`, the cache gives up
    /// more than it gets, down to half of what it may have.
    pub(super) fn pages_added(&self, count: usize, is_short: bool) {
        self.pages.set(self.pages.get() + count);
        let excess = self.pages.get().saturating_sub(self.max_pages);
        if excess > 0 || is_short && self.pages.get() > self.max_pages / 2 {
            self.shrink(excess.max(count) + self.max_pages / 16);
        }
    }

    /// Whether a file of so many pages may take the place of others in the cache.
    pub(super) fn suits(&self, pages: u64) -> bool {
        pages <= self.max_pages as u64 / 4
    }

    /// Accounts for pages that were dropped.
    pub(super) fn pages_dropped(&self, count: usize) {
        self.pages.set(self.pages.get().saturating_sub(count));
    }

    /// Drops content of the nodes that were not read for longest, at least `wanted` pages if it can: of small files all, of
    /// others, such as an image, a part.
    pub(super) fn shrink(&self, wanted: usize) -> usize {
        let before = self.pages.get();
        // Twice around: the first time takes back the mark of recent use.
        let mut turns = self.with_pages.borrow().len() * 2;
        while turns > 0 && before - self.pages.get().min(before) < wanted {
            turns -= 1;
            let Some(weak) = self.with_pages.borrow_mut().pop_front() else { break };
            let Some(node) = weak.upgrade() else { continue };
            let Some(content) = node.content.get() else { continue };
            let host = &node.export.host;
            let (is_spared, pages) = (content.take_used(), content.pages.borrow().len());
            match pages {
                _ if is_spared => {}
                0..=FEW_PAGES => content.drop_pages(host),
                _ => content.evict(host, wanted - (before - self.pages.get().min(before))),
            }
            let has_pages = !content.pages.borrow().is_empty();
            content.is_listed.set(has_pages);
            if has_pages {
                self.with_pages.borrow_mut().push_back(weak);
            }
        }
        before - self.pages.get().min(before)
    }

    /// `node` opened a handle: close the oldest one if there are too many.
    pub(super) fn has_handle(&self, node: Weak<HostNode>) {
        let oldest = {
            let mut list = self.with_handles.borrow_mut();
            list.push_back(node);
            if list.len() > MAX_HANDLES { list.pop_front() } else { None }
        };
        if let Some(node) = oldest.and_then(|weak| weak.upgrade())
            && let Some(content) = node.content.get()
        {
            if node.gone.get() {
                // The handle is the only way to the file.
                self.with_handles.borrow_mut().push_back(Rc::downgrade(&node));
            } else {
                content.close(&node.export.host);
            }
        }
    }

    /// Nodes of writable exports that may have open handles. The list goes round once.
    pub(super) fn handle_users(&self) -> impl Iterator<Item = Rc<HostNode>> + '_ {
        let count = self.with_handles.borrow().len();
        let next = |_| {
            let mut list = self.with_handles.borrow_mut();
            let node = list.pop_front()?;
            list.push_back(node.clone());
            Some(node)
        };
        (0..count).map_while(next).filter_map(|node| node.upgrade()).filter(|node| node.is_writable())
    }

    /// `dir` remembers `count` more names.
    pub(super) fn names_added(&self, dir: &HostNode, count: usize) {
        self.names.set(self.names.get() + count);
        if !dir.names().is_kept.replace(true)
            && let Some(dir) = dir.this.upgrade()
        {
            self.with_names.borrow_mut().push_back(dir);
        }
        while self.names.get() > self.max_names || self.with_names.borrow().len() > self.max_names {
            let Some(oldest) = self.with_names.borrow_mut().pop_front() else { break };
            if core::ptr::eq(&*oldest, dir) {
                self.with_names.borrow_mut().push_back(oldest);
                if self.with_names.borrow().len() > 1 {
                    continue;
                }
                // A single directory that is too large is evicted again and again.
                self.names_dropped(dir.clear_names());
                break;
            }
            oldest.names().is_kept.set(false);
            self.names_dropped(oldest.clear_names());
        }
    }

    /// Forgets all names: memory is short. Returns how many pages that gave back, about.
    pub(super) fn drop_names(&self) -> usize {
        let before = self.names.get();
        let all = self.with_names.take();
        for dir in all {
            dir.names().is_kept.set(false);
            self.names_dropped(dir.clear_names());
        }
        before.saturating_sub(self.names.get()) * NAME_BYTES / hal::frame::FRAME_SIZE
    }

    pub(super) fn names_dropped(&self, count: usize) {
        self.names.set(self.names.get().saturating_sub(count));
    }

    /// Keeps a node alive for a while: what was fetched ahead is about to be used.
    pub(super) fn keep(&self, node: Rc<HostNode>) {
        let oldest = {
            let mut list = self.ahead.borrow_mut();
            list.push_back(node);
            if list.len() > MAX_AHEAD { list.pop_front() } else { None }
        };
        drop(oldest);
    }

    /// Lets go what was fetched ahead.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn drop_ahead(&self) {
        drop(self.ahead.take());
    }
}
