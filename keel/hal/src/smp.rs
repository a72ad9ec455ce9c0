//! Several virtual CPUs: the big lock, and shootdowns.
//!
//! A virtual CPU takes the lock when it enters keel and releases it when it returns to a program or idles; the lock
//! belongs to the virtual CPU, not to the thread. While only the first one is awake there is no lock: entries test a
//! flag. Some calls run without it; for the other virtual CPUs they count as program code.
//!
//! The per-CPU block says whether the virtual CPU is in keel (or entering it, or idle). The holder of the lock may rely
//! on a virtual CPU that does not run a program: it accesses no program memory before it has the lock, and then first
//! handles its `FLUSH` word. [`stop_others`] establishes that. Stores become visible in order (SDM volume 3, 9.2.2), so
//! a CPU that sees the word also sees all earlier stores of the program.

use crate::cell::Global;
use crate::doorbell;
use crate::instructions::counter;
use crate::percpu::{self, FLUSH, IN_KEEL, WORK_PENDING, word_of};
use crate::sync;
use crate::thread::Thread;
use core::cell::Cell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

pub use crate::sync::several;

/// A word with a cache line of its own.
#[repr(C, align(64))]
pub(crate) struct Line(AtomicU32);

/// The big lock: 1 while it is held. Unused while one virtual CPU is awake.
pub(crate) static LOCK: Line = Line(AtomicU32::new(0));
/// Total time that virtual CPUs have waited for the lock, in TSC ticks.
static CONTENDED: Global<Cell<u64>> = Global::new(Cell::new(0));
/// Started virtual CPUs, as a bitmap.
static ONLINE: AtomicU32 = AtomicU32::new(1);

/// Total time that virtual CPUs have waited for the lock since the last call, in ns.
pub fn take_contended_ns() -> u64 {
    crate::clock::ns_of(CONTENDED.take())
}

/// The started virtual CPUs, as a bitmap.
pub fn online() -> u32 {
    ONLINE.load(SeqCst)
}

/// The other started virtual CPUs.
pub(crate) fn others() -> impl Iterator<Item = usize> {
    let mask = online() & !(1 << percpu::cpu_index());
    (0..u32::BITS as usize).filter(move |cpu| mask >> cpu & 1 != 0)
}

/// Entry of a virtual CPU into keel: waits for the lock.
pub(crate) extern "C" fn rust_enter() {
    if !several() {
        return;
    }
    percpu::set_in_keel();
    if LOCK.0.swap(1, Acquire) != 0 {
        let start = counter();
        wait_for(|| LOCK.0.load(Relaxed) == 0 && LOCK.0.swap(1, Acquire) == 0);
        let ticks = counter().wrapping_sub(start);
        CONTENDED.set(CONTENDED.get().wrapping_add(ticks));
        sync::waits::waited_for_big_lock(ticks);
    }
    if percpu::take_flush() {
        crate::paging::reload();
    }
}

/// Takes the big lock in the middle of a call that began without it; see [`crate::hooks::Unlocked`].
pub fn enter() {
    rust_enter();
}

/// Whether this virtual CPU has the big lock, if there is one.
#[inline(always)]
pub(crate) fn is_held() -> bool {
    !several() || percpu::is_in_keel() && !percpu::is_released()
}

/// Spins for another virtual CPU, which the host may have preempted.
#[cold]
fn wait_for(mut done: impl FnMut() -> bool) {
    let mut round = 0;
    while !done() {
        sync::relax(&mut round);
    }
}

/// Runs `f` without the lock. `f` accesses no state of keel but what its locks protect, holds none of these at its end,
/// and no program memory. The caller must hold no borrows: others enter keel meanwhile.
///
/// The virtual CPU still counts as being in keel, so those that stop programs do not wait for it.
pub fn without_lock<R>(f: impl FnOnce() -> R) -> R {
    if !several() {
        return f();
    }
    percpu::set_released(true);
    LOCK.0.store(0, Release);
    let result = f();
    rust_enter();
    percpu::set_released(false);
    result
}

/// Lets the other virtual CPUs take the lock, for a caller that repeats what it does until one of them has made progress:
/// the lock is not fair, and the thread of the monitor that waits for it may not run at this moment. The caller must hold
/// no borrows.
pub fn give_way() {
    /// The platform yields the processor of the host twice meanwhile: the monitor may have to run the other's thread first.
    const ROUNDS: u32 = 2500;
    without_lock(|| {
        let mut round = 0;
        while several() && round < ROUNDS && LOCK.0.load(Relaxed) == 0 {
            sync::relax(&mut round);
        }
    });
}

/// Starts another virtual CPU, whose first thread is `idle`; from then on the big lock is used. Its `start_cpu` hook
/// runs soon.
pub fn start(cpu: usize, idle: &Thread) {
    crate::init_cpu(cpu);
    word_of(cpu, percpu::KSTACK_TOP).store(idle.top() as u32, Relaxed);
    word_of(cpu, percpu::KSTACK_TOP + 4).store((idle.top() as u64 >> 32) as u32, Relaxed);
    if !several() {
        // From here on this virtual CPU holds the lock: it releases it when it leaves keel.
        percpu::set_in_keel();
        LOCK.0.store(1, SeqCst);
        sync::set_several();
    }
    ONLINE.fetch_or(1 << cpu, SeqCst);
    doorbell::start(cpu);
}

/// Wakes a virtual CPU that is idle or about to be.
pub fn wake(cpu: usize) {
    doorbell::wake(cpu);
}

/// Makes a polling virtual CPU check for work.
pub fn nudge(cpu: usize) {
    word_of(cpu, WORK_PENDING).store(1, SeqCst);
}

fn in_program(cpu: usize) -> bool {
    word_of(cpu, IN_KEEL).load(Acquire) == 0
}

/// Makes another virtual CPU check for work before it returns to its program; interrupts a running program.
pub fn call_attention(cpu: usize) {
    word_of(cpu, WORK_PENDING).store(1, SeqCst);
    if in_program(cpu) {
        doorbell::kick(cpu);
    }
}

/// Stops the others that `which` selects until this virtual CPU releases the lock: none runs a program then, and each
/// flushes its TLB before it does so again, with a serialising instruction, so that it also sees changed code.
///
/// Panics without the big lock.
pub(crate) fn stop(which: impl Fn(usize) -> bool) {
    assert!(is_held(), "programs are stopped under the big lock");
    let mut waiting = 0u32;
    for cpu in others().filter(|cpu| which(*cpu)) {
        word_of(cpu, FLUSH).store(1, SeqCst);
        word_of(cpu, WORK_PENDING).store(1, SeqCst);
        if in_program(cpu) {
            waiting |= 1 << cpu;
            doorbell::kick(cpu);
        }
    }
    if waiting != 0 {
        wait_for(|| {
            for cpu in others() {
                if waiting >> cpu & 1 != 0 && !in_program(cpu) {
                    waiting &= !(1 << cpu);
                }
            }
            waiting == 0
        });
    }
}

/// Stops all others until this virtual CPU releases the lock; see the module.
pub fn stop_others() {
    if several() {
        stop(|_| true);
    }
}
