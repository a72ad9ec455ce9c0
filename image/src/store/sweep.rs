//! Removal of names, and of the files that no name refers to.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use super::image::exists;
use super::temp::is_part;
use super::{BLOBS, EROFS, Index, Store, TMP, Writer};
use crate::digest::{Digest, chain};
use crate::error::{Error, Result};
use crate::limits;
use crate::manifest::{Manifest, parse_config};
use crate::reference::Reference;

/// What a removal did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Names that are gone, as people write them.
    pub untagged: Vec<String>,
    /// Images whose last name is gone.
    pub deleted: Vec<Digest>,
    /// Bytes that were freed.
    pub bytes: u64,
}

impl Store {
    /// Removes what no name refers to: blobs, EROFS files that no pod holds, unfinished files. The lock is held
    /// exclusively. Parts of blobs are kept for a while, unless `all` files go. Returns the number of bytes.
    pub(super) fn sweep(&self, all: bool) -> Result<u64> {
        let index = Index::load(&self.root.join("index.json"))?;
        let (mut blobs, mut files) = (BTreeSet::new(), BTreeSet::new());
        for entry in &index.entries {
            blobs.insert(entry.manifest);
            if !exists(&self.blob(entry.manifest)) {
                continue;
            }
            let manifest = Manifest::parse(&self.bytes(entry.manifest, limits::MANIFEST)?)?;
            blobs.extend(manifest.layers.iter().map(|layer| layer.digest));
            blobs.insert(manifest.config.digest);
            if exists(&self.blob(manifest.config.digest)) {
                let (_, diff_ids) = parse_config(&self.bytes(manifest.config.digest, limits::CONFIG)?)?;
                files.insert(chain(&diff_ids));
            }
        }
        let mut bytes = remove_others(&self.root.join(TMP), &|entry| !all && is_part(entry))?;
        bytes += remove_others(&self.root.join(BLOBS), &|entry| is_named(entry, &blobs))?;
        bytes += remove_others(&self.root.join(EROFS), &|entry| is_named(entry, &files) || is_locked(&entry.path()))?;
        Ok(bytes)
    }

    /// Removes one name, or with `force` all names, of an image; the last name takes the image with it.
    ///
    /// # Errors
    ///
    /// There is no such image; it has several names and was named by its id; a pod runs it (not with `force`).
    pub fn remove(&self, name: &str, force: bool) -> Result<Swept> {
        if !self.check_version()? {
            return Err(Error::no_such_image(name));
        }
        let writer = self.write()?;
        let mut swept = writer.change(|index| self.untag(index, name, force))?;
        swept.bytes = writer.sweep_now()?;
        Ok(swept)
    }

    fn untag(&self, index: &mut Index, name: &str, force: bool) -> Result<Swept> {
        let found = self.find(index, name)?;
        let id = self.id(found.manifest);
        let of_image = |manifest: Digest| manifest == found.manifest || (id.is_some() && self.id(manifest) == id);
        let tags = |name: &Option<Reference>| name.as_ref().is_some_and(|name| name.tag().is_some());
        let others = index.entries.iter().filter(|entry| of_image(entry.manifest) && tags(&entry.name)).count();
        let all = match &found.name {
            None if others > 1 && !force => {
                let why = "several names refer to this image";
                return Err(Error::new(name, why, "remove them by name, or all with --force"));
            }
            None => true,
            Some(name) => others <= 1 && (tags(&Some(name.clone())) || others == 0),
        };
        if all && !force && self.is_held(found.manifest) {
            return Err(Error::new(name, "a pod runs this image", "end it first, or remove the name with --force"));
        }
        let mut swept = Swept::default();
        index.entries.retain(|entry| {
            let gone = of_image(entry.manifest)
                && (all
                    || entry.name.as_ref().is_some_and(|other| {
                        Some(other) == found.name.as_ref()
                            || found.name.as_ref().is_some_and(|name| {
                                name.digest().is_some()
                                    && name.digest() == other.digest()
                                    && name.same_repository(other)
                            })
                    }));
            if gone {
                swept.untagged.extend(entry.name.iter().map(Reference::familiar));
            }
            !gone
        });
        if all {
            swept.deleted.push(id.unwrap_or(found.manifest));
        }
        Ok(swept)
    }

    /// The image's id, if its manifest is whole.
    pub(crate) fn id(&self, manifest: Digest) -> Option<Digest> {
        let bytes = self.bytes(manifest, limits::MANIFEST).ok()?;
        Some(Manifest::parse(&bytes).ok()?.config.digest)
    }

    /// Whether a pod runs the image.
    pub(crate) fn is_held(&self, manifest: Digest) -> bool {
        self.parts(manifest).is_ok_and(|parts| is_locked(&self.erofs(parts.chain())))
    }

    /// Removes images without a name, or with `all` those that no pod runs, and everything that nothing refers to.
    /// Waits until no other process adds images.
    ///
    /// # Errors
    ///
    /// The store can't be written.
    pub fn prune(&self, all: bool) -> Result<Swept> {
        if !self.check_version()? {
            return Ok(Swept::default());
        }
        let writer = self.write()?;
        let mut swept = Swept::default();
        writer.change(|index| {
            let held: Vec<Digest> =
                index.entries.iter().map(|entry| entry.manifest).filter(|manifest| self.is_held(*manifest)).collect();
            let before: BTreeSet<Digest> = index.entries.iter().map(|entry| entry.manifest).collect();
            index.entries.retain(|entry| {
                let gone = (all || entry.name.is_none()) && !held.contains(&entry.manifest);
                if gone {
                    swept.untagged.extend(entry.name.iter().map(Reference::familiar));
                }
                !gone
            });
            let left: BTreeSet<Digest> = index.entries.iter().map(|entry| entry.manifest).collect();
            let gone = before.difference(&left).map(|gone| self.id(*gone).unwrap_or(*gone));
            // Several manifests of one configuration are one image.
            swept.deleted = gone.collect::<BTreeSet<_>>().into_iter().collect();
            Ok(())
        })?;
        writer.lock.lock().map_err(|error| self.error(&error.to_string(), "check the file system"))?;
        swept.bytes = self.sweep(true)?;
        Ok(swept)
    }
}

impl Writer {
    /// Removes what a failed addition left, now or later.
    pub(crate) fn clean(&self) {
        // What can't be removed now can be later.
        let _ = self.sweep_now();
    }

    /// Removes what nothing refers to, if no other process uses the store; otherwise a later process does.
    fn sweep_now(&self) -> Result<u64> {
        match self.lock.try_lock() {
            Ok(()) => self.store.sweep(false),
            Err(_) => Ok(0),
        }
    }
}

/// Whether another file description holds a lock.
pub(super) fn is_locked(path: &Path) -> bool {
    // `try_lock` of this new description ends when it is closed.
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Whether the name of a file is in a set of digests.
fn is_named(entry: &fs::DirEntry, digests: &BTreeSet<Digest>) -> bool {
    entry.file_name().to_str().and_then(Digest::from_hex).is_some_and(|digest| digests.contains(&digest))
}

/// Removes the files of a folder that are not to be kept; returns their size.
fn remove_others(folder: &Path, is_kept: &dyn Fn(&fs::DirEntry) -> bool) -> Result<u64> {
    let fail = |error: io::Error| Error::io(folder.display(), &error);
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if is_kept(&entry) {
            continue;
        }
        let size = entry.metadata().map_or(0, |metadata| metadata.len());
        match fs::remove_file(entry.path()) {
            Ok(()) => bytes += size,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(entry.path().display(), &error)),
        }
    }
    Ok(bytes)
}
