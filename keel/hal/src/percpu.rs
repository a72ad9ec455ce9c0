//! Per-CPU data of keel, reached through the GS base.

/// Asks keel to look around before it returns to a program: signals, another thread to run, the
/// ring. Checked with one load at every exit.
pub fn set_work_pending() {
    imp::set_work_pending()
}

/// Takes the request back; returns whether it stood.
pub fn take_work_pending() -> bool {
    imp::take_work_pending()
}

/// Whether work is pending.
pub fn work_pending() -> bool {
    imp::work_pending()
}

/// Index of this virtual CPU.
pub fn cpu_index() -> usize {
    imp::cpu_index()
}

pub(crate) mod imp {
    pub fn set_work_pending() { todo!() }
    pub fn take_work_pending() -> bool { todo!() }
    pub fn work_pending() -> bool { todo!() }
    pub fn cpu_index() -> usize { todo!() }
}
