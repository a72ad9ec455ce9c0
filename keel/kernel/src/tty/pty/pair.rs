//! What the two ends share.

use super::devpts::PtsNode;
use super::slave::Slave;
use crate::sched::wait::WaitQueue;
use crate::signal::{self, SigInfo};
use crate::task::process;
use crate::tty::terminal::Control;
use alloc::collections::VecDeque;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use keel_core::tty::{CAPACITY, Event, Line, SIZE};
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Most pseudo-terminals, as `/proc/sys/kernel/pty/max` has it.
const MAX_PAIRS: usize = 4096;
/// Bytes that lie ready for a reader at either end, as Linux's line disciplines hold them.
pub const READY: usize = CAPACITY - 1;
/// Bytes on the way behind them, as Linux's buffers between the ends hold in small writes.
const ON_THE_WAY: usize = 16 << 10;

static PAIRS: Global<RefCell<Vec<Option<Rc<Pair>>>>> = Global::new(RefCell::new(Vec::new()));

/// A pseudo-terminal.
pub struct Pair {
    /// Its number.
    pub index: u32,
    /// Line discipline of the slave.
    pub line: RefCell<Line>,
    /// What the master will read: the first [`READY`] bytes lie ready, the others are on the way.
    pub output: RefCell<VecDeque<u8>>,
    /// What was typed while the line was full.
    typed: RefCell<VecDeque<u8>>,
    /// Session and foreground of the slave.
    pub control: Control,
    /// Rows, columns and two unused fields (pixels).
    pub window: Cell<[u16; 4]>,
    /// The slave can't be opened yet.
    pub locked: Cell<bool>,
    /// `TIOCEXCL` at the slave, and at the master, where it is only remembered.
    pub exclusive: Cell<bool>,
    /// As [`Pair::exclusive`], at the master.
    pub exclusive_master: Cell<bool>,
    /// tcflow(3) stopped what the master writes.
    pub held: Cell<bool>,
    /// Attributes that can't be changed: bits of the flags that are set here, keys that are not 0.
    pub fixed: Cell<[u8; SIZE]>,
    /// `TIOCPKT`: reads of the master begin with a byte of `TIOCPKT_*` bits.
    pub packet: Cell<bool>,
    /// Pending `TIOCPKT_*` bits.
    pub status: Cell<u8>,
    master_open: Cell<bool>,
    slaves: Cell<u32>,
    /// The slave was open and is no more.
    abandoned: Cell<bool>,
    slave: RefCell<Weak<Slave>>,
    /// The file in `/dev/pts`.
    pub node: Rc<PtsNode>,
    /// Readers of the slave, writers of the slave, and the master's.
    pub slave_readers: Rc<WaitQueue>,
    /// Writers of the slave.
    pub slave_writers: Rc<WaitQueue>,
    /// Readers of the master.
    pub master_readers: Rc<WaitQueue>,
    /// Writers of the master.
    pub master_writers: Rc<WaitQueue>,
}

impl Pair {
    /// A new one with the lowest free number; its slave is locked. ENOSPC.
    pub fn create(uid: u32) -> Result<Rc<Self>> {
        let mut pairs = PAIRS.borrow_mut();
        let index = pairs.iter().position(Option::is_none).unwrap_or(pairs.len());
        if index >= MAX_PAIRS {
            return Err(Errno::ENOSPC);
        }
        let pair = Rc::new(Self {
            index: index as u32,
            line: RefCell::default(),
            output: RefCell::default(),
            typed: RefCell::default(),
            control: Control::default(),
            window: Cell::default(),
            locked: Cell::new(true),
            exclusive: Cell::new(false),
            exclusive_master: Cell::new(false),
            held: Cell::new(false),
            fixed: Cell::new([0; SIZE]),
            packet: Cell::new(false),
            status: Cell::new(0),
            master_open: Cell::new(true),
            slaves: Cell::new(0),
            abandoned: Cell::new(false),
            slave: RefCell::default(),
            node: PtsNode::slave(index as u32, uid),
            slave_readers: Rc::default(),
            slave_writers: Rc::default(),
            master_readers: Rc::default(),
            master_writers: Rc::default(),
        });
        match pairs.get_mut(index) {
            Some(place) => *place = Some(pair.clone()),
            None => vfs::memory::push(&mut pairs, Some(pair.clone()))?,
        }
        Ok(pair)
    }

    /// The one of a number whose master is open.
    pub fn find(index: u32) -> Option<Rc<Self>> {
        PAIRS.borrow().get(index as usize)?.clone().filter(|pair| pair.master_open.get())
    }

    /// Numbers of those whose master is open.
    pub fn indices() -> impl Iterator<Item = u32> {
        (0..PAIRS.borrow().len() as u32).filter(|index| Self::find(*index).is_some())
    }

    /// The slave's side, which outlives its descriptors as long as a session has it.
    pub fn slave(self: &Rc<Self>) -> Rc<Slave> {
        if let Some(slave) = self.slave.borrow().upgrade() {
            return slave;
        }
        let slave = Slave::new(self.clone());
        self.slave.replace(Rc::downgrade(&slave));
        slave
    }

    /// The slave was opened once more.
    pub fn add_slave(&self) {
        self.slaves.set(self.slaves.get() + 1);
        self.abandoned.set(false);
    }

    /// A description of the slave was closed.
    pub fn remove_slave(&self) {
        self.slaves.set(self.slaves.get().saturating_sub(1));
        if self.slaves.get() == 0 {
            self.abandoned.set(true);
            self.master_readers.wake_all();
            self.forget_if_unused();
        }
    }

    /// The master was closed: the slave's users lose it.
    pub fn close_master(&self) {
        self.master_open.set(false);
        self.lose_session();
        self.forget_if_unused();
    }

    /// The session loses its terminal, and all that have it open too.
    pub fn lose_session(&self) {
        if let Some(session) = self.control.session() {
            for leader in process::all().filter(|p| p.pid() == session.sid) {
                for signal in [g::SIGHUP, g::SIGCONT] {
                    // Standard signals from keel are never refused for lack of room.
                    let _ = signal::send_to_process(&leader, SigInfo::from_kernel(signal));
                }
            }
        }
        // The foreground gets its own when the leader ends.
        self.control.disconnect();
        self.hang_up();
    }

    /// All that have the slave open now can't use it any more.
    pub fn hang_up(&self) {
        let slave = self.slave.take();
        if let Some(slave) = slave.upgrade() {
            slave.hang_up();
        }
        for queue in [&self.slave_readers, &self.slave_writers, &self.master_readers, &self.master_writers] {
            queue.wake_all();
        }
    }

    fn forget_if_unused(&self) {
        if self.master_open.get() || self.slaves.get() > 0 {
            return;
        }
        let gone = PAIRS.borrow_mut().get_mut(self.index as usize).and_then(Option::take);
        drop(gone);
    }

    /// The master reads the end: the slave was open and is no more.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.get()
    }

    /// The master is open.
    pub fn has_master(&self) -> bool {
        self.master_open.get()
    }

    /// Bytes that a program may write now.
    pub fn output_room(&self) -> usize {
        if self.line.borrow().is_stopped() {
            return 0;
        }
        (READY + 1 + ON_THE_WAY).saturating_sub(self.output.borrow().len())
    }

    /// A byte for the master that no program wrote. It is dropped where there is no room.
    pub fn insert_output(&self, byte: u8) {
        if self.output.borrow().len() < READY + 1 + ON_THE_WAY {
            self.output.borrow_mut().push_back(byte);
        }
        self.master_readers.wake_all();
    }

    /// Whether the master may write now.
    pub fn takes_typing(&self) -> bool {
        !self.held.get() && self.typed.borrow().len() <= ON_THE_WAY
    }

    /// The master writes `bytes`. How many of them there was room for.
    pub fn type_bytes(&self, bytes: &[u8]) -> usize {
        self.line.borrow_mut().begin(self.output.borrow().len());
        for (done, &byte) in bytes.iter().enumerate() {
            if !self.takes_typing() {
                return done;
            }
            if self.typed.borrow().is_empty() && !self.line.borrow().is_full() {
                self.receive(byte);
            } else {
                self.typed.borrow_mut().push_back(byte);
            }
        }
        bytes.len()
    }

    /// The line may have room again: what was typed in the meantime goes on.
    pub fn line_has_room(&self) {
        self.line.borrow_mut().begin(self.output.borrow().len());
        loop {
            if self.line.borrow().is_full() {
                break;
            }
            let Some(byte) = self.typed.borrow_mut().pop_front() else { break };
            self.receive(byte);
        }
        self.master_writers.wake_all();
    }

    /// A byte arrives at the slave's line discipline.
    pub fn receive(&self, byte: u8) {
        let event = self.line.borrow_mut().receive(byte, &mut self.output.borrow_mut());
        self.happened(event);
        if !self.output.borrow().is_empty() {
            self.master_readers.wake_all();
        }
    }

    /// Delivers the reports of the line discipline.
    pub fn happened(&self, event: Event) {
        match event {
            Event::None => {}
            Event::Signal { number, flushed, started } => {
                if started {
                    self.tell(g::TIOCPKT_START);
                }
                if flushed {
                    self.tell(g::TIOCPKT_FLUSHREAD | g::TIOCPKT_FLUSHWRITE);
                }
                self.slave_writers.wake_all();
                signal::send_to_group(self.control.foreground(), SigInfo::from_kernel(number));
            }
            Event::Stopped => self.tell(g::TIOCPKT_STOP),
            Event::Started => {
                self.tell(g::TIOCPKT_START);
                self.slave_writers.wake_all();
            }
        }
    }

    /// Sets status bits for a master in packet mode.
    pub fn tell(&self, bits: u32) {
        if !self.packet.get() {
            return;
        }
        let opposite = match bits {
            g::TIOCPKT_STOP => g::TIOCPKT_START,
            g::TIOCPKT_START => g::TIOCPKT_STOP,
            g::TIOCPKT_NOSTOP => g::TIOCPKT_DOSTOP,
            g::TIOCPKT_DOSTOP => g::TIOCPKT_NOSTOP,
            _ => 0,
        };
        self.status.set(self.status.get() & !(opposite as u8) | bits as u8);
        self.master_readers.wake_all();
    }

    /// `TCIFLUSH` at the slave: forgets what was typed and not read.
    pub fn flush_input(&self) {
        self.typed.borrow_mut().clear();
        self.flush_line();
    }

    /// `TCSETSF`: forgets what lies ready for the slave's readers.
    pub fn flush_line(&self) {
        self.line.borrow_mut().flush();
        self.tell(g::TIOCPKT_FLUSHREAD);
        self.line_has_room();
    }

    /// `TCOFLUSH` at the slave: forgets what is on the way to the master.
    pub fn flush_output(&self) {
        self.output.borrow_mut().truncate(READY);
        self.tell(g::TIOCPKT_FLUSHWRITE);
        self.slave_writers.wake_all();
    }

    /// `TCIFLUSH` at the master: forgets what was written and not read.
    pub fn flush_master_input(&self) {
        self.output.borrow_mut().clear();
        self.slave_writers.wake_all();
    }

    /// `TCOFLUSH` at the master: forgets what is on the way to the slave.
    pub fn flush_master_output(&self) {
        self.typed.borrow_mut().clear();
        self.master_writers.wake_all();
    }
}
