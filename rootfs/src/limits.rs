//! Bounds for archives.

/// Bounds for what one [`Tree`](crate::Tree) takes. An archive that exceeds one is refused; the error names the entry.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Names in the tree, directories that are created for a missing parent included.
    pub entries: u64,
    /// Bytes of a path in an archive, and of a symbolic link's target.
    pub path: usize,
    /// Bytes of one name.
    pub name: usize,
    /// Directories from the root to an entry.
    pub depth: usize,
    /// Bytes of file data in the image, that of entries which later layers hide included. Holes do not count, but
    /// zeros that the archive has.
    pub stored: u64,
    /// Size of one file, holes included.
    pub file: u64,
    /// Bytes of one PAX header or GNU long name.
    pub extension: u64,
    /// Bytes of names and values of the extended attributes of one entry.
    pub xattrs: usize,
    /// Bytes of names and values of all extended attributes.
    pub all_xattrs: u64,
    /// Data segments of one sparse file.
    pub segments: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            entries: 4_000_000,
            path: 4095,
            name: 255,
            depth: 1024,
            stored: 1 << 38,
            file: 1 << 43,
            extension: 1 << 20,
            xattrs: 128 << 10,
            all_xattrs: 256 << 20,
            segments: 1 << 20,
        }
    }
}
