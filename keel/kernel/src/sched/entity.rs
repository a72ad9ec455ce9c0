//! The scheduler's state of a thread: run state, weight, affinity.

use super::io::IoCounters;
use super::load;
use super::wait::Interrupt;
use core::cell::Cell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use hal::cell::Global;
use hal::clock::monotonic_ns;
use keel_core::runq::virtual_ns;

/// Processor time and counts that rusage reports, getrusage(2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// In the program, ns.
    pub user_ns: u64,
    /// In keel on its behalf, ns.
    pub system_ns: u64,
    /// Page faults without a request to the host.
    pub minor_faults: u64,
    /// Page faults with one.
    pub major_faults: u64,
    /// Switches because the thread waited.
    pub voluntary: u64,
    /// Switches because its slice was over.
    pub involuntary: u64,
    /// Largest resident size in bytes.
    pub max_resident: u64,
}

impl Usage {
    /// Adds what another thread or process used.
    pub fn add(&mut self, other: &Self) {
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.max_resident = self.max_resident.max(other.max_resident);
    }

    /// Moves time from the program's share to keel's.
    fn move_to_system(&mut self, ns: u64) {
        let ns = ns.min(self.user_ns);
        self.user_ns -= ns;
        self.system_ns += ns;
    }
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// On a virtual CPU.
    Running,
    /// In the run queue.
    Queued,
    /// Waits; what may end that early.
    Sleeping(Interrupt),
    /// Stopped by a signal.
    Stopped,
    /// Ended.
    Dead,
}

impl State {
    /// As `/proc/PID/stat` shows it.
    pub fn letter(self) -> char {
        match self {
            Self::Running | Self::Queued => 'R',
            Self::Sleeping(Interrupt::BySignal) => 'S',
            Self::Sleeping(_) => 'D',
            Self::Stopped => 'T',
            Self::Dead => 'Z',
        }
    }
}

/// The scheduler's state of a thread.
#[derive(Debug)]
pub struct Entity {
    pub(crate) state: Cell<State>,
    /// Weighted processor time in ns.
    pub(crate) virtual_time: Cell<u64>,
    /// When it got the CPU, or when it was last accounted.
    pub(crate) since_ns: Cell<u64>,
    /// When it got the CPU.
    pub(crate) got_ns: Cell<u64>,
    pub(crate) usage: Cell<Usage>,
    /// Nice value, -20 to 19.
    pub nice: Cell<i32>,
    /// `SCHED_*` policy and its static priority, as set; all run alike.
    pub policy: Cell<(u32, u32)>,
    /// CPUs that it may use, one bit each.
    pub affinity: Cell<u64>,
    /// The CPU that it runs on, or did last.
    pub(crate) cpu: Cell<usize>,
    /// How often it got the CPU back from another thread; wraps around.
    pub(crate) switches: Cell<u32>,
    /// It is in the queue and may use all CPUs.
    pub(crate) free: Cell<bool>,
    /// When it was queued last; kept while the pod may have several virtual CPUs.
    pub(crate) queued_ns: Cell<u64>,
    /// It must look around before it returns to its program.
    pub work: Cell<bool>,
    /// What it read and wrote.
    pub io: IoCounters,
    /// Its page faults without the big lock, which [`Entity::account`] adds to the rest.
    faults: UnlockedFaults,
    /// Releases of objects that lie in each other on its stack.
    pub nesting: Cell<u32>,
}

/// Page faults that were served without the big lock, and the ticks of the time stamp counter that they took.
#[derive(Debug, Default)]
struct UnlockedFaults {
    count: AtomicU64,
    ticks: AtomicU64,
}

/// Threads that exist: so many may be in the run queue.
pub(super) static ENTITIES: Global<Cell<usize>> = Global::new(Cell::new(0));

impl Drop for Entity {
    fn drop(&mut self) {
        ENTITIES.set(ENTITIES.get() - 1);
    }
}

/// `SCHED_RESET_ON_FORK`.
const RESET_ON_FORK: u32 = 0x4000_0000;

/// Policy with priority, and nice value, of a new thread: without privileges if its creator said so.
fn inherited((policy, priority): (u32, u32), nice: i32) -> ((u32, u32), i32) {
    use uapi::raw::general as g;
    match policy & !RESET_ON_FORK {
        _ if policy & RESET_ON_FORK == 0 => ((policy, priority), nice),
        g::SCHED_FIFO | g::SCHED_RR => ((g::SCHED_NORMAL, 0), 0),
        plain => ((plain, 0), nice.max(0)),
    }
}

impl Entity {
    /// Of a new thread; inherits from its creator.
    pub fn new(from: Option<&Entity>) -> Self {
        ENTITIES.set(ENTITIES.get() + 1);
        let (policy, nice) = from.map_or(((0, 0), 0), |e| inherited(e.policy.get(), e.nice.get()));
        Self {
            state: Cell::new(State::Stopped),
            virtual_time: Cell::new(from.map_or(0, |e| e.virtual_time.get())),
            since_ns: Cell::new(0),
            got_ns: Cell::new(0),
            usage: Cell::default(),
            nice: Cell::new(nice),
            policy: Cell::new(policy),
            affinity: Cell::new(from.map_or(u64::MAX, |e| e.affinity.get())),
            cpu: Cell::new(from.map_or(0, |e| e.cpu.get())),
            switches: Cell::new(0),
            free: Cell::new(false),
            queued_ns: Cell::new(0),
            work: Cell::new(false),
            io: IoCounters::default(),
            faults: UnlockedFaults::default(),
            nesting: Cell::new(0),
        }
    }

    /// The CPU that it runs on, or did last.
    pub fn cpu(&self) -> usize {
        self.cpu.get()
    }

    /// How often it got the CPU back from another thread; wraps around.
    #[inline(always)]
    pub fn switches(&self) -> u32 {
        self.switches.get()
    }

    pub(crate) fn may_use(&self, cpu: usize) -> bool {
        self.affinity.get() >> cpu & 1 != 0
    }

    /// State now.
    pub fn state(&self) -> State {
        self.state.get()
    }

    /// Processor time and counts, up to now for the running thread.
    pub fn usage(&self) -> Usage {
        if self.state.get() == State::Running {
            self.account();
        }
        self.usage.get()
    }

    /// Changes the counts.
    pub fn count(&self, f: impl FnOnce(&mut Usage)) {
        let mut usage = self.usage.get();
        f(&mut usage);
        self.usage.set(usage);
    }

    /// Adds the time since the last call: to the program's share.
    pub(crate) fn account(&self) {
        let now = monotonic_ns();
        let ns = now.saturating_sub(self.since_ns.replace(now));
        self.count(|u| u.user_ns += ns);
        if self.faults.count.load(Relaxed) != 0 {
            let faults = self.faults.count.swap(0, Relaxed);
            let ticks = self.faults.ticks.swap(0, Relaxed);
            self.count(|u| {
                u.minor_faults += faults;
                u.move_to_system(hal::clock::ns_of(ticks));
            });
        }
        load::add(ns, now);
        self.virtual_time.set(self.virtual_time.get() + virtual_ns(ns, self.nice.get()));
    }

    /// Moves `ns` of the accounted time from the program's share to keel's.
    pub fn was_system(&self, ns: u64) {
        self.account();
        self.count(|u| u.move_to_system(ns));
    }

    /// The running thread's page fault was served without the big lock.
    pub fn count_unlocked_fault(&self, ticks: u64) {
        self.faults.count.fetch_add(1, Relaxed);
        self.faults.ticks.fetch_add(ticks, Relaxed);
    }
}
