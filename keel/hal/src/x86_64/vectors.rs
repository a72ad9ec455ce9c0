//! Exception and interrupt vectors.
//!
//! Exceptions enter ring 0 and are reflected to CPL 3 at once. Under software-nested KVM each ring-0 instruction costs
//! 0.5 us, 0.9 us with a memory operand, so ring 0 does only what requires it: the processor has pushed the exception
//! frame on a stack that only exceptions use, and keel reads it there at CPL 3.
//!
//! An exception in keel's text is handled if [`super::restart`] lists the address; otherwise it is a failure of keel.
#![allow(unsafe_code)]

use super::percpu::{ENTRY_ADDRESS, ENTRY_RAX, ENTRY_RBX, SELF, WORK_PENDING, gs_offset};
use super::percpu::{FAULT_ADDRESS, FAULT_CODE, FAULT_RFLAGS, FAULT_RIP, FAULT_RSP, FAULT_VECTOR};
use abi::layout::{KEEL_PML4_SLOT, KICK_VECTOR, percpu, port, selector};
use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.entry,"ax",@progbits
/* ---- ring 0 ----------------------------------------------------------------------------------- */
    .globl keel_iretq_refused
    .globl keel_jumped_nowhere
    .altmacro
    .macro vector n
    .balign 16
keel_vector_\n:
    .if \n == 14
    push rax
    mov rax, cr2
    lea rsp, [rsp + {entries} + 40*\n - {stack0} + 56]
    .else
    .if (\n != 8) && (\n != 10) && (\n != 11) && (\n != 12) && (\n != 13) && (\n != 17) && (\n != 21) && (\n != 29) && (\n != 30)
    lea rsp, [rsp + {entries} + 40*\n - {stack0} + 40]
    .else
    lea rsp, [rsp + {entries} + 40*\n - {stack0} + 48]
    .endif
    .endif
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

    .balign 16
    .globl keel_interrupt
keel_interrupt:         /* rsp: rip, cs, rflags, rsp, ss, on a stack of its own: it may come while an exception is read */
    push rax
    mov rax, [rsp + 8]
    shr rax, 39
    cmp rax, {keel_slot}    /* what lies above it is no place, but a program may be about to find that out */
    je 4f
    mov rax, [rsp + 8]
    mov [rsp + {own_stack} + {f_rip}], rax
    mov rax, [rsp + 24]
    mov [rsp + {own_stack} + {f_rflags}], rax
    mov rax, [rsp + 32]
    mov [rsp + {own_stack} + {f_rsp}], rax
    mov dword ptr [rsp + {own_stack} + {f_vector}], 32
    pop rax
    lea rsp, [rsp + {entries} + 40*32 - {stack1} + 40]
    iretq
4:  /* keel looks at the mark at the next exit; but not any more between these labels: there it is left once more */
    mov dword ptr [rsp + {own_stack} + {work}], 1
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
    /* rbx lies in a range of `group`: rax is where to go on; else to `none`. Changes `at`. */
    .macro find_restart group, at, none
    lea \at, [rip + keel_restart_\group]
71: cmp rbx, [\at]
    jb 72f
    cmp rbx, [\at + 8]
    jb 73f
72: add \at, {restart_entry}
    lea rax, [rip + keel_restart_\group\()_end]
    cmp \at, rax
    jb 71b
    jmp \none
73: mov rax, [\at + 16]
    .endm
    unless_within keel_leaving_first, keel_leaving_last, 3f     /* seldom: most interrupts of keel need no search */
    push rcx
    find_restart interrupt, rcx, 5f
    mov [rsp + 24], rax
5:  pop rcx
3:  pop rbx
    pop rax
    iretq

/* ---- CPL 3 --------------------------------------------------------------------------------------
   Registers are those of the interrupted code, but rip, rsp, rflags, and rax after a page fault. There is no stack yet;
   rsp leads to the virtual CPU's data, as the GS base does unless the program has changed that. */
    .macro entry n
    .balign 16
keel_entry_\n:
    .if \n == 14
    mov [rsp + {e_address}], rax
    mov rax, [rsp + {x_rax}]
    .endif
    mov [rsp + {e_rax}], rax
    .if (\n != 8) && (\n != 10) && (\n != 11) && (\n != 12) && (\n != 13) && (\n != 14) && (\n != 17) && (\n != 21) && (\n != 29) && (\n != 30)
    mov qword ptr [rsp + {x_code}], 0
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
keel_entry_32:          /* an interrupt of a program; what it interrupted is written down */
    mov [rsp + {e_rax}], rax
    rdgsbase rax
    cmp rax, rsp
    mov rax, [rsp + {e_rax}]
    je keel_fault_entry
    wrgsbase rsp
    jmp keel_fault_entry

    .balign 16
keel_exception:         /* eax: vector */
    mov [rsp + {e_rbx}], rbx
    rdgsbase rbx
    cmp rbx, rsp
    jne keel_base_lost
keel_base_found:
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
    find_restart step, rsp, 2f
    mov gs:[{x_rip}], rax
2:  and dword ptr gs:[{x_rflags}], 0xfffffeff
    jmp 3f
5:  /* So did its alignment check. On the way out it comes back, from the frame. */
    and dword ptr gs:[{x_rflags}], 0xfffbffff
    mov dword ptr gs:[{work}], 1
    jmp 3f
6:  /* An access to program memory stops. */
    find_restart page_fault, rsp, 9f
    mov gs:[{x_rip}], rax
    mov rax, gs:[{e_address}]
    mov gs:[{f_address}], rax
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
7:  /* A way out leads to no place that a processor can go to: the program has left keel and faults there. */
    find_restart protection, rsp, 9b
    jmp rax
keel_iretq_refused:
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
    /* The program loaded GS, or wrote its base. What failed for that reason is done again: the first instructions of
       keel, or the program's that reads the address of the gate. A trap has happened already. */
keel_base_lost:
    wrgsbase rsp
    mov ebx, {traps}
    bt ebx, eax
    jc keel_base_found
    mov rbx, [rsp + {x_rip}]
    unless_within keel_lstar, keel_lstar_end, 3b
    lea rax, [rip + keel_lstar]
    cmp rbx, rax
    jne 2f
    mov qword ptr [rsp + {x_cs}], {user_cs}     /* on hardware KVM a `syscall` begins in ring 0, but need not */
    mov qword ptr [rsp + {x_ss}], {user_ss}
    jmp 3b
2:  /* It took its stack from where the program led it: a program without a stack. */
    mov [rsp + {x_rip}], rcx
    mov [rsp + {x_rflags}], r11
    mov eax, 13
    jmp keel_program_fault
keel_ring0_fault:
    mov dx, {panic_port}
    out dx, al
    jmp keel_ring0_fault

    /* Where IRETQ goes. */
    .section .rodata.entry,"a",@progbits
    .balign 8
    .macro entry_address n
    .quad keel_entry_\n
    .endm
    .globl keel_entries
keel_entries:
    .set i, 0
    .rept 33
    entry_address %i
    .set i, i+1
    .endr
    .noaltmacro

    .section .bss.entry,"aw",@nobits
    .balign 16
    .skip 16384
keel_failure_stack_end:
    .text
"#,
    restart_entry = const super::restart::ENTRY_BYTES,
    keel_slot = const KEEL_PML4_SLOT,
    own = const SELF,
    x_rip = const exception(0),
    x_cs = const exception(1),
    x_rflags = const exception(2),
    x_rsp = const exception(3),
    x_ss = const exception(4),
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
    user_ss = const selector::USER_DS,
    user_cs = const selector::USER_CS,
    panic_port = const port::PANIC,
    entries = const ENTRIES,
    stack0 = const percpu::STACK0_END,
    stack1 = const percpu::INTERRUPT_STACK_END,
    own_stack = const gs_offset_from_interrupt(),
    traps = const TRAPS,
);

/// Place in the per-CPU block of what IRETQ takes to get to CPL 3: a frame of [`ENTRY_FRAME`] words for each vector.
const ENTRIES: usize = 0x800;
/// Words of such a frame: rip, cs, rflags, rsp, ss.
const ENTRY_FRAME: usize = 5;
/// Number of them: exceptions, and the interrupt.
const ENTRY_COUNT: usize = KICK_VECTOR as usize + 1;
/// Exceptions that come behind the instruction: debug, NMI, breakpoint, overflow, machine check (SDM volume 3, table 6-1).
const TRAPS: u32 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 18;

const _: () = assert!(ENTRIES >= percpu::DATA + 0x100 && ENTRIES + ENTRY_COUNT * ENTRY_FRAME * 8 <= percpu::IDT);
// The first exception finds its frame from the end of the stack, which the processor aligns to 16.
const _: () = assert!(percpu::STACK0_END.is_multiple_of(16) && percpu::INTERRUPT_STACK_END.is_multiple_of(16));

/// Distance of the per-CPU data from the interrupt stack with the processor's frame and one more word on it.
const fn gs_offset_from_interrupt() -> isize {
    percpu::DATA as isize - (percpu::INTERRUPT_STACK_END as isize - 48)
}

unsafe extern "C" {
    fn keel_vectors();
    fn keel_interrupt();
    #[link_name = "keel_entries"]
    static KEEL_ENTRIES: [u64; ENTRY_COUNT];
}

/// GS offset of a word of the exception frame: rip, cs, rflags, rsp and ss from 0 up, the error code below, and below
/// that rax, which ring 0 saves there at page faults.
const fn exception(word: isize) -> isize {
    gs_offset(percpu::STACK0_END) + (word - 5) * 8
}

/// Fills the interrupt descriptor table of a virtual CPU, whose IDTR the monitor has set, and the frames that lead to CPL 3.
pub(super) fn fill_idt(cpu: usize) {
    let vectors = keel_vectors as *const () as usize;
    for n in 0..=usize::from(KICK_VECTOR) {
        // Handlers are 16 bytes apart. Breakpoint and overflow have DPL 3.
        let (handler, stack): (_, u64) = if n == usize::from(KICK_VECTOR) {
            (keel_interrupt as *const () as usize as u64, 1)
        } else {
            ((vectors + n * 16) as u64, 2)
        };
        let dpl: u64 = if n == 3 || n == 4 { 0xee00 } else { 0x8e00 };
        let kind = (dpl | stack) << 32;
        let low = handler & 0xffff | u64::from(selector::KERNEL_CS) << 16 | kind | (handler >> 16 & 0xffff) << 48;
        super::percpu::write_block(cpu, percpu::IDT + n * 16, low);
        super::percpu::write_block(cpu, percpu::IDT + n * 16 + 8, handler >> 32);
    }
    let data = (abi::tables::block(cpu) + percpu::DATA) as u64;
    // SAFETY: the assembly above defines this table of constants.
    for (n, &entry) in unsafe { &KEEL_ENTRIES }.iter().enumerate() {
        let frame = [entry, u64::from(selector::USER_CS), 0x202, data, u64::from(selector::USER_DS)];
        for (word, value) in frame.into_iter().enumerate() {
            super::percpu::write_block(cpu, ENTRIES + (n * ENTRY_FRAME + word) * 8, value);
        }
    }
}
