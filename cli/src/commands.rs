//! Dispatches a parsed command line to its implementation.

use crate::args::Command;
use crate::failure::{Failure, Result};
use crate::{broker, doctor, images, keeper, pods, policy, run, trace};

/// Exit code of `hull bench`.
fn measured(result: anyhow::Result<()>) -> Result<u8> {
    match result {
        Ok(()) => Ok(0),
        Err(error) => Err(Failure::request("bench", format!("{error:#}"), "see hull bench --help")),
    }
}

/// Runs a command; returns its exit code.
pub fn dispatch(command: Command) -> Result<u8> {
    let options = match &command {
        Command::Run(options) => Some(options),
        Command::Trace(options) => Some(&options.run),
        _ => None,
    };
    if let Some(options) = options {
        // Close the other inherited descriptors: the monitor must not hold them.
        let passed: Vec<i32> = options.pass_fd.iter().map(|passed| passed.host).collect();
        monitor::jail::close_inherited(&passed);
        monitor::jail::report_faults().map_err(|failure| Failure::Pod(failure.into()))?;
        keeper::start();
    }
    match command {
        Command::Run(options) => run::run(options, None),
        Command::Trace(options) => trace::trace(options),
        Command::Pull(options) => images::pull(&options),
        Command::Push(options) => images::push(&options),
        Command::Import(options) => images::import(&options),
        Command::Load(options) => images::load(&options),
        Command::Images(options) => images::images(&options),
        Command::Inspect(options) => images::inspect(&options),
        Command::History(options) => images::history(&options),
        Command::Tag(options) => images::tag(&options),
        Command::Save(options) => images::save(&options),
        Command::Cp(options) => images::copy(&options),
        Command::Rmi(options) => images::rmi(&options),
        Command::Prune(options) => images::prune(&options),
        Command::Ps(options) => pods::ps(&options),
        Command::Port(options) => pods::port(&options),
        Command::Policy(options) => policy::run(&options),
        Command::Doctor(options) => Ok(doctor::doctor(&options)),
        Command::Bench(options) => measured(bench::bench(&options)),
        Command::BenchWorkload(options) => measured(bench::workload::run(&options)),
        Command::KeepTerminal(options) => {
            keeper::keep(&options);
            Ok(0)
        }
        Command::ServeBroker => {
            monitor::jail::close_inherited(&[]);
            Ok(broker::serve())
        }
        Command::RecordBroker { pod } => {
            monitor::jail::close_inherited(&[]);
            broker::recorder::record(pod);
            Ok(0)
        }
    }
}
