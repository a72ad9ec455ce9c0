//! Bytes in, bytes and signals out.

use super::*;
use alloc::string::String;
use alloc::vec::Vec;

fn typed(line: &mut Line, bytes: &[u8]) -> (String, Vec<Event>) {
    let mut echo = VecDeque::new();
    let events = bytes.iter().map(|&b| line.receive(b, &mut echo)).filter(|e| *e != Event::None).collect();
    (String::from_utf8(echo.into_iter().collect()).unwrap(), events)
}

fn echo_of(line: &mut Line, bytes: &[u8]) -> String {
    typed(line, bytes).0
}

fn read(line: &mut Line, room: usize) -> Option<Vec<u8>> {
    let mut buffer = alloc::vec![0; room];
    match line.take(&mut buffer) {
        Taken::Bytes(n) => Some(buffer[..n].to_vec()),
        Taken::Nothing => None,
    }
}

#[test]
fn lines_are_read_when_they_are_complete() {
    let mut line = Line::default();
    assert_eq!(echo_of(&mut line, b"hello\tx"), "hello\tx");
    assert_eq!(read(&mut line, 9), None);
    assert_eq!(echo_of(&mut line, b"\rnext\n"), "\r\nnext\r\n");
    assert_eq!(line.available(), 13);
    assert_eq!(read(&mut line, 3).unwrap(), b"hel");
    assert_eq!(read(&mut line, 99).unwrap(), b"lo\tx\n");
    assert_eq!(read(&mut line, 99).unwrap(), b"next\n");
    assert_eq!(read(&mut line, 99), None);
}

#[test]
fn the_end_of_the_file_is_no_byte() {
    let mut line = Line::default();
    assert_eq!(echo_of(&mut line, b"ab\x04\x04"), "ab");
    assert_eq!(read(&mut line, 2).unwrap(), b"ab");
    assert_eq!(read(&mut line, 2).unwrap(), b"");
    assert_eq!(read(&mut line, 2), None);
}

#[test]
fn lines_are_edited() {
    let mut line = Line::default();
    assert_eq!(echo_of(&mut line, b"abc\x7f\x7f"), "abc\x08 \x08\x08 \x08");
    assert_eq!(echo_of(&mut line, b"x\x01\x7f"), "x^A\x08 \x08\x08 \x08");
    assert_eq!(echo_of(&mut line, b"\n"), "\r\n");
    assert_eq!(read(&mut line, 99).unwrap(), b"ax\n");
    assert_eq!(echo_of(&mut line, b"one two \x17"), "one two \x08 \x08\x08 \x08\x08 \x08\x08 \x08");
    assert_eq!(echo_of(&mut line, b"\x12"), "^R\r\none ");
    assert_eq!(echo_of(&mut line, b"\x15"), "\x08 \x08".repeat(4));
    assert_eq!(echo_of(&mut line, b"a\tb\x7f\x7f"), "a\tb\x08 \x08\x08\x08\x08\x08\x08\x08\x08");
    assert_eq!(echo_of(&mut line, b"\x16\x03\n"), "^\x08^C\r\n");
    assert_eq!(read(&mut line, 99).unwrap(), b"a\x03\n");
}

#[test]
fn utf8_is_erased_by_characters() {
    let mut line = Line::default();
    let mut termios = *line.termios();
    termios.iflag |= g::IUTF8;
    line.set_termios(termios);
    assert_eq!(echo_of(&mut line, "äö\x7f\n".as_bytes()), "äö\x08 \x08\r\n");
    assert_eq!(read(&mut line, 99).unwrap(), "ä\n".as_bytes());
}

#[test]
fn keys_send_signals_and_stop_output() {
    let mut line = Line::default();
    let (echo, events) = typed(&mut line, b"abc\x03");
    assert_eq!((&echo[..], &events[..]), ("^C", &[interrupted(g::SIGINT)][..]));
    assert_eq!(echo_of(&mut line, b"\n"), "\r\n");
    assert_eq!(read(&mut line, 99).unwrap(), b"\n");
    assert_eq!(typed(&mut line, b"\x13\x13").1, [Event::Stopped]);
    assert!(line.is_stopped());
    assert_eq!(typed(&mut line, b"\x11\x1a").1, [Event::Started, interrupted(g::SIGTSTP)]);
}

const fn interrupted(number: u32) -> Event {
    Event::Signal { number, flushed: true, started: false }
}

#[test]
fn what_tcflow_stopped_no_key_starts() {
    let mut line = Line::default();
    assert_eq!(line.hold(true), Event::Stopped);
    assert_eq!(typed(&mut line, b"\x11\x13\x03").1, [interrupted(g::SIGINT)]);
    assert!(line.is_stopped());
    assert_eq!(line.hold(false), Event::Started);
    assert!(!line.is_stopped());
    // tcflow restarts output that a key stopped.
    typed(&mut line, b"\x13");
    assert_eq!(line.hold(true), Event::None);
    assert_eq!(line.hold(false), Event::Started);
}

#[test]
fn ends_of_the_file_are_no_bytes_to_be_read() {
    let mut line = Line::default();
    typed(&mut line, b"ab\x04\x04c\n");
    assert_eq!((line.available(), line.readable()), (6, 4));
}

#[test]
fn extproc_leaves_bytes_alone() {
    let mut line = Line::default();
    let mut termios = *line.termios();
    termios.lflag |= g::EXTPROC;
    line.set_termios(termios);
    assert_eq!(typed(&mut line, b"a\x7f\x03"), (String::new(), Vec::new()));
    assert_eq!(read(&mut line, 9).unwrap(), b"a\x7f\x03");
}

#[test]
fn raw_mode_gives_what_is_there() {
    let mut line = Line::default();
    echo_of(&mut line, b"half");
    let mut termios = *line.termios();
    termios.lflag &= !(g::ICANON | g::ECHO | g::ISIG);
    termios.iflag = 0;
    line.set_termios(termios);
    assert_eq!(echo_of(&mut line, b"\x03\r\x7f"), "");
    assert_eq!(read(&mut line, 99).unwrap(), b"half\x03\r\x7f");
    assert_eq!(Termios::from_bytes(&termios.to_bytes()), termios);
}

#[test]
fn output_is_processed() {
    let mut line = Line::default();
    let mut out = VecDeque::new();
    line.write(b"a\nb\r\n", &mut out);
    assert_eq!(out.make_contiguous(), b"a\r\nb\r\r\n");
    let mut termios = *line.termios();
    termios.oflag = g::OPOST | g::TAB3;
    line.set_termios(termios);
    out.clear();
    line.write(b"\rab\tc\n", &mut out);
    assert_eq!(out.make_contiguous(), b"\rab      c\n");
}

#[test]
fn long_lines_are_cut_and_full_buffers_wait() {
    let mut line = Line::default();
    echo_of(&mut line, &[b'x'; 5000]);
    assert!(!line.is_full());
    echo_of(&mut line, b"\n");
    assert!(line.is_full());
    assert_eq!(read(&mut line, 9999).unwrap().len(), CAPACITY);
    assert!(!line.is_full());
}
