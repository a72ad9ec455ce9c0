//! Descriptors above the standard streams that the user passes (`--pass-fd`).

use abi::boot::StreamKind;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, OFlags};
use rustix::net::{SocketType, sockopt};

/// Why a descriptor can't be passed, and the remedy.
pub type Refusal = (&'static str, &'static str);

/// Minor numbers of harmless memory devices (major 1): null, zero, full, random, urandom.
const PLAIN_DEVICES: [u32; 5] = [3, 5, 7, 8, 9];

/// Kind and `F_GETFL` flags of a descriptor, if a pod can use it like a standard stream.
pub fn look(fd: &OwnedFd) -> Result<(StreamKind, u32), Refusal> {
    let unknown = |_| ("it can't be looked at", "pass another one");
    let flags = rustix::fs::fcntl_getfl(fd).map_err(unknown)?;
    if flags.contains(OFlags::PATH) {
        return Err(("it was opened with O_PATH", "grant the file with --ro or --rw"));
    }
    let stat = rustix::fs::fstat(fd).map_err(unknown)?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => StreamKind::File,
        FileType::Fifo => StreamKind::Pipe,
        FileType::Socket => {
            let is_stream = sockopt::socket_type(fd).is_ok_and(|kind| kind == SocketType::STREAM);
            if !is_stream || sockopt::socket_acceptconn(fd).unwrap_or(true) {
                return Err(("not a connected stream socket", "pass what reads and writes do for"));
            }
            StreamKind::Pipe
        }
        FileType::CharacterDevice if rustix::termios::isatty(fd) => {
            if !is_own_terminal(stat.st_rdev) {
                return Err(("not the terminal of a standard stream", "connect standard input to it"));
            }
            StreamKind::Terminal
        }
        FileType::CharacterDevice
            if rustix::fs::major(stat.st_rdev) == 1 && PLAIN_DEVICES.contains(&rustix::fs::minor(stat.st_rdev)) =>
        {
            StreamKind::Device
        }
        FileType::Directory => return Err(("a directory", "grant it with --ro or --rw")),
        FileType::CharacterDevice | FileType::BlockDevice => {
            return Err(("a device of the host", "pass a file, a pipe, a socket or the terminal"));
        }
        _ => return Err(("neither file, pipe, socket nor terminal", "let the program make its own")),
    };
    let told = OFlags::RWMODE | OFlags::APPEND | OFlags::NONBLOCK | OFlags::LARGEFILE;
    Ok((kind, (flags & told).bits()))
}

/// Whether a standard stream is this terminal: only one terminal has job control.
fn is_own_terminal(device: u64) -> bool {
    let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    standard
        .into_iter()
        .any(|fd| rustix::termios::isatty(fd) && rustix::fs::fstat(fd.as_fd()).is_ok_and(|stat| stat.st_rdev == device))
}
