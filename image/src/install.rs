//! Adds an image whose blobs are at hand: checks them, builds its EROFS file, stores both.

use std::fs::File;
use std::io;

use crate::bundle::Bundle;
use crate::compress::{self, Format};
use crate::digest::{Digest, chain};
use crate::error::{Error, Result, reason};
use crate::limits::{self, Limits};
use crate::manifest::{Blob, Manifest, Platform, parse_config};
use crate::reference::Reference;
use crate::store::{Entry, Temp, Writer};
use crate::stream::{HashThread, Hashed, read_ahead};

/// How images are added.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Limits of what is read.
    pub limits: Limits,
    /// The platform to choose; an image for another one is an error then. By default linux/amd64 is chosen of several.
    pub platform: Option<Platform>,
}

/// An image that was stored, without a name yet.
#[derive(Clone, Debug)]
pub(crate) struct Installed {
    /// Digest of the manifest.
    pub manifest: Digest,
    /// Its size.
    size: u64,
    /// Its media type.
    media_type: String,
    /// The image's id.
    pub id: Digest,
}

impl Installed {
    /// An entry of the index.
    pub fn entry(&self, name: Option<Reference>) -> Entry {
        Entry { name, manifest: self.manifest, size: self.size, media_type: self.media_type.clone() }
    }
}

/// Stores the image of a manifest with the blobs of a bundle and of the store.
pub(crate) fn install(writer: &Writer, manifest: &[u8], bundle: &mut Bundle, options: &Options) -> Result<Installed> {
    let bytes = manifest;
    let manifest = Manifest::parse(bytes)?;
    let store = writer.store();
    let layers = manifest.layers.iter().map(|layer| (layer, "layer"));
    for (blob, what) in [(&manifest.config, "configuration")].into_iter().chain(layers) {
        let size = bundle.size(store, blob.digest);
        let why = match size {
            None => "it is missing".to_owned(),
            Some(size) if size != blob.size => format!("it has {size} bytes, its manifest says {}", blob.size),
            Some(_) => continue,
        };
        return Err(Error::invalid(format!("{what} {}", blob.digest), why));
    }
    let total: u64 = manifest.layers.iter().fold(0, |sum, layer| layer.size.saturating_add(sum));
    if total > options.limits.size {
        return Err(Error::limit("image", format!("its layers have {total} bytes, more than {}", options.limits.size)));
    }
    let config = bundle.bytes(store, manifest.config.digest, limits::CONFIG)?;
    let (config, diff_ids) = parse_config(&config)?;
    if let Some(platform) = &options.platform {
        platform.check(&config)?;
    }
    if diff_ids.len() != manifest.layers.len() {
        let why = format!("{} layers, but its configuration names {}", manifest.layers.len(), diff_ids.len());
        return Err(Error::invalid("manifest", why));
    }
    let path = store.erofs(chain(&diff_ids));
    // A file that was cut, or that is gone, is made anew.
    let is_there = File::open(&path).is_ok_and(|file| rootfs::is_whole(&file));
    let is_known = is_there && manifest.layers.iter().all(|layer| writer.has_blob(layer.digest));
    if !is_known {
        // An existing file is used: one that a pod holds keeps its lock. The layers are checked all the same.
        let temp = build(writer, &manifest.layers, &diff_ids, bundle, options.limits)?;
        if !is_there {
            temp.commit(&path)?;
        }
    }
    for blob in manifest.layers.iter().chain([&manifest.config]) {
        bundle.commit(writer, blob.digest)?;
    }
    let digest = writer.add_bytes(bytes)?;
    writer.sync()?;
    Ok(Installed {
        manifest: digest,
        size: bytes.len() as u64,
        media_type: manifest.media_type,
        id: manifest.config.digest,
    })
}

/// Builds the EROFS file of layers, and checks their digests.
fn build(writer: &Writer, layers: &[Blob], diff_ids: &[Digest], bundle: &Bundle, limits: Limits) -> Result<Temp> {
    let (image, scratch) = (writer.temp()?, writer.temp()?);
    let mut tree = rootfs::Tree::new(image.share()?, scratch.share()?, rootfs::Limits::default());
    let mut left = limits.size;
    for (layer, diff_id) in layers.iter().zip(diff_ids) {
        left -= apply(&mut tree, layer, *diff_id, bundle.open(writer.store(), layer.digest)?, left)?;
    }
    let identity = chain(diff_ids).to_string();
    let options = rootfs::Options { identity: Some(identity.as_bytes()) };
    tree.write_erofs(&options).map_err(|error| refused("image", &error))?;
    Ok(image)
}

/// Applies one layer of at most `limit` unpacked bytes; returns their number.
fn apply(
    tree: &mut rootfs::Tree,
    layer: &Blob,
    diff_id: Digest,
    stream: impl io::Read + Send,
    limit: u64,
) -> Result<u64> {
    let what = format!("layer {}", layer.digest);
    let (format, stream) = compress::unpack(stream).map_err(|error| Error::packed(&what, &error))?;
    // The digest of a plain layer was computed when it was read.
    let is_hashed = format == Format::Plain && layer.digest == diff_id;
    let (digest, size) = std::thread::scope(|scope| {
        let mut ahead = read_ahead(scope, stream, limit);
        let hash = (!is_hashed).then(|| HashThread::start(scope));
        let mut stream = Hashed { stream: &mut ahead, hash: hash.as_ref() };
        let applied = tree.apply_layer(&mut stream);
        // What follows the archive's end belongs to the layer.
        let rest = io::copy(&mut stream, &mut io::sink());
        let result = match (applied, ahead.failure().or_else(|| rest.err())) {
            (_, Some(error)) if error.kind() == io::ErrorKind::FileTooLarge => Err(Error::limit(&what, reason(&error))),
            (_, Some(error)) => Err(Error::invalid(&what, reason(&error))),
            (Err(error), None) => Err(refused(&what, &error)),
            (Ok(()), None) => Ok(()),
        };
        let hashed = hash.map(|hash| hash.finish()).transpose();
        let hashed = hashed.map_err(|error| Error::invalid(&what, reason(&error)))?;
        result.map(|()| hashed.unwrap_or((diff_id, layer.size)))
    })?;
    if digest != diff_id {
        let why = format!("its contents have the digest {digest}, its configuration says {diff_id}");
        return Err(Error::invalid(what, why));
    }
    Ok(size)
}

/// An error of a layer, or of the disk.
fn refused(what: &str, error: &rootfs::Error) -> Error {
    match error {
        rootfs::Error::Write(error) => Error::io("store", error),
        error => Error::invalid(what, error),
    }
}
