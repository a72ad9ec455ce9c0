//! `index.json`: the names of the images of a store.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{INDEX_LIMIT, read_bounded};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::reference::Reference;

/// The annotation with an image's name.
pub(crate) const NAME: &str = "org.opencontainers.image.ref.name";

/// One name of an image, or an image without a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, with a tag or a digest.
    pub name: Option<Reference>,
    /// The image's manifest.
    pub manifest: Digest,
    /// Size of the manifest in bytes.
    pub(crate) size: u64,
    /// Media type of the manifest.
    pub(crate) media_type: String,
}

/// The names, in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    /// The names.
    pub entries: Vec<Entry>,
}

/// An image index as it is on the disk.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    schema_version: u32,
    media_type: String,
    manifests: Vec<StoredEntry>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredEntry {
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Index {
    /// Reads an index; a file that does not exist is empty.
    pub fn load(path: &Path) -> Result<Self> {
        match path.try_exists() {
            Ok(false) => return Ok(Self::default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            _ => {}
        }
        let bytes = read_bounded(path, INDEX_LIMIT)?;
        Self::parse(&bytes).map_err(|why| {
            Error::new(path.display(), why, "restore the file, or remove the store's folder and load the images again")
        })
    }

    fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        let stored: Stored = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let entries = stored.manifests.into_iter().map(|mut entry| {
            let name = entry.annotations.remove(NAME).map(|name| Reference::parse(&name)).transpose();
            Ok(Entry {
                name: name.map_err(|error| error.to_string())?,
                manifest: entry.digest.parse().map_err(|error: Error| error.to_string())?,
                size: entry.size,
                media_type: entry.media_type,
            })
        });
        Ok(Self { entries: entries.collect::<std::result::Result<_, String>>()? })
    }

    /// The index as JSON, an OCI image index.
    pub fn to_bytes(&self) -> Vec<u8> {
        let manifests = self.entries.iter().map(|entry| StoredEntry {
            media_type: entry.media_type.clone(),
            digest: entry.manifest.to_string(),
            size: entry.size,
            annotations: entry.name.iter().map(|name| (NAME.to_owned(), name.to_string())).collect(),
        });
        let stored = Stored {
            schema_version: 2,
            media_type: "application/vnd.oci.image.index.v1+json".to_owned(),
            manifests: manifests.collect(),
        };
        // Structures of strings and numbers are always JSON.
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// Gives an image a name. An image that loses its last name by that stays, without a name.
    pub fn set(&mut self, entry: Entry) {
        let Some(name) = &entry.name else {
            if !self.entries.iter().any(|other| other.manifest == entry.manifest) {
                self.entries.push(entry);
            }
            return;
        };
        if self.entries.iter().any(|other| other.name.as_ref() == Some(name) && other.manifest == entry.manifest) {
            return;
        }
        let manifest = entry.manifest;
        let old = self.entries.iter().position(|other| other.name.as_ref() == Some(name));
        let old = old.map(|at| std::mem::replace(&mut self.entries[at], entry.clone()));
        match old {
            Some(old) => {
                let is_named = self.entries.iter().any(|other| other.manifest == old.manifest);
                if !is_named {
                    self.entries.push(Entry { name: None, ..old });
                }
            }
            None => self.entries.push(entry),
        }
        self.entries.retain(|other| other.manifest != manifest || other.name.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: Option<&str>, manifest: &str) -> Entry {
        Entry {
            name: name.map(|name| Reference::parse(name).unwrap()),
            manifest: Digest::of(manifest.as_bytes()),
            size: 1,
            media_type: "m".to_owned(),
        }
    }

    #[test]
    fn an_index_is_read_as_it_was_written() {
        let index = Index { entries: vec![entry(Some("a:1"), "x"), entry(None, "y")] };
        assert_eq!(Index::parse(&index.to_bytes()), Ok(index));
        assert!(Index::parse(b"{}").is_err());
    }

    #[test]
    fn an_image_whose_name_goes_to_another_stays() {
        let mut index = Index::default();
        index.set(entry(Some("a"), "x"));
        index.set(entry(Some("a"), "x"));
        assert_eq!(index.entries, [entry(Some("a"), "x")]);
        index.set(entry(Some("a"), "y"));
        assert_eq!(index.entries, [entry(Some("a"), "y"), entry(None, "x")]);
        index.set(entry(None, "y"));
        assert_eq!(index.entries.len(), 2);
        index.set(entry(Some("b"), "x"));
        assert_eq!(index.entries, [entry(Some("a"), "y"), entry(Some("b"), "x")]);
        // A second name remains: no image without a name appears.
        index.set(entry(Some("c"), "x"));
        index.set(entry(Some("b"), "y"));
        assert_eq!(index.entries.len(), 3);
    }
}
