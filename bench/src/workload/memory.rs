//! Memory: bandwidth, and fresh pages.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::hint::black_box;
use std::os::fd::AsRawFd;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::system_calls::open;
use super::{check, measure};

/// Bytes of fresh memory that are touched at once.
const AREA: usize = 16 << 20;
const PAGE: usize = 4096;

/// A copy of 64 MiB, per KiB.
pub fn copy() -> f64 {
    const SIZE: usize = 64 << 20;
    let from = vec![1_u8; SIZE];
    let mut to = vec![2_u8; SIZE];
    measure(1, || {
        to.copy_from_slice(&from);
        black_box(&mut to);
    }) / (SIZE / 1024) as f64
}

/// The kernels of STREAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// `a[i] = b[i]`
    Copy,
    /// `a[i] = factor * b[i]`
    Scale,
    /// `a[i] = b[i] + c[i]`
    Add,
    /// `a[i] = b[i] + factor * c[i]`
    Triad,
}

/// A kernel over arrays of 32 MiB, per KiB read or written.
pub fn stream(kernel: Kernel) -> f64 {
    const COUNT: usize = (32 << 20) / size_of::<f64>();
    let (mut a, b, c) = (vec![0.0_f64; COUNT], vec![1.5_f64; COUNT], vec![2.5_f64; COUNT]);
    let factor = black_box(3.0);
    let arrays = if matches!(kernel, Kernel::Copy | Kernel::Scale) { 2 } else { 3 };
    measure(1, || {
        let all = a.iter_mut().zip(&b).zip(&c);
        match kernel {
            Kernel::Copy => a.copy_from_slice(&b),
            Kernel::Scale => all.for_each(|((a, b), _)| *a = factor * b),
            Kernel::Add => all.for_each(|((a, b), c)| *a = b + c),
            Kernel::Triad => all.for_each(|((a, b), c)| *a = b + factor * c),
        }
        black_box(&mut a);
    }) / (arrays * COUNT * size_of::<f64>() / 1024) as f64
}

/// Maps fresh memory, writes to every page, and unmaps it.
fn touch_fresh(bytes: usize) -> Result<()> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of anonymous memory, used within its bounds and then removed.
    unsafe {
        let area = libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0);
        if area == libc::MAP_FAILED {
            check(-1)?;
        }
        for page in 0..bytes / PAGE {
            area.cast::<u8>().add(page * PAGE).write_volatile(1);
        }
        libc::munmap(area, bytes);
    }
    Ok(())
}

/// The first write to a page of fresh memory, mapping and unmapping included.
pub fn touch() -> Result<f64> {
    touch_fresh(AREA)?;
    Ok(measure(1, || {
        // Ignore the result: the first call succeeded.
        let _ = touch_fresh(AREA);
    }) / (AREA / PAGE) as f64)
}

/// 1 MiB of fresh memory mapped, touched and unmapped.
pub fn touch_1m() -> Result<f64> {
    touch_fresh(1 << 20)?;
    Ok(measure(1, || {
        // Ignore the result: the first call succeeded.
        let _ = touch_fresh(1 << 20);
    }))
}

/// A page mapped and unmapped without a touch.
pub fn map_and_unmap() -> Result<f64> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let mut failed = false;
    let cost = measure(100, || {
        // SAFETY: a new mapping that is not used, and its removal.
        unsafe {
            let area = libc::mmap(std::ptr::null_mut(), PAGE, protection, flags, -1, 0);
            failed |= area == libc::MAP_FAILED || libc::munmap(area, PAGE) != 0;
        }
    });
    ensure!(!failed, "memory can't be mapped");
    Ok(cost)
}

/// 64 MiB of fresh memory, the first time in this process and once more.
pub fn touch_64m() -> Result<Vec<f64>> {
    let mut costs = Vec::new();
    for _ in 0..2 {
        let start = Instant::now();
        touch_fresh(64 << 20)?;
        costs.push(start.elapsed().as_nanos() as f64);
    }
    Ok(costs)
}

/// The first store to a page of a private file mapping, in a random-like order; including mmap and munmap.
pub fn private_write(path: &CStr) -> Result<f64> {
    let file = open(path, libc::O_RDONLY)?;
    let pages = std::fs::metadata(path.to_str()?)?.len() as usize / PAGE;
    ensure!(pages > 1, "the file is too small");
    // A step that is coprime to the number of pages visits each page once.
    let step = (pages * 5 / 8..).find(|step| gcd(*step, pages) == 1).unwrap_or(1);
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
    let mut failed = false;
    let cost = measure(1, || {
        // SAFETY: a new private mapping of a file, used within its bounds and then removed.
        unsafe {
            let area = libc::mmap(std::ptr::null_mut(), pages * PAGE, protection, flags, file.as_raw_fd(), 0);
            if area == libc::MAP_FAILED {
                failed = true;
                return;
            }
            for page in 0..pages {
                area.cast::<u8>().add(page * step % pages * PAGE).write_volatile(1);
            }
            libc::munmap(area, pages * PAGE);
        }
    });
    ensure!(!failed, "the file can't be mapped");
    Ok(cost / pages as f64)
}

fn gcd(a: usize, b: usize) -> usize {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A thread's stack as C libraries create it: 8 MiB mmap, mprotect of all but a guard page, stores to three pages,
/// munmap.
pub fn thread_stack() -> Result<f64> {
    const SIZE: usize = 8 << 20;
    let mut failed = false;
    let cost = measure(16, || {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        // SAFETY: a new mapping of anonymous memory, used within its bounds and then removed.
        unsafe {
            let area = libc::mmap(std::ptr::null_mut(), SIZE, libc::PROT_NONE, flags, -1, 0);
            if area == libc::MAP_FAILED
                || libc::mprotect(area.add(PAGE), SIZE - PAGE, libc::PROT_READ | libc::PROT_WRITE) != 0
            {
                failed = true;
                return;
            }
            for page in 1..=3 {
                area.cast::<u8>().add(SIZE - page * PAGE).write_volatile(1);
            }
            libc::munmap(area, SIZE);
        }
    });
    ensure!(!failed, "a stack can't be mapped");
    Ok(cost)
}
