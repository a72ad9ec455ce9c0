//! How often the pod left its virtual CPUs for the monitor, and why: for measurements (`--counters`).

use crate::vcpu::Event;
use abi::layout::port;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Events of one pod.
#[derive(Debug, Default)]
pub struct Counters {
    idle: AtomicU64,
    serve: AtomicU64,
    other: AtomicU64,
    interrupted: AtomicU64,
    helper: AtomicU64,
}

impl Counters {
    /// A virtual CPU left the guest.
    pub fn left(&self, event: &Event) {
        let counter = match event {
            Event::Port(port::IDLE, _) => &self.idle,
            Event::Port(port::SERVE, _) => &self.serve,
            Event::Interrupted => &self.interrupted,
            _ => &self.other,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// The helper woke up.
    pub fn helper_woke(&self) {
        self.helper.fetch_add(1, Relaxed);
    }

    /// Writes one line of JSON: exits in all and by reason, wake-ups of the helper.
    pub fn write(&self, mut to: impl Write) -> std::io::Result<()> {
        let [idle, serve, other, interrupted, helper] =
            [&self.idle, &self.serve, &self.other, &self.interrupted, &self.helper]
                .map(|counter| counter.load(Relaxed));
        let exits = idle + serve + other + interrupted;
        writeln!(
            to,
            "{{\"exits\": {exits}, \"idle\": {idle}, \"serve\": {serve}, \"interrupted\": {interrupted}, \
             \"other\": {other}, \"helper\": {helper}}}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_json() {
        let counters = Counters::default();
        [Event::Port(port::IDLE, 0), Event::Port(port::IDLE, 0), Event::Interrupted]
            .iter()
            .for_each(|e| counters.left(e));
        let mut line = Vec::new();
        counters.write(&mut line).unwrap();
        let all = "{\"exits\": 3, \"idle\": 2, \"serve\": 0, \"interrupted\": 1, \"other\": 0, \"helper\": 0}\n";
        assert_eq!(String::from_utf8(line).unwrap(), all);
    }
}
