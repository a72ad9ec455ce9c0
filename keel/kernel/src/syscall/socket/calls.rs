//! The system calls that make, name, connect and set up sockets.

use crate::file::File;
use crate::mm::user;
use crate::socket::{Address, Socket, inet, netlink, options, unix};
use crate::task::descriptors;
use crate::task::descriptors::{current_file, current_file_in_use};
use alloc::rc::Rc;
use alloc::vec;
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Largest `struct sockaddr` (`struct sockaddr_storage`).
pub(crate) const MAX_ADDRESS: usize = 128;
/// `SOCK_NONBLOCK` and `SOCK_CLOEXEC` are the open(2) flags.
const TYPE_FLAGS: u32 = g::O_NONBLOCK | g::O_CLOEXEC;

/// The open file of a socket. EBADF, ENOTSOCK.
pub(crate) struct Open(Rc<File>);

impl Open {
    pub fn new(fd: i32) -> Result<Self> {
        Self::of(current_file(fd)?)
    }

    /// The same, for sends and receives.
    pub fn in_use(fd: i32) -> Result<Self> {
        Self::of(current_file_in_use(fd)?)
    }

    fn of(file: Rc<File>) -> Result<Self> {
        if file.downcast::<Socket>().is_none() {
            return Err(Errno::ENOTSOCK);
        }
        Ok(Self(file))
    }

    pub fn socket(&self) -> Result<&Socket> {
        self.0.downcast().ok_or(Errno::ENOTSOCK)
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.0
    }

    /// The file's `O_NONBLOCK`.
    pub fn nonblocking(&self) -> bool {
        self.0.nonblocking()
    }

    /// Flags of a transfer, with the file's own `O_NONBLOCK`.
    pub fn flags(&self, flags: u32) -> u32 {
        flags | crate::socket::dont_wait(&self.0)
    }
}

fn split_type(kind: u32) -> Result<(u32, u32)> {
    let (flags, kind) = (kind & !0xf, kind & 0xf);
    if flags & !TYPE_FLAGS != 0 { Err(Errno::EINVAL) } else { Ok((kind, flags)) }
}

/// socket(2).
pub fn sys_socket(family: i32, kind: u32, protocol: i32) -> Result<i32> {
    let (kind, flags) = split_type(kind)?;
    check_kind(family, kind)?;
    let file = match family as u32 {
        net::AF_UNIX => unix::socket(kind, protocol, flags)?,
        net::AF_INET | net::AF_INET6 => inet::socket(family as u32, kind, protocol, flags)?,
        net::AF_NETLINK => netlink::socket(kind, protocol, flags)?,
        _ => return Err(Errno::EAFNOSUPPORT),
    };
    descriptors::install(file, flags)
}

/// Whether there are such numbers, known here or not. EAFNOSUPPORT, EINVAL.
fn check_kind(family: i32, kind: u32) -> Result<()> {
    /// `NPROTO` and `SOCK_MAX` of Linux.
    const FAMILIES: i32 = 46;
    const KINDS: u32 = 11;
    if !(0..FAMILIES).contains(&family) {
        return Err(Errno::EAFNOSUPPORT);
    }
    if kind < KINDS { Ok(()) } else { Err(Errno::EINVAL) }
}

/// socketpair(2).
pub fn sys_socketpair(family: i32, kind: u32, protocol: i32, fds: usize) -> Result<()> {
    let (kind, flags) = split_type(kind)?;
    // Linux stores the numbers first and then makes the sockets.
    user::write(fds, &user::read::<[i32; 2]>(fds)?)?;
    check_kind(family, kind)?;
    let (a, b) = match family as u32 {
        net::AF_UNIX => unix::pair(kind, protocol, flags)?,
        // Those can be made, but not joined.
        net::AF_INET | net::AF_INET6 => {
            return inet::socket(family as u32, kind, protocol, flags).and(Err(Errno::EOPNOTSUPP));
        }
        net::AF_NETLINK => return netlink::socket(kind, protocol, flags).and(Err(Errno::EOPNOTSUPP)),
        _ => return Err(Errno::EAFNOSUPPORT),
    };
    descriptors::install_pair(fds, a, b, flags)
}

/// An address argument. EINVAL, EFAULT.
pub(crate) fn read_address(address: usize, len: i32) -> Result<Address> {
    let len = usize::try_from(len).ok().filter(|&len| len <= MAX_ADDRESS).ok_or(Errno::EINVAL)?;
    let mut bytes = Address::from_elem(0, len);
    if len > 0 {
        user::read_bytes(address, &mut bytes)?;
    }
    Ok(bytes)
}

/// Stores an address and its length, cut to the room that the length says there is.
pub(crate) fn write_address(value: &[u8], address: usize, len_address: usize) -> Result<()> {
    let room: i32 = user::read(len_address)?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    user::write_bytes(address, &value[..value.len().min(room)])?;
    user::write(len_address, &(value.len() as u32))
}

/// bind(2).
pub fn sys_bind(fd: i32, address: usize, len: i32) -> Result<()> {
    let open = Open::new(fd)?;
    open.socket()?.ops.bind(&read_address(address, len)?)
}

/// connect(2).
pub fn sys_connect(fd: i32, address: usize, len: i32) -> Result<()> {
    let file = current_file(fd)?;
    let to = read_address(address, len)?;
    let open = Open::of(file)?;
    open.socket()?.ops.connect(&to, open.nonblocking())
}

/// listen(2).
pub fn sys_listen(fd: i32, backlog: i32) -> Result<()> {
    Open::new(fd)?.socket()?.ops.listen(backlog)
}

/// accept(2).
pub fn sys_accept(fd: i32, address: usize, len: usize) -> Result<i32> {
    sys_accept4(fd, address, len, 0)
}

/// accept4(2).
pub fn sys_accept4(fd: i32, address: usize, len: usize, flags: u32) -> Result<i32> {
    let file = current_file(fd)?;
    if flags & !TYPE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let open = Open::of(file)?;
    let socket = open.socket()?;
    crate::task::current().files().check_room()?;
    let ops = socket.ops.accept(open.nonblocking())?;
    let peer = if address == 0 { None } else { Some(ops.accepted_from()) };
    let file = Socket::open(socket.family, socket.kind, socket.protocol, ops, flags);
    if let Some(peer) = peer {
        write_address(&peer, address, len)?;
    }
    descriptors::install(file, flags)
}

/// getsockname(2).
pub fn sys_getsockname(fd: i32, address: usize, len: usize) -> Result<()> {
    let open = Open::new(fd)?;
    write_address(&open.socket()?.ops.local()?, address, len)
}

/// getpeername(2).
pub fn sys_getpeername(fd: i32, address: usize, len: usize) -> Result<()> {
    let open = Open::new(fd)?;
    write_address(&open.socket()?.ops.peer()?, address, len)
}

/// shutdown(2).
pub fn sys_shutdown(fd: i32, how: i32) -> Result<()> {
    let open = Open::new(fd)?;
    match how {
        0..=2 => open.socket()?.ops.shutdown(how != 1, how != 0),
        // Without an operation the argument is not looked at.
        _ if open.socket()?.family == net::AF_NETLINK => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::EINVAL),
    }
}

/// setsockopt(2).
pub fn sys_setsockopt(fd: i32, level: i32, name: i32, value: usize, len: i32) -> Result<()> {
    let open = Open::new(fd)?;
    let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    let socket = open.socket()?;
    let mut bytes = vec![0; len.min(4096)];
    user::read_bytes(value, &mut bytes)?;
    match level as u32 {
        net::SOL_SOCKET => options::set(socket, name as u32, &bytes),
        _ => socket.ops.set_option(level, name, &bytes),
    }
}

/// getsockopt(2).
pub fn sys_getsockopt(fd: i32, level: i32, name: i32, value: usize, len_address: usize) -> Result<()> {
    let open = Open::new(fd)?;
    let socket = open.socket()?;
    let is_general = level as u32 == net::SOL_SOCKET;
    let own = if is_general { None } else { Some(socket.ops.get_option(level, name)) };
    // Sockets without options of their own say so before they look at the length; those of the internet look at it first.
    let is_of_internet = matches!(socket.family, net::AF_INET | net::AF_INET6);
    if let Some(Err(errno)) = &own
        && !(is_of_internet && *errno == Errno::ENOPROTOOPT)
    {
        return Err(*errno);
    }
    let room: i32 = user::read(len_address)?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    let own = own.transpose()?;
    let options::Answer { bytes, len } = match own {
        Some(mut bytes) => {
            bytes.truncate(room);
            options::Answer { len: bytes.len(), bytes }
        }
        None if name as u32 == net::SO_PEERGROUPS => {
            // The program learns how much room it needs.
            let answer = options::get(socket, name as u32, usize::MAX)?;
            if room < answer.len {
                user::write(len_address, &(answer.len as u32))?;
                return Err(Errno::ERANGE);
            }
            answer
        }
        None => options::get(socket, name as u32, room)?,
    };
    let stored = user::write_bytes(value, &bytes).and_then(|()| user::write(len_address, &(len as u32)));
    if stored.is_err() && is_general && name as u32 == net::SO_PEERPIDFD {
        // The program has not seen this descriptor.
        let _ = crate::task::current().files().close(options::read_int(&bytes)?);
    }
    stored
}
