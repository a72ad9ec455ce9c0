//! Attributes of an inode.

/// Attributes, as statx(2) reports them; shared with the connector contract.
pub type Attr = abi::request::NodeAttr;

/// Type of a file: the `S_IFMT` part of its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Character device.
    CharDevice,
    /// Block device.
    BlockDevice,
    /// Named pipe.
    Fifo,
    /// Local socket.
    Socket,
}

impl FileType {
    /// From a mode; unknown types count as regular.
    pub const fn of(mode: u32) -> Self {
        match mode & 0o170000 {
            0o040000 => Self::Directory,
            0o120000 => Self::Symlink,
            0o020000 => Self::CharDevice,
            0o060000 => Self::BlockDevice,
            0o010000 => Self::Fifo,
            0o140000 => Self::Socket,
            _ => Self::Regular,
        }
    }
}
