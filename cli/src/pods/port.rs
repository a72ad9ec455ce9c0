//! `hull port`.

use super::{Entry, Registry};
use crate::failure::{Failure, Result};
use clap::Args;

/// Options of `port`.
#[derive(Args, Debug)]
pub struct PortArgs {
    /// Name or id of a running pod, or the beginning of an id
    #[arg(value_name = "POD")]
    pod: String,

    /// Only this port of the pod, 80 or 53/udp
    #[arg(value_name = "PORT[/udp]")]
    port: Option<String>,
}

/// `hull port`.
pub fn port(args: &PortArgs) -> Result<u8> {
    let entries = match Registry::find()? {
        Some(registry) => registry.entries()?,
        None => Vec::new(),
    };
    let named = entries.iter().find(|entry| entry.name.as_ref() == Some(&args.pod));
    let mut begun = entries.iter().filter(|entry| !args.pod.is_empty() && entry.id.starts_with(&args.pod));
    let pod = || format!("pod {}", args.pod);
    let entry = match (named, begun.next(), begun.next()) {
        (Some(entry), ..) | (None, Some(entry), None) => entry,
        (None, None, _) => return Err(Failure::request(pod(), "no such pod", "see hull ps")),
        (None, Some(_), Some(_)) => {
            return Err(Failure::request(pod(), "the ids of several pods begin so", "write more of it"));
        }
    };
    match lines(entry, args.port.as_deref()) {
        Some(text) => {
            crate::images::print(&text);
            Ok(0)
        }
        None => {
            let port = args.port.as_deref().unwrap_or_default();
            Err(Failure::request(pod(), format!("port {port} is not published"), "see hull port without a port"))
        }
    }
}

/// The published ports, a line each, as docker writes them. `None`: the port that was asked for is none of them.
fn lines(entry: &Entry, wanted: Option<&str>) -> Option<String> {
    let wanted = wanted.map(|port| if port.contains('/') { port.to_owned() } else { format!("{port}/tcp") });
    // The registry is the user's own, but its text goes to a terminal.
    let shown = |text: &str| text.chars().filter(|c| !c.is_control()).collect::<String>();
    let all = entry.ports.iter().filter_map(|port| port.split_once("->"));
    let text: String = match &wanted {
        Some(wanted) => all.filter(|(_, pod)| pod == wanted).map(|(host, _)| format!("{}\n", shown(host))).collect(),
        None => all.map(|(host, pod)| format!("{} -> {}\n", shown(pod), shown(host))).collect(),
    };
    (wanted.is_none() || !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_a_pod() {
        let ports = ["0.0.0.0:8080->80/tcp", "[::]:8080->80/tcp", "0.0.0.0:5353->53/udp"].map(String::from);
        let entry = Entry::new("ab".repeat(32), None, None, &[], ports.into());
        let all = "80/tcp -> 0.0.0.0:8080\n80/tcp -> [::]:8080\n53/udp -> 0.0.0.0:5353\n";
        assert_eq!(lines(&entry, None).as_deref(), Some(all));
        assert_eq!(lines(&entry, Some("80")).as_deref(), Some("0.0.0.0:8080\n[::]:8080\n"));
        assert_eq!(lines(&entry, Some("53/udp")).as_deref(), Some("0.0.0.0:5353\n"));
        assert_eq!(lines(&entry, Some("53")), None);
        assert_eq!(lines(&Entry { ports: vec![], ..entry }, None).as_deref(), Some(""));
    }
}
