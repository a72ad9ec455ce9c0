//! Algorithms of keel without hardware access, tested on the host.
#![no_std]

extern crate alloc;

pub mod accounts;
pub mod bpf;
pub mod crc32c;
pub mod elf;
pub mod fdset;
pub mod idmap;
pub mod pages;
pub mod patch;
pub mod pieces;
pub mod pipe_buf;
pub mod runq;
pub mod sigset;
pub mod stack;
pub mod timerq;
pub mod tty;
pub mod vma;
