//! The static workload: system calls from its own text, no C library. `static NAME` prints nanoseconds per operation;
//! `static pause` prints a line and waits, `static use` does so after it used 400 MB of memory and gave them back; `static` alone ends at once.

#![no_std]
#![no_main]
#![allow(unsafe_code)]

use core::arch::{asm, global_asm};

const READ: usize = 0;
const WRITE: usize = 1;
const OPEN: usize = 2;
const MMAP: usize = 9;
const MUNMAP: usize = 11;
const PAUSE: usize = 34;
const GETPPID: usize = 110;
const CLOCK_GETTIME: usize = 228;
const EXIT_GROUP: usize = 231;
const O_RDWR: usize = 2;
const CLOCK_MONOTONIC: usize = 1;
/// Memory that `static use` touches, in bytes.
const MUCH: usize = 400 << 20;
/// Operations between two clock readings.
const BATCH: u64 = 20_000;
/// Duration of a measurement, in ns.
const SPAN: u64 = 100_000_000;

global_asm!(".globl _start", "_start:", "mov rdi, rsp", "and rsp, -16", "call {begin}", "ud2", begin = sym begin);

/// # Safety
/// The safety requirements of the system call.
unsafe fn call(number: usize, a: usize, b: usize, c: usize) -> isize {
    let result;
    // SAFETY: a system call of Linux; the caller guarantees that its effects on memory are sound.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// # Safety
/// `stack` is the initial stack of a new program.
unsafe extern "C" fn begin(stack: *const usize) -> ! {
    // SAFETY: the stack begins with argc and argv.
    let name = unsafe { if *stack > 1 { *(*stack.add(2) as *const u8) } else { 0 } };
    match name {
        b'd' => devnull(),
        b'p' => pause(),
        b'u' => {
            use_memory();
            pause();
        }
        b'g' => measure(|| {
            // SAFETY: touches no memory.
            unsafe { call(GETPPID, 0, 0, 0) };
        }),
        _ => {}
    }
    // SAFETY: ends the program.
    unsafe { call(EXIT_GROUP, 0, 0, 0) };
    loop {}
}

fn pause() {
    // SAFETY: writes from a constant, then waits for a signal.
    unsafe {
        call(WRITE, 1, b"waiting\n".as_ptr() as usize, 8);
        call(PAUSE, 0, 0, 0);
    }
}

/// Maps, touches and unmaps memory.
fn use_memory() {
    // SAFETY: a mapping of its own at an address of the kernel's choice, touched within its bounds, or an errno.
    unsafe {
        let start = map_anonymous(MUCH);
        if start > 0 {
            for page in (0..MUCH).step_by(4096) {
                ((start as usize + page) as *mut u8).write_volatile(1);
            }
            call(MUNMAP, start as usize, MUCH, 0);
        }
    }
}

/// # Safety
/// As mmap(2).
unsafe fn map_anonymous(len: usize) -> isize {
    let result;
    // SAFETY: a system call of Linux: readable and writable, private, anonymous, no descriptor.
    unsafe {
        asm!("syscall", inlateout("rax") MMAP => result, in("rdi") 0, in("rsi") len, in("rdx") 3, in("r10") 0x22,
            in("r8") -1_isize, in("r9") 0, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

fn devnull() {
    let buffer = [0_u8; 64];
    // SAFETY: the path is a C string.
    let fd = unsafe { call(OPEN, c"/dev/null".as_ptr() as usize, O_RDWR, 0) } as usize;
    measure(|| {
        // SAFETY: the buffer has 64 bytes; reading /dev/null stores nothing.
        unsafe {
            call(WRITE, fd, buffer.as_ptr() as usize, 64);
            call(READ, fd, buffer.as_ptr() as usize, 64);
        }
    });
}

fn now() -> u64 {
    let mut time = [0_u64; 2];
    // SAFETY: stores a timespec, two words.
    unsafe { call(CLOCK_GETTIME, CLOCK_MONOTONIC, &raw mut time as usize, 0) };
    time[0] * 1_000_000_000 + time[1]
}

/// Runs `operation` for a while and prints its cost in hundredths of a nanosecond.
fn measure(operation: impl Fn()) {
    for _ in 0..BATCH {
        operation();
    }
    let start = now();
    let (mut count, mut end) = (0, start);
    while end - start < SPAN {
        for _ in 0..BATCH {
            operation();
        }
        count += BATCH;
        end = now();
    }
    print((end - start) * 100 / count);
}

/// Prints hundredths as a decimal number.
fn print(mut hundredths: u64) {
    let mut text = [b'\n'; 24];
    let mut at = text.len() - 1;
    for digit in 0.. {
        if digit == 2 {
            at -= 1;
            text[at] = b'.';
        }
        at -= 1;
        text[at] = b'0' + (hundredths % 10) as u8;
        hundredths /= 10;
        if hundredths == 0 && digit >= 2 {
            break;
        }
    }
    // SAFETY: writes from the text.
    unsafe { call(WRITE, 1, text.as_ptr().add(at) as usize, text.len() - at) };
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: ends the program.
    unsafe { call(EXIT_GROUP, 101, 0, 0) };
    loop {}
}
