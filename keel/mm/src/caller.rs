//! Interface of memory management to the running thread.

use super::Mm;
use alloc::rc::Rc;
use sched::Registered;
use uapi::Result;

/// The running thread and its process, implemented by the layer above.
pub trait Caller {
    /// Its address space.
    ///
    /// # Panics
    /// Outside of any thread (early boot).
    fn space(&self) -> Rc<Mm>;
    /// Frees memory when there is none for a page fault at `address`: cached pages, or those of a killed process.
    fn make_room(&self, address: usize);
    /// Checks whether it may lock memory, and `bytes` more than `locked`: CAP_IPC_LOCK or RLIMIT_MEMLOCK. EPERM,
    /// ENOMEM.
    fn may_lock(&self, locked: u64, bytes: u64) -> Result<()>;
    /// Whether it may map the lowest pages: CAP_SYS_RAWIO.
    fn may_map_low(&self) -> bool;
}

/// The implementation.
pub static CALLER: Registered<dyn Caller> = Registered::none();

/// The running thread.
///
/// # Panics
/// During early boot.
pub fn caller() -> &'static dyn Caller {
    CALLER.get()
}
