//! Generates the coverage page of the system calls from the kernel's table.

use std::fmt::Write;

use anyhow::{Result, ensure};

/// Text before the totals.
const HEAD: &str = include_str!("coverage.md");

/// A row of the kernel's table.
struct Call {
    number: u16,
    name: &'static str,
    level: Level,
    /// The tokens between the brackets.
    handler: &'static str,
    arguments: &'static [&'static str],
    note: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Full,
    Partial,
    None,
}

macro_rules! syscalls {
    ($($number:literal $name:ident $level:ident [$($handler:tt)*] ($($arg:ident : $kind:ident),*) $note:literal;)*) => {
        const CALLS: &[Call] = &[$( Call {
            number: $number,
            name: stringify!($name),
            level: Level::$level,
            handler: stringify!($($handler)*),
            arguments: &[$(stringify!($arg)),*],
            note: $note,
        }),*];
    };
}

include!("../../../keel/kernel/src/syscall/table.rs");

/// The whole page.
pub fn page() -> Result<String> {
    for pair in CALLS.windows(2) {
        ensure!(pair[0].number < pair[1].number, "the table must be sorted: {} and {}", pair[0].name, pair[1].name);
    }
    for call in CALLS {
        ensure!(call.level != Level::Partial || !call.note.is_empty(), "{}: the note says what is missing", call.name);
        ensure!(call.level == Level::None || !call.handler.is_empty(), "{}: no handler, so level None", call.name);
    }
    let mut page = String::from(HEAD);
    totals(&mut page)?;
    page.push_str("\n| number | name | arguments | level | note |\n|---:|---|---|---|---|\n");
    for call in CALLS {
        let arguments = call.arguments.join(", ");
        let (level, note) = (call.level.word(), call.remark());
        writeln!(page, "| {} | `{}` | {arguments} | {level} | {note} |", call.number, call.name)?;
    }
    Ok(page)
}

fn totals(page: &mut String) -> Result<()> {
    let count = |level| CALLS.iter().filter(|call| call.level == level).count();
    page.push_str("| level | calls |\n|---|---:|\n");
    for level in [Level::Full, Level::Partial, Level::None] {
        writeln!(page, "| {} | {} |", level.word(), count(level))?;
    }
    writeln!(page, "| in all | {} |", CALLS.len())?;
    Ok(())
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::None => "none",
        }
    }
}

impl Call {
    /// The note, prefixed with the errno of a call that always fails.
    fn remark(&self) -> String {
        let errno = match self.handler.strip_prefix('=') {
            Some(errno) => errno.trim(),
            None if self.handler.is_empty() => "ENOSYS",
            None => return self.note.to_owned(),
        };
        if self.note.is_empty() { errno.to_owned() } else { format!("{errno}: {}", self.note) }
    }
}
