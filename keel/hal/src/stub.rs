//! The ring-0 stub, the gate, and the ways back to a program: all the assembly of entry and exit.
//!
//! Ring 0 owns only what needs it: exceptions arrive there and are reflected to CPL 3, which reads what the processor
//! wrote down; `int3` in [`load_cr3`] or [`invalidate_page`] asks for these. Under software-nested KVM each ring-0
//! instruction costs 0.5 us, 0.9 us with an operand in memory, so the paths are as short as they can be.

use crate::percpu::{ENTRY_ADDRESS, ENTRY_RAX, ENTRY_RBX, SELF};
use crate::percpu::{FAULT_ADDRESS, FAULT_CODE, FAULT_RFLAGS, FAULT_RIP, FAULT_RSP, FAULT_VECTOR};
use crate::percpu::{IN_KEEL, KSTACK_TOP, USER_RSP, WORK_PENDING};
use crate::trap::kernel::{Hooks, QUICK_CALLS, Quick, Unlocked};
use crate::trap::{Exit, FaultInfo, TrapFrame};
use abi::layout::{KEEL_IMAGE, KEEL_PML4_SLOT, KICK_VECTOR, percpu, port, selector};
use core::arch::{asm, global_asm};

global_asm!(
    r#"
    .section .keel_header,"a",@progbits
    .quad 0x4c45454b4c4c5548        /* "HULLKEEL" */
    .long {version}
    .long 0
    .quad keel_start
    .quad keel_lstar
    .quad __bss_end
    .quad keel_start_cpu

    .section .text.stub,"ax",@progbits
    .code64

/* ---- boot: ring 0, rdi = boot information; on to CPL 3 at once -------------------------------- */
    .globl keel_start
keel_start:
    mov eax, {tss}              /* QEMU's own emulator looks for the TSS type that only LTR leaves */
    ltr ax
    lea rsp, [rip + keel_boot_stack_end]
    mov rax, rsp
    push {user_ss}
    push rax
    push 0x202
    push {user_cs}
    lea rax, [rip + 1f]
    push rax
    iretq
1:  xor ebp, ebp
    call {boot}
    ud2

/* ---- a further virtual CPU: ring 0; its kernel stack is that of its idle thread ------------------ */
    .globl keel_start_cpu
keel_start_cpu:
    mov eax, {tss}
    ltr ax
    mov rax, gs:[{kstack}]
    sub rax, {start_room}       /* below what the first switch to the idle thread finds */
    lea rsp, [rax - 64]
    push {user_ss}
    push rax
    push 0x202
    push {user_cs}
    lea rax, [rip + 1f]
    push rax
    iretq
1:  xor ebp, ebp
    call {start_cpu}
    ud2

/* ---- exceptions: ring 0 ----------------------------------------------------------------------
   An emulated instruction takes 0.5 us here, twice that with an operand in memory, so ring 0 does only what needs it:
   the processor has written down what happened on a stack that only exceptions use, keel reads it there at CPL 3. */
    .altmacro
    .macro vector n
    .balign 16
keel_vector_\n:
    .if \n == 14
    push rax
    mov rax, cr2
    .endif
    lea rsp, [rip + keel_entries + 40*\n]
    iretq
    .endm
    .globl keel_vectors
    .balign 16
keel_vectors:
    .set i, 0
    .rept 32
    vector %i
    .set i, i+1
    .endr

    /* What an `int3` of keel's own does: its gate leads here meanwhile. */
keel_ring0_load_cr3:
    mov cr3, rdi
    iretq
keel_ring0_invalidate_page:
    invlpg [rdi]
    iretq

    .balign 16
    .globl keel_interrupt
keel_interrupt:         /* rsp: rip, cs, rflags, rsp, ss, on a stack of its own: it may come while an exception is read */
    push rax
    mov rax, [rsp + 8]
    shr rax, 39
    cmp rax, {keel_slot}    /* what lies above it is no place, but a program may be about to find that out */
    je 4f
    mov rax, [rsp + 8]
    mov gs:[{f_rip}], rax
    mov rax, [rsp + 24]
    mov gs:[{f_rflags}], rax
    mov rax, [rsp + 32]
    mov gs:[{f_rsp}], rax
    mov dword ptr gs:[{f_vector}], 32
    pop rax
    lea rsp, [rip + keel_entries + 40*32]
    iretq
4:  /* keel looks at the mark at the next exit; but not any more between these labels: there it is left once more */
    mov dword ptr gs:[{work}], 1
    push rbx
    mov rbx, [rsp + 16]
    .macro unless_within start, end, other  /* rbx outside of [start, end): to `other`; changes rax */
    lea rax, [rip + \start]
    cmp rbx, rax
    jb \other
    lea rax, [rip + \end]
    cmp rbx, rax
    jae \other
    .endm
    .macro come_back start, end, to
    unless_within \start, \end, 8f
    lea rax, [rip + \to]
    mov [rsp + 16], rax
    jmp 3f
8:
    .endm
    unless_within keel_leaving_first, keel_leaving_last, 3f
    come_back keel_leaving, keel_leaving_end, keel_leave_again
    come_back keel_leaving_fast, keel_leaving_fast_end, keel_leave_again
    come_back keel_leaving_quick, keel_leaving_quick_end, keel_leave_quick_again
3:  pop rbx
    pop rax
    iretq

/* ---- exceptions: CPL 3 ------------------------------------------------------------------------
   Registers are those of the interrupted code, but rip, rsp, rflags, and rax after a page fault. There is no stack yet. */
    .macro entry n
    .balign 16
keel_entry_\n:
    .if \n == 14
    mov gs:[{e_address}], rax
    mov rax, gs:[{x_rax}]
    .endif
    mov gs:[{e_rax}], rax
    .if (\n != 8) && (\n != 10) && (\n != 11) && (\n != 12) && (\n != 13) && (\n != 14) && (\n != 17) && (\n != 21) && (\n != 29) && (\n != 30)
    mov qword ptr gs:[{x_code}], 0
    .endif
    mov eax, \n
    jmp keel_exception
    .endm
    .set i, 0
    .rept 32
    entry %i
    .set i, i+1
    .endr

    .balign 16
keel_exception:         /* eax: vector */
    mov gs:[{e_rbx}], rbx
    test byte ptr gs:[{x_cs}], 3
    jz keel_ring0_fault
    mov rbx, gs:[{x_rip}]
    shr rbx, 39
    cmp rbx, {keel_slot}
    je 4f
    .macro record
    mov gs:[{f_vector}], rax
    mov rax, gs:[{e_address}]
    mov gs:[{f_address}], rax
    mov rax, gs:[{x_code}]
    mov gs:[{f_code}], rax
    mov rax, gs:[{x_rip}]
    mov gs:[{f_rip}], rax
    mov rax, gs:[{x_rflags}]
    mov gs:[{f_rflags}], rax
    mov rax, gs:[{x_rsp}]
    mov gs:[{f_rsp}], rax
    mov rax, gs:[{e_rax}]
    mov rbx, gs:[{e_rbx}]
    .endm
keel_program_fault:     /* eax: vector */
    record
    jmp keel_fault_entry
4:  /* Keel's part of memory. A program that went astray to where there is no code of keel is still a program. */
    mov gs:[{f_vector}], rax
    mov rbx, gs:[{x_rip}]
    unless_within keel_image, keel_text_end, 9f
    mov rax, gs:[{f_vector}]
    cmp eax, 14
    je 6f
    cmp eax, 13
    je 7f
    cmp eax, 17
    je 5f
    cmp eax, 1
    jne keel_own_fault
    /* The program's trap flag came along: keel is not stepped through, but what follows the call is. */
    .macro gate_stepped gate
    lea rax, [rip + \gate]
    cmp rbx, rax
    je keel_stepped
    .endm
    gate_stepped keel_gate
    gate_stepped keel_gate_full
    and dword ptr gs:[{x_rflags}], 0xfffffeff
    jmp 3f
keel_stepped:
    lea rax, [rip + keel_gate_stepped]
    mov gs:[{x_rip}], rax
    and dword ptr gs:[{x_rflags}], 0xfffffeff
    jmp 3f
5:  /* So did its alignment check. On the way out it comes back, from the frame. */
    and dword ptr gs:[{x_rflags}], 0xfffbffff
    mov dword ptr gs:[{work}], 1
    jmp 3f
6:  /* A fault of a program access is fixed up. */
    unless_within keel_user_access, keel_user_access_end, 9f
    mov rax, gs:[{e_address}]
    mov gs:[{f_address}], rax
    lea rax, [rip + keel_user_access_stopped]
    mov gs:[{x_rip}], rax
3:  mov rax, gs:[{e_rax}]
    mov rbx, gs:[{e_rbx}]
    mov rsp, gs:[{own}]
    lea rsp, [rsp + {x_rip}]
    iretq
9:  mov rbx, gs:[{x_rip}]
    unless_within keel_image, keel_text_end, 8f
    mov rax, gs:[{f_vector}]
keel_own_fault:
    record
    lea rsp, [rip + keel_failure_stack_end]
    jmp keel_own_fault_entry
8:  mov rax, gs:[{f_vector}]
    jmp keel_program_fault
7:  /* The way out leads to no place that a processor can go to: the program has left keel and faults there. */
    .macro left_by_jump label
    lea rax, [rip + \label]
    cmp rbx, rax
    je keel_jumped_nowhere
    .endm
    left_by_jump keel_jump_quick
    left_by_jump keel_jump_fast
    lea rax, [rip + keel_iretq]
    cmp rbx, rax
    jne 9b
    test dword ptr gs:[{x_rflags}], 0x4000
    jz keel_returned_nowhere
    and dword ptr gs:[{x_rflags}], 0xffffbfff   /* IRETQ refuses to work under the program's nested task flag */
    jmp 3b
keel_returned_nowhere:
    mov rbx, gs:[{x_rsp}]
    mov rax, [rbx]
    mov gs:[{x_rip}], rax
    mov rax, [rbx + 16]
    mov gs:[{x_rflags}], rax
    mov rax, [rbx + 24]
    mov gs:[{x_rsp}], rax
    mov eax, 13
    jmp keel_program_fault
keel_jumped_nowhere:
    mov gs:[{x_rip}], rcx
    mov eax, 13
    jmp keel_program_fault
keel_ring0_fault:
    mov dx, {panic_port}
    out dx, al
    jmp keel_ring0_fault

    /* What IRETQ takes to get there. */
    .section .rodata.stub,"a",@progbits
    .balign 8
    .macro entry_frame n
    .quad keel_entry_\n
    .quad {user_cs}
    .quad 0x202
    .quad 0
    .quad {user_ss}
    .endm
keel_entries:
    .set i, 0
    .rept 32
    entry_frame %i
    .set i, i+1
    .endr
    .quad keel_fault_entry
    .quad {user_cs}
    .quad 0x202
    .quad 0
    .quad {user_ss}
    .section .text.stub,"ax",@progbits
    .noaltmacro

/* ---- into keel at CPL 3 ----------------------------------------------------------------------- */
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
    je keel_leaving_fast
9:  mov dword ptr gs:[{in_keel}], 0
    mov dword ptr [rip + {lock}], 0
keel_leaving_fast:
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
    jz keel_leaving_fast
    cmp eax, {held}
    je 9b
    ja keel_leave
    call {enter}
    jmp 7b

    .balign 16
    .globl keel_lstar
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
    call {enter}
    mov rdi, rsp
    call {fault}
    jmp keel_leave

    .balign 16
keel_idle_entry:        /* first code of an idle thread */
    call {idle}
    ud2

keel_leave_again:       /* left already, but for the last instructions: the frame is still there */
    mov rsp, gs:[{kstack}]
    sub rsp, {frame}
    call {enter}
    mov rdi, rsp
    call {resume}
    jmp keel_leave

    .balign 16
keel_thread_entry:      /* first code of a thread; rsp = its trap frame */
    mov rdi, rsp
    call {thread_start}
keel_leave:             /* everything from the frame */
    cmp byte ptr [rip + {several}], 0
    je keel_leaving
    mov dword ptr gs:[{in_keel}], 0
    mov dword ptr [rip + {lock}], 0
keel_leaving:
    cmp dword ptr gs:[{work}], 0
    jne keel_leave_again
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

/* ---- ring 0 on request ------------------------------------------------------------------------
   An `int3` is the cheapest way there, and programs have it for themselves: so the gate leads elsewhere meanwhile. Its
   first 16 bits are those of the address within 64 KiB. Nothing that may run here in between is a program. */
    .macro ring0 name
    .globl keel_\name
keel_\name:             /* rdi: root table or address */
    lea rax, [rip + keel_ring0_\name]
    mov gs:[{gate3}], ax
    int3
    lea rax, [rip + keel_vectors + 16*3]
    mov gs:[{gate3}], ax
    ret
    .endm
    ring0 load_cr3
    ring0 invalidate_page

/* ---- switching kernel stacks ------------------------------------------------------------------ */
    .globl keel_switch
keel_switch:            /* rdi: where to save rsp, rsi: rsp to go on with */
    push rbp
    push rbx
    push r12
    push r13
    push r14
    push r15
    mov [rdi], rsp
    mov rsp, rsi
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    ret

/* ---- access to program memory: a page fault between the labels continues at `stopped` ----------- */
    .balign 16
    .globl keel_user_copy
    .globl keel_user_clear
    .globl keel_user_load
    .globl keel_user_cmpxchg
    .globl keel_user_string
keel_user_access:
keel_user_copy:         /* rdi: to, rsi: from, rdx: bytes -> rax: bytes not copied */
    mov rcx, rdx
    rep movsb
    xor eax, eax
    ret
keel_user_clear:        /* rdi: to, rdx: bytes -> rax: bytes not cleared */
    mov rcx, rdx
    xor eax, eax
    rep stosb
    ret
keel_user_load:         /* rdi: address, rsi: result -> rax: 0, or not 0 when stopped */
    mov ecx, 1
    mov eax, [rdi]
    mov [rsi], eax
    xor eax, eax
    ret
keel_user_cmpxchg:      /* rdi: address, rsi: result, edx: old, r8d: new -> rax as above */
    mov ecx, 1
    mov eax, edx
    lock cmpxchg [rdi], r8d
    mov [rsi], eax
    xor eax, eax
    ret
keel_user_string:       /* rdi: to, rsi: from, rdx: most bytes -> rax: bytes not copied; ends after a 0 */
    mov rcx, rdx
    test rcx, rcx
    jz 10f
9:  mov al, [rsi]
    mov [rdi], al
    inc rsi
    inc rdi
    dec rcx
    test al, al
    jz 10f
    test rcx, rcx
    jnz 9b
10: xor eax, eax
    mov rdx, rcx
    ret
keel_user_access_end:
keel_user_access_stopped:
    mov rax, rcx
    ret

    .section .bss.stub,"aw",@nobits
    .balign 16
keel_boot_stack:
    .skip 32768
keel_boot_stack_end:
    .skip 16384
keel_failure_stack_end:
    .text
"#,
    version = const abi::VERSION,
    boot = sym crate::boot::rust_boot,
    syscall = sym rust_syscall,
    unlocked = sym rust_unlocked,
    held = const Unlocked::Held as u32,
    quick = sym keel_quick,
    hooks = sym KEEL_HOOKS,
    quick_calls = const core::mem::offset_of!(Hooks, quick_calls),
    calls = const QUICK_CALLS,
    fault = sym rust_fault,
    enter = sym crate::smp::rust_enter,
    resume = sym rust_resume,
    idle = sym rust_idle,
    start_cpu = sym rust_start_cpu,
    several = sym crate::sync::SEVERAL,
    lock = sym crate::smp::LOCK,
    frame = const size_of::<TrapFrame>(),
    start_room = const crate::thread::START_ROOM,
    thread_start = sym rust_thread_start,
    own_fault = sym crate::boot::rust_own_fault,
    keel_slot = const KEEL_PML4_SLOT,
    own = const SELF,
    gate3 = const gs_offset(percpu::IDT + 3 * 16),
    x_rip = const exception(0),
    x_cs = const exception(1),
    x_rflags = const exception(2),
    x_rsp = const exception(3),
    x_code = const exception(-1),
    x_rax = const exception(-2),
    e_address = const ENTRY_ADDRESS,
    e_rax = const ENTRY_RAX,
    e_rbx = const ENTRY_RBX,
    f_vector = const FAULT_VECTOR,
    f_code = const FAULT_CODE,
    f_address = const FAULT_ADDRESS,
    f_rip = const FAULT_RIP,
    f_rflags = const FAULT_RFLAGS,
    f_rsp = const FAULT_RSP,
    work = const WORK_PENDING,
    in_keel = const IN_KEEL,
    kstack = const KSTACK_TOP,
    user_rsp = const USER_RSP,
    user_ss = const selector::USER_DS,
    user_cs = const selector::USER_CS,
    panic_port = const port::PANIC,
    tss = const selector::TSS,
);

unsafe extern "Rust" {
    /// The kernel's entry points, exported by the image crate.
    safe static KEEL_HOOKS: Hooks;
}

unsafe extern "C" {
    fn keel_load_cr3(root: usize);
    fn keel_invalidate_page(address: usize);
    /// `keel_gate` or `keel_gate_full`, as the linker is told: the former if `keel_quick` keeps its promise.
    fn keel_gate_entry();
    fn keel_vectors();
    fn keel_interrupt();
    fn keel_thread_entry();
    fn keel_idle_entry();
}

/// GS offset of a place in the per-CPU block.
const fn gs_offset(place: usize) -> isize {
    place as isize - percpu::DATA as isize
}

/// GS offset of a word of what the processor wrote down at an exception: rip, cs, rflags, rsp and ss from 0 up, the error
/// code below, and below that rax, which the stub keeps there at page faults.
const fn exception(word: isize) -> isize {
    gs_offset(percpu::STACK0_END) + (word - 5) * 8
}

/// The hooks of the kernel above.
pub(crate) fn hooks() -> &'static Hooks {
    &KEEL_HOOKS
}

extern "C" fn rust_syscall(frame: &mut TrapFrame) -> Exit {
    (KEEL_HOOKS.syscall)(frame)
}

extern "C" fn rust_unlocked(frame: &mut TrapFrame) -> Unlocked {
    (KEEL_HOOKS.unlocked)(frame)
}

/// A call that may be served at once. Uses no vector registers, calls nothing and has no string
/// instructions: the build looks at its code.
// SAFETY: the name is unique in the image.
#[unsafe(no_mangle)]
extern "C" fn keel_quick(a: u64, b: u64, c: u64, number: u64) -> Quick {
    (KEEL_HOOKS.quick)(number, [a, b, c])
}

extern "C" fn rust_fault(frame: &mut TrapFrame) -> Exit {
    let info: FaultInfo = crate::percpu::fault_record();
    (KEEL_HOOKS.fault)(frame, info)
}

extern "C" fn rust_thread_start(frame: &mut TrapFrame) -> Exit {
    (KEEL_HOOKS.thread_start)(frame)
}

extern "C" fn rust_resume(frame: &mut TrapFrame) {
    (KEEL_HOOKS.resume)(frame);
}

extern "C" fn rust_idle() -> ! {
    (KEEL_HOOKS.idle)()
}

extern "C" fn rust_start_cpu() -> ! {
    crate::smp::rust_enter();
    (KEEL_HOOKS.start_cpu)()
}

/// Address of the gate that patched sites jump to.
fn gate_address() -> usize {
    keel_gate_entry as *const () as usize
}

/// Address where an idle thread's first switch returns to.
pub(crate) fn idle_entry_address() -> usize {
    keel_idle_entry as *const () as usize
}

/// Address where a new thread's first switch returns to.
pub(crate) fn thread_entry_address() -> usize {
    keel_thread_entry as *const () as usize
}

/// Loads a root table, which forgets all cached translations.
pub(crate) fn load_cr3(root: usize) {
    // SAFETY: the routine traps into the stub, which loads CR3 and returns; all root tables map keel.
    unsafe { keel_load_cr3(root) }
}

/// Forgets the cached translation of a page.
pub(crate) fn invalidate_page(address: usize) {
    // SAFETY: the routine traps into the stub, which executes INVLPG and returns.
    unsafe { keel_invalidate_page(address) }
}

/// Fills the interrupt descriptor table and the data block of a virtual CPU. The monitor pointed its
/// registers there and filled the other tables.
pub(crate) fn init_cpu(cpu: usize) {
    let block = abi::tables::block(cpu);
    let entry = |offset: usize, value: u64| {
        // SAFETY: the per-CPU block is reserved RAM in the direct map, and nobody else uses these
        // parts of it before this CPU's first exception.
        unsafe { core::ptr::write_volatile((block + offset) as *mut u64, value) }
    };
    let vectors = keel_vectors as *const () as usize;
    for n in 0..=usize::from(KICK_VECTOR) {
        // Vectors are 16 bytes apart. Breakpoint and overflow may be raised by programs (DPL 3).
        let (handler, stack): (_, u64) = if n == usize::from(KICK_VECTOR) {
            (keel_interrupt as *const () as usize as u64, 1)
        } else {
            ((vectors + n * 16) as u64, 2)
        };
        let dpl: u64 = if n == 3 || n == 4 { 0xee00 } else { 0x8e00 };
        let kind = (dpl | stack) << 32;
        let low = handler & 0xffff | u64::from(selector::KERNEL_CS) << 16 | kind | (handler >> 16 & 0xffff) << 48;
        entry(percpu::IDT + n * 16, low);
        entry(percpu::IDT + n * 16 + 8, handler >> 32);
    }
    let data = percpu::DATA;
    entry(data + crate::percpu::SELF, (block + data) as u64);
    entry(data + crate::percpu::GATE, gate_address() as u64);
    entry(data + crate::percpu::WORK_PENDING, (cpu as u64) << 32);
    entry(data + crate::percpu::IN_KEEL, 1);
}

/// Writes a byte to a port (doorbell, exits).
pub(crate) fn out(port: u16) {
    out_byte(port, 0);
}

/// Writes this byte to a port.
pub(crate) fn out_byte(port: u16, byte: u8) {
    // SAFETY: the I/O permission map allows these ports; the monitor owns them and touches only
    // the ring and memory that requests name.
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte, options(nostack, preserves_flags)) }
}

const _: () = assert!(KEEL_IMAGE.is_multiple_of(abi::layout::LARGE_PAGE_SIZE));
const _: () = assert!(crate::percpu::CPU_INDEX == WORK_PENDING + 4 && crate::percpu::FLUSH == IN_KEEL + 4);
