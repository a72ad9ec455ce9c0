//! Printing system calls as they happen (`hull trace`).

use super::{ArgKind, CALLS, Call, arguments};
use crate::connector;
use crate::mm::user;
use crate::task;
use abi::request::Op;
use alloc::string::String;
use core::cell::Cell;
use core::fmt::Write;
use hal::cell::Global;
use hal::trap::TrapFrame;
use uapi::Errno;
use uapi::raw::general;

static ON: Global<Cell<bool>> = Global::new(Cell::new(false));

/// Bytes of a string that are shown.
const SHOWN: usize = 32;

/// Whether calls are printed.
#[inline(always)]
pub fn is_on() -> bool {
    ON.get()
}

/// Turns printing on (boot).
pub fn turn_on() {
    ON.set(true);
}

fn print(line: &str) {
    // Nobody can be told that telling failed.
    let _ = connector::call(Op::Log, [0; 6], line.as_bytes(), &mut []);
}

fn find(number: u64) -> Option<&'static Call> {
    let index = CALLS.binary_search_by_key(&number, |c| u64::from(c.number)).ok()?;
    CALLS.get(index)
}

/// Runs a call and prints it with its result, in one line that starts with the thread's id.
pub fn run(frame: &mut TrapFrame, call: impl FnOnce(&mut TrapFrame) -> isize) -> isize {
    let number = frame.rax;
    let line = describe(frame);
    if [general::__NR_exit, general::__NR_exit_group].contains(&(number as u32)) {
        // These never come back; nothing may be left on the stack.
        print(&line);
        drop(line);
        return call(frame);
    }
    let result = call(frame);
    finish(line, number, result);
    result
}

/// Thread, name and arguments.
fn describe(frame: &TrapFrame) -> String {
    let mut line = String::new();
    // Writing to a string can't fail.
    let _ = write!(line, "[{}] ", task::with_current(|t| t.tid()));
    let Some(call) = find(frame.rax) else {
        let _ = write!(line, "syscall_{}({:#x?})", frame.rax, arguments(frame));
        return line;
    };
    let _ = write!(line, "{}(", call.name);
    for (i, ((name, kind), value)) in call.args.iter().zip(arguments(frame)).enumerate() {
        if i > 0 {
            line.push_str(", ");
        }
        let _ = write!(line, "{name}=");
        argument(&mut line, *kind, value, arguments(frame).get(i + 1).copied());
    }
    line.push(')');
    line
}

fn argument(line: &mut String, kind: ArgKind, value: u64, next: Option<u64>) {
    // Writing to a string can't fail.
    let _ = match kind {
        ArgKind::Fd if value as i32 == -100 => write!(line, "AT_FDCWD"),
        ArgKind::Fd | ArgKind::Int | ArgKind::Pid | ArgKind::Signal => write!(line, "{}", value as i32),
        ArgKind::Uint => write!(line, "{}", value as u32),
        ArgKind::Long | ArgKind::Off => write!(line, "{}", value as i64),
        ArgKind::Size => write!(line, "{value}"),
        ArgKind::Mode => write!(line, "{:#o}", value as u32),
        ArgKind::OpenFlags | ArgKind::Hex => write!(line, "{value:#x}"),
        ArgKind::Path => match user::read_cstr(value as usize, 4096) {
            Ok(text) => write!(line, "\"{}\"", text.escape_ascii()),
            Err(_) => write!(line, "{value:#x}"),
        },
        ArgKind::InBuf => {
            let len = next.unwrap_or(0) as usize;
            let mut bytes = [0; SHOWN];
            let shown = &mut bytes[..len.min(SHOWN)];
            match user::read_bytes(value as usize, shown) {
                Ok(()) => write!(line, "\"{}\"{}", shown.escape_ascii(), if len > SHOWN { "…" } else { "" }),
                Err(_) => write!(line, "{value:#x}"),
            }
        }
        ArgKind::Timespec => match user::read::<[i64; 2]>(value as usize) {
            Ok([seconds, nanos]) => write!(line, "{seconds}.{nanos:09}s"),
            Err(_) => write!(line, "{value:#x}"),
        },
        ArgKind::Ptr | ArgKind::OutBuf | ArgKind::Argv if value == 0 => write!(line, "NULL"),
        ArgKind::Ptr | ArgKind::OutBuf | ArgKind::Argv => write!(line, "{value:#x}"),
    };
}

/// Adds the result and prints.
fn finish(mut line: String, number: u64, result: isize) {
    let _ = if number == u64::from(general::__NR_rt_sigreturn) {
        write!(line, " = ?")
    } else if (-4095..0).contains(&result) {
        write!(line, " = {:?}", Errno::from_code(-result as i64))
    } else if result > 0xffff {
        write!(line, " = {result:#x}")
    } else {
        write!(line, " = {result}")
    };
    print(&line);
}
