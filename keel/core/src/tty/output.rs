//! Output processing, and the echo of single bytes.

use super::{Line, MAX_ECHO};
use alloc::collections::VecDeque;
use uapi::raw::general as g;

impl Line {
    /// Processes output `bytes` of a program; appends the result to `out`.
    pub fn write(&mut self, bytes: &[u8], out: &mut VecDeque<u8>) {
        if self.termios.oflag & g::OPOST == 0 {
            out.extend(bytes);
            return;
        }
        for &byte in bytes {
            self.show(byte, out);
        }
    }

    /// Processes one byte of output.
    pub(super) fn show(&mut self, byte: u8, out: &mut VecDeque<u8>) {
        let is = |flag: u32| self.termios.oflag & flag != 0;
        match byte {
            b'\n' => {
                if is(g::ONLCR) {
                    out.push_back(b'\r');
                    self.column = 0;
                } else if is(g::ONLRET) {
                    self.column = 0;
                }
                self.start_column = self.column;
                out.push_back(b'\n');
            }
            b'\r' if is(g::ONOCR) && self.column == 0 => {}
            b'\r' if is(g::OCRNL) => {
                if is(g::ONLRET) {
                    self.column = 0;
                    self.start_column = 0;
                }
                out.push_back(b'\n');
            }
            b'\r' => {
                self.column = 0;
                self.start_column = 0;
                out.push_back(b'\r');
            }
            b'\t' => {
                let spaces = 8 - (self.column & 7);
                self.column += spaces;
                if self.termios.oflag & g::TABDLY == g::TAB3 {
                    out.extend(core::iter::repeat_n(b' ', spaces));
                } else {
                    out.push_back(b'\t');
                }
            }
            8 => {
                self.column = self.column.saturating_sub(1);
                out.push_back(8);
            }
            _ => {
                let byte = if is(g::OLCUC) { byte.to_ascii_uppercase() } else { byte };
                if !byte.is_ascii_control() && !self.continues(byte) {
                    self.column += 1;
                }
                out.push_back(byte);
            }
        }
    }

    /// Whether the byte is a UTF-8 continuation byte and the terminal has IUTF8.
    pub(super) fn continues(&self, byte: u8) -> bool {
        self.termios.input_flag(g::IUTF8) && byte & 0xc0 == 0x80
    }

    /// Echoes a byte without `^X` notation, with output processing.
    pub(super) fn show_raw(&mut self, byte: u8, echo: &mut VecDeque<u8>) {
        if echo.len() >= MAX_ECHO {
            return;
        }
        if self.termios.oflag & g::OPOST == 0 {
            echo.push_back(byte);
        } else {
            self.show(byte, echo);
        }
    }

    /// Echoes a byte; control characters as `^X`.
    pub(super) fn echo_byte(&mut self, byte: u8, echo: &mut VecDeque<u8>) {
        if self.termios.is(g::ECHOCTL) && byte.is_ascii_control() && byte != b'\t' {
            if echo.len() < MAX_ECHO {
                echo.extend([b'^', byte ^ 0o100]);
                self.column += 2;
            }
        } else {
            self.show_raw(byte, echo);
        }
    }
}
