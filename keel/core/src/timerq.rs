//! Pending timers by deadline.

use alloc::collections::BTreeMap;

/// Key of a pending timer of one [`TimerQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerKey {
    deadline: u64,
    order: u64,
}

/// Values by deadline in ns, FIFO among equal deadlines.
#[derive(Debug)]
pub struct TimerQueue<T> {
    pending: BTreeMap<TimerKey, T>,
    order: u64,
}

impl<T> Default for TimerQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> TimerQueue<T> {
    /// An empty queue.
    pub const fn new() -> Self {
        Self { pending: BTreeMap::new(), order: 0 }
    }

    /// Adds a timer.
    pub fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
        self.order += 1;
        let key = TimerKey { deadline, order: self.order };
        self.pending.insert(key, value);
        key
    }

    /// Removes a timer; `None` if it has expired.
    pub fn remove(&mut self, key: TimerKey) -> Option<T> {
        self.pending.remove(&key)
    }

    /// The earliest deadline.
    pub fn earliest(&self) -> Option<u64> {
        self.pending.first_key_value().map(|(key, _)| key.deadline)
    }

    /// Takes the earliest timer if it has expired.
    pub fn pop_due(&mut self, now: u64) -> Option<T> {
        if self.earliest()? > now {
            return None;
        }
        self.pending.pop_first().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_off_in_order_and_not_early() {
        let mut q = TimerQueue::new();
        q.insert(20, 'b');
        let gone = q.insert(10, 'x');
        q.insert(10, 'a');
        assert_eq!(q.remove(gone), Some('x'));
        assert_eq!(q.remove(gone), None);
        assert_eq!(q.pop_due(9), None);
        assert_eq!(q.pop_due(10), Some('a'));
        assert_eq!(q.earliest(), Some(20));
        assert_eq!(q.pop_due(100), Some('b'));
        assert_eq!(q.earliest(), None);
    }
}
