#![no_std]

extern crate alloc;

pub mod fdset;
pub mod pipe_buf;
