//! Errors: one line each, which names the entry.

use std::{fmt, io};

/// Error of reading a layer or a directory, or of writing an image. `Display` gives one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An entry of an archive, or a file of a directory, is refused.
    #[error("{entry}: {fault}")]
    Entry {
        /// The entry's name.
        entry: Name,
        /// Why.
        fault: Fault,
    },
    /// The archive is broken at a place without a name.
    #[error("the archive is damaged at byte {offset}: {fault}")]
    Archive {
        /// Offset in the uncompressed archive.
        offset: u64,
        /// Why.
        fault: Fault,
    },
    /// The archive could not be read; the source of the bytes (a file, a decompressor) gave this error.
    #[error("cannot read the archive: {0}")]
    Read(#[source] io::Error),
    /// The image or its scratch file could not be written or read.
    #[error("cannot write the image: {0}")]
    Write(#[source] io::Error),
    /// A file of the host could not be read.
    #[error("cannot read {file}: {source}")]
    Host {
        /// Its path.
        file: Name,
        /// Why.
        source: io::Error,
    },
    /// A tar archive that must be decompressed first.
    #[error("{file} is compressed: decompress it first ({program} -d)")]
    Compressed {
        /// The archive.
        file: Name,
        /// What decompresses it.
        program: &'static str,
    },
    /// The tree does not fit in an EROFS image.
    #[error("the root file system is too large for an image: {0}")]
    TooLarge(&'static str),
    /// An image is damaged or uses features that this reader does not have.
    #[error("not a usable EROFS image: {0}")]
    Image(&'static str),
}

/// Reason why an entry is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The archive ends inside the entry.
    #[error("the archive ends in the middle of this entry")]
    Truncated,
    /// A header whose checksum does not match.
    #[error("the checksum of the header is wrong")]
    Checksum,
    /// A numeric field that is not a number, or negative where it must not be.
    #[error("{0} in the header is not a valid number")]
    Number(&'static str),
    /// An entry type that root file systems do not have.
    #[error("entries of type '{}' are not supported", .0.escape_ascii())]
    Type(u8),
    /// A damaged PAX header.
    #[error("its PAX header is malformed")]
    Pax,
    /// Extension headers that contradict each other or apply to no entry.
    #[error("two extension headers of the same kind before one entry, or one without an entry")]
    Extension,
    /// A damaged map of a sparse file.
    #[error("the map of this sparse file is malformed")]
    Sparse,
    /// An empty name, or one with a NUL byte.
    #[error("the name is empty or has a NUL byte")]
    BadName,
    /// The path leads out of the root file system.
    #[error("the path leads out of the root file system")]
    Outside,
    /// `.wh.` without a name, or as the name of a directory.
    #[error("names that begin with .wh. are reserved for whiteouts")]
    Whiteout,
    /// A parent that the same layer made a file.
    #[error("a parent of this path is not a directory")]
    NotDirectory,
    /// Too many symbolic links.
    #[error("too many levels of symbolic links")]
    Loop,
    /// The root replaced by something else than a directory.
    #[error("the root must be a directory")]
    Root,
    /// A hard link to a name that does not exist.
    #[error("hard link to a file that does not exist (a link must follow its target)")]
    NoTarget,
    /// A hard link to a directory.
    #[error("hard link to a directory")]
    LinkToDirectory,
    /// An empty target of a symbolic link, or one with a NUL byte.
    #[error("the target of the link is empty or has a NUL byte")]
    Target,
    /// A device number beyond 12 bits for the major and 20 for the minor number.
    #[error("device numbers beyond 4095:1048575 are not supported")]
    Device,
    /// One of the limits.
    #[error("{0}")]
    Limit(Limit),
}

/// Limit that an entry exceeds ([`Limits`](crate::Limits)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// See [`Limits::entries`](crate::Limits::entries).
    #[error("the root file system has more than {0} entries")]
    Entries(u64),
    /// See [`Limits::path`](crate::Limits::path).
    #[error("the path or link target is longer than {0} bytes")]
    Path(usize),
    /// See [`Limits::name`](crate::Limits::name).
    #[error("a name is longer than {0} bytes")]
    Name(usize),
    /// See [`Limits::depth`](crate::Limits::depth).
    #[error("directories are nested more than {0} deep")]
    Depth(usize),
    /// See [`Limits::stored`](crate::Limits::stored).
    #[error("the files have more than {0} bytes of data")]
    Stored(u64),
    /// See [`Limits::file`](crate::Limits::file).
    #[error("the file is larger than {0} bytes")]
    File(u64),
    /// See [`Limits::extension`](crate::Limits::extension).
    #[error("its extension header is larger than {0} bytes")]
    Extension(u64),
    /// See [`Limits::xattrs`](crate::Limits::xattrs).
    #[error("its extended attributes have more than {0} bytes")]
    Xattrs(usize),
    /// See [`Limits::all_xattrs`](crate::Limits::all_xattrs).
    #[error("all extended attributes have more than {0} bytes")]
    AllXattrs(u64),
    /// See [`Limits::segments`](crate::Limits::segments).
    #[error("the sparse file has more than {0} segments")]
    Segments(usize),
}

/// A name from an archive for messages: quoted, escaped, and cut where it is long.
#[derive(Clone, PartialEq, Eq)]
pub struct Name(Box<[u8]>);

/// Bytes of a name that messages show.
const SHOWN: usize = 200;

impl Name {
    pub(crate) fn new(bytes: &[u8]) -> Name {
        Name(bytes.get(..SHOWN + 1).unwrap_or(bytes).into())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.get(..SHOWN).unwrap_or(&self.0);
        let text = String::from_utf8_lossy(shown);
        let more = if self.0.len() > SHOWN { "..." } else { "" };
        write!(f, "'{}{more}'", text.escape_debug())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Fault {
    /// The error for `entry`.
    pub(crate) fn of(self, entry: &[u8]) -> Error {
        Error::Entry { entry: Name::new(entry), fault: self }
    }
}
