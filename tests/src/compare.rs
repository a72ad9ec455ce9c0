//! Tells the first difference between two outcomes in words that help to find the fault.

use std::fmt::Write;

use crate::process::Outcome;

/// Lines shown before the first differing line.
const CONTEXT: usize = 3;
/// Differing lines shown.
const SHOWN: usize = 12;
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

fn describe_output(text: &mut String, host: &[u8], pod: &[u8]) {
    if host == pod {
        return;
    }
    let lines = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect::<Vec<_>>();
    let (host, pod) = (lines(host), lines(pod));
    let common = host.iter().zip(&pod).take_while(|(a, b)| a == b).count();
    let _ = writeln!(text, "output differs at line {} (- host, + pod):", common + 1);
    for line in &host[common.saturating_sub(CONTEXT)..common] {
        let _ = writeln!(text, "  {line}");
    }
    for (sign, lines) in [('-', &host), ('+', &pod)] {
        for line in lines.iter().skip(common).take(SHOWN) {
            let _ = writeln!(text, "{sign} {line}");
        }
        if lines.len() > common + SHOWN {
            let _ = writeln!(text, "{sign} … {} lines more", lines.len() - common - SHOWN);
        }
    }
}
