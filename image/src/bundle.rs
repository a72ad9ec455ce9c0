//! Blobs on their way into the store: hashed while they are read, found by their digests.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Read};

use crate::digest::{Digest, Hasher};
use crate::error::{Error, Result};
use crate::store::{Store, Temp, Writer, read_bounded};
use crate::stream::{HashThread, PIECE, read_piece};

/// Blobs up to this size stay in memory, until they are [`IN_MEMORY`] together.
const SMALL: u64 = 64 << 10;
/// Most bytes of blobs in memory.
const IN_MEMORY: u64 = 16 << 20;

/// Blobs that are not in the store yet.
#[derive(Default)]
pub(crate) struct Bundle {
    blobs: BTreeMap<Digest, Source>,
    in_memory: u64,
}

enum Source {
    Memory(Vec<u8>),
    File { temp: Temp, size: u64 },
}

/// A blob that can be read: any reader that may go to another thread.
pub(crate) type Opened = Box<dyn Read + Send>;

impl Bundle {
    /// Reads a blob of unknown content. Fails beyond `limit` bytes.
    pub fn add(&mut self, writer: &Writer, mut stream: impl Read, limit: u64) -> Result<(Digest, u64)> {
        let fail = |error: io::Error| Error::invalid("archive", crate::error::reason(&error));
        let first = read_piece(&mut stream).map_err(fail)?;
        let length = first.len() as u64;
        if length > limit {
            return Err(Error::limit("archive", format!("more than {limit} bytes left")));
        }
        if length <= SMALL && self.in_memory + length <= IN_MEMORY {
            let digest = Digest::of(&first);
            self.in_memory += length;
            self.blobs.entry(digest).or_insert_with(|| Source::Memory(first.to_vec()));
            return Ok((digest, length));
        }
        let mut temp = writer.temp()?;
        let (digest, size) = if first.len() < PIECE {
            let mut hasher = Hasher::default();
            hasher.update(&first);
            temp.write(&first)?;
            hasher.finish()
        } else {
            std::thread::scope(|scope| {
                let hash = HashThread::start(scope);
                let (mut piece, mut length) = (first, 0);
                while !piece.is_empty() {
                    length += piece.len() as u64;
                    if length > limit {
                        return Err(Error::limit("archive", format!("more than {limit} bytes")));
                    }
                    hash.update(&piece);
                    temp.write(&piece)?;
                    piece = read_piece(&mut stream).map_err(fail)?;
                }
                hash.finish().map_err(fail)
            })?
        };
        self.insert(digest, temp, size);
        Ok((digest, size))
    }

    /// Adds a blob whose digest was computed.
    pub fn insert(&mut self, digest: Digest, temp: Temp, size: u64) {
        self.blobs.entry(digest).or_insert(Source::File { temp, size });
    }

    /// Size of a blob, here or in the store.
    pub fn size(&self, store: &Store, digest: Digest) -> Option<u64> {
        match self.blobs.get(&digest) {
            Some(Source::Memory(bytes)) => Some(bytes.len() as u64),
            Some(Source::File { size, .. }) => Some(*size),
            None => store.blob(digest).metadata().ok().filter(|data| data.is_file()).map(|data| data.len()),
        }
    }

    /// Opens a blob, here or in the store.
    pub fn open(&self, store: &Store, digest: Digest) -> Result<Opened> {
        Ok(match self.blobs.get(&digest) {
            Some(Source::Memory(bytes)) => Box::new(Cursor::new(bytes.clone())),
            Some(Source::File { temp, .. }) => Box::new(temp.reopen()?),
            None => {
                let path = store.blob(digest);
                Box::new(File::open(&path).map_err(|error| Error::io(path.display(), &error))?)
            }
        })
    }

    /// The bytes of a small blob, here or in the store.
    pub fn bytes(&self, store: &Store, digest: Digest, limit: u64) -> Result<Vec<u8>> {
        let size = match self.blobs.get(&digest) {
            None => return read_bounded(&store.blob(digest), limit),
            Some(Source::Memory(bytes)) => bytes.len() as u64,
            Some(Source::File { size, .. }) => *size,
        };
        if size > limit {
            return Err(Error::invalid(digest, format!("larger than {limit} bytes")));
        }
        let mut bytes = Vec::new();
        let opened = self.open(store, digest)?.take(limit).read_to_end(&mut bytes);
        opened.map_err(|error| Error::io(digest, &error))?;
        Ok(bytes)
    }

    /// Moves a blob into the store.
    pub fn commit(&mut self, writer: &Writer, digest: Digest) -> Result<()> {
        match self.blobs.remove(&digest) {
            Some(Source::Memory(bytes)) => writer.add_bytes(&bytes).map(drop),
            Some(Source::File { temp, .. }) => writer.add_blob(temp, digest),
            None => Ok(()),
        }
    }
}
