//! Signals that the user sends to `hull` and that the pod gets.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// There is no pod that takes signals (yet, or any more).
    Refused,
    /// It is on its way.
    Sent,
    /// The pod has not taken an earlier one yet; this one waits behind it.
    Waiting,
}

/// Gets the requests of the pod served and the pod told.
type Waker = Arc<dyn Fn() + Send + Sync>;

/// One per process, as signals are.
static QUEUE: Mutex<VecDeque<u32>> = Mutex::new(VecDeque::new());
static WAKER: Mutex<Option<Waker>> = Mutex::new(None);
/// The pod subscribed to signals.
static LISTENING: AtomicBool = AtomicBool::new(false);
/// The pod is over: its exit code is what remains to be told.
static OVER: AtomicBool = AtomicBool::new(false);
/// The queue is not empty: spares others the lock.
static ANY: AtomicBool = AtomicBool::new(false);

/// What the guest was given last and did not answer for yet; 0: nothing.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// Most signals that wait.
const MAX_WAITING: usize = 64;

fn queue() -> MutexGuard<'static, VecDeque<u32>> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes a signal to the pod.
pub fn post(signal: u32) -> Posted {
    let waker = WAKER.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(waker) = waker else { return refused() };
    {
        let mut queue = queue();
        if queue.len() < MAX_WAITING {
            queue.push_back(signal);
        }
        ANY.store(true, Ordering::SeqCst);
    }
    waker();
    if !LISTENING.load(Ordering::SeqCst) {
        queue().clear();
        ANY.store(false, Ordering::SeqCst);
        return refused();
    }
    if is_waiting() { Posted::Waiting } else { Posted::Sent }
}

/// There is no receiver: not yet, or not any more. In the latter case a signal must not take the place of the pod's exit
/// code, unless it comes again because that does not appear.
fn refused() -> Posted {
    if !OVER.load(Ordering::SeqCst) {
        return Posted::Refused;
    }
    ANY.store(true, Ordering::SeqCst);
    Posted::Waiting
}

/// Whether the pod has not taken all signals yet.
pub fn is_waiting() -> bool {
    ANY.load(Ordering::SeqCst)
}

/// Sets what gets the pod told of a signal; `None` when it is over.
pub fn set_waker(waker: Option<Waker>) {
    OVER.store(waker.is_none(), Ordering::SeqCst);
    LISTENING.store(false, Ordering::SeqCst);
    *WAKER.lock().unwrap_or_else(PoisonError::into_inner) = waker;
}

/// The pod waits for signals.
pub(super) fn listen() {
    LISTENING.store(true, Ordering::SeqCst);
}

/// The oldest signal.
pub(super) fn take() -> Option<u32> {
    if !is_waiting() {
        return None;
    }
    let mut queue = queue();
    let signal = queue.pop_front();
    ANY.store(!queue.is_empty(), Ordering::SeqCst);
    GIVEN.store(signal.unwrap_or(0), Ordering::SeqCst);
    signal
}

/// The signal that the guest was given last, asked once: whether it may leave it to `hull`.
pub(super) fn forget_given() -> Option<u32> {
    match GIVEN.swap(0, Ordering::SeqCst) {
        0 => None,
        signal => Some(signal),
    }
}
