//! Hardware access of keel, and the only guest crate with unsafe code.
//!
//! The processor and the platform are in folders; other modules use them through the contract (`contract.rs`,
//! `docs/platform.md`). The code above this crate is plain Rust. Key types: [`frame::Frame`] (a refcounted 4 KiB page
//! frame), [`paging::AddressSpace`] (page tables), [`thread::Thread`] (kernel stack and saved state of a thread),
//! [`trap::TrapFrame`] (registers of a program at its entry into keel).
//!
//! Invariant: keel runs under one *big lock*. Code in keel is never preempted, only one virtual CPU is inside keel at a
//! time ([`smp`]), and context switches happen only in [`thread::switch`]. So the crates above can use `Rc`, `Cell` and
//! `RefCell`; [`cell::Global`] holds such values in statics.
#![no_std]

extern crate alloc;
#[cfg(feature = "hosted")]
extern crate std;

// Loom's models cover the primitives in `sync` only: modules with statics of these are not built for them.
#[cfg(not(loom))]
mod buddy;
pub mod cell;
mod contract;
#[cfg(not(loom))]
pub mod heap;
#[cfg(not(loom))]
pub mod hooks;
#[cfg(feature = "hosted")]
mod hosted;
#[cfg(not(feature = "hosted"))]
mod kvm;
#[cfg(not(loom))]
mod machine;
#[cfg(not(loom))]
mod mapping;
#[cfg(not(feature = "hosted"))]
pub mod report;
#[cfg(not(loom))]
pub mod ring;
#[cfg(not(loom))]
pub mod smp;
pub mod sync;
#[cfg(not(loom))]
pub mod thread;
#[cfg(not(loom))]
pub mod trap;
#[cfg(not(loom))]
pub mod user;
#[cfg(not(loom))]
pub mod watch;
#[cfg(not(loom))]
mod x86_64;

pub use contract::*;
