//! Exceptions of programs, and kicks.

use crate::mm::{Access, FaultError, user};
use crate::patch;
use crate::signal::{SigInfo, code, send};
use crate::task::{self, oom};
use abi::layout::{KICK_VECTOR, USER_TOP};
use hal::trap::{Exit, FaultInfo, TrapFrame};
use hal::{fpu, percpu};
use uapi::raw::general as g;

/// Vector of page faults.
pub(super) const PAGE_FAULT: u8 = 14;
/// Page fault error code: the page is present.
const PF_PRESENT: u64 = 1;
/// Page fault error code: a store.
const PF_WRITE: u64 = 2;
/// Page fault error code: an instruction fetch.
const PF_FETCH: u64 = 16;
/// Page fault error code: access from CPL 3.
const PF_USER: u64 = 4;
/// First address above the user address space of Linux.
const LINUX_TOP: u64 = 0x7fff_ffff_f000;
/// End of the lower half of memory.
const CANONICAL_END: u64 = 1 << 47;
/// Exception vectors that programs may raise by `int n`.
const BREAKPOINT: u8 = 3;
const OVERFLOW: u8 = 4;

/// hal's hook: an exception or interrupt while a program ran.
pub fn fault(frame: &mut TrapFrame, info: FaultInfo) -> Exit {
    let switches = task::with_current(|me| {
        let switches = me.sched.switches();
        me.rseq.entered(switches);
        switches
    });
    match info.vector {
        KICK_VECTOR => {
            // The host may also report lost pages, which is handled below.
            crate::sched::kicked();
        }
        PAGE_FAULT => page_fault(info),
        vector if patch::on_fault(frame, vector) => {}
        _ => exception(frame, info),
    }
    if percpu::work_pending() || task::with_current(|me| me.sched.switches()) != switches {
        crate::syscall::finish(frame, None);
    }
    Exit::Full
}

/// Type of access, from the error code.
pub(super) fn access(code: u64) -> Access {
    if code & PF_WRITE != 0 {
        Access::Write
    } else if code & PF_FETCH != 0 {
        Access::Exec
    } else {
        Access::Read
    }
}

fn page_fault(info: FaultInfo) {
    let access = access(info.code);
    let task = task::current();
    let began = hal::clock::monotonic_ns();
    let outcome = task.mm().fault(info.address as usize, access);
    task.sched.count(|u| u.minor_faults += 1);
    task.sched.was_system(hal::clock::monotonic_ns().saturating_sub(began));
    let (signal, reason) = match outcome {
        Ok(()) => return,
        Err(FaultError::NotMapped) => (g::SIGSEGV, 1),
        Err(FaultError::Forbidden) => (g::SIGSEGV, 2),
        Err(FaultError::BeyondFile) => (g::SIGBUS, 2),
        // The instruction is repeated, in case that memory was freed.
        Err(FaultError::NoMemory) => return oom::make_room(info.address as usize),
    };
    task.signals.trap.set([14, shown_code(info), info.address]);
    send::force(&task, SigInfo::fault(signal, reason, info.address));
}

/// The error code for the program: as on Linux, pages of the upper half count as present, whatever the page tables
/// contain.
fn shown_code(info: FaultInfo) -> u64 {
    let beyond = if info.address >= LINUX_TOP { PF_PRESENT } else { 0 };
    info.code & (PF_PRESENT | PF_WRITE | PF_FETCH) | PF_USER | beyond
}

/// On the return to a program: it must not continue in keel's part of the address space.
#[inline(always)]
pub fn check_place(frame: &TrapFrame) {
    if (USER_TOP as u64..CANONICAL_END).contains(&frame.instruction_pointer()) {
        stray(frame.instruction_pointer());
    }
}

#[cold]
fn stray(address: u64) {
    let task = task::current();
    let info = FaultInfo { vector: 14, code: PF_FETCH, address };
    task.signals.trap.set([14, shown_code(info), address]);
    send::force(&task, SigInfo::fault(g::SIGSEGV, 1, address));
}

/// Maximum length of an instruction in bytes.
const INSTRUCTION: u64 = 15;

/// An `int n` instruction raises #GP or the exception `n` on processors, but #UD under software-nested KVM: returns the
/// correct exception, and moves the instruction pointer behind the instruction if it must be there.
fn interrupt_instruction(frame: &mut TrapFrame) -> Option<FaultInfo> {
    const INT: u8 = 0xcd;
    for length in 0..INSTRUCTION - 1 {
        let at = frame.instruction_pointer().wrapping_add(length);
        match user::read::<u8>(at as usize).ok()? {
            // Prefixes without effect: segments, sizes, repetition, REX.
            0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf2 | 0xf3 | 0x40..=0x4f => {}
            INT => {
                let vector = user::read::<u8>(at.wrapping_add(1) as usize).ok()?;
                // DPL 3: breakpoint and overflow.
                if matches!(vector, BREAKPOINT | OVERFLOW) {
                    frame.set_instruction_pointer(at.wrapping_add(2));
                    return Some(FaultInfo { vector, code: 0, address: 0 });
                }
                return Some(FaultInfo { vector: 13, code: u64::from(vector) * 8 + 2, address: 0 });
            }
            _ => return None,
        }
    }
    None
}

/// An exception other than a page fault: signal and `si_code` as in Linux's traps.c.
fn exception(frame: &mut TrapFrame, info: FaultInfo) {
    let info = Some(info.vector).filter(|v| *v == 6).and_then(|_| interrupt_instruction(frame)).unwrap_or(info);
    let task = task::current();
    if info.vector == 1 && frame.is_stepped() {
        // The program single-steps itself: it must execute its original instructions, not those of trampolines.
        task.mm().show_plain_text();
        frame.set_instruction_pointer(patch::program_address(frame.instruction_pointer()));
    }
    let here = frame.instruction_pointer();
    let [_, _, cr2] = task.signals.trap.get();
    task.signals.trap.set([u64::from(info.vector), info.code, cr2]);
    let sent = match info.vector {
        0 => SigInfo::fault(g::SIGFPE, 1, here),  // FPE_INTDIV
        1 => SigInfo::fault(g::SIGTRAP, 2, here), // TRAP_TRACE
        3 => SigInfo::from_kernel(g::SIGTRAP),
        6 => SigInfo::fault(g::SIGILL, 2, here), // ILL_ILLOPN
        11 | 12 => SigInfo::from_kernel(g::SIGBUS),
        16 => SigInfo::fault(g::SIGFPE, x87_code(frame), here),
        17 => SigInfo::fault(g::SIGBUS, 1, 0), // BUS_ADRALN
        19 => SigInfo::fault(g::SIGFPE, simd_code(frame), here),
        _ => SigInfo::from_kernel(g::SIGSEGV),
    };
    send::force(&task, sent);
}

/// `si_code` for unmasked exception bits: invalid, denormal, divide, overflow, underflow, precision.
fn float_code(unmasked: u32) -> i32 {
    match unmasked {
        bits if bits & 1 != 0 => 7,    // FPE_FLTINV
        bits if bits & 4 != 0 => 3,    // FPE_FLTDIV
        bits if bits & 8 != 0 => 4,    // FPE_FLTOVF
        bits if bits & 0x12 != 0 => 5, // FPE_FLTUND
        bits if bits & 0x20 != 0 => 6, // FPE_FLTRES
        _ => code::KERNEL,
    }
}

fn half(image: &[u8], offset: usize) -> u32 {
    image.get(offset..offset + 2).map_or(0, |b| u32::from(b[0]) | u32::from(b[1]) << 8)
}

fn x87_code(frame: &TrapFrame) -> i32 {
    let image = fpu::capture(frame);
    float_code(half(&image, 2) & !half(&image, 0) & 0x3f)
}

fn simd_code(frame: &TrapFrame) -> i32 {
    let mxcsr = half(&fpu::capture(frame), 24);
    float_code(mxcsr & !(mxcsr >> 7) & 0x3f)
}

/// hal's hook: first code of a new thread.
pub fn thread_start(frame: &mut TrapFrame) -> Exit {
    crate::sched::finish_switch();
    task::with_current(task::rseq::switched);
    crate::boot::first::begin(frame);
    task::clone::begin();
    crate::syscall::finish(frame, None);
    Exit::Full
}
