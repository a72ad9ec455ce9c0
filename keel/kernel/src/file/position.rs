//! One call at a time uses the position of a description, as Linux's `f_pos_lock` has it: processes that share a
//! description write one after the other, also where a write waits for the host.

use crate::sched::wait::{Interrupt, WaitQueue, wait_until};
use alloc::rc::Rc;
use core::cell::{Cell, OnceCell};
use hal::cell::Global;
use uapi::Result;

/// Threads that wait for any of the locks: they are rare.
static WAITING: Global<OnceCell<Rc<WaitQueue>>> = Global::new(OnceCell::new());

/// Whether a call uses the position now.
#[derive(Debug, Default)]
pub struct PositionLock(Cell<bool>);

impl PositionLock {
    /// Waits for its turn. ERESTARTSYS when the thread is killed meanwhile.
    #[inline]
    pub fn lock(&self) -> Result<PositionGuard<'_>> {
        if self.0.replace(true) {
            let queue = WAITING.get_or_init(Rc::default);
            let free = || (!self.0.replace(true)).then_some(());
            wait_until(core::slice::from_ref(queue), None, Interrupt::ByKill, free)?;
        }
        Ok(PositionGuard(self))
    }
}

/// The turn, until it is dropped.
#[derive(Debug)]
pub struct PositionGuard<'a>(&'a PositionLock);

impl Drop for PositionGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.set(false);
        if let Some(queue) = WAITING.get() {
            queue.wake_all();
        }
    }
}
