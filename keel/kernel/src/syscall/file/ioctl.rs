//! ioctl(2): the requests that every file supports.

use super::ioctl_files::GET_UUID;
use crate::file::{Abilities, File};
use crate::fs::proc::PROCMAP_QUERY;
use crate::mm::user;
use crate::socket::Socket;
use crate::task::namespaces::Any;
use crate::task::{self, pidfd};
use alloc::rc::Rc;
use uapi::raw::general as g;
use uapi::raw::ioctl as i;
pub use uapi::raw::ioctl::{FIOASYNC, FIOCLEX, FIONBIO, FIONCLEX, FIONREAD};
use uapi::{Errno, Result};
use vfs::FileType;
use vfs::landlock::access;

/// `O_ASYNC` (`FASYNC`): SIGIO when the file becomes ready.
pub const O_ASYNC: u32 = 0o20000;

/// The network namespace of a socket, as a descriptor.
const SIOCGSKNS: u32 = 0x894c;

/// The high byte of requests about namespaces.
const NAMESPACE_REQUESTS: u32 = 0xb7;

/// Requests about descriptions and file systems, which need no right to the device: landlock(7).
const OF_ANY_FILE: [u32; 12] = [
    FIOCLEX,
    FIONCLEX,
    FIONBIO,
    FIOASYNC,
    i::FIFREEZE,
    i::FITHAW,
    i::FS_IOC_FIEMAP,
    i::FIGETBSZ,
    i::FICLONE,
    i::FICLONERANGE,
    i::FIDEDUPERANGE,
    GET_UUID,
];

/// ioctl(2).
pub fn sys_ioctl(fd: i32, command: u32, arg: usize) -> Result<usize> {
    let files = task::current().files();
    let file = files.get(fd)?;
    if file.denied.get() != 0 && !OF_ANY_FILE.contains(&command) {
        file.check_right(access::IOCTL_DEV)?;
    }
    match command {
        FIOCLEX => files.set_close_on_exec(fd, true).map(|()| 0),
        FIONCLEX => files.set_close_on_exec(fd, false).map(|()| 0),
        FIONBIO => {
            let on: i32 = user::read(arg)?;
            set_flag(&file, g::O_NONBLOCK, on != 0);
            Ok(0)
        }
        FIOASYNC => {
            let on: i32 = user::read(arg)?;
            if (file.flags.get() & O_ASYNC != 0) != (on != 0) {
                set_async(&file, fd, on != 0)?;
                set_flag(&file, O_ASYNC, on != 0);
            }
            Ok(0)
        }
        FIONREAD if is_regular(&file) => {
            let size = file.ops.attr()?.size;
            user::write(arg, &(size.wrapping_sub(file.position()) as i32))?;
            Ok(0)
        }
        PROCMAP_QUERY if let Some(result) = crate::fs::proc::map_query(&file, arg) => result,
        _ if command >> 8 == NAMESPACE_REQUESTS
            && let Some(result) = crate::fs::proc::namespace_request(&file, command, arg) =>
        {
            result
        }
        SIOCGSKNS if let Some(socket) = file.downcast::<Socket>() => {
            let ns = socket.ops.net();
            if !ns.permits(g::CAP_NET_ADMIN) {
                return Err(Errno::EPERM);
            }
            crate::fs::proc::open_namespace(Any::Network(ns.clone()))
        }
        _ if let Some(name) = pidfd::wanted_namespace(&file, command, arg) => crate::fs::proc::open_namespace(name?),
        _ => match super::ioctl_files::serve(&file, command, arg) {
            Some(result) => result,
            None => file.ops.ioctl(&file, command, arg),
        },
    }
}

fn set_flag(file: &File, flag: u32, on: bool) {
    let flags = file.flags.get();
    file.flags.set(if on { flags | flag } else { flags & !flag });
}

fn is_regular(file: &File) -> bool {
    file.ops.inode().is_some_and(|inode| inode.file_type() == FileType::Regular)
}

/// Switches SIGIO on or off, for the open file behind `fd`. ENOTTY for files that have none.
pub fn set_async(file: &Rc<File>, fd: i32, on: bool) -> Result<()> {
    if !file.can(Abilities::ASYNC) {
        return Err(Errno::ENOTTY);
    }
    let queues = [g::POLLIN, g::POLLOUT].map(|events| {
        let mut queues = crate::file::Queues::new();
        file.ops.poll_queues(file, events, &mut queues);
        queues
    });
    crate::file::sigio::set(file, fd, &queues, on)
}
