//! Structures that requests carry, and the bits of their fields.

use bytemuck::{Pod, Zeroable};

/// Flags of [`super::Open`].
pub mod open_flags {
    /// Open for reading.
    pub const READ: u32 = 1;
    /// Open for writing (EROFS if the export is read-only).
    pub const WRITE: u32 = 2;
    /// Create the file if it does not exist.
    pub const CREATE: u32 = 4;
    /// With `CREATE`: fail with EEXIST if it exists.
    pub const EXCLUSIVE: u32 = 8;
    /// Cut it to length 0.
    pub const TRUNCATE: u32 = 16;
    /// Make a file without a name; only with `READ` and `WRITE`.
    pub const UNNAMED: u32 = 32;
    /// With `EXCLUSIVE`: if the name exists, the result is 1 in place of EEXIST, the attributes are those of what has it,
    /// and nothing is opened.
    pub const OR_TELL: u32 = 64;
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
    /// [`crate::request::ListAttributes::WithLists`].
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

/// What [`struct@super::SetAttr`] changes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct AttrChange {
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
    /// The inode number of the file that is to be changed, with its device and birth time as in [`NodeAttr`]; 0: any file. If
    /// another file has the path, nothing changes: ESTALE.
    pub ino: u64,
    /// Its device.
    pub dev: u64,
    /// Its birth time, seconds.
    pub btime: i64,
    /// Nanoseconds of the birth time.
    pub btime_ns: u32,
    /// 0.
    pub reserved: u32,
}
const _: () = assert!(core::mem::size_of::<AttrChange>() == 80);

/// Bits of [`AttrChange::valid`].
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

/// Address and port of a socket.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct SocketName {
    /// IPv6; of IPv4 the last four bytes of an IPv4-mapped address.
    pub address: [u8; 16],
    /// Interface of a link-local address, or 0.
    pub scope: u32,
    /// Port.
    pub port: u16,
    /// Zero.
    pub reserved: u16,
}
const _: () = assert!(core::mem::size_of::<SocketName>() == 24);

impl SocketName {
    /// From an address and a port.
    pub fn new(address: core::net::IpAddr, port: u16) -> Self {
        let address = match address {
            core::net::IpAddr::V4(address) => address.to_ipv6_mapped(),
            core::net::IpAddr::V6(address) => address,
        };
        Self { address: address.octets(), port, ..Self::default() }
    }

    /// The address; IPv4-mapped ones as IPv4.
    pub fn ip(&self) -> core::net::IpAddr {
        let address = core::net::Ipv6Addr::from(self.address);
        address.to_ipv4_mapped().map_or(core::net::IpAddr::V6(address), core::net::IpAddr::V4)
    }
}

/// Head of a received datagram; if it tells something, [`DatagramFacts`] follow; then the bytes; the whole is padded to a multiple of 8 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct DatagramRecord {
    /// Bytes.
    pub len: u32,
    /// [`told`] bits: which fields of the facts hold.
    pub told: u32,
}
const _: () = assert!(core::mem::size_of::<DatagramRecord>() == 8);

/// What the host tells of a received datagram, as far as [`struct@super::SocketTell`] asked for it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct DatagramFacts {
    /// When it arrived, `CLOCK_REALTIME` in ns.
    pub at_ns: u64,
    /// The address that it was sent to, as in [`SocketName`].
    pub address: [u8; 16],
    /// The host's device that it came by; 0: unknown.
    pub device: u32,
    /// It is several datagrams of so many bytes each, of which the last may be shorter.
    pub segment: u16,
    /// Hops that were left.
    pub hops: u8,
    /// Traffic class.
    pub class: u8,
}
const _: () = assert!(core::mem::size_of::<DatagramFacts>() == 32);

/// Bits of [`DatagramRecord::told`].
pub mod told {
    /// The hops hold.
    pub const HOPS: u32 = 1;
    /// The traffic class holds.
    pub const CLASS: u32 = 2;
    /// Address and device hold.
    pub const ADDRESS: u32 = 4;
    /// The time of arrival holds.
    pub const TIME: u32 = 8;
    /// The size of segments holds.
    pub const SEGMENT: u32 = 16;
}

/// Most bytes of a datagram.
pub const MAX_DATAGRAM: usize = 65_535;
