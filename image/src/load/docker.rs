//! Archives of `docker save`: `manifest.json`, configurations, and layers without manifests of their own.

use serde::Deserialize;

use super::Files;
use crate::compress::Format;
use crate::error::{Error, Result, excerpt, reason};
use crate::install::{Installed, Options, install};
use crate::limits;
use crate::manifest::{Blob, Manifest, OCI_MANIFEST, json_reason};
use crate::reference::Reference;
use crate::store::Writer;

/// Name of the file that lists the images.
pub(super) const LIST: &str = "manifest.json";

/// An image of `manifest.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Listed {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Option<Vec<String>>,
}

impl Listed {
    /// The image's names.
    pub fn names(&self) -> Result<Vec<Reference>> {
        self.repo_tags.iter().flatten().map(|name| Reference::parse(name)).collect()
    }

    /// Path of the configuration.
    pub fn config(&self) -> &str {
        &self.config
    }
}

/// Parses the list.
pub(super) fn list(writer: &Writer, files: &mut Files) -> Result<Vec<Listed>> {
    let bytes = files.bytes(writer, LIST, limits::MANIFEST)?;
    let list: Vec<Listed> =
        serde_json::from_slice(&bytes).map_err(|error| Error::invalid(LIST, json_reason(&error)))?;
    if list.is_empty() || list.len() > limits::IMAGES {
        return Err(Error::invalid(LIST, format!("{} images, not 1 to {}", list.len(), limits::IMAGES)));
    }
    Ok(list)
}

/// Stores the images of an archive.
pub(super) fn read(writer: &Writer, files: &mut Files, options: &Options) -> Result<Vec<(Installed, Vec<Reference>)>> {
    let mut images = Vec::new();
    for listed in list(writer, files)? {
        let names = listed.names()?;
        let manifest = manifest(writer, files, &listed)?;
        images.push((install(writer, &manifest, &mut files.bundle, options)?, names));
    }
    Ok(images)
}

/// The manifest of an image that has none.
fn manifest(writer: &Writer, files: &mut Files, listed: &Listed) -> Result<Vec<u8>> {
    let layers = listed.layers.as_deref().unwrap_or_default();
    if layers.len() > limits::LAYERS {
        return Err(Error::invalid(LIST, format!("{} layers, more than {}", layers.len(), limits::LAYERS)));
    }
    let (digest, size) = files.get(writer, &listed.config)?;
    let config = Blob { digest, size, media_type: "application/vnd.oci.image.config.v1+json".to_owned() };
    let layers = layers.iter().map(|name| {
        let (digest, size) = files.get(writer, name)?;
        let mut start = Vec::new();
        let opened = files.bundle.open(writer.store(), digest)?;
        let format = std::io::Read::read_to_end(&mut std::io::Read::take(opened, 8), &mut start)
            .and_then(|_| Format::of(&start));
        let format = format.map_err(|error| Error::invalid(excerpt(name), reason(&error)))?;
        let media_type = format!("application/vnd.oci.image.layer.v1.tar{}", format.suffix());
        Ok(Blob { digest, size, media_type })
    });
    let layers = layers.collect::<Result<_>>()?;
    Ok(Manifest { media_type: OCI_MANIFEST.to_owned(), config, layers }.to_bytes())
}
