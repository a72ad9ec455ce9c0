//! The virtual CPUs of a pod, for the monitor's threads. [`crate::run::State`] records which of them wait.
//!
//! The guest chooses the arguments here: numbers of virtual CPUs that do not exist are ignored.

use crate::event::Event;
use crate::ring::RingEnd;
use crate::run::State;
use crate::vcpu::Kick;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Host processors that this process may use at once, by its affinity and its control groups. Cached, because reading
/// them takes a dozen system calls.
pub fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// How long threads wait in the run queue before an idle virtual CPU is woken for one: about the cost of the wake-up.
const PATIENCE: Duration = Duration::from_micros(100);
/// How long threads wait in the run queue before another virtual CPU is started.
const MORE_PATIENCE: Duration = Duration::from_micros(1500);
/// Number of unsuccessful checks after which the period grows to `MORE_PATIENCE`.
const MOST_IN_VAIN: u32 = 30;

/// One virtual CPU.
#[derive(Debug, Default)]
struct Cpu {
    claimed: AtomicBool,
    kick: OnceLock<Arc<Kick>>,
}

/// The virtual CPUs of a pod: which exist, and their kicks.
#[derive(Debug)]
pub struct Cpus {
    cpus: Vec<Cpu>,
    /// Maximum number of busy virtual CPUs.
    most_busy: usize,
}

impl Cpus {
    /// A pod may have `count` of them, `most_busy` busy at once; the first exists.
    pub fn new(count: u32, most_busy: u32) -> Self {
        let cpus = Self { cpus: (0..count.max(1)).map(|_| Cpu::default()).collect(), most_busy: most_busy as usize };
        cpus.claim(0);
        cpus
    }

    /// Maximum number of virtual CPUs.
    pub fn count(&self) -> u32 {
        self.cpus.len() as u32
    }

    fn get(&self, index: u32) -> Option<&Cpu> {
        self.cpus.get(index as usize)
    }

    /// Claims the creation of a virtual CPU; `false` if the pod may not have it or it exists.
    pub fn claim(&self, index: u32) -> bool {
        self.get(index).is_some_and(|cpu| !cpu.claimed.swap(true, SeqCst))
    }

    /// Registers the kick of a new virtual CPU.
    pub fn exists(&self, index: u32, kick: Arc<Kick>) {
        if let Some(cpu) = self.get(index) {
            let _ = cpu.kick.set(kick);
        }
    }

    /// Interrupts the program that a virtual CPU runs.
    pub fn kick(&self, index: u32) {
        if let Some(kick) = self.get(index).and_then(|cpu| cpu.kick.get()) {
            kick.send();
        }
    }

    /// The virtual CPUs that exist and are not idle.
    fn running(&self, state: &State<Event>) -> impl Iterator<Item = &Kick> {
        let running = self.cpus.iter().enumerate().filter(|(index, _)| !state.is_idle(*index));
        running.filter_map(|(_, cpu)| cpu.kick.get().map(|kick| &**kick))
    }

    /// Interrupts one running virtual CPU.
    pub fn kick_one(&self, state: &State<Event>) {
        if let Some(kick) = self.running(state).next() {
            kick.send();
        }
    }

    /// Interrupts all running virtual CPUs.
    pub fn kick_running(&self, state: &State<Event>) {
        self.running(state).for_each(Kick::send);
    }

    /// Number of running virtual CPUs.
    pub fn count_running(&self, state: &State<Event>) -> usize {
        self.running(state).count()
    }

    /// Whether any virtual CPU runs.
    pub fn any_runs(&self, state: &State<Event>) -> bool {
        self.running(state).next().is_some()
    }

    /// Whether another virtual CPU may be created and the host has a processor for it.
    fn can_grow(&self) -> bool {
        let made = self.cpus.iter().filter(|cpu| cpu.claimed.load(SeqCst)).count();
        made < self.cpus.len().min(self.most_busy)
    }
}

/// Measures how long threads wait in keel's run queue.
#[derive(Debug, Default)]
pub struct QueueWatch {
    /// Last value of the ring's counter, and when it was first seen.
    seen: Option<(u32, Instant)>,
    in_vain: u32,
}

impl QueueWatch {
    /// If the same threads still wait, wakes or starts a virtual CPU for them. Returns the time of the next check.
    pub fn look(&mut self, now: Instant, ring: &RingEnd, cpus: &Cpus, state: &State<Event>) -> Option<Duration> {
        let any_idle =
            (0..cpus.cpus.len()).any(|index| state.is_idle(index)) && cpus.count_running(state) < cpus.most_busy;
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
                    if !(any_idle && state.wake_idle()) && cpus.can_grow() {
                        ring.set_overdue();
                        cpus.kick_one(state);
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
