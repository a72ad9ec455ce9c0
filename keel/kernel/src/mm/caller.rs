//! What memory asks of the thread that runs, which it knows nothing else of.

use super::Mm;
use alloc::rc::Rc;
use core::cell::Cell;
use hal::cell::Global;
use uapi::Result;

/// The running thread and its process, from the layer above.
pub trait Caller {
    /// Its address space.
    ///
    /// # Panics
    /// Outside of any thread (early boot).
    fn space(&self) -> Rc<Mm>;
    /// Makes room when memory is used up: ends a process.
    fn make_room(&self);
    /// Whether it may lock memory at all, and `bytes` more of `locked`: CAP_IPC_LOCK or RLIMIT_MEMLOCK. EPERM, ENOMEM.
    fn may_lock(&self, locked: u64, bytes: u64) -> Result<()>;
    /// Whether it may map the lowest pages: CAP_SYS_RAWIO.
    fn may_map_low(&self) -> bool;
}

static CALLER: Global<Cell<Option<&'static dyn Caller>>> = Global::new(Cell::new(None));

/// Names the implementation (boot).
pub fn register(caller: &'static dyn Caller) {
    CALLER.set(Some(caller));
}

/// The running thread.
///
/// # Panics
/// During early boot.
pub fn caller() -> &'static dyn Caller {
    match CALLER.get() {
        Some(caller) => caller,
        None => unreachable!("no thread runs yet"),
    }
}
