//! What the two ends share.

use super::super::terminal::Control;
use super::devpts::PtsNode;
use super::slave::Slave;
use crate::signal::{self, SigInfo};
use crate::task::process;
use crate::task::wait::WaitQueue;
use alloc::collections::VecDeque;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use keel_core::tty::{Event, Line, SIZE};
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Most pseudo-terminals, as `/proc/sys/kernel/pty/max` has it.
const MAX_PAIRS: usize = 4096;
/// Bytes that a program may write before somebody reads them at the master.
pub const OUTPUT_ROOM: usize = 8192;

static PAIRS: Global<RefCell<Vec<Option<Rc<Pair>>>>> = Global::new(RefCell::new(Vec::new()));

/// A pseudo-terminal.
pub struct Pair {
    /// Its number.
    pub index: u32,
    /// Line discipline of the slave.
    pub line: RefCell<Line>,
    /// What the master will read.
    pub output: RefCell<VecDeque<u8>>,
    /// Session and foreground of the slave.
    pub control: Control,
    /// Rows, columns and two that nobody uses.
    pub window: Cell<[u16; 4]>,
    /// The slave can't be opened yet.
    pub locked: Cell<bool>,
    /// `TIOCEXCL`.
    pub exclusive: Cell<bool>,
    /// Attributes that can't be changed: bits of the flags that are set here, keys that are not 0.
    pub fixed: Cell<[u8; SIZE]>,
    /// `TIOCPKT`: reads of the master tell what happens, as `TIOCPKT_*` bits.
    pub packet: Cell<bool>,
    /// The bits to be told.
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
            control: Control::default(),
            window: Cell::default(),
            locked: Cell::new(true),
            exclusive: Cell::new(false),
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
            None => pairs.push(Some(pair.clone())),
        }
        Ok(pair)
    }

    /// The one of a number whose master is open.
    pub fn find(index: u32) -> Option<Rc<Self>> {
        PAIRS.borrow().get(index as usize)?.clone().filter(|pair| pair.master_open.get())
    }

    /// Numbers of those whose master is open.
    pub fn indices() -> Vec<u32> {
        PAIRS.borrow().iter().flatten().filter(|pair| pair.master_open.get()).map(|pair| pair.index).collect()
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
        if let Some(session) = self.control.session() {
            for leader in process::all().iter().filter(|p| p.pid() == session.sid) {
                for signal in [g::SIGHUP, g::SIGCONT] {
                    // Standard signals from keel are never refused for lack of room.
                    let _ = signal::send_to_process(leader, SigInfo::from_kernel(signal));
                }
            }
        }
        // The foreground gets its own when the leader ends.
        self.control.disconnect();
        self.hang_up();
        self.forget_if_unused();
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
        if self.line.borrow().is_stopped() { 0 } else { OUTPUT_ROOM.saturating_sub(self.output.borrow().len()) }
    }

    /// A byte was typed at the master.
    pub fn receive(&self, byte: u8) {
        let event = self.line.borrow_mut().receive(byte, &mut self.output.borrow_mut());
        match event {
            Event::None => {}
            Event::Signal(signal, flushed) => {
                if flushed {
                    self.tell(g::TIOCPKT_FLUSHWRITE);
                }
                self.slave_writers.wake_all();
                signal::send_to_group(self.control.foreground(), SigInfo::from_kernel(signal));
            }
            Event::Stopped => self.tell(g::TIOCPKT_STOP),
            Event::Started => {
                self.tell(g::TIOCPKT_START);
                self.slave_writers.wake_all();
            }
        }
    }

    /// Something happened that a master in packet mode wants to know.
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

    /// Forgets what was typed and not read.
    pub fn flush_input(&self) {
        self.line.borrow_mut().flush();
        self.tell(g::TIOCPKT_FLUSHREAD);
        self.master_writers.wake_all();
    }

    /// Forgets what was written and not read by the master.
    pub fn flush_output(&self) {
        self.output.borrow_mut().clear();
        self.tell(g::TIOCPKT_FLUSHWRITE);
        self.slave_writers.wake_all();
    }
}
