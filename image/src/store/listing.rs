//! What a store has.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::Store;
use super::image::Parts;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::reference::Reference;
use crate::store::Entry;

/// A name and its image, or an image without a name.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The name.
    pub name: Option<Reference>,
    /// The image's id; that of a damaged image is its manifest's digest.
    pub id: Digest,
    /// Digest of its manifest.
    pub manifest: Digest,
    /// When it was made (RFC 3339), if its configuration says so.
    pub created: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Size of its EROFS file in bytes.
    pub size: u64,
    /// Whether files of it are missing or damaged.
    pub is_damaged: bool,
}

/// An image in detail.
#[derive(Clone, Debug)]
pub struct Details {
    /// All its names.
    pub names: Vec<Reference>,
    /// Its id.
    pub id: Digest,
    /// Digest of its manifest.
    pub manifest: Digest,
    /// Size of its manifest in bytes.
    pub manifest_size: u64,
    /// Media type of its manifest.
    pub media_type: String,
    /// Its configuration: JSON as it came.
    pub config: Vec<u8>,
    /// Its layers, the lowest first.
    pub layers: Vec<Layer>,
    /// Its EROFS file.
    pub erofs_path: PathBuf,
    /// Size of that file in bytes.
    pub size: u64,
}

/// A layer.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Digest as it is stored.
    pub digest: Digest,
    /// Digest of the unpacked layer.
    pub diff_id: Digest,
    /// Size as it is stored in bytes.
    pub size: u64,
}

impl Store {
    /// All names, the newest image first.
    ///
    /// # Errors
    ///
    /// The store can't be read. A damaged image is listed as such.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let Some(reader) = self.read()? else { return Ok(Vec::new()) };
        let index = reader.index()?;
        let mut listed: Vec<Listed> = index.entries.iter().map(|entry| self.listed(entry)).collect();
        listed.sort_by(|one, other| other.created.cmp(&one.created));
        Ok(listed)
    }

    fn listed(&self, entry: &Entry) -> Listed {
        let parts = self.parts(entry.manifest);
        let size = parts.as_ref().ok().and_then(|parts| self.size(parts));
        let labels = parts.as_ref().ok().and_then(|parts| parts.config.config().as_ref()?.labels().clone());
        Listed {
            name: entry.name.clone(),
            id: parts.as_ref().map_or(entry.manifest, |parts| parts.id),
            manifest: entry.manifest,
            labels: labels.into_iter().flatten().collect(),
            created: parts.ok().and_then(|parts| parts.config.created().clone()),
            size: size.unwrap_or(0),
            is_damaged: size.is_none(),
        }
    }

    fn size(&self, parts: &Parts) -> Option<u64> {
        Some(self.erofs(parts.chain()).metadata().ok()?.len())
    }

    /// An image in detail.
    ///
    /// # Errors
    ///
    /// There is no such image, or it is damaged.
    pub fn inspect(&self, name: &str) -> Result<Details> {
        let reader = self.read()?.ok_or_else(|| Error::no_such_image(name))?;
        let index = reader.index()?;
        let found = self.find(&index, name)?;
        let parts = self.parts(found.manifest)?;
        let of_image = |entry: &&Entry| entry.manifest == found.manifest || self.id(entry.manifest) == Some(parts.id);
        let names = index.entries.iter().filter(of_image).filter_map(|entry| entry.name.clone()).collect();
        let layers = parts.manifest.layers.iter().zip(&parts.diff_ids);
        Ok(Details {
            names,
            id: parts.id,
            manifest: found.manifest,
            manifest_size: self.blob(found.manifest).metadata().map_or(0, |data| data.len()),
            media_type: parts.manifest.media_type.clone(),
            layers: layers
                .map(|(layer, diff_id)| Layer { digest: layer.digest, diff_id: *diff_id, size: layer.size })
                .collect(),
            erofs_path: self.erofs(parts.chain()),
            size: self.size(&parts).unwrap_or(0),
            config: parts.config_bytes,
        })
    }

    /// Gives an image another name.
    ///
    /// # Errors
    ///
    /// There is no such image; the new name has a digest; the store can't be written.
    pub fn tag(&self, source: &str, name: &Reference) -> Result<()> {
        if name.digest().is_some() {
            return Err(Error::new(name.familiar(), "a digest can't be given to an image", "write NAME[:TAG]"));
        }
        if !self.check_version()? {
            return Err(Error::no_such_image(source));
        }
        self.write()?.change(|index| {
            let manifest = self.find(index, source)?.manifest;
            let entry = index.entries.iter().find(|entry| entry.manifest == manifest).cloned();
            let entry = entry.ok_or_else(|| Error::no_such_image(source))?;
            index.set(Entry { name: Some(name.clone()), ..entry });
            Ok(())
        })
    }
}
