//! Further virtual CPUs: who starts and wakes them.

use super::{CPUS, here};
use crate::task::Task;
use abi::layout::MAX_CPUS;
use alloc::rc::Rc;
use core::cell::Cell;
use hal::cell::Global;
use hal::thread::{self, Thread};
use hal::{percpu, smp};

/// Virtual CPUs that wait in the monitor, one bit each.
pub(super) static IDLE: Global<Cell<u32>> = Global::new(Cell::new(0));

/// All virtual CPUs that the pod may have, one bit each.
pub(super) fn all_cpus() -> u64 {
    u64::MAX >> (64 - hal::boot::boot_info().cpus.clamp(1, MAX_CPUS as u32))
}

/// Sees to it that a queued thread that may not use all CPUs gets one of its own.
pub(super) fn call_cpu_for(task: &Rc<Task>) {
    let wanted = task.sched.affinity.get() & all_cpus();
    let here = 1u64 << percpu::cpu_index();
    let online = u64::from(smp::online());
    let idle = u64::from(IDLE.get()) & wanted;
    if idle != 0 {
        wake_cpu(idle.trailing_zeros() as usize);
    } else if wanted & here == 0 && wanted & online == 0 && wanted != 0 {
        start_cpu(wanted.trailing_zeros() as usize);
    } else if wanted & here == 0 {
        // It shares the CPU with what runs there.
        smp::call_attention((wanted & online).trailing_zeros() as usize);
    }
}

fn wake_cpu(cpu: usize) {
    IDLE.set(IDLE.get() & !(1 << cpu));
    smp::wake(cpu);
}

/// Starts a further virtual CPU. Without memory for it, those that are there go on. As on any that has nothing to
/// run, its current thread is one that runs elsewhere or not at all.
pub(super) fn start_cpu(cpu: usize) {
    for cpu in [percpu::cpu_index(), cpu] {
        let Some(slot) = CPUS.get(cpu) else { return };
        if slot.idle.borrow().is_none() {
            let Some(thread) = Thread::idle() else { return };
            *slot.idle.borrow_mut() = Some(Rc::new(thread));
        }
    }
    let idle = CPUS.get(cpu).and_then(|slot| slot.idle.borrow().clone());
    if let Some(idle) = idle {
        if let Some(me) = crate::task::try_current() {
            crate::task::set_current_of(cpu, me);
        }
        smp::start(cpu, &idle);
    }
}

/// hal's hook: a further virtual CPU begins to run.
pub fn start_on_cpu() -> ! {
    let idle = here().idle.borrow().clone();
    let Some(idle) = idle else { unreachable!("started without an idle thread") };
    thread::switch(None, &idle);
    unreachable!("the boot stack is never switched to")
}
