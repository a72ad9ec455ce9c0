//! The contract between the monitor on the host and keel in the virtual machine.
//!
//! Both sides compile this crate: guest-physical and virtual layout ([`layout`]), what the monitor
//! hands over at boot ([`boot`]), the connector ring in shared memory ([`ring`]) and the requests
//! that travel through it ([`request`], [`operation`]). Every structure is `repr(C)` with fixed widths and its size
//! is asserted at compile time. [`VERSION`] changes whenever any of them does; the monitor refuses
//! a keel that was built for another one.
//!
//! Invariant for the monitor: everything here that lies in guest memory is hostile input. It is
//! copied out once, then validated, then used.
#![no_std]

extern crate alloc;

pub mod boot;
pub mod layout;
pub mod operation;
pub mod request;
pub mod ring;
pub mod tables;

/// Version of this contract. 1: first. 2: several virtual CPUs. 3: when host threads look at the deadline
/// next, and readings of the host's clocks. 4: how far RAM is used; a stack of its own for interrupts. 5: which attributes a
/// listing brings, and free memory below the image. 6: files made for the pod, and a limit of its private ones. 7: descriptors that are
/// passed, pages taken from the host before they are used, files named by handles, files without a name, holes. 8: how many
/// processors the host has, pods without a window, files that are made or told of, who has access control lists. 9: arguments that an operation does not have must be 0.
pub const VERSION: u32 = 9;
