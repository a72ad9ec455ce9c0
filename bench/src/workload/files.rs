//! Operations on paths and descriptors.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::time::Instant;

use anyhow::Result;

use super::system_calls::{BATCH, open};
use super::{check, measure};

const PAGE: usize = 4096;
/// Files `0`, `1` … in the directory of [`open_stat_close`].
pub const FILES: u32 = 256;

/// Nanoseconds per name: in the first pass over all names, and later.
pub fn first_and_again(names: &[CString], mut visit: impl FnMut(&CString) -> libc::c_int) -> Result<Vec<f64>> {
    let count = names.len() as f64;
    let start = Instant::now();
    for name in names {
        check(i64::from(visit(name)))?;
    }
    let first = start.elapsed().as_nanos() as f64 / count;
    let again = measure(1, || {
        for name in names {
            visit(name);
        }
    });
    Ok(vec![first, again / count])
}

/// open, fstat and close of the files of a directory: the first time, and later.
pub fn open_stat_close(directory: &CStr) -> Result<Vec<f64>> {
    let directory = directory.to_str()?;
    let names = (0..FILES).map(|number| CString::new(format!("{directory}/{number}")));
    let names = names.collect::<Result<Vec<CString>, _>>()?;
    let mut attributes = MaybeUninit::<libc::stat>::uninit();
    let visit = |name: &CString| {
        // SAFETY: the path is a C string, the attributes are valid for writing, the descriptor is used only here.
        unsafe {
            let fd = libc::open(name.as_ptr(), libc::O_RDONLY);
            libc::fstat(fd, attributes.as_mut_ptr());
            libc::close(fd)
        }
    };
    first_and_again(&names, visit)
}

/// stat and open of the files of a tree (20 directories of 50): the first time, and later.
pub fn host_open(tree: &CStr) -> Result<Vec<f64>> {
    let tree = tree.to_str()?;
    let names = (0..1000).map(|number| CString::new(format!("{tree}/{}/{}", number / 50, number % 50)));
    let names = names.collect::<Result<Vec<CString>, _>>()?;
    let mut attributes = MaybeUninit::<libc::stat>::uninit();
    let visit = |name: &CString| {
        // SAFETY: the path is a C string, the attributes are valid for writing, the descriptor is used only here.
        unsafe {
            libc::stat(name.as_ptr(), attributes.as_mut_ptr());
            let fd = libc::open(name.as_ptr(), libc::O_RDONLY);
            libc::fstat(fd, attributes.as_mut_ptr());
            libc::close(fd)
        }
    };
    first_and_again(&names, visit)
}

/// lseek to the start.
pub fn lseek(path: &CStr) -> Result<f64> {
    let file = open(path, libc::O_RDONLY)?;
    Ok(measure(BATCH, || {
        // SAFETY: touches no memory.
        unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_SET) };
    }))
}

/// fstat.
pub fn fstat(path: &CStr) -> Result<f64> {
    let file = open(path, libc::O_RDONLY)?;
    let mut attributes = MaybeUninit::<libc::stat>::uninit();
    Ok(measure(BATCH, || {
        // SAFETY: the attributes are valid for writing.
        unsafe { libc::fstat(file.as_raw_fd(), attributes.as_mut_ptr()) };
    }))
}

/// stat.
pub fn stat(path: &CStr) -> Result<f64> {
    let mut attributes = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path is a C string, the attributes are valid for writing.
    let mut call = || unsafe { libc::stat(path.as_ptr(), attributes.as_mut_ptr()) };
    check(i64::from(call()))?;
    Ok(measure(100, || {
        call();
    }))
}

/// open and close.
pub fn open_close(path: &CStr) -> Result<f64> {
    drop(open(path, libc::O_RDONLY)?);
    Ok(measure(100, || {
        // Ignore the result: the first call succeeded.
        let _ = open(path, libc::O_RDONLY);
    }))
}

/// pread of 4 KiB from the start of a file.
pub fn read_4k(path: &CStr) -> Result<f64> {
    read(path, PAGE)
}

/// pread of 64 KiB from the start of a file.
pub fn read_64k(path: &CStr) -> Result<f64> {
    read(path, 64 << 10)
}

/// pread of `size` bytes from the start of a file.
fn read(path: &CStr, size: usize) -> Result<f64> {
    let file = open(path, libc::O_RDONLY)?;
    let (fd, mut buffer) = (file.as_raw_fd(), vec![0_u8; size]);
    Ok(measure(100, || {
        // SAFETY: the buffer is valid for `size` bytes.
        unsafe { libc::pread(fd, buffer.as_mut_ptr().cast(), size, 0) };
    }))
}
