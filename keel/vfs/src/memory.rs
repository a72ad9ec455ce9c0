//! Shortage of memory for keel's own objects: calls that create objects fail early.

use crate::dentry::unused;
use crate::host::Host;
use crate::mount;
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt::Write;
use core::ops::Bound;
use hal::cell::Global;
use keel_core::pieces::Pieces;
use uapi::{Errno, Result};

/// Pages that the caches free at once.
const STEP: usize = 1024;

/// Owner of the caches.
static HOST: Global<RefCell<Weak<Host>>> = Global::new(RefCell::new(Weak::new()));

pub(crate) fn reclaim_from(host: &Rc<Host>) {
    *HOST.borrow_mut() = Rc::downgrade(host);
}

/// Most bytes of a transfer in a small pod: whole pages, and with a header less than 32 KiB, which is a size of blocks.
const SMALL_CHUNK: usize = 28 << 10;

/// Most bytes of a transfer at a time, which is `bytes` unless the pod is small.
pub fn chunk(bytes: usize) -> usize {
    if hal::frame::is_small() { bytes.min(SMALL_CHUNK) } else { bytes }
}

/// Whether memory is scarce, even after shrinking the caches. Must not be called while a cache is borrowed.
#[inline]
pub fn is_scarce() -> bool {
    hal::frame::is_scarce() && !reclaim()
}

#[cold]
fn reclaim() -> bool {
    hal::sync::grace::collect();
    let host = HOST.borrow().upgrade();
    host.is_some_and(|host| host.shrink(STEP) > 0) && !hal::frame::is_scarce()
}

/// Gives memory of the caches back: pages of files, about as many as asked for, or the names that nobody uses, whichever
/// take more. Returns the number of pages, about. Must be called where threads may wait, so without a borrow.
pub fn shrink(pages: usize) -> usize {
    mount::forget_ended();
    let host = HOST.borrow().upgrade();
    let cached = host.as_ref().map_or(0, |host| host.cached_pages());
    let names = if unused::pages() > cached { unused::drop_unused() } else { 0 };
    if names > 0 {
        return names;
    }
    match host.map_or(0, |host| host.shrink(pages)) {
        0 => unused::drop_unused(),
        freed => freed,
    }
}

/// Pages that the names take which are kept, about. Those that nobody uses are given back when memory is short.
pub fn name_pages() -> usize {
    unused::pages()
}

/// ENOMEM if memory is scarce.
#[inline]
pub fn check() -> Result<()> {
    if is_scarce() { Err(Errno::ENOMEM) } else { Ok(()) }
}

/// Collects any number of items, which may own memory. ENOMEM.
pub fn collect<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    /// Number of items between two checks of free memory.
    const STEP: usize = 64;
    let mut list = Vec::new();
    for (i, item) in items.into_iter().enumerate() {
        if i % STEP == 0 {
            check()?;
        }
        list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        list.push(item);
    }
    Ok(list)
}

/// Collects existing items, such as frames: only the list allocates. ENOMEM.
pub fn list<T>(items: impl Iterator<Item = T>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    for item in items {
        push(&mut list, item)?;
    }
    Ok(list)
}

/// Appends to a text of any length: a long one does not grow at the expense of keel's reserve. ENOMEM.
pub fn append(text: &mut Vec<u8>, more: &[u8]) -> Result<()> {
    /// Bytes of a text that is not long.
    const FEW: usize = 4096;
    let len = text.len() + more.len();
    if len > text.capacity() {
        if len > FEW && hal::frame::is_scarce() {
            return Err(Errno::ENOMEM);
        }
        text.try_reserve(more.len()).map_err(|_| Errno::ENOMEM)?;
    }
    text.extend_from_slice(more);
    Ok(())
}

/// A buffer of zeros. ENOMEM.
pub fn buffer(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
    bytes.resize(len, 0);
    Ok(bytes)
}

/// Appends to a list that can have any number of items. ENOMEM.
#[inline]
pub fn push<T>(list: &mut Vec<T>, item: T) -> Result<()> {
    list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    list.push(item);
    Ok(())
}

/// Objects that live elsewhere. Those that are gone are forgotten whenever the list has doubled, or when memory is short.
pub(crate) struct Living<T> {
    list: Vec<Weak<T>>,
    limit: usize,
}

impl<T> Living<T> {
    pub(crate) const fn new() -> Self {
        Self { list: Vec::new(), limit: 0 }
    }

    /// Makes room for one more. ENOMEM.
    pub(crate) fn reserve(&mut self) -> Result<()> {
        if self.list.len() >= self.limit {
            self.forget();
        }
        self.list.try_reserve(1).map_err(|_| Errno::ENOMEM)
    }

    /// Forgets those that are gone: until then their memory stays allocated.
    pub(crate) fn forget(&mut self) {
        self.list.retain(|object| object.strong_count() > 0);
        self.limit = 64.max(self.list.len() * 2);
    }

    /// Adds one for which there is room.
    pub(crate) fn add(&mut self, object: &Rc<T>) {
        self.list.push(Rc::downgrade(object));
    }

    /// Number `at` of the list: `None` beyond its end, `Some(None)` for one that is gone.
    pub(crate) fn get(&self, at: usize) -> Option<Option<Rc<T>>> {
        self.list.get(at).map(Weak::upgrade)
    }
}

/// A copy of bytes of which there can be any number. ENOMEM.
pub fn copy(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| Errno::ENOMEM)?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// A text that may get long. One for which there is no memory stays empty, and [`Text::done`] fails: writing never does.
#[derive(Debug, Default)]
pub struct Text {
    bytes: Vec<u8>,
    failed: bool,
}

impl Text {
    /// Appends bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        if !self.failed && append(&mut self.bytes, bytes).is_err() {
            *self = Self { bytes: Vec::new(), failed: true };
        }
    }

    /// Appends formatted text.
    pub fn print(&mut self, arguments: core::fmt::Arguments<'_>) {
        // A lack of memory is kept for `done`.
        let _ = self.write_fmt(arguments);
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it is empty, also because of a lack of memory.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Puts bytes in the place of others, which begin at `at`.
    pub fn replace(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// The text. ENOMEM.
    pub fn done(self) -> Result<Vec<u8>> {
        if self.failed { Err(Errno::ENOMEM) } else { Ok(self.bytes) }
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

/// The values of a table, which may change meanwhile: without a borrow and without a list of them.
pub fn values<K: Ord + Copy, V: Clone>(
    table: &RefCell<BTreeMap<K, V>>,
) -> impl DoubleEndedIterator<Item = V> + use<'_, K, V> {
    Values { table, after: Bound::Unbounded, before: Bound::Unbounded }
}

struct Values<'a, K, V> {
    table: &'a RefCell<BTreeMap<K, V>>,
    after: Bound<K>,
    before: Bound<K>,
}

impl<K: Ord + Copy, V> Values<'_, K, V> {
    /// The range panics if it is empty with both ends excluded.
    fn is_over(&self) -> bool {
        matches!((self.after, self.before), (Bound::Excluded(after), Bound::Excluded(before)) if after >= before)
    }
}

impl<K: Ord + Copy, V: Clone> Iterator for Values<'_, K, V> {
    type Item = V;

    fn next(&mut self) -> Option<V> {
        if self.is_over() {
            return None;
        }
        let table = self.table.borrow();
        let (key, value) = table.range((self.after, self.before)).next()?;
        self.after = Bound::Excluded(*key);
        Some(value.clone())
    }
}

impl<K: Ord + Copy, V: Clone> DoubleEndedIterator for Values<'_, K, V> {
    fn next_back(&mut self) -> Option<V> {
        if self.is_over() {
            return None;
        }
        let table = self.table.borrow();
        let (key, value) = table.range((self.after, self.before)).next_back()?;
        self.before = Bound::Excluded(*key);
        Some(value.clone())
    }
}

/// The items of a list, without a borrow and without a copy of it. It must not lose any meanwhile, or some are left out.
pub fn items<T: Clone>(list: &RefCell<Pieces<T>>) -> impl Iterator<Item = T> + use<'_, T> {
    (0..).map_while(|i| list.borrow().get(i).cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_from_both_ends_while_the_table_changes() {
        let table = RefCell::new((0..100).map(|i| (i, i)).collect::<BTreeMap<_, _>>());
        let mut all = values(&table);
        assert_eq!((all.next(), all.next_back(), all.next()), (Some(0), Some(99), Some(1)));
        table.borrow_mut().retain(|key, _| *key == 50);
        table.borrow_mut().insert(0, 0);
        assert_eq!((all.next(), all.next(), all.next_back()), (Some(50), None, None));
        let table = RefCell::new(BTreeMap::from([(1, 'a')]));
        let mut one = values(&table);
        assert_eq!((one.next_back(), one.next()), (Some('a'), None));
    }

    #[test]
    fn items_see_what_was_added() {
        let list = RefCell::new(Pieces::new());
        [1, 2].into_iter().for_each(|item| list.borrow_mut().push_back(item));
        let mut seen = 0;
        for item in items(&list) {
            seen += item;
            if item == 1 {
                list.borrow_mut().push_back(10);
            }
        }
        assert_eq!(seen, 13);
    }
}
