//! The code of the virtual shared object. Not a module of the crate: the build script compiles this
//! file alone.
//!
//! It runs in programs, on any stack, so it makes no calls and accesses only the data page and its arguments. Bad
//! pointers fault in the program, as on Linux.
#![no_std]
#![allow(unsafe_code)]

mod vvar;

use core::arch::{asm, global_asm};
use core::ptr::{addr_of, read_volatile};
use vvar::{Base, CLOCK_LIMIT, CLOCKS, PRECISE_CLOCKS, REALTIME, Vvar};

const SYS_CLOCK_GETTIME: usize = 228;
const SYS_CLOCK_GETRES: usize = 229;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// struct timespec.
#[repr(C)]
pub struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

/// struct timeval.
#[repr(C)]
pub struct Timeval {
    seconds: i64,
    microseconds: i64,
}

/// struct timezone.
#[repr(C)]
pub struct Timezone {
    minutes_west: i32,
    dst_time: i32,
}

/// The data page.
#[inline(always)]
fn vvar() -> *const Vvar {
    let page;
    // SAFETY: computes the address of the linker script's symbol; no memory is touched.
    unsafe { asm!("lea {}, [rip + vvar_page]", out(reg) page, options(pure, nomem, nostack, preserves_flags)) }
    page
}

/// Reads the time stamp counter after all earlier loads.
#[inline(always)]
fn counter() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: RDTSC is enabled for programs. Without `nomem`, so that loads are not moved across it.
    unsafe { asm!("lfence", "rdtsc", out("rax") low, out("rdx") high, options(nostack, preserves_flags)) }
    high << 32 | low
}

/// Upper half of a product.
#[inline(always)]
fn high(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// Returns `value`, but hides it from the optimiser, so that it uses a branch and not a conditional move: the branch is
/// predicted nearly always, and a conditional move would wait for the value.
#[inline(always)]
fn stay_branch(mut value: u64) -> u64 {
    // SAFETY: emits no instruction.
    unsafe { asm!("/* {} */", inout(reg) value, options(nomem, nostack, preserves_flags)) }
    value
}

/// The time of a clock: seconds and ns.
///
/// Reading the counter takes longest, and the next reading waits for all earlier instructions. So little is computed
/// from the counter: seconds are divided off only if the base is old.
#[inline(always)]
fn now(clock: usize) -> (u64, u64) {
    let page = vvar();
    loop {
        // SAFETY: keel maps the data page readable before the image and fills it before the program
        // starts; the callers give a clock below CLOCK_LIMIT.
        unsafe {
            let sequence = read_volatile(addr_of!((*page).sequence));
            let mut elapsed = counter().wrapping_sub(read_volatile(addr_of!((*page).tsc_base)));
            let mult = read_volatile(addr_of!((*page).mult));
            let Base { mut seconds, ns } = read_volatile(addr_of!((*page).bases).cast::<Base>().add(clock));
            // x86 does not reorder loads with loads; volatile keeps the compiler from doing so.
            if sequence & 1 == 0 && read_volatile(addr_of!((*page).sequence)) == sequence {
                // The counter of another CPU may be slightly behind.
                if (elapsed as i64) < 0 {
                    elapsed = stay_branch(0);
                }
                let mut ns = ns + high(elapsed, mult);
                if ns >= NS_PER_SECOND {
                    ns = stay_branch(ns - NS_PER_SECOND);
                    seconds += 1;
                    if ns >= NS_PER_SECOND {
                        seconds += stay_branch(ns) / NS_PER_SECOND;
                        ns %= NS_PER_SECOND;
                    }
                }
                return (seconds, ns);
            }
        }
        core::hint::spin_loop();
    }
}

/// Whether `clock` is in the bit set `set`.
#[inline(always)]
fn is_in(clock: i32, set: u32) -> bool {
    (clock as u32) < CLOCK_LIMIT as u32 && set >> clock & 1 != 0
}

/// Makes a system call.
#[inline(always)]
fn syscall(number: usize, a: usize, b: usize, c: usize) -> isize {
    let result;
    // SAFETY: the caller of the shared object asked for this call with these arguments.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c,
            out("rcx") _, out("r11") _, options(nostack));
    }
    result
}

/// clock_gettime(2).
#[unsafe(no_mangle)]
pub extern "C" fn __vdso_clock_gettime(clock: i32, time: *mut Timespec) -> i32 {
    if !is_in(clock, CLOCKS) {
        return syscall(SYS_CLOCK_GETTIME, clock as usize, time as usize, 0) as i32;
    }
    let (seconds, ns) = now(clock as usize);
    // SAFETY: the program's pointer; a bad one faults in the program.
    unsafe { time.write(Timespec { seconds: seconds as i64, nanoseconds: ns as i64 }) }
    0
}

/// clock_getres(2).
#[unsafe(no_mangle)]
pub extern "C" fn __vdso_clock_getres(clock: i32, resolution: *mut Timespec) -> i32 {
    if !is_in(clock, PRECISE_CLOCKS) {
        return syscall(SYS_CLOCK_GETRES, clock as usize, resolution as usize, 0) as i32;
    }
    if !resolution.is_null() {
        // SAFETY: the program's pointer; a bad one faults in the program.
        unsafe { resolution.write(Timespec { seconds: 0, nanoseconds: 1 }) }
    }
    0
}

/// gettimeofday(2).
#[unsafe(no_mangle)]
pub extern "C" fn __vdso_gettimeofday(time: *mut Timeval, zone: *mut Timezone) -> i32 {
    // SAFETY: the program's pointers; a bad one faults in the program.
    unsafe {
        if !time.is_null() {
            let (seconds, ns) = now(REALTIME);
            time.write(Timeval { seconds: seconds as i64, microseconds: (ns / 1000) as i64 });
        }
        if !zone.is_null() {
            zone.write(Timezone { minutes_west: 0, dst_time: 0 });
        }
    }
    0
}

/// time(2).
#[unsafe(no_mangle)]
pub extern "C" fn __vdso_time(time: *mut i64) -> i64 {
    let seconds = now(REALTIME).0 as i64;
    if !time.is_null() {
        // SAFETY: the program's pointer; a bad one faults in the program.
        unsafe { time.write(seconds) }
    }
    seconds
}

/// getcpu(2).
#[unsafe(no_mangle)]
pub extern "C" fn __vdso_getcpu(cpu: *mut u32, node: *mut u32, _cache: *mut u8) -> i32 {
    // SAFETY: the data page is mapped; the GS base points to keel's per-CPU data, which programs may read; a bad
    // pointer of the program faults in the program.
    unsafe {
        if !cpu.is_null() {
            let at = u64::from(read_volatile(addr_of!((*vvar()).cpu_at)));
            let number: u32;
            asm!("mov {:e}, gs:[{}]", out(reg) number, in(reg) at, options(nostack, preserves_flags, readonly));
            cpu.write(number);
        }
        if !node.is_null() {
            node.write(0);
        }
    }
    0
}

// The names without prefix, weak as in Linux.
global_asm!(
    ".macro weak_alias name",
    ".weak \\name",
    ".type \\name, @function",
    ".set \\name, __vdso_\\name",
    ".endm",
    "weak_alias clock_gettime",
    "weak_alias clock_getres",
    "weak_alias gettimeofday",
    "weak_alias time",
    "weak_alias getcpu",
);
