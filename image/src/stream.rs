//! Streams in pieces between threads: one reads and unpacks, another hashes, a third uses the bytes.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use crate::digest::{Digest, Hasher};

/// Size of a piece.
pub(crate) const PIECE: usize = 256 << 10;
/// Pieces on their way to another thread.
const AHEAD: usize = 8;

/// A part of a stream.
pub(crate) type Piece = Arc<Vec<u8>>;

/// Fills a piece; shorter at the end of the stream, and empty after it.
pub(crate) fn read_piece(stream: &mut impl Read) -> io::Result<Piece> {
    let mut piece = Vec::with_capacity(PIECE);
    stream.take(PIECE as u64).read_to_end(&mut piece)?;
    Ok(Arc::new(piece))
}

/// A thread that hashes.
pub(crate) struct HashThread<'scope> {
    pieces: SyncSender<Piece>,
    thread: ScopedJoinHandle<'scope, (Digest, u64)>,
}

impl<'scope> HashThread<'scope> {
    /// Starts a thread.
    pub fn start<'env>(scope: &'scope Scope<'scope, 'env>) -> Self {
        let (pieces, received) = sync_channel::<Piece>(AHEAD);
        let thread = scope.spawn(move || {
            let mut hasher = Hasher::default();
            received.iter().for_each(|piece| hasher.update(&piece));
            hasher.finish()
        });
        Self { pieces, thread }
    }

    /// Adds a piece.
    pub fn update(&self, piece: &Piece) {
        // The thread receives until this sender is dropped.
        let _ = self.pieces.send(piece.clone());
    }

    /// Digest and length of all pieces.
    pub fn finish(self) -> io::Result<(Digest, u64)> {
        drop(self.pieces);
        self.thread.join().map_err(|_| io::Error::other("the thread that hashes failed"))
    }
}

/// Reads, in another thread, a stream that fails beyond `limit` bytes.
pub(crate) fn read_ahead<'scope, 'env, R: Read + Send + 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    mut stream: R,
    limit: u64,
) -> Ahead {
    let (sender, pieces) = sync_channel(AHEAD);
    scope.spawn(move || {
        let mut length = 0;
        loop {
            let piece = read_piece(&mut stream).and_then(|piece| {
                length += piece.len() as u64;
                if length > limit { Err(too_large(limit)) } else { Ok(piece) }
            });
            let is_last = piece.as_ref().map_or(true, |piece| piece.is_empty());
            // A receiver that is gone needs no more.
            if sender.send(piece).is_err() || is_last {
                return;
            }
        }
    });
    Ahead { pieces, piece: Piece::default(), at: 0, failed: None }
}

/// The error of a stream that is too long.
pub(crate) fn too_large(limit: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {limit} bytes"))
}

/// A stream that another thread reads.
pub(crate) struct Ahead {
    pieces: Receiver<io::Result<Piece>>,
    piece: Piece,
    at: usize,
    failed: Option<(io::ErrorKind, String)>,
}

impl Ahead {
    /// The next piece; empty at the end.
    pub fn next(&mut self) -> io::Result<Piece> {
        if let Some((kind, why)) = &self.failed {
            return Err(io::Error::new(*kind, why.clone()));
        }
        match self.pieces.recv() {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => {
                self.failed = Some((error.kind(), crate::error::reason(&error)));
                Err(error)
            }
            // The thread ended after the last piece.
            Err(_) => Ok(Piece::default()),
        }
    }

    /// The error of the stream, if it failed.
    pub fn failure(&self) -> Option<io::Error> {
        self.failed.as_ref().map(|(kind, why)| io::Error::new(*kind, why.clone()))
    }
}

/// A stream that another thread reads, hashed by a third.
pub(crate) struct Hashed<'a, 'scope> {
    /// The stream.
    pub stream: &'a mut Ahead,
    /// The thread that hashes.
    pub hash: Option<&'a HashThread<'scope>>,
}

impl Read for Hashed<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stream.at == self.stream.piece.len() {
            self.stream.piece = self.stream.next()?;
            self.stream.at = 0;
            if let Some(hash) = self.hash {
                hash.update(&self.stream.piece);
            }
        }
        let rest = &self.stream.piece[self.stream.at..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.stream.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_arrives_whole_and_is_hashed() {
        let bytes: Vec<u8> = (0..PIECE * 3 + 5).map(|at| at as u8).collect();
        std::thread::scope(|scope| {
            let mut ahead = read_ahead(scope, bytes.as_slice(), u64::MAX);
            let hash = HashThread::start(scope);
            let mut all = Vec::new();
            Hashed { stream: &mut ahead, hash: Some(&hash) }.read_to_end(&mut all).unwrap();
            assert!(all == bytes);
            assert_eq!(hash.finish().unwrap(), (Digest::of(&bytes), bytes.len() as u64));
        });
    }

    #[test]
    fn a_stream_beyond_its_limit_fails_and_goes_on_failing() {
        std::thread::scope(|scope| {
            let mut ahead = read_ahead(scope, io::repeat(0), 1 << 20);
            let mut stream = Hashed { stream: &mut ahead, hash: None };
            assert_eq!(io::copy(&mut stream, &mut io::sink()).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
            assert!(stream.read(&mut [0]).is_err());
            assert!(ahead.failure().is_some());
        });
    }
}
