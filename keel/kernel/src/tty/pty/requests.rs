//! ioctl(2) requests of both sides, ioctl_tty(2). At the master they apply to the slave.

use super::{MAJOR, Pair};
use crate::mm::user;
use crate::signal::{self, SigInfo};
use crate::task;
use crate::tty::termio::{self, TERMIOS2, with_speeds};
use alloc::rc::Rc;
use core::cell::Cell;
use keel_core::tty::{Event, SIZE, Termios};
use uapi::raw::general as g;
use uapi::raw::ioctl;
use uapi::{Errno, Result};

/// When new attributes take effect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Now,
    /// Also discards input. Output never has to be waited for.
    Flush,
}

impl Pair {
    /// Handles a request. ENOTTY for unknown ones.
    pub fn request(self: &Rc<Self>, command: u32, arg: usize, at_slave: bool) -> Result<usize> {
        let done = |result: Result<()>| result.map(|()| 0);
        match command {
            ioctl::TCGETS => done(user::write(arg, &self.attributes())),
            ioctl::TCGETS2 => done(user::write(arg, &with_speeds(&self.attributes()))),
            // In both structures the first 36 bytes are the same; a pseudo-terminal has no speed.
            ioctl::TCSETS | ioctl::TCSETSW => self.set_attributes(When::Now, arg, SIZE, at_slave),
            ioctl::TCSETSF => self.set_attributes(When::Flush, arg, SIZE, at_slave),
            ioctl::TCSETS2 | ioctl::TCSETSW2 => self.set_attributes(When::Now, arg, TERMIOS2, at_slave),
            ioctl::TCSETSF2 => self.set_attributes(When::Flush, arg, TERMIOS2, at_slave),
            ioctl::TCGETA => done(user::write(arg, &termio::of(&self.attributes()))),
            ioctl::TCSETA | ioctl::TCSETAW => self.set_termio(When::Now, arg, at_slave),
            ioctl::TCSETAF => self.set_termio(When::Flush, arg, at_slave),
            ioctl::TIOCGLCKTRMIOS => done(user::write(arg, &self.fixed.get())),
            ioctl::TIOCSLCKTRMIOS => {
                if !task::current().cred().capable(g::CAP_SYS_ADMIN) {
                    return Err(Errno::EPERM);
                }
                self.fixed.set(user::read(arg)?);
                Ok(0)
            }
            ioctl::TIOCGWINSZ => done(user::write(arg, &self.window.get())),
            ioctl::TIOCSWINSZ => {
                let window: [u16; 4] = user::read(arg)?;
                if self.window.replace(window) != window {
                    signal::send_to_group(self.control.foreground(), SigInfo::from_kernel(g::SIGWINCH));
                }
                Ok(0)
            }
            ioctl::TCXONC => self.flow(arg, at_slave),
            // Output is never pending, and there are no breaks.
            ioctl::TCSBRK | ioctl::TCSBRKP => {
                if at_slave {
                    self.control.check_change()?;
                }
                Ok(0)
            }
            ioctl::TIOCEXCL | ioctl::TIOCNXCL => {
                self.exclusive(at_slave).set(command == ioctl::TIOCEXCL);
                Ok(0)
            }
            ioctl::TIOCGEXCL => done(user::write(arg, &i32::from(self.exclusive(at_slave).get()))),
            ioctl::TIOCGDEV => done(user::write(arg, &(MAJOR << 8 | self.index & 0xff | (self.index & !0xff) << 12))),
            ioctl::TIOCSTI => self.insert(arg, at_slave),
            ioctl::TIOCGSOFTCAR => {
                done(user::write(arg, &i32::from(self.line.borrow().termios().cflag & g::CLOCAL != 0)))
            }
            ioctl::TIOCSSOFTCAR => {
                let on: i32 = user::read(arg)?;
                let mut line = self.line.borrow_mut();
                let mut termios = *line.termios();
                termios.cflag = termios.cflag & !g::CLOCAL | if on != 0 { g::CLOCAL } else { 0 };
                line.set_termios(termios);
                Ok(0)
            }
            _ => {
                let slave = self.slave();
                self.control.ioctl(&(slave as Rc<dyn core::any::Any>), command, arg).unwrap_or(Err(Errno::ENOTTY))
            }
        }
    }

    fn exclusive(&self, at_slave: bool) -> &Cell<bool> {
        if at_slave { &self.exclusive } else { &self.exclusive_master }
    }

    /// `TIOCSTI`: inserts a byte as if it came from the other side. As with `dev.tty.legacy_tiocsti` off, EIO without
    /// CAP_SYS_ADMIN.
    fn insert(&self, arg: usize, at_slave: bool) -> Result<usize> {
        if !task::current().cred().capable(g::CAP_SYS_ADMIN) {
            return Err(Errno::EIO);
        }
        let byte: u8 = user::read(arg)?;
        if at_slave {
            self.receive(byte)?;
            self.slave_readers.wake_all();
        } else {
            self.insert_output(byte);
        }
        Ok(0)
    }

    fn attributes(&self) -> [u8; SIZE] {
        self.line.borrow().termios().to_bytes()
    }

    fn set_attributes(&self, when: When, arg: usize, size: usize, at_slave: bool) -> Result<usize> {
        if at_slave {
            self.control.check_change()?;
        }
        let bytes: [u8; SIZE] = user::read(arg)?;
        user::access_ok(arg, size)?;
        self.apply(when, &bytes)
    }

    fn set_termio(&self, when: When, arg: usize, at_slave: bool) -> Result<usize> {
        if at_slave {
            self.control.check_change()?;
        }
        let old: [u8; termio::SIZE] = user::read(arg)?;
        self.apply(when, &termio::onto(self.attributes(), &old))
    }

    fn apply(&self, when: When, bytes: &[u8; SIZE]) -> Result<usize> {
        let mut new = Termios::from_bytes(&keep_fixed(*bytes, &self.attributes(), &self.fixed.get()));
        // Always eight bits: there is no serial line.
        new.cflag = new.cflag & !(g::CSIZE | g::PARENB) | g::CS8 | g::CREAD;
        if when == When::Flush {
            self.flush_line();
        }
        let old = *self.line.borrow().termios();
        let goes_on = self.line.borrow_mut().set_termios(new);
        if goes_on {
            self.happened(Event::Started);
        }
        let flow = stops_by_usual_keys(&new);
        if flow != stops_by_usual_keys(&old) {
            self.tell(if flow { g::TIOCPKT_DOSTOP } else { g::TIOCPKT_NOSTOP });
        }
        if old.is(g::EXTPROC) || new.is(g::EXTPROC) {
            self.tell(g::TIOCPKT_IOCTL);
        }
        // Buffered input may be readable in the new mode.
        self.slave_readers.wake_all();
        self.line_has_room();
        Ok(0)
    }

    /// tcflow(3).
    fn flow(&self, action: usize, at_slave: bool) -> Result<usize> {
        if at_slave {
            self.control.check_change()?;
        }
        match action as u32 {
            g::TCOOFF | g::TCOON if !at_slave => {
                self.held.set(action as u32 == g::TCOOFF);
                self.master_writers.wake_all();
            }
            g::TCOOFF | g::TCOON => {
                let event = self.line.borrow_mut().hold(action as u32 == g::TCOOFF);
                self.happened(event);
            }
            g::TCIOFF | g::TCION => {
                let key = if action as u32 == g::TCIOFF { g::VSTOP } else { g::VSTART };
                // The master's own keys are the defaults.
                let byte = if at_slave { self.line.borrow().termios().key(key) } else { Termios::default().key(key) };
                if byte == 0 {
                } else if at_slave {
                    self.insert_output(byte);
                } else {
                    self.receive(byte)?;
                    self.slave_readers.wake_all();
                }
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(0)
    }

    /// `TIOCSIG`: the master sends a key's signal to the foreground group.
    pub fn send_signal(&self, signal: usize) -> Result<usize> {
        let signal = u32::try_from(signal).map_err(|_| Errno::EINVAL)?;
        if !matches!(signal, g::SIGINT | g::SIGQUIT | g::SIGTSTP) {
            return Err(Errno::EINVAL);
        }
        signal::send_to_group(self.control.foreground(), SigInfo::from_kernel(signal));
        Ok(0)
    }
}

fn stops_by_usual_keys(termios: &Termios) -> bool {
    termios.input_flag(g::IXON) && termios.key(g::VSTOP) == 0o23 && termios.key(g::VSTART) == 0o21
}

/// New attributes, except those that `fixed` locks: bits of the four flag words, whole keys.
fn keep_fixed(mut new: [u8; SIZE], old: &[u8; SIZE], fixed: &[u8; SIZE]) -> [u8; SIZE] {
    /// Bytes of the flag words.
    const FLAGS: usize = 16;
    for (i, (new, (old, fixed))) in new.iter_mut().zip(old.iter().zip(fixed)).enumerate() {
        let mask = if i < FLAGS {
            *fixed
        } else if *fixed != 0 {
            u8::MAX
        } else {
            0
        };
        *new = *new & !mask | *old & mask;
    }
    new
}
