//! State shared by master and slave.

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
use vfs::Attachments;

/// Maximum number of pseudo-terminals, as in `/proc/sys/kernel/pty/max`.
const MAX_PAIRS: usize = 4096;
/// Bytes that a reader can get at either side, as the buffer of Linux's line discipline.
pub const READY: usize = CAPACITY - 1;
/// Bytes buffered behind them, as in Linux's tty buffers with small writes.
const ON_THE_WAY: usize = 16 << 10;

static PAIRS: Global<RefCell<Vec<Option<Rc<Pair>>>>> = Global::new(RefCell::new(Vec::new()));

/// A pseudo-terminal.
pub struct Pair {
    /// Its number.
    pub index: u32,
    /// Line discipline of the slave.
    pub line: RefCell<Line>,
    /// Input of the master: the first [`READY`] bytes are readable, the others are buffered.
    pub output: RefCell<VecDeque<u8>>,
    /// Bytes typed while the line buffer was full.
    typed: RefCell<VecDeque<u8>>,
    /// Session and foreground of the slave.
    pub control: Control,
    /// Rows, columns and two unused fields (pixels).
    pub window: Cell<[u16; 4]>,
    /// The slave can't be opened yet (TIOCSPTLCK).
    pub locked: Cell<bool>,
    /// `TIOCEXCL` of the slave.
    pub exclusive: Cell<bool>,
    /// `TIOCEXCL` of the master; has no effect.
    pub exclusive_master: Cell<bool>,
    /// tcflow(3) stopped what the master writes.
    pub held: Cell<bool>,
    /// Locked attributes (TIOCSLCKTRMIOS): flag bits that are set here, keys that are not 0.
    pub fixed: Cell<[u8; SIZE]>,
    /// `TIOCPKT`: reads of the master begin with a byte of `TIOCPKT_*` bits.
    pub packet: Cell<bool>,
    /// Pending `TIOCPKT_*` bits.
    pub status: Cell<u8>,
    master_open: Cell<bool>,
    slaves: Cell<u32>,
    /// All descriptions of the slave were closed.
    abandoned: Cell<bool>,
    slave: RefCell<Weak<Slave>>,
    /// The file in `/dev/pts`.
    pub node: Rc<PtsNode>,
    /// Locks of the slave.
    pub attachments: Rc<Attachments>,
    /// Wait queue of readers of the slave.
    pub slave_readers: Rc<WaitQueue>,
    /// Writers of the slave.
    pub slave_writers: Rc<WaitQueue>,
    /// Readers of the master.
    pub master_readers: Rc<WaitQueue>,
    /// Writers of the master.
    pub master_writers: Rc<WaitQueue>,
}

impl Pair {
    /// Creates one in an instance of devpts, with the lowest number that is free in all; its slave is locked. ENOSPC.
    pub fn create(dev: u64, uid: u32) -> Result<Rc<Self>> {
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
            node: PtsNode::slave(dev, index as u32, uid),
            attachments: Rc::default(),
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

    /// Finds one by number whose master is open.
    pub fn find(index: u32) -> Option<Rc<Self>> {
        PAIRS.borrow().get(index as usize)?.clone().filter(|pair| pair.master_open.get())
    }

    /// Whether it belongs to an instance of devpts, by its device number.
    pub fn is_in(&self, dev: u64) -> bool {
        use vfs::Inode;
        self.node.attr().is_ok_and(|attr| attr.dev == dev)
    }

    /// Numbers of pseudo-terminals with an open master.
    pub fn indices() -> impl Iterator<Item = u32> {
        (0..PAIRS.borrow().len() as u32).filter(|index| Self::find(*index).is_some())
    }

    /// The slave; a session may keep it alive after its descriptors.
    pub fn slave(self: &Rc<Self>) -> Rc<Slave> {
        if let Some(slave) = self.slave.borrow().upgrade() {
            return slave;
        }
        let slave = Slave::new(self.clone());
        self.slave.replace(Rc::downgrade(&slave));
        slave
    }

    /// Counts another open description of the slave.
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

    /// The master was closed: hangs up the slave.
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
        // The foreground group gets SIGHUP when the leader ends.
        self.control.disconnect();
        self.hang_up();
    }

    /// Hangs up all open descriptions of the slave.
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

    /// Whether the master reads the end of file: the slave was opened and closed.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.get()
    }

    /// Whether the master is open.
    pub fn has_master(&self) -> bool {
        self.master_open.get()
    }

    /// Bytes that a program can write now.
    pub fn output_room(&self) -> usize {
        if self.line.borrow().is_stopped() {
            return 0;
        }
        (READY + 1 + ON_THE_WAY).saturating_sub(self.output.borrow().len())
    }

    /// Adds a byte that no program wrote to the master's input; drops it if there is no room.
    pub fn insert_output(&self, byte: u8) {
        let mut output = self.output.borrow_mut();
        if output.len() < READY + 1 + ON_THE_WAY && output.try_reserve(1).is_ok() {
            output.push_back(byte);
        }
        self.master_readers.wake_all();
    }

    /// Whether the master can write now.
    pub fn takes_typing(&self) -> bool {
        !self.held.get() && self.typed.borrow().len() <= ON_THE_WAY
    }

    /// Input from the master. Returns how many bytes fit.
    pub fn type_bytes(&self, bytes: &[u8]) -> Result<usize> {
        self.line.borrow_mut().begin(self.output.borrow().len());
        for (done, &byte) in bytes.iter().enumerate() {
            if !self.takes_typing() {
                return Ok(done);
            }
            let taken = if self.typed.borrow().is_empty() && !self.line.borrow().is_full() {
                self.receive(byte)
            } else {
                self.put_by(byte)
            };
            match taken {
                Ok(()) => {}
                Err(_) if done > 0 => return Ok(done),
                Err(errno) => return Err(errno),
            }
        }
        Ok(bytes.len())
    }

    /// Keeps a typed byte until the line buffer has room. ENOMEM.
    fn put_by(&self, byte: u8) -> Result<()> {
        let mut typed = self.typed.borrow_mut();
        typed.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        typed.push_back(byte);
        Ok(())
    }

    /// The line buffer may have room again: processes the bytes typed meanwhile.
    pub fn line_has_room(&self) {
        self.line.borrow_mut().begin(self.output.borrow().len());
        loop {
            if self.line.borrow().is_full() {
                break;
            }
            let Some(byte) = self.typed.borrow_mut().pop_front() else { break };
            if self.receive(byte).is_err() {
                // It was just taken out of there, so there is room.
                self.typed.borrow_mut().push_front(byte);
                break;
            }
        }
        self.master_writers.wake_all();
    }

    /// Passes a byte to the slave's line discipline. ENOMEM.
    pub fn receive(&self, byte: u8) -> Result<()> {
        let event = {
            let (mut line, mut output) = (self.line.borrow_mut(), self.output.borrow_mut());
            if !line.reserve(&mut output) {
                return Err(Errno::ENOMEM);
            }
            line.receive(byte, &mut output)
        };
        self.happened(event);
        if !self.output.borrow().is_empty() {
            self.master_readers.wake_all();
        }
        Ok(())
    }

    /// Handles an event of the line discipline.
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

    /// Sets status bits of a master in packet mode.
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

    /// `TCIFLUSH` at the slave: discards unread input.
    pub fn flush_input(&self) {
        self.typed.borrow_mut().clear();
        self.flush_line();
    }

    /// `TCSETSF`: discards the input that is readable at the slave.
    pub fn flush_line(&self) {
        self.line.borrow_mut().flush();
        self.tell(g::TIOCPKT_FLUSHREAD);
        self.line_has_room();
    }

    /// `TCOFLUSH` at the slave: discards output that the master has not read.
    pub fn flush_output(&self) {
        self.output.borrow_mut().truncate(READY);
        self.tell(g::TIOCPKT_FLUSHWRITE);
        self.slave_writers.wake_all();
    }

    /// `TCIFLUSH` at the master: discards the slave's unread output.
    pub fn flush_master_input(&self) {
        self.output.borrow_mut().clear();
        self.slave_writers.wake_all();
    }

    /// `TCOFLUSH` at the master: discards input that the slave has not read.
    pub fn flush_master_output(&self) {
        self.typed.borrow_mut().clear();
        self.master_writers.wake_all();
    }
}
