//! Runs one command with a deadline and collects what it printed.
#![allow(unsafe_code)]

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Time to read output after the command has ended (a background child may hold the pipe).
const DRAIN: Duration = Duration::from_secs(5);

/// What a command printed and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Standard output, all of it.
    pub stdout: Vec<u8>,
    /// Standard error, all of it. Not compared: it may name process ids and paths.
    pub stderr: Vec<u8>,
    /// Exit status as a shell reports it: 128 + n after death by signal n.
    pub status: i32,
    /// The deadline passed and the command was killed.
    pub timed_out: bool,
}

/// Output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `command` in a process group of its own with `stdin`, for at most `limit`.
pub fn run(command: &mut Command, stdin: Stdio, limit: Duration) -> Result<Outcome> {
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    // SAFETY: the closure runs in the new process before exec and only makes a system call.
    unsafe { command.pre_exec(close_inherited) };
    let mut child = command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let group = child.id() as libc::pid_t;
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let (status, timed_out) = wait_until(&mut child, group, Instant::now() + limit)?;
    let out = stdout.recv_timeout(DRAIN);
    let err = stderr.recv_timeout(if out.is_ok() { DRAIN } else { Duration::ZERO });
    // Kill remaining processes of the group.
    kill_group(group);
    Ok(Outcome {
        stdout: out.or_else(|_| stdout.recv_timeout(DRAIN)).unwrap_or_default(),
        stderr: err.or_else(|_| stderr.recv_timeout(DRAIN)).unwrap_or_default(),
        status: shell_status(status),
        timed_out,
    })
}

/// Lets the command run in a network namespace of its own, with the loopback device up, if the caller may make one (root): so
/// ports that other programs use, or have used lately, do not matter.
pub fn with_own_network(command: &mut Command) {
    fn enter() -> std::io::Result<()> {
        // SAFETY: changes the network namespace of this process alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return Ok(());
        }
        // SAFETY: `ifreq` is plain data, for which zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_name[..2].copy_from_slice(&[b'l' as libc::c_char, b'o' as libc::c_char]);
        request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        // SAFETY: makes a socket, sets the flags of a device with a valid structure, and closes the socket.
        let result = unsafe {
            let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            let result = libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
            libc::close(socket);
            result
        };
        if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }
    // SAFETY: the closure runs in the new process before exec and only makes system calls.
    unsafe { command.pre_exec(enter) };
}

/// Sets FD_CLOEXEC on inherited descriptors above the standard streams: they would shift the numbers of the command's
/// own.
fn close_inherited() -> std::io::Result<()> {
    // SAFETY: marks descriptors to be closed on exec; none is closed in this process image.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// The status that a shell would report.
pub fn shell_status(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // A read error ends the output early; the comparison shows it.
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

fn wait_until(child: &mut Child, group: libc::pid_t, deadline: Instant) -> Result<(ExitStatus, bool)> {
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, false));
        }
        if Instant::now() >= deadline {
            kill_group(group);
            // The command may have left its process group; it is still our child.
            let _ = child.kill();
            return Ok((child.wait()?, true));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

fn kill_group(group: libc::pid_t) {
    // SAFETY: kill has no memory effects; the group was created by the child that this module started.
    unsafe { libc::kill(-group, libc::SIGKILL) };
}
