//! `status`: a process for people to read.

use super::memory;
use super::stat;
use super::subject::Subject;
use crate::mm::Mm;
use crate::task::{Task, pidns};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use uapi::Result;
use uapi::raw::general as g;
use vfs::memory::Text;

/// Words of the mask of memory nodes, of which there is one.
const NODE_WORDS: usize = 32;

/// `status`.
pub fn text(subject: &Subject) -> Result<Vec<u8>> {
    let process = subject.process()?;
    let task = subject.task()?;
    let task = task.as_ref();
    let mut text = Text::default();
    text.add(b"Name:\t");
    text.add(&escaped(&memory::comm(subject)?));
    text.add(b"\n");
    if let Some(fs) = task.and_then(|t| t.try_fs()) {
        line(&mut text, "Umask", &format!("{:04o}", fs.umask()));
    }
    let letter = stat::state(subject, task);
    line(&mut text, "State", &format!("{letter} ({})", state_name(letter)));
    let (pid, id) = (process.pid(), subject.id());
    line(&mut text, "Tgid", &format!("{}", subject.shown(pid)));
    line(&mut text, "Ngid", "0");
    line(&mut text, "Pid", &format!("{}", subject.shown(id)));
    line(&mut text, "PPid", &format!("{}", subject.shown(process.ppid())));
    line(&mut text, "TracerPid", &format!("{}", subject.shown(task.map_or(0, |t| t.traced.tracer_pid()))));
    let ids = task.map_or([process.last_uid(), 0], |t| [t.cred().uid, t.cred().gid]);
    let (uids, gids) = match task.map(|t| t.cred()) {
        Some(c) => ([c.uid, c.euid, c.suid, c.fsuid], [c.gid, c.egid, c.sgid, c.fsgid]),
        None => ([ids[0]; 4], [ids[1]; 4]),
    };
    let reader = crate::task::with_current(|me| me.cred().user_ns.clone());
    let (uids, gids) = (uids.map(|id| reader.shown_uid(id)), gids.map(|id| reader.shown_gid(id)));
    for (name, [real, effective, saved, fs]) in [("Uid", uids), ("Gid", gids)] {
        line(&mut text, name, &format!("{real}\t{effective}\t{saved}\t{fs}"));
    }
    line(&mut text, "FDSize", &format!("{}", task.map_or(0, table_size)));
    text.add(b"Groups:\t");
    if let Some(task) = task {
        task.cred().groups.iter().for_each(|group| text.print(format_args!("{} ", reader.shown_gid(*group))));
    }
    text.add(if task.is_some_and(|t| !t.cred().groups.is_empty()) { b"\n" } else { b" \n" });
    for (name, id) in [("NStgid", pid), ("NSpid", id), ("NSpgid", process.group()), ("NSsid", process.sid())] {
        let levels = pidns::levels(&process, id);
        let ids = levels.iter().skip(subject.levels_above()).map(|id| format!("{id}")).collect::<Vec<_>>();
        line(&mut text, name, &ids.join("\t"));
    }
    line(&mut text, "Kthread", if subject.is_keel() { "1" } else { "0" });
    if let Some(mm) = task.and_then(|t| t.try_mm()) {
        sizes(&mut text, &mm, process.usage().max_resident);
        line(&mut text, "CoreDumping", "0");
        line(&mut text, "THP_enabled", if mm.has_huge_pages() { "1" } else { "0" });
        line(&mut text, "untag_mask", "0xffffffffffffffff");
    }
    line(&mut text, "Threads", &format!("{}", process.thread_count().max(1)));
    signals(&mut text, subject, task)?;
    capabilities(&mut text, task);
    line(&mut text, "NoNewPrivs", if task.is_some_and(|t| t.no_new_privs()) { "1" } else { "0" });
    let (mode, filters) = task.map_or((0, 0), |t| t.seccomp.status());
    line(&mut text, "Seccomp", &format!("{mode}"));
    line(&mut text, "Seccomp_filters", &format!("{filters}"));
    line(&mut text, "Speculation_Store_Bypass", "unknown");
    line(&mut text, "SpeculationIndirectBranch", "unknown");
    let cpus = hal::boot::boot_info().cpus.clamp(1, 64);
    let allowed = task.map_or(u64::MAX, |t| t.sched.affinity.get()) & (u64::MAX >> (64 - cpus));
    line(&mut text, "Cpus_allowed", &mask(allowed, cpus));
    line(&mut text, "Cpus_allowed_list", &list(allowed));
    let nodes = format!("{}00000001", "00000000,".repeat(NODE_WORDS - 1));
    line(&mut text, "Mems_allowed", &nodes);
    line(&mut text, "Mems_allowed_list", "0");
    let used = task.map(|t| t.sched.usage()).unwrap_or_default();
    line(&mut text, "voluntary_ctxt_switches", &format!("{}", used.voluntary));
    line(&mut text, "nonvoluntary_ctxt_switches", &format!("{}", used.involuntary));
    text.done()
}

fn line(text: &mut Text, name: &str, value: &str) {
    text.print(format_args!("{name}:\t{value}\n"));
}

/// A name with its line ends and backslashes escaped.
fn escaped(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for &byte in name {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            other => out.push(other),
        }
    }
    out
}

const fn state_name(letter: char) -> &'static str {
    match letter {
        'R' => "running",
        'S' => "sleeping",
        'D' => "disk sleep",
        't' => "tracing stop",
        'T' => "stopped",
        _ => "zombie",
    }
}

/// Slots of the descriptor table: Linux begins with 64 and doubles.
fn table_size(task: &Rc<Task>) -> usize {
    task.try_files().map_or(0, |files| files.slots().max(64).next_power_of_two())
}

/// The `Vm` lines. `highest`: the largest resident size that was ever accounted.
fn sizes(text: &mut Text, mm: &Mm, highest: u64) {
    let usage = mm.usage();
    let resident = usage.anonymous + usage.file + usage.shared;
    let program = stat::text_bytes(&mm.layout());
    // A 4 KiB page table maps 2 MiB, and there are few tables above.
    let tables = (resident >> 21) * 4096 + 4 * 4096;
    let rows = [
        ("VmPeak", usage.mapped),
        ("VmSize", usage.mapped),
        ("VmLck", usage.locked),
        ("VmPin", 0),
        ("VmHWM", resident.max(highest)),
        ("VmRSS", resident),
        ("RssAnon", usage.anonymous),
        ("RssFile", usage.file),
        ("RssShmem", usage.shared),
        ("VmData", usage.data),
        ("VmStk", usage.stack),
        ("VmExe", program),
        ("VmLib", usage.text.saturating_sub(program)),
        ("VmPTE", tables),
        ("VmSwap", 0),
        ("HugetlbPages", 0),
    ];
    for (name, bytes) in rows {
        line(text, name, &format!("{:>8} kB", bytes / 1024));
    }
}

fn signals(text: &mut Text, subject: &Subject, task: Option<&Rc<Task>>) -> Result<()> {
    let process = subject.process()?;
    let shared = process.signal_state().pending();
    let queued = process.signals.pending.borrow().len() + task.map_or(0, |t| t.signals.pending.borrow().len());
    line(text, "SigQ", &format!("{queued}/{}", process.limit(g::RLIMIT_SIGPENDING).0));
    let (own, blocked, (ignored, caught)) = match task {
        Some(t) => (t.signals.pending().0, t.signals.blocked().0, t.signals.actions().sets()),
        None => (0, 0, Default::default()),
    };
    let rows =
        [("SigPnd", own), ("ShdPnd", shared.0), ("SigBlk", blocked), ("SigIgn", ignored.0), ("SigCgt", caught.0)];
    for (name, set) in rows {
        line(text, name, &format!("{set:016x}"));
    }
    Ok(())
}

fn capabilities(text: &mut Text, task: Option<&Rc<Task>>) {
    let sets = task.map_or([0; 5], |t| {
        let c = t.cred();
        [c.cap_inheritable, c.cap_permitted, c.cap_effective, c.cap_bounding, c.cap_ambient]
    });
    for (name, set) in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].into_iter().zip(sets) {
        line(text, name, &format!("{set:016x}"));
    }
}

/// A bit mask of `bits` bits in words of 32 bits.
pub fn mask(set: u64, bits: u32) -> String {
    let digits = |bits: u32| bits.div_ceil(4) as usize;
    if bits <= 32 {
        format!("{set:0width$x}", width = digits(bits))
    } else {
        format!("{:0width$x},{:08x}", set >> 32, set as u32, width = digits(bits - 32))
    }
}

/// A bit mask as ranges: `0-3,7`.
pub fn list(set: u64) -> String {
    let mut ranges: Vec<String> = Vec::new();
    let mut at = 0;
    while at < 64 {
        if set >> at & 1 == 0 {
            at += 1;
            continue;
        }
        let len = (set >> at).trailing_ones();
        ranges.push(if len == 1 { format!("{at}") } else { format!("{at}-{}", at + len - 1) });
        at += len;
    }
    ranges.join(",")
}
