//! Attributes of an inode.

/// Attributes, as statx(2) reports them; shared with the connector contract.
pub type Attr = abi::request::NodeAttr;

/// Attributes that were read, modified and changed at a time (seconds, nanoseconds) and are zero otherwise.
pub fn since((seconds, nanoseconds): (i64, u32)) -> Attr {
    Attr {
        atime: seconds,
        atime_ns: nanoseconds,
        mtime: seconds,
        mtime_ns: nanoseconds,
        ctime: seconds,
        ctime_ns: nanoseconds,
        ..Attr::default()
    }
}

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

impl FileType {
    /// The `S_IFMT` part of a mode.
    pub const fn mode_bits(self) -> u32 {
        match self {
            Self::Directory => 0o040000,
            Self::Symlink => 0o120000,
            Self::CharDevice => 0o020000,
            Self::BlockDevice => 0o060000,
            Self::Fifo => 0o010000,
            Self::Socket => 0o140000,
            Self::Regular => 0o100000,
        }
    }

    /// `d_type` of getdents64(2).
    pub const fn dirent_type(self) -> u8 {
        (self.mode_bits() >> 12) as u8
    }
}

/// Set-user-ID.
pub const S_ISUID: u32 = 0o4000;
/// Set-group-ID.
pub const S_ISGID: u32 = 0o2000;
/// Sticky bit: only owners remove names from the directory.
pub const S_ISVTX: u32 = 0o1000;

/// Encodes a device number as `struct stat` carries it (makedev(3)).
pub const fn makedev(major: u32, minor: u32) -> u64 {
    let (major, minor) = (major as u64, minor as u64);
    (major & 0xfff) << 8 | (major & !0xfff) << 32 | minor & 0xff | (minor & !0xff) << 12
}

/// Major and minor of a device number.
pub const fn split_dev(dev: u64) -> (u32, u32) {
    (((dev >> 8) & 0xfff | (dev >> 32) & !0xfff) as u32, (dev & 0xff | (dev >> 12) & !0xff) as u32)
}

/// Seconds and nanoseconds of the wall clock.
pub fn now() -> (i64, u32) {
    let ns = hal::clock::realtime_ns();
    ((ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as u32)
}
