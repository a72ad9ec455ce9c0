//! The files of an archive or folder of images.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use crate::bundle::Bundle;
use crate::compress;
use crate::digest::Digest;
use crate::error::{Error, Result, excerpt, reason};
use crate::install::Options;
use crate::limits;
use crate::store::Writer;
use crate::stream::{Hashed, read_ahead};

/// Bytes of headers between two files of an archive.
const HEADERS: u64 = 1 << 20;
/// Most links from a name to a file.
const LINKS: usize = 8;

/// Files by name.
pub(super) struct Files {
    /// Their contents.
    pub bundle: Bundle,
    place: Place,
    limit: u64,
}

enum Place {
    Archive(BTreeMap<String, Item>),
    Folder { path: PathBuf, known: BTreeMap<String, (Digest, u64)> },
}

enum Item {
    File(Digest, u64),
    Link(String),
}

impl Files {
    /// Reads an archive from beginning to end.
    pub fn archive(writer: &Writer, stream: impl Read + Send, options: &Options) -> Result<Self> {
        let limit = options.limits.size;
        let mut bundle = Bundle::default();
        let (format, stream) = compress::unpack(stream).map_err(|error| Error::packed("archive", &error))?;
        let items = if format == compress::Format::Plain {
            read(writer, &mut bundle, stream, limit)
        } else {
            std::thread::scope(|scope| {
                let mut ahead = read_ahead(scope, stream, limit);
                let items = read(writer, &mut bundle, Hashed { stream: &mut ahead, hash: None }, limit);
                match ahead.failure() {
                    Some(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                        Err(Error::limit("archive", reason(&error)))
                    }
                    Some(error) => Err(invalid(&error)),
                    None => items,
                }
            })
        };
        Ok(Self { bundle, place: Place::Archive(items?), limit })
    }

    /// The files of a folder, read when needed.
    pub fn folder(path: PathBuf, options: &Options) -> Result<Self> {
        let place = Place::Folder { path, known: BTreeMap::new() };
        Ok(Self { bundle: Bundle::default(), place, limit: options.limits.size })
    }

    /// Whether there is such a file.
    pub fn has(&self, name: &str) -> bool {
        match &self.place {
            Place::Archive(items) => items.contains_key(name),
            Place::Folder { path, .. } => path.join(name).is_file(),
        }
    }

    /// Digest and size of a file, which is in the bundle then. `name` is of the archive: anything.
    pub fn get(&mut self, writer: &Writer, name: &str) -> Result<(Digest, u64)> {
        let missing = || Error::invalid(excerpt(name), "no such file in the archive");
        match &mut self.place {
            Place::Archive(items) => {
                let mut at = normal(name)?;
                for _ in 0..LINKS {
                    match items.get(&at) {
                        Some(Item::File(digest, size)) => return Ok((*digest, *size)),
                        Some(Item::Link(target)) => at.clone_from(target),
                        None => return Err(missing()),
                    }
                }
                Err(Error::invalid(excerpt(name), "too many links"))
            }
            Place::Folder { path, known } => {
                let name = normal(name)?;
                if let Some(found) = known.get(&name) {
                    return Ok(*found);
                }
                let path = path.join(&name);
                let file = match File::open(&path) {
                    Ok(file) if file.metadata().is_ok_and(|data| data.is_file()) => file,
                    Ok(_) => return Err(missing()),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
                    Err(error) => return Err(Error::io(path.display(), &error)),
                };
                let added = self.bundle.add(writer, file, self.limit)?;
                self.limit -= added.1;
                known.insert(name, added);
                Ok(added)
            }
        }
    }

    /// The contents of a small file.
    pub fn bytes(&mut self, writer: &Writer, name: &str, limit: u64) -> Result<Vec<u8>> {
        let (digest, size) = self.get(writer, name)?;
        if size > limit {
            return Err(Error::invalid(excerpt(name), format!("larger than {limit} bytes")));
        }
        self.bundle.bytes(writer.store(), digest, limit)
    }
}

/// Reads the files of a tar archive.
fn read(writer: &Writer, bundle: &mut Bundle, stream: impl Read, mut limit: u64) -> Result<BTreeMap<String, Item>> {
    let allowed = Rc::new(Cell::new(HEADERS));
    let mut archive = tar::Archive::new(Metered { stream, allowed: allowed.clone() });
    let mut items = BTreeMap::new();
    let mut entries = archive.entries().map_err(|error| invalid(&error))?;
    loop {
        allowed.set(HEADERS);
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(|error| invalid(&error))?;
        let name = entry.path_bytes();
        let name = std::str::from_utf8(&name).map_err(|_| Error::invalid("archive", "a name is not UTF-8"))?;
        if entry.header().entry_type().is_dir() {
            continue;
        }
        let name = normal(name)?;
        if items.len() == limits::FILES {
            return Err(Error::invalid("archive", format!("more than {} files", limits::FILES)));
        }
        let kind = entry.header().entry_type();
        let item = if kind.is_file() {
            let size = entry.size();
            if size > limit {
                return Err(Error::limit(excerpt(&name), format!("{size} bytes, more than {limit} that are left")));
            }
            allowed.set(u64::MAX);
            let (digest, length) = bundle.add(writer, &mut entry, size).map_err(|error| error.within(&name))?;
            if length != size {
                return Err(Error::invalid(excerpt(&name), format!("cut after {length} of {size} bytes")));
            }
            limit -= size;
            Item::File(digest, size)
        } else if kind.is_symlink() || kind.is_hard_link() {
            let target = entry.link_name_bytes().unwrap_or_default();
            let target = std::str::from_utf8(&target).map_err(|_| Error::invalid(&name, "a link is not UTF-8"))?;
            let folder = Path::new(&name).parent().filter(|_| kind.is_symlink());
            Item::Link(resolve(folder.unwrap_or(Path::new("")), target)?)
        } else {
            return Err(Error::invalid(excerpt(&name), "neither a file nor a folder nor a link"));
        };
        items.insert(name, item);
    }
    Ok(items)
}

fn invalid(error: &io::Error) -> Error {
    Error::invalid("archive", reason(error))
}

/// A name without `.`; those that lead out of the archive are refused.
fn normal(name: &str) -> Result<String> {
    let inside = |part: Component| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(name).components().all(inside) {
        return Err(Error::invalid(excerpt(name), "a name that leads out of the archive"));
    }
    resolve(Path::new(""), name)
}

/// The name that a link in a folder leads to.
fn resolve(folder: &Path, target: &str) -> Result<String> {
    let outside = || Error::invalid(excerpt(target), "a link that leads out of the archive");
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.components().chain(Path::new(target).components()) {
        match part {
            Component::Normal(part) => parts.push(part.to_str().ok_or_else(outside)?),
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop().ok_or_else(outside)?),
            Component::RootDir | Component::Prefix(_) => return Err(outside()),
        }
    }
    if parts.is_empty() {
        return Err(Error::invalid(excerpt(target), "an empty name"));
    }
    Ok(parts.join("/"))
}

/// A stream of which no more than the allowed number of bytes is read: the tar crate reads long names and extended
/// headers, of any size, into memory.
struct Metered<R> {
    stream: R,
    allowed: Rc<Cell<u64>>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        let left = self.allowed.get().checked_sub(count as u64);
        self.allowed.set(left.ok_or_else(|| io::Error::other("a header of more than a megabyte"))?);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside() {
        assert_eq!(normal("./a/./b").unwrap(), "a/b");
        for name in ["../a", "/a", "a/../../b", "a/../b", "", ".", "/"] {
            assert!(normal(name).is_err(), "{name}");
        }
        assert_eq!(resolve(Path::new("a"), "../b/layer.tar").unwrap(), "b/layer.tar");
        for target in ["../../b", "/etc/passwd", ".."] {
            assert!(resolve(Path::new("a"), target).is_err(), "{target}");
        }
    }
}
