//! Tar archives as layers have them: ustar, PAX and GNU, read strictly and as a stream.
//!
//! The rules are those of Go's `archive/tar`, with which Docker, containerd, Podman and umoci read layers, so that an
//! archive means the same here. What that reader leaves open (extension headers twice, or without an entry) is refused.

mod header;
mod pax;
mod sparse;

use std::{collections::BTreeMap, io::Read};

pub(crate) use header::Kind;
use header::{Block, Format, SIZE};
pub(crate) use sparse::Segment;

use crate::{
    Limits,
    error::{Error, Fault, Limit},
    input::Input,
};

/// Extended attributes by name.
pub(crate) type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// One entry, with the extension headers before it applied.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The name as the archive has it.
    pub path: Vec<u8>,
    pub kind: Kind,
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    /// Seconds and nanoseconds of the modification time.
    pub mtime: (i64, u32),
    /// Target of a symbolic or hard link.
    pub link: Vec<u8>,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    pub xattrs: Xattrs,
    /// Size of the file, holes included.
    pub size: u64,
    /// Data of a sparse file; `None`: the whole file is data.
    pub segments: Option<Vec<Segment>>,
}

/// Reads entries in order. The data of an entry is read between two calls of [`next`](Reader::next); what is left of it
/// is skipped.
pub(crate) struct Reader<R> {
    input: Input<R>,
    limits: Limits,
    /// Bytes of the entry's data that were not read yet, and of the padding after them.
    data: u64,
    padding: u64,
    /// Name of the entry, for errors in its data.
    name: Vec<u8>,
}

/// Extension headers that wait for their entry.
#[derive(Default)]
struct Pending {
    pax: Option<pax::Records>,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

impl<R: Read> Reader<R> {
    pub fn new(source: R, limits: Limits) -> Self {
        Reader { input: Input::new(source), limits, data: 0, padding: 0, name: Vec::new() }
    }

    /// The next entry, or `None` at the end of the archive; then the source was read to its end.
    pub fn next(&mut self) -> Result<Option<Entry>, Error> {
        self.finish_entry()?;
        let mut pending = Pending::default();
        loop {
            let offset = self.input.position;
            let at = |fault| Error::Archive { offset, fault };
            let Some(block) = self.block(offset)? else {
                if pending.pax.is_some() || pending.path.is_some() || pending.link.is_some() {
                    return Err(at(Fault::Extension));
                }
                self.input.skip(u64::MAX).map_err(Error::Read)?;
                return Ok(None);
            };
            match block.kind() {
                b'x' => {
                    let text = self.extension(&block)?;
                    let records = pax::parse(&text).map_err(|fault| fault.of(block.name()))?;
                    if pending.pax.replace(records).is_some() {
                        return Err(at(Fault::Extension));
                    }
                }
                // Defaults for all later entries: ignored, as Docker does. `git archive` has the commit here.
                b'g' => drop(self.extension(&block)?),
                b'L' | b'K' => {
                    let mut text = self.extension(&block)?;
                    text.truncate(text.iter().position(|&b| b == 0).unwrap_or(text.len()));
                    let place = if block.kind() == b'L' { &mut pending.path } else { &mut pending.link };
                    if place.replace(text).is_some() {
                        return Err(at(Fault::Extension));
                    }
                }
                _ => return self.entry(block, pending).map(Some),
            }
        }
    }

    /// Bytes of the entry's data, as many as are at hand; empty only at the end of the data.
    pub fn fill(&mut self, least: usize) -> Result<&[u8], Error> {
        let least = (least as u64).min(self.data) as usize;
        let data = self.input.fill(least).map_err(Error::Read)?;
        if data.len() < least {
            return Err(Fault::Truncated.of(&self.name));
        }
        Ok(&data[..data.len().min(usize::try_from(self.data).unwrap_or(usize::MAX))])
    }

    /// Takes `n` of the bytes that [`fill`](Self::fill) showed.
    pub fn consume(&mut self, n: usize) {
        self.input.consume(n);
        self.data -= n as u64;
    }

    fn finish_entry(&mut self) -> Result<(), Error> {
        let (data, padding) = (std::mem::take(&mut self.data), std::mem::take(&mut self.padding));
        if self.input.skip(data).map_err(Error::Read)? < data {
            return Err(Fault::Truncated.of(&self.name));
        }
        // Padding may be absent after the last entry.
        self.input.skip(padding).map_err(Error::Read)?;
        Ok(())
    }

    /// The next header, or `None` at the end: two blocks of zeros, or the end of the source.
    fn block(&mut self, offset: u64) -> Result<Option<Block>, Error> {
        let at = |fault| Error::Archive { offset, fault };
        let have = self.input.fill(2 * SIZE).map_err(Error::Read)?;
        let Some(first) = have.first_chunk::<SIZE>() else {
            return if have.is_empty() { Ok(None) } else { Err(at(Fault::Truncated)) };
        };
        if first.iter().all(|&b| b == 0) {
            let second = &have[SIZE..have.len().min(2 * SIZE)];
            return if second.iter().all(|&b| b == 0) { Ok(None) } else { Err(at(Fault::Checksum)) };
        }
        let block = Block::parse(first).map_err(at)?;
        self.input.consume(SIZE);
        Ok(Some(block))
    }

    /// The data of an extension header.
    fn extension(&mut self, block: &Block) -> Result<Vec<u8>, Error> {
        let size = block.size().map_err(|fault| fault.of(block.name()))?;
        if size > self.limits.extension {
            return Err(Fault::Limit(Limit::Extension(self.limits.extension)).of(block.name()));
        }
        self.begin_data(size, block.name());
        let mut text = Vec::new();
        while self.data > 0 {
            let have = self.fill(1)?;
            text.extend_from_slice(have);
            let n = have.len();
            self.consume(n);
        }
        self.finish_entry()?;
        Ok(text)
    }

    fn begin_data(&mut self, size: u64, name: &[u8]) {
        self.data = size;
        self.padding = size.wrapping_neg() % SIZE as u64;
        self.name.clear();
        self.name.extend_from_slice(&name[..name.len().min(256)]);
    }

    /// The entry of `block`, with what extension headers said.
    fn entry(&mut self, block: Block, pending: Pending) -> Result<Entry, Error> {
        let pax = pending.pax.unwrap_or_default();
        // A GNU long name counts more than a PAX one.
        let path = pending.path.or(pax.path).unwrap_or_else(|| block.path());
        let path = pax.sparse.name.clone().unwrap_or(path);
        let link = pending.link.or(pax.link).unwrap_or_else(|| block.link().to_vec());
        let result = (|| {
            let kind = block.entry_kind(&path)?;
            let size = match pax.size {
                Some(size) => size,
                None => block.size()?,
            };
            let entry = Entry {
                kind,
                mode: block.mode()?,
                uid: pax.uid.map_or_else(|| block.id(108, "uid"), Ok)?,
                gid: pax.gid.map_or_else(|| block.id(116, "gid"), Ok)?,
                mtime: pax.mtime.map_or_else(|| block.mtime(), Ok)?,
                device: if matches!(kind, Kind::Char | Kind::Block) { block.device()? } else { (0, 0) },
                xattrs: pax.xattrs,
                size: if kind == Kind::File { size } else { 0 },
                segments: None,
                path: Vec::new(),
                link,
            };
            Ok((entry, size))
        })();
        let (mut entry, size) = result.map_err(|fault: Fault| fault.of(&path))?;
        // Links, directories and devices have no data, whatever their size says.
        self.begin_data(if entry.kind == Kind::File { size } else { 0 }, &path);
        if entry.kind == Kind::File {
            self.sparse(&block, &pax.sparse, &mut entry)?;
        }
        entry.path = path;
        Ok(entry)
    }

    /// Reads the map of a sparse file, if `entry` is one.
    fn sparse(&mut self, block: &Block, pax: &sparse::Records, entry: &mut Entry) -> Result<(), Error> {
        let limit = self.limits.segments;
        let fail = |reader: &Self, fault: Fault| fault.of(&reader.name);
        let found = if block.kind() == b'S' {
            if block.format() != Format::Gnu {
                return Err(fail(self, Fault::Sparse));
            }
            let (mut segments, mut more) = block.segments().map_err(|fault| fail(self, fault))?;
            while more {
                let have = self.input.fill(SIZE).map_err(Error::Read)?;
                let Some(next) = have.first_chunk::<SIZE>() else { return Err(fail(self, Fault::Truncated)) };
                let next = *next;
                self.input.consume(SIZE);
                more = header::more_segments(&next, &mut segments).map_err(|fault| fail(self, fault))?;
                if segments.len() > limit {
                    return Err(fail(self, Fault::Limit(Limit::Segments(limit))));
                }
            }
            Some((segments, block.real_size().map_err(|fault| fail(self, fault))?))
        } else if pax.is_version_1() {
            let size = pax.size.ok_or_else(|| fail(self, Fault::Sparse))?;
            Some((self.map_in_data(limit)?, size))
        } else {
            pax.segments(limit).map_err(|fault| fail(self, fault))?
        };
        if let Some((segments, size)) = found {
            sparse::check(&segments, size, self.data).map_err(|fault| fail(self, fault))?;
            entry.size = size;
            entry.segments = Some(segments);
        }
        Ok(())
    }

    /// The map of a sparse file in PAX format 1.0: decimal lines before the data, padded to a block.
    fn map_in_data(&mut self, limit: usize) -> Result<Vec<Segment>, Error> {
        let mut read = 0u64;
        let mut number = |reader: &mut Self| -> Result<u64, Error> {
            let mut value = 0u64;
            let mut digits = 0;
            loop {
                let byte = reader.fill(1)?.first().copied().ok_or_else(|| Fault::Sparse.of(&reader.name))?;
                reader.consume(1);
                read += 1;
                match byte {
                    b'\n' if digits > 0 => return Ok(value),
                    b'0'..=b'9' if digits < 19 => value = value * 10 + u64::from(byte - b'0'),
                    _ => return Err(Fault::Sparse.of(&reader.name)),
                }
                digits += 1;
            }
        };
        let count = number(self)?;
        if count > limit as u64 {
            return Err(Fault::Limit(Limit::Segments(limit)).of(&self.name));
        }
        let mut segments = Vec::new();
        for _ in 0..count {
            segments.push(Segment { offset: number(self)?, len: number(self)? });
        }
        let padding = (read.wrapping_neg() % SIZE as u64).min(self.data);
        if self.input.skip(padding).map_err(Error::Read)? < padding {
            return Err(Fault::Truncated.of(&self.name));
        }
        self.data -= padding;
        Ok(segments)
    }
}
