//! The pod's first program.

use crate::file::FdTable;
use crate::sched;
use crate::signal::{Actions, AltStack, TaskSignals};
use crate::syscall::task::exec::{self, NotRun};
use crate::task::FsContext;
use crate::task::pidns::PidNs;
use crate::task::process::{Limits, Process, Session};
use crate::task::{Cred, Namespaces, Parts, Task, pid};
use abi::boot::{PodConfig, Rights};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use hal::cell::Global;
use hal::thread::Thread;
use hal::trap::TrapFrame;
use keel_core::sigset::SigSet;
use uapi::Errno;
use uapi::raw::general as g;

/// Work of the first thread before it runs a program.
type Beginning = Box<dyn FnOnce(&mut TrapFrame)>;

static BEGINNING: Global<RefCell<Option<Beginning>>> = Global::new(RefCell::new(None));

/// Exit codes if the program can't be found or can't be executed, as in shells.
const NOT_FOUND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;

const UNLIMITED: u64 = u64::MAX;

/// Default limits of the first process by `RLIMIT_*` number: those of Linux's init process, with the usual numbers of
/// descriptors, processes and signals.
const LIMITS: Limits = [
    (UNLIMITED, UNLIMITED), // CPU
    (UNLIMITED, UNLIMITED), // FSIZE
    (UNLIMITED, UNLIMITED), // DATA
    (8 << 20, UNLIMITED),   // STACK
    (0, UNLIMITED),         // CORE
    (UNLIMITED, UNLIMITED), // RSS
    (63_304, 63_304),       // NPROC
    (1024, 1_048_576),      // NOFILE
    (8 << 20, 8 << 20),     // MEMLOCK
    (UNLIMITED, UNLIMITED), // AS
    (UNLIMITED, UNLIMITED), // LOCKS
    (63_304, 63_304),       // SIGPENDING
    (819_200, 819_200),     // MSGQUEUE
    (0, 0),                 // NICE
    (0, 0),                 // RTPRIO
    (UNLIMITED, UNLIMITED), // RTTIME
];

/// Creates the first process, in the PID namespace `pids` (`None`: the first), calls `prepare` with it before it has a
/// program, and runs the program. `prepare` opens its files, which needs a current thread.
///
/// # Panics
/// If there is no memory for one thread, or its PID namespace has processes already.
pub fn first(
    config: PodConfig,
    pids: Option<Rc<PidNs>>,
    fs: Rc<FsContext>,
    files: Rc<FdTable>,
    prepare: impl FnOnce(&Rc<Process>) + 'static,
) -> ! {
    crate::task::uts::init(&config);
    if let Some(trace) = &config.trace {
        crate::syscall::trace::turn_on(trace);
    }
    let init = pid::init_process();
    let tid = pid::FIRST;
    // Reserve the id.
    let _ = pid::allocate();
    let mut limits = LIMITS;
    for (limit, given) in limits.iter_mut().zip(&config.limits) {
        *limit = *given;
    }
    // Others inherit it, or have it changed.
    crate::file::table::limit_was_set(limits[g::RLIMIT_NOFILE as usize].0);
    let within = pids.clone().map(|ns| match ns.enter(tid, None, true) {
        Ok(own) => (ns, own),
        Err(errno) => panic!("the first process gets no id in its namespace: {errno:?}"),
    });
    let process = Process::new(tid, tid, Session::new(tid), limits, within);
    let Some(thread) = Thread::new(&TrapFrame::new(0, 0)) else { panic!("no memory for the first thread") };
    let parts = Parts {
        process: process.clone(),
        thread,
        mm: None,
        files,
        fs,
        cred: Rc::new(Cred::first(config.uid, config.gid, &config.groups, config.rights.dropped)),
        namespaces: Namespaces::of_first(pids),
        signals: TaskSignals::new(Rc::new(Actions::default()), SigSet::EMPTY, AltStack::NONE),
        sched: sched::Entity::new(None),
        comm: [0; 16],
    };
    let task = Task::new(tid, parts);
    process.add_thread(task.clone());
    pid::enter(tid, task.clone(), Some(process.clone()));
    init.adopt(process.clone());
    *BEGINNING.borrow_mut() = Some(Box::new(move |frame| {
        prepare(&process);
        if process.limit(g::RLIMIT_CPU).0 != UNLIMITED {
            crate::sched::timer::watch_cpu_time(true);
        }
        drop(process);
        restrict(&config.rights);
        if let Err((failure, name)) = run(frame, config) {
            fail(failure, &name);
        }
    }));
    sched::resume(&task.sched);
    drop(task);
    drop(init);
    sched::run_first()
}

/// Applies what must hold from the first program on.
fn restrict(rights: &Rights) {
    if let Err((name, why)) = crate::fs::proc::apply_settings(&rights.settings) {
        let name = String::from_utf8_lossy(name).replace('/', ".");
        let text = alloc::format!("hull: --sysctl {name}: {why}");
        crate::sched::connector::end(super::EXIT_HULL, text.as_bytes())
    }
    pid::limit_threads(rights.most_threads);
    crate::fs::sys::show_processor_limit(rights.processor_time);
    let me = crate::task::current();
    me.no_new_privs.set(rights.no_new_privs);
    if !rights.filter.is_empty()
        && let Err(errno) = crate::task::seccomp::begin(&rights.filter)
    {
        let text = alloc::format!("hull: the filter of system calls: {errno:?}");
        crate::sched::connector::end(super::EXIT_HULL, text.as_bytes())
    }
}

/// Runs the first thread's initial work; does nothing for others.
pub(crate) fn begin(frame: &mut TrapFrame) {
    let beginning = BEGINNING.take();
    if let Some(beginning) = beginning {
        beginning(frame);
    }
}

/// Looks the program up and executes it.
fn run(frame: &mut TrapFrame, config: PodConfig) -> core::result::Result<(), (NotRun, Vec<u8>)> {
    let name = config.argv.first().cloned().unwrap_or_default();
    let outcome = search(frame, &name, &config);
    outcome.map_err(|failure| (failure, name))
}

fn search(frame: &mut TrapFrame, name: &[u8], config: &PodConfig) -> core::result::Result<(), NotRun> {
    if name.is_empty() {
        return Err(NotRun { errno: Errno::ENOENT, opened: false });
    }
    if name.contains(&b'/') {
        return exec::run_first(frame, name, &config.argv, &config.env);
    }
    let path = config.env.iter().find_map(|v| v.strip_prefix(b"PATH="));
    let path = path.unwrap_or(b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    let mut last = NotRun { errno: Errno::ENOENT, opened: false };
    for dir in path.split(|b| *b == b':') {
        let mut candidate = if dir.is_empty() { b".".to_vec() } else { dir.to_vec() };
        candidate.push(b'/');
        candidate.extend_from_slice(name);
        match exec::run_first(frame, &candidate, &config.argv, &config.env) {
            Err(denied) if denied.errno == Errno::EACCES => last = denied,
            Err(NotRun { errno: Errno::ENOENT | Errno::ENOTDIR, opened }) => last.opened |= opened,
            other => return other,
        }
    }
    Err(last)
}

/// Prints the reason and ends the pod.
fn fail(failure: NotRun, name: &[u8]) -> ! {
    let (code, reason) = match failure.errno {
        Errno::ENOENT | Errno::ENOTDIR if failure.opened => {
            (NOT_FOUND, "its interpreter or loader is not found; grant that, too (--ro PATH)")
        }
        Errno::ENOENT | Errno::ENOTDIR => {
            (NOT_FOUND, "not found; name a program that the pod sees, or grant it (--ro PATH)")
        }
        Errno::EACCES | Errno::EPERM => (NOT_RUNNABLE, "permission denied; check that its mode permits to execute it"),
        Errno::ENOEXEC => {
            (NOT_RUNNABLE, "not an executable of this machine; name a 64-bit program or a script with #!")
        }
        Errno::EISDIR => (NOT_RUNNABLE, "is a directory; name a program"),
        Errno::ENOMEM => (NOT_RUNNABLE, "out of memory; raise --memory"),
        Errno::ELOOP => (NOT_RUNNABLE, "too many symbolic links or interpreters; check where they lead"),
        Errno::ENAMETOOLONG => (NOT_RUNNABLE, "the name is too long; name a shorter path"),
        Errno::E2BIG => {
            (NOT_RUNNABLE, "too many arguments and variables; pass fewer, or raise the stack limit (ulimit -s)")
        }
        _ => (NOT_RUNNABLE, "can't be executed; check the file"),
    };
    let text = alloc::format!("hull: {}: {reason}", String::from_utf8_lossy(name));
    crate::sched::connector::end(code, text.as_bytes())
}
