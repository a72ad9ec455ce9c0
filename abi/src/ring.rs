//! The connector ring: one shared structure per pod that carries requests and completions.
//!
//! Keel is the only producer of submissions and the only consumer of completions; the monitor is
//! the opposite. Indices run freely (wrap at 2^32) and are reduced modulo [`ENTRIES`]. A producer
//! writes the entry first, then its tail with release order.

use crate::operation::{Arguments, Encoded};
use bytemuck::{Pod, Zeroable};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Entries of each queue; a power of two.
pub const ENTRIES: usize = 128;

/// A request from keel. See [`crate::request`] for the operations.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct Submission {
    /// [`crate::operation::Operation::NUMBER`].
    pub op: u32,
    /// [`sub_flags`].
    pub flags: u32,
    /// Chosen by keel, returned in the completion.
    pub id: u64,
    /// Arguments of the operation.
    pub arguments: Arguments,
    /// Guest-physical address of the input bytes (or of a list of [`Segment`]s).
    pub in_gpa: u64,
    /// Guest-physical address of the room for output (or of a list of [`Segment`]s).
    pub out_gpa: u64,
    /// Bytes of input (with [`sub_flags::IN_LIST`]: number of segments).
    pub in_len: u32,
    /// Bytes of room for output (with [`sub_flags::OUT_LIST`]: number of segments).
    pub out_len: u32,
}

impl Submission {
    /// Decodes the operation.
    pub fn operation(&self) -> Encoded {
        Encoded { number: self.op, arguments: self.arguments }
    }
}

/// Bits of [`Submission::flags`].
pub mod sub_flags {
    /// The input is a list of [`super::Segment`]s.
    pub const IN_LIST: u32 = 1;
    /// The output is a list of [`super::Segment`]s.
    pub const OUT_LIST: u32 = 2;
}

/// Most segments of one list.
pub const MAX_SEGMENTS: usize = 512;

/// A piece of guest memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct Segment {
    /// Guest-physical address.
    pub gpa: u64,
    /// Bytes.
    pub len: u64,
}

/// The answer to a [`Submission`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct Completion {
    /// [`Submission::id`].
    pub id: u64,
    /// First result, not negative, or a negated Linux errno.
    pub result: i64,
    /// More results of the operation.
    pub extra: [u64; 2],
}

/// What both sides share, at guest-physical [`crate::layout::RING`].
///
/// Each group of fields that one side writes has cache lines of its own.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Ring {
    /// Submissions consumed; written by the monitor.
    pub sub_head: AtomicU32,
    /// Completions produced; written by the monitor.
    pub comp_tail: AtomicU32,
    /// [`server_state`]; written by the monitor.
    pub server: AtomicU32,
    /// Not 0: threads have waited while all virtual CPUs were busy. Set by the monitor before a kick,
    /// taken back by keel.
    pub overdue: AtomicU32,
    /// How often pages of the window were lost, because the host's file was cut, can't be read or has no room for a store;
    /// written by the monitor. It put other memory there, and kicks.
    pub losses: AtomicU32,
    /// Not 0: a host thread sleeps until sockets or streams are ready and then completes their requests, although no virtual CPU is
    /// on duty. Written by the monitor. Submissions need the doorbell or an exit nevertheless.
    pub watching: AtomicU32,
    /// `CLOCK_MONOTONIC` ns at which the helper looks at `deadline_ns` and `tick_wanted` next unless the doorbell rings;
    /// 0: very soon. Written by the monitor before it sleeps, after which it looks once more; keel writes 0 when it
    /// rings, so that it rings once.
    pub helper_looks_ns: AtomicU64,
    /// The same of the virtual CPU on duty, for `deadline_ns`; `u64::MAX`: none is. Written by the monitor.
    pub duty_looks_ns: AtomicU64,
    _pad0: [u64; 3],
    /// Submissions produced; written by keel.
    pub sub_tail: AtomicU32,
    /// Completions consumed; written by keel.
    pub comp_head: AtomicU32,
    /// Not 0: keel wants an interrupt every tick (more than one thread is runnable), and a poll of
    /// `waiting`.
    pub tick_wanted: AtomicU32,
    /// Not 0: keel wants the helper to stay awake and poll.
    pub poll_wanted: AtomicU32,
    /// `CLOCK_MONOTONIC` ns of the host at which keel wants to be woken or interrupted;
    /// `u64::MAX`: never.
    pub deadline_ns: AtomicU64,
    /// Not 0: a program runs while requests are under way; their completion shall interrupt it.
    pub kick_wanted: AtomicU32,
    /// Odd: threads that any virtual CPU may run wait for one, and have since the number became this one.
    pub waiting: AtomicU32,
    /// RAM from here on (guest-physical) was never used since the monitor added it.
    pub ram_used: AtomicU64,
    /// Not 0: the virtual CPU has nothing to run and waits in the guest for a completion, without submitting.
    pub lingering: AtomicU32,
    _pad4: u32,
    _pad1: [u64; 2],
    /// The host's clocks, written by the monitor now and then.
    pub clocks: HostClocks,
    /// Entries of the submission queue.
    pub submissions: [Submission; ENTRIES],
    /// Entries of the completion queue.
    pub completions: [Completion; ENTRIES],
}

/// A reading of the host's clocks.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct HostClocks {
    /// Odd while the rest changes; another number after each change, 0 before the first.
    pub sequence: AtomicU32,
    _pad: u32,
    /// The guest's time stamp counter at that moment.
    pub tsc: AtomicU64,
    /// `CLOCK_MONOTONIC` in ns.
    pub monotonic_ns: AtomicU64,
    /// `CLOCK_REALTIME` in ns since the epoch.
    pub realtime_ns: AtomicU64,
    /// `CLOCK_BOOTTIME` in ns.
    pub boottime_ns: AtomicU64,
}

/// Values of [`Ring::server`].
pub mod server_state {
    /// No thread polls the ring: ring the doorbell or exit.
    pub const ASLEEP: u32 = 0;
    /// A host thread polls the ring: do nothing, it will see the submission.
    pub const POLLING: u32 = 1;
}

const _: () = assert!(core::mem::size_of::<Submission>() == 88);
const _: () = assert!(core::mem::size_of::<Completion>() == 32);
const _: () = assert!(core::mem::offset_of!(Ring, sub_tail) == 64);
// As in tests/hostile/guest.h.
const _: () = assert!(core::mem::offset_of!(Ring, submissions) == 192);
const _: () = assert!(core::mem::size_of::<Ring>() <= 0x1_0000);
