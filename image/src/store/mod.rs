//! The store: images of one user, in a folder that is an OCI image layout with EROFS files beside it.
//!
//! Locks are `flock`s, which end with the processes that hold them. The file `lock` is held shared by a process that reads
//! or adds, and exclusively by one that removes what nothing refers to; while it is held exclusively, everything in
//! `tmp/` is garbage, but parts of blobs with which a later pull goes on; a process that transfers one holds its lock. `index.lock` is held exclusively while `index.json` is replaced,
//! `copy.lock` while files are copied into an image. A pod holds a shared lock of its
//! EROFS file.

mod image;
mod index;
mod listing;
mod sweep;
mod temp;

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub use image::Image;
pub(crate) use image::Parts;
pub use index::Entry;
pub(crate) use index::{Index, NAME};
pub use listing::{Details, Layer, Listed};
pub use sweep::Swept;
pub(crate) use temp::Temp;

use crate::digest::Digest;
use crate::error::{Error, Result};

/// Version of the layout, in the file `version`.
const VERSION: &str = "1\n";
/// Contents of `oci-layout`.
const LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;
/// The folder of blobs.
const BLOBS: &str = "blobs/sha256";
/// The folder of EROFS files, named by the chain ids of their layers.
const EROFS: &str = "erofs";
/// The folder of unfinished files.
const TMP: &str = "tmp";
/// Largest index in bytes.
const INDEX_LIMIT: u64 = 64 << 20;

/// A store. Opening one costs nothing; the folder is made by the first command that adds an image.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// A store that is read; nothing is removed meanwhile.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    store: &'a Store,
    _lock: File,
}

/// A store that is added to; nothing is removed meanwhile.
#[derive(Debug)]
pub struct Writer {
    store: Store,
    lock: File,
}

impl Store {
    /// The store in `path`, or else in `$HULL_STORE`, or else the user's: `/var/lib/hull/images` for root,
    /// `$XDG_DATA_HOME/hull/images` or `~/.local/share/hull/images` for others.
    ///
    /// # Errors
    ///
    /// There is no path: neither variables nor a home directory.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let chosen = path.map(Path::to_owned).or_else(|| variable("HULL_STORE"));
        let root = chosen.or_else(|| {
            if rustix::process::geteuid().is_root() {
                return Some(PathBuf::from("/var/lib/hull/images"));
            }
            let data = variable("XDG_DATA_HOME").filter(|path| path.is_absolute());
            data.or_else(|| variable("HOME").map(|home| home.join(".local/share"))).map(|data| data.join("hull/images"))
        });
        let why = "neither HULL_STORE nor XDG_DATA_HOME nor HOME is set";
        root.map(|root| Self { root }).ok_or_else(|| Error::new("store", why, "choose a folder: --store DIR"))
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Path of a blob.
    pub(crate) fn blob(&self, digest: Digest) -> PathBuf {
        self.root.join(BLOBS).join(digest.hex())
    }

    /// Path of the EROFS file of a chain of layers.
    pub(crate) fn erofs(&self, chain: Digest) -> PathBuf {
        self.root.join(EROFS).join(chain.hex())
    }

    /// Fails if the folder belongs to another version of Hull; tells whether there is a store.
    fn check_version(&self) -> Result<bool> {
        match fs::read_to_string(self.root.join("version")) {
            Ok(text) if text == VERSION => Ok(true),
            Ok(_) => Err(self.error("another version of Hull made this store", "choose another folder: --store DIR")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io(self.root.join("version").display(), &error)),
        }
    }

    /// Fails if root is about to write into the store of another user, who could not read what root leaves there, and could lead it
    /// elsewhere by links.
    fn check_owner(&self) -> Result<()> {
        let owner = fs::metadata(&self.root).map_err(|error| Error::io(self.root.display(), &error))?.uid();
        if rustix::process::geteuid().is_root() && owner != 0 {
            let why = format!("the store belongs to the user {owner}");
            return Err(self.error(&why, "run hull as that user, or choose another folder: --store DIR"));
        }
        Ok(())
    }

    /// Begins to read. `None`: there is no store yet.
    pub(crate) fn read(&self) -> Result<Option<Reader<'_>>> {
        if !self.check_version()? {
            return Ok(None);
        }
        let path = self.root.join("lock");
        let lock = File::open(&path).and_then(|lock| lock.lock_shared().map(|()| lock));
        let _lock = lock.map_err(|error| Error::io(path.display(), &error))?;
        Ok(Some(Reader { store: self, _lock }))
    }

    /// Begins to add: makes the folder if needed, and removes what interrupted processes left if no other process uses
    /// the store.
    ///
    /// # Errors
    ///
    /// The folder can't be made or written, or another version of Hull made it.
    pub fn write(&self) -> Result<Writer> {
        let exists = self.check_version()?;
        if exists {
            self.check_owner()?;
        } else {
            self.make_folders()?;
        }
        let path = self.root.join("lock");
        let fail = |error: io::Error| Error::io(path.display(), &error);
        let lock = options().read(true).write(true).create(true).truncate(false).open(&path).map_err(fail)?;
        if !exists {
            lock.lock_shared().map_err(fail)?;
            self.make_files()?;
        }
        match lock.try_lock() {
            // What can't be removed now can be later.
            Ok(()) => drop(self.sweep(false)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(fail(error)),
        }
        lock.lock_shared().map_err(fail)?;
        Ok(Writer { store: self.clone(), lock })
    }

    /// Makes the folders of a new store.
    fn make_folders(&self) -> Result<()> {
        let occupied = fs::read_dir(&self.root).is_ok_and(|entries| {
            let own = ["blobs", EROFS, TMP, "lock", "index.lock", "copy.lock", "oci-layout", "version"];
            entries.flatten().any(|entry| !own.iter().any(|name| entry.file_name() == *name))
        });
        if occupied {
            return Err(self.error("the folder is neither empty nor a store", "choose another folder: --store DIR"));
        }
        let mut folders = DirBuilder::new();
        folders.recursive(true).mode(0o700);
        for folder in [BLOBS, EROFS, TMP] {
            let path = self.root.join(folder);
            folders.create(&path).map_err(|error| Error::io(path.display(), &error))?;
        }
        Ok(())
    }

    /// Makes the files that name the version. The lock is held.
    fn make_files(&self) -> Result<()> {
        for (name, contents) in [("oci-layout", LAYOUT), ("version", VERSION.as_bytes())] {
            let mut temp = Temp::new(self)?;
            temp.write(contents)?;
            temp.commit(&self.root.join(name))?;
        }
        sync_folder(&self.root)
    }

    fn error(&self, why: &str, remedy: &str) -> Error {
        Error::new(self.root.display(), why, remedy)
    }
}

impl Reader<'_> {
    /// The names.
    pub fn index(&self) -> Result<Index> {
        Index::load(&self.store.root.join("index.json"))
    }

    /// The store.
    pub fn store(&self) -> &Store {
        self.store
    }
}

impl Writer {
    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The names.
    pub(crate) fn index(&self) -> Result<Index> {
        Index::load(&self.store.root.join("index.json"))
    }

    /// A file in the store that has no name yet and is removed when dropped.
    pub(crate) fn temp(&self) -> Result<Temp> {
        Temp::new(&self.store)
    }

    /// A file for a blob that is transferred, with what is there of it. `None`: another process transfers it.
    pub(crate) fn part(&self, digest: Digest) -> Result<Option<Temp>> {
        Temp::part(&self.store, digest)
    }

    /// Whether a blob is there.
    pub(crate) fn has_blob(&self, digest: Digest) -> bool {
        self.store.blob(digest).is_file()
    }

    /// Stores a blob whose digest was verified. One that is there is replaced: it may be damaged.
    pub(crate) fn add_blob(&self, temp: Temp, digest: Digest) -> Result<()> {
        temp.commit(&self.store.blob(digest))
    }

    /// Stores a small blob.
    pub(crate) fn add_bytes(&self, bytes: &[u8]) -> Result<Digest> {
        let digest = Digest::of(bytes);
        let is_there = read_bounded(&self.store.blob(digest), bytes.len() as u64).is_ok_and(|found| found == bytes);
        if !is_there {
            let mut temp = self.temp()?;
            temp.write(bytes)?;
            self.add_blob(temp, digest)?;
        }
        Ok(digest)
    }

    /// Makes the names of new files last.
    pub(crate) fn sync(&self) -> Result<()> {
        [BLOBS, EROFS].iter().try_for_each(|folder| sync_folder(&self.store.root.join(folder)))
    }

    /// Waits until no other process copies files into an image of the store; none does until the result is dropped.
    pub(crate) fn lock_copies(&self) -> Result<File> {
        let path = self.store.root.join("copy.lock");
        let lock = options().write(true).create(true).truncate(false).open(&path);
        lock.and_then(|lock| lock.lock().map(|()| lock)).map_err(|error| Error::io(path.display(), &error))
    }

    /// Changes the names: other processes see the state before or the state after.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Index) -> Result<T>) -> Result<T> {
        let path = self.store.root.join("index.lock");
        let lock = options().write(true).create(true).truncate(false).open(&path);
        let _lock =
            lock.and_then(|lock| lock.lock().map(|()| lock)).map_err(|error| Error::io(path.display(), &error))?;
        let mut index = self.index()?;
        let before = index.clone();
        let result = change(&mut index)?;
        if index != before {
            let bytes = index.to_bytes();
            match self.replace_index(&bytes) {
                // Otherwise a full disk could not be freed by removing images. Those who add have no use of it.
                Err(error) if error.is_full() && bytes.len() <= before.to_bytes().len() => {
                    Temp::spare(&self.store, &bytes)
                        .and_then(|spare| spare.commit(&self.store.root.join("index.json")))
                        .map_err(|_| error)?
                }
                result => result?,
            }
            // Without space there is none for the next time, unless files are removed before.
            let _ = temp::keep_spare(&self.store, bytes.len() as u64);
            sync_folder(&self.store.root)?;
        }
        Ok(result)
    }

    fn replace_index(&self, bytes: &[u8]) -> Result<()> {
        let mut temp = self.temp()?;
        temp.write(bytes)?;
        temp.commit(&self.store.root.join("index.json"))
    }
}

/// Reads a whole file of at most `limit` bytes.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let fail = |error: io::Error| Error::io(path.display(), &error);
    let mut bytes = Vec::new();
    File::open(path).map_err(fail)?.take(limit + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > limit {
        return Err(Error::invalid(path.display(), format!("larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Options to open a file that only its owner reads.
fn options() -> fs::OpenOptions {
    let mut options = File::options();
    options.mode(0o600);
    options
}

fn sync_folder(path: &Path) -> Result<()> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(|error| Error::io(path.display(), &error))
}
