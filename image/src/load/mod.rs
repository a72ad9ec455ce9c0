//! Loads archives: those of `docker save`, OCI archives, and OCI layout folders.

mod docker;
mod files;
pub(crate) mod oci;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::install::{Installed, Options};
use crate::reference::Reference;
use crate::store::{Store, Writer};
use files::Files;

/// An image that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Its id.
    pub id: Digest,
    /// The names that it got.
    pub names: Vec<Reference>,
}

impl Store {
    /// Loads all images of a file, of a folder, or of standard input (`-`).
    ///
    /// # Errors
    ///
    /// The archive can't be read, is damaged, or exceeds a limit; the store can't be written. Nothing is added then.
    pub fn load(&self, path: &Path, options: &Options) -> Result<Vec<Loaded>> {
        let outer = path.display();
        if path == Path::new("-") {
            return self.load_stream(std::io::stdin(), options).map_err(|error| error.within("standard input"));
        }
        let file = File::open(path).map_err(|error| Error::io(&outer, &error))?;
        let is_folder = file.metadata().map_err(|error| Error::io(&outer, &error))?.is_dir();
        let writer = self.write()?;
        let files = |writer: &Writer| {
            if is_folder { Files::folder(path.to_owned(), options) } else { Files::archive(writer, file, options) }
        };
        add(&writer, files, options).map_err(|error| error.within(&outer))
    }

    /// Loads all images of an archive.
    ///
    /// # Errors
    ///
    /// As those of [`Store::load`].
    pub fn load_stream(&self, stream: impl Read + Send, options: &Options) -> Result<Vec<Loaded>> {
        add(&self.write()?, |writer| Files::archive(writer, stream, options), options)
    }
}

/// Adds the images of some files, all or none.
fn add(writer: &Writer, files: impl FnOnce(&Writer) -> Result<Files>, options: &Options) -> Result<Vec<Loaded>> {
    let images = files(writer).and_then(|mut files| read(writer, &mut files, options));
    let images = images.inspect_err(|_| writer.clean())?;
    writer.change(|index| {
        for (image, names) in &images {
            names.iter().for_each(|name| index.set(image.entry(Some(name.clone()))));
            index.set(image.entry(None));
        }
        Ok(())
    })?;
    Ok(images.into_iter().map(|(image, names)| Loaded { id: image.id, names }).collect())
}

/// Stores the images of some files; they have no names yet.
fn read(writer: &Writer, files: &mut Files, options: &Options) -> Result<Vec<(Installed, Vec<Reference>)>> {
    if files.has("index.json") {
        return oci::read(writer, files, options);
    }
    if files.has("manifest.json") && files.has("version") {
        // `skopeo copy ... dir:`, `podman save --format docker-dir`.
        let remedy = "write an OCI layout: skopeo copy ... oci:DIR:NAME, podman save --format oci-dir";
        return Err(Error::new("archive", "it is a folder of skopeo's format dir, which has no names", remedy));
    }
    if files.has("manifest.json") {
        return docker::read(writer, files, options);
    }
    let why = "neither index.json nor manifest.json is in it: no archive of images";
    let remedy = if files.has("repositories") {
        "save it anew with docker 1.10 or later"
    } else {
        "read a root file system with hull import FILE NAME"
    };
    Err(Error::new("archive", why, remedy))
}
