//! The smallest policy that a run needed.

use policy::{Listen, Protocol};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

/// Maximum number of recorded peers and ports; a pod must not make the broker use much memory.
const MOST: usize = 10_000;

/// Peers that a pod communicated with, and ports that it opened.
#[derive(Debug, Default)]
pub struct Record {
    /// By peer: whether its addresses are in private networks, and the ports. ICMP has port 0.
    peers: BTreeMap<String, (bool, BTreeSet<(u16, u8)>)>,
    /// Ports of the host that it opened by listening: protocol, address, port.
    listens: BTreeSet<(u8, Option<IpAddr>, u16)>,
    count: usize,
}

fn number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => 0,
        Protocol::Udp => 1,
        Protocol::Icmp => 2,
    }
}

const PREFIX: [&str; 3] = ["tcp:", "udp:", "icmp:"];

impl Record {
    /// Adds a connection. `private`: the peer is a name, and its address is in a private network.
    pub fn add(&mut self, peer: String, private: bool, protocol: Protocol, port: u16) {
        if self.count >= MOST {
            return;
        }
        let (is_private, ports) = self.peers.entry(peer).or_default();
        *is_private |= private;
        self.count += usize::from(ports.insert((port, number(protocol))));
    }

    /// Adds the port of the host that a listener opened.
    pub fn add_listen(&mut self, opened: &Listen) {
        if self.count < MOST {
            let protocol = opened.protocol.map_or(0, number);
            self.count += usize::from(self.listens.insert((protocol, opened.address, opened.ports.first)));
        }
    }

    /// What `listen` of a policy file contains, one for each range of ports.
    fn listens(&self) -> Vec<Listen> {
        let mut by_address: BTreeMap<(u8, Option<IpAddr>), Vec<u16>> = BTreeMap::new();
        for (protocol, address, port) in &self.listens {
            by_address.entry((*protocol, *address)).or_default().push(*port);
        }
        let mut listens = Vec::new();
        for ((own, address), ports) in by_address {
            let protocol = [Protocol::Tcp, Protocol::Udp].into_iter().find(|protocol| number(*protocol) == own);
            for (first, last) in ranges(ports.into_iter()) {
                listens.push(Listen { protocol, address, ports: policy::Ports { first, last } });
            }
        }
        listens
    }

    /// The rules, one for each range of ports.
    fn rules(&self) -> Vec<(String, bool)> {
        let mut rules = Vec::new();
        for (peer, (private, ports)) in &self.peers {
            for protocol in 0..=2_u8 {
                let numbers = ports.iter().filter(|(_, own)| *own == protocol).map(|(port, _)| *port);
                for (first, last) in ranges(numbers) {
                    let bracketed = if peer.contains(':') { format!("[{peer}]") } else { peer.clone() };
                    let prefix = PREFIX[usize::from(protocol)];
                    let rule = match (protocol, first == last) {
                        (2, _) => format!("{prefix}{peer}"),
                        (_, true) => format!("{prefix}{bracketed}:{first}"),
                        (_, false) => format!("{prefix}{bracketed}:{first}-{last}"),
                    };
                    rules.push((rule, *private));
                }
            }
        }
        rules
    }

    /// `[network]` of a policy file.
    pub fn text(&self) -> String {
        let mut text = String::from("[network]\nallow = [\n");
        for (rule, private) in self.rules() {
            let _ = match private {
                false => writeln!(text, "    \"{rule}\","),
                true => writeln!(text, "    {{ peer = \"{rule}\", private = true }},"),
            };
        }
        text += "]\n";
        let listens: Vec<String> = self.listens().iter().map(|listen| format!("\"{listen}\"")).collect();
        if !listens.is_empty() {
            let _ = writeln!(text, "listen = [{}]", listens.join(", "));
        }
        text
    }
}

/// Ranges of consecutive numbers.
fn ranges(numbers: impl Iterator<Item = u16>) -> Vec<(u16, u16)> {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_allows_the_same() {
        let mut record = Record::default();
        for (peer, private, protocol, port) in [
            ("pypi.org", false, Protocol::Tcp, 443),
            ("pypi.org", false, Protocol::Tcp, 443),
            ("db.corp", true, Protocol::Tcp, 5433),
            ("db.corp", true, Protocol::Tcp, 5432),
            ("1.1.1.1", false, Protocol::Udp, 53),
            ("1.1.1.1", false, Protocol::Icmp, 0),
            ("fd00::1", false, Protocol::Tcp, 80),
            ("host.hull.internal", false, Protocol::Tcp, 8080),
        ] {
            record.add(peer.into(), private, protocol, port);
        }
        let text = format!("version = 1\n{}", record.text());
        let policy = policy::Policy::parse(text.as_bytes()).unwrap();
        let rules: Vec<String> = policy.network.rules.iter().map(ToString::to_string).collect();
        assert_eq!(
            rules,
            [
                "allow udp:1.1.1.1:53",
                "allow icmp:1.1.1.1",
                "allow tcp:db.corp:5432-5433",
                "allow tcp:[fd00::1]:80",
                "allow tcp:host.hull.internal:8080",
                "allow tcp:pypi.org:443",
            ]
        );
        assert!(policy.network.rules[2].private);
        assert!(policy.listen.is_empty());
        for opened in ["tcp:81", "tcp:80", "tcp:[::1]:80", "udp:127.0.0.1:53", "tcp:80"] {
            record.add_listen(&opened.parse().unwrap());
        }
        let text = format!("version = 1\n{}", record.text());
        let policy = policy::Policy::parse(text.as_bytes()).unwrap();
        let listens: Vec<String> = policy.listen.iter().map(ToString::to_string).collect();
        assert_eq!(listens, ["tcp:80-81", "tcp:[::1]:80", "udp:127.0.0.1:53"]);
    }
}
