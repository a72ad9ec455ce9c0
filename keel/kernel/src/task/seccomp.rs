//! System call filters, seccomp(2).

mod notify;

use super::cred::cap;
use super::{Task, current, ptrace};
use crate::mm::user;
use crate::patch;
use crate::signal::{SigInfo, send, with_arch};
use crate::task::watch;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use hal::trap::TrapFrame;
use keel_core::bpf::seccomp::{Call, DATA_LEN};
use keel_core::bpf::{Instruction, MAX_LEN, Program};
use notify::{Listener, Outcome};
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Modes, as prctl(2) `PR_GET_SECCOMP` and `/proc/PID/status` report them.
const DISABLED: u32 = 0;
const STRICT: u32 = 1;
const FILTER: u32 = 2;

/// Operations of seccomp(2).
const SET_MODE_STRICT: u32 = 0;
const SET_MODE_FILTER: u32 = 1;
const GET_ACTION_AVAIL: u32 = 2;
const GET_NOTIF_SIZES: u32 = 3;

/// Flags of `SET_MODE_FILTER`.
const FLAG_TSYNC: u32 = 1;
const FLAG_LOG: u32 = 2;
const FLAG_SPEC_ALLOW: u32 = 4;
const FLAG_NEW_LISTENER: u32 = 8;
const FLAG_TSYNC_ESRCH: u32 = 16;
const FLAG_WAIT_KILLABLE_RECV: u32 = 32;

/// Actions; as signed numbers, a lower one has precedence.
const RET_KILL_PROCESS: u32 = 0x8000_0000;
const RET_KILL_THREAD: u32 = 0;
const RET_TRAP: u32 = 0x0003_0000;
const RET_ERRNO: u32 = 0x0005_0000;
const RET_USER_NOTIF: u32 = 0x7fc0_0000;
const RET_TRACE: u32 = 0x7ff0_0000;
const RET_LOG: u32 = 0x7ffc_0000;
const RET_ALLOW: u32 = 0x7fff_0000;
const RET_ACTION: u32 = 0xffff_0000;
const RET_DATA: u32 = 0xffff;

/// si_code of SIGSYS.
const SYS_SECCOMP: i32 = 1;
/// Maximum number of instructions of all filters of a thread; each filter adds a constant.
const MAX_INSTRUCTIONS: usize = (1 << 18) / 8;
const FILTER_OVERHEAD: usize = 4;
/// Largest error number.
const MAX_ERRNO: u32 = 4095;

/// A filter and the filters installed before it.
#[derive(Debug)]
struct Filter {
    program: Program<Call>,
    earlier: Option<Rc<Filter>>,
    listener: Option<Rc<Listener>>,
}

impl Filter {
    fn chain(first: &Option<Rc<Self>>) -> impl Iterator<Item = &Rc<Self>> {
        core::iter::successors(first.as_ref(), |filter| filter.earlier.as_ref())
    }
}

impl Drop for Filter {
    /// Iterative: a chain may be long, and stacks are small.
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.orphan();
        }
        let mut next = self.earlier.take();
        while let Some(mut filter) = next.and_then(Rc::into_inner) {
            next = filter.earlier.take();
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    mode: u32,
    filter: Option<Rc<Filter>>,
    watched: Option<watch::Reason>,
}

/// Filter state of a thread.
#[derive(Debug, Default)]
pub struct Seccomp(RefCell<Inner>);

impl Seccomp {
    /// For a new thread of this thread.
    pub fn inherited(&self) -> Self {
        let inner = self.0.borrow();
        let watched = inner.watched.is_some().then(watch::Reason::new);
        Self(RefCell::new(Inner { mode: inner.mode, filter: inner.filter.clone(), watched }))
    }

    /// The thread has ended and makes no more calls.
    pub(super) fn release(&self) {
        let filter = self.0.borrow_mut().filter.take();
        // Wake the listener.
        drop(filter);
    }

    /// Mode and number of filters, for `/proc/PID/status`.
    pub fn status(&self) -> (u32, usize) {
        let inner = self.0.borrow();
        (inner.mode, Filter::chain(&inner.filter).count())
    }

    /// Replaces the state with `from`.
    pub(super) fn replace(&self, from: Self) {
        let _old = self.0.replace(from.0.into_inner());
    }

    fn mode(&self) -> u32 {
        self.0.borrow().mode
    }

    fn set(&self, mode: u32, filter: Option<Rc<Filter>>) {
        let watched = Some(watch::Reason::new());
        let _old = self.0.replace(Inner { mode, filter, watched });
    }
}

/// Verdict on a call.
pub enum Verdict {
    /// Make the call with this number, which a tracer may have changed.
    Pass(u64),
    /// Do not make it; return this result.
    Result(u64),
    /// A signal interrupted the wait for the listener's answer: the call restarts or fails with EINTR.
    Interrupted,
}

impl Verdict {
    fn failed(errno: Errno) -> Self {
        Self::Result(-i64::from(errno.code()) as u64)
    }
}

/// Filters the call that the current thread is about to make.
pub fn judge(frame: &mut TrapFrame, number: u64) -> Verdict {
    let me = current();
    let (mode, filter) = {
        let inner = me.seccomp.0.borrow();
        (inner.mode, inner.filter.clone())
    };
    match mode {
        DISABLED => Verdict::Pass(number),
        STRICT => {
            let allowed = [g::__NR_read, g::__NR_write, g::__NR_exit, g::__NR_rt_sigreturn];
            if allowed.contains(&(number as u32)) {
                return Verdict::Pass(number);
            }
            end(&me, g::SIGKILL);
            Verdict::Result(number)
        }
        _ => filtered(&me, frame, number, &filter, false),
    }
}

/// Ends the thread, and its process if it is the last one.
fn end(me: &Rc<Task>, signal: u32) {
    if me.process().thread_count() == 1 { send::kill_all(me.process(), signal as i32) } else { send::kill_thread(me) }
}

/// [`judge`] for filter mode. `traced`: a tracer has seen the call.
fn filtered(me: &Rc<Task>, frame: &mut TrapFrame, number: u64, filter: &Option<Rc<Filter>>, traced: bool) -> Verdict {
    let place = patch::program_address(frame.instruction_pointer());
    let data = data(frame, number, place);
    let (mut answer, mut decisive) = (RET_ALLOW, None);
    for filter in Filter::chain(filter) {
        let other = filter.program.run(&data);
        if ((other & RET_ACTION) as i32) < ((answer & RET_ACTION) as i32) {
            (answer, decisive) = (other, Some(filter));
        }
    }
    let value = answer & RET_DATA;
    match answer & RET_ACTION {
        RET_ALLOW | RET_LOG => Verdict::Pass(number),
        RET_ERRNO => Verdict::Result(-i64::from(value.min(MAX_ERRNO)) as u64),
        RET_TRACE if traced => Verdict::Pass(number),
        RET_TRACE => match ptrace::filtered(frame, number, value) {
            None => Verdict::failed(Errno::ENOSYS),
            Some(_) if me.is_killed() => Verdict::Result(number),
            Some(Ok(number)) => filtered(me, frame, number, filter, true),
            Some(Err(result)) => Verdict::Result(result),
        },
        RET_USER_NOTIF => match decisive.and_then(|filter| filter.listener.clone()) {
            None => Verdict::failed(Errno::ENOSYS),
            Some(listener) => match listener.ask(data.0) {
                Outcome::Pass => Verdict::Pass(number),
                Outcome::Result(result) => Verdict::Result(result as u64),
                Outcome::Interrupted => Verdict::Interrupted,
            },
        },
        RET_TRAP => {
            send::force(me, SigInfo { errno: value as i32, ..SigInfo::call(SYS_SECCOMP, place, number) });
            // The registers keep their values from before the call.
            Verdict::Result(number)
        }
        RET_KILL_THREAD => {
            end(me, g::SIGSYS);
            Verdict::Result(number)
        }
        _ => {
            send::kill_all(me.process(), g::SIGSYS as i32);
            Verdict::Result(number)
        }
    }
}

/// `struct seccomp_data`.
fn data(frame: &TrapFrame, number: u64, place: u64) -> Call {
    let mut data = [0; DATA_LEN];
    let head = [with_arch(number), place];
    for (bytes, word) in data.chunks_exact_mut(8).zip(head.into_iter().chain(frame.arguments())) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Call(data)
}

/// seccomp(2). EACCES, EBUSY, EFAULT, EINVAL, EMFILE, ENOMEM, EOPNOTSUPP, ESRCH.
pub fn sys_seccomp(operation: u32, flags: u32, args: usize) -> Result<i32> {
    match operation {
        SET_MODE_STRICT if flags == 0 && args == 0 => set_strict(),
        SET_MODE_FILTER => set_filter(flags, args),
        GET_ACTION_AVAIL if flags == 0 => match user::read::<u32>(args)? {
            RET_KILL_PROCESS | RET_KILL_THREAD | RET_TRAP | RET_ERRNO | RET_USER_NOTIF | RET_TRACE | RET_LOG
            | RET_ALLOW => Ok(0),
            _ => Err(Errno::EOPNOTSUPP),
        },
        GET_NOTIF_SIZES if flags == 0 => user::write(args, &notify::SIZES).map(|()| 0),
        _ => Err(Errno::EINVAL),
    }
}

/// prctl(2) `PR_SET_SECCOMP`. As [`sys_seccomp`].
pub fn set_mode(mode: u64, filter: usize) -> Result<i32> {
    match mode {
        1 => set_strict(),
        2 => set_filter(0, filter),
        _ => Err(Errno::EINVAL),
    }
}

/// prctl(2) `PR_GET_SECCOMP`.
pub fn mode() -> i32 {
    current().seccomp.mode() as i32
}

fn set_strict() -> Result<i32> {
    let me = current();
    if me.seccomp.mode() == FILTER {
        return Err(Errno::EINVAL);
    }
    me.seccomp.set(STRICT, None);
    Ok(0)
}

/// Reads a `struct sock_fprog` and checks its program. EACCES, EFAULT, EINVAL, ENOMEM.
fn read_program(me: &Task, at: usize) -> Result<Program<Call>> {
    let [len, address]: [u64; 2] = user::read(at)?;
    let len = usize::from(len as u16);
    if len == 0 || len > MAX_LEN {
        return Err(Errno::EINVAL);
    }
    if !me.no_new_privs() && !me.cred().capable_here(cap::SYS_ADMIN) {
        return Err(Errno::EACCES);
    }
    let raw: Vec<u64> = user::read_array(address as usize, len)?;
    let mut instructions = Vec::new();
    instructions.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
    instructions.extend(raw.into_iter().map(Instruction::from_raw));
    Program::new(instructions).ok_or(Errno::EINVAL)
}

/// Installs the filter of the first program. EINVAL, ENOMEM.
pub fn begin(raw: &[u64]) -> Result<()> {
    let mut instructions = Vec::new();
    instructions.try_reserve_exact(raw.len()).map_err(|_| Errno::ENOMEM)?;
    instructions.extend(raw.iter().copied().map(Instruction::from_raw));
    let program = Program::new(instructions).ok_or(Errno::EINVAL)?;
    current().seccomp.set(FILTER, Some(Rc::new(Filter { program, earlier: None, listener: None })));
    Ok(())
}

fn set_filter(flags: u32, args: usize) -> Result<i32> {
    const KNOWN: u32 =
        FLAG_TSYNC | FLAG_LOG | FLAG_SPEC_ALLOW | FLAG_NEW_LISTENER | FLAG_TSYNC_ESRCH | FLAG_WAIT_KILLABLE_RECV;
    let listens = flags & FLAG_NEW_LISTENER != 0;
    // The return value could not distinguish a descriptor from the id of a failing thread.
    let is_ambiguous = listens && flags & FLAG_TSYNC != 0 && flags & FLAG_TSYNC_ESRCH == 0;
    if flags & !KNOWN != 0 || is_ambiguous || flags & FLAG_WAIT_KILLABLE_RECV != 0 && !listens {
        return Err(Errno::EINVAL);
    }
    let me = current();
    let program = read_program(&me, args)?;
    if me.seccomp.mode() == STRICT {
        return Err(Errno::EINVAL);
    }
    let earlier = me.seccomp.0.borrow().filter.clone();
    if listens
        && Filter::chain(&earlier).any(|filter| filter.listener.as_ref().is_some_and(|listener| listener.is_open()))
    {
        return Err(Errno::EBUSY);
    }
    let present: usize = Filter::chain(&earlier).map(|filter| filter.program.len() + FILTER_OVERHEAD).sum();
    if present + program.len() > MAX_INSTRUCTIONS {
        return Err(Errno::ENOMEM);
    }
    let others = || me.process().threads().filter(|task| flags & FLAG_TSYNC != 0 && !Rc::ptr_eq(task, &me));
    for task in others() {
        let inner = task.seccomp.0.borrow();
        // Synchronisation requires that the other thread's filters are among this thread's.
        let is_among = inner.filter.as_ref().is_none_or(|f| Filter::chain(&earlier).any(|own| Rc::ptr_eq(own, f)));
        if inner.mode == STRICT || inner.mode == FILTER && !is_among {
            return if flags & FLAG_TSYNC_ESRCH != 0 { Err(Errno::ESRCH) } else { Ok(task.own_tid()) };
        }
    }
    let listener = listens.then(|| Listener::new(flags & FLAG_WAIT_KILLABLE_RECV != 0));
    let descriptor = listener.as_ref().map_or(Ok(0), |listener| listener.install())?;
    let filter = Rc::new(Filter { program, earlier, listener });
    for task in others() {
        task.seccomp.set(FILTER, Some(filter.clone()));
        if me.no_new_privs() {
            task.no_new_privs.set(true);
        }
    }
    me.seccomp.set(FILTER, Some(filter));
    Ok(descriptor)
}
