//! Registers of a stopped thread, as tracers read and change them.

use super::stops::{Kind, Stop};
use crate::mm::user;
use crate::patch;
use crate::task::Task;
use alloc::rc::Rc;
use alloc::vec::Vec;
use hal::fpu;
use hal::trap::TrapFrame;
use uapi::{Errno, Result};

/// Code and data selectors that programs see.
const USER_CS: u64 = 0x33;
const USER_SS: u64 = 0x2b;
/// IOPL is reserved for keel; Linux programs have 0.
const IOPL: u64 = 0x3000;
/// Flags that a tracer may change: CF, PF, AF, ZF, SF, TF, DF, OF, RF, AC.
const CHANGEABLE_FLAGS: u64 = 0x5_0dd5;

/// `struct user_regs_struct`.
pub(super) type Registers = [u64; 27];
/// Indices of registers.
pub(super) const RAX: usize = 10;
pub(super) const ORIG_RAX: usize = 15;
pub(super) const RIP: usize = 16;
const FLAGS: usize = 18;
pub(super) const RSP: usize = 19;
const CS: usize = 17;
const SS: usize = 20;
const FS_BASE: usize = 21;
const GS_BASE: usize = 22;
const DS: usize = 23;
/// First address above the user address space of Linux.
const LINUX_TOP: u64 = 0x7fff_ffff_f000;

/// Register sets, and the sizes of their items.
const NT_PRSTATUS: usize = 1;
const NT_PRFPREG: usize = 2;
const NT_X86_XSTATE: usize = 0x202;
const ITEM: usize = 8;

/// `sizeof(struct user_fpregs_struct)`, the legacy region of an XSAVE image; and its used part.
pub(super) const LEGACY_LEN: usize = 512;
const LEGACY_USED: usize = 416;
/// Offset of XCR0 in the image for tracers.
const SOFTWARE_XCR0: usize = 464;
/// XSAVE header: offset of its component bitmap, and its end.
const HEADER: usize = 512;
const HEADER_END: usize = 576;
const MXCSR: usize = 24;
const MXCSR_RESERVED: u32 = 0xffff_0000;

/// The kernel's `struct user`: its size, and the offset of the debug registers.
const USER_LEN: usize = 928;
const DEBUG_REGISTERS: core::ops::Range<usize> = 848..912;

/// The registers as a program sees them. `number`: of the current system call.
pub(super) fn registers(me: &Task, f: &TrapFrame, kind: Kind, number: Option<u64>) -> Registers {
    let mut rax = f.rax;
    if matches!(kind, Kind::Entry | Kind::Filter) {
        rax = -i64::from(Errno::ENOSYS.code()) as u64;
    }
    let (rip, orig) = (patch::program_address(f.rip), number.unwrap_or(u64::MAX));
    [
        f.r15,
        f.r14,
        f.r13,
        f.r12,
        f.rbp,
        f.rbx,
        f.r11,
        f.r10,
        f.r9,
        f.r8,
        rax,
        f.rcx,
        f.rdx,
        f.rsi,
        f.rdi,
        orig,
        rip,
        USER_CS,
        f.rflags & !IOPL,
        f.rsp,
        USER_SS,
        me.thread.fs_base(),
        0,
        0,
        0,
        0,
        0,
    ]
}

/// Applies the tracer's changes to the registers; the instruction pointer only if it differs.
pub(super) fn put_registers(me: &Rc<Task>, f: &mut TrapFrame, new: &Registers, old: &Registers, kind: Kind) {
    let [r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, ..] = *new;
    (f.r15, f.r14, f.r13, f.r12, f.rbp, f.rbx, f.r11, f.r10) = (r15, r14, r13, r12, rbp, rbx, r11, r10);
    (f.r9, f.r8, f.rcx, f.rdx, f.rsi, f.rdi) = (r9, r8, rcx, rdx, rsi, rdi);
    if !matches!(kind, Kind::Entry | Kind::Filter) {
        f.rax = rax;
    }
    if new[RIP] != old[RIP] {
        f.rip = new[RIP];
    }
    f.rflags = f.rflags & !CHANGEABLE_FLAGS | new[FLAGS] & CHANGEABLE_FLAGS;
    f.rsp = new[RSP];
    if new[FS_BASE] != old[FS_BASE] && new[FS_BASE] < LINUX_TOP {
        me.thread.set_fs_base(new[FS_BASE]);
    }
    crate::signal::selectors::check(me, new[CS] as u16, new[SS] as u16);
    // More than rax changed: do not use the fast return path.
    f.set_replaced();
}

/// PTRACE_PEEKUSER: a word of `struct user`: the registers come first; the rest is not stored. EIO.
pub(super) fn peek_user(stop: &Stop, offset: usize) -> Result<u64> {
    if !offset.is_multiple_of(ITEM) || offset >= USER_LEN {
        return Err(Errno::EIO);
    }
    Ok(stop.registers.get(offset / ITEM).copied().unwrap_or(0))
}

/// Whether a program may have these segments and bases: selectors of its own privilege, addresses of its own half. EIO.
fn check(registers: &Registers) -> Result<()> {
    let foreign = |selector: u64| selector as u16 != 0 && selector & 3 != 3;
    let segments = registers[DS..].iter().chain([&registers[CS], &registers[SS]]);
    let bad = segments.copied().any(foreign)
        || [CS, SS].iter().any(|n| registers[*n] as u16 == 0)
        || [FS_BASE, GS_BASE].iter().any(|n| registers[*n] >= LINUX_TOP);
    if bad { Err(Errno::EIO) } else { Ok(()) }
}

/// PTRACE_POKEUSER. EIO; ENOSPC: debug registers are not supported.
pub(super) fn poke_user(stop: &mut Stop, offset: usize, value: u64) -> Result<()> {
    if DEBUG_REGISTERS.contains(&offset) && offset.is_multiple_of(ITEM) {
        return if value == 0 { Ok(()) } else { Err(Errno::ENOSPC) };
    }
    let mut registers = stop.registers;
    let register = registers.get_mut(offset / ITEM).filter(|_| offset.is_multiple_of(ITEM)).ok_or(Errno::EIO)?;
    *register = value;
    check(&registers)?;
    stop.registers = registers;
    stop.changed = true;
    Ok(())
}

/// PTRACE_SETREGS. EIO.
pub(super) fn set_registers(task: &Task, registers: Registers) -> Result<()> {
    check(&registers)?;
    task.traced.with_stop(|stop| {
        stop.registers = registers;
        stop.changed = true;
    })
}

/// The extended registers as an XSAVE image that includes XCR0. ESRCH, ENOMEM.
fn extended(task: &Task) -> Result<Vec<u8>> {
    if let Some(image) = task.traced.with_stop(|stop| stop.extended.clone())? {
        return Ok(image);
    }
    let mut image = task.thread.extended_state().ok_or(Errno::ENOMEM)?;
    if let Some(software) = image.get_mut(LEGACY_USED..LEGACY_LEN) {
        software.fill(0);
        software[SOFTWARE_XCR0 - LEGACY_USED..][..8].copy_from_slice(&fpu::xsave_mask().to_le_bytes());
    }
    Ok(image)
}

/// PTRACE_GETFPREGS: x87, SSE and MXCSR.
pub(super) fn legacy(task: &Task) -> Result<Vec<u8>> {
    let mut image = extended(task)?;
    image.truncate(LEGACY_LEN);
    if let Some(software) = image.get_mut(LEGACY_USED..) {
        software.fill(0);
    }
    Ok(image)
}

/// PTRACE_SETFPREGS. EINVAL: reserved bits of MXCSR.
pub(super) fn set_legacy(task: &Task, bytes: &[u8]) -> Result<()> {
    let mxcsr = bytes.get(MXCSR..MXCSR + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
    if mxcsr & MXCSR_RESERVED != 0 {
        return Err(Errno::EINVAL);
    }
    let mut image = extended(task)?;
    for (to, from) in image.iter_mut().zip(bytes.iter().take(LEGACY_USED)) {
        *to = *from;
    }
    if let Some(components) = image.get_mut(HEADER) {
        *components |= 3;
    }
    task.traced.with_stop(|stop| stop.extended = Some(image))
}

fn set_extended(task: &Task, mut image: Vec<u8>) -> Result<()> {
    let header = image.get(HEADER..HEADER_END).ok_or(Errno::EFAULT)?;
    let (components, reserved) = header.split_at(ITEM);
    let components = components.try_into().map_or(0, u64::from_le_bytes);
    if components & !fpu::xsave_mask() != 0 || reserved.iter().any(|byte| *byte != 0) {
        return Err(Errno::EINVAL);
    }
    image[SOFTWARE_XCR0..SOFTWARE_XCR0 + 8].copy_from_slice(&fpu::xsave_mask().to_le_bytes());
    task.traced.with_stop(|stop| stop.extended = Some(image))
}

/// PTRACE_GETREGSET and PTRACE_SETREGSET; `vector` is the address of an iovec. EFAULT, EINVAL.
pub(super) fn register_set(task: &Task, set: bool, kind: usize, vector: usize) -> Result<()> {
    let [base, len]: [usize; 2] = user::read(vector)?;
    let size = match kind {
        NT_PRSTATUS => size_of::<Registers>(),
        NT_PRFPREG => LEGACY_LEN,
        NT_X86_XSTATE => fpu::xsave_size(),
        _ => return Err(Errno::EINVAL),
    };
    if !len.is_multiple_of(ITEM) {
        return Err(Errno::EINVAL);
    }
    let len = len.min(size);
    if set {
        let mut bytes = alloc::vec![0; len];
        user::read_bytes(base, &mut bytes)?;
        match kind {
            NT_PRSTATUS => {
                let mut registers = task.traced.with_stop(|stop| stop.registers)?;
                let old: &mut [u8] = bytemuck::cast_slice_mut(&mut registers);
                old[..len].copy_from_slice(&bytes);
                set_registers(task, registers)?;
            }
            NT_PRFPREG if len < size => return Err(Errno::EINVAL),
            NT_PRFPREG => set_legacy(task, &bytes)?,
            _ if len < size => return Err(Errno::EFAULT),
            _ => set_extended(task, bytes)?,
        }
    } else if kind == NT_PRSTATUS {
        let registers = task.traced.with_stop(|stop| stop.registers)?;
        let bytes: &[u8] = bytemuck::cast_slice(&registers);
        user::write_bytes(base, &bytes[..len])?;
    } else {
        let bytes = if kind == NT_PRFPREG { legacy(task)? } else { extended(task)? };
        user::write_bytes(base, bytes.get(..len).ok_or(Errno::EIO)?)?;
    }
    user::write(vector.wrapping_add(8), &len)
}
