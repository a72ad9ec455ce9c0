//! The instructions that access program memory.
//!
//! A page fault between the labels `keel_user_access` and `keel_user_access_end` continues at
//! `keel_user_access_stopped` ([`super::restart`]): the routine returns the remaining count, which is in rcx then.
#![allow(unsafe_code)]

use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.entry,"ax",@progbits
    .balign 16
    .globl keel_user_copy
    .globl keel_user_clear
    .globl keel_user_load
    .globl keel_user_cmpxchg
    .globl keel_user_string
    .globl keel_user_access
    .globl keel_user_access_end
    .globl keel_user_access_stopped
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
    .text
"#
);

unsafe extern "C" {
    /// Copies `len` bytes from the program; returns the number of bytes not copied.
    #[link_name = "keel_user_copy"]
    pub(crate) fn keel_user_copy_in(to: usize, from: usize, len: usize) -> usize;
    /// Copies `len` bytes to the program; returns the number of bytes not copied.
    #[link_name = "keel_user_copy"]
    pub(crate) fn keel_user_copy_out(to: usize, from: usize, len: usize) -> usize;
    /// Zeroes `len` bytes; returns the number of bytes not zeroed.
    pub(crate) fn keel_user_clear(to: usize, unused: usize, len: usize) -> usize;
    /// Reads a word; returns 0, or non-zero after a fault.
    pub(crate) fn keel_user_load(address: usize, result: *mut u32) -> usize;
    /// Compare-and-exchange of a word; returns 0, or non-zero after a fault.
    pub(crate) fn keel_user_cmpxchg(address: usize, result: *mut u32, old: u32, unused: u32, new: u32) -> usize;
    /// Copies bytes up to a zero byte, at most `len`; returns the number of bytes not copied because of a fault.
    pub(crate) fn keel_user_string(to: *mut u8, from: usize, len: usize) -> usize;
}
