//! Keel's end of the connector ring, and the ways to be served.

use abi::ring::{Completion, Submission};

/// Puts a request into the ring without telling anybody. `false` if the ring is full.
pub fn submit(_request: &Submission) -> bool { todo!() }

/// Takes the next completion.
pub fn take_completion() -> Option<Completion> { todo!() }

/// Rings the doorbell unless a helper polls already: the virtual CPU goes on.
pub fn doorbell() { todo!() }

/// Exits once so that the monitor serves what is in the ring; returns when it was served.
pub fn serve() { todo!() }

/// Nothing to run: exits until a completion, a kick, or the deadline (`CLOCK_MONOTONIC` ns).
pub fn idle(_deadline_ns: Option<u64>) { todo!() }

/// When the monitor should interrupt a running program (`None`: never).
pub fn set_deadline(_deadline_ns: Option<u64>) { todo!() }

/// Whether to be interrupted every tick (10 ms).
pub fn set_tick(_on: bool) { todo!() }

/// Whether a helper polls the ring now.
pub fn is_polled() -> bool { todo!() }

/// Guest-physical address of keel memory (heap, stack, statics: all in the direct map).
pub fn gpa_of(_bytes: &[u8]) -> u64 { todo!() }
