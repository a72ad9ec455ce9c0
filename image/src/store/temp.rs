//! Unfinished files of a store.

use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::FallocateFlags;

use super::{Store, TMP, options};
use crate::digest::Digest;
use crate::error::{Error, Result};

/// Begin of the name of a file that an interrupted transfer leaves; the digest of the blob follows.
const PART: &str = "part-";
/// How long such a file is kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A file in `tmp/`, removed when dropped without [`Temp::commit`]. The process holds the store's lock, so that no
/// other one takes the file for garbage.
#[derive(Debug)]
pub(crate) struct Temp {
    file: File,
    path: PathBuf,
    /// It is a part of a blob, of which a later pull may have use.
    is_part: bool,
    /// It is not removed.
    is_kept: bool,
}

/// Whether a file of `tmp/` is a part of a blob with which a later pull goes on.
pub(super) fn is_part(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    let digest = name.to_str().and_then(|name| name.strip_prefix(PART)).and_then(Digest::from_hex);
    let changed = entry.metadata().ok().and_then(|data| data.modified().ok());
    digest.is_some() && changed.and_then(|time| time.elapsed().ok()).is_none_or(|age| age < KEPT)
}

/// The file whose space is kept for an index on a full disk.
const SPARE: &str = "index.spare";
/// Its least length in bytes.
const SPARE_LEAST: u64 = 16 << 10;

/// Keeps space for an index of twice the length that it has.
pub(super) fn keep_spare(store: &Store, length: u64) -> Result<()> {
    let (path, wanted) = (store.root.join(SPARE), (length * 2).max(SPARE_LEAST));
    if fs::metadata(&path).is_ok_and(|data| data.len() >= length.max(SPARE_LEAST)) {
        return Ok(());
    }
    let temp = Temp::new(store)?;
    rustix::fs::fallocate(&temp.file, FallocateFlags::empty(), 0, wanted).map_err(|errno| temp.error(&errno.into()))?;
    temp.commit(&path)
}

impl Temp {
    /// A new empty file.
    pub fn new(store: &Store) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = store.root.join(TMP).join(name);
            match options().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { file, path, is_part: false, is_kept: false }),
                // Left by a process that had the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io(path.display(), &error)),
            }
        }
    }

    /// A file with these bytes that needs no space: the one that was kept for this. It is removed if it is not committed.
    pub fn spare(store: &Store, bytes: &[u8]) -> Result<Self> {
        let path = store.root.join(SPARE);
        let fail = |error: io::Error| Error::io(path.display(), &error);
        let mut file = options().write(true).open(&path).map_err(fail)?;
        if file.metadata().map_err(fail)?.len() < bytes.len() as u64 {
            return Err(fail(io::ErrorKind::StorageFull.into()));
        }
        file.write_all(bytes).and_then(|()| file.set_len(bytes.len() as u64)).map_err(fail)?;
        Ok(Self { file, path, is_part: false, is_kept: false })
    }

    /// The file for a blob that is transferred, with what an interrupted command left of it. `None`: another process
    /// transfers the blob. It is kept when dropped, unless [`Temp::keep`] says otherwise.
    pub fn part(store: &Store, digest: Digest) -> Result<Option<Self>> {
        let path = store.root.join(TMP).join(format!("{PART}{}", digest.hex()));
        let fail = |error: io::Error| Error::io(path.parent().unwrap_or(&path).display(), &error);
        let file = options().read(true).write(true).create(true).truncate(false).open(&path).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(fail(error)),
        }
        // The process that held the lock may have made it a blob, or removed it.
        let own = file.metadata().map_err(fail)?;
        let is_there = fs::symlink_metadata(&path).is_ok_and(|data| (data.dev(), data.ino()) == (own.dev(), own.ino()));
        Ok(is_there.then_some(Self { file, path, is_part: true, is_kept: true }))
    }

    /// Whether the file stays when this is dropped, if it is a part of a blob.
    pub fn keep(&mut self, is_kept: bool) {
        self.is_kept = is_kept && self.is_part;
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
        self.is_kept = true;
        Ok(())
    }

    /// An error that names the folder of the store.
    pub fn error(&self, error: &io::Error) -> Error {
        Error::io(self.path.parent().unwrap_or(&self.path).display(), error)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.is_kept {
            // A leftover is removed by the next process that writes.
            let _ = fs::remove_file(&self.path);
        }
    }
}
