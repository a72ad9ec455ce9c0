//! `hull trace`: its options, and the trace configuration for keel.

pub mod calls;
mod filter;

use crate::args::RunArgs;
use crate::failure::{Failure, Result, reason};
use crate::run;
use abi::boot::{Stamp, Trace};
use clap::{ArgAction, Args};
use filter::Filter;
use std::fs::File;
use std::path::PathBuf;

/// Options of `trace`, with strace(1)'s names, in addition to those of `run`.
#[derive(Args, Debug)]
pub struct TraceArgs {
    /// Calls to show: names, numbers and classes (%file %process %network %signal %memory %desc %ipc %clock %creds),
    /// separated by commas; `!` before the first inverts. `signal=none` leaves out signals. The last of each kind wins
    #[arg(short = 'e', long = "expr", value_name = "[trace=]CALLS", value_parser = filter::parse)]
    pub filters: Vec<Filter>,

    /// Print a table at the end instead of each call
    #[arg(short = 'c', long, conflicts_with = "both")]
    pub summary_only: bool,

    /// Print each call and a table at the end
    #[arg(short = 'C', long = "summary")]
    pub both: bool,

    /// Write to a file instead of standard error
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Show the time spent in each call
    #[arg(short = 'T', long)]
    pub syscall_times: bool,

    /// Show when each call began (UTC); twice: with microseconds; three times: as seconds since the epoch
    #[arg(short = 't', long = "absolute-timestamps", action = ArgAction::Count)]
    pub times: u8,

    /// Show the time since the previous line
    #[arg(short, long, conflicts_with = "times")]
    pub relative_timestamps: bool,

    /// Maximum number of bytes to print of each string
    #[arg(short, long, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u32).range(0..=2048))]
    pub string_limit: u32,

    /// Ignored: children are always followed
    #[arg(short, long)]
    pub follow_forks: bool,

    /// Options of `run`.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Runs a program in a pod and prints its system calls; returns its exit code.
pub fn trace(options: TraceArgs) -> Result<u8> {
    let trace = request(&options);
    let output = options.output.as_ref().map(|path| {
        File::create(path).map_err(|error| {
            let what = format!("--output {}", path.display());
            Failure::request(what, reason(&error), "name a file that can be written")
        })
    });
    run::run(options.run, Some((trace, output.transpose()?)))
}

/// Converts the options to keel's trace configuration.
pub(crate) fn request(options: &TraceArgs) -> Trace {
    let mut wanted = filter::all();
    let mut signals = true;
    for filter in &options.filters {
        match filter {
            Filter::Calls(calls) => wanted.clone_from(calls),
            Filter::Signals(on) => signals = *on,
        }
    }
    Trace {
        calls: wanted,
        lines: !options.summary_only,
        summary: options.summary_only || options.both,
        signals,
        duration: options.syscall_times,
        stamp: match options.times {
            _ if options.relative_timestamps => Stamp::Relative,
            0 => Stamp::None,
            1 => Stamp::Time,
            2 => Stamp::TimeMicros,
            _ => Stamp::Epoch,
        },
        string_limit: options.string_limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, Hull};
    use clap::Parser;

    fn options(line: &str) -> Option<TraceArgs> {
        match Hull::try_parse_from(line.split(' ')).ok()?.command {
            Command::Trace(options) => Some(options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_of_strace_and_of_run() {
        let line = "hull trace -f -C -T -tt -s 64 -o /x -e trace=read -e write --env A=b -m 1G --ro /a -- ls -e";
        let options = options(line).unwrap();
        assert_eq!(options.output, Some("/x".into()));
        assert_eq!((options.run.memory, options.run.program.len()), (Some(1 << 30), 2));
        assert_eq!(options.run.env, ["A=b"]);
        let trace = request(&options);
        assert_eq!(trace.calls[0], 1 << 1);
        assert_eq!((trace.lines, trace.summary, trace.signals, trace.duration), (true, true, true, true));
        assert_eq!((trace.stamp, trace.string_limit), (Stamp::TimeMicros, 64));
    }

    #[test]
    fn a_table_only() {
        let trace = request(&options("hull trace -c -e signal=none -- ls").unwrap());
        assert_eq!((trace.lines, trace.summary, trace.signals), (false, true, false));
        assert_eq!(trace.calls, filter::all());
    }

    #[test]
    fn what_strace_would_refuse() {
        for line in ["-c -C", "-r -t", "-e trace=nothing", "-e inject=read", "-e read,,write", "-e", "-s many", "-p 1"]
        {
            assert!(options(&format!("hull trace {line} -- ls")).is_none(), "{line}");
        }
    }
}
