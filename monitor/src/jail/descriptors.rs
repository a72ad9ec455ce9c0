//! Inherited file descriptors.
#![allow(unsafe_code)]

use rustix::fd::{FromRawFd, OwnedFd, RawFd};
use std::io::{Error, Result};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bitmap of the standard streams that were open at start.
static OPEN: AtomicU8 = AtomicU8::new(0);

/// Kept descriptors above these; they stay open for the life of the process, so their numbers are not reused.
static KEPT: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// Runs before Rust's runtime opens /dev/null for closed standard streams.
extern "C" fn look() {
    for number in 0..3 {
        // SAFETY: a plain system call.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } != -1 {
            OPEN.fetch_or(1 << number, Ordering::Relaxed);
        }
    }
}

// SAFETY: the section holds pointers to functions that the C library calls before `main`, with arguments that `look`
// does not take. `look` needs nothing of Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether a standard stream was open at start.
pub fn is_standard_open(number: usize) -> bool {
    number < 3 && OPEN.load(Ordering::Relaxed) & 1 << number != 0
}

/// Closes every descriptor except the standard streams and those in `kept`, which get FD_CLOEXEC. Call it before any
/// descriptor is opened: it closes all others.
pub fn close_inherited(kept: &[RawFd]) {
    let mut kept: Vec<RawFd> = kept.iter().copied().filter(|number| *number > 2).collect();
    kept.sort_unstable();
    let mut from = 3;
    for number in kept {
        if number > from {
            close_range(from, number - 1);
        }
        // SAFETY: a plain system call. A number that is not open is the user's mistake, which is reported later.
        if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == 0 {
            KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        }
        from = number.saturating_add(1);
    }
    close_range(from, RawFd::MAX);
}

fn close_range(first: RawFd, last: RawFd) {
    // SAFETY: no code in this process owns a descriptor above the standard streams yet; the caller of `close_inherited`
    // guarantees that.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// Duplicates an inherited descriptor that [`close_inherited`] kept. EBADF.
pub fn inherited(number: RawFd) -> Result<OwnedFd> {
    if !KEPT.lock().unwrap_or_else(PoisonError::into_inner).contains(&number) {
        return Err(Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: a plain system call.
    match unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) } {
        -1 => Err(Error::last_os_error()),
        // SAFETY: the call returned a new descriptor, which has no other owner.
        duplicate => Ok(unsafe { OwnedFd::from_raw_fd(duplicate) }),
    }
}
