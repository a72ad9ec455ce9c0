//! Interface of open files to the running thread.

use super::{FdTable, File};
use crate::cred::Cred;
use crate::siginfo::SigInfo;
use alloc::rc::Rc;
use core::any::Any;
use sched::Registered;
use uapi::{Errno, Result};

/// A process, also after its end.
pub type ProcessRef = Rc<dyn Any>;

/// The running thread and its process, and the processes that files name, from the layer above.
pub trait Caller {
    /// Its credentials.
    fn cred(&self) -> Rc<Cred>;
    /// The id of its process, in the first PID namespace.
    fn pid(&self) -> i32;
    /// The id in the first PID namespace of a positive id that it uses.
    fn named(&self, id: i32) -> i32;
    /// The id that it sees for one of the first PID namespace; 0: none.
    fn shown(&self, id: i32) -> i32;
    /// Its soft limit, getrlimit(2); `u64::MAX` is unlimited, as before the first process exists.
    fn limit(&self, resource: u32) -> u64;
    /// The description behind one of its descriptors, `O_PATH` too. EBADF.
    fn file(&self, fd: i32) -> Result<Rc<File>>;
    /// Puts a description at its lowest free descriptor and writes the number to the program; undone if that fails. `flags`:
    /// `O_CLOEXEC` or none. EMFILE, EFAULT.
    fn install_at(&self, address: usize, file: Rc<File>, flags: u32) -> Result<()>;
    /// Puts a description at its lowest free descriptor. `flags`: `O_CLOEXEC` or none. EMFILE.
    fn install(&self, file: Rc<File>, flags: u32) -> Result<i32>;
    /// Closes one of its descriptors, if it is open.
    fn close(&self, fd: i32);
    /// Its process.
    fn process(&self) -> ProcessRef;
    /// The process with this id, if it was not reaped.
    fn find_process(&self, pid: i32) -> Option<ProcessRef>;
    /// Makes a descriptor of a process, which may have ended. EMFILE.
    fn open_pidfd(&self, process: &ProcessRef) -> Result<i32>;
    /// SIGPIPE for it.
    fn broken_pipe(&self);
    /// Whether a process has the id.
    fn is_process(&self, pid: i32) -> bool;
    /// Whether a thread, process or process group has the id.
    fn is_owner(&self, id: i32) -> bool;
    /// A signal for a thread, process or process group, by `F_OWNER_*` and its id; none for one that ended. Returns whether there was
    /// room for it in the queue.
    fn signal(&self, kind: u32, id: i32, info: SigInfo) -> bool;
    /// Calls `f` with the descriptors of every process.
    fn each_table(&self, f: &mut dyn FnMut(&FdTable) -> Result<()>) -> Result<()>;
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

/// Sends SIGPIPE to the running thread; the error to return.
#[cold]
pub fn broken_pipe() -> Errno {
    caller().broken_pipe();
    Errno::EPIPE
}
