//! Transfers of blobs, several at a time.

use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ureq::http::{Method, StatusCode, header};

use super::Progress;
use super::client::{ATTEMPTS, Call, Client, Failure, pause};
use crate::digest::{Digest, Hasher};
use crate::error::{Error, Result};
use crate::manifest::Blob;
use crate::store::{Temp, Writer};
use crate::stream::PIECE;

/// Blobs from this size on are kept when a transfer is interrupted.
const LARGE: u64 = 1 << 20;
/// Transfers at a time.
const PARALLEL: usize = 4;

/// Runs a job for each blob in several threads; the first error ends all.
pub(super) fn each<T: Send>(blobs: &[Blob], job: impl Fn(&Blob, &AtomicBool) -> Result<T> + Sync) -> Result<Vec<T>> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let results: Mutex<Vec<T>> = Mutex::new(Vec::new());
    let first: Mutex<Option<Error>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL.min(blobs.len()) {
            scope.spawn(|| {
                while let Some(blob) = blobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if failed.load(Ordering::Relaxed) {
                        return;
                    }
                    match job(blob, &failed) {
                        Ok(result) => results.lock().map(|mut all| all.push(result)).unwrap_or_default(),
                        Err(error) => {
                            failed.store(true, Ordering::Relaxed);
                            if let Ok(mut first) = first.lock() {
                                first.get_or_insert(error);
                            }
                        }
                    }
                }
            });
        }
    });
    match first.into_inner() {
        Ok(None) => results.into_inner().map_err(|_| Error::new("transfer", "a thread failed", "try again")),
        Ok(Some(error)) => Err(error),
        Err(_) => Err(Error::new("transfer", "a thread failed", "try again")),
    }
}

/// Fetches a blob, and verifies size and digest. A transfer that breaks off goes on where it was.
pub(super) fn fetch(
    client: &Client,
    writer: &Writer,
    blob: &Blob,
    progress: &dyn Progress,
    is_over: &AtomicBool,
) -> Result<(Digest, Temp, u64)> {
    let transfer = progress.begin(&blob.digest.short(), blob.size);
    let mut part = Part::begin(writer, blob)?;
    progress.advance(transfer, part.length as i64);
    // What an interrupted command left may be damaged.
    let mut is_doubtful = part.length > 0;
    let mut attempt = 0;
    let (digest, size) = loop {
        let before = part.length;
        match part.fetch(client, blob, &|bytes| progress.advance(transfer, bytes), is_over) {
            Ok(()) => match part.hasher.clone().finish() {
                (digest, size) if digest == blob.digest => break (digest, size),
                _ if is_doubtful => {
                    is_doubtful = false;
                    progress.advance(transfer, -(part.length as i64));
                    part.restart()?;
                }
                (digest, _) => {
                    part.temp.keep(false);
                    return Err(Error::invalid(
                        format!("{}: {}", client.host, blob.digest),
                        format!("what came has the digest {digest}"),
                    ));
                }
            },
            // A registry that makes progress may break off more often.
            Err(Failure::Passing(_, wait)) if attempt + 1 < ATTEMPTS || part.length > before => {
                attempt = if part.length > before { 1 } else { attempt + 1 };
                pause(attempt, wait);
            }
            Err(failure) => {
                // What came is of use if the transfer can go on.
                part.temp.keep(matches!(failure, Failure::Passing(..)) && part.length > 0);
                return Err(failure.into());
            }
        }
        if is_over.load(Ordering::Relaxed) {
            return Err(Error::new(blob.digest, "another transfer failed", "try again"));
        }
    };
    progress.end(transfer, "Download complete");
    Ok((digest, part.temp, size))
}

/// The part of a blob that has come.
struct Part {
    temp: Temp,
    hasher: Hasher,
    length: u64,
}

impl Part {
    /// What an interrupted command left of a blob, or a new file.
    fn begin(writer: &Writer, blob: &Blob) -> Result<Self> {
        let left = if blob.size >= LARGE { writer.part(blob.digest)? } else { None };
        let Some(temp) = left else {
            return Ok(Self { temp: writer.temp()?, hasher: Hasher::default(), length: 0 });
        };
        let mut part = Self { temp, hasher: Hasher::default(), length: 0 };
        let mut file = part.temp.share()?;
        let mut piece = vec![0; PIECE];
        loop {
            let count = file.read(&mut piece).map_err(|error| part.temp.error(&error))?;
            if count == 0 {
                break;
            }
            part.length += count as u64;
            if part.length > blob.size {
                part.restart()?;
                break;
            }
            part.hasher.update(&piece[..count]);
        }
        Ok(part)
    }

    fn fetch(
        &mut self,
        client: &Client,
        blob: &Blob,
        advance: &dyn Fn(i64),
        is_over: &AtomicBool,
    ) -> std::result::Result<(), Failure> {
        if self.length == blob.size {
            return Ok(());
        }
        let to = format!("blobs/{}", blob.digest);
        let range = [(header::RANGE, format!("bytes={}-", self.length))];
        let headers = if self.length > 0 { &range[..] } else { &[] };
        let call = Call { method: Method::GET, to: &to, headers };
        let mut response = client.once(&call, &mut || Ok(ureq::SendBody::none()))?;
        if self.length > 0 && response.status() != StatusCode::PARTIAL_CONTENT {
            advance(-(self.length as i64));
            self.restart().map_err(|error| Failure::Refused(StatusCode::OK, error))?;
        }
        let mut stream = response.body_mut().with_config().limit(u64::MAX).reader();
        let mut piece = vec![0; PIECE];
        while !is_over.load(Ordering::Relaxed) {
            let count = match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) => return Err(client.failed(&ureq::Error::Io(error))),
            };
            self.length += count as u64;
            if self.length > blob.size {
                let why = format!("more than the {} bytes that its manifest says", blob.size);
                return Err(Failure::Refused(StatusCode::OK, Error::invalid(blob.digest, why)));
            }
            self.hasher.update(&piece[..count]);
            // A full disk does not pass.
            let written = self.temp.write(&piece[..count]);
            written.map_err(|error| Failure::Refused(StatusCode::OK, error))?;
            advance(count as i64);
        }
        if self.length < blob.size {
            let why = format!("cut after {} of {} bytes", self.length, blob.size);
            return Err(Failure::Passing(Error::invalid(blob.digest, why), None));
        }
        Ok(())
    }

    /// Begins again, with a registry that does not continue.
    fn restart(&mut self) -> Result<()> {
        self.temp.clear()?;
        (self.hasher, self.length) = (Hasher::default(), 0);
        Ok(())
    }
}
