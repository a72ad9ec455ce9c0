//! Signals to `hull` that are forwarded to the pod.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Outcome of forwarding a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// No pod takes signals (yet, or any more).
    Refused,
    /// The pod will take it.
    Sent,
    /// The pod has not taken an earlier signal yet; this one is queued behind it.
    Waiting,
}

/// Makes the monitor serve pending requests and notify keel.
type Waker = Arc<dyn Fn() + Send + Sync>;

/// The queue; one per process, as signals are.
static QUEUE: Mutex<VecDeque<u32>> = Mutex::new(VecDeque::new());
static WAKER: Mutex<Option<Waker>> = Mutex::new(None);
/// The pod subscribed to signals.
static LISTENING: AtomicBool = AtomicBool::new(false);
/// The pod has ended; only its exit code is still to be reported.
static OVER: AtomicBool = AtomicBool::new(false);
/// Whether the queue is not empty; avoids taking the lock.
static ANY: AtomicBool = AtomicBool::new(false);

/// The last signal that the guest took and has not returned; 0: none.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// Maximum length of the queue.
const MAX_WAITING: usize = 64;

fn queue() -> MutexGuard<'static, VecDeque<u32>> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forwards a signal to the pod.
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

/// There is no receiver: not yet, or not any more. After the end of the pod a first signal is dropped, so that it does
/// not replace the pod's exit code; a second one ends `hull`.
fn refused() -> Posted {
    if !OVER.load(Ordering::SeqCst) {
        return Posted::Refused;
    }
    ANY.store(true, Ordering::SeqCst);
    Posted::Waiting
}

/// Whether signals are still queued.
pub fn is_waiting() -> bool {
    ANY.load(Ordering::SeqCst)
}

/// Sets the waker for new signals; `None` at the end of the pod.
pub fn set_waker(waker: Option<Waker>) {
    OVER.store(waker.is_none(), Ordering::SeqCst);
    LISTENING.store(false, Ordering::SeqCst);
    *WAKER.lock().unwrap_or_else(PoisonError::into_inner) = waker;
}

/// The pod subscribes to signals.
pub(super) fn listen() {
    LISTENING.store(true, Ordering::SeqCst);
}

/// Takes the oldest signal.
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

/// Takes the last signal given to the guest: only that one it may return to `hull`.
pub(super) fn forget_given() -> Option<u32> {
    match GIVEN.swap(0, Ordering::SeqCst) {
        0 => None,
        signal => Some(signal),
    }
}
