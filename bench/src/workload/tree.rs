//! Files of an image.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::files::first_and_again;
use super::system_calls::open;
use super::{check, measure};

/// Directories `0`, `1` … of the tree, and files of each, named likewise.
pub const DIRECTORIES: u32 = 500;
/// See [`DIRECTORIES`].
pub const FILES: u32 = 100;
/// Bytes of the pieces that [`read_sequential`] and [`read_random`] read.
const PIECE: usize = 128 << 10;
const PAGE: usize = 4096;
/// Bytes that [`map`] maps at most of a file.
const MAPPED: usize = 32 << 20;

fn names(tree: &CStr) -> Result<Vec<CString>> {
    let tree = tree.to_str()?;
    let all = (0..DIRECTORIES).flat_map(|directory| (0..FILES).map(move |file| (directory, file)));
    Ok(all.map(|(directory, file)| CString::new(format!("{tree}/{directory}/{file}"))).collect::<Result<_, _>>()?)
}

/// stat of all files: the first time, and later, per file.
pub fn stat(tree: &CStr) -> Result<Vec<f64>> {
    let mut attributes = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path is a C string, the attributes are valid for writing.
    first_and_again(&names(tree)?, |name| unsafe { libc::stat(name.as_ptr(), attributes.as_mut_ptr()) })
}

/// open, a read and close of all files: the first time, and later, per file.
pub fn open_read(tree: &CStr) -> Result<Vec<f64>> {
    let mut buffer = [0_u8; PAGE];
    first_and_again(&names(tree)?, |name| {
        // SAFETY: the path is a C string, the buffer is valid for its size, the descriptor is used only here.
        unsafe {
            let fd = libc::open(name.as_ptr(), libc::O_RDONLY);
            let read = libc::read(fd, buffer.as_mut_ptr().cast(), PAGE);
            libc::close(fd).min(read.min(0) as libc::c_int)
        }
    })
}

/// Reading a file from its start to its end, per KiB.
pub fn read_sequential(path: &CStr) -> Result<f64> {
    let (file, mut buffer) = (open(path, libc::O_RDONLY)?, vec![0_u8; PIECE]);
    let (mut total, mut failed) = (0, false);
    let cost = measure(1, || {
        total = 0;
        loop {
            // SAFETY: the buffer is valid for its size.
            let read = unsafe { libc::pread(file.as_raw_fd(), buffer.as_mut_ptr().cast(), PIECE, total) };
            failed |= read < 0;
            if read <= 0 {
                break;
            }
            total += read as i64;
        }
    });
    ensure!(!failed && total > 0, "the file can't be read");
    Ok(cost / (total as f64 / 1024.0))
}

/// Reading 4 KiB at places of a file in no order.
pub fn read_random(path: &CStr) -> Result<f64> {
    let file = fs::File::open(path.to_str()?)?;
    let pages = file.metadata()?.len() / PAGE as u64;
    ensure!(pages > 0, "the file is too small");
    let (mut state, mut buffer, mut failed) = (88_172_645_463_325_252_u64, [0_u8; PAGE], false);
    let cost = measure(100, || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        failed |= file.read_exact_at(&mut buffer, state % pages * PAGE as u64).is_err();
    });
    ensure!(!failed, "the file can't be read");
    Ok(cost)
}

/// Maps the start of a file, or of all files in a directory, touches the pages, prints a line and waits for the end of the
/// process.
pub fn map(path: &str) -> Result<()> {
    let files: Vec<PathBuf> = match Path::new(path) {
        directory if directory.is_dir() => {
            fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?
        }
        file => vec![file.to_owned()],
    };
    let mut sum = 0_u64;
    for file in files {
        let file = fs::File::open(file)?;
        let length = (file.metadata()?.len() as usize).min(MAPPED);
        let (protection, flags) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE);
        // SAFETY: a new mapping of a file, read within its bounds and kept.
        unsafe {
            let area = libc::mmap(std::ptr::null_mut(), length, protection, flags, file.as_raw_fd(), 0);
            check(if area == libc::MAP_FAILED { -1 } else { 0 })?;
            for offset in (0..length).step_by(PAGE) {
                sum += u64::from(area.cast::<u8>().add(offset).read_volatile());
            }
        }
    }
    println!("{sum}");
    loop {
        std::thread::park();
    }
}
