//! `hull bench`: the same programs on the host and in a pod, measured alternately in one run.
//!
//! The programs are this binary itself (`hull bench-workload`, with glibc, linked statically) and a tiny static
//! one that the library embeds. Each measures its own time and prints nanoseconds per operation; see [`workload`].

mod catalog;
mod idle;
mod images;
mod outside;
mod place;
mod report;
mod run;
mod statistics;
mod warm;
pub mod workload;

use anyhow::{Result, ensure};
use clap::Args;

/// Options of `hull bench`.
#[derive(Args, Debug)]
pub struct Options {
    /// Print the results as JSON
    #[arg(long)]
    pub json: bool,

    /// List the benchmarks instead of running them
    #[arg(long)]
    pub list: bool,

    /// Samples of each benchmark on each side
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// Only benchmarks whose name contains one of these words
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}

/// Runs the benchmarks and prints the results.
pub fn bench(options: &Options) -> Result<()> {
    let chosen: Vec<&catalog::Benchmark> = catalog::all()
        .filter(|b| options.names.is_empty() || options.names.iter().any(|name| b.name.contains(name.as_str())))
        .collect();
    ensure!(!chosen.is_empty(), "no benchmark has such a name; see hull bench --list");
    if options.list {
        for benchmark in chosen {
            println!("{:<29} {}", benchmark.name, benchmark.what);
        }
        return Ok(());
    }
    let place = place::Place::new()?;
    let mut rows = Vec::new();
    if !options.json {
        report::print_head();
    }
    for benchmark in chosen {
        for row in run::measure(benchmark, &place, options.rounds) {
            if !options.json {
                report::print_row(&row);
            }
            rows.push(row);
        }
    }
    if options.json {
        report::print_json(&rows)?;
    }
    let failed = rows.iter().filter(|row| row.error.is_some()).count();
    ensure!(failed == 0, "{failed} of {} rows could not be measured", rows.len());
    Ok(())
}
