//! Progress of transfers on standard error.

use image::Progress;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::Write;
use std::sync::Mutex;

/// No progress.
pub struct Quiet;

impl Progress for Quiet {
    fn begin(&self, _: &str, _: u64) -> usize {
        0
    }

    fn advance(&self, _: usize, _: i64) {}

    fn end(&self, _: usize, _: &str) {}
}

/// A line for the end of each transfer.
#[derive(Default)]
pub struct Lines {
    names: Mutex<Vec<String>>,
}

impl Progress for Lines {
    fn begin(&self, name: &str, _: u64) -> usize {
        let Ok(mut names) = self.names.lock() else { return 0 };
        names.push(name.to_owned());
        names.len() - 1
    }

    fn advance(&self, _: usize, _: i64) {}

    fn end(&self, transfer: usize, how: &str) {
        let name = self.names.lock().ok().and_then(|names| names.get(transfer).cloned()).unwrap_or_default();
        // Ignore write errors on standard error.
        let _ = writeln!(std::io::stderr(), "{name}: {how}");
    }
}

/// A bar for each transfer.
pub struct Bars {
    all: MultiProgress,
    bars: Mutex<Vec<ProgressBar>>,
}

impl Bars {
    /// No bars yet.
    pub fn new() -> Self {
        Self { all: MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10)), bars: Mutex::default() }
    }

    fn with(&self, transfer: usize, action: impl FnOnce(&ProgressBar)) {
        if let Some(bar) = self.bars.lock().ok().and_then(|bars| bars.get(transfer).cloned()) {
            action(&bar);
        }
    }
}

impl Progress for Bars {
    fn begin(&self, name: &str, bytes: u64) -> usize {
        let style =
            ProgressStyle::with_template("{prefix}: {msg:<20} [{bar:30}] {decimal_bytes}/{decimal_total_bytes}");
        let bar = ProgressBar::new(bytes).with_prefix(name.to_owned());
        // The template is valid.
        let bar = style.map_or(bar.clone(), |style| bar.with_style(style.progress_chars("=> ")));
        let Ok(mut bars) = self.bars.lock() else { return 0 };
        bars.push(self.all.add(bar));
        bars.len() - 1
    }

    fn advance(&self, transfer: usize, bytes: i64) {
        self.with(transfer, |bar| match u64::try_from(bytes) {
            Ok(bytes) => bar.inc(bytes),
            Err(_) => bar.set_position(bar.position().saturating_sub(bytes.unsigned_abs())),
        });
    }

    fn end(&self, transfer: usize, how: &str) {
        self.with(transfer, |bar| bar.finish_with_message(how.to_owned()));
    }
}
