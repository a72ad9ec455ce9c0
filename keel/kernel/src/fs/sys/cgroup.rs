//! `/sys/fs/cgroup`: the pod as one control group of the unified hierarchy, as a container sees its own.

use crate::sched::Usage;
use crate::task::{pid, process};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use hal::cell::Global;
use uapi::Result;
use vfs::Inode;
use vfs::memory::Text;
use vfs::synth::{Entry, SynthFs, Table, table};
use vfs::tree::Tree;

/// `f_type` of cgroup2.
const MAGIC: u64 = 0x6367_7270;

/// The root of the hierarchy, in a new instance.
pub fn root(tree: &Tree) -> Rc<dyn Inode> {
    SynthFs::new(tree.new_dev(), MAGIC, directory())
}

/// A text file that is generated at each read.
fn text(make: impl Fn() -> String + 'static) -> Entry {
    Entry::file(0o444, move || Ok(make().into_bytes()))
}

fn constant(content: &'static str) -> Entry {
    Entry::file(0o444, move || Ok(content.as_bytes().to_vec()))
}

fn limit() -> u64 {
    hal::frame::ram_usage().limit
}

fn used() -> u64 {
    let ram = hal::frame::ram_usage();
    ram.total.saturating_sub(ram.free)
}

/// Limit of the pod's processor time in microseconds per period, which the monitor enforces.
static PROCESSOR_TIME: Global<Cell<Option<u64>>> = Global::new(Cell::new(None));

/// Period of that limit in microseconds, the default of Linux.
const PERIOD: u64 = 100_000;

/// What `cpu.max` shows from now on.
pub fn show_processor_limit(limit: Option<u64>) {
    PROCESSOR_TIME.set(limit);
}

/// `cpu.max`: quota and period.
fn processor_limit() -> String {
    match PROCESSOR_TIME.get() {
        Some(quota) => format!("{quota} {PERIOD}\n"),
        None => format!("max {PERIOD}\n"),
    }
}

fn directory() -> Table {
    table([
        ("cgroup.controllers", constant("cpuset cpu memory pids\n")),
        ("cgroup.events", constant("populated 1\nfrozen 0\n")),
        ("cgroup.freeze", constant("0\n")),
        ("cgroup.max.depth", constant("max\n")),
        ("cgroup.max.descendants", constant("max\n")),
        ("cgroup.procs", Entry::file(0o444, || ids(false))),
        ("cgroup.stat", constant("nr_descendants 0\nnr_dying_descendants 0\n")),
        ("cgroup.subtree_control", constant("")),
        ("cgroup.threads", Entry::file(0o444, || ids(true))),
        ("cgroup.type", constant("domain\n")),
        ("cpu.idle", constant("0\n")),
        ("cpu.max", text(processor_limit)),
        ("cpu.max.burst", constant("0\n")),
        ("cpu.stat", text(cpu_statistics)),
        ("cpu.weight", constant("100\n")),
        ("cpu.weight.nice", constant("0\n")),
        ("cpuset.cpus", constant("\n")),
        ("cpuset.cpus.effective", text(|| format!("{}\n", super::cpu::all_list()))),
        ("cpuset.mems", constant("\n")),
        ("cpuset.mems.effective", constant("0\n")),
        ("memory.current", text(|| format!("{}\n", used()))),
        ("memory.events", constant("low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n")),
        ("memory.high", constant("max\n")),
        ("memory.low", constant("0\n")),
        ("memory.max", text(|| format!("{}\n", limit()))),
        ("memory.min", constant("0\n")),
        ("memory.oom.group", constant("0\n")),
        ("memory.stat", text(memory_statistics)),
        ("memory.swap.current", constant("0\n")),
        ("memory.swap.events", constant("high 0\nmax 0\nfail 0\n")),
        ("memory.swap.high", constant("max\n")),
        ("memory.swap.max", constant("0\n")),
        ("pids.current", text(|| format!("{}\n", pid::thread_count()))),
        ("pids.events", text(|| format!("max {}\n", pid::thread_limit().1))),
        ("pids.max", text(|| pid::thread_limit().0.map_or("max\n".into(), |most| format!("{most}\n")))),
    ])
}

/// Ids of all processes, or of all threads.
fn ids(threads: bool) -> Result<Vec<u8>> {
    let mut text = Text::default();
    let mut add = |id: i32| text.print(format_args!("{id}\n"));
    for process in process::all() {
        match threads {
            true => process.threads().for_each(|thread| add(thread.tid())),
            false => add(process.pid()),
        }
    }
    text.done()
}

fn cpu_statistics() -> String {
    let mut sum: Usage = pid::init_process().children_usage();
    for process in process::all() {
        sum.add(&process.usage());
        sum.add(&process.children_usage());
    }
    let (user, system) = (sum.user_ns / 1000, sum.system_ns / 1000);
    format!(
        "usage_usec {}\nuser_usec {user}\nsystem_usec {system}\nnice_usec 0\nnr_periods 0\nnr_throttled 0\n\
         throttled_usec 0\nnr_bursts 0\nburst_usec 0\n",
        user + system
    )
}

fn memory_statistics() -> String {
    let file = crate::fs::setup::cached_bytes().min(used());
    let anonymous = used() - file;
    let stacks = pid::thread_count() as u64 * 32 * 1024;
    let rows = [
        ("anon", anonymous),
        ("file", file),
        ("kernel", stacks),
        ("kernel_stack", stacks),
        ("pagetables", 0),
        ("sock", 0),
        ("shmem", 0),
        ("file_mapped", 0),
        ("file_dirty", 0),
        ("file_writeback", 0),
        ("swapcached", 0),
        ("anon_thp", 0),
        ("inactive_anon", 0),
        ("active_anon", anonymous),
        ("inactive_file", file),
        ("active_file", 0),
        ("unevictable", 0),
        ("slab_reclaimable", 0),
        ("slab_unreclaimable", 0),
        ("slab", 0),
        ("pgfault", 0),
        ("pgmajfault", 0),
    ];
    rows.into_iter().map(|(name, value)| format!("{name} {value}\n")).collect()
}
