//! The operations that keel may ask of the monitor, and the structures that they carry.
//!
//! Files are named by an export number and a path beneath it (`a/b/c`, no leading slash, the empty
//! path is the export itself); keel resolves symbolic links and `..`, the monitor follows neither.
//! Names `.` and `..`, empty names and zero bytes give EINVAL, a symbolic link on the way ELOOP, any
//! change in a read-only export EROFS; `docs/connectors.md` lists the other errors.

mod payload;

pub use payload::*;

use crate::operation::{Arguments, Encoded, Invalid, Operation, Reply, Results, Word, named_numbers, operations};

operations! {
    /// Operations on the pod itself.
    PodRequest {
        /// No operation; completes at once, after all earlier requests that complete at once.
        Nop = 0 {
            /// Also after requests for files that a rate holds back.
            after_files: bool,
        } () => () -> ();
        /// End the pod. Input: a line for the user, or nothing. Never completes.
        Exit = 1 {
            /// Exit code of `hull`.
            code: u8,
        } [u8] => () -> ();
        /// Keel failed. Input: text for the user. Never completes.
        Crash = 2 {} [u8] => () -> ();
        /// A line for the user. Input: text without the newline.
        Log = 3 {
            /// Write to the output of `hull trace`; otherwise to standard error.
            trace: bool,
        } [u8] => () -> ();
        /// Grow RAM. Result: its new end. ENOMEM at the limit.
        GrowRam = 5 {
            /// Bytes wanted.
            bytes: u64,
        } () => () -> u64;
        /// Return RAM to the host; it reads as zeros then.
        Release = 7 {
            /// Guest-physical address, a multiple of a page.
            gpa: u64,
            /// Bytes, a multiple of a page.
            len: u64,
        } () => () -> ();
        /// Grow the window. Result: its new end (guest-physical).
        GrowWindow = 6 {
            /// Bytes wanted.
            bytes: u64,
        } () => () -> u64;
    }
}

operations! {
    /// Operations on streams: 0 to 2, then those of `PodConfig::passed`.
    StreamRequest {
        /// Read a stream. Output: room. Result: bytes, 0 at the end. May complete late.
        StreamRead = 16 {
            /// Number of the stream.
            stream: u64,
            /// Fail with EAGAIN instead of waiting.
            nonblocking: bool,
            /// Where to read; not [`StreamPosition::Append`].
            position: StreamPosition,
        } () => [u8] -> u64;
        /// Write a stream. Input: bytes. Result: bytes. May complete late.
        StreamWrite = 17 {
            /// Number of the stream.
            stream: u64,
            /// Fail with EAGAIN instead of waiting.
            nonblocking: bool,
            /// Where to write.
            position: StreamPosition,
        } [u8] => () -> u64;
        /// Readiness of a stream: completes when one of the events (or POLLERR, POLLHUP) holds. Result: events.
        StreamPoll = 18 {
            /// Number of the stream.
            stream: u64,
            /// Events wanted, poll(2).
            events: u16,
            /// Complete at once.
            nonblocking: bool,
        } () => () -> u64;
        /// Cancel a late operation, which completes with ECANCELED.
        Cancel = 19 {
            /// Id of its request.
            id: u64,
        } () => () -> ();
        /// Terminal attributes of a stream. Output: kernel `struct termios` (36 bytes).
        StreamGetTermios = 20 {
            /// Number of the stream.
            stream: u64,
        } () => [u8] -> ();
        /// Set terminal attributes. Input: termios.
        StreamSetTermios = 21 {
            /// Number of the stream.
            stream: u64,
            /// When the change takes effect.
            when: TermiosWhen,
        } [u8] => () -> ();
        /// Window size of a stream.
        StreamGetWindow = 22 {
            /// Number of the stream.
            stream: u64,
        } () => () -> WindowSize {
            /// Rows of the terminal.
            rows: u16,
            /// Columns of the terminal.
            columns: u16,
        };
        /// Seek a stream that is a regular file. Result: offset.
        StreamSeek = 23 {
            /// Number of the stream.
            stream: u64,
            /// Bytes, relative to `whence`.
            offset: i64,
            /// What the offset counts from.
            whence: Whence,
        } () => () -> u64;
        /// fstat of a stream. Output: its attributes.
        StreamStat = 24 {
            /// Number of the stream.
            stream: u64,
        } () => [NodeAttr] -> ();
        /// Wait for a signal to `hull` that is forwarded to the pod. Completes late; one at a time (EBUSY). Result: the
        /// signal's number.
        SignalWait = 25 {
            /// 0, or the previous signal if `hull` must take it itself (SIGTSTP: it stops, and the pod with it).
            returned: u32,
        } () => () -> u64;
    }
}

operations! {
    /// Operations on files.
    FileRequest {
        /// Attributes along a path. Input: path. Output: one per reported component (for the empty path: the export's).
        /// Stops after a component that is no directory.
        Walk = 32 {
            /// Number of the export.
            export: u32,
            /// Leading components to walk without reporting.
            skip: u64,
        } [u8] => [NodeAttr] -> Walked {
            /// Components reported.
            reported: u64,
            /// 0, or the errno that stopped the walk (ENOENT, EACCES, …).
            stopped: u32,
            /// Components that exist.
            exist: u64,
        };
        /// Entries of a directory. Input: path. Output: [`DirRecord`]s. `.` and `..` are not reported.
        ReadDir = 33 {
            /// Number of the export.
            export: u32,
            /// Handle of an earlier, unfinished listing, or 0.
            handle: u64,
            /// Maximum bytes of records that may follow about directories that keel probably lists next: for each a
            /// record of [`dir_record::DIRECTORY`] and the records of all its entries. They are the directories beneath
            /// the path, depth first, then likewise those beneath `others`, named in the input after the path, each
            /// after a zero byte. The monitor may leave out any of them. Only with a `handle` of 0.
            ahead: u64,
            /// Paths in the input after the first.
            others: u64,
            /// Selects the entries whose attributes are returned. For all others only the inode number and the type are
            /// returned, with `nlink` 0; the same if the attributes can't be read.
            attributes: ListAttributes,
            /// List only the `others`, not the directories beneath them and beneath the path.
            flat: bool,
        } [u8] => [u8] -> Listed {
            /// Bytes of records.
            bytes: u64,
            /// Handle to go on with, or 0 after the last.
            handle: u64,
        };
        /// Open a regular file. Input: path. Output: its attributes. With [`open_flags::UNNAMED`] the path is that of a
        /// directory, in whose file system a file without a name is made; EOPNOTSUPP if it has none.
        Open = 34 {
            /// Number of the export.
            export: u32,
            /// [`open_flags`].
            flags: u32,
            /// Mode of a new file.
            mode: u32,
            /// Owner of a new file.
            uid: u32,
            /// Group of a new file.
            gid: u32,
        } [u8] => [NodeAttr] -> Opened {
            /// The name exists and was not opened, [`open_flags::OR_TELL`].
            exists: bool,
            /// Handle of the file.
            handle: u64,
        };
        /// Close a file or a directory that is being listed.
        Close = 35 {
            /// Its handle.
            handle: u64,
        } () => () -> ();
        /// Read a file. Output: room. Result: bytes.
        Read = 36 {
            /// Handle of the file.
            handle: u64,
            /// Offset in the file.
            offset: u64,
        } () => [u8] -> u64;
        /// Write a file. Input: bytes. Output, where there is room: its attributes right before and right after it.
        Write = 37 {
            /// Handle of the file.
            handle: u64,
            /// Offset in the file; `u64::MAX`: append.
            offset: u64,
        } [u8] => [NodeAttr] -> Written {
            /// Bytes written.
            bytes: u64,
            /// Offset after the write.
            end: u64,
        };
        /// Attributes of a file. Output: these.
        HandleAttr = 38 {
            /// Handle of the file.
            handle: u64,
        } () => [NodeAttr] -> ();
        /// ftruncate(2).
        Truncate = 39 {
            /// Handle of the file.
            handle: u64,
            /// New size.
            size: u64,
        } () => () -> ();
        /// fallocate(2).
        Fallocate = 40 {
            /// Handle of the file.
            handle: u64,
            /// `mode` of fallocate(2).
            mode: u64,
            /// Offset in the file.
            offset: u64,
            /// Bytes.
            len: u64,
        } () => () -> ();
        /// fsync(2).
        Sync = 41 {
            /// Handle of the file.
            handle: u64,
            /// fdatasync(2).
            data_only: bool,
        } () => () -> ();
        /// Map file pages into the window. ENXIO beyond the page in which the file ends.
        Map = 42 {
            /// Handle of the file.
            handle: u64,
            /// Offset in the file, a multiple of a page.
            offset: u64,
            /// Bytes, a multiple of a page.
            len: u64,
            /// Guest-physical address in the window, a multiple of a page.
            gpa: u64,
            /// The guest may store there.
            writable: bool,
        } () => () -> ();
        /// Take window pages back.
        Unmap = 43 {
            /// Guest-physical address, a multiple of a page.
            gpa: u64,
            /// Bytes, a multiple of a page.
            len: u64,
        } () => () -> ();
        /// Target of a symbolic link. Input: path. Output: target. Result: bytes.
        ReadLink = 44 {
            /// Number of the export.
            export: u32,
        } [u8] => [u8] -> u64;
        /// Make a directory. Input: path. Output: its attributes.
        Mkdir = 45 {
            /// Number of the export.
            export: u32,
            /// Its mode.
            mode: u32,
            /// Its owner.
            uid: u32,
            /// Its group.
            gid: u32,
        } [u8] => [NodeAttr] -> ();
        /// Make a FIFO, a socket or a regular file. Input: path. Output: its attributes.
        Mknod = 46 {
            /// Number of the export.
            export: u32,
            /// Its mode with its type.
            mode: u32,
            /// Its owner.
            uid: u32,
            /// Its group.
            gid: u32,
        } [u8] => [NodeAttr] -> ();
        /// Make a symbolic link. Input: path, then target. Output: its attributes.
        Symlink = 47 {
            /// Number of the export.
            export: u32,
            /// Bytes of the path in the input.
            path_len: u64,
            /// Its owner.
            uid: u32,
            /// Its group.
            gid: u32,
        } [u8] => [NodeAttr] -> ();
        /// Give a file another name. Input: existing path, then new path. Output: its attributes.
        Link = 48 {
            /// Number of the export.
            export: u32,
            /// Bytes of the existing path in the input.
            path_len: u64,
            /// 0, or a handle of the existing file (then its path is empty).
            handle: u64,
        } [u8] => [NodeAttr] -> ();
        /// Remove a name. Input: path.
        Unlink = 49 {
            /// Number of the export.
            export: u32,
            /// The name is a directory's.
            directory: bool,
        } [u8] => () -> ();
        /// Rename. Input: old path, then new path. Output: attributes of the file under its new name.
        Rename = 50 {
            /// Number of the export.
            export: u32,
            /// Bytes of the old path in the input.
            path_len: u64,
            /// `flags` of renameat2(2).
            flags: u32,
        } [u8] => [NodeAttr] -> ();
        /// Change attributes. Input: [`AttrChange`], then path. Output: the new attributes, then, as far as there is room, those
        /// right before the change. ESTALE: another file has the path.
        SetAttr = 51 {
            /// Number of the export.
            export: u32,
            /// 0, or a handle that names the file in place of a path (which is empty then).
            handle: u64,
        } [u8] => [NodeAttr] -> ();
        /// statfs(2). Input: path. Output: its result.
        StatFs = 52 {
            /// Number of the export.
            export: u32,
        } [u8] => [FsStat] -> ();
        /// An extended attribute. Input: path, then name. Output: value. Result: bytes; with no room for output the size
        /// needed.
        GetXattr = 53 {
            /// Number of the export.
            export: u32,
            /// Bytes of the path in the input.
            path_len: u64,
            /// 0 or a handle, as for [`struct@SetAttr`].
            handle: u64,
        } [u8] => [u8] -> u64;
        /// Names of extended attributes. Input: path. Output: names, each ended by a zero byte. Result: bytes.
        ListXattr = 54 {
            /// Number of the export.
            export: u32,
            /// 0 or a handle, as for [`struct@SetAttr`].
            handle: u64,
        } [u8] => [u8] -> u64;
        /// Set an extended attribute. Input: path, name, value.
        SetXattr = 55 {
            /// Number of the export.
            export: u32,
            /// Bytes of the path in the input.
            path_len: u64,
            /// Bytes of the name in the input.
            name_len: u64,
            /// `flags` of setxattr(2).
            flags: u32,
            /// 0 or a handle, as for [`struct@SetAttr`].
            handle: u64,
        } [u8] => () -> ();
        /// Remove an extended attribute. Input: path, then name.
        RemoveXattr = 56 {
            /// Number of the export.
            export: u32,
            /// Bytes of the path in the input.
            path_len: u64,
            /// 0 or a handle, as for [`struct@SetAttr`].
            handle: u64,
        } [u8] => () -> ();
        /// Open a regular file for reading and read its beginning in the same trip. Input: path.
        /// Output: [`NodeAttr`], then content. ENOSYS: keel falls back to [`Open`] and [`Read`].
        Fetch = 57 {
            /// Number of the export.
            export: u32,
        } [u8] => [u8] -> Fetched {
            /// Bytes of content.
            bytes: u64,
            /// Handle if the file is longer than the room, or 0 if all of it was delivered (nothing stays open then).
            handle: u64,
        };
        /// Populate window pages before the guest accesses them. EFAULT if the host can't provide one: the file was
        /// truncated, can't be read, or has no room on its disk; EINVAL for stores to pages that are mapped read-only.
        Populate = 58 {
            /// Guest-physical address, a multiple of a page.
            gpa: u64,
            /// Bytes, a multiple of a page, at most 2 MiB.
            len: u64,
            /// For stores.
            write: bool,
        } () => () -> ();
        /// Next data, or hole, of a file. Result: its offset. ENXIO.
        Seek = 59 {
            /// Handle of the file.
            handle: u64,
            /// Where to begin.
            offset: u64,
            /// Seek a hole.
            hole: bool,
        } () => () -> u64;
        /// Begin to hold locks of an open file, until the handle that this gives is closed. They lie on the file's open file
        /// description, which outlives its own handle. Result: a handle for [`Lock`] and the like. EACCES in a public
        /// export, ENOLCK if the pod holds locks of too many files.
        HoldLocks = 60 {
            /// Handle of the file.
            handle: u64,
        } () => () -> u64;
        /// Take, change or give up a lock of bytes (`F_OFD_SETLK` of fcntl(2)). EAGAIN if another process of the host holds one
        /// that conflicts, EBADF if the file's handle has not the access that the lock needs, ENOLCK if there are too many.
        Lock = 61 {
            /// A handle of [`HoldLocks`].
            handle: u64,
            /// First byte.
            start: u64,
            /// Last byte; `u64::MAX`: the end of the file, wherever that is.
            end: u64,
            /// What the pod holds then.
            kind: LockKind,
        } () => () -> ();
        /// The first lock of another process of the host that conflicts with a lock of bytes (`F_OFD_GETLK` of fcntl(2)).
        TestLock = 62 {
            /// A handle of [`HoldLocks`].
            handle: u64,
            /// First byte.
            start: u64,
            /// Last byte, as for [`Lock`].
            end: u64,
            /// The lock that would be taken.
            kind: LockKind,
        } () => () -> FoundLock {
            /// Its kind and its holder's.
            holder: LockHolder,
            /// Its first byte.
            start: u64,
            /// Its last byte, as for [`Lock`].
            end: u64,
        };
        /// Take, change or give up a lock of the whole file (flock(2)), which is apart from those of bytes. EAGAIN if another
        /// process of the host holds one that conflicts: what the pod held before is lost then.
        LockWhole = 63 {
            /// A handle of [`HoldLocks`].
            handle: u64,
            /// What the pod holds then.
            kind: LockKind,
        } () => () -> ();
    }
}

operations! {
    /// Operations on sockets of the host. Keel chooses the number of a socket; it is in use until [`SocketClose`].
    SocketRequest {
        /// Open a socket that is connected to a peer, or connect one of TCP that is bound. Input: the pod's address, the peer. Completes
        /// when it is connected, or failed; the socket must be closed in either case. Output: its own name, in a pod with the
        /// host's network. EEXIST for a number in use, EMFILE, ENETUNREACH in a pod without a network, and the errors of connect(2).
        SocketConnect = 96 {
            /// Its number.
            socket: u64,
            /// Kind of socket.
            transport: Transport,
        } [SocketName] => [SocketName] -> ();
        /// Receive what has arrived; completes late if that is nothing. Of a stream: bytes, 0 at its end; after that it waits until the
        /// connection breaks, and completes with the error, or with 0 if there is none. Otherwise whole datagrams, each as a
        /// [`DatagramRecord`]; ENOBUFS if not even the first fits.
        SocketReceive = 97 {
            /// Its number.
            socket: u64,
        } () => [u8] -> Received {
            /// Bytes used.
            bytes: u64,
            /// The first byte of a stream's is urgent; none of the others is.
            urgent: bool,
            /// More may be there: bytes, the end, or an error.
            more: bool,
        };
        /// Send a stream's bytes, all of them, or a datagram. Completes late while the host's buffer is full.
        SocketSend = 98 {
            /// Its number.
            socket: u64,
            /// If it succeeds at once, an idle virtual CPU need not continue for its completion.
            quiet: bool,
            /// The last byte of a stream's is urgent.
            urgent: bool,
            /// How a datagram leaves.
            outgoing: Outgoing,
        } [u8] => () -> u64;
        /// shutdown(2).
        SocketShutdown = 99 {
            /// Its number.
            socket: u64,
            /// Which half ends.
            half: SocketHalf,
        } () => () -> ();
        /// Close a socket. Its other operations complete with ECANCELED.
        SocketClose = 100 {
            /// Its number.
            socket: u64,
            /// Break the connection off (RST).
            abort: bool,
        } () => () -> ();
        /// setsockopt(2), of the options that keel may set. Input: the value. ENOPROTOOPT.
        SocketSetOption = 101 {
            /// Its number.
            socket: u64,
            /// Level of the option.
            level: u32,
            /// The option.
            name: u32,
        } [u8] => () -> ();
        /// getsockopt(2), of the options that keel may read. Output: the value. Result: bytes.
        SocketGetOption = 102 {
            /// Its number.
            socket: u64,
            /// Level of the option.
            level: u32,
            /// The option.
            name: u32,
        } () => [u8] -> u64;
        /// Open the sockets of the host that are published for a listener of the pod, or let one that is bound listen. Input: the listener's address.
        /// Result: how many; without any the number stays free.
        SocketListen = 103 {
            /// Its number.
            socket: u64,
            /// Kind of socket.
            transport: Transport,
            /// Most connections that wait.
            backlog: u32,
        } [SocketName] => () -> u64;
        /// Accept a connection, or the next peer of published datagrams; with the number 0 only tell that there is one. Completes late.
        /// Output: the peer, and where there is room the own name.
        SocketAccept = 104 {
            /// The listener's number.
            socket: u64,
            /// Number of the new socket, or 0.
            accepted: u64,
        } () => [SocketName] -> ();
        /// Bind a socket of the host, in a pod with the host's network; one of UDP receives from then on, as after [`SocketListen`].
        /// Input: the address; port 0: any. Output: the socket's name. EACCES in other pods, and the errors of bind(2).
        SocketBind = 105 {
            /// Its number.
            socket: u64,
            /// Kind of socket.
            transport: Transport,
            /// [`BIND_SHARED`] and the like.
            flags: u32,
        } [SocketName] => [SocketName] -> ();
        /// Completes after the operations that what all earlier requests did has made ready: what a socket of the pod sent to another one
        /// has arrived there.
        SocketSettle = 106 {
            /// Also what came to bound sockets of datagrams, and their ends, which takes longer.
            datagrams: bool,
        } () => () -> ();
        /// What [`DatagramRecord`]s of a socket tell from now on, and how datagrams come. EINVAL for unknown bits.
        SocketTell = 107 {
            /// Its number.
            socket: u64,
            /// [`tell`].
            what: u32,
        } () => () -> ();
    }
}

/// Bits of [`struct@SocketTell`].
pub mod tell {
    /// Hops, traffic class, and in a pod with the host's network the address and the device that a datagram came to.
    pub const FACTS: u32 = 1;
    /// When a datagram arrived at the host.
    pub const TIME: u32 = 2;
    /// Datagrams that were sent together come together (`UDP_GRO`).
    pub const TOGETHER: u32 = 4;
    /// Datagrams of IPv6 without a checksum come, too.
    pub const UNCHECKED: u32 = 8;
    /// All of them.
    pub const ALL: u32 = FACTS | TIME | TOGETHER | UNCHECKED;
}

/// Flag of [`SocketBind`]: `SO_REUSEADDR` is set.
pub const BIND_SHARED: u32 = 1;
/// Flag of [`SocketBind`]: `SO_REUSEPORT` is set.
pub const BIND_GROUPED: u32 = 2;
/// Flag of [`SocketBind`]: `IPV6_V6ONLY` is set.
pub const BIND_ONLY_V6: u32 = 4;

/// A request of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// To the pod itself.
    Pod(PodRequest),
    /// To a stream.
    Stream(StreamRequest),
    /// To a file.
    File(FileRequest),
    /// To a socket of the host.
    Socket(SocketRequest),
}

impl Request {
    /// Decodes a request of keel.
    pub fn decode(operation: &Encoded) -> Result<Self, Invalid> {
        match operation.number {
            0..16 => PodRequest::decode(operation).map(Self::Pod),
            16..32 => StreamRequest::decode(operation).map(Self::Stream),
            96..112 => SocketRequest::decode(operation).map(Self::Socket),
            _ => FileRequest::decode(operation).map(Self::File),
        }
    }
}

/// Where in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamPosition {
    /// At the stream's own position, which moves.
    Current,
    /// At an offset of a file, below `u64::MAX - 1`; the position stays.
    At(u64),
    /// At the end of a file; the position stays.
    Append,
}

/// How a datagram leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// It is sent as datagrams of so many bytes, of which the last may be shorter; 0: as it is.
    pub segment: u16,
    /// Hops; `None`: as many as the host's default.
    pub hops: Option<u8>,
    /// Traffic class.
    pub class: u8,
    /// Without a checksum, to a peer of IPv6.
    pub unchecked: bool,
}

impl Word for Outgoing {
    fn to_word(self) -> u64 {
        let hops = self.hops.map_or(0, |hops| u64::from(hops) + 1);
        u64::from(self.segment) | hops << 16 | u64::from(self.class) << 32 | u64::from(self.unchecked) << 40
    }
    fn from_word(word: u64) -> Option<Self> {
        let hops = match word >> 16 & 0xffff {
            0 => None,
            hops => Some(u8::try_from(hops - 1).ok()?),
        };
        let unchecked = bool::from_word(word >> 40)?;
        Some(Self { segment: word as u16, hops, class: (word >> 32) as u8, unchecked })
    }
}

impl Word for StreamPosition {
    fn to_word(self) -> u64 {
        match self {
            Self::Current => 0,
            Self::At(offset) => offset.saturating_add(1),
            Self::Append => u64::MAX,
        }
    }
    fn from_word(word: u64) -> Option<Self> {
        Some(match word {
            0 => Self::Current,
            u64::MAX => Self::Append,
            _ => Self::At(word - 1),
        })
    }
}

named_numbers! {
    /// When new terminal attributes take effect.
    TermiosWhen {
        /// At once.
        #[default]
        Now = 0,
        /// After pending output was sent.
        Drain = 1,
        /// After pending output was sent; unread input is discarded.
        Flush = 2,
    }
    /// Kind of a socket of the host.
    Transport {
        /// TCP.
        #[default]
        Tcp = 0,
        /// UDP.
        Udp = 1,
        /// Echo requests of ICMP or ICMPv6.
        Icmp = 2,
    }
    /// A half of a connection.
    SocketHalf {
        /// What is received.
        #[default]
        Receive = 0,
        /// What is sent.
        Send = 1,
        /// Both.
        Both = 2,
    }
    /// Reference point of the offset of [`StreamSeek`].
    Whence {
        /// The beginning.
        #[default]
        Start = 0,
        /// The stream's position.
        Current = 1,
        /// The end.
        End = 2,
        /// No reference point: seek the next data from the offset on.
        Data = 3,
        /// No reference point: seek the next hole from the offset on.
        Hole = 4,
    }
    /// Kind of a lock of a file.
    LockKind {
        /// None.
        #[default]
        None = 0,
        /// Others may hold one of this kind, too.
        Shared = 1,
        /// Others hold none.
        Exclusive = 2,
    }
    /// A lock that another process of the host holds.
    LockHolder {
        /// There is none.
        #[default]
        None = 0,
        /// A shared one of a process.
        SharedByProcess = 1,
        /// An exclusive one of a process.
        ExclusiveByProcess = 2,
        /// A shared one of an open file description.
        SharedByDescription = 3,
        /// An exclusive one of an open file description.
        ExclusiveByDescription = 4,
    }
    /// Entries with attributes in the answer to [`ReadDir`].
    ListAttributes {
        /// All.
        #[default]
        All = 0,
        /// Directories.
        Directories = 1,
        /// None.
        None = 2,
        /// All, and whether each has an access control list, [`node_flags::NO_LISTS`].
        WithLists = 3,
    }
}
