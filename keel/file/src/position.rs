//! One call at a time uses the position of a description, as Linux's `f_pos_lock` has it: processes that share a
//! description write one after the other, also where a write waits for the host.
//!
//! Calls without the big lock move the position of a regular file too, see [`Regular`]: then [`File::pos`] is valid while
//! the lock is held.

use super::File;
use super::unlocked::Regular;
use alloc::rc::Rc;
use core::cell::{Cell, OnceCell};
use hal::cell::Global;
use hal::sync::several;
use sched::wait::{Interrupt, WaitQueue, wait_until};
use uapi::Result;

/// Threads that wait for any of the locks: they are rare.
static WAITING: Global<OnceCell<Rc<WaitQueue>>> = Global::new(OnceCell::new());

/// Whether a call uses the position now.
#[derive(Debug, Default)]
pub struct PositionLock(Cell<bool>);

impl PositionLock {
    /// Whether a call that has the big lock, or waits, uses the position.
    pub fn is_held(&self) -> bool {
        self.0.get()
    }
}

impl File {
    /// Waits for its turn with the position. ERESTARTSYS when the thread is killed meanwhile.
    #[inline(always)]
    pub fn lock_position(&self) -> Result<PositionGuard<'_>> {
        if self.pos_lock.0.replace(true) {
            self.wait_for_position()?;
        }
        if several() {
            self.hold_shared();
        }
        Ok(PositionGuard(self))
    }

    #[cold]
    fn wait_for_position(&self) -> Result<()> {
        let queue = WAITING.get_or_init(Rc::default);
        let free = || (!self.pos_lock.0.replace(true)).then_some(());
        wait_until(core::slice::from_ref(queue), None, Interrupt::ByKill, free)
    }

    #[cold]
    fn hold_shared(&self) {
        if let Some(shared) = self.shared_position() {
            self.pos.set(shared.hold());
        }
    }

    /// The position goes back to calls without the big lock. There is no way without it that the lock was not taken with:
    /// none is made meanwhile.
    #[cold]
    fn release_shared(&self) {
        if let Some(shared) = self.shared_position() {
            shared.release(self.pos.get());
        }
    }

    /// The position, without waiting.
    pub fn position(&self) -> u64 {
        match self.shared_position() {
            Some(shared) if !self.pos_lock.is_held() => shared.position(),
            _ => self.pos.get(),
        }
    }

    fn shared_position(&self) -> Option<&Regular> {
        self.unlocked.get()?.regular()
    }
}

/// The turn, until it is dropped.
#[derive(Debug)]
pub struct PositionGuard<'a>(&'a File);

impl Drop for PositionGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if several() {
            self.0.release_shared();
        }
        self.0.pos_lock.0.set(false);
        if let Some(queue) = WAITING.get() {
            queue.wake_all();
        }
    }
}
