//! The slave side: the terminal.

use super::Pair;
use crate::file::{Abilities, File, FileOps, Queues};
use crate::mm::user;
use crate::sched::wait::{Interrupt, wait_until};
use crate::task;
use alloc::rc::Rc;
use core::any::Any;
use core::cell::Cell;
use keel_core::tty::Taken;
use uapi::raw::general as g;
use uapi::raw::ioctl;
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::{Attachments, Attr, Dst, Inode, Src};

/// Bytes moved at a time.
const STEP: usize = 512;
/// Unit of `VTIME` in ns.
const TENTH: u64 = 100_000_000;

/// A terminal, from its first open until it is hung up.
pub struct Slave {
    pair: Rc<Pair>,
    hung_up: Cell<bool>,
}

/// Opens a slave; it becomes the controlling terminal of a session leader without one, unless
/// `O_NOCTTY` is given. EIO if it is locked or gone, EBUSY.
pub fn open_slave(index: u32, flags: u32, place: Option<PathRef>) -> Result<Rc<File>> {
    let pair = Pair::find(index).ok_or(Errno::EIO)?;
    let task = task::current();
    if pair.locked.get() {
        return Err(Errno::EIO);
    }
    if pair.exclusive.get() && !task.cred().capable(g::CAP_SYS_ADMIN) {
        return Err(Errno::EBUSY);
    }
    let slave = pair.slave();
    let process = task.process();
    let leader = process.sid() == process.pid();
    if flags & g::O_NOCTTY == 0
        && flags & g::O_ACCMODE != g::O_WRONLY
        && leader
        && process.session().terminal.borrow().is_none()
        && pair.control.session().is_none()
    {
        pair.control.attach(slave.clone(), process);
    }
    Ok(slave.open(flags, place))
}

impl Slave {
    /// The slave of a pair, not open yet.
    pub fn new(pair: Rc<Pair>) -> Rc<Self> {
        Rc::new(Self { pair, hung_up: Cell::new(false) })
    }

    /// A new description.
    pub fn open(self: Rc<Self>, flags: u32, place: Option<PathRef>) -> Rc<File> {
        self.pair.add_slave();
        File::new(self, flags, place)
    }

    /// The pseudo-terminal.
    pub fn pair(&self) -> &Rc<Pair> {
        &self.pair
    }

    /// Hangs up: all further operations fail.
    pub fn hang_up(&self) {
        self.hung_up.set(true);
    }

    /// Moves readable bytes, at most a line, to the destination. `None`: no input.
    fn take(&self, dst: &mut dyn Dst) -> Result<Option<usize>> {
        let mut buffer = [0; STEP];
        let mut done = 0;
        loop {
            let room = dst.remaining().min(STEP);
            if room == 0 {
                return Ok(Some(done));
            }
            let taken = self.pair.line.borrow_mut().take(&mut buffer[..room]);
            match taken {
                Taken::Nothing => return Ok((done > 0).then_some(done)),
                Taken::Bytes(0) => return Ok(Some(done)),
                Taken::Bytes(n) => {
                    done += dst.put(&buffer[..n])?;
                    let canonical = self.pair.line.borrow().termios().is(g::ICANON);
                    if n < room || canonical && self.pair.line.borrow().at_line_start() {
                        return Ok(Some(done));
                    }
                }
            }
        }
    }

    /// Waits for input until `deadline`: ETIMEDOUT.
    fn wait_input(&self, deadline: Option<u64>) -> Result<()> {
        let ready = || {
            if self.hung_up.get() {
                return Some(Err(Errno::EIO));
            }
            (self.pair.line.borrow().available() > 0).then_some(Ok(()))
        };
        wait_until(core::slice::from_ref(&self.pair.slave_readers), deadline, Interrupt::BySignal, ready)?
    }

    /// Minimum bytes of a read, and its timeout (`VMIN`, `VTIME`).
    fn patience(&self) -> (usize, u64) {
        let line = self.pair.line.borrow();
        let termios = line.termios();
        if termios.is(g::ICANON) {
            return (1, 0);
        }
        (usize::from(termios.key(g::VMIN)), u64::from(termios.key(g::VTIME)) * TENTH)
    }

    fn room(&self) -> Option<Result<usize>> {
        if self.hung_up.get() || !self.pair.has_master() {
            return Some(Err(Errno::EIO));
        }
        let room = self.pair.output_room();
        (room > 0).then_some(Ok(room))
    }
}

impl FileOps for Slave {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities::STREAM.without(Abilities::NO_WAIT)
    }

    fn read(&self, file: &File, dst: &mut dyn Dst) -> Result<usize> {
        if self.hung_up.get() || dst.remaining() == 0 {
            return Ok(0);
        }
        let mut done = 0;
        let (least, time) = self.patience();
        loop {
            self.pair.control.check_read()?;
            let taken = self.take(dst)?;
            self.pair.line_has_room();
            match taken {
                Some(n) => {
                    done += n;
                    if n == 0 || done >= least || dst.remaining() == 0 {
                        return Ok(done);
                    }
                }
                None if least == 0 && time == 0 => return Ok(0),
                None => {}
            }
            if file.nonblocking() {
                return if done > 0 { Ok(done) } else { Err(Errno::EAGAIN) };
            }
            // The timeout runs between bytes, or from the start if the minimum is 0.
            let timed = time > 0 && (done > 0 || least == 0);
            let deadline = timed.then(|| hal::clock::monotonic_ns().saturating_add(time));
            match self.wait_input(deadline) {
                Ok(()) => {}
                Err(Errno::ETIMEDOUT) => return Ok(done),
                Err(_) if done > 0 => return Ok(done),
                Err(errno) => return Err(errno),
            }
        }
    }

    fn write(&self, file: &File, src: &mut dyn Src) -> Result<usize> {
        if self.hung_up.get() {
            return Err(Errno::EIO);
        }
        if self.pair.line.borrow().termios().is(g::TOSTOP) {
            self.pair.control.check_change()?;
        }
        let mut buffer = [0; STEP];
        let mut done = 0;
        let end = |done: usize, errno: Errno| if done > 0 { Ok(done) } else { Err(errno) };
        while src.remaining() > 0 {
            let room = match self.room() {
                Some(room) => room,
                None if file.nonblocking() => Err(Errno::EAGAIN),
                None => {
                    let queue = core::slice::from_ref(&self.pair.slave_writers);
                    wait_until(queue, None, Interrupt::BySignal, || self.room()).and_then(|room| room)
                }
            };
            let room = match room {
                Ok(room) => room,
                Err(errno) => return end(done, errno),
            };
            let want = src.remaining().min(STEP).min(room);
            // A byte becomes at most the blanks of a tab.
            if self.pair.output.borrow_mut().try_reserve(8 * want).is_err() {
                return end(done, Errno::ENOMEM);
            }
            let got = match src.get(&mut buffer[..want]) {
                Ok(got) => got,
                Err(errno) => return end(done, errno),
            };
            self.pair.line.borrow_mut().write(&buffer[..got], &mut self.pair.output.borrow_mut());
            self.pair.master_readers.wake_all();
            done += got;
            if got < want {
                break;
            }
        }
        Ok(done)
    }

    fn attr(&self) -> Result<Attr> {
        self.pair.node.attr()
    }

    fn poll(&self, _file: &File) -> u32 {
        let (input, output) = (g::POLLIN | g::POLLRDNORM, g::POLLOUT | g::POLLWRNORM);
        if self.hung_up.get() {
            return input | output | g::POLLERR | g::POLLHUP;
        }
        let (least, time) = self.patience();
        let least = if time == 0 { least.max(1) } else { 1 };
        let mut events = 0;
        if self.pair.line.borrow().available() >= least {
            events |= input;
        }
        if self.pair.output_room() > 0 {
            events |= output;
        }
        events
    }

    fn poll_queues(&self, _file: &File, _events: u32, out: &mut Queues) {
        out.push(self.pair.slave_readers.clone());
        out.push(self.pair.slave_writers.clone());
    }

    fn ioctl(&self, _file: &File, command: u32, arg: usize) -> Result<usize> {
        if self.hung_up.get() {
            return Err(if command == ioctl::TIOCSPGRP { Errno::ENOTTY } else { Errno::EIO });
        }
        let pair = &self.pair;
        match command {
            ioctl::FIONREAD => user::write(arg, &(pair.line.borrow().readable() as i32)).map(|()| 0),
            ioctl::TCFLSH => {
                pair.control.check_change()?;
                match arg as u32 {
                    g::TCIFLUSH => pair.flush_input(),
                    g::TCOFLUSH => pair.flush_output(),
                    g::TCIOFLUSH => {
                        pair.flush_input();
                        pair.flush_output();
                    }
                    _ => return Err(Errno::EINVAL),
                }
                Ok(0)
            }
            ioctl::TIOCVHANGUP => {
                if !task::current().cred().capable(g::CAP_SYS_ADMIN) {
                    return Err(Errno::EPERM);
                }
                pair.lose_session();
                Ok(0)
            }
            // Only masters have a peer to open.
            ioctl::TIOCGPTPEER => Err(Errno::EIO),
            _ => pair.request(command, arg, true),
        }
    }

    fn host_attachments(&self) -> Option<Rc<Attachments>> {
        Some(self.pair.attachments.clone())
    }

    fn inode(&self) -> Option<Rc<dyn Inode>> {
        Some(self.pair.node.clone())
    }

    fn release(&self, _file: &File) {
        self.pair.remove_slave();
    }
}
