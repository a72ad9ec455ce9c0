//! The workloads. Each runs for a tenth of a second and prints nanoseconds per operation.

mod classics;
mod compute;
mod files;
mod memory;
pub mod net;
mod network;
mod parallel;
mod processes;
pub mod starts;
mod system_calls;
pub mod tree;
mod wake;
mod writes;

use std::ffi::CString;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

/// How long a measurement runs.
const SPAN: Duration = Duration::from_millis(100);

pub use files::FILES;

/// Options of `hull bench-workload`.
#[derive(Args, Debug)]
pub struct Options {
    /// The workload
    pub name: String,
    /// Argument of the workload
    pub argument: Option<String>,
}

/// Runs a workload and prints the result.
pub fn run(options: &Options) -> Result<()> {
    let path = || -> Result<CString> {
        Ok(CString::new(options.argument.as_deref().context("the workload needs an argument")?)?)
    };
    let costs = match options.name.as_str() {
        "devnull" => vec![system_calls::devnull()?],
        "getppid" => vec![system_calls::getppid()],
        "clock-gettime" => vec![system_calls::clock_gettime()],
        "futex-wake" => vec![system_calls::futex_wake()],
        "pipe-self" => vec![system_calls::pipe_self()?],
        "lseek" => vec![files::lseek(&path()?)?],
        "fstat" => vec![files::fstat(&path()?)?],
        "epoll-ready" => vec![system_calls::epoll_ready()?],
        "open-stat-close" => files::open_stat_close(&path()?)?,
        "host-open" => files::host_open(&path()?)?,
        "write-64" => vec![writes::small(&path()?, 64)?],
        "write-256" => vec![writes::small(&path()?, 256)?],
        "write-1024" => vec![writes::small(&path()?, 1024)?],
        "create-unlink" => vec![writes::create_unlink(&path()?)?],
        "append-4" => vec![writes::append_4(&path()?)?],
        "once" => vec![writes::once(options.argument.as_deref().context("the workload needs commands")?)?],
        "stat" => vec![files::stat(&path()?)?],
        "read-4k" => vec![files::read_4k(&path()?)?],
        "memory-touch" => vec![memory::touch()?],
        "touch-64m" => memory::touch_64m()?,
        "private-write" => vec![memory::private_write(&path()?)?],
        "thread-stack" => vec![memory::thread_stack()?],
        "threads-100" => vec![processes::threads_100()],
        "memory-copy" => vec![memory::copy()],
        "memory-triad" | "stream-triad" => vec![memory::stream(memory::Kernel::Triad)],
        "stream-copy" => vec![memory::stream(memory::Kernel::Copy)],
        "stream-scale" => vec![memory::stream(memory::Kernel::Scale)],
        "stream-add" => vec![memory::stream(memory::Kernel::Add)],
        "cpu-integer" => vec![compute::integer()],
        "cpu-float" => vec![compute::float()],
        "cpu-dhrystone" => vec![classics::dhrystone()],
        "cpu-whetstone" => vec![classics::whetstone()],
        "cpu-avx" => vec![compute::avx()?],
        "fork-exit" => vec![processes::fork_exit()?],
        "fork-exec" => vec![processes::fork_exec(&path()?)?],
        "pipe" => vec![wake::pipe()?],
        "switch" => vec![wake::switch()?],
        "switch-bare" => vec![wake::switch_bare()?],
        "pipe-threads" => vec![wake::pipe_threads()?],
        "pipe-threads-cold" => vec![wake::pipe_threads_cold()?],
        "yield-threads" => vec![wake::yield_threads()?],
        "yield-processes" => vec![wake::yield_processes()?],
        "thread-wake" => vec![wake::threads()],
        "thread-create" => vec![processes::thread_create()],
        "unix-threads" => vec![wake::unix_threads()?],
        "unix-processes" => vec![wake::unix_processes()?],
        "tcp-threads" => vec![network::tcp(false)?],
        "tcp-processes" => vec![network::tcp(true)?],
        "tcp-stream-threads" => vec![network::tcp_stream(false)?],
        "tcp-stream" => vec![network::tcp_stream(true)?],
        "tcp-connect" => vec![network::tcp_connect()?],
        "udp-processes" => vec![network::udp()?],
        "parallel" => vec![parallel::gain(options.argument.as_deref().context("the workload needs an argument")?)?],
        "tree-stat" => tree::stat(&path()?)?,
        "tree-open" => tree::open_read(&path()?)?,
        "read-sequential" => vec![tree::read_sequential(&path()?)?],
        "read-random" => vec![tree::read_random(&path()?)?],
        "starts" => vec![starts::median(options.argument.as_deref().context("the workload needs a command")?)?],
        "map" => return tree::map(options.argument.as_deref().context("the workload needs a path")?),
        "net" => return net::run(options.argument.as_deref().context("the workload needs an argument")?),
        "script" => return script(options.argument.as_deref().context("the workload needs a script")?),
        "command" => return command(options.argument.as_deref().context("the workload needs a command")?),
        other => bail!("there is no workload {other}"),
    };
    for cost in costs {
        println!("{cost:.3}");
    }
    Ok(())
}

/// Nanoseconds per call of `operation`, which is called `batch` times between two readings of the clock.
fn measure(batch: u32, mut operation: impl FnMut()) -> f64 {
    for _ in 0..batch {
        operation();
    }
    let start = Instant::now();
    let mut count = 0_u64;
    loop {
        for _ in 0..batch {
            operation();
        }
        count += u64::from(batch);
        let elapsed = start.elapsed();
        if elapsed >= SPAN {
            return elapsed.as_nanos() as f64 / count as f64;
        }
    }
}

/// Runs a shell command twice, with its output in a pipe.
fn command(line: &str) -> Result<()> {
    for _ in 0..2 {
        let start = Instant::now();
        let mut child = Command::new("/bin/sh")
            .args(["-c", line])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start /bin/sh")?;
        let mut output = child.stdout.take().context("the child has a pipe")?;
        let bytes = std::io::copy(&mut output, &mut std::io::sink())?;
        child.wait()?;
        let elapsed = start.elapsed();
        ensure!(bytes > 0 || line.contains("python"), "the command printed nothing");
        println!("{}", elapsed.as_nanos());
    }
    Ok(())
}

/// Runs a shell script that prints its result. `SCRATCH` is a new directory, removed in any case.
fn script(script: &str) -> Result<()> {
    let scratch = std::env::temp_dir().join(format!("hull-bench-script-{}", std::process::id()));
    std::fs::create_dir(&scratch).with_context(|| format!("cannot create {}", scratch.display()))?;
    let script = script.replace("SCRATCH", &scratch.display().to_string());
    let status = Command::new("/bin/sh").args(["-c", &script]).stdin(Stdio::null()).stderr(Stdio::null()).status();
    let removed = std::fs::remove_dir_all(&scratch);
    ensure!(status.context("cannot start /bin/sh")?.success(), "the script failed");
    removed.with_context(|| format!("cannot remove {}", scratch.display()))
}

/// The error of the last system call, if it returned -1.
fn check(result: i64) -> Result<i64> {
    ensure!(result >= 0, std::io::Error::last_os_error());
    Ok(result)
}
