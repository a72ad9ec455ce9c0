//! System calls through the C library, as programs make them.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::Result;

use super::{check, measure};

/// Calls between two looks at the clock.
const BATCH: u32 = 2000;
/// Bytes of fresh memory that are touched at once.
const AREA: usize = 16 << 20;
const PAGE: usize = 4096;

fn open(path: &CStr, flags: libc::c_int) -> Result<OwnedFd> {
    // SAFETY: the path is a C string; the new descriptor has no other owner.
    unsafe { Ok(OwnedFd::from_raw_fd(check(i64::from(libc::open(path.as_ptr(), flags)))? as libc::c_int)) }
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

/// A file opened, asked for its attributes and closed.
pub fn open_stat_close(path: &CStr) -> Result<f64> {
    open(path, libc::O_RDONLY)?;
    let mut attributes = std::mem::MaybeUninit::<libc::stat>::uninit();
    Ok(measure(100, || {
        // SAFETY: the path is a C string, the attributes are valid for writing, the descriptor is used only here.
        unsafe {
            let fd = libc::open(path.as_ptr(), libc::O_RDONLY);
            libc::fstat(fd, attributes.as_mut_ptr());
            libc::close(fd);
        }
    }))
}

/// The attributes of a path.
pub fn stat(path: &CStr) -> Result<f64> {
    let mut attributes = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path is a C string, the attributes are valid for writing.
    let mut call = || unsafe { libc::stat(path.as_ptr(), attributes.as_mut_ptr()) };
    check(i64::from(call()))?;
    Ok(measure(100, || {
        call();
    }))
}

/// 4 KiB from the start of a file.
pub fn read_4k(path: &CStr) -> Result<f64> {
    let file = open(path, libc::O_RDONLY)?;
    let (fd, mut buffer) = (file.as_raw_fd(), vec![0_u8; PAGE]);
    Ok(measure(100, || {
        // SAFETY: the buffer is valid for 4 KiB.
        unsafe { libc::pread(fd, buffer.as_mut_ptr().cast(), PAGE, 0) };
    }))
}

/// The first write to a page of fresh memory, mapping and unmapping included.
pub fn memory_touch() -> Result<f64> {
    let mut failed = Ok(0);
    let cost = measure(1, || {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping of anonymous memory, used within its bounds and then removed.
        unsafe {
            let area = libc::mmap(std::ptr::null_mut(), AREA, protection, flags, -1, 0);
            if area == libc::MAP_FAILED {
                failed = check(-1);
                return;
            }
            for page in 0..AREA / PAGE {
                area.cast::<u8>().add(page * PAGE).write_volatile(1);
            }
            libc::munmap(area, AREA);
        }
    });
    failed.map(|_| cost / (AREA / PAGE) as f64)
}
