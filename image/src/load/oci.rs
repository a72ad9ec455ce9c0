//! OCI layouts, in an archive or a folder. `docker save` of version 25 and later writes them too.

use std::collections::BTreeMap;

use super::{Files, docker};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::install::{Installed, Options, install};
use crate::limits;
use crate::manifest::{Choice, Manifest, choose, parse_index};
use crate::reference::Reference;
use crate::store::{NAME, Writer};

/// The annotation of containerd and docker with a complete name.
pub(crate) const FULL_NAME: &str = "io.containerd.image.name";

/// Stores the images of a layout.
pub(super) fn read(writer: &Writer, files: &mut Files, options: &Options) -> Result<Vec<(Installed, Vec<Reference>)>> {
    let bytes = files.bytes(writer, "index.json", limits::MANIFEST)?;
    let choices = parse_index(&bytes)?;
    if choices.is_empty() {
        return Err(Error::invalid("index.json", "it lists no image"));
    }
    // Several entries of one name are one image for several platforms.
    let mut groups: Vec<(Option<String>, Vec<Choice>)> = Vec::new();
    for choice in choices {
        let name = [FULL_NAME, NAME].iter().find_map(|key| choice.annotations.get(*key)).cloned();
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, group)) => group.push(choice),
            None => groups.push((name, vec![choice])),
        }
    }
    let tags = if files.has(docker::LIST) { tags(writer, files)? } else { BTreeMap::new() };
    let mut images: Vec<(Installed, Vec<Reference>)> = Vec::new();
    for (name, group) in groups {
        let name = name.map(|name| Reference::parse(&name)).transpose()?;
        let manifest = find(writer, files, group, options)?;
        let parsed = Manifest::parse(&manifest)?;
        for blob in parsed.layers.iter().chain([&parsed.config]) {
            fetch(writer, files, blob.digest)?;
        }
        let image = install(writer, &manifest, &mut files.bundle, options)?;
        let mut names = tags.get(&image.id).cloned().unwrap_or_default();
        names.extend(name);
        names.sort();
        names.dedup();
        match images.iter_mut().find(|(other, _)| other.manifest == image.manifest) {
            Some((_, others)) => {
                others.extend(names);
                others.sort();
                others.dedup();
            }
            None => images.push((image, names)),
        }
    }
    Ok(images)
}

/// The manifest of an image, chosen by platform.
fn find(writer: &Writer, files: &mut Files, group: Vec<Choice>, options: &Options) -> Result<Vec<u8>> {
    let platform = options.platform.clone().unwrap_or_default();
    let mut group = group;
    for _ in 0..limits::NESTING {
        let choice = match group.as_slice() {
            [only] => only.clone(),
            several => choose(several, &platform)?,
        };
        let bytes = fetch(writer, files, choice.blob.digest)
            .and_then(|()| files.bundle.bytes(writer.store(), choice.blob.digest, limits::MANIFEST))?;
        if bytes.len() as u64 != choice.blob.size {
            let why = format!("it has {} bytes, its index says {}", bytes.len(), choice.blob.size);
            return Err(Error::invalid(choice.blob.digest, why));
        }
        if !choice.is_index() {
            return Ok(bytes);
        }
        let entries = parse_index(&bytes)?;
        group = vec![choose(&entries, &platform)?];
    }
    Err(Error::invalid("index", format!("indexes nested more than {} times", limits::NESTING)))
}

/// Brings a blob of the layout into the bundle, unless the store has it.
fn fetch(writer: &Writer, files: &mut Files, digest: Digest) -> Result<()> {
    if files.bundle.size(writer.store(), digest).is_some() {
        return Ok(());
    }
    let name = format!("blobs/sha256/{}", digest.hex());
    let (found, _) = files.get(writer, &name)?;
    if found != digest {
        return Err(Error::invalid(name, format!("its contents have the digest {found}")));
    }
    Ok(())
}

/// Names by configuration that docker's own list has.
fn tags(writer: &Writer, files: &mut Files) -> Result<BTreeMap<Digest, Vec<Reference>>> {
    let mut tags: BTreeMap<Digest, Vec<Reference>> = BTreeMap::new();
    for listed in docker::list(writer, files)? {
        // Images for other platforms may be listed without their files.
        if let Ok((id, _)) = files.get(writer, listed.config()) {
            tags.entry(id).or_default().extend(listed.names()?);
        }
    }
    Ok(tags)
}
