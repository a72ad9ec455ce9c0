//! Waits for children; wait(2).

use super::process::Process;
use super::{Task, current, exit, pid, pidfd, pidns};
use crate::mm::user;
use crate::sched::Usage;
use crate::sched::wait::{Interrupt, wait_until};
use crate::signal::{SigInfo, code};
use crate::time::timeval;
use alloc::rc::Rc;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// `__WCLONE` and friends as bits.
const WALL: u32 = g::__WALL;
const WCLONE: u32 = g::__WCLONE;
const WNOTHREAD: u32 = g::__WNOTHREAD;

/// Selects children.
#[derive(Clone)]
enum Which {
    Any,
    Pid(i32),
    Group(i32),
    Process(Rc<Process>),
}

/// State change of a child.
#[derive(Clone, Copy, Debug)]
enum News {
    Ended(i32),
    Stopped(u32),
    Continued,
    /// A ptrace stop; signal and event.
    Traced(i32),
}

struct Found {
    /// Id of the process, or of a traced thread, as the caller sees it.
    id: i32,
    child: Rc<Process>,
    news: News,
    usage: Usage,
}

impl Which {
    fn has(&self, child: &Rc<Process>) -> bool {
        match self {
            Self::Any => true,
            Self::Pid(pid) => child.pid() == *pid,
            Self::Group(group) => child.group() == *group,
            Self::Process(process) => Rc::ptr_eq(process, child),
        }
    }

    /// Whether it selects a traced thread.
    fn has_thread(&self, task: &Task) -> bool {
        match self {
            Self::Pid(id) => task.tid() == *id,
            _ => self.has(task.process()),
        }
    }

    /// Whether it selects an ended traced thread.
    fn has_id(&self, id: i32) -> bool {
        match self {
            Self::Any => true,
            Self::Pid(wanted) => *wanted == id,
            _ => false,
        }
    }
}

/// Waits for a change of a child. `None` with `WNOHANG` if there was none. ECHILD, ERESTARTSYS.
fn wait(which: &Which, options: u32) -> Result<Option<Found>> {
    let me = current();
    let process = me.process().clone();
    let look = || look(&process, which, options);
    if options & g::WNOHANG != 0 {
        return look().unwrap_or(Ok(None));
    }
    wait_until(core::slice::from_ref(&process.child_events), None, Interrupt::BySignal, look)?
}

/// `None`: nothing yet. `Some(Ok(None))` is only for `WNOHANG`.
fn look(process: &Rc<Process>, which: &Which, options: u32) -> Option<Result<Option<Found>>> {
    let mut any = false;
    let keep = options & g::WNOWAIT != 0;
    for task in process.tracer.tracees() {
        if which.has_thread(&task) {
            any = true;
            if let Some(status) = task.traced.news(!keep) {
                let (id, child, usage) = (pidns::shown(task.tid()), task.process().clone(), Usage::default());
                return Some(Ok(Some(Found { id, child, news: News::Traced(status), usage })));
            }
        }
    }
    if options & g::WEXITED != 0
        && let Some((id, status, child)) = process.tracer.end(keep, |id| which.has_id(id))
    {
        let id = pidns::shown(id);
        return Some(Ok(Some(Found { id, child, news: News::Ended(status), usage: Usage::default() })));
    }
    for child in process.children() {
        let is_clone = child.exit_signal.get() != g::SIGCHLD;
        let eligible = options & WALL != 0 || is_clone == (options & WCLONE != 0);
        if !which.has(&child) || !eligible || options & WNOTHREAD != 0 && !is_own(&child) {
            continue;
        }
        // A zombie can only report its end.
        any |= options & g::WEXITED != 0 || child.zombie.get().is_none();
        if let Some(news) = news_of(&child, options) {
            // A reaped child has no id any more.
            let id = pidns::shown(child.pid());
            let mut usage = child.usage();
            usage.add(&child.children_usage());
            if options & g::WNOWAIT == 0 {
                match news {
                    News::Ended(_) => exit::reap(process, &child, true),
                    News::Stopped(_) => child.signals.stop_news.set(false),
                    News::Continued => child.signals.continue_news.set(false),
                    News::Traced(_) => {}
                }
            }
            return Some(Ok(Some(Found { id, child, news, usage })));
        }
    }
    if !any {
        return Some(Err(Errno::ECHILD));
    }
    None
}

/// Whether a child belongs to the current thread. Children of ended threads belong to the oldest thread.
fn is_own(child: &Process) -> bool {
    let me = current();
    let threads = || me.process().threads();
    let parent = threads().find(|thread| thread.tid() == child.parent_thread.get());
    parent.or_else(|| threads().next()).is_some_and(|thread| Rc::ptr_eq(&thread, &me))
}

fn news_of(child: &Rc<Process>, options: u32) -> Option<News> {
    if let Some(status) = child.zombie.get() {
        return (options & g::WEXITED != 0).then_some(News::Ended(status));
    }
    let signals = &child.signals;
    if options & g::WUNTRACED != 0 && signals.stop_news.get() && signals.is_stopped() {
        return Some(News::Stopped(signals.stopped_by.get()));
    }
    (options & g::WCONTINUED != 0 && signals.continue_news.get()).then_some(News::Continued)
}

/// wait4(2). ECHILD, EINVAL, EFAULT, EINTR, ESRCH.
pub fn sys_wait4(target: i32, status: usize, options: u32, rusage: usize) -> Result<i32> {
    if options & !(g::WNOHANG | g::WUNTRACED | g::WCONTINUED | WNOTHREAD | WCLONE | WALL) != 0 {
        return Err(Errno::EINVAL);
    }
    let which = match pidns::named_or_group(target) {
        i32::MIN => return Err(Errno::ESRCH),
        -1 => Which::Any,
        0 => Which::Group(current().process().group()),
        id @ 1.. => Which::Pid(id),
        group => Which::Group(-group),
    };
    let Some(found) = wait(&which, options | g::WEXITED)? else { return Ok(0) };
    let word: i32 = match found.news {
        News::Ended(status) => status,
        News::Stopped(signal) => (signal as i32) << 8 | 0x7f,
        News::Continued => 0xffff,
        News::Traced(status) => status << 8 | 0x7f,
    };
    if status != 0 {
        user::write(status, &word)?;
    }
    if rusage != 0 {
        write_rusage(rusage, &found.usage)?;
    }
    Ok(found.id)
}

/// waitid(2). ECHILD, EINVAL, EFAULT, EINTR, EBADF.
pub fn sys_waitid(kind: i32, id: i32, info: usize, options: u32, rusage: usize) -> Result<()> {
    let told = waitid(kind, id, options, rusage);
    if info != 0 {
        // Linux writes only these fields, even without a child to report, and leaves the rest unchanged.
        let told = told.as_ref().copied().unwrap_or_default();
        user::write(info, &[told.signo, 0, told.code])?;
        user::write(info.wrapping_add(16), &told.fields[0])?;
        user::write(info.wrapping_add(24), &(told.fields[1] as u32))?;
    }
    told.map(|_| ())
}

/// waitid(2) without storing the result.
fn waitid(kind: i32, id: i32, options: u32, rusage: usize) -> Result<SigInfo> {
    const P_ALL: i32 = 0;
    const P_PID: i32 = 1;
    const P_PGID: i32 = 2;
    const P_PIDFD: i32 = 3;
    let events = g::WEXITED | g::WSTOPPED | g::WCONTINUED;
    if options & !(g::WNOHANG | g::WNOWAIT | events | WNOTHREAD | WCLONE | WALL) != 0 || options & events == 0 {
        return Err(Errno::EINVAL);
    }
    let mut options = options;
    let which = match kind {
        P_ALL => Which::Any,
        P_PID if id > 0 => Which::Pid(pidns::named(id)),
        P_PGID if id > 0 => Which::Group(pidns::named(id)),
        P_PGID if id == 0 => Which::Group(current().process().group()),
        P_PIDFD if id >= 0 => {
            if pidfd::is_nonblocking(id)? {
                options |= g::WNOHANG;
            }
            let target = pidfd::target_of(id)?;
            if target.id == target.process.pid() { Which::Process(target.process) } else { Which::Pid(target.id) }
        }
        _ => return Err(Errno::EINVAL),
    };
    let found = wait(&which, options)?;
    let told = match &found {
        Some(found) => describe(found),
        None => SigInfo::default(),
    };
    if let (None, P_PIDFD) = (&found, kind)
        && options & g::WNOHANG != 0
        && pidfd::is_nonblocking(id)?
    {
        return Err(Errno::EAGAIN);
    }
    if let Some(found) = &found
        && rusage != 0
    {
        write_rusage(rusage, &found.usage)?;
    }
    Ok(told)
}

fn describe(found: &Found) -> SigInfo {
    let mut info = match found.news {
        News::Ended(status) => exit::child_info(&found.child, found.child.last_uid(), status),
        News::Stopped(signal) => {
            SigInfo::child(code::CLD_STOPPED, found.child.pid(), found.child.last_uid(), signal as i32, 0, 0)
        }
        News::Traced(status) => SigInfo::child(code::CLD_TRAPPED, found.id, found.child.last_uid(), status, 0, 0),
        News::Continued => {
            SigInfo::child(code::CLD_CONTINUED, found.child.pid(), found.child.last_uid(), g::SIGCONT as i32, 0, 0)
        }
    };
    let uid = current().cred().user_ns.shown_uid(found.child.last_uid());
    info.fields[0] = u64::from(found.id as u32) | u64::from(uid) << 32;
    info
}

/// Writes `struct rusage`.
pub(crate) fn write_rusage(at: usize, usage: &Usage) -> Result<()> {
    let [user_s, user_us] = timeval(usage.user_ns);
    let [system_s, system_us] = timeval(usage.system_ns);
    let mut words = [0i64; 18];
    words[..5].copy_from_slice(&[user_s, user_us, system_s, system_us, (usage.max_resident >> 10) as i64]);
    words[8] = usage.minor_faults as i64;
    words[9] = usage.major_faults as i64;
    words[16] = usage.voluntary as i64;
    words[17] = usage.involuntary as i64;
    user::write(at, &words)
}

/// The process with this id if it is a child of `parent`.
pub(crate) fn child_of(parent: &Process, child: i32) -> Option<Rc<Process>> {
    pid::find_process(child).filter(|p| p.ppid() == parent.pid())
}
