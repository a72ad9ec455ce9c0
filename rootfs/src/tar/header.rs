//! A header block of 512 bytes.

use super::sparse::Segment;
use crate::error::Fault;

/// Size of a block.
pub(super) const SIZE: usize = 512;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    HardLink,
    Symlink,
    Char,
    Block,
    Directory,
    Fifo,
    /// A volume label: no file.
    Label,
}

/// Variant of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    V7,
    Ustar,
    Gnu,
}

/// A header with a valid checksum.
pub(super) struct Block([u8; SIZE]);

impl Block {
    pub fn parse(bytes: &[u8; SIZE]) -> Result<Block, Fault> {
        let block = Block(*bytes);
        let expected = block.number(148, 8, "the checksum")?;
        let unsigned: u64 = sum(bytes, i64::from).cast_unsigned();
        let signed: u64 = sum(bytes, |b| i64::from(b.cast_signed())).cast_unsigned();
        if expected != unsigned && expected != signed {
            return Err(Fault::Checksum);
        }
        Ok(block)
    }

    fn field(&self, offset: usize, len: usize) -> &[u8] {
        &self.0[offset..offset + len]
    }

    /// The bytes of a text field before its first NUL.
    fn text(&self, offset: usize, len: usize) -> &[u8] {
        let field = self.field(offset, len);
        &field[..field.iter().position(|&b| b == 0).unwrap_or(len)]
    }

    /// A number that must not be negative.
    fn number(&self, offset: usize, len: usize, what: &'static str) -> Result<u64, Fault> {
        u64::try_from(number(self.field(offset, len)).ok_or(Fault::Number(what))?).map_err(|_| Fault::Number(what))
    }

    pub fn kind(&self) -> u8 {
        self.0[156]
    }

    /// The name field, for errors.
    pub fn name(&self) -> &[u8] {
        self.text(0, 100)
    }

    pub fn format(&self) -> Format {
        match self.field(257, 8) {
            b"ustar  \0" => Format::Gnu,
            magic if magic.starts_with(b"ustar\0") => Format::Ustar,
            _ => Format::V7,
        }
    }

    /// The path, with the prefix where the format has one.
    pub fn path(&self) -> Vec<u8> {
        let mut path = Vec::new();
        if self.format() == Format::Ustar {
            // The archiver `star` has times behind a shorter prefix.
            let prefix = self.text(345, if self.field(508, 4) == b"tar\0" { 131 } else { 155 });
            if !prefix.is_empty() {
                path.extend_from_slice(prefix);
                path.push(b'/');
            }
        }
        path.extend_from_slice(self.name());
        path
    }

    pub fn link(&self) -> &[u8] {
        self.text(157, 100)
    }

    pub fn size(&self) -> Result<u64, Fault> {
        self.number(124, 12, "the size").and_then(|size| {
            if size > i64::MAX.cast_unsigned() - (1 << 12) { Err(Fault::Number("the size")) } else { Ok(size) }
        })
    }

    pub fn mode(&self) -> Result<u16, Fault> {
        Ok((self.number(100, 8, "the mode")? & 0o7777) as u16)
    }

    /// The user or group at `offset`.
    pub fn id(&self, offset: usize, what: &'static str) -> Result<u32, Fault> {
        u32::try_from(self.number(offset, 8, what)?).map_err(|_| Fault::Number(what))
    }

    pub fn mtime(&self) -> Result<(i64, u32), Fault> {
        number(self.field(136, 12)).map(|seconds| (seconds, 0)).ok_or(Fault::Number("the time"))
    }

    pub fn device(&self) -> Result<(u32, u32), Fault> {
        if self.format() == Format::V7 {
            return Ok((0, 0));
        }
        let major = self.number(329, 8, "the device")?;
        let minor = self.number(337, 8, "the device")?;
        if major > 0xfff || minor > 0xf_ffff {
            return Err(Fault::Device);
        }
        Ok((major as u32, minor as u32))
    }

    /// What the entry at `path` is.
    pub fn entry_kind(&self, path: &[u8]) -> Result<Kind, Fault> {
        Ok(match self.kind() {
            // Before POSIX a directory was a file whose name ends with a slash.
            0 if path.ends_with(b"/") => Kind::Directory,
            0 | b'0' | b'7' | b'S' => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::Symlink,
            b'3' => Kind::Char,
            b'4' => Kind::Block,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            b'V' => Kind::Label,
            other => return Err(Fault::Type(other)),
        })
    }

    /// Segments of a sparse file in GNU's old format, and whether more blocks of them follow.
    pub fn segments(&self) -> Result<(Vec<Segment>, bool), Fault> {
        let mut segments = Vec::new();
        read_segments(&self.0[386..386 + 4 * 24], &mut segments)?;
        Ok((segments, self.0[482] != 0))
    }

    /// Size of that sparse file, holes included.
    pub fn real_size(&self) -> Result<u64, Fault> {
        self.number(483, 12, "the size")
    }
}

/// Reads a further block of segments; returns whether another one follows.
pub(super) fn more_segments(block: &[u8; SIZE], segments: &mut Vec<Segment>) -> Result<bool, Fault> {
    read_segments(&block[..21 * 24], segments)?;
    Ok(block[504] != 0)
}

fn read_segments(table: &[u8], segments: &mut Vec<Segment>) -> Result<(), Fault> {
    for pair in table.chunks_exact(24) {
        if pair[0] == 0 {
            break;
        }
        let value = |field: &[u8]| number(field).and_then(|n| u64::try_from(n).ok()).ok_or(Fault::Sparse);
        segments.push(Segment { offset: value(&pair[..12])?, len: value(&pair[12..])? });
    }
    Ok(())
}

/// Sum of all bytes, the checksum's own field counted as spaces.
fn sum(bytes: &[u8; SIZE], value: impl Fn(u8) -> i64) -> i64 {
    let field: i64 = bytes[148..156].iter().map(|&b| value(b)).sum();
    bytes.iter().map(|&b| value(b)).sum::<i64>() - field + 8 * 32
}

/// A numeric field: octal digits between spaces and NULs, or GNU's binary form for large and negative numbers.
fn number(field: &[u8]) -> Option<i64> {
    let (&first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        // Two's complement; the marker is the sign's neighbour.
        let start = i64::from(first & 0x3f) - if first & 0x40 != 0 { 0x40 } else { 0 };
        return rest.iter().try_fold(start, |value, &b| value.checked_mul(256)?.checked_add(i64::from(b)));
    }
    let is_fill = |b: &u8| *b == b' ' || *b == 0;
    let start = field.iter().position(|b| !is_fill(b)).unwrap_or(field.len());
    let digits = &field[start..];
    let end = digits.iter().position(is_fill).unwrap_or(digits.len());
    if !digits[end..].iter().all(is_fill) {
        return None;
    }
    digits[..end].iter().try_fold(0i64, |value, &b| match b {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(i64::from(b - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   644 \0"), Some(0o644));
        assert_eq!(number(b"77777777777"), Some(0o77777777777));
        assert_eq!(number(b"\0\0\0\0"), Some(0));
        assert_eq!(number(b"12 34\0"), None);
        assert_eq!(number(b"-1\0"), None);
        assert_eq!(number(b"0009\0"), None);
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]), Some(1 << 32));
        assert_eq!(number(&[0xff; 12]), Some(-1));
        assert_eq!(number(&[0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), None, "beyond 63 bits");
        assert_eq!(number(&[0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]), None, "beyond 63 bits");
    }
}
