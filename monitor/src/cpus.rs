//! The virtual CPUs of a pod as the threads of the monitor see them. Which of them wait tells [`crate::run::State`].
//!
//! Everything here is asked for by the guest: numbers of virtual CPUs that do not exist are ignored.

use crate::event::Event;
use crate::ring::RingEnd;
use crate::run::State;
use crate::vcpu::Kick;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
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
#[derive(Debug, Default)]
struct Cpu {
    claimed: AtomicBool,
    kick: OnceLock<Arc<Kick>>,
}

/// The virtual CPUs of a pod: which exist, and what interrupts them.
#[derive(Debug)]
pub struct Cpus {
    cpus: Vec<Cpu>,
    /// Most that are kept busy.
    most_busy: usize,
}

impl Cpus {
    /// Those that a pod may have, `most_busy` of them at once; the first is taken.
    pub fn new(count: u32, most_busy: u32) -> Self {
        let cpus = Self { cpus: (0..count.max(1)).map(|_| Cpu::default()).collect(), most_busy: most_busy as usize };
        cpus.claim(0);
        cpus
    }

    /// How many a pod may have.
    pub fn count(&self) -> u32 {
        self.cpus.len() as u32
    }

    fn get(&self, index: u32) -> Option<&Cpu> {
        self.cpus.get(index as usize)
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

    /// Those that exist and do not idle.
    fn running(&self, state: &State<Event>) -> impl Iterator<Item = &Kick> {
        let running = self.cpus.iter().enumerate().filter(|(index, _)| !state.is_idle(*index));
        running.filter_map(|(_, cpu)| cpu.kick.get().map(|kick| &**kick))
    }

    /// Interrupts one that runs.
    pub fn kick_one(&self, state: &State<Event>) {
        if let Some(kick) = self.running(state).next() {
            kick.send();
        }
    }

    /// Interrupts all that run.
    pub fn kick_running(&self, state: &State<Event>) {
        self.running(state).for_each(Kick::send);
    }

    /// How many run.
    pub fn count_running(&self, state: &State<Event>) -> usize {
        self.running(state).count()
    }

    /// Whether any runs.
    pub fn any_runs(&self, state: &State<Event>) -> bool {
        self.running(state).next().is_some()
    }

    /// Whether another virtual CPU can be made, and the host has a processor for it.
    fn can_grow(&self) -> bool {
        let made = self.cpus.iter().filter(|cpu| cpu.claimed.load(SeqCst)).count();
        made < self.cpus.len().min(self.most_busy)
    }
}

/// Watches for how long threads wait in keel's queue.
#[derive(Debug, Default)]
pub struct QueueWatch {
    /// What the ring said, and since when.
    seen: Option<(u32, Instant)>,
    in_vain: u32,
}

impl QueueWatch {
    /// Looks whether the same threads still wait, and sees to a virtual CPU for them. When to look again.
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
