//! `syscall`: the current system call of a thread.

use super::subject::Subject;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use hal::trap::Entry;
use uapi::Result;

/// `running`, or number and arguments of the call that blocks, stack pointer and program counter; -1 for
/// the number if it is none that blocks.
pub fn text(subject: &Subject) -> Result<Vec<u8>> {
    let task = subject.inspected_later()?;
    let blocked = if task.state_letter() == 'R' { None } else { task.thread.registers() };
    let line = match blocked {
        None => String::from("running\n"),
        Some(frame) if frame.is_by(Entry::Fault) => {
            format!("-1 {:#x} {:#x}\n", frame.stack_pointer(), frame.instruction_pointer())
        }
        Some(frame) => {
            let arguments = frame.arguments().map(|argument| format!("{argument:#x} ")).concat();
            format!("{} {arguments}{:#x} {:#x}\n", frame.number(), frame.stack_pointer(), frame.instruction_pointer())
        }
    };
    Ok(line.into_bytes())
}
