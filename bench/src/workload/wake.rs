//! Processes and threads that wait for each other.
#![allow(unsafe_code)]

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{check, measure};

/// Sends a byte and waits for the answer, in a loop.
pub(super) fn exchange(mut to: impl Write, mut from: impl Read) -> Result<f64> {
    let mut failed = Ok(());
    let cost = measure(10, || {
        let mut byte = [1];
        if let Err(error) = to.write_all(&byte).and_then(|()| from.read_exact(&mut byte)) {
            failed = Err(error);
        }
    });
    failed?;
    Ok(cost)
}

/// Answers each byte until the end of the stream.
pub(super) fn answer(mut from: impl Read, mut to: impl Write) {
    let mut byte = [0];
    while matches!(from.read(&mut byte), Ok(1)) && to.write_all(&byte).is_ok() {}
}

/// Starts a process that runs `body` and ends.
pub(super) fn process(body: impl FnOnce()) -> Result<libc::pid_t> {
    // SAFETY: this process has one thread; the child only reads and writes.
    let pid = check(i64::from(unsafe { libc::fork() }))?;
    if pid == 0 {
        body();
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(0) };
    }
    Ok(pid as libc::pid_t)
}

pub(super) fn reap(pid: libc::pid_t) {
    // SAFETY: no status is stored.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}

/// A byte to another process and back.
pub fn pipe() -> Result<f64> {
    let (in_child, to_child): (PipeReader, PipeWriter) = std::io::pipe()?;
    let (from_child, out_child) = std::io::pipe()?;
    let (own, theirs) = ((to_child, from_child), (in_child, out_child));
    let mut own = Some(own);
    let mut theirs = Some(theirs);
    let pid = process(|| {
        own = None;
        if let Some((from, to)) = theirs.take() {
            answer(from, to);
        }
    })?;
    drop(theirs);
    let cost = own.map_or(Ok(0.0), |(to, from)| exchange(to, from));
    reap(pid);
    cost
}

/// Pins this process and its children to one processor.
fn bind() -> Result<()> {
    // SAFETY: the set is valid; a set of all zeros is one without processors.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        check(i64::from(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set)))?;
        let last = (0..libc::CPU_SETSIZE as usize).rev().find(|cpu| libc::CPU_ISSET(*cpu, &set)).unwrap_or(0);
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(last, &mut set);
        check(i64::from(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)))?;
    }
    Ok(())
}

/// The same with both processes on one processor.
pub fn switch() -> Result<f64> {
    bind()?;
    pipe()
}

/// The lower bound for a guest: two switches of page tables.
pub fn switch_bare() -> Result<f64> {
    bind()?;
    Ok(monitor::switch_cost(&monitor::kvm::open()?)?.as_nanos() as f64)
}

/// A byte through a pipe to another thread and back, on one processor.
pub fn pipe_threads() -> Result<f64> {
    bind()?;
    let (in_thread, to_thread) = std::io::pipe()?;
    let (from_thread, out_thread) = std::io::pipe()?;
    let thread = std::thread::spawn(move || answer(in_thread, out_thread));
    let cost = exchange(to_thread, from_thread);
    // The thread has no result.
    let _ = thread.join();
    cost
}

/// Rounds of [`pipe_threads_cold`], and calls of each batch in them.
const ROUNDS: u32 = 200;
const BATCH: u32 = 100;

fn batch(mut operation: impl FnMut()) -> Duration {
    let start = Instant::now();
    (0..BATCH).for_each(|_| operation());
    start.elapsed()
}

/// A page whose permissions are changed and restored, which flushes the TLB, in a pod through its host.
struct Forgetful(*mut libc::c_void);

// SAFETY: the page is not accessed after it was made.
unsafe impl Send for Forgetful {}

impl Forgetful {
    const LEN: usize = 4096;

    fn new() -> Result<Self> {
        // SAFETY: a new mapping; the byte lies in it.
        unsafe {
            let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let page = libc::mmap(std::ptr::null_mut(), Self::LEN, prot, flags, -1, 0);
            anyhow::ensure!(page != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
            *page.cast::<u8>() = 1;
            Ok(Self(page))
        }
    }

    fn forget(&self) {
        for prot in [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
            // SAFETY: the page is this value's own.
            unsafe { libc::mprotect(self.0, Self::LEN, prot) };
        }
    }
}

/// [`pipe_threads`] with the TLB flushed before each answer, as after a switch between processes. Excludes the time of
/// the flush itself.
pub fn pipe_threads_cold() -> Result<f64> {
    bind()?;
    let (mut in_thread, mut to_thread) = std::io::pipe()?;
    let (mut from_thread, mut out_thread) = std::io::pipe()?;
    let (own, theirs) = (Forgetful::new()?, Forgetful::new()?);
    let thread = std::thread::spawn(move || {
        let theirs = theirs;
        let mut byte = [0];
        while matches!(in_thread.read(&mut byte), Ok(1)) {
            theirs.forget();
            if out_thread.write_all(&byte).is_err() {
                break;
            }
        }
    });
    let mut failed = Ok(());
    let mut both = || {
        let mut byte = [1];
        own.forget();
        if let Err(error) = to_thread.write_all(&byte).and_then(|()| from_thread.read_exact(&mut byte)) {
            failed = Err(error);
        }
    };
    // The result is a small difference of two long times: take the best of many short, alternating batches.
    let mut best = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        best[0] = best[0].min(batch(|| own.forget()));
        best[1] = best[1].min(batch(&mut both));
    }
    failed?;
    drop(to_thread);
    // The thread has no result.
    let _ = thread.join();
    let [forgetting, both] = best.map(|time| time.as_nanos() as f64 / f64::from(BATCH));
    Ok((both - 2.0 * forgetting).max(0.0))
}

/// Calls sched_yield until the end of the process.
fn give_way(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
}

/// sched_yield to another thread and back, on one processor.
pub fn yield_threads() -> Result<f64> {
    bind()?;
    let stop = Arc::new(AtomicBool::new(false));
    let thread = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || give_way(&stop)
    });
    let cost = measure(100, std::thread::yield_now);
    stop.store(true, Ordering::Relaxed);
    // The thread has no result.
    let _ = thread.join();
    Ok(cost)
}

/// sched_yield to another process and back, on one processor.
pub fn yield_processes() -> Result<f64> {
    bind()?;
    let pid = process(|| give_way(&AtomicBool::new(false)))?;
    let cost = measure(100, std::thread::yield_now);
    // SAFETY: the child has not been waited for, so the number is still its own.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    reap(pid);
    Ok(cost)
}

/// A byte through a pair of sockets to another thread and back.
pub fn unix_threads() -> Result<f64> {
    let (own, theirs) = UnixStream::pair()?;
    let thread = std::thread::spawn(move || answer(&theirs, &theirs));
    let cost = exchange(&own, &own);
    drop(own);
    // The thread has no result.
    let _ = thread.join();
    cost
}

/// A byte through a pair of sockets to another process and back.
pub fn unix_processes() -> Result<f64> {
    let (own, theirs) = UnixStream::pair()?;
    let mut own = Some(own);
    let pid = process(|| {
        own = None;
        answer(&theirs, &theirs);
    })?;
    drop(theirs);
    let cost = own.as_ref().map_or(Ok(0.0), |own| exchange(own, own));
    drop(own);
    reap(pid);
    cost
}

/// Two threads that alternate with a condition variable.
pub fn threads() -> f64 {
    let shared = Arc::new((Mutex::new(false), Condvar::new(), AtomicBool::new(false)));
    let other = {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || {
            let (turn, changed, stop) = &*shared;
            let mut theirs = lock(turn);
            while !stop.load(Ordering::Relaxed) {
                if *theirs {
                    *theirs = false;
                    changed.notify_one();
                }
                theirs = changed
                    .wait_while(theirs, |t| !*t && !stop.load(Ordering::Relaxed))
                    .unwrap_or_else(|e| e.into_inner());
            }
        })
    };
    let (turn, changed, stop) = &*shared;
    let cost = measure(10, || {
        let mut theirs = lock(turn);
        *theirs = true;
        changed.notify_one();
        drop(changed.wait_while(theirs, |t| *t).unwrap_or_else(|e| e.into_inner()));
    });
    {
        let _held = lock(turn);
        stop.store(true, Ordering::Relaxed);
        changed.notify_one();
    }
    // The thread has no result.
    let _ = other.join();
    cost
}

/// Takes the lock; a panic while it was held would have ended the program.
fn lock(turn: &Mutex<bool>) -> std::sync::MutexGuard<'_, bool> {
    turn.lock().unwrap_or_else(|error| error.into_inner())
}
