//! Creation and end of processes and threads.
#![allow(unsafe_code)]

use std::ffi::CStr;

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
        // Ignore the result: the first call succeeded.
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
        // Ignore the result: the first call succeeded.
        let _ = fork_and_wait(child);
    }))
}

/// A thread that ends at once.
pub fn thread_create() -> f64 {
    measure(1, || {
        // An empty thread does not panic.
        let _ = std::thread::spawn(|| ()).join();
    })
}

/// A hundred threads that are created one after the other and then joined, per thread.
pub fn threads_100() -> f64 {
    const COUNT: usize = 100;
    measure(1, || {
        let threads: Vec<_> = (0..COUNT).map(|_| std::thread::spawn(|| ())).collect();
        for thread in threads {
            // An empty thread does not panic.
            let _ = thread.join();
        }
    }) / COUNT as f64
}
