//! System calls: a table, and the dispatch that is generated from it.
//!
//! `table.rs` has a row per call of x86-64 Linux. The rows generate [`DISPATCH`] (number to function), [`CALLS`]
//! (names, arguments and support, for tracing), and, on the host, the coverage page of the documentation.

pub mod exception;
pub mod file;
pub mod fs;
pub mod history;
mod memory;
pub mod mm;
pub mod mount;
pub mod quick;
pub mod random;
mod share;
pub mod signal;
pub mod socket;
pub mod task;
pub mod trace;
pub mod unlocked;

use crate::patch;
use crate::syscall::signal::deliver::{self, Next};
use crate::task::call::is_restart;
use crate::task::seccomp::{self, Verdict};
use crate::task::{ptrace, user_dispatch, watch};
use alloc::borrow::Cow;
use alloc::format;
use core::cell::Cell;
use hal::cell::Global;
use hal::percpu;
use hal::trap::{Entry, Exit, TrapFrame};
use uapi::raw::general;
use uapi::{Errno, Result};

/// Size of the dispatch table; larger numbers are unknown.
pub const MAX_CALLS: usize = 512;

/// A handler in the dispatch table: takes its arguments from the frame; returns the result or the negated errno.
pub type Handler = fn(&mut TrapFrame) -> isize;

/// Level of support of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As in Linux.
    Full,
    /// Partly, see the note.
    Partial,
    /// Always fails.
    None,
}

/// Type of an argument, for tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgKind {
    /// File descriptor or `AT_FDCWD`.
    Fd,
    /// Signed 32-bit number.
    Int,
    /// Unsigned 32-bit number.
    Uint,
    /// Signed 64-bit number.
    Long,
    /// Flags or a request code.
    Hex,
    /// File mode.
    Mode,
    /// Flags of open(2).
    OpenFlags,
    /// Number of bytes.
    Size,
    /// File offset.
    Off,
    /// Address.
    Ptr,
    /// Address of a string.
    Path,
    /// Address of an input buffer; its size is the next argument.
    InBuf,
    /// Address of an output buffer; its size is the next argument.
    OutBuf,
    /// Address of an array of strings.
    Argv,
    /// Address of a timespec to be read.
    Timespec,
    /// Signal number.
    Signal,
    /// Process or thread id.
    Pid,
}

/// Description of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its number.
    pub number: u16,
    /// Linux's name.
    pub name: &'static str,
    /// Support.
    pub level: Level,
    /// Names and kinds of the arguments.
    pub args: &'static [(&'static str, ArgKind)],
    /// The missing part, or the reason.
    pub note: &'static str,
}

/// A type that an argument register converts to, as C does: by truncation.
pub trait FromArg {
    /// Converts the register.
    fn from_arg(register: u64) -> Self;
}

macro_rules! from_arg { ($($t:ty),*) => { $(
    impl FromArg for $t {
        #[inline(always)]
        fn from_arg(register: u64) -> Self {
            register as $t
        }
    }
)* } }
from_arg!(i32, u32, i64, u64, usize, isize);

/// A type that a handler may return on success.
pub trait IntoReturn {
    /// Converts the result for the program.
    fn into_return(self) -> isize;
}

macro_rules! into_return { ($($t:ty),*) => { $(
    impl IntoReturn for $t {
        #[inline(always)]
        fn into_return(self) -> isize {
            self as isize
        }
    }
)* } }
into_return!(i32, u32, i64, u64, usize, isize);

impl IntoReturn for () {
    #[inline(always)]
    fn into_return(self) -> isize {
        0
    }
}

impl<T: IntoReturn> IntoReturn for Result<T> {
    #[inline(always)]
    fn into_return(self) -> isize {
        match self {
            Ok(value) => value.into_return(),
            Err(errno) => -(errno.code() as isize),
        }
    }
}

/// Calls a handler with the number of registers in its row.
macro_rules! invoke {
    ($f:ident [$($h:tt)*] ()) => {{
        let _ = $f;
        $($h)*()
    }};
    ($f:ident [$($h:tt)*] ($a:ident)) => { invoke!(@ $f [$($h)*] 0) };
    ($f:ident [$($h:tt)*] ($a:ident $b:ident)) => { invoke!(@ $f [$($h)*] 0 1) };
    ($f:ident [$($h:tt)*] ($a:ident $b:ident $c:ident)) => { invoke!(@ $f [$($h)*] 0 1 2) };
    ($f:ident [$($h:tt)*] ($a:ident $b:ident $c:ident $d:ident)) => { invoke!(@ $f [$($h)*] 0 1 2 3) };
    ($f:ident [$($h:tt)*] ($a:ident $b:ident $c:ident $d:ident $e:ident)) => { invoke!(@ $f [$($h)*] 0 1 2 3 4) };
    ($f:ident [$($h:tt)*] ($a:ident $b:ident $c:ident $d:ident $e:ident $g:ident)) => {
        invoke!(@ $f [$($h)*] 0 1 2 3 4 5)
    };
    (@ $f:ident [$($h:tt)*] $($n:tt)*) => { $($h)*($(FromArg::from_arg($f.argument($n))),*) };
}

/// Like [`invoke`], with the frame as first argument.
macro_rules! invoke_frame {
    ($f:ident [$($h:tt)*] ()) => { $($h)*($f) };
    ($f:ident [$($h:tt)*] ($a:ident)) => { invoke_frame!(@ $f [$($h)*] 0) };
    ($f:ident [$($h:tt)*] ($a:ident $b:ident)) => { invoke_frame!(@ $f [$($h)*] 0 1) };
    ($f:ident [$($h:tt)*] ($a:ident $b:ident $c:ident)) => { invoke_frame!(@ $f [$($h)*] 0 1 2) };
    ($f:ident [$($h:tt)*] ($a:ident $b:ident $c:ident $d:ident)) => { invoke_frame!(@ $f [$($h)*] 0 1 2 3) };
    ($f:ident [$($h:tt)*] ($a:ident $b:ident $c:ident $d:ident $e:ident)) => {
        invoke_frame!(@ $f [$($h)*] 0 1 2 3 4)
    };
    (@ $f:ident [$($h:tt)*] $($n:tt)*) => {{
        let arguments = $f.arguments();
        $($h)*($f, $(FromArg::from_arg(arguments[$n])),*)
    }};
}

/// The function of a row.
macro_rules! handler {
    ([] ($($a:ident)*)) => { unsupported as Handler };
    ([= $errno:ident] ($($a:ident)*)) => { (|_| -(Errno::$errno.code() as isize)) as Handler };
    ([frame $($h:tt)*] ($($a:ident)*)) => {
        (|f| IntoReturn::into_return(invoke_frame!(f [$($h)*] ($($a)*)))) as Handler
    };
    ([$($h:tt)*] ($($a:ident)*)) => { (|f| IntoReturn::into_return(invoke!(f [$($h)*] ($($a)*)))) as Handler };
}

macro_rules! syscalls {
    ($($number:literal $name:ident $level:ident [$($handler:tt)*] ($($arg:ident : $kind:ident),*) $note:literal;)*) => {
        /// Functions by number.
        pub static DISPATCH: [Handler; MAX_CALLS] = {
            let mut table = [unsupported as Handler; MAX_CALLS];
            $( table[$number] = handler!([$($handler)*] ($($arg)*)); )*
            table
        };

        /// All rows, by rising number.
        pub static CALLS: &[Call] = &[$( Call {
            number: $number,
            name: stringify!($name),
            level: Level::$level,
            args: &[$((stringify!($arg), ArgKind::$kind)),*],
            note: $note,
        }),*];
    };
}

include!("table.rs");

/// The row of a call.
fn find(number: u64) -> Option<&'static Call> {
    let index = CALLS.binary_search_by_key(&number, |c| u64::from(c.number)).ok()?;
    CALLS.get(index)
}

/// Name of a call.
fn name(number: u64) -> Cow<'static, str> {
    find(number).map_or_else(|| format!("syscall_{number}").into(), |call| call.name.into())
}

/// Rows without a handler.
fn unsupported(frame: &mut TrapFrame) -> isize {
    if let Some(count) = UNSERVED.get(frame.number() as usize) {
        count.set(count.get().saturating_add(1));
    }
    -(Errno::ENOSYS.code() as isize)
}

/// Counts of calls without a handler, by number, since the start of the pod.
static UNSERVED: Global<[Cell<u32>; MAX_CALLS]> = Global::new([const { Cell::new(0) }; MAX_CALLS]);

/// Counts of each unsupported call.
pub fn unserved() -> impl Iterator<Item = (usize, u32)> {
    UNSERVED.iter().map(Cell::get).enumerate().filter(|(_, count)| *count > 0)
}

#[inline(always)]
fn dispatch(frame: &mut TrapFrame, number: u64) -> isize {
    let handler = DISPATCH.get(number as usize).copied().unwrap_or(unsupported as Handler);
    let result = handler(frame);
    frame.set_result(result as u64);
    history::note(frame, number, result);
    result
}

/// hal's hook: a system call of the current thread.
pub fn syscall(frame: &mut TrapFrame) -> Exit {
    let number = frame.number();
    if share::is_due() || frame.is_by(Entry::Trap) || watch::is_on() {
        return slowly(frame, number);
    }
    let result = dispatch(frame, number);
    if !percpu::work_pending() && !is_restart(result) {
        return Exit::Fast;
    }
    finish(frame, Some(number));
    Exit::Full
}

/// A call that trapped, is traced or measured. A separate function, so that the fast path needs few registers and no
/// stack.
#[cold]
#[inline(never)]
fn slowly(frame: &mut TrapFrame, number: u64) -> Exit {
    if frame.is_by(Entry::Trap) {
        patch::on_trap(frame);
    }
    let meter = share::Meter::start(frame);
    let result = observed(frame, number);
    meter.stop();
    if !percpu::work_pending() && !is_restart(result) {
        return Exit::Fast;
    }
    finish(frame, Some(number));
    Exit::Full
}

/// [`dispatch`], with a trace line if calls are traced.
fn observed(frame: &mut TrapFrame, number: u64) -> isize {
    match () {
        () if trace::is_on() => trace::run(frame, |frame| permitted(frame, number)),
        () if watch::is_on() => permitted(frame, number),
        () => dispatch(frame, number),
    }
}

/// [`judged`], with ptrace stops before and after it.
fn permitted(frame: &mut TrapFrame, number: u64) -> isize {
    if user_dispatch::catches(frame, number) {
        // The registers keep their values from before the call.
        return number as isize;
    }
    let number = ptrace::entering(frame, number);
    let number = judged(frame, number);
    ptrace::leaving(frame, number);
    frame.result() as isize
}

/// [`dispatch`], if the thread's filters permit the call; returns its number.
fn judged(frame: &mut TrapFrame, number: u64) -> u64 {
    match seccomp::judge(frame, number) {
        Verdict::Pass(number) => {
            match memory::admit(number) {
                Ok(()) => drop(dispatch(frame, number)),
                Err(errno) => frame.set_result(-i64::from(errno.code()) as u64),
            }
            return number;
        }
        Verdict::Result(result) => {
            // A filter must not restart a call: it would decide the same for ever.
            let repeats = is_restart(result as isize);
            frame.set_result(if repeats { -i64::from(Errno::EINTR.code()) as u64 } else { result });
        }
        Verdict::Interrupted => frame.set_result(-i64::from(Errno::ERESTARTSYS.code()) as u64),
    }
    number
}

/// hal's hook: pending work at the end of a call or fault.
pub fn resume(frame: &mut TrapFrame) {
    finish(frame, None);
}

/// The slow return path to a program: events, signals, restarted calls. `call` as in [`deliver::leave`].
#[cold]
#[inline(never)]
pub fn finish(frame: &mut TrapFrame, call: Option<u64>) {
    crate::mm::answer_losses();
    // The registers that rt_sigreturn and execve leave are no results.
    let mut call = call.filter(|n| *n != u64::from(general::__NR_rt_sigreturn));
    while let Next::Call(number) = deliver::leave(frame, call) {
        observed(frame, number);
        call = Some(number);
    }
}
