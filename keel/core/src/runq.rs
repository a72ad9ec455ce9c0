//! Fair run queue: the thread with the least virtual time (weighted processor time) runs next.
#![expect(clippy::disallowed_types, reason = "`try_reserve` makes room for all threads")]

use alloc::collections::BinaryHeap;
use core::cmp::Ordering;
use smallvec::SmallVec;

/// Weight of nice 0.
pub const WEIGHT_NICE_0: u32 = 1024;

/// Weights of nice -20 to 19: each level is a factor of about 1.25, sched(7).
const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// Weight of a nice value, clamped to the range.
pub fn weight(nice: i32) -> u32 {
    WEIGHTS[(nice.clamp(-20, 19) + 20) as usize]
}

/// Processor time `ns` as virtual time of a thread with `nice`.
pub fn virtual_ns(ns: u64, nice: i32) -> u64 {
    if nice == 0 { ns } else { (u128::from(ns) * u128::from(WEIGHT_NICE_0) / u128::from(weight(nice))) as u64 }
}

#[derive(Debug)]
struct Entry<T> {
    time: u64,
    order: u64,
    value: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    // Reversed, because the heap is a max-heap.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.order).cmp(&(self.time, self.order))
    }
}

/// Number of threads that [`RunQueue::pop`] compares; in a longer queue each soon becomes one of the first.
const COMPARED: usize = 8;

/// Runnable threads by virtual time, FIFO among equal ones.
#[derive(Debug)]
pub struct RunQueue<T> {
    heap: BinaryHeap<Entry<T>>,
    order: u64,
    /// Minimum virtual time of the queue; monotonic.
    floor: u64,
}

impl<T> Default for RunQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> RunQueue<T> {
    /// An empty queue.
    pub const fn new() -> Self {
        Self { heap: BinaryHeap::new(), order: 0, floor: 0 }
    }

    /// Number of threads.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is runnable.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Reserves memory for this many threads in all; `false`: out of memory.
    pub fn try_reserve(&mut self, threads: usize) -> bool {
        self.heap.try_reserve(threads.saturating_sub(self.heap.len())).is_ok()
    }

    /// Adds a thread with its virtual time and returns the time used: a thread that slept long gets at most `credit` ns
    /// of advantage over those that ran.
    pub fn push(&mut self, value: T, time: u64, credit: u64) -> u64 {
        let time = time.max(self.floor.saturating_sub(credit));
        self.order += 1;
        self.heap.push(Entry { time, order: self.order, value });
        time
    }

    /// Takes the allowed thread with the least sum of virtual time and `cost`, the extra cost of running that thread
    /// here; `None`: not allowed. Compares only the first [`COMPARED`] allowed threads.
    pub fn pop(&mut self, cost: impl Fn(&T) -> Option<u64>) -> Option<T> {
        let mut passed: SmallVec<[Entry<T>; COMPARED]> = SmallVec::new();
        let mut best: Option<(u64, Entry<T>)> = None;
        let mut compared = 0;
        while compared < COMPARED {
            // The rest has no less virtual time.
            if best.as_ref().zip(self.heap.peek()).is_some_and(|((total, _), next)| *total <= next.time) {
                break;
            }
            // Without memory for the skipped threads, take the best so far.
            if passed.try_reserve(1).is_err() {
                break;
            }
            let Some(entry) = self.heap.pop() else { break };
            let Some(total) = cost(&entry.value).map(|cost| entry.time.saturating_add(cost)) else {
                passed.push(entry);
                continue;
            };
            compared += 1;
            match &mut best {
                Some((least, _)) if *least <= total => passed.push(entry),
                _ => passed.extend(best.replace((total, entry)).map(|(_, entry)| entry)),
            }
        }
        self.heap.extend(passed);
        let (_, entry) = best?;
        self.floor = self.floor.max(entry.time);
        Some(entry.value)
    }

    /// The least virtual time of the queued threads for which `may` returns true.
    pub fn least(&self, may: impl Fn(&T) -> bool) -> Option<u64> {
        match self.heap.peek() {
            Some(first) if !may(&first.value) => self.heap.iter().filter(|e| may(&e.value)).map(|e| e.time).min(),
            first => first.map(|e| e.time),
        }
    }

    /// All queued threads, unordered.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.heap.iter().map(|e| &e.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_time_first_then_arrival() {
        let mut q = RunQueue::new();
        q.push('a', 5, 0);
        q.push('b', 3, 0);
        q.push('c', 5, 0);
        let mut next = || q.pop(|_| Some(0));
        assert_eq!((next(), next(), next(), next()), (Some('b'), Some('a'), Some('c'), None));
    }

    #[test]
    fn those_that_may_not_run_stay() {
        let mut q = RunQueue::new();
        q.push('a', 1, 0);
        q.push('b', 2, 0);
        q.push('c', 3, 0);
        assert_eq!(q.least(|v| *v != 'a'), Some(2));
        assert_eq!(q.pop(|v| (*v == 'c').then_some(0)), Some('c'));
        assert_eq!(q.pop(|v| (*v == 'c').then_some(0)), None);
        assert_eq!((q.pop(|_| Some(0)), q.pop(|_| Some(0))), (Some('a'), Some('b')));
    }

    #[test]
    fn cost_counts_as_time() {
        let mut q = RunQueue::new();
        q.push('a', 10, 0);
        q.push('b', 12, 0);
        q.push('c', 20, 0);
        let cost = |v: &char| Some(if *v == 'a' { 5 } else { 0 });
        assert_eq!((q.pop(cost), q.pop(cost), q.pop(cost), q.pop(cost)), (Some('b'), Some('a'), Some('c'), None));
        for v in 0..=COMPARED {
            q.push(char::from(b'a' + v as u8), 100 + v as u64, 0);
        }
        // The last one has no cost, but other allowed threads come before it.
        let last = char::from(b'a' + COMPARED as u8);
        assert_eq!(q.pop(|v| Some(if *v == last { 0 } else { 1000 })), Some('a'));
        assert_eq!((q.len(), q.pop(|v| (*v == last).then_some(0))), (COMPARED, Some(last)));
    }

    #[test]
    fn sleepers_get_bounded_credit() {
        let mut q = RunQueue::new();
        q.push('a', 1000, 0);
        q.pop(|_| Some(0));
        assert_eq!(q.push('s', 0, 100), 900);
        assert_eq!(q.least(|_| true), Some(900));
    }

    #[test]
    fn nice_scales_time() {
        assert_eq!(virtual_ns(1000, 0), 1000);
        assert!(virtual_ns(1000, 19) > 60_000);
        assert!(virtual_ns(100_000, -20) < 1200);
        assert_eq!(weight(-100), weight(-20));
    }
}
