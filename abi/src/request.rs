//! The operations that keel may ask of the monitor, and the structures that they carry.
//!
//! Files are named by an export number and a path beneath it (`a/b/c`, no leading slash, the empty
//! path is the export itself); keel resolves symbolic links and `..`, the monitor follows neither.
//! Names `.` and `..`, empty names and zero bytes give EINVAL, a symbolic link on the way ELOOP, any
//! change in a read-only export EROFS; `docs/connectors.md` lists the other errors.

use bytemuck::{Pod, Zeroable};

/// Operation of a [`crate::ring::Submission`]. `a0 … a5` are its arguments, `in` and `out` its
/// payloads, `e0`, `e1` the extra results of the completion.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Nothing; completes at once with 0.
    Nop = 0,
    /// End the pod. a0: exit code of `hull`. Never completes.
    Exit = 1,
    /// Keel failed. in: text for the user. Never completes.
    Crash = 2,
    /// A line for the user. a0: 0 for standard error, 1 for where `hull trace` writes. in: text without
    /// the newline.
    Log = 3,
    /// out: random bytes.
    Entropy = 4,
    /// More RAM. a0: bytes wanted. e0: new end of RAM. ENOMEM at the limit.
    GrowRam = 5,
    /// More window. a0: bytes wanted. e0: new end of the window (guest-physical).
    GrowWindow = 6,
    /// Give RAM back to the host. a0: guest-physical address, a1: bytes, both page multiples.
    Release = 7,
    /// Host clocks now. e0: realtime ns, e1: monotonic ns.
    Clock = 8,

    /// Read a stream. a0: its number (0 to 2, then those of `PodConfig::passed`), a1: 1 to fail with EAGAIN instead of waiting, a2: 0 to go on at the stream's own
    /// position, or (of a file) an offset and 1, and the position stays. out: room.
    /// Result: bytes, 0 at the end. May complete late.
    StreamRead = 16,
    /// Write a stream. a0: its number, a1: 1 to fail with EAGAIN instead of waiting, a2: as for `StreamRead`, or
    /// `u64::MAX` to append. in: bytes.
    /// Result: bytes. May complete late.
    StreamWrite = 17,
    /// Readiness of a stream. a0: stream, a1: poll(2) events wanted; completes when one
    /// of them (or POLLERR, POLLHUP) holds; a2: 1 to complete at once. Result: events.
    StreamPoll = 18,
    /// Cancel a late operation. a0: id. The cancelled one completes with ECANCELED.
    Cancel = 19,
    /// Terminal attributes of a stream. a0: stream. out: kernel `struct termios` (36 bytes).
    StreamGetTermios = 20,
    /// Set terminal attributes. a0: stream, a1: 0 now, 1 after drain, 2 after flush. in: termios.
    StreamSetTermios = 21,
    /// Window size of a stream. a0: stream. e0: rows, e1: columns.
    StreamGetWindow = 22,
    /// Seek a stream that is a regular file. a0: stream, a1: offset, a2: whence. Result: offset.
    StreamSeek = 23,
    /// fstat of a stream. a0: stream. out: [`NodeAttr`].
    StreamStat = 24,
    /// A signal that `hull` got and the pod is meant to. a0: 0, or the last one if `hull` is to take
    /// it itself (SIGTSTP: it stops, and the pod with it). Completes late; one at a time (EBUSY).
    /// Result: the signal's number.
    SignalWait = 25,

    /// Attributes along a path. a0: export, a1: leading components to walk without reporting.
    /// in: path. out: one [`NodeAttr`] per reported component (for the empty path: the export's).
    /// Result: number of components reported. Stops after a component that is no directory.
    /// e0: 0, or the errno that stopped the walk (ENOENT, EACCES, …); e1: components that exist.
    Walk = 32,
    /// Entries of a directory. a0: export, a1: handle of an earlier call that was not the last,
    /// or 0. in: path. out: [`DirRecord`]s. Result: bytes of records; e0: handle to go on with,
    /// or 0 after the last. `.` and `..` are not reported.
    ///
    /// a2: most bytes of records that may follow about directories which will be wanted next, each as
    /// a record of [`dir_record::DIRECTORY`] and the records of all its entries. They are those beneath
    /// the path, depth first, then likewise a3 others, named in the input after the path, each after a
    /// zero byte. Any of them may be left out. Only with a1 = 0.
    ///
    /// a4: of which entries the attributes are wanted, [`list_attr`]. Of all others come just the inode number and
    /// the type; `nlink` 0 tells so, here and where the attributes can't be had.
    ///
    /// a5: 1 for the a3 others alone, without what lies beneath them and beneath the path.
    ReadDir = 33,
    /// Open a regular file. a0: export, a1: [`open_flags`], a2: mode of a new file, a3: uid, a4: gid
    /// of a new file. in: path. out: [`NodeAttr`]. e0: handle. With [`open_flags::UNNAMED`] the path is that of a
    /// directory, in whose file system a file without a name is made; EOPNOTSUPP if it has none.
    Open = 34,
    /// a0: handle.
    Close = 35,
    /// a0: handle, a1: offset. out: room. Result: bytes.
    Read = 36,
    /// a0: handle, a1: offset (`u64::MAX`: append). in: bytes. Result: bytes;
    /// e0: offset after the write. out, where there is room: [`NodeAttr`] right before and right after it.
    Write = 37,
    /// a0: handle. out: [`NodeAttr`].
    HandleAttr = 38,
    /// a0: handle, a1: new size.
    Truncate = 39,
    /// a0: handle, a1: fallocate(2) mode, a2: offset, a3: bytes.
    Fallocate = 40,
    /// a0: handle, a1: 1 for data only.
    Sync = 41,
    /// Map file pages into the window. a0: handle, a1: file offset, a2: bytes, a3: guest-physical
    /// address in the window, a4: 1 if writable. All multiples of a page. ENXIO beyond the page in which the file ends.
    Map = 42,
    /// Take window pages back. a0: guest-physical address, a1: bytes.
    Unmap = 43,
    /// a0: export. in: path. out: target.  Result: bytes.
    ReadLink = 44,
    /// a0: export, a1: mode, a2: uid, a3: gid. in: path. out: [`NodeAttr`].
    Mkdir = 45,
    /// a0: export, a1: mode with type (FIFO, socket), a2: uid, a3: gid. in: path. out: [`NodeAttr`].
    Mknod = 46,
    /// a0: export, a1: bytes of the path in the input, a2: uid, a3: gid. in: path, then target.
    /// out: [`NodeAttr`].
    Symlink = 47,
    /// a0: export, a1: bytes of the first path, a2: 0, or a handle of the existing file (then a1 is 0). in: existing
    /// path, then new path. out: [`NodeAttr`].
    Link = 48,
    /// a0: export, a1: 1 for a directory. in: path.
    Unlink = 49,
    /// a0: export, a1: bytes of the first path, a2: renameat2(2) flags. in: old path, new path. out: [`NodeAttr`] of what
    /// has the new name then.
    Rename = 50,
    /// a0: export, a1: 0, or a handle that names the file in place of a path (which is empty then). in: [`SetAttr`],
    /// then path. out: [`NodeAttr`].
    SetAttr = 51,
    /// a0: export. in: path. out: [`FsStat`].
    StatFs = 52,
    /// a0: export, a1: bytes of the path, a2: 0 or a handle, as for `SetAttr`. in: path, then name. out: value.
    /// Result: bytes; with no room for output the size needed.
    GetXattr = 53,
    /// a0: export, a1: 0 or a handle, as for `SetAttr`. in: path. out: names, each ended by a zero byte. Result: bytes.
    ListXattr = 54,
    /// a0: export, a1: bytes of the path, a2: bytes of the name, a3: setxattr(2) flags, a4: 0 or a handle, as for
    /// `SetAttr`.
    /// in: path, name, value.
    SetXattr = 55,
    /// a0: export, a1: bytes of the path, a2: 0 or a handle, as for `SetAttr`. in: path, then name.
    RemoveXattr = 56,
    /// Open a regular file for reading and read its beginning in the same trip. a0: export. in: path.
    /// out: [`NodeAttr`], then content. Result: bytes of content. e0: handle if the file is longer
    /// than the room, or 0 if all of it was delivered (nothing stays open then). ENOSYS: keel falls
    /// back to `Open` and `Read`.
    Fetch = 57,
    /// Take window pages from the host before they are used. a0: guest-physical address, a1: bytes (at most 2 MiB), both
    /// page multiples, a2: 1 for stores. EFAULT if the host can't provide one: the file was cut, can't be read, or has
    /// no room on its disk; EINVAL for stores to pages that are mapped read-only.
    Populate = 58,
    /// Next data, or hole, of a file. a0: handle, a1: offset, a2: 1 for a hole. Result: its offset. ENXIO.
    Seek = 59,
}

impl Op {
    /// The operation of a number from the ring, if there is one.
    pub fn from_number(number: u32) -> Option<Self> {
        const ALL: &[Op] = &[
            Op::Nop,
            Op::Exit,
            Op::Crash,
            Op::Log,
            Op::Entropy,
            Op::GrowRam,
            Op::GrowWindow,
            Op::Release,
            Op::Clock,
            Op::StreamRead,
            Op::StreamWrite,
            Op::StreamPoll,
            Op::Cancel,
            Op::StreamGetTermios,
            Op::StreamSetTermios,
            Op::StreamGetWindow,
            Op::StreamSeek,
            Op::StreamStat,
            Op::SignalWait,
            Op::Walk,
            Op::ReadDir,
            Op::Open,
            Op::Close,
            Op::Read,
            Op::Write,
            Op::HandleAttr,
            Op::Truncate,
            Op::Fallocate,
            Op::Sync,
            Op::Map,
            Op::Unmap,
            Op::ReadLink,
            Op::Mkdir,
            Op::Mknod,
            Op::Symlink,
            Op::Link,
            Op::Unlink,
            Op::Rename,
            Op::SetAttr,
            Op::StatFs,
            Op::GetXattr,
            Op::ListXattr,
            Op::SetXattr,
            Op::RemoveXattr,
            Op::Fetch,
            Op::Populate,
            Op::Seek,
        ];
        ALL.iter().copied().find(|op| *op as u32 == number)
    }
}

/// Flags of [`Op::Open`].
pub mod open_flags {
    /// Open for reading.
    pub const READ: u64 = 1;
    /// Open for writing (EROFS if the export is read-only).
    pub const WRITE: u64 = 2;
    /// Create the file if it does not exist.
    pub const CREATE: u64 = 4;
    /// With `CREATE`: fail with EEXIST if it exists.
    pub const EXCLUSIVE: u64 = 8;
    /// Cut it to length 0.
    pub const TRUNCATE: u64 = 16;
    /// Make a file without a name; only with `READ` and `WRITE`.
    pub const UNNAMED: u64 = 32;
    /// With `EXCLUSIVE`: if the name exists, the result is 1 in place of EEXIST, the attributes are those of what has it,
    /// and nothing is opened.
    pub const OR_TELL: u64 = 64;
}

/// Attributes of a file, as statx(2) reports them on the host.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct NodeAttr {
    /// Inode number.
    pub ino: u64,
    /// Device number (`makedev` encoding of the host).
    pub dev: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device file.
    pub rdev: u64,
    /// Bytes.
    pub size: u64,
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// Preferred I/O size in bytes.
    pub blksize: u32,
    /// Nanoseconds of the four times.
    pub atime_ns: u32,
    /// Nanoseconds of the modification time.
    pub mtime_ns: u32,
    /// Nanoseconds of the status change time.
    pub ctime_ns: u32,
    /// Nanoseconds of the birth time.
    pub btime_ns: u32,
    /// [`node_flags`].
    pub flags: u32,
    /// Seconds of the access time.
    pub atime: i64,
    /// Seconds of the modification time.
    pub mtime: i64,
    /// Seconds of the status change time.
    pub ctime: i64,
    /// Seconds of the birth time.
    pub btime: i64,
}
const _: () = assert!(core::mem::size_of::<NodeAttr>() == 112);

/// Bits of [`NodeAttr::flags`].
pub mod node_flags {
    /// The file has no access control list, and a directory no default one. Only told where it is asked for,
    /// [`super::list_attr::LISTS`].
    pub const NO_LISTS: u32 = 1;
}

/// Head of a directory record; the name, then the link target, follow; the whole is padded with
/// zeros to a multiple of 8 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct DirRecord {
    /// Attributes of the entry.
    pub attr: NodeAttr,
    /// Bytes of the name.
    pub name_len: u16,
    /// Bytes of the link target (0 unless a symbolic link).
    pub target_len: u16,
    /// One of [`dir_record`].
    pub kind: u32,
}
const _: () = assert!(core::mem::size_of::<DirRecord>() == 120);

/// Kinds of a [`DirRecord`].
pub mod dir_record {
    /// An entry of the directory that is being listed.
    pub const ENTRY: u32 = 0;
    /// From here on another directory is listed, completely. The name is its path beneath the export;
    /// the attributes are its own.
    pub const DIRECTORY: u32 = 1;
}

/// Entries with attributes in the answer to [`Op::ReadDir`].
pub mod list_attr {
    /// All.
    pub const ALL: u64 = 0;
    /// Directories.
    pub const DIRECTORIES: u64 = 1;
    /// None.
    pub const NONE: u64 = 2;
    /// All, and whether they have access control lists, [`super::node_flags::NO_LISTS`].
    pub const LISTS: u64 = 3;
}

/// What [`Op::SetAttr`] changes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct SetAttr {
    /// [`set_attr`] bits: which fields hold.
    pub valid: u32,
    /// New permission bits.
    pub mode: u32,
    /// New owner.
    pub uid: u32,
    /// New group.
    pub gid: u32,
    /// New size.
    pub size: u64,
    /// New access time, seconds.
    pub atime: i64,
    /// New modification time, seconds.
    pub mtime: i64,
    /// Nanoseconds of the access time.
    pub atime_ns: u32,
    /// Nanoseconds of the modification time.
    pub mtime_ns: u32,
}
const _: () = assert!(core::mem::size_of::<SetAttr>() == 48);

/// Bits of [`SetAttr::valid`].
pub mod set_attr {
    /// Change the mode.
    pub const MODE: u32 = 1;
    /// Change the owner.
    pub const UID: u32 = 2;
    /// Change the group.
    pub const GID: u32 = 4;
    /// Change the size.
    pub const SIZE: u32 = 8;
    /// Set the access time to the given value.
    pub const ATIME: u32 = 16;
    /// Set the modification time to the given value.
    pub const MTIME: u32 = 32;
    /// Set the access time to now.
    pub const ATIME_NOW: u32 = 64;
    /// Set the modification time to now.
    pub const MTIME_NOW: u32 = 128;
}

/// statfs(2) of the host.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct FsStat {
    /// Magic number of the file system type.
    pub kind: u64,
    /// Block size in bytes.
    pub bsize: u64,
    /// Blocks.
    pub blocks: u64,
    /// Free blocks.
    pub bfree: u64,
    /// Free blocks for everybody.
    pub bavail: u64,
    /// Inodes.
    pub files: u64,
    /// Free inodes.
    pub ffree: u64,
    /// Longest name in bytes.
    pub namelen: u64,
}
const _: () = assert!(core::mem::size_of::<FsStat>() == 64);
