//! The monitor's end of the ring, and idling.
#![allow(unsafe_code)]

use super::harness::{self, End};
use super::instructions::{counter, set_counter};
use crate::cell::Global;
use crate::direct_map::{self, RAM_LIMIT};
use abi::layout::RING;
use abi::operation::{Encoded, Operation, Reply};
use abi::request::{Cancel, Crash, Exit, GrowRam, PodRequest, Request, StreamRequest};
use abi::ring::{Completion, ENTRIES, Ring, Segment, Submission, sub_flags};
use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::boxed::Box;
use std::string::String;
use std::vec;
use std::vec::Vec;

/// Errno of a request that another one cancelled.
const ECANCELED: i64 = 125;
const ENOENT: i64 = 2;
const ENOMEM: i64 = 12;
const EIO: i64 = 5;

/// Answer of a monitor: the results, or a Linux errno; `None` leaves the request pending until it is cancelled.
pub type Answer = Option<Result<Reply, i64>>;

/// The part of the monitor that the test implements: files and streams.
pub trait Monitor {
    /// Serves a request with its input. The output may have up to `room` bytes; it is copied if it is not empty.
    fn serve(&mut self, request: &Encoded, input: &[u8], output: &mut Vec<u8>, room: usize) -> Answer;
}

static MONITOR: Global<RefCell<Option<Box<dyn Monitor>>>> = Global::new(RefCell::new(None));
/// Pending requests.
static OPEN: Global<RefCell<Vec<u64>>> = Global::new(RefCell::new(Vec::new()));
/// RAM provided so far.
static RAM: Global<Cell<u64>> = Global::new(Cell::new(0));

pub(super) fn set_monitor(monitor: Box<dyn Monitor>) {
    MONITOR.replace(Some(monitor));
}

fn the_ring() -> &'static Ring {
    // SAFETY: the ring has a place in RAM of its own, which is zero at first; its indices are atomics.
    unsafe { &*(direct_map::address(RING as u64) as *const Ring) }
}

/// The memory segments of a payload: addresses in the process, and lengths.
fn segments(gpa: u64, len: u32, is_list: bool) -> Vec<(usize, usize)> {
    if !is_list {
        return vec![(direct_map::address(gpa), len as usize)];
    }
    let list = direct_map::address(gpa) as *const Segment;
    // SAFETY: keel passes a list with this many entries, which is valid until the completion.
    let list = (0..len as usize).map(|i| unsafe { list.add(i).read_unaligned() });
    list.map(|segment| (direct_map::address(segment.gpa), segment.len as usize)).collect()
}

fn input_of(request: &Submission) -> Vec<u8> {
    let mut bytes = Vec::new();
    if request.in_len == 0 {
        return bytes;
    }
    for (at, len) in segments(request.in_gpa, request.in_len, request.flags & sub_flags::IN_LIST != 0) {
        // SAFETY: keel passes its own memory, which is valid until the completion.
        bytes.extend_from_slice(unsafe { core::slice::from_raw_parts(at as *const u8, len) });
    }
    bytes
}

fn put_output(request: &Submission, output: &[u8]) {
    let mut rest = output;
    if request.out_len == 0 {
        return;
    }
    for (at, len) in segments(request.out_gpa, request.out_len, request.flags & sub_flags::OUT_LIST != 0) {
        let (now, later) = rest.split_at(len.min(rest.len()));
        // SAFETY: as in `input_of`; keel expects writes there.
        unsafe { core::ptr::copy_nonoverlapping(now.as_ptr(), at as *mut u8, now.len()) };
        rest = later;
    }
}

fn complete(id: u64, answer: Result<Reply, i64>) {
    let ring = the_ring();
    let tail = ring.comp_tail.load(Relaxed);
    assert!((tail.wrapping_sub(ring.comp_head.load(Acquire)) as usize) < ENTRIES, "keel takes no completions");
    let completion = match answer {
        Ok(reply) => Completion { id, result: reply.result as i64, extra: reply.extra },
        Err(errno) => Completion { id, result: -errno, extra: [0; 2] },
    };
    let slot = (&raw const ring.completions[tail as usize % ENTRIES]).cast_mut();
    // SAFETY: the slot is free, and keel reads it after the tail was stored.
    unsafe { slot.write_volatile(completion) };
    ring.comp_tail.store(tail.wrapping_add(1), Release);
}

fn next_request() -> Option<Submission> {
    let ring = the_ring();
    let head = ring.sub_head.load(Relaxed);
    if ring.sub_tail.load(Acquire) == head {
        return None;
    }
    let slot = &raw const ring.submissions[head as usize % ENTRIES];
    // SAFETY: keel wrote the entry before it stored the tail.
    let request = unsafe { slot.read_volatile() };
    ring.sub_head.store(head.wrapping_add(1), Release);
    Some(request)
}

fn more_ram(wanted: u64) -> Result<Reply, i64> {
    let now = RAM.get().max(crate::boot::boot_info().ram_bytes);
    let end = (now + wanted.next_multiple_of(abi::layout::LARGE_PAGE_SIZE as u64)).min(RAM_LIMIT);
    if end == now {
        return Err(ENOMEM);
    }
    RAM.set(end);
    Ok(GrowRam { bytes: wanted }.reply(end))
}

fn answer(request: &Submission) -> Answer {
    let input = input_of(request);
    let text = || String::from_utf8_lossy(&input).into_owned();
    match Request::decode(&request.operation()) {
        Err(invalid) => panic!("keel made a malformed request: {invalid:?}"),
        Ok(Request::Pod(PodRequest::Nop(_) | PodRequest::Release(_))) => Some(Ok(Reply::default())),
        Ok(Request::Pod(PodRequest::Exit(Exit { code }))) => harness::end(End::Exited(code, text())),
        Ok(Request::Pod(PodRequest::Crash(Crash {}))) => harness::end(End::Exited(u8::MAX, text())),
        Ok(Request::Pod(PodRequest::GrowRam(GrowRam { bytes }))) => Some(more_ram(bytes)),
        Ok(Request::Stream(StreamRequest::Cancel(Cancel { id }))) => {
            let place = OPEN.borrow().iter().position(|open| *open == id);
            let Some(place) = place else { return Some(Err(ENOENT)) };
            OPEN.borrow_mut().swap_remove(place);
            complete(id, Err(ECANCELED));
            Some(Ok(Reply::default()))
        }
        Ok(_) => {
            let mut output = Vec::new();
            let room = request.out_len as usize;
            let mut monitor = MONITOR.borrow_mut();
            let Some(monitor) = &mut *monitor else { return Some(Err(EIO)) };
            let answer = monitor.serve(&request.operation(), &input, &mut output, room);
            put_output(request, &output);
            answer
        }
    }
}

/// Serves all requests.
pub(crate) fn serve() {
    while let Some(request) = next_request() {
        match answer(&request) {
            Some(answer) => complete(request.id, answer),
            None => OPEN.borrow_mut().push(request.id),
        }
    }
}

/// Submissions are pending: they are served at once.
pub(crate) fn ring() {
    serve();
}

/// No runnable thread: serves requests, and advances time to the next deadline.
pub(crate) fn idle() {
    serve();
    let ring = the_ring();
    if ring.comp_tail.load(Acquire) != ring.comp_head.load(Relaxed) {
        return;
    }
    let deadline = ring.deadline_ns.load(Relaxed);
    if deadline == u64::MAX {
        harness::end(End::Stuck);
    }
    advance_to(deadline);
}

/// Advances the monotonic clock to `ns`.
pub(super) fn advance_to(ns: u64) {
    let now = crate::clock::monotonic_ns();
    set_counter(counter() + ns.saturating_sub(now));
}

/// Whether the monitor would interrupt the program now: at a deadline or tick.
pub(super) fn interrupts() -> bool {
    let ring = the_ring();
    ring.deadline_ns.load(Relaxed) <= crate::clock::monotonic_ns() || ring.tick_wanted.load(Relaxed) != 0
}

/// There is one virtual CPU: no other to interrupt.
pub(crate) fn kick(_cpu: usize) {
    unreachable!("a second virtual CPU")
}

/// There is one virtual CPU: no other to wake.
pub(crate) fn wake(_cpu: usize) {
    unreachable!("a second virtual CPU")
}

/// The machine has one virtual CPU.
pub(crate) fn start(_cpu: usize) {
    unreachable!("a second virtual CPU")
}
