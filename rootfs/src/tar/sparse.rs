//! Maps of sparse files in PAX records, and what a valid map is.

use super::pax::decimal;
use crate::error::{Fault, Limit};

/// Bytes of a sparse file that are data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub offset: u64,
    pub len: u64,
}

/// Records `GNU.sparse.*`: format 0.0 repeats offset and length, 0.1 lists them, 1.0 has the map before the data.
#[derive(Default)]
pub(super) struct Records {
    version: Option<(u64, u64)>,
    pub name: Option<Vec<u8>>,
    pub size: Option<u64>,
    /// Numbers of the map, offsets and lengths in turn.
    map: Vec<u64>,
    seen: bool,
}

impl Records {
    pub fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), Fault> {
        self.seen = true;
        let number = || decimal(value).filter(|&n| n <= i64::MAX.cast_unsigned()).ok_or(Fault::Sparse);
        match name {
            b"major" => self.version = Some((number()?, self.version.unwrap_or_default().1)),
            b"minor" => self.version = Some((self.version.unwrap_or_default().0, number()?)),
            b"name" if value.is_empty() || value.contains(&0) => return Err(Fault::Sparse),
            b"name" => self.name = Some(value.to_vec()),
            b"size" | b"realsize" => self.size = Some(number()?),
            b"offset" if self.map.len().is_multiple_of(2) => self.map.push(number()?),
            b"numbytes" if !self.map.len().is_multiple_of(2) => self.map.push(number()?),
            b"offset" | b"numbytes" => return Err(Fault::Sparse),
            b"map" => {
                self.map.clear();
                for text in value.split(|&b| b == b',') {
                    self.map.push(decimal(text).filter(|&n| n <= i64::MAX.cast_unsigned()).ok_or(Fault::Sparse)?);
                }
            }
            // The number of segments, which the map also tells.
            _ => {}
        }
        Ok(())
    }

    pub fn is_version_1(&self) -> bool {
        self.version == Some((1, 0))
    }

    /// Map and size of formats 0.0 and 0.1; `None`: not a sparse file.
    pub fn segments(&self, limit: usize) -> Result<Option<(Vec<Segment>, u64)>, Fault> {
        if !self.seen {
            return Ok(None);
        }
        let (Some(size), None | Some((0, 0 | 1)), true) = (self.size, self.version, self.map.len().is_multiple_of(2))
        else {
            return Err(Fault::Sparse);
        };
        if self.map.len() / 2 > limit {
            return Err(Fault::Limit(Limit::Segments(limit)));
        }
        Ok(Some((self.map.chunks_exact(2).map(|pair| Segment { offset: pair[0], len: pair[1] }).collect(), size)))
    }
}

/// A valid map is sorted, inside the file, and has as many bytes as the archive stores.
pub(super) fn check(segments: &[Segment], size: u64, stored: u64) -> Result<(), Fault> {
    let mut end = 0u64;
    let mut sum = 0u64;
    for segment in segments {
        let next = segment.offset.checked_add(segment.len).ok_or(Fault::Sparse)?;
        if segment.offset < end || next > size {
            return Err(Fault::Sparse);
        }
        end = next;
        sum += segment.len;
    }
    if sum == stored { Ok(()) } else { Err(Fault::Sparse) }
}
