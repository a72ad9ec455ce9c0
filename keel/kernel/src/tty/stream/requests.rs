//! ioctls of the user's terminal, ioctl_tty(2).

use super::{Stream, control};
use crate::mm::user;
use crate::sched::connector;
use crate::tty::termio::{self, TERMIOS, with_speeds};
use abi::request::{StreamGetTermios, StreamGetWindow, StreamSetTermios, TermiosWhen};
use alloc::rc::Rc;
use core::any::Any;
use uapi::raw::ioctl;
use uapi::{Errno, Result};

impl Stream {
    fn get_termios(&self) -> Result<[u8; TERMIOS]> {
        let mut termios = [0; TERMIOS];
        connector::call(StreamGetTermios { stream: self.number }, &(), &mut termios)?;
        Ok(termios)
    }

    /// Whether TOSTOP is set.
    pub(crate) fn stops_writers(&self) -> Result<bool> {
        const LOCAL_FLAGS: usize = 12;
        let termios = self.get_termios()?;
        let flags = bytemuck::pod_read_unaligned::<u32>(&termios[LOCAL_FLAGS..LOCAL_FLAGS + 4]);
        Ok(flags & uapi::raw::general::TOSTOP != 0)
    }

    fn set_termios(&self, when: TermiosWhen, termios: &[u8; TERMIOS]) -> Result<usize> {
        control().check_change()?;
        connector::call(StreamSetTermios { stream: self.number, when }, termios, &mut ())?;
        Ok(0)
    }

    pub(crate) fn terminal_ioctl(&self, command: u32, arg: usize) -> Result<usize> {
        match command {
            ioctl::TCGETS => user::write(arg, &self.get_termios()?).map(|()| 0),
            ioctl::TCGETS2 => {
                let termios2 = with_speeds(&self.get_termios()?);
                user::write(arg, &termios2).map(|()| 0)
            }
            // In both structures the first 36 bytes are the same; a terminal emulator has no speed.
            ioctl::TCSETS | ioctl::TCSETS2 => self.set_termios(TermiosWhen::Now, &user::read(arg)?),
            ioctl::TCSETSW | ioctl::TCSETSW2 => self.set_termios(TermiosWhen::Drain, &user::read(arg)?),
            ioctl::TCSETSF | ioctl::TCSETSF2 => self.set_termios(TermiosWhen::Flush, &user::read(arg)?),
            ioctl::TCGETA => user::write(arg, &termio::of(&self.get_termios()?)).map(|()| 0),
            ioctl::TCSETA | ioctl::TCSETAW | ioctl::TCSETAF => {
                let when = match command {
                    ioctl::TCSETA => TermiosWhen::Now,
                    ioctl::TCSETAW => TermiosWhen::Drain,
                    _ => TermiosWhen::Flush,
                };
                let old: [u8; termio::SIZE] = user::read(arg)?;
                self.set_termios(when, &termio::onto(self.get_termios()?, &old))
            }
            ioctl::TIOCGWINSZ => {
                let size = connector::call(StreamGetWindow { stream: self.number }, &(), &mut ())?;
                let window = [size.rows, size.columns, 0, 0];
                user::write(arg, &window).map(|()| 0)
            }
            // Only the user can change the size. Shells set the size that they read.
            ioctl::TIOCSWINSZ => {
                let wanted: [u16; 4] = user::read(arg)?;
                let size = connector::call(StreamGetWindow { stream: self.number }, &(), &mut ())?;
                let same = [wanted[0], wanted[1]] == [size.rows, size.columns];
                if same { Ok(0) } else { Err(Errno::EPERM) }
            }
            // Output is at the host's terminal when a write returns; breaks are not supported.
            ioctl::TCSBRK | ioctl::TCSBRKP => Ok(0),
            ioctl::TCFLSH => match arg {
                0 | 2 => self.set_termios(TermiosWhen::Flush, &self.get_termios()?),
                1 => Ok(0),
                _ => Err(Errno::EINVAL),
            },
            _ => {
                let me: Rc<dyn Any> = self.me.upgrade().ok_or(Errno::EIO)?;
                control().ioctl(&me, command, arg).unwrap_or(Err(Errno::ENOTTY))
            }
        }
    }
}
