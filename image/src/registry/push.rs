//! Pushes an image.

use std::fs::File;
use std::sync::atomic::AtomicBool;

use ureq::SendBody;
use ureq::http::{Method, StatusCode, header};

use super::client::{ATTEMPTS, Call, Client, Failure, pause};
use super::{Access, Progress, transfer};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::limits;
use crate::manifest::Blob;
use crate::reference::Reference;
use crate::store::{Entry, Store};

/// An image that was pushed.
#[derive(Clone, Debug)]
pub struct Pushed {
    /// Digest of its manifest.
    pub digest: Digest,
    /// Size of its manifest in bytes.
    pub size: u64,
}

impl Store {
    /// Pushes an image to the registry of its name.
    ///
    /// # Errors
    ///
    /// There is no such image; the registry can't be reached or refuses.
    pub fn push(&self, name: &Reference, access: &Access, progress: &dyn Progress) -> Result<Pushed> {
        let Some(tag) = name.tag().filter(|_| name.digest().is_none()) else {
            return Err(Error::new(name.familiar(), "an image is pushed by a tag", "write NAME[:TAG]"));
        };
        let text = name.familiar();
        let reader = self.read()?.ok_or_else(|| Error::no_such_image(&text))?;
        let found = reader.find(&reader.index()?, &text)?;
        let parts = reader.parts(found.manifest)?;
        let client = Client::new(name, access)?;
        let mut blobs: Vec<Blob> = Vec::new();
        for blob in parts.manifest.layers.iter().chain([&parts.manifest.config]) {
            if !blobs.iter().any(|other| other.digest == blob.digest) {
                blobs.push(blob.clone());
            }
        }
        transfer::each(&blobs, |blob, _: &AtomicBool| self.send(&client, blob, progress))?;
        let bytes = self.bytes(found.manifest, limits::MANIFEST)?;
        let media_type = parts.manifest.media_type;
        let headers = [(header::CONTENT_TYPE, media_type.clone())];
        let to = format!("manifests/{tag}");
        let call = Call { method: Method::PUT, to: &to, headers: &headers };
        client.once(&call, &mut || {
            let bytes = bytes.clone();
            Ok(SendBody::from_owned_reader(std::io::Cursor::new(bytes)))
        })?;
        let pushed = Pushed { digest: found.manifest, size: bytes.len() as u64 };
        drop(reader);
        // The registry has the image under this digest now.
        let name = Some(name.with_digest(found.manifest));
        self.write()?.change(|index| {
            // Another command may have removed the image meanwhile.
            if index.entries.iter().any(|entry| entry.manifest == found.manifest) {
                index.set(Entry { name, manifest: found.manifest, size: pushed.size, media_type });
            }
            Ok(())
        })?;
        Ok(pushed)
    }

    /// Sends a blob unless the registry has it.
    fn send(&self, client: &Client, blob: &Blob, progress: &dyn Progress) -> Result<()> {
        let transfer = progress.begin(&blob.digest.short(), blob.size);
        let to = format!("blobs/{}", blob.digest);
        let call = Call { method: Method::HEAD, to: &to, headers: &[] };
        if client.call(&call, &[StatusCode::NOT_FOUND])?.status().is_success() {
            progress.advance(transfer, blob.size as i64);
            progress.end(transfer, "Layer already exists");
            return Ok(());
        }
        let path = self.blob(blob.digest);
        let mut attempt = 0;
        loop {
            let call = Call {
                method: Method::POST,
                to: "blobs/uploads/",
                headers: &[(header::CONTENT_LENGTH, "0".to_owned())],
            };
            let response = client.call(&call, &[])?;
            let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
            let location = location
                .ok_or_else(|| Error::new(&client.host, "it names no place for a layer", "check the registry"))?;
            let mark = if location.contains('?') { '&' } else { '?' };
            let to = format!("{}{mark}digest={}", client.absolute(location), blob.digest);
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
                (header::CONTENT_LENGTH, blob.size.to_string()),
            ];
            let call = Call { method: Method::PUT, to: &to, headers: &headers };
            let sent = client.once(&call, &mut || {
                let file = File::open(&path).map_err(|error| Error::io(path.display(), &error))?;
                Ok(SendBody::from_owned_reader(file))
            });
            match sent {
                Ok(_) => break,
                Err(Failure::Passing(_, wait)) if attempt + 1 < ATTEMPTS => {
                    attempt += 1;
                    pause(attempt, wait);
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        progress.advance(transfer, blob.size as i64);
        progress.end(transfer, "Pushed");
        Ok(())
    }
}
