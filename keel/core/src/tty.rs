//! Line discipline of a terminal (N_TTY): input processing, echo, and output processing. termios(3).
//!
//! Without side effects: takes bytes, returns bytes, and returns signals to the caller.

mod edit;
mod output;
mod termios;
#[cfg(test)]
mod tests;

pub use termios::{SIZE, Termios};

use alloc::collections::VecDeque;
use uapi::raw::general as g;

/// Size of the input buffer in bytes, as in Linux; the last byte is reserved for the end of a line.
pub const CAPACITY: usize = 4096;
/// Echo beyond this many unread bytes is discarded.
const MAX_ECHO: usize = 64 << 10;

/// Flags of a byte in the buffer: it ends a line; it is not a byte but the end of the file.
const END: u16 = 0x100;
const EOF: u16 = 0x200 | END;

/// Effect of an input byte besides input and echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing.
    None,
    /// A signal to the foreground process group.
    Signal {
        /// Its number.
        number: u32,
        /// Input was flushed; the caller must flush unread output.
        flushed: bool,
        /// Stopped output was restarted.
        started: bool,
    },
    /// Output was stopped.
    Stopped,
    /// Output was restarted.
    Started,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The number of bytes; 0 is the end of the file.
    Bytes(usize),
    /// No input yet.
    Nothing,
}

/// A terminal's line discipline.
#[derive(Debug, Default)]
pub struct Line {
    termios: Termios,
    input: VecDeque<u16>,
    /// Bytes of `input` in complete lines.
    complete: usize,
    /// The next byte is taken literally (`VLNEXT`).
    literal: bool,
    /// Within the `\…/` of `ECHOPRT`.
    erasing: bool,
    /// Column of the output, and the column where the current input line begins.
    column: usize,
    start_column: usize,
    /// Output is stopped; stopped by tcflow(3), which keys don't restart.
    stopped: bool,
    held: bool,
    /// The last read ended at the end of a line.
    at_start: bool,
    /// Bytes of output that a signal key does not flush: those queued before the bytes typed with it.
    kept: usize,
}

impl Line {
    /// The attributes.
    pub fn termios(&self) -> &Termios {
        &self.termios
    }

    /// Whether lines are edited here, and not by a program at the other end (`EXTPROC`).
    fn is_canonical(&self) -> bool {
        self.termios.is(g::ICANON) && !self.termios.is(g::EXTPROC)
    }

    /// Sets the attributes. Returns whether stopped output is restarted.
    pub fn set_termios(&mut self, new: Termios) -> bool {
        let changed = (self.termios.lflag ^ new.lflag) & (g::ICANON | g::EXTPROC) != 0;
        let ignores_stops = self.termios.input_flag(g::IXON) && !new.input_flag(g::IXON);
        self.termios = new;
        if changed {
            for entry in &mut self.input {
                *entry &= 0xff;
            }
            self.complete = 0;
            if new.is(g::ICANON)
                && let Some(last) = self.input.back_mut()
            {
                *last |= END;
                self.complete = self.input.len();
            }
            self.literal = false;
        }
        ignores_stops && self.start()
    }

    /// Whether output is stopped until a key or tcflow(3).
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Stops or restarts output: tcflow(3).
    pub fn hold(&mut self, on: bool) -> Event {
        if core::mem::replace(&mut self.held, on) == on {
            Event::None
        } else if on {
            self.stop()
        } else if self.start() {
            Event::Started
        } else {
            Event::None
        }
    }

    /// Discards all input.
    pub fn flush(&mut self) {
        self.input.clear();
        self.complete = 0;
        self.literal = false;
        self.erasing = false;
    }

    /// Bytes and ends of the file that reads can return now.
    pub fn available(&self) -> usize {
        if self.is_canonical() { self.complete } else { self.input.len() }
    }

    /// Bytes that reads can return now (`FIONREAD`).
    pub fn readable(&self) -> usize {
        let available = self.available();
        let ends = if self.is_canonical() { self.input.iter().filter(|entry| **entry == EOF).count() } else { 0 };
        available.saturating_sub(ends)
    }

    /// Whether [`Line::receive`] must wait for a read.
    pub fn is_full(&self) -> bool {
        self.input.len() >= CAPACITY - 1 && (!self.is_canonical() || self.complete > 0)
    }

    /// Takes input: up to the end of a line, or all available bytes. `into` is not empty.
    pub fn take(&mut self, into: &mut [u8]) -> Taken {
        if self.available() == 0 {
            return Taken::Nothing;
        }
        let canonical = self.is_canonical();
        let mut done = 0;
        self.at_start = false;
        while let Some(&entry) = self.input.front() {
            if entry == EOF && canonical {
                self.pop();
                self.at_start = true;
                break;
            }
            let Some(place) = into.get_mut(done) else { break };
            *place = entry as u8;
            done += 1;
            self.pop();
            if canonical && entry & END != 0 {
                self.at_start = true;
                break;
            }
        }
        Taken::Bytes(done)
    }

    /// Whether the last read ended at the end of a line.
    pub fn at_line_start(&self) -> bool {
        self.at_start
    }

    fn pop(&mut self) {
        self.input.pop_front();
        self.complete = self.complete.saturating_sub(1);
    }

    /// Begins a batch of input; `waiting` bytes of output are unread. Signal keys do not flush that output.
    pub fn begin(&mut self, waiting: usize) {
        self.kept = waiting.min(CAPACITY - 1);
    }

    /// Makes room for what one more input byte adds to the input and to `echo`. `false`: out of memory.
    pub fn reserve(&mut self, echo: &mut VecDeque<u8>) -> bool {
        /// To erase or reprint a line takes at most so much for each of its bytes, and a byte takes as much.
        const MOST: usize = 8;
        self.input.try_reserve(2).is_ok() && echo.try_reserve(MOST * (self.input.len() + 2)).is_ok()
    }

    /// Processes an input byte. Echo goes to `echo`; both have room ([`reserve`](Self::reserve)).
    pub fn receive(&mut self, byte: u8, echo: &mut VecDeque<u8>) -> Event {
        let termios = self.termios;
        let mut byte = byte;
        let changes = termios.input_flag(g::ISTRIP) || termios.input_flag(g::IUCLC) && termios.is(g::IEXTEN);
        if termios.is(g::EXTPROC) && !changes {
            if self.input.len() < CAPACITY - 1 {
                self.input.push_back(u16::from(byte));
            }
            return Event::None;
        }
        if termios.input_flag(g::ISTRIP) {
            byte &= 0x7f;
        }
        if termios.input_flag(g::IUCLC) && termios.is(g::IEXTEN) {
            byte = byte.to_ascii_lowercase();
        }
        if core::mem::take(&mut self.literal) {
            self.ordinary(byte, echo);
            return Event::None;
        }
        if termios.input_flag(g::IXON) {
            if termios.is_key(g::VSTART, byte) {
                return if self.start() { Event::Started } else { Event::None };
            }
            if termios.is_key(g::VSTOP, byte) {
                return self.stop();
            }
        }
        if termios.is(g::ISIG) {
            let keys = [(g::VINTR, g::SIGINT), (g::VQUIT, g::SIGQUIT), (g::VSUSP, g::SIGTSTP)];
            if let Some(&(_, signal)) = keys.iter().find(|(key, _)| termios.is_key(*key, byte)) {
                return self.interrupt(byte, signal, echo);
            }
        }
        let restarted = termios.input_flag(g::IXON) && termios.input_flag(g::IXANY) && self.start();
        self.input(byte, echo);
        if restarted { Event::Started } else { Event::None }
    }

    fn stop(&mut self) -> Event {
        if core::mem::replace(&mut self.stopped, true) { Event::None } else { Event::Stopped }
    }

    /// Restarts output unless tcflow(3) stopped it. Returns whether it was stopped.
    fn start(&mut self) -> bool {
        !self.held && core::mem::take(&mut self.stopped)
    }

    fn interrupt(&mut self, byte: u8, number: u32, echo: &mut VecDeque<u8>) -> Event {
        let flushed = !self.termios.is(g::NOFLSH);
        if flushed {
            self.flush();
            echo.truncate(self.kept);
        }
        let started = self.termios.input_flag(g::IXON) && self.start();
        if self.termios.is(g::ECHO) {
            self.echo_byte(byte, echo);
        }
        Event::Signal { number, flushed, started }
    }

    fn input(&mut self, byte: u8, echo: &mut VecDeque<u8>) {
        let termios = self.termios;
        let byte = match byte {
            b'\r' if termios.input_flag(g::IGNCR) => return,
            b'\r' if termios.input_flag(g::ICRNL) => b'\n',
            b'\n' if termios.input_flag(g::INLCR) => b'\r',
            other => other,
        };
        if !termios.is(g::ICANON) || !self.canonical(byte, echo) {
            self.ordinary(byte, echo);
        }
    }

    /// Handles the keys of canonical mode. Returns whether `byte` was one.
    fn canonical(&mut self, byte: u8, echo: &mut VecDeque<u8>) -> bool {
        let termios = self.termios;
        let key = |key: u32| termios.is_key(key, byte);
        let extended = termios.is(g::IEXTEN);
        if key(g::VERASE) || key(g::VKILL) || extended && key(g::VWERASE) {
            self.erase(byte, echo);
        } else if extended && key(g::VLNEXT) {
            self.literal = true;
            if termios.is(g::ECHO) {
                self.finish_erasing(echo);
                if termios.is(g::ECHOCTL) && echo.len() < MAX_ECHO {
                    echo.extend(*b"^\x08");
                }
            }
        } else if extended && termios.is(g::ECHO) && key(g::VREPRINT) {
            self.reprint(byte, echo);
        } else if byte == b'\n' {
            if termios.is(g::ECHO) || termios.is(g::ECHONL) {
                self.show_raw(b'\n', echo);
            }
            self.end_line(u16::from(byte) | END);
        } else if key(g::VEOF) {
            self.end_line(EOF);
        } else if key(g::VEOL) || extended && key(g::VEOL2) {
            if termios.is(g::ECHO) {
                self.begin_line();
                self.echo_byte(byte, echo);
            }
            self.end_line(u16::from(byte) | END);
        } else {
            return false;
        }
        true
    }

    fn end_line(&mut self, entry: u16) {
        if self.input.len() < CAPACITY {
            self.input.push_back(entry);
            self.complete = self.input.len();
        }
    }

    /// Handles a byte without special meaning.
    fn ordinary(&mut self, byte: u8, echo: &mut VecDeque<u8>) {
        if self.input.len() >= CAPACITY - 1 {
            if self.termios.input_flag(g::IMAXBEL) && echo.len() < MAX_ECHO {
                echo.push_back(7);
            }
            return;
        }
        if self.termios.is(g::ECHO) {
            self.finish_erasing(echo);
            if byte == b'\n' {
                self.show_raw(b'\n', echo);
            } else {
                self.begin_line();
                self.echo_byte(byte, echo);
            }
        }
        if byte == 0xff && self.termios.input_flag(g::PARMRK) {
            self.input.push_back(0xff);
        }
        self.input.push_back(u16::from(byte));
    }

    /// Records the column where the input line begins.
    fn begin_line(&mut self) {
        if self.complete == self.input.len() {
            self.start_column = self.column;
        }
    }
}
