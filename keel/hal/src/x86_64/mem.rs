//! The memory routines that compiled code calls; keel has no C library.
//!
//! The string instructions are fast for long blocks (ERMS, FSRM); short ones are copied with a few
//! overlapping moves.
#![allow(unsafe_code)]

use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.mem,"ax",@progbits
    .balign 32
    .globl memcpy
    .globl keel_copy_shared
    .globl keel_fill_shared
    .globl memmove
    .globl memset
    .globl memcmp
    .globl bcmp
    .globl strlen
    .globl rust_eh_personality
    .globl _Unwind_Resume
keel_copy_shared:
memcpy:
    mov rax, rdi
    cmp rdx, 16
    jb 2f
    cmp rdx, 32
    ja 1f
    movups xmm0, [rsi]
    movups xmm1, [rsi + rdx - 16]
    movups [rdi], xmm0
    movups [rdi + rdx - 16], xmm1
    ret
1:  cmp rdx, 128
    ja 5f
    movups xmm0, [rsi]
    movups xmm1, [rsi + 16]
    movups xmm2, [rsi + rdx - 32]
    movups xmm3, [rsi + rdx - 16]
    cmp rdx, 64
    jbe 6f
    movups xmm4, [rsi + 32]
    movups xmm5, [rsi + 48]
    movups xmm6, [rsi + rdx - 64]
    movups xmm7, [rsi + rdx - 48]
    movups [rdi + 32], xmm4
    movups [rdi + 48], xmm5
    movups [rdi + rdx - 64], xmm6
    movups [rdi + rdx - 48], xmm7
6:  movups [rdi], xmm0
    movups [rdi + 16], xmm1
    movups [rdi + rdx - 32], xmm2
    movups [rdi + rdx - 16], xmm3
    ret
5:  mov rcx, rdx
    rep movsb
    ret
2:  cmp edx, 8
    jb 3f
    mov rcx, [rsi]
    mov rsi, [rsi + rdx - 8]
    mov [rdi], rcx
    mov [rdi + rdx - 8], rsi
    ret
3:  cmp edx, 4
    jb 4f
    mov ecx, [rsi]
    mov esi, [rsi + rdx - 4]
    mov [rdi], ecx
    mov [rdi + rdx - 4], esi
    ret
4:  test edx, edx
    jz 7f
    movzx ecx, byte ptr [rsi]
    movzx r8d, byte ptr [rsi + rdx - 1]
    shr edx, 1
    movzx esi, byte ptr [rsi + rdx]
    mov [rdi + rdx], sil
    mov [rdi], cl
    adc edx, edx
    mov [rdi + rdx - 1], r8b
7:  ret

    .balign 32
memmove:
    mov rax, rdi
    sub rax, rsi
    cmp rax, rdx
    jae memcpy          /* the destination does not begin inside the source */
    mov rax, rdi
    cmp rdx, 8
    jb 2f
    lea rsi, [rsi + rdx]
    lea rdi, [rdi + rdx]
1:  mov rcx, [rsi - 8]
    mov [rdi - 8], rcx
    sub rsi, 8
    sub rdi, 8
    sub rdx, 8
    cmp rdx, 8
    jae 1b
    sub rsi, rdx
    sub rdi, rdx
2:  test rdx, rdx
    jz 4f
3:  mov cl, [rsi + rdx - 1]
    mov [rdi + rdx - 1], cl
    dec rdx
    jnz 3b
4:  ret

    .balign 32
keel_fill_shared:
memset:
    mov r8, rdi
    mov eax, esi
    mov rcx, rdx
    cmp rdx, 64
    ja 1f
    movzx eax, al
    mov r9, 0x0101010101010101
    imul rax, r9
    cmp rdx, 8
    jb 2f
3:  mov [rdi], rax
    add rdi, 8
    sub rdx, 8
    cmp rdx, 8
    jae 3b
    mov [rdi + rdx - 8], rax
    mov rax, r8
    ret
2:  test rdx, rdx
    jz 4f
5:  mov [rdi + rdx - 1], al
    dec rdx
    jnz 5b
4:  mov rax, r8
    ret
1:  rep stosb
    mov rax, r8
    ret

    .balign 32
memcmp:
bcmp:
    xor eax, eax
1:  cmp rdx, 8
    jb 2f
    mov rcx, [rdi]
    mov r8, [rsi]
    cmp rcx, r8
    jne 3f
    add rdi, 8
    add rsi, 8
    sub rdx, 8
    jmp 1b
3:  bswap rcx
    bswap r8
    cmp rcx, r8
    sbb eax, eax
    or eax, 1
    ret
2:  test rdx, rdx
    jz 4f
5:  movzx eax, byte ptr [rdi]
    movzx ecx, byte ptr [rsi]
    sub eax, ecx
    jnz 4f
    inc rdi
    inc rsi
    dec rdx
    jnz 5b
4:  ret

strlen:
    mov rax, rdi
1:  cmp byte ptr [rax], 0
    je 2f
    inc rax
    jmp 1b
2:  sub rax, rdi
    ret

/* Named by the prebuilt core library; with panic=abort nothing unwinds. */
rust_eh_personality:
_Unwind_Resume:
    ud2
    .text
"#
);

// The same for memory that programs may change meanwhile: they are opaque to the compiler, so it assumes nothing about
// the memory that they read; `core::ptr` functions are used for keel's own memory only.
unsafe extern "C" {
    /// Copies `len` bytes; the two do not overlap.
    pub(crate) fn keel_copy_shared(to: *mut u8, from: *const u8, len: usize) -> *mut u8;
    /// Sets `len` bytes to one value.
    pub(crate) fn keel_fill_shared(to: *mut u8, byte: i32, len: usize) -> *mut u8;
}
