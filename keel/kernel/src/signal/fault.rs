//! Exceptions of programs, and kicks.

use super::{SigInfo, code, send};
use crate::mm::{Access, FaultError, user};
use crate::patch;
use crate::task::{self, oom};
use abi::layout::KICK_VECTOR;
use hal::trap::{Exit, FaultInfo, TrapFrame};
use hal::{fpu, percpu};
use uapi::raw::general as g;

/// Page fault error code: a store.
const PF_WRITE: u64 = 2;
/// Page fault error code: an instruction fetch.
const PF_FETCH: u64 = 16;

/// hal's hook: an exception or interrupt while a program ran.
pub fn fault(frame: &mut TrapFrame, info: FaultInfo) -> Exit {
    let switches = task::with_current(|me| {
        let switches = me.sched.switches();
        me.rseq.entered(switches);
        switches
    });
    match info.vector {
        KICK_VECTOR => {
            // The host may also say so that it lost pages: what follows looks.
            task::sched::kicked();
        }
        14 => page_fault(info),
        vector if patch::on_fault(frame, vector) => {}
        _ => exception(frame, info),
    }
    if percpu::work_pending() || task::with_current(|me| me.sched.switches()) != switches {
        crate::syscall::finish(frame, None);
    }
    Exit::Full
}

fn page_fault(info: FaultInfo) {
    let access = if info.code & PF_WRITE != 0 {
        Access::Write
    } else if info.code & PF_FETCH != 0 {
        Access::Exec
    } else {
        Access::Read
    };
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
        // The instruction runs again, in case that memory was found.
        Err(FaultError::NoMemory) => return oom::kill_largest(),
    };
    task.signals.trap.set([14, info.code, info.address]);
    send::force(&task, SigInfo::fault(signal, reason, info.address));
}

/// An `int n` instruction raises a general protection fault on processors, but an undefined opcode
/// under software-nested KVM: tells what it would have been.
fn interrupt_instruction(frame: &TrapFrame) -> Option<FaultInfo> {
    const INT: u8 = 0xcd;
    match user::read::<[u8; 2]>(frame.rip as usize) {
        Ok([INT, vector]) => Some(FaultInfo { vector: 13, code: u64::from(vector) * 8 + 2, address: 0 }),
        _ => None,
    }
}

/// An exception other than a page fault: signal and `si_code` as in Linux's traps.c.
fn exception(frame: &TrapFrame, info: FaultInfo) {
    let info = Some(info.vector).filter(|v| *v == 6).and_then(|_| interrupt_instruction(frame)).unwrap_or(info);
    let here = frame.rip;
    let task = task::current();
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
    task::sched::finish_switch();
    task::rseq::switched();
    task::start::begin(frame);
    task::clone::begin();
    crate::syscall::finish(frame, None);
    Exit::Full
}
