//! Command lines under fuzz: all code up to the start of the pod; it reads the host and changes nothing.

mod grants;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

pub use grants::grants;

use clap::Parser;

use crate::args::{Command, Hull};
use crate::{run, trace};

/// Common beginnings of options, so that inputs reach deep code.
const WORDS: [&str; 32] = [
    "run",
    "trace",
    "--memory",
    "-m",
    "--cpus",
    "--ro",
    "--rw",
    "--no-host",
    "--env",
    "--env-all",
    "--workdir",
    "--user",
    "--hostname",
    "--timeout",
    "--syscalls",
    "--doorbell",
    "-i",
    "-t",
    "-e",
    "-c",
    "-C",
    "-T",
    "-s",
    "-r",
    "--",
    "/bin/true",
    "/usr:/usr",
    "64M",
    "1.5s",
    "root:root",
    "A=b",
    "/tmp/..:/x",
];

/// Id of the pods.
const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Parses one command line: arguments end with a newline; a first byte of 128 or more stands for a word of `WORDS`, or
/// a prefix of one.
pub fn command_line(data: &[u8]) {
    let argument = |text: &[u8]| match text {
        [first @ 128..=255, rest @ ..] => {
            let word = WORDS[usize::from(*first) % WORDS.len()].as_bytes();
            OsString::from_vec([word, rest].concat())
        }
        _ => OsString::from_vec(text.to_vec()),
    };
    // The kernel passes no zero bytes in arguments.
    let data: Vec<u8> = data.iter().copied().filter(|byte| *byte != 0).collect();
    let line = std::iter::once("hull".into()).chain(data.split(|byte| *byte == b'\n').map(argument));
    match Hull::try_parse_from(line) {
        Ok(Hull { command: Command::Run(options) }) => configured(run::configure(options, None, None, ID)),
        Ok(Hull { command: Command::Trace(options) }) => {
            let request = trace::request(&options);
            configured(run::configure(options.run, None, Some((request, None)), ID));
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Checks the outcome: a configuration, or one line with the problem and a remedy.
fn configured(outcome: crate::failure::Result<monitor::RunConfig>) {
    match outcome {
        Ok(config) => {
            assert!(!config.pod.argv.is_empty() && config.memory_limit >= monitor::MIN_MEMORY);
            assert!(config.pod.cwd.starts_with(b"/"));
            assert!(config.pod.env.iter().all(|variable| variable.contains(&b'=')));
            assert!(config.pod.exports.iter().all(|export| export.at.starts_with(b"/")));
            assert_eq!(config.pod.exports.len(), config.exports.len());
        }
        Err(failure) => {
            assert!(failure.to_string().contains("; ") && (125..=127).contains(&failure.code()), "{failure}")
        }
    }
}
