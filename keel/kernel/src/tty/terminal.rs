//! The controlling terminal: its session and its foreground process group.

use crate::file::{File, FileOps};
use crate::mm::user;
use crate::signal::{self, SIG_IGN, SigInfo};
use crate::task::pidns;
use crate::task::process::{Session, is_orphaned, of_group};
use crate::task::{self, Process};
use alloc::rc::Rc;
use core::any::Any;
use core::cell::{Cell, RefCell};
use uapi::raw::general as g;
use uapi::raw::ioctl;
use uapi::{Errno, Result};

/// `TIOCSETD` and `TIOCGETD`: line discipline.
const TIOCSETD: u32 = 0x5423;
const TIOCGETD: u32 = 0x5424;
/// The only supported line discipline, `N_TTY`.
const N_TTY: i32 = 0;
/// `TIOCOUTQ`: bytes not yet sent.
const TIOCOUTQ: u32 = ioctl::TIOCOUTQ;

/// Session state of a terminal; part of every kind of terminal.
#[derive(Debug, Default)]
pub struct Control {
    session: RefCell<Option<Rc<Session>>>,
    /// Identity of the terminal, to compare with the session's.
    place: Cell<usize>,
}

fn place(terminal: &Rc<dyn Any>) -> usize {
    Rc::as_ptr(terminal).cast::<()>() as usize
}

impl Control {
    /// The session that this terminal controls. `None` after the end of its leader.
    pub fn session(&self) -> Option<Rc<Session>> {
        let session = self.session.borrow().clone()?;
        let mine = session.terminal.borrow().as_ref().is_some_and(|terminal| place(terminal) == self.place.get());
        mine.then_some(session)
    }

    /// The process group in the foreground; 0: none.
    pub fn foreground(&self) -> i32 {
        self.session().map_or(0, |session| session.foreground.get())
    }

    /// Whether this terminal controls `process`'s session.
    pub fn controls(&self, process: &Process) -> bool {
        self.session().is_some_and(|session| session.sid == process.sid())
    }

    /// The terminal is closed. The session keeps its foreground group, which gets SIGHUP when the leader ends.
    pub fn disconnect(&self) {
        let session = self.session();
        let _old = self.session.take();
        if let Some(session) = session {
            let _terminal = session.terminal.take();
        }
    }

    /// Makes `terminal`, which owns this state, the controlling terminal of the process's session, with the process's
    /// group in the foreground.
    pub fn attach(&self, terminal: Rc<dyn Any>, process: &Process) {
        let session = process.session();
        session.foreground.set(process.group());
        self.place.set(place(&terminal));
        let _old = session.terminal.replace(Some(terminal));
        let _old = self.session.replace(Some(session));
    }

    /// Detaches the session from the terminal.
    pub fn detach(&self) {
        let session = self.session();
        let _old = self.session.take();
        if let Some(session) = session {
            session.foreground.set(0);
            let _old = session.terminal.take();
        }
    }

    /// Fails for reads of a background process: SIGTTIN and ERESTARTSYS, or EIO if SIGTTIN can't stop it.
    pub fn check_read(&self) -> Result<()> {
        self.check(g::SIGTTIN)
    }

    /// Fails for changes by a background process: SIGTTOU and ERESTARTSYS.
    pub fn check_change(&self) -> Result<()> {
        self.check(g::SIGTTOU)
    }

    /// Whether the current process is in the session but not in its foreground group.
    pub fn is_background(&self) -> bool {
        let foreground = self.foreground();
        task::with_current(|task| {
            let process = task.process();
            foreground != 0 && foreground != process.group() && self.controls(process)
        })
    }

    fn check(&self, signal: u32) -> Result<()> {
        if !self.is_background() {
            return Ok(());
        }
        let task = task::current();
        let process = task.process();
        let reading = signal == g::SIGTTIN;
        let ignored = task.signals.actions().get(signal).handler == SIG_IGN;
        if ignored || task.signals.blocked().has(signal) {
            return if reading { Err(Errno::EIO) } else { Ok(()) };
        }
        if is_orphaned(process.group(), None) {
            return Err(Errno::EIO);
        }
        signal::send_to_group(process.group(), SigInfo::from_kernel(signal));
        Err(Errno::ERESTARTSYS)
    }

    /// Handles ioctls about sessions and foreground groups; `None`: another ioctl.
    pub fn ioctl(&self, terminal: &Rc<dyn Any>, command: u32, arg: usize) -> Option<Result<usize>> {
        Some(match command {
            ioctl::TIOCGPGRP => self.get_foreground(arg),
            ioctl::TIOCSPGRP => self.set_foreground(arg),
            ioctl::TIOCGSID => self.get_session(arg),
            ioctl::TIOCSCTTY => self.take(terminal, arg),
            ioctl::TIOCNOTTY => self.give_up(),
            ioctl::TIOCSBRK | ioctl::TIOCCBRK => self.check_change().map(|()| 0),
            TIOCSETD => self.set_discipline(arg),
            TIOCGETD | TIOCOUTQ => user::write(arg, &0i32).map(|()| 0),
            _ => return None,
        })
    }

    /// `TIOCSETD`. EINVAL for all line disciplines but N_TTY.
    fn set_discipline(&self, arg: usize) -> Result<usize> {
        self.check_change()?;
        let discipline: i32 = user::read(arg)?;
        if discipline == N_TTY { Ok(0) } else { Err(Errno::EINVAL) }
    }

    fn get_foreground(&self, arg: usize) -> Result<usize> {
        if !self.controls(task::current().process()) {
            return Err(Errno::ENOTTY);
        }
        user::write(arg, &pidns::shown(self.foreground()))?;
        Ok(0)
    }

    fn set_foreground(&self, arg: usize) -> Result<usize> {
        let is_own = self.controls(task::current().process());
        if is_own {
            self.check_change()?;
        }
        let group: i32 = user::read(arg)?;
        if group < 0 {
            return Err(Errno::EINVAL);
        }
        if !is_own {
            return Err(Errno::ENOTTY);
        }
        let group = pidns::named(group);
        let sid = task::current().process().sid();
        match of_group(group).next() {
            None => return Err(Errno::ESRCH),
            Some(member) if member.sid() != sid => return Err(Errno::EPERM),
            Some(_) => {}
        }
        if let Some(session) = self.session() {
            session.foreground.set(group);
        }
        Ok(0)
    }

    fn get_session(&self, arg: usize) -> Result<usize> {
        let task = task::current();
        if !self.controls(task.process()) {
            return Err(Errno::ENOTTY);
        }
        user::write(arg, &pidns::shown(task.process().sid()))?;
        Ok(0)
    }

    fn take(&self, terminal: &Rc<dyn Any>, arg: usize) -> Result<usize> {
        let task = task::current();
        let process = task.process();
        let leader = process.sid() == process.pid();
        if leader && self.controls(process) {
            return Ok(0);
        }
        if !leader || process.session().terminal.borrow().is_some() {
            return Err(Errno::EPERM);
        }
        if self.session().is_some() {
            let may_steal = task.cred().cap_effective >> g::CAP_SYS_ADMIN & 1 != 0;
            if arg != 1 || !may_steal {
                return Err(Errno::EPERM);
            }
            self.detach();
        }
        self.attach(terminal.clone(), process);
        Ok(0)
    }

    fn give_up(&self) -> Result<usize> {
        let task = task::current();
        let process = task.process();
        if !self.controls(process) {
            return Err(Errno::ENOTTY);
        }
        if process.sid() == process.pid() {
            let foreground = self.foreground();
            self.detach();
            signal::send_to_group(foreground, SigInfo::from_kernel(g::SIGHUP));
            signal::send_to_group(foreground, SigInfo::from_kernel(g::SIGCONT));
        }
        Ok(0)
    }
}

/// The controlling terminal of the current process, opened anew (`/dev/tty`). ENXIO.
pub fn open_controlling(flags: u32, path: Option<vfs::PathRef>) -> Result<Rc<File>> {
    let terminal = task::current().process().session().terminal.borrow().clone().ok_or(Errno::ENXIO)?;
    let terminal = match terminal.downcast::<super::pty::Slave>() {
        Ok(slave) => return Ok(slave.open(flags, path)),
        Err(other) => other,
    };
    let ops: Rc<dyn FileOps> = terminal.downcast::<super::stream::Stream>().map_err(|_| Errno::ENXIO)?;
    Ok(File::new(ops, flags, path))
}

/// The session leader ended: hangs up open descriptions of the pseudo-terminal.
pub fn leader_ended(terminal: &Rc<dyn Any>) {
    if let Some(slave) = terminal.downcast_ref::<super::pty::Slave>() {
        slave.pair().hang_up();
    }
}

/// Major and minor number of a terminal.
pub fn device(terminal: &Rc<dyn Any>) -> (u32, u32) {
    match terminal.downcast_ref::<super::pty::Slave>() {
        Some(slave) => (super::pty::MAJOR, slave.pair().index),
        None => (5, 1),
    }
}
