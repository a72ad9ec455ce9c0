//! Pulls an image.

use ureq::http::{Method, header};

use super::client::{Call, Client, read};
use super::mirrors::{self, Place};
use super::{Access, Progress, transfer};
use crate::bundle::Bundle;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::install::install;
use crate::limits;
use crate::manifest::{
    Blob, DOCKER_INDEX, DOCKER_MANIFEST, Manifest, OCI_INDEX, OCI_MANIFEST, choose, is_index, parse_index,
};
use crate::reference::Reference;
use crate::store::{Store, Writer};

/// An image that was pulled.
#[derive(Clone, Debug)]
pub struct Pulled {
    /// The digest that the name had in the registry: of the manifest or the index.
    pub digest: Digest,
    /// The image's id.
    pub id: Digest,
    /// Whether the store had it under this name before.
    pub is_up_to_date: bool,
}

/// A manifest or index that was fetched.
struct Fetched {
    bytes: Vec<u8>,
    digest: Digest,
    is_index: bool,
}

impl Store {
    /// Pulls an image from its registry.
    ///
    /// # Errors
    ///
    /// The registry can't be reached, refuses, or sends something that is no image; the store can't be written. No image
    /// is added then; what came of its blobs is kept for the next pull if the connection broke off.
    pub fn pull(&self, name: &Reference, access: &Access, progress: &dyn Progress) -> Result<Pulled> {
        let mut places = mirrors::places(name)?;
        let own = places.pop().unwrap_or_else(|| Place { name: name.clone(), is_insecure: false });
        let writer = self.write()?;
        for mirror in places {
            let access = Access { insecure: mirror.allows_plain(), ..access.clone() };
            // Whatever a mirror lacks, the registry may have: its failure counts.
            if let Ok(pulled) = at(&writer, &mirror, name, &access, progress) {
                return Ok(pulled);
            }
        }
        let access = Access { insecure: access.insecure || own.allows_plain(), ..access.clone() };
        at(&writer, &own, name, &access, progress).inspect_err(|_| writer.clean())
    }
}

/// Pulls an image from one place.
fn at(writer: &Writer, place: &Place, name: &Reference, access: &Access, progress: &dyn Progress) -> Result<Pulled> {
    pull(writer, &Client::new(&place.name, access)?, name, access, progress)
}

fn pull(
    writer: &Writer,
    client: &Client,
    name: &Reference,
    access: &Access,
    progress: &dyn Progress,
) -> Result<Pulled> {
    let wanted = name.digest().map_or_else(|| name.tag().unwrap_or_default().to_owned(), |digest| digest.to_string());
    let top = fetch(client, &wanted, name.digest())?;
    let mut manifest = Fetched { bytes: top.bytes.clone(), ..top };
    let platform = access.options.platform.clone().unwrap_or_default();
    for _ in 0..limits::NESTING {
        if !manifest.is_index {
            break;
        }
        let choice =
            choose(&parse_index(&manifest.bytes)?, &platform).map_err(|error| error.within(name.familiar()))?;
        manifest = fetch(client, &choice.blob.digest.to_string(), Some(choice.blob.digest))?;
    }
    let parsed = Manifest::parse(&manifest.bytes).map_err(|error| error.within(name.familiar()))?;
    let total = parsed.layers.iter().fold(0_u64, |sum, layer| sum.saturating_add(layer.size));
    if total > access.options.limits.size {
        let why = format!("its layers have {total} bytes, more than {}", access.options.limits.size);
        return Err(Error::limit(name.familiar(), why));
    }
    let mut missing: Vec<Blob> = Vec::new();
    for blob in parsed.layers.iter().chain([&parsed.config]) {
        if !writer.has_blob(blob.digest) && !missing.iter().any(|other| other.digest == blob.digest) {
            missing.push(blob.clone());
        }
    }
    let mut bundle = Bundle::default();
    let fetched = transfer::each(&missing, |blob, is_over| transfer::fetch(client, writer, blob, progress, is_over))?;
    for (digest, mut temp, size) in fetched {
        // Complete now: if it is no layer, it is of no use.
        temp.keep(false);
        bundle.insert(digest, temp, size);
    }
    let image = install(writer, &manifest.bytes, &mut bundle, &access.options)
        .map_err(|error| error.within(name.familiar()))?;
    let is_up_to_date = writer.change(|index| {
        let before = index.clone();
        if let Some(name) = name.tagged() {
            index.set(image.entry(Some(name)));
        }
        index.set(image.entry(Some(name.with_digest(top.digest))));
        Ok(*index == before)
    })?;
    Ok(Pulled { digest: top.digest, id: image.id, is_up_to_date })
}

/// Fetches a manifest or index by tag or digest, and verifies the digest.
fn fetch(client: &Client, wanted: &str, digest: Option<Digest>) -> Result<Fetched> {
    let accept = [OCI_INDEX, OCI_MANIFEST, DOCKER_INDEX, DOCKER_MANIFEST].join(", ");
    let to = format!("manifests/{wanted}");
    let call = Call { method: Method::GET, to: &to, headers: &[(header::ACCEPT, accept)] };
    let mut response = client.call(&call, &[])?;
    let bytes = read(&mut response, limits::MANIFEST).map_err(|error| Error::from(client.failed(&error)))?;
    let found = Digest::of(&bytes);
    if digest.is_some_and(|digest| digest != found) {
        return Err(Error::invalid(format!("{}: {wanted}", client.host), format!("what came has the digest {found}")));
    }
    let media_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = media_type.and_then(|text| text.split(';').next()).unwrap_or_default().trim();
    if media_type.contains("manifest.v1+prettyjws")
        || media_type == "application/vnd.docker.distribution.manifest.v1+json"
    {
        let why = "a manifest of docker's first schema, which is obsolete";
        return Err(Error::new(
            format!("{}/{}:{wanted}", client.host, client.path),
            why,
            "push the image anew with a recent tool",
        ));
    }
    Ok(Fetched { bytes, digest: found, is_index: is_index(media_type) })
}
