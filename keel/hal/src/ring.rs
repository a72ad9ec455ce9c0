//! Keel's end of the connector ring, and its notification modes.
#![allow(unsafe_code)]

use crate::cell::Global;
use crate::instructions::counter;
use crate::percpu;
use crate::{direct_map, doorbell as bell};
use abi::layout::RING;
use abi::operation::{Encoded, Operation, Reply, Results};
use abi::ring::{Completion, ENTRIES, Ring, Submission, server_state};
use core::cell::{Cell, RefCell};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use keel_core::pages::Pages;

/// Id of requests of [`call_now`]; the kernel above uses smaller ones.
const OWN_ID: u64 = u64::MAX;

/// Completions of other requests that [`call_now`] consumed. It never grows there, because the caller may be the allocator:
/// [`make_room`] does.
static PASSED: Global<RefCell<Passed>> = Global::new(RefCell::new(Passed { items: Pages::new(), start: 0, end: 0 }));
/// Number of window page losses handled so far.
static LOSSES: AtomicU32 = AtomicU32::new(0);
static MODE: Global<Cell<u64>> = Global::new(Cell::new(0));

/// A queue in the list `items`, all of which is room.
struct Passed {
    items: Pages<Completion>,
    start: usize,
    end: usize,
}

impl Passed {
    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn has_room(&self) -> bool {
        self.end - self.start < self.items.len()
    }

    /// Adds a completion. False: there is no room.
    fn push(&mut self, completion: Completion) -> bool {
        if self.end == self.items.len() {
            for (to, from) in (self.start..self.end).enumerate() {
                let moved = self.items.get(from).copied().unwrap_or_default();
                if let Some(item) = self.items.get_mut(to) {
                    *item = moved;
                }
            }
            (self.start, self.end) = (0, self.end - self.start);
        }
        let Some(item) = self.items.get_mut(self.end) else { return false };
        *item = completion;
        self.end += 1;
        true
    }

    fn pop(&mut self) -> Option<Completion> {
        if self.is_empty() {
            return None;
        }
        let first = self.items.get(self.start).copied();
        self.start += 1;
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
        first
    }
}

fn ring() -> &'static Ring {
    // SAFETY: the monitor reserved and zeroed the ring before boot; its indices are atomics.
    unsafe { &*(direct_map::address(RING as u64) as *const Ring) }
}

/// Sets the notification mode (boot).
pub(crate) fn init(flags: u64) {
    MODE.set(flags);
}

/// A request with payloads in memory that [`gpa_of`] accepts.
pub fn submission(operation: Encoded, id: u64, input: &[u8], output: &mut [u8]) -> Submission {
    Submission {
        op: operation.number,
        flags: 0,
        id,
        arguments: operation.arguments,
        in_gpa: if input.is_empty() { 0 } else { gpa_of(input) },
        out_gpa: if output.is_empty() { 0 } else { gpa_of_mut(output) },
        in_len: u32::try_from(input.len()).unwrap_or(u32::MAX),
        out_len: u32::try_from(output.len()).unwrap_or(u32::MAX),
    }
}

/// Makes room for the completions of as many requests, which must be done before so many are under way. A page at a
/// time: no error can be returned.
pub fn make_room(requests: usize) {
    while PASSED.borrow().items.len() < requests {
        // Not while it is borrowed: the allocator may need `call_now`, for which the old room still suffices.
        if PASSED.borrow().items.is_crowded() {
            let pieces = PASSED.borrow().items.pieces();
            let larger = alloc::vec::Vec::with_capacity(2 * pieces.max(4));
            let old = PASSED.borrow_mut().items.move_to(larger);
            drop(old);
        }
        let piece = alloc::vec![Completion::default(); Pages::<Completion>::MOST];
        PASSED.borrow_mut().items.push_piece(piece);
    }
}

/// Puts a request into the ring without a notification. `false` if the ring is full.
pub fn submit(request: &Submission) -> bool {
    let ring = ring();
    let tail = ring.sub_tail.load(Relaxed);
    if tail.wrapping_sub(ring.sub_head.load(Acquire)) as usize >= ENTRIES {
        return false;
    }
    let slot = (&raw const ring.submissions[tail as usize % ENTRIES]).cast_mut();
    // SAFETY: the slot is free (checked above) and only keel writes submissions, under the big lock;
    // the monitor reads it after the release below.
    unsafe { slot.write_volatile(*request) };
    ring.sub_tail.store(tail.wrapping_add(1), SeqCst);
    true
}

fn take_from_ring() -> Option<Completion> {
    let ring = ring();
    let head = ring.comp_head.load(Relaxed);
    if ring.comp_tail.load(Acquire) == head {
        return None;
    }
    let slot = &raw const ring.completions[head as usize % ENTRIES];
    // SAFETY: the monitor wrote the entry before it published the tail.
    let completion = unsafe { slot.read_volatile() };
    ring.comp_head.store(head.wrapping_add(1), Release);
    Some(completion)
}

/// Moves the completions out of the ring when they fill half of it; [`take_completion`] returns them. Requests without a
/// waiter can be many before a thread consumes their completions, and the monitor ends a pod that leaves too many in the
/// ring.
#[inline]
pub fn set_completions_aside() {
    let ring = ring();
    let pending = ring.comp_tail.load(Relaxed).wrapping_sub(ring.comp_head.load(Relaxed));
    if pending as usize >= ENTRIES / 2 {
        let mut passed = PASSED.borrow_mut();
        while passed.has_room()
            && let Some(completion) = take_from_ring()
        {
            passed.push(completion);
        }
    }
}

/// Takes the next completion.
#[inline]
pub fn take_completion() -> Option<Completion> {
    if ring().comp_tail.load(Acquire) == ring().comp_head.load(Relaxed) && PASSED.borrow().is_empty() {
        return None;
    }
    let passed = PASSED.borrow_mut().pop();
    passed.or_else(take_from_ring)
}

/// Whether a completion is pending.
pub fn has_completion() -> bool {
    ring().comp_tail.load(Acquire) != ring().comp_head.load(Relaxed) || !PASSED.borrow().is_empty()
}

/// Rings the doorbell unless a helper polls: the virtual CPU continues.
pub fn doorbell() {
    if !is_polled() {
        bell::ring();
    }
}

/// Exits once so that the monitor serves the ring; returns afterwards.
pub fn serve() {
    bell::serve();
}

/// Like [`serve`], while other virtual CPUs may enter keel: the caller must hold no borrows.
pub fn serve_unlocked() {
    crate::smp::without_lock(serve);
}

/// Polls for work for `ns`, without the lock: until this virtual CPU is nudged, or threads without affinity mask have
/// been queued for `patience_ns`. Returns whether there is work.
pub fn poll_for_work(ns: u64, patience_ns: u64) -> bool {
    let ring = ring();
    let (ticks, patience) = (crate::clock::ticks(ns), crate::clock::ticks(patience_ns));
    crate::smp::without_lock(|| {
        let start = counter();
        let mut seen = (0, start);
        loop {
            let now = counter();
            for _ in 0..4 {
                if percpu::work_pending() {
                    return true;
                }
                core::hint::spin_loop();
            }
            let waiting = ring.waiting.load(Relaxed);
            if waiting != seen.0 {
                seen = (waiting, now);
            } else if waiting & 1 != 0 && now.wrapping_sub(seen.1) >= patience {
                return true;
            }
            if now.wrapping_sub(start) >= ticks {
                return false;
            }
        }
    })
}

/// Spins for a completion for at most `ns`.
pub fn look_for_completion(ns: u64) {
    let ring = ring();
    let ticks = crate::clock::ticks(ns);
    let start = counter();
    while counter().wrapping_sub(start) < ticks {
        for _ in 0..8 {
            if ring.comp_tail.load(Relaxed) != ring.comp_head.load(Relaxed) {
                return;
            }
            core::hint::spin_loop();
        }
    }
}

/// Nothing can run: waits in the guest for a completion or work for this virtual CPU, for at most `ns` and only while a thread of the
/// monitor attends to the ring or to what requests wait for. `None`: nobody attends. If there is work, the caller consumes completions next and
/// calls [`want_kick`].
pub fn linger(ns: u64) -> Option<bool> {
    let ring = ring();
    // This virtual CPU looks itself.
    let kick = ring.kick_wanted.swap(0, SeqCst);
    ring.lingering.store(1, SeqCst);
    let ticks = crate::clock::ticks(ns);
    let start = counter();
    let found = loop {
        for _ in 0..8 {
            if ring.comp_tail.load(Relaxed) != ring.comp_head.load(Relaxed) || percpu::work_pending() {
                break;
            }
            core::hint::spin_loop();
        }
        if has_completion() || percpu::work_pending() {
            break Some(true);
        }
        if ring.server.load(SeqCst) != server_state::POLLING && (ring.watching.load(SeqCst) == 0 || has_submission()) {
            break None;
        }
        if counter().wrapping_sub(start) >= ticks {
            break Some(false);
        }
    };
    ring.lingering.store(0, SeqCst);
    if found != Some(true) {
        ring.kick_wanted.store(kick, SeqCst);
    }
    found
}

/// Whether a submission is pending.
pub fn has_submission() -> bool {
    ring().sub_head.load(Acquire) != ring().sub_tail.load(Relaxed)
}

/// No runnable thread: exits until a completion, a kick, or the deadline (`CLOCK_MONOTONIC` ns). Returns at once if a
/// completion is pending.
pub fn idle(deadline_ns: Option<u64>) {
    ring().deadline_ns.store(deadline_ns.unwrap_or(u64::MAX), SeqCst);
    if !has_completion() && !percpu::work_pending() {
        crate::smp::without_lock(bell::idle);
    }
}

/// Sets when the monitor should interrupt a running program (`None`: never).
///
/// Sleeping host threads see an earlier deadline only after the doorbell: it is rung if none of them checks in time.
/// Call it whenever a program continues, because the thread that would have checked may have left.
#[inline]
pub fn set_deadline(deadline_ns: Option<u64>) {
    let ring = ring();
    let deadline = deadline_ns.unwrap_or(u64::MAX);
    if ring.deadline_ns.load(Relaxed) != deadline {
        ring.deadline_ns.store(deadline, SeqCst);
    }
    if deadline < ring.helper_looks_ns.load(SeqCst) && deadline < ring.duty_looks_ns.load(SeqCst) {
        call_helper();
    }
}

/// Makes the helper check for work.
#[cold]
fn call_helper() {
    ring().helper_looks_ns.store(0, SeqCst);
    bell::ring();
}

/// Requests or cancels the tick (10 ms).
pub fn set_tick(on: bool) {
    let ring = ring();
    let value = u32::from(on);
    if ring.tick_wanted.load(Relaxed) != value {
        ring.tick_wanted.store(value, SeqCst);
        if on && ring.helper_looks_ns.load(SeqCst) != 0 {
            call_helper();
        }
    }
}

/// Publishes whether threads without affinity mask are queued.
pub fn set_waiting(on: bool) {
    let waiting = &ring().waiting;
    let value = waiting.load(Relaxed);
    if (value & 1 != 0) != on {
        waiting.store(value.wrapping_add(1), SeqCst);
    }
}

/// Notifies the monitor that RAM below `end` is used from now on, so that it can populate the following pages.
pub(crate) fn set_ram_used(end: u64) {
    if ring().ram_used.load(Relaxed) < end {
        ring().ram_used.store(end, SeqCst);
    }
}

/// Whether threads were queued for long while all virtual CPUs were busy; clears the flag.
pub fn take_overdue() -> bool {
    let overdue = &ring().overdue;
    overdue.load(Relaxed) != 0 && overdue.swap(0, SeqCst) != 0
}

/// Whether a helper polls the ring.
#[inline]
pub fn is_polled() -> bool {
    ring().server.load(SeqCst) == server_state::POLLING
}

/// A reading of the host's clocks: see [`abi::ring::HostClocks`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostClocks {
    pub sequence: u32,
    pub tsc: u64,
    pub monotonic_ns: u64,
    pub realtime_ns: u64,
    pub boottime_ns: u64,
}

/// The last reading of the host's clocks; `None` if there is none or the monitor is writing it.
pub(crate) fn host_clocks() -> Option<HostClocks> {
    let clocks = &ring().clocks;
    let sequence = clocks.sequence.load(Acquire);
    let reading = HostClocks {
        sequence,
        tsc: clocks.tsc.load(Acquire),
        monotonic_ns: clocks.monotonic_ns.load(Acquire),
        realtime_ns: clocks.realtime_ns.load(Acquire),
        boottime_ns: clocks.boottime_ns.load(Acquire),
    };
    (sequence != 0 && sequence & 1 == 0 && clocks.sequence.load(Acquire) == sequence).then_some(reading)
}

/// Whether pages of the window were lost since the last [`take_losses`].
#[inline]
pub fn has_losses() -> bool {
    ring().losses.load(Relaxed) != LOSSES.load(Relaxed)
}

/// Marks the current losses as handled.
pub fn take_losses() {
    LOSSES.store(ring().losses.load(Relaxed), Relaxed);
}

/// Sets whether a completion must interrupt the running program.
pub fn want_kick(on: bool) {
    let ring = ring();
    let value = u32::from(on);
    if ring.kick_wanted.load(Relaxed) != value {
        ring.kick_wanted.store(value, SeqCst);
    }
}

/// Requests polling by the helper, or cancels the request.
pub fn want_polling(on: bool) {
    let ring = ring();
    let value = u32::from(on);
    if ring.poll_wanted.load(Relaxed) != value {
        ring.poll_wanted.store(value, SeqCst);
    }
}

/// The [`abi::boot::flags`] of the notification mode.
pub fn mode() -> u64 {
    MODE.get()
}

/// Guest-physical address of keel memory that the monitor reads: heap and statics, in the direct map, or a thread's
/// stack, which is contiguous.
pub fn gpa_of(bytes: &[u8]) -> u64 {
    gpa_of_address(bytes.as_ptr().expose_provenance())
}

/// The same for memory that the monitor writes. A shared borrow would be wrong: the compiler may assume that no store
/// happens through an address derived from one, and reuse the old content.
pub fn gpa_of_mut(bytes: &mut [u8]) -> u64 {
    gpa_of_address(bytes.as_mut_ptr().expose_provenance())
}

fn gpa_of_address(address: usize) -> u64 {
    if crate::stacks::is_in_area(address) { crate::stacks::gpa_of(address) } else { direct_map::gpa(address) }
}

/// A request of hal itself, without payload; waits for its completion: the results, or `None` on any error. Other
/// completions are kept for [`take_completion`].
pub(crate) fn call_now<O: Operation>(operation: O) -> Option<O::Results> {
    let request = submission(operation.encode(), OWN_ID, &[], &mut []);
    while !submit(&request) {
        serve();
    }
    loop {
        match take_from_ring() {
            Some(c) if c.id == OWN_ID => return Reply::of(&c).ok().and_then(O::Results::decode),
            Some(other) => {
                let has_room = PASSED.borrow_mut().push(other);
                assert!(has_room, "a completion without a request");
            }
            None => serve(),
        }
    }
}

/// Ends the pod by [`abi::request::Exit`] or [`abi::request::Crash`], with a text for the user. Never returns.
pub fn end<O: Operation<Input = [u8]>>(operation: O, text: &[u8]) -> ! {
    let request = submission(operation.encode(), OWN_ID, text, &mut []);
    loop {
        submit(&request);
        serve();
    }
}
