//! Creating and writing files.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::check;
use super::system_calls::open;

/// Bytes that [`small`] writes.
const TOTAL: usize = 5_000_000;
/// Files of [`create_unlink`].
const FILES: usize = 3000;
/// Processes of [`append_4`], and lines of each.
const PROCESSES: usize = 4;
const LINES: usize = 10_000;
/// Bytes of a line.
const LINE: usize = 64;

/// A file in a directory, by name.
fn file_in(directory: &CStr, name: &str) -> Result<CString> {
    Ok(CString::new(format!("{}/{name}", directory.to_str()?))?)
}

/// Writes all of `bytes`, in one call.
fn write(fd: libc::c_int, bytes: &[u8]) -> Result<()> {
    // SAFETY: the bytes are valid.
    let written = check(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) } as i64)?;
    ensure!(written as usize == bytes.len(), "a short write");
    Ok(())
}

/// A new file written in pieces of `size` bytes and closed, per piece.
pub fn small(directory: &CStr, size: usize) -> Result<f64> {
    let (path, piece) = (file_in(directory, "small")?, vec![b'x'; size]);
    let start = Instant::now();
    let file = open(&path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC)?;
    let count = TOTAL / size;
    for _ in 0..count {
        write(file.as_raw_fd(), &piece)?;
    }
    drop(file);
    let elapsed = start.elapsed();
    std::fs::remove_file(path.to_str()?)?;
    Ok(elapsed.as_nanos() as f64 / count as f64)
}

/// Create, write, close and unlink files, per file.
pub fn create_unlink(directory: &CStr) -> Result<f64> {
    let names = (0..FILES).map(|number| file_in(directory, &format!("file-{number}")));
    let names = names.collect::<Result<Vec<CString>>>()?;
    let start = Instant::now();
    for name in &names {
        let file = open(name, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL)?;
        write(file.as_raw_fd(), b"a line of text\n")?;
        drop(file);
        // SAFETY: the path is a C string.
        check(i64::from(unsafe { libc::unlink(name.as_ptr()) }))?;
    }
    Ok(start.elapsed().as_nanos() as f64 / FILES as f64)
}

/// Lines that several processes append to one file, per line.
pub fn append_4(directory: &CStr) -> Result<f64> {
    let path = file_in(directory, "log")?;
    let start = Instant::now();
    for _ in 0..PROCESSES {
        // SAFETY: the child makes system calls and ends.
        if check(i64::from(unsafe { libc::fork() }))? == 0 {
            let log = open(&path, libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND);
            let done = log.and_then(|log| (0..LINES).try_for_each(|_| write(log.as_raw_fd(), &[b'x'; LINE])));
            // SAFETY: ends the child without running the parent's exit handlers; descriptors are closed.
            unsafe { libc::_exit(i32::from(done.is_err())) };
        }
    }
    for _ in 0..PROCESSES {
        let mut status = 0;
        // SAFETY: the status is valid for writing.
        check(i64::from(unsafe { libc::wait(&raw mut status) }))?;
        ensure!(status == 0, "a process failed");
    }
    let elapsed = start.elapsed();
    let size = std::fs::metadata(path.to_str()?)?.len() as usize;
    std::fs::remove_file(path.to_str()?)?;
    ensure!(size == PROCESSES * LINES * LINE, "{size} bytes were appended");
    Ok(elapsed.as_nanos() as f64 / (PROCESSES * LINES) as f64)
}

/// Time of the first line of `commands`, in ns; the second line cleans up.
pub fn once(commands: &str) -> Result<f64> {
    let (line, clean) = commands.split_once('\n').context("there are two commands")?;
    let shell = |line: &str| -> Result<()> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        ensure!(command.status()?.success(), "{line} failed");
        Ok(())
    };
    let start = Instant::now();
    shell(line)?;
    let elapsed = start.elapsed();
    shell(clean)?;
    Ok(elapsed.as_nanos() as f64)
}
