//! `stat`, `statm`, `sched`, `schedstat`: a process in numbers.

use super::memory;
use super::subject::{Subject, may_inspect};
use crate::mm;
use crate::sched::Usage;
use crate::task::{Process, Task};
use crate::time::clock;
use abi::layout::PAGE_SIZE;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use uapi::Result;
use uapi::raw::general as g;

/// ns of a clock tick, `sysconf(_SC_CLK_TCK)`.
pub const TICK_NS: u64 = 10_000_000;
/// `PF_FORKNOEXEC`, `PF_RANDOMIZE`, `PF_KTHREAD` of Linux.
const FORKED_WITHOUT_EXEC: u64 = 0x40;
const RANDOMIZE: u64 = 0x40_0000;
const KERNEL_THREAD: u64 = 0x20_0000;

/// State letter of a process or thread.
pub fn state(subject: &Subject, task: Option<&Rc<Task>>) -> char {
    match task {
        _ if subject.is_keel() => 'S',
        Some(task) => task.state_letter(),
        None => 'Z',
    }
}

/// Time used by a thread, or by the whole process.
fn usage(subject: &Subject, process: &Process, task: Option<&Rc<Task>>) -> Usage {
    match task {
        Some(task) if subject.is_thread() => task.sched.usage(),
        _ => process.usage(),
    }
}

/// Priority in `stat`'s format, nice value, real-time priority, policy.
fn priorities(task: Option<&Rc<Task>>) -> (i64, i64, u32, u32) {
    let Some(task) = task else { return (20, 0, 0, 0) };
    let (policy, real_time) = task.sched.policy.get();
    let nice = i64::from(task.sched.nice.get());
    let priority = if real_time > 0 { -1 - i64::from(real_time) } else { 20 + nice };
    (priority, nice, real_time, policy)
}

/// `stat`.
pub fn text(subject: &Subject) -> Result<Vec<u8>> {
    let process = subject.process()?;
    let task = subject.task()?;
    let task = task.as_ref();
    let space = task.and_then(|t| t.try_mm());
    let permitted = task.is_some_and(may_inspect);
    let layout = space.as_ref().map_or(mm::Layout::default(), |m| m.layout());
    let (mapped, resident) = space.as_ref().map_or((0, 0), |m| (m.mapped_bytes(), m.resident_bytes()));
    let resident = resident / PAGE_SIZE as u64;
    let (used, children) = (usage(subject, &process, task), process.children_usage());
    let session = process.session();
    let device = session.terminal.borrow().as_ref().map(crate::tty::terminal::device);
    let (terminal, foreground) = match device {
        Some((major, minor)) => {
            (major << 8 | minor & 0xff | (minor & !0xff) << 12, subject.shown(session.foreground.get()))
        }
        None => (0, -1),
    };
    let mut flags = if subject.is_keel() { KERNEL_THREAD } else { RANDOMIZE };
    if !subject.is_keel() && !process.did_exec.get() {
        flags |= FORKED_WITHOUT_EXEC;
    }
    let (priority, nice, real_time, policy) = priorities(task);
    let signals = task.map_or([0; 4], |t| {
        let (ignored, caught) = t.signals.actions().sets();
        // Truncated to 31 bits, for old programs.
        [t.signals.pending().0, t.signals.blocked().0, ignored.0, caught.0].map(|set| set & 0x7fff_ffff)
    });
    let ticks = |ns: u64| ns / TICK_NS;
    // Addresses are hidden without ptrace access; 1 replaces a hidden one.
    let address = |at: usize| if permitted { at } else { 0 };
    let code = |at: usize| if permitted || space.is_none() { at } else { 1 };
    let exit_signal = if subject.id() != subject.pid() { -1 } else { i64::from(process.exit_signal.get()) };
    let exit_code = if permitted || task.is_none() { process.zombie_status().unwrap_or(0) } else { 0 };
    let (limit, _) = process.limit(g::RLIMIT_RSS);
    let mut out = format!("{} (", subject.shown(subject.id())).into_bytes();
    out.extend_from_slice(&memory::comm(subject)?);
    let identity = format!(
        ") {} {} {} {} {terminal} {foreground} {flags}",
        state(subject, task),
        subject.shown(process.ppid()),
        subject.shown(process.group()),
        subject.shown(process.sid()),
    );
    let times = format!(
        "{} {} {} {} {} {} {} {} {priority} {nice} {} 0 {}",
        used.minor_faults,
        children.minor_faults,
        used.major_faults,
        children.major_faults,
        ticks(used.user_ns),
        ticks(used.system_ns),
        ticks(children.user_ns),
        ticks(children.system_ns),
        process.thread_count(),
        ticks(started_boottime_ns(subject, &process, task)),
    );
    let places = format!(
        "{mapped} {resident} {limit} {} {} {} 0 0 {} {} {} {} 0 0 0",
        code(layout.start_code),
        code(layout.end_code),
        address(layout.start_stack),
        signals[0],
        signals[1],
        signals[2],
        signals[3],
    );
    let cpu = task.map_or(0, |task| task.sched.cpu());
    let rest = format!(
        "{exit_signal} {cpu} {real_time} {policy} 0 0 0 {} {} {} {} {} {} {} {exit_code}\n",
        address(layout.start_data),
        address(layout.end_data),
        address(layout.start_brk),
        address(layout.arg_start),
        address(layout.arg_end),
        address(layout.env_start),
        address(layout.env_end),
    );
    out.extend_from_slice([identity, times, places, rest].join(" ").as_bytes());
    Ok(out)
}

/// Start of a process or thread in ns since boot.
fn started_boottime_ns(subject: &Subject, process: &Process, task: Option<&Rc<Task>>) -> u64 {
    let started = match task {
        Some(task) if subject.is_thread() => task.started_ns(),
        _ => process.started_ns(),
    };
    let slept = clock::boottime_ns().saturating_sub(hal::clock::monotonic_ns());
    started + slept
}

/// Bytes of the pages that hold the program's text.
pub fn text_bytes(layout: &mm::Layout) -> u64 {
    let end = layout.end_code.saturating_add(PAGE_SIZE - 1) / PAGE_SIZE;
    (end.saturating_sub(layout.start_code / PAGE_SIZE) * PAGE_SIZE) as u64
}

/// `statm`: pages.
pub fn memory(subject: &Subject) -> Result<Vec<u8>> {
    let space = subject.task()?.and_then(|t| t.try_mm());
    let Some(space) = space else { return Ok(b"0 0 0 0 0 0 0\n".to_vec()) };
    let (usage, layout) = (space.usage(), space.layout());
    let pages = |bytes: u64| bytes / PAGE_SIZE as u64;
    let shared = usage.file + usage.shared;
    let text = text_bytes(&layout);
    let line = format!(
        "{} {} {} {} 0 {} 0\n",
        pages(usage.mapped),
        pages(usage.anonymous + shared),
        pages(shared),
        pages(text),
        pages(usage.data + usage.stack),
    );
    Ok(line.into_bytes())
}

/// `schedstat`: ns on a processor, ns waiting for one (not counted), number of times it got one.
pub fn scheduling_times(subject: &Subject) -> Result<Vec<u8>> {
    let (process, task) = (subject.process()?, subject.task()?);
    let used = usage(subject, &process, task.as_ref());
    let times = used.voluntary + used.involuntary;
    Ok(format!("{} 0 {times}\n", used.user_ns + used.system_ns).into_bytes())
}

/// `sched`: Linux's fields as far as keel counts them.
pub fn scheduling(subject: &Subject) -> Result<Vec<u8>> {
    let (process, task) = (subject.process()?, subject.task()?);
    let used = usage(subject, &process, task.as_ref());
    let (priority, _, _, policy) = priorities(task.as_ref());
    let mut out = memory::comm(subject)?;
    let threads = process.thread_count();
    out.extend_from_slice(format!(" ({}, #threads: {threads})\n{:->67}\n", subject.shown(subject.id()), "").as_bytes());
    let ns = used.user_ns + used.system_ns;
    let milliseconds = format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000);
    let rows: [(&str, String); 6] = [
        ("se.sum_exec_runtime", milliseconds),
        ("nr_switches", format!("{}", used.voluntary + used.involuntary)),
        ("nr_voluntary_switches", format!("{}", used.voluntary)),
        ("nr_involuntary_switches", format!("{}", used.involuntary)),
        ("policy", format!("{policy}")),
        ("prio", format!("{}", priority + 100)),
    ];
    for (name, value) in rows {
        out.extend_from_slice(format!("{name:<45}:{value:>21}\n").as_bytes());
    }
    Ok(out)
}
