//! A process that executes single instructions in given states.
//!
//! It is a traced child of the test: it executes one instruction at a time, and its system calls have no effect
//! (`PTRACE_SYSEMU`). The memory that it shares with the test is at [`REGION`] and [`SCRATCH`].
#![allow(unsafe_code)]

use std::fs::File;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::ptr;

/// Address of the shared memory in the child.
pub const REGION: u64 = 1 << 40;
/// Its size: text and data of the largest file fit on both sides of the middle.
pub const REGION_LEN: u64 = 512 << 20;

/// Address of more shared memory, with 2 GiB unmapped on both sides: for operands in registers.
pub const SCRATCH: u64 = 2 << 40;
pub const SCRATCH_LEN: usize = 16 << 10;

/// Not in libc for this target: executes one instruction, a system call without effect.
const PTRACE_SYSEMU_SINGLESTEP: libc::c_uint = 32;
/// Register set of the extended state.
const NT_X86_XSTATE: usize = 0x202;
/// Room for the extended state of any processor.
const XSTATE_LEN: usize = 16 << 10;
/// In the extended state: SSE's control word, which must keep reserved bits clear, and the upper halves of the YMM
/// registers.
const MXCSR: usize = 24;
const YMM_UPPER: std::ops::Range<usize> = 576..832;
/// Registers of SSE.
const XMM: std::ops::Range<usize> = 160..416;
/// Address of the last instruction of the x87: differs where it was moved.
const X87_INSTRUCTION: std::ops::Range<usize> = 8..16;
/// Of the header: which parts are in use.
const XSTATE_BV: usize = 512;

/// General registers, in the order of their numbers in instructions.
pub type General = [u64; 16];

/// State of the processor before or after an instruction, without memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub rip: u64,
    pub general: General,
    pub flags: u64,
    pub fs_base: u64,
    pub gs_base: u64,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Done,
    /// `int3`; the instruction pointer is behind it.
    Breakpoint,
    /// Any other exception, as this signal.
    Signal(i32),
}

pub struct Machine {
    child: libc::pid_t,
    memory: File,
    template: libc::user_regs_struct,
    vectors: Vec<u8>,
    /// Not Send: only the thread that started the child may trace it.
    own: PhantomData<*const ()>,
}

/// A request of ptrace(2) about a stopped child of this thread.
///
/// # Safety
///
/// `data` must be the argument of the request: a number, or memory that stays valid during the call.
unsafe fn ptrace(request: libc::c_uint, child: libc::pid_t, address: usize, data: *mut libc::c_void) {
    // SAFETY: guaranteed by the caller.
    let result = unsafe { libc::ptrace(request, child, address, data) };
    assert_ne!(result, -1, "ptrace({request}): {}", std::io::Error::last_os_error());
}

/// Where an address lies in the shared memory.
fn offset(address: u64) -> u64 {
    if address >= SCRATCH { address - SCRATCH + REGION_LEN } else { address - REGION }
}

impl Machine {
    pub fn start() -> Self {
        // SAFETY: the name is a C string; the descriptor is new and has no other owner.
        let memory = unsafe { File::from_raw_fd(libc::memfd_create(c"machine".as_ptr(), 0)) };
        memory.set_len(REGION_LEN + SCRATCH_LEN as u64).expect("memory");
        // SAFETY: the child makes only async-signal-safe calls, and ends in the loop.
        let child = unsafe { libc::fork() };
        assert_ne!(child, -1, "fork: {}", std::io::Error::last_os_error());
        if child == 0 {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE;
            let map = |at: u64, len: u64, protection, offset: u64| {
                let at = ptr::without_provenance_mut(at as usize);
                // SAFETY: maps at an unused address.
                unsafe { libc::mmap(at, len as usize, protection, flags, memory.as_raw_fd(), offset as i64) == at }
            };
            let mapped = map(REGION, REGION_LEN, protection | libc::PROT_EXEC, 0)
                && map(SCRATCH, SCRATCH_LEN as u64, protection, REGION_LEN);
            // SAFETY: takes numbers.
            unsafe {
                if !mapped || libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == -1 {
                    libc::_exit(1);
                }
                libc::raise(libc::SIGSTOP);
                libc::_exit(2);
            }
        }
        // SAFETY: plain integers; all zero is valid.
        let template = unsafe { std::mem::zeroed() };
        let mut machine = Self { child, memory, template, vectors: vec![0; XSTATE_LEN], own: PhantomData };
        assert_eq!(machine.wait(), libc::SIGSTOP);
        // SAFETY: options are a number; registers are written to a structure of the right type.
        unsafe {
            ptrace(libc::PTRACE_SETOPTIONS, child, 0, ptr::without_provenance_mut(libc::PTRACE_O_EXITKILL as usize));
            ptrace(libc::PTRACE_GETREGS, child, 0, (&raw mut machine.template).cast());
        }
        machine.vectors = machine.read_vectors();
        machine
    }

    /// Waits until the child stops; the signal that it stops with.
    fn wait(&self) -> i32 {
        let mut status = 0;
        // SAFETY: the status is written to a number.
        let waited = unsafe { libc::waitpid(self.child, &raw mut status, libc::__WALL) };
        assert!(waited == self.child && libc::WIFSTOPPED(status), "the child ended: {status:#x}");
        libc::WSTOPSIG(status)
    }

    pub fn write(&self, address: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, offset(address)).expect("memory");
    }

    pub fn read(&self, address: u64, bytes: &mut [u8]) {
        self.memory.read_exact_at(bytes, offset(address)).expect("memory");
    }

    pub fn set(&self, state: &State) {
        let g = &state.general;
        let registers = libc::user_regs_struct {
            rip: state.rip,
            eflags: state.flags,
            fs_base: state.fs_base,
            gs_base: state.gs_base,
            rax: g[0],
            rcx: g[1],
            rdx: g[2],
            rbx: g[3],
            rsp: g[4],
            rbp: g[5],
            rsi: g[6],
            rdi: g[7],
            r8: g[8],
            r9: g[9],
            r10: g[10],
            r11: g[11],
            r12: g[12],
            r13: g[13],
            r14: g[14],
            r15: g[15],
            // Not in a system call, so that no restart happens.
            orig_rax: u64::MAX,
            ..self.template
        };
        // SAFETY: registers are read from a structure of the right type.
        unsafe { ptrace(libc::PTRACE_SETREGS, self.child, 0, (&raw const registers).cast_mut().cast()) };
    }

    pub fn get(&self) -> State {
        let mut r = self.template;
        // SAFETY: registers are written to a structure of the right type.
        unsafe { ptrace(libc::PTRACE_GETREGS, self.child, 0, (&raw mut r).cast()) };
        State {
            rip: r.rip,
            general: [
                r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
                r.r15,
            ],
            flags: r.eflags,
            fs_base: r.fs_base,
            gs_base: r.gs_base,
        }
    }

    /// Sets the SSE registers; resets the rest of the extended state.
    pub fn set_vectors(&self, xmm: &[u8; 256]) {
        let mut state = self.vectors.clone();
        state[XMM].copy_from_slice(xmm);
        state[MXCSR..MXCSR + 4].copy_from_slice(&0x1f80u32.to_le_bytes());
        // x87 and SSE are in use.
        state[XSTATE_BV] |= 3;
        let mut io = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
        // SAFETY: describes a buffer that lives.
        unsafe { ptrace(libc::PTRACE_SETREGSET, self.child, NT_X86_XSTATE, (&raw mut io).cast()) };
    }

    /// x87, SSE and AVX, without the address of the last x87 instruction.
    pub fn get_vectors(&self) -> Vec<u8> {
        let mut state = self.read_vectors();
        state[X87_INSTRUCTION].fill(0);
        let upper = state.get(YMM_UPPER).unwrap_or_default().to_vec();
        state.truncate(XMM.end);
        state.extend(upper);
        state
    }

    fn read_vectors(&self) -> Vec<u8> {
        let mut state = vec![0; XSTATE_LEN];
        let mut io = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
        // SAFETY: describes a buffer that lives, and its length.
        unsafe { ptrace(libc::PTRACE_GETREGSET, self.child, NT_X86_XSTATE, (&raw mut io).cast()) };
        state.truncate(io.iov_len);
        state
    }

    /// Executes one instruction.
    pub fn step(&self) -> Step {
        // SAFETY: takes no memory.
        unsafe { ptrace(PTRACE_SYSEMU_SINGLESTEP, self.child, 0, ptr::null_mut()) };
        match self.wait() {
            libc::SIGTRAP => {
                // SAFETY: plain integers; all zero is valid.
                let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
                // SAFETY: written to a structure of the right type.
                unsafe { ptrace(libc::PTRACE_GETSIGINFO, self.child, 0, (&raw mut info).cast()) };
                if info.si_code == libc::SI_KERNEL { Step::Breakpoint } else { Step::Done }
            }
            signal => Step::Signal(signal),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let mut status = 0;
        // SAFETY: the child was not waited for, so its id is not reused.
        unsafe {
            libc::kill(self.child, libc::SIGKILL);
            libc::waitpid(self.child, &raw mut status, libc::__WALL);
        }
    }
}
