//! Restartable sequences, rseq(2).
//!
//! A thread registers a `struct rseq` in its memory. keel stores the current processor there. The thread may describe a
//! critical section (`struct rseq_cs`) that must be aborted after a context switch or a signal handler: then it
//! continues at the abort address. Context switches happen only on the return to the program, so [`settle`] checks
//! there, and only after a switch.

use super::{Task, current, with_current};
use crate::mm::exec::RSEQ_ALIGN;
use crate::mm::user;
use crate::patch;
use crate::signal::{SigInfo, send};
use abi::layout::USER_TOP;
use core::cell::Cell;
use hal::trap::TrapFrame;
use hal::{percpu, smp};
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// `sizeof(struct rseq)` of the first version.
const FIRST_SIZE: u32 = 32;
const UNREGISTER: u32 = 1;
/// `cpu_id` of an area that is not registered.
const UNINITIALIZED: u32 = u32::MAX;
/// Offsets in `struct rseq`.
const RSEQ_CS: usize = 8;
const FLAGS: usize = 16;
const NODE_ID: usize = 20;

/// Registration of a thread.
#[derive(Debug, Default)]
pub struct Rseq {
    /// Address of its `struct rseq`, or 0.
    area: Cell<usize>,
    len: Cell<u32>,
    signature: Cell<u32>,
    /// Processor and concurrency id stored in the area.
    told: Cell<(u32, u32)>,
    /// The thread's switch count at the last fault or interrupt, or the last [`settle`].
    switches: Cell<u32>,
    /// membarrier(2) requests an abort of the critical section without a switch.
    fence: Cell<bool>,
}

impl Rseq {
    /// For a new process: copies its creator's registration, because it has a copy of the memory.
    pub fn inherit(&self, from: &Self) {
        self.area.set(from.area.get());
        self.len.set(from.len.get());
        self.signature.set(from.signature.get());
        self.told.set(from.told.get());
    }

    /// The thread executes another program: removes the registration.
    pub fn forget(&self) {
        self.area.set(0);
        self.len.set(0);
        self.signature.set(0);
    }

    /// Whether an area is registered.
    #[inline(always)]
    pub fn is_registered(&self) -> bool {
        self.area.get() != 0
    }

    /// Address, length and signature of the registration, or zeros.
    pub fn configuration(&self) -> (usize, u32, u32) {
        (self.area.get(), self.len.get(), self.signature.get())
    }

    /// Aborts the thread's critical section before it continues.
    pub fn set_fence(&self) {
        self.fence.set(true);
    }

    /// Records a fault or an interrupt.
    #[inline(always)]
    pub fn entered(&self, switches: u32) {
        self.switches.set(switches);
    }
}

/// rseq(2). EBUSY, EFAULT, EINVAL, EPERM.
pub fn sys_rseq(area: usize, len: u32, flags: u32, signature: u32) -> Result<()> {
    let me = current();
    let rseq = &me.rseq;
    let known = (rseq.area.get(), rseq.len.get()) == (area, len);
    if flags & UNREGISTER != 0 {
        if flags != UNREGISTER || !rseq.is_registered() || !known {
            return Err(Errno::EINVAL);
        }
        if rseq.signature.get() != signature {
            return Err(Errno::EPERM);
        }
        write_ids(area, 0, UNINITIALIZED, 0)?;
        rseq.forget();
        return Ok(());
    }
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    if rseq.is_registered() {
        return Err(match () {
            () if !known => Errno::EINVAL,
            () if rseq.signature.get() != signature => Errno::EPERM,
            () => Errno::EBUSY,
        });
    }
    if len < FIRST_SIZE || !area.is_multiple_of(RSEQ_ALIGN) {
        return Err(Errno::EINVAL);
    }
    user::access_ok(area, len as usize)?;
    // A previous user of this memory may have left it set.
    if user::read::<u64>(area + RSEQ_CS)? != 0 {
        user::write(area + RSEQ_CS, &0u64)?;
    }
    let (cpu, cid) = ids(&me);
    write_ids(area, cpu, cpu, cid)?;
    rseq.told.set((cpu, cid));
    rseq.len.set(len);
    rseq.signature.set(signature);
    rseq.area.set(area);
    Ok(())
}

fn write_ids(area: usize, start: u32, cpu: u32, cid: u32) -> Result<()> {
    user::write(area, &[start, cpu])?;
    // There is one NUMA node: 0.
    user::write(area + NODE_ID, &[0, cid])
}

/// Processor of the current thread, and its concurrency id: the lowest number that is not used by another running
/// thread with the same memory.
fn ids(me: &Task) -> (u32, u32) {
    let cpu = percpu::cpu_index();
    if !smp::several() {
        return (cpu as u32, 0);
    }
    let mut taken = 0u64;
    super::for_each_running_beside(me, |other| {
        if other.rseq.is_registered() {
            taken |= 1 << (other.rseq.told.get().1 & 63);
        }
    });
    (cpu as u32, taken.trailing_ones())
}

/// The current thread was scheduled: updates the processor number in its area if it changed.
#[inline(always)]
pub fn switched(me: &Task) {
    if me.rseq.is_registered() {
        tell(me);
    }
}

fn tell(me: &Task) {
    let rseq = &me.rseq;
    let new = ids(me);
    if rseq.told.replace(new) == new {
        return;
    }
    let (area, (cpu, cid)) = (rseq.area.get(), new);
    let written = hal::user::copy_out_value(area, &[cpu, cpu])
        .and_then(|()| hal::user::copy_out_value(area + NODE_ID, &[0u32, cid]));
    if written.is_err() {
        // The page is not mapped now: update on the return to the program.
        rseq.told.set((UNINITIALIZED, 0));
        me.sched.work.set(true);
        percpu::set_work_pending();
    }
}

/// On the return to the program: aborts the critical section if other threads ran meanwhile.
#[inline(always)]
pub fn settle(frame: &mut TrapFrame) {
    let due = with_current(|me| {
        let rseq = &me.rseq;
        let switches = me.sched.switches();
        rseq.is_registered() && (rseq.switches.replace(switches) != switches) | rseq.fence.replace(false)
    });
    if due {
        abort_section(frame);
    }
}

/// Aborts the critical section before a signal handler, or after other threads ran.
#[cold]
pub fn abort_section(frame: &mut TrapFrame) {
    let me = current();
    let area = me.rseq.area.get();
    if area == 0 {
        return;
    }
    let done = refresh(&me, area).and_then(|()| section(&me, area, frame.instruction_pointer()));
    match done {
        Ok(None) => {}
        Ok(Some(abort)) => frame.set_instruction_pointer(abort),
        Err(_) => send::force(&me, SigInfo::from_kernel(g::SIGSEGV)),
    }
}

/// Writes the ids if an earlier attempt failed.
fn refresh(me: &Task, area: usize) -> Result<()> {
    if me.rseq.told.get().0 != UNINITIALIZED {
        return Ok(());
    }
    let (cpu, cid) = ids(me);
    me.rseq.told.set((cpu, cid));
    write_ids(area, cpu, cpu, cid)
}

/// The abort address if the thread is in its critical section; `place` is its frame's instruction pointer. EFAULT,
/// EINVAL: malformed.
fn section(me: &Task, area: usize, place: u64) -> Result<Option<u64>> {
    let at: u64 = user::read(area + RSEQ_CS)?;
    if at == 0 {
        return Ok(None);
    }
    let [head, start, length, abort]: [u64; 4] = user::read(at as usize)?;
    let (version, flags) = (head as u32, (head >> 32) as u32);
    let end = start.checked_add(length).ok_or(Errno::EINVAL)?;
    if [start, end, abort].iter().any(|at| *at >= USER_TOP as u64) || version > 0 {
        return Err(Errno::EINVAL);
    }
    if abort.wrapping_sub(start) < length {
        return Err(Errno::EINVAL);
    }
    let signature: u32 = user::read((abort as usize).wrapping_sub(4))?;
    if signature != me.rseq.signature.get() {
        return Err(Errno::EINVAL);
    }
    let inside = patch::program_address(place).wrapping_sub(start) < length;
    // Flags that keep sections from being aborted are obsolete.
    if inside && (flags != 0 || user::read::<u32>(area + FLAGS)? != 0) {
        return Err(Errno::EINVAL);
    }
    user::write(area + RSEQ_CS, &0u64)?;
    Ok(inside.then_some(abort))
}
