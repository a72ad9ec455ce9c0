//! Requests to the monitor that park the calling thread until they complete.
//!
//! How a request is served follows the load: while a helper of the monitor polls the ring, keel waits
//! for its answer on the spot; otherwise the virtual CPU exits once and the monitor answers what it
//! can before it re-enters. Dense requests ask the helper to poll: the monitor wakes it at the next exit if
//! the host has a processor for it.

use super::{Thread, current, try_current, wake};
use crate::sched::wait::{Interrupt, park};
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
use uapi::{Errno, Result};

/// Sends requests that were held back.
type Flush = fn();
type Callback = Box<dyn FnOnce(Result<Reply>)>;

/// What is known of a request under way.
enum Slot {
    Free,
    /// A thread waits for it (`None`: on the spot, not parked).
    Waited(Option<Rc<Thread>>),
    /// A callback.
    Told(Callback),
    /// A callback, which may never run.
    Awaited(Callback),
    /// Answered, not yet taken.
    Answered(Completion),
}

/// Requests by id; an id is used again only after its answer was taken.
static SLOTS: Global<RefCell<Vec<Slot>>> = Global::new(RefCell::new(Vec::new()));
static UNDER_WAY: Global<Cell<u32>> = Global::new(Cell::new(0));
/// What sends requests that are held back.
static HELD: Global<Cell<Option<Flush>>> = Global::new(Cell::new(None));
/// Requests that came soon after the one before, and when the last one came.
static BURST: Global<Cell<(u32, u64)>> = Global::new(Cell::new((0, 0)));

/// Requests that come so soon after the answer before them belong to a burst.
const BURST_GAP_NS: u64 = 3_000_000;
/// Length of a burst from which a polling helper pays.
const BURST_LENGTH: u32 = 4;
/// How long keel waits on the spot for a polled answer before the thread parks, which costs about half as much.
const SPIN_NS: u64 = 200_000;
/// The same for a request without a waiter (posted).
const SHORT_SPIN_NS: u64 = 20_000;
/// How long it waits without looking whether another virtual CPU took the answer.
const LOOK_NS: u64 = 2_000;

fn take_slot(slot: Slot) -> u64 {
    let mut slots = SLOTS.borrow_mut();
    UNDER_WAY.set(UNDER_WAY.get() + 1);
    let free = slots.iter().position(|s| matches!(s, Slot::Free));
    let index = free.unwrap_or(slots.len());
    match slots.get_mut(index) {
        Some(entry) => *entry = slot,
        None => slots.push(slot),
    }
    index as u64
}

/// The answer to a request, if it came.
fn take_answer(id: u64) -> Option<Completion> {
    let mut slots = SLOTS.borrow_mut();
    let slot = slots.get_mut(id as usize)?;
    match slot {
        Slot::Answered(completion) => {
            let completion = *completion;
            *slot = Slot::Free;
            Some(completion)
        }
        _ => None,
    }
}

fn outcome(completion: Completion) -> Result<Reply> {
    Reply::of(&completion).map_err(Errno::from_code)
}

/// The results of an operation.
fn results<O: Operation>(reply: Reply) -> Result<O::Results> {
    O::Results::decode(reply).ok_or(Errno::EIO)
}

/// Puts a request into the ring, behind what is held back.
fn submit(request: &Submission) {
    release();
    while !ring::submit(request) {
        // Full: the monitor takes everything when it serves.
        ring::serve();
        poll_completions();
    }
}

/// Whether a helper should poll, by the density of requests.
fn wants_polling() -> bool {
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

/// Gets a submitted request served. `alone`: the caller may hold borrows.
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

/// Waits on the spot for a while. False if the helper did not even begin: the host gave its processor to others.
/// `alone`: the caller may hold borrows.
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

/// Until [`let_go`], what `flush` sends is sent before the next request of any kind: it must not be seen later than that.
pub fn hold(flush: Flush) {
    HELD.set(Some(flush));
}

/// Sends what is held back.
#[inline]
pub fn release() {
    if let Some(flush) = HELD.take() {
        flush();
    }
}

/// Sends what is held back, and has it served.
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

/// Sends a request whose payloads are given by where they lie in guest memory; `done` is called at its completion. Never
/// waits and rings no doorbell.
pub fn send<O: Operation>(
    operation: O,
    input: Vec<Segment>,
    output: (u64, u32),
    done: impl FnOnce(Result<O::Results>) + 'static,
) {
    let (flags, in_gpa, in_len) = match *input {
        [] => (0, 0, 0),
        [Segment { gpa, len }] => (0, gpa, u32::try_from(len).unwrap_or(u32::MAX)),
        // The list stays until the answer came.
        _ => (sub_flags::IN_LIST, ring::gpa_of(bytemuck::cast_slice(&input)), input.len() as u32),
    };
    let done = move |outcome: Result<Reply>| {
        drop(input);
        done(outcome.and_then(results::<O>));
    };
    let id = take_slot(Slot::Awaited(Box::new(done)));
    UNDER_WAY.set(UNDER_WAY.get() - 1);
    let request = ring::submission(operation.encode(), id, &[], &mut []);
    submit(&Submission { flags, in_gpa, in_len, out_gpa: output.0, out_len: output.1, ..request });
}

/// Sends a request and waits for its completion. Other threads run meanwhile: hold no borrows.
/// Not interrupted by signals.
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

/// Like [`call`] without input, with the output in several pieces: where they lie in guest memory.
pub fn call_list<O: Operation<Input = ()>>(operation: O, output: &[Segment]) -> Result<O::Results> {
    let id = take_slot(Slot::Waited(None));
    let list: &[u8] = bytemuck::cast_slice(output);
    let out_gpa = if list.is_empty() { 0 } else { ring::gpa_of(list) };
    let out_len = u32::try_from(output.len()).unwrap_or(u32::MAX);
    let request = ring::submission(operation.encode(), id, &[], &mut []);
    submit(&Submission { flags: sub_flags::OUT_LIST, out_gpa, out_len, ..request });
    finish_call(id).and_then(results::<O>)
}

/// What the host took does not count between the requests of a burst.
fn answered_on_the_spot() {
    let (length, _) = BURST.get();
    BURST.set((length, monotonic_ns()));
}

/// Parks until the answer is there. The monitor may write to the caller's memory until then, so
/// nothing ends this early.
fn wait_for(id: u64) -> Result<Reply> {
    if try_current().is_none() {
        // While keel boots there is no thread to park.
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

/// Like [`call`] for operations that may take forever (streams): a signal cancels it (ERESTARTSYS).
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
            // ENOENT if it completed meanwhile; the answer comes in either case.
            let _ = call(Cancel { id }, &(), &mut ());
            match wait_for(id) {
                Err(Errno::ECANCELED) => Err(interrupted),
                other => other,
            }
        }
    }
}

/// Sends a request without payload whose completion is given to `done` later (in keel, outside any
/// borrow).
pub fn start<O: Operation>(operation: O, done: impl FnOnce(Result<O::Results>) + 'static) {
    let id = take_slot(Slot::Told(callback::<O>(done)));
    submit(&ring::submission(operation.encode(), id, &[], &mut []));
    ring_for(id, true);
}

/// Like [`start`] for what may never complete. The monitor finds the request when it serves others, and
/// nobody is disturbed while it waits.
pub fn start_quietly<O: Operation>(operation: O, done: impl FnOnce(Result<O::Results>) + 'static) {
    let id = take_slot(Slot::Awaited(callback::<O>(done)));
    UNDER_WAY.set(UNDER_WAY.get() - 1);
    submit(&ring::submission(operation.encode(), id, &[], &mut []));
}

fn callback<O: Operation>(done: impl FnOnce(Result<O::Results>) + 'static) -> Callback {
    Box::new(move |outcome| done(outcome.and_then(results::<O>)))
}

/// Takes completions out of the ring and wakes their waiters.
pub fn poll_completions() {
    while let Some(completion) = ring::take_completion() {
        answer(completion);
    }
    if UNDER_WAY.get() == 0 {
        ring::want_kick(false);
    }
}

fn answer(completion: Completion) {
    let index = completion.id as usize;
    let slot = match SLOTS.borrow_mut().get_mut(index) {
        Some(slot) => core::mem::replace(slot, Slot::Free),
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
            UNDER_WAY.set(UNDER_WAY.get() - 1);
            done(outcome(completion));
        }
        Slot::Awaited(done) => done(outcome(completion)),
        // The monitor completes each request once; other completions are ignored.
        other => {
            if let Some(slot) = SLOTS.borrow_mut().get_mut(index) {
                *slot = other;
            }
        }
    }
}
