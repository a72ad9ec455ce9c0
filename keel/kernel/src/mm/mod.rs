//! Address spaces of programs: mappings, faults, program memory access.

pub mod user;
mod user_io;

use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::{Errno, Result};
use vfs::Inode;

/// Memory of a program, shared by its threads (and by a vfork child).
#[derive(Debug)]
pub struct Mm {
    _todo: (),
}

/// What an access wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Instruction fetch.
    Exec,
}

/// Why a fault can't be resolved; becomes a signal with this si_code, or EFAULT in a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultError {
    /// SIGSEGV, SEGV_MAPERR.
    NotMapped,
    /// SIGSEGV, SEGV_ACCERR.
    Forbidden,
    /// SIGBUS, BUS_ADRERR: beyond the end of a file.
    BeyondFile,
    /// The pod's memory is used up.
    NoMemory,
}

/// Where a freshly loaded program starts.
#[derive(Clone, Copy, Debug)]
pub struct StartPoint {
    /// First instruction (the interpreter's, if there is one).
    pub rip: u64,
    /// Stack pointer, at argc.
    pub rsp: u64,
}

/// What execve(2) loads; strings without their terminators.
pub struct ExecRequest<'a> {
    /// The executable, already opened, permission-checked and (for `#!` scripts) resolved to the
    /// interpreter.
    pub inode: Rc<dyn Inode>,
    /// Opens the ELF interpreter (PT_INTERP) by path.
    pub open_interpreter: &'a dyn Fn(&[u8]) -> Result<Rc<dyn Inode>>,
    /// Arguments.
    pub argv: &'a [Vec<u8>],
    /// Environment.
    pub envp: &'a [Vec<u8>],
    /// AT_EXECFN.
    pub filename: &'a [u8],
    /// Real and effective ids for the auxiliary vector: uid, euid, gid, egid.
    pub ids: [u32; 4],
    /// AT_SECURE.
    pub secure: bool,
    /// RLIMIT_STACK in bytes.
    pub stack_limit: u64,
}

impl Mm {
    /// Loads a program into a new address space. ENOEXEC, ENOMEM, E2BIG, ELIBBAD, EACCES …
    /// The caller makes it current afterwards.
    pub fn exec(_request: &ExecRequest<'_>) -> Result<(Rc<Self>, StartPoint)> {
        Err(Errno::ENOSYS)
    }

    /// A copy for fork(2).
    pub fn fork(&self) -> Result<Rc<Self>> {
        Err(Errno::ENOSYS)
    }

    /// Makes it the CPU's address space.
    pub fn activate(&self) {}

    /// Resolves a page fault. May block (file pages).
    pub fn fault(&self, _address: usize, _access: Access) -> core::result::Result<(), FaultError> {
        Err(FaultError::NotMapped)
    }

    /// Drops all mappings (last user gone), while keel goes on in another space.
    pub fn clear(&self) {}

    /// Resident bytes, for the out-of-memory choice.
    pub fn resident_bytes(&self) -> u64 {
        0
    }
}
