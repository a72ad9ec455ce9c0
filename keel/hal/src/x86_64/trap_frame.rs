//! The registers of a program at its entry into keel.

use crate::trap::Entry;
#[cfg(not(feature = "hosted"))]
use core::fmt::{Result, Write};

/// All general and xmm registers of the interrupted program, at the top of its thread's kernel stack. The program
/// continues with these values.
///
/// Upper halves of vector registers, x87 and MXCSR stay live in the CPU while keel runs (keel is compiled for SSE2
/// only); [`crate::fpu`] saves them at a context switch.
#[repr(C, align(16))]
#[derive(Clone, Debug)]
pub struct TrapFrame {
    /// Low 128 bits of the vector registers 0 to 15.
    pub xmm: [[u64; 2]; 16],
    /// General registers.
    pub r15: u64,
    /// General register.
    pub r14: u64,
    /// General register.
    pub r13: u64,
    /// General register.
    pub r12: u64,
    /// General register.
    pub rbp: u64,
    /// General register.
    pub rbx: u64,
    /// General register.
    pub r11: u64,
    /// General register.
    pub r10: u64,
    /// General register.
    pub r9: u64,
    /// General register.
    pub r8: u64,
    /// General register: system call number at entry, result at exit.
    pub rax: u64,
    /// General register.
    pub rcx: u64,
    /// General register.
    pub rdx: u64,
    /// General register.
    pub rsi: u64,
    /// General register.
    pub rdi: u64,
    /// [`Entry`] as a number.
    pub entry: u64,
    /// Address where the program continues. For a system call: after the instruction (for a patched site: inside its
    /// trampoline).
    pub rip: u64,
    /// Code selector.
    pub cs: u64,
    /// Flags.
    pub rflags: u64,
    /// Stack pointer.
    pub rsp: u64,
    /// Stack selector.
    pub ss: u64,
    /// Padding that keeps the size a multiple of 16.
    pub pad: u64,
}

const _: () = assert!(core::mem::size_of::<TrapFrame>() == 256 + 22 * 8);

impl TrapFrame {
    /// Number of the program's system call; afterwards the same register contains its [`result`](Self::result).
    #[inline(always)]
    pub const fn number(&self) -> u64 {
        self.rax
    }

    /// Argument `n` (0 to 5) of the system call.
    ///
    /// # Panics
    /// For any other `n`.
    #[inline(always)]
    pub const fn argument(&self, n: usize) -> u64 {
        self.arguments()[n]
    }

    /// The six arguments of the system call.
    #[inline(always)]
    pub const fn arguments(&self) -> [u64; 6] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9]
    }

    /// The result of the system call, if it has one.
    #[inline(always)]
    pub const fn result(&self) -> u64 {
        self.rax
    }

    /// Sets the result of the system call; or its number, to restart the call.
    #[inline(always)]
    pub const fn set_result(&mut self, result: u64) {
        self.rax = result;
    }

    /// Address where the program continues.
    #[inline(always)]
    pub const fn instruction_pointer(&self) -> u64 {
        self.rip
    }

    /// Sets the address where the program continues.
    #[inline(always)]
    pub const fn set_instruction_pointer(&mut self, address: u64) {
        self.rip = address;
    }

    /// The stack pointer.
    #[inline(always)]
    pub const fn stack_pointer(&self) -> u64 {
        self.rsp
    }

    /// Sets the stack pointer.
    #[inline(always)]
    pub const fn set_stack_pointer(&mut self, address: u64) {
        self.rsp = address;
    }

    /// Whether the program is single-stepped (TF).
    #[inline(always)]
    pub const fn is_stepped(&self) -> bool {
        self.rflags & TRAP_FLAG != 0
    }

    /// Sets or clears TF.
    #[inline(always)]
    pub const fn set_stepped(&mut self, on: bool) {
        self.rflags = self.rflags & !TRAP_FLAG | if on { TRAP_FLAG } else { 0 };
    }

    /// Whether the program entered keel in this way.
    #[inline(always)]
    pub const fn is_by(&self, entry: Entry) -> bool {
        self.entry == entry as u64
    }

    /// All registers changed: forbids the fast return paths, and ends the current call.
    #[inline(always)]
    pub const fn set_replaced(&mut self) {
        self.entry = Entry::Fault as u64;
    }

    /// The frame pointer, the start of the interrupted code's backtrace.
    #[cfg(not(feature = "hosted"))]
    pub(crate) const fn frame_pointer(&self) -> u64 {
        self.rbp
    }

    /// Writes the program's address into a report.
    #[cfg(not(feature = "hosted"))]
    pub(crate) fn write_place(&self, out: &mut dyn Write) -> Result {
        write!(out, "rip {:#x} rsp {:#x} rflags {:#x}, entry {}", self.rip, self.rsp, self.rflags, self.entry)
    }

    /// Registers of a program that starts at `rip` with its stack at `rsp`, all others zero.
    pub const fn new(rip: u64, rsp: u64) -> Self {
        Self {
            xmm: [[0; 2]; 16],
            r15: 0,
            r14: 0,
            r13: 0,
            r12: 0,
            rbp: 0,
            rbx: 0,
            r11: 0,
            r10: 0,
            r9: 0,
            r8: 0,
            rax: 0,
            rcx: 0,
            rdx: 0,
            rsi: 0,
            rdi: 0,
            entry: Entry::Fault as u64,
            rip,
            cs: abi::layout::selector::USER_CS as u64,
            rflags: RFLAGS_USER,
            rsp,
            ss: abi::layout::selector::USER_DS as u64,
            pad: 0,
        }
    }
}

/// TF: a debug exception follows the next instruction.
const TRAP_FLAG: u64 = 0x100;

/// Initial flags of a program: IF.
const RFLAGS_USER: u64 = 0x202;

/// Exception or interrupt of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultInfo {
    /// Exception vector (14: page fault, 3: breakpoint, …), or [`abi::layout::KICK_VECTOR`].
    pub vector: u8,
    /// Error code of the exception, or 0.
    pub code: u64,
    /// CR2: the address of a page fault.
    pub address: u64,
}

/// The vector of page faults.
const PAGE_FAULT: u8 = 14;

impl FaultInfo {
    /// Whether this is a page fault.
    pub const fn is_page_fault(&self) -> bool {
        self.vector == PAGE_FAULT
    }

    /// Writes the exception and all registers into a report.
    #[cfg(not(feature = "hosted"))]
    pub(crate) fn write(&self, out: &mut dyn Write, frame: &TrapFrame) -> Result {
        write!(
            out,
            "exception {} (code {:#x}, address {:#x}) at {:#x}\nregisters:",
            self.vector, self.code, self.address, frame.rip
        )?;
        let registers = [
            ("rsp", frame.rsp),
            ("rflags", frame.rflags),
            ("rax", frame.rax),
            ("rbx", frame.rbx),
            ("rcx", frame.rcx),
            ("rdx", frame.rdx),
            ("rsi", frame.rsi),
            ("rdi", frame.rdi),
            ("rbp", frame.rbp),
            ("r8", frame.r8),
            ("r9", frame.r9),
            ("r10", frame.r10),
            ("r11", frame.r11),
            ("r12", frame.r12),
            ("r13", frame.r13),
            ("r14", frame.r14),
            ("r15", frame.r15),
        ];
        registers.iter().try_for_each(|(name, value)| write!(out, " {name} {value:#x}"))
    }
}
