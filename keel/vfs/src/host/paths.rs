//! Requests by path against renames of directories.
//!
//! Requests name a file by its path beneath the export. While a rename of a directory is under way, a path may lead to
//! another file than the one that was meant, and an answer may concern another directory than the one that was asked. So a
//! thread holds the paths of the export from the moment when it builds a path until it has taken the answer, and a rename of
//! a directory excludes such threads. A thread that holds paths makes no second request that does: it could wait for a
//! rename that waits for it.

use super::Export;
use core::cell::Cell;
use uapi::Result;

/// Who uses the paths of an export.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// Threads with a request by path under way.
    held: Cell<usize>,
    /// A rename of a directory is under way, or waits until `held` is 0.
    is_moving: Cell<bool>,
    /// Threads that wait for a change of the two.
    waiting: Cell<usize>,
}

impl Export {
    /// Waits until a condition on [`Export::paths`] holds.
    fn wait_for_paths(&self, is_so: impl Fn(&Paths) -> bool) -> Result<()> {
        if is_so(&self.paths) {
            return Ok(());
        }
        self.paths.waiting.set(self.paths.waiting.get() + 1);
        let waited = self.host.io.wait(&|| is_so(&self.paths));
        self.paths.waiting.set(self.paths.waiting.get() - 1);
        waited
    }

    fn paths_changed(&self) {
        if self.paths.waiting.get() > 0 {
            self.host.io.wake();
        }
    }

    /// Keeps directories where they are, for one request by path.
    #[inline]
    pub(super) fn hold_paths(&self) -> Result<Held<'_>> {
        self.wait_for_paths(|paths| !paths.is_moving.get())?;
        self.paths.held.set(self.paths.held.get() + 1);
        Ok(Held(self))
    }

    /// Excludes all other requests by path, for a rename of a directory.
    pub(super) fn move_paths(&self) -> Result<Moving<'_>> {
        self.wait_for_paths(|paths| !paths.is_moving.get())?;
        self.paths.is_moving.set(true);
        let moving = Moving(self);
        self.wait_for_paths(|paths| paths.held.get() == 0)?;
        Ok(moving)
    }
}

/// A request by path is under way.
#[must_use]
pub(super) struct Held<'a>(&'a Export);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let paths = &self.0.paths;
        paths.held.set(paths.held.get() - 1);
        if paths.held.get() == 0 {
            self.0.paths_changed();
        }
    }
}

/// A rename of a directory is under way.
#[must_use]
pub(super) struct Moving<'a>(&'a Export);

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.0.paths.is_moving.set(false);
        self.0.paths_changed();
    }
}
