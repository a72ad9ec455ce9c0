//! The receive queue of a local socket.
//!
//! Also used by calls without the big lock ([`super::unlocked`]): they take and add packets of plain bytes
//! ([`Packet::plain`]). A handler that holds a packet while it copies holds the [`Turn`], which excludes receives by
//! those calls.

use super::super::Address;
use super::super::message::Credentials;
use super::account::Account;
use super::rights::Rights;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use file::caller::ProcessRef;
use file::lock::{SleepGuard, SleepLock};
use hal::cell::Global;
use hal::sync::{Guard, Rank, SpinLock};
use keel_core::pieces::Pieces;
use sched::wait::WaitQueue;
use uapi::{Errno, Result};

/// Emptied packets that are kept for the next ones, and bytes of memory that they may have together.
const SPARE: usize = 32;
const SPARE_BYTES: usize = 8192;

/// Bytes that were sent together, and their ancillary data.
#[derive(Debug)]
pub struct Packet {
    /// The bytes.
    pub data: Vec<u8>,
    /// Bytes at the beginning that were received already (streams).
    pub taken: Cell<usize>,
    /// Name of the sender.
    pub from: Address,
    /// The sender's credentials, if SO_PASSCRED was set at either end when it was sent.
    pub credentials: Option<Credentials>,
    /// The sender's process, with the credentials.
    pub process: Option<ProcessRef>,
    /// Descriptions that travel along.
    pub rights: RefCell<Rights>,
    /// When it was sent, if the receiver wants to know; 0: nobody looked.
    pub at_ns: u64,
    /// Nothing travels along, and it has no urgent byte.
    pub plain: bool,
    /// Charge against the sender's buffer; 0 after its release.
    pub charge: Cell<u32>,
    /// The sender's number ([`Account::id`]).
    pub sender: u64,
    /// The sender's account, if there may be several senders ([`Inbox::set_sender`]).
    pub account: Option<Rc<Account>>,
}

impl Packet {
    /// Bytes left.
    pub fn left(&self) -> usize {
        self.data.len() - self.taken.get()
    }

    /// The bytes left.
    pub fn rest(&self) -> &[u8] {
        self.data.get(self.taken.get()..).unwrap_or_default()
    }
}

/// Room for the bytes of a packet, all zero. Small ones have some to spare, for the next bytes that it is used for. ENOMEM.
pub fn buffer(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let room = if len <= SPARE_BYTES { len.next_power_of_two().max(64) } else { len };
    bytes.try_reserve_exact(room).map_err(|_| Errno::ENOMEM)?;
    bytes.resize(len, 0);
    Ok(bytes)
}

/// Packets in order.
pub struct Inbox {
    queue: SpinLock<Global<Queue>>,
    /// Excludes calls without the big lock: an option affects them, or a half has been shut down.
    special: AtomicBool,
    big: Global<Big>,
}

/// State under the big lock.
struct Big {
    /// Serialises receivers.
    receiving: SleepLock,
    /// Waiters for packets.
    readable: Rc<WaitQueue>,
}

/// State that any virtual CPU may access. Refcounts are changed under the big lock only, except of packets without
/// other references.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) packets: Pieces<Rc<Packet>>,
    /// Packets that were received, for the next ones.
    pub(super) spare: Vec<Rc<Packet>>,
    /// Bytes of memory that they have.
    spare_bytes: usize,
    pub(super) bytes: usize,
    pub(super) pushed: u64,
    /// A handler receives.
    pub(super) busy: bool,
    /// Packets can still be received here.
    pub(super) open: bool,
    /// The number of the only sender that may send here; 0: all may.
    pub(super) accepts: u64,
    /// The account of all packets that have none of their own.
    pub(super) sender: Option<Rc<Account>>,
}

impl Queue {
    /// Whether a packet that was received would be kept.
    pub(super) fn keeps(&self, packet: &Packet) -> bool {
        packet.plain
            && self.spare.len() < self.spare.capacity()
            && self.spare_bytes + packet.data.capacity() <= SPARE_BYTES
    }

    /// Keeps a packet for the next one. `None`: it was kept.
    pub(super) fn keep(&mut self, packet: Rc<Packet>) -> Option<Rc<Packet>> {
        if !self.keeps(&packet) {
            return Some(packet);
        }
        self.spare_bytes += packet.data.capacity();
        self.spare.push(packet);
        None
    }

    /// Takes a packet out that was kept.
    pub(super) fn take_spare(&mut self, at: usize) -> Rc<Packet> {
        let packet = self.spare.swap_remove(at);
        self.spare_bytes -= packet.data.capacity();
        packet
    }

    /// Takes the oldest packet out.
    pub(super) fn pop(&mut self) -> Option<Rc<Packet>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.left();
        Some(packet)
    }

    /// Releases a packet's charge: returns the sender's account, unless it was released before.
    pub(super) fn settle<'a>(&'a self, packet: &'a Packet) -> Option<&'a Rc<Account>> {
        let account = packet.account.as_ref().or(self.sender.as_ref())?;
        match packet.charge.take() {
            0 => None,
            charge => {
                account.sent.remove(charge);
                Some(account)
            }
        }
    }
}

/// A handler receives: other handlers wait, calls without the big lock fail over to theirs.
pub struct Turn<'a>(&'a Inbox, #[allow(dead_code, reason = "held")] SleepGuard<'a>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().busy = false;
    }
}

impl Inbox {
    /// An empty one.
    pub fn new(readable: Rc<WaitQueue>) -> Self {
        let queue = Queue { open: true, ..Queue::default() };
        Self {
            queue: SpinLock::new(Rank::Socket, Global::new(queue)),
            special: AtomicBool::new(true),
            big: Global::new(Big { receiving: SleepLock::default(), readable }),
        }
    }

    /// The packets, also for calls without the big lock.
    #[inline(always)]
    pub(super) fn queue(&self) -> Guard<'_, Global<Queue>> {
        self.queue.lock()
    }

    /// Waiters for packets.
    pub(super) fn readable(&self) -> &Rc<WaitQueue> {
        &self.big.readable
    }

    /// Calls without the big lock leave it alone.
    #[inline(always)]
    pub(super) fn is_special(&self) -> bool {
        self.special.load(Relaxed)
    }

    /// Whether calls without the big lock leave it alone from now on.
    pub fn set_special(&self, special: bool) {
        // Calls that checked before have ended when the lock was taken, or see the change.
        self.special.store(special, Relaxed);
    }

    /// All packets without an account of their own are this one's.
    pub fn set_sender(&self, account: Rc<Account>) {
        self.queue.lock().sender = Some(account);
    }

    /// The only sender that may send here; 0: all may.
    pub fn set_accepts(&self, sender: u64) {
        self.queue.lock().accepts = sender;
    }

    /// Packets sent from now on are discarded.
    pub fn close(&self) {
        self.queue.lock().open = false;
    }

    /// Waits until no other handler receives.
    pub fn turn(&self) -> Turn<'_> {
        let guard = self.big.receiving.lock();
        self.queue.lock().busy = true;
        Turn(self, guard)
    }

    /// Total number of packets.
    pub fn pushed(&self) -> u64 {
        self.queue.lock().pushed
    }

    /// Bytes waiting.
    pub fn bytes(&self) -> usize {
        self.queue.lock().bytes
    }

    /// Packets waiting.
    pub fn len(&self) -> usize {
        self.queue.lock().packets.len()
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.queue.lock().packets.is_empty()
    }

    /// The packet number `index`, oldest first, for the holder of the turn.
    pub fn get(&self, index: usize, _turn: &Turn<'_>) -> Option<Rc<Packet>> {
        self.queue.lock().packets.get(index).cloned()
    }

    /// Calls `f` with the packet number `index`, oldest first.
    pub fn with<R>(&self, index: usize, f: impl FnOnce(&Rc<Packet>) -> R) -> Option<R> {
        self.queue.lock().packets.get(index).map(f)
    }

    /// Adds a packet.
    pub fn push(&self, packet: Rc<Packet>) {
        let mut guard = self.queue.lock();
        let queue = &mut **guard;
        if let Some(account) = packet.account.as_ref().or(queue.sender.as_ref()) {
            account.sent.add(packet.charge.get());
        }
        queue.bytes += packet.left();
        queue.pushed += 1;
        queue.packets.push_back(packet);
        // The cached packet did not fit: replace it by this one.
        let old = if queue.spare.is_empty() { None } else { Some(queue.take_spare(0)) };
        // Out of memory, do not cache.
        let _ = if queue.spare.capacity() == 0 { queue.spare.try_reserve_exact(SPARE) } else { Ok(()) };
        drop(guard);
        drop(old);
    }

    /// Takes `n` bytes of a packet, which stays in the queue.
    pub fn take_from(&self, packet: &Packet, n: usize) {
        let n = n.min(packet.left());
        let mut queue = self.queue.lock();
        packet.taken.set(packet.taken.get() + n);
        queue.bytes -= n;
    }

    /// Takes `n` bytes of the oldest packet, and the packet itself if no byte is left.
    pub fn consume(&self, n: usize) {
        let mut queue = self.queue.lock();
        let Some(front) = queue.packets.front() else { return };
        let n = n.min(front.left());
        front.taken.set(front.taken.get() + n);
        let is_over = front.left() == 0;
        queue.bytes -= n;
        drop(queue);
        if is_over {
            self.drop_front();
        }
    }

    /// Drops the oldest packet.
    pub fn drop_front(&self) {
        let mut guard = self.queue.lock();
        let queue = &mut **guard;
        let Some(packet) = queue.pop() else { return };
        let sender = queue.settle(&packet).cloned();
        drop(guard);
        drop(packet);
        if let Some(sender) = sender {
            sender.tell_of_room();
        }
    }

    /// Notifies the senders whose packets were consumed without the big lock of new room.
    pub(super) fn tell_senders(&self) {
        let mut at = 0;
        let common = self.queue.lock().sender.clone();
        if let Some(sender) = common {
            return sender.tell_of_room();
        }
        loop {
            let next = self.queue.lock().spare.get(at).map(|packet| packet.account.clone());
            match next {
                Some(Some(sender)) => sender.tell_of_room(),
                Some(None) => {}
                None => return,
            }
            at += 1;
        }
    }

    /// Discards all packets; returns whether there were any, except a received urgent byte.
    pub fn clear(&self) -> bool {
        let mut guard = self.queue.lock();
        let queue = &mut **guard;
        let gone = core::mem::take(&mut queue.packets);
        let spare = core::mem::take(&mut queue.spare);
        (queue.bytes, queue.spare_bytes) = (0, 0);
        let common = queue.sender.clone();
        drop(guard);
        let read = gone.front().is_some_and(|first| first.left() == 0 && first.taken.get() > 0);
        let some = gone.len() > usize::from(read);
        for packet in gone {
            let Some(account) = packet.account.as_ref().or(common.as_ref()) else { continue };
            account.sent.remove(packet.charge.take());
            account.tell_of_room();
        }
        drop(spare);
        some
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.clear();
    }
}
