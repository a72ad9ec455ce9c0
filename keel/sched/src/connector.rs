//! Requests to the monitor that park the calling thread until they complete.
//!
//! keel adapts to the load: while a helper of the monitor polls the ring, keel spins for the completion; otherwise the
//! virtual CPU exits once and the monitor completes as many requests as it can before it re-enters. At a high request
//! rate keel requests polling: the monitor wakes the helper at the next exit if the host has an idle processor.

use super::{Thread, current, posted, try_current, wake};
use crate::wait::{Interrupt, park};
use abi::boot::flags;
use abi::operation::{Encoded, Operation, Payload, Reply, Results};
use abi::request::{Cancel, Exit};
use abi::ring::{Completion, Segment, Submission, sub_flags};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use hal::clock::monotonic_ns;
use hal::ring;
use keel_core::pages::Pages;
use uapi::{Errno, Result};

/// Sends held-back requests.
type Flush = fn();
type Callback = Box<dyn FnOnce(Result<Reply>)>;

/// State of a request.
enum Slot {
    /// Free, and the next free one.
    Free(Option<usize>),
    /// Its completion is being handled.
    Taken,
    /// A thread waits for it (`None`: it spins, not parked).
    Waited(Option<Rc<Thread>>),
    /// A callback.
    Told(Callback),
    /// A callback that may never run.
    Awaited(Callback),
    /// Completed, not consumed yet.
    Answered(Completion),
}

/// Requests by id; an id is reused only after its completion was consumed.
static SLOTS: Global<RefCell<Pages<Slot>>> = Global::new(RefCell::new(Pages::new()));
/// The first free id among them.
static FREE: Global<Cell<Option<usize>>> = Global::new(Cell::new(None));
static UNDER_WAY: Global<Cell<u32>> = Global::new(Cell::new(0));
/// Function that sends held-back requests.
static HELD: Global<Cell<Option<Flush>>> = Global::new(Cell::new(None));
/// Number of requests in the current burst, and the time of the last one.
static BURST: Global<Cell<(u32, u64)>> = Global::new(Cell::new((0, 0)));

/// Maximum gap between a completion and the next request of a burst.
const BURST_GAP_NS: u64 = 3_000_000;
/// Burst length at which a polling helper pays off.
const BURST_LENGTH: u32 = 4;
/// How long keel spins for a polled completion before the thread parks, which costs about half as much.
const SPIN_NS: u64 = 200_000;
/// The same for a request without a waiter (posted).
const SHORT_SPIN_NS: u64 = 20_000;
/// How long it spins before it checks whether another virtual CPU consumed the completion.
const LOOK_NS: u64 = 2_000;

/// An id for a request. It allocates at most pages, for which keel has a reserve: posted requests can return no error.
fn take_slot(slot: Slot) -> u64 {
    let mut slots = SLOTS.borrow_mut();
    UNDER_WAY.set(UNDER_WAY.get() + 1);
    let Some(index) = FREE.get() else {
        ring::make_room(slots.len() + 1);
        slots.push(slot);
        return slots.len() as u64 - 1;
    };
    if let Some(entry) = slots.get_mut(index) {
        if let Slot::Free(next) = entry {
            FREE.set(*next);
        }
        *entry = slot;
    }
    index as u64
}

/// An id can be used again.
fn free_slot(index: usize) {
    if let Some(slot) = SLOTS.borrow_mut().get_mut(index) {
        *slot = Slot::Free(FREE.replace(Some(index)));
    }
}

/// The completion of a request, if it has arrived.
fn take_answer(id: u64) -> Option<Completion> {
    let completion = match SLOTS.borrow().get(id as usize) {
        Some(Slot::Answered(completion)) => *completion,
        _ => return None,
    };
    free_slot(id as usize);
    Some(completion)
}

fn outcome(completion: Completion) -> Result<Reply> {
    Reply::of(&completion).map_err(Errno::from_code)
}

/// The results of an operation.
fn results<O: Operation>(reply: Reply) -> Result<O::Results> {
    O::Results::decode(reply).ok_or(Errno::EIO)
}

/// Puts a request into the ring, after held-back ones.
fn submit(request: &Submission) {
    release();
    ring::set_completions_aside();
    while !ring::submit(request) {
        // Full: the monitor consumes all submissions when it serves the ring.
        ring::serve();
        poll_completions();
    }
}

/// Whether a thread waits for the completion of a request.
pub(super) fn is_under_way() -> bool {
    UNDER_WAY.get() > 0
}

/// Whether a helper should poll, by the request rate.
pub(super) fn wants_polling() -> bool {
    let mode = ring::mode();
    if mode & (flags::DOORBELL_EXIT | flags::DOORBELL_EVENT) != 0 {
        return false;
    }
    if mode & flags::DOORBELL_POLL != 0 {
        return true;
    }
    let now = monotonic_ns();
    let (length, last) = BURST.get();
    let length = if now.saturating_sub(last) < BURST_GAP_NS { length.saturating_add(1) } else { 0 };
    BURST.set((length, now));
    length >= BURST_LENGTH
}

/// Makes the monitor serve a submitted request. `alone`: the caller may hold borrows.
fn ring_for(id: u64, alone: bool) {
    let polling = wants_polling();
    ring::want_polling(polling);
    if ring::is_polled() && spin_for(id, alone) {
        return;
    }
    if ring::mode() & flags::DOORBELL_EVENT != 0 {
        ring::doorbell();
        return;
    }
    if ring::mode() & flags::DOORBELL_POLL != 0 {
        ring::doorbell();
        spin_for(id, alone);
        return;
    }
    if alone {
        ring::serve();
    } else {
        ring::serve_unlocked();
    }
    poll_completions();
}

/// Whether the answer has arrived.
fn is_settled(id: u64) -> bool {
    !matches!(SLOTS.borrow().get(id as usize), Some(Slot::Waited(_) | Slot::Told(_)))
}

/// Spins for a while. Returns false if the helper did not even start, because the host had preempted it. `alone`: the
/// caller may hold borrows.
fn spin_for(id: u64, alone: bool) -> bool {
    let spin = if alone { SHORT_SPIN_NS } else { SPIN_NS };
    let mut until = None;
    loop {
        if alone {
            ring::look_for_completion(LOOK_NS);
        } else {
            hal::smp::without_lock(|| ring::look_for_completion(LOOK_NS));
        }
        poll_completions();
        if is_settled(id) {
            return true;
        }
        let now = monotonic_ns();
        if now >= *until.get_or_insert(now + spin) {
            return !ring::has_submission();
        }
    }
}

/// Until [`let_go`], calls `flush` before the next request of any kind, so that held-back requests are not seen later
/// than that.
pub fn hold(flush: Flush) {
    HELD.set(Some(flush));
}

/// Sends held-back requests.
#[inline]
pub fn release() {
    if let Some(flush) = HELD.take() {
        flush();
    }
}

/// Sends held-back requests and makes the monitor serve them.
pub fn let_go() {
    release();
    if ring::is_polled() {
        return;
    }
    if ring::mode() & (flags::DOORBELL_EVENT | flags::DOORBELL_POLL) != 0 {
        ring::doorbell();
    } else {
        ring::serve();
    }
}

/// Ends the pod: exit code of `hull`, and a line for the user unless it is empty.
pub fn end(code: u8, text: &[u8]) -> ! {
    release();
    ring::end(Exit { code }, text)
}

/// Sends a request with payloads at guest-physical addresses; calls `done` at its completion. Never waits and does not
/// ring the doorbell.
pub fn send<O: Operation>(
    operation: O,
    input: Vec<Segment>,
    output: Vec<Segment>,
    done: impl FnOnce(Result<O::Results>) + 'static,
) {
    send_encoded(operation.encode(), input, output, |outcome| done(outcome.and_then(results::<O>)));
}

/// [`send`] of an encoded operation.
pub fn send_encoded(
    operation: Encoded,
    input: Vec<Segment>,
    output: Vec<Segment>,
    done: impl FnOnce(Result<Reply>) + 'static,
) {
    let (in_flags, in_gpa, in_len) = payload(&input, sub_flags::IN_LIST);
    let (out_flags, out_gpa, out_len) = payload(&output, sub_flags::OUT_LIST);
    let done = move |outcome: Result<Reply>| {
        drop((input, output));
        done(outcome);
    };
    posted::count_request();
    let id = take_slot(Slot::Awaited(Box::new(done)));
    UNDER_WAY.set(UNDER_WAY.get() - 1);
    let request = ring::submission(operation, id, &[], &mut []);
    submit(&Submission { flags: in_flags | out_flags, in_gpa, in_len, out_gpa, out_len, ..request });
}

/// Flags, address and size of a payload. A list must stay valid until the completion.
fn payload(pieces: &[Segment], list: u32) -> (u32, u64, u32) {
    match *pieces {
        [] => (0, 0, 0),
        [Segment { gpa, len }] => (0, gpa, u32::try_from(len).unwrap_or(u32::MAX)),
        _ => (list, ring::gpa_of(bytemuck::cast_slice(pieces)), pieces.len() as u32),
    }
}

/// Sends a request and waits for its completion; signals do not interrupt the wait. Other threads run meanwhile: hold
/// no borrows.
pub fn call<O: Operation>(operation: O, input: &O::Input, output: &mut O::Output) -> Result<O::Results> {
    call_encoded(operation.encode(), input.bytes(), output.bytes_mut()).and_then(results::<O>)
}

/// [`call`] of an encoded operation.
pub fn call_encoded(operation: Encoded, input: &[u8], output: &mut [u8]) -> Result<Reply> {
    let id = take_slot(Slot::Waited(None));
    submit(&ring::submission(operation, id, input, output));
    finish_call(id)
}

fn finish_call(id: u64) -> Result<Reply> {
    ring_for(id, false);
    if let Some(completion) = take_answer(id) {
        answered_on_the_spot();
        return outcome(completion);
    }
    wait_for(id)
}

/// Like [`call`] without input, with several output buffers at guest-physical addresses.
pub fn call_list<O: Operation<Input = ()>>(operation: O, output: &[Segment]) -> Result<O::Results> {
    let id = take_slot(Slot::Waited(None));
    let list: &[u8] = bytemuck::cast_slice(output);
    let out_gpa = if list.is_empty() { 0 } else { ring::gpa_of(list) };
    let out_len = u32::try_from(output.len()).unwrap_or(u32::MAX);
    let request = ring::submission(operation.encode(), id, &[], &mut []);
    submit(&Submission { flags: sub_flags::OUT_LIST, out_gpa, out_len, ..request });
    finish_call(id).and_then(results::<O>)
}

/// The host's service time does not count as a gap within a burst.
fn answered_on_the_spot() {
    let (length, _) = BURST.get();
    BURST.set((length, monotonic_ns()));
}

/// Parks until the completion arrives. The monitor may write to the caller's memory until then, so the wait is not
/// interruptible.
fn wait_for(id: u64) -> Result<Reply> {
    if try_current().is_none() {
        // During boot there is no thread to park.
        loop {
            if let Some(completion) = take_answer(id) {
                return outcome(completion);
            }
            ring::serve();
            poll_completions();
        }
    }
    register_waiter(id);
    let completion = park(None, Interrupt::Never, || take_answer(id))?;
    outcome(completion)
}

fn register_waiter(id: u64) {
    ring::want_kick(true);
    if let Some(slot @ Slot::Waited(_)) = SLOTS.borrow_mut().get_mut(id as usize) {
        *slot = Slot::Waited(Some(current()));
    }
}

/// Like [`call`], for operations that may block for ever (streams): a signal cancels it (ERESTARTSYS).
pub fn call_interruptible<O: Operation>(operation: O, input: &O::Input, output: &mut O::Output) -> Result<O::Results> {
    call_until_signal(operation.encode(), input.bytes(), output.bytes_mut()).and_then(results::<O>)
}

fn call_until_signal(operation: Encoded, input: &[u8], output: &mut [u8]) -> Result<Reply> {
    let id = take_slot(Slot::Waited(None));
    submit(&ring::submission(operation, id, input, output));
    ring_for(id, false);
    if let Some(completion) = take_answer(id) {
        return outcome(completion);
    }
    register_waiter(id);
    match park(None, Interrupt::BySignal, || take_answer(id)) {
        Ok(completion) => outcome(completion),
        Err(interrupted) => {
            // ENOENT if it completed meanwhile; the completion comes in either case.
            let _ = call(Cancel { id }, &(), &mut ());
            match wait_for(id) {
                Err(Errno::ECANCELED) => Err(interrupted),
                other => other,
            }
        }
    }
}

/// Sends a request without payload; calls `done` at its completion (in keel, without any borrow held).
pub fn start<O: Operation>(operation: O, done: impl FnOnce(Result<O::Results>) + 'static) {
    let id = take_slot(Slot::Told(callback::<O>(done)));
    submit(&ring::submission(operation.encode(), id, &[], &mut []));
    ring_for(id, true);
}

/// Like [`start`], for a request that may never complete. The monitor finds it when it serves others: no doorbell is
/// rung.
pub fn start_quietly<O: Operation>(operation: O, done: impl FnOnce(Result<O::Results>) + 'static) {
    let id = take_slot(Slot::Awaited(callback::<O>(done)));
    UNDER_WAY.set(UNDER_WAY.get() - 1);
    submit(&ring::submission(operation.encode(), id, &[], &mut []));
}

/// Like [`start_quietly`], for a request whose completion means nothing to anybody.
pub fn post(operation: Encoded) {
    let id = take_slot(Slot::Awaited(Box::new(|_| {})));
    UNDER_WAY.set(UNDER_WAY.get() - 1);
    submit(&ring::submission(operation, id, &[], &mut []));
}

fn callback<O: Operation>(done: impl FnOnce(Result<O::Results>) + 'static) -> Callback {
    Box::new(move |outcome| done(outcome.and_then(results::<O>)))
}

/// Consumes completions and wakes their waiters.
pub fn poll_completions() {
    while let Some(completion) = ring::take_completion() {
        answer(completion);
    }
    posted::update_kicks();
    posted::run_pumps();
}

fn answer(completion: Completion) {
    let index = completion.id as usize;
    let slot = match SLOTS.borrow_mut().get_mut(index) {
        Some(slot) => core::mem::replace(slot, Slot::Taken),
        None => return,
    };
    match slot {
        Slot::Waited(task) => {
            UNDER_WAY.set(UNDER_WAY.get() - 1);
            if let Some(slot) = SLOTS.borrow_mut().get_mut(index) {
                *slot = Slot::Answered(completion);
            }
            if let Some(task) = task {
                wake(&task);
            }
        }
        Slot::Told(done) => {
            free_slot(index);
            UNDER_WAY.set(UNDER_WAY.get() - 1);
            done(outcome(completion));
        }
        Slot::Awaited(done) => {
            free_slot(index);
            done(outcome(completion));
        }
        // Ignore other completions: the monitor completes each request once.
        other => {
            if let Some(slot) = SLOTS.borrow_mut().get_mut(index) {
                *slot = other;
            }
        }
    }
}
