//! Writes images to archives that docker, podman, skopeo and Hull read.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::compress;
use crate::digest::{Digest, Hasher};
use crate::error::{Error, Result, reason};
use crate::load::oci::FULL_NAME;
use crate::manifest::OCI_INDEX;
use crate::reference::Reference;
use crate::store::{NAME, Reader, Store};

/// The kind of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// An OCI image layout with docker's list of images beside it, as docker itself writes since version 25. Manifests
    /// and layers are those that were pulled or loaded, with the same digests.
    #[default]
    Oci,
    /// An archive of older dockers: plain layers and `manifest.json`.
    Docker,
}

/// An image to be saved.
struct Chosen {
    manifest: Digest,
    /// Its names; none if it was given by its id.
    names: Vec<Reference>,
}

impl Store {
    /// Writes images to an archive. The same images give the same bytes.
    ///
    /// # Errors
    ///
    /// There is no such image, the store is damaged, or `out` can't be written.
    pub fn save(&self, names: &[&str], format: ArchiveFormat, out: impl Write) -> Result<()> {
        let Some(reader) = self.read()? else {
            return Err(Error::no_such_image(names.first().unwrap_or(&"")));
        };
        let index = reader.index()?;
        let mut chosen: Vec<Chosen> = Vec::new();
        for name in names {
            let found = self.find(&index, name)?;
            let name = found.name.and_then(|name| name.tagged());
            match chosen.iter_mut().find(|other| other.manifest == found.manifest) {
                Some(other) => other.names.extend(name.filter(|name| !other.names.contains(name))),
                None => chosen.push(Chosen { manifest: found.manifest, names: name.into_iter().collect() }),
            }
        }
        let mut archive = Archive { out: tar::Builder::new(out), written: Vec::new() };
        match format {
            ArchiveFormat::Oci => archive.oci(&reader, &chosen),
            ArchiveFormat::Docker => archive.docker(&reader, &chosen),
        }?;
        let finished = archive.out.into_inner().and_then(|mut out| out.flush());
        finished.map_err(|error| cannot_write(&error))
    }
}

fn cannot_write(error: &io::Error) -> Error {
    Error::io("archive", error)
}

/// An archive that is being written.
struct Archive<W: Write> {
    out: tar::Builder<W>,
    written: Vec<String>,
}

impl<W: Write> Archive<W> {
    fn file(&mut self, name: &str, size: u64, contents: impl Read) -> Result<()> {
        if self.written.iter().any(|other| other == name) {
            return Ok(());
        }
        let mut header = tar::Header::new_ustar();
        header.set_size(size);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        self.out.append_data(&mut header, name, contents).map_err(|error| cannot_write(&error))?;
        self.written.push(name.to_owned());
        Ok(())
    }

    /// A file of the store, or what it has unpacked, whose contents must have the digest.
    fn verified(&mut self, name: &str, path: &Path, size: u64, digest: Digest, contents: impl Read) -> Result<()> {
        if self.written.iter().any(|other| other == name) {
            return Ok(());
        }
        let damaged = |why: &str| Error::damaged(path.display(), why);
        let mut contents = Verified { contents, hasher: Hasher::default(), has_failed: false };
        let written = self.file(name, size, (&mut contents).take(size));
        // An archive that can't be written, and contents that can't be read, are different errors.
        if contents.has_failed {
            return Err(damaged("it can't be read"));
        }
        written?;
        if contents.hasher.finish() != (digest, size) {
            return Err(damaged("its contents do not have its digest"));
        }
        Ok(())
    }

    fn bytes(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.file(name, bytes.len() as u64, bytes)
    }

    fn json(&mut self, name: &str, value: &Value) -> Result<()> {
        self.bytes(name, value.to_string().as_bytes())
    }

    fn oci(&mut self, reader: &Reader<'_>, chosen: &[Chosen]) -> Result<()> {
        let store = reader.store();
        let (mut manifests, mut list) = (Vec::new(), Vec::new());
        for Chosen { manifest: digest, names } in chosen {
            let parts = store.parts(*digest)?;
            let layers: Vec<Digest> = parts.manifest.layers.iter().map(|layer| layer.digest).collect();
            for blob in layers.iter().chain([&parts.id, digest]) {
                let path = store.blob(*blob);
                let fail = |error: io::Error| Error::of_store(&path, &error);
                let file = File::open(&path).map_err(fail)?;
                let size = file.metadata().map_err(fail)?.len();
                self.verified(&blob_name(*blob), &path, size, *blob, file)?;
            }
            let size = store.bytes(*digest, crate::limits::MANIFEST)?.len();
            let descriptor =
                json!({ "mediaType": parts.manifest.media_type, "digest": digest.to_string(), "size": size });
            for name in names {
                let mut entry = descriptor.clone();
                // `ref.name` is a tag for docker, and a name for podman and skopeo: docker reads the first annotation.
                entry["annotations"] = json!({ FULL_NAME: name.to_string(), NAME: name.familiar() });
                manifests.push(entry);
            }
            if names.is_empty() {
                manifests.push(descriptor);
            }
            list.push(listed(blob_name(parts.id), names, layers.into_iter().map(blob_name)));
        }
        self.json("index.json", &json!({ "schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests }))?;
        self.json("manifest.json", &list.into())?;
        self.json("oci-layout", &json!({ "imageLayoutVersion": "1.0.0" }))
    }

    fn docker(&mut self, reader: &Reader<'_>, chosen: &[Chosen]) -> Result<()> {
        let store = reader.store();
        let mut list = Vec::new();
        for Chosen { manifest, names } in chosen {
            let parts = store.parts(*manifest)?;
            let layer_name = |diff_id: &Digest| format!("{}.tar", diff_id.hex());
            for (layer, diff_id) in parts.manifest.layers.iter().zip(&parts.diff_ids) {
                let path = store.blob(layer.digest);
                let open = || {
                    let file = File::open(&path)?;
                    Ok(compress::unpack(file)?.1)
                };
                let damaged = |error: io::Error| match error.kind() {
                    io::ErrorKind::NotFound => Error::of_store(&path, &error),
                    _ => Error::damaged(path.display(), reason(&error)),
                };
                let size = match layer.digest == *diff_id {
                    true => layer.size,
                    // The header of an archive's entry has its size.
                    false => open().and_then(|mut layer| io::copy(&mut layer, &mut io::sink())).map_err(damaged)?,
                };
                self.verified(&layer_name(diff_id), &path, size, *diff_id, open().map_err(damaged)?)?;
            }
            let config = format!("{}.json", parts.id.hex());
            let size = parts.config_bytes.len() as u64;
            self.verified(&config, &store.blob(parts.id), size, parts.id, parts.config_bytes.as_slice())?;
            list.push(listed(config, names, parts.diff_ids.iter().map(layer_name)));
        }
        self.json("manifest.json", &list.into())
    }
}

/// Contents whose digest is computed while they are read.
struct Verified<R> {
    contents: R,
    hasher: Hasher,
    has_failed: bool,
}

impl<R: Read> Read for Verified<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.contents.read(buffer).inspect_err(|_| self.has_failed = true)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

/// An image in docker's list.
fn listed(config: String, names: &[Reference], layers: impl Iterator<Item = String>) -> Value {
    let names: Vec<String> = names.iter().map(Reference::familiar).collect();
    json!({ "Config": config, "RepoTags": names, "Layers": layers.collect::<Vec<_>>() })
}

fn blob_name(digest: Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}
