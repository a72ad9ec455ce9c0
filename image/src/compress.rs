//! Compression of layers and archives, recognised by their first bytes.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

/// How bytes are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Not packed.
    Plain,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// Size of buffers for reading packed bytes.
const BUFFER: usize = 1 << 17;
/// Largest window of zstd as a power of two: 128 MiB, the default limit of its decoder.
const WINDOW: u32 = 27;

impl Format {
    /// Recognises the first bytes; fails for formats that Hull does not read.
    pub fn of(start: &[u8]) -> io::Result<Self> {
        let other = |name: &str| {
            let why = format!("packed with {name}, which Hull does not read (gzip, zstd and plain tar)");
            Err(io::Error::new(io::ErrorKind::Unsupported, why))
        };
        match start {
            [0x1f, 0x8b, ..] => Ok(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Ok(Self::Zstd),
            // A skippable frame, with which `zstd:chunked` and pzstd begin.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Ok(Self::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => other("xz"),
            [b'B', b'Z', b'h', ..] => other("bzip2"),
            _ => Ok(Self::Plain),
        }
    }

    /// The end of the media type of such a layer.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Gzip => "+gzip",
            Self::Zstd => "+zstd",
        }
    }
}

/// The beginning of a stream, and the stream from there.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// Recognises a stream's format without losing its first bytes.
pub(crate) fn detect<R: Read>(mut stream: R) -> io::Result<(Format, Whole<R>)> {
    let mut start = Vec::with_capacity(8);
    stream.by_ref().take(8).read_to_end(&mut start)?;
    let format = Format::of(&start)?;
    Ok((format, Cursor::new(start).chain(stream)))
}

/// The unpacked bytes of a stream.
pub(crate) fn unpack<'a, R: Read + Send + 'a>(stream: R) -> io::Result<(Format, Box<dyn Read + Send + 'a>)> {
    let (format, whole) = detect(stream)?;
    let unpacked: Box<dyn Read + Send + 'a> = match format {
        Format::Plain => Box::new(whole),
        Format::Gzip => {
            Box::new(Gzip { decoder: flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(BUFFER, whole)) })
        }
        Format::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(BufReader::with_capacity(BUFFER, whole))?;
            decoder.window_log_max(WINDOW)?;
            Box::new(decoder)
        }
    };
    Ok((format, unpacked))
}

/// Several gzip members, one after the other, as GNU gzip reads them.
struct Gzip<R: BufRead> {
    decoder: flate2::bufread::MultiGzDecoder<R>,
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn unpacked(bytes: &[u8]) -> io::Result<(Format, Vec<u8>)> {
        let (format, mut stream) = unpack(bytes)?;
        let mut all = Vec::new();
        stream.read_to_end(&mut all)?;
        Ok((format, all))
    }

    #[test]
    fn formats_are_recognised() {
        let text = b"some text".repeat(1000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        let zstd = zstd::encode_all(text.as_slice(), 1).unwrap();
        assert_eq!(unpacked(&text).unwrap(), (Format::Plain, text.clone()));
        assert_eq!(unpacked(&gzip).unwrap(), (Format::Gzip, text.clone()));
        assert_eq!(unpacked(&zstd).unwrap(), (Format::Zstd, text.clone()));
        assert_eq!(unpacked(&[gzip.clone(), gzip.clone()].concat()).unwrap().1, text.repeat(2));
        assert_eq!(unpacked(&[zstd.clone(), zstd.clone()].concat()).unwrap().1, text.repeat(2));
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 1, 2][..], &zstd].concat();
        assert_eq!(unpacked(&skippable).unwrap(), (Format::Zstd, text));
        assert_eq!(unpacked(b"").unwrap(), (Format::Plain, Vec::new()));
    }

    #[test]
    fn cut_and_foreign_streams_fail() {
        let text = b"some text".repeat(1000);
        let zstd = zstd::encode_all(text.as_slice(), 1).unwrap();
        assert!(unpacked(&zstd[..zstd.len() - 1]).is_err());
        assert!(unpacked(&[0x1f, 0x8b, 8, 0]).is_err());
        assert!(unpacked(b"\xfd7zXZ\0..").unwrap_err().to_string().contains("xz"));
        assert!(unpacked(b"BZh91AY&").is_err());
    }
}
