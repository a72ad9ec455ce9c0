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
    /// User time, ns.
    pub user_ns: u64,
    /// System time, ns.
    pub system_ns: u64,
    /// Page faults without a request to the host.
    pub minor_faults: u64,
    /// Page faults with one.
    pub major_faults: u64,
    /// Voluntary context switches.
    pub voluntary: u64,
    /// Involuntary context switches.
    pub involuntary: u64,
    /// Largest resident size in bytes.
    pub max_resident: u64,
}

impl Usage {
    /// Adds the usage of another thread or process.
    pub fn add(&mut self, other: &Self) {
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.max_resident = self.max_resident.max(other.max_resident);
    }

    /// Moves time from user to system time.
    fn move_to_system(&mut self, ns: u64) {
        let ns = ns.min(self.user_ns);
        self.user_ns -= ns;
        self.system_ns += ns;
    }
}

/// Run state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// On a virtual CPU.
    Running,
    /// In the run queue.
    Queued,
    /// Sleeps; what may interrupt it.
    Sleeping(Interrupt),
    /// Stopped by a signal.
    Stopped,
    /// Ended.
    Dead,
}

impl State {
    /// State letter of `/proc/PID/stat`.
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
    /// When it got the CPU, or the time of the last accounting.
    pub(crate) since_ns: Cell<u64>,
    /// When it got the CPU.
    pub(crate) got_ns: Cell<u64>,
    pub(crate) usage: Cell<Usage>,
    /// Nice value, -20 to 19.
    pub nice: Cell<i32>,
    /// `SCHED_*` policy and its static priority; they do not affect scheduling.
    pub policy: Cell<(u32, u32)>,
    /// Affinity mask.
    pub affinity: Cell<u64>,
    /// Current or last CPU.
    pub(crate) cpu: Cell<usize>,
    /// Number of context switches to it; wraps around.
    pub(crate) switches: Cell<u32>,
    /// It is queued and may use all CPUs.
    pub(crate) free: Cell<bool>,
    /// Time when it was last queued; maintained while the pod may have several virtual CPUs.
    pub(crate) queued_ns: Cell<u64>,
    /// It must check for work before it returns to its program.
    pub work: Cell<bool>,
    /// Its I/O counters.
    pub io: IoCounters,
    /// Page faults served without the big lock, which [`Entity::account`] adds to its usage.
    faults: UnlockedFaults,
    /// Nesting depth of object releases on its stack.
    pub nesting: Cell<u32>,
}

/// Page faults served without the big lock, and their duration in TSC ticks.
#[derive(Debug, Default)]
struct UnlockedFaults {
    count: AtomicU64,
    ticks: AtomicU64,
}

/// Number of threads: the maximum length of the run queue.
pub(super) static ENTITIES: Global<Cell<usize>> = Global::new(Cell::new(0));

impl Drop for Entity {
    fn drop(&mut self) {
        ENTITIES.set(ENTITIES.get() - 1);
    }
}

/// `SCHED_RESET_ON_FORK`.
const RESET_ON_FORK: u32 = 0x4000_0000;

/// Policy with priority, and nice value, of a new thread; reset if its creator has SCHED_RESET_ON_FORK.
fn inherited((policy, priority): (u32, u32), nice: i32) -> ((u32, u32), i32) {
    use uapi::raw::general as g;
    match policy & !RESET_ON_FORK {
        _ if policy & RESET_ON_FORK == 0 => ((policy, priority), nice),
        g::SCHED_FIFO | g::SCHED_RR => ((g::SCHED_NORMAL, 0), 0),
        plain => ((plain, 0), nice.max(0)),
    }
}

impl Entity {
    /// For a new thread; inherits from its creator.
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

    /// Current or last CPU.
    pub fn cpu(&self) -> usize {
        self.cpu.get()
    }

    /// Number of context switches to it; wraps around.
    #[inline(always)]
    pub fn switches(&self) -> u32 {
        self.switches.get()
    }

    pub(crate) fn may_use(&self, cpu: usize) -> bool {
        self.affinity.get() >> cpu & 1 != 0
    }

    /// Current state.
    pub fn state(&self) -> State {
        self.state.get()
    }

    /// Usage, including the current time slice of a running thread.
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

    /// Adds the time since the last call to the user time.
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

    /// Moves `ns` of the accounted time from user to system time.
    pub fn was_system(&self, ns: u64) {
        self.account();
        self.count(|u| u.move_to_system(ns));
    }

    /// Counts a page fault of the running thread that was served without the big lock.
    pub fn count_unlocked_fault(&self, ticks: u64) {
        self.faults.count.fetch_add(1, Relaxed);
        self.faults.ticks.fetch_add(ticks, Relaxed);
    }
}
