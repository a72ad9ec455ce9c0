//! Unfinished files of a store.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Store, TMP, options};
use crate::error::{Error, Result};

/// A file in `tmp/`, removed when dropped without [`Temp::commit`]. The process holds the store's lock, so that no
/// other one takes the file for garbage.
#[derive(Debug)]
pub(crate) struct Temp {
    file: File,
    path: PathBuf,
    is_named: bool,
}

impl Temp {
    /// A new empty file.
    pub fn new(store: &Store) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = store.root.join(TMP).join(name);
            match options().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { file, path, is_named: false }),
                // Left by a process that had the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io(path.display(), &error)),
            }
        }
    }

    /// Another descriptor of the file, with the same position.
    pub fn share(&self) -> Result<File> {
        self.file.try_clone().map_err(|error| self.error(&error))
    }

    /// A descriptor for reading from the beginning.
    pub fn reopen(&self) -> Result<File> {
        File::open(&self.path).map_err(|error| self.error(&error))
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| self.error(&error))
    }

    /// Removes the contents.
    pub fn clear(&mut self) -> Result<()> {
        self.file.set_len(0).and_then(|()| self.file.rewind()).map_err(|error| self.error(&error))
    }

    /// Writes the contents to the disk, then gives the file its name.
    pub fn commit(mut self, path: &Path) -> Result<()> {
        self.file.sync_data().and_then(|()| fs::rename(&self.path, path)).map_err(|error| self.error(&error))?;
        self.is_named = true;
        Ok(())
    }

    /// An error that names the folder of the store.
    pub fn error(&self, error: &io::Error) -> Error {
        Error::io(self.path.parent().unwrap_or(&self.path).display(), error)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.is_named {
            // A leftover is removed by the next process that writes.
            let _ = fs::remove_file(&self.path);
        }
    }
}
