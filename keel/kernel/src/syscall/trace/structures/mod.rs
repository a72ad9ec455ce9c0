//! Structures in program memory, abbreviated as strace(1) does.
//!
//! Each function prints the structure at an address, or the address if it can't be read.

mod messages;

pub use messages::{address, descriptor_set, event, events, length, message, pieces, poll};

use super::names::{self, flags, one};
use super::string_limit;
use crate::mm::user;
use alloc::string::String;
use core::fmt::Write;
use uapi::UserAbi;
use uapi::raw::general as g;

/// Maximum number of printed list elements.
const ELEMENTS: usize = 16;
/// Most bytes of a path.
const PATH_MAX: usize = 4096;

// Writing to a string can't fail: results of `write!` are dropped in this module.

/// An address.
pub fn pointer(line: &mut String, at: u64) {
    let _ = if at == 0 { write!(line, "NULL") } else { write!(line, "{at:#x}") };
}

/// Prints a value that lies at `at`.
fn with<T: UserAbi>(line: &mut String, at: u64, print: impl FnOnce(&mut String, T)) {
    match user::read::<T>(at as usize) {
        Ok(value) if at != 0 => print(line, value),
        _ => pointer(line, at),
    }
}

/// A list of `count` elements; `print` prints one by index and returns whether it could be read.
fn list(line: &mut String, count: usize, mut print: impl FnMut(&mut String, usize) -> bool) {
    line.push('[');
    for i in 0..count {
        if i > 0 {
            line.push_str(", ");
        }
        if i == ELEMENTS {
            line.push_str("...");
            break;
        }
        if !print(line, i) {
            line.push_str("...");
            break;
        }
    }
    line.push(']');
}

/// Quoted text, truncated to `limit` bytes.
pub fn quoted(line: &mut String, text: &[u8], limit: usize) {
    line.push('"');
    for byte in text.get(..limit).unwrap_or(text) {
        let _ = match byte {
            b'\n' => write!(line, "\\n"),
            b'\r' => write!(line, "\\r"),
            b'\t' => write!(line, "\\t"),
            b'"' | b'\\' => write!(line, "\\{}", *byte as char),
            b' '..=b'~' => write!(line, "{}", *byte as char),
            other => write!(line, "\\{other:o}"),
        };
    }
    line.push_str(if text.len() > limit { "\"..." } else { "\"" });
}

/// A buffer of known length.
pub fn bytes(line: &mut String, at: u64, len: usize) {
    let limit = string_limit();
    let mut shown = alloc::vec![0; len.min(limit)];
    if user::read_bytes(at as usize, &mut shown).is_err() {
        return pointer(line, at);
    }
    quoted(line, &shown, limit);
    if len > limit {
        line.push_str("...");
    }
}

/// A path; never shortened.
pub fn path(line: &mut String, at: u64) {
    match user::read_cstr(at as usize, PATH_MAX) {
        Ok(text) => quoted(line, &text, PATH_MAX),
        Err(_) => pointer(line, at),
    }
}

/// A string of a list of arguments.
fn text(line: &mut String, at: u64) -> bool {
    match user::read_cstr(at as usize, PATH_MAX) {
        Ok(text) => quoted(line, &text, string_limit()),
        Err(_) => pointer(line, at),
    }
    true
}

/// Arguments of a program: `["ls", "-l"]`.
pub fn strings(line: &mut String, at: u64) {
    let count = count_pointers(at);
    list(line, count, |line, i| match user::read::<u64>(at as usize + i * 8) {
        Ok(string) => text(line, string),
        Err(_) => false,
    });
}

fn count_pointers(at: u64) -> usize {
    const MOST: usize = 10_000;
    let word = |i: usize| (at as usize).checked_add(i * 8).and_then(|at| user::read::<u64>(at).ok()).unwrap_or(0);
    (0..MOST).find(|i| word(*i) == 0).unwrap_or(MOST)
}

/// The environment of a program: the number of its variables.
pub fn environment(line: &mut String, at: u64) {
    pointer(line, at);
    if at != 0 {
        let _ = write!(line, " /* {} vars */", count_pointers(at));
    }
}

/// `struct stat`.
pub fn stat(line: &mut String, at: u64) {
    with(line, at, |line, stat: g::stat| {
        mode(line, stat.st_mode, "st_");
        let device = matches!(stat.st_mode & 0o170_000, 0o020_000 | 0o060_000);
        let _ = match device {
            true => write!(line, ", st_rdev=makedev({:#x}, {:#x}), ...}}", stat.st_rdev >> 8, stat.st_rdev & 0xff),
            false => write!(line, ", st_size={}, ...}}", stat.st_size),
        };
    });
}

/// `struct statx`.
pub fn statx(line: &mut String, at: u64) {
    with(line, at, |line, stat: g::statx| {
        mode(line, stat.stx_mode.into(), "stx_");
        let _ = write!(line, ", stx_size={}, ...}}", stat.stx_size);
    });
}

fn mode(line: &mut String, mode: u32, prefix: &str) {
    let _ = write!(line, "{{{prefix}mode=");
    one(line, u64::from(mode & 0o170_000), names::FILE_TYPE);
    let _ = write!(line, "|0{:o}", mode & 0o7777);
}

/// `struct timespec`.
pub fn timespec(line: &mut String, at: u64) {
    with(line, at, |line, [seconds, nanos]: [i64; 2]| {
        let _ = write!(line, "{{tv_sec={seconds}, tv_nsec={nanos}}}");
    });
}

/// `struct timeval`.
pub fn timeval(line: &mut String, at: u64) {
    with(line, at, |line, [seconds, micros]: [i64; 2]| {
        let _ = write!(line, "{{tv_sec={seconds}, tv_usec={micros}}}");
    });
}

/// Two times of a file, for utimensat(2).
pub fn times(line: &mut String, at: u64) {
    with(line, at, |line, _: [i64; 4]| {
        list(line, 2, |line, i| {
            timespec(line, at + i as u64 * 16);
            true
        });
    });
}

/// `struct itimerspec`, or `itimerval` with `unit` "usec".
pub fn timer(line: &mut String, at: u64, unit: &str) {
    with(line, at, |line, [interval, interval_part, value, value_part]: [i64; 4]| {
        let _ = write!(
            line,
            "{{it_interval={{tv_sec={interval}, tv_{unit}={interval_part}}}, \
             it_value={{tv_sec={value}, tv_{unit}={value_part}}}}}"
        );
    });
}

/// Numbers of descriptors.
pub fn descriptors(line: &mut String, at: u64) {
    with(line, at, |line, pair: [i32; 2]| {
        let _ = write!(line, "[{}, {}]", pair[0], pair[1]);
    });
}

/// A single number.
pub fn number(line: &mut String, at: u64) {
    with(line, at, |line, value: i32| {
        let _ = write!(line, "[{value}]");
    });
}

/// An array of ids.
pub fn ids(line: &mut String, at: u64, count: usize) {
    list(line, count, |line, i| match user::read::<u32>(at as usize + i * 4) {
        Ok(id) => write!(line, "{id}").is_ok(),
        Err(_) => false,
    });
}

/// The status of wait4(2).
pub fn wait_status(line: &mut String, at: u64) {
    with(line, at, |line, status: i32| {
        let signal = (status & 0x7f) as u64;
        if status == 0xffff {
            line.push_str("[{WIFCONTINUED(s)}]");
        } else if status & 0xff == 0x7f {
            line.push_str("[{WIFSTOPPED(s) && WSTOPSIG(s) == ");
            names::signal(line, (status >> 8 & 0xff) as u64);
            line.push_str("}]");
        } else if signal == 0 {
            let _ = write!(line, "[{{WIFEXITED(s) && WEXITSTATUS(s) == {}}}]", status >> 8 & 0xff);
        } else {
            line.push_str("[{WIFSIGNALED(s) && WTERMSIG(s) == ");
            names::signal(line, signal);
            line.push_str(if status & 0x80 != 0 { " && WCOREDUMP(s)}]" } else { "}]" });
        }
    });
}

/// `struct rlimit`.
pub fn limits(line: &mut String, at: u64) {
    with(line, at, |line, pair: [u64; 2]| {
        for (name, value) in ["{rlim_cur=", ", rlim_max="].iter().zip(pair) {
            line.push_str(name);
            let _ = match value {
                u64::MAX => write!(line, "RLIM64_INFINITY"),
                _ if value > 1024 && value % 1024 == 0 => write!(line, "{}*1024", value / 1024),
                _ => write!(line, "{value}"),
            };
        }
        line.push('}');
    });
}

/// A set of signals.
pub fn signal_set(line: &mut String, at: u64) {
    with(line, at, names::signals);
}

/// `struct sigaction` as the kernel has it.
pub fn action(line: &mut String, at: u64) {
    with(line, at, |line, [handler, bits, restorer, mask]: [u64; 4]| {
        line.push_str("{sa_handler=");
        let _ = match handler {
            0 => write!(line, "SIG_DFL"),
            1 => write!(line, "SIG_IGN"),
            _ => write!(line, "{handler:#x}"),
        };
        line.push_str(", sa_mask=");
        names::signals(line, mask);
        line.push_str(", sa_flags=");
        flags(line, bits, names::ACTION);
        if bits & u64::from(g::SA_RESTORER) != 0 {
            let _ = write!(line, ", sa_restorer={restorer:#x}");
        }
        line.push('}');
    });
}

/// `stack_t`.
pub fn signal_stack(line: &mut String, at: u64) {
    with(line, at, |line, [base, bits, size]: [u64; 3]| {
        line.push_str("{ss_sp=");
        pointer(line, base);
        line.push_str(", ss_flags=");
        flags(line, bits & 0xffff_ffff, names::ALTSTACK);
        let _ = write!(line, ", ss_size={size}}}");
    });
}

/// `struct clone_args`.
pub fn clone_args(line: &mut String, at: u64) {
    with(line, at, |line, args: [u64; 8]| {
        line.push_str("{flags=");
        flags(line, args[0], names::CLONE);
        line.push_str(", exit_signal=");
        names::signal(line, args[4]);
        for (name, value) in [", stack=", ", stack_size=", ", tls="].iter().zip(&args[5..]) {
            let _ = write!(line, "{name}{value:#x}");
        }
        line.push('}');
    });
}

/// `struct utsname`.
pub fn system_name(line: &mut String, at: u64) {
    with(line, at, |line, fields: [[u8; 65]; 6]| {
        for (name, field) in ["{sysname=", ", nodename=", ", release="].iter().zip(fields) {
            line.push_str(name);
            quoted(line, field.split(|b| *b == 0).next().unwrap_or_default(), 65);
        }
        line.push_str(", ...}");
    });
}

/// The number of entries that getdents64(2) returned.
pub fn entries(line: &mut String, at: u64, len: usize) {
    pointer(line, at);
    let (mut offset, mut count) = (0, 0);
    while offset + 18 < len {
        let Ok(record) = user::read::<u16>(at as usize + offset + 16) else { break };
        if record == 0 {
            break;
        }
        offset += record as usize;
        count += 1;
    }
    let _ = write!(line, " /* {count} entries */");
}

/// `struct flock`.
pub fn lock(line: &mut String, at: u64) {
    with(line, at, |line, lock: g::flock| {
        let kind = ["F_RDLCK", "F_WRLCK", "F_UNLCK"].get(lock.l_type as usize).copied().unwrap_or("?");
        let _ = write!(line, "{{l_type={kind}, l_whence=");
        one(line, lock.l_whence as u64, names::WHENCE);
        let _ = write!(line, ", l_start={}, l_len={}}}", lock.l_start, lock.l_len);
    });
}

/// `struct open_how`.
pub fn open_how(line: &mut String, at: u64) {
    with(line, at, |line, [bits, mode, resolve]: [u64; 3]| {
        line.push_str("{flags=");
        names::open_flags(line, bits);
        let _ = write!(line, ", mode=0{mode:o}, resolve={resolve:#x}}}");
    });
}

/// Size of a window.
pub fn window_size(line: &mut String, at: u64) {
    with(line, at, |line, [rows, columns, x, y]: [u16; 4]| {
        let _ = write!(line, "{{ws_row={rows}, ws_col={columns}, ws_xpixel={x}, ws_ypixel={y}}}");
    });
}
