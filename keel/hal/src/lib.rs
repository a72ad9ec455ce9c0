//! Everything of keel that touches the machine, and the only guest crate with unsafe.
//!
//! The processor is in a folder, and so is the platform; all others reach them through the contract (`contract.rs`,
//! `docs/platform.md`). Above this crate is plain Rust. Key types: [`frame::Frame`] (a counted 4 KiB page of memory),
//! [`paging::AddressSpace`] (page tables), [`thread::Thread`] (kernel stack and saved state of a
//! thread), [`trap::TrapFrame`] (registers of a program at its entry into keel).
//!
//! Invariant: keel runs under one *big lock*. Code in keel is never preempted, only one virtual CPU
//! is inside keel at a time ([`smp`]), and another thread runs only where [`thread::switch`] is called. That is
//! what lets the crates above use `Rc`, `Cell` and `RefCell`; [`cell::Global`] holds such values in
//! statics.
#![no_std]

extern crate alloc;
#[cfg(feature = "hosted")]
extern crate std;

#[cfg(not(feature = "hosted"))]
mod buddy;
pub mod cell;
mod contract;
#[cfg(not(feature = "hosted"))]
pub mod heap;
#[cfg(not(feature = "hosted"))]
pub mod hooks;
#[cfg(feature = "hosted")]
mod hosted;
#[cfg(not(feature = "hosted"))]
mod kvm;
#[cfg(not(feature = "hosted"))]
mod mapping;
#[cfg(not(feature = "hosted"))]
pub mod report;
#[cfg(not(feature = "hosted"))]
pub mod ring;
#[cfg(not(feature = "hosted"))]
pub mod smp;
pub mod sync;
#[cfg(not(feature = "hosted"))]
pub mod thread;
#[cfg(not(feature = "hosted"))]
pub mod trap;
#[cfg(not(feature = "hosted"))]
pub mod user;
pub mod watch;
#[cfg(not(feature = "hosted"))]
mod x86_64;

pub use contract::*;
