//! A process that restores the terminal's attributes if `hull` is killed.
//!
//! A process can't clean up after SIGKILL. So if a standard stream is a terminal, a second process waits for the end of
//! `hull` and restores the terminal's attributes, unless `hull` has already done so.

use clap::Args;
use monitor::connectors::streams::terminal::{attributes, set_attributes};
use std::io::{IsTerminal, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The keeper detects the end of `hull` by the hang-up of this pipe.
static KEEPER: Mutex<Option<PipeWriter>> = Mutex::new(None);

/// Options of the keeper.
#[derive(Args, Debug)]
pub struct Options {
    /// The attributes, as decimal bytes
    attributes: Vec<u8>,
}

/// Starts the keeper if a standard stream is a terminal. Errors are ignored: only SIGKILL leaves the terminal changed
/// then.
pub fn start() {
    let (input, output, error) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let terminal = if input.is_terminal() {
        input.as_fd()
    } else if output.is_terminal() {
        output.as_fd()
    } else if error.is_terminal() {
        error.as_fd()
    } else {
        return;
    };
    let Ok(attributes) = attributes(terminal) else { return };
    let (Ok(terminal), Ok((end, own))) = (terminal.try_clone_to_owned(), std::io::pipe()) else { return };
    let started = Command::new("/proc/self/exe")
        .arg("keep-terminal")
        .args(attributes.map(|byte| byte.to_string()))
        .env_clear()
        .current_dir("/")
        // Keeps terminal signals such as SIGINT away from it.
        .process_group(0)
        .stdin(OwnedFd::from(end))
        .stdout(terminal)
        .stderr(Stdio::null())
        .spawn();
    if started.is_ok() {
        *KEEPER.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
    }
}

/// Ends the keeper: the terminal's attributes are restored already.
pub fn dismiss() {
    if let Some(mut pipe) = KEEPER.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // Ignore EPIPE: the keeper may have ended.
        let _ = pipe.write_all(b".");
    }
}

/// Main function of the keeper.
pub fn keep(options: &Options) {
    if crate::signals::ignore_terminal().is_err() {
        return;
    }
    let told = std::io::stdin().read(&mut [0]);
    if matches!(told, Ok(0)) {
        // Ignore errors: the terminal may be gone.
        let _ = set_attributes(std::io::stdout().as_fd(), abi::request::TermiosWhen::Now, &options.attributes);
    }
}
