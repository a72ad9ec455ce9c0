//! The system calls that send and receive.

use super::calls::{MAX_ADDRESS, Open, read_address, write_address};
use crate::mm::user::{self, UserDst, UserSrc};
use crate::socket::message::{Control, MSGHDR, MsgHdr, Received};
use crate::syscall::unlocked::socket::IGNORED;
use uapi::raw::net;
use uapi::{Errno, Result};

/// sendto(2).
pub fn sys_sendto(fd: i32, buf: usize, len: usize, flags: u32, address: usize, address_len: i32) -> Result<usize> {
    let mut src = UserSrc::new(buf, len)?;
    let open = Open::in_use(fd)?;
    if address == 0
        && flags & !IGNORED == 0
        && let Some(done) = open.file().send_at_once(buf, len)
    {
        return Ok(done);
    }
    let to = if address == 0 { None } else { Some(read_address(address, address_len)?) };
    open.socket()?.ops.send(&mut src, to.as_deref(), Control::default(), open.flags(flags))
}

/// recvfrom(2).
pub fn sys_recvfrom(fd: i32, buf: usize, len: usize, flags: u32, address: usize, address_len: usize) -> Result<usize> {
    let mut dst = UserDst::new(buf, len)?;
    let open = Open::in_use(fd)?;
    if address == 0
        && flags & !IGNORED == 0
        && let Some(done) = open.file().receive_at_once(buf, len)
    {
        return Ok(done);
    }
    let received = open.socket()?.ops.receive(&mut dst, address != 0, open.flags(flags))?;
    if address != 0 {
        write_address(received.from.as_deref().unwrap_or(&[]), address, address_len)?;
    }
    Ok(received.len)
}

/// `MSG_CMSG_COMPAT`: Linux's own, for programs of 32 bits.
const MSG_CMSG_COMPAT: u32 = 0x8000_0000;

/// EINVAL for a flag that no program may set.
fn check_flags(flags: u32) -> Result<()> {
    if flags & MSG_CMSG_COMPAT == 0 { Ok(()) } else { Err(Errno::EINVAL) }
}

/// sendmsg(2).
pub fn sys_sendmsg(fd: i32, message: usize, flags: u32) -> Result<usize> {
    check_flags(flags)?;
    let open = Open::in_use(fd)?;
    send_message(&open, message, flags)
}

fn send_message(open: &Open, message: usize, flags: u32) -> Result<usize> {
    let header = MsgHdr::read(message)?;
    let to = match header.name {
        0 => None,
        name if header.name_len > 0 => Some(read_address(name, header.name_len.min(MAX_ADDRESS as i32))?),
        _ => None,
    };
    let mut src = UserSrc::import(header.iov, header.iov_len)?;
    let control = header.read_control()?;
    open.socket()?.ops.send(&mut src, to.as_deref(), control, open.flags(flags))
}

/// recvmsg(2).
pub fn sys_recvmsg(fd: i32, message: usize, flags: u32) -> Result<usize> {
    check_flags(flags)?;
    let open = Open::in_use(fd)?;
    receive_message(&open, message, open.flags(flags)).map(|received| received.len)
}

fn receive_message(open: &Open, message: usize, flags: u32) -> Result<Received> {
    let header = MsgHdr::read(message)?;
    let mut dst = UserDst::import(header.iov, header.iov_len)?;
    let mut received = open.socket()?.ops.receive(&mut dst, header.name != 0, flags)?;
    let mut name_len = None;
    if header.name != 0 {
        let from = received.from.as_deref().unwrap_or(&[]);
        user::write_bytes(header.name, &from[..from.len().min(header.name_len as usize)])?;
        name_len = Some(from.len());
    }
    let (control_len, truncated) = header.write_control(&mut received, flags);
    let shown = received.flags | truncated | flags & net::MSG_CMSG_CLOEXEC;
    header.write_back(name_len, control_len, shown)?;
    Ok(received)
}

/// `MSG_WAITFORONE`, recvmmsg(2).
const MSG_WAITFORONE: u32 = 0x10000;
/// Bytes of `struct mmsghdr`.
const MMSGHDR: usize = MSGHDR + 8;

/// sendmmsg(2).
pub fn sys_sendmmsg(fd: i32, messages: usize, count: u32, flags: u32) -> Result<usize> {
    check_flags(flags)?;
    let open = Open::in_use(fd)?;
    let mut done = 0;
    for i in 0..(count as usize).min(user::IOV_MAX) {
        let at = messages.checked_add(i * MMSGHDR).ok_or(Errno::EFAULT)?;
        let sent = send_message(&open, at, flags).and_then(|sent| user::write(at + MSGHDR, &(sent as u32)));
        match sent {
            Ok(()) => done += 1,
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// recvmmsg(2).
pub fn sys_recvmmsg(fd: i32, messages: usize, count: u32, flags: u32, timeout: usize) -> Result<usize> {
    check_flags(flags)?;
    use crate::syscall::file::poll::Timeout;
    let until = Timeout::from_timespec(timeout)?;
    let open = Open::in_use(fd)?;
    let mut done = 0;
    let mut now = open.flags(flags & !MSG_WAITFORONE);
    for i in 0..(count as usize).min(user::IOV_MAX) {
        let at = messages.checked_add(i * MMSGHDR).ok_or(Errno::EFAULT)?;
        let received =
            receive_message(&open, at, now).and_then(|received| user::write(at + MSGHDR, &(received.len as u32)));
        match received {
            Ok(()) => done += 1,
            Err(Errno::EAGAIN) if done > 0 => break,
            // The next call tells it.
            Err(errno) if done > 0 => {
                open.socket()?.ops.set_error(errno);
                break;
            }
            Err(errno) => return Err(errno),
        }
        if flags & MSG_WAITFORONE != 0 {
            now |= net::MSG_DONTWAIT;
        }
        // As in Linux, the timeout is looked at only after each message.
        if timeout != 0 && until.left_ns() == 0 {
            break;
        }
    }
    Ok(done)
}
