//! The contract between the monitor on the host and keel in the virtual machine.
//!
//! Both sides compile this crate: guest-physical and virtual layout ([`layout`]), boot information ([`boot`]), the
//! connector ring in shared memory ([`ring`]) and its requests ([`request`], [`operation`]). Every structure is
//! `repr(C)` with fixed widths and its size is asserted at compile time. [`VERSION`] changes whenever any of them does;
//! the monitor refuses a keel that was built for another version.
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

/// Version of this contract. 1: first. 2: several virtual CPUs. 3: deadline of the host threads' next timer check, and
/// readings of the host's clocks. 4: high-water mark of used RAM; a separate interrupt stack. 5: selection of
/// attributes in a listing, and free memory below the image. 6: files created for the pod, and a limit of its private
/// ones. 7: passed descriptors, populating pages ahead of use, files named by handles, files without a name, holes. 8:
/// number of host processors, pods without a window, open-or-report, flag for access control lists. 9: unused arguments
/// of an operation must be 0.
/// 10: sockets. 11: containers, images. 14: the host's network. 17: the limit of processor time. 18: the file that a change of
/// attributes is for, attributes before it, order behind files.
pub const VERSION: u32 = 18;
