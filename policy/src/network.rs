//! Decisions about peers.

use crate::address::{self, Class};
use crate::name::Name;
use crate::rule::{Peer, Protocol, Refusal, Rule, Verdict};
use ipnet::IpNet;
use std::net::IpAddr;

/// Why something is allowed or denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason<'p> {
    /// A rule says so: the narrowest of those that do.
    Rule(&'p Rule),
    /// No rule allows it.
    NoRule,
    /// The address is that of the pod's own loopback device, which needs no rule.
    OwnLoopback,
    /// The address is link-local or a metadata server, and no rule names it or a network within these ranges.
    LinkLocal,
    /// A rule allows the name, but its address is in a private network, and neither does a rule allow that, nor does the name's
    /// rule have `private = true`.
    PrivateAnswer(&'p Rule),
    /// The address is one of the host's own, and no rule for addresses contains it, nor has the name's rule `private = true`.
    HostAddress,
    /// Groups and broadcasts have no peers.
    Multicast,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'p> {
    /// `None`: it is allowed.
    pub refusal: Option<Refusal>,
    /// Why.
    pub reason: Reason<'p>,
}

impl Decision<'_> {
    /// Whether it is allowed.
    pub fn is_allowed(&self) -> bool {
        self.refusal.is_none()
    }
}

const fn denied(reason: Reason<'_>) -> Decision<'_> {
    Decision { refusal: Some(Refusal::Access), reason }
}

/// The rules for peers. What no rule allows is denied, and a rule that denies wins over any that allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// In the order of the file and of the command line.
    pub rules: Vec<Rule>,
}

/// The narrowest rule: with equals, the first.
fn narrowest<'p>(rules: impl Iterator<Item = &'p Rule>) -> Option<&'p Rule> {
    rules.fold(None, |best: Option<&Rule>, rule| match best {
        Some(best) if best.specificity() >= rule.specificity() => Some(best),
        _ => Some(rule),
    })
}

fn is_named(peer: &Peer, name: &Name) -> bool {
    match peer {
        Peer::Name(own) => own == name,
        Peer::Below(parent) => name.is_below(parent),
        _ => false,
    }
}

/// Whether a rule for this network names special addresses on purpose: all that it covers are such.
fn is_special(net: &IpNet) -> bool {
    let is_special = |address| address::class(address) == Class::LinkLocal;
    is_special(net.network()) && is_special(net.broadcast())
}

impl Network {
    /// Whether the pod may communicate with this address. `port`: 0 for ICMP. `names`: those for which the pod got the
    /// address ([`crate::Answers`]).
    pub fn connect<'p>(&'p self, protocol: Protocol, address: IpAddr, port: u16, names: &[&Name]) -> Decision<'p> {
        let address = address::canonical(address);
        let class = address::class(address);
        let embedded = address::embedded(address).map(IpAddr::V4);
        let covering = || self.rules.iter().filter(|rule| rule.covers(protocol, port));
        let is_in = |rule: &Rule, address: IpAddr| matches!(&rule.peer, Peer::Net(net) if net.contains(&address));
        let is_by_name = |rule: &Rule| names.iter().any(|name| is_named(&rule.peer, name));
        match class {
            Class::Loopback => return Decision { refusal: None, reason: Reason::OwnLoopback },
            Class::Multicast => return denied(Reason::Multicast),
            _ => {}
        }
        // A rule against an IPv4 address is also one against the gateways' spellings of it.
        let denies = |rule: &&Rule| {
            matches!(rule.verdict, Verdict::Deny(_))
                && (rule.peer == Peer::All
                    || is_in(rule, address)
                    || embedded.is_some_and(|embedded| is_in(rule, embedded))
                    || is_by_name(rule))
        };
        if let Some(rule) = narrowest(covering().filter(denies)) {
            return Decision { refusal: refusal(rule), reason: Reason::Rule(rule) };
        }
        let allowing = || covering().filter(|rule| rule.verdict == Verdict::Allow);
        let special = class == Class::LinkLocal;
        // The address that a gateway extracts is treated like the address, unless a rule contains exactly this
        // spelling.
        let leads_to = embedded.map_or(class, address::class);
        if special || matches!(leads_to, Class::LinkLocal | Class::Loopback) {
            let literal = |rule: &&Rule| match &rule.peer {
                Peer::Net(net) if special => net.contains(&address) && is_special(net),
                Peer::Net(net) => net.addr() == address && net.prefix_len() == net.max_prefix_len(),
                _ => false,
            };
            return match narrowest(allowing().filter(literal)) {
                Some(rule) => Decision { refusal: None, reason: Reason::Rule(rule) },
                None => denied(Reason::LinkLocal),
            };
        }
        let by_address = |rule: &&Rule| rule.peer == Peer::All || is_in(rule, address);
        let by_name = narrowest(allowing().filter(|rule| is_by_name(rule)));
        let private = class == Class::Private || leads_to == Class::Private;
        if let Some(rule) = by_name.filter(|rule| !private || rule.private) {
            return Decision { refusal: None, reason: Reason::Rule(rule) };
        }
        if let Some(rule) = narrowest(allowing().filter(by_address)) {
            return Decision { refusal: None, reason: Reason::Rule(rule) };
        }
        denied(by_name.map_or(Reason::NoRule, Reason::PrivateAnswer))
    }

    /// Whether the pod may speak with the host's loopback device: only by a rule that names it.
    pub fn connect_host(&self, protocol: Protocol, port: u16) -> Decision<'_> {
        let covering = || self.rules.iter().filter(|rule| rule.covers(protocol, port));
        let about = |rule: &&Rule| rule.peer == Peer::HostLoopback;
        let denies = |rule: &&Rule| {
            matches!(rule.verdict, Verdict::Deny(_)) && matches!(rule.peer, Peer::HostLoopback | Peer::All)
        };
        if let Some(rule) = narrowest(covering().filter(denies)) {
            return Decision { refusal: refusal(rule), reason: Reason::Rule(rule) };
        }
        match narrowest(covering().filter(about).filter(|rule| rule.verdict == Verdict::Allow)) {
            Some(rule) => Decision { refusal: None, reason: Reason::Rule(rule) },
            None => denied(Reason::NoRule),
        }
    }

    /// [`Self::connect`] for an address of the host itself: `all` and names do not lead to the host, unless the name's rule
    /// has `private = true`.
    pub fn connect_host_address<'p>(
        &'p self,
        protocol: Protocol,
        address: IpAddr,
        port: u16,
        names: &[&Name],
    ) -> Decision<'p> {
        let decision = self.connect(protocol, address, port, names);
        let Reason::Rule(rule) = decision.reason else { return decision };
        if !decision.is_allowed() || rule.private || matches!(rule.peer, Peer::Net(_)) {
            return decision;
        }
        let address = address::canonical(address);
        let literal = |rule: &&Rule| {
            rule.verdict == Verdict::Allow && matches!(&rule.peer, Peer::Net(net) if net.contains(&address))
        };
        match narrowest(self.rules.iter().filter(|rule| rule.covers(protocol, port)).filter(literal)) {
            Some(rule) => Decision { refusal: None, reason: Reason::Rule(rule) },
            None => denied(Reason::HostAddress),
        }
    }

    /// Whether an address is an acceptable answer for a name that may be resolved. Loopback addresses, groups and broadcasts never
    /// are; link-local ones, metadata servers, and those in private networks only if the pod may connect to the
    /// address at some port.
    pub fn may_answer(&self, name: &Name, address: IpAddr) -> bool {
        let address = address::canonical(address);
        let leads_to = address::embedded(address).map_or(Class::Public, |v4| address::class(IpAddr::V4(v4)));
        match (address::class(address), leads_to) {
            (Class::Loopback | Class::Multicast, _) | (_, Class::Loopback | Class::Multicast) => false,
            (Class::Public, Class::Public) => true,
            _ => self.rules.iter().filter(|rule| rule.verdict == Verdict::Allow).any(|rule| {
                let protocol = rule.protocol.unwrap_or(Protocol::Tcp);
                let port = if protocol == Protocol::Icmp { 0 } else { rule.ports.first.max(1) };
                self.connect(protocol, address, port, &[name]).is_allowed()
            }),
        }
    }

    /// Whether a rule allows some port of the host's loopback device.
    pub fn names_host(&self) -> bool {
        self.rules.iter().any(|rule| rule.verdict == Verdict::Allow && rule.peer == Peer::HostLoopback)
    }

    /// Whether the pod may send a query for a name to the host's resolver: a query is itself a channel out of the pod.
    /// A rule that denies only some ports of a name does not deny the query.
    pub fn resolve(&self, name: &Name) -> Decision<'_> {
        let about = |rule: &&Rule| rule.peer == Peer::All || is_named(&rule.peer, name);
        let denies = |rule: &&Rule| {
            matches!(rule.verdict, Verdict::Deny(_)) && rule.ports == crate::Ports::ALL && rule.protocol.is_none()
        };
        if let Some(rule) = narrowest(self.rules.iter().filter(about).filter(denies)) {
            return Decision { refusal: refusal(rule), reason: Reason::Rule(rule) };
        }
        match narrowest(self.rules.iter().filter(about).filter(|rule| rule.verdict == Verdict::Allow)) {
            Some(rule) => Decision { refusal: None, reason: Reason::Rule(rule) },
            None => denied(Reason::NoRule),
        }
    }
}

fn refusal(rule: &Rule) -> Option<Refusal> {
    match rule.verdict {
        Verdict::Allow => None,
        Verdict::Deny(refusal) => Some(refusal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules that begin with `!` deny.
    fn network(rules: &[&str]) -> Network {
        let parse = |text: &&str| match text.strip_prefix('!') {
            Some(text) => Rule::parse(text, Verdict::Deny(Refusal::Access)).unwrap(),
            None => Rule::parse(text, Verdict::Allow).unwrap(),
        };
        Network { rules: rules.iter().map(parse).collect() }
    }

    fn tcp(network: &Network, address: &str, port: u16, names: &[&str]) -> bool {
        let names: Vec<Name> = names.iter().map(|name| Name::parse(name).unwrap()).collect();
        let names: Vec<&Name> = names.iter().collect();
        network.connect(Protocol::Tcp, address.parse().unwrap(), port, &names).is_allowed()
    }

    #[test]
    fn nothing_is_allowed_without_a_rule() {
        let none = network(&[]);
        assert!(!tcp(&none, "1.1.1.1", 80, &["a.example"]) && !tcp(&none, "10.0.0.1", 80, &[]));
        assert!(tcp(&none, "127.0.0.1", 80, &[]) && tcp(&none, "::1", 80, &[]) && tcp(&none, "0.0.0.0", 80, &[]));
        assert!(!none.connect_host(Protocol::Tcp, 80).is_allowed());
        assert!(!none.resolve(&Name::parse("a.example").unwrap()).is_allowed());
    }

    #[test]
    fn ports_and_protocols() {
        let rules = network(&["tcp:1.1.1.0/24:80-81", "udp:1.1.1.1"]);
        assert!(tcp(&rules, "1.1.1.9", 81, &[]) && tcp(&rules, "::ffff:1.1.1.9", 80, &[]));
        assert!(!tcp(&rules, "1.1.1.9", 82, &[]) && !tcp(&rules, "1.1.2.9", 80, &[]));
        let udp = |address: &str| rules.connect(Protocol::Udp, address.parse().unwrap(), 53, &[]).is_allowed();
        assert!(udp("1.1.1.1") && !udp("1.1.1.2"));
        let ping = |rules: &Network| rules.connect(Protocol::Icmp, "1.1.1.1".parse().unwrap(), 0, &[]).is_allowed();
        assert!(!ping(&rules) && ping(&network(&["1.1.1.1"])) && ping(&network(&["icmp:all"])));
        assert!(!ping(&network(&["1.1.1.1:80"])));
    }

    #[test]
    fn denials_win() {
        let rules = network(&["all", "!10.0.0.0/8", "10.1.1.1:443", "!*.evil.example"]);
        assert!(tcp(&rules, "1.1.1.1", 80, &["good.example"]));
        for (address, names) in [
            ("10.1.1.1", &[][..]),
            ("::ffff:10.1.1.1", &[]),
            ("64:ff9b::10.1.1.1", &[]),
            ("2002:a01:101::1", &[]),
            ("1.1.1.1", &["good.example", "www.evil.example"]),
        ] {
            assert!(!tcp(&rules, address, 443, names), "{address}");
        }
    }

    #[test]
    fn metadata_servers_need_to_be_named() {
        let spellings = [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::169.254.169.254",
            "2002:a9fe:a9fe::",
            "fd00:ec2::254",
            "100.100.100.200",
            "fe80::1",
        ];
        for rules in [
            &["all"][..],
            &["0.0.0.0/0", "::/0"],
            &["169.0.0.0/8", "100.64.0.0/10", "fd00::/8", "fe00::/7"],
            &["metadata.example"],
        ] {
            let rules = network(rules);
            for spelling in spellings {
                assert!(!tcp(&rules, spelling, 80, &["metadata.example"]), "{spelling}");
            }
        }
        assert!(tcp(&network(&["169.254.169.254:80"]), "::ffff:169.254.169.254", 80, &[]));
        assert!(tcp(&network(&["169.254.0.0/16"]), "169.254.169.254", 80, &[]));
        assert!(!tcp(&network(&["169.254.169.254:80"]), "64:ff9b::169.254.169.254", 80, &[]));
        assert!(tcp(&network(&["64:ff9b::a9fe:a9fe"]), "64:ff9b::169.254.169.254", 80, &[]));
        assert!(!tcp(&network(&["all"]), "64:ff9b::127.0.0.1", 80, &[]));
    }

    #[test]
    fn names_do_not_lead_into_private_networks() {
        let rules = network(&["db.example:5432", "*.example:80"]);
        assert!(tcp(&rules, "1.2.3.4", 5432, &["db.example"]) && !tcp(&rules, "1.2.3.4", 5432, &[]));
        assert!(!tcp(&rules, "1.2.3.4", 80, &["example"]) && tcp(&rules, "1.2.3.4", 80, &["a.b.example"]));
        for address in ["10.0.0.1", "192.168.0.1", "fd12::1", "64:ff9b::10.0.0.1"] {
            let name = Name::parse("db.example").unwrap();
            let decision = rules.connect(Protocol::Tcp, address.parse().unwrap(), 5432, &[&name]);
            assert_eq!(decision.reason, Reason::PrivateAnswer(&rules.rules[0]), "{address}");
        }
        assert!(tcp(&network(&["db.example:5432", "10.0.0.0/8"]), "10.0.0.1", 5432, &["db.example"]));
        let mut rules = rules;
        rules.rules[0].private = true;
        assert!(tcp(&rules, "10.0.0.1", 5432, &["db.example"]));
        assert!(!tcp(&rules, "169.254.169.254", 5432, &["db.example"]));
    }

    #[test]
    fn the_host_is_reached_by_its_name_only() {
        assert!(!network(&["all"]).connect_host(Protocol::Tcp, 5432).is_allowed());
        let rules = network(&["host.hull.internal:5432"]);
        assert!(rules.connect_host(Protocol::Tcp, 5432).is_allowed());
        assert!(!rules.connect_host(Protocol::Tcp, 22).is_allowed());
    }

    #[test]
    fn the_host_is_not_a_peer_like_others() {
        let host = |rules: &[&str], private: bool| {
            let mut rules = network(rules);
            rules.rules[0].private = private;
            let name = Name::parse("a.example").unwrap();
            rules.connect_host_address(Protocol::Tcp, "192.168.1.5".parse().unwrap(), 22, &[&name]).is_allowed()
        };
        assert!(!host(&["all"], false) && !host(&["a.example"], false) && !host(&["all", "192.168.1.6"], false));
        assert!(host(&["192.168.1.5:22"], false) && host(&["all", "192.168.0.0/16"], false));
        assert!(host(&["a.example"], true) && !host(&["192.168.1.5", "!192.168.1.5:22"], false));
        assert!(
            network(&["host.hull.internal:80"]).names_host() && !network(&["all", "!host.hull.internal"]).names_host()
        );
    }

    #[test]
    fn answers_do_not_rebind() {
        let rules = network(&["a.example:443", "192.168.1.0/24:80", "udp:169.254.169.254"]);
        let name = Name::parse("a.example").unwrap();
        let may = |rules: &Network, address: &str| rules.may_answer(&name, address.parse().unwrap());
        for address in ["1.1.1.1", "2606:4700::1111", "192.168.1.9", "169.254.169.254", "64:ff9b::1.1.1.1"] {
            assert!(may(&rules, address), "{address}");
        }
        for address in [
            "127.0.0.1",
            "::1",
            "0.0.0.0",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "10.0.0.1",
            "64:ff9b::10.0.0.1",
            "fe80::1",
            "fd00:ec2::254",
            "224.0.0.1",
            "255.255.255.255",
            "ff02::1",
        ] {
            assert!(!may(&rules, address), "{address}");
        }
        let mut rules = rules;
        rules.rules[0].private = true;
        assert!(may(&rules, "10.0.0.1") && !may(&rules, "127.0.0.1") && !may(&rules, "fe80::1"));
    }

    #[test]
    fn questions() {
        let rules = network(&["tcp:*.debian.org:443", "!ads.debian.org", "!www.debian.org:80"]);
        let may = |name: &str| rules.resolve(&Name::parse(name).unwrap()).is_allowed();
        assert!(may("deb.debian.org.") && may("www.debian.org") && !may("ads.debian.org") && !may("debian.org"));
        assert!(network(&["all"]).resolve(&Name::parse("a.b").unwrap()).is_allowed());
        assert!(!network(&["0.0.0.0/0"]).resolve(&Name::parse("a.b").unwrap()).is_allowed());
    }

    #[test]
    fn the_narrowest_rule_explains() {
        let rules = network(&["all", "1.0.0.0/8", "1.1.0.0/16:443", "tcp:1.1.0.0/16:443"]);
        let why = |port| match rules.connect(Protocol::Tcp, "1.1.1.1".parse().unwrap(), port, &[]).reason {
            Reason::Rule(rule) => rule.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!((why(443), why(80)), ("allow tcp:1.1.0.0/16:443".to_owned(), "allow 1.0.0.0/8".to_owned()));
    }
}
