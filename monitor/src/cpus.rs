//! The virtual CPUs of a pod as the threads of the monitor see them: running, idle, on duty.
//!
//! Everything here is asked for by the guest: numbers of virtual CPUs that do not exist are ignored.

use crate::error::Error;
use crate::event::Event;
use crate::ring::RingEnd;
use crate::vcpu::Kick;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Processors of the host that this process may use at once: by its affinity and its control groups. Read once, as that
/// takes a dozen system calls.
pub fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// How long threads wait before an idle virtual CPU takes one: about what it takes to wake that.
const PATIENCE: Duration = Duration::from_micros(100);
/// How long they wait before a further virtual CPU is started.
const MORE_PATIENCE: Duration = Duration::from_micros(1500);
/// Looks in vain after which the next ones are as seldom as `MORE_PATIENCE`.
const MOST_IN_VAIN: u32 = 30;

/// One virtual CPU.
#[derive(Debug)]
struct Cpu {
    claimed: AtomicBool,
    kick: OnceLock<Arc<Kick>>,
    /// Its thread waits in the monitor.
    idle: AtomicBool,
    /// It shall go on, now or when it idles next.
    woken: AtomicBool,
    /// Ends its thread's wait.
    event: Event,
}

/// The virtual CPUs of a pod.
#[derive(Debug)]
pub struct Cpus {
    cpus: Vec<Cpu>,
    /// Most that are kept busy.
    most_busy: usize,
    /// Number of the one on duty and one more; 0: none is.
    duty: AtomicU32,
    /// When the thread on duty checks again, `CLOCK_MONOTONIC` ns.
    duty_deadline: AtomicU64,
}

impl Cpus {
    /// Those that a pod may have, `most_busy` of them at once; the first is taken.
    pub fn new(count: u32, most_busy: u32) -> Result<Self, Error> {
        let cpu = |index| -> Result<Cpu, Error> {
            Ok(Cpu {
                claimed: AtomicBool::new(index == 0),
                kick: OnceLock::new(),
                idle: AtomicBool::new(false),
                woken: AtomicBool::new(false),
                event: Event::new()?,
            })
        };
        Ok(Self {
            cpus: (0..count.max(1)).map(cpu).collect::<Result<_, _>>()?,
            most_busy: most_busy as usize,
            duty: AtomicU32::new(0),
            duty_deadline: AtomicU64::new(u64::MAX),
        })
    }

    fn get(&self, index: u32) -> Option<&Cpu> {
        self.cpus.get(index as usize)
    }

    /// Those that run or idle.
    fn existing(&self) -> impl Iterator<Item = (&Cpu, &Kick)> {
        self.cpus.iter().filter_map(|cpu| Some((cpu, &**cpu.kick.get()?)))
    }

    /// Claims the making of this one, if the pod may have it and it was not made yet.
    pub fn claim(&self, index: u32) -> bool {
        self.get(index).is_some_and(|cpu| !cpu.claimed.swap(true, SeqCst))
    }

    /// Notes what interrupts a new one.
    pub fn exists(&self, index: u32, kick: Arc<Kick>) {
        if let Some(cpu) = self.get(index) {
            let _ = cpu.kick.set(kick);
        }
    }

    /// Interrupts the program that one runs.
    pub fn kick(&self, index: u32) {
        if let Some(kick) = self.get(index).and_then(|cpu| cpu.kick.get()) {
            kick.send();
        }
    }

    /// Lets one go on that idles or is about to.
    pub fn wake(&self, index: u32) {
        if let Some(cpu) = self.get(index) {
            cpu.woken.store(true, SeqCst);
            cpu.event.signal();
        }
    }

    /// Makes all leave the guest, or their waits.
    pub fn disturb_all(&self) {
        for (cpu, kick) in self.existing() {
            cpu.event.signal();
            kick.send();
        }
    }

    /// Has keel look around on the one on duty or another idle one. Whether there was one.
    pub fn tell_idle(&self) -> bool {
        if let Some(cpu) = self.duty.load(SeqCst).checked_sub(1).and_then(|index| self.get(index)) {
            cpu.event.signal();
            return true;
        }
        self.wake_idle()
    }

    /// Lets an idle one go on. Whether there was one.
    fn wake_idle(&self) -> bool {
        let idle = self.existing().find(|(cpu, _)| cpu.idle.load(SeqCst) && !cpu.woken.load(SeqCst));
        if let Some((cpu, _)) = idle {
            cpu.woken.store(true, SeqCst);
            cpu.event.signal();
        }
        idle.is_some()
    }

    /// Has the one on duty look again at what it waits for. Whether there is one.
    pub fn remind_duty(&self) -> bool {
        let on_duty = self.duty.load(SeqCst).checked_sub(1).and_then(|index| self.get(index));
        if let Some(cpu) = on_duty {
            cpu.event.signal();
        }
        on_duty.is_some()
    }

    /// When the thread on duty checks again.
    pub fn duty_deadline(&self) -> u64 {
        self.duty_deadline.load(SeqCst)
    }

    /// Notes until when the one on duty waits.
    pub fn set_duty_deadline(&self, deadline_ns: u64) {
        self.duty_deadline.store(deadline_ns, SeqCst);
    }

    fn running(&self) -> impl Iterator<Item = &Kick> {
        self.existing().filter(|(cpu, _)| !cpu.idle.load(SeqCst)).map(|(_, kick)| kick)
    }

    /// Interrupts one that runs.
    pub fn kick_one(&self) {
        if let Some(kick) = self.running().next() {
            kick.send();
        }
    }

    /// Interrupts all that run.
    pub fn kick_running(&self) {
        self.running().for_each(Kick::send);
    }

    /// How many run.
    pub fn count_running(&self) -> usize {
        self.running().count()
    }

    /// Whether any runs.
    pub fn any_runs(&self) -> bool {
        self.running().next().is_some()
    }

    /// Whether this one is on duty.
    pub fn is_on_duty(&self, index: u32) -> bool {
        self.duty.load(SeqCst) == index + 1
    }

    /// Whether one is on duty.
    pub fn has_duty(&self) -> bool {
        self.duty.load(SeqCst) != 0
    }

    /// Whether another virtual CPU can be made, and the host has a processor for it.
    fn can_grow(&self) -> bool {
        let made = self.cpus.iter().filter(|cpu| cpu.claimed.load(SeqCst)).count();
        made < self.cpus.len().min(self.most_busy)
    }

    /// One begins to idle.
    pub fn begin_idle(&self, index: u32) {
        if let Some(cpu) = self.get(index) {
            cpu.idle.store(true, SeqCst);
        }
    }

    /// Whether one is on duty, from now on if none was.
    pub fn takes_duty(&self, index: u32) -> bool {
        match self.duty.compare_exchange(0, index + 1, SeqCst, SeqCst) {
            Ok(_) => true,
            Err(current) => current == index + 1,
        }
    }

    /// Whether this one was allowed to continue; consumes the permission.
    pub fn take_wake(&self, index: u32) -> bool {
        self.get(index).is_some_and(|cpu| cpu.woken.swap(false, SeqCst))
    }

    /// What ends the wait of one.
    ///
    /// # Panics
    /// If the pod may not have it.
    pub fn event(&self, index: u32) -> &Event {
        &self.cpus[index as usize].event
    }

    /// One goes on. Whether it was on duty.
    pub fn end_idle(&self, index: u32) -> bool {
        if let Some(cpu) = self.get(index) {
            cpu.idle.store(false, SeqCst);
        }
        self.duty.compare_exchange(index + 1, 0, SeqCst, SeqCst).is_ok()
    }
}

/// Watches for how long threads wait in keel's queue.
#[derive(Debug, Default)]
pub struct Watch {
    /// What the ring said, and since when.
    seen: Option<(u32, Instant)>,
    in_vain: u32,
}

impl Watch {
    /// Looks whether the same threads still wait, and sees to a virtual CPU for them. When to look again.
    pub fn look(&mut self, now: Instant, ring: &RingEnd, cpus: &Cpus) -> Option<Duration> {
        let any_idle = cpus.existing().any(|(cpu, _)| cpu.idle.load(SeqCst)) && cpus.count_running() < cpus.most_busy;
        if !any_idle && !cpus.can_grow() {
            return None;
        }
        let patience = if any_idle { PATIENCE } else { MORE_PATIENCE };
        let waiting = ring.waiting();
        match self.seen {
            Some((before, since)) if before == waiting && waiting & 1 != 0 => {
                if now.duration_since(since) >= patience {
                    self.seen = None;
                    self.in_vain = 0;
                    if !(any_idle && cpus.wake_idle()) && cpus.can_grow() {
                        ring.set_overdue();
                        cpus.kick_one();
                    }
                }
            }
            _ => {
                self.seen = Some((waiting, now));
                self.in_vain = self.in_vain.saturating_add(1);
            }
        }
        Some(if self.in_vain > MOST_IN_VAIN { MORE_PATIENCE } else { patience })
    }
}
