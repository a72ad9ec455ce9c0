//! The stack frame of a signal handler, and its restoration; sigreturn(2).
//!
//! The layout is Linux's `struct rt_sigframe`: programs read and change the saved registers.

use crate::mm::user;
use crate::patch;
use crate::signal::{AltStack, SigAction, SigInfo, UNBLOCKABLE};
use crate::task::{self, Task};
use abi::layout::{USER_TOP, selector};
use alloc::rc::Rc;
use alloc::vec::Vec;
use bytemuck::{Pod, Zeroable};
use hal::fpu;
use hal::trap::TrapFrame;
use keel_core::sigset::SigSet;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Bytes below the stack pointer that a function may use without moving it (System V ABI).
const RED_ZONE: u64 = 128;
/// Flags that a handler may change in the saved context: AC, RF, OF, DF, TF, SF, ZF, AF, PF, CF.
const CHANGEABLE_FLAGS: u64 = 0x5_0dd5;
/// Flags that are cleared for a handler: RF, DF, TF.
const STEP_FLAGS: u64 = 0x1_0500;
/// IOPL is reserved for keel; Linux programs have 0.
const IOPL: u64 = 0x3000;

const UC_FP_XSTATE: u64 = 1;
const UC_SIGCONTEXT_SS: u64 = 2;
const UC_STRICT_RESTORE_SS: u64 = 4;

const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
/// Offset of the software-reserved bytes in the legacy region.
const SW_RESERVED: usize = 464;
const LEGACY_SIZE: usize = 512;

/// Marks a context saved at a patched call site: see [`Context::reserved`].
const SITE_MAGIC: u64 = u64::from_le_bytes(*b"keelsite");

/// `struct sigcontext_64`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
struct Context {
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp.
    registers: [u64; 16],
    rip: u64,
    flags: u64,
    cs: u16,
    gs: u16,
    fs: u16,
    ss: u16,
    error: u64,
    trap: u64,
    old_mask: u64,
    cr2: u64,
    fpstate: u64,
    /// Reserved in Linux. keel: [`SITE_MAGIC`], the `rip` that the program sees, and the address in a trampoline where
    /// it really continues. Only a shortcut: a program may also resume at `rip`.
    reserved: [u64; 8],
}

/// `struct rt_sigframe`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
struct SignalFrame {
    restorer: u64,
    uc_flags: u64,
    uc_link: u64,
    stack_sp: u64,
    stack_flags: u32,
    stack_pad: u32,
    stack_size: u64,
    context: Context,
    mask: u64,
    info: SigInfo,
}
const _: () = assert!(size_of::<SignalFrame>() == 440);

/// Pushes a frame onto the program's stack and makes `frame` enter the handler. `restart`: number of a call to restart
/// afterwards. EFAULT if the stack can't be written.
pub(crate) fn push(
    task: &Rc<Task>,
    frame: &mut TrapFrame,
    info: &SigInfo,
    action: &SigAction,
    restart: Option<u64>,
) -> Result<()> {
    let alt = task.signals.alt_stack.get();
    let on_alt = alt.holds(frame.rsp);
    let mut sp = frame.rsp.wrapping_sub(RED_ZONE);
    let mut switched = false;
    if action.flags & u64::from(g::SA_ONSTACK) != 0 && alt.size != 0 && !on_alt {
        sp = (alt.sp as u64).wrapping_add(alt.size as u64);
        switched = true;
    }
    let image = fpu_image(frame);
    let fpstate = sp.wrapping_sub(image.len() as u64) & !63;
    let at = (fpstate.wrapping_sub(size_of::<SignalFrame>() as u64) & !15).wrapping_sub(8);
    let overflows = (on_alt || switched) && !alt.contains(at);
    if overflows || at as usize >= USER_TOP {
        return Err(Errno::EFAULT);
    }

    let mut context = save(frame);
    let [trap, error, cr2] = task.signals.trap.get();
    (context.trap, context.error, context.cr2) = (trap, error, cr2);
    context.fpstate = fpstate;
    if let Some(number) = restart {
        context.registers[13] = number;
        context.rip = patch::restart_address(context.rip);
    } else if context.rip != frame.rip {
        context.reserved[..3].copy_from_slice(&[SITE_MAGIC, context.rip, frame.rip]);
    }
    let mask = task.signals.saved_mask.take().unwrap_or(task.signals.blocked.get());
    context.old_mask = mask.0;
    let stored = SignalFrame {
        restorer: action.restorer as u64,
        uc_flags: UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS,
        uc_link: 0,
        stack_sp: alt.sp as u64,
        stack_flags: if alt.size == 0 { g::SS_DISABLE } else { alt.flags | if on_alt { g::SS_ONSTACK } else { 0 } },
        stack_pad: 0,
        stack_size: alt.size as u64,
        context,
        mask: mask.0,
        info: *info,
    };
    let stored_image = user::write_bytes(fpstate as usize, &image);
    let stored_frame = stored_image.and_then(|()| user::write_bytes(at as usize, bytemuck::bytes_of(&stored)));
    if let Err(errno) = stored_frame {
        task.signals.saved_mask.set(Some(mask));
        return Err(errno);
    }

    if alt.flags & g::SS_AUTODISARM != 0 {
        task.signals.alt_stack.set(AltStack::NONE);
    }
    let signal = info.signal();
    let mut blocked = task.signals.blocked.get().union(action.mask);
    if action.flags & u64::from(g::SA_NODEFER) == 0 {
        blocked = blocked.union(SigSet::of(signal));
    }
    task.set_blocked(blocked);

    frame.rdi = u64::from(signal);
    frame.rsi = at + core::mem::offset_of!(SignalFrame, info) as u64;
    frame.rdx = at + core::mem::offset_of!(SignalFrame, uc_flags) as u64;
    frame.rax = 0;
    frame.rsp = at;
    frame.rip = action.handler as u64;
    frame.rflags &= !STEP_FLAGS;
    frame.set_replaced();
    // A handler starts with initial floating-point state.
    frame.xmm = [[0; 2]; 16];
    task.thread.reset_fpu();
    Ok(())
}

/// The XSAVE image with the software-reserved bytes that describe it.
fn fpu_image(frame: &TrapFrame) -> Vec<u8> {
    let mut image = fpu::capture(frame);
    let size = image.len() as u32;
    if image.len() < LEGACY_SIZE {
        // Out of memory: the frame has no extended state.
        image.clear();
        return image;
    }
    let mut software = [0u8; 48];
    software[0..4].copy_from_slice(&FP_XSTATE_MAGIC1.to_le_bytes());
    software[4..8].copy_from_slice(&(size + 4).to_le_bytes());
    software[8..16].copy_from_slice(&fpu::xsave_mask().to_le_bytes());
    software[16..20].copy_from_slice(&size.to_le_bytes());
    image[SW_RESERVED..SW_RESERVED + 48].copy_from_slice(&software);
    image.extend_from_slice(&FP_XSTATE_MAGIC2.to_le_bytes());
    image
}

fn save(f: &TrapFrame) -> Context {
    Context {
        registers: [
            f.r8, f.r9, f.r10, f.r11, f.r12, f.r13, f.r14, f.r15, f.rdi, f.rsi, f.rbp, f.rbx, f.rdx, f.rax, f.rcx,
            f.rsp,
        ],
        rip: patch::program_address(f.rip),
        flags: f.rflags & !IOPL,
        cs: selector::USER_CS,
        ss: selector::USER_DS,
        ..Context::default()
    }
}

fn restore(f: &mut TrapFrame, context: &Context) {
    [f.r8, f.r9, f.r10, f.r11, f.r12, f.r13, f.r14, f.r15, f.rdi, f.rsi, f.rbp, f.rbx, f.rdx, f.rax, f.rcx, f.rsp] =
        context.registers;
    f.rip = context.rip;
    f.rflags = f.rflags & !CHANGEABLE_FLAGS | context.flags & CHANGEABLE_FLAGS;
    f.cs = u64::from(selector::USER_CS);
    f.ss = u64::from(selector::USER_DS);
    f.set_replaced();
}

/// rt_sigreturn(2). Its result is the restored rax. SIGSEGV for a bad frame.
pub fn sys_rt_sigreturn(frame: &mut TrapFrame) -> isize {
    let task = task::current();
    // The whole frame changed: do not use the fast return path.
    task.set_work();
    if restore_from_stack(&task, frame).is_err() {
        crate::signal::send::force(&task, SigInfo::from_kernel(g::SIGSEGV));
    }
    frame.rax as isize
}

fn restore_from_stack(task: &Rc<Task>, frame: &mut TrapFrame) -> Result<()> {
    let mut stored = SignalFrame::default();
    user::read_bytes(frame.rsp.wrapping_sub(8) as usize, bytemuck::bytes_of_mut(&mut stored))?;
    let image = match stored.context.fpstate {
        0 => None,
        at => Some(read_image(at as usize)?),
    };
    task.set_blocked(SigSet(stored.mask).without(UNBLOCKABLE));
    restore(frame, &stored.context);
    match image {
        Some(image) => fpu::load(frame, &image),
        None => {
            frame.xmm = [[0; 2]; 16];
            task.thread.reset_fpu();
        }
    }
    let alt = AltStack {
        sp: stored.stack_sp as usize,
        flags: stored.stack_flags & !g::SS_ONSTACK,
        size: stored.stack_size as usize,
    };
    // As sigaltstack(2), but errors are ignored.
    let _ = crate::syscall::signal::calls::set_alt_stack(task, alt, frame.rsp);
    let stack_selector =
        if stored.uc_flags & UC_STRICT_RESTORE_SS == 0 { selector::USER_DS } else { stored.context.ss };
    crate::signal::selectors::check(task, stored.context.cs, stack_selector);
    let [magic, seen, real, ..] = stored.context.reserved;
    if magic == SITE_MAGIC && seen == frame.rip && patch::program_address(real) == seen {
        frame.rip = real;
    }
    Ok(())
}

/// The saved extended state: the whole image if its magic numbers are intact, else the legacy part.
fn read_image(at: usize) -> Result<Vec<u8>> {
    let mut image = alloc::vec![0; LEGACY_SIZE];
    user::read_bytes(at, &mut image)?;
    let word = |offset: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&image[offset..offset + 4]);
        u32::from_le_bytes(bytes)
    };
    let size = word(SW_RESERVED + 16) as usize;
    let whole = word(SW_RESERVED) == FP_XSTATE_MAGIC1
        && (LEGACY_SIZE + 64..=fpu::xsave_size()).contains(&size)
        && word(SW_RESERVED + 4) as usize >= size
        && user::read::<u32>(at.wrapping_add(size)) == Ok(FP_XSTATE_MAGIC2);
    if whole {
        image.try_reserve_exact(size - LEGACY_SIZE).map_err(|_| Errno::ENOMEM)?;
        image.resize(size, 0);
        user::read_bytes(at, &mut image)?;
    }
    Ok(image)
}
