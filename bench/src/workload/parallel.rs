//! Speed-up by more workers: the same operation in one worker and in several, each on separate objects.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anyhow::{Context, Result, bail, ensure};

use super::wake::{process, reap};
use super::{check, compute, files, memory, processes, system_calls};

/// Maximum number of workers.
const MOST: usize = 16;

/// Kinds of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Processes,
    Threads,
}

/// A page that is shared with child processes.
#[repr(C)]
struct Shared {
    /// Workers that are ready to begin.
    ready: AtomicU32,
    /// Nanoseconds per operation of each worker (bits of an `f64`), 0 until it ended.
    costs: [AtomicU64; MOST],
}

impl Shared {
    /// A new shared page, all zero. It lives as long as the process: workloads end after one measurement.
    fn new() -> Result<&'static Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, large enough and aligned for the structure, all zero (valid for atomics), never
        // unmapped.
        unsafe {
            let page = libc::mmap(std::ptr::null_mut(), size_of::<Self>(), protection, flags, -1, 0);
            if page == libc::MAP_FAILED {
                check(-1)?;
            }
            Ok(&*page.cast::<Self>())
        }
    }
}

/// Total operations per nanosecond of `count` workers.
fn rate(kind: Kind, count: usize, operation: &str) -> Result<f64> {
    let shared = Shared::new()?;
    let work = |number: usize| {
        shared.ready.fetch_add(1, Ordering::SeqCst);
        while shared.ready.load(Ordering::SeqCst) < count as u32 {
            std::thread::yield_now();
        }
        let cost = cost(operation).unwrap_or(0.0);
        if let Some(slot) = shared.costs.get(number) {
            slot.store(cost.to_bits(), Ordering::SeqCst);
        }
    };
    match kind {
        Kind::Processes => {
            let children: Vec<_> = (0..count).map(|number| process(|| work(number))).collect();
            if children.iter().any(Result::is_err) {
                // Release the workers that were started.
                shared.ready.store(count as u32, Ordering::SeqCst);
            }
            children.iter().flatten().copied().for_each(reap);
            children.into_iter().collect::<Result<Vec<_>>>()?;
        }
        Kind::Threads => std::thread::scope(|scope| {
            for number in 0..count {
                scope.spawn(move || work(number));
            }
        }),
    }
    let costs = shared.costs.iter().take(count).map(|slot| f64::from_bits(slot.load(Ordering::SeqCst)));
    let costs: Vec<f64> = costs.collect();
    ensure!(costs.iter().all(|cost| *cost > 0.0), "a worker failed");
    Ok(costs.iter().map(|cost| 1.0 / cost).sum())
}

/// Nanoseconds per operation.
fn cost(operation: &str) -> Result<f64> {
    Ok(match operation {
        "spin" => compute::integer(),
        "devnull" => system_calls::devnull()?,
        "getppid" => system_calls::getppid(),
        "futex-wake" => system_calls::futex_wake(),
        "pipe" => system_calls::pipe_self()?,
        "unix" => system_calls::unix_self()?,
        "epoll" => system_calls::epoll_ready()?,
        "open" => files::open_close(c"/usr/bin/bash")?,
        "stat" => files::stat(c"/usr/bin/bash")?,
        "read-64k" => files::read_64k(c"/usr/bin/bash")?,
        "fork" => processes::fork_exit()?,
        "exec" => processes::fork_exec(c"/bin/true")?,
        "map" => memory::map_and_unmap()?,
        "memory" => memory::touch_1m()?,
        other => bail!("there is no parallel operation {other}"),
    })
}

/// `OPERATION,processes|threads,WORKERS`: the rate of that many workers divided by the rate of one.
pub fn gain(description: &str) -> Result<f64> {
    let mut words = description.split(',');
    let (operation, kind, workers) = (words.next(), words.next(), words.next());
    let operation = operation.context("an operation is needed")?;
    let kind = match kind {
        Some("processes") => Kind::Processes,
        Some("threads") => Kind::Threads,
        _ => bail!("workers are processes or threads"),
    };
    let workers: usize = workers.context("the number of workers is needed")?.parse()?;
    ensure!((1..=MOST).contains(&workers), "1 to {MOST} workers");
    // The first round starts virtual CPUs and fills caches.
    rate(kind, workers, operation)?;
    let one = rate(kind, 1, operation)?;
    let all = rate(kind, workers, operation)?;
    Ok(all / one)
}
