//! System calls through the C library, as programs make them.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::Result;

use super::{check, measure};

/// Calls between two clock readings.
pub const BATCH: u32 = 2000;

/// Opens a file.
pub fn open(path: &CStr, flags: libc::c_int) -> Result<OwnedFd> {
    // SAFETY: the path is a C string; the new descriptor has no other owner.
    unsafe { Ok(OwnedFd::from_raw_fd(check(i64::from(libc::open(path.as_ptr(), flags, 0o644)))? as libc::c_int)) }
}

/// A write and a read of 64 bytes.
pub fn devnull() -> Result<f64> {
    let file = open(c"/dev/null", libc::O_RDWR)?;
    let (fd, mut buffer) = (file.as_raw_fd(), [0_u8; 64]);
    Ok(measure(BATCH, || {
        // SAFETY: the buffer is valid for 64 bytes.
        unsafe {
            libc::write(fd, buffer.as_ptr().cast(), 64);
            libc::read(fd, buffer.as_mut_ptr().cast(), 64);
        }
    }))
}

/// The parent's id.
pub fn getppid() -> f64 {
    measure(BATCH, || {
        // SAFETY: no memory is touched.
        std::hint::black_box(unsafe { libc::getppid() });
    })
}

/// The time.
pub fn clock_gettime() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    measure(BATCH, || {
        // SAFETY: the time is valid for writing.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    })
}

/// futex wake without waiters.
pub fn futex_wake() -> f64 {
    let word = 0_u32;
    measure(BATCH, || {
        // SAFETY: the word is only an address here.
        unsafe { libc::syscall(libc::SYS_futex, &raw const word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
    })
}

/// A byte through a pipe, in one thread.
pub fn pipe_self() -> Result<f64> {
    let (from, to) = std::io::pipe()?;
    through(from, to)
}

/// A byte through a pair of AF_UNIX sockets, in one thread.
pub fn unix_self() -> Result<f64> {
    let (from, to) = std::os::unix::net::UnixStream::pair()?;
    through(from, to)
}

/// Writes a byte to `to` and reads it from `from`.
fn through(mut from: impl Read, mut to: impl Write) -> Result<f64> {
    let mut failed = Ok(());
    let cost = measure(BATCH, || {
        let mut byte = [1];
        if let Err(error) = to.write_all(&byte).and_then(|()| from.read_exact(&mut byte)) {
            failed = Err(error);
        }
    });
    failed?;
    Ok(cost)
}

/// epoll_wait with a ready event.
pub fn epoll_ready() -> Result<f64> {
    let (from, mut to) = std::io::pipe()?;
    to.write_all(&[1])?;
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 1 };
    // SAFETY: the descriptors are open; the event is valid for reading.
    let epoll = unsafe {
        let epoll = OwnedFd::from_raw_fd(check(i64::from(libc::epoll_create1(0)))? as libc::c_int);
        check(i64::from(libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, from.as_raw_fd(), &raw mut event)))?;
        epoll
    };
    let mut found = 0;
    let cost = measure(BATCH, || {
        // SAFETY: there is room for one event.
        found = unsafe { libc::epoll_wait(epoll.as_raw_fd(), &raw mut event, 1, -1) };
    });
    anyhow::ensure!(found == 1, "epoll_wait found nothing");
    Ok(cost)
}
