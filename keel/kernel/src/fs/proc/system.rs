//! System-wide files: `stat`, `uptime`, `loadavg`, `version`, and empty tables.

use super::stat::TICK_NS;
use crate::ipc;
use crate::sched;
use crate::sched::Usage;
use crate::sched::load;
use crate::task::pid;
use crate::task::process;
use crate::task::uts;
use crate::time::{SECOND, clock};
use alloc::format;
use alloc::string::String;
use vfs::synth::{Table, table};

/// `cmdline`: keel is started without one.
pub const COMMAND_LINE: &str = "\n";

/// `consoles`.
pub const CONSOLES: &str = "console              -W- (EC  p  )    5:1\n";

/// `cgroups`: all controllers are in the unified hierarchy.
pub const CGROUPS: &str = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n\
     cpuset\t0\t1\t1\ncpu\t0\t1\t1\ncpuacct\t0\t1\t1\nmemory\t0\t1\t1\npids\t0\t1\t1\n";

/// `devices`.
pub const DEVICES: &str = "Character devices:\n  1 mem\n  5 /dev/tty\n  5 /dev/console\n  5 /dev/ptmx\n128 ptm\n136 pts\n\
     \nBlock devices:\n";

/// `tty`: drivers, for programs that search the names of terminals.
pub fn terminals() -> Table {
    table([(
        "drivers",
        super::constant(
            "/dev/tty             /dev/tty        5       0 system:/dev/tty\n\
             /dev/console         /dev/console    5       1 system:console\n\
             /dev/ptmx            /dev/ptmx       5       2 system\n\
             pty_slave            /dev/pts      136 0-1048575 pty:slave\n\
             pty_master           /dev/ptm      128 0-1048575 pty:master\n",
        ),
    )])
}

/// `sysvipc`: the objects of each kind.
pub fn sysvipc() -> Table {
    table([
        ("msg", super::list(ipc::msg::table)),
        ("sem", super::list(ipc::sem::table)),
        ("shm", super::list(ipc::shm::table)),
    ])
}

/// Number of virtual CPUs.
pub fn cpus() -> u32 {
    hal::boot::boot_info().cpus.clamp(1, 64)
}

/// Resource usage of all processes, including ended ones.
fn used() -> Usage {
    let mut sum = pid::init_process().children_usage();
    for process in process::all() {
        sum.add(&process.usage());
        sum.add(&process.children_usage());
    }
    sum
}

/// Idle time of the virtual CPUs in ns.
fn idle_ns(used: &Usage) -> u64 {
    (clock::boottime_ns().saturating_mul(u64::from(cpus()))).saturating_sub(used.user_ns + used.system_ns)
}

/// `uptime`: seconds since boot, and idle seconds of all CPUs.
pub fn uptime() -> String {
    let hundredths = |ns: u64| format!("{}.{:02}", ns / SECOND, ns % SECOND / TICK_NS);
    format!("{} {}\n", hundredths(clock::boottime_ns()), hundredths(idle_ns(&used())))
}

/// `loadavg`.
pub fn load_averages() -> String {
    let loads = load::averages().map(|load| format!("{}.{:02}", load >> 16, ((load & 0xffff) * 100) >> 16));
    format!("{} {}/{} {}\n", loads.join(" "), sched::runnable(), pid::thread_count(), pid::last())
}

/// `version`.
pub fn version() -> String {
    let names = uts::system();
    format!(
        "Linux version {} (hull@hull) (rustc) {}\n",
        String::from_utf8_lossy(&names.release),
        String::from_utf8_lossy(&names.version)
    )
}

/// `stat`. Times are not counted per CPU: each gets an equal share.
pub fn statistics() -> String {
    let used = used();
    let idle = idle_ns(&used);
    let row = |name: String, share: u64| {
        let [user, system, idle] = [used.user_ns, used.system_ns, idle].map(|ns| ns / TICK_NS / share);
        format!("{name} {user} 0 {system} {idle} 0 0 0 0 0 0\n")
    };
    let mut text = row("cpu ".into(), 1);
    for cpu in 0..cpus() {
        text.push_str(&row(format!("cpu{cpu}"), u64::from(cpus())));
    }
    let booted = hal::clock::realtime_ns().saturating_sub(clock::boottime_ns()) / SECOND;
    text.push_str(&format!(
        "intr 0\nctxt {}\nbtime {booted}\nprocesses {}\nprocs_running {}\nprocs_blocked 0\n\
         softirq 0 0 0 0 0 0 0 0 0 0 0\n",
        used.voluntary + used.involuntary,
        pid::last(),
        sched::runnable(),
    ));
    text
}

/// The head of a table with a column for each CPU.
fn cpu_columns(indent: usize) -> String {
    let columns: String = (0..cpus()).map(|cpu| format!("{:<11}", format!("CPU{cpu}"))).collect();
    format!("{:indent$}{columns}\n", "")
}

/// `interrupts`: keel has none.
pub fn interrupts() -> String {
    format!("{}ERR:          0\nMIS:          0\n", cpu_columns(11))
}

/// `softirqs`.
pub fn soft_interrupts() -> String {
    let zeros: String = (0..cpus()).map(|_| format!(" {:>10}", 0)).collect();
    let names = ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    let rows = names.map(|name| format!("{name:>12}:{zeros}\n"));
    format!("{}{}", cpu_columns(20), rows.concat())
}
