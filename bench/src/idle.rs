//! Resources of idle pods: memory, wake-ups, processor time.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::place::Place;
use crate::run::pod;

/// Number of idle pods.
const PODS: usize = 8;
/// Duration of the measurement.
const WATCH: Duration = Duration::from_secs(1);

/// A pod that waits until it is dropped.
struct Waiting(Child);

impl Drop for Waiting {
    fn drop(&mut self) {
        // Ignore the error if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Per pod: memory of its processes with page tables and KVM's tables in bytes, decrease of the host's MemAvailable in
/// bytes, wake-ups per second, nanoseconds of processor time per second.
pub fn measure(place: &Place) -> Result<Vec<f64>> {
    let (tables_before, available_before) = (memory("SecPageTables:")?, memory("MemAvailable:")?);
    let pods: Vec<Waiting> = (0..PODS).map(|_| start(place, "pause")).collect::<Result<_>>()?;
    // Skip the activity after the start, such as threads that check once more.
    sleep(WATCH / 4);
    let processes: Vec<u32> = pods.iter().flat_map(|pod| family(pod.0.id())).collect();
    let before = activity(&processes)?;
    sleep(WATCH);
    let after = activity(&processes)?;
    let own = processes.iter().map(|process| resident(*process)).sum::<Result<f64>>()?;
    let tables = (memory("SecPageTables:")? - tables_before).max(0.0);
    let taken = (available_before - memory("MemAvailable:")?).max(0.0);
    let per_pod = |number: f64| number / PODS as f64;
    let per_second = |number: f64| per_pod(number) / WATCH.as_secs_f64();
    Ok(vec![
        per_pod(own + tables),
        per_pod(taken),
        per_second(after.wakeups - before.wakeups),
        per_second(after.nanoseconds - before.nanoseconds),
    ])
}

/// Memory of a pod with page tables and KVM's tables, in bytes, one second after it freed 400 MB.
pub fn measure_returned(place: &Place) -> Result<Vec<f64>> {
    let before = memory("SecPageTables:")?;
    let pod = start(place, "use")?;
    sleep(WATCH);
    let own = family(pod.0.id()).into_iter().map(resident).sum::<Result<f64>>()?;
    Ok(vec![own + (memory("SecPageTables:")? - before).max(0.0)])
}

fn start(place: &Place, workload: &str) -> Result<Waiting> {
    let mut command = pod(place, &[]);
    command.arg(format!("{}/static", Place::IN_POD)).arg(workload);
    let mut pod = Waiting(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
    let mut line = String::new();
    BufReader::new(pod.0.stdout.take().context("the pod has a pipe")?).read_line(&mut line)?;
    ensure!(!line.is_empty(), "the pod ended before it waited");
    Ok(pod)
}

/// A process and its descendants.
pub(crate) fn family(process: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let children = children.split_ascii_whitespace().filter_map(|word| word.parse().ok());
    std::iter::once(process).chain(children.flat_map(family)).collect()
}

/// Bytes on a line of a text like /proc/meminfo, 0 without that line.
fn field(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_ascii_whitespace().next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0) * 1024.0
}

fn memory(name: &str) -> Result<f64> {
    Ok(field(&fs::read_to_string("/proc/meminfo")?, name))
}

/// Memory of a process in bytes: PSS and page tables.
fn resident(process: u32) -> Result<f64> {
    let pages = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    Ok(field(&pages, "Pss:") + field(&status, "VmPTE:"))
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Activity {
    /// Time slices.
    pub wakeups: f64,
    /// Processor time.
    pub nanoseconds: f64,
}

/// Total activity of all threads of these processes.
pub(crate) fn activity(processes: &[u32]) -> Result<Activity> {
    let mut sum = Activity::default();
    for process in processes {
        for thread in fs::read_dir(format!("/proc/{process}/task"))? {
            let thread = thread?.path();
            let times = fs::read_to_string(thread.join("schedstat"))?;
            // Time on a processor in ns, time in the run queue, number of time slices.
            let mut times = times.split_ascii_whitespace().map(|word| word.parse::<f64>().unwrap_or(0.0));
            sum.nanoseconds += times.next().unwrap_or(0.0);
            sum.wakeups += times.nth(1).unwrap_or(0.0);
        }
    }
    Ok(sum)
}
