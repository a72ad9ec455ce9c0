//! Several virtual CPUs: the big lock, and what one of them does to the others.
//!
//! A virtual CPU takes the lock when it enters keel and gives it back when it goes on with a program or
//! idles; the lock belongs to the virtual CPU, not to the thread. While only the first one is awake there
//! is no lock: entries test a flag. Some calls are served without it: for the others they are part of the program.
//!
//! Each says in its per-CPU block whether it is in keel (or on the way there, or idle). The holder of the
//! lock may rely on one that is not running a program: it touches no program memory before it has the lock, and then
//! first does what the `FLUSH` word asks for. That is what [`stop_others`] makes true. Stores become visible in
//! their order (SDM volume 3, 9.2.2), so who sees the word also sees all that the program stored before.

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

/// The big lock: 1 while it is held. Means nothing while one virtual CPU is awake.
pub(crate) static LOCK: Line = Line(AtomicU32::new(0));
/// Ticks of the time stamp counter that virtual CPUs have waited for the lock.
static CONTENDED: Global<Cell<u64>> = Global::new(Cell::new(0));
/// Virtual CPUs that were started, one bit each.
static ONLINE: AtomicU32 = AtomicU32::new(1);

/// For how long virtual CPUs have waited for the lock since this was asked last, all together, in ns.
pub fn take_contended_ns() -> u64 {
    crate::clock::ns_of(CONTENDED.take())
}

/// The virtual CPUs that were started, one bit each.
pub fn online() -> u32 {
    ONLINE.load(SeqCst)
}

/// The virtual CPUs that were started, but for this one.
pub(crate) fn others() -> impl Iterator<Item = usize> {
    let mask = online() & !(1 << percpu::cpu_index());
    (0..u32::BITS as usize).filter(move |cpu| mask >> cpu & 1 != 0)
}

/// A virtual CPU comes into keel: waits for the lock.
pub(crate) extern "C" fn rust_enter() {
    if !several() {
        return;
    }
    percpu::set_in_keel();
    if LOCK.0.swap(1, Acquire) != 0 {
        let start = counter();
        wait_for(|| LOCK.0.load(Relaxed) == 0 && LOCK.0.swap(1, Acquire) == 0);
        CONTENDED.set(CONTENDED.get().wrapping_add(counter().wrapping_sub(start)));
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
    !several() || percpu::is_in_keel()
}

/// Waits for another virtual CPU, which the host may have descheduled.
#[cold]
fn wait_for(mut done: impl FnMut() -> bool) {
    let mut round = 0;
    while !done() {
        sync::relax(&mut round);
    }
}

/// Runs `f`, which touches no state of keel, without the lock. The caller holds no borrows: others come
/// into keel meanwhile.
pub fn without_lock<R>(f: impl FnOnce() -> R) -> R {
    if several() {
        LOCK.0.store(0, Release);
    }
    let result = f();
    rust_enter();
    result
}

/// Starts a further virtual CPU, whose first thread is `idle`; and the first virtual CPU's, if it was alone
/// so far. Its `start_cpu` hook runs soon.
pub fn start(cpu: usize, idle: &Thread) {
    crate::init_cpu(cpu);
    word_of(cpu, percpu::KSTACK_TOP).store(idle.top() as u32, Relaxed);
    word_of(cpu, percpu::KSTACK_TOP + 4).store((idle.top() as u64 >> 32) as u32, Relaxed);
    if !several() {
        // From here on this virtual CPU holds the lock: it gives it back on its way out.
        percpu::set_in_keel();
        LOCK.0.store(1, SeqCst);
        sync::set_several();
    }
    ONLINE.fetch_or(1 << cpu, SeqCst);
    doorbell::start(cpu);
}

/// Lets a virtual CPU go on that is idle or about to be.
pub fn wake(cpu: usize) {
    doorbell::wake(cpu);
}

/// Asks a virtual CPU that polls for work to look around.
pub fn nudge(cpu: usize) {
    word_of(cpu, WORK_PENDING).store(1, SeqCst);
}

fn in_program(cpu: usize) -> bool {
    word_of(cpu, IN_KEEL).load(Acquire) == 0
}

/// Asks another virtual CPU to look around before it goes on with its program; a running program is
/// interrupted.
pub fn call_attention(cpu: usize) {
    word_of(cpu, WORK_PENDING).store(1, SeqCst);
    if in_program(cpu) {
        doorbell::kick(cpu);
    }
}

/// Stops the others that `which` chooses until this virtual CPU gives the lock back: none runs a program
/// then, and each forgets its cached translations before it does again, by an instruction that also makes
/// it see changed code.
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

/// Stops all others until this virtual CPU gives the lock back; see the module.
pub fn stop_others() {
    if several() {
        stop(|_| true);
    }
}
