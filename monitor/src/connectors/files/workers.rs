//! Worker threads for operations that may block, so that they do not delay other requests.

use super::super::Result;
use super::handles::Handles;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of threads; further operations are queued.
const MAX_THREADS: usize = 4;
/// Idle time after which a thread ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// Completion of an operation, called under the server's lock.
pub type Finish = Box<dyn FnOnce(&mut Handles) -> Result + Send>;
/// The blocking part of an operation.
pub type Work = Box<dyn FnOnce() -> Finish + Send>;
/// Wakes the thread that collects completions.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct State {
    jobs: VecDeque<(u64, Work)>,
    done: Vec<(u64, Finish)>,
    /// Number of queued operations.
    pending: usize,
    threads: usize,
    idle: usize,
    waker: Option<Waker>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    more: Condvar,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs operations until the queue stays empty for a while.
    fn work(&self) {
        let mut state = self.state();
        loop {
            if let Some((id, work)) = state.jobs.pop_front() {
                drop(state);
                let finish = work();
                let mut after = self.state();
                after.done.push((id, finish));
                let waker = after.waker.clone();
                drop(after);
                if let Some(waker) = waker {
                    waker();
                }
                state = self.state();
                continue;
            }
            state.idle += 1;
            let (next, waited) = self.more.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            state = next;
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

/// Measures whether fsync(2) blocks: on a disk it does; on a tmpfs the handover to a thread would take longer.
#[derive(Debug, Default)]
pub struct SyncTimes {
    /// Number of consecutive quick calls.
    quick: AtomicU32,
}

impl SyncTimes {
    /// A call below this time is quick.
    const QUICK: Duration = Duration::from_micros(200);
    /// After this many consecutive quick calls fsync runs without a thread.
    const ENOUGH: u32 = 16;

    /// Whether the next call may block.
    pub fn are_slow(&self) -> bool {
        self.quick.load(Ordering::Relaxed) < Self::ENOUGH
    }

    /// Measures a call.
    pub fn time<R>(&self, sync: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = sync();
        let quick =
            if start.elapsed() < Self::QUICK { self.quick.load(Ordering::Relaxed).saturating_add(1) } else { 0 };
        self.quick.store(quick, Ordering::Relaxed);
        result
    }
}

/// The worker threads and their queue.
#[derive(Default)]
pub struct Workers(Arc<Queue>);

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("pending", &self.0.state().pending).finish_non_exhaustive()
    }
}

impl Workers {
    /// Sets the waker for completions; initially none.
    pub fn set_waker(&self, waker: Waker) {
        self.0.state().waker = Some(waker);
    }

    /// Number of operations under way.
    pub fn pending(&self) -> usize {
        self.0.state().pending
    }

    /// Starts the blocking part of request `id`. `None`: it completes later. Otherwise no thread could be started, and
    /// the operation ran on the caller's.
    pub fn start(&self, id: u64, work: Work, handles: &mut Handles) -> Option<Result> {
        let mut state = self.0.state();
        if state.idle <= state.jobs.len() && state.threads < MAX_THREADS {
            let queue = self.0.clone();
            match std::thread::Builder::new().name("files".into()).spawn(move || queue.work()) {
                Ok(_) => state.threads += 1,
                Err(_) if state.threads == 0 => {
                    drop(state);
                    return Some(work()(handles));
                }
                Err(_) => {}
            }
        }
        state.jobs.push_back((id, work));
        state.pending += 1;
        self.0.more.notify_one();
        None
    }

    /// Takes the finished operations.
    pub fn take(&self) -> Vec<(u64, Finish)> {
        let mut state = self.0.state();
        let done = std::mem::take(&mut state.done);
        state.pending -= done.len();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::operation::Results;
    use std::sync::mpsc::channel;

    #[test]
    fn long_work_keeps_nothing_waiting() {
        let workers = Workers::default();
        let mut handles = Handles::with_limit(1);
        let (woken, wakes) = channel();
        workers.set_waker(Arc::new(move || woken.send(()).unwrap()));
        let (release, released) = channel::<()>();
        let long: Work = Box::new(move || {
            released.recv().unwrap();
            Box::new(|_| Ok(1.encode()))
        });
        assert!(workers.start(7, long, &mut handles).is_none());
        assert!(workers.start(8, Box::new(|| Box::new(|_| Ok(2.encode()))), &mut handles).is_none());
        wakes.recv().unwrap();
        let mut take =
            || workers.take().into_iter().map(|(id, end)| (id, end(&mut handles).unwrap().result)).collect::<Vec<_>>();
        assert_eq!(take(), [(8, 2)]);
        assert_eq!(workers.pending(), 1);
        release.send(()).unwrap();
        wakes.recv().unwrap();
        assert_eq!((take(), workers.pending()), (vec![(7, 1)], 0));
    }
}
