//! Imports root file systems: a tar archive or a folder becomes an image of one layer.

mod change;
pub(crate) mod folder;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::{Value, json};

use crate::bundle::Bundle;
use crate::compress;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::install::{Options, install};
use crate::manifest::{Blob, Manifest, OCI_MANIFEST};
use crate::reference::Reference;
use crate::store::{Store, Writer};
use crate::time;

/// What an imported image is like.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// Instructions of a Dockerfile: `CMD`, `ENTRYPOINT`, `ENV`, `EXPOSE`, `LABEL`, `STOPSIGNAL`, `USER`, `VOLUME`,
    /// `WORKDIR`.
    pub changes: Vec<String>,
    /// The comment in the image's history.
    pub message: Option<String>,
    /// Limits and platform.
    pub options: Options,
    /// The image has no date and no comment: the same files give the same image.
    pub same: bool,
}

impl Store {
    /// Makes an image of a tar archive (`-`: standard input) or of a folder; returns its id.
    ///
    /// # Errors
    ///
    /// The archive or folder can't be read or is damaged; a change is no such instruction; the store can't be written.
    pub fn import(&self, path: &Path, name: Option<&Reference>, import: &Import) -> Result<Digest> {
        let config = change::config(&import.changes)?;
        if let Some(name) = name.filter(|name| name.digest().is_some()) {
            return Err(Error::new(name.familiar(), "a digest can't be given to an image", "write NAME[:TAG]"));
        }
        let outer = path.display();
        let writer = self.write()?;
        let mut bundle = Bundle::default();
        let limit = import.options.limits.size;
        let added = if path == Path::new("-") {
            archive(&writer, &mut bundle, std::io::stdin(), limit)
        } else if path.is_dir() {
            folder(&writer, &mut bundle, path, limit)
        } else {
            let file = File::open(path).map_err(|error| Error::io(&outer, &error))?;
            archive(&writer, &mut bundle, file, limit)
        };
        let installed = added.and_then(|(diff_id, size)| {
            let config = configuration(&config, import, diff_id, path);
            let (id, length) = bundle.add(&writer, config.to_string().as_bytes(), limit)?;
            let blob = |digest, size, kind: &str| Blob {
                digest,
                size,
                media_type: format!("application/vnd.oci.image.{kind}"),
            };
            let manifest = Manifest {
                media_type: OCI_MANIFEST.to_owned(),
                config: blob(id, length, "config.v1+json"),
                layers: vec![blob(diff_id, size, "layer.v1.tar")],
            };
            let options = Options { platform: None, ..import.options.clone() };
            install(&writer, &manifest.to_bytes(), &mut bundle, &options)
        });
        let image = installed.map_err(|error| error.within(&outer)).inspect_err(|_| {
            bundle = Bundle::default();
            writer.clean();
        })?;
        writer.change(|index| {
            index.set(image.entry(name.cloned()));
            Ok(())
        })?;
        Ok(image.id)
    }
}

/// Stores the unpacked archive as a layer.
fn archive(writer: &Writer, bundle: &mut Bundle, stream: impl Read + Send, limit: u64) -> Result<(Digest, u64)> {
    let (_, unpacked) = compress::unpack(stream).map_err(|error| Error::packed("archive", &error))?;
    bundle.add(writer, unpacked, limit)
}

/// Stores a folder as a layer.
fn folder(writer: &Writer, bundle: &mut Bundle, path: &Path, limit: u64) -> Result<(Digest, u64)> {
    let (input, output) = std::io::pipe().map_err(|error| Error::io("pipe", &error))?;
    std::thread::scope(|scope| {
        let written = scope.spawn(move || folder::write(path, output));
        let added = bundle.add(writer, input, limit);
        match written.join() {
            // A full disk or the limit ends the pipe too: that error is the reason.
            Ok(Err(error)) if added.is_ok() => Err(error),
            Ok(_) => added,
            Err(_) => Err(Error::new(path.display(), "the thread that reads it failed", "try again")),
        }
    })
}

/// The configuration of an imported image.
fn configuration(config: &Value, import: &Import, diff_id: Digest, path: &Path) -> Value {
    let now = (!import.same).then(time::now);
    let platform = import.options.platform.clone().unwrap_or_default();
    let comment = import.message.clone().unwrap_or_else(|| match import.same {
        true => String::new(),
        false => format!("Imported from {}", path.display()),
    });
    let mut whole = json!({
        "architecture": platform.architecture(),
        "os": platform.os(),
        "config": config,
        "rootfs": { "type": "layers", "diff_ids": [diff_id.to_string()] },
        "history": [{ "comment": comment }],
    });
    if let Some(now) = now {
        whole["history"][0]["created"] = now.clone().into();
        whole["created"] = now.into();
    }
    if let Some(variant) = platform.variant() {
        whole["variant"] = variant.into();
    }
    whole
}
