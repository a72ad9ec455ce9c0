//! Signals: pending sets, actions, sending and delivery; signal(7).

pub mod pending;
pub mod selectors;
pub mod send;
pub mod signalfd;
pub mod stop;

use crate::sched::wait::WaitQueue;
use crate::task::{Process, Task};
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use keel_core::sigset::{SigQueue, SigSet};
use uapi::raw::general as g;

pub use crate::siginfo::{SigInfo, code, with_arch};
pub use send::{send_to_group, send_to_process, send_to_task};

/// Default action: stop the process.
pub const STOP_SIGNALS: SigSet = SigSet::of_all(&[g::SIGSTOP, g::SIGTSTP, g::SIGTTIN, g::SIGTTOU]);
/// Default action: ignore.
pub const IGNORED_BY_DEFAULT: SigSet = SigSet::of_all(&[g::SIGCHLD, g::SIGCONT, g::SIGURG, g::SIGWINCH]);
/// Default action: terminate and dump core.
pub const CORE_SIGNALS: SigSet = SigSet::of_all(&[
    g::SIGQUIT,
    g::SIGILL,
    g::SIGTRAP,
    g::SIGABRT,
    g::SIGBUS,
    g::SIGFPE,
    g::SIGSEGV,
    g::SIGXCPU,
    g::SIGXFSZ,
    g::SIGSYS,
]);
/// Caused by the program's own instruction: delivered before others.
pub const SYNCHRONOUS: SigSet = SigSet::of_all(&[g::SIGSEGV, g::SIGBUS, g::SIGILL, g::SIGTRAP, g::SIGFPE, g::SIGSYS]);
/// Can't be blocked, ignored or handled.
pub const UNBLOCKABLE: SigSet = SigSet::of_all(&[g::SIGKILL, g::SIGSTOP]);

/// Handler value for the default action.
pub const SIG_DFL: usize = 0;
/// Handler value for "ignore".
pub const SIG_IGN: usize = 1;

/// Action for a signal: `struct sigaction` of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SigAction {
    /// [`SIG_DFL`], [`SIG_IGN`] or the handler's address.
    pub handler: usize,
    /// `SA_*`.
    pub flags: u64,
    /// Return address of the handler.
    pub restorer: usize,
    /// Signals blocked during the handler.
    pub mask: SigSet,
}

/// Actions by signal; shared by the threads of a process.
#[derive(Debug)]
pub struct Actions([Cell<SigAction>; 64]);

impl Default for Actions {
    fn default() -> Self {
        Self([const { Cell::new(SigAction { handler: SIG_DFL, flags: 0, restorer: 0, mask: SigSet::EMPTY }) }; 64])
    }
}

impl Actions {
    /// Action of a signal; the default one for numbers out of range.
    pub fn get(&self, signal: u32) -> SigAction {
        self.0.get(signal.wrapping_sub(1) as usize).map_or_else(SigAction::default, Cell::get)
    }

    /// Changes the action of a signal.
    pub fn set(&self, signal: u32, action: SigAction) {
        if let Some(cell) = self.0.get(signal.wrapping_sub(1) as usize) {
            cell.set(action);
        }
    }

    /// A copy, for fork(2).
    pub fn fork(&self) -> Rc<Self> {
        let copy = Self::default();
        for (to, from) in copy.0.iter().zip(&self.0) {
            to.set(from.get());
        }
        Rc::new(copy)
    }

    /// Resets handled signals to the default: execve(2).
    pub fn reset_handlers(&self) {
        for cell in &self.0 {
            let handler = if cell.get().handler == SIG_IGN { SIG_IGN } else { SIG_DFL };
            cell.set(SigAction { handler, ..SigAction::default() });
        }
    }

    /// The ignored signals, and those with a handler.
    pub fn sets(&self) -> (SigSet, SigSet) {
        let (mut ignored, mut caught) = (SigSet::EMPTY, SigSet::EMPTY);
        for (signal, cell) in (1..).zip(&self.0) {
            match cell.get().handler {
                SIG_DFL => {}
                SIG_IGN => ignored = ignored.union(SigSet::of(signal)),
                _ => caught = caught.union(SigSet::of(signal)),
            }
        }
        (ignored, caught)
    }

    /// Whether a signal that is not blocked would have no effect.
    pub fn ignores(&self, signal: u32) -> bool {
        match self.get(signal).handler {
            SIG_IGN => true,
            SIG_DFL => IGNORED_BY_DEFAULT.has(signal),
            _ => false,
        }
    }
}

/// sigaltstack(2).
#[derive(Clone, Copy, Debug)]
pub struct AltStack {
    /// Lowest address.
    pub sp: usize,
    /// `SS_*` flags as set.
    pub flags: u32,
    /// Bytes.
    pub size: usize,
}

impl AltStack {
    /// No alternate stack.
    pub const NONE: Self = Self { sp: 0, flags: g::SS_DISABLE, size: 0 };

    /// Whether a stack pointer lies in it.
    pub fn contains(&self, sp: u64) -> bool {
        let sp = sp as usize;
        sp > self.sp && sp - self.sp <= self.size
    }

    /// Whether a program with this stack pointer runs on it. A stack with SS_AUTODISARM counts as an ordinary one.
    pub fn holds(&self, sp: u64) -> bool {
        self.flags & g::SS_AUTODISARM == 0 && self.contains(sp)
    }
}

/// How restart_syscall(2) continues an interrupted call whose arguments were relative times.
#[derive(Clone, Copy, Debug)]
pub enum Restart {
    /// nanosleep, clock_nanosleep: until the monotonic time, remaining time to an address.
    Sleep {
        /// Monotonic ns.
        deadline_ns: u64,
        /// Address for the remaining time; 0: none.
        remaining: usize,
    },
    /// futex wait.
    Futex {
        /// The word.
        address: usize,
        /// Expected value.
        value: u32,
        /// Wake-up bits.
        bitset: u32,
        /// `FUTEX_*` flags.
        flags: u32,
        /// Monotonic ns.
        deadline_ns: u64,
    },
}

/// Signal state of a thread.
#[derive(Debug)]
pub struct TaskSignals {
    pub(crate) pending: RefCell<SigQueue<SigInfo>>,
    pub(crate) blocked: Cell<SigSet>,
    /// Blocked signals that sigtimedwait waits for: they don't kill.
    pub(crate) awaited: Cell<SigSet>,
    /// Mask to restore after a handler, or at the end of the call if none runs (sigsuspend, ppoll).
    pub(crate) saved_mask: Cell<Option<SigSet>>,
    pub(crate) alt_stack: Cell<AltStack>,
    pub(crate) actions: RefCell<Rc<Actions>>,
    pub(crate) restart: Cell<Option<Restart>>,
    /// Vector, error code and address of the last fault, for the handler's context.
    pub(crate) trap: Cell<[u64; 3]>,
}

impl TaskSignals {
    /// For a new thread.
    pub fn new(actions: Rc<Actions>, blocked: SigSet, alt_stack: AltStack) -> Self {
        Self {
            pending: RefCell::default(),
            blocked: Cell::new(blocked),
            awaited: Cell::new(SigSet::EMPTY),
            saved_mask: Cell::new(None),
            alt_stack: Cell::new(alt_stack),
            actions: RefCell::new(actions),
            restart: Cell::new(None),
            trap: Cell::default(),
        }
    }

    /// Blocked signals.
    pub fn blocked(&self) -> SigSet {
        self.blocked.get()
    }

    /// Signals pending for this thread only.
    pub fn pending(&self) -> SigSet {
        self.pending.borrow().set()
    }

    /// The process's actions.
    pub fn actions(&self) -> Rc<Actions> {
        self.actions.borrow().clone()
    }
}

/// Signal state of a process.
#[derive(Debug, Default)]
pub struct ProcessSignals {
    pub(crate) pending: RefCell<SigQueue<SigInfo>>,
    /// Wait status of the process if all its threads must end.
    pub(crate) group_exit: Cell<Option<i32>>,
    /// Signal that stopped (or is stopping) the process; 0: running.
    pub(crate) stopped_by: Cell<u32>,
    /// Number of threads that have not stopped yet.
    pub(crate) stopping: Cell<usize>,
    /// The stop was not yet reported by wait.
    pub(crate) stop_news: Cell<bool>,
    /// The continuation was not yet reported by wait.
    pub(crate) continue_news: Cell<bool>,
    /// Woken when a signal was queued for the process or one of its threads (signalfd).
    pub(crate) arrivals: Rc<WaitQueue>,
}

impl ProcessSignals {
    /// Signals pending for the process.
    pub fn pending(&self) -> SigSet {
        self.pending.borrow().set()
    }

    /// Woken when a signal was queued for the process or one of its threads.
    pub fn arrivals(&self) -> Rc<WaitQueue> {
        self.arrivals.clone()
    }

    /// Whether all its threads are stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped_by.get() != 0 && self.stopping.get() == 0
    }
}

impl Task {
    /// Signal state.
    pub fn signal_state(&self) -> &TaskSignals {
        &self.signals
    }

    /// Whether a signal is pending that this thread must handle before it returns to its program.
    pub fn has_signal(&self) -> bool {
        let process = &self.process().signals;
        let pending = self.signals.pending().union(process.pending());
        !pending.without(self.signals.blocked.get()).is_empty()
            || process.group_exit.get().is_some()
            || process.stopped_by.get() != 0 && self.traced.joins_stop()
    }

    /// Whether a fatal signal is pending.
    pub fn is_killed(&self) -> bool {
        self.process().signals.group_exit.get().is_some() || self.signals.pending().has(g::SIGKILL)
    }

    /// Changes the blocked signals (never SIGKILL and SIGSTOP).
    pub fn set_blocked(self: &Rc<Self>, mask: SigSet) {
        self.signals.blocked.set(mask.without(UNBLOCKABLE));
        if self.has_signal() {
            self.set_work();
        }
        send::retarget(self);
    }

    /// Sets the mask until the end of the current call, or until the handler that ends it returns: ppoll, pselect,
    /// sigsuspend, epoll_pwait.
    pub fn set_mask_for_call(self: &Rc<Self>, mask: SigSet) {
        self.signals.saved_mask.set(Some(self.signals.blocked.get()));
        self.set_blocked(mask);
        // The exit path restores the mask even without a signal.
        self.set_work();
    }
}

impl Process {
    /// Signal state.
    pub fn signal_state(&self) -> &ProcessSignals {
        &self.signals
    }
}
