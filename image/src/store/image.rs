//! Images of a store by name.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use oci_spec::image::ImageConfiguration;

use super::{Entry, Index, Reader, Store, read_bounded};
use crate::digest::{Digest, chain};
use crate::error::{Error, Result};
use crate::limits;
use crate::manifest::{Manifest, parse_config};
use crate::reference::Reference;

/// An image that a pod may run: it stays in the store while `erofs` is open.
#[derive(Debug)]
pub struct Image {
    /// The name that was asked for, completed: `debian:latest`; of an image by its id, the id.
    pub name: String,
    /// The image's id: the digest of its configuration.
    pub id: Digest,
    /// Digest of its manifest.
    pub manifest: Digest,
    /// Its configuration.
    pub config: ImageConfiguration,
    /// Its root file system, open for reading. The file description holds a shared lock: while it is open, here or in
    /// another process that inherited it, the image is not removed.
    pub erofs: File,
    /// Path of that file.
    pub erofs_path: PathBuf,
}

impl Store {
    /// The image of a name, an id, or the unique beginning of an id.
    ///
    /// # Errors
    ///
    /// There is no such image ([`Error::is_not_found`]), several ids begin so, or the store can't be read.
    pub fn resolve(&self, name: &str) -> Result<Image> {
        let reader = self.read()?.ok_or_else(|| Error::no_such_image(name))?;
        let found = reader.find(&reader.index()?, name)?;
        let parts = reader.parts(found.manifest)?;
        let erofs_path = self.erofs(parts.chain());
        let erofs = File::open(&erofs_path)
            .and_then(|file| file.lock_shared().map(|()| file))
            .map_err(|error| Error::of_store(&erofs_path, &error))?;
        if !rootfs::is_whole(&erofs) {
            return Err(Error::damaged(erofs_path.display(), "it is cut"));
        }
        let name = found.name.map_or_else(|| parts.id.to_string(), |name| name.familiar());
        Ok(Image { name, id: parts.id, manifest: found.manifest, config: parts.config, erofs, erofs_path })
    }
}

/// Manifest and configuration of an image.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The manifest.
    pub manifest: Manifest,
    /// Digest of the configuration.
    pub id: Digest,
    /// The configuration as it is stored.
    pub config_bytes: Vec<u8>,
    /// The configuration.
    pub config: ImageConfiguration,
    /// Digests of the unpacked layers.
    pub diff_ids: Vec<Digest>,
}

impl Parts {
    /// The name of the EROFS file.
    pub fn chain(&self) -> Digest {
        chain(&self.diff_ids)
    }
}

/// An image that was found.
#[derive(Debug)]
pub(crate) struct Found {
    /// The name by which it was found; `None`: by its id.
    pub name: Option<Reference>,
    /// Its manifest.
    pub manifest: Digest,
}

impl Reader<'_> {
    /// Reads manifest and configuration.
    pub fn parts(&self, manifest: Digest) -> Result<Parts> {
        self.store().parts(manifest)
    }

    /// Finds an image.
    pub fn find(&self, index: &Index, name: &str) -> Result<Found> {
        self.store().find(index, name)
    }
}

impl Store {
    /// Reads manifest and configuration of an image.
    pub(crate) fn parts(&self, manifest: Digest) -> Result<Parts> {
        let damaged = |error: Error| error.within(format!("image {}", manifest.short()));
        let manifest = Manifest::parse(&self.bytes(manifest, limits::MANIFEST)?).map_err(damaged)?;
        let config_bytes = self.bytes(manifest.config.digest, limits::CONFIG)?;
        let (config, diff_ids) = parse_config(&config_bytes).map_err(damaged)?;
        Ok(Parts { id: manifest.config.digest, manifest, config_bytes, config, diff_ids })
    }

    /// A small blob.
    pub(crate) fn bytes(&self, digest: Digest, limit: u64) -> Result<Vec<u8>> {
        let path = self.blob(digest);
        match read_bounded(&path, limit) {
            Err(_) if !exists(&path) => Err(Error::damaged(path.display(), "it is missing")),
            read => read,
        }
    }

    /// Finds an image by name, by id, or by the beginning of an id.
    pub(crate) fn find(&self, index: &Index, name: &str) -> Result<Found> {
        let reference = Reference::parse(name);
        if let Ok(reference) = &reference
            && let Some(entry) = by_name(&index.entries, reference)
        {
            return Ok(Found { name: Some(reference.clone()), manifest: entry.manifest });
        }
        let digits = name.strip_prefix("sha256:").unwrap_or(name);
        if digits.is_empty()
            || digits.len() > 64
            || !digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        {
            return Err(reference.err().unwrap_or_else(|| Error::no_such_image(name)));
        }
        let mut found: Option<(Digest, Digest)> = None;
        for entry in &index.entries {
            // A damaged image has no id; it can be removed by its name.
            let Ok(bytes) = self.bytes(entry.manifest, limits::MANIFEST) else { continue };
            let Ok(manifest) = Manifest::parse(&bytes) else { continue };
            let id = manifest.config.digest;
            if id.hex().starts_with(digits) || entry.manifest.hex() == digits {
                if found.is_some_and(|(other, _)| other != id) {
                    return Err(Error::new(name, "several images have ids that begin so", "give more digits"));
                }
                found = found.or(Some((id, entry.manifest)));
            }
        }
        let (_, manifest) = found.ok_or_else(|| Error::no_such_image(name))?;
        Ok(Found { name: None, manifest })
    }
}

/// The entry of a name. With a digest, that of the manifest counts, or a name that was pulled by that digest.
fn by_name<'a>(entries: &'a [Entry], wanted: &Reference) -> Option<&'a Entry> {
    match wanted.digest() {
        None => entries.iter().find(|entry| entry.name.as_ref() == Some(wanted)),
        Some(digest) => entries.iter().find(|entry| {
            entry.name.as_ref().is_some_and(|name| {
                name.same_repository(wanted) && (name.digest() == Some(digest) || entry.manifest == digest)
            })
        }),
    }
}

/// Whether a file exists; errors other than that count as existing.
pub(crate) fn exists(path: &std::path::Path) -> bool {
    !matches!(path.symlink_metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound)
}
