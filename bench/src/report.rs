//! Prints the results.

use anyhow::Result;
use serde::Serialize;

use crate::statistics::Summary;

/// Unit of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds per operation.
    Ns,
    /// Bytes per pod.
    Bytes,
    /// Events per second and pod.
    PerSecond,
    /// Events per operation.
    PerOperation,
    /// Throughput of several workers divided by that of one.
    Gain,
}

/// One line of the table.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Name of the measurement.
    pub name: String,
    /// Unit of both sides.
    pub unit: Unit,
    /// On the host (or by the other runtime).
    pub host: Option<Summary>,
    /// In a pod.
    pub pod: Option<Summary>,
    /// Why it was skipped, if a requirement is missing.
    pub skipped: Option<String>,
    /// The error, if it failed.
    pub error: Option<String>,
}

impl Row {
    /// Host time divided by pod time, or the pod's speed-up divided by the host's: above 1, the pod is better.
    fn ratio(&self) -> Option<f64> {
        let (host, pod) = (self.host?.median, self.pod?.median);
        Some(if self.unit == Unit::Gain { pod / host } else { host / pod })
    }
}

/// Prints the head of the table.
pub fn print_head() {
    println!("{:<29} {:>20} {:>20} {:>9}", "", "host", "pod", "host/pod");
}

/// Prints a row of the table.
pub fn print_row(row: &Row) {
    if let Some(why) = row.error.as_deref().or(row.skipped.as_deref()) {
        println!("{:<29} {why}", row.name);
        return;
    }
    let ratio = row.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    println!("{:<29} {:>20} {:>20} {ratio:>9}", row.name, summary(row.host, row.unit), summary(row.pod, row.unit));
}

/// Prints all rows as one JSON document.
pub fn print_json(rows: &[Row]) -> Result<()> {
    let rows = rows.iter().map(|row| {
        let mut value = serde_json::to_value(row)?;
        value["ratio"] = row.ratio().into();
        Ok(value)
    });
    let rows = rows.collect::<Result<Vec<_>>>()?;
    println!("{}", serde_json::to_string_pretty(&rows)?);
    Ok(())
}

fn summary(summary: Option<Summary>, unit: Unit) -> String {
    let Some(Summary { median, spread }) = summary else { return String::new() };
    let percent = if median > 0.0 { 100.0 * spread / median } else { 0.0 };
    let text = match unit {
        Unit::Ns => duration(median),
        Unit::Bytes => format!("{:.2} MB", median / 1e6),
        Unit::PerSecond => format!("{median:.2} /s"),
        Unit::PerOperation => format!("{median:.3}"),
        Unit::Gain => format!("{median:.2} x"),
    };
    format!("{text} ±{percent:3.0}%")
}

/// Formats nanoseconds with a suitable unit.
fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration(3.26), "3.3 ns");
        assert_eq!(duration(2500.0), "2.50 us");
        assert_eq!(duration(2.5e6), "2.50 ms");
        assert_eq!(duration(2.5e9), "2.50 s");
    }

    #[test]
    fn ratio_is_above_one_if_the_pod_is_faster() {
        let of = |median| Some(Summary { median, spread: 0.0 });
        let row = Row { name: "x".into(), unit: Unit::Ns, host: of(10.0), pod: of(5.0), skipped: None, error: None };
        assert_eq!(row.ratio(), Some(2.0));
        let row = Row { unit: Unit::Gain, ..row };
        assert_eq!(row.ratio(), Some(0.5), "the pod gains less from a second worker than the host");
    }
}
