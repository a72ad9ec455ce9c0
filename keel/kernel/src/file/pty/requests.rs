//! ioctl(2) requests that both ends know, ioctl_tty(2). Those at the master concern the slave.

use super::super::termio::{self, TERMIOS2, with_speeds};
use super::{MAJOR, Pair};
use crate::mm::user;
use crate::signal::{self, SigInfo};
use crate::task;
use alloc::rc::Rc;
use keel_core::tty::{SIZE, Termios};
use uapi::raw::general as g;
use uapi::raw::ioctl;
use uapi::{Errno, Result};

/// When attributes change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Now,
    /// Also forgetting input. Output has always left already.
    Flush,
}

impl Pair {
    /// Serves a request. ENOTTY: it is none of a terminal's.
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
            // What is written is at the master at once, and there are no breaks.
            ioctl::TCSBRK | ioctl::TCSBRKP => {
                if at_slave {
                    self.control.check_change()?;
                }
                Ok(0)
            }
            ioctl::TIOCEXCL | ioctl::TIOCNXCL => {
                self.exclusive.set(command == ioctl::TIOCEXCL);
                Ok(0)
            }
            ioctl::TIOCGEXCL => done(user::write(arg, &i32::from(self.exclusive.get()))),
            ioctl::TIOCGDEV => done(user::write(arg, &(MAJOR << 8 | self.index & 0xff | (self.index & !0xff) << 12))),
            // Nobody may type in another's name.
            ioctl::TIOCSTI => Err(Errno::EPERM),
            _ => {
                let slave = self.slave();
                self.control.ioctl(&(slave as Rc<dyn core::any::Any>), command, arg).unwrap_or(Err(Errno::ENOTTY))
            }
        }
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
        // Eight bits, as there is no line that could have fewer.
        new.cflag = new.cflag & !(g::CSIZE | g::PARENB) | g::CS8 | g::CREAD;
        if when == When::Flush {
            self.flush_input();
        }
        let old = *self.line.borrow().termios();
        let goes_on = self.line.borrow_mut().set_termios(new);
        if goes_on {
            self.slave_writers.wake_all();
        }
        let flow = stops_by_usual_keys(&new);
        if flow != stops_by_usual_keys(&old) {
            self.tell(if flow { g::TIOCPKT_DOSTOP } else { g::TIOCPKT_NOSTOP });
        }
        // What waits may be readable in the new mode.
        self.slave_readers.wake_all();
        self.master_writers.wake_all();
        Ok(0)
    }

    /// tcflow(3).
    fn flow(&self, action: usize, at_slave: bool) -> Result<usize> {
        if at_slave {
            self.control.check_change()?;
        }
        match action as u32 {
            g::TCOOFF => self.line.borrow_mut().hold(true),
            g::TCOON => {
                self.line.borrow_mut().hold(false);
                self.slave_writers.wake_all();
            }
            g::TCIOFF | g::TCION => {
                let key = if action as u32 == g::TCIOFF { g::VSTOP } else { g::VSTART };
                let byte = self.line.borrow().termios().key(key);
                if byte != 0 {
                    self.output.borrow_mut().push_back(byte);
                    self.master_readers.wake_all();
                }
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(0)
    }

    /// `TIOCSIG`: the master sends a key's signal to the foreground.
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

/// New attributes, but the old ones where `fixed` says so: bits of the four flag words, whole keys.
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
