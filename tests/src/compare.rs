//! Describes the differences between two outcomes.

use std::fmt::Write;

use crate::process::Outcome;

/// Differing lines shown.
const SHOWN: usize = 40;
/// Lines of each side that are aligned with each other; the rest is left out.
const ALIGNED: usize = 2000;
/// Bytes of standard error shown.
const STDERR_TAIL: usize = 2000;

/// `None` when standard output and exit status are equal, else a description of the difference.
pub fn difference(host: &Outcome, pod: &Outcome) -> Option<String> {
    if host.stdout == pod.stdout && host.status == pod.status && !pod.timed_out {
        return None;
    }
    let mut text = String::new();
    if pod.timed_out {
        text.push_str("the pod did not end in time\n");
    }
    if host.status != pod.status {
        let _ = writeln!(text, "exit status: host {}, pod {}", host.status, pod.status);
    }
    describe_output(&mut text, &host.stdout, &pod.stdout);
    let start = pod.stderr.len().saturating_sub(STDERR_TAIL);
    if let Some(tail) = pod.stderr.get(start..).filter(|tail| !tail.is_empty()) {
        let _ = writeln!(text, "standard error of the pod:\n{}", String::from_utf8_lossy(tail));
    }
    Some(text)
}

/// Lists the lines that only one side has, each with its line number there.
fn describe_output(text: &mut String, host: &[u8], pod: &[u8]) {
    if host == pod {
        return;
    }
    let lines = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect::<Vec<_>>();
    let (host, pod) = (lines(host), lines(pod));
    let same = host.iter().zip(&pod).take_while(|(a, b)| a == b).count();
    let rest = |lines: &[String]| lines[same..].iter().take(ALIGNED).cloned().collect::<Vec<_>>();
    let (host, pod) = (rest(&host), rest(&pod));
    let changes = changes(&host, &pod);
    text.push_str("output differs (- host, + pod):\n");
    for (sign, number, line) in changes.iter().take(SHOWN) {
        let _ = writeln!(text, "{sign}{:4} {line}", same + number);
    }
    if changes.len() > SHOWN {
        let _ = writeln!(text, "… {} lines more", changes.len() - SHOWN);
    }
}

/// The lines outside a longest common subsequence, in order.
fn changes<'a>(host: &'a [String], pod: &'a [String]) -> Vec<(char, usize, &'a str)> {
    // lengths[i][j]: length of the longest common subsequence of host[i..] and pod[j..].
    let mut lengths = vec![vec![0_u32; pod.len() + 1]; host.len() + 1];
    for i in (0..host.len()).rev() {
        for j in (0..pod.len()).rev() {
            lengths[i][j] =
                if host[i] == pod[j] { lengths[i + 1][j + 1] + 1 } else { lengths[i + 1][j].max(lengths[i][j + 1]) };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut changes = Vec::new();
    while i < host.len() || j < pod.len() {
        if i < host.len() && j < pod.len() && host[i] == pod[j] {
            i += 1;
            j += 1;
        } else if j == pod.len() || i < host.len() && lengths[i + 1][j] >= lengths[i][j + 1] {
            changes.push(('-', i + 1, host[i].as_str()));
            i += 1;
        } else {
            changes.push(('+', j + 1, pod[j].as_str()));
            j += 1;
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differing_lines_are_listed() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (host, pod) = (lines("a b c d"), lines("a x c d e"));
        assert_eq!(changes(&host, &pod), [('-', 2, "b"), ('+', 2, "x"), ('+', 5, "e")]);
        assert_eq!(changes(&host, &host), []);
        assert_eq!(changes(&[], &pod).len(), 5);
    }
}
