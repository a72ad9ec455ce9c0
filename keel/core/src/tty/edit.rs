//! Line editing.

use super::Line;
use alloc::collections::VecDeque;
use uapi::raw::general as g;

impl Line {
    /// Handles `VERASE`, `VWERASE` and `VKILL`.
    pub(super) fn erase(&mut self, key: u8, echo: &mut VecDeque<u8>) {
        if self.input.len() == self.complete {
            return;
        }
        let termios = self.termios;
        let one = termios.is_key(g::VERASE, key);
        let word = !one && termios.is(g::IEXTEN) && termios.is_key(g::VWERASE, key);
        if !one && !word {
            if !termios.is(g::ECHO) {
                self.input.truncate(self.complete);
                return;
            }
            if !termios.is(g::ECHOK) || !termios.is(g::ECHOKE) || !termios.is(g::ECHOE) {
                self.input.truncate(self.complete);
                self.finish_erasing(echo);
                self.echo_byte(termios.key(g::VKILL), echo);
                if termios.is(g::ECHOK) {
                    self.show_raw(b'\n', echo);
                }
                return;
            }
        }
        let mut in_word = false;
        while let Some((start, byte)) = self.last_character() {
            if word {
                if byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80 {
                    in_word = true;
                } else if in_word {
                    break;
                }
            }
            self.rub_out(start, byte, one, echo);
            if one {
                break;
            }
        }
        if self.input.len() == self.complete && termios.is(g::ECHO) {
            self.finish_erasing(echo);
        }
    }

    /// Start of the last character of the line, and its first byte.
    fn last_character(&self) -> Option<(usize, u8)> {
        let mut at = self.input.len();
        while at > self.complete {
            at -= 1;
            let byte = *self.input.get(at)? as u8;
            if !self.continues(byte) {
                return Some((at, byte));
            }
        }
        None
    }

    /// Erases the last character, also on the screen.
    fn rub_out(&mut self, start: usize, byte: u8, one: bool, echo: &mut VecDeque<u8>) {
        let termios = self.termios;
        let printed = self.input.split_off(start);
        if !termios.is(g::ECHO) {
            return;
        }
        if termios.is(g::ECHOPRT) {
            if !self.erasing {
                self.show_raw(b'\\', echo);
                self.erasing = true;
            }
            self.echo_byte(byte, echo);
            for &rest in printed.iter().skip(1) {
                self.show_raw(rest as u8, echo);
            }
        } else if one && !termios.is(g::ECHOE) {
            self.echo_byte(termios.key(g::VERASE), echo);
        } else if byte == b'\t' {
            for _ in 0..self.width_of_tab() {
                self.show_raw(8, echo);
            }
        } else {
            let control = byte.is_ascii_control();
            let columns = match control {
                true if termios.is(g::ECHOCTL) => 2,
                true => 0,
                false => 1,
            };
            for _ in 0..columns {
                self.show_raw(8, echo);
                self.show_raw(b' ', echo);
                self.show_raw(8, echo);
            }
        }
    }

    /// Width of a tab at the end of the line.
    fn width_of_tab(&self) -> usize {
        let mut columns = 0;
        let mut since_tab = false;
        for &entry in self.input.range(self.complete..).rev() {
            let byte = entry as u8;
            if byte == b'\t' {
                since_tab = true;
                break;
            }
            if byte.is_ascii_control() {
                columns += if self.termios.is(g::ECHOCTL) { 2 } else { 0 };
            } else if !self.continues(byte) {
                columns += 1;
            }
        }
        if !since_tab {
            columns += self.start_column;
        }
        8 - (columns & 7)
    }

    /// Ends the `\.../` echo of `ECHOPRT`.
    pub(super) fn finish_erasing(&mut self, echo: &mut VecDeque<u8>) {
        if core::mem::take(&mut self.erasing) {
            self.show_raw(b'/', echo);
        }
    }

    /// Handles `VREPRINT`: echoes the line again.
    pub(super) fn reprint(&mut self, key: u8, echo: &mut VecDeque<u8>) {
        self.finish_erasing(echo);
        self.echo_byte(key, echo);
        self.show_raw(b'\n', echo);
        for at in self.complete..self.input.len() {
            let Some(&entry) = self.input.get(at) else { return };
            self.echo_byte(entry as u8, echo);
        }
    }
}
