//! Processes and threads that wait for each other.

use std::ffi::CStr;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use anyhow::Result;

use super::{check, measure};

/// Forks; the child runs `child`, the parent waits for it.
fn fork_and_wait(child: impl Fn()) -> Result<i64> {
    // SAFETY: this process has one thread; the child only makes system calls.
    let pid = check(i64::from(unsafe { libc::fork() }))?;
    if pid == 0 {
        child();
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(127) };
    }
    let mut status = 0;
    // SAFETY: the status is valid for writing.
    check(i64::from(unsafe { libc::waitpid(pid as libc::pid_t, &raw mut status, 0) }))?;
    Ok(i64::from(libc::WEXITSTATUS(status)))
}

/// A child that ends at once.
pub fn fork_exit() -> Result<f64> {
    // SAFETY: ends the child.
    let child = || unsafe { libc::_exit(0) };
    fork_and_wait(child)?;
    Ok(measure(1, || {
        // The first one worked.
        let _ = fork_and_wait(child);
    }))
}

/// A child that runs a program.
pub fn fork_exec(program: &CStr) -> Result<f64> {
    let arguments = [program.as_ptr(), std::ptr::null()];
    let environment = [std::ptr::null()];
    // SAFETY: the path and both lists are terminated.
    let child = || unsafe {
        libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr());
    };
    anyhow::ensure!(fork_and_wait(child)? == 0, "the program does not run");
    Ok(measure(1, || {
        // The first one worked.
        let _ = fork_and_wait(child);
    }))
}

/// A byte to another process and back.
pub fn pipe() -> Result<f64> {
    let (mut in_child, mut to_child) = std::io::pipe()?;
    let (mut from_child, mut out_child) = std::io::pipe()?;
    // SAFETY: this process has one thread; the child only reads and writes.
    let pid = check(i64::from(unsafe { libc::fork() }))?;
    if pid == 0 {
        drop(to_child);
        let mut byte = [0];
        while matches!(in_child.read(&mut byte), Ok(1)) && out_child.write_all(&byte).is_ok() {}
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(0) };
    }
    drop((in_child, out_child));
    let mut failed = Ok(());
    let cost = measure(10, || {
        let mut byte = [1];
        let turn = to_child.write_all(&byte).and_then(|()| from_child.read_exact(&mut byte));
        failed = std::mem::replace(&mut failed, Ok(())).and(turn);
    });
    drop(to_child);
    // SAFETY: no status is stored.
    unsafe { libc::waitpid(pid as libc::pid_t, std::ptr::null_mut(), 0) };
    failed?;
    Ok(cost)
}

/// Two threads that take turns.
pub fn thread_wake() -> f64 {
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
    // The thread has nothing to report.
    let _ = other.join();
    cost
}

/// The lock; a panic while it was held would have ended the program.
fn lock(turn: &Mutex<bool>) -> std::sync::MutexGuard<'_, bool> {
    turn.lock().unwrap_or_else(|error| error.into_inner())
}
