//! Changes of the policy while the pod runs.

use super::super::audit::Entry;
use super::super::control::Caller;
use super::super::peers::Peer;
use super::{Judge, decide, entry, protocol};
use crate::address;
use crate::control::Command;
use crate::protocol::Transport;
use policy::rule::HOST_LOOPBACK;
use policy::{Name, Peer as Whom, Protocol, Rule, Verdict};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

/// Maximum number of rules of a policy to which rules may be added.
const MOST_RULES: usize = 4096;
/// Maximum number of peers that an answer names.
const MOST_NAMED: usize = 64;
/// Stands for all peers.
const ALL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Whether a rule that denies takes away some of what another one allows.
fn restricts(denies: &Rule, allows: &Rule) -> bool {
    let protocols = [denies.protocol, allows.protocol];
    matches!(denies.verdict, Verdict::Deny(_))
        && (denies.peer == allows.peer || denies.peer == Whom::All)
        && denies.ports.first <= allows.ports.last
        && allows.ports.first <= denies.ports.last
        && (protocols.contains(&None) || denies.protocol == allows.protocol)
}

impl Judge {
    /// Carries out a command of the user. Returns the answer, and the peers whose connections must end.
    pub fn command(&mut self, command: &Command, caller: Caller) -> Result<(String, Vec<Peer>), String> {
        let mut text = String::new();
        let what = match command {
            Command::Show => {
                let lines = self.network.rules.iter().map(|rule| rule.summary() + "\n");
                return Ok((lines.collect(), Vec::new()));
            }
            Command::Add(rule) => {
                let what = format!("policy {rule}");
                if self.network.rules.len() >= MOST_RULES {
                    return Err(format!("the pod has {MOST_RULES} rules; revoke one first"));
                }
                let is_same = |other: &&Rule| {
                    let both_allow = (other.verdict == Verdict::Allow) == (rule.verdict == Verdict::Allow);
                    both_allow && other.is_written_like(rule)
                };
                if let (true, Some(denies)) =
                    (rule.verdict == Verdict::Allow, self.network.rules.iter().find(|other| restricts(other, rule)))
                {
                    let _ = writeln!(text, "note: {denies} wins");
                }
                if self.network.rules.iter().find(is_same).is_none() {
                    self.network.rules.push(Rule { line: Rule::ADDED, ..rule.clone() });
                }
                what
            }
            Command::Revoke(rule) => {
                let before = self.network.rules.len();
                self.network.rules.retain(|other| !other.is_written_like(rule));
                if self.network.rules.len() == before {
                    return Err("no rule is written like this; hull policy show lists the pod's".into());
                }
                format!("policy revoke {}", rule.to_string().trim_start_matches("allow "))
            }
        };
        let why = format!("by user {}, process {}", caller.user, caller.process);
        self.audit.add(&Entry { what, allowed: true, why, minor: true, ..Entry::default() });
        let denied = self.deny_again(&mut text);
        Ok((text, denied))
    }

    /// Records that someone else tried to change the policy.
    pub fn stranger(&mut self, caller: Caller) {
        let why = format!("denied: user {} is not that of the pod", caller.user);
        self.audit.add(&Entry { what: "policy".into(), why, minor: true, ..Entry::default() });
    }

    /// The peers that were allowed and are not any more. Names them in `text`.
    fn deny_again(&mut self, text: &mut String) -> Vec<Peer> {
        let (network, audit) = (&self.network, &mut self.audit);
        let mut count = 0;
        let mut denied = self.peers.take_denied(|(transport, peer), names| {
            let names: Vec<&Name> = names.iter().collect();
            let protocol = protocol(*transport);
            let decision = decide(network, protocol, peer.ip(), peer.port(), &names);
            if decision.is_allowed() {
                return true;
            }
            let shown = (protocol != Protocol::Icmp).then(|| peer.port());
            let whom = match address::host_loopback(peer.ip()) {
                Some(_) => HOST_LOOPBACK.to_owned(),
                None => peer.ip().to_string(),
            };
            let names = names.into_iter().map(Name::as_str).collect();
            let entry = Entry { minor: true, ..entry(&decision, protocol, &whom, shown, names) };
            let entry = Entry { what: entry.what.replacen("connect", "close", 1), ..entry };
            audit.add(&entry);
            count += 1;
            if count <= MOST_NAMED {
                let _ = writeln!(text, "{}", entry.what);
            }
            false
        });
        if let Some(more) = count.checked_sub(MOST_NAMED).filter(|more| *more > 0) {
            let _ = writeln!(text, "close {more} more");
        }
        // Nobody knows to whom the connections of forgotten peers lead.
        if self.peers.take_forgot() {
            let _ = writeln!(text, "close all: the pod had too many peers to know which are still allowed");
            denied.extend([Transport::Tcp, Transport::Udp, Transport::Icmp].map(|transport| (transport, ALL)));
        }
        denied
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::audit::Audit;
    use super::super::Target;
    use super::*;
    use policy::Network;
    use std::time::Instant;

    const CALLER: Caller = Caller { user: 7, process: 9 };

    fn judge(rules: &[&str]) -> Judge {
        let rules = rules.iter().map(|text| Rule::parse(text, Verdict::Allow).unwrap()).collect();
        let fixed = vec![(Name::parse("db.example").unwrap(), "192.0.2.7".parse().unwrap())];
        Judge::new(Network { rules }, fixed, Audit::new(None, 1, false), false)
    }

    fn command(judge: &mut Judge, text: &str) -> Result<(String, usize), String> {
        let command = crate::control::parse(text.as_bytes())?;
        judge.command(&command, CALLER).map(|(text, peers)| (text, peers.len()))
    }

    fn connects(judge: &mut Judge, transport: Transport, peer: &str) -> bool {
        matches!(judge.connect(transport, peer.parse().unwrap(), Instant::now()), Ok(Target::Peer(_)))
    }

    #[test]
    fn peers_are_judged_by_the_names_that_they_had() {
        let mut judge = judge(&["db.example:5432", "host.hull.internal", "192.0.2.9"]);
        for (transport, peer) in [
            (Transport::Tcp, "192.0.2.7:5432"),
            (Transport::Tcp, "[::ffff:192.0.2.7]:5432"),
            (Transport::Udp, "10.0.2.2:53"),
            (Transport::Icmp, "192.0.2.9:7"),
        ] {
            assert!(connects(&mut judge, transport, peer), "{peer}");
        }
        assert_eq!(command(&mut judge, "deny tcp:all:80"), Ok((String::new(), 0)));
        assert_eq!(command(&mut judge, "revoke db.example:5432"), Ok(("close tcp 192.0.2.7:5432\n".into(), 1)));
        assert!(!connects(&mut judge, Transport::Tcp, "192.0.2.7:5432"));
        assert_eq!(command(&mut judge, "deny udp:all"), Ok(("close udp host.hull.internal:53\n".into(), 1)));
        assert_eq!(command(&mut judge, "deny 192.0.2.0/24"), Ok(("close icmp 192.0.2.9\n".into(), 1)));
        let shown = "allow host.hull.internal\nallow 192.0.2.9\ndeny tcp:all:80 (access)\ndeny udp:all (access)\n\
                     deny 192.0.2.0/24 (access)\n";
        assert_eq!(command(&mut judge, "show"), Ok((shown.into(), 0)));
    }

    #[test]
    fn changes_and_their_limits() {
        let mut judge = judge(&["a.example"]);
        assert_eq!(command(&mut judge, "allow a.example"), Ok((String::new(), 0)));
        assert_eq!(command(&mut judge, "deny tcp:a.example"), Ok((String::new(), 0)));
        assert_eq!(command(&mut judge, "allow a.example:80"), Ok(("note: deny tcp:a.example wins\n".into(), 0)));
        assert_eq!(command(&mut judge, "allow udp:a.example:80"), Ok((String::new(), 0)));
        assert_eq!(command(&mut judge, "revoke tcp:a.example"), Ok((String::new(), 0)));
        assert_eq!(judge.network.rules.len(), 3);
        assert!(command(&mut judge, "revoke b.example").unwrap_err().starts_with("no rule is written like this; "));
        for number in 0..MOST_RULES - 3 {
            command(&mut judge, &format!("allow 10.0.{}.{}", number / 256, number % 256)).unwrap();
        }
        assert!(command(&mut judge, "allow c.example").unwrap_err().starts_with("the pod has 4096 rules; "));
    }

    #[test]
    fn answers_are_bounded() {
        let mut judge = judge(&["all"]);
        for port in 1..=MOST_NAMED as u16 + 2 {
            assert!(connects(&mut judge, Transport::Tcp, &format!("192.0.2.1:{port}")));
        }
        let (text, count) = command(&mut judge, "revoke all").unwrap();
        assert_eq!(count, MOST_NAMED + 2);
        assert_eq!(text.lines().count(), MOST_NAMED + 1);
        assert!(text.ends_with("close 2 more\n"), "{text}");
    }
}
