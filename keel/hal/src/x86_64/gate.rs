//! Entries into keel at CPL 3 and returns to the program: the gate of patched sites, `syscall`, exceptions; and the
//! initial code of threads.
//!
//! An entry saves the registers in a [`TrapFrame`] at the top of the thread's kernel stack and calls the kernel above;
//! a return path checks for pending work, loads the registers and jumps. An interrupt between that check and the jump
//! restarts the return path ([`super::restart`]).
#![allow(unsafe_code)]

use super::percpu::{FAULT_RFLAGS, FAULT_RIP, FAULT_RSP, IN_KEEL, KSTACK_TOP, USER_RSP, WORK_PENDING};
use crate::hooks::{Hooks, QUICK_CALLS, Unlocked};
use crate::trap::TrapFrame;
use abi::layout::selector;
use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.entry,"ax",@progbits
    /* Named by the vectors and by the table of restartable ranges. */
    .globl keel_leaving_first
    .globl keel_leaving_last
    .globl keel_leaving
    .globl keel_leaving_end
    .globl keel_leave_again
    .globl keel_leaving_fast
    .globl keel_leaving_fast_end
    .globl keel_leaving_quick
    .globl keel_leaving_quick_end
    .globl keel_leave_quick_again
    .globl keel_jump_quick
    .globl keel_jump_fast
    .globl keel_iretq
    .globl keel_gate_stepped
    .globl keel_fault_entry
    .globl keel_own_fault_entry

    .macro push_registers
    push rdi
    push rsi
    push rdx
    push rcx
    push rax
    push r8
    push r9
    push r10
    push r11
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    sub rsp, 256
    movaps [rsp + 0], xmm0
    movaps [rsp + 16], xmm1
    movaps [rsp + 32], xmm2
    movaps [rsp + 48], xmm3
    movaps [rsp + 64], xmm4
    movaps [rsp + 80], xmm5
    movaps [rsp + 96], xmm6
    movaps [rsp + 112], xmm7
    movaps [rsp + 128], xmm8
    movaps [rsp + 144], xmm9
    movaps [rsp + 160], xmm10
    movaps [rsp + 176], xmm11
    movaps [rsp + 192], xmm12
    movaps [rsp + 208], xmm13
    movaps [rsp + 224], xmm14
    movaps [rsp + 240], xmm15
    .endm
    .macro call_frame       /* of a patched site: rcx, where to go on; r11, its stack */
    push 0
    push {user_ss}
    push r11
    pushfq                  /* what a processor keeps of them behind a `syscall`, but for those of arithmetic */
    push {user_cs}
    push rcx
    push 0
    push_registers
    cld
    .endm
    .macro fault_frame      /* of what was written down */
    push 0
    push {user_ss}
    push qword ptr gs:[{f_rsp}]
    push qword ptr gs:[{f_rflags}]
    push {user_cs}
    push qword ptr gs:[{f_rip}]
    push 2
    push_registers
    .endm
    .macro load_vectors
    movaps xmm0, [rsp + 0]
    movaps xmm1, [rsp + 16]
    movaps xmm2, [rsp + 32]
    movaps xmm3, [rsp + 48]
    movaps xmm4, [rsp + 64]
    movaps xmm5, [rsp + 80]
    movaps xmm6, [rsp + 96]
    movaps xmm7, [rsp + 112]
    movaps xmm8, [rsp + 128]
    movaps xmm9, [rsp + 144]
    movaps xmm10, [rsp + 160]
    movaps xmm11, [rsp + 176]
    movaps xmm12, [rsp + 192]
    movaps xmm13, [rsp + 208]
    movaps xmm14, [rsp + 224]
    movaps xmm15, [rsp + 240]
    .endm

/* A patched site jumps here: rcx = where to go on; rcx, r11 and the flags are free, as behind a `syscall`. Calls
   that `quick` serves touch no more registers than a function may, and no vector registers at all:
   nothing needs to be saved for them but what they may change. They take no lock, and count as the program. */
    .macro call_quick
    mov r11, rsp
    mov rsp, gs:[{kstack}]
    push r11
    push rcx
    push rax
    push rdi
    push rsi
    push rdx
    push r8
    push r9
    push r10
    sub rsp, 8
    mov rcx, rax
    call {quick}
    add rsp, 8
    pop r10
    pop r9
    pop r8
    test rdx, rdx
    pop rdx
    pop rsi
    pop rdi
    .endm
    /* Something happened since the call was served: a full frame, as if it had been made the long way. */
keel_leave_quick_again:
    mov rsp, gs:[{kstack}]
    mov r11, [rsp - 8]
    mov rcx, [rsp - 16]
    call_frame
    jmp keel_leave_again

keel_leaving_first:
    .balign 64
    .globl keel_gate
keel_gate:
    cmp rax, {calls}
    jae keel_gate_full
    lea r11, [rip + {hooks} + {quick_calls}]
    cmp byte ptr [r11 + rax], 0
    je keel_gate_full
    call_quick
    jnz 8f
keel_leaving_quick:
    cmp dword ptr gs:[{work}], 0
    jne keel_leave_quick_again
    mov rcx, [rsp + 8]
    mov rsp, [rsp + 16]
keel_jump_quick:
    jmp rcx
keel_leaving_quick_end:
8:  pop rax
    pop rcx
    pop rsp

    .globl keel_gate_full
keel_gate_full:
    mov r11, rsp
    mov rsp, gs:[{kstack}]
    call_frame
    cmp byte ptr [rip + {several}], 0
    jne 8f
7:  mov rdi, rsp
    call {syscall}
    test eax, eax
    jnz keel_leave
    cmp byte ptr [rip + {several}], 0
    je .Lleaving_fast
9:  mov dword ptr gs:[{in_keel}], 0
    mov dword ptr [rip + {lock}], 0
keel_leaving_fast:
.Lleaving_fast:          /* for short jumps: those to a global label are not */
    cmp dword ptr gs:[{work}], 0
    jne keel_leave_again
    load_vectors
    mov r10, [rsp + 256 + 7*8]
    mov r9, [rsp + 256 + 8*8]
    mov r8, [rsp + 256 + 9*8]
    mov rax, [rsp + 256 + 10*8]
    mov rdx, [rsp + 256 + 12*8]
    mov rsi, [rsp + 256 + 13*8]
    mov rdi, [rsp + 256 + 14*8]
    mov rcx, [rsp + 256 + 16*8]
    mov rsp, [rsp + 256 + 19*8]
keel_jump_fast:
    jmp rcx
keel_leaving_fast_end:
8:  mov rdi, rsp            /* several virtual CPUs: the call counts as the program until it needs the lock */
    call {unlocked}
    test eax, eax
    jz .Lleaving_fast
    cmp eax, {held}
    je 9b
    ja keel_leave
    call {enter}
    jmp 7b

    .balign 16
    .globl keel_lstar
    .globl keel_lstar_end
keel_lstar:             /* `syscall`: CPL 3 under software-nested KVM, CPL 0 on hardware */
    mov gs:[{user_rsp}], rsp
    mov rsp, gs:[{kstack}]
    push 0
    push {user_ss}
    push qword ptr gs:[{user_rsp}]
    push r11
    push {user_cs}
    push rcx
    push 1
    push_registers
    mov rax, rsp
    push {user_ss}
    push rax
    push 0x202
    push {user_cs}
    lea rbx, [rip + 8f]
    push rbx
    iretq
keel_lstar_end:
8:  call {enter}
    mov rdi, rsp
    call {syscall}
    jmp keel_leave
keel_gate_stepped:      /* a patched call under the trap flag: it comes back with the frame */
    mov r11, rsp
    mov rsp, gs:[{kstack}]
    call_frame
    or dword ptr [rsp + 256 + 18*8], 0x100
    jmp 8b

    .balign 16
keel_fault_entry:       /* what happened is written down; all registers but rip, rsp, rflags are the program's */
    mov rsp, gs:[{kstack}]
    fault_frame
    cmp byte ptr [rip + {several}], 0
    je 7f
    call {unlocked_fault}   /* several virtual CPUs: as with calls, it counts as the program until it needs the lock */
    test eax, eax
    jnz .Lleaving
    call {enter}
7:  mov rdi, rsp
    call {fault}
    jmp keel_leave

    .balign 16
    .globl keel_idle_entry
keel_idle_entry:        /* first code of an idle thread */
    call {idle}
    ud2

keel_leave_again:       /* left already, but for the last instructions: the frame is still there */
.Lleave_again:
    mov rsp, gs:[{kstack}]
    sub rsp, {frame}
    call {enter}
    mov rdi, rsp
    call {resume}
    jmp keel_leave

    .balign 16
    .globl keel_thread_entry
keel_thread_entry:      /* first code of a thread; rsp = its trap frame */
    mov rdi, rsp
    call {thread_start}
keel_leave:             /* everything from the frame */
    cmp byte ptr [rip + {several}], 0
    je .Lleaving
    mov dword ptr gs:[{in_keel}], 0
    mov dword ptr [rip + {lock}], 0
keel_leaving:
.Lleaving:
    cmp dword ptr gs:[{work}], 0
    jne .Lleave_again
    load_vectors
    add rsp, 256
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    pop r11
    pop r10
    pop r9
    pop r8
    pop rax
    pop rcx
    pop rdx
    pop rsi
    pop rdi
    add rsp, 8
keel_iretq:
    iretq
keel_leaving_end:
keel_leaving_last:

    .balign 16
keel_own_fault_entry:   /* keel itself faulted, for want of stack perhaps: the report has one of its own */
    fault_frame
    cld
    mov rdi, rsp
    call {own_fault}
    ud2
    .text
"#,
    syscall = sym crate::hooks::rust_syscall,
    unlocked = sym crate::hooks::rust_unlocked,
    held = const Unlocked::Held as u32,
    quick = sym crate::hooks::keel_quick,
    hooks = sym crate::hooks::KEEL_HOOKS,
    quick_calls = const core::mem::offset_of!(Hooks, quick_calls),
    calls = const QUICK_CALLS,
    fault = sym crate::hooks::rust_fault,
    unlocked_fault = sym crate::hooks::rust_unlocked_fault,
    enter = sym crate::smp::rust_enter,
    resume = sym crate::hooks::rust_resume,
    idle = sym crate::hooks::rust_idle,
    several = sym crate::sync::SEVERAL,
    lock = sym crate::smp::LOCK,
    frame = const size_of::<TrapFrame>(),
    thread_start = sym crate::hooks::rust_thread_start,
    own_fault = sym crate::report::rust_own_fault,
    f_rip = const FAULT_RIP,
    f_rflags = const FAULT_RFLAGS,
    f_rsp = const FAULT_RSP,
    work = const WORK_PENDING,
    in_keel = const IN_KEEL,
    kstack = const KSTACK_TOP,
    user_rsp = const USER_RSP,
    user_ss = const selector::USER_DS,
    user_cs = const selector::USER_CS,
);

unsafe extern "C" {
    /// `keel_gate` or `keel_gate_full`, set at link time: the former if `keel_quick` uses only the permitted registers.
    fn keel_gate_entry();
    fn keel_thread_entry();
    fn keel_idle_entry();
}

/// Address of the gate that patched sites jump to.
pub(super) fn gate_address() -> usize {
    keel_gate_entry as *const () as usize
}

/// Return address of an idle thread's first switch.
pub(crate) fn idle_entry_address() -> usize {
    keel_idle_entry as *const () as usize
}

/// Return address of a new thread's first switch.
pub(crate) fn thread_entry_address() -> usize {
    keel_thread_entry as *const () as usize
}
