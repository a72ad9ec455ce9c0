//! Limits of the queues of an IPC namespace, `/proc/sys/fs/mqueue`.

use alloc::collections::BTreeMap;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use uapi::{Errno, Result};

/// Most messages of a queue, and bytes of a message, whatever the settings are.
const HARD_MSG_MAX: i64 = 65_536;
const HARD_MSGSIZE_MAX: i64 = 16 << 20;
/// Least value of settings about the size of messages.
const LEAST_MSGSIZE: i64 = 128;
/// Bytes that count against RLIMIT_MSGQUEUE as in Linux: for each message besides its text, and for each priority that can be.
const MESSAGE_OVERHEAD: u64 = 48;
const PRIORITY_OVERHEAD: u64 = 48;

/// Bytes of the queues of each user that count against RLIMIT_MSGQUEUE.
static CHARGED: Global<RefCell<BTreeMap<u32, u64>>> = Global::new(RefCell::new(BTreeMap::new()));

/// A setting: path beneath `/proc/sys`, where it is kept, least and largest value.
pub struct Setting {
    /// Path beneath `/proc/sys`.
    pub path: &'static str,
    value: fn(&Limits) -> &Cell<i64>,
    least: i64,
    most: i64,
}

/// All settings.
pub static SETTINGS: [Setting; 5] = [
    Setting { path: "fs/mqueue/msg_default", value: |all| &all.msg_default, least: 1, most: HARD_MSG_MAX },
    Setting { path: "fs/mqueue/msg_max", value: |all| &all.msg_max, least: 1, most: HARD_MSG_MAX },
    Setting {
        path: "fs/mqueue/msgsize_default",
        value: |all| &all.msgsize_default,
        least: LEAST_MSGSIZE,
        most: HARD_MSGSIZE_MAX,
    },
    Setting {
        path: "fs/mqueue/msgsize_max",
        value: |all| &all.msgsize_max,
        least: LEAST_MSGSIZE,
        most: HARD_MSGSIZE_MAX,
    },
    Setting {
        path: "fs/mqueue/queues_max",
        value: |all| &all.queues_max,
        least: i32::MIN as i64,
        most: i32::MAX as i64,
    },
];

impl Setting {
    /// Its value.
    pub fn show(&self, limits: &Limits) -> i64 {
        (self.value)(limits).get()
    }

    /// Sets it. EINVAL.
    pub fn change(&self, limits: &Limits, text: &str) -> Result<()> {
        let value = text.parse().ok().filter(|value| (self.least..=self.most).contains(value)).ok_or(Errno::EINVAL)?;
        (self.value)(limits).set(value);
        Ok(())
    }
}

/// See the module.
#[derive(Debug)]
pub struct Limits {
    /// Queues that exist, removed ones in use too.
    queues: Cell<i64>,
    queues_max: Cell<i64>,
    msg_max: Cell<i64>,
    msgsize_max: Cell<i64>,
    msg_default: Cell<i64>,
    msgsize_default: Cell<i64>,
}

impl Default for Limits {
    /// Linux's.
    fn default() -> Self {
        Self {
            queues: Cell::new(0),
            queues_max: Cell::new(256),
            msg_max: Cell::new(10),
            msgsize_max: Cell::new(8192),
            msg_default: Cell::new(10),
            msgsize_default: Cell::new(8192),
        }
    }
}

impl Limits {
    /// Most messages, and most bytes of each, of a queue that is made with these attributes or without. EINVAL.
    pub(super) fn size(&self, wanted: Option<(i64, i64)>, is_privileged: bool) -> Result<(usize, usize)> {
        let (messages, bytes) = wanted.unwrap_or_else(|| {
            let (messages, bytes) = (&self.msg_default, &self.msgsize_default);
            (messages.get().min(self.msg_max.get()), bytes.get().min(self.msgsize_max.get()))
        });
        let most =
            if is_privileged { (HARD_MSG_MAX, HARD_MSGSIZE_MAX) } else { (self.msg_max.get(), self.msgsize_max.get()) };
        if !(1..=most.0).contains(&messages) || !(1..=most.1).contains(&bytes) {
            return Err(Errno::EINVAL);
        }
        Ok((messages as usize, bytes as usize))
    }

    /// Counts another queue. ENOSPC.
    pub(super) fn enter(&self, is_privileged: bool) -> Result<()> {
        if !is_privileged && self.queues.get() >= self.queues_max.get() {
            return Err(Errno::ENOSPC);
        }
        self.queues.set(self.queues.get() + 1);
        Ok(())
    }

    /// Counts one less.
    pub(super) fn leave(&self) {
        self.queues.set(self.queues.get() - 1);
    }
}

/// What a queue takes of RLIMIT_MSGQUEUE, until it is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    uid: u32,
    bytes: u64,
}

impl Charge {
    /// For a user's queue of so many messages of so many bytes. EMFILE.
    pub(super) fn take(uid: u32, messages: usize, size: usize, limit: u64) -> Result<Self> {
        let (messages, size) = (messages as u64, size as u64);
        let priorities = messages.min(super::PRIO_MAX.into()) * PRIORITY_OVERHEAD;
        let bytes = messages.saturating_mul(size + MESSAGE_OVERHEAD).saturating_add(priorities);
        let mut all = CHARGED.borrow_mut();
        let sum = all.get(&uid).copied().unwrap_or(0).saturating_add(bytes);
        if sum > limit {
            return Err(Errno::EMFILE);
        }
        all.insert(uid, sum);
        Ok(Self { uid, bytes })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut all = CHARGED.borrow_mut();
        match all.get(&self.uid).copied().unwrap_or(0).saturating_sub(self.bytes) {
            0 => drop(all.remove(&self.uid)),
            left => drop(all.insert(self.uid, left)),
        }
    }
}
