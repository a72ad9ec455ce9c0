//! `meminfo` and `vmstat`.

use crate::fs::setup;
use crate::task::{pid, process};
use abi::layout::PAGE_SIZE;
use alloc::format;
use alloc::string::String;

/// Memory of the pod in bytes.
struct Figures {
    /// Maximum memory.
    total: u64,
    free: u64,
    /// Cached content of files.
    cached: u64,
    /// Names that are kept, with their inodes; most of them nobody uses.
    names: u64,
    /// Anonymous memory of programs.
    anonymous: u64,
    /// Mapped files.
    mapped: u64,
    shared: u64,
    /// Mapped, touched or not.
    committed: u64,
}

impl Figures {
    fn now() -> Self {
        let ram = hal::frame::ram_usage();
        let used = ram.total.saturating_sub(ram.free);
        let (mut anonymous, mut mapped, mut shared, mut committed) = (0, 0, 0, 0);
        for process in process::all() {
            if let Some(mm) = process.main_thread().and_then(|t| t.try_mm()) {
                let usage = mm.usage();
                anonymous += usage.anonymous;
                mapped += usage.file;
                shared += usage.shared;
                committed += usage.data + usage.stack;
            }
        }
        let free = ram.limit.saturating_sub(used);
        let cached = setup::cached_bytes().min(used);
        let names = ((vfs::memory::name_pages() * PAGE_SIZE) as u64).min(used - cached);
        Self { total: ram.limit, free, cached, names, anonymous: anonymous.min(used), mapped, shared, committed }
    }
}

/// `meminfo`.
pub fn text() -> String {
    let f = Figures::now();
    let stacks = pid::thread_count() as u64 * 32 * 1024;
    let rows = [
        ("MemTotal", f.total),
        ("MemFree", f.free),
        ("MemAvailable", f.free + f.cached + f.names),
        ("Buffers", 0),
        ("Cached", f.cached + f.shared),
        ("SwapCached", 0),
        ("Active", f.anonymous + f.cached),
        ("Inactive", 0),
        ("Active(anon)", f.anonymous),
        ("Inactive(anon)", 0),
        ("Active(file)", f.cached),
        ("Inactive(file)", 0),
        ("Unevictable", 0),
        ("Mlocked", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Zswap", 0),
        ("Zswapped", 0),
        ("Dirty", 0),
        ("Writeback", 0),
        ("AnonPages", f.anonymous),
        ("Mapped", f.mapped),
        ("Shmem", f.shared),
        ("KReclaimable", f.names),
        ("Slab", f.names),
        ("SReclaimable", f.names),
        ("SUnreclaim", 0),
        ("KernelStack", stacks),
        ("PageTables", 0),
        ("SecPageTables", 0),
        ("NFS_Unstable", 0),
        ("Bounce", 0),
        ("WritebackTmp", 0),
        ("CommitLimit", f.total / 2),
        ("Committed_AS", f.committed),
        ("VmallocTotal", 34_359_738_367 * 1024),
        ("VmallocUsed", 0),
        ("VmallocChunk", 0),
        ("Percpu", 0),
        ("AnonHugePages", 0),
        ("ShmemHugePages", 0),
        ("ShmemPmdMapped", 0),
        ("FileHugePages", 0),
        ("FilePmdMapped", 0),
    ];
    let mut text: String = rows.into_iter().map(|(name, bytes)| row(name, bytes)).collect();
    for name in ["Total", "Free", "Rsvd", "Surp"] {
        text.push_str(&format!("{:<16}{:>8}\n", format!("HugePages_{name}:"), 0));
    }
    for (name, bytes) in [("Hugepagesize", 2 << 20), ("Hugetlb", 0), ("DirectMap4k", f.total)] {
        text.push_str(&row(name, bytes));
    }
    text
}

/// A line of a size in kB.
pub fn row(name: &str, bytes: u64) -> String {
    format!("{:<16}{:>8} kB\n", format!("{name}:"), bytes / 1024)
}

/// `vmstat`: commonly used counters.
pub fn vm_statistics() -> String {
    let f = Figures::now();
    let faults = process::all().map(|p| p.usage().minor_faults).sum();
    let pages = |bytes: u64| bytes / PAGE_SIZE as u64;
    let rows = [
        ("nr_free_pages", pages(f.free)),
        ("nr_inactive_anon", 0),
        ("nr_active_anon", pages(f.anonymous)),
        ("nr_inactive_file", 0),
        ("nr_active_file", pages(f.cached)),
        ("nr_unevictable", 0),
        ("nr_mlock", 0),
        ("nr_anon_pages", pages(f.anonymous)),
        ("nr_mapped", pages(f.mapped)),
        ("nr_file_pages", pages(f.cached + f.shared)),
        ("nr_dirty", 0),
        ("nr_writeback", 0),
        ("nr_shmem", pages(f.shared)),
        ("pgpgin", 0),
        ("pgpgout", 0),
        ("pswpin", 0),
        ("pswpout", 0),
        ("pgfault", faults),
        ("pgmajfault", 0),
        ("pgscan_kswapd", 0),
        ("pgscan_direct", 0),
        ("pgsteal_kswapd", 0),
        ("pgsteal_direct", 0),
        ("oom_kill", 0),
    ];
    rows.into_iter().map(|(name, value)| format!("{name} {value}\n")).collect()
}
